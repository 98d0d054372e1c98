"""Memory with a type: `fx.Array`, `fx.Storage[T]` and the offsets of `fx.Arena`.

A `Storage[T]` refers to a place that holds a `T`. `.field` is the place of a field, `.peek()` loads, `.poke(v)` stores.
Loading a struct loads its scalars; arrays and unions inside it stay references. Light: no compiler at import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast, overload

from ...errors import DSLTypeError, DSLValueError
from ..aliases import also_called
from ..numeric import Boolean, Numeric, Uint8
from ..protocol import dsl_align_of, dsl_size_of
from ..structs import (
    CompositeKind,
    check_power_of_two,
    coerce,
    is_composite_type,
    is_specializable_struct_type,
    is_struct_type,
    make_struct,
    memory_layout,
    round_up,
    type_name,
    value_type,
)
from ..tensor import Pointer, make_view, recast_iter
from ..vector import Vector

if TYPE_CHECKING:
    from ..annotations import AnyLayout, IntLike, SSAValue, Stored
    from ..tensor import Tensor

X = TypeVar("X")

# --- addresses ----------------------------------------------------------------------------------------------------


def byte_pointer(ptr: Pointer) -> Pointer:
    """The address counted in bytes."""
    return ptr if ptr.dtype.width == 8 else recast_iter(Uint8, ptr)


def typed_pointer(type_: object, ptr: Pointer) -> Pointer:
    """The address as a scalar or vector class loads and stores through it; other types take bytes."""
    inner = value_type(type_)
    if isinstance(inner, type) and issubclass(inner, Numeric):
        return ptr if ptr.dtype is inner else recast_iter(inner, ptr)
    if isinstance(inner, type) and issubclass(inner, Vector):
        return recast_iter(inner.dtype, ptr)
    return byte_pointer(ptr)


# --- arrays -------------------------------------------------------------------------------------------------------

_arrays: dict[tuple[object, int, int], type[Array]] = {}


def _element_bits(dtype: Any) -> int:
    """Bits from one element to the next."""
    if isinstance(dtype, type) and issubclass(dtype, Numeric) and dtype is not Boolean:
        return dtype.width
    return 8 * round_up(dsl_size_of(dtype), dsl_align_of(dtype))


class _ArrayMeta(type):
    def __str__(cls) -> str:
        return cls.__name__

    def __repr__(cls) -> str:
        return cls.__name__


def _size_hint(n: object) -> str:
    """What to write instead of a size that is none."""
    if isinstance(n, tuple):
        return (
            "; write all elements as one number, and view them: fx.make_view(array.ptr, fx.make_layout(shape, stride))"
        )
    if isinstance(n, Numeric) and not n.is_static():
        return (
            ", which is known at run time only; make it a Constexpr, or take memory whose size the launch says: "
            "fx.get_dyn_shared(dtype) and launch(smem=bytes)"
        )
    return ""


class Array(metaclass=_ArrayMeta):
    """`fx.Array[dtype, n]` or `[dtype, n, align]`: room for `n` elements. Elements narrower than a byte are packed.

    >>> from flydsl.expr.numeric import Float32, Int4
    >>> dsl_size_of(Array[Float32, 64]), dsl_align_of(Array[Float32, 64, 16]), dsl_size_of(Array[Int4, 8])
    (256, 16, 4)
    """

    __slots__ = ("ptr",)
    __dsl_immutable__ = True

    dtype: ClassVar[Any] = None
    size: ClassVar[int] = 0
    """Number of elements."""
    align: ClassVar[int] = 0
    """Alignment in bytes."""

    ptr: Pointer
    """First element."""

    def __class_getitem__(cls, key: object) -> type[Array]:
        parts = cast("tuple[Any, ...]", key if isinstance(key, tuple) else (key,))
        if cls.dtype is not None or len(parts) not in (2, 3):
            raise DSLTypeError(
                f"write Array[dtype, size] or Array[dtype, size, align], as in Array[fx.Float32, 64]; got {key!r}"
            )
        dtype, n = parts[0], parts[1]
        natural = _element_alignment(dtype)
        if not isinstance(n, int) or isinstance(n, bool) or n <= 0:
            raise DSLTypeError(
                f"Array[{type_name(dtype)}, size]: the size must be a positive integer, got {n!r}{_size_hint(n)}"
            )
        align = natural if len(parts) == 2 else check_power_of_two("the alignment of an Array", parts[2])
        if align < natural:
            raise DSLValueError(
                f"Array[{type_name(dtype)}, {n}, {align}]: {align} is smaller than natural alignment {natural}"
            )
        found = _arrays.get((dtype, n, align))
        if found is None:
            shown = f", {align}" if align != natural else ""
            body = {"__slots__": (), "__module__": __name__, "dtype": dtype, "size": n, "align": align}
            found = _arrays[dtype, n, align] = _ArrayMeta(f"Array[{type_name(dtype)}, {n}{shown}]", (Array,), body)
        return found

    def __init__(self, ptr: Pointer):
        if type(self).dtype is None:
            raise DSLTypeError("Array has no elements: write Array[dtype, size]")
        self.ptr = typed_pointer(type(self).dtype, ptr)

    def _element(self, index: Any) -> Storage:
        if isinstance(index, int) and not -self.size <= index < self.size:
            raise IndexError(f"index {index} is outside {type(self)}")
        if isinstance(index, int) and index < 0:
            index += self.size
        dtype = type(self).dtype
        if isinstance(dtype, type) and issubclass(dtype, Numeric):
            return Storage[dtype](self.ptr + index)
        return Storage[dtype](byte_pointer(self.ptr) + index * (_element_bits(dtype) // 8))

    def __getitem__(self, index: IntLike) -> Any:
        return self._element(index).peek()

    def __setitem__(self, index: IntLike, value: Any) -> None:
        dtype = type(self).dtype
        if isinstance(dtype, type) and issubclass(dtype, Numeric):
            self._element(index).__storage_pointer__().store(value)
        else:
            self._element(index).poke(value)

    def view(self, layout: AnyLayout) -> Tensor:
        """The elements as a tensor."""
        return make_view(self.ptr, layout)

    def __len__(self) -> int:
        return type(self).size

    def __repr__(self) -> str:
        return f"{type(self)}({self.ptr!r})"

    def __extract_to_ir_values__(self) -> list[SSAValue]:
        return self.ptr.__extract_to_ir_values__()

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[SSAValue], exemplar: Any = None) -> Self:
        made = object.__new__(cls)
        like = None if exemplar is None else exemplar.ptr
        made.ptr = Pointer.__construct_from_ir_values__(values, like)
        if like is None and isinstance(cls.dtype, type) and issubclass(cls.dtype, Numeric):
            made.ptr.declared_dtype = cls.dtype
        return made

    @classmethod
    def __coerce__(cls, value: object) -> Self:
        if type(value) is cls:
            return value
        raise DSLTypeError(f"expected a reference to an {cls}, as peek() gives it")

    @classmethod
    def __dsl_size_of__(cls) -> int:
        if cls.dtype is None:
            raise DSLTypeError("Array is not Storable without its elements: write Array[dtype, size]")
        return (cls.size * _element_bits(cls.dtype) + 7) // 8

    @classmethod
    def __dsl_align_of__(cls) -> int:
        cls.__dsl_size_of__()
        return cls.align

    @classmethod
    def __peek_from_ptr__(cls, ptr: Pointer) -> Self:
        return cls(ptr)

    @classmethod
    def __poke_into_ptr__(cls, ptr: Pointer, value: object) -> None:
        raise NotImplementedError(f"{cls} cannot be stored as a whole: store its elements, as in a[i] = v")


def _element_alignment(dtype: object) -> int:
    if isinstance(dtype, type) and issubclass(dtype, Numeric):
        if dtype.width == 0:
            raise DSLTypeError(f"Array elements must be a concrete Numeric subclass such as fx.Float32, got {dtype}")
        return max(dtype.width // 8, 1)
    try:
        return dsl_align_of(dtype)
    except TypeError as error:
        raise DSLTypeError(
            f"Array elements must be a Numeric subclass or another Storable type, got {type_name(dtype)}: {error}"
        ) from error


# --- references ---------------------------------------------------------------------------------------------------

_storages: dict[object, type[Storage]] = {}


class Storage:
    """`fx.Storage[T]`: a typed reference to memory, made by an allocator or from a pointer: `Storage[T](ptr)`.

    `.field` refers to a field, `.peek()` loads the value, `.poke(v)` stores one; so does assigning a field.

    >>> def keep():
    ...     place = fx.SharedAllocator().allocate(fx.Struct["a": fx.Int32, "b": fx.Float32])
    ...     place.a.poke(3)
    ...     place.b.poke(0.5)
    ...     return place.a.peek(), place.b.peek()
    >>> flyc.evaluate(keep)
    (3, 0.5)
    """

    __slots__ = ("_at", "_parts")
    __dsl_immutable__ = True

    __storage_type__: ClassVar[Any] = None
    """What is stored."""

    def __class_getitem__(cls, type_: object) -> type[Storage]:
        if cls.__storage_type__ is not None:
            raise DSLTypeError(f"{cls.__name__} is already a reference to {type_name(cls.__storage_type__)}")
        found = _storages.get(type_)
        if found is None:
            dsl_size_of(type_)
            body = {"__slots__": (), "__module__": __name__, "__storage_type__": type_}
            found = _storages[type_] = type(f"Storage[{type_name(type_)}]", (Storage,), body)
        return found

    def __init__(self, at: Pointer | Callable[[], Pointer] | None, parts: dict[str, Storage] | None = None):
        if type(self).__storage_type__ is None:
            raise DSLTypeError("Storage needs to know what is stored: write Storage[T](pointer)")
        if not (at is None or isinstance(at, Pointer) or callable(at)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DSLTypeError(f"{type(self).__name__} refers to memory by an fx.Pointer, got {at!r}")
        self._at = at
        self._parts = parts
        """Fields that are allocations of their own; then there is no common address."""

    def __storage_pointer__(self) -> Pointer:
        """Where it is: typed for scalars and vectors, in bytes for anything else."""
        at = self._at
        if at is None:
            raise DSLTypeError(f"{type(self).__name__} is scattered: each of its fields is an allocation of its own")
        if not isinstance(at, Pointer):
            at = at()
        return typed_pointer(type(self).__storage_type__, at)

    def __setattr__(self, name: str, value: object) -> None:
        """`place.field = value` stores it."""
        if name in ("_at", "_parts"):
            object.__setattr__(self, name, value)
        else:
            getattr(self, name).poke(value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        composite = value_type(type(self).__storage_type__)
        fields = {f.name: f for f in composite.__fields__} if is_composite_type(composite) else {}
        field = fields.get(name)
        if field is None:
            known = f"it has {', '.join(fields)}" if fields else "it has none"
            raise AttributeError(f"{type(self).__name__} has no field '{name}'; {known}")
        if field.is_constexpr:
            raise AttributeError(f"field '{name}' of {composite} is compile-time only: it takes no memory")
        if self._parts is not None:
            return self._parts[name]
        offset = memory_layout(composite.__declared__).offsets[name]
        return Storage[field.type](lambda: byte_pointer(self.__storage_pointer__()) + offset)

    def peek(self) -> Any:
        """Load the value: a scalar, a vector, a struct with its scalars loaded, a reference to an array."""
        type_ = value_type(type(self).__storage_type__)
        if not is_struct_type(type_):
            return type_.__peek_from_ptr__(self.__storage_pointer__())
        if is_specializable_struct_type(type_):
            raise DSLTypeError(
                f"{type_} has compile-time fields, which memory does not hold: refer to Storage[type(p)], "
                "where p is an instance with their values"
            )
        values: dict[str, object] = dict(type_.__consts__)
        for field in type_.__fields__:
            if not field.is_constexpr:
                values[field.name] = getattr(self, field.name)._peek_leaf()
        return make_struct(type_, values)

    def _peek_leaf(self) -> Any:
        """As a field of a loaded struct: a union stays a reference."""
        type_ = value_type(type(self).__storage_type__)
        if is_composite_type(type_) and type_.__kind__ is CompositeKind.UNION:
            return self if type_ is type(self).__storage_type__ else Storage[type_](self._at)
        return self.peek()

    def poke(self, value: object) -> None:
        """Store a value, coerced to the type of the place."""
        type_ = value_type(type(self).__storage_type__)
        if not is_struct_type(type_):
            type_.__poke_into_ptr__(self.__storage_pointer__(), value)
            return
        whole = coerce(type_, value)
        for field in type_.__fields__:
            if not field.is_constexpr:
                getattr(self, field.name).poke(getattr(whole, field.name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def __extract_to_ir_values__(self) -> list[SSAValue]:
        if self._parts is not None:
            return [v for part in self._parts.values() for v in part.__extract_to_ir_values__()]
        return self.__storage_pointer__().__extract_to_ir_values__()

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[SSAValue], exemplar: Any = None) -> Self:
        if exemplar is None or exemplar._parts is None:
            like = None if exemplar is None else exemplar.__storage_pointer__()
            return cls(Pointer.__construct_from_ir_values__(values, like))
        rest = list(values)
        parts: dict[str, Storage] = {}
        for name, part in exemplar._parts.items():
            count = len(part.__extract_to_ir_values__())
            parts[name] = cast(Any, type(part)).__construct_from_ir_values__(rest[:count], part)
            del rest[:count]
        return cls(None, parts)


# --- arenas -------------------------------------------------------------------------------------------------------


class Arena:
    """Hands out places one after the other. A subclass says in `base_ptr` where they begin.

    >>> arena = Arena()
    >>> _ = arena.allocate(4)
    >>> _ = arena.allocate(8, alignment=16)
    >>> arena.allocated_bytes
    24
    """

    __dsl_captured__ = True
    DEFAULT_BASE_ALIGNMENT = 16

    def __init__(self, base_alignment: int = DEFAULT_BASE_ALIGNMENT):
        self.base_alignment = check_power_of_two("base_alignment", base_alignment)
        self._end = 0

    @property
    def base_ptr(self) -> Pointer:
        """Where the first byte is."""
        raise NotImplementedError(f"{type(self).__name__} has no base pointer; use fx.SharedAllocator")

    @property
    def allocated_bytes(self) -> int:
        """Bytes handed out so far, with what alignment skipped."""
        return self._end

    @overload
    def allocate(self, storable_or_int: int, alignment: int | None = None) -> Stored[Array]: ...
    @overload
    def allocate(self, storable_or_int: type[X], alignment: int | None = None) -> Stored[X]: ...
    @also_called(what="storable_or_int")
    def allocate(self, storable_or_int: object, alignment: int | None = None) -> object:
        """Room for a storable type, or for a number of bytes."""
        type_, size, align = self.measure(storable_or_int, alignment)
        offset = round_up(self._end, align)
        self._end = offset + size
        return self.place(type_, offset, align)

    def measure(self, what: object, alignment: int | None) -> tuple[object, int, int]:
        """Type, size and alignment of a request."""
        if isinstance(what, int) and not isinstance(what, bool):
            if what <= 0:
                raise DSLValueError(f"the number of bytes to allocate must be > 0, got {what}")
            what = Array[Uint8, what]
        size, align = dsl_size_of(what), dsl_align_of(what)
        if alignment is not None:
            align = max(align, check_power_of_two("alignment", alignment))
        return what, size, align

    def place(self, type_: object, offset: int, align: int) -> Storage:
        """The reference to a place at an offset."""
        return Storage[type_](lambda: byte_pointer(self.base_ptr) + offset)
