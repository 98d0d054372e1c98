"""Numbers of four to eight bits inside words: taking them out, putting them in, and rounding at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    IntegerType,
    f32,
)
from xdsl.ir import Attribute, SSAValue

from ...ir.builder import i32
from ...ir.fold import FORMATS
from ...ir.types import bit_width
from ...lowering.expand.small_floats import decode_codes, encode
from ...target import has
from .rule_tools import as_integer, bits_of

if TYPE_CHECKING:
    from .instructions import EmulatedInstructions

_TYPES: dict[str, Attribute] = {
    "fp8": Float8E4M3FNType(),
    "bf8": Float8E5M2Type(),
    "fp6": Float6E2M3FNType(),
    "bf6": Float6E3M2FNType(),
    "fp4": Float4E2M1FNType(),
}


def format_of(r: EmulatedInstructions, word: str) -> Attribute:
    """The type that an instruction calls by a word; gfx940 to gfx942 have formats of their own."""
    if r.arch is not None and has(r.arch, "fp8_fnuz"):
        if word == "fp8":
            return Float8E4M3FNUZType()
        if word == "bf8":
            return Float8E5M2FNUZType()
    return _TYPES[word]


def unpacked(r: EmulatedInstructions, value: SSAValue, elem: Attribute, count: int, first: int = 0) -> list[SSAValue]:
    """Elements of a small format from one on, out of a word or a vector of words, as f32."""
    b, bits = r.b, bit_width(elem)
    whole = as_integer(r, value)
    found: list[SSAValue] = []
    for i in range(first, first + count):
        moved = b.int_binary("shrui", whole, b.const(bits * i, whole.type)) if i else whole
        code = moved if moved.type == i32 else b.cast("trunci" if bit_width(moved.type) > 32 else "extui", moved, i32)
        found.append(decode_codes(b, b.int_binary("andi", code, b.i32((1 << bits) - 1)), elem))
    return found


def packed(r: EmulatedInstructions, values: Sequence[SSAValue], elem: Attribute, type_: Attribute) -> SSAValue:
    """f32 numbers in a small format one behind the other, as the bits of a type."""
    b, bits = r.b, bit_width(elem)
    wide = IntegerType(bit_width(type_))
    whole: SSAValue = b.const(0, wide)
    for i, value in enumerate(values):
        code = encode(b, value, elem)
        code = code if code.type == wide else b.cast("extui", code, wide)
        whole = b.int_binary("ori", whole, b.int_binary("shli", code, b.const(bits * i, wide)) if i else code)
    return bits_of(r, whole, type_)


def replaced(r: EmulatedInstructions, old: SSAValue, part: SSAValue, at: int) -> SSAValue:
    """A value some bits of which, from bit `at` on, are those of an integer."""
    b, whole = r.b, as_integer(r, old)
    width, count = bit_width(whole.type), bit_width(part.type)
    hole = ((1 << width) - 1) ^ (((1 << count) - 1) << at)
    kept = b.int_binary("andi", whole, b.const(hole - (1 << width) if hole >> (width - 1) else hole, whole.type))
    wide = part if part.type == whole.type else b.cast("extui", part, whole.type)
    moved = b.int_binary("shli", wide, b.const(at, whole.type)) if at else wide
    return bits_of(r, b.int_binary("ori", kept, moved), old.type)


def rounded_at_random(r: EmulatedInstructions, x: SSAValue, seed: SSAValue, elem: Attribute) -> SSAValue:
    """An f32 between two numbers of a format as one of them: the upper bits of a word are added below the last digit.

    What is no number, or infinite, stays.
    """
    b, fmt = r.b, FORMATS[str(elem)]

    def c(n: int) -> SSAValue:
        return b.i32(n)

    bits = b.cast("bitcast", x, i32)
    size = b.int_binary("andi", bits, c(0x7FFFFFFF))
    exponent = b.int_binary("shrui", size, c(23))
    exponent = b.int_binary("maxsi", exponent, c(128 - fmt.bias))
    # The step between neighbours, and how many of them the number is: both are exact.
    step = b.cast("bitcast", b.int_binary("shli", b.int_binary("subi", exponent, c(fmt.mantissa_bits)), c(23)), f32)
    count = b.float_binary("divf", b.cast("bitcast", size, f32), step)
    random = b.int_binary("ori", b.int_binary("shrui", seed, c(8)), c(0))
    whole = b.cast("fptosi", count, i32)
    rest = b.float_binary("subf", count, b.cast("sitofp", whole, f32))
    scaled = b.cast("fptosi", b.float_binary("mulf", rest, b.const(float(1 << 24), f32)), i32)
    carry = b.int_binary("shrui", b.addi(scaled, random), c(24))
    made = b.float_binary("mulf", b.cast("sitofp", b.addi(whole, carry), f32), step)
    sign = b.int_binary("andi", bits, c(-0x80000000))
    made = b.cast("bitcast", b.int_binary("ori", b.cast("bitcast", made, i32), sign), f32)
    return b.select(b.cmpi("uge", size, c(0x7F800000)), x, made)
