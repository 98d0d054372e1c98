"""A tensor core in integers: the oracle of the emulation, and what recorded results are fitted with.

Products are exact. Some at a time, together with the sum so far, are shifted to the largest exponent among them, cut
off a number of bits below, added, and rounded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .draw import FORMATS
from .program import Bits

Ints = NDArray[np.int64]


class Rules(NamedTuple):
    """How one unit adds."""

    terms: int
    """Products added at once."""
    fraction: int
    """Bits kept below the largest exponent."""
    kept: int = 23
    """Bits of fraction of a result of f32."""
    operand_fraction: int | None = None
    """Bits of fraction that operands keep; the rest is cut off."""


class Parts(NamedTuple):
    """Sign and significand, the exponent of its unit bit, and what is no finite number."""

    significand: Ints
    exponent: Ints
    special: NDArray[np.float64]
    """NaN or an infinity, otherwise 0."""


def parts(bits: Bits, name: str, operand_fraction: int | None = None) -> Parts:
    """Values of a format taken apart; the significand has the format's bits of fraction."""
    f = FORMATS[name]
    words = np.ascontiguousarray(bits).view(f"u{bits.itemsize}").astype(np.int64)
    sign = (words >> (f.width - 1)) & 1
    field = (words >> f.fraction) & ((1 << f.exponent) - 1)
    low = words & ((1 << f.fraction) - 1)
    if f.infinities:
        top = field == (1 << f.exponent) - 1
        special = np.where(top, np.where(low != 0, np.nan, np.where(sign == 1, -np.inf, np.inf)), 0.0)
    else:
        special = np.where((words & ((1 << (f.width - 1)) - 1)) == (1 << (f.width - 1)) - 1, np.nan, 0.0)
    if operand_fraction is not None:
        low &= ~((1 << (f.fraction - operand_fraction)) - 1)
    significand = np.where(field > 0, low | (1 << f.fraction), low)
    return Parts(np.where(sign == 1, -significand, significand), np.maximum(field, 1) - f.bias, special)


def _shifted(x: Ints, by: Ints) -> Ints:
    """Times a power of two, towards zero; a zero may be told any."""
    left = np.abs(x) << np.clip(by, 0, 40)
    made = left >> np.clip(-by, 0, 62)
    return np.where(x < 0, -made, made)


def _float_of(total: Ints, unit: Ints) -> NDArray[np.float64]:
    return np.ldexp(total.astype(np.float64), unit.astype(np.int32))


def _toward_zero(x: NDArray[np.float64], kept: int) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        near = x.astype(np.float32)
    bits = near.view(np.int32)
    far = np.abs(near.astype(np.float64)) > np.abs(x)
    # What is too large is infinite all the same.
    bits = np.where(far & np.isfinite(near), bits - 1, bits) & np.int32(-(1 << (23 - kept)))
    return bits.astype(np.int32).view(np.float32)


def product(a: Bits, b: Bits, c: Bits, types: tuple[str, str, str], rules: Rules) -> Bits:
    """D = A B^T + C of tiles (tiles, rows, k), (tiles, columns, k), (tiles, rows, columns)."""
    left, right = (parts(x, t, rules.operand_fraction) for x, t in zip((a, b), types, strict=False))
    places = FORMATS[types[0]].fraction + FORMATS[types[1]].fraction
    held, depth = c, a.shape[-1]
    for first in range(0, depth, rules.terms):
        chosen = slice(first, first + rules.terms)
        la, ea, xa = (left[i][:, :, None, chosen] for i in range(3))
        lb, eb, xb = (right[i][:, None, :, chosen] for i in range(3))
        so_far = parts(held, types[2])
        products, exponents = (la * lb).astype(np.int64), (ea + eb).astype(np.int64)
        exponents = np.where(products == 0, -2000, exponents)
        own = np.where(so_far.significand == 0, -2000, so_far.exponent)
        largest = np.maximum(exponents.max(-1), own)
        total = _shifted(products, rules.fraction - places + exponents - largest[..., None]).sum(-1)
        total += _shifted(so_far.significand, rules.fraction - FORMATS[types[2]].fraction + so_far.exponent - largest)
        exact = _float_of(total, largest - rules.fraction)
        with np.errstate(invalid="ignore"):
            factors = np.where(xa != 0, xa, la.astype(np.float64)), np.where(xb != 0, xb, lb.astype(np.float64))
            odd = np.where((xa != 0) | (xb != 0), factors[0] * factors[1], 0.0).sum(-1) + so_far.special
        exact = np.where(odd != 0, odd, exact)
        if types[2] == "f16":
            with np.errstate(over="ignore"):
                made = exact.astype(np.float16)
            held = np.where(np.isnan(made), 0x7FFF, made.view(np.int16)).astype(np.int16)
        else:
            made = _toward_zero(exact, rules.kept)
            held = np.where(np.isnan(exact), 0x7FFFFFFF, made.view(np.int32)).astype(np.int32)
    return held


def _as_f16(bits: Bits, name: str) -> Bits:
    """Floats of 8 bits as f16, which has them all."""
    f = FORMATS[name]
    words = np.ascontiguousarray(bits).view(np.uint8).astype(np.int64)
    if name == "e5m2":
        return (words << 8).astype(np.uint16).view(np.int16)
    split = parts(bits, name)
    value = np.ldexp(np.abs(split.significand).astype(np.float64), (split.exponent - f.fraction).astype(np.int32))
    value = np.where(np.isnan(split.special), np.nan, np.where(words >> 7 == 1, -value, value))
    return value.astype(np.float16).view(np.int16)


def product_of_fp8_on_hopper(a: Bits, b: Bits, c: Bits, types: tuple[str, str, str]) -> Bits:
    """`mma.sync` of floats of 8 bits: two products of f16, by pairs in turn, to which C is added."""
    x, y = _as_f16(a, types[0]), _as_f16(b, types[1])
    held = c * 0
    for first in (0, 2):
        chosen = [k for k in range(a.shape[-1]) if k % 4 in (first, first + 1)]
        held = product(x[..., chosen], y[..., chosen], held, ("f16", "f16", "f32"), Rules(16, 25))
    with np.errstate(invalid="ignore", over="ignore"):
        total = held.view(np.float32) + c.view(np.float32)
    return np.where(np.isnan(total), 0x7FFFFFFF, total.view(np.int32)).astype(np.int32)


HOPPER = {
    "f16": Rules(16, 25),
    "bf16": Rules(16, 25),
    "f32": Rules(8, 25, operand_fraction=10),
    "e4m3": Rules(32, 13, 13),
    "e5m2": Rules(32, 13, 13),
}
"""By operand type, as measured on an H200; those of 8 bits by `wgmma`."""

__all__ = ["HOPPER", "Parts", "Rules", "parts", "product", "product_of_fp8_on_hopper"]
