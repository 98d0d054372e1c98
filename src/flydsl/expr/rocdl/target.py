"""The target of the trace in progress, as the AMD names need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import DSLRuntimeError, DSLValueError
from ...target import USUAL, GPUTarget, has, where
from ..emit.trace import trace_target

if TYPE_CHECKING:
    from ..annotations import Attribute, ElementLike


def emitter():
    """The module that emits the ops of this package, loaded when something is traced."""
    from . import emit

    return emit


def amd_target(what: str) -> GPUTarget:
    """The target, which must be an AMD GPU or the cpu stack."""
    target = trace_target()
    if target is None:
        raise DSLRuntimeError(f"{what} can only be used while a kernel is traced: what it means depends on the target")
    if not target.on_host and not target.has("amd"):
        raise DSLValueError(f"{what} belongs to AMD GPUs; this trace compiles for {target.backend}:{target.arch}")
    return target


def gfx_of(target: GPUTarget) -> str | None:
    """The AMD architecture compiled for or emulated; None on a cpu that emulates none."""
    return target.arch if target.has("amd") else None


def usual_gfx(what: str) -> str:
    """The AMD architecture compiled for or emulated; the usual one on a cpu that emulates none."""
    return gfx_of(amd_target(what)) or USUAL["rocm"]


def need(what: str, feature: str) -> None:
    """Refuse what the AMD architecture lacks; a cpu that emulates none has everything."""
    arch = gfx_of(amd_target(f"fx.rocdl.{what}"))
    if arch is not None and not has(arch, feature):
        raise DSLValueError(f"{what} exists on {where(feature)}, not on {arch}")


def on_cpu(what: str) -> bool:
    """Whether the trace is for the cpu stack."""
    return amd_target(what).on_host


def _SOME() -> str:
    """For operations that say nothing of architectures."""
    return "amd"


class AtomOp:
    """A copy or MMA operation of AMD GPUs; `make_copy_atom` and `make_mma_atom` take it."""

    __slots__ = ("_text", "type")

    def __init__(self, type_: Attribute, text: str):
        self.type = type_
        """The IR type."""
        self._text = text
        # One that the architecture lacks may be made, as long as it is not used; the line that uses it is told.
        if getattr(type_, "feature", _SOME)() is None:
            check_available(type_)

    def __repr__(self) -> str:
        return self._text


def check_available(op: object) -> None:
    """Refuse an atom operation that the target of the trace lacks; outside a trace nothing is known yet."""
    target = trace_target()
    if target is None:
        return
    check = getattr(op, "check_arch", None)
    if target.has("nvidia") and not target.on_host:
        raise DSLValueError(f"{op} belongs to AMD GPUs; this trace compiles for {target.backend}:{target.arch}")
    arch = gfx_of(target)
    if arch is not None:
        if check is not None:
            check(arch)
        return
    threads = getattr(getattr(op, "thr_layout", None), "shape", 1)
    if threads in (32, 64) and threads != target.warp_size:
        raise DSLValueError(
            f"{op} is an instruction of {threads} lanes, and warps of this cpu target have {target.warp_size}; set "
            f"FLYDSL_COMPILE_ARCH to the AMD architecture to emulate, such as {USUAL['rocm']}"
        )


def ir_type(ty: ElementLike) -> Attribute:
    """An IR type, a scalar class or a vector alias as the IR type."""
    return ty.ir_type if isinstance(ty, type) else ty
