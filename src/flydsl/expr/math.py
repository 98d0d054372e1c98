"""Math functions on scalars and vectors: `fx.exp(x)`, `fx.fma(a, b, c)`, ...

Each gives a scalar for scalars and a Vector of the same shape for a Vector, of the operand's class. Operands are not
promoted to each other; Python numbers take the class of the others, or Float32 where there is none. Every float
function takes `fastmath=`; keywords of MLIR's builders (`loc`, `ip`, `results`) are accepted and mean nothing, as the
trace decides them. Nothing is folded: the machine decides.
"""

from __future__ import annotations

import math as _math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

from ..errors import DSLTypeError, DSLValueError
from ..ir.fold import FORMATS
from .aliases import also_called
from .emit.trace import current
from .numeric import Boolean, Float32, Int32
from .scalars.fastmath import flags_attr
from .scalars.scalar_ops import convert
from .vector import rewrap, uniform

if TYPE_CHECKING:
    from .annotations import Attribute, FastMathLike, Operand, ScalarLike, SSAValue, Tracer, Value, ValueLike, ValueT
    from .numeric import ScalarClass
    from .vector import Shape, Uniform, Vector


def _emit(t: Tracer, name: str, operands: Sequence[SSAValue], flags: Attribute | None = None) -> SSAValue:
    from .emit.scalar_types import emit_math

    return emit_math(t, name, operands, flags)


def _floats(name: str, args: tuple[ValueLike, ...], *, small: bool = False) -> Uniform:
    cls, shape, values = uniform(name, args)
    if not cls.is_float:
        raise DSLTypeError(f"{name} requires a float type, got {cls}; convert it with .to(fx.Float32)")
    if cls.width < 16 and not small:
        raise DSLTypeError(f"{name} does not take {cls}, a storage format; convert it with .to(fx.Float32)")
    return cls, shape, values


def _only_of_builders(name: str, rest: Mapping[str, object], *more: str) -> None:
    """Refuse keywords that are none: beside our own, functions take those that MLIR's builders have."""
    wrong = rest.keys() - {"loc", "ip", "results", *more}
    if wrong:
        raise DSLTypeError(
            f"{name}() got an unexpected keyword argument {min(wrong)!r}; fastmath= is one that it may take"
        )


def _float(name: str, args: tuple[ValueLike, ...], fastmath: FastMathLike, rest: Mapping[str, object]) -> Any:
    if rest:
        _only_of_builders(name, rest)
    cls, shape, values = _floats(name, args)
    return rewrap(_emit(current(), name, values, flags_attr(fastmath)), shape, cls)


def _integer(name: str, rest: Mapping[str, object], *args: ValueLike) -> Any:
    if rest:
        _only_of_builders(name, rest)
    cls, shape, values = uniform(name, args)
    if not cls.is_integer:
        raise DSLTypeError(f"{name} requires an integer type, got {cls}")
    return rewrap(_emit(current(), name, values), shape, cls)


def absf(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Absolute value.

    >>> flyc.evaluate(fx.absf, -2.5)
    2.5
    """
    return _float("absf", (x,), fastmath, rest)


def ceil(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Smallest integer not below `x`, as a float.

    >>> flyc.evaluate(fx.ceil, 1.2)
    2.0
    """
    return _float("ceil", (x,), fastmath, rest)


def floor(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Largest integer not above `x`, as a float.

    >>> flyc.evaluate(fx.floor, -1.2)
    -2.0
    """
    return _float("floor", (x,), fastmath, rest)


def trunc(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """`x` without its fraction.

    >>> flyc.evaluate(fx.trunc, -1.7)
    -1.0
    """
    return _float("trunc", (x,), fastmath, rest)


def round(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Nearest integer, halves away from zero.

    >>> flyc.evaluate(fx.round, 2.5)
    3.0
    """
    return _float("round", (x,), fastmath, rest)


def roundeven(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Nearest integer, halves to even.

    >>> flyc.evaluate(fx.roundeven, 2.5)
    2.0
    """
    return _float("roundeven", (x,), fastmath, rest)


def exp(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """e to the power `x`.

    >>> flyc.evaluate(fx.exp, 1.0)
    2.71828...
    """
    return _float("exp", (x,), fastmath, rest)


def exp2(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """2 to the power `x`.

    >>> flyc.evaluate(fx.exp2, 3.0)
    8.0
    """
    return _float("exp2", (x,), fastmath, rest)


_EXP2 = {
    3: (0.6932829022407532, 0.24221095442771912, 0.05500893294811249),
    4: (0.6931241750717163, 0.24024099111557007, 0.055906426161527634, 0.009582853876054287),
    5: (0.6931470036506653, 0.24022242426872253, 0.05550733953714371, 0.009671511128544807, 0.001326465280726552),
    6: (0.6931471824645996, 0.24022647738456726, 0.055503323674201965, 0.009618429467082024, 0.0013398935552686453,
        0.0001535515475552529),
}  # fmt: skip
"""Coefficients behind 1 of the polynomials whose largest relative error from -1/2 to 1/2 is the least there is."""
_TO_INTEGERS = 1.5 * 2**23
"""What is added to a Float32 rounds it to an integer, which its low bits then are."""


def exp2_poly(x: Operand[ValueT], *, degree: int = 5, **rest: object) -> ValueT:
    """2 to the power of `x`, a Float32, by multiply-adds alone: where the unit for powers is what a kernel waits for.

    The relative error is at most 1.1e-4, 3e-6, 1.7e-7 and 8e-8 with `degree` 3, 4, 5 and 6. Powers of integers are
    exact, what is below the smallest normal number is off by as much as that, NaN stays NaN.

    >>> flyc.evaluate(fx.exp2_poly, 3.0)
    8.0
    """
    _only_of_builders("exp2_poly", rest, "degree")
    if degree not in _EXP2:
        raise DSLValueError(f"exp2_poly: degree is {', '.join(map(str, _EXP2))}, got {degree!r}")
    cls, shape, (v,) = _floats("exp2_poly", (x,))
    if cls is not Float32:
        raise DSLTypeError(f"exp2_poly requires Float32, got {cls}; convert it with .to(fx.Float32)")
    t = current()

    def number(value: float) -> SSAValue:
        return t.const(value, v.type)

    def bits(value: SSAValue) -> Any:
        return rewrap(value, shape, cls).bitcast(Int32)

    limited = t.float_binary("minimumf", t.float_binary("maximumf", v, number(-127.0)), number(128.0))
    moved = t.float_binary("addf", limited, number(_TO_INTEGERS))
    part = t.float_binary("subf", limited, t.float_binary("subf", moved, number(_TO_INTEGERS)))
    made, *others = map(number, reversed((1.0, *_EXP2[degree])))
    for other in others:
        made = _emit(t, "fma", (made, part, other))
    return (bits(made) + (bits(moved) << 23)).bitcast(Float32)


def expm1(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """exp(x) - 1, accurate near zero.

    >>> flyc.evaluate(fx.expm1, 1e-5)
    1.00000...
    """
    return _float("expm1", (x,), fastmath, rest)


def log(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Natural logarithm.

    >>> flyc.evaluate(fx.log, 2.0)
    0.69314...
    """
    return _float("log", (x,), fastmath, rest)


def log2(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Logarithm to base 2.

    >>> flyc.evaluate(fx.log2, 8.0)
    3.0
    """
    return _float("log2", (x,), fastmath, rest)


def log10(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Logarithm to base 10.

    >>> flyc.evaluate(fx.log10, 100.0)
    2.0
    """
    return _float("log10", (x,), fastmath, rest)


def log1p(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """log(1 + x), accurate near zero.

    >>> flyc.evaluate(fx.log1p, 1e-5)
    9.99994...
    """
    return _float("log1p", (x,), fastmath, rest)


def sqrt(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Square root.

    >>> flyc.evaluate(fx.sqrt, 2.25)
    1.5
    """
    return _float("sqrt", (x,), fastmath, rest)


def rsqrt(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Reciprocal square root.

    >>> flyc.evaluate(fx.rsqrt, 4.0)
    0.5
    """
    return _float("rsqrt", (x,), fastmath, rest)


def cbrt(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Cube root.

    >>> flyc.evaluate(fx.cbrt, 27.0)
    3.0
    """
    return _float("cbrt", (x,), fastmath, rest)


def sin(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Sine of an angle in radians.

    >>> flyc.evaluate(fx.sin, 1.0)
    0.84147...
    """
    return _float("sin", (x,), fastmath, rest)


def cos(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Cosine of an angle in radians.

    >>> flyc.evaluate(fx.cos, 1.0)
    0.54030...
    """
    return _float("cos", (x,), fastmath, rest)


def tan(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Tangent of an angle in radians.

    >>> flyc.evaluate(fx.tan, 1.0)
    1.55740...
    """
    return _float("tan", (x,), fastmath, rest)


def asin(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Arc sine.

    >>> flyc.evaluate(fx.asin, 0.5)
    0.52359...
    """
    return _float("asin", (x,), fastmath, rest)


def acos(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Arc cosine.

    >>> flyc.evaluate(fx.acos, 0.5)
    1.04719...
    """
    return _float("acos", (x,), fastmath, rest)


def atan(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Arc tangent.

    >>> flyc.evaluate(fx.atan, 1.0)
    0.78539...
    """
    return _float("atan", (x,), fastmath, rest)


def sinh(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Hyperbolic sine.

    >>> flyc.evaluate(fx.sinh, 1.0)
    1.17520...
    """
    return _float("sinh", (x,), fastmath, rest)


def cosh(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Hyperbolic cosine.

    >>> flyc.evaluate(fx.cosh, 1.0)
    1.54308...
    """
    return _float("cosh", (x,), fastmath, rest)


def tanh(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Hyperbolic tangent.

    >>> flyc.evaluate(fx.tanh, 1.0)
    0.76159...
    """
    return _float("tanh", (x,), fastmath, rest)


def asinh(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Inverse hyperbolic sine.

    >>> flyc.evaluate(fx.asinh, 1.0)
    0.88137...
    """
    return _float("asinh", (x,), fastmath, rest)


def acosh(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Inverse hyperbolic cosine.

    >>> flyc.evaluate(fx.acosh, 2.0)
    1.31695...
    """
    return _float("acosh", (x,), fastmath, rest)


def atanh(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Inverse hyperbolic tangent.

    >>> flyc.evaluate(fx.atanh, 0.5)
    0.54930...
    """
    return _float("atanh", (x,), fastmath, rest)


def erf(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Error function.

    >>> flyc.evaluate(fx.erf, 0.5)
    0.52049...
    """
    return _float("erf", (x,), fastmath, rest)


def erfc(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """1 - erf(x), accurate for large `x`.

    >>> flyc.evaluate(fx.erfc, 0.5)
    0.47950...
    """
    return _float("erfc", (x,), fastmath, rest)


def sincos(x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> tuple[ValueT, ValueT]:
    """Sine and cosine of one angle.

    >>> flyc.evaluate(fx.sincos, 0.5)
    (0.47942..., 0.87758...)
    """
    return sin(x, fastmath=fastmath, **rest), cos(x, fastmath=fastmath)


def absi(x: Operand[ValueT], **rest: object) -> ValueT:
    """Absolute value of a signed integer.

    >>> flyc.evaluate(fx.absi, -3)
    3
    """
    return _integer("absi", rest, x)


def ctlz(x: Operand[ValueT], **rest: object) -> ValueT:
    """Zero bits above the highest set bit.

    >>> flyc.evaluate(fx.ctlz, 1)
    31
    """
    return _integer("ctlz", rest, x)


def cttz(x: Operand[ValueT], **rest: object) -> ValueT:
    """Zero bits below the lowest set bit.

    >>> flyc.evaluate(fx.cttz, 8)
    3
    """
    return _integer("cttz", rest, x)


def ctpop(x: Operand[ValueT], **rest: object) -> ValueT:
    """Number of set bits.

    >>> flyc.evaluate(fx.ctpop, 255)
    8
    """
    return _integer("ctpop", rest, x)


@also_called(exponent="exp")
def powf(base: Operand[ValueT], exp: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """A float to a float power.

    >>> flyc.evaluate(fx.powf, 2.0, 0.5)
    1.41421...
    """
    return _float("powf", (base, exp), fastmath, rest)


@also_called(exponent="exp")
def ipowi(base: Operand[ValueT], exp: Operand[ValueT], **rest: object) -> ValueT:
    """An integer to a power of the same class; a negative power of anything but 1 and -1 is 0.

    >>> flyc.evaluate(fx.ipowi, 3, 4)
    81
    """
    return _integer("ipowi", rest, base, exp)


@also_called(exponent="exp")
def fpowi(base: Operand[ValueT], exp: ValueLike, *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """A float to an integer power.

    >>> flyc.evaluate(fx.fpowi, 1.5, 3)
    3.375
    """
    _only_of_builders("fpowi", rest)
    cls, shape, (value,) = _floats("fpowi", (base,))
    power_cls, power_shape, (power,) = uniform("fpowi", (exp,))
    if not power_cls.is_integer:
        raise DSLTypeError(f"fpowi requires an integer power, got {power_cls}; use powf")
    t = current()
    if shape is not None and power_shape is None:
        power = t.broadcast(power, _math.prod(_lanes(shape)))
    elif shape is None and power_shape is not None:
        value, shape = t.broadcast(value, _math.prod(_lanes(power_shape))), power_shape
    elif shape is not None and power_shape is not None and _lanes(shape) != _lanes(power_shape):
        raise DSLTypeError(f"fpowi needs vectors of one shape, got {shape} and {power_shape}")
    return cast("ValueT", rewrap(_emit(t, "fpowi", (value, power), flags_attr(fastmath)), shape, cls))


def _lanes(shape: Shape | int) -> tuple[int, ...]:
    return tuple(n for mode in shape for n in _lanes(mode)) if isinstance(shape, tuple) else (shape,)


def atan2(y: Operand[ValueT], x: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """Angle of the point (x, y), from -pi to pi.

    >>> flyc.evaluate(fx.atan2, 1.0, -1.0)
    2.35619...
    """
    return _float("atan2", (y, x), fastmath, rest)


@also_called(magnitude="mag")
def copysign(mag: Operand[ValueT], sign: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object) -> ValueT:
    """`mag` with the sign of `sign`.

    >>> flyc.evaluate(fx.copysign, 3.0, -0.0)
    -3.0
    """
    return _float("copysign", (mag, sign), fastmath, rest)


def fma(
    a: Operand[ValueT], b: Operand[ValueT], c: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object
) -> ValueT:
    """a * b + c, rounded once.

    >>> flyc.evaluate(fx.fma, 2.0, 3.0, 1.0)
    7.0
    """
    return _float("fma", (a, b, c), fastmath, rest)


@also_called(low="lo", high="hi")
def clampf(
    x: Operand[ValueT], lo: Operand[ValueT], hi: Operand[ValueT], *, fastmath: FastMathLike = None, **rest: object
) -> ValueT:
    """`x` limited to the range from `lo` to `hi`; NaN stays NaN.

    >>> flyc.evaluate(fx.clampf, 5.0, 0.0, 1.0)
    1.0
    """
    _only_of_builders("clampf", rest)
    cls, shape, (v, a, b) = _floats("clampf", (x, lo, hi))
    t, flags = current(), flags_attr(fastmath)
    made = t.float_binary("minimumf", t.float_binary("maximumf", v, a, flags), b, flags)
    return cast("ValueT", rewrap(made, shape, cls))


# Predicates carry no flags: `nnan` or `ninf` would let the compiler assume their answer.


def _tested(name: str, x: ValueLike, rest: Mapping[str, object]) -> tuple[ScalarClass, Shape | None, SSAValue]:
    _only_of_builders(name, rest, "fastmath")
    """Class, shape and IR value of what a predicate looks at; storage formats in 32 bits, which hold all they can."""
    cls, shape, (value,) = _floats(name, (x,), small=True)
    if cls.width < 16:
        value = convert(current(), value, cls, Float32, 0 if shape is None else _math.prod(_lanes(shape)))
    return cls, shape, value


@overload
def isnan(x: Vector, **rest: object) -> Vector: ...
@overload
def isnan(x: ScalarLike, **rest: object) -> Boolean: ...
def isnan(x: ValueLike, **rest: object) -> Value:
    """Whether `x` is NaN, whatever the fast-math flags say.

    >>> flyc.evaluate(fx.isnan, float("nan"))
    True
    """
    _cls, shape, v = _tested("isnan", x, rest)
    return rewrap(current().cmpf("uno", v, v), shape, Boolean)


@overload
def isinf(x: Vector, **rest: object) -> Vector: ...
@overload
def isinf(x: ScalarLike, **rest: object) -> Boolean: ...
def isinf(x: ValueLike, **rest: object) -> Value:
    """Whether `x` is positive or negative infinity.

    >>> flyc.evaluate(fx.isinf, float("-inf"))
    True
    """
    cls, shape, v = _tested("isinf", x, rest)
    t = current()
    if FORMATS[cls.ir_name].overflow != "inf":
        return rewrap(t.cmpf("false", v, v), shape, Boolean)
    return rewrap(t.cmpf("oeq", _emit(t, "absf", (v,)), t.const(_math.inf, v.type)), shape, Boolean)


@overload
def isfinite(x: Vector, **rest: object) -> Vector: ...
@overload
def isfinite(x: ScalarLike, **rest: object) -> Boolean: ...
def isfinite(x: ValueLike, **rest: object) -> Value:
    """Whether `x` is neither infinite nor NaN.

    >>> flyc.evaluate(fx.isfinite, 1.0)
    True
    """
    cls, shape, v = _tested("isfinite", x, rest)
    t = current()
    if FORMATS[cls.ir_name].overflow != "inf":
        return rewrap(t.cmpf("ord", v, v), shape, Boolean)
    return rewrap(t.cmpf("olt", _emit(t, "absf", (v,)), t.const(_math.inf, v.type)), shape, Boolean)


@overload
def isnormal(x: Vector, **rest: object) -> Vector: ...
@overload
def isnormal(x: ScalarLike, **rest: object) -> Boolean: ...
def isnormal(x: ValueLike, **rest: object) -> Value:
    """Whether `x` is neither zero, subnormal, infinite nor NaN.

    >>> flyc.evaluate(fx.isnormal, 1e-40)
    False
    """
    cls, shape, v = _tested("isnormal", x, rest)
    t, fmt = current(), FORMATS[cls.ir_name]
    size = _emit(t, "absf", (v,))
    low = t.cmpf("oge", size, t.const(2.0 ** (1 - fmt.bias), v.type))
    high = t.cmpf("ole", size, t.const(fmt.max, v.type))
    return rewrap(t.int_binary("andi", low, high), shape, Boolean)


__all__ = [
    "absf", "absi", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "clampf", "copysign",
    "cos", "cosh", "ctlz", "ctpop", "cttz", "erf", "erfc", "exp", "exp2", "exp2_poly", "expm1", "floor", "fma", "fpowi",
    "ipowi", "isfinite", "isinf", "isnan", "isnormal", "log", "log10", "log1p", "log2", "powf", "round", "roundeven",
    "rsqrt", "sin", "sincos", "sinh", "sqrt", "tan", "tanh", "trunc",
]  # fmt: skip
