"""The layout algebra as functions `fx.name(...)`.

They are thin: the meaning is in `flydsl.layout` and `dialects.fly.semantics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsInt, cast

from ... import layout as L
from ...errors import DSLTypeError, DSLValueError
from ...layout import Basis, E
from ..aliases import also_called
from ..numeric import Boolean, Numeric
from .algebra_values import (
    AlgebraValue,
    ComposedLayout,
    CoordSwizzle,
    IntTuple,
    Layout,
    Swizzle,
    Tile,
    apply,
    as_int_tuple,
    current_ir,
)

if TYPE_CHECKING:
    from ..annotations import AnyLayout, Attribute, IntLike, LayoutT, Modes, ModesT, TileLike, TileMode, TreeLike
    from ..tensor import Tensor


@also_called(x="elems")
def make_int_tuple(elems: TreeLike) -> IntTuple:
    """An IntTuple from an int, a scalar, `None`, a `Basis` or a nested tuple of those.

    >>> fx.make_int_tuple((4, (2, 3)))
    IntTuple<(4,(2,3))>
    """
    return as_int_tuple(elems)


def _make(op: str, xs: tuple[TreeLike, ...]) -> IntTuple:
    if len(xs) == 1 and isinstance(xs[0], IntTuple):
        return xs[0]
    return as_int_tuple(xs, op)


def make_shape(*xs: TreeLike) -> IntTuple:
    """A tuple of extents.

    >>> fx.make_shape(4, (2, 3))
    IntTuple<(4,(2,3))>
    """
    return _make("make_shape", xs)


def make_stride(*xs: TreeLike) -> IntTuple:
    """A tuple of strides.

    >>> fx.make_stride(1, (4, 8))
    IntTuple<(1,(4,8))>
    """
    return _make("make_stride", xs)


def make_coord(*xs: TreeLike) -> IntTuple:
    """A coordinate; `None` means all of that mode.

    >>> fx.make_coord(None, 3)
    IntTuple<(*,3)>
    """
    return _make("make_coord", xs)


def make_layout(shape: TreeLike, stride: TreeLike = None) -> Layout:
    """A layout from a shape and a congruent stride.

    >>> fx.make_layout((4, 8), (8, 1))
    Layout<(4,8):(8,1)>
    """
    if stride is None:
        raise DSLTypeError("make_layout needs a stride; write make_ordered_layout(shape, order) for a compact layout")
    s, d = as_int_tuple(shape, "make_shape"), as_int_tuple(stride, "make_stride")
    if not L.congruent(s.data, d.data):
        raise DSLValueError(f"shape {L.format_any(s.data)} and stride {L.format_any(d.data)} differ in structure")
    return apply("make_layout", s, d)


def make_ordered_layout(shape: TreeLike, order: TreeLike) -> Layout:
    """A compact layout whose modes are ranked by `order`, smallest fastest.

    >>> fx.make_ordered_layout((4, 8, 2), (1, 0, 2))
    Layout<(4,8,2):(8,1,32)>
    """
    return apply("make_ordered_layout", as_int_tuple(shape), as_int_tuple(order))


def make_identity_layout(shape: TreeLike) -> Layout:
    """The layout that maps a coordinate to itself.

    >>> fx.make_identity_layout((4, 8))
    Layout<(4,8):(1E0,1E1)>
    """
    return apply("make_identity_layout", as_int_tuple(shape))


@also_called(x="ref")
def make_layout_like(ref: AnyLayout | Tensor) -> Layout:
    """Same shape, compact, modes in the order of the strides of `ref`.

    >>> fx.make_layout_like(fx.make_layout((2, 2, 2), (4, 1, 100)))
    Layout<(2,2,2):(2,1,4)>
    """
    return apply("make_layout_like", ref)


@also_called(x="tensor")
def make_fragment_layout_like(tensor: AnyLayout | Tensor) -> Layout:
    """Register layout for a layout or tensor.

    >>> fx.make_fragment_layout_like(fx.make_layout((4, 8), (8, 1)))
    Layout<(4,8):(1,4)>
    """
    return apply("make_fragment_layout_like", tensor)


def make_composed_layout(
    inner: Swizzle | CoordSwizzle | AnyLayout, offset_or_outer: TreeLike | AnyLayout, outer: AnyLayout | None = None
) -> ComposedLayout:
    """`inner(offset + outer(coord))`; the offset defaults to zero.

    >>> swizzle = fx.static(fx.SwizzleType.get(3, 0, 3))
    >>> fx.make_composed_layout(swizzle, fx.make_layout((8, 8), (8, 1)))
    ComposedLayout<S<3,0,3> o 0 o (8,8):(8,1)>
    """
    if outer is None:
        offset, composed = apply("coprofile", offset_or_outer), offset_or_outer
    else:
        offset, composed = as_int_tuple(offset_or_outer), outer
    return apply("make_composed_layout", inner, offset, composed)


def make_tile(*modes: TileMode) -> Tile:
    """A by-mode tiler of ints, `None`, static layouts and nested tuples.

    >>> fx.make_tile(4, fx.make_layout(2, 4))
    Tile<[4|2:4]>
    """
    return Tile(L.Tile(tuple(_tile_mode(m) for m in modes)))


def _tile_mode(mode: object) -> int | None | L.Layout | L.Tile:
    if isinstance(mode, AlgebraValue):
        if not mode.is_static:
            raise DSLValueError(f"tile modes are compile-time values, got {mode}")
        mode = mode.data
    if isinstance(mode, (tuple, list)):
        return L.Tile(tuple(_tile_mode(m) for m in cast("Sequence[object]", mode)))
    if mode is None or isinstance(mode, (L.Layout, L.Tile)):
        return mode
    if isinstance(mode, Numeric) and not mode.is_static():
        raise DSLValueError(f"tile modes are compile-time values, got {mode!r}")
    return int(cast("SupportsInt", mode))


def as_tile(x: object) -> Tile | Layout:
    """A divisor: a layout or tile as it is, a tuple as a tile."""
    if isinstance(x, (tuple, list)):
        return make_tile(*cast("Sequence[TileMode]", x))
    if isinstance(x, IntTuple):
        return make_tile(*x.unpack()) if type(x.data) is tuple else make_tile(cast(int, x.data))
    if isinstance(x, (L.Layout, L.Tile)):
        return current_ir().wrap_data(x)
    if isinstance(x, (Layout, Tile)):
        return x
    raise DSLTypeError(f"expected Tile, Layout or a tuple, got {x!r}")


@also_called(x="layout", by="divisor")
def logical_divide(layout: LayoutT, divisor: TileLike) -> LayoutT:
    """Split each mode into (tile, rest).

    >>> fx.logical_divide(fx.make_layout((8, 16), (16, 1)), (4, 8))
    Layout<((4,2),(8,2)):((16,64),(1,8))>
    """
    return apply("logical_divide", layout, as_tile(divisor))


@also_called(x="layout", by="divisor")
def zipped_divide(layout: LayoutT, divisor: TileLike) -> LayoutT:
    """`((tiles), (rests))`.

    >>> fx.zipped_divide(fx.make_layout((8, 16), (16, 1)), (4, 8))
    Layout<((4,8),(2,2)):((16,1),(64,8))>
    """
    return apply("zipped_divide", layout, as_tile(divisor))


@also_called(x="layout", by="divisor")
def tiled_divide(layout: LayoutT, divisor: TileLike) -> LayoutT:
    """`((tiles), rest0, rest1, ...)`.

    >>> fx.tiled_divide(fx.make_layout((8, 16), (16, 1)), (4, 8))
    Layout<((4,8),2,2):((16,1),64,8)>
    """
    return apply("tiled_divide", layout, as_tile(divisor))


@also_called(x="layout", by="divisor")
def flat_divide(layout: LayoutT, divisor: TileLike) -> LayoutT:
    """`(tile0, tile1, ..., rest0, rest1, ...)`.

    >>> fx.flat_divide(fx.make_layout((8, 16), (16, 1)), (4, 8))
    Layout<(4,8,2,2):(16,1,64,8)>
    """
    return apply("flat_divide", layout, as_tile(divisor))


def _layout_arg(name: str, x: object) -> Layout:
    if not isinstance(x, Layout):
        raise DSLTypeError(f"{name}: expected Layout, got {x!r}")
    return x


@also_called(a="layout", b="tiler")
def logical_product(layout: LayoutT, tiler: Layout) -> LayoutT:
    """`layout` repeated as `tiler` says.

    >>> fx.logical_product(fx.make_layout((2, 2), (4, 1)), fx.make_layout(6, 1))
    Layout<((2,2),(2,3)):((4,1),(2,8))>
    """
    return apply("logical_product", layout, _layout_arg("logical_product", tiler))


@also_called(a="layout", b="tiler")
def zipped_product(layout: LayoutT, tiler: Layout) -> LayoutT:
    """Logical product as two modes.

    >>> fx.zipped_product(fx.make_layout((2, 2), (4, 1)), fx.make_layout(6, 1))
    Layout<((2,2),(2,3)):((4,1),(2,8))>
    """
    return apply("zipped_product", layout, _layout_arg("zipped_product", tiler))


@also_called(a="layout", b="tiler")
def tiled_product(layout: LayoutT, tiler: Layout) -> LayoutT:
    """Zipped product with the second mode expanded.

    >>> fx.tiled_product(fx.make_layout((2, 2), (4, 1)), fx.make_layout(6, 1))
    Layout<((2,2),2,3):((4,1),2,8)>
    """
    return apply("tiled_product", layout, _layout_arg("tiled_product", tiler))


@also_called(a="layout", b="tiler")
def flat_product(layout: LayoutT, tiler: Layout) -> LayoutT:
    """Zipped product with both modes expanded.

    >>> fx.flat_product(fx.make_layout((2, 2), (4, 1)), fx.make_layout(6, 1))
    Layout<(2,2,2,3):(4,1,2,8)>
    """
    return apply("flat_product", layout, _layout_arg("flat_product", tiler))


@also_called(a="layout", b="tiler")
def blocked_product(layout: LayoutT, tiler: Layout) -> LayoutT:
    """Product by mode, blocks of `layout` next to each other.

    >>> fx.blocked_product(fx.make_layout((2, 5), (5, 1)), fx.make_layout((3, 4), (1, 3)))
    Layout<((2,3),(5,4)):((5,10),(1,30))>
    """
    return apply("blocked_product", layout, _layout_arg("blocked_product", tiler))


@also_called(a="layout", b="tiler")
def raked_product(layout: LayoutT, tiler: Layout) -> LayoutT:
    """Product by mode, elements of `layout` interleaved.

    >>> fx.raked_product(fx.make_layout((2, 5), (5, 1)), fx.make_layout((3, 4), (1, 3)))
    Layout<((3,2),(4,5)):((10,5),(30,1))>
    """
    return apply("raked_product", layout, _layout_arg("raked_product", tiler))


@also_called(x="layout")
def coalesce(layout: LayoutT, pattern: TreeLike = None) -> LayoutT:
    """The same function with as few modes as possible.

    >>> fx.coalesce(fx.make_layout((2, (1, 6)), (1, (6, 2))))
    Layout<12:1>
    """
    return apply("coalesce", layout) if pattern is None else apply("coalesce", layout, as_int_tuple(pattern))


@also_called(a="layout", b="tiler")
def composition(layout: LayoutT, tiler: Layout | Tile) -> LayoutT:
    """`layout(b(c))`; `tiler` is a layout or a tile.

    >>> fx.composition(fx.make_layout((6, 2), (8, 2)), fx.make_layout((4, 3), (3, 1)))
    Layout<((2,2),3):((24,2),8)>
    """
    if not isinstance(tiler, (Layout, Tile)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"composition: expected Tile or Layout, got {tiler!r}")
    return apply("composition", layout, tiler)


@also_called(x="layout")
def complement(layout: LayoutT, codomain_size: TreeLike = None) -> LayoutT:
    """What a layout skips.

    >>> fx.complement(fx.make_layout(4, 2), 24)
    Layout<(2,3):(1,8)>
    """
    return (
        apply("complement", layout)
        if codomain_size is None
        else apply("complement", layout, as_int_tuple(codomain_size))
    )


@also_called(x="layout")
def right_inverse(layout: LayoutT) -> LayoutT:
    """`R` with `layout(R(i)) == i`.

    >>> fx.right_inverse(fx.make_layout((4, 8), (8, 1)))
    Layout<(8,4):(4,1)>
    """
    return apply("right_inverse", layout)


@also_called(x="layout")
def left_inverse(layout: LayoutT) -> LayoutT:
    """`R` with `R(x(i)) == i`.

    >>> fx.left_inverse(fx.make_layout((4, 8), (1, 5)))
    Layout<(5,8):(1,4)>
    """
    return apply("left_inverse", layout)


@also_called(x="layout")
def recast_layout(layout: LayoutT, old_type_bits: int | type[Numeric], new_type_bits: int | type[Numeric]) -> LayoutT:
    """The layout counted in elements of another width.

    >>> fx.recast_layout(fx.make_layout((8, 4), (1, 8)), fx.Float16.width, fx.Float32.width)
    Layout<(4,4):(1,4)>
    """
    old, new = (b if isinstance(b, int) else b.width for b in (old_type_bits, new_type_bits))
    return apply("recast_layout", layout, new_type_bits=int(new), old_type_bits=int(old))


def tile_to_shape(block: LayoutT, trg_shape: TreeLike, ord_shape: TreeLike) -> LayoutT:
    """Repeat a block until it covers a shape.

    >>> fx.tile_to_shape(fx.make_layout((2, 2), (2, 1)), (8, 4), (0, 1))
    Layout<((2,4),(2,2)):((2,4),(1,16))>
    """
    return apply("tile_to_shape", block, as_int_tuple(trg_shape), as_int_tuple(ord_shape))


def make_layout_tv(thr_layout: Layout, val_layout: Layout) -> tuple[tuple[int, ...], Layout]:
    """Tile extents and the (thread, value) layout of threads and values raked together.

    >>> fx.make_layout_tv(fx.make_layout((8, 16), (16, 1)), fx.make_layout((1, 4), (4, 1)))
    ((8, 64), Layout<((16,8),4):((32,1),8)>)
    """
    if not (thr_layout.is_static and val_layout.is_static):
        raise DSLValueError("make_layout_tv needs static layouts")
    tiler, tv = L.make_layout_tv(thr_layout.data, val_layout.data)
    return cast(tuple[int, ...], tiler), Layout(tv)


def _tuple_or_layout(x: object) -> object:
    return x if isinstance(x, AlgebraValue) or hasattr(x, "is_tensor") else as_int_tuple(x)


@also_called(x="int_tuple")
def size(int_tuple: TreeLike | AlgebraValue | Tensor) -> IntTuple:
    """Product of the shape, as a tuple leaf.

    >>> fx.size(fx.make_layout((4, 8), (1, 5)))
    IntTuple<32>
    """
    return apply("size", _tuple_or_layout(int_tuple))


@also_called(x="layout")
def cosize(layout: AnyLayout | Tensor) -> IntTuple:
    """One more than the largest offset.

    >>> fx.cosize(fx.make_layout((4, 8), (1, 5)))
    IntTuple<39>
    """
    return apply("cosize", layout)


@also_called(x="layout")
def coshape(layout: AnyLayout | Tensor) -> IntTuple:
    """Extent of the codomain per component.

    >>> fx.coshape(fx.make_identity_layout((4, 8)))
    IntTuple<(4,8)>
    """
    return apply("coshape", layout)


@also_called(x="layout")
def coprofile(layout: AnyLayout | Tensor) -> IntTuple:
    """The zero of the codomain.

    >>> fx.coprofile(fx.make_identity_layout((4, 8)))
    IntTuple<(0,0)>
    """
    return apply("coprofile", layout)


@also_called(x="int_or_tuple")
def rank(int_or_tuple: TreeLike | AlgebraValue | Tensor) -> int:
    """Number of top-level modes.

    >>> fx.rank((4, (8, 2)))
    2
    """
    own = getattr(int_or_tuple, "rank", None)
    return own if own is not None else L.rank(as_int_tuple(int_or_tuple).data)


@also_called(x="int_or_tuple")
def depth(int_or_tuple: TreeLike | AlgebraValue | Tensor) -> int:
    """Nesting depth.

    >>> fx.depth((4, (8, 2)))
    2
    """
    own = getattr(int_or_tuple, "depth", None)
    return own if own is not None else L.depth(as_int_tuple(int_or_tuple).data)


@also_called(coord="crd")
def crd2idx(crd: TreeLike, layout: AnyLayout | Tensor) -> IntTuple:
    """Offset of a coordinate.

    >>> fx.crd2idx((1, 2), fx.make_layout((4, 8), (8, 1)))
    IntTuple<10>
    >>> fx.crd2idx(5, fx.make_layout((4, 8), (8, 1)))
    IntTuple<9>
    """
    if isinstance(layout, Swizzle):
        raise DSLValueError("crd2idx: a plain swizzle is not a layout; wrap it with make_composed_layout")
    return apply("crd2idx", as_int_tuple(crd), layout)


def idx2crd(index: IntLike, layout: AnyLayout | Tensor) -> IntTuple:
    """Coordinate of an offset, leaf by leaf.

    >>> fx.idx2crd(13, fx.make_layout((4, 8), (8, 1)))
    IntTuple<(1,5)>
    """
    return apply("idx2crd", as_int_tuple(index), layout)


def get_flat_coord(index: IntLike, layout: AnyLayout | Tensor) -> IntTuple:
    """One integer per top-level mode.

    >>> fx.get_flat_coord(3, fx.make_layout(((2, 2), 4), ((1, 2), 4)))
    IntTuple<(3,0)>
    """
    return apply("get_flat_coord", as_int_tuple(index), layout)


def get_1d_coord(index: IntLike, layout: AnyLayout | Tensor) -> IntTuple:
    """One colex integer over the shape.

    >>> fx.get_1d_coord(5, fx.make_layout((4, 8), (8, 1)))
    IntTuple<20>
    """
    return apply("get_1d_coord", as_int_tuple(index), layout)


@also_called(a="lhs", b="rhs")
def int_tuple_add(lhs: TreeLike, rhs: TreeLike) -> IntTuple:
    """Element-wise sum.

    >>> fx.int_tuple_add((1, 2, 9), (3, 4))
    IntTuple<(4,6,9)>
    """
    return apply("int_tuple_add", as_int_tuple(lhs), as_int_tuple(rhs))


@also_called(a="lhs", b="rhs")
def int_tuple_sub(lhs: TreeLike, rhs: TreeLike) -> IntTuple:
    """Element-wise difference.

    >>> fx.int_tuple_sub((5, 6), (3, 4))
    IntTuple<(2,2)>
    """
    return apply("int_tuple_sub", as_int_tuple(lhs), as_int_tuple(rhs))


@also_called(a="lhs", b="rhs")
def int_tuple_mul(lhs: TreeLike, rhs: TreeLike) -> IntTuple:
    """Element-wise product.

    >>> fx.int_tuple_mul((2, (3, 4)), (5, (6, 7)))
    IntTuple<(10,(18,28))>
    """
    return apply("int_tuple_mul", as_int_tuple(lhs), as_int_tuple(rhs))


@also_called(a="lhs", b="rhs")
def int_tuple_div(lhs: TreeLike, rhs: TreeLike) -> IntTuple:
    """Element-wise quotient, toward zero.

    >>> fx.int_tuple_div((7, 9), (2, 3))
    IntTuple<(3,3)>
    """
    return apply("int_tuple_div", as_int_tuple(lhs), as_int_tuple(rhs))


@also_called(a="lhs", b="rhs")
def int_tuple_mod(lhs: TreeLike, rhs: TreeLike) -> IntTuple:
    """Element-wise remainder.

    >>> fx.int_tuple_mod((7, 9), (2, 4))
    IntTuple<(1,1)>
    """
    return apply("int_tuple_mod", as_int_tuple(lhs), as_int_tuple(rhs))


@also_called(t="int_tuple")
def int_tuple_product(int_tuple: TreeLike) -> IntTuple:
    """Product of all leaves.

    >>> fx.int_tuple_product((2, (3, 4)))
    IntTuple<24>
    """
    return apply("int_tuple_product", as_int_tuple(int_tuple))


@also_called(t="int_tuple")
def int_tuple_product_each(int_tuple: TreeLike) -> IntTuple:
    """Product per top-level mode.

    >>> fx.int_tuple_product_each((2, (3, 4)))
    IntTuple<(2,12)>
    """
    return apply("int_tuple_product_each", as_int_tuple(int_tuple))


@also_called(t="lhs", guide="rhs")
def int_tuple_product_like(lhs: TreeLike, rhs: TreeLike) -> IntTuple:
    """Product down to the guide's structure.

    >>> fx.int_tuple_product_like((2, (3, 4)), (1, 1))
    IntTuple<(2,12)>
    """
    return apply("int_tuple_product_like", as_int_tuple(lhs), as_int_tuple(rhs))


@also_called(a="lhs", b="rhs")
def ceil_div(lhs: TreeLike, rhs: TreeLike) -> IntTuple:
    """Tuple division rounding up.

    >>> fx.ceil_div((5, 9), (2, 4))
    IntTuple<(3,3)>
    """
    return apply("ceil_div", as_int_tuple(lhs), as_int_tuple(rhs))


@also_called(a="lhs", b="rhs")
def shape_div(lhs: TreeLike, rhs: TreeLike) -> IntTuple:
    """Tuple division where one side must divide the other.

    >>> fx.shape_div((4, 8), 8)
    IntTuple<(1,4)>
    """
    return apply("shape_div", as_int_tuple(lhs), as_int_tuple(rhs))


@also_called(a="lhs", b="rhs")
def elem_less(lhs: TreeLike, rhs: TreeLike) -> Boolean:
    """Whether all paired leaves of `lhs` are less.

    >>> flyc.evaluate(lambda m: fx.elem_less((m, 2), (8, 4)), 7)
    True
    """
    return current_ir().compare("elem_less", as_int_tuple(lhs), as_int_tuple(rhs))


@also_called(a="lhs", b="rhs")
def equal(lhs: TreeLike, rhs: TreeLike) -> Boolean:
    """Whether structure and leaves agree.

    >>> flyc.evaluate(lambda m: fx.equal((m, 2), (8, 2)), 7)
    False
    """
    return current_ir().compare("equal", as_int_tuple(lhs), as_int_tuple(rhs))


@also_called(x="int_tuple")
def take(int_tuple: Modes[ModesT], begin: int, end: int) -> ModesT:
    """Modes `[begin, end)`; `end=-1` means all the rest.

    >>> fx.take((4, (8, 2), 3), 1, 3)
    IntTuple<((8,2),3)>
    """
    return apply("take", _tuple_or_layout(int_tuple), begin=begin, end=end)


@also_called(x="int_tuple")
def select(int_tuple: Modes[ModesT], indices: int | Sequence[int]) -> ModesT:
    """Chosen modes in order.

    >>> fx.select((4, (8, 2), 3), [2, 0])
    IntTuple<(3,4)>
    """
    chosen = (indices,) if isinstance(indices, int) else tuple(int(i) for i in indices)
    return apply("select", _tuple_or_layout(int_tuple), indices=chosen)


@also_called(x="int_tuple")
def group(int_tuple: Modes[ModesT], begin: int, end: int) -> ModesT:
    """Wrap modes `[begin, end)` in one mode.

    >>> fx.group((4, (8, 2), 3), 0, 2)
    IntTuple<((4,(8,2)),3)>
    """
    return apply("group", _tuple_or_layout(int_tuple), begin=begin, end=end)


@also_called(x="int_tuple")
def get_(int_tuple: Modes[ModesT], mode: int | Sequence[int]) -> ModesT:
    """Sub-tree at an int or a path.

    >>> fx.get_((4, (8, 2), 3), [1, 0])
    IntTuple<8>
    """
    path = (mode,) if isinstance(mode, int) else tuple(mode)
    return apply("get", _tuple_or_layout(int_tuple), mode=path)


@also_called(x="base")
def append(base: Modes[ModesT], elem: TreeLike | AlgebraValue, *, n: int | None = None) -> ModesT:
    """Add a mode at the end, or pad to rank `n`.

    >>> fx.append((4,), 1, n=3)
    IntTuple<(4,1,1)>
    """
    return _pad("append", base, elem, n)


@also_called(x="base")
def prepend(base: Modes[ModesT], elem: TreeLike | AlgebraValue, *, n: int | None = None) -> ModesT:
    """Add a mode at the front, or pad to rank `n`.

    >>> fx.prepend((4, 8), 3)
    IntTuple<(3,4,8)>
    """
    return _pad("prepend", base, elem, n)


def _pad(name: str, x: object, elem: object, n: int | None) -> Any:
    x, elem = _tuple_or_layout(x), _tuple_or_layout(elem)
    return apply(name, x, elem) if n is None else apply(name, x, elem, n=n)


@also_called(x="src")
def slice(src: Modes[ModesT], coord: TreeLike) -> ModesT:
    """Keep what stands under `None`.

    >>> fx.slice(fx.make_layout((4, 8, 16), (1, 4, 32)), (None, 3, None))
    Layout<(4,16):(1,32)>
    """
    return apply("slice", _tuple_or_layout(src), as_int_tuple(coord, "make_coord"))


@also_called(x="src")
def dice(src: Modes[ModesT], coord: TreeLike) -> ModesT:
    """Keep what does not stand under `None`.

    >>> fx.dice((4, 8, 16), (None, 3, None))
    IntTuple<8>
    """
    return apply("dice", _tuple_or_layout(src), as_int_tuple(coord, "make_coord"))


@also_called(x="layout")
def get_shape(layout: AnyLayout | Tensor) -> IntTuple:
    """Shape of a layout or tensor.

    >>> fx.get_shape(fx.make_layout((4, 8), (8, 1)))
    IntTuple<(4,8)>
    """
    return apply("get_shape", layout)


@also_called(x="layout")
def get_stride(layout: AnyLayout | Tensor) -> IntTuple:
    """Stride of a layout or tensor.

    >>> fx.get_stride(fx.make_layout((4, 8), (8, 1)))
    IntTuple<(8,1)>
    """
    return apply("get_stride", layout)


@also_called(x="memref")
def get_layout(memref: Tensor | AnyLayout) -> Layout | Any:
    """Layout of a tensor.

    >>> flyc.evaluate(lambda: fx.get_layout(fx.make_rmem_tensor((4, 2), fx.Float32)))
    Layout<(4,2):(1,4)>
    """
    return apply("get_layout", memref)


@also_called(x="input")
def composed_get_inner(input: ComposedLayout) -> Swizzle | CoordSwizzle | AnyLayout:
    """`input.inner`.

    >>> swizzled = fx.make_composed_layout(fx.static(fx.SwizzleType.get(3, 0, 3)), 16, fx.make_layout(8, 1))
    >>> fx.composed_get_inner(swizzled)
    Swizzle<S<3,0,3>>
    """
    return input.inner


@also_called(x="input")
def composed_get_offset(input: ComposedLayout) -> IntTuple:
    """`input.offset`.

    >>> swizzled = fx.make_composed_layout(fx.static(fx.SwizzleType.get(3, 0, 3)), 16, fx.make_layout(8, 1))
    >>> fx.composed_get_offset(swizzled)
    IntTuple<16>
    """
    return input.offset


@also_called(x="input")
def composed_get_outer(input: ComposedLayout) -> AnyLayout:
    """`input.outer`.

    >>> swizzled = fx.make_composed_layout(fx.static(fx.SwizzleType.get(3, 0, 3)), 16, fx.make_layout(8, 1))
    >>> fx.composed_get_outer(swizzled)
    Layout<8:1>
    """
    return input.outer


@also_called(t="int_tuple")
def get_scalar(int_tuple: IntTuple | int | Numeric | Basis | None) -> Any:
    """The scalar of a single-leaf tuple; anything else passes through.

    >>> fx.get_scalar(fx.size((2, 3)))
    6
    """
    if not isinstance(int_tuple, IntTuple):
        return int_tuple
    leaf = int_tuple.unpack()
    while isinstance(leaf, tuple) and len(cast("tuple[object, ...]", leaf)) == 1:
        (leaf,) = cast("tuple[object]", leaf)
    if isinstance(leaf, tuple):
        raise DSLValueError(f"expected a scalar IntTuple, got {int_tuple}")
    return leaf


@also_called(t="input")
def get_leaves(input: TreeLike, dynamic_only: bool = False) -> tuple[Any, ...]:
    """Leaves in depth-first order.

    >>> fx.get_leaves((4, (8, 2)))
    (4, 8, 2)
    """
    tup = as_int_tuple(input)
    if dynamic_only:
        return tuple(current_ir().dynamic_leaves(tup))

    def walk(x: object) -> list[object]:
        return [y for e in cast("tuple[object, ...]", x) for y in walk(e)] if isinstance(x, tuple) else [x]

    return tuple(walk(tup.unpack()))


def has_none(t: TreeLike) -> bool:
    """Whether any leaf is empty.

    >>> fx.has_none((None, 3))
    True
    """
    return L.has_none(as_int_tuple(t).data)


@also_called(type_="result_type")
def static(result_type: Attribute) -> Any:
    """The value a type fully describes.

    >>> fx.static(fx.LayoutType.get((4, 8), (8, 1)))
    Layout<(4,8):(8,1)>
    """
    return current_ir().static(result_type)


__all__ = [
    "Basis", "ComposedLayout", "CoordSwizzle", "E", "IntTuple", "Layout", "Swizzle", "Tile", "append", "as_tile",
    "blocked_product", "ceil_div", "coalesce", "complement", "composed_get_inner", "composed_get_offset",
    "composed_get_outer", "composition", "coprofile", "coshape", "cosize", "crd2idx", "depth", "dice", "elem_less",
    "equal", "flat_divide", "flat_product", "get_", "get_1d_coord", "get_flat_coord", "get_layout", "get_leaves",
    "get_scalar", "get_shape", "get_stride", "group", "has_none", "idx2crd", "int_tuple_add", "int_tuple_div",
    "int_tuple_mod", "int_tuple_mul", "int_tuple_product", "int_tuple_product_each", "int_tuple_product_like",
    "int_tuple_sub", "left_inverse", "logical_divide", "logical_product", "make_composed_layout", "make_coord",
    "make_fragment_layout_like", "make_identity_layout", "make_int_tuple", "make_layout", "make_layout_like",
    "make_layout_tv", "make_ordered_layout", "make_shape", "make_stride", "make_tile", "prepend", "raked_product",
    "rank", "recast_layout", "right_inverse", "select", "shape_div", "size", "slice", "static", "take", "tile_to_shape",
    "tiled_divide", "tiled_product", "zipped_divide", "zipped_product",
]  # fmt: skip
