"""What the language computes, said once more in numpy: every lane of a launch side by side, in the width of its type.

Nothing here comes from the compiler. Integers wrap; floats are rounded once after each operation, small ones from 32
bits.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Lanes = np.ndarray[Any, np.dtype[Any]]
TYPES: dict[str, Any] = {
    "Boolean": np.bool_, "Int8": np.int8, "Int16": np.int16, "Int32": np.int32, "Int64": np.int64, "Uint8": np.uint8,
    "Uint16": np.uint16, "Uint32": np.uint32, "Uint64": np.uint64, "Float16": np.float16, "Float32": np.float32,
    "Float64": np.float64, "BFloat16": ml_dtypes.bfloat16, "Float8E4M3FN": ml_dtypes.float8_e4m3fn,
    "Float8E5M2": ml_dtypes.float8_e5m2, "Float8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "Float8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}  # fmt: skip
SMALL = tuple(name for name in TYPES if name.startswith("Float8"))
FLOATS = ("Float32", "Float64", "Float16", "BFloat16", *SMALL)
INTS = tuple(name for name in TYPES if "nt" in name)


def width(type_: str) -> int:
    return 1 if type_ == "Boolean" else 8 * np.dtype(TYPES[type_]).itemsize


def signed(type_: str) -> bool:
    return type_.startswith("Int")


def common(a: str, b: str) -> str:
    """The type two meet in."""
    if a == b:
        return a
    if a in FLOATS and b in FLOATS:
        if width(a) == width(b):
            return "Float32"
        return a if width(a) > width(b) else b
    if a in FLOATS or b in FLOATS:
        f, i = (a, b) if a in FLOATS else (b, a)
        return f if width(f) >= width(i) else "Float32" if width(i) <= 32 else "Float64"
    if width(a) != width(b):
        return a if width(a) > width(b) else b
    return a if not signed(a) else b


def to_odd(x: Lanes) -> Lanes:
    """Float64 to float32, rounded to odd, so that rounding once more is right."""
    near = x.astype(np.float32)
    wide = near.astype(np.float64)
    bits = near.view(np.int32)
    inexact = (wide != x) & np.isfinite(x) & np.isfinite(near)
    # What was rounded away from zero goes back by one step; then the last bit is set.
    away = inexact & (np.abs(wide) > np.abs(x))
    bits = np.where(inexact, (bits - away) | 1, bits)
    largest = np.copysign(np.finfo(np.float32).max, x).astype(np.float32)
    return np.where(np.isfinite(x) & ~np.isfinite(near), largest, bits.astype(np.int32).view(np.float32))


def narrow(x: Lanes, type_: str) -> Lanes:
    """Float32 or float64 as another float, rounded once."""
    dtype = TYPES[type_]
    if x.dtype == np.float64 and type_ not in ("Float16", "Float32", "Float64"):
        x = to_odd(x)
    return x.astype(dtype)


def to_integer(x: Lanes, type_: str, nvidia: bool) -> Lanes:
    """A float as an integer: what does not fit is the nearest that does, of one of 16 bits at least."""
    bits = max(width(type_), 16)
    wide = bits == 64 or x.dtype == np.float64
    y = x.astype(np.float64)
    low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if signed(type_) else (0.0, 2.0**bits)
    whole = np.trunc(y)
    inside = (whole >= low) & (whole < high)
    made = [int(v) for v in np.where(inside, whole, 0.0).ravel()]
    least, most = int(low), int(high) - 1
    none = (1 << (bits - 1)) if nvidia and wide else 0
    for at, (v, ok) in enumerate(zip(y.ravel(), inside.ravel(), strict=True)):
        if not ok:
            made[at] = none if v != v else most if v > 0 else least
    mask = (1 << width(type_)) - 1
    words = np.array([v & mask for v in made], np.uint64).reshape(x.shape)
    return words.astype(TYPES[type_])


def convert(x: Lanes, from_: str, to: str, nvidia: bool = False) -> Lanes:
    """`T(x)`."""
    if from_ == to:
        return x
    if to == "Boolean":
        return (x.astype(np.float32) if from_ in SMALL or from_ == "BFloat16" else x) != 0
    if from_ not in FLOATS:
        if to not in FLOATS:
            return x.astype(TYPES[to])
        if to in SMALL:
            return narrow(x.astype(np.float32), to)
        if to in ("Float32", "Float64"):
            return x.astype(TYPES[to])
        return narrow(_odd_integers(x), to)
    if to not in FLOATS:
        return to_integer(x if from_ in ("Float32", "Float64") else x.astype(np.float32), to, nvidia)
    exact = x if from_ in ("Float32", "Float64") else x.astype(np.float32)
    return narrow(exact, to)


def _odd_integers(x: Lanes) -> Lanes:
    """Integers as float64, the last bit set where some are lost."""
    if x.dtype not in (np.int64, np.uint64):
        return x.astype(np.float64)

    def odd(v: int) -> float:
        if abs(v) < 1 << 53:
            return float(v)
        return float((abs(v) >> 11 << 11 | (bool(abs(v) & 2047) << 11)) * (1 if v > 0 else -1))

    return np.array([odd(int(v)) for v in x.ravel()], np.float64).reshape(x.shape)


def computed(x: Lanes, type_: str) -> Lanes:
    """What arithmetic of a type is done with."""
    return x.astype(np.float32) if type_ in SMALL or type_ == "BFloat16" else x


def float_op(name: str, x: Lanes, y: Lanes, type_: str) -> Lanes:
    x, y = computed(x, type_), computed(y, type_)
    if name in ("max", "min"):
        # NaN wins, and zeros have an order.
        first = (x > y) | ((x == y) & ~np.signbit(x)) if name == "max" else (x < y) | ((x == y) & np.signbit(x))
        made = np.where(np.isnan(x) | np.isnan(y), x.dtype.type(np.nan), np.where(first, x, y))
    else:
        made = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[name](x, y)
    return narrow(made, type_)


def int_op(name: str, x: Lanes, y: Lanes, type_: str) -> Lanes:
    dtype, bits = TYPES[type_], width(type_)
    match name:
        case "+" | "-" | "*" | "&" | "|" | "^":
            op = {"+": np.add, "-": np.subtract, "*": np.multiply, "&": np.bitwise_and, "|": np.bitwise_or}
            return op.get(name, np.bitwise_xor)(x, y).astype(dtype)
        case "//":
            return np.floor_divide(x, y).astype(dtype)
        case "%":
            return np.fmod(x, y).astype(dtype)
        case "<<":
            return np.left_shift(x, y & dtype(bits - 1)).astype(dtype)
        case ">>":
            return np.right_shift(x, y & dtype(bits - 1)).astype(dtype)
        case "max":
            return np.maximum(x, y)
        case "min":
            return np.minimum(x, y)
        case _:
            assert name == "ceildiv", name
            return (-np.floor_divide(-x, y) if signed(type_) else x // y + (x % y != 0)).astype(dtype)


def compare(name: str, x: Lanes, y: Lanes, type_: str) -> Lanes:
    x, y = computed(x, type_), computed(y, type_)
    ops = {"<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal, ">": np.greater}
    return ops.get(name, np.greater_equal)(x, y)


def bits_of(name: str, x: Lanes, type_: str) -> Lanes:
    """`ctlz`, `cttz`, `ctpop`."""
    bits = width(type_)
    mask = (1 << bits) - 1

    def one(v: int) -> int:
        v &= mask
        if name == "ctpop":
            return v.bit_count()
        if not v:
            return bits
        return bits - v.bit_length() if name == "ctlz" else (v & -v).bit_length() - 1

    return np.array([one(int(v)) for v in x.ravel()]).reshape(x.shape).astype(TYPES[type_])


def float_function(name: str, x: Lanes, type_: str) -> Lanes:
    function = {"sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "roundeven": np.rint}
    made = function.get(name, np.abs)(computed(x, type_))
    return narrow(made, type_)
