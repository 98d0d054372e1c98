"""Coordinates to indices and back.

The `*_in` functions take a shape and a stride; the public ones take anything with those, or anything that maps a
coordinate (layouts, composed layouts, swizzles).
"""

from __future__ import annotations

from typing import Protocol

from flydsl.errors import LayoutError
from flydsl.layout.int_tuple import at, format_int_tuple, int_tuple_add, map_leaves, product, weakly_congruent
from flydsl.layout.leaf import Basis, IntTuple, Leaf, leaf_add, leaf_div, leaf_mod, leaf_mul


class CoordinateMap(Protocol):
    """Anything that turns a coordinate into an index."""

    def crd2idx(self, coord: IntTuple) -> IntTuple: ...


class Strided(Protocol):
    """A shape with strides."""

    @property
    def shape(self) -> IntTuple: ...
    @property
    def stride(self) -> IntTuple: ...


def profile_error(coord: IntTuple, shape: IntTuple) -> LayoutError:
    """A coordinate that does not fit a shape."""
    return LayoutError(
        f"profile mismatch: the coordinate {format_int_tuple(coord)} does not fit the shape {format_int_tuple(shape)}; "
        "give one entry per mode (an integer may stand for a whole mode)"
    )


def crd2idx_in(coord: IntTuple, shape: IntTuple, stride: IntTuple) -> IntTuple:
    """Index of a weakly congruent coordinate."""
    if not isinstance(shape, tuple):
        if isinstance(coord, tuple):
            raise profile_error(coord, shape)
        assert not isinstance(stride, tuple)
        return leaf_mul(coord, stride)
    assert isinstance(stride, tuple)
    if isinstance(coord, tuple):
        if len(coord) != len(shape):
            raise profile_error(coord, shape)
        out = crd2idx_in(coord[0], shape[0], stride[0])
        for c, s, d in zip(coord[1:], shape[1:], stride[1:], strict=True):
            out = int_tuple_add(out, crd2idx_in(c, s, d))
        return out
    # An integer over several modes: peel colexicographically, the last mode takes what is left without a modulo.
    last = len(shape) - 1
    rest: Leaf = coord
    out: IntTuple = 0
    for i, (s, d) in enumerate(zip(shape, stride, strict=True)):
        c = rest
        if i < last:
            extent = product(s)
            c = leaf_mod(rest, extent)
            rest = leaf_div(rest, extent)
        part = crd2idx_in(c, s, d)
        out = part if i == 0 else int_tuple_add(out, part)
    return out


def idx2crd_in(index: IntTuple, shape: IntTuple, stride: IntTuple) -> IntTuple:
    """Per leaf `(index / stride) % shape`; a leaf of size 1 or of stride 0 gives 0."""
    if isinstance(index, tuple):
        if not isinstance(shape, tuple) or not isinstance(stride, tuple) or len(index) != len(shape):
            raise profile_error(index, shape)
        return tuple(map(idx2crd_in, index, shape, stride))
    if isinstance(shape, tuple):
        assert isinstance(stride, tuple)
        return tuple([idx2crd_in(index, s, d) for s, d in zip(shape, stride, strict=True)])
    assert not isinstance(stride, tuple)
    if type(stride) is Basis:
        raise LayoutError(f"idx2crd: expected integer strides, got {stride}; basis strides have no single index")
    # Any coordinate of a broadcast mode gives the same index; 0 stands for all of them.
    if (type(shape) is int and shape == 1) or not stride:
        return 0
    return leaf_mod(leaf_div(index, stride), shape)


def crd2colex(coord: IntTuple, shape: IntTuple) -> Leaf:
    """The colexicographic index of a coordinate within a shape.

    >>> crd2colex(((1, 0), 3), ((2, 2), 4))
    13
    """
    if not isinstance(coord, tuple):
        return coord
    if not isinstance(shape, tuple) or len(coord) != len(shape):
        raise profile_error(coord, shape)
    out = crd2colex(coord[-1], shape[-1])
    for c, s in zip(coord[-2::-1], shape[-2::-1], strict=True):
        out = leaf_add(crd2colex(c, s), leaf_mul(product(s), out))
    return out


def colex2crd(index: Leaf, shape: IntTuple) -> IntTuple:
    """The coordinate of a colexicographic index; the last mode is not reduced.

    >>> colex2crd(13, ((2, 2), 4))
    ((1, 0), 3)
    """
    if not isinstance(shape, tuple):
        return index
    out: list[IntTuple] = []
    for s in shape[:-1]:
        extent = product(s)
        out.append(colex2crd(leaf_mod(index, extent), s))
        index = leaf_div(index, extent)
    out.append(colex2crd(index, shape[-1]))
    return tuple(out)


def crd2crd(coord: IntTuple, source: IntTuple, target: IntTuple) -> IntTuple:
    """A coordinate of one shape as the coordinate of another with the same colexicographic index.

    >>> crd2crd((3, 5), (4, 8), ((2, 2), 8))
    ((1, 1), 5)
    """
    if isinstance(coord, tuple) and isinstance(source, tuple) and isinstance(target, tuple):
        if not len(coord) == len(source) == len(target):
            raise profile_error(coord, source if len(coord) != len(source) else target)
        return tuple(map(crd2crd, coord, source, target))
    return colex2crd(crd2colex(coord, source), target)


def crd2idx(coord: IntTuple, layout: CoordinateMap) -> IntTuple:
    """The index (a coordinate tuple for basis strides) of a coordinate. `coord` is weakly congruent to the shape;
    empty leaves count as 0.

    >>> from flydsl.layout import make_layout
    >>> B = make_layout((4, 8), (8, 1))
    >>> crd2idx((1, 2), B), crd2idx(5, B)
    (10, 9)
    """
    return layout.crd2idx(coord)


def idx2crd(index: IntTuple, layout: Strided) -> IntTuple:
    """Each leaf of a plain layout independently: `(index / d) % s`. The inverse of crd2idx for compact layouts.

    >>> from flydsl.layout import make_layout
    >>> idx2crd(13, make_layout((4, 8), (8, 1)))
    (1, 5)
    """
    return idx2crd_in(index, layout.shape, layout.stride)


def get_flat_coord(index: Leaf, layout: Strided) -> IntTuple:
    """`idx2crd`, then one colex integer per top mode.

    >>> from flydsl.layout import make_layout
    >>> get_flat_coord(13, make_layout(((2, 2), 4), ((1, 2), 4)))
    (1, 3)
    """
    coord = idx2crd(index, layout)
    if not isinstance(coord, tuple):
        return coord
    return tuple([crd2colex(c, at(layout.shape, i)) for i, c in enumerate(coord)])


def get_1d_coord(index: Leaf, layout: Strided) -> Leaf:
    """`idx2crd`, then one colex integer over the whole shape.

    >>> from flydsl.layout import make_layout
    >>> get_1d_coord(23, make_layout((5, 6), (6, 1)))
    28
    """
    return crd2colex(idx2crd(index, layout), layout.shape)


def none_as_zero(coord: IntTuple) -> IntTuple:
    """Empty leaves replaced by 0: the coordinate of what a slice drops."""
    return map_leaves(lambda leaf: 0 if leaf is None else leaf, coord)


def check_profile(coord: IntTuple, shape: IntTuple) -> None:
    """Raise unless the coordinate is weakly congruent to the shape."""
    if not weakly_congruent(coord, shape):
        raise profile_error(coord, shape)
