"""Vectors of scalars, held in registers: a flat 1-D IR vector with a logical shape and an element class.

A `Vector` is a value and always exists at run time. Operators work element by element with the rules of the scalars;
scalars and smaller shapes stretch. Light: the IR is touched only through the tracer and, lazily, `scalar_types`.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar, cast, overload

from ..errors import DSLTypeError, DSLValueError
from ..ir.enums import ReductionOp, RoundingMode
from .aliases import also_called
from .emit.trace import current
from .numeric import (
    DSL_CLASSES,
    Boolean,
    Index,
    Int64,
    Integer,
    Numeric,
    ScalarClass,
    as_numeric,
    check_rounding,
    dsl_class,
    is_ir_value,
    scalar_or_none,
)
from .scalars.constants import constant
from .scalars.fastmath import flags_attr
from .scalars.operators import VectorOperators
from .scalars.scalar_ops import CLASSES, STATIC, common_type, convert, kernel, make, operation_type, unary_kernel
from .tensors.limits import check_lanes

if TYPE_CHECKING:
    from .annotations import (
        Attribute,
        DTypeLike,
        ElementLike,
        FastMathLike,
        HasIRValue,
        IntLike,
        Number,
        ScalarLike,
        SSAValue,
        Tracer,
        Value,
        ValueLike,
    )
    from .tensor import Pointer

N = TypeVar("N", bound=Numeric)
Shape: TypeAlias = "tuple[int | Shape, ...]"
Uniform: TypeAlias = "tuple[ScalarClass, Shape | None, list[SSAValue]]"
_aliases: dict[tuple[ScalarClass, Shape], type[Vector]] = {}


def _shape_of(shape: object) -> Shape:
    """A shape argument as a tuple, possibly nested, of Python ints."""

    def leaf(n: object) -> int | Shape:
        if isinstance(n, (tuple, list)):
            return tuple(leaf(m) for m in cast("Sequence[object]", n))
        if type(n) is not int:
            if isinstance(n, Integer) and n.is_static():
                return int(n)
            raise DSLValueError(f"dynamic vector shape: every dimension must be a Python int, got {n!r} in {shape!r}")
        return n

    found = leaf(shape)
    return found if isinstance(found, tuple) else (found,)


def _flat(shape: int | Shape) -> tuple[int, ...]:
    if isinstance(shape, tuple):
        return tuple(n for mode in shape for n in _flat(mode))
    return (shape,)


def broadcast_shapes(a: Shape, b: Shape) -> Shape:
    """The shape two vectors meet in: right-aligned, 1 stretches, and so does any vector of one element.

    >>> broadcast_shapes((4, 1), (3,)), broadcast_shapes((2, 4), (1,))
    ((4, 3), (2, 4))
    """
    if a == b:
        return a
    fa, fb = _flat(a), _flat(b)
    if math.prod(fb) == 1 and len(fb) <= len(fa):
        return a
    if math.prod(fa) == 1 and len(fa) <= len(fb):
        return b
    rank = max(len(fa), len(fb))
    found: list[int] = []
    for m, n in zip((1,) * (rank - len(fa)) + fa, (1,) * (rank - len(fb)) + fb, strict=True):
        if m != n and 1 not in (m, n):
            raise DSLValueError(f"cannot broadcast vectors of shapes {a} and {b}: {m} does not meet {n}")
        found.append(n if m == 1 else m)
    return tuple(found)


def _stretched(source: tuple[int, ...], target: tuple[int, ...]) -> list[int]:
    """Row-major source position of every element of a broadcast."""
    source = (1,) * (len(target) - len(source)) + source
    positions = [0]
    for s, n in zip(source, target, strict=True):
        positions = [p * s + (i if s != 1 else 0) for p in positions for i in range(n)]
    return positions


class VectorMeta(type):
    """Metaclass of `Vector` and its aliases: an alias prints as its name and knows its IR type."""

    def __str__(cls) -> str:
        return cls.__name__

    @property
    def ir_type(cls) -> Attribute:
        """IR vector type of an alias; loads xDSL."""
        alias = cast("type[Vector]", cls)
        if not alias.fixed:
            raise DSLTypeError(
                "Vector has no IR type of its own; use an alias such as Float32x4 or Vector[dtype, shape]"
            )
        return Vector.make_type(alias.shape, alias.dtype)


class Vector(VectorOperators, metaclass=VectorMeta):
    """A flat IR vector with a shape and an element class.

    >>> from flydsl.expr.numeric import Float32
    >>> str(Vector[Float32, 4]), str(Vector[Float32, (2, 4)])
    ('Float32x4', 'Float32x(2,4)')
    """

    __slots__ = ("dtype", "shape", "value")

    fixed: ClassVar[bool] = False
    """Whether the class, as an alias, decides dtype and shape."""

    dtype: ScalarClass
    shape: Shape
    value: SSAValue

    def __init__(self, value: object, shape: object = None, dtype: DTypeLike | None = None):
        if isinstance(value, Vector):
            dtype = value.dtype if dtype is None else dtype
            shape = value.shape if shape is None else shape
            value = value.value
        if not is_ir_value(value):
            raise DSLValueError(f"Vector wraps an IR vector, got {value!r}; use Vector.from_elements or fx.full")
        elem, count = _parts(value)
        cls = Numeric.from_ir_type(elem) if dtype is None else dsl_class(dtype)
        if cls.ir_type != elem:
            raise DSLValueError(f"dtype {cls} ({cls.ir_name}) does not match the IR element type {elem}")
        dims = (count,) if shape is None else _shape_of(shape)
        if math.prod(_flat(dims)) != count:
            raise DSLValueError(f"shape {dims} has {math.prod(_flat(dims))} elements, the IR vector has {count}")
        self.value, self.shape, self.dtype = value, dims, cls

    def __class_getitem__(cls, key: object) -> type[Vector]:
        """`Vector[dtype, shape]`: the alias with that element class and shape."""
        if not isinstance(key, tuple) or len(cast("tuple[object, ...]", key)) != 2:
            raise DSLTypeError(f"write Vector[dtype, shape], as in Vector[fx.Float32, (2, 4)]; got Vector[{key!r}]")
        dtype, shape = cast("tuple[DTypeLike, int | Shape]", key)
        return VectorAlias(dtype, shape)

    # --- knowing about oneself ------------------------------------------------------------------------------------

    @property
    def element_type(self) -> ScalarClass:
        """The class of the elements; the same as `dtype`."""
        return self.dtype

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(_flat(self.shape))

    @property
    def type(self) -> Attribute:
        """The IR type."""
        return self.value.type

    def ir_value(self) -> SSAValue:
        """The IR vector."""
        return self.value

    def is_static(self) -> bool:
        """False: a vector exists at run time."""
        return False

    def __len__(self) -> int:
        return self.numel

    def __iter__(self) -> Iterator[Numeric]:
        return (self[i] for i in range(self.numel))

    def __bool__(self) -> bool:
        raise DSLTypeError(
            "a Vector has no single truth value; reduce it first, as in v.reduce('max') != 0, or choose lane by lane "
            "with v.select(a, b)"
        )

    def __repr__(self) -> str:
        return f"Vector({self.dtype}, shape={self.shape})"

    def __hash__(self) -> int:
        return object.__hash__(self)

    # --- elements -------------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, at: IntLike | tuple[IntLike, ...]) -> Numeric: ...  # pyright: ignore[reportOverlappingOverload]
    @overload
    def __getitem__(self, at: tuple[IntLike | None, ...] | None) -> Vector: ...
    def __getitem__(self, at: IntLike | tuple[IntLike | None, ...] | None) -> Value:
        if isinstance(at, tuple):
            return self._at(at)
        if at is None or isinstance(at, slice):  # pyright: ignore[reportUnnecessaryIsInstance]
            return self._at((at,))
        position = _position(at, self.numel)
        if isinstance(position, int):
            return make(self.dtype, current().extract(self.value, position))
        from .emit.scalar_types import emit_extract_at

        return make(self.dtype, emit_extract_at(current(), self.value, position.to(Index).ir_value()))

    def _at(self, coord: tuple[object, ...]) -> Value:
        """Row-major element, or the sub-vector of the dimensions marked None."""
        if any(isinstance(c, slice) for c in coord):
            raise DSLTypeError("a Vector cannot be sliced; use None to keep a whole dimension, as in v[None, j]")
        dims: Shape = self.shape if len(coord) == len(self.shape) else _flat(self.shape)
        if len(coord) != len(dims):
            raise DSLValueError(f"expected {len(self.shape)} coordinates for shape {self.shape}, got {len(coord)}")
        sizes = [math.prod(_flat(d)) for d in dims]
        kept = tuple(d for d, c in zip(dims, coord, strict=True) if c is None)
        offsets, base = [0], 0
        dynamic: Numeric | None = None
        for size, c in zip(sizes, coord, strict=True):
            base *= size
            dynamic = None if dynamic is None else dynamic * size
            offsets = [o * size for o in offsets]
            if c is None:
                offsets = [o + i for o in offsets for i in range(size)]
                continue
            position = _position(c, size)
            if isinstance(position, int):
                base += position
            else:
                dynamic = position if dynamic is None else dynamic + position
        if dynamic is not None:
            found = [self[dynamic + (base + o)] for o in offsets]
        elif not kept:
            return self[base]
        else:
            return self._shuffled([base + o for o in offsets], kept)
        return Vector.from_elements(found, self.dtype).reshape(kept) if kept else found[0]

    def _shuffled(self, positions: Sequence[int], shape: Shape) -> Vector:
        from .emit.scalar_types import emit_shuffle

        return wrap(emit_shuffle(current(), self.value, self.value, positions), shape, self.dtype)

    # --- conversions ----------------------------------------------------------------------------------------------

    def to(self, dtype: ElementLike, *, rounding_mode: RoundingMode | None = None) -> Vector:
        """Every element as another class."""
        target = _element_class(dtype)
        if rounding_mode is not None:
            check_rounding(self.dtype, target, rounding_mode)
        if target is self.dtype:
            return self
        value = convert(current(), self.value, self.dtype, target, self.numel, rounding_mode)
        return wrap(value, self.shape, target)

    def bitcast(self, dtype: ElementLike) -> Vector:
        """All bits together read as elements of another class; the result is one-dimensional."""
        target = _element_class(dtype)
        bits = self.numel * self.dtype.width
        if bits % target.width:
            raise DSLValueError(f"{bits} bits do not make whole elements of {target} ({target.width} bits)")
        if Index in (target, self.dtype) and target.width != self.dtype.width:
            raise DSLTypeError("Index vectors can only be bitcast to 64-bit elements; use .to() first")
        count = bits // target.width
        t = current()
        if Index in (target, self.dtype):
            same = self.bitcast(Int64) if target is Index and self.dtype.is_float else self
            return wrap(convert(t, same.value, same.dtype, target, count), (count,), target)
        from .emit.scalar_types import emit_vector_bitcast

        return wrap(emit_vector_bitcast(t, self.value, target.ir_type, count), (count,), target)

    def reshape(self, shape: int | Shape) -> Vector:
        """The same elements with another shape."""
        dims = _shape_of(shape)
        if math.prod(_flat(dims)) != self.numel:
            raise DSLValueError(f"cannot reshape {self.numel} elements of shape {self.shape} to {dims}")
        return wrap(self.value, dims, self.dtype)

    @also_called(shape="target_shape")
    def broadcast_to(self, target_shape: int | Shape) -> Vector:
        """Stretched to a shape."""
        dims = _shape_of(target_shape)
        if _flat(broadcast_shapes(self.shape, dims)) != _flat(dims):
            raise DSLValueError(f"cannot broadcast shape {self.shape} to {dims}")
        return wrap(_stretch(current(), self.value, self.shape, dims), dims, self.dtype)

    def shuffle(self, other: object, mask: Sequence[int]) -> Vector:
        """Elements picked from this vector followed by `other`, by position."""
        if not isinstance(other, Vector) or other.dtype.ir_type != self.dtype.ir_type:
            raise DSLTypeError(f"shuffle needs another Vector of {self.dtype}, got {other!r}")
        picks = [int(m) for m in mask]
        total = self.numel + other.numel
        if not picks or not all(0 <= m < total for m in picks):
            raise DSLValueError(f"shuffle positions must be from 0 to {total - 1} and at least one, got {picks}")
        from .emit.scalar_types import emit_shuffle

        return wrap(emit_shuffle(current(), self.value, other.value, picks), (len(picks),), self.dtype)

    def select(self, true_value: ValueLike, false_value: ValueLike) -> Vector:
        """Lane by lane, `true_value` where this is non-zero and `false_value` elsewhere; scalars stretch."""
        cond = self if self.dtype is Boolean else self.to(Boolean)
        a, b = _branch(true_value, self), _branch(false_value, self)
        cls = common_type(a.dtype, b.dtype)
        t = current()
        x, y = _operand(t, a, cls, self.shape), _operand(t, b, cls, self.shape)
        return wrap(t.select(cond.value, x, y), self.shape, cls)

    def reduce(
        self,
        op: ReductionOp | str | Attribute,
        init_val: Numeric | SSAValue | None = None,
        reduction_profile: int | None = None,
        *,
        fastmath: FastMathLike = None,
    ) -> Numeric:
        """All elements combined to one scalar, starting from `init_val` if given.

        `op` is a `ReductionOp`, its lower-case name, or a raw combining kind such as "maximumf". The float maximum
        ignores NaN, the float minimum propagates it.
        """
        if reduction_profile not in (None, 0):
            raise DSLValueError("only full reductions are supported: leave reduction_profile out")
        from .emit.scalar_types import combining_kind, emit_reduction

        kind = combining_kind(_combining(op, self.dtype))
        if kind is None:
            if isinstance(op, str):
                names = ", ".join(o.value for o in ReductionOp)
                raise DSLValueError(f"unknown reduction '{op}'; expected one of {names} or a combining kind")
            raise DSLTypeError(f"a reduction is an fx.ReductionOp or its name, got {op!r}")
        acc = None
        if init_val is not None:
            if not isinstance(init_val, Numeric) and not is_ir_value(init_val):
                raise DSLTypeError(f"init_val must be a DSL scalar such as {self.dtype}(0), got {init_val!r}")
            acc = self.dtype(init_val).ir_value()
        if self.dtype.is_float and self.dtype.width < 16:  # computed in 32 bits, as operators are, and rounded once
            start = None if acc is None else make(self.dtype, acc).to(CLASSES["Float32"])
            return self.to(CLASSES["Float32"]).reduce(op, start, fastmath=fastmath).to(self.dtype)
        flags = flags_attr(fastmath) if self.dtype.is_float else None
        return make(self.dtype, emit_reduction(current(), self.value, kind, acc, flags))

    # --- memory ---------------------------------------------------------------------------------------------------

    def store(self, memref: SSAValue | HasIRValue, indices: Sequence[IntLike], *, alignment: int | None = None) -> None:
        """Write to an IR memref at these indices."""
        from .emit.scalar_types import emit_vector_store

        emit_vector_store(current(), self.value, _ir(memref), _indices(indices), alignment)

    @staticmethod
    @also_called(vector_type="result_type")
    def load(
        result_type: Attribute | type[Vector], memref: SSAValue | HasIRValue, indices: Sequence[IntLike]
    ) -> Vector:
        """Read an IR vector type, or a vector alias, from an IR memref at these indices."""
        from .emit.scalar_types import emit_vector_load

        alias = result_type if isinstance(result_type, VectorMeta) else None
        type_ = result_type.ir_type if isinstance(result_type, type) else result_type
        value = emit_vector_load(current(), type_, _ir(memref), _indices(indices))
        return Vector(value) if alias is None else alias(value)

    # --- making vectors -------------------------------------------------------------------------------------------

    @staticmethod
    def from_elements(elements: Sequence[ScalarLike], dtype: DTypeLike | None = None) -> Vector:
        """A vector of scalars; `dtype` defaults to the first one's class."""
        items = [as_numeric(e) for e in elements]
        if not items:
            raise DSLValueError("Vector.from_elements needs at least one element")
        cls = type(items[0]) if dtype is None else dsl_class(dtype)
        t = current()
        from .emit.scalar_types import emit_constant_vector, emit_from_elements

        scalars = [
            x if type(x) is cls else cls(x) if isinstance(e, Numeric) or not x.is_static() else constant(cls, x.value)
            for e, x in zip(elements, items, strict=True)
        ]
        if all(type(x.value) in STATIC for x in scalars):
            value = emit_constant_vector(t, [x.value for x in scalars], cls.ir_type)
        else:
            value = emit_from_elements(t, [x.ir_value() for x in scalars])
        return wrap(value, (len(scalars),), cls)

    @classmethod
    @also_called(value="fill_value")
    def filled(cls, shape: int | Shape, fill_value: ScalarLike, dtype: DTypeLike) -> Self:
        """Every element `fill_value`: other scalars are converted, numbers that `dtype` cannot hold refused.

        An alias makes one of its class.
        """
        dims, elem = _shape_of(shape), dsl_class(dtype)
        check_lanes(math.prod(_flat(dims)))
        number = as_numeric(fill_value)
        if number.is_static() and not isinstance(fill_value, Numeric):
            number = constant(elem, number.value)
        made = wrap(_operand(current(), number, elem, dims), dims, elem)
        return cast(Self, made) if cls is Vector else cls(made.value)

    @staticmethod
    @also_called(v="template", value="fill_value")
    def filled_like(template: Vector, fill_value: ScalarLike, dtype: DTypeLike | None = None) -> Vector:
        """A filled vector with the shape and, unless given, the element class of `template`."""
        return Vector.filled(template.shape, fill_value, template.dtype if dtype is None else dtype)

    @staticmethod
    @also_called(v="template")
    def zeros_like(template: Vector, dtype: DTypeLike | None = None) -> Vector:
        """Zeros with the shape and, unless given, the element class of `template`."""
        return Vector.filled_like(template, 0, dtype)

    @staticmethod
    def make_type(shape: int | Shape, dtype: DTypeLike) -> Attribute:
        """The IR type of vectors of a shape and element class."""
        from ..ir.types import vector_type

        return vector_type(dsl_class(dtype).ir_type, math.prod(_flat(_shape_of(shape))))

    # --- operators ------------------------------------------------------------------------------------------------

    @staticmethod
    def _operate(name: str, a: object, b: object) -> object:
        return _binary(name, a, b)

    def _unary(self, name: str) -> Vector:
        emit, _ = unary_kernel(name, self.dtype)
        return wrap(emit(current(), self.value), self.shape, self.dtype)

    @property
    def signed(self) -> bool | None:
        """Whether elements are signed integers; None for floats."""
        return self.dtype.signed

    @property
    def is_float(self) -> bool:
        """Whether elements are floats."""
        return self.dtype.is_float

    def with_signedness(self, signed: bool | None) -> Vector:
        """The same bits as elements of the signed or unsigned class of their width; floats stay as they are."""
        if signed is None or not self.dtype.is_integer:
            return self
        target = type(self.dtype(0).with_signedness(signed))
        return self if target is self.dtype else wrap(self.value, self.shape, target)

    def apply_op(self, op: Callable[[Any, Any], Any], other: object, flip: bool = False) -> Any:
        """`op(self, other)`, or `op(other, self)` with `flip`: a binary operator given as a function.

        >>> import operator
        >>> flyc.evaluate(lambda: fx.Float32x2([3.0, 4.0]).apply_op(operator.sub, 1.0, flip=True))
        [-2.0, -3.0]
        """
        return op(other, self) if flip else op(self, other)

    # --- spellings of raw IR values -------------------------------------------------------------------------------

    def extf(self, dtype: ElementLike) -> Vector:
        """Deprecated: `v.to(dtype)`. Takes a class or an IR type, scalar or vector, like those below."""
        return _sibling("arith").extf(dtype, self)

    def truncf(self, dtype: ElementLike) -> Vector:
        """Deprecated: `v.to(dtype)`."""
        return _sibling("arith").truncf(dtype, self)

    def extui(self, dtype: ElementLike) -> Vector:
        """Deprecated: widen integers with zeros."""
        return _sibling("arith").extui(dtype, self)

    def extsi(self, dtype: ElementLike) -> Vector:
        """Deprecated: widen integers by their sign."""
        return _sibling("arith").extsi(dtype, self)

    def trunci(self, dtype: ElementLike) -> Vector:
        """Deprecated: keep the low bits of integers."""
        return _sibling("arith").trunci(dtype, self)

    def index_cast(self, dtype: ElementLike) -> Vector:
        """Deprecated: convert between `Index` and other integers."""
        return _sibling("arith").index_cast(dtype, self)

    def addf(self, other: ValueLike, fastmath: FastMathLike = None) -> Vector:
        """Deprecated: `v + w`."""
        return _sibling("arith").addf(self, other, fastmath=fastmath)

    def shuffle_xor(self, offset: IntLike, width: IntLike | None = None) -> Vector:
        """Deprecated: `fx.shuffle_xor(v, offset, width)`."""
        return _sibling("gpu").shuffle_xor(self, offset, width)

    def maximumf(self, other: ValueLike, fastmath: FastMathLike = None) -> Vector:
        """Deprecated: `fx.max(v, w)`."""
        return _sibling("arith").maximumf(self, other, fastmath=fastmath)

    def minimumf(self, other: ValueLike, fastmath: FastMathLike = None) -> Vector:
        """Deprecated: `fx.min(v, w)`."""
        return _sibling("arith").minimumf(self, other, fastmath=fastmath)

    # --- protocols ------------------------------------------------------------------------------------------------

    def __extract_to_ir_values__(self) -> list[SSAValue]:
        return [self.value]

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[SSAValue], exemplar: Vector | None = None) -> Vector:
        (value,) = values
        if exemplar is not None:
            return wrap(value, exemplar.shape, exemplar.dtype)
        return cls(value)

    @classmethod
    def __dsl_size_of__(cls) -> int:
        if not cls.fixed or cls.dtype.width == 1:
            raise DSLTypeError(f"{cls} is not Storable; use an alias of 4-bit or wider elements such as Float32x4")
        return (math.prod(_flat(cls.shape)) * cls.dtype.width + 7) // 8

    @classmethod
    def __dsl_align_of__(cls) -> int:
        size = cls.__dsl_size_of__()
        return min(size & -size, 16)

    @classmethod
    def __peek_from_ptr__(cls, ptr: Pointer) -> Self:
        return ptr.load(cls)

    @classmethod
    def __poke_into_ptr__(cls, ptr: Pointer, value: object) -> None:
        ptr.store(cls.__coerce__(value))

    @classmethod
    def __coerce__(cls, value: object) -> Self:
        try:
            return cls(value)
        except ValueError as error:
            raise DSLTypeError(f"cannot use {value!r} as a {cls}: {error}") from error


class _Alias(Vector):
    """Base of the aliases: calling one takes a scalar, a list of elements, or an IR vector of exactly its type."""

    __slots__ = ()
    fixed: ClassVar[bool] = True

    def __init__(self, value: object, shape: object = None, dtype: DTypeLike | None = None):
        cls = type(self)
        count = math.prod(_flat(cls.shape))
        if isinstance(value, Vector) or is_ir_value(value):
            ir = value.value if isinstance(value, Vector) else value
            if not (isinstance(value, Vector) and value.dtype is not cls.dtype) and ir.type == cls.ir_type:
                self.value = ir
                return
            scalar = None if isinstance(value, Vector) else scalar_or_none(value)
            if scalar is None:
                shown = repr(value) if isinstance(value, Vector) else str(ir.type)
                raise DSLValueError(f"{cls} expects exactly {cls.ir_type} of {cls.dtype}, got {shown}")
            value = scalar
        if isinstance(value, (list, tuple)):
            items = cast("Sequence[ScalarLike]", value)
            if len(items) != count:
                raise DSLValueError(f"{cls} takes {count} elements, got {len(items)}")
            self.value = Vector.from_elements([cls.dtype(item) for item in items], cls.dtype).value
        else:
            self.value = Vector.filled(cls.shape, cls.dtype(value), cls.dtype).value


@also_called(dtype="alias_dtype", n="lanes")
def VectorAlias(alias_dtype: DTypeLike, lanes: int | Shape) -> type[Vector]:
    """The Vector class with fixed element class and shape, made once for each.

    >>> from flydsl.expr.numeric import Float32
    >>> VectorAlias(Float32, 4) is Vector[Float32, 4]
    True
    """
    cls, shape = dsl_class(alias_dtype), _shape_of(lanes)
    if not all(d > 0 for d in _flat(shape)):
        raise DSLValueError(f"a vector needs positive dimensions, got {lanes!r}")
    found = _aliases.get((cls, shape))
    if found is None:
        size = str(shape[0]) if len(shape) == 1 and type(shape[0]) is int else str(shape).replace(" ", "")
        name = f"{cls}x{size}"
        doc = f"Vector of {cls}, shape {shape}."
        body = {"__slots__": (), "__doc__": doc, "__module__": __name__, "dtype": cls, "shape": shape}
        found = _aliases[cls, shape] = VectorMeta(name, (_Alias,), body)
    return found


def wrap(value: SSAValue, shape: Shape, dtype: type[Numeric]) -> Vector:
    """A Vector around an IR vector that is known to fit: no check."""
    made = object.__new__(Vector)
    made.value, made.shape, made.dtype = value, shape, dtype
    return made


def _parts(value: SSAValue) -> tuple[Attribute, int]:
    from .emit.scalar_types import vector_parts

    parts = vector_parts(value.type)
    if parts is None:
        raise DSLValueError(f"expected an IR vector, got a value of type {value.type}")
    return parts


def _sibling(name: str) -> ModuleType:
    return importlib.import_module(f".{name}", __package__)


def _element_class(dtype: object) -> type[Numeric]:
    """The element class named by a scalar class, a vector alias, or an IR type, scalar or vector."""
    if isinstance(dtype, VectorMeta):
        return cast("type[Vector]", dtype).dtype
    return dsl_class(dtype if isinstance(dtype, type) else getattr(dtype, "element_type", dtype))


def _ir(x: SSAValue | HasIRValue) -> SSAValue:
    return x if is_ir_value(x) else x.ir_value()


def _indices(indices: Sequence[IntLike]) -> list[SSAValue]:
    return [as_numeric(i).to(Index).ir_value() for i in indices]


def _position(at: object, size: int) -> int | Integer:
    """A position as a checked Python int, or as a run-time integer."""
    if type(at) is not int:
        number = scalar_or_none(at)
        if not isinstance(number, Integer):
            raise DSLTypeError(f"a Vector is indexed with integers, got {at!r}")
        if not number.is_static():
            return number
        at = int(number)
    if not -size <= at < size:
        raise IndexError(f"position {at} is outside a dimension of {size}")
    return at % size


def _combining(op: object, dtype: type[Numeric]) -> object:
    """Name of the combining kind of a reduction on a class."""
    if isinstance(op, str) and op in _REDUCTIONS:
        op = ReductionOp(op)
    if not isinstance(op, ReductionOp):
        return op
    if dtype is Boolean:
        found = {ReductionOp.MAX: "or", ReductionOp.MIN: "and"}.get(op)
        if found is None:
            raise DSLTypeError(f"cannot reduce Booleans with '{op.value}'; convert with .to(fx.Int32) first")
        return found
    integer, real = _REDUCTIONS[op.value]
    if dtype.is_float:
        return real
    return integer.format("s" if dtype.signed else "u")


_REDUCTIONS = {
    "add": ("add", "add"),
    "mul": ("mul", "mul"),
    "max": ("max{}i", "maxnumf"),
    "min": ("min{}i", "minimumf"),
}
"""Combining kinds of a reduction on integers and on floats."""


def _branch(x: ValueLike, cond: Vector) -> Value:
    if isinstance(x, Vector):
        if x.numel != cond.numel:
            raise DSLValueError(f"select needs {cond.numel} lanes, as the condition has, got {x.numel}")
        return x
    found = scalar_or_none(x)
    if found is None:
        raise DSLTypeError(f"select takes vectors and scalars, got {x!r} of type {type(x).__name__}")
    return found


def _operand(t: Tracer, x: Value, cls: type[Numeric], shape: Shape) -> SSAValue:
    """A vector or scalar as an IR vector of a class and shape."""
    if isinstance(x, Vector):
        value = x.value
        if x.dtype is not cls:
            value = convert(t, value, x.dtype, cls, x.numel)
        return value if x.shape == shape or x.numel == math.prod(_flat(shape)) else _stretch(t, value, x.shape, shape)
    count = math.prod(_flat(shape))
    payload = x.value
    if type(payload) in STATIC:
        return t.const(cls.payload(payload), Vector.make_type(count, cls))
    return t.broadcast(convert(t, payload, x.dtype, cls), count)


def _stretch(t: Tracer, value: SSAValue, source: Shape, target: Shape) -> SSAValue:
    before, after = _flat(source), _flat(target)
    if before == after:
        return value
    if math.prod(before) == 1:
        return t.broadcast(t.extract(value, 0), math.prod(after))
    from .emit.scalar_types import emit_shuffle

    return emit_shuffle(t, value, value, _stretched(before, after))


def _binary(name: str, a: Any, b: Any) -> Vector:
    """An operator where at least one side is a Vector."""
    if not isinstance(a, Vector):
        a = scalar_or_none(a)
    if not isinstance(b, Vector):
        b = scalar_or_none(b)
    if a is None or b is None:
        return NotImplemented
    cls = operation_type(name, a.dtype, b.dtype)
    result, emit, _ = kernel(name, cls)
    if not isinstance(a, Vector):
        shape = b.shape
    elif not isinstance(b, Vector):
        shape = a.shape
    else:
        shape = broadcast_shapes(a.shape, b.shape)
    t = current()
    value = emit(t, _operand(t, a, cls, shape), _operand(t, b, cls, shape), math.prod(_flat(shape)))
    return wrap(value, shape, result)


combine = _binary
"""Apply a named operator to operands of which at least one is a Vector."""


def uniform(name: str, args: Sequence[ValueLike]) -> Uniform:
    """Operands of a function that does not promote: their class, their shape (None for scalars) and IR values.

    Python numbers take the class of the first scalar or vector, and scalars stretch to the shape of a vector.
    """
    values = [a if isinstance(a, (Numeric, Vector)) else _lifted(name, a) for a in args]
    vectors = [v for v in values if isinstance(v, Vector)]
    typed = vectors or [v for v in values if isinstance(v, Numeric)]
    first = typed[0] if typed else as_numeric(args[0])
    cls, shape = first.dtype, first.shape if isinstance(first, Vector) else None
    t = current()
    found: list[SSAValue] = []
    for v in values:
        if isinstance(v, (Vector, Numeric)) and v.dtype.ir_type != cls.ir_type:
            raise DSLTypeError(f"{name} needs operands of one class, got {cls} and {v.dtype}; convert one with .to()")
        if isinstance(v, Vector):
            if shape is None or v.numel != math.prod(_flat(shape)):
                raise DSLValueError(f"{name} needs vectors of one shape, got {shape} and {v.shape}")
            found.append(v.value)
        else:
            scalar = v if isinstance(v, Numeric) else cls(v)
            found.append(scalar.ir_value() if shape is None else _operand(t, scalar, type(scalar), shape))
    return cls, shape, found


def rewrap(value: SSAValue, shape: Shape | None, dtype: type[N]) -> N | Vector:
    """A scalar, or a Vector where there is a shape."""
    return make(dtype, value) if shape is None else wrap(value, shape, dtype)


def _lifted(name: str, x: Number | SSAValue) -> Value | Number:
    """An IR value as a DSL value; a Python number as it is."""
    if is_ir_value(x):
        found = scalar_or_none(x)
        return Vector(x) if found is None else found
    if scalar_or_none(x) is None:
        raise DSLTypeError(f"{name} takes scalars, vectors and numbers, got {x!r} of type {type(x).__name__}")
    return x


@also_called(value="fill_value")
def full(shape: int | Shape, fill_value: ScalarLike, dtype: DTypeLike) -> Vector:
    """A vector with every element `fill_value`: `fx.full(4, 0.0, fx.Float32)`.

    >>> flyc.evaluate(lambda: fx.full(3, 0.5, fx.Float32))
    [0.5, 0.5, 0.5]
    """
    return Vector.filled(shape, fill_value, dtype)


@also_called(v="a", value="fill_value")
def full_like(a: Vector, fill_value: ScalarLike, dtype: DTypeLike | None = None) -> Vector:
    """A filled vector with the shape and, unless given, the element class of `a`.

    >>> flyc.evaluate(lambda: fx.full_like(fx.Float32x2([3.0, 4.0]), 7))
    [7.0, 7.0]
    """
    return Vector.filled_like(a, fill_value, dtype)


@also_called(v="a")
def zeros_like(a: Vector, dtype: DTypeLike | None = None) -> Vector:
    """Zeros like `a`.

    >>> flyc.evaluate(lambda: fx.zeros_like(fx.Float32x2([3.0, 4.0])))
    [0.0, 0.0]
    """
    return Vector.filled_like(a, 0, dtype)


@also_called(v="a")
def ones_like(a: Vector, dtype: DTypeLike | None = None) -> Vector:
    """Ones like `a`.

    >>> flyc.evaluate(lambda: fx.ones_like(fx.Float32x2([3.0, 4.0])))
    [1.0, 1.0]
    """
    return Vector.filled_like(a, 1, dtype)


@also_called(v="a")
def empty_like(a: Vector, dtype: DTypeLike | None = None) -> Vector:
    """A vector like `a` whose content does not matter; it is zero.

    >>> flyc.evaluate(lambda: fx.empty_like(fx.Float32x2([3.0, 4.0])))
    [0.0, 0.0]
    """
    return Vector.filled_like(a, 0, dtype)


DSL_CLASSES["VectorType"] = Vector

_ALIAS_SIZES: dict[tuple[int, ...], tuple[str, ...]] = {
    (1, 2, 4, 8, 16): (
        "Float16", "BFloat16", "Int8", "Int16", "Uint8", "Uint16", "Float8E5M2", "Float8E5M2FNUZ",
        "Float8E4M3", "Float8E4M3FN", "Float8E4M3FNUZ", "Float8E4M3B11FNUZ", "Float8E8M0FNU",
    ),
    (1, 2, 4, 8): ("Float32", "Int32", "Uint32"),
    (1, 2, 4): ("Float64", "Int64", "Uint64"),
    (2, 4, 8, 16, 32): ("Float4E2M1FN", "Int4"),
    (1,): ("Int128", "Uint128"),
}  # fmt: skip
"""The aliases provided: element counts, and the classes that have them."""

ALIASES: dict[str, type[Vector]] = {
    f"{name}x{n}": VectorAlias(CLASSES[name], n)
    for sizes, names in _ALIAS_SIZES.items()
    for name in names
    for n in sizes
}
"""Every provided alias by name; each is an attribute of this module too."""


def __getattr__(name: str) -> type[Vector]:
    found = ALIASES.get(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


__all__ = ["ReductionOp", "Vector", "VectorAlias", "empty_like", "full", "full_like", "ones_like", "zeros_like"]
