"""Constructors of layouts; unlike the classes they check their arguments."""

from __future__ import annotations

from typing import Any

from flydsl.errors import DSLTypeError, LayoutError
from flydsl.layout.int_tuple import (
    STATIC,
    as_int_tuple,
    basis_like,
    compact_col_major,
    congruent,
    filter_zero,
    format_int_tuple,
    kind_of,
    map_leaves,
    product,
)
from flydsl.layout.layout import AnyLayout, ComposedLayout, Layout, canon_stride, zero_of
from flydsl.layout.leaf import Basis, Dyn, IntTuple, Leaf, leaf_mul
from flydsl.layout.swizzle import CoordSwizzle, Swizzle


def make_layout(shape: object, stride: object = None) -> Layout:
    """A layout from a shape and a congruent stride; without a stride the compact one, first mode fastest.

    >>> make_layout((4, 8), (8, 1)), make_layout((4, (2, 3)))
    (Layout((4,8):(8,1)), Layout((4,(2,3)):(1,(4,8))))
    """
    s = as_int_tuple(shape)
    if stride is None:
        return Layout(s, compact_col_major(s))
    d = as_int_tuple(stride)
    if not congruent(s, d):
        raise LayoutError(
            f"make_layout: expected shape and stride of the same nesting, got {format_int_tuple(s)} and "
            f"{format_int_tuple(d)}; give one stride per extent"
        )
    return Layout(s, d)


def make_ordered_layout(shape: object, order: object) -> Layout:
    """A compact layout whose modes are ranked by `order`, smallest fastest. A leaf of `order` over a nested mode makes
    that mode compact with its first leaf fastest; equal orders share a start stride.

    >>> make_ordered_layout((2, (3, 4)), (1, 0)), make_ordered_layout((5, 3, 2), (1, 2, 0))
    (Layout((2,(3,4)):(12,(1,3))), Layout((5,3,2):(2,10,1)))
    """
    s, o = as_int_tuple(shape), as_int_tuple(order)
    return Layout(s, ordered_stride(s, o))


def ordered_stride(shape: IntTuple, order: IntTuple) -> IntTuple:
    """The strides of `make_ordered_layout`."""
    if not isinstance(order, tuple):
        return compact_col_major(shape)
    # (is run-time, order or position) ranks static orders by value, then run-time ones by position.
    keys: list[tuple[bool, int]] = []
    shapes: list[IntTuple] = []

    def collect(s: IntTuple, o: IntTuple) -> None:
        if isinstance(o, tuple):
            if not isinstance(s, tuple) or len(s) != len(o):
                raise LayoutError(
                    f"profile mismatch: the order {format_int_tuple(order)} does not fit the shape "
                    f"{format_int_tuple(shape)}; an order may be coarser than the shape, not finer"
                )
            for child, under in zip(s, o, strict=True):
                collect(child, under)
        elif type(o) is Basis:
            raise LayoutError(f"an order needs plain integers, got the basis leaf {o} in {format_int_tuple(order)}")
        else:
            keys.append((isinstance(o, Dyn), len(keys) if isinstance(o, Dyn) else o or 0))
            shapes.append(s)

    collect(shape, order)
    sizes: dict[int, Leaf] = {}

    def start(i: int) -> Leaf:
        out: Leaf = 1
        for j, key in enumerate(keys):
            if key < keys[i]:
                if j not in sizes:
                    sizes[j] = product(shapes[j])
                out = leaf_mul(out, sizes[j])
        return out

    supply = iter(range(len(keys)))

    def build(o: IntTuple) -> IntTuple:
        if isinstance(o, tuple):
            return tuple([build(child) for child in o])
        i = next(supply)
        return compact_col_major(shapes[i], start(i))

    return build(order)


def make_identity_layout(shape: object) -> Layout:
    """The layout that maps a coordinate to itself; a leaf shape `n` gives `n:1`.

    >>> make_identity_layout((4, (2, 8)))
    Layout((4,(2,8)):(1E0,(1E1E0,1E1E1)))
    """
    s = as_int_tuple(shape)
    return Layout(s, basis_like(s))


def make_layout_like(layout: Layout) -> Layout:
    """Same shape, compact, modes ordered as by the strides; modes of stride 0 count as size 1.

    >>> make_layout_like(Layout((2, 2, 2), (4, 1, 100)))
    Layout((2,2,2):(2,1,4))
    """
    counted = filter_zero(layout.stride, layout.shape)
    return Layout(layout.shape, ordered_stride(counted, layout.stride))


def make_fragment_layout_like(layout: AnyLayout) -> Layout:
    """The register layout for data shaped like `layout`: mode 0 compact and fastest, the other modes after it in the
    order of their strides. The shape must be static.

    >>> make_fragment_layout_like(Layout(((4, 2), 2, 3), ((1, 4), 480, 8)))
    Layout(((4,2),2,3):((1,4),24,8))
    """
    plain = layout.linear if type(layout) is ComposedLayout else layout
    assert type(plain) is Layout
    shape, stride = plain.shape, plain.stride
    if kind_of(shape) != STATIC:
        raise LayoutError(
            f"expected static shape layout, got {plain}; a fragment lives in registers, so fix its extents"
        )
    if not isinstance(shape, tuple) or len(shape) == 1:
        return Layout(shape, compact_col_major(shape))
    assert isinstance(stride, tuple)
    # Every leaf of mode 0 gets its own room, also under stride 0 (counting those as size 1 would let values share
    # registers whenever such a leaf is not the last of its mode).
    first = product(shape[0])
    rest = ordered_stride(shape[1:], stride[1:])
    assert isinstance(rest, tuple)
    scaled = map_leaves(lambda d: leaf_mul(d, first), rest)
    assert isinstance(scaled, tuple)
    return Layout(*canon_stride(shape, (compact_col_major(shape[0]), *scaled)))


def make_composed_layout(inner: Any, offset: Any, outer: Any = None) -> ComposedLayout:
    """`inner o offset o outer`; called with two arguments the offset is zero.

    >>> make_composed_layout(Swizzle(3, 0, 3), Layout((8, 8), (8, 1)))
    ComposedLayout(S<3,0,3> o 0 o (8,8):(8,1))
    """
    if outer is None:
        outer, offset = offset, None
    if type(inner) not in (Swizzle, CoordSwizzle, Layout, ComposedLayout):
        raise DSLTypeError(f"inner must be a Swizzle, CoordSwizzle, Layout or ComposedLayout, got {inner!r}")
    if type(outer) not in (Layout, ComposedLayout):
        raise DSLTypeError(f"outer must be a Layout or ComposedLayout, got {outer!r}")
    zero = zero_of(outer) if offset is None else as_int_tuple(offset)
    return ComposedLayout(inner, zero, outer)
