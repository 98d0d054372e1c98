"""Layout-algebra values inside traced code: IntTuple, Layout, ComposedLayout, Swizzle, CoordSwizzle, Tile.

Each holds the algebra object that describes it (`data`: ints where static, `Dyn` leaves where not) and, only if some
leaf exists at run time, the IR value. A fully static value costs nothing: operations on it run in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, TypeVar, cast, overload

from ... import layout as L
from ...errors import DSLTypeError, DSLValueError
from ...layout import Basis, Dyn
from ..numeric import Int32, Int64, Integer, Numeric, binary
from .leaf_numbers import LeafNumber, scalar_of

if TYPE_CHECKING:
    from ..annotations import Coord, IntLike, SSAValue, TreeLike


V = TypeVar("V", bound="AlgebraValue")


class AlgebraValue:
    """A layout-algebra object, with its IR value when a part of it is dynamic."""

    __slots__ = ("_value", "data")

    data: Any
    """The algebra object; each class says which."""

    def __init__(self, data: object, value: SSAValue | None = None):
        self.data = data
        self._value = value

    @property
    def is_static(self) -> bool:
        """Whether every part is known at compile time."""
        return self._value is None

    def ir_value(self) -> SSAValue:
        """The IR value; a static one is a `fly.static` of its type."""
        return current_ir().materialise(self)

    @property
    def type(self) -> Any:
        """The IR type."""
        return current_ir().type_of_value(self)

    def __extract_to_ir_values__(self) -> list[SSAValue]:
        return [] if self._value is None else [self._value]

    @classmethod
    def __construct_from_ir_values__(cls, values: Sequence[SSAValue], exemplar: Any = None) -> Any:
        if not values:
            return exemplar
        return current_ir().wrap(values[0], exemplar)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, AlgebraValue):
            return self.data == other.data and self._value is other._value
        return self._value is None and self.data == other

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.data))

    def __str__(self) -> str:
        return f"{type(self).__name__}<{L.format_any(self.data)}>"

    __repr__ = __str__


def current_ir():
    """The module that knows IR; loaded at the first use, because it needs xDSL."""
    global _ir
    if _ir is None:
        from ..emit import ir as loaded

        _ir = loaded
    return _ir


_ir = None


def apply(name: str, *args: object, **props: object) -> Any:
    """Run a pure `fly` op: in Python if its result is static, else as an operation."""
    return current_ir().apply(name, args, props)


class IntTuple(LeafNumber, AlgebraValue):
    """A nested tuple of integers, some of which may be known only at run time. One with one integer is a number, too.

    >>> t = fx.make_shape(4, (2, 3))
    >>> t.rank, t[1], t.unpack()
    (2, IntTuple<(2,3)>, (4, (2, 3)))
    >>> t[0] * 2 + 1, t[0] < 5
    (9, True)
    """

    __slots__ = ()

    data: L.IntTuple

    @property
    def rank(self) -> int:
        """Number of children; 1 for a leaf."""
        return L.rank(self.data)

    @property
    def depth(self) -> int:
        """Nesting depth; 0 for a leaf."""
        return L.depth(self.data)

    @property
    def is_leaf(self) -> bool:
        """Whether this is a single leaf."""
        return type(self.data) is not tuple

    @property
    def get_static_leaf_int(self) -> int:
        """The Python int of a static leaf."""
        if type(self.data) is not int:
            raise DSLValueError(f"expected a static integer leaf, got {self}")
        return self.data

    def __getitem__(self, mode: int | Sequence[int]) -> IntTuple:
        path = tuple(mode) if isinstance(mode, (list, tuple)) else (cast(int, mode),)
        if type(self.data) is not tuple:
            if path not in ((0,), (-1,)):
                raise IndexError(f"{self} is a leaf: it has no mode {mode}")
            return self
        if isinstance(mode, int) and not -self.rank <= mode < self.rank:
            raise IndexError(f"mode {mode} is out of range for {self}")
        return apply("get", self, mode=tuple(int(m) for m in path))

    def __dsl_scalar__(self) -> int | Integer | None:
        inner = self.data
        while isinstance(inner, tuple) and len(inner) == 1:
            inner = inner[0]
        if isinstance(inner, (tuple, Basis)) or inner is None:
            return None
        found = self.unpack()
        while isinstance(found, tuple):
            found = cast("tuple[Any]", found)[0]
        return found

    def __eq__(self, other: object) -> Any:
        if self._value is not None and not (isinstance(other, AlgebraValue) and other._value is self._value):
            left, right = self.__dsl_scalar__(), scalar_of(other)
            if left is not None and isinstance(right, (int, Numeric)):
                return binary("eq", left, right)
        return AlgebraValue.__eq__(self, other)

    def __ne__(self, other: object) -> Any:
        same = self == other
        return binary("ne", self.__dsl_scalar__(), scalar_of(other)) if isinstance(same, Numeric) else not same

    __hash__ = AlgebraValue.__hash__

    def __len__(self) -> int:
        return self.rank

    def __iter__(self) -> Iterator[IntTuple]:
        return iter([self[i] for i in range(self.rank)])

    def unpack(self) -> Any:
        """The tuple as Python values: ints for static leaves, `Int32`/`Int64` for run-time ones."""
        return unpack(self)

    to_py_value = unpack


def unpack(t: IntTuple) -> Any:
    """Python structure of a tuple."""
    if t.is_static:
        return t.data
    leaves = list(current_ir().dynamic_leaves(t))

    def build(tree: object) -> object:
        if isinstance(tree, tuple):
            return tuple(build(x) for x in cast("tuple[object, ...]", tree))
        if isinstance(tree, Basis) and isinstance(tree.value, Dyn):
            return Basis(cast(Any, leaves.pop(0)), tree.modes)
        return leaves.pop(0) if isinstance(tree, Dyn) else tree

    return build(t.data)


def leaf_class(leaf: Dyn) -> type[Integer]:
    """Scalar class of a run-time leaf."""
    return Int64 if leaf.width == 64 else Int32


def as_int_tuple(x: object, op: str = "make_int_tuple") -> IntTuple:
    """An IntTuple from anything that can stand for one."""
    if isinstance(x, IntTuple):
        return x
    if isinstance(x, (Layout, ComposedLayout)):
        raise DSLTypeError(f"expected an integer tuple, got {x}")
    values: list[SSAValue] = []
    data = _collect(x, values)
    return IntTuple(data, current_ir().make_int_tuple(op, data, values) if values else None)


def _collect(x: object, values: list[SSAValue]) -> L.IntTuple:
    """Algebra tree of a Python structure; the SSA values of its run-time leaves are appended to `values`."""
    if x is None or type(x) is int:
        return x
    if isinstance(x, bool):
        return int(x)
    if isinstance(x, (tuple, list)):
        return tuple([_collect(e, values) for e in cast("Sequence[object]", x)])
    if isinstance(x, IntTuple):
        if not x.is_static:
            values.extend(v.ir_value() for v in current_ir().dynamic_leaves(x))
        return x.data
    if isinstance(x, Basis):
        return Basis(cast("int | Dyn", _collect(x.value, values)), x.modes)
    if isinstance(x, Numeric):
        if x.is_static():
            if not isinstance(x, Integer):
                raise DSLTypeError(f"indices and extents are integers, got {x!r}; divide with //, or write fx.Int32(x)")
            return int(x)
        leaf, value = current_ir().leaf_of(x)
        values.append(value)
        return leaf
    if isinstance(x, SupportsIndex) and not isinstance(x, type) and not getattr(x, "shape", ()):
        return int(x)
    if isinstance(x, slice) and x == slice(None):
        return None
    hint = ""
    if isinstance(x, slice) or x is ...:
        hint = "; None or : keeps a whole mode, as in x[0, None]; parts are cut with fx.flat_divide(x, tile)"
    elif hasattr(x, "x") and hasattr(x, "y"):
        hint = f"; write fx.{x}.x"
    elif isinstance(x, float):
        hint = "; divide with //, or write int(x)"
    raise DSLTypeError(f"expected an int, a scalar, None or a nested tuple of those, got {x!r}{hint}")


class _LayoutValue(AlgebraValue):
    """What plain and composed layouts share."""

    __slots__ = ()

    @property
    def rank(self) -> int:
        """Number of top-level modes."""
        return self.data.rank

    @property
    def depth(self) -> int:
        """Nesting depth."""
        return self.data.depth

    @property
    def is_leaf(self) -> bool:
        """Whether the shape is a single extent."""
        return self.data.is_leaf

    def _repr_svg_(self) -> str | None:
        from ...layout.draw import picture_of

        return picture_of(self.data)

    @property
    def shape(self) -> IntTuple:
        """Extents."""
        return apply("get_shape", self)

    def __getitem__(self, mode: int | Sequence[int]) -> Self:
        path = tuple(mode) if isinstance(mode, (list, tuple)) else (mode,)
        return apply("get", self, mode=path)

    @overload
    def __call__(self, *coord: Coord) -> IntTuple: ...  # pyright: ignore[reportOverlappingOverload]
    @overload
    def __call__(self, *coord: TreeLike) -> Self: ...
    def __call__(self, *coord: TreeLike) -> IntTuple | Self:
        c = as_int_tuple(coord[0] if len(coord) == 1 else coord)
        if L.has_none(c.data):
            return apply("slice", self, c)
        return apply("crd2idx", c, self)


class Layout(_LayoutValue):
    """A shape and a stride: maps coordinates to offsets.

    >>> layout = fx.make_layout((4, 8), (8, 1))
    >>> layout(1, 2), layout[0], layout.shape
    (IntTuple<10>, Layout<4:8>, IntTuple<(4,8)>)
    """

    __slots__ = ()

    data: L.Layout

    @property
    def stride(self) -> IntTuple:
        """Step of each mode."""
        return apply("get_stride", self)

    @property
    def is_static_shape(self) -> bool:
        """Whether all extents are compile-time facts."""
        return L.is_static(self.data.shape)

    @property
    def is_static_stride(self) -> bool:
        """Whether all strides are compile-time facts."""
        return L.is_static(self.data.stride)

    def get_hier_coord(self, index: IntLike) -> IntTuple:
        """`idx2crd`."""
        return apply("idx2crd", as_int_tuple(index), self)

    def get_flat_coord(self, index: IntLike) -> IntTuple:
        """One integer per top-level mode."""
        return apply("get_flat_coord", as_int_tuple(index), self)

    def get_1d_coord(self, index: IntLike) -> IntTuple:
        """One colex integer over the shape."""
        return apply("get_1d_coord", as_int_tuple(index), self)


class ComposedLayout(_LayoutValue):
    """`inner(offset + outer(coord))`.

    >>> c = fx.make_composed_layout(fx.static(fx.SwizzleType.get(3, 0, 3)), fx.make_layout((8, 8), (8, 1)))
    >>> c(2, 3), c.inner, c(2, None)
    (IntTuple<17>, Swizzle<S<3,0,3>>, ComposedLayout<S<3,0,3> o 16 o 8:1>)
    """

    __slots__ = ()

    data: L.ComposedLayout

    @property
    def inner(self) -> Swizzle | CoordSwizzle | Layout | ComposedLayout:
        """What is applied last: a swizzle or a layout."""
        return apply("composed_get_inner", self)

    @property
    def offset(self) -> IntTuple:
        """Added between the two."""
        return apply("composed_get_offset", self)

    @property
    def outer(self) -> Layout | ComposedLayout:
        """What is applied first."""
        return apply("composed_get_outer", self)

    @property
    def is_static_inner(self) -> bool:
        """Whether what is applied last is known at compile time."""
        return bool(getattr(self.data.inner, "is_static", True))

    @property
    def is_static_offset(self) -> bool:
        """Whether the offset is."""
        return L.is_static(self.data.offset)

    @property
    def is_static_outer(self) -> bool:
        """Whether what is applied first is."""
        return bool(self.data.outer.is_static)

    @property
    def stride(self) -> IntTuple:
        """A composed layout has none."""
        raise DSLTypeError(f"a composed layout has no stride: {self}")


class Swizzle(AlgebraValue):
    """An XOR of address bits; always static.

    >>> s = fx.static(fx.SwizzleType.get(3, 4, 3))
    >>> s.mask, s.base, s.shift
    (3, 4, 3)
    """

    __slots__ = ()

    data: L.Swizzle

    @property
    def mask(self) -> int:
        """Number of bits moved."""
        return self.data.mask

    @property
    def base(self) -> int:
        """Bits left alone below."""
        return self.data.base

    @property
    def shift(self) -> int:
        """Distance the bits are moved."""
        return self.data.shift


class CoordSwizzle(AlgebraValue):
    """A swizzle of one coordinate by another; always static.

    >>> fx.static(fx.CoordSwizzleType.get(2, 0, [0], 1, [1]))
    CoordSwizzle<CS<2,0,[0],1,[1]>>
    """

    __slots__ = ()

    data: L.CoordSwizzle


class Tile(AlgebraValue):
    """A by-mode tiler; always static.

    >>> tile = fx.make_tile(4, fx.make_layout(2, 4))
    >>> tile.rank, tile.unpack()
    (2, (4, Layout<2:4>))
    """

    __slots__ = ()

    data: L.Tile

    @property
    def rank(self) -> int:
        """Number of modes."""
        return self.data.rank

    def unpack(self) -> Any:
        """Modes as Python values: ints, `None`, `Layout`, nested tuples."""

        def build(x: Any) -> object:
            if isinstance(x, L.Layout):
                return Layout(x)
            if isinstance(x, L.Tile):
                x = x.modes
            return tuple(build(m) for m in cast("tuple[object, ...]", x)) if isinstance(x, tuple) else x

        return build(self.data)


WRAPPERS: dict[type, Callable[..., AlgebraValue]] = {
    L.Layout: Layout,
    L.ComposedLayout: ComposedLayout,
    L.Swizzle: Swizzle,
    L.CoordSwizzle: CoordSwizzle,
    L.Tile: Tile,
}
