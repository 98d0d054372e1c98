"""Conversions to narrower floats with a rounding mode, in the conversions: no target has them all.

A value rounded somehow is one of the two neighbours of the exact one. Read back and compared, it tells whether the
other is meant, which is one step away in the order of the bit patterns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import BFloat16Type, IntegerType, f32
from xdsl.dialects.math import AbsFOp
from xdsl.ir import Attribute, Operation, SSAValue

from ...ir.arith import ROUNDING_MODE
from ...ir.builder import Builder, elem_of
from ...ir.enums import RoundingMode
from ...ir.types import bit_width, vector_type

if TYPE_CHECKING:
    from xdsl.dialects.builtin import VectorType

Convert = Callable[[SSAValue], SSAValue]


def mode_of(op: Operation) -> RoundingMode | None:
    """The rounding mode of an `arith.truncf`; None for the usual one, to nearest even."""
    attr: Any = op.properties.get(ROUNDING_MODE)
    mode = None if attr is None else RoundingMode(attr.value.data)
    return None if mode is RoundingMode.to_nearest_even else mode


def directed(b: Builder, x: SSAValue, mode: RoundingMode, narrow: Convert, widen: Convert, elem: Attribute) -> SSAValue:
    """Bits of `x` rounded by `mode` to the format `elem`.

    `narrow` gives the bits of a neighbour as integers, the nearest or the one nearer to zero; `widen` gives their value
    in the type of `x`.
    """
    bits = narrow(x)
    near = widen(bits)
    name = str(elem)
    if mode is RoundingMode.to_nearest_away:
        other = _away(b, bits, x, name)
        # Both distances are exact; they agree for a number half-way between two neighbours.
        here, there = _distance(b, x, near), _distance(b, x, widen(other))
        farther = b.int_binary("andi", b.cmpf("oge", here, there), b.cmpf("one", x, near))
        return b.select(farther, other, bits)
    up = _toward(b, bits, name, up=True)
    down = _toward(b, bits, name, up=False)
    too_low, too_high = b.cmpf("olt", near, x), b.cmpf("ogt", near, x)
    if mode is RoundingMode.upward:
        return b.select(too_low, up, bits)
    if mode is RoundingMode.downward:
        return b.select(too_high, down, bits)
    negative = b.cmpf("olt", x, b.const(0.0, x.type))
    return b.select(negative, b.select(too_low, up, bits), b.select(too_high, down, bits))


def _distance(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    return b.pure(AbsFOp, (b.float_binary("subf", x, y),), x.type, {})


def _number(b: Builder, like: SSAValue, value: int) -> SSAValue:
    return b.const(value, like.type)


def _away(b: Builder, bits: SSAValue, x: SSAValue, name: str) -> SSAValue:
    """The neighbour farther from zero."""
    found = b.int_binary("addi", bits, _number(b, bits, 1))
    if not name.endswith("FNUZ"):
        return found
    # Zero has no sign there, so that of `x` says on which side its neighbour is.
    below = b.int_binary("andi", b.cmpf("olt", x, b.const(0.0, x.type)), b.cmpi("eq", bits, _number(b, bits, 0)))
    return b.select(below, _number(b, bits, 1 - (1 << (bit_width(elem_of(bits.type)) - 1))), found)


def _toward(b: Builder, bits: SSAValue, name: str, *, up: bool) -> SSAValue:
    """The neighbour above or below; bit patterns are a sign and a magnitude."""
    one = _number(b, bits, 1)
    more, less = b.int_binary("addi", bits, one), b.int_binary("subi", bits, one)
    if name == "f8E8M0FNU":  # It has no sign.
        return more if up else less
    width = bit_width(elem_of(bits.type))
    sign = -(1 << (width - 1))
    negative = b.cmpi("slt", bits, _number(b, bits, 0))
    found = b.select(negative, less, more) if up else b.select(negative, more, less)
    if name.endswith("FNUZ"):  # Zero has no sign there: its pattern with one is NaN.
        if up:
            found = b.select(b.cmpi("eq", found, _number(b, bits, sign)), _number(b, bits, 0), found)
        else:
            smallest = _number(b, bits, sign + 1)
            found = b.select(b.cmpi("eq", bits, _number(b, bits, 0)), smallest, found)
    return found


def rounded(b: Builder, x: SSAValue, mode: RoundingMode, type_: Attribute) -> SSAValue:
    """`arith.truncf` of a value to f32, f16 or bf16 with a mode."""
    bits_type = _shaped(type_, IntegerType(bit_width(elem_of(type_))))

    def narrow(v: SSAValue) -> SSAValue:
        if isinstance(elem_of(type_), BFloat16Type):
            return _upper_half(b, v, bits_type)
        return b.cast("bitcast", b.cast("truncf", v, type_), bits_type)

    def widen(v: SSAValue) -> SSAValue:
        return b.cast("extf", b.cast("bitcast", v, type_), x.type)

    return b.cast("bitcast", directed(b, x, mode, narrow, widen, elem_of(type_)), type_)


def to_odd(b: Builder, x: SSAValue, type_: Attribute) -> SSAValue:
    """The f32 neighbour whose last bit is set, unless `x` is one exactly: rounding that once more rounds `x` itself."""
    near = rounded(b, x, RoundingMode.toward_zero, type_)
    words = _shaped(type_, IntegerType(32))
    bits = b.cast("bitcast", near, words)
    inexact = b.cmpf("one", b.cast("extf", near, x.type), x)
    return b.cast("bitcast", b.select(inexact, b.int_binary("ori", bits, b.const(1, words)), bits), type_)


def _shaped(like: Attribute, elem: Attribute) -> Attribute:
    return vector_type(elem, cast("VectorType", like).get_shape()[0]) if hasattr(like, "get_shape") else elem


def _upper_half(b: Builder, x: SSAValue, bits_type: Attribute) -> SSAValue:
    """The bfloat16 nearer to zero: the upper half of an f32. Instructions for it take subnormals for zero."""
    single = _shaped(x.type, f32)
    if bit_width(elem_of(x.type)) > 32:
        x = rounded(b, x, RoundingMode.toward_zero, single)
    elif x.type != single:
        x = b.cast("extf", x, single)
    words = _shaped(x.type, IntegerType(32))
    half = b.int_binary("shrui", b.cast("bitcast", x, words), b.const(16, words))
    found = b.cast("trunci", half, bits_type)
    # What is cut off a NaN may be all that tells it from infinity.
    quiet = b.int_binary("ori", found, b.const(0x40, bits_type))
    return b.select(b.cmpf("uno", x, x), quiet, found)
