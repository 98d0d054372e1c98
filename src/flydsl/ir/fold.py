"""What scalar operations give on known values, as a machine computes them. Standard library only.

Integers are two's complement of a width; floats round to nearest even in their own format. The builder folds with these
functions and so do compile-time numbers of the language, so that a value never depends on when it was computed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import NamedTuple

from ..errors import DSLOverflowError


def signed(value: int, width: int) -> int:
    """`value` reduced to a two's complement number of `width` bits.

    >>> signed(200, 8), signed(-1, 8), signed(1, 1)
    (-56, -1, 1)
    """
    value &= (1 << width) - 1
    return value - (1 << width) if width > 1 and value >> (width - 1) else value


def fold_int(name: str, a: int, b: int, width: int) -> int | None:
    """Value of an integer op on constants with machine semantics, or None if undefined.

    The result is not reduced to `width`; unsigned ops read their operands as unsigned.

    >>> fold_int("remsi", -7, 3, 32), fold_int("floordivsi", -7, 3, 32), fold_int("divui", -1, 2, 8)
    (-1, -3, 127)
    """
    if width == 1:  # the one bit is the sign
        a, b = -(a & 1), -(b & 1)
    mask = (1 << width) - 1
    ua, ub_ = a & mask, b & mask
    match name:
        case "addi":
            return a + b
        case "subi":
            return a - b
        case "muli":
            return a * b
        case "andi":
            return a & b
        case "ori":
            return a | b
        case "xori":
            return a ^ b
        case "minsi":
            return min(a, b)
        case "maxsi":
            return max(a, b)
        case "minui":
            return min(ua, ub_)
        case "maxui":
            return max(ua, ub_)
        case "shli" | "shrui" | "shrsi":
            if not 0 <= ub_ < width:
                return None
            return a << b if name == "shli" else (ua >> b if name == "shrui" else a >> b)
        case _:
            pass
    if b == 0:
        return None
    match name:
        case "divsi":
            return _truncated(a, b)
        case "remsi":
            return a - b * _truncated(a, b)
        case "divui":
            return ua // ub_
        case "remui":
            return ua % ub_
        case "floordivsi":
            return a // b
        case "ceildivsi":
            return -(-a // b)
        case "ceildivui":
            return -(-ua // ub_)
        case _:
            return None


def _truncated(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def fold_ipow(base: int, exponent: int, width: int) -> int | None:
    """`base` to an integer power modulo 2^width; None for zero to a negative power.

    >>> fold_ipow(3, 4, 32), fold_ipow(-1, -3, 32), fold_ipow(7, -1, 32), fold_ipow(0, -1, 32)
    (81, -1, 0, None)
    """
    if exponent >= 0:
        return pow(base, exponent, 1 << width)
    if base in (1, -1):
        return base if exponent & 1 else 1
    return 0 if base else None


def fold_cmpi(predicate: str, a: int, b: int, width: int) -> bool:
    """Value of an integer comparison of constants.

    >>> fold_cmpi("slt", -1, 1, 8), fold_cmpi("ult", -1, 1, 8), fold_cmpi("slt", 1, 0, 1), fold_cmpi("ult", 1, 0, 1)
    (True, False, True, False)
    """
    if predicate[0] == "u":
        mask = (1 << width) - 1
        a, b = a & mask, b & mask
    elif width == 1:  # the one bit is the sign
        a, b = -(a & 1), -(b & 1)
    match predicate[-2:]:
        case "eq":
            return a == b
        case "ne":
            return a != b
        case "lt":
            return a < b
        case "le":
            return a <= b
        case "gt":
            return a > b
        case _:
            return a >= b


# --- floats -----------------------------------------------------------------------------------------------------------


class FloatFormat(NamedTuple):
    """A binary float format, as its largest value and the grid it rounds to."""

    exponent_bits: int
    mantissa_bits: int
    bias: int
    max: float
    overflow: str = "inf"
    """What too large a value becomes: `inf`, `nan`, or `max` where the format has neither."""
    negative_zero: bool = True
    """False where the pattern of -0 is the format's only NaN."""
    signed: bool = True

    @property
    def width(self) -> int:
        """Bits of an encoded value."""
        return self.signed + self.exponent_bits + self.mantissa_bits

    @property
    def tiny(self) -> int:
        """Exponent of the smallest positive step."""
        return (1 if self.signed else 0) - self.bias - self.mantissa_bits


FORMATS: dict[str, FloatFormat] = {
    "f64": FloatFormat(11, 52, 1023, 1.7976931348623157e308),
    "f32": FloatFormat(8, 23, 127, 3.4028234663852886e38),
    "f16": FloatFormat(5, 10, 15, 65504.0),
    "bf16": FloatFormat(8, 7, 127, 3.3895313892515355e38),
    "f8E5M2": FloatFormat(5, 2, 15, 57344.0),
    "f8E5M2FNUZ": FloatFormat(5, 2, 16, 57344.0, "nan", False),
    "f8E4M3": FloatFormat(4, 3, 7, 240.0),
    "f8E4M3FN": FloatFormat(4, 3, 7, 448.0, "nan"),
    "f8E4M3FNUZ": FloatFormat(4, 3, 8, 240.0, "nan", False),
    "f8E4M3B11FNUZ": FloatFormat(4, 3, 11, 30.0, "nan", False),
    "f8E8M0FNU": FloatFormat(8, 0, 127, 2.0**127, "nan", False, False),
    "f6E2M3FN": FloatFormat(2, 3, 1, 7.5, "max"),
    "f6E3M2FN": FloatFormat(3, 2, 3, 28.0, "max"),
    "f4E2M1FN": FloatFormat(2, 1, 1, 6.0, "max"),
}
"""Every float type of the language by its IR name."""

_f32 = struct.Struct("<f")


def round_float(x: float, name: str) -> float:
    """`x` rounded to nearest even in the format of that IR name.

    >>> round_float(0.1, "f32"), round_float(1e39, "f32"), round_float(500.0, "f8E4M3FN")
    (0.10000000149011612, inf, nan)
    """
    if name == "f32":
        try:
            return _f32.unpack(_f32.pack(x))[0]
        except OverflowError:
            return math.copysign(math.inf, x)
    if name == "f64" or x != x:
        return x
    fmt = FORMATS[name]
    if not fmt.signed and (x <= 0):
        return 2.0**fmt.tiny if x == 0 else math.nan
    if x == 0:
        return x if fmt.negative_zero else 0.0
    if abs(x) > 2 * fmt.max:
        return _overflowed(x, fmt)
    unit = max(math.frexp(x)[1] - 1 - fmt.mantissa_bits, fmt.tiny)
    y = math.ldexp(round(math.ldexp(x, -unit)), unit)
    if not fmt.signed and y == 0:
        return 2.0**fmt.tiny
    if abs(y) > fmt.max:
        return _overflowed(x, fmt)
    return math.copysign(y, x) if y or fmt.negative_zero else 0.0


def check_range(x: float, elem: object) -> None:
    """Refuse a finite number that a float type, whose text is its IR name, would turn into infinity, NaN or another.

    >>> check_range(65519.0, "f16")
    >>> check_range(1e6, "f16")
    Traceback (most recent call last):
    ...
    flydsl.errors.DSLOverflowError: 1000000.0 does not fit f16, whose largest number is 65504.0
    """
    if -6.0 <= x <= 6.0:  # every format holds them
        return
    largest = FORMATS[str(elem)].max
    if math.isfinite(x) and abs(x) > largest and (abs(x) > 2 * largest or abs(round_float(x, str(elem))) != largest):
        raise DSLOverflowError(f"{x!r} does not fit {elem}, whose largest number is {largest!r}")


def _overflowed(x: float, fmt: FloatFormat) -> float:
    limit = {"inf": math.inf, "nan": math.nan, "max": fmt.max}[fmt.overflow]
    return math.copysign(limit, x)


def float_bits(x: float, name: str) -> int:
    """The bit pattern of `x` rounded to a format.

    >>> hex(float_bits(1.0, "bf16")), hex(float_bits(-2.0, "f16")), hex(float_bits(448.0, "f8E4M3FN"))
    ('0x3f80', '0xc000', '0x7e')
    """
    fmt = FORMATS[name]
    if name == "f64":
        return struct.unpack("<Q", struct.pack("<d", x))[0]
    x = round_float(x, name)
    top = (1 << fmt.exponent_bits) - 1
    sign = int(fmt.signed and math.copysign(1.0, x) < 0) << (fmt.width - 1)
    if x != x:
        if fmt.overflow == "max":
            return sign | (top << fmt.mantissa_bits) | ((1 << fmt.mantissa_bits) - 1)
        if not fmt.negative_zero and fmt.signed:
            return 1 << (fmt.width - 1)
        if fmt.overflow == "nan":
            return (top << fmt.mantissa_bits) | ((1 << fmt.mantissa_bits) - 1)
        return (top << fmt.mantissa_bits) | (1 << (fmt.mantissa_bits - 1))
    if math.isinf(x):
        return sign | (top << fmt.mantissa_bits)
    if x == 0:
        return sign
    exponent = math.frexp(x)[1] - 1
    if fmt.signed and exponent < 1 - fmt.bias:
        return sign | int(math.ldexp(abs(x), -fmt.tiny))
    mantissa = int(math.ldexp(abs(x), fmt.mantissa_bits - exponent)) - (1 << fmt.mantissa_bits)
    return sign | ((exponent + fmt.bias) << fmt.mantissa_bits) | mantissa


def float_from_bits(bits: int, name: str) -> float:
    """The value of a bit pattern of a format.

    >>> float_from_bits(0x3F80, "bf16"), float_from_bits(0x7E, "f8E4M3FN"), float_from_bits(0x7, "f4E2M1FN")
    (1.0, 448.0, 6.0)
    """
    if name == "f64":
        return struct.unpack("<d", struct.pack("<Q", bits))[0]
    fmt = FORMATS[name]
    negative = fmt.signed and bits >> (fmt.width - 1) & 1
    top = (1 << fmt.exponent_bits) - 1
    exponent = bits >> fmt.mantissa_bits & top
    mantissa = bits & ((1 << fmt.mantissa_bits) - 1)
    if not fmt.negative_zero and fmt.signed and negative and not exponent and not mantissa:
        return math.nan
    if exponent == top and fmt.overflow == "inf":
        magnitude = math.nan if mantissa else math.inf
    elif exponent == 0 and fmt.signed:
        magnitude = math.ldexp(mantissa, fmt.tiny)
    else:
        magnitude = math.ldexp(mantissa + (1 << fmt.mantissa_bits), exponent - fmt.bias - fmt.mantissa_bits)
        if fmt.overflow == "nan" and fmt.max < magnitude:
            magnitude = math.nan
    return -magnitude if negative else magnitude


def _divide(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _remainder(a: float, b: float) -> float:
    return math.nan if b == 0 or math.isinf(a) else math.fmod(a, b)


def _power(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf
    except ValueError:
        if a == 0:
            return math.copysign(math.inf, a) if b % 2 == 1 else math.inf
        return math.nan


def _maximum(a: float, b: float) -> float:
    if a != a or b != b:
        return math.nan
    return max(a, b, key=lambda x: (x, math.copysign(1.0, x)))


def _minimum(a: float, b: float) -> float:
    if a != a or b != b:
        return math.nan
    return min(a, b, key=lambda x: (x, math.copysign(1.0, x)))


FLOAT_FOLDS: dict[str, Callable[[float, float], float]] = {
    "addf": lambda a, b: a + b,
    "subf": lambda a, b: a - b,
    "mulf": lambda a, b: a * b,
    "divf": _divide,
    "remf": _remainder,
    "powf": _power,
    "maximumf": _maximum,
    "minimumf": _minimum,
    "maxnumf": lambda a, b: b if a != a else a if b != b else max(a, b),
    "minnumf": lambda a, b: b if a != a else a if b != b else min(a, b),
}


def fold_float(name: str, a: float, b: float, fmt: str) -> float:
    """A float op on two constants in a format: both rounded to it first, and the result again.

    Double precision holds every intermediate result of the narrower formats closely enough that rounding it once more
    gives the correctly rounded result.

    >>> fold_float("addf", 1e8, 1.0, "f32"), fold_float("divf", 1.0, 0.0, "f32"), fold_float("remf", -7.5, 2.0, "f32")
    (100000000.0, inf, -1.5)
    """
    return round_float(FLOAT_FOLDS[name](round_float(a, fmt), round_float(b, fmt)), fmt)


def floor_float(x: float) -> float:
    """`floor` that keeps infinities, NaN and the sign of zero.

    >>> floor_float(-2.5), floor_float(float("inf"))
    (-3.0, inf)
    """
    return math.copysign(float(math.floor(x)), x) if math.isfinite(x) else x


def fold_cmpf(predicate: str, a: float, b: float) -> bool:
    """Value of a float comparison of constants."""
    if predicate in ("true", "false"):
        return predicate == "true"
    unordered = a != a or b != b
    if predicate in ("ord", "uno"):
        return unordered == (predicate == "uno")
    if unordered:
        return predicate[0] == "u"
    return fold_cmpi("s" + predicate[1:], a, b, 64)  # pyright: ignore[reportArgumentType]
