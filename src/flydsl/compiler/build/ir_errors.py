"""Errors about ops, shown at the user's lines the ops were made of: of passes, of verification, of translation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import UnitAttr

from ...errors import DiagRecord, DSLCompileError, FlyDSLError
from ...ir.locations import source_chain
from ...llvm.text.debug_info import ATTRIBUTE
from ...lowering.rebuild import location_of
from ...passes.verifier import failures
from ..frontend.error_notes import NOTED

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..backends.base import BaseBackend

_SHOWN = 3


def place(error: BaseException, location: Any) -> None:
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


def device_ir(backend: BaseBackend, device: Any) -> str:
    """LLVM IR of a device module; an op that cannot be written is shown at its line."""
    try:
        return backend.device_ir(device)
    except (FlyDSLError, NotImplementedError) as error:
        place(error, _failing_location(backend, device))
        raise


def _failing_location(backend: BaseBackend, device: Any) -> Any:
    """Where writing a module fails: it is written again in the way that follows locations."""
    had = ATTRIBUTE in device.attributes
    device.attributes[ATTRIBUTE] = UnitAttr()
    try:
        backend.device_ir(device)
    except (FlyDSLError, NotImplementedError) as error:
        return location_of(error)
    finally:
        if not had:
            del device.attributes[ATTRIBUTE]
    return None
