"""The tensor data mover of gfx1250 over the tiles of a tensor: the atom, the tensor's coordinates, and a warp's share.

The coordinates are tiled and sliced as the tensor would be. A copy between them and shared memory is one instruction of
a warp; what the tensor does not have arrives as zero, and is not written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from ... import layout as L
from ...errors import DSLTypeError, DSLValueError
from ..tensor import Tensor
from ..tensors.algebra_values import IntTuple, Layout, Tile, as_int_tuple
from ..tensors.layout_functions import composition, crd2idx, group, make_tile
from .target import need

if TYPE_CHECKING:
    from ..annotations import CoordTensor, DTypeLike, IntLike, TileLike, TreeLike
    from ..tensors.tiled import CopyAtom


class _TensorCopy:
    """An operation for `make_tiled_tdm_atom`."""

    load: bool

    def __init__(self, cache_modifier: int = 0):
        self.cache_modifier = cache_modifier

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.cache_modifier})"


class TensorLoad(_TensorCopy):
    """From global to shared memory; state `workgroup_mask`, `early_timeout`, `atomic_barrier_addr`, `boundary_check`.

    >>> fx.rocdl.cdna5.TensorLoad()
    TensorLoad(0)
    """

    load = True


class TensorStore(_TensorCopy):
    """From shared to global memory; state `atomic_barrier_addr`, `boundary_check`.

    >>> fx.rocdl.cdna5.TensorStore(cache_modifier=1)
    TensorStore(1)
    """

    load = False


def make_tiled_tdm_atom(
    op: TensorLoad | TensorStore,
    tensor: Tensor,
    smem_layout: Layout,
    tdm_tile: TileLike | Sequence[int],
    num_warps: int = 1,
    *,
    init_boundary_check: bool = True,
    atomic_barrier: bool = False,
    internal_type: DTypeLike | None = None,
) -> tuple[CopyAtom, CoordTensor]:
    """The atom that copies a warp's part of a tile, and the tensor of coordinates to tile and slice.

    `smem_layout` is the layout of a tile in shared memory, which may have gaps for loads; `tdm_tile` says how many
    elements it takes of each mode of the tensor; `num_warps` warps share it, each as `tdm_partition` says.

    >>> def tile(x):
    ...     layout = fx.make_layout((16, 8), (8, 1))
    ...     atom, coords = fx.rocdl.cdna5.make_tiled_tdm_atom(fx.rocdl.cdna5.TensorLoad(), x, layout, (16, 8))
    ...     return fx.zipped_divide(coords, (16, 8))[None, (1, 0)].layout
    >>> flyc.evaluate(tile, np.zeros((32, 8), "f4"), target="cpu:gfx1250")
    Layout<(16,8):(1E1,1E0)>
    """
    from . import emit

    need("make_tiled_tdm_atom", "tdm")
    if not isinstance(op, (TensorLoad, TensorStore)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"make_tiled_tdm_atom: op must be a TensorLoad() or TensorStore(), got {op!r}")
    if internal_type is not None:
        raise DSLValueError("make_tiled_tdm_atom: internal_type must be None")
    modes = cast("Sequence[Any]", tdm_tile if isinstance(tdm_tile, (tuple, list)) else (tdm_tile,))
    tiler = tdm_tile if isinstance(tdm_tile, Tile) else make_tile(*modes)
    options = {
        "numWarps": num_warps,
        "initBoundaryCheck": bool(init_boundary_check),
        "cacheModifier": op.cache_modifier,
        "atomicBarrier": bool(atomic_barrier),
    }
    return emit.tiled_tdm_atom(op.load, tensor, smem_layout, tiler, options)


def tdm_partition(
    atom: CopyAtom, warp_coord: IntLike | Sequence[IntLike], warp_layout: Layout, stensor: Tensor, gtensor: Tensor
) -> tuple[Tensor, Tensor]:
    """What a warp copies of tensors whose first mode is a tile: `((atom, iterations), rest...)` of both.

    `warp_layout` numbers the warps from 0 on; there are as many as the atom was made for, or the tile is a multiple.

    >>> def share(x):
    ...     layout = fx.make_layout((16, 8), (8, 1))
    ...     atom, coords = fx.rocdl.cdna5.make_tiled_tdm_atom(fx.rocdl.cdna5.TensorLoad(), x, layout, (16, 8), 2)
    ...     tiles = fx.zipped_divide(coords, (16, 8))[None, (0, None)]
    ...     lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 128]).peek()
    ...     s = fx.make_view(lds.ptr, fx.make_layout(((16, 8), 1), ((8, 1), 0)))
    ...     return fx.rocdl.cdna5.tdm_partition(atom, 1, fx.make_layout(2, 1), s, tiles)[0].layout
    >>> flyc.evaluate(share, np.zeros((32, 8), "f4"), target="cpu:gfx1250")
    Layout<(((8,8),1),1):(((1,8),0),0)>
    """
    values = _values_of(atom)
    warps = _warps(warp_layout)
    tile = _first_mode(stensor)
    for name, t in (("stensor", stensor), ("gtensor", gtensor)):
        size = L.size(_mode(t.layout.data, 0))
        if type(size) is not int or size % (values * warps):
            raise DSLValueError(
                f"tdm_partition: the tile of {name} has {size} elements, which is no multiple of {values * warps}: "
                f"{values} of the atom for each of {warps} warps"
            )
    # The order of the tile's elements in shared memory, as runs of the linear coordinate of the tile.
    order = _traversal(tile)
    rounds = cast(int, L.size(tile)) // (values * warps)
    runs = [(values, 1), (warps, values), (rounds, values * warps)]
    parts = [L.composition(order, L.Layout(*run)) for run in runs]
    split = L.Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))
    warp = warp_coord if isinstance(warp_coord, int) else as_int_tuple(cast("Any", warp_coord))
    number = crd2idx(warp, warp_layout)
    return cast("tuple[Tensor, Tensor]", tuple(_share(t, split, number) for t in (stensor, gtensor)))


def _share(t: Tensor, split: L.Layout, warp: IntTuple) -> Tensor:
    """The part of one warp of a tensor whose first mode is a tile."""
    rest = t.rank - 1
    divided = composition(t, make_tile(Layout(split), *[None] * rest))
    whole: list[TreeLike] = [None] * rest
    return group(divided[((None, warp, None), *whole)], 0, 2)


def _values_of(atom: CopyAtom) -> int:
    moved = atom.type.op.moved
    if moved is None:
        raise DSLTypeError(f"tdm_partition takes an atom of make_tiled_tdm_atom, got {atom}")
    return moved


def _warps(layout: Layout) -> int:
    data = layout.data
    size = L.size(data)
    if type(size) is not int or not layout.is_static:
        raise DSLValueError(f"tdm_partition: warp_layout must be static, got {layout}")
    if sorted(cast(int, L.crd2idx(i, data)) for i in range(size)) != list(range(size)):
        raise DSLValueError(f"tdm_partition: warp_layout must number {size} warps from 0 on, got {layout}")
    return size


def _mode(layout: L.Layout, i: int) -> L.Layout:
    shape, stride = (x if isinstance(x, tuple) else (x,) for x in (layout.shape, layout.stride))
    return L.Layout(shape[i], stride[i])


def _first_mode(stensor: Tensor) -> L.Layout:
    layout = stensor.layout.data
    tile = _mode(layout, 0) if isinstance(layout, L.Layout) else None
    if tile is None or not all(type(n) is int for n in (*L.flatten(tile.shape), *L.flatten(tile.stride))):
        raise DSLValueError(f"tdm_partition: the tile of stensor must have a static layout, got {stensor.layout}")
    return tile


def _traversal(tile: L.Layout) -> L.Layout:
    """The linear coordinates of a tile in the order in which memory holds its elements."""
    shape, stride = (cast("tuple[int, ...]", L.flatten(x)) for x in (tile.shape, tile.stride))
    steps, step = list[int](), 1
    for extent in shape:
        steps.append(step)
        step *= extent
    order = sorted(range(len(shape)), key=lambda i: stride[i])
    return L.Layout(tuple(shape[i] for i in order), tuple(steps[i] for i in order))
