"""Functions of floating-point vector instructions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
F64 = NDArray[np.float64]


def fma32(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once."""
    product = np.asarray(a, np.float64) * b
    c = np.asarray(c, np.float64)
    total = np.asarray(product + c)
    half = (total.view(np.uint64) & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)
    if half.any():
        # A number that lies between two floats may have been rounded to there: make it tell on which side it was.
        back = total - product
        error = (product - (total - back)) + (c - back)
        toward = np.where(error > 0, np.inf, -np.inf)
        total = np.where(half & (error != 0), np.nextafter(total, toward), total)
    return total.astype(np.float32)


def _split(a: F64) -> tuple[F64, F64]:
    big = a * 134217729.0
    high = big - (big - a)
    return high, a - high


def fma64(a: Array, b: Array, c: Array) -> Array:
    """a * b + c with the product's error added back: within an ulp of rounding once."""
    a, b = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(b, np.float64))
    product = a * b
    (ah, al), (bh, bl) = _split(a), _split(b)
    error = ((ah * bh - product) + ah * bl + al * bh) + al * bl
    total = product + c
    back = total - product
    lost = (product - (total - back)) + (c - back)
    return np.where(np.isfinite(total) & np.isfinite(error), total + (error + lost), total)


def fma16(a: Array, b: Array, c: Array) -> Array:
    return (np.asarray(a, np.float64) * b + c).astype(np.float16)


def flush(x: Array) -> Array:
    """Numbers too small to be normal become zero, as the transcendental unit has it."""
    x = np.asarray(x, np.float32)
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)


def exp2(x: Array) -> Array:
    return flush(np.exp2(flush(x).astype(np.float64)).astype(np.float32))


def log2(x: Array) -> Array:
    return np.log2(flush(x).astype(np.float64)).astype(np.float32)


def rcp(x: Array) -> Array:
    return flush((1.0 / flush(x).astype(np.float64)).astype(np.float32))


def rsq(x: Array) -> Array:
    return flush((1.0 / np.sqrt(flush(x).astype(np.float64))).astype(np.float32))


def sqrt(x: Array) -> Array:
    return np.sqrt(flush(x).astype(np.float64)).astype(np.float32)


def sin(x: Array) -> Array:
    return np.sin(np.asarray(x, np.float64) * (2 * np.pi)).astype(np.float32)


def cos(x: Array) -> Array:
    return np.cos(np.asarray(x, np.float64) * (2 * np.pi)).astype(np.float32)


def fract(x: Array) -> Array:
    x = np.asarray(x)
    one = np.nextafter(x.dtype.type(1), x.dtype.type(0))
    return np.minimum(x - np.floor(x), one)


# --- the smaller and the larger of two --------------------------------------------------------------------------------
# The instructions order zeros: -0 is below +0, whichever comes first. numpy gives either.


def fmin(a: Any, b: Any) -> Any:
    return np.where(a == b, np.where(np.signbit(a), a, b), np.fmin(a, b))


def fmax(a: Any, b: Any) -> Any:
    return np.where(a == b, np.where(np.signbit(a), b, a), np.fmax(a, b))


def minimum(a: Any, b: Any) -> Any:
    return np.where(a == b, fmin(a, b), np.minimum(a, b))


def maximum(a: Any, b: Any) -> Any:
    return np.where(a == b, fmax(a, b), np.maximum(a, b))


def med3(a: Array, b: Array, c: Array) -> Array:
    return fmax(fmin(a, b), fmin(fmax(a, b), c))


def to_int(low: int, high: int, dtype: Any) -> Any:
    """Conversion toward zero that ends at the limits and takes NaN as zero."""

    def convert(x: Array) -> Array:
        wide = np.trunc(np.asarray(x, np.float64))
        wide = np.where(np.isnan(wide), 0.0, np.clip(wide, float(low), float(high)))
        return wide.astype(np.int64).astype(dtype)

    return convert


def toward_zero16(x: Array) -> NDArray[np.float16]:
    """To f16, cut off."""
    x = np.asarray(x, np.float32)
    near = x.astype(np.float16)
    over = np.abs(near.astype(np.float32)) > np.abs(x)
    down = np.nextafter(near, np.float16(0))
    return np.where(over, down, near).astype(np.float16)


def frexp_exponent(x: Array) -> NDArray[np.int32]:
    exponent = np.frexp(x)[1]
    return np.where(np.isfinite(x), exponent, 0).astype(np.int32)


def frexp_mantissa(x: Array) -> Array:
    return np.where(np.isfinite(x), np.frexp(x)[0], x)


def ldexp(x: Array, by: Array) -> Array:
    x = np.asarray(x)
    return np.ldexp(x.astype(np.float64), np.asarray(by, np.int32)).astype(x.dtype)


def bf16_to_f32(bits: Array) -> NDArray[np.float32]:
    return (np.asarray(bits, np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(x: Array) -> NDArray[np.uint16]:
    """To the nearest, ties to even."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + np.uint64(0x7FFF) + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)
    nan = np.isnan(np.asarray(x, np.float32))
    return np.where(nan, (bits >> np.uint64(16)) | np.uint64(0x40), rounded).astype(np.uint16)


def classes(x: Array, mask: Array) -> NDArray[np.bool_]:
    """Whether numbers are of a class that a mask names (`v_cmp_class`)."""
    x, mask = np.asarray(x), np.asarray(mask, np.uint32)
    tiny = np.finfo(x.dtype).smallest_normal
    sign, nan, inf, zero = np.signbit(x), np.isnan(x), np.isinf(x), x == 0
    small = ~zero & ~nan & (np.abs(x) < tiny)
    normal = ~(nan | inf | zero | small)
    order = [nan & False, nan, inf & sign, normal & sign, small & sign, zero & sign]
    order += [zero & ~sign, small & ~sign, normal & ~sign, inf & ~sign]
    found = np.zeros(np.broadcast(x, mask).shape, np.bool_)
    for bit, here in enumerate(order):
        found = found | (here & ((mask >> np.uint32(bit)) & np.uint32(1)).astype(np.bool_))
    return found
