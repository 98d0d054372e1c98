"""Scalar types of the language: `Int32`, `Float32`, `Boolean`, ... and their arithmetic.

A `Numeric` holds either a Python number (compile-time) or an IR value (run-time); both are of the same class, and
operations on compile-time numbers give what the machine would. The IR is signless: the class says which operation an
operator means. Light: xDSL is touched only through the tracer at work and, lazily, `scalar_types`.
"""

from __future__ import annotations

import importlib
import math
import numbers
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeAlias, TypeVar, cast, overload

from ..errors import DSLOverflowError, DSLRuntimeError, DSLTypeError, DSLValueError
from ..ir.enums import RoundingMode
from ..ir.fold import float_bits, float_from_bits, round_float
from .aliases import also_called
from .control.texts import note_unknown
from .emit.trace import current
from .scalars.fastmath import fastmath as _fastmath
from .scalars.operators import ScalarOperators
from .scalars.scalar_ops import (
    CLASSES,
    COMPARISONS,
    FLOAT_OPS,
    INT_OPS,
    IR_VALUES,
    STATIC,
    common_type,
    convert,
    is_ir_value,
    make,
    make_plan,
    unary_kernel,
)

if TYPE_CHECKING:
    import numpy

    from .annotations import Attribute, DTypeLike, FastMathLike, IntLike, Number, ScalarLike, Slot, SSAValue
    from .scalars.scalar_ops import Plan
    from .tensor import Pointer

ScalarClass: TypeAlias = "type[Numeric]"


N = TypeVar("N", bound="Numeric")
S = TypeVar("S", bound="Numeric")
P = TypeVar("P", int, float, bool)


class NumericMeta(type):
    """Metaclass of the scalar classes: they print as their names and know their IR and numpy types.

    >>> str(Int32), Int32.width, Int32.log_width, Uint8.signed, Float32.is_float
    ('Int32', 32, 5, False, True)
    """

    width: int
    """Bits of a value."""
    ir_name: str
    """The IR type as text."""
    cached_type: Attribute | None
    is_integer: ClassVar[bool] = False
    is_float: ClassVar[bool] = False

    def __new__(mcs, name: str, bases: tuple[type, ...], attrs: dict[str, object], **options: object) -> NumericMeta:
        attrs.setdefault("__slots__", ())
        return super().__new__(mcs, name, bases, attrs, **options)

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, object], **options: object):
        super().__init__(name, bases, attrs)

    def __str__(cls) -> str:
        return cls.__name__

    def __repr__(cls) -> str:
        return cls.__name__

    @property
    def log_width(cls) -> int:
        """Bits needed to index the bits of a value."""
        return (cls.width - 1).bit_length()

    @property
    def ir_type(cls) -> Attribute:
        """The IR type; loads xDSL."""
        found = cls.cached_type
        if found is None:
            from .emit.scalar_types import ir_type_of

            found = cls.cached_type = ir_type_of(cls.ir_name)
        return found

    @property
    def numpy_dtype(cls) -> numpy.dtype[numpy.generic] | None:
        """The numpy dtype, or None where numpy has none."""
        name = _NUMPY_NAMES.get(cls.__name__)
        if name is None:
            return None
        return importlib.import_module("numpy").dtype(name)

    @property
    def zero(cls) -> int | float:
        """The zero of the class, as Python's number."""
        return 0.0 if cls.is_float else 0


class Numeric(ScalarOperators, metaclass=NumericMeta):
    """Base of all scalar classes; `T(x)` constructs and casts.

    >>> Int8(200), Uint64(-1), Int32(2.9), Float32(3)
    (Int8(-56), Uint64(18446744073709551615), Int32(2), Float32(3.0))
    """

    __slots__ = ("value",)

    width: ClassVar[int] = 0
    signed: ClassVar[bool | None] = None
    is_integer: ClassVar[bool] = False
    is_float: ClassVar[bool] = False
    ir_name: ClassVar[str] = ""
    cached_type: ClassVar[Attribute | None] = None
    abi: ClassVar[Slot | None] = None

    value: Any
    """The payload: a Python number, or an SSA value."""

    def __init_subclass__(cls, *, width: int = 0, signed: bool | None = None, ir: str = ""):
        cls.width, cls.ir_name, cls.cached_type, cls.abi = width, ir, None, None
        if width:
            cls.signed = signed
            CLASSES[cls.__name__] = cls

    def __init__(self, x: Any):
        cls = type(self)
        kind: type = type(x)  # pyright: ignore[reportUnknownVariableType]
        if kind in STATIC:
            self.value = cls.payload(x)
        elif isinstance(x, Numeric):
            payload = x.value
            if type(payload) in STATIC:
                self.value = payload if kind is cls else cls._rounded(kind, payload)
            else:
                self.value = convert(current(), payload, kind, cls)
        elif kind.__name__ in IR_VALUES:
            self.value = cls._from_ir(x)
        elif isinstance(x, numbers.Real):
            self.value = cls.payload(int(x) if isinstance(x, numbers.Integral) else float(x))
        elif hasattr(kind, "__dsl_scalar__") and (number := x.__dsl_scalar__()) is not None:
            self.value = cls(number).value
        elif getattr(x, "numel", None) == 1:
            # A vector of one element stands for it, as what a one-element tensor gives on load().
            self.value = cls(x[0]).value
        else:
            hint = f"; convert its elements with .to(fx.{cls})" if isinstance(getattr(x, "numel", None), int) else ""
            hint = "; take one element of it, as in x[i]" if getattr(kind, "is_tensor", False) else hint
            raise DSLValueError(
                f"{cls} expects a number, a DSL scalar or an IR value, got {x!r} of type {kind.__name__}{hint}"
            )

    @classmethod
    def payload(cls, value: Number) -> Number:
        """A Python number as a payload of this class."""
        raise DSLTypeError(f"{cls} is abstract; use a concrete scalar class such as Int32 or Float32")

    @classmethod
    def _rounded(cls, source: ScalarClass, value: Number) -> Number:
        """A payload of another class as one of this class: what was written is rounded to each of them."""
        if source.is_float and source.width < 32:
            value = round_float(value, source.ir_name)
        made = cls.payload(value)
        if cls.is_float and math.isfinite(rounded := round_float(made, cls.ir_name)):
            return rounded
        return made

    @classmethod
    def _from_ir(cls, value: SSAValue) -> SSAValue:
        """An untyped IR value as a payload of this class; this class's signedness decides how it is extended."""
        if value.type == cls.ir_type:
            return value
        source = Numeric.from_ir_type(value.type)
        if source.is_integer and cls.is_float:
            raise DSLValueError(
                f"cannot convert an untyped IR integer to {cls}: its signedness is unknown; wrap it first, as in "
                f"{cls}({source}(x))"
            )
        if source.is_integer and cls.is_integer:
            source = source if source is Index else _SIGNED_PAIRS[source.width][0 if cls.signed else -1]
        return convert(current(), value, source, cls)

    # --- knowing about oneself ------------------------------------------------------------------------------------

    @property
    def dtype(self) -> ScalarClass:
        """The class of the value."""
        return type(self)

    @property
    def type(self) -> Attribute:
        """The IR type of the value."""
        return type(self).ir_type

    def is_static(self) -> bool:
        """Whether the value is known at compile time.

        >>> Int32(5).is_static()
        True
        """
        return type(self.value) in STATIC

    def ir_value(self) -> SSAValue:
        """The value as an SSA value; a compile-time one becomes a constant."""
        value = self.value
        return current().const(value, type(self).ir_type) if type(value) in STATIC else value

    @property
    def log_width(self) -> int:
        """Bits needed to index the bits of the value."""
        return type(self).log_width

    def __repr__(self) -> str:
        value = self.value
        if type(value) in STATIC:
            return f"{type(self)}({value!r})"
        note_unknown()
        return f"{type(self)}(?)"

    def __str__(self) -> str:
        note_unknown()
        return "?"

    def __format__(self, spec: str) -> str:
        return format(payload_of(self, "cannot be formatted"), spec) if spec else str(self)

    def __hash__(self) -> int:
        return hash(self.value) if type(self.value) in STATIC else object.__hash__(self)

    def __bool__(self) -> bool:
        if type(self.value) in STATIC:
            return bool(self.value)
        raise DSLRuntimeError(
            f"cannot evaluate dynamic {type(self)} as Python bool: the value exists only at run time. Use "
            "cond.select(a, b), or write the `if`, `and`, `or`, `not` inside a @flyc.jit or @flyc.kernel function, "
            "whose control flow is traced (helper functions are not)"
        )

    def __int__(self) -> int:
        return int(payload_of(self, "has no Python integer representation"))

    def __float__(self) -> float:
        return float(payload_of(self, "has no Python float representation"))

    def __index__(self) -> int:
        value = payload_of(self, "has no Python integer representation")
        if type(value) is float:
            raise DSLTypeError(f"{self!r} cannot be an index: convert it with int() or .to(fx.Int32) first")
        return int(value)

    # --- conversions ----------------------------------------------------------------------------------------------

    @overload
    def to(self, dtype: type[N], *, rounding_mode: RoundingMode | None = None) -> N: ...
    @overload
    def to(self, dtype: type[P], *, rounding_mode: RoundingMode | None = None) -> P: ...
    @overload
    def to(self, dtype: Attribute, *, rounding_mode: RoundingMode | None = None) -> Numeric: ...
    def to(self, dtype: DTypeLike | type[Number], *, rounding_mode: RoundingMode | None = None) -> Numeric | Number:
        """The value as another class; `int`, `float` or `bool` give a compile-time payload.

        >>> Float32(2.5).to(Int32), Float32(2.5).to(float)
        (Int32(2), 2.5)
        """
        cls = type(self)
        if dtype is int or dtype is float or dtype is bool:
            if type(self.value) not in STATIC:
                raise DSLValueError(f"a run-time {cls} has no compile-time payload to give as a {dtype.__name__}")
            return dtype(self.value)
        target = dsl_class(dtype)
        if rounding_mode is not None:
            check_rounding(cls, target, rounding_mode)
            if type(self.value) in STATIC:
                raise DSLValueError(
                    f"rounding_mode needs a run-time value, got the compile-time {self!r}: leave the mode out"
                )
            return make(target, convert(current(), self.value, cls, target, 0, rounding_mode))
        return self if target is cls else target(self)

    @overload
    def bitcast(self, dtype: type[N]) -> N: ...
    @overload
    def bitcast(self, dtype: Attribute) -> Numeric: ...
    def bitcast(self, dtype: DTypeLike) -> Numeric:
        """The same bits read as another class of equal width.

        >>> Float32(1.0).bitcast(Int32), Uint16(0x3F80).bitcast(BFloat16)
        (Int32(1065353216), BFloat16(1.0))
        """
        cls, target = type(self), dsl_class(dtype)
        if target.width != cls.width:
            raise DSLTypeError(f"cannot bitcast {cls} ({cls.width} bits) to {target} ({target.width} bits)")
        if target is cls:
            return self
        value = self.value
        if type(value) in STATIC:
            bits = float_bits(value, cls.ir_name) if cls.is_float else int(value)
            if target.is_float:
                return make(target, float_from_bits(bits & ((1 << cls.width) - 1), target.ir_name))
            return make(target, target.payload(bits))
        if target is Boolean or cls.ir_type == target.ir_type:
            return make(target, value)
        name = "index_cast" if Index in (cls, target) else "bitcast"
        if name == "index_cast" and (cls.is_float or target.is_float):
            value = self.bitcast(Int64).value
        return make(target, current().cast(name, value, target.ir_type))

    def with_signedness(self, signed: bool | None) -> Numeric:
        """The same bits as a signed or unsigned class; None means signed. Floats stay as they are.

        >>> Int32(-1).with_signedness(False)
        Uint32(4294967295)
        """
        cls = type(self)
        if cls.is_float or cls is Boolean or cls is Index:
            return self
        return self.to(_SIGNED_PAIRS[cls.width][-1 if signed is False else 0])

    def extf(self, dtype: DTypeLike) -> Numeric:
        """Widen a float; takes a class or an IR type, like the other conversions of this family."""
        return _float_cast(self, dtype, "extf")

    def truncf(self, dtype: DTypeLike) -> Numeric:
        """Narrow a float, rounding to nearest even."""
        return _float_cast(self, dtype, "truncf")

    def extui(self, dtype: DTypeLike) -> Numeric:
        """Widen an integer with zeros."""
        return self.with_signedness(False).to(dtype)

    def extsi(self, dtype: DTypeLike) -> Numeric:
        """Widen an integer with copies of its sign bit."""
        if type(self) is Boolean:
            return -self.to(dtype)
        return self.with_signedness(True).to(dtype)

    def trunci(self, dtype: DTypeLike) -> Numeric:
        """Keep the low bits of an integer."""
        target = dsl_class(dtype)
        if target is Boolean:
            return Boolean(self & type(self)(1))
        return self.to(target)

    def index_cast(self, dtype: DTypeLike) -> Numeric:
        """Convert between `Index` and another integer."""
        return self.to(dtype)

    # --- choosing -------------------------------------------------------------------------------------------------

    @overload
    def select(self, true_value: S, false_value: S) -> S: ...
    @overload
    def select(self, true_value: ScalarLike, false_value: ScalarLike) -> Numeric: ...
    @overload
    def select(self, true_value: object, false_value: object) -> object: ...
    def select(self, true_value: object, false_value: object) -> object:
        """`true_value` where this is non-zero, else `false_value`; scalars are promoted to their common class first.

        >>> Boolean(True).select(1, 2.5)
        Float32(1.0)
        """
        cond = self if type(self) is Boolean else Boolean(self)
        a, b = scalar_or_none(true_value), scalar_or_none(false_value)
        if a is not None and b is not None:
            cls = common_type(a.dtype, b.dtype)
            if type(cond.value) in STATIC:
                return cls(a if cond.value else b)
            return make(cls, current().select(cond.value, cls(a).ir_value(), cls(b).ir_value()))
        return _select_objects(cond, true_value, false_value)

    # --- logic hooks of the control-flow rewriter -----------------------------------------------------------------

    def __dsl_bool__(self) -> Boolean:
        return Boolean(self)

    def __dsl_not__(self) -> Boolean:
        return ~Boolean(self)

    def __dsl_and__(self, other: object) -> Boolean:
        a, b = Boolean(self), Boolean(as_numeric(other))
        if type(a.value) in STATIC:
            return b if a.value else a
        if type(b.value) in STATIC:
            return a if b.value else b
        return a & b

    def __dsl_or__(self, other: object) -> Boolean:
        a, b = Boolean(self), Boolean(as_numeric(other))
        if type(a.value) in STATIC:
            return a if a.value else b
        if type(b.value) in STATIC:
            return b if b.value else a
        return a | b

    # --- operators ------------------------------------------------------------------------------------------------

    @staticmethod
    def _operate(name: str, a: object, b: object) -> object:
        return binary(name, a, b)

    def _unary(self, name: str) -> Self:
        cls = type(self)
        emit, fold = unary_kernel(name, cls)
        return make(cls, fold(self.value) if type(self.value) in STATIC else emit(current(), self.value))

    # --- deprecated spellings -------------------------------------------------------------------------------------

    def addf(self, other: ScalarLike, fastmath: FastMathLike = None) -> Numeric:
        """Deprecated: `a + b`."""
        return _flagged(fastmath, "add", self, other)

    def maximumf(self, other: ScalarLike, fastmath: FastMathLike = None) -> Numeric:
        """Deprecated: `fx.max(a, b)`."""
        return _flagged(fastmath, "max", self, other)

    def minimumf(self, other: ScalarLike, fastmath: FastMathLike = None) -> Numeric:
        """Deprecated: `fx.min(a, b)`."""
        return _flagged(fastmath, "min", self, other)

    def shuffle_xor(self, offset: IntLike, width: IntLike | None = None) -> Self:
        """Deprecated: `fx.shuffle_xor(x, offset, width)`."""
        return _sibling("gpu").shuffle_xor(self, offset, width)

    # --- protocols ------------------------------------------------------------------------------------------------

    def __extract_to_ir_values__(self) -> list[SSAValue]:
        return [self.ir_value()]

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[SSAValue], exemplar: object = None) -> Self:
        (value,) = values
        return make(cls, value)

    def __get_ir_types__(self) -> list[Attribute]:
        return [type(self).ir_type]

    def __cache_signature__(self) -> object:
        return type(self).__name__

    def __c_abi_spec__(self) -> list[Slot]:
        from .scalars.scalar_abi import c_abi_slot

        return [c_abi_slot(type(self))]

    @classmethod
    def __dsl_size_of__(cls) -> int:
        if cls.width == 0 or (cls.width < 8 and cls is not Boolean):
            raise DSLTypeError(f"{cls} is not Storable: it is a sub-byte type; store an Array of it, or an Int8")
        return max(cls.width // 8, 1)

    @classmethod
    def __dsl_align_of__(cls) -> int:
        return cls.__dsl_size_of__()

    @classmethod
    def __peek_from_ptr__(cls, ptr: Pointer) -> Self:
        return cls(ptr.load())

    @classmethod
    def __poke_into_ptr__(cls, ptr: Pointer, value: object) -> None:
        ptr.store(cls.__coerce__(value))

    @classmethod
    def __coerce__(cls, value: object) -> Self:
        number = scalar_or_none(value)
        if number is None:
            raise DSLTypeError(f"cannot use {value!r} as a {cls}: expected a number or a DSL scalar")
        if type(number) is cls:
            return number
        if type(number.value) in STATIC and not isinstance(value, Numeric):
            from .scalars.constants import constant

            return cast("Self", constant(cls, number.value))
        return cls(number)

    # --- looking classes up ---------------------------------------------------------------------------------------

    @staticmethod
    def from_python_value(value: object) -> Numeric:
        """The scalar a Python number stands for; see `as_numeric`."""
        return as_numeric(value)

    @staticmethod
    def from_ir_type(ir_type: Attribute) -> ScalarClass:
        """The class of an IR scalar type; signless integers give the signed one."""
        found = _by_ir_type.get(ir_type)
        if found is None:
            from .emit.scalar_types import class_name_of

            name = class_name_of(ir_type)
            if name is None:
                raise DSLValueError(f"no scalar class for IR type {ir_type}")
            found = _by_ir_type[ir_type] = CLASSES[name]
        return found


_by_ir_type: dict[Attribute, type[Numeric]] = {}


def _nearest(value: int, width: int, signed: bool) -> int:
    """The nearest integer of a width, as machines convert floats: of 16 bits at least."""
    low = -(1 << (width - 1)) if signed else 0
    return max(low, min(value, low + (1 << width) - 1))


class Integer(Numeric):
    """Base of the integer classes.

    >>> issubclass(fx.Int32, fx.Integer), issubclass(fx.Float32, fx.Integer)
    (True, False)
    """

    is_integer: ClassVar[bool] = True

    @classmethod
    def payload(cls, value: Number) -> Number:
        if type(value) is float:
            if not math.isfinite(value):
                error = DSLOverflowError if math.isinf(value) else DSLValueError
                raise error(f"cannot convert {value} to {cls}: it has no integer value")
            value = _nearest(int(value), max(cls.width, 16), bool(cls.signed))
        width = cls.width
        if width == 0:
            return super().payload(value)
        value = int(value) & ((1 << width) - 1)
        return value - (1 << width) if cls.signed and value >> (width - 1) else value


class Float(Numeric):
    """Base of the float classes.

    >>> issubclass(fx.Float16, fx.Float), fx.Float16.is_float
    (True, True)
    """

    is_float: ClassVar[bool] = True

    @classmethod
    def payload(cls, value: Number) -> Number:
        if not cls.width:
            return super().payload(value)
        value = float(value)
        if cls.width >= 32:
            # Python's floats are of 32 bits here, and meet wider ones as they were written.
            return value
        rounded = round_float(value, cls.ir_name)
        # What does not fit is refused where it is used, by its own name.
        return rounded if math.isfinite(rounded) else value


class Boolean(Integer, width=1, signed=True, ir="i1"):
    """A truth value; every number converts to it by `!= 0`.

    >>> Boolean(5), ~Boolean(True)
    (Boolean(True), Boolean(False))
    """

    @classmethod
    def payload(cls, value: Number) -> Number:
        return value != 0


class Int4(Integer, width=4, signed=True, ir="i4"):
    """4-bit signed integer, a storage format.

    >>> fx.Int4(20)
    Int4(4)
    """


class Int8(Integer, width=8, signed=True, ir="i8"):
    """8-bit signed integer.

    >>> fx.Int8(200)
    Int8(-56)
    """


class Int16(Integer, width=16, signed=True, ir="i16"):
    """16-bit signed integer.

    >>> fx.Int16(40000)
    Int16(-25536)
    """


class Int32(Integer, width=32, signed=True, ir="i32"):
    """32-bit signed integer: what Python ints become where they fit.

    >>> Int32(-7) % 3, Int32(-7) // 3, Int32(7) / 2
    (Int32(-1), Int32(-3), Float32(3.5))
    """


class Int64(Integer, width=64, signed=True, ir="i64"):
    """64-bit signed integer.

    >>> fx.Int64(2**40)
    Int64(1099511627776)
    """


class Int128(Integer, width=128, signed=True, ir="i128"):
    """128-bit signed integer; cannot cross the host boundary.

    >>> fx.Int128(2**100)
    Int128(1267650600228229401496703205376)
    """


class Uint8(Integer, width=8, signed=False, ir="i8"):
    """8-bit unsigned integer.

    >>> fx.Uint8(-1)
    Uint8(255)
    """


class Uint16(Integer, width=16, signed=False, ir="i16"):
    """16-bit unsigned integer.

    >>> fx.Uint16(70000)
    Uint16(4464)
    """


class Uint32(Integer, width=32, signed=False, ir="i32"):
    """32-bit unsigned integer.

    >>> fx.Uint32(-1)
    Uint32(4294967295)
    """


class Uint64(Integer, width=64, signed=False, ir="i64"):
    """64-bit unsigned integer.

    >>> fx.Uint64(-1)
    Uint64(18446744073709551615)
    """


class Uint128(Integer, width=128, signed=False, ir="i128"):
    """128-bit unsigned integer; cannot cross the host boundary.

    >>> fx.Uint128(2**127)
    Uint128(170141183460469231731687303715884105728)
    """


class Index(Integer, width=64, signed=False, ir="index"):
    """IR `index`, an unsigned 64-bit number here. Deprecated for new code: use Int32 or Int64.

    >>> fx.Index(7)
    Index(7)
    """


class Float16(Float, width=16, ir="f16"):
    """IEEE half precision.

    >>> flyc.evaluate(lambda x: x.to(fx.Float16), 0.1)
    0.09997...
    """


class BFloat16(Float, width=16, ir="bf16"):
    """The upper half of a float32.

    >>> flyc.evaluate(lambda x: x.to(fx.BFloat16), 0.1)
    0.10009...
    """


class Float32(Float, width=32, ir="f32"):
    """IEEE single precision: what Python floats become.

    >>> Float32(1e8) + 1.0
    Float32(100000000.0)
    """


class Float64(Float, width=64, ir="f64"):
    """IEEE double precision.

    >>> fx.Float64(0.1)
    Float64(0.1)
    """


class Float8E5M2(Float, width=8, ir="f8E5M2"):
    """8 bits, 5 of them exponent, with infinities.

    >>> flyc.evaluate(lambda x: x.to(fx.Float8E5M2), 0.1)
    0.09375
    """


class Float8E5M2FNUZ(Float, width=8, ir="f8E5M2FNUZ"):
    """8 bits, 5 of them exponent, one NaN and no negative zero, largest 57344 (gfx942).

    >>> flyc.evaluate(lambda x: x.to(fx.Float8E5M2FNUZ), 0.1)
    0.09375
    """


class Float8E4M3(Float, width=8, ir="f8E4M3"):
    """8 bits, 4 of them exponent, IEEE-like, largest 240.

    >>> flyc.evaluate(lambda x: x.to(fx.Float8E4M3), 0.1)
    0.1015625
    """


class Float8E4M3FN(Float, width=8, ir="f8E4M3FN"):
    """8 bits, 4 of them exponent, no infinities, largest 448 (OCP).

    >>> flyc.evaluate(lambda x: x.to(fx.Float8E4M3FN), 0.1)
    0.1015625
    """


class Float8E4M3FNUZ(Float, width=8, ir="f8E4M3FNUZ"):
    """8 bits, 4 of them exponent, one NaN and no negative zero, largest 240 (gfx942).

    >>> flyc.evaluate(lambda x: x.to(fx.Float8E4M3FNUZ), 0.1)
    0.1015625
    """


class Float8E4M3B11FNUZ(Float, width=8, ir="f8E4M3B11FNUZ"):
    """As Float8E4M3FNUZ with exponent bias 11, largest 30.

    >>> flyc.evaluate(lambda x: x.to(fx.Float8E4M3B11FNUZ), 0.1)
    0.1015625
    """


class Float8E8M0FNU(Float, width=8, ir="f8E8M0FNU"):
    """8 exponent bits, no sign, no mantissa: the scale of block formats.

    >>> flyc.evaluate(lambda x: x.to(fx.Float8E8M0FNU), 5.0)
    4.0
    """


class Float6E2M3FN(Float, width=6, ir="f6E2M3FN"):
    """6 bits, 2 of them exponent, finite only.

    >>> flyc.evaluate(lambda x: x.to(fx.Float6E2M3FN), 1.1)
    1.125
    """


class Float6E3M2FN(Float, width=6, ir="f6E3M2FN"):
    """6 bits, 3 of them exponent, finite only.

    >>> flyc.evaluate(lambda x: x.to(fx.Float6E3M2FN), 1.1)
    1.0
    """


class Float4E2M1FN(Float, width=4, ir="f4E2M1FN"):
    """4 bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.

    >>> flyc.evaluate(lambda x: x.to(fx.Float4E2M1FN), 2.6)
    3.0
    """


_NUMPY_NAMES = {
    "Boolean": "bool", "Index": "uint64", "Float16": "float16", "Float32": "float32", "Float64": "float64",
    **{f"{kind}{bits}": f"{kind.lower()}{bits}" for kind in ("Int", "Uint") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_SIGNED_PAIRS: dict[int, tuple[type[Numeric], ...]] = {
    1: (Boolean,), 4: (Int4,), 8: (Int8, Uint8), 16: (Int16, Uint16), 32: (Int32, Uint32), 64: (Int64, Uint64),
    128: (Int128, Uint128),
}  # fmt: skip
"""Signed and unsigned class of each integer width."""


def payload_of(x: Numeric, complaint: str) -> Number:
    if type(x.value) in STATIC:
        return x.value
    raise DSLRuntimeError(
        f"dynamic {type(x)} {complaint}: the value exists only at run time. Make it compile-time (a Python number or "
        "a Constexpr parameter), or use it only in operations the kernel performs"
    )


def _sibling(name: str) -> ModuleType:
    return importlib.import_module(f".{name}", __package__)


def dsl_class(dtype: object) -> ScalarClass:
    """The scalar class that a class or an IR type names; a TypeError for anything else.

    >>> dsl_class(Int32)
    Int32
    """
    if isinstance(dtype, NumericMeta):
        return cast("type[Numeric]", dtype)
    if hasattr(dtype, "name") and not isinstance(dtype, type):
        try:
            return Numeric.from_ir_type(cast("Attribute", dtype))
        except DSLValueError:
            pass
    ours = {theirs: name for name, theirs in _NUMPY_NAMES.items() if name != "Index"}
    ours |= {"bfloat16": "BFloat16", "int": "Int32", "float": "Float32"}
    written = str(getattr(dtype, "__name__", dtype)).removeprefix("torch.")
    hint = f"; write fx.{ours[written]}" if written in ours else ""
    raise DSLTypeError(
        f"expected a Numeric class such as fx.Int32, or a scalar IR type such as fx.T.i32; got {dtype!r}{hint}"
    )


def check_rounding(source: type[Numeric], target: type[Numeric], mode: object) -> None:
    """Refuse a rounding mode where it has no meaning."""
    if not isinstance(mode, RoundingMode):
        raise DSLTypeError(f"rounding_mode must be an fx.RoundingMode, got {mode!r}")
    if not (source.is_float and target.is_float):
        raise DSLTypeError(f"rounding_mode applies to float-to-float conversions only, not {source} to {target}")


def _float_cast(x: Numeric, dtype: DTypeLike, name: str) -> Numeric:
    target = dsl_class(dtype)
    if not (type(x).is_float and target.is_float):
        raise DSLTypeError(f"{name} converts a float to a float, got {type(x)} to {target}")
    return x.to(target)


def _select_objects(cond: Boolean, a: object, b: object) -> object:
    """Ternary on values that are not scalars: IR value by IR value."""
    xs, ys = _ir_values(a), _ir_values(b)
    if type(a) is not type(b) or [x.type for x in xs] != [y.type for y in ys]:
        raise DSLTypeError(
            f"select needs two scalars or two values of equal type, got {type(a).__name__} and {type(b).__name__}"
        )
    if type(cond.value) in STATIC:
        return a if cond.value else b
    t = current()
    made = [t.select(cond.value, x, y) for x, y in zip(xs, ys, strict=True)]
    cls = cast(Any, type(a))
    return made[0] if is_ir_value(a) else cls.__construct_from_ir_values__(made, a)


def _ir_values(x: object) -> list[SSAValue]:
    if is_ir_value(x):
        return [x]
    extract = getattr(type(x), "__extract_to_ir_values__", None)
    if extract is None:
        raise DSLTypeError(f"expected a DSL value, got {x!r} of type {type(x).__name__}")
    return extract(x)


# --- operators --------------------------------------------------------------------------------------------------------

_plans: dict[str, dict[tuple[type, type], Plan]] = {name: {} for name in (*INT_OPS, *FLOAT_OPS, *COMPARISONS)}


def binary(name: str, a: Any, b: Any) -> Numeric:
    """Apply an operator to two scalars or literals; NotImplemented for anything else."""
    plans = _plans[name]
    key: tuple[type, type] = (type(a), type(b))  # pyright: ignore[reportUnknownVariableType]
    plan = plans.get(key)
    if plan is None:
        a, b = scalar_or_none(a), scalar_or_none(b)
        if a is None or b is None:
            return NotImplemented
        key = (type(a), type(b))  # pyright: ignore[reportUnknownVariableType]
        plan = plans.get(key)
        if plan is None:
            plan = plans[key] = make_plan(name, *key)
    return plan(a.value, b.value)


def _flagged(flags: FastMathLike, name: str, a: object, b: object) -> Numeric:
    if flags is None:
        return binary(name, a, b)
    with _fastmath(flags):
        return binary(name, a, b)


# --- from Python and IR, and back -------------------------------------------------------------------------------------


def _from_int(value: int) -> Numeric:
    if -(1 << 31) <= value < 1 << 31:
        return make(Int32, value)
    if not -(1 << 63) <= value < 1 << 64:
        shown = value if value.bit_length() <= 256 else f"a number of {value.bit_length()} bits"
        raise DSLOverflowError(f"{shown} does not fit in 64 bits; write fx.Int128(...) or fx.Uint128(...)")
    return Int64(value)


_LITERALS: dict[type, Callable[[Any], Numeric]] = {
    int: _from_int,
    float: lambda value: make(Float32, value),
    bool: lambda value: make(Boolean, value),
}


def scalar_or_none(x: Any) -> Numeric | None:
    """`x` as a Numeric if it is one, a Python or numpy number, an IR scalar or a tuple of one integer; else None."""
    kind: type = type(x)  # pyright: ignore[reportUnknownVariableType]
    wrap = _LITERALS.get(kind)
    if wrap is not None:
        return wrap(x)
    if isinstance(x, Numeric):
        return x
    if kind.__name__ in IR_VALUES:
        try:
            return make(Numeric.from_ir_type(x.type), x)
        except DSLValueError:
            return None
    if isinstance(x, numbers.Real):
        return _from_int(int(x)) if isinstance(x, numbers.Integral) else make(Float32, float(x))
    one = getattr(kind, "__dsl_scalar__", None)  # an integer tuple of one integer
    number = None if one is None else one(x)
    return None if number is None else scalar_or_none(number)


def as_numeric(obj: object) -> Numeric:
    """The scalar a Python number stands for; scalars pass through, IR scalars are wrapped.

    >>> as_numeric(5), as_numeric(1 << 40), as_numeric(0.5), as_numeric(True)
    (Int32(5), Int64(1099511627776), Float32(0.5), Boolean(True))
    """
    found = scalar_or_none(obj)
    if found is None:
        hint = "; take one element of it, as in x[i]" if getattr(type(obj), "is_tensor", False) else ""
        raise DSLValueError(f"expected a number, got {obj!r} of type {type(obj).__name__}{hint}")
    return found


def as_ir_value(value: object, *, keep_static: bool = False) -> Any:
    """Any DSL value as IR; tuples and lists element by element, None stays None.

    Numbers known at compile time become constants, or with `keep_static` stay Python numbers.

    >>> as_ir_value((1, None, Int32(2)), keep_static=True)
    (1, None, 2)
    """
    if value is None or is_ir_value(value):
        return value
    if isinstance(value, (tuple, list)):
        items = [as_ir_value(v, keep_static=keep_static) for v in cast("Sequence[Any]", value)]
        return items if isinstance(value, list) else tuple(items)
    number = scalar_or_none(value)
    if number is not None:
        return number.value if keep_static and type(number.value) in STATIC else number.ir_value()
    own = getattr(value, "ir_value", None)
    if own is not None:
        return own()
    values = _ir_values(value)
    return values[0] if len(values) == 1 else values


DSL_CLASSES: dict[str, Callable[[SSAValue], object]] = {}
"""Name of an xDSL type class -> what makes a DSL value of an IR value of such a type; other modules add theirs."""


def as_dsl_value(value: object, exemplar: object = None) -> Any:
    """The DSL value of an IR value, of the class of `exemplar` when there is one; a TypeError if no class fits.

    >>> as_dsl_value(5)
    Int32(5)
    """
    if is_ir_value(value):
        if exemplar is not None and not isinstance(exemplar, (int, float)):
            cls: Any = exemplar if isinstance(exemplar, type) else type(exemplar)
            construct = getattr(cls, "__construct_from_ir_values__", None)
            if construct is not None:
                return construct([value], None if isinstance(exemplar, type) else exemplar)
        known = DSL_CLASSES.get(type(value.type).__name__)
        if known is not None:
            return known(value)
        if value.type.name.startswith("fly."):
            return _sibling("emit.ir").wrap(value, exemplar)
    number = scalar_or_none(value)
    if number is not None:
        return number
    if hasattr(type(value), "__extract_to_ir_values__"):
        return value
    raise DSLTypeError(f"no DSL class fits {value!r} of type {type(value).__name__}")


# --- IR types ---------------------------------------------------------------------------------------------------------


class Types:
    """IR types by name: `T.i32`, `T.f32x4`, `T.vec(8, T.bf16)`.

    >>> str(fx.T.f32x4), str(fx.T.vec(8, fx.T.bf16))
    ('vector<4xf32>', 'vector<8xbf16>')
    """

    def __getattr__(self, name: str) -> Attribute:
        if not name.startswith("_"):
            from .emit.scalar_types import named_type

            found = named_type(name)
            if found is not None:
                return found
        raise AttributeError(f"fx.T has no type '{name}'; it has i8, i32, f32, bf16, index, f32x4, ..., vec(n, elem)")

    @also_called(count="n")
    def vec(self, n: int, elem: DTypeLike) -> Attribute:
        """Vector type of `n` elements of an IR type or a scalar class."""
        from ..ir.types import vector_type

        return vector_type(dsl_class(elem).ir_type, n)

    def __dir__(self) -> list[str]:
        return [*_TYPE_NAMES, "vec"]


_TYPE_NAMES = (
    "bf16 bf16x2 bf16x4 bf16x8 f16 f16x2 f16x4 f16x8 f32 f32x2 f32x4 f64 i128 i16 i16x2 i16x4 i16x8 i32 i32x2 i32x4 "
    "i64 i64x2 i8 i8x16 i8x2 i8x4 i8x8 index"
).split()


def _named(name: str) -> property:
    return property(lambda self: Types.__getattr__(self, name), doc=f"The IR type {name}.")


for _name in _TYPE_NAMES:
    setattr(Types, _name, _named(_name))


T: Final = Types()

__all__ = [
    "BFloat16", "Boolean", "Float", "Float16", "Float32", "Float4E2M1FN", "Float64", "Float6E2M3FN", "Float6E3M2FN",
    "Float8E4M3", "Float8E4M3B11FNUZ", "Float8E4M3FN", "Float8E4M3FNUZ", "Float8E5M2", "Float8E5M2FNUZ",
    "Float8E8M0FNU", "Index", "Int128", "Int16", "Int32", "Int4", "Int64", "Int8", "Integer", "Numeric",
    "NumericMeta", "RoundingMode", "T", "Types",
    "Uint128", "Uint16", "Uint32", "Uint64", "Uint8", "as_dsl_value", "as_ir_value", "as_numeric",
]  # fmt: skip
