"""The element types of MX blocks as integers: 4, 6 and 8 bits, encoded and decoded with f32 and integer operations.

A block is 32 elements of a row with one scale, a power of two whose biased exponent is a byte (E8M0).
"""

from __future__ import annotations

from typing import NamedTuple

import flydsl.expr as fx

BLOCK = 32
NO_NUMBER = 255
"""The scale of a block that has a NaN or an infinity."""


class Format(NamedTuple):
    """A float of few bits: sign, exponent, fraction."""

    exponent: int
    """Bits of the exponent."""
    fraction: int
    """Bits of the fraction."""
    largest: float

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.fraction

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def highest(self) -> int:
        """The exponent of the largest number."""
        return {448.0: 8, 57344.0: 15, 7.5: 2, 28.0: 4, 6.0: 2}[self.largest]


FORMATS = {
    "float8_e4m3fn": Format(4, 3, 448.0),
    "float8_e5m2": Format(5, 2, 57344.0),
    "float6_e2m3fn": Format(2, 3, 7.5),
    "float6_e3m2fn": Format(3, 2, 28.0),
    "float4_e2m1fn": Format(2, 1, 6.0),
}


def power_of_two(exponent: fx.Int32) -> fx.Float32:
    """2^exponent, from -126 to 127."""
    return ((exponent + 127) << 23).bitcast(fx.Float32)


def encode(value: fx.Float32, format: Format) -> fx.Uint32:
    """The nearest number, ties to even, the largest one for what is beyond it."""
    bits = value.bitcast(fx.Int32)
    size = fx.minnumf(fx.absf(value), fx.Float32(format.largest))
    lowest = 1 - format.bias
    exponent = fx.max((size.bitcast(fx.Int32) >> 23) - 127, fx.Int32(lowest))
    # In units of the last place the number is a whole one, and rounding up carries into the exponent by itself.
    units = fx.Int32(fx.roundeven(size * power_of_two(format.fraction - exponent)))
    code = units + ((exponent - lowest) << format.fraction)
    sign = (bits < 0).select(fx.Int32(1 << (format.bits - 1)), fx.Int32(0))
    return (code | sign).bitcast(fx.Uint32)


def decode(code: fx.Int32, format: Format) -> fx.Float32:
    """The number that a code stands for."""
    fraction = code & ((1 << format.fraction) - 1)
    exponent = (code >> format.fraction) & ((1 << format.exponent) - 1)
    normal = exponent > 0
    whole = normal.select(fraction + (1 << format.fraction), fraction)
    value = fx.Float32(whole) * power_of_two(fx.max(exponent, fx.Int32(1)) - format.bias - format.fraction)
    if format.exponent == 4:  # e4m3fn: the last code is no number
        value = ((code & 0x7F) == 0x7F).select(fx.Float32(float("nan")), value)
    if format.exponent == 5:  # e5m2 has infinities and NaN
        special = (fraction == 0).select(fx.Float32(float("inf")), fx.Float32(float("nan")))
        value = (exponent == 31).select(special, value)
    return ((code >> (format.bits - 1)) & 1 == 1).select(-value, value)


__all__ = ["BLOCK", "FORMATS", "NO_NUMBER", "Format", "decode", "encode", "power_of_two"]
