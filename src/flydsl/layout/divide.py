"""The four divides: a layout split into a tile and the arrangement of tiles.

The divisor is a Layout (over the whole layout), a Tile (mode by mode) or a tuple (made a Tile).
"""

from __future__ import annotations

from flydsl.errors import LayoutError
from flydsl.layout.algebra import check_tile_rank, coalesce_flat, complement_in, compose, rebuild
from flydsl.layout.int_tuple import flatten, product
from flydsl.layout.layout import L, Layout, linear_layout
from flydsl.layout.leaf import IntTuple
from flydsl.layout.memo import memo
from flydsl.layout.tile import Tile, TileMode, as_tile
from flydsl.layout.tuple_modes import expand, zip2_by


def logical_divide(layout: L, tiler: object) -> L:
    """`composition(A, (B, complement(B, size(A))))` = (tile, rest), per mode for a Tile; None leaves a mode alone.

    >>> logical_divide(Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2))
    Layout(((2,2),(2,3)):((4,1),(2,8)))
    >>> logical_divide(Layout((12, 10), (10, 1)), (None, 5))
    Layout((12,(5,2)):(10,(1,5)))
    """
    return rebuild(layout, divide(linear_layout(layout), as_tile(tiler)))


def zipped_divide(layout: L, tiler: object) -> L:
    """`logical_divide` regrouped as `((tile, ...), (rest, ..., untouched modes ...))`.

    >>> zipped_divide(Layout((8, 16), (16, 1)), (4, 8))
    Layout(((4,8),(2,2)):((16,1),(64,8)))
    """
    return rebuild(layout, divide_zipped(linear_layout(layout), as_tile(tiler)))


def tiled_divide(layout: L, tiler: object) -> L:
    """`zipped_divide` with the rest modes spliced: `((tile, ...), rest, ...)`.

    >>> tiled_divide(Layout((8, 16), (16, 1)), (4, 8))
    Layout(((4,8),2,2):((16,1),64,8))
    """
    plain = divide_zipped(linear_layout(layout), as_tile(tiler))
    return rebuild(layout, plain.map_modes(lambda t: expand(t, (1,))))


def flat_divide(layout: L, tiler: object) -> L:
    """`zipped_divide` with both sides spliced: `(tile, ..., rest, ...)`.

    >>> flat_divide(Layout((8, 16), (16, 1)), (4, 8))
    Layout((4,8,2,2):(16,1,64,8))
    """
    plain = divide_zipped(linear_layout(layout), as_tile(tiler))
    return rebuild(layout, plain.map_modes(lambda t: expand(t, (0, 1))))


@memo
def divide(layout: Layout, tiler: Layout | Tile) -> Layout:
    """`logical_divide` of a plain layout."""
    if type(tiler) is Layout:
        # Coalescing drops the factors 1 from the product.
        extent = product(coalesce_flat(flatten(layout.shape), flatten(layout.stride))[0])
        rest = complement_in(tiler, extent)
        return compose(layout, Layout((tiler.shape, rest.shape), (tiler.stride, rest.stride)))
    assert type(tiler) is Tile
    if tiler.is_leaf:
        return _divide_mode(layout, tiler.modes[0])
    check_tile_rank("divide", layout, tiler)
    modes = [_divide_mode(layout[i], tiler.modes[i] if i < tiler.rank else None) for i in range(layout.rank)]
    return Layout(tuple([m.shape for m in modes]), tuple([m.stride for m in modes]))


def _divide_mode(layout: Layout, mode: TileMode) -> Layout:
    if mode is None:
        return layout
    return divide(layout, Layout(mode, 1) if isinstance(mode, int) else mode)


@memo
def divide_zipped(layout: Layout, tiler: Layout | Tile) -> Layout:
    """`zipped_divide` of a plain layout."""
    guide = 0 if type(tiler) is Layout else _guide(tiler, layout)
    return divide(layout, tiler).map_modes(lambda t: zip2_by(t, guide))


def _guide(tiler: TileMode, layout: Layout) -> IntTuple:
    if tiler is None or (type(tiler) is Tile and tiler.is_leaf and tiler.modes[0] is None):
        raise LayoutError(
            f"a None tile mode cannot be zipped, dividing {layout}; use logical_divide, or give the mode's full extent"
        )
    if type(tiler) is Tile and not tiler.is_leaf:
        return tuple([_guide(mode, layout) for mode in tiler.modes])
    return 0
