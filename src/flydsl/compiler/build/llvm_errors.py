"""From a line of LLVM IR that LLVM refuses to the user's line it was made of.

The IR is written without locations unless line tables are wanted. When it is refused it is written again with them:
they only lengthen lines, so the line with the same number says where it comes from.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...errors import DiagRecord, DSLCompileError, SourceFrame

if TYPE_CHECKING:
    from ..backends.base import BaseBackend

_QUOTED = re.compile(r"^> +(\d+) \| ", re.MULTILINE)
"""How `llvm.binding` marks the line of the IR an error is about."""


class mapped:
    """A block in which an error about a line of `device_ir` shows the user's line."""

    def __init__(self, device: Any, device_ir: str, backend: BaseBackend):
        self.device, self.device_ir, self.backend = device, device_ir, backend

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DSLCompileError) and not error.diagnostics:
            quoted = _QUOTED.search(error.message)
            chain = self._chain(int(quoted[1])) if quoted is not None else []
            if chain:
                error.diagnostics.append(DiagRecord(error.message, chain))

    def _chain(self, line: int) -> list[SourceFrame]:
        from xdsl.dialects.builtin import UnitAttr

        from ...llvm.text.debug_info import ATTRIBUTE
        from ...llvm.text.source_lines import ir_chain

        located = self.device_ir
        if ATTRIBUTE not in self.device.attributes:
            self.device.attributes[ATTRIBUTE] = UnitAttr()
            located = self.backend.device_ir(self.device)
            del self.device.attributes[ATTRIBUTE]
        theirs, ours = located.split("\n"), self.device_ir.split("\n")
        same = line <= min(len(theirs), len(ours)) and theirs[line - 1].startswith(ours[line - 1])
        return ir_chain(located, line) if same else []
