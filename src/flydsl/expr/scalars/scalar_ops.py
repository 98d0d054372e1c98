"""Promotion, conversion and the operators of the scalar classes, as tables over what a class says about itself.

Nothing here knows a concrete class: results are looked up in `CLASSES`, which `numeric` fills. An operator on two
classes becomes a plan, decided once per pair; a plan folds compile-time payloads and emits code for the rest. `Vector`
uses the same kernels on vectors of a class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from ...errors import DSLTypeError, DSLValueError
from ...ir.fold import floor_float, fold_cmpf, fold_cmpi, fold_float, fold_int, fold_ipow, round_float
from ..emit.trace import current
from .fastmath import flags_attr

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from ...ir.enums import RoundingMode
    from ..annotations import Attribute, Number, SSAValue, Tracer
    from ..numeric import Numeric, ScalarClass

CLASSES: dict[str, type[Numeric]] = {}
"""Every concrete scalar class by name."""

STATIC: Final = frozenset({int, float, bool})
"""Python types of compile-time payloads."""

IR_VALUES: Final = frozenset({"OpResult", "BlockArgument", "ErasedSSAValue"})

N = TypeVar("N", bound="Numeric")


def is_ir_value(x: object) -> TypeIs[SSAValue]:
    """Whether `x` is an SSA value; does not load xDSL to find out.

    >>> is_ir_value(3)
    False
    """
    return type(x).__name__ in IR_VALUES


def make(cls: type[N], value: Number | SSAValue) -> N:
    """An instance around a payload that already fits the class: no conversion, no check."""
    made = object.__new__(cls)
    made.value = value
    return made


# --- conversion of run-time values ------------------------------------------------------------------------------------

_steps: dict[tuple[type[Numeric], type[Numeric]], tuple[tuple[str, type[Numeric]], ...]] = {}


def _conversion(a: type[Numeric], b: type[Numeric]) -> tuple[tuple[str, type[Numeric]], ...]:
    """The `arith` casts that lead from one class to another, each with the class it arrives at."""
    if a is b:
        return ()
    if b.width == 1:
        if a.is_float and a.width < 16:
            return (("extf", CLASSES["Float32"]), ("nonzero", CLASSES["Float32"]))
        return (("nonzero", a),)
    if a.ir_name == "index" and b.is_integer and b.width <= 64:
        return (("index_cast", b),)
    if a.ir_name == "index":
        return (("index_cast", CLASSES["Uint64"]), *_conversion(CLASSES["Uint64"], b))
    if b.ir_name == "index" and a.is_integer and a.signed and 1 < a.width <= 64:
        return (("index_cast", b),)
    if b.ir_name == "index":
        return (*_conversion(a, CLASSES["Uint64"]), ("index_cast", b))
    if a.is_integer and b.is_integer:
        if a.width == b.width:
            return ()
        return (("trunci" if b.width < a.width else "extsi" if a.signed and a.width > 1 else "extui", b),)
    if a.is_integer:
        if b.width < 16:  # Whatever is too large for 32 bits to hold exactly is far beyond their range.
            return (*_conversion(a, CLASSES["Float32"]), ("truncf", b))
        return (("sitofp" if a.signed and a.width > 1 else "uitofp", b),)
    if b.is_integer:
        if a.width < 16:
            return (("extf", CLASSES["Float32"]), *_conversion(CLASSES["Float32"], b))
        return (("fptosi" if b.signed else "fptoui", b),)
    if a.width == b.width:
        return (("extf", CLASSES["Float32"]), ("truncf", b))
    return (("extf" if b.width > a.width else "truncf", b),)


def convert(
    t: Tracer, x: SSAValue, a: ScalarClass, b: ScalarClass, lanes: int = 0, rounding: RoundingMode | None = None
) -> SSAValue:
    """An SSA value of class `a` as class `b`; `lanes` is the element count of a vector, 0 for a scalar."""
    steps = _steps.get((a, b))
    if steps is None:
        steps = _steps[a, b] = _conversion(a, b)
    for name, target in steps:
        if name == "nonzero":
            x = _nonzero(t, x, target)
            continue
        to_type = target.ir_type
        if lanes:
            from ...ir.types import vector_type

            to_type = vector_type(to_type, lanes)
        flags = flags_attr() if name in ("extf", "truncf") else None
        if flags is None and rounding is None:
            x = t.cast(name, x, to_type)
        else:
            from ..emit.scalar_types import emit_float_cast

            x = emit_float_cast(t, name, x, to_type, flags, rounding if name == "truncf" else None)
    return x


def _nonzero(t: Tracer, x: SSAValue, cls: type[Numeric]) -> SSAValue:
    zero = t.const(0, x.type)
    return t.cmpf("une", x, zero, flags_attr()) if cls.is_float else t.cmpi("ne", x, zero)


# --- common classes ---------------------------------------------------------------------------------------------------

_common: dict[tuple[type[Numeric], type[Numeric]], type[Numeric]] = {}


def common_type(a: type[Numeric], b: type[Numeric]) -> type[Numeric]:
    """The class two operands are converted to before they meet.

    >>> from flydsl.expr.numeric import Float16, Int32, Int64, Uint32
    >>> common_type(Int32, Uint32), common_type(Int64, Uint32), common_type(Float16, Int32)
    (Uint32, Int64, Float32)
    """
    if a is b:
        return a
    found = _common.get((a, b))
    if found is None:
        found = _common[a, b] = _common_type(a, b)
    return found


def _common_type(a: type[Numeric], b: type[Numeric]) -> type[Numeric]:
    if a.is_integer and b.is_integer:
        if a.signed == b.signed:
            return a if a.width >= b.width else b  # of Uint64 and Index the left one
        u, s = (b, a) if a.signed else (a, b)
        return u if u.width >= s.width else s
    if a.is_integer or b.is_integer:
        f, i = (b, a) if a.is_integer else (a, b)
        return f if f.width >= i.width else CLASSES["Float32" if i.width <= 32 else "Float64"]
    wide, narrow = (a, b) if a.width >= b.width else (b, a)
    if wide.width != narrow.width and wide.width >= 16:
        return wide
    if wide.width == narrow.width == 16:
        return CLASSES["Float32"]
    raise DSLValueError(f"no common float type of {a} and {b}: convert one of them with .to()")


# --- operators --------------------------------------------------------------------------------------------------------

INT_OPS: Final[dict[str, tuple[str, str]]] = {
    "add": ("addi", "addi"), "sub": ("subi", "subi"), "mul": ("muli", "muli"), "floordiv": ("floordivsi", "divui"),
    "mod": ("remsi", "remui"), "and": ("andi", "andi"), "or": ("ori", "ori"), "xor": ("xori", "xori"),
    "lshift": ("shli", "shli"), "rshift": ("shrsi", "shrui"), "max": ("maxsi", "maxui"), "min": ("minsi", "minui"),
    "ceildiv": ("ceildivsi", "ceildivui"),
}  # fmt: skip
"""Signed and unsigned `arith` op of an operator on integers."""

FLOAT_OPS: Final[dict[str, str]] = {
    "add": "addf", "sub": "subf", "mul": "mulf", "truediv": "divf", "floordiv": "divf", "mod": "remf", "pow": "powf",
    "max": "maximumf", "min": "minimumf", "maxnum": "maxnumf", "minnum": "minnumf",
}  # fmt: skip
COMPARISONS: Final[dict[str, tuple[str, str, str]]] = {
    "eq": ("eq", "eq", "oeq"), "ne": ("ne", "ne", "une"), "lt": ("slt", "ult", "olt"), "le": ("sle", "ule", "ole"),
    "gt": ("sgt", "ugt", "ogt"), "ge": ("sge", "uge", "oge"),
}  # fmt: skip
"""Predicate of a comparison on signed and unsigned integers and on floats."""

SYMBOLS: Final[dict[str, str]] = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "and": "&",
    "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=",
}  # fmt: skip
_WIDEN_BOOLEANS = frozenset({"add", "sub", "mul", "truediv", "floordiv", "mod", "max", "min", "ceildiv"})
_BITWISE = frozenset({"and", "or", "xor", "lshift", "rshift"})

Emit: TypeAlias = "Callable[[Tracer, SSAValue, SSAValue, int], SSAValue]"
Fold: TypeAlias = "Callable[[Any, Any], Number]"
Plan: TypeAlias = "Callable[[Any, Any], Numeric]"
"""An operator on two payloads, numbers or SSA values."""
_kernels: dict[tuple[str, type[Numeric]], tuple[type[Numeric], Emit, Fold]] = {}


def operation_type(name: str, a: type[Numeric], b: type[Numeric]) -> type[Numeric]:
    """The class in which an operator computes on operands of two classes."""
    if name in _WIDEN_BOOLEANS:
        a, b = CLASSES["Int32"] if a.width == 1 else a, CLASSES["Int32"] if b.width == 1 else b
    cls = common_type(a, b)
    if cls.is_float and name in _BITWISE:
        raise DSLTypeError(f"{SYMBOLS[name]} requires integer operands, got {a} and {b}")
    return cls


def kernel(name: str, cls: type[Numeric]) -> tuple[type[Numeric], Emit, Fold]:
    """How an operator works inside one class: the result's class, its emission and its folding.

    The emitter takes (tracer, x, y, lanes) and works on scalars and vectors alike; the fold takes and gives payloads.
    """
    found = _kernels.get((name, cls))
    if found is None:
        if name in COMPARISONS:
            found = _comparison(name, cls)
        elif cls.is_float:
            found = _float_kernel(name, cls)
        elif name == "truediv":
            found = _int_division(cls)
        elif name == "pow":
            found = _int_power(cls)
        else:
            found = _int_kernel(name, cls)
        _kernels[name, cls] = found
    return found


def _comparison(name: str, cls: type[Numeric]) -> tuple[type[Numeric], Emit, Fold]:
    signed, unsigned, ordered = COMPARISONS[name]
    if cls.is_float:
        fmt = cls.ir_name
        emit: Emit = lambda t, x, y, lanes: t.cmpf(ordered, x, y, flags_attr())  # noqa: E731
        return (
            CLASSES["Boolean"],
            _widened(emit, cls) if cls.width < 16 else emit,
            lambda x, y: fold_cmpf(ordered, round_float(x, fmt), round_float(y, fmt)),
        )
    predicate, width = signed if cls.signed and cls.width > 1 else unsigned, cls.width
    return (
        CLASSES["Boolean"],
        lambda t, x, y, lanes: t.cmpi(predicate, x, y),
        lambda x, y: fold_cmpi(predicate, x, y, width),
    )


def _widened(emit: Emit, cls: type[Numeric]) -> Emit:
    """An emission on values of a class of less than 16 bits, whose operands it gets in 32 bits, exactly."""
    wide = CLASSES["Float32"]
    return lambda t, x, y, lanes: emit(t, convert(t, x, cls, wide, lanes), convert(t, y, cls, wide, lanes), lanes)


def _small_float_kernel(name: str, cls: type[Numeric]) -> tuple[type[Numeric], Emit, Fold]:
    """No machine computes in less than 16 bits: each step is done in 32, which loses nothing, and rounded once."""
    wide, op, fmt = CLASSES["Float32"], FLOAT_OPS[name], cls.ir_name
    step = _widened(kernel("truediv" if name == "floordiv" else name, wide)[1], cls)

    def emit(t: Tracer, x: SSAValue, y: SSAValue, lanes: int) -> SSAValue:
        made = convert(t, step(t, x, y, lanes), wide, cls, lanes)
        if name != "floordiv":
            return made
        floor = _emit_math(t, "floor", convert(t, made, cls, wide, lanes), flags_attr())
        return convert(t, floor, wide, cls, lanes)

    def fold(x: float, y: float) -> Number:
        made = fold_float(op, x, y, fmt)
        return floor_float(made) if name == "floordiv" else made

    return cls, emit, fold


def _float_kernel(name: str, cls: type[Numeric]) -> tuple[type[Numeric], Emit, Fold]:
    if cls.width < 16:
        return _small_float_kernel(name, cls)
    op, fmt = FLOAT_OPS[name], cls.ir_name

    def fold(x: float, y: float) -> Number:
        return fold_float(op, x, y, fmt)

    if name == "floordiv":

        def emit_floor(t: Tracer, x: SSAValue, y: SSAValue, lanes: int) -> SSAValue:
            from ..emit.scalar_types import emit_math

            flags = flags_attr()
            return emit_math(t, "floor", (t.float_binary("divf", x, y, flags),), flags)

        return cls, emit_floor, lambda x, y: floor_float(fold(x, y))
    if name in ("mod", "pow"):

        def emit_call(t: Tracer, x: SSAValue, y: SSAValue, lanes: int) -> SSAValue:
            from ..emit.scalar_types import emit_math

            return emit_math(t, op, (x, y), flags_attr())

        return cls, emit_call, fold
    return cls, lambda t, x, y, lanes: t.float_binary(op, x, y, flags_attr()), fold


def _int_division(cls: type[Numeric]) -> tuple[type[Numeric], Emit, Fold]:
    result = CLASSES["Float32" if cls.width <= 32 else "Float64"]

    def emit(t: Tracer, x: SSAValue, y: SSAValue, lanes: int) -> SSAValue:
        return t.float_binary(
            "divf", convert(t, x, cls, result, lanes), convert(t, y, cls, result, lanes), flags_attr()
        )

    return result, emit, lambda x, y: fold_float("divf", float(x), float(y), result.ir_name)


def _int_power(cls: type[Numeric]) -> tuple[type[Numeric], Emit, Fold]:
    def emit(t: Tracer, x: SSAValue, y: SSAValue, lanes: int) -> SSAValue:
        from ..emit.scalar_types import emit_math

        if cls.signed:
            return emit_math(t, "ipowi", (x, y), None)
        # `ipowi` reads exponents as signed. The power by the top bit's worth alone is 1 for odd bases, else 0.
        zero, one = t.const(0, x.type), t.const(1, x.type)
        power = emit_math(t, "ipowi", (x, t.int_binary("andi", y, t.const((1 << (cls.width - 1)) - 1, x.type))), None)
        even = t.cmpi("eq", t.int_binary("andi", x, one), zero)
        return t.select(t.int_binary("andi", t.cmpi("slt", y, zero), even), zero, power)

    def fold(x: float, y: float) -> Number:
        value = fold_ipow(int(x), int(y), cls.width)
        if value is None:
            raise ZeroDivisionError(f"{cls}: zero to the negative power {y}")
        return cls.payload(value)

    return cls, emit, fold


def _int_kernel(name: str, cls: type[Numeric]) -> tuple[type[Numeric], Emit, Fold]:
    if name not in INT_OPS:
        raise DSLTypeError(f"{name} requires float operands, got {cls}")
    op, width = INT_OPS[name][0 if cls.signed and cls.width > 1 else 1], cls.width

    def fold(x: float, y: float) -> Number:
        value = fold_int(op, int(x), int(y), width)
        if value is None:
            if name in ("lshift", "rshift"):
                # The machine leaves it open; everything is shifted out, as with ever longer shifts.
                value = -1 if op == "shrsi" and x < 0 else 0
            else:
                raise ZeroDivisionError(f"{cls}: {x} {SYMBOLS.get(name, name)} 0 at compile time")
        return (value & 1) == 1 if width == 1 else cls.payload(value)

    return cls, lambda t, x, y, lanes: t.int_binary(op, x, y), fold


def make_plan(name: str, a: type[Numeric], b: type[Numeric]) -> Plan:
    """An operator on payloads of two classes: everything that depends on the classes alone is decided here."""
    cls = operation_type(name, a, b)
    result, emit, fold = kernel(name, cls)
    reduce_to = cls.payload
    a_steps, b_steps = _conversion(a, cls), _conversion(b, cls)

    def plan(x: Any, y: Any) -> Numeric:
        made = object.__new__(result)
        if type(x) in STATIC:
            if type(y) in STATIC:
                made.value = fold(reduce_to(x), reduce_to(y))
                return made
            t = current()
            x = t.const(reduce_to(x), cls.ir_type)
            if b_steps:
                y = convert(t, y, b, cls)
        else:
            t = current()
            if a_steps:
                x = convert(t, x, a, cls)
            if type(y) in STATIC:
                y = t.const(reduce_to(y), cls.ir_type)
            elif b_steps:
                y = convert(t, y, b, cls)
        made.value = emit(t, x, y, 0)
        return made

    return plan


def unary_kernel(
    name: str, cls: type[Numeric]
) -> tuple[Callable[[Tracer, SSAValue], SSAValue], Callable[[Any], Number]]:
    """Emission `(tracer, x)` and folding `(payload)` of `neg`, `abs` or `invert` in one class."""
    if cls.width == 1 and name != "invert":
        raise DSLTypeError(
            f"{'unary -' if name == 'neg' else 'abs'} is not defined for Boolean; convert to Int32 first"
        )
    if cls.is_float:
        if name == "invert":
            raise DSLTypeError(f"~ requires an integer operand, got {cls}")
        if cls.width < 16:
            emit, fold = unary_kernel(name, CLASSES["Float32"])
            return lambda t, x: _unary_in_32_bits(t, x, cls, emit), lambda x: cls.payload(fold(x))
        if name == "neg":
            return lambda t, x: t.negf(x, flags_attr()), lambda x: -x
        return lambda t, x: _emit_math(t, "absf", x, flags_attr()), abs
    if name == "invert":
        if cls.width == 1:
            return lambda t, x: t.int_binary("xori", x, t.const(1, x.type)), lambda x: not x
        return lambda t, x: t.int_binary("xori", x, t.const(-1, x.type)), lambda x: cls.payload(~x)
    if name == "neg":
        return lambda t, x: t.int_binary("subi", t.const(0, x.type), x), lambda x: cls.payload(-x)
    if not cls.signed:
        return lambda t, x: x, lambda x: x
    return lambda t, x: _emit_math(t, "absi", x, None), lambda x: cls.payload(abs(x))


def _unary_in_32_bits(
    t: Tracer, x: SSAValue, cls: type[Numeric], emit: Callable[[Tracer, SSAValue], SSAValue]
) -> SSAValue:
    from ..emit.scalar_types import vector_parts

    parts = vector_parts(x.type)
    wide, lanes = CLASSES["Float32"], 0 if parts is None else parts[1]
    return convert(t, emit(t, convert(t, x, cls, wide, lanes)), wide, cls, lanes)


def _emit_math(t: Tracer, name: str, x: SSAValue, flags: Attribute | None) -> SSAValue:
    from ..emit.scalar_types import emit_math

    return emit_math(t, name, (x,), flags)
