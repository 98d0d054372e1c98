"""Sizes, coalesce, composition, complement and inverses of layouts.

Every function takes a Layout or a ComposedLayout and then works on its innermost plain layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from flydsl.errors import DSLTypeError, LayoutError
from flydsl.layout.int_tuple import (
    as_int_tuple,
    at,
    filter_zero,
    flatten,
    format_int_tuple,
    int_tuple_add,
    map_leaves,
    product,
    unwrap,
)
from flydsl.layout.layout import ComposedLayout, L, Layout, canon_stride, codomain_profile, linear_layout, zero_of
from flydsl.layout.leaf import (
    Basis,
    Dyn,
    IntTuple,
    Leaf,
    basis_to_tuple,
    leaf_add,
    leaf_ceil_div,
    leaf_div,
    leaf_min,
    leaf_mul,
    leaf_sub,
)
from flydsl.layout.memo import memo
from flydsl.layout.tile import Tile, TileMode


def rebuild(layout: L, plain: Layout) -> L:
    """`layout` with its innermost plain layout replaced; a plain layout is replaced whole."""
    if type(layout) is ComposedLayout:
        return layout.with_linear(plain)
    return cast("L", plain)


# --- Sizes ----------------------------------------------------------------------------------------------------


def size(x: IntTuple | Layout | ComposedLayout) -> Leaf:
    """Product of the shape: the number of coordinates.

    >>> size(Layout((4, 8), (1, 5))), size((2, (3, 4)))
    (32, 24)
    """
    if type(x) is Layout or type(x) is ComposedLayout:
        return product(x.shape)
    return product(as_int_tuple(x))


def coshape(layout: Layout | ComposedLayout) -> IntTuple:
    """Per component of the codomain, the largest index plus one: `sum((s - 1) * d) + 1`.

    >>> coshape(Layout((5, 6), (Basis(3, [0]), Basis(1, [1]))))
    (13, 6)
    """
    plain = linear_layout(layout)
    last = _last_index(plain.shape, plain.stride)
    if type(last) is Basis:
        last = basis_to_tuple(last)
    return map_leaves(lambda leaf: leaf_add(leaf, 1), last)


def _last_index(shape: IntTuple, stride: IntTuple) -> IntTuple:
    if not isinstance(shape, tuple) or not isinstance(stride, tuple):
        assert not isinstance(shape, tuple) and not isinstance(stride, tuple)
        return leaf_mul(leaf_sub(shape, 1), stride)
    out = _last_index(shape[0], stride[0])
    for s, d in zip(shape[1:], stride[1:], strict=True):
        out = int_tuple_add(out, _last_index(s, d))
    return out


def cosize(layout: Layout | ComposedLayout) -> Leaf:
    """Product of the coshape.

    >>> cosize(Layout((4, 8), (1, 5)))
    39
    """
    return product(coshape(layout))


def coprofile(layout: Layout | ComposedLayout) -> IntTuple:
    """The zero of the codomain: `0` for integer strides, a tuple of zeros for basis strides.

    >>> coprofile(Layout((4, 8), (Basis(1, [0]), Basis(1, [1]))))
    (0, 0)
    """
    return zero_of(linear_layout(layout))


# --- Coalesce -------------------------------------------------------------------------------------------------


def coalesce(layout: L, pattern: IntTuple = None) -> L:
    """The same function of an integer with as few modes as static knowledge allows; with a tuple pattern each of
    its leaves coalesces the mode it stands over.

    >>> coalesce(Layout((2, (1, 6)), (1, (6, 2)))), coalesce(Layout((2, (1, 6)), (1, (6, 2))), (1, 1))
    (Layout(12:1), Layout((2,6):(1,2)))
    """
    return rebuild(layout, _coalesce(linear_layout(layout), pattern))


@memo
def _coalesce(layout: Layout, pattern: IntTuple) -> Layout:
    return Layout(*_coalesce_by(layout.shape, layout.stride, pattern, keep=False))


def _coalesce_by(shape: IntTuple, stride: IntTuple, pattern: IntTuple, *, keep: bool) -> tuple[IntTuple, IntTuple]:
    if not isinstance(pattern, tuple):
        return coalesce_flat(flatten(shape), flatten(stride), keep=keep)
    if not isinstance(shape, tuple) or not isinstance(stride, tuple):
        shape, stride = (shape,), (stride,)
    n = len(pattern)
    if n > len(shape):
        raise LayoutError(
            f"profile mismatch: the pattern {format_int_tuple(pattern)} has more modes than the layout "
            f"{Layout(shape, stride)}; give at most {len(shape)}"
        )
    pairs = [_coalesce_by(s, d, p, keep=keep) for s, d, p in zip(shape, stride, pattern, strict=False)]
    return (*[p[0] for p in pairs], *shape[n:]), (*[p[1] for p in pairs], *stride[n:])


def coalesce_flat(shapes: Sequence[Leaf], strides: Sequence[Leaf], *, keep: bool = False) -> tuple[IntTuple, IntTuple]:
    """Coalesce leaves. With `keep`, a trailing size-1 leaf stays as an open end of size 2."""
    s, d = shapes[-1], strides[-1]
    if keep and type(s) is int and s == 1:
        s = 2
    out_s: list[Leaf] = []
    out_d: list[Leaf] = []
    for i in range(len(shapes) - 2, -1, -1):
        si, di = shapes[i], strides[i]
        if type(si) is int and si == 1:
            continue
        if type(s) is int and s == 1:
            s, d = si, di
        elif type(si) is int and type(s) is int and _continues(si, di, d):
            s, d = si * s, di
        else:
            out_s.append(s)
            out_d.append(d)
            s, d = si, di
    if not out_s:
        return (1, 0) if type(s) is int and s == 1 else (s, d)
    out_s.append(s)
    out_d.append(d)
    return tuple(out_s[::-1]), tuple(out_d[::-1])


def _continues(extent: int, stride: Leaf, following: Leaf) -> bool:
    """A mode of this extent and stride runs straight into the following stride.

    Basis strides must address the same component (FlyDSL compares coefficients only, which changes the function).
    """
    if type(stride) is int and type(following) is int:
        return extent * stride == following
    if type(stride) is Basis and type(following) is Basis and stride.modes == following.modes:
        a, b = stride.value, following.value
        return type(a) is int and type(b) is int and extent * a == b
    return False


# --- Composition ----------------------------------------------------------------------------------------------


def composition(a: L, b: Layout | Tile) -> L:
    """`R(c) == a(b(c))`, with b's (refined) shape. A Tile composes mode by mode. The last mode of `a` is open-ended.

    >>> composition(Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1)))
    Layout(((2,2),3):((24,2),8))
    >>> composition(Layout((12, (4, 8)), (59, (13, 1))), Tile((3, 8)))
    Layout((3,(4,2)):(59,(13,1)))
    """
    plain = linear_layout(a)
    if type(b) is Layout:
        return rebuild(a, compose(plain, b))
    if type(b) is Tile:
        return rebuild(a, _compose_tile(plain, b))
    hint = "use make_composed_layout" if isinstance(b, ComposedLayout) else "wrap it with make_tile or make_layout"
    raise DSLTypeError(f"composition: expected Tile or Layout as second argument, got {b!r}; {hint}")


@memo
def _compose_tile(a: Layout, tile: Tile) -> Layout:
    if tile.is_leaf:
        mode = tile.modes[0]
        return a if mode is None else compose_mode(a, mode)
    check_tile_rank("composition", a, tile)
    if a.is_leaf:
        return compose_mode(a, tile.modes[0])
    modes = [compose_mode(a[i], tile.modes[i] if i < tile.rank else None) for i in range(a.rank)]
    return Layout(*canon_stride(tuple([m.shape for m in modes]), tuple([m.stride for m in modes])))


def compose_mode(a: Layout, mode: TileMode) -> Layout:
    """One mode of a layout composed with one mode of a tile."""
    if mode is None:
        return a
    if isinstance(mode, int):
        return compose(a, Layout(mode, 1))
    return _compose_tile(a, mode) if isinstance(mode, Tile) else compose(a, mode)


def check_tile_rank(what: str, a: Layout, tile: Tile) -> None:
    """Raise if the tile has more modes than the layout."""
    if tile.rank > a.rank:
        raise LayoutError(
            f"{what}: the tile {tile} has {tile.rank} modes, the layout {a} only {a.rank}; drop the extra"
        )


@memo
def compose(a: Layout, b: Layout) -> Layout:
    """Composition of two plain layouts."""
    shape, stride = _coalesce_by(a.shape, a.stride, codomain_profile(b), keep=True)
    return Layout(*canon_stride(*_compose_tree(shape, stride, b.shape, b.stride, a, b)))


def _compose_tree(
    shape: IntTuple, stride: IntTuple, s: IntTuple, d: IntTuple, a: Layout, b: Layout
) -> tuple[IntTuple, IntTuple]:
    """The part `s:d` of b through a, which is `shape:stride` coalesced."""
    if isinstance(s, tuple) and isinstance(d, tuple):
        pairs = [_compose_tree(shape, stride, x, y, a, b) for x, y in zip(s, d, strict=True)]
        return tuple([p[0] for p in pairs]), tuple([p[1] for p in pairs])
    assert not isinstance(s, tuple) and not isinstance(d, tuple)
    if not d:
        return s, 0
    if type(d) is not Basis:
        return _compose_leaf(flatten(shape), flatten(stride), s, d, a, b)
    # A basis stride selects the mode of `a` at its path.
    for i in d.modes:
        shape, stride = at(shape, i), at(stride, i)
    if not d.value:
        return s, 0
    return _compose_leaf(flatten(shape), flatten(stride), s, d.value, a, b)


def _compose_leaf(
    shapes: tuple[Leaf, ...], strides: tuple[Leaf, ...], s: Leaf, d: int | Dyn | None, a: Layout, b: Layout
) -> tuple[IntTuple, IntTuple]:
    """One leaf `s:d` of b through the coalesced leaves of a."""
    if len(shapes) == 1:
        return s, leaf_mul(d, strides[0])
    if type(d) is int and d < 0:
        raise _compose_error(a, b, f"a negative stride {d} cannot walk through more than one mode")
    rest_s: Leaf = s
    rest_d: Leaf = d
    out_s: list[Leaf] = []
    out_d: list[Leaf] = []
    for i in range(len(shapes) - 1):
        if type(rest_s) is int and rest_s == 1:
            break
        extent = shapes[i]
        uneven = False
        if type(extent) is int and type(rest_d) is int:
            uneven = extent % rest_d != 0
            if rest_d >= extent and rest_d % extent != 0:
                raise _compose_error(
                    a, b, f"the stride {rest_d} must be smaller than the extent {extent} or a multiple of it"
                )
        n = leaf_ceil_div(extent, rest_d)
        following = leaf_ceil_div(rest_d, extent)
        if not (type(n) is int and n == 1):
            taken = leaf_min(n, rest_s)
            if type(taken) is int and type(rest_s) is int:
                if rest_s % taken != 0:
                    raise _compose_error(
                        a, b, f"the extent {rest_s} must be a multiple of {taken}, what mode {i} offers"
                    )
                if taken < rest_s and uneven:
                    # FlyDSL lets this through with a result that is not a(b(c)).
                    raise _compose_error(a, b, f"the stride {rest_d} must divide the extent {extent} it leaves behind")
            out_s.append(taken)
            out_d.append(leaf_mul(rest_d, strides[i]))
            rest_s = leaf_div(rest_s, taken)
        rest_d = following
    if not out_s:
        return rest_s, leaf_mul(rest_d, strides[-1])
    if not (type(rest_s) is int and rest_s == 1):
        out_s.append(rest_s)
        out_d.append(leaf_mul(rest_d, strides[-1]))
    return tuple(out_s), tuple(out_d)


def _compose_error(a: Layout, b: Layout, why: str) -> LayoutError:
    return LayoutError(f"composition of {a} with {b} is not a layout: {why}; choose extents that divide one another")


# --- Complement and inverses ----------------------------------------------------------------------------------


def complement(layout: L, codomain_size: object = None) -> L:
    """A layout of increasing indices, from 0 up to `codomain_size`, that together with `layout` reaches everything.
    `layout` must be injective apart from stride-0 modes, which count as size 1.

    >>> complement(Layout(4, 2), 24), complement(Layout((2, 4), (1, 4)))
    (Layout((2,3):(1,8)), Layout(2:2))
    """
    bound: IntTuple = None
    if codomain_size is not None:
        bound = unwrap(as_int_tuple(codomain_size))
        if isinstance(bound, tuple) or type(bound) is Basis:
            raise LayoutError(
                f"complement: expected one integer as codomain size, got {format_int_tuple(bound)}; use its product"
            )
    return rebuild(layout, complement_in(linear_layout(layout), bound))


@memo
def complement_in(layout: Layout, bound: Leaf) -> Layout:
    """Complement of a plain layout; a bound of None means its cosize."""
    counted = filter_zero(layout.stride, layout.shape)
    shape, stride = coalesce_flat(flatten(counted), flatten(layout.stride))
    if bound is None:
        bound = cosize(Layout(shape, stride))
    shapes, strides = flatten(shape), flatten(stride)
    if len(strides) == 1 and not strides[0]:
        return Layout(bound, 1)
    order: Sequence[int] = range(len(shapes))
    if len(shapes) > 1:
        steps = [d for d in strides if type(d) is int]
        if len(steps) < len(strides):
            raise LayoutError(
                f"complement of {layout}: expected static integer strides on a layout of several modes; "
                "fix the strides or take the complement mode by mode"
            )
        order = sorted(order, key=lambda i: steps[i])
    out_s: list[Leaf] = []
    out_d: list[Leaf] = []
    reached: Leaf = 1
    for i in order:
        gap = leaf_div(strides[i], reached)
        if type(gap) is int and gap < 1:
            raise LayoutError(
                f"complement of {layout}: expected an injective layout with positive strides, but "
                f"{shapes[i]}:{strides[i]} overlaps the modes of smaller stride; give each index one coordinate"
            )
        out_s.append(gap)
        out_d.append(reached)
        reached = leaf_mul(strides[i], shapes[i])
    out_s.append(leaf_ceil_div(bound, reached))
    out_d.append(reached)
    return Layout(*coalesce_flat(out_s, out_d))


def _ascending(what: str, layout: Layout) -> tuple[tuple[Leaf, ...], list[tuple[int, int]]]:
    """Extents of the coalesced layout, and `(stride, position)` of its static strides in ascending order."""
    shape, stride = coalesce_flat(flatten(layout.shape), flatten(layout.stride))
    found: list[tuple[int, int]] = []
    for i, d in enumerate(flatten(stride)):
        if type(d) is Basis:
            raise LayoutError(f"{what} of {layout}: expected integer strides, got the basis {d}")
        if type(d) is int:
            found.append((d, i))
    return flatten(shape), sorted(found)


def _before(shapes: tuple[Leaf, ...], i: int) -> Leaf:
    """Product of the extents before position i."""
    return product(shapes[:i]) if i else 1


def right_inverse(layout: L) -> L:
    """The largest `R` with `layout(R(i)) == i`. Modes whose stride does not continue are skipped.

    >>> right_inverse(Layout((4, 8), (8, 1))), right_inverse(Layout(8, 2))
    (Layout((8,4):(4,1)), Layout(1:0))
    """
    return rebuild(layout, _right_inverse(linear_layout(layout)))


@memo
def _right_inverse(layout: Layout) -> Layout:
    shapes, modes = _ascending("right_inverse", layout)
    out_s: list[Leaf] = [1]
    out_d: list[Leaf] = [0]
    expected = 1
    for d, i in modes:
        s = shapes[i]
        if d == expected and type(s) is int:
            out_s.append(s)
            out_d.append(_before(shapes, i))
            expected = s * d
    return Layout(*coalesce_flat(out_s, out_d))


def left_inverse(layout: L) -> L:
    """`R` with `R(layout(i)) == i` for an injective layout; stride-0 modes are passed over.

    >>> left_inverse(Layout((4, 8), (1, 5))), left_inverse(Layout(8, 2))
    (Layout((5,8):(1,4)), Layout((2,8):(0,1)))
    """
    return rebuild(layout, _left_inverse(linear_layout(layout)))


@memo
def _left_inverse(layout: Layout) -> Layout:
    shapes, modes = _ascending("left_inverse", layout)
    out_s: list[Leaf] = []
    out_d: list[Leaf] = [0]
    reached = 1
    previous = 0
    last: Leaf = 1
    for d, i in modes:
        if d == 0:
            continue
        s = shapes[i]
        if d < previous or d % reached != 0:
            raise LayoutError(
                f"left_inverse of {layout}: expected an injective layout whose strides are multiples of one another, "
                f"but {s}:{d} overlaps or does not divide evenly"
            )
        out_s.append(d // reached)
        out_d.append(_before(shapes, i))
        reached = d
        previous = d * s if type(s) is int else d + 1
        last = s
    out_s.append(last)
    return Layout(*coalesce_flat(out_s, out_d))
