"""Floats narrower than 16 bits in arithmetic: to f32 exactly, and from f32 rounded to nearest even.

To LLVM they are integers of their width. Everything here works on scalars and vectors alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, FloatTF32Type, IntegerType, VectorType, bf16, f32
from xdsl.dialects.vector import ShuffleOp
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.upstream.llvm import BitcastOp
from ...dialects.upstream.vector import FromElementsOp
from ...ir import arith
from ...ir.builder import Builder, elem_of, i32, i64_list, operands_of
from ...ir.enums import RoundingMode
from ...ir.fold import FORMATS, FloatFormat, float_bits, signed
from ...ir.types import bit_width, vector_type
from ..rebuild import COMMON, Handler, Rebuilder
from .directed_rounding import directed, mode_of, rounded, to_odd

_NAN = 0x7FC00000


def is_small(type_: Attribute) -> bool:
    """Whether a type, or a vector's element type, is a float of less than 16 bits."""
    elem = elem_of(type_)
    return type(elem) is not IntegerType and getattr(elem, "bitwidth", 16) < 16


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
    return decode_codes(b, codes_of(b, x), elem)


def codes_of(b: Builder, x: SSAValue) -> SSAValue:
    """Stored values as i32 words.

    Elements of 6 bits are shifted out of one wide integer: LLVM's x86 code generator takes some elements of such a
    vector from the wrong bits.
    """
    if not _is_odd(x.type):
        return b.cast("extui", x, like(x.type, i32))
    words = packed_elements(b, x)
    return b.pure(FromElementsOp, words, vector_type(i32, len(words)), {})


def _is_odd(type_: Attribute) -> bool:
    return isinstance(type_, VectorType) and bit_width(elem_of(cast(Attribute, type_))) == 6


def packed_elements(b: Builder, x: SSAValue) -> list[SSAValue]:
    """The elements of a vector of integers narrower than a byte, as i32."""
    count, bits = cast(VectorType, x.type).get_shape()[0], bit_width(elem_of(x.type))
    wide = IntegerType(bits * count)
    whole = b.pure(BitcastOp, (x,), wide, {})
    parts = [b.int_binary("shrui", whole, b.const(bits * i, wide)) if i else whole for i in range(count)]
    return [b.int_binary("andi", b.cast("trunci", p, i32), b.i32((1 << bits) - 1)) for p in parts]


def packed_vector(b: Builder, words: Sequence[SSAValue], stored: Attribute) -> SSAValue:
    """A vector of integers narrower than a byte from i32 words, of which the low bits count."""
    bits = bit_width(elem_of(stored))
    wide = IntegerType(bits * len(words))
    whole = b.const(0, wide)
    for i, word in enumerate(words):
        part = b.cast("extui", b.int_binary("andi", word, b.i32((1 << bits) - 1)), wide)
        whole = b.int_binary("ori", whole, b.int_binary("shli", part, b.const(bits * i, wide)) if i else part)
    return b.pure(BitcastOp, (whole,), stored, {})


def _pack(b: Builder, code: SSAValue, stored: Attribute) -> SSAValue:
    """Words to their stored form."""
    if not _is_odd(stored):
        return b.cast("trunci", code, stored)
    return packed_vector(b, [b.extract(code, i) for i in range(cast(VectorType, stored).get_shape()[0])], stored)


def decode_codes(b: Builder, code: SSAValue, elem: Attribute) -> SSAValue:
    """Codes of a small format, in i32 words, to f32."""
    fmt = _format(elem)
    bits = _Bits(b, code.type)
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
        # The one digit of a power of two is odd, so what lies halfway goes up, to twice the value; the smallest power
        # is a subnormal of f32, where half a step is a quarter of the next power. Both zeros become the smallest.
        half = bits.pick(bits.test("ult", magnitude, 0x00800000), bits.const(0x400000), 0x200000)
        code = bits.op("shrui", bits.op("addi", magnitude, half), 23)
        code = bits.pick(bits.test("ugt", word, 0x80000000), code, 255)
        return _pack(b, bits.pick(is_nan, code, 255), stored)
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
    return _pack(b, code, stored)


# --- in the conversions -------------------------------------------------------------------------------------------


def stored_type(type_: Attribute) -> Attribute:
    """What a type is in registers: small floats are integers."""
    if not is_small(type_):
        return type_
    return like(type_, IntegerType(cast("IntegerType", elem_of(type_)).bitwidth))


def _even(type_: Attribute) -> bool:
    """Whether a type is a vector of pairs."""
    return isinstance(type_, VectorType) and len(type_.get_shape()) == 1 and type_.get_shape()[0] % 2 == 0


def from_pairs(b: Builder, x: SSAValue, type_: Attribute) -> SSAValue:
    """Pairs of bfloat16 as f32: one lies in the upper half of a word already, the other is shifted there."""
    count = cast(VectorType, x.type).get_shape()[0] // 2
    words, floats = vector_type(i32, count), vector_type(f32, count)
    word = b.pure(BitcastOp, (x,), words, {})
    low = b.cast("bitcast", b.int_binary("shli", word, b.const(16, words)), floats)
    high = b.cast("bitcast", b.int_binary("andi", word, b.const(-65536, words)), floats)
    mask = i64_list(tuple(i + half * count for i in range(count) for half in range(2)))
    return b.pure(ShuffleOp, (low, high), type_, {"mask": mask})


def _extf(r: Rebuilder, op: Operation) -> None:
    (x,) = operands_of(op)
    result, value = op.results[0], r.val(x)
    if r.pairs_bf16 and elem_of(x.type) == bf16 and elem_of(result.type) == f32 and _even(x.type):
        r.vm[result] = from_pairs(r.b, value, result.type)
        return
    if not is_small(x.type):
        r.vm[result] = r.b.cast("extf", value, result.type)
        return
    exact = decode(r.b, value, elem_of(x.type))
    target = elem_of(result.type)
    if target == f32:
        made = exact
    else:
        name = "extf" if bit_width(target) > 32 else "truncf"
        made = r.b.cast(name, exact, result.type)
    r.vm[result] = made
    r.widened[made] = x.type


def _truncf(r: Rebuilder, op: Operation) -> None:
    (x,) = operands_of(op)
    result, value = op.results[0], r.val(x)
    mode = mode_of(op)
    if not is_small(result.type):
        if mode is None:
            r.copy(op)
        else:
            r.vm[result] = rounded(r.b, value, mode, result.type)
        return
    r.missed |= r.widened.get(value) == result.type
    if is_small(x.type):
        value = decode(r.b, value, elem_of(x.type))
    if mode is not None:
        r.vm[result] = _directed(r.b, value, mode, elem_of(result.type))
        return
    if bit_width(elem_of(x.type)) > 32:
        value = to_odd(r.b, value, like(x.type, f32))
    elif not is_small(x.type) and elem_of(x.type) != f32:
        value = r.b.cast("extf", value, like(x.type, f32))
    r.vm[result] = encode(r.b, value, elem_of(result.type))


def _directed(b: Builder, value: SSAValue, mode: RoundingMode, elem: Attribute) -> SSAValue:
    """The value rounded by a mode to a small format; compared in f32, or in f64 where it is one."""
    wide = elem_of(value.type)
    if bit_width(wide) < 32:
        value, wide = b.cast("extf", value, like(value.type, f32)), f32

    def narrow(x: SSAValue) -> SSAValue:
        return encode(b, x if wide == f32 else b.cast("truncf", x, like(x.type, f32)), elem)

    def widen(bits: SSAValue) -> SSAValue:
        exact = decode(b, bits, elem)
        return exact if wide == f32 else b.cast("extf", exact, value.type)

    return directed(b, value, mode, narrow, widen, elem)


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
    dict[type[Operation], Handler], {arith.ExtFOp: _extf, arith.TruncFOp: _truncf, arith.ConstantOp: _constant}
)
