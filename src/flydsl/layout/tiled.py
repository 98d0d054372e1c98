"""What tiled copies and tiled MMAs do to layouts, as pure functions of atom thread-value layouts and tiles.

A thread-value (TV) layout maps (thread, value) to the colexicographic index in a tile. Operands are matrices: A is
(M,K), B is (N,K), C and D are (M,N). A composed layout is viewed through its innermost plain layout; the offsets
returned by the partitions are indices of that plain layout, still to be applied by the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from flydsl.errors import LayoutError
from flydsl.layout.algebra import coalesce, complement, compose, composition, rebuild, right_inverse, size
from flydsl.layout.coordinates import get_flat_coord
from flydsl.layout.divide import divide, divide_zipped
from flydsl.layout.int_tuple import compact_col_major, product, product_each, wrap
from flydsl.layout.layout import AnyLayout, L, Layout, erase_values, linear_layout
from flydsl.layout.leaf import Dyn, IntTuple, Leaf
from flydsl.layout.make import make_fragment_layout_like, make_identity_layout
from flydsl.layout.memo import memo
from flydsl.layout.product import product_in, raked_product, tiled_product
from flydsl.layout.recast import upcast
from flydsl.layout.tile import Tile, TileMode, as_tile
from flydsl.layout.tuple_modes import expand, take, zip_

Operand: TypeAlias = str | int

_MK, _NK, _MN = (0, 2), (1, 2), (0, 1)
_OPERANDS: dict[Operand, tuple[int, int]] = {"a": _MK, "b": _NK, "c": _MN, "d": _MN, 0: _MK, 1: _NK, 2: _MN, 3: _MN}


def make_layout_tv(thr_layout: Layout, val_layout: Layout) -> tuple[IntTuple, Layout]:
    """`(tiler, tv)`: the tile that threads and their values cover, and the layout from (thread, value) to its index.

    >>> make_layout_tv(Layout((8, 16), (16, 1)), Layout((1, 4), (4, 1)))
    ((8, 64), Layout(((16,8),4):((32,1),8)))
    """
    if not (thr_layout.is_static and val_layout.is_static):
        raise LayoutError(
            f"make_layout_tv: expected static layouts, got {thr_layout} and {val_layout}; fix their extents"
        )
    mn = raked_product(thr_layout, val_layout)
    threads, values = size(thr_layout), size(val_layout)
    tv = compose(right_inverse(mn), Layout((threads, values), (1, threads)))
    return product_each(mn.shape), tv


def tile_sizes(tile: Tile) -> tuple[int, ...]:
    """Number of elements a tile takes of each mode.

    >>> from flydsl.layout import Layout, Tile
    >>> tile_sizes(Tile((4, Layout((2, 2), (1, 4)))))
    (4, 4)
    """
    return tuple([_mode_size(mode, tile) for mode in tile.modes])


def _mode_size(mode: TileMode, tile: Tile) -> int:
    if type(mode) is int:
        return mode
    if mode is None:
        raise LayoutError(f"expected an extent for every mode of the tile {tile}, got None; give the full extent")
    sizes = tile_sizes(mode) if type(mode) is Tile else cast("Layout", mode).shape
    return cast("int", product(sizes))


def _col_major(shape: IntTuple) -> Layout:
    return Layout(shape, compact_col_major(shape))


def _tiler(tile: object) -> Tile:
    found = as_tile(tile)
    return found if type(found) is Tile else Tile.leaf(found)


def _pair(first: Layout, second: Layout) -> Layout:
    return Layout((first.shape, second.shape), (first.stride, second.stride))


# --- Tiled copy -----------------------------------------------------------------------------------------------


@memo
def _thrval2mn(tv: Layout, ref: Layout, side: Layout) -> Layout:
    """`(thread, (AtomV, RestV))` to the index in the tile, for one side of the copy."""
    if ref.rank != 2 or side.rank != 2 or tv.rank != 2:
        raise LayoutError(f"expected thread-value layouts of rank 2, got {tv}, {ref} and {side}")
    ref_to_side = compose(right_inverse(ref), side)
    counts = Tile((product(ref[0].shape), product(ref[1].shape)))
    split = divide_zipped(tv, counts)
    zipped = _pair(compose(split[0], ref_to_side), split[1]).map_modes(zip_)
    return coalesce(zipped, (1, (1, 1)))


@memo
def _copy_view(layout: Layout, tv: Layout, tile: Tile, ref: Layout, side: Layout) -> Layout:
    split = divide_zipped(layout, tile)
    view = compose(split[0], _thrval2mn(tv, ref, side))
    return _pair(view, split[1]).map_modes(lambda t: expand(t, (0,)))


def copy_view(layout: L, tv: Layout, tile: object, ref: Layout, side: Layout) -> L:
    """`(thread, (AtomV, RestV), rest)`: a layout as one side of a tiled copy sees it. `ref` is the atom's reference TV
    layout, `side` its source or destination one.

    >>> one = Layout((1, 4), (1, 1))
    >>> copy_view(Layout((8, 64), (64, 1)), Layout(((16, 8), 4), ((32, 1), 8)), (8, 64), one, one)
    Layout(((16,8),(4,1),(1,1)):((4,64),(1,0),(0,0)))
    """
    return rebuild(layout, _copy_view(linear_layout(layout), tv, _tiler(tile), ref, side))


def copy_partition(layout: L, tv: Layout, tile: object, ref: Layout, side: Layout, thr: IntTuple) -> tuple[IntTuple, L]:
    """`(offset, ((AtomV, RestV), rest_0, ...))`: the part of one thread, an index over the thread mode.

    >>> one = Layout((1, 4), (1, 1))
    >>> copy_partition(Layout((8, 64), (64, 1)), Layout(((16, 8), 4), ((32, 1), 8)), (8, 64), one, one, 5)
    (20, Layout(((4,1),1,1):((1,0),0,0)))
    """
    view = _copy_view(linear_layout(layout), tv, _tiler(tile), ref, side)
    part = view.map_modes(lambda t: take(expand(t, (2,)), 1))
    return view[0].crd2idx(thr), rebuild(layout, part)


def tiled_copy_tv(tv: Layout, tile: object, ref: Layout, side: Layout) -> Layout:
    """`(thread, (AtomV, RestV))` to the index in the tile, for one side of a tiled copy.

    >>> one = Layout((1, 4), (1, 1))
    >>> tiled_copy_tv(Layout(((4, 8), 4), ((32, 1), 8)), (8, 16), one, one)
    Layout(((4,8),(4,1)):((32,1),(8,0)))
    """
    return compose(_col_major(tile_sizes(_tiler(tile))), _thrval2mn(tv, ref, side))


def copy_retile(layout: Layout, tv: Layout, tile: object, ref: Layout) -> Layout:
    """A fragment `(V, rest...)` of some other partition as this copy's `((AtomV, RestV), rest...)`.

    >>> one = Layout((1, 4), (1, 1))
    >>> copy_retile(Layout((4, 2, 2), (1, 4, 8)), Layout(((4, 8), 4), ((32, 1), 8)), (8, 16), one)
    Layout(((4,1),2,2):((1,0),4,8))
    """
    if type(layout) is not Layout:
        raise LayoutError(f"retile: expected a plain layout, got {layout}; a composed layout cannot be retiled")
    return _copy_retile(layout, tv, _tiler(tile), ref)


@memo
def _copy_retile(layout: Layout, tv: Layout, tile: Tile, ref: Layout) -> Layout:
    values = product(layout[0].shape)
    if type(values) is not int:
        raise LayoutError(f"retile: expected a static first mode, got {layout}; a fragment has static extents")
    threads = cast("int", product(tv[0].shape))
    tile_to_tv = compose(right_inverse(tv), _col_major(tile_sizes(tile)))
    per_mode = cast("Layout", upcast(tile_to_tv, threads * values))
    spread = product_in(Layout(values, 1), right_inverse(per_mode))
    fragment = divide_zipped(spread, Layout(product(ref[1].shape), 1))
    split = divide_zipped(layout, Tile((values, *cast("tuple[int, ...]", wrap(product_each(per_mode.shape))))))
    view = compose(split[0], fragment)
    rest = split[1]
    return Layout((view.shape, *wrap(rest.shape)[1:]), (view.stride, *wrap(rest.stride)[1:]))


# --- Tiled MMA ------------------------------------------------------------------------------------------------


def _dims(operand: Operand) -> tuple[int, int]:
    """The two of M, N, K an operand spans."""
    key = operand.lower() if isinstance(operand, str) else int(operand)
    try:
        return _OPERANDS[key]
    except KeyError:
        raise LayoutError(f"expected an MMA operand a, b, c, d (or 0 to 3), got {operand!r}") from None


def _permutation(
    permutation: object, atom_shape_mnk: Sequence[int], atom_layout: Layout
) -> tuple[TileMode, TileMode, TileMode]:
    """Extent or layout taken of each of M, N, K by the whole tiled MMA."""
    if atom_layout.rank != 3 or not atom_layout.is_static:
        raise LayoutError(f"expected a static atom layout over (M,N,K), got {atom_layout}; give three modes")
    modes: tuple[TileMode, ...] = () if permutation is None else _tiler(permutation).modes
    if len(modes) > 3:
        raise LayoutError(f"expected a permutation of at most three modes (M,N,K), got {permutation}")
    out: list[TileMode] = []
    for i in range(3):
        mode = modes[i] if i < len(modes) else None
        count = cast("int", product(atom_layout[i].shape))
        out.append(atom_shape_mnk[i] * count if mode is None else mode)
    return out[0], out[1], out[2]


def tile_size_mnk(
    atom_shape_mnk: Sequence[int], atom_layout: Layout, permutation: object = None
) -> tuple[int, int, int]:
    """Elements of M, N and K that one step of a tiled MMA covers.

    >>> tile_size_mnk((16, 16, 4), Layout((2, 2, 1), (1, 2, 0)))
    (32, 32, 4)
    """
    perm = Tile(_permutation(permutation, atom_shape_mnk, atom_layout))
    m, n, k = tile_sizes(perm)
    return m, n, k


def thr_layout_vmnk(atom_thr: Layout, atom_layout: Layout) -> Layout:
    """`(V,M,N,K)` to the thread index: the atom's threads, repeated over the atom layout.

    >>> thr_layout_vmnk(Layout(64, 1), Layout((2, 2, 1), (1, 2, 0)))
    Layout((64,2,2,1):(1,64,128,0))
    """
    return _vmnk(atom_thr, atom_layout)


@memo
def _vmnk(atom_thr: Layout, atom_layout: Layout) -> Layout:
    return tiled_product(atom_thr, atom_layout)


def mma_view(
    layout: L,
    operand: Operand,
    atom_shape_mnk: Sequence[int],
    atom_tv: Layout,
    atom_layout: Layout,
    permutation: object = None,
) -> L:
    """`((ThrV, (thr_i, thr_j)), (FrgV, (rest_i, rest_j, ...)))`: a matrix as a tiled MMA sees it.

    >>> atom_a = Layout(((16, 4), 1), ((1, 16), 16))
    >>> mma_view(Layout((64, 8), (1, 64)), "a", (16, 16, 4), atom_a, Layout((2, 2, 1), (1, 2, 0)))
    Layout((((16,4),(2,1)),(1,(2,2))):(((1,64),(16,0)),(0,(32,256))))
    """
    plain = linear_layout(layout)
    if plain.rank < 2:
        raise LayoutError(f"expected a matrix with at least two modes as MMA operand {operand}, got {plain}")
    tile = None if permutation is None else _tiler(permutation)
    return rebuild(layout, _mma_view(plain, _dims(operand), tuple(atom_shape_mnk), atom_tv, atom_layout, tile))


@memo
def _mma_view(
    layout: Layout,
    dims: tuple[int, int],
    atom_shape_mnk: tuple[int, ...],
    atom_tv: Layout,
    atom_layout: Layout,
    permutation: Tile | None,
) -> Layout:
    i, j = dims
    perm = _permutation(permutation, atom_shape_mnk, atom_layout)
    tiler = Tile((perm[i], perm[j]))
    atoms = Tile((atom_shape_mnk[i], atom_shape_mnk[j]))
    repeats = Tile((product(atom_layout[i].shape), product(atom_layout[j].shape)))
    split = divide_zipped(divide(layout, tiler), atoms)
    atom = compose(split[0], atom_tv)
    over = divide_zipped(split[1], repeats)
    return _pair(_pair(atom[0], over[0]), _pair(atom[1], over[1]))


def _values(view: Layout) -> Layout:
    return view[1].map_modes(lambda t: expand(t, (1,)))


def mma_partition(
    layout: L,
    operand: Operand,
    atom_shape_mnk: Sequence[int],
    atom_tv: Layout,
    atom_layout: Layout,
    permutation: object,
    atom_thr: Layout,
    thr: Leaf,
) -> tuple[IntTuple, L]:
    """`(offset, (FrgV, rest_i, rest_j, ...))`: the part of one thread. The thread index is decoded through
    `thr_layout_vmnk`, one integer for each of V, M, N, K.

    >>> atom_a = Layout(((16, 4), 1), ((1, 16), 16))
    >>> atoms = Layout((2, 2, 1), (1, 2, 0))
    >>> mma_partition(Layout((64, 8), (1, 64)), "a", (16, 16, 4), atom_a, atoms, None, Layout(64, 1), 70)
    (22, Layout((1,2,2):(0,32,256)))
    """
    view = mma_view(linear_layout(layout), operand, atom_shape_mnk, atom_tv, atom_layout, permutation)
    i, j = _dims(operand)
    vmnk = wrap(get_flat_coord(thr, thr_layout_vmnk(atom_thr, atom_layout)))
    offset = view[0].crd2idx((vmnk[0], (vmnk[1 + i], vmnk[1 + j])))
    return offset, rebuild(layout, _values(view))


def mma_partition_shape(
    shape: IntTuple,
    operand: Operand,
    atom_shape_mnk: Sequence[int],
    atom_tv: Layout,
    atom_layout: Layout,
    permutation: object = None,
) -> IntTuple:
    """The shape `(FrgV, rest_i, rest_j, ...)` a partition of a matrix of this shape has.

    >>> atom_c = Layout(((16, 4), (4, 1)), ((16, 4), (1, 16)))
    >>> mma_partition_shape((64, 64), "c", (16, 16, 4), atom_c, Layout((2, 2, 1), (1, 2, 0)))
    ((4, 1), 2, 2)
    """
    # The identity layout keeps the modes apart, so the shape is that of any matrix, not of a contiguous one only.
    layout = make_identity_layout(shape)
    return _values(mma_view(layout, operand, atom_shape_mnk, atom_tv, atom_layout, permutation)).shape


def mma_tiled_tv(
    operand: Operand,
    atom_shape_mnk: Sequence[int],
    atom_tv: Layout,
    atom_layout: Layout,
    permutation: object,
    atom_thr: Layout,
) -> Layout:
    """`(thread, (FrgV, (rest_i, rest_j)))` to the index in the operand's tile; threads that share data have stride 0.

    >>> atom_a = Layout(((16, 4), 1), ((1, 16), 16))
    >>> mma_tiled_tv("a", (16, 16, 4), atom_a, Layout((2, 2, 1), (1, 2, 0)), None, Layout(64, 1))
    Layout(((16,4,2,2),(1,(1,1))):((1,32,16,0),(0,(0,0))))
    """
    i, j = _dims(operand)
    sizes = tile_size_mnk(atom_shape_mnk, atom_layout, permutation)
    tile = _col_major((sizes[i], sizes[j]))
    view = mma_view(tile, operand, atom_shape_mnk, atom_tv, atom_layout, permutation)
    vmnk = thr_layout_vmnk(atom_thr, atom_layout)
    threads = view[0]
    if (i, j) != (0, 1):
        # (v, (x, k)) becomes (v, ((m, n), k)), the axis the operand does not span broadcast.
        grid = (product(vmnk[1].shape), product(vmnk[2].shape))
        axis = Layout(grid, (1, 0) if i == 0 else (0, 1))
        threads = composition(threads, Tile((None, Tile((axis, None)))))
    by_index = right_inverse(_pair(vmnk, complement(vmnk)))
    reorder = compose(Layout((size(vmnk), 1), (1, 0)), by_index)
    return _pair(compose(threads, reorder), view[1])


def mma_fragment_layout(
    layout: AnyLayout,
    operand: Operand,
    atom_shape_mnk: Sequence[int],
    atom_tv: Layout,
    atom_layout: Layout,
    permutation: object = None,
    stages: int | None = None,
) -> Layout:
    """The register layout for one thread's part of an operand; `stages` replaces a third mode by that many slowest
    copies.

    >>> atom_a = Layout(((16, 4), 1), ((1, 16), 16))
    >>> atoms = Layout((2, 2, 1), (1, 2, 0))
    >>> mma_fragment_layout(Layout((64, 8), (8, 1)), "a", (16, 16, 4), atom_a, atoms, stages=2)
    Layout((1,2,2,2):(0,2,1,4))
    """
    # Only the order of the strides matters: their values would be computed for nothing.
    plain = erase_values(linear_layout(layout))
    if stages is not None:
        if type(stages) is not int or stages <= 0:
            raise LayoutError(f"stages must be positive, got {stages!r}")
        if plain.rank < 2:
            raise LayoutError(f"stages requires an input layout with at least two modes, got {plain}")
        # A run-time stride ranks after all others.
        shape, stride = wrap(plain.shape), wrap(plain.stride)
        plain = Layout((*shape[:2], stages), (*stride[:2], Dyn.get()))
    view = mma_view(plain, operand, atom_shape_mnk, atom_tv, atom_layout, permutation)
    return make_fragment_layout_like(_values(view))
