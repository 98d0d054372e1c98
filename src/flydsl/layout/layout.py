"""The classes Layout, ComposedLayout and Tile and their constructors.

All are immutable values. Classes trust their arguments, the `make_*` functions check them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeAlias, TypeVar, cast, final

from flydsl.errors import DSLTypeError, LayoutError
from flydsl.layout.coordinates import check_profile, crd2idx_in, get_1d_coord, get_flat_coord, idx2crd_in, none_as_zero
from flydsl.layout.int_tuple import (
    STATIC,
    VALUED,
    at,
    depth,
    format_int_tuple,
    has_none,
    int_tuple_add,
    kind_of,
    leaves,
    map_leaves,
    type_tuple,
    weakly_congruent,
)
from flydsl.layout.leaf import Basis, IntTuple, Leaf, basis_to_tuple
from flydsl.layout.swizzle import CoordSwizzle, Frozen, Swizzle, frozen_set
from flydsl.layout.tuple_modes import slice_


@final
class Layout(Frozen):
    """A shape and a congruent stride: a function from coordinates to integers, or to coordinates when strides are
    basis leaves.

    >>> L = Layout((4, 8), (1, 4))
    >>> L, L(1, 2), L((1, 2)), L(7), L(None, 2), L[1]
    (Layout((4,8):(1,4)), 9, 9, 7, Layout(4:1), Layout(8:4))
    """

    __slots__ = ("_hash", "_kind", "shape", "stride")

    shape: IntTuple
    stride: IntTuple
    _hash: int | None
    _kind: int | None

    def __init__(self, shape: IntTuple, stride: IntTuple) -> None:
        frozen_set(self, "shape", shape)
        frozen_set(self, "stride", stride)
        # Unset they would be asked for by exceptions, which take longer than making the layout.
        frozen_set(self, "_hash", None)
        frozen_set(self, "_kind", None)

    @property
    def rank(self) -> int:
        shape = self.shape
        return len(shape) if isinstance(shape, tuple) else 1

    @property
    def depth(self) -> int:
        return depth(self.shape)

    @property
    def is_leaf(self) -> bool:
        return not isinstance(self.shape, tuple)

    @property
    def kind(self) -> int:
        """`STATIC`, `TYPED` or `VALUED`, see `int_tuple.kind_of`."""
        kind = self._kind
        if kind is None:
            kind = max(kind_of(self.shape), kind_of(self.stride))
            frozen_set(self, "_kind", kind)
        return kind

    @property
    def is_static(self) -> bool:
        return self.kind == STATIC

    @property
    def is_static_shape(self) -> bool:
        return kind_of(self.shape) == STATIC

    @property
    def is_static_stride(self) -> bool:
        return kind_of(self.stride) == STATIC

    def __getitem__(self, mode: int | Sequence[int]) -> Layout:
        if type(mode) is int:
            return Layout(at(self.shape, mode), at(self.stride, mode))
        out = self
        for i in mode if isinstance(mode, (tuple, list)) else ():
            out = Layout(at(out.shape, i), at(out.stride, i))
        return out

    def __call__(self, *coord: IntTuple) -> IntTuple | Layout:
        c = call_coordinate(coord, self.shape)
        return self.slice(c) if has_none(c) else self.crd2idx(c)

    def crd2idx(self, coord: IntTuple) -> IntTuple:
        """The index of a coordinate weakly congruent to the shape."""
        return crd2idx_in(coord, self.shape, self.stride)

    def slice(self, coord: IntTuple) -> Layout:
        """The modes under empty leaves; the index of the others is dropped."""
        return Layout(slice_(self.shape, coord), slice_(self.stride, coord))

    def get_hier_coord(self, index: IntTuple) -> IntTuple:
        return idx2crd_in(index, self.shape, self.stride)

    def get_flat_coord(self, index: Leaf) -> IntTuple:
        return get_flat_coord(index, self)

    def get_1d_coord(self, index: Leaf) -> Leaf:
        return get_1d_coord(index, self)

    def map_modes(self, fn: Callable[[IntTuple], IntTuple]) -> Layout:
        """`fn` applied to shape and stride alike."""
        return Layout(fn(self.shape), fn(self.stride))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not Layout:
            return NotImplemented
        return self.shape == other.shape and self.stride == other.stride

    def __hash__(self) -> int:
        value = self._hash
        if value is None:
            value = hash((self.shape, self.stride))
            frozen_set(self, "_hash", value)
        return value

    def draw(self, banks: int = 16) -> str:
        """An SVG picture of the offsets, coloured modulo `banks`; the shape must be static and of rank 1 or 2."""
        from flydsl.layout.draw import draw_layout

        return draw_layout(self, banks)

    def __str__(self) -> str:
        return f"{format_int_tuple(self.shape)}:{format_int_tuple(self.stride)}"

    def __repr__(self) -> str:
        return f"Layout({self})"

    def _repr_svg_(self) -> str | None:
        from flydsl.layout.draw import picture_of

        return picture_of(self)

    def __reduce__(self) -> tuple[object, ...]:
        return Layout, (self.shape, self.stride)


@final
class ComposedLayout(Frozen):
    """`inner(offset + outer(coord))`. Structure, divides and the like act on the innermost plain layout.

    >>> C = ComposedLayout(Swizzle(3, 0, 3), 0, Layout((8, 8), (8, 1)))
    >>> C(2, 3), C(2, None)
    (17, ComposedLayout(S<3,0,3> o 16 o 8:1))
    """

    __slots__ = ("_hash", "inner", "offset", "outer")

    inner: Swizzle | CoordSwizzle | Layout | ComposedLayout
    offset: IntTuple
    outer: Layout | ComposedLayout
    _hash: int

    def __init__(
        self, inner: Swizzle | CoordSwizzle | Layout | ComposedLayout, offset: IntTuple, outer: Layout | ComposedLayout
    ) -> None:
        frozen_set(self, "inner", inner)
        frozen_set(self, "offset", offset)
        frozen_set(self, "outer", outer)

    @property
    def linear(self) -> Layout:
        """The innermost plain layout, the one coordinates enter first."""
        at_level = self.outer
        while type(at_level) is ComposedLayout:
            at_level = at_level.outer
        assert type(at_level) is Layout
        return at_level

    def with_linear(self, layout: Layout) -> ComposedLayout:
        """The same nesting around another plain layout."""
        outer = self.outer
        return ComposedLayout(
            self.inner, self.offset, outer.with_linear(layout) if type(outer) is ComposedLayout else layout
        )

    def add_offset(self, offset: IntTuple) -> ComposedLayout:
        """`offset` added next to the plain layout, where the index of a coordinate is added too."""
        outer = self.outer
        if type(outer) is ComposedLayout:
            return ComposedLayout(self.inner, self.offset, outer.add_offset(offset))
        return ComposedLayout(self.inner, int_tuple_add(self.offset, offset), outer)

    @property
    def shape(self) -> IntTuple:
        return self.linear.shape

    @property
    def stride(self) -> NoReturn:
        raise DSLTypeError(f"a composed layout has no stride, got {self}; ask its innermost plain layout")

    @property
    def rank(self) -> int:
        return self.linear.rank

    @property
    def depth(self) -> int:
        return self.linear.depth

    @property
    def is_leaf(self) -> bool:
        return self.linear.is_leaf

    @property
    def kind(self) -> int:
        """`STATIC`, `TYPED` or `VALUED`, see `int_tuple.kind_of`."""
        inner = self.inner
        of_inner = STATIC if isinstance(inner, (Swizzle, CoordSwizzle)) else inner.kind
        return max(of_inner, kind_of(self.offset), self.outer.kind)

    @property
    def is_static(self) -> bool:
        return self.kind == STATIC

    @property
    def is_static_inner(self) -> bool:
        return self.inner.is_static

    @property
    def is_static_offset(self) -> bool:
        return kind_of(self.offset) == STATIC

    @property
    def is_static_outer(self) -> bool:
        return self.outer.is_static

    @property
    def is_static_shape(self) -> bool:
        return self.linear.is_static_shape

    @property
    def is_static_stride(self) -> bool:
        return self.linear.is_static_stride

    def __getitem__(self, mode: int | Sequence[int]) -> ComposedLayout:
        return self.with_linear(self.linear[mode])

    def __call__(self, *coord: IntTuple) -> IntTuple | ComposedLayout:
        c = call_coordinate(coord, self.shape)
        return self.slice(c) if has_none(c) else self.crd2idx(c)

    def crd2idx(self, coord: IntTuple) -> IntTuple:
        """The index of a coordinate weakly congruent to the shape."""
        index = int_tuple_add(self.offset, self.outer.crd2idx(coord))
        if type(index) is Basis and type(self.inner) is not Swizzle:
            index = basis_to_tuple(index)
        return self.inner.crd2idx(index)

    def slice(self, coord: IntTuple) -> ComposedLayout:
        """The modes under empty leaves; the index of the others joins the offset."""
        linear = self.linear
        kept = linear.slice(coord)
        return self.with_linear(kept).add_offset(linear.crd2idx(none_as_zero(coord)))

    def get_hier_coord(self, index: IntTuple) -> NoReturn:
        raise DSLTypeError(f"coordinates of an index need a plain layout, got {self}")

    get_flat_coord = get_1d_coord = get_hier_coord

    def map_modes(self, fn: Callable[[IntTuple], IntTuple]) -> ComposedLayout:
        """`fn` applied to shape and stride of the plain layout."""
        return self.with_linear(self.linear.map_modes(fn))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not ComposedLayout:
            return NotImplemented
        return self.offset == other.offset and self.inner == other.inner and self.outer == other.outer

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            value = hash((self.inner, self.offset, self.outer))
            frozen_set(self, "_hash", value)
            return value

    def draw(self, banks: int = 16) -> str:
        """An SVG picture of the offsets, coloured modulo `banks`; the shape must be static and of rank 1 or 2."""
        from flydsl.layout.draw import draw_layout

        return draw_layout(self, banks)

    def __str__(self) -> str:
        outer = f"[{self.outer}]" if type(self.outer) is ComposedLayout else str(self.outer)
        return f"{self.inner} o {format_int_tuple(self.offset)} o {outer}"

    def __repr__(self) -> str:
        return f"ComposedLayout({self})"

    def _repr_svg_(self) -> str | None:
        from flydsl.layout.draw import picture_of

        return picture_of(self)

    def __reduce__(self) -> tuple[object, ...]:
        return ComposedLayout, (self.inner, self.offset, self.outer)


AnyLayout: TypeAlias = Layout | ComposedLayout
L = TypeVar("L", Layout, ComposedLayout)


def call_coordinate(args: tuple[IntTuple, ...], shape: IntTuple) -> IntTuple:
    """The one coordinate meant by the arguments of a call: `L(1, 2)`, `L((1, 2))` and `L(7)` are all accepted."""
    coord: IntTuple = args
    if len(args) == 1 and not (isinstance(shape, tuple) and len(shape) == 1 and not weakly_congruent(args[0], shape)):
        coord = args[0]
    check_profile(coord, shape)
    return coord


def canon_stride(shape: IntTuple, stride: IntTuple) -> tuple[IntTuple, IntTuple]:
    """Size-1 leaves get stride 0 and one-element tuples are unwrapped, at every level.

    >>> canon_stride((4, (1,)), (1, (7,)))
    ((4, 1), (1, 0))
    """
    if not isinstance(shape, tuple):
        return (1, 0) if type(shape) is int and shape == 1 else (shape, stride)
    assert isinstance(stride, tuple)
    if len(shape) == 1:
        return canon_stride(shape[0], stride[0])
    pairs = [canon_stride(s, d) for s, d in zip(shape, stride, strict=True)]
    return tuple([p[0] for p in pairs]), tuple([p[1] for p in pairs])


def zero_of(layout: AnyLayout | Swizzle | CoordSwizzle) -> IntTuple:
    """The zero of a layout's codomain: `0`, or a tuple of zeros for basis strides.

    >>> zero_of(Layout((4, 8), (1, 4)))
    0
    """
    if type(layout) is ComposedLayout:
        if type(layout.inner) is CoordSwizzle:
            return map_leaves(lambda _: 0, int_tuple_add(layout.offset, zero_of(layout.outer)))
        return zero_of(layout.inner)
    return codomain_profile(layout) if type(layout) is Layout else 0


def codomain_profile(layout: Layout) -> IntTuple:
    """Zeros in the structure of the sum of all stride leaves; needs no arithmetic on run-time leaves."""
    strides = list(leaves(layout.stride))
    bases = [leaf for leaf in strides if type(leaf) is Basis]
    if bases and any(leaf for leaf in strides if type(leaf) is not Basis):
        raise LayoutError(f"strides are either all integers or all basis leaves (or 0), got {layout}")
    out: IntTuple = 0
    for basis in bases:
        out = _merge(out, map_leaves(lambda _: 0, basis_to_tuple(basis)))
    return out


def _merge(a: IntTuple, b: IntTuple) -> IntTuple:
    # A zero is absorbed by any structure.
    if not isinstance(a, tuple) or not isinstance(b, tuple):
        return b if not isinstance(a, tuple) else a
    n = min(len(a), len(b))
    return (*[_merge(x, y) for x, y in zip(a[:n], b[:n], strict=True)], *a[n:], *b[n:])


def linear_layout(layout: AnyLayout) -> Layout:
    """A plain layout itself, or the innermost plain one of a composed layout.

    >>> linear_layout(ComposedLayout(Swizzle(3, 0, 3), 0, Layout((8, 8), (8, 1))))
    Layout((8,8):(8,1))
    """
    if type(layout) is Layout:
        return layout
    if type(layout) is ComposedLayout:
        return layout.linear
    raise DSLTypeError(f"expected a Layout or ComposedLayout, got {layout!r} of type {type(layout).__name__}")


def with_linear(layout: AnyLayout, plain: Layout) -> AnyLayout:
    """`layout` with its innermost plain layout replaced.

    >>> with_linear(ComposedLayout(Swizzle(3, 0, 3), 0, Layout(8, 1)), Layout(4, 2))
    ComposedLayout(S<3,0,3> o 0 o 4:2)
    """
    return layout.with_linear(plain) if type(layout) is ComposedLayout else plain


def erase_values(layout: L) -> L:
    """The type reading of a layout: run-time values forgotten, widths and divisors kept.

    >>> from flydsl.layout import Dyn
    >>> erase_values(Layout((4, Dyn.get()), (1, 4)))
    Layout((4,?):(1,4))
    """
    if layout.kind != VALUED:
        return layout
    return cast("L", _erase(layout))


def _erase(layout: AnyLayout) -> AnyLayout:
    if isinstance(layout, Layout):
        return Layout(type_tuple(layout.shape), type_tuple(layout.stride))
    inner = layout.inner
    if isinstance(inner, (Layout, ComposedLayout)):
        inner = _erase(inner)
    return ComposedLayout(inner, type_tuple(layout.offset), _erase(layout.outer))
