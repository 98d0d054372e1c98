"""Constructors of the atom operations that several AMD architectures share."""

from __future__ import annotations

import warnings
from enum import StrEnum
from typing import TYPE_CHECKING, cast

from ...errors import DSLTypeError, DSLValueError, PortabilityWarning
from ...ir.enums import AtomicOp
from ...target import where
from ..aliases import also_called
from ..numeric import Float32, Numeric
from .target import AtomOp, amd_target, gfx_of, ir_type, trace_target

if TYPE_CHECKING:
    from ...dialects.fly_rocdl.cdna3 import MfmaType
    from ..annotations import Attribute, ElementLike, InputTypes


class SyncScope(StrEnum):
    """Scopes of atomic accesses on AMD, as LLVM spells them.

    >>> fx.rocdl.SyncScope.Agent.value
    'agent'
    """

    System = ""
    SingleThread = "singlethread"
    Agent = "agent"
    Workgroup = "workgroup"
    Wavefront = "wavefront"
    OneAs = "one-as"
    AgentOneAs = "agent-one-as"
    WorkgroupOneAs = "workgroup-one-as"
    WavefrontOneAs = "wavefront-one-as"
    SingleThreadOneAs = "singlethread-one-as"


def input_types(what: str, ab: object) -> tuple[Attribute, Attribute]:
    """IR types of A and B from one class or a pair of classes."""
    pair = cast("tuple[object, ...]", ab) if isinstance(ab, tuple) else (ab, ab)
    if len(pair) != 2:
        raise DSLTypeError(f"{what}: expected one input type or a pair, got {ab!r}")
    return element_type(what, pair[0]), element_type(what, pair[1])


def element_type(what: str, cls: object) -> Attribute:
    """IR type of a scalar class; IR types pass."""
    if isinstance(cls, type) and not issubclass(cls, Numeric):
        raise DSLTypeError(f"{what}: expected a scalar class such as fx.Float16, got {cls!r}")
    if isinstance(cls, (int, str)) or cls is None:
        raise DSLTypeError(f"{what}: expected a scalar class such as fx.Float16, got {cls!r}")
    return ir_type(cast("ElementLike", cls))


@also_called(ab="elem_ty_ab", acc="elem_ty_acc")
def MFMA(m: int, n: int, k: int, elem_ty_ab: InputTypes, elem_ty_acc: ElementLike | None = None) -> AtomOp:
    """The matrix instruction of CDNA: `MFMA(16, 16, 16, fx.Float16)`. The accumulator is f32 unless given.

    `elem_ty_ab` is the type of A and B, or a pair where they differ (fp8 with bf8). Float32 with K = 4 (32x32) or 8
    (16x16) is the reduced-precision xf32 form of gfx942.

    >>> def example():
    ...     return fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 4, fx.Float32)).layout_C_tv
    >>> flyc.evaluate(example, target="cpu:gfx942")
    Layout<((16,4),(4,1)):((16,4),(1,16))>
    """
    from ...dialects.fly_rocdl.cdna3 import MfmaType

    a, b = input_types("MFMA", elem_ty_ab)
    out = element_type("MFMA", Float32 if elem_ty_acc is None else elem_ty_acc)
    made = MfmaType.make(m, n, k, a, b, out)
    return AtomOp(_as_the_hardware_reads(made), f"MFMA({m}, {n}, {k}, {elem_ty_ab}, {elem_ty_acc or Float32})")


def _as_the_hardware_reads(made: MfmaType) -> MfmaType:
    """The instruction itself, where the architecture has it for the other kind of fp8 only.

    gfx942 reads the bytes as FNUZ, gfx950 as OCP; both call the instruction the same, and kernels written for the one
    compile for the other. The numbers differ, which is told.
    """
    from ...dialects.fly_rocdl.cdna3 import as_ocp

    target = trace_target()
    arch = None if target is None else gfx_of(target)
    other = as_ocp(made)
    if arch is None or other is made or made.exists_on(arch) or not other.exists_on(arch):
        return made
    warnings.warn(
        f"{arch} reads the bytes of {made} as OCP numbers, which are twice those of the FNUZ formats; use "
        "fx.Float8E4M3FN and fx.Float8E5M2 there",
        PortabilityWarning,
        stacklevel=4,
    )
    return other


@also_called(ab="elem_ty_ab", acc="elem_ty_acc")
def WMMA(
    m: int, n: int, k: int, elem_ty_ab: InputTypes, elem_ty_acc: ElementLike | None = None, *, sign_a: bool = False,
    sign_b: bool = False, clamp: bool = False,
) -> AtomOp:  # fmt: skip
    """The matrix instruction of RDNA and gfx1250, by the architecture being compiled for.

    Integers are unsigned unless `sign_a` or `sign_b`; `clamp` saturates their i32 result.

    >>> def example():
    ...     return fx.make_mma_atom(fx.rocdl.WMMA(16, 16, 16, fx.Float16)).layout_A_tv
    >>> flyc.evaluate(example, target="cpu:gfx1100")
    Layout<((16,2),16):((1,0),16)>
    """
    from ...dialects.fly_rocdl import wmma

    target = amd_target("WMMA")
    arch = gfx_of(target)
    cls = None if arch is None else wmma.type_for(arch)
    if cls is None:
        have = where("wmma_v1", "wmma_v2", "wmma_v3")
        raise DSLValueError(f"WMMA exists on {have}, not on {target.backend}:{target.arch}")
    a, b = input_types("WMMA", elem_ty_ab)
    out = element_type("WMMA", Float32 if elem_ty_acc is None else elem_ty_acc)
    return AtomOp(
        cls.make(m, n, k, a, b, out, sign_a, sign_b, clamp),
        f"WMMA({m}, {n}, {k}, {elem_ty_ab}, {elem_ty_acc or Float32})",
    )


# --- buffer memory ------------------------------------------------------------------------------------------------


@also_called(bits="bit_size")
def BufferCopy(bit_size: int, cache_modifier: int = 0) -> AtomOp:
    """A copy of `bit_size` bits between a buffer tensor and registers; `cache_modifier` 2 is non-temporal.

    State: `soffset`, a uniform offset in elements.

    >>> def example():
    ...     return fx.make_copy_atom(fx.rocdl.BufferCopy(64), fx.Float16).layout_src_tv
    >>> flyc.evaluate(example, target="cpu:gfx942")
    Layout<(1,4):(1,1)>
    """
    from ...dialects.fly_rocdl.buffer import BufferCopyType

    if bit_size not in (8, 16, 32, 64, 128):
        raise DSLValueError(f"BufferCopy moves 8, 16, 32, 64 or 128 bits, got {bit_size}")
    return AtomOp(BufferCopyType.make(bit_size, cache_modifier), f"BufferCopy({bit_size})")


def BufferCopy8b(cache_modifier: int = 0) -> AtomOp:
    """`BufferCopy(8)`.

    >>> flyc.evaluate(lambda: fx.make_copy_atom(fx.rocdl.BufferCopy8b(), 8).layout_src_tv, target="cpu:gfx942")
    Layout<(1,1):(1,1)>
    """
    return BufferCopy(8, cache_modifier)


def BufferCopy16b(cache_modifier: int = 0) -> AtomOp:
    """`BufferCopy(16)`.

    >>> flyc.evaluate(lambda: fx.make_copy_atom(fx.rocdl.BufferCopy16b(), 8).layout_src_tv, target="cpu:gfx942")
    Layout<(1,2):(1,1)>
    """
    return BufferCopy(16, cache_modifier)


def BufferCopy32b(cache_modifier: int = 0) -> AtomOp:
    """`BufferCopy(32)`.

    >>> flyc.evaluate(lambda: fx.make_copy_atom(fx.rocdl.BufferCopy32b(), 8).layout_src_tv, target="cpu:gfx942")
    Layout<(1,4):(1,1)>
    """
    return BufferCopy(32, cache_modifier)


def BufferCopy64b(cache_modifier: int = 0) -> AtomOp:
    """`BufferCopy(64)`.

    >>> flyc.evaluate(lambda: fx.make_copy_atom(fx.rocdl.BufferCopy64b(), 8).layout_src_tv, target="cpu:gfx942")
    Layout<(1,8):(1,1)>
    """
    return BufferCopy(64, cache_modifier)


def BufferCopy128b(cache_modifier: int = 0) -> AtomOp:
    """`BufferCopy(128)`.

    >>> flyc.evaluate(lambda: fx.make_copy_atom(fx.rocdl.BufferCopy128b(), 8).layout_src_tv, target="cpu:gfx942")
    Layout<(1,16):(1,1)>
    """
    return BufferCopy(128, cache_modifier)


@also_called(bits="bit_size")
def BufferCopyLDS(bit_size: int) -> AtomOp:
    """A copy from a buffer tensor straight into shared memory, one lane's bits behind the other's.

    32 bits on gfx90a, gfx942 and gfx950; 128 on gfx950. State: `soffset` (elements), `imm_offset` (constant bytes).

    >>> def example():
    ...     return fx.make_copy_atom(fx.rocdl.BufferCopyLDS(32), fx.Float32).layout_src_tv
    >>> flyc.evaluate(example, target="cpu:gfx942")
    Layout<(1,1):(1,1)>
    """
    from ...dialects.fly_rocdl.buffer import BufferCopyLdsType

    return AtomOp(BufferCopyLdsType.make(bit_size), f"BufferCopyLDS({bit_size})")


def BufferCopyLDS32b() -> AtomOp:
    """`BufferCopyLDS(32)`.

    >>> fx.rocdl.BufferCopyLDS32b()
    BufferCopyLDS(32)
    """
    return BufferCopyLDS(32)


def BufferCopyLDS64b() -> AtomOp:
    """Always an error: no AMD GPU has it.

    >>> try:
    ...     fx.rocdl.BufferCopyLDS64b()
    ... except ValueError as error:
    ...     print(str(error).partition(";")[0])
    unsupported bitSize = 64 for BufferCopyLDS
    """
    return BufferCopyLDS(64)


def BufferCopyLDS128b() -> AtomOp:
    """`BufferCopyLDS(128)`.

    >>> fx.rocdl.BufferCopyLDS128b()
    BufferCopyLDS(128)
    """
    return BufferCopyLDS(128)


@also_called(op="atomic_op")
def BufferAtomic(atomic_op: AtomicOp, val_type: ElementLike) -> AtomOp:
    """Read-modify-write of a buffer tensor with a register value; the old value is dropped. State: `soffset`.

    Float64 has sums, minima and maxima on gfx90a, gfx942 and gfx950.

    >>> def example():
    ...     return fx.make_copy_atom(fx.rocdl.BufferAtomic(fx.AtomicOp.Add, fx.Float32), fx.Float32).layout_src_tv
    >>> flyc.evaluate(example, target="cpu:gfx942")
    Layout<(1,1):(1,1)>
    """
    from ...dialects.fly_rocdl.buffer import BufferAtomicType, atomic_intrinsic

    type_ = element_type("BufferAtomic", val_type)
    unsigned = getattr(val_type, "signed", None) is False
    if atomic_intrinsic(atomic_op, type_) is None or (
        unsigned and atomic_op is AtomicOp.Max
    ):  # the instruction compares as signed
        raise DSLTypeError(f"BufferAtomic {atomic_op.name} is not defined for {val_type}")
    return AtomOp(BufferAtomicType.make(atomic_op, type_), f"BufferAtomic({atomic_op.name}, {val_type})")


def BufferAtomicAdd(val_type: ElementLike) -> AtomOp:
    """Atomic sum.

    >>> fx.rocdl.BufferAtomicAdd(fx.Int32)
    BufferAtomic(Add, Int32)
    """
    return BufferAtomic(AtomicOp.Add, val_type)


def BufferAtomicMax(val_type: ElementLike) -> AtomOp:
    """Atomic maximum of floats or signed integers.

    >>> fx.rocdl.BufferAtomicMax(fx.Int32)
    BufferAtomic(Max, Int32)
    """
    return BufferAtomic(AtomicOp.Max, val_type)


def BufferAtomicMin(val_type: ElementLike) -> AtomOp:
    """Atomic minimum of unsigned integers.

    >>> fx.rocdl.BufferAtomicMin(fx.Int32)
    BufferAtomic(Min, Int32)
    """
    return BufferAtomic(AtomicOp.Min, val_type)


def BufferAtomicPkAdd(val_type: ElementLike) -> AtomOp:
    """Atomic sum of pairs of Float16 or BFloat16.

    >>> def example():
    ...     return fx.make_copy_atom(fx.rocdl.BufferAtomicPkAdd(fx.Float16), fx.Float16).layout_src_tv
    >>> flyc.evaluate(example, target="cpu:gfx942")
    Layout<(1,2):(1,1)>
    """
    from ...dialects.fly_rocdl.buffer import BufferAtomicType
    from ...ir.types import vector_type

    elem = element_type("BufferAtomicPkAdd", val_type)
    return AtomOp(BufferAtomicType.make(AtomicOp.Add, vector_type(elem, 2)), f"BufferAtomicPkAdd({val_type})")


__all__ = [
    "MFMA", "WMMA", "BufferAtomic", "BufferAtomicAdd", "BufferAtomicMax", "BufferAtomicMin", "BufferAtomicPkAdd",
    "BufferCopy", "BufferCopy128b", "BufferCopy16b", "BufferCopy32b", "BufferCopy64b", "BufferCopy8b", "BufferCopyLDS",
    "BufferCopyLDS128b", "BufferCopyLDS32b", "BufferCopyLDS64b", "SyncScope",
]  # fmt: skip
