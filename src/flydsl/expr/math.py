"""Math functions on scalars and vectors: `fx.exp(x)`, `fx.fma(a, b, c)`, ...

Each gives a scalar for scalars and a Vector of the same shape for a Vector, of the operand's class. Operands are not
promoted to each other; Python numbers take the class of the others, or Float32 where there is none. Every float
function takes `fastmath=`; other keywords are accepted and ignored. Nothing is folded: the machine decides.
"""

from __future__ import annotations

import math as _math
from typing import Any

from ..errors import DSLTypeError
from ..ir.fold import FORMATS
from .emit.trace import current
from .numeric import Boolean, Float32
from .scalars.fastmath import flags_attr
from .scalars.scalar_ops import convert
from .vector import rewrap, uniform


def _emit(t: Any, name: str, operands: Any, flags: Any = None) -> Any:
    from .emit.scalar_types import emit_math

    return emit_math(t, name, operands, flags)


def _floats(name: str, args: tuple[Any, ...], *, small: bool = False) -> Any:
    cls, shape, values = uniform(name, args)
    if not cls.is_float:
        raise DSLTypeError(f"{name} requires a float type, got {cls}; convert it with .to(fx.Float32)")
    if cls.width < 16 and not small:
        raise DSLTypeError(f"{name} does not take {cls}, a storage format; convert it with .to(fx.Float32)")
    return cls, shape, values


def _float(name: str, args: tuple[Any, ...], fastmath: Any) -> Any:
    cls, shape, values = _floats(name, args)
    return rewrap(_emit(current(), name, values, flags_attr(fastmath)), shape, cls)


def _integer(name: str, *args: Any) -> Any:
    cls, shape, values = uniform(name, args)
    if not cls.is_integer:
        raise DSLTypeError(f"{name} requires an integer type, got {cls}")
    return rewrap(_emit(current(), name, values), shape, cls)


def absf(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Absolute value.

    >>> flyc.evaluate(fx.absf, -2.5)
    2.5
    """
    return _float("absf", (x,), fastmath)


def ceil(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Smallest integer not below `x`, as a float.

    >>> flyc.evaluate(fx.ceil, 1.2)
    2.0
    """
    return _float("ceil", (x,), fastmath)


def floor(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Largest integer not above `x`, as a float.

    >>> flyc.evaluate(fx.floor, -1.2)
    -2.0
    """
    return _float("floor", (x,), fastmath)


def trunc(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """`x` without its fraction.

    >>> flyc.evaluate(fx.trunc, -1.7)
    -1.0
    """
    return _float("trunc", (x,), fastmath)


def round(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Nearest integer, halves away from zero.

    >>> flyc.evaluate(fx.round, 2.5)
    3.0
    """
    return _float("round", (x,), fastmath)


def roundeven(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Nearest integer, halves to even.

    >>> flyc.evaluate(fx.roundeven, 2.5)
    2.0
    """
    return _float("roundeven", (x,), fastmath)


def exp(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """e to the power `x`.

    >>> flyc.evaluate(fx.exp, 1.0)
    2.71828...
    """
    return _float("exp", (x,), fastmath)


def exp2(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """2 to the power `x`.

    >>> flyc.evaluate(fx.exp2, 3.0)
    8.0
    """
    return _float("exp2", (x,), fastmath)


def expm1(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """exp(x) - 1, accurate near zero.

    >>> flyc.evaluate(fx.expm1, 1e-5)
    1.00000...
    """
    return _float("expm1", (x,), fastmath)


def log(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Natural logarithm.

    >>> flyc.evaluate(fx.log, 2.0)
    0.69314...
    """
    return _float("log", (x,), fastmath)


def log2(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Logarithm to base 2.

    >>> flyc.evaluate(fx.log2, 8.0)
    3.0
    """
    return _float("log2", (x,), fastmath)


def log10(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Logarithm to base 10.

    >>> flyc.evaluate(fx.log10, 100.0)
    2.0
    """
    return _float("log10", (x,), fastmath)


def log1p(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """log(1 + x), accurate near zero.

    >>> flyc.evaluate(fx.log1p, 1e-5)
    9.99994...
    """
    return _float("log1p", (x,), fastmath)


def sqrt(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Square root.

    >>> flyc.evaluate(fx.sqrt, 2.25)
    1.5
    """
    return _float("sqrt", (x,), fastmath)


def rsqrt(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Reciprocal square root.

    >>> flyc.evaluate(fx.rsqrt, 4.0)
    0.5
    """
    return _float("rsqrt", (x,), fastmath)


def cbrt(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Cube root.

    >>> flyc.evaluate(fx.cbrt, 27.0)
    3.0
    """
    return _float("cbrt", (x,), fastmath)


def sin(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Sine of an angle in radians.

    >>> flyc.evaluate(fx.sin, 1.0)
    0.84147...
    """
    return _float("sin", (x,), fastmath)


def cos(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Cosine of an angle in radians.

    >>> flyc.evaluate(fx.cos, 1.0)
    0.54030...
    """
    return _float("cos", (x,), fastmath)


def tan(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Tangent of an angle in radians.

    >>> flyc.evaluate(fx.tan, 1.0)
    1.55740...
    """
    return _float("tan", (x,), fastmath)


def asin(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Arc sine.

    >>> flyc.evaluate(fx.asin, 0.5)
    0.52359...
    """
    return _float("asin", (x,), fastmath)


def acos(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Arc cosine.

    >>> flyc.evaluate(fx.acos, 0.5)
    1.04719...
    """
    return _float("acos", (x,), fastmath)


def atan(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Arc tangent.

    >>> flyc.evaluate(fx.atan, 1.0)
    0.78539...
    """
    return _float("atan", (x,), fastmath)


def sinh(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Hyperbolic sine.

    >>> flyc.evaluate(fx.sinh, 1.0)
    1.17520...
    """
    return _float("sinh", (x,), fastmath)


def cosh(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Hyperbolic cosine.

    >>> flyc.evaluate(fx.cosh, 1.0)
    1.54308...
    """
    return _float("cosh", (x,), fastmath)


def tanh(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Hyperbolic tangent.

    >>> flyc.evaluate(fx.tanh, 1.0)
    0.76159...
    """
    return _float("tanh", (x,), fastmath)


def asinh(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Inverse hyperbolic sine.

    >>> flyc.evaluate(fx.asinh, 1.0)
    0.88137...
    """
    return _float("asinh", (x,), fastmath)


def acosh(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Inverse hyperbolic cosine.

    >>> flyc.evaluate(fx.acosh, 2.0)
    1.31695...
    """
    return _float("acosh", (x,), fastmath)


def atanh(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Inverse hyperbolic tangent.

    >>> flyc.evaluate(fx.atanh, 0.5)
    0.54930...
    """
    return _float("atanh", (x,), fastmath)


def erf(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Error function.

    >>> flyc.evaluate(fx.erf, 0.5)
    0.52049...
    """
    return _float("erf", (x,), fastmath)


def erfc(x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """1 - erf(x), accurate for large `x`.

    >>> flyc.evaluate(fx.erfc, 0.5)
    0.47950...
    """
    return _float("erfc", (x,), fastmath)


def sincos(x: Any, *, fastmath: Any = None, **_: Any) -> tuple[Any, Any]:
    """Sine and cosine of one angle.

    >>> flyc.evaluate(fx.sincos, 0.5)
    (0.47942..., 0.87758...)
    """
    return sin(x, fastmath=fastmath), cos(x, fastmath=fastmath)


def absi(x: Any, **_: Any) -> Any:
    """Absolute value of a signed integer.

    >>> flyc.evaluate(fx.absi, -3)
    3
    """
    return _integer("absi", x)


def ctlz(x: Any, **_: Any) -> Any:
    """Zero bits above the highest set bit.

    >>> flyc.evaluate(fx.ctlz, 1)
    31
    """
    return _integer("ctlz", x)


def cttz(x: Any, **_: Any) -> Any:
    """Zero bits below the lowest set bit.

    >>> flyc.evaluate(fx.cttz, 8)
    3
    """
    return _integer("cttz", x)


def ctpop(x: Any, **_: Any) -> Any:
    """Number of set bits.

    >>> flyc.evaluate(fx.ctpop, 255)
    8
    """
    return _integer("ctpop", x)


def powf(base: Any, exponent: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """A float to a float power.

    >>> flyc.evaluate(fx.powf, 2.0, 0.5)
    1.41421...
    """
    return _float("powf", (base, exponent), fastmath)


def ipowi(base: Any, exponent: Any, **_: Any) -> Any:
    """An integer to a power of the same class; a negative power of anything but 1 and -1 is 0.

    >>> flyc.evaluate(fx.ipowi, 3, 4)
    81
    """
    return _integer("ipowi", base, exponent)


def fpowi(base: Any, exponent: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """A float to an integer power.

    >>> flyc.evaluate(fx.fpowi, 1.5, 3)
    3.375
    """
    cls, shape, (value,) = _floats("fpowi", (base,))
    power_cls, power_shape, (power,) = uniform("fpowi", (exponent,))
    if not power_cls.is_integer:
        raise DSLTypeError(f"fpowi requires an integer power, got {power_cls}; use powf")
    t = current()
    if shape is not None and power_shape is None:
        power = t.broadcast(power, _math.prod(_lanes(shape)))
    elif shape is None and power_shape is not None:
        value, shape = t.broadcast(value, _math.prod(_lanes(power_shape))), power_shape
    elif shape is not None and power_shape is not None and _lanes(shape) != _lanes(power_shape):
        raise DSLTypeError(f"fpowi needs vectors of one shape, got {shape} and {power_shape}")
    return rewrap(_emit(t, "fpowi", (value, power), flags_attr(fastmath)), shape, cls)


def _lanes(shape: Any) -> tuple[int, ...]:
    return tuple(n for mode in shape for n in _lanes(mode)) if isinstance(shape, tuple) else (shape,)  # pyright: ignore[reportUnknownVariableType]


def atan2(y: Any, x: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """Angle of the point (x, y), from -pi to pi.

    >>> flyc.evaluate(fx.atan2, 1.0, -1.0)
    2.35619...
    """
    return _float("atan2", (y, x), fastmath)


def copysign(magnitude: Any, sign: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """`magnitude` with the sign of `sign`.

    >>> flyc.evaluate(fx.copysign, 3.0, -0.0)
    -3.0
    """
    return _float("copysign", (magnitude, sign), fastmath)


def fma(a: Any, b: Any, c: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """a * b + c, rounded once.

    >>> flyc.evaluate(fx.fma, 2.0, 3.0, 1.0)
    7.0
    """
    return _float("fma", (a, b, c), fastmath)


def clampf(x: Any, low: Any, high: Any, *, fastmath: Any = None, **_: Any) -> Any:
    """`x` limited to the range from `low` to `high`; NaN stays NaN.

    >>> flyc.evaluate(fx.clampf, 5.0, 0.0, 1.0)
    1.0
    """
    cls, shape, (v, a, b) = _floats("clampf", (x, low, high))
    t, flags = current(), flags_attr(fastmath)
    return rewrap(t.float_binary("minimumf", t.float_binary("maximumf", v, a, flags), b, flags), shape, cls)


# Predicates carry no flags: `nnan` or `ninf` would let the compiler assume their answer.


def _tested(name: str, x: Any) -> Any:
    """Class, shape and IR value of what a predicate looks at; storage formats in 32 bits, which hold all they can."""
    cls, shape, (value,) = _floats(name, (x,), small=True)
    if cls.width < 16:
        value = convert(current(), value, cls, Float32, 0 if shape is None else _math.prod(_lanes(shape)))
    return cls, shape, value


def isnan(x: Any, **_: Any) -> Any:
    """Whether `x` is NaN, whatever the fast-math flags say.

    >>> flyc.evaluate(fx.isnan, float("nan"))
    True
    """
    _cls, shape, v = _tested("isnan", x)
    return rewrap(current().cmpf("uno", v, v), shape, Boolean)


def isinf(x: Any, **_: Any) -> Any:
    """Whether `x` is positive or negative infinity.

    >>> flyc.evaluate(fx.isinf, float("-inf"))
    True
    """
    cls, shape, v = _tested("isinf", x)
    t = current()
    if FORMATS[cls.ir_name].overflow != "inf":
        return rewrap(t.cmpf("false", v, v), shape, Boolean)
    return rewrap(t.cmpf("oeq", _emit(t, "absf", (v,)), t.const(_math.inf, v.type)), shape, Boolean)


def isfinite(x: Any, **_: Any) -> Any:
    """Whether `x` is neither infinite nor NaN.

    >>> flyc.evaluate(fx.isfinite, 1.0)
    True
    """
    cls, shape, v = _tested("isfinite", x)
    t = current()
    if FORMATS[cls.ir_name].overflow != "inf":
        return rewrap(t.cmpf("ord", v, v), shape, Boolean)
    return rewrap(t.cmpf("olt", _emit(t, "absf", (v,)), t.const(_math.inf, v.type)), shape, Boolean)


def isnormal(x: Any, **_: Any) -> Any:
    """Whether `x` is neither zero, subnormal, infinite nor NaN.

    >>> flyc.evaluate(fx.isnormal, 1e-40)
    False
    """
    cls, shape, v = _tested("isnormal", x)
    t, fmt = current(), FORMATS[cls.ir_name]
    size = _emit(t, "absf", (v,))
    low = t.cmpf("oge", size, t.const(2.0 ** (1 - fmt.bias), v.type))
    high = t.cmpf("ole", size, t.const(fmt.max, v.type))
    return rewrap(t.int_binary("andi", low, high), shape, Boolean)


__all__ = [
    "absf", "absi", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "clampf", "copysign",
    "cos", "cosh", "ctlz", "ctpop", "cttz", "erf", "erfc", "exp", "exp2", "expm1", "floor", "fma", "fpowi", "ipowi",
    "isfinite", "isinf", "isnan", "isnormal", "log", "log10", "log1p", "log2", "powf", "round", "roundeven", "rsqrt",
    "sin", "sincos", "sinh", "sqrt", "tan", "tanh", "trunc",
]  # fmt: skip
