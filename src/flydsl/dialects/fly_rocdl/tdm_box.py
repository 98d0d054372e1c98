"""The box of the tensor data mover for a tile: which run of shared memory lies in global memory how.

The tile's modes are taken in the order shared memory holds them. As long as the next one starts a mode of the tensor,
or goes on with the one before, it is a dimension of the box; modes next to each other in global memory are one
dimension. Modes of the tensor that are not in the tile are dimensions of one element, outermost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ... import layout as L
from ...errors import DSLValueError
from ...layout import Basis, Layout, Tile
from .tensor_copy import MAX_EXTENT, MAX_RANK


@dataclass(frozen=True)
class Box:
    """Dimensions innermost first, and the padding of shared memory in elements."""

    shape: tuple[int, ...]
    members: tuple[tuple[tuple[int, int], ...], ...]
    """Modes of the tensor (flat) in each dimension, with what a step of theirs is in it; the first one's is 1."""
    pad_interval: int
    pad_amount: int

    def basis(self, profile: L.IntTuple, *, outermost_first: bool) -> L.IntTuple:
        """For each mode of the tensor the dimension it moves along, 0 for none."""
        found = {mode: (dim, scale) for dim, group in enumerate(self.members) for mode, scale in group}
        last = len(self.shape) - 1

        def one(mode: int) -> L.Leaf:
            if mode not in found:
                return 0
            dim, scale = found[mode]
            return Basis(scale, (last - dim if outermost_first else dim,))

        return L.unflatten(tuple(one(i) for i in range(len(L.flatten(profile)))), profile)


def box_of(tensor: Layout, shared: Layout, tiler: Tile, warps: int) -> Box:
    """The box one of `warps` warps moves of the tile `tiler` of a tensor."""
    extents, strides = L.flatten(tensor.shape), L.flatten(tensor.stride)
    if len(extents) > MAX_RANK:
        raise DSLValueError(f"tiled TDM currently supports global tensor flat-rank <= 5, got {len(extents)}")
    if warps < 1:
        raise DSLValueError(f"num_warps must be positive, got {warps}")
    tile = _tile_extents(tensor.shape, tiler)
    runs, interval, amount = _runs(shared)
    if math.prod(tile) != math.prod(extent for extent, _ in runs):
        raise DSLValueError(
            f"the tiler holds {math.prod(tile)} elements but the LDS tile holds "
            f"{math.prod(extent for extent, _ in runs)}; a tiler reshapes the tile, it does not shrink it"
        )
    steps = _in_tensor(runs, tile)
    dims = _dimensions(steps, strides)
    for extent, _ in dims:
        if extent > MAX_EXTENT:
            raise DSLValueError("physical TDM tile dimension exceeds 65535")
    inside = {mode for _, group in dims for mode, _ in group}
    rest = [i for i, extent in enumerate(extents) if i not in inside and extent != 1]
    shape = [extent for extent, _ in dims] + [1] * len(rest)
    members = [tuple(group) for _, group in dims] + [((mode, 1),) for mode in rest]
    box = _shared_out(shape, warps)
    if interval and math.prod(box) % interval:
        raise DSLValueError("padInterval must divide each warp's physical TDM box")
    return Box(tuple(box), tuple(members), interval, amount)


def _tile_extents(shape: L.IntTuple, tiler: Tile) -> list[int]:
    """Extent of the tile in each flat mode of the tensor; modes the tiler does not name are one element."""
    found: list[int] = []

    def leaf(mode: L.IntTuple, extent: int) -> None:
        leaves = L.flatten(mode)
        for at, whole in enumerate(leaves):
            if at == len(leaves) - 1:
                found.append(extent)
            elif type(whole) is not int:
                raise DSLValueError(
                    f"the tiler cuts {L.format_int_tuple(mode)}, whose sub-modes must be static for that"
                )
            elif extent <= whole:
                found.append(extent)
                extent = 1
            elif extent % whole:
                raise DSLValueError(f"the tiler's extent {extent} is no multiple of {whole}, the mode it goes over")
            else:
                found.append(whole)
                extent //= whole

    def walk(mode: L.IntTuple, tile: object, depth: int) -> None:
        if type(tile) is int:
            leaf(mode, tile)
        elif not isinstance(tile, Tile):
            raise DSLValueError(
                f"the tiler's mode at nesting depth {depth} must be an extent or a nested tile, got {tile}"
            )
        elif not isinstance(mode, tuple):
            raise DSLValueError(
                f"the tiler is deeper than the tensor at nesting depth {depth}; the tensor has a single extent there "
                f"but the tiler has {len(tile.modes)} sub-modes"
            )
        else:
            modes = mode
            if len(tile.modes) > len(modes):
                raise DSLValueError(
                    f"the tiler has {len(tile.modes)} modes at nesting depth {depth} but the tensor has {len(modes)}; "
                    "a tiler selects from a mode's leading sub-modes"
                )
            for i, inner in enumerate(modes):
                if i < len(tile.modes):
                    walk(inner, tile.modes[i], depth + 1)
                else:
                    found.extend([1] * len(L.flatten(inner)))

    walk(shape, tiler.modes[0] if tiler.is_leaf else tiler, 0)
    return found


def _runs(shared: Layout) -> tuple[list[tuple[int, int]], int, int]:
    """(extent, step in the tile's own order) of shared memory's modes by stride, and its padding."""
    extents, strides = L.flatten(shared.shape), L.flatten(shared.stride)
    found: list[tuple[int, int, int, int]] = []
    step = 1
    for i, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
        if type(extent) is not int or type(stride) is not int:
            raise DSLValueError(f"the LDS tile must be fully static, mode {i} is not")
        if extent > 1 and not stride:
            raise DSLValueError(
                f"LDS mode {i} has extent {extent} and stride 0; TDM walks LDS linearly and cannot broadcast one "
                "location over several tile elements"
            )
        if extent > 1:
            found.append((stride, extent, step, i))
        step *= extent
    found.sort()
    if found and found[0][0] != 1:
        raise DSLValueError(
            f"the LDS tile must be contiguous along its fastest axis, but its smallest stride is {found[0][0]} "
            f"(mode {found[0][3]})"
        )
    packed, padded, interval, amount = 1, 1, 0, 0
    for stride, extent, _, i in found:
        if stride < padded:
            raise DSLValueError(
                f"LDS mode {i} has stride {stride}, smaller than the {padded} elements inside it; the tile overlaps "
                "itself"
            )
        if stride > padded and not interval:
            interval, amount, padded = packed, stride - padded, stride
        if stride != padded:
            raise DSLValueError(
                "the LDS tile's stride (modes sorted by stride) is not a single-pad form; TDM can express one constant "
                f"skip every pad_interval elements, so mode {i} must have stride {padded}, got {stride}"
            )
        packed *= extent
        padded *= extent
    return [(extent, step) for _, extent, step, _ in found], interval, amount


def _in_tensor(runs: Sequence[tuple[int, int]], tile: Sequence[int]) -> list[tuple[int, int, int]]:
    """(mode of the tensor, first step in it, extent) of the tile's elements in the order of shared memory."""
    found: list[tuple[int, int, int]] = []
    for extent, step in runs:
        below = 1
        for mode, whole in enumerate(tile):
            if step < below * whole and extent > 1:
                if step % below or whole % (step // below):
                    break
                scale = step // below
                here = min(extent, whole // scale)
                if extent % here:
                    break
                found.append((mode, scale, here))
                extent //= here
                step *= here
            below *= whole
        if extent > 1:
            # The rest does not fall on modes of the tensor: the box ends here.
            break
    return found


def _dimensions(
    steps: Sequence[tuple[int, int, int]], strides: Sequence[Any]
) -> list[tuple[int, list[tuple[int, int]]]]:
    """(extent, its modes) of the box, innermost first, as long as memory can be walked."""
    modes: list[tuple[int, int]] = []
    for mode, scale, extent in steps:
        if modes and modes[-1][0] == mode and scale == modes[-1][1]:
            modes[-1] = (mode, scale * extent)
        elif scale == 1 and all(mode != known for known, _ in modes):
            modes.append((mode, extent))
        else:
            break
    if not modes:
        raise DSLValueError(
            "no common tile/global vectorization: the LDS tile and the global tile do not share a contiguous innermost "
            "run. Does the tiler select out the major global mode?"
        )
    if strides[modes[0][0]] != 1:
        raise DSLValueError(
            "the innermost descriptor dim must be contiguous in global memory (stride 1), got global mode "
            f"{modes[0][0]}: the LDS tile's majorness does not match the global tensor's"
        )
    dims: list[tuple[int, list[tuple[int, int]]]] = []
    for mode, extent in modes:
        stride = strides[mode]
        if dims:
            whole, group = dims[-1]
            first = strides[group[0][0]]
            follows = type(stride) is int and type(first) is int and stride == whole * first
            if follows and whole * extent <= MAX_EXTENT:
                dims[-1] = (whole * extent, [*group, (mode, whole)])
                continue
        dims.append((extent, [(mode, 1)]))
    return dims


def _shared_out(shape: Sequence[int], warps: int) -> list[int]:
    """The box of one warp: outer dimensions are cut first."""
    found = list(shape)
    for i in reversed(range(len(found))):
        extent = found[i]
        cut = min(warps, extent)
        if warps % cut or extent % cut:
            raise DSLValueError("num_warps cuts a descriptor axis unevenly")
        found[i] //= cut
        warps //= cut
    if warps > 1:
        raise DSLValueError("num_warps exceeds the logical descriptor box")
    return found
