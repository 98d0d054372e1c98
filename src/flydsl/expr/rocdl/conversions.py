"""Conversions of AMD GPUs that FlyDSL names: bf16 pairs, 4-bit integers, scaled fp4, stochastic rounding.

Off the instruction's own architectures, and on the cpu stack, the same numbers are computed by ordinary operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...errors import DSLValueError
from ..numeric import BFloat16, Boolean, Float4E2M1FN, Float32, Int32, Uint8, Uint16, Uint32, as_dsl_value, as_numeric
from ..vector import Vector
from .instructions import call
from .target import trace_target

if TYPE_CHECKING:
    from ..annotations import ElementLike, ScalarLike, ValueLike


def _by_instruction(feature: str) -> bool:
    """Whether the trace is for a GPU that has the instruction."""
    target = trace_target()
    return target is not None and not target.on_host and target.has("amd") and target.has(feature)


def cvt_pk_bf16_f32(src_a_f32: ScalarLike, src_b_f32: ScalarLike) -> Int32:
    """Two Float32 as bf16 in one word, rounded to nearest even; the first is the low half.

    >>> hex(flyc.evaluate(lambda x: fx.rocdl.cvt_pk_bf16_f32(x, 2.0), 1.5, target="cpu:gfx950"))
    '0x40003fc0'
    """
    pair = Vector.from_elements([Float32(as_dsl_value(x)) for x in (src_a_f32, src_b_f32)], Float32).to(BFloat16)
    return cast(Int32, pair.bitcast(Int32)[0])


def cvt_off_f32_i4(src_i32: ScalarLike, byte_sel: int | None = None) -> Float32:
    """The low four bits of a byte of an i32 as a signed number, in sixteenths: -0.5 to 0.4375.

    >>> def example(x):
    ...     return fx.rocdl.cvt_off_f32_i4(x), fx.rocdl.cvt_off_f32_i4(x, 1)
    >>> flyc.evaluate(example, 0x0307, target="cpu:gfx942")
    (0.4375, 0.1875)
    """
    byte_sel = 0 if byte_sel is None else byte_sel
    if byte_sel not in range(4):
        raise DSLValueError(f"byte_sel is 0 to 3, got {byte_sel}")
    word = Int32(as_numeric(src_i32))
    if _by_instruction("amd"):
        return call("cvt.off.f32.i4", Float32, Int32((word >> (8 * byte_sel)) & 0xFF).ir_value())
    nibble = word >> (8 * byte_sel)
    return Float32((nibble << 28) >> 28) * Float32(0.0625)


def cvt_sr_f32_to_bf16(x: ScalarLike, rand: ScalarLike) -> BFloat16:
    """A Float32 as bf16, rounded up with a probability given by `rand`: stochastic rounding.

    The cpu stack takes the low 16 bits of `rand`; which the hardware takes is its own affair, so give all 32.

    >>> def example(x):
    ...     return fx.rocdl.cdna4.cvt_sr_f32_to_bf16(x, 0), fx.rocdl.cdna4.cvt_sr_f32_to_bf16(x, 0xFFFF)
    >>> flyc.evaluate(example, 1.001, target="cpu:gfx950")
    (1.0, 1.0078125)
    """
    value, noise = Float32(as_dsl_value(x)), Uint32(as_numeric(rand))
    if _by_instruction("cvt_sr_bf16"):
        from . import emit

        two = Vector.make_type(2, BFloat16)
        rest = emit.anything(two), value.ir_value(), noise.ir_value(), Boolean(False).ir_value()
        made = call("cvt.sr.bf16.f32", two, *rest)
        return cast(BFloat16, made[0])
    bits = value.bitcast(Uint32)
    finite = (bits & 0x7F800000) != 0x7F800000
    moved = finite.select(bits + (noise & 0xFFFF), bits)
    return Uint16(moved >> 16).bitcast(BFloat16)


def _scale(scale: ScalarLike) -> Float32:
    value = as_dsl_value(scale)
    return Float32(value) if value.dtype.is_float else Uint32(value).bitcast(Float32)


def _unpacked(src: ValueLike, at: int, scale: ScalarLike, wide: type[Float32 | BFloat16]) -> Vector:
    if at not in range(4):
        raise DSLValueError(f"the byte of an i32 to convert is 0 to 3, got {at}")
    word, factor = Uint32(as_numeric(src)), _scale(scale)  # pyright: ignore[reportArgumentType]
    if _by_instruction("cvt_scale"):
        name = f"cvt.scalef32.pk.{wide.ir_name}.fp4"
        return call(name, Vector.make_type(2, wide), word.ir_value(), factor.ir_value(), Int32(at).ir_value())
    pair = Vector.from_elements([Uint8(word >> (8 * at))], Uint8).bitcast(Float4E2M1FN)
    return (pair.to(Float32) * factor).to(wide)


def cvt_scalef32_pk_f32_fp4(
    res: ElementLike, src: ValueLike, scale: ScalarLike, src_sel_index: int, **kw: object
) -> Vector:
    """Two fp4 numbers of one byte of an i32, times a scale.

    >>> def example(x):
    ...     return fx.rocdl.cvt_scalef32_pk_f32_fp4(fx.T.f32x2, x, 2.0, 1)
    >>> flyc.evaluate(example, 0x4200, target="cpu:gfx950")
    [2.0, 4.0]
    """
    return _unpacked(src, src_sel_index, scale, Float32)


def cvt_scalef32_pk_bf16_fp4(
    res: ElementLike, src: ValueLike, scale: ScalarLike, src_sel_index: int, **kw: object
) -> Vector:
    """The same as a pair of bf16.

    >>> def example(x):
    ...     return fx.rocdl.cvt_scalef32_pk_bf16_fp4(fx.T.bf16x2, x, 2.0, 1)
    >>> flyc.evaluate(example, 0x4200, target="cpu:gfx950")
    [2.0, 4.0]
    """
    return _unpacked(src, src_sel_index, scale, BFloat16)


def cvt_scalef32_pk_fp4_f32(
    res: ElementLike,
    old_vdst: ScalarLike,
    src0: ScalarLike,
    src1: ScalarLike,
    scale: ScalarLike,
    dst_sel_index: int,
    **kw: object,
) -> Int32:
    """Two Float32 divided by a scale, as fp4 in one byte of an i32; the other bytes are those of `old_vdst`.

    >>> def example(x):
    ...     return fx.rocdl.cvt_scalef32_pk_fp4_f32(fx.Int32, 0, x, 4.0, 2.0, 1)
    >>> hex(flyc.evaluate(example, 2.0, target="cpu:gfx950"))
    '0x4200'
    """
    if dst_sel_index not in range(4):
        raise DSLValueError(f"the byte of an i32 to fill is 0 to 3, got {dst_sel_index}")
    given, factor = [Float32(as_dsl_value(x)) for x in (src0, src1)], _scale(scale)
    if _by_instruction("cvt_scale"):
        values = [x.ir_value() for x in (Int32(as_numeric(old_vdst)), *given, factor, Int32(dst_sel_index))]
        return call("cvt.scalef32.pk.fp4.f32", Int32, *values)
    pair = Vector.from_elements(given, Float32) / factor
    byte = Uint32(pair.to(Float4E2M1FN).bitcast(Uint8)[0])
    shift = 8 * dst_sel_index
    kept = Uint32(as_numeric(old_vdst)) & (0xFFFFFFFF ^ (0xFF << shift))
    return Int32(kept | (byte << shift))
