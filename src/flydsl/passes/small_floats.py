"""Floats narrower than 16 bits in arithmetic: to f32 exactly, and from f32 rounded to nearest even.

To LLVM they are integers of their width. Everything here works on scalars and vectors alike.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, FloatTF32Type, IntegerType, VectorType, f32
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects.builder import Builder, elem_of, i32, operands_of
from ..dialects.fly.ops import vector_type
from ..dialects.fly.types import bit_width
from ..dialects.fold import FORMATS, FloatFormat, float_bits, signed
from .rebuild import COMMON, Handler, Rebuilder

_NAN = 0x7FC00000


def is_small(type_: Attribute) -> bool:
    """Whether a type, or a vector's element type, is a float of less than 16 bits."""
    elem = elem_of(type_)
    return not isinstance(elem, IntegerType) and getattr(elem, "bitwidth", 16) < 16


def like(type_: Attribute, elem: Attribute) -> Attribute:
    """`elem`, or a vector of it as long as `type_`."""
    return vector_type(elem, cast(VectorType, type_).get_shape()[0]) if isinstance(type_, VectorType) else elem


def _format(elem: Attribute) -> FloatFormat:
    return FORMATS[str(elem)]


class _Bits:
    """Integer arithmetic on i32 words of the shape of a value."""

    def __init__(self, b: Builder, type_: Attribute):
        self.b = b
        self.int_type = like(type_, i32)
        self.float_type = like(type_, f32)

    def const(self, value: int) -> SSAValue:
        return self.b.const(value - (1 << 32) if value >= 1 << 31 else value, self.int_type)

    def op(self, name: str, x: SSAValue, y: SSAValue | int) -> SSAValue:
        return self.b.int_binary(name, x, self.const(y) if isinstance(y, int) else y)

    def test(self, predicate: str, x: SSAValue, y: int) -> SSAValue:
        return self.b.cmpi(predicate, x, self.const(y))

    def pick(self, flag: SSAValue, x: SSAValue, y: SSAValue | int) -> SSAValue:
        """`y` where the flag holds, else `x`."""
        return self.b.select(flag, self.const(y) if isinstance(y, int) else y, x)

    def as_float(self, x: SSAValue) -> SSAValue:
        return self.b.cast("bitcast", x, self.float_type)

    def as_int(self, x: SSAValue) -> SSAValue:
        return self.b.cast("bitcast", x, self.int_type)


def decode(b: Builder, x: SSAValue, elem: Attribute) -> SSAValue:
    """Values of element type `elem`, as they are stored, to f32."""
    if isinstance(elem, FloatTF32Type):
        bits = _Bits(b, x.type)
        return bits.as_float(bits.op("andi", bits.as_int(x), -(1 << 13)))
    if not is_small(elem):
        return x if elem == f32 else b.cast("extf", x, like(x.type, f32))
    fmt = _format(elem)
    bits = _Bits(b, x.type)
    code = b.cast("extui", x, bits.int_type)
    if not fmt.signed:
        shifted = bits.pick(bits.test("eq", code, 0), bits.op("shli", code, 23), 0x00400000)
        return bits.as_float(bits.pick(bits.test("eq", code, 255), shifted, _NAN))
    mantissa, top = fmt.mantissa_bits, (1 << fmt.exponent_bits) - 1
    magnitude = bits.op("andi", code, (1 << (fmt.width - 1)) - 1)
    raised = bits.op("shli", magnitude, 23 - mantissa)
    # The fields are in place of an f32's: only the bias is wrong, and multiplying by a power of two mends it.
    scaled = b.float_binary("mulf", bits.as_float(raised), b.const(2.0 ** (127 - fmt.bias), bits.float_type))
    word = bits.as_int(scaled)
    if fmt.overflow == "inf":
        special = bits.op("ori", raised, 0x7F800000)
        word = b.select(bits.test("uge", magnitude, top << mantissa), special, word)
    elif fmt.overflow == "nan" and fmt.negative_zero:
        word = bits.pick(bits.test("eq", magnitude, (1 << (fmt.width - 1)) - 1), word, _NAN)
    sign = bits.op("shli", bits.op("shrui", code, fmt.width - 1), 31)
    word = bits.op("ori", word, sign)
    if not fmt.negative_zero:
        word = bits.pick(bits.test("eq", code, 1 << (fmt.width - 1)), word, _NAN)
    return bits.as_float(word)


def encode(b: Builder, x: SSAValue, elem: Attribute) -> SSAValue:
    """f32 values to the stored form of `elem`, rounded to nearest even; overflow as the format has it."""
    fmt = _format(elem)
    bits = _Bits(b, x.type)
    stored = like(x.type, IntegerType(fmt.width))
    word = bits.as_int(x)
    magnitude = bits.op("andi", word, 0x7FFFFFFF)
    is_nan = bits.test("ugt", magnitude, 0x7F800000)
    if not fmt.signed:
        odd = bits.op("andi", bits.op("shrui", magnitude, 23), 1)
        code = bits.op("shrui", bits.op("addi", bits.op("addi", magnitude, 0x3FFFFF), odd), 23)
        code = bits.pick(bits.test("slt", word, 0), code, 255)
        return b.cast("trunci", bits.pick(is_nan, code, 255), stored)
    mantissa = fmt.mantissa_bits
    odd = bits.op("andi", bits.op("shrui", magnitude, 23 - mantissa), 1)
    rounded = bits.op("addi", bits.op("addi", magnitude, (1 << (22 - mantissa)) - 1), odd)
    normal = bits.op("subi", bits.op("shrui", rounded, 23 - mantissa), (127 - fmt.bias) << mantissa)
    # Below the normal range an addition rounds to the format's smallest step.
    anchor = float_bits(2.0 ** (fmt.tiny + 23), "f32")
    tiny = b.float_binary("addf", bits.as_float(magnitude), bits.as_float(bits.const(anchor)))
    subnormal = bits.op("subi", bits.as_int(tiny), anchor)
    code = b.select(bits.test("ult", magnitude, float_bits(2.0 ** (1 - fmt.bias), "f32")), subnormal, normal)
    largest = float_bits(fmt.max, str(elem))
    beyond = largest if fmt.overflow == "max" else float_bits(float(fmt.overflow), str(elem))
    nan = float_bits(float("nan"), str(elem))
    sign_bit = 1 << (fmt.width - 1)
    signed_beyond = fmt.negative_zero
    if signed_beyond:
        code = bits.pick(bits.test("sgt", code, largest), code, beyond)
    sign = bits.op("andi", bits.op("shrui", word, 32 - fmt.width), sign_bit)
    if fmt.negative_zero:
        code = bits.op("ori", bits.pick(is_nan, code, nan), sign)
    else:
        over = b.int_binary("ori", bits.test("sgt", code, largest), is_nan)
        zero = bits.test("eq", code, 0)
        code = bits.pick(zero, bits.op("ori", code, sign), 0)
        code = bits.pick(over, code, nan)
    return b.cast("trunci", code, stored)


# --- in the conversions -------------------------------------------------------------------------------------------


def stored_type(type_: Attribute) -> Attribute:
    """What a type is in registers: small floats are integers."""
    if not is_small(type_):
        return type_
    return like(type_, IntegerType(cast(Any, elem_of(type_)).bitwidth))


def _extf(r: Rebuilder, op: Operation) -> None:
    (x,) = operands_of(op)
    result, value = op.results[0], r.val(x)
    if not is_small(x.type):
        r.vm[result] = r.b.cast("extf", value, result.type)
        return
    exact = decode(r.b, value, elem_of(x.type))
    target = elem_of(result.type)
    if target == f32:
        r.vm[result] = exact
    else:
        name = "extf" if bit_width(target) > 32 else "truncf"
        r.vm[result] = r.b.cast(name, exact, result.type)


def _truncf(r: Rebuilder, op: Operation) -> None:
    (x,) = operands_of(op)
    result, value = op.results[0], r.val(x)
    if not is_small(result.type):
        r.copy(op)
        return
    if is_small(x.type):
        value = decode(r.b, value, elem_of(x.type))
    elif elem_of(x.type) != f32:
        value = r.b.cast("extf" if bit_width(elem_of(x.type)) < 32 else "truncf", value, like(x.type, f32))
    r.vm[result] = encode(r.b, value, elem_of(result.type))


def _constant(r: Rebuilder, op: arith.ConstantOp) -> None:
    result, attr = op.results[0], op.properties["value"]
    if not is_small(result.type):
        COMMON[arith.ConstantOp](r, op)
        return
    elem, type_ = elem_of(result.type), stored_type(result.type)
    if isinstance(attr, FloatAttr):
        r.vm[result] = r.b.const(float_bits(cast(Any, attr).value.data, str(elem)), type_)
        return
    codes = [float_bits(float(v), str(elem)) for v in cast(Any, attr).get_values()]
    value = DenseIntOrFPElementsAttr.from_list(cast(Any, type_), [signed(c, bit_width(elem)) for c in codes])
    r.vm[result] = r.b.pure(arith.ConstantOp, (), type_, {"value": value})


HANDLERS = cast(
    dict[type[Operation], Handler],
    {arith.ExtFOp: _extf, arith.TruncFOp: _truncf, arith.ConstantOp: _constant},
)

__all__ = ["HANDLERS", "decode", "encode", "is_small", "like", "stored_type"]
