"""`permute` and `cast`: copies with other axes in front, or of another type.

Axes that stay next to each other are one. What is left is a batch of matrices that are turned, through tiles of shared
memory, so that both sides are read and written along their rows; or rows that are copied whole.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Sequence

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError

from .. import grids
from ..rows.arrays import Given, HostArray, packed, stretches, type_name, type_of, vacant
from ..rows.call import ALL, more_of
from ..rows.lines import when
from ..scalars import wholes
from .view import axis_of, described, last

TILE, ROWS = 32, 8
THREADS = 256
FLOATS = ("float16", "bfloat16", "float32", "float64")
TYPES = tuple(name for name in ALL if not name.startswith("float8"))


@flyc.kernel
def turn_kernel(x: fx.Tensor, out: fx.Tensor, batches: fx.Int32 | None, m: fx.Int32, n: fx.Int32):
    """A tile's rows are one element longer, so that its columns touch every bank once.

    `batches` are told where a grid has no directions for rows and matrices: then each thread divides, which is a
    quarter of what it does otherwise for its four elements.
    """
    held = fx.SharedAllocator().allocate(fx.Array[x.dtype, TILE * (TILE + 1), 16]).peek()
    tile = held.view(fx.make_layout((TILE, TILE), (TILE + 1, 1)))
    at, part = fx.thread_idx.x % TILE, fx.thread_idx.x // TILE
    row, column, batch = fx.block_idx.y * TILE, fx.block_idx.x * TILE, fx.block_idx.z
    if fx.const_expr(batches is not None):
        beside = fx.ceildiv(n, TILE)
        row, column, batch = fx.block_idx.x // beside * TILE, fx.block_idx.x % beside * TILE, grids.number()
        # Blocks of no matrix have no rows.
        m = (batch < typing.cast("fx.Int32", batches)).select(m, fx.Int32(0))
    for j in fx.range_constexpr(TILE // ROWS):
        r = part + j * ROWS
        if (row + r < m) & (column + at < n):
            tile[r, at] = x[batch, row + r, column + at]
    fx.barrier()
    for j in fx.range_constexpr(TILE // ROWS):
        r = part + j * ROWS
        if (column + r < n) & (row + at < m):
            out[batch, column + r, row + at] = tile[at, r].to(out.dtype)


@flyc.jit
def turn(
    x: fx.Tensor,
    out: fx.Tensor,
    batch: fx.Int32,
    m: fx.Int32,
    n: fx.Int32,
    spread: fx.Constexpr[bool] = False,
    stream: fx.Stream = fx.Stream(None),
):
    """out[i, k, j] = x[i, j, k]; rows and matrices are `spread` where a grid has no direction for either."""
    beside, below = fx.ceildiv(n, TILE), fx.ceildiv(m, TILE)
    turn_kernel(x, out, batch if spread else None, m, n).launch(
        grid=(beside * below, *grids.spread(batch)) if spread else (beside, below, batch), block=TILE * ROWS,
        stream=stream,
    )  # fmt: skip


@flyc.kernel
def cast_kernel(x: fx.Tensor, out: fx.Tensor, count: fx.Int64):
    at = fx.Int64(fx.block_idx.x) * THREADS + fx.Int64(fx.thread_idx.x)

    def work() -> None:
        out[at] = x[at].to(out.dtype)

    when(at < count, work)


@flyc.jit
def cast_elements(x: fx.Tensor, out: fx.Tensor, count: fx.Int64, stream: fx.Stream = fx.Stream(None)):
    """Each element in the type of `out`."""
    cast_kernel(x, out, count).launch(grid=fx.Int32(fx.ceildiv(count, THREADS)), block=THREADS, stream=stream)


def cast(x: HostArray, dtype: object, *, stream: object = None) -> Given:
    """A copy of another type: floats to the nearest number, to even in the middle; integers keep their lowest bits.

    Types are float16, bfloat16, float32, float64, int8, uint8, int32 and int64; floats do not become integers here.

    >>> cast(np.array([1.0, 1.0009765625, 65520.0], "f4"), "float16")
    array([1.   , 1.001,   inf], dtype=float16)
    """
    op = "cast"
    shape = described(op, "x", x, TYPES)
    kind = _kind(op, dtype)
    if kind not in FLOATS and type_of(x) in FLOATS:
        raise DSLTypeError(f"{op}: floats become floats, got {type_of(x)} to {kind}; round them first")
    out: Given = vacant(x, shape, kind)
    count = math.prod(shape)
    if count:
        given: Given = packed(x)
        for some, old, new in stretches(count, given.reshape(-1), out.reshape(-1)):
            cast_elements(old, new, some, **more_of(stream))
    return out


def permute(x: HostArray, axes: Sequence[int], *, stream: object = None) -> Given:
    """A copy in one piece whose axis `i` is axis `axes[i]` of `x`.

    >>> permute(np.array([[1, 2, 3], [4, 5, 6]], "i4"), (1, 0))
    array([[1, 4],
           [2, 5],
           [3, 6]], dtype=int32)
    """
    order, shape = check_permute(x, axes), tuple(x.shape)
    wanted = tuple(shape[a] for a in order)
    out: Given = vacant(x, wanted, type_of(x))
    if 0 in shape:
        return out
    if not shape:
        out[...] = x
        return out
    given: Given = packed(x)
    extents, merged = _merged(shape, order)
    rank = len(merged)
    if merged[-2:] == [rank - 1, rank - 2] and merged[:-2] == list(range(rank - 2)):
        m, n = extents[-2:]
        batch = math.prod(extents[:-2])
        spread = not grids.fit(-(-m // TILE), batch)
        turn(given.reshape(batch, m, n), out.reshape(batch, n, m), batch, m, n, spread, **more_of(stream))
    else:
        # More than one pair changes places: the array's own library copies.
        out[...] = last(x, order)
    return out


def check_permute(x: HostArray, axes: Sequence[int]) -> list[int]:
    """What is refused, by extents and types alone; the axes, counted from the front."""
    op = "permute"
    shape = described(op, "x", x, ALL)
    order = [axis_of(op, a, shape, "axes") for a in wholes(op, "axes", axes)]
    if sorted(order) != list(range(len(shape))):
        raise DSLValueError(f"{op}: axes name each of {len(shape)} once, got {tuple(axes)}")
    return order


def _merged(shape: Sequence[int], order: Sequence[int]) -> tuple[list[int], list[int]]:
    """Extents and order with axes of one element left out, and those that stay next to each other as one."""
    kept = [a for a in order if shape[a] != 1]
    runs: list[list[int]] = []
    left = sorted(kept)
    for a in kept:
        if runs and left.index(a) == left.index(runs[-1][-1]) + 1:
            runs[-1].append(a)
        else:
            runs.append([a])
    starts = sorted(run[0] for run in runs)
    extents = {run[0]: math.prod(shape[a] for a in run) for run in runs}
    return [extents[s] for s in starts], [starts.index(run[0]) for run in runs]


def _kind(op: str, dtype: object) -> str:
    kind = type_name(dtype)
    if kind not in TYPES:
        raise DSLTypeError(f"{op}: dtype is one of {', '.join(TYPES)}, got {kind}")
    return kind


__all__ = ["cast", "check_permute", "permute"]
