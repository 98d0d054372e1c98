"""The target of the trace in progress, as the NVIDIA names need it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...errors import DSLRuntimeError, DSLValueError
from ...target import CPU_NATIVE, since
from ..emit.trace import maybe_current, trace_target

if TYPE_CHECKING:
    from ..annotations import Attribute


def check_target(what: str, feature: str) -> None:
    """Refuse what the target of the trace lacks; outside a trace nothing is known yet."""
    target = trace_target()
    if target is None or target.arch == CPU_NATIVE:
        return
    if not target.has("nvidia"):
        raise DSLValueError(f"{what} belongs to NVIDIA GPUs; this trace compiles for {target.backend}:{target.arch}")
    if not target.has(feature):
        raise DSLValueError(f"{what} does not exist on {target.arch}; it needs {since('nvidia', feature)}")


def need_trace(what: str, feature: str) -> None:
    """The same for what only makes sense inside a kernel."""
    if maybe_current() is None:
        raise DSLRuntimeError(f"{what} can only be used while a kernel is traced")
    check_target(what, feature)


def emitter():
    """The module that emits the ops of this package, loaded when something is traced."""
    from . import emit

    return emit


class NvAtomOp:
    """A copy or MMA operation of NVIDIA GPUs; `make_copy_atom` and `make_mma_atom` take it."""

    __slots__ = ("_feature", "_make", "_text")

    def __init__(self, make: Callable[[], Attribute], text: str, feature: str):
        self._make = make
        self._text = text
        self._feature = feature
        check_target(text, feature)

    @property
    def type(self) -> Attribute:
        """The IR type; the target must have the instruction."""
        check_target(self._text, self._feature)
        return self._make()

    def __repr__(self) -> str:
        return self._text
