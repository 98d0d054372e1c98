"""Conversions between f32, f16, bf16 and the formats of four to eight bits, scaled or not, also rounded at random.

A scale is the power of two of its exponent: small numbers are multiplied by it, numbers that become small divided.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from xdsl.dialects import math
from xdsl.dialects.builtin import Float8E8M0FNUType, IntegerType, bf16, f16, f32
from xdsl.ir import Attribute, SSAValue

from ...ir import arith
from ...ir.builder import i32
from ...ir.types import bit_width
from ...lowering.expand.small_floats import decode_codes
from .rule_tools import Arg, Rule, as_integer, bits_of, elements, i16, saturated, vector_of, widened
from .small_formats import format_of, packed, replaced, rounded_at_random, unpacked

if TYPE_CHECKING:
    from .instructions import EmulatedInstructions

_WIDE: dict[str, Attribute] = {"f32": f32, "f16": f16, "bf16": bf16}


def to_f32(r: EmulatedInstructions, x: SSAValue) -> SSAValue:
    """A float of 16 or 32 bits as f32."""
    return x if x.type == f32 else r.expanded(arith.ExtFOp, (x,), (x.type,), f32)


def from_f32(r: EmulatedInstructions, x: SSAValue, type_: Attribute) -> SSAValue:
    """An f32 rounded to nearest even."""
    return x if type_ == f32 else r.expanded(arith.TruncFOp, (x,), (f32,), type_)


# --- without a scale ----------------------------------------------------------------------------------------------


def _pack_pair(word: str) -> Rule:
    """Two f32 as bytes of one half of a word."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        pair = packed(r, [r.word(x, f32) for x in args[:2]], format_of(r, word), i16)
        return replaced(r, r.word(args[2]), pair, 16 * r.number(args[3]))

    return rule


def _unpack_pair(word: str) -> Rule:
    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        return vector_of(r, unpacked(r, r.word(args[0]), format_of(r, word), 2, 2 * r.number(args[1])))

    return rule


def _unpack_one(word: str) -> Rule:
    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        (value,) = unpacked(r, r.word(args[0]), format_of(r, word), 1, r.number(args[1]))
        return from_f32(r, value, cast(Attribute, type_))

    return rule


def _halves_to_bytes(word: str) -> Rule:
    """A pair of f16 as two bytes."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        parts = [to_f32(r, x) for x in elements(r, r.word(args[0]))]
        return packed(r, parts, format_of(r, word), cast(Attribute, type_))

    return rule


def _bytes_to_halves(word: str) -> Rule:
    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        parts = unpacked(r, r.word(args[0], i16), format_of(r, word), 2)
        return vector_of(r, [from_f32(r, x, f16) for x in parts])

    return rule


def _random_byte(word: str) -> Rule:
    """An f32 or f16 as one byte of a word, rounded at random: (value, seed, old, byte)."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        elem = format_of(r, word)
        chosen = rounded_at_random(r, to_f32(r, r.word(args[0], f32)), r.word(args[1]), elem)
        byte = packed(r, [chosen], elem, IntegerType(8))
        return replaced(r, r.word(args[2]), byte, 8 * r.number(args[3]))

    return rule


def _pkrtz(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """Two f32 as f16, toward zero: what was rounded away from it is one step too far."""
    b, parts = r.b, list[SSAValue]()
    for x in args:
        value = r.word(x, f32)
        near = b.cast("truncf", value, f16)
        sizes = [r.expanded(math.AbsFOp, (v,), (f32,), f32) for v in (b.cast("extf", near, f32), value)]
        bits = b.cast("bitcast", near, i16)
        less = b.int_binary("subi", bits, b.const(1, i16))
        parts.append(b.cast("bitcast", b.select(b.cmpf("ogt", sizes[0], sizes[1]), less, bits), f16))
    return vector_of(r, parts)


def _pk_bf16(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """`v_cvt_pk_bf16_f32`: two f32, rounded to nearest, in one word."""
    parts = [as_integer(r, from_f32(r, r.word(x, f32), bf16)) for x in args]
    return bits_of(r, vector_of(r, parts), cast(Attribute, type_))


def _pk_integers(signed: bool) -> Rule:
    """Two words as 16-bit integers, held within their range."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        limits = (-(2**15), 2**15 - 1) if signed else (0, 2**16 - 1)
        wide = [saturated(r, widened(r, r.word(a), signed), *limits) for a in args]
        return vector_of(r, [r.b.cast("trunci", x, i16) for x in wide])

    return rule


def _rounded_integer(r: EmulatedInstructions, x: SSAValue, low: int, high: int) -> SSAValue:
    """An f32 as the nearest i32 between two limits; what is no number is 0."""
    b = r.b
    near = r.expanded(math.RoundEvenOp, (x,), (f32,), f32)
    held = b.float_binary("maxnumf", near, b.const(float(low), f32))
    held = b.float_binary("minnumf", held, b.const(float(high), f32))
    return b.cast("fptosi", b.select(b.cmpf("uno", x, x), b.const(0.0, f32), held), i32)


def _pk_normed(signed: bool) -> Rule:
    """Two f32 of -1 or 0 to 1 as 16-bit integers."""

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        b, parts = r.b, list[SSAValue]()
        top = 2**15 - 1 if signed else 2**16 - 1
        for a in args:
            scaled = b.float_binary("mulf", r.word(a, f32), b.const(float(top), f32))
            parts.append(b.cast("trunci", _rounded_integer(r, scaled, -top if signed else 0, top), i16))
        return vector_of(r, parts)

    return rule


def _byte_from_f32(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """An f32 as one byte of a word: (value, byte, old)."""
    b = r.b
    at = b.int_binary("shli", b.int_binary("andi", r.word(args[1]), b.i32(3)), b.i32(3))
    code = _rounded_integer(r, r.word(args[0], f32), 0, 255)
    hole = b.int_binary("xori", b.int_binary("shli", b.i32(255), at), b.i32(-1))
    return b.int_binary("ori", b.int_binary("andi", r.word(args[2]), hole), b.int_binary("shli", code, at))


def _offset_i4(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
    """The low four bits as a signed number in sixteenths."""
    b = r.b
    code = b.int_binary("shrsi", b.int_binary("shli", r.word(args[0]), b.i32(28)), b.i32(28))
    return b.float_binary("mulf", b.cast("sitofp", code, f32), b.const(0.0625, f32))


# --- with a scale -------------------------------------------------------------------------------------------------

_FORMAT = "(f32|f16|bf16|fp8|bf8|fp6|bf6|fp4)"
_SCALED = re.compile(rf"cvt\.scalef32\.(sr\.)?(?:(2x)?(pk)(\d*)\.)?{_FORMAT}\.{_FORMAT}")


def scale_of(r: EmulatedInstructions, scale: Arg) -> SSAValue:
    """The power of two of the exponent of an f32."""
    b = r.b
    bits = b.cast("bitcast", r.word(scale, f32), i32)
    code = b.int_binary("andi", b.int_binary("shrui", bits, b.i32(23)), b.i32(255))
    return decode_codes(b, code, Float8E8M0FNUType())


def scaled(name: str) -> Rule | None:
    """The rule of a conversion by its name, which says all of it."""
    found = _SCALED.fullmatch(name)
    if found is None:
        return None
    random, twice, packs, count, to, source = found.groups()
    lanes = 1 if packs is None else int(count or 2)
    if to in _WIDE:
        return None if random or twice or source in _WIDE else _enlarging(to, source, lanes)
    if source not in _WIDE:
        return None
    return _reducing(to, source, lanes, random=bool(random), twice=bool(twice))


def _enlarging(to: str, source: str, lanes: int) -> Rule:
    """From a small format: (source, scale), behind them which part of a word; with the other half where it is one."""
    result = _WIDE[to]

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        elem = format_of(r, source)
        keeps = lanes == 1 and result != f32  # one half of a pair is replaced
        old, rest = (r.word(args[0]), args[1:]) if keeps else (None, args)
        word, factor = r.word(rest[0]), scale_of(r, rest[1])
        first = r.number(rest[2]) * lanes if len(rest) > 2 else 0
        values = [r.b.float_binary("mulf", x, factor) for x in unpacked(r, word, elem, lanes, first)]
        made = [from_f32(r, x, result) for x in values]
        if old is not None:
            return replaced(r, old, as_integer(r, made[0]), 16 * r.number(rest[3]))
        return made[0] if lanes == 1 else vector_of(r, made)

    return rule


def _reducing(to: str, source: str, lanes: int, *, random: bool, twice: bool) -> Rule:
    """To a small format: the numbers, a seed, the scale; where parts of a word are made, the old one in front and which
    part behind."""
    whole = lanes > 2
    total = lanes * 2 if twice else lanes
    separate = source == "f32" and not whole and not random  # two operands in the place of a pair

    def rule(r: EmulatedInstructions, args: Sequence[Arg], type_: Attribute | None) -> SSAValue:
        elem, left = format_of(r, to), list(args)
        old = None if whole else r.word(left.pop(0))
        count = 2 if twice or (separate and lanes == 2) else 1
        given = [elements(r, r.word(left.pop(0), f32)) for _ in range(count)]
        if twice:  # the two operands alternate
            numbers = [x for pair in zip(*given, strict=True) for x in pair]
        else:
            numbers = [x for group in given for x in group]
        if len(numbers) != total:
            raise ValueError(f"{len(numbers)} numbers where {total} are converted")
        seed = r.word(left.pop(0)) if random else None
        factor = scale_of(r, left.pop(0))
        small = [r.b.float_binary("divf", to_f32(r, x), factor) for x in numbers]
        if seed is not None:
            small = [rounded_at_random(r, x, seed, elem) for x in small]
        if old is None:
            return packed(r, small, elem, cast(Attribute, type_))
        part = packed(r, small, elem, IntegerType(bit_width(elem) * total))
        return replaced(r, old, part, bit_width(part.type) * r.number(left.pop(0)))

    return rule


RULES: dict[str, Rule] = {
    "cvt.pkrtz": _pkrtz,
    "cvt.pk.bf16.f32": _pk_bf16,
    "cvt.pk.i16": _pk_integers(True),
    "cvt.pk.u16": _pk_integers(False),
    "cvt.pknorm.i16": _pk_normed(True),
    "cvt.pknorm.u16": _pk_normed(False),
    "cvt.pk.u8.f32": _byte_from_f32,
    "cvt.off.f32.i4": _offset_i4,
    **{f"cvt.pk.{w}.f32": _pack_pair(w) for w in ("fp8", "bf8")},
    **{f"cvt.pk.f32.{w}": _unpack_pair(w) for w in ("fp8", "bf8")},
    **{f"cvt.pk.{w}.f16": _halves_to_bytes(w) for w in ("fp8", "bf8")},
    **{f"cvt.pk.f16.{w}": _bytes_to_halves(w) for w in ("fp8", "bf8")},
    **{f"cvt.{wide}.{w}": _unpack_one(w) for wide in ("f32", "f16") for w in ("fp8", "bf8")},
    **{f"cvt.sr.{w}.{wide}": _random_byte(w) for wide in ("f32", "f16") for w in ("fp8", "bf8")},
}
"""The meaning of each intrinsic without a scale."""
