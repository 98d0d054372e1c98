"""Arithmetic of one lane: transcendental functions, bit fields, and sums of products of small numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from xdsl.dialects import math
from xdsl.dialects.builtin import f32, f64, i1
from xdsl.ir import Attribute, SSAValue

from ...ir import arith
from ...ir.builder import i32, i64
from ...ir.types import bit_width
from .rule_tools import Arg, Rule, as_integer, elements, llvm_call, saturated, widened
from .small_formats import format_of, unpacked

if TYPE_CHECKING:
    from .instructions import EmulatedInstructions

_SMALLEST = 2.0**-126
_LARGEST = {"f32": 3.4028234663852886e38, "f64": 1.7976931348623157e308, "f16": 65504.0}


def _unary(r: EmulatedInstructions, cls: type[math.Exp2Op] | type[math.Log2Op] | type[math.SqrtOp], x: SSAValue):
    return r.expanded(cls, (x,), (x.type,), x.type)


def _exp2(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """Results below the normal range are 0."""
    x = r.word(args[0], f32)
    made = _unary(r, math.Exp2Op, x)
    if x.type != f32:
        return made
    return r.b.select(r.b.cmpf("olt", x, r.b.const(-126.0, f32)), r.b.const(0.0, f32), made)


def _log2(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """Numbers below the normal range count as 0."""
    x = r.word(args[0], f32)
    made = _unary(r, math.Log2Op, x)
    if x.type != f32:
        return made
    size = r.expanded(math.AbsFOp, (x,), (f32,), f32)
    tiny = r.b.cmpf("olt", size, r.b.const(_SMALLEST, f32))
    return r.b.select(tiny, r.b.const(float("-inf"), f32), made)


def _sqrt(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    return _unary(r, math.SqrtOp, r.word(args[0], f32))


def _rcp(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    x = r.word(args[0], f32)
    return r.b.float_binary("divf", r.b.const(1.0, x.type), x)


def _rsq(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    return _rcp(r, [_sqrt(r, args, type_)], type_)


def _clamped(rule: Rule) -> Rule:
    """A result that is infinite, or no number, becomes the largest number: chips do it by a minimum and a maximum."""

    def clamped(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        made = cast(SSAValue, rule(r, args, type_))
        top = r.b.const(_LARGEST[str(made.type)], made.type)
        return r.b.float_binary("maxnumf", r.b.float_binary("minnumf", made, top), r.b.negf(top))

    return clamped


def _turns(cls: type[math.SinOp] | type[math.CosOp]) -> Rule:
    """Sine or cosine of an angle in turns."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        x = r.word(args[0], f32)
        wide = r.b.cast("extf", x, f64) if x.type != f64 else x
        angle = r.b.float_binary("mulf", wide, r.b.const(6.283185307179586, f64))
        made = r.expanded(cls, (angle,), (f64,), f64)
        return r.b.cast("truncf", made, x.type) if x.type != f64 else made

    return rule


def _tanh(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    x = r.word(args[0], f32)
    wide = x if x.type == f32 else r.expanded(arith.ExtFOp, (x,), (x.type,), f32)
    made = r.expanded(math.TanhOp, (wide,), (f32,), f32)
    return made if x.type == f32 else r.expanded(arith.TruncFOp, (made,), (f32,), x.type)


def _fract(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """What is above the whole number below; less than 1, also where the difference rounds to it."""
    b, x = r.b, r.word(args[0], f32)
    made = b.float_binary("subf", x, r.expanded(math.FloorOp, (x,), (x.type,), x.type))
    below = b.const({"f16": 1 - 2.0**-11, "f32": 1 - 2.0**-24, "f64": 1 - 2.0**-53}[str(x.type)], x.type)
    return b.select(b.cmpf("oeq", made, b.const(1.0, x.type)), below, made)


def _frexp(part: int) -> Rule:
    """Significand or exponent of a number, `0.5 <= significand < 1`; of no number, itself and 0."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b, x = r.b, r.word(args[0], f32)
        wide = b.cast("extf", x, f64) if x.type != f64 else x
        bits = b.cast("bitcast", wide, i64)
        # Subnormal numbers of f64 are made normal first; of the others the extension has done it.
        scaled = b.cast("bitcast", b.float_binary("mulf", wide, b.const(2.0**64, f64)), i64)
        field = b.int_binary("andi", b.int_binary("shrui", bits, b.const(52, i64)), b.const(0x7FF, i64))
        tiny = b.cmpi("eq", field, b.const(0, i64))
        used = b.select(tiny, scaled, bits)
        exponent = b.int_binary("andi", b.int_binary("shrui", used, b.const(52, i64)), b.const(0x7FF, i64))
        odd = b.int_binary("ori", b.cmpi("eq", field, b.const(0x7FF, i64)), b.cmpf("oeq", wide, b.const(0.0, f64)))
        if part:
            power = b.int_binary("subi", exponent, b.const(1022, i64))
            power = b.select(tiny, b.int_binary("subi", power, b.const(64, i64)), power)
            return b.cast("trunci", b.select(odd, b.const(0, i64), power), cast(Attribute, type_))
        kept = b.int_binary("andi", used, b.const(-0x7FF0000000000001, i64))
        made = b.cast("bitcast", b.int_binary("ori", kept, b.const(0x3FE0000000000000, i64)), f64)
        made = b.select(odd, wide, made)
        return made if x.type == f64 else b.cast("truncf", made, x.type)

    return rule


def _class(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """Whether a number is of one of the classes of a mask, whose bits are those of LLVM's `is.fpclass`."""
    b, x = r.b, r.word(args[0], f32)
    mask, made = r.word(args[1]), b.const(0, i1)
    for bit in range(10):
        own = llvm_call(r, f"llvm.is.fpclass.{x.type}", (x, b.i32(1 << bit)), i1)
        asked = b.cmpi("ne", b.int_binary("andi", mask, b.i32(1 << bit)), b.i32(0))
        made = b.int_binary("ori", made, b.int_binary("andi", own, asked))
    return made


def _fmed3(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    a, b, c = (r.word(x, f32) for x in args)
    low, high = r.b.float_binary("minnumf", a, b), r.b.float_binary("maxnumf", a, b)
    return r.b.float_binary("maxnumf", low, r.b.float_binary("minnumf", high, c))


def _legacy(rule: Rule) -> Rule:
    """A product in which 0 times anything is 0."""

    def legacy(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b, zero = r.b, r.b.const(0.0, f32)
        x, y = (r.word(a, f32) for a in args[:2])
        none = b.int_binary("ori", b.cmpf("oeq", x, zero), b.cmpf("oeq", y, zero))
        plain = cast(SSAValue, rule(r, args, type_))
        return b.select(none, r.word(args[2], f32) if len(args) > 2 else zero, plain)

    return legacy


def _fma(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    values = [r.word(a, f32) for a in args[:3]]
    return r.expanded(math.FmaOp, values, [v.type for v in values], values[0].type)


def _fmul(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    return r.b.float_binary("mulf", r.word(args[0], f32), r.word(args[1], f32))


# --- bytes and bit fields -----------------------------------------------------------------------------------------


def _byte(r: EmulatedInstructions, x: SSAValue, at: SSAValue) -> SSAValue:
    """Byte `at` (i64) of an i64."""
    b = r.b
    moved = b.int_binary("shrui", x, b.int_binary("shli", at, b.const(3, i64)))
    return b.int_binary("andi", moved, b.const(0xFF, i64))


def _perm(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    b = r.b
    high, low, select = (b.cast("extui", r.word(a), i64) for a in args)
    words = b.int_binary("ori", b.int_binary("shli", high, b.const(32, i64)), low)
    made = b.const(0, i64)
    for i in range(4):
        pick = _byte(r, select, b.const(i, i64))
        plain = _byte(r, words, b.int_binary("andi", pick, b.const(7, i64)))
        half = b.int_binary("shli", b.int_binary("andi", pick, b.const(3, i64)), b.const(4, i64))
        sign_at = b.int_binary("addi", half, b.const(15, i64))
        sign = b.int_binary("andi", b.int_binary("shrui", words, sign_at), b.const(1, i64))
        sign = b.int_binary("muli", sign, b.const(0xFF, i64))
        special = b.select(b.cmpi("eq", pick, b.const(12, i64)), b.const(0, i64), b.const(0xFF, i64))
        value = b.select(
            b.cmpi("ult", pick, b.const(8, i64)), plain, b.select(b.cmpi("ult", pick, b.const(12, i64)), sign, special)
        )
        made = b.int_binary("ori", made, b.int_binary("shli", value, b.const(8 * i, i64)))
    return b.cast("trunci", made, i32)


def _shifted_pair(step: int) -> Rule:
    """`{high, low} >> (step * count)`: `alignbyte` and `alignbit`."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b = r.b
        high, low, count = (b.cast("extui", r.word(a), i64) for a in args)
        count = b.int_binary("andi", count, b.const(31 // step, i64))
        words = b.int_binary("ori", b.int_binary("shli", high, b.const(32, i64)), low)
        moved = b.int_binary("shrui", words, b.muli(count, b.const(step, i64)))
        return b.cast("trunci", moved, i32)

    return rule


def _field(signed: bool) -> Rule:
    """Some bits of a word from one on; those of none are 0."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b = r.b
        value = r.word(args[0])
        width = bit_width(value.type)
        start, count = (
            b.int_binary("andi", b.cast("extui", r.word(a), i64), b.const(width - 1, i64)) for a in args[1:3]
        )
        wide = widened(r, value, signed)
        moved = b.int_binary("shrsi" if signed else "shrui", wide, start)
        rest = b.int_binary("subi", b.const(64, i64), count)
        rest = b.int_binary("andi", rest, b.const(63, i64))
        cut = b.int_binary("shrsi" if signed else "shrui", b.int_binary("shli", moved, rest), rest)
        made = b.select(b.cmpi("eq", count, b.const(0, i64)), b.const(0, i64), cut)
        return made if value.type == i64 else b.cast("trunci", made, value.type)

    return rule


def _bitop3(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """Any function of three bits: a table of eight."""
    b = r.b
    x, y, z = (r.word(a) for a in args[:3])
    table, ones, made = r.number(args[3]), b.const(-1, x.type), b.const(0, x.type)
    for row in range(8):
        if table >> row & 1:
            parts = [v if row >> bit & 1 else b.int_binary("xori", v, ones) for v, bit in ((x, 2), (y, 1), (z, 0))]
            made = b.int_binary("ori", made, b.int_binary("andi", b.int_binary("andi", parts[0], parts[1]), parts[2]))
    return made


def _product24(signed: bool, high: bool) -> Rule:
    """The product of the low 24 bits of two words."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b, parts = r.b, list[SSAValue]()
        for a in args:
            top = b.int_binary("shli", b.cast("extui", r.word(a), i64), b.const(40, i64))
            parts.append(b.int_binary("shrsi" if signed else "shrui", top, b.const(40, i64)))
        made = b.muli(parts[0], parts[1])
        if high:
            made = b.int_binary("shrui", made, b.const(32, i64))
        return made if type_ == i64 else b.cast("trunci", made, i32)

    return rule


def _sad(masked: bool) -> Rule:
    """Sum of the differences of four bytes, plus a word; `masked`: bytes of the second operand that are 0 do not
    count."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b = r.b
        x, y, total = (r.word(a) for a in args)
        for i in range(4):
            left, right = (b.int_binary("andi", b.int_binary("shrui", v, b.i32(8 * i)), b.i32(255)) for v in (x, y))
            gap = b.int_binary("subi", b.int_binary("maxui", left, right), b.int_binary("minui", left, right))
            if masked:
                gap = b.select(b.cmpi("eq", right, b.i32(0)), b.i32(0), gap)
            total = b.addi(total, gap)
        return total

    return rule


# --- sums of products ---------------------------------------------------------------------------------------------


def _dot(bits: int, signs: tuple[bool, bool] | None) -> Rule:
    """Sum of products of the small integers in two words, plus a word; `None`: the literals in front of them say."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b = r.b
        if signs is None:
            first, x, second, y, total, clamp = args
            pair, left, right = (bool(r.number(first)), bool(r.number(second))), r.word(x), r.word(y)
        else:
            left, right, total, clamp = r.word(args[0]), r.word(args[1]), args[2], args[3]
            pair = signs
        signed = pair[0] or pair[1]
        words = [as_integer(r, v) for v in (left, right)]
        found = widened(r, r.word(total), signed)
        for i in range(32 // bits):
            parts: list[SSAValue] = []
            for word, sign in zip(words, pair, strict=True):
                top = b.int_binary("shli", word, b.i32(32 - bits * (i + 1)))
                part = b.int_binary("shrsi" if sign else "shrui", top, b.i32(32 - bits))
                parts.append(widened(r, part, sign))
            found = b.addi(found, b.muli(parts[0], parts[1]))
        if r.number(clamp):
            limits = (-(2**31), 2**31 - 1) if signed else (0, 2**32 - 1)
            found = saturated(r, found, *limits)
        return b.cast("trunci", found, i32)

    return rule


def _float_dot(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """Products of two pairs of 16-bit floats and a third number, rounded once."""
    b, x, y, start = r.b, r.word(args[0]), r.word(args[1]), r.word(args[2])
    out = cast(Attribute, type_)

    def exact(v: SSAValue) -> SSAValue:
        return b.cast("extf", v if v.type == f32 else r.expanded(arith.ExtFOp, (v,), (v.type,), f32), f64)

    total = exact(start)
    for left, right in zip(elements(r, x), elements(r, y), strict=True):
        total = b.float_binary("addf", total, b.float_binary("mulf", exact(left), exact(right)))
    if len(args) > 3 and r.number(args[3]):
        zero, one = b.const(0.0, f64), b.const(1.0, f64)
        total = b.float_binary("minnumf", b.float_binary("maxnumf", total, zero), one)
    if out == f32:
        return b.cast("truncf", total, f32)
    return r.expanded(arith.TruncFOp, (total,), (f64,), out)


def _small_dot(first: str, second: str) -> Rule:
    """Products of four pairs of 8-bit floats and an f32, rounded once."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b = r.b
        sides = [
            unpacked(r, r.word(a), format_of(r, word), 4) for a, word in zip(args[:2], (first, second), strict=True)
        ]
        total = b.cast("extf", r.word(args[2], f32), f64)
        for left, right in zip(*sides, strict=True):
            product = b.float_binary("mulf", b.cast("extf", left, f64), b.cast("extf", right, f64))
            total = b.float_binary("addf", total, product)
        return b.cast("truncf", total, f32)

    return rule


def _saturating(signed: bool, larger: bool) -> Rule:
    """The larger or smaller of a sum and a third number, `add.max` and `add.min`; the sum wraps unless it clamps."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b = r.b
        x, y, z = (widened(r, r.word(a), signed) for a in args[:3])
        total = b.addi(x, y)
        if r.number(args[3]):
            total = saturated(r, total, *((-(2**31), 2**31 - 1) if signed else (0, 2**32 - 1)))
        else:
            total = widened(r, b.cast("trunci", total, i32), signed)
        name = ("max" if larger else "min") + ("si" if signed else "ui")
        return b.cast("trunci", b.int_binary(name, total, z), i32)

    return rule


def _random(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """One step of a shift register of 32 bits."""
    b, x = r.b, r.word(args[0])
    negative = b.cmpi("slt", x, b.i32(0))
    twice = b.int_binary("shli", x, b.i32(1))
    return b.int_binary("xori", twice, b.select(negative, b.i32(197), b.i32(0)))


def _cycles(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    return llvm_call(r, "llvm.readcyclecounter", (), i64)


def _sign_bits(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """How many bits at the top are like the sign; -1 where all are."""
    b, x = r.b, r.word(args[0])
    folded = b.int_binary("xori", x, b.int_binary("shrsi", x, b.i32(31)))
    count = llvm_call(r, "llvm.ctlz.i32", (folded, b.const(0, i1)), i32)
    return b.select(b.cmpi("eq", folded, b.i32(0)), b.i32(-1), count)


def _lerp(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """The mean of four pairs of bytes; a bit of the third word rounds it up."""
    b = r.b
    x, y, z = (r.word(a) for a in args)
    made = b.i32(0)
    for i in range(4):
        left, right = (b.int_binary("andi", b.int_binary("shrui", v, b.i32(8 * i)), b.i32(255)) for v in (x, y))
        up = b.int_binary("andi", b.int_binary("shrui", z, b.i32(8 * i)), b.i32(1))
        mean = b.int_binary("shrui", b.addi(b.addi(left, right), up), b.i32(1))
        made = b.int_binary("ori", made, b.int_binary("shli", mean, b.i32(8 * i)))
    return made


RULES: dict[str, Rule] = {
    "exp2": _exp2,
    "log": _log2,
    "log.clamp": _clamped(_log2),
    "sqrt": _sqrt,
    "rsq": _rsq,
    "rsq.clamp": _clamped(_rsq),
    "rcp": _rcp,
    "sin": _turns(math.SinOp),
    "cos": _turns(math.CosOp),
    "tanh": _tanh,
    "fract": _fract,
    "frexp.mant": _frexp(0),
    "frexp.exp": _frexp(1),
    "class": _class,
    "fmed3": _fmed3,
    "fma.legacy": _legacy(_fma),
    "fmul.legacy": _legacy(_fmul),
    "perm": _perm,
    "alignbyte": _shifted_pair(8),
    "ubfe": _field(False),
    "sbfe": _field(True),
    "bitop3": _bitop3,
    "mul.i24": _product24(True, False),
    "mul.u24": _product24(False, False),
    "mulhi.i24": _product24(True, True),
    "mulhi.u24": _product24(False, True),
    "sad.u8": _sad(False),
    "msad.u8": _sad(True),
    "lerp": _lerp,
    "sffbh": _sign_bits,
    "prng.b32": _random,
    "s.memtime": _cycles,
    "s.memrealtime": _cycles,
    "sdot4": _dot(8, (True, True)),
    "udot4": _dot(8, (False, False)),
    "sdot8": _dot(4, (True, True)),
    "udot8": _dot(4, (False, False)),
    "sdot2": _dot(16, (True, True)),
    "udot2": _dot(16, (False, False)),
    "sudot4": _dot(8, None),
    "sudot8": _dot(4, None),
    **{f"fdot2{kind}": _float_dot for kind in ("", ".f16.f16", ".bf16.bf16", ".f32.bf16", "c.f32.bf16")},
    **{f"dot4.f32.{a}.{b}": _small_dot(a, b) for a in ("fp8", "bf8") for b in ("fp8", "bf8")},
    **{
        f"add.{word}.{'i' if signed else 'u'}32": _saturating(signed, word == "max")
        for word in ("max", "min")
        for signed in (True, False)
    },
}
"""The meaning of each intrinsic."""

alignbit = _shifted_pair(1)
"""`v_alignbit_b32`."""
