"""The target of the trace in progress, as the NVIDIA names need it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...errors import DSLRuntimeError, DSLValueError
from ...target import GPUTarget
from ..emit.trace import maybe_current

if TYPE_CHECKING:
    from ..annotations import Attribute


def trace_target() -> GPUTarget | None:
    """What the trace compiles for; None outside a trace."""
    tracer = maybe_current()
    if tracer is None:
        return None
    for function in tracer.functions:
        target = getattr(function, "target", None)
        if target is not None:
            return target
    return None


def check_target(what: str, least: int, most: int | None = None) -> None:
    """Refuse what the target of the trace lacks; outside a trace nothing is known yet."""
    target = trace_target()
    if target is None or target.arch == "native":
        return
    if not target.arch.startswith("sm_"):
        raise DSLValueError(f"{what} belongs to NVIDIA GPUs; this trace compiles for {target.backend}:{target.arch}")
    number = int(target.arch[3:].rstrip("af"))
    if number < least or (most is not None and number > most):
        have = f"sm_{least}" if most is None else f"sm_{least} to sm_{most}" if most != least else f"sm_{least} alone"
        raise DSLValueError(f"{what} does not exist on {target.arch}; it needs {have}")


def need_trace(what: str, least: int) -> None:
    """The same for what only makes sense inside a kernel."""
    if maybe_current() is None:
        raise DSLRuntimeError(f"{what} can only be used while a kernel is traced")
    check_target(what, least)


class NvAtomOp:
    """A copy or MMA operation of NVIDIA GPUs; `make_copy_atom` and `make_mma_atom` take it."""

    __slots__ = ("_least", "_make", "_most", "_text")

    def __init__(self, make: Callable[[], Attribute], text: str, least: int, most: int | None = None):
        self._make = make
        self._text = text
        self._least = least
        self._most = most
        check_target(text, least, most)

    @property
    def type(self) -> Attribute:
        """The IR type; the target must have the instruction."""
        check_target(self._text, self._least, self._most)
        return self._make()

    def __repr__(self) -> str:
        return self._text
