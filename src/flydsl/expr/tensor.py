"""Pointers and tensors inside traced code. A tensor is a view: a base and a layout; nothing here copies data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast, overload

from .. import layout as L
from ..errors import DSLTypeError, DSLValueError
from ..ir.enums import AddressSpace, CachePolicy
from .aliases import also_called
from .numeric import Int32, Int64, Numeric, as_numeric, dsl_class, is_ir_value
from .scalars.constants import constant
from .tensors.algebra_values import ComposedLayout, IntTuple, Layout, apply, as_int_tuple, current_ir
from .tensors.bounds import check_coordinate
from .vector import Vector, VectorAlias

if TYPE_CHECKING:
    from ..dialects.fly.semantics import View
    from ..dialects.fly.types import PointerType, PtrData, Space
    from .annotations import (
        AnyLayout,
        Attribute,
        Coord,
        CoordTensor,
        DTypeLike,
        IntLike,
        ScalarLike,
        SSAValue,
        TreeLike,
        Value,
        ValueLike,
    )

V = TypeVar("V", bound="Numeric | Vector")


class Pointer:
    """A typed address: element type, address space, known alignment in bytes and optionally a swizzle.

    `Pointer[dtype, space, align]` is the type of pointers like that, for struct fields; such pointers can be stored.

    >>> flyc.evaluate(lambda x: (fx.get_iter(x) + 2).load(), np.arange(4, dtype="f4"))
    2.0
    """

    __slots__ = ("_value", "declared_dtype")

    pointee: ClassVar[tuple[type[Numeric], AddressSpace, int] | None] = None
    """Element class, address space and alignment, in a typed pointer class."""

    def __class_getitem__(cls, key: object) -> type[Pointer]:
        parts = cast("tuple[object, ...]", key) if isinstance(key, tuple) else (key,)
        if cls.pointee is not None or not 1 <= len(parts) <= 3:
            raise DSLTypeError(f"write Pointer[dtype, space, align], as in Pointer[fx.Float32, ...]; got {key!r}")
        return _typed_pointer(*parts)

    def __init__(self, value: SSAValue, dtype: type[Numeric] | None = None):
        self._value = cast("SSAValue[PointerType]", value) if TYPE_CHECKING else value
        self.declared_dtype = dtype

    @property
    def value(self) -> SSAValue:
        """The IR value."""
        return self._value

    def ir_value(self) -> SSAValue:
        """The IR value."""
        return self._value

    @property
    def type(self) -> PointerType:
        """The IR type."""
        return self._value.type

    @property
    def llvm_ptr(self) -> SSAValue:
        """The raw target pointer, an IR value."""
        return current_ir().raw_pointer(self, None)

    @property
    def dtype(self) -> type[Numeric]:
        """Element class."""
        return self.declared_dtype or Numeric.from_ir_type(self.type.data.elem)

    element_type = value_type = dtype

    @property
    def address_space(self) -> Space:
        """Where it points."""
        return self.type.data.space

    memspace = address_space

    @property
    def alignment(self) -> int:
        """Known alignment in bytes."""
        return self.type.data.align

    def __add__(self, offset: TreeLike) -> Pointer:
        by = as_int_tuple(offset)
        if isinstance(by.data, tuple) and len(by.data) != 1:
            raise DSLTypeError(
                f"a pointer moves by one number of elements, got {by}; for several indices view it through a layout: "
                "fx.make_view(pointer, fx.make_layout(shape, stride))[i, j]"
            )
        return apply("add_offset", self, by) if by.data != 0 else self

    __radd__ = __add__

    def __sub__(self, offset: TreeLike) -> Pointer:
        return self + apply("int_tuple_sub", as_int_tuple(0), as_int_tuple(offset))

    @overload
    def load(self, dtype: None = None) -> Numeric: ...
    @overload
    def load(self, dtype: type[V]) -> V: ...
    @overload
    def load(self, dtype: Attribute) -> Value: ...
    def load(self, dtype: type[Numeric] | type[Vector] | Attribute | None = None) -> Value:
        """Read one value; a vector alias, or an IR vector type, reads that many elements."""
        ir = current_ir()
        if dtype is None:
            return self.dtype(ir.load_pointer(self))
        if not isinstance(dtype, type):
            parts = _vector_parts(dtype)
            dtype = dsl_class(dtype) if parts is None else VectorAlias(*parts)
        return dtype(ir.load_pointer(self, dtype.ir_type))

    def store(self, value: ValueLike) -> None:
        """Write one value."""
        current_ir().store_pointer(self, convert_for_store(value, self.dtype))

    def __getitem__(self, index: IntLike) -> Numeric:
        return (self + index).load()

    def __setitem__(self, index: IntLike, value: ValueLike) -> None:
        (self + index).store(value)

    def view(self, layout: AnyLayout) -> Tensor:
        """This address seen through a layout."""
        return make_view(self, layout)

    def __extract_to_ir_values__(self) -> list[SSAValue]:
        return [self._value]

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[SSAValue], exemplar: object = None) -> Pointer:
        known = cls.pointee[0] if cls.pointee is not None else None
        return Pointer(values[0], getattr(exemplar, "declared_dtype", None) or known)

    def __repr__(self) -> str:
        return f"Pointer<{self.type}>"

    @classmethod
    def __coerce__(cls, value: object) -> Pointer:
        if not isinstance(value, Pointer):
            raise DSLTypeError("expected a Pointer")
        if cls.pointee is not None:
            dtype, space, align = cls.pointee
            data = value.type.data
            if data.elem != dtype.ir_type or data.space != space or data.align % align:
                raise DSLTypeError(f"{value!r} points to something else")
        return value

    @classmethod
    def __dsl_size_of__(cls) -> int:
        if cls.pointee is None or cls.pointee[1] not in (AddressSpace.Global, AddressSpace.Shared):
            raise DSLTypeError(
                f"{cls.__name__} is not Storable: only Pointer[dtype, space, align] to Global or Shared memory is"
            )
        return 4 if cls.pointee[1] is AddressSpace.Shared else 8

    @classmethod
    def __dsl_align_of__(cls) -> int:
        return cls.__dsl_size_of__()

    @classmethod
    def __peek_from_ptr__(cls, ptr: Pointer) -> Pointer:
        number = _address_class(cls.__dsl_size_of__())
        made = current_ir().int_to_pointer(_pointer_ir_type(cls), recast_iter(number, ptr).load())
        return Pointer(made.value, cls.pointee[0] if cls.pointee else None)

    @classmethod
    def __poke_into_ptr__(cls, ptr: Pointer, value: object) -> None:
        number = _address_class(cls.__dsl_size_of__())
        recast_iter(number, ptr).store(number(current_ir().pointer_to_int(cls.__coerce__(value))))


_pointer_classes: dict[tuple[type[Numeric], AddressSpace, int], type[Pointer]] = {}


def _typed_pointer(dtype: object, space: object = AddressSpace.Global, align: object = None) -> type[Pointer]:
    """The class `Pointer[dtype, space, align]`, made once."""
    if not (isinstance(dtype, type) and issubclass(dtype, Numeric) and dtype.width):
        raise DSLTypeError(f"Pointer[dtype, space, align]: dtype must be a scalar class, got {dtype!r}")
    if not isinstance(space, AddressSpace):
        raise DSLTypeError(f"Pointer[dtype, space, align]: space must be an fx.AddressSpace, got {space!r}")
    natural = max(dtype.width // 8, 1)
    align = natural if align is None else align
    if not isinstance(align, int) or align <= 0 or align % natural:
        raise DSLValueError(f"Pointer[{dtype}, ...]: align must be a positive multiple of {natural}, got {align!r}")
    found = _pointer_classes.get((dtype, space, align))
    if found is None:
        body = {"__slots__": (), "__module__": __name__, "pointee": (dtype, space, align)}
        name = f"Pointer[{dtype}, {space.name}, {align}]"
        found = _pointer_classes[dtype, space, align] = type(name, (Pointer,), body)
    return found


def _pointer_ir_type(cls: type[Pointer]) -> Attribute:
    from .emit.ir_types import PointerType

    assert cls.pointee is not None
    dtype, space, align = cls.pointee
    return PointerType.get(dtype.ir_type, space, align)


def _address_class(size: int) -> type[Numeric]:
    return Int32 if size == 4 else Int64


def _vector_parts(type_: Attribute) -> tuple[Attribute, int] | None:
    """Element type and count of an IR vector type, None for any other."""
    from .emit.scalar_types import vector_parts

    return vector_parts(type_)


def convert_for_store(value: object, dtype: type[Numeric]) -> SSAValue:
    """The IR value to store as `dtype`: numbers that keep their value convert, values of other types are refused."""
    if isinstance(value, Vector):
        if value.dtype.ir_type != dtype.ir_type:
            raise DSLTypeError(f"cannot store a Vector of {value.dtype} into {dtype} elements; convert it with .to()")
        return value.ir_value()
    if is_ir_value(value) and _vector_parts(value.type) is not None:
        return convert_for_store(Vector(value), dtype)
    number = as_numeric(value)
    if number.is_static():
        return (number if type(value) is dtype else constant(dtype, number.value)).ir_value()
    if type(number).ir_type != dtype.ir_type:
        raise DSLTypeError(f"cannot store a {type(number)} into {dtype} elements; convert it: fx.{dtype}(value)")
    return number.ir_value()


class Tensor:
    """A base and a layout. The base is a pointer, or a coordinate for coordinate tensors.

    >>> flyc.evaluate(lambda t: t[1, 2], np.arange(12, dtype="f4").reshape(3, 4))
    6.0
    >>> flyc.evaluate(lambda t: t[None, 2].layout, np.arange(12, dtype="f4").reshape(3, 4))
    Layout<?:?{i64}>
    """

    __slots__ = ("_value", "data", "declared_dtype")

    is_tensor = True

    def __init__(
        self, data: View | Tensor | SSAValue, value: SSAValue | None = None, dtype: type[Numeric] | None = None
    ):
        if isinstance(data, Tensor) or is_ir_value(data):
            # A tensor again, or the IR value of one.
            made = data if isinstance(data, Tensor) else current_ir().wrap(data)
            if not isinstance(made, Tensor):
                raise DSLTypeError(f"Tensor(...) takes a tensor or the IR value of one, got {made!r}")
            data, value, dtype = made.data, made._value, dtype or made.declared_dtype
        self.data: View = data
        self._value: SSAValue | None = value
        self.declared_dtype = dtype

    @property
    def _pointer_data(self) -> PtrData:
        data = getattr(self.data.iter, "data", None)
        if data is None:
            raise DSLTypeError("a coordinate tensor doesn't have an element type or an address space")
        return data

    @property
    def dtype(self) -> type[Numeric]:
        """Element class."""
        elem = self._pointer_data.elem
        return self.declared_dtype or Numeric.from_ir_type(elem)

    element_type = value_type = dtype

    @property
    def address_space(self) -> Space:
        """Where the data lives."""
        return self._pointer_data.space

    memspace = address_space

    @property
    def alignment(self) -> int:
        """Known alignment of the first element in bytes."""
        return self._pointer_data.align

    @property
    def layout(self) -> Layout | Any:
        """How coordinates map to offsets; a `ComposedLayout` where they are swizzled."""
        return apply("get_layout", self)

    @property
    def shape(self) -> IntTuple:
        """Extents."""
        return apply("get_shape", self)

    @property
    def stride(self) -> IntTuple:
        """Steps in elements."""
        return apply("get_stride", self)

    @property
    def iter(self) -> Pointer | Any:
        """Base pointer, or base coordinate."""
        return get_iter(self)

    @property
    def rank(self) -> int:
        """Number of top-level modes."""
        return self.data.layout.rank

    ndim = rank

    @property
    def depth(self) -> int:
        """Nesting depth of the shape."""
        return self.data.layout.depth

    @property
    def T(self) -> Self:  # noqa: N802
        """The same elements with the two modes exchanged."""
        if self.rank != 2:
            raise DSLTypeError(
                f".T exchanges two modes, and this tensor has {self.rank}; put modes in another order with "
                "fx.make_view(fx.get_iter(x), fx.select(x.layout, [2, 0, 1]))"
            )
        from .tensors.layout_functions import select

        return cast("Self", make_view(get_iter(self), select(self.layout, [1, 0])))

    def numel(self) -> IntTuple:
        """Number of elements, `fx.size(x)`."""
        return apply("size", self.layout)

    def __len__(self) -> int:
        extent = self.shape[0].__dsl_scalar__()
        if isinstance(extent, int):
            return extent
        raise DSLTypeError(
            "len() is a Python number, and the extents of this tensor are only known at run time; write x.shape[0]"
        )

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        """The elements of a tensor with one mode, the rows of others; their number must be known while tracing."""
        if not isinstance(self.shape[0].__dsl_scalar__(), int):
            raise DSLTypeError(
                "a tensor whose extents are only known at run time cannot be iterated over while tracing; write "
                "for i in range(x.shape[0])"
            )
        rest = (None,) * (self.rank - 1)
        return iter([self[(i, *rest) if rest else i] for i in range(len(self))])

    @property
    def leading_dim(self) -> int | list[int] | None:
        """First mode with static stride 1: an int, a path for a nested mode, or None."""
        layout = self.data.layout
        if not isinstance(layout, L.Layout):
            return None

        def find(tree: L.IntTuple, path: tuple[int, ...]) -> tuple[int, ...] | None:
            if isinstance(tree, tuple):
                for i, child in enumerate(tree):
                    found = find(child, (*path, i))
                    if found is not None:
                        return found
                return None
            return path if tree == 1 and type(tree) is int else None

        found = find(layout.stride, ())
        if found is None:
            return None
        return list(found) if len(found) > 1 else (found[0] if found else 0)

    def ir_value(self) -> SSAValue:
        """The IR value."""
        return current_ir().materialise(self)

    @property
    def type(self) -> Any:
        """The IR type."""
        return current_ir().type_of_value(self)

    @overload
    def __getitem__(self, coord: Coord) -> Numeric: ...  # pyright: ignore[reportOverlappingOverload]
    @overload
    def __getitem__(self, coord: TreeLike) -> Self: ...
    def __getitem__(self, coord: TreeLike) -> Numeric | IntTuple | Self:
        c = as_int_tuple(coord, "make_coord")
        check_coordinate(self, c.data)
        if L.has_none(c.data):
            return apply("slice", self, c)
        return current_ir().load_element(self, c)

    def __setitem__(self, coord: TreeLike, value: ValueLike) -> None:
        c = as_int_tuple(coord, "make_coord")
        check_coordinate(self, c.data)
        if L.has_none(c.data):
            apply("slice", self, c).store(value)
            return
        current_ir().store_element(self, c, convert_for_store(value, self.dtype))

    def load(self) -> Vector:
        """All elements as a vector, in colex order of the shape."""
        return current_ir().load_vector(self)

    @also_called(value="vector")
    def store(self, vector: ValueLike) -> None:
        """Write all elements from a vector; a scalar fills."""
        if is_ir_value(vector) and _vector_parts(vector.type) is not None:
            vector = Vector(vector)
        if not isinstance(vector, Vector):
            self.fill(vector)
            return
        current_ir().store_vector(self, convert_for_store(vector, self.dtype))

    def fill(self, value: ScalarLike) -> None:
        """Write one value to all elements."""
        count = L.size(self.data.layout)
        if type(count) is not int:
            raise DSLValueError(f"fill needs a static shape, got {L.format_any(self.data.layout)}")
        number = as_numeric(value)
        number = constant(self.dtype, number.value) if number.is_static() else self.dtype(number)
        current_ir().store_vector(self, Vector.filled(count, number, self.dtype).ir_value())

    def __extract_to_ir_values__(self) -> list[SSAValue]:
        return [] if self._value is None else [self._value]

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[SSAValue], exemplar: Any = None) -> Any:
        return current_ir().wrap(values[0], exemplar) if values else exemplar

    def __repr__(self) -> str:
        return f"Tensor<{self.data.iter}, {L.format_any(self.data.layout)}>"

    def _repr_html_(self) -> str | None:
        from ..layout.draw import picture_of
        from ..markup import figures

        picture = picture_of(self.data.layout)
        return None if picture is None else figures([(f"tensor of {self.dtype}", picture)])


@overload
def make_view(iter: Pointer, layout: AnyLayout) -> Tensor: ...
@overload
def make_view(iter: TreeLike, layout: AnyLayout) -> CoordTensor: ...
@also_called(base="iter")
def make_view(iter: Pointer | TreeLike, layout: object) -> Tensor:
    """A tensor from a pointer, or a coordinate tensor from a base coordinate.

    >>> x = np.arange(12, dtype="f4")
    >>> flyc.evaluate(lambda t: fx.make_view(fx.get_iter(t) + 4, fx.make_layout((2, 2), (1, 2))), x)
    [4.0, 5.0, 6.0, 7.0]
    >>> fx.make_view((0, 0), fx.make_identity_layout((4, 8)))[1, 2]
    IntTuple<(1,2)>
    """
    if not isinstance(layout, (Layout, ComposedLayout)):
        raise DSLTypeError(f"make_view expects a Layout or ComposedLayout, got {layout!r}")
    return apply("make_view", iter if isinstance(iter, Pointer) else as_int_tuple(iter), layout)


@also_called(t="memref")
def get_iter(memref: Tensor) -> Pointer | Any:
    """Base pointer of a tensor, or base coordinate of a coordinate tensor.

    >>> flyc.evaluate(lambda t: fx.get_iter(t)[5], np.arange(12, dtype="f4").reshape(3, 4))
    5.0
    """
    return apply("get_iter", memref)


@overload
def add_offset(ptr: Pointer, offset: TreeLike) -> Pointer: ...
@overload
def add_offset(ptr: TreeLike, offset: TreeLike) -> IntTuple: ...
@also_called(base="ptr")
def add_offset(ptr: Pointer | TreeLike, offset: TreeLike) -> Pointer | IntTuple:
    """A pointer or coordinate moved by an offset.

    >>> flyc.evaluate(lambda t: fx.add_offset(fx.get_iter(t), 5).load(), np.arange(12, dtype="f4").reshape(3, 4))
    5.0
    """
    return apply("add_offset", ptr if isinstance(ptr, Pointer) else as_int_tuple(ptr), as_int_tuple(offset))


@also_called(dtype="result_type", pointer="src")
def recast_iter(result_type: DTypeLike, src: Pointer) -> Pointer:
    """The same address with another element type.

    >>> flyc.evaluate(lambda t: fx.recast_iter(fx.Int32, fx.get_iter(t)).load(), np.ones(1, "f4")) == 0x3F800000
    True
    """
    return current_ir().recast_pointer(src, result_type)


@overload
def ptr_load(ptr: Pointer, result_type: None = None) -> Numeric: ...
@overload
def ptr_load(ptr: Pointer, result_type: type[V]) -> V: ...
@also_called(pointer="ptr")
def ptr_load(ptr: Pointer, result_type: type[Numeric] | type[Vector] | None = None) -> Value:
    """`ptr.load()`.

    >>> flyc.evaluate(lambda t: fx.ptr_load(fx.get_iter(t) + 3), np.arange(12, dtype="f4").reshape(3, 4))
    3.0
    """
    return ptr.load(result_type)


@also_called(pointer="ptr")
def ptr_store(value: ValueLike, ptr: Pointer) -> None:
    """`ptr.store(value)`.

    >>> def put(t):
    ...     fx.ptr_store(9.5, fx.get_iter(t) + 1)
    ...     return t[1]
    >>> flyc.evaluate(put, np.zeros(2, "f4"))
    9.5
    """
    ptr.store(value)


@also_called(t="memref", coord="indices")
def memref_load(memref: Tensor, indices: Coord) -> Numeric:
    """`memref[coord]`.

    >>> flyc.evaluate(lambda t: fx.memref_load(t, (2, 1)), np.arange(12, dtype="f4").reshape(3, 4))
    9.0
    """
    return memref[indices]


@also_called(t="memref", coord="indices")
def memref_store(value: ValueLike, memref: Tensor, indices: Coord) -> None:
    """`memref[coord] = value`.

    >>> def put(t):
    ...     fx.memref_store(9.5, t, 1)
    ...     return t[1]
    >>> flyc.evaluate(put, np.zeros(2, "f4"))
    9.5
    """
    memref[indices] = value


@also_called(t="memref")
def memref_load_vec(memref: Tensor) -> Vector:
    """`memref.load()`.

    >>> x = np.arange(12, dtype="f4")
    >>> flyc.evaluate(lambda t: fx.memref_load_vec(fx.make_view(fx.get_iter(t), fx.make_layout(4, 1))), x)
    [0.0, 1.0, 2.0, 3.0]
    """
    return memref.load()


@also_called(value="vector", t="memref")
def memref_store_vec(vector: ValueLike, memref: Tensor) -> None:
    """`memref.store(value)`.

    >>> def put():
    ...     t = fx.make_rmem_tensor(2, fx.Float32)
    ...     fx.memref_store_vec(fx.Vector.from_elements([1.5, 2.5]), t)
    ...     return t
    >>> flyc.evaluate(put)
    [1.5, 2.5]
    """
    memref.store(vector)


def get_dyn_shared(dtype: type[Numeric] | None = None) -> Pointer:
    """Base of the kernel's dynamic shared buffer.

    >>> def shared(n):
    ...     p = fx.get_dyn_shared(fx.Float32)
    ...     return p.address_space.name, p.alignment
    >>> flyc.evaluate(shared, 1)
    ('Shared', 1024)
    """
    return current_ir().dynamic_shared(dtype)


def make_rmem_tensor(shape_or_layout: TreeLike | Layout, dtype: DTypeLike) -> Tensor:
    """An uninitialised register tensor; a shape becomes a colex-compact layout.

    >>> def registers():
    ...     t = fx.make_rmem_tensor((2, 2), fx.Float32)
    ...     t.fill(0.5)
    ...     t[1, 0] = 3.0
    ...     return t
    >>> flyc.evaluate(registers)
    [0.5, 3.0, 0.5, 0.5]
    """
    cls = dsl_class(dtype)
    layout = shape_or_layout
    if not isinstance(layout, Layout):
        layout = apply("make_ordered_layout", as_int_tuple(shape_or_layout), IntTuple(0))
    if not layout.is_static:
        raise DSLValueError(
            f"register tensors need a static layout, got {layout}: registers are given out at compile time; take "
            "extents from a Constexpr parameter or Python numbers"
        )
    return current_ir().register_tensor(layout, cls)


@also_called(x="tensor")
def make_fragment_like(tensor: Tensor | AnyLayout, dtype: DTypeLike | None = None) -> Tensor:
    """A register tensor with the fragment layout of a tensor or layout.

    >>> flyc.evaluate(lambda: fx.make_fragment_like(fx.make_layout((3, 4), (4, 1)), fx.Float32).layout)
    Layout<(3,4):(1,3)>
    """
    return current_ir().fragment_like(tensor, None if dtype is None else dsl_class(dtype))


__all__ = [
    "AddressSpace", "CachePolicy", "Pointer", "Tensor", "add_offset", "get_dyn_shared", "get_iter",
    "make_fragment_like", "make_rmem_tensor", "make_view", "memref_load", "memref_load_vec", "memref_store",
    "memref_store_vec", "ptr_load", "ptr_store", "recast_iter",
]  # fmt: skip
