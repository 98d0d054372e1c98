"""Errors about ops, shown at the user's lines the ops were made of: of passes, of verification, of translation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import UnitAttr

from ...errors import DiagRecord, DSLCompileError, FlyDSLError
from ...ir.locations import source_chain
from ...llvm.text.debug_info import ATTRIBUTE
from ...lowering.rebuild import location_of
from ...passes.verifier import failures
from ..frontend.error_notes import NOTED

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ...dialects.upstream import gpu
    from ..backends.base import BaseBackend

_SHOWN = 3


def place(error: BaseException, location: object) -> None:
    """Show the user's frames of a location with an error that has none yet."""
    chain = source_chain(location)
    if not chain:
        return
    if isinstance(error, DSLCompileError):
        if not error.diagnostics:
            error.diagnostics.append(DiagRecord(error.message, chain))
    elif not getattr(error, NOTED, False):
        frames = "\n".join(frame.render() for frame in chain)
        error.add_note(f"DSL Traceback (most recent operation last):\n{frames}")
        setattr(error, NOTED, True)


def unverified(module: ModuleOp, what: str, error: BaseException) -> DSLCompileError:
    """The error for a module that does not verify: each op at fault with the lines it comes from."""
    records = [DiagRecord(f.message, source_chain(f.op.location)) for f in failures(module)[:_SHOWN]]
    return DSLCompileError(f"{what}: {error}", diagnostics=[r for r in records if r.chain])


class shown_at_its_line:
    """A block that writes a device module as LLVM IR; an op that cannot be written is shown at its line."""

    def __init__(self, backend: BaseBackend, device: gpu.ModuleOp):
        self.backend, self.device = backend, device

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (FlyDSLError, NotImplementedError)):
            place(error, self._failing_location())

    def _failing_location(self) -> object:
        """Where writing fails: it is written again in the way that follows locations."""
        attributes = self.device.attributes
        had = ATTRIBUTE in attributes
        attributes[ATTRIBUTE] = UnitAttr()
        try:
            self.backend.device_ir(self.device)
        except (FlyDSLError, NotImplementedError) as error:
            return location_of(error)
        finally:
            if not had:
                del attributes[ATTRIBUTE]
        return None
