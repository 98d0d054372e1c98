"""Constructors of NVIDIA's copy and MMA operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import DSLTypeError, DSLValueError
from ..numeric import Float32, Float64, Int8, Int32, Numeric, Uint8
from .target import NvAtomOp

if TYPE_CHECKING:
    from ..annotations import Attribute


def _class(what: str, cls: object) -> type[Numeric]:
    if not (isinstance(cls, type) and issubclass(cls, Numeric)):
        raise DSLTypeError(f"{what}: expected a scalar class such as fx.Float16, got {cls!r}")
    return cls


def _accumulator(what: str, ab: type[Numeric], acc: object) -> type[Numeric]:
    """The accumulator's class: f32 for floats, i32 for integers, unless given."""
    if acc is not None:
        return _class(what, acc)
    if ab in (Int8, Uint8):
        return Int32
    return Float64 if ab is Float64 else Float32


def _operand_type(cls: type[Numeric]) -> Attribute:
    """IR type of an operand: Float32 is multiplied as tf32, and bytes keep their sign."""
    from xdsl.dialects.builtin import FloatTF32Type, IntegerType, Signedness

    if cls is Float32:
        return FloatTF32Type()
    return IntegerType(8, Signedness.UNSIGNED) if cls is Uint8 else cls.ir_type


def MMA(
    m: int, n: int, k: int, ab: type[Numeric], acc: type[Numeric] | None = None, *, b: type[Numeric] | None = None
) -> NvAtomOp:
    """`mma.sync`, a matrix product of one warp on registers: `MMA(16, 8, 16, fx.BFloat16)`.

    `ab` is the type of A and B; `b` that of B where they differ (fp8 and int8 mixes). Float32 operands are multiplied
    as tf32.

    >>> flyc.evaluate(lambda: fx.make_mma_atom(fx.nvgpu.MMA(16, 8, 16, fx.Float16)).layout_C_tv, target="cpu:sm_90")
    Layout<((4,8),(2,2)):((32,1),(16,8))>
    """
    from ...dialects.fly_nvgpu.mma_sync import MmaData, MmaSyncType, feature_of, problem

    left = _class("MMA", ab)
    right = left if b is None else _class("MMA", b)
    out = _accumulator("MMA", left, acc)
    data = MmaData((m, n, k), _operand_type(left), _operand_type(right), out.ir_type)
    found = problem(data)
    if found is not None:
        raise DSLValueError(f"MMA({m}, {n}, {k}, {left}, {out}): {found}")
    return NvAtomOp(lambda: MmaSyncType(data), f"MMA({m}, {n}, {k}, {left}, {out})", feature_of(data))


def WGMMA(
    n: int,
    k: int,
    ab: type[Numeric],
    acc: type[Numeric] | None = None,
    *,
    b: type[Numeric] | None = None,
    a_from: str = "smem",
    major_a: str = "k",
    major_b: str = "k",
) -> NvAtomOp:
    """`wgmma`, an asynchronous product of a 64-row tile by a warpgroup: `WGMMA(256, 16, fx.BFloat16)`.

    B comes from shared memory, A from there or (`a_from="registers"`) from registers. Operands in shared memory are
    views whose layout and swizzle must be ones the instruction can read; `major_*` is `"k"` or `"mn"`, the contiguous
    direction. The product is not there before `wgmma_wait`.

    >>> flyc.evaluate(lambda: fx.make_mma_atom(fx.nvgpu.WGMMA(128, 16, fx.Float16)).shape_mnk, target="cpu:sm_90a")
    IntTuple<(64,128,16)>
    """
    from ...dialects.fly_nvgpu.wgmma import WgmmaData, WgmmaType, problem

    left = _class("WGMMA", ab)
    right = left if b is None else _class("WGMMA", b)
    out = _accumulator("WGMMA", left, acc)
    if a_from not in ("smem", "registers"):
        raise DSLValueError(f"WGMMA: a_from is 'smem' or 'registers', got {a_from!r}")
    for major in (major_a, major_b):
        if major not in ("k", "mn"):
            raise DSLValueError(f"WGMMA: an operand is contiguous along 'k' or 'mn', got {major!r}")
    data = WgmmaData((64, n, k), _operand_type(left), _operand_type(right), out.ir_type, a_from, major_a, major_b)
    found = problem(data)
    if found is not None:
        raise DSLValueError(f"WGMMA({n}, {k}, {left}, {out}): {found}")
    return NvAtomOp(lambda: WgmmaType(data), f"WGMMA({n}, {k}, {left}, {out})", "wgmma")


def CpAsync(bits: int, cache: str = "ca", *, zero_fill: bool = False) -> NvAtomOp:
    """`cp.async`: global to shared memory, past the registers; `cache="cg"` keeps 128-bit copies out of L1.

    The data is there for the thread itself after `cp_async_wait`, for others after a barrier behind it.

    With `zero_fill` a false predicate writes zeros instead of nothing, and the state `valid` says how many elements of
    a copy are there: `fx.copy(atom, src, dst, valid=n)` reads no more, and zeros follow them. Any number will do; there
    are none at 0 and below.

    >>> def example():
    ...     return fx.make_copy_atom(fx.nvgpu.CpAsync(128, "cg"), fx.Float16).layout_src_tv
    >>> flyc.evaluate(example, target="cpu:sm_90")
    Layout<(1,8):(1,1)>
    """
    from ...dialects.fly_nvgpu.cp_async import CpAsyncData, CpAsyncType, CpAsyncZeroFillType, problem

    data = CpAsyncData(bits, cache)
    found = problem(data)
    if found is not None:
        raise DSLValueError(found)
    cls = CpAsyncZeroFillType if zero_fill else CpAsyncType
    more = ", zero_fill=True" if zero_fill else ""
    return NvAtomOp(lambda: cls(data), f"CpAsync({bits}, {cache!r}{more})", "cp_async")


def CpAsync32b() -> NvAtomOp:
    """`CpAsync(32)`.

    >>> fx.nvgpu.CpAsync32b()
    CpAsync(32, 'ca')
    """
    return CpAsync(32)


def CpAsync64b() -> NvAtomOp:
    """`CpAsync(64)`.

    >>> fx.nvgpu.CpAsync64b()
    CpAsync(64, 'ca')
    """
    return CpAsync(64)


def CpAsync128b() -> NvAtomOp:
    """`CpAsync(128, "cg")`.

    >>> fx.nvgpu.CpAsync128b()
    CpAsync(128, 'cg')
    """
    return CpAsync(128, "cg")


def _matrix(name: str, count: int, trans: bool) -> NvAtomOp:
    from ...dialects.fly_nvgpu import matrix_copy

    if count not in matrix_copy.COUNTS:
        raise DSLValueError(f"{name} moves 1, 2 or 4 matrices, got {count!r}")
    data = matrix_copy.MatrixData(count, bool(trans))
    cls = matrix_copy.LdMatrixType if name == "LdMatrix" else matrix_copy.StMatrixType
    return NvAtomOp(lambda: cls(data), f"{name}({count}, trans={bool(trans)})", name.lower())


def LdMatrix(count: int, trans: bool = False) -> NvAtomOp:
    """`ldmatrix`: a warp reads `count` 8x8 matrices of 16-bit values from shared memory into MMA registers.

    >>> flyc.evaluate(lambda: fx.make_copy_atom(fx.nvgpu.LdMatrix(4), fx.Float16).layout_dst_tv, target="cpu:sm_90")
    Layout<(32,(2,4)):(2,(1,64))>
    """
    return _matrix("LdMatrix", count, trans)


def StMatrix(count: int, trans: bool = False) -> NvAtomOp:
    """`stmatrix`: the way back, from registers to shared memory.

    >>> flyc.evaluate(lambda: fx.make_copy_atom(fx.nvgpu.StMatrix(4), fx.Float16).layout_src_tv, target="cpu:sm_90")
    Layout<(32,(2,4)):(2,(1,64))>
    """
    return _matrix("StMatrix", count, trans)


__all__ = ["MMA", "WGMMA", "CpAsync", "CpAsync32b", "CpAsync64b", "CpAsync128b", "LdMatrix", "StMatrix"]
