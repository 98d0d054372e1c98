"""Memory that a kernel wants beside its arguments, while it is traced: a hidden argument each, behind the others.

What is declared here becomes the attribute `fly.side_buffers` of the `gpu.func` and of its launches; who makes the
memory and reads it is in `runtime/side_buffers.py`.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import BlockArgument

from ...ir.values import add_argument
from ...llvm.side_buffers import WORDS, declaration
from ..numeric import Int64
from ..tensor import Pointer
from .trace import current


class SideBuffers:
    """The side memory of a kernel, in the order of its hidden arguments."""

    def __init__(self) -> None:
        self._arguments: dict[str, BlockArgument] = {}
        self._details: dict[str, dict[str, object]] = {}

    def declare(self, kind: str) -> None:
        """The kernel wants memory of a kind; whoever lowers it for a target adds the argument."""
        self._details.setdefault(kind, {})

    def declares(self, kind: str) -> bool:
        """Whether the kernel wants memory of a kind."""
        return kind in self._details

    def need(self, kind: str) -> Pointer:
        """The memory of a kind, as words of 64 bits."""
        self.declare(kind)
        found = self._arguments.get(kind)
        if found is None:
            # Arguments that are added later stand behind this one.
            found = self._arguments[kind] = add_argument(current().entry, WORDS)
        return Pointer(found, Int64)

    def details(self, kind: str) -> dict[str, object]:
        """What whoever reads the memory has to know of the kernel: goes into the artifact."""
        return self._details[kind]

    def drop(self, kind: str) -> None:
        """The kernel does without after all."""
        argument = self._arguments.pop(kind)
        del self._details[kind]
        current().entry.erase_arg(argument)

    def declared(self) -> ArrayAttr[StringAttr] | None:
        """The attribute that says so."""
        if not self._details:
            return None
        ordered = sorted(self._details, key=lambda kind: kind not in self._arguments)
        return ArrayAttr([declaration(kind, self._details[kind]) for kind in ordered])
