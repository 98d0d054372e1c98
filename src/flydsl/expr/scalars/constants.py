"""Numbers known at compile time that are put into memory or vectors of a class: they keep their value, or are refused.

A cast that is written down (`fx.Int8(300)`) does what the machine does. Where no cast is written, a number that the
class cannot hold is a mistake: a fraction into integers, a number out of range, an integer that a float would round.
A float literal may round to the nearest one of its class, as every decimal number does, but not to infinity or zero.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...errors import DSLOverflowError, DSLValueError
from ...ir.fold import FORMATS, FloatFormat, round_float
from .scalar_ops import make

if TYPE_CHECKING:
    from ..annotations import Number
    from ..numeric import Numeric


def constant(cls: type[Numeric], value: Number) -> Numeric:
    """A number as a value of `cls` that equals it.

    >>> constant(fx.Int8, 100), constant(fx.Int32, 2.0), constant(fx.Float32, 0.1)
    (Int8(100), Int32(2), Float32(0.1))
    >>> constant(fx.Int8, 300)
    Traceback (most recent call last):
    ...
    flydsl.errors.DSLOverflowError: 300 does not fit Int8, which holds -128 to 127; for its low bits write fx.Int8(300)
    """
    if cls.is_float:
        _check_float(cls, value)
        return make(cls, float(value))
    if cls.width == 1:
        if value not in (0, 1):
            raise DSLValueError(f"{value!r} is no truth value; write {cls}({value!r}) for `!= 0`")
        return make(cls, bool(value))
    if type(value) is float and not value.is_integer():
        if not math.isfinite(value):
            raise DSLValueError(f"{value!r} has no value as {cls}")
        raise DSLValueError(
            f"{value!r} is not a whole number and would lose its fraction as {cls}; write fx.{cls}({value!r}) to cut it"
        )
    low = -(1 << (cls.width - 1)) if cls.signed else 0
    high = (1 << (cls.width - bool(cls.signed))) - 1
    if not low <= value <= high:
        raise DSLOverflowError(
            f"{_shown(value)} does not fit {cls}, which holds {low} to {high}; "
            f"for its low bits write fx.{cls}({_shown(value)})"
        )
    return make(cls, int(value))


def _shown(value: Number) -> str:
    """A number in a message; Python refuses to write out very long ones."""
    if type(value) is int and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)


def _check_float(cls: type[Numeric], value: Number) -> None:
    fmt = FORMATS[cls.ir_name]
    try:
        number = float(value)
    except OverflowError:
        raise DSLOverflowError(f"{_shown(value)} is beyond the range of {cls}") from None
    found = round_float(number, cls.ir_name)
    if number != number:
        if fmt.overflow == "max":
            raise DSLValueError(f"{cls} has no NaN")
    elif not fmt.signed and number <= 0:
        raise DSLValueError(f"{_shown(value)} does not fit {cls}, which holds positive numbers only")
    elif math.isinf(number) and found != number:
        raise DSLOverflowError(f"{cls} has no infinity; its largest number is {fmt.max!r}")
    elif math.isfinite(number) and (not math.isfinite(found) or _is_beyond(abs(number), fmt)):
        more = "; for infinity write float('inf')" if fmt.overflow == "inf" else ""
        raise DSLOverflowError(f"{_shown(value)} does not fit {cls}, whose largest number is {fmt.max!r}{more}")
    elif number != 0 and found == 0:
        raise DSLValueError(f"{value!r} would become {found!r} as {cls}; write fx.{cls}({value!r}) to have it rounded")
    elif type(value) is not float and int(found) != int(value):
        raise DSLValueError(
            f"{cls} cannot hold the integer {_shown(value)}, it would become {int(found)}; "
            f"write {number!r} to have it rounded"
        )


def _is_beyond(size: float, fmt: FloatFormat) -> bool:
    """Whether a number is farther above the largest than rounding takes it down: more than half a step."""
    step = 2.0 ** (math.frexp(fmt.max)[1] - 1 - fmt.mantissa_bits)
    return size - fmt.max > step / 2
