"""Numbers from a counter: the same on every machine and with every version of every library."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Words = NDArray[np.uint64]


class Format(NamedTuple):
    """A type of elements: the name of its class, its width; of floats the bits of exponent and fraction."""

    cls: str
    width: int
    exponent: int = 0
    fraction: int = 0
    infinities: bool = True
    signed: bool = True

    @property
    def is_float(self) -> bool:
        return self.exponent > 0

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def storage(self) -> np.dtype[np.signedinteger]:
        """Arrays of bits are integers with a sign, which every library takes."""
        return np.dtype(f"i{self.width // 8}")


FORMATS: dict[str, Format] = {
    "f64": Format("Float64", 64, 11, 52),
    "f32": Format("Float32", 32, 8, 23),
    "f16": Format("Float16", 16, 5, 10),
    "bf16": Format("BFloat16", 16, 8, 7),
    "e4m3": Format("Float8E4M3FN", 8, 4, 3, infinities=False),
    "e5m2": Format("Float8E5M2", 8, 5, 2),
    "i8": Format("Int8", 8),
    "i16": Format("Int16", 16),
    "i32": Format("Int32", 32),
    "i64": Format("Int64", 64),
    "u8": Format("Uint8", 8, signed=False),
    "u16": Format("Uint16", 16, signed=False),
    "u32": Format("Uint32", 32, signed=False),
    "u64": Format("Uint64", 64, signed=False),
}
FLOATS = tuple(name for name, f in FORMATS.items() if f.is_float)
WIDE_FLOATS = ("f64", "f32", "f16", "bf16")
INTEGERS = tuple(name for name, f in FORMATS.items() if not f.is_float)


def _mixed(x: Words) -> Words:
    """The finaliser of splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class Draw:
    """Random words from a name and a seed."""

    def __init__(self, name: str, seed: int = 0):
        self._at = (zlib.crc32(name.encode()) << 24) + (seed << 56)

    def words(self, count: int) -> Words:
        """The next words of 64 bits."""
        start = np.uint64(self._at & (2**64 - 1))
        self._at += count
        with np.errstate(over="ignore"):
            return _mixed((start + np.arange(1, count + 1, dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15))

    def below(self, bound: int, count: int) -> NDArray[np.int64]:
        """Numbers from 0 to `bound - 1`."""
        return (self.words(count) % np.uint64(bound)).astype(np.int64)

    def number(self, bound: int) -> int:
        """One of them."""
        return int(self.below(bound, 1)[0])

    def choice(self, of: Sequence[T]) -> T:
        return of[self.number(len(of))]


def _pattern(f: Format, sign: NDArray[np.int64], exponent: NDArray[np.int64], fraction: Words) -> Words:
    """Bits of a float from its parts."""
    low = fraction & np.uint64((1 << f.fraction) - 1)
    high = (exponent.astype(np.uint64) << np.uint64(f.fraction)) | (sign.astype(np.uint64) << np.uint64(f.width - 1))
    return high | low


def special(f: Format) -> list[int]:
    """Bits of values where rules change."""
    if not f.is_float:
        top = 1 << (f.width - 1)
        return [0, 1, 2, 3, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, 7, 31, 32]
    m, w = f.fraction, f.width
    largest = ((1 << f.exponent) - 1 << m) - 1 if f.infinities else (1 << (w - 1)) - 2
    one = f.bias << m
    plain = [0, 1, (1 << m) - 1, 1 << m, largest, one, one + 1, one - 1, f.bias - 1 << m, f.bias + 1 << m]
    odd = [((1 << f.exponent) - 1) << m] if f.infinities else []
    nans = [(((1 << f.exponent) - 1) << m) | (1 << (m - 1))] if f.infinities else [(1 << (w - 1)) - 1]
    signs = [p | s << (w - 1) for p in plain + odd for s in (0, 1)]
    return signs + nans


def values(draw: Draw, name: str, count: int, kind: str = "mixed") -> NDArray[np.signedinteger]:
    """Random values of a format, as integers with their bits.

    `near`: magnitudes around one (small integers); `any`: all patterns; `finite`: those that are numbers; `special`;
    `mixed`: of all kinds.
    """
    f = FORMATS[name]
    raw = draw.words(count)
    if kind == "mixed":
        parts = [values(draw, name, count, k) for k in ("near", "finite", "special", "any")]
        pick = draw.below(8, count)
        chosen = np.select([pick < 4, pick < 6, pick < 7], parts[:3], parts[3])
        return chosen.astype(f.storage)
    if kind == "special":
        table = np.array(special(f), np.uint64)
        bits = table[draw.below(len(table), count)]
    elif kind == "any":
        bits = raw
    elif not f.is_float:
        small = draw.below(200, count) - (100 if f.signed else 0)
        bits = small.astype(np.uint64) if kind == "near" else raw
    else:
        spread = min(8, f.bias - 1)
        most = (1 << f.exponent) - (2 if f.infinities or f.fraction == 0 else 2)
        exponent = draw.below(spread, count) + f.bias - spread // 2 if kind == "near" else draw.below(most + 1, count)
        bits = _pattern(f, draw.below(2, count), exponent, raw >> np.uint64(11))
    return bits.astype(f"u{f.width // 8}").view(f.storage)


__all__ = ["FLOATS", "FORMATS", "INTEGERS", "WIDE_FLOATS", "Draw", "Format", "special", "values"]
