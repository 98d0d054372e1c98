"""Arithmetic functions: `fx.max`, `fx.ceildiv`, `fx.cmpi`, and the builders of the IR's `arith` dialect.

The builders take scalars, vectors, Python numbers and IR values, all of one IR type (numbers take the class of the
others), and give a scalar or Vector of the class of the first. They exist for kernels written against raw IR values;
new code uses operators.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..errors import DSLOverflowError, DSLTypeError, DSLValueError
from ..ir.enums import RoundingMode
from ..ir.fold import fold_cmpf, fold_cmpi
from .aliases import also_called, placed, raw_binding
from .emit.trace import current
from .numeric import (
    Boolean,
    Index,
    Int32,
    Numeric,
    as_dsl_value,
    as_ir_value,
    as_numeric,
    binary,
    dsl_class,
    is_ir_value,
    scalar_or_none,
)
from .scalars.fastmath import FastMathFlags, effective, fastmath, flags_attr
from .scalars.scalar_ops import STATIC, common_type, make
from .vector import Vector, combine, rewrap, uniform

if TYPE_CHECKING:
    from .annotations import (
        Attribute,
        DTypeLike,
        ElementLike,
        FastMathLike,
        Number,
        Operand,
        ScalarLike,
        SSAValue,
        Value,
        ValueLike,
        ValueT,
    )
    from .numeric import ScalarClass


_fastmath = fastmath  # builders have a parameter of this name
B = TypeVar("B", bound=Callable[..., object])

# --- choosing and dividing --------------------------------------------------------------------------------------------


def _flatten(xs: Iterable[object]) -> list[object]:
    found: list[object] = []
    for x in xs:
        if isinstance(x, (list, tuple)):
            found.extend(_flatten(cast("Iterable[object]", x)))
        else:
            found.append(x)
    return found


def _value(name: str, x: object) -> Value:
    """An operand as a scalar or Vector."""
    if isinstance(x, Vector):
        return x
    if is_ir_value(x) and scalar_or_none(x) is None:
        return Vector(x)
    found = scalar_or_none(x)
    if found is None:
        raise DSLTypeError(f"{name} takes numbers, DSL scalars and vectors, got {x!r} of type {type(x).__name__}")
    return found


def _extremum(name: str, xs: tuple[object, ...], fastmath: FastMathLike) -> Any:
    values = [_value(name, x) for x in _flatten(xs)]
    if not values:
        raise DSLValueError(f"{name} needs at least one operand")
    for v in values:
        if v.dtype is Index or (v.dtype.is_float and v.dtype.width < 16):
            raise DSLTypeError(f"{name} does not take {v.dtype}; convert it with .to() first")
    cls = functools.reduce(common_type, [Int32 if v.dtype is Boolean else v.dtype for v in values])
    values = [v.to(cls) for v in values]
    if fastmath is None:
        return functools.reduce(lambda a, b: _combine(name, a, b), values)
    with _fastmath(fastmath):
        return functools.reduce(lambda a, b: _combine(name, a, b), values)


def _combine(name: str, a: Value, b: Value) -> Value:
    return combine(name, a, b) if isinstance(a, Vector) or isinstance(b, Vector) else binary(name, a, b)


@placed
def max(*xs: Operand[ValueT] | Sequence[Operand[ValueT]], fastmath: FastMathLike = None) -> ValueT:
    """Largest of any number of scalars and vectors, or lists of them, in their common class; NaN if one is NaN.

    >>> max(1, [2.5, 2])
    Float32(2.5)
    """
    return _extremum("max", xs, fastmath)


@placed
def min(*xs: Operand[ValueT] | Sequence[Operand[ValueT]], fastmath: FastMathLike = None) -> ValueT:
    """Smallest of any number of scalars and vectors, or lists of them, in their common class; NaN if one is NaN.

    >>> min(3, 1, 2)
    Int32(1)
    """
    return _extremum("min", xs, fastmath)


@also_called(a="lhs", b="rhs")
def ceildiv(lhs: Operand[ValueT], rhs: Operand[ValueT], **kwargs: object) -> ValueT:
    """Integer quotient rounded up.

    >>> ceildiv(7, 2), ceildiv(-7, 2)
    (Int32(4), Int32(-3))
    """
    _promises("ceildiv", kwargs)
    x, y = _value("ceildiv", lhs), _value("ceildiv", rhs)
    for v in (x, y):
        if not v.dtype.is_integer or v.dtype is Boolean or v.dtype is Index:
            raise DSLTypeError(f"ceildiv takes integers other than Boolean and Index, got {v.dtype}")
    if isinstance(x, Numeric) and isinstance(y, Numeric) and x.is_static() and y.is_static():
        cls = common_type(type(x), type(y))
        n, d = int(cls(x)), int(cls(y))
        if d == 0:
            raise ZeroDivisionError(f"ceildiv({n}, 0)")
        if d == -1 and cls.signed and n == -(1 << (cls.width - 1)):
            raise DSLOverflowError(f"ceildiv({n}, -1) does not fit {cls}")
    return cast("ValueT", _combine("ceildiv", x, y))


def select(condition: ValueLike, true_value: object, false_value: object) -> Any:
    """`true_value` where `condition` is non-zero, else `false_value`.

    >>> select(Boolean(False), 1, 2)
    Int32(2)
    """
    chosen: Any = _value("select", condition)
    return chosen.select(true_value, false_value)


@also_called(x="value", count="amount")
def shrui(value: Operand[ValueT], amount: Any, *, is_exact: bool = False, **kwargs: object) -> ValueT:
    """Logical right shift that keeps the class of `value`; `is_exact` promises that no set bit is lost.

    >>> shrui(Int32(-1), 28)
    Int32(15)
    """
    _promises("shrui", {"is_exact": is_exact, **kwargs})
    x = _value("shrui", value)
    if not x.dtype.is_integer:
        raise DSLTypeError(f"shrui requires an integer, got {x.dtype}")
    if isinstance(x, Vector):
        return _builder("shrui", (x, amount if isinstance(amount, Vector) else x.dtype(amount)))
    count = x.dtype(amount)
    if x.is_static() and count.is_static():
        width = x.dtype.width
        return cast(Any, x.dtype)((int(x) & ((1 << width) - 1)) >> int(count) if 0 <= int(count) < width else 0)
    return _builder("shrui", (x, count))


# --- comparisons ------------------------------------------------------------------------------------------------------


class CmpIPredicate(IntEnum):
    """Integer comparisons; s and u mean signed and unsigned.

    >>> flyc.evaluate(lambda x: fx.cmpi(fx.arith.CmpIPredicate.ult, x, 5), -1)
    False
    """

    eq = 0
    ne = 1
    slt = 2
    sle = 3
    sgt = 4
    sge = 5
    ult = 6
    ule = 7
    ugt = 8
    uge = 9


class CmpFPredicate(IntEnum):
    """Float comparisons; ordered ones (O) are false on NaN, unordered ones (U) true. Lower-case names work too.

    >>> flyc.evaluate(lambda x: fx.cmpf(fx.arith.CmpFPredicate.uno, x, 1.0), float("nan"))
    True
    """

    AlwaysFalse = 0
    OEQ = 1
    OGT = 2
    OGE = 3
    OLT = 4
    OLE = 5
    ONE = 6
    ORD = 7
    UEQ = 8
    UGT = 9
    UGE = 10
    ULT = 11
    ULE = 12
    UNE = 13
    UNO = 14
    AlwaysTrue = 15
    oeq = 1
    ogt = 2
    oge = 3
    olt = 4
    ole = 5
    one = 6
    ord = 7
    ueq = 8
    ugt = 9
    uge = 10
    ult = 11
    ule = 12
    une = 13
    uno = 14


_CMPI = [p.name for p in CmpIPredicate]
_CMPF = ["false", *[p.name.lower() for p in CmpFPredicate][1:-1], "true"]


def _predicate(predicate: object, names: list[str], enum: str) -> str:
    if isinstance(predicate, str) and predicate.lower() in names:
        return predicate.lower()
    if isinstance(predicate, int) and 0 <= predicate < len(names):
        return names[predicate]
    raise DSLValueError(f"expected an arith.{enum}, got {predicate!r}; the predicates are {', '.join(names)}")


@also_called(a="lhs", b="rhs")
def cmpi(
    predicate: CmpIPredicate | CmpFPredicate | int | str, lhs: ValueLike, rhs: ValueLike, **kwargs: object
) -> Value:
    """Compare integers with an explicit predicate.

    >>> cmpi(CmpIPredicate.ult, Int32(1), Int32(-1))
    Boolean(True)
    """
    _promises("cmpi", kwargs)
    name = _predicate(predicate, _CMPI, "CmpIPredicate")
    known = _static_pair("cmpi", lhs, rhs)
    if known is not None:
        cls, x, y = known
        return make(Boolean, fold_cmpi(name, int(x), int(y), cls.width))
    cls, shape, (x, y) = uniform("cmpi", (lhs, rhs))
    if not cls.is_integer:
        raise DSLTypeError(f"cmpi compares integers, got {cls}; use cmpf")
    return rewrap(current().cmpi(name, x, y), shape, Boolean)


@also_called(a="lhs", b="rhs")
@placed
def cmpf(
    predicate: CmpIPredicate | CmpFPredicate | int | str,
    lhs: ValueLike,
    rhs: ValueLike,
    *,
    fastmath: FastMathLike = None,
) -> Value:
    """Compare floats with an explicit predicate.

    >>> cmpf("ult", 1.0, float("nan"))
    Boolean(True)
    """
    name = _predicate(predicate, _CMPF, "CmpFPredicate")
    known = _static_pair("cmpf", lhs, rhs)
    if known is not None:
        return make(Boolean, fold_cmpf(name, float(known[1]), float(known[2])))
    cls, shape, (x, y) = uniform("cmpf", (lhs, rhs))
    if not cls.is_float:
        raise DSLTypeError(f"cmpf compares floats, got {cls}; use cmpi")
    return rewrap(current().cmpf(name, x, y, flags_attr(fastmath)), shape, Boolean)


def _static_pair(name: str, a: object, b: object) -> tuple[type[Numeric], Number, Number] | None:
    """Class and payloads when both operands are known at compile time."""
    x, y = scalar_or_none(a), scalar_or_none(b)
    if x is None or y is None or type(x.value) not in STATIC or type(y.value) not in STATIC:
        return None
    cls: type[Numeric] = (y if type(a) in STATIC and type(b) not in STATIC else x).dtype
    x, y = (cls(v) if type(raw) in STATIC else v for v, raw in ((x, a), (y, b)))
    if type(x).ir_name != type(y).ir_name:
        raise DSLTypeError(f"{name} needs operands of one class, got {type(x)} and {type(y)}; convert one with .to()")
    return cls, x.value, y.value


# --- constants and conversions ----------------------------------------------------------------------------------------


def constant(value: Number, *, type: DTypeLike | None = None, index: bool = False) -> Value:
    """A number of a class or IR type; a vector type gives a Vector with every element `value`.

    >>> constant(3), constant(2, index=True), constant(1, type=Boolean)
    (Int32(3), Index(2), Boolean(True))
    """
    if index:
        return Index(value)
    if type is None:
        return as_numeric(value)
    if getattr(type, "name", "") == "vector":
        return constant_vector(value, cast("Attribute", type))
    return dsl_class(type)(value)


@also_called(value="element_value")
def constant_vector(element_value: ScalarLike, vector_type: Attribute) -> Vector:
    """Deprecated: `fx.full(n, value, dtype)`. Every element of an IR vector type set to `element_value`.

    >>> flyc.evaluate(lambda: fx.constant_vector(1.5, fx.T.f32x2))
    [1.5, 1.5]
    """
    from .emit.scalar_types import vector_parts

    parts = vector_parts(vector_type)
    if parts is None:
        raise DSLTypeError(f"expected an IR vector type such as fx.T.f32x4, got {vector_type!r}")
    return Vector.filled(parts[1], element_value, parts[0])


def index(value: ScalarLike) -> Index:
    """An `Index`.

    >>> index(4)
    Index(4)
    """
    return Index(value)


@also_called(value="val")
def unwrap(val: Any, *, type: DTypeLike | None = None, index: bool = False) -> SSAValue:
    """The IR value of a number, scalar or vector, converted first to a class or IR type if one is given."""
    if index or type is not None:
        return constant(val, type=type, index=index).ir_value()
    return as_ir_value(val)


def _converted(
    name: str, dtype: object, value: object, want: Callable[[ScalarClass, ScalarClass], bool]
) -> tuple[Value, ScalarClass]:
    if not _is_type(dtype) and _is_type(value):
        dtype, value = value, dtype
    x = _value(name, value)
    elem = getattr(dtype, "element_type", dtype)
    target = dsl_class(elem)
    if not want(x.dtype, target):
        raise DSLTypeError(f"{name} does not convert {x.dtype} to {target}")
    return x, target


def _is_type(x: object) -> bool:
    return isinstance(x, type) or (hasattr(x, "name") and not is_ir_value(x) and not isinstance(x, (Numeric, Vector)))


@also_called(dtype="target_type")
def index_cast(target_type: ElementLike, value: ValueLike) -> Value:
    """Deprecated: `target_type(value)`. Convert between `Index` and another integer.

    >>> flyc.evaluate(lambda i: fx.index_cast(fx.Int64, i), 7)
    7
    """
    x, target = _converted("index_cast", target_type, value, lambda a, b: a.is_integer and b.is_integer)
    return x.to(target)


def _signed(x: Value, signed: bool) -> Value:
    """The same bits as the signed or unsigned class of their width."""
    if isinstance(x, Numeric):
        return x.with_signedness(signed)
    cls = x.dtype
    target = cls(0).with_signedness(signed).dtype
    return x if target is cls else x.to(target)


@also_called(dtype="target_type")
def sitofp(target_type: ElementLike, value: ValueLike) -> Value:
    """A signed integer as a float."""
    x, target = _converted("sitofp", target_type, value, lambda a, b: a.is_integer and b.is_float)
    return _signed(x, True).to(target)


@also_called(dtype="out", value="in_")
def uitofp(out: ElementLike, in_: ValueLike, *, non_neg: bool = False) -> Value:
    """An unsigned integer as a float."""
    _promises("uitofp", {"non_neg": non_neg})
    x, target = _converted("uitofp", out, in_, lambda a, b: a.is_integer and b.is_float)
    return _signed(x, False).to(target)


def int_to_fp(src: object, signed: object = None, res_elem_type: object = None) -> Value:
    """An integer as a float, read as its class says or as `signed` does.

    >>> flyc.evaluate(lambda x: fx.arith.int_to_fp(x, False, fx.Float32), -1)
    4294967296.0
    """
    # Type first, or type second, are the orders published before.
    if _is_type(src):
        src, signed, res_elem_type = signed, res_elem_type, src
    elif _is_type(signed):
        signed, res_elem_type = res_elem_type, signed
    if res_elem_type is None:
        raise DSLTypeError("int_to_fp(src, signed, res_elem_type) needs the class of the result")
    to, value = cast("ElementLike", res_elem_type), cast("ValueLike", src)
    x, target = _converted("int_to_fp", to, value, lambda a, b: a.is_integer and b.is_float)
    return (x if signed is None else _signed(x, bool(signed))).to(target)


@also_called(dtype="out", value="in_")
def fptosi(out: ElementLike, in_: ValueLike) -> Value:
    """A float as a signed integer, toward zero."""
    x, target = _converted("fptosi", out, in_, lambda a, b: a.is_float and b.is_integer)
    return x.to(type(target(0).with_signedness(True)))


@also_called(dtype="out", value="in_")
def fptoui(out: ElementLike, in_: ValueLike) -> Value:
    """A float as an unsigned integer, toward zero."""
    x, target = _converted("fptoui", out, in_, lambda a, b: a.is_float and b.is_integer)
    return x.to(type(target(0).with_signedness(False)))


@also_called(dtype="out", value="in_")
def extf(out: ElementLike, in_: ValueLike, *, fastmath: FastMathLike = None) -> Value:
    """A float as a wider one."""
    x, target = _converted("extf", out, in_, lambda a, b: a.is_float and b.is_float)
    with _flags(fastmath):
        return x.to(target)


@also_called(dtype="out", value="in_")
def truncf(
    out: ElementLike, in_: ValueLike, *, roundingmode: RoundingMode | None = None, fastmath: FastMathLike = None
) -> Value:
    """A float as a narrower one."""
    x, target = _converted("truncf", out, in_, lambda a, b: a.is_float and b.is_float)
    with _flags(fastmath):
        return x.to(target, rounding_mode=roundingmode)


@also_called(dtype="target_type")
def trunc_f(target_type: ElementLike, value: ValueLike) -> Value:
    """`truncf`."""
    return truncf(target_type, value)


@also_called(dtype="out", value="in_")
def extsi(out: ElementLike, in_: ValueLike) -> Value:
    """An integer as a wider one, by its sign."""
    x, target = _converted("extsi", out, in_, lambda a, b: a.is_integer and b.is_integer)
    return x.extsi(target) if isinstance(x, Numeric) else _signed(x, True).to(target)


@also_called(dtype="out", value="in_")
def extui(out: ElementLike, in_: ValueLike, *, non_neg: bool = False) -> Value:
    """An integer as a wider one, with zeros."""
    _promises("extui", {"non_neg": non_neg})
    x, target = _converted("extui", out, in_, lambda a, b: a.is_integer and b.is_integer)
    return _signed(x, False).to(target)


@also_called(dtype="out", value="in_")
def trunci(out: ElementLike, in_: ValueLike, *, overflow_flags: object = None) -> Value:
    """The low bits of an integer."""
    _promises("trunci", {"overflow_flags": overflow_flags})
    x, target = _converted("trunci", out, in_, lambda a, b: a.is_integer and b.is_integer)
    return x.trunci(target) if isinstance(x, Numeric) else x.to(target)


@also_called(dtype="out", value="in_")
def bitcast(out: ElementLike, in_: ValueLike) -> Value:
    """The same bits as another class."""
    x, target = _converted("bitcast", out, in_, lambda a, b: True)
    return x.bitcast(target)


# --- raw values -------------------------------------------------------------------------------------------------------


class _AnyValue(type):
    """`isinstance(x, ArithValue)`: x is a value of the kernel, not a Python number."""

    def __instancecheck__(cls, instance: object) -> bool:
        if isinstance(instance, Numeric):
            return not instance.is_static()
        return isinstance(instance, Vector) or is_ir_value(instance)

    def __getattr__(cls, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(Numeric, name)

    def __call__(cls, v: object, signed: bool | None = None) -> Any:
        value = as_dsl_value(v)
        return value if signed is None else value.with_signedness(signed)


class ArithValue(metaclass=_AnyValue):
    """FlyDSL's class of untyped values. Here every value has a class: `ArithValue(v)` is `v` as one of them.

    >>> flyc.evaluate(lambda x: fx.arith.ArithValue(x.ir_value()) + 1, 2)
    3
    """


def resolve_fastmath(explicit: FastMathLike) -> str | None:
    """The flags of an operation as text: those given, else the ambient ones; None where there are none.

    >>> resolve_fastmath("fast"), resolve_fastmath(None)
    ('fast', None)
    """
    found = effective(explicit)
    return found.text if found or explicit is not None else None


# --- builders ---------------------------------------------------------------------------------------------------------

_INTEGER = (
    "addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "ceildivui", "andi", "ori",
    "xori", "shli", "shrsi", "minsi", "maxsi", "minui", "maxui",
)  # fmt: skip
_FLOAT = ("addf", "subf", "mulf", "divf", "remf", "maximumf", "minimumf", "maxnumf", "minnumf")


_PROMISES = ("overflow_flags", "is_exact", "non_neg", "results", "loc", "ip")


def _promises(name: str, given: Mapping[str, object]) -> None:
    """Take what an author may promise a builder of FlyDSL, and refuse all else.

    A promise (no overflow, nothing lost) lets the optimiser do more and changes no defined result; where the op stands
    and what type it gives follow from the trace.
    """
    for key, value in given.items():
        if key not in _PROMISES and value is not None:
            raise DSLTypeError(f"arith.{name} takes {', '.join(_PROMISES)} beside its operands, not {key}={value!r}")


def _flags(fastmath: FastMathLike) -> AbstractContextManager[object]:
    """The flags of one conversion."""
    return nullcontext() if fastmath is None else _fastmath(fastmath)


def _builder(name: str, args: tuple[ValueLike, ...], fastmath: FastMathLike = None) -> Any:
    """Emit one op of the dialect on operands of one type."""
    cls, shape, values = uniform(name, args)
    t = current()
    if name in _FLOAT or name == "negf":
        if not cls.is_float:
            raise DSLTypeError(f"{name} requires floats, got {cls}")
        if cls.width < 16:
            raise DSLTypeError(f"{name} does not take {cls}, a storage format; convert it with .to(fx.Float32)")
        flags = flags_attr(fastmath)
        if name == "negf":
            return rewrap(t.negf(values[0], flags), shape, cls)
        if name == "remf":
            from .emit.scalar_types import emit_math

            return rewrap(emit_math(t, "remf", values, flags), shape, cls)
        return rewrap(t.float_binary(name, values[0], values[1], flags), shape, cls)
    if not cls.is_integer:
        raise DSLTypeError(f"{name} requires integers, got {cls}")
    return rewrap(t.int_binary(name, values[0], values[1]), shape, cls)


_OF_7_AND_2 = {
    "addi": 9, "subi": 5, "muli": 14, "divsi": 3, "divui": 3, "remsi": 1, "remui": 1, "floordivsi": 3, "ceildivsi": 4,
    "ceildivui": 4, "andi": 2, "ori": 7, "xori": 5, "shli": 28, "shrsi": 1, "minsi": 2, "maxsi": 7, "minui": 2,
    "maxui": 7, "addf": 9.0, "subf": 5.0, "mulf": 14.0, "divf": 3.5, "remf": 1.0, "maximumf": 7.0, "minimumf": 2.0,
    "maxnumf": 7.0, "minnumf": 2.0,
}  # fmt: skip
_NAN = {
    "maximumf": " The larger float, NaN if one of them is.",
    "minimumf": " The smaller float, NaN if one of them is.",
    "maxnumf": " The larger float, the other one if one is NaN.",
    "minnumf": " The smaller float, the other one if one is NaN.",
}


def _document(build: B, name: str) -> B:
    result = _OF_7_AND_2[name]
    a, b = (7.0, 2.0) if isinstance(result, float) else (7, 2)
    build.__name__ = build.__qualname__ = name
    example = f">>> flyc.evaluate(fx.arith.{name}, {a}, {b})\n    {result}"
    build.__doc__ = f"Emit `arith.{name}`.{_NAN.get(name, '')}\n\n    {example}\n    "
    return build


def _integer_builder(name: str):
    @also_called(a="lhs", b="rhs")
    def build(lhs: Operand[ValueT], rhs: Operand[ValueT], **kwargs: object) -> ValueT:
        _promises(name, kwargs)
        return _builder(name, (lhs, rhs))

    return _document(build, name)


def _float_builder(name: str):
    @also_called(a="lhs", b="rhs")
    def build(lhs: Operand[ValueT], rhs: Operand[ValueT], *, fastmath: FastMathLike = None, **kwargs: object) -> ValueT:
        _promises(name, kwargs)
        return _builder(name, (lhs, rhs), fastmath)

    return _document(build, name)


addi, subi, muli, divsi, divui, remsi, remui, floordivsi, ceildivsi, ceildivui, andi, ori = map(
    _integer_builder, _INTEGER[:12]
)
xori, shli, shrsi, minsi, maxsi, minui, maxui = map(_integer_builder, _INTEGER[12:])
addf, subf, mulf, divf, remf, maximumf, minimumf, maxnumf, minnumf = map(_float_builder, _FLOAT)


@also_called(a="operand")
def negf(operand: Operand[ValueT], *, fastmath: FastMathLike = None, **kwargs: object) -> ValueT:
    """Emit `arith.negf`.

    >>> flyc.evaluate(fx.arith.negf, 2.0)
    -2.0
    """
    _promises("negf", kwargs)
    return _builder("negf", (operand,), fastmath)


def __getattr__(name: str) -> object:
    """`arith.AddFOp(a, b).result` and the like: an object holding what the builder of that name gives."""
    if name.endswith("Op") and not name.startswith("_"):
        build = globals().get(name[:-2].lower())
        if callable(build):
            return lambda *args, **kwargs: SimpleNamespace(result=build(*args, **kwargs))  # pyright: ignore[reportUnknownLambdaType,reportUnknownVariableType]
    if name in ("dsl_loc_tracing", "dsl_math_wrap_result"):
        from . import meta

        return getattr(meta, name)
    return raw_binding("arith", name)


__all__ = [
    "CmpFPredicate", "CmpIPredicate", "FastMathFlags", "RoundingMode", "ceildiv", "cmpf", "cmpi", "constant_vector",
    "fastmath", "index_cast", "max", "maximumf", "maxnumf", "min", "minimumf", "minnumf", "shrui",
]  # fmt: skip
