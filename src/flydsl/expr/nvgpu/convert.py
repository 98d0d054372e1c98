"""Conversions of packed small floats by the instructions for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...errors import DSLTypeError, DSLValueError
from ..numeric import Float8E4M3FN, Float8E5M2, Float16, Float32, Int16, Int32, Numeric
from ..vector import Vector
from .target import need_trace

if TYPE_CHECKING:
    from ..annotations import SSAValue

_KINDS: dict[type[Numeric], str] = {Float8E4M3FN: "cvt.e4m3x2", Float8E5M2: "cvt.e5m2x2"}
_WIDENED: dict[type[Numeric], str] = {Float8E4M3FN: "cvt.from_e4m3x2", Float8E5M2: "cvt.from_e5m2x2"}


def to_fp8(values: Vector, dtype: type[Numeric]) -> Vector:
    """Every element of f32 in 8 bits, two an instruction: what is too large becomes the largest number there is.

    `values.to(dtype)` has no such instruction, since there what is too large is none.

    >>> def example():
    ...     return fx.nvgpu.to_fp8(fx.Vector.filled(4, 1000.0, fx.Float32), fx.Float8E4M3FN).to(fx.Float32)[3]
    >>> flyc.evaluate(example, target="cpu:sm_90")
    448.0
    """
    kind = _KINDS.get(dtype)
    if kind is None or values.dtype is not Float32:
        raise DSLTypeError(f"to_fp8 makes Float8E4M3FN or Float8E5M2 of Float32, got {dtype} and {values.dtype}")
    if values.numel % 2:
        raise DSLValueError(f"to_fp8 takes an even number of elements, got {values.numel}")
    need_trace("to_fp8", "mma_sync_fp8")
    from . import emit

    def word(i: int) -> SSAValue:
        return cast("Float32", flat[i]).ir_value()

    flat = values.reshape(values.numel)
    pairs = [Int16(emit.call(kind, word(i + 1), word(i))) for i in range(0, flat.numel, 2)]
    return Vector.from_elements(pairs, Int16).bitcast(dtype).reshape(values.shape)


def from_fp8(values: Vector) -> Vector:
    """Every element of 8 bits in f16, two an instruction; f16 has all of them.

    >>> def example():
    ...     return fx.nvgpu.from_fp8(fx.Vector.filled(4, -1.25, fx.Float8E4M3FN))[3]
    >>> flyc.evaluate(example, target="cpu:sm_90")
    -1.25
    """
    kind = _WIDENED.get(values.dtype)
    if kind is None:
        raise DSLTypeError(f"from_fp8 takes Float8E4M3FN or Float8E5M2, got {values.dtype}")
    if values.numel % 2:
        raise DSLValueError(f"from_fp8 takes an even number of elements, got {values.numel}")
    need_trace("from_fp8", "mma_sync_fp8")
    from . import emit

    pairs = values.reshape(values.numel).bitcast(Int16)
    words = [Vector(emit.call(kind, cast("Int16", pairs[i]).ir_value())).bitcast(Int32)[0] for i in range(pairs.numel)]
    return Vector.from_elements(words, Int32).bitcast(Float16).reshape(values.shape)
