"""C = f(A B sa sb + bias) for everything the tensor cores' kernels leave: any strides, any extents, every target.

A block works on a tile of 64 x 64 through shared memory, element by element. Sums are f32, or i32 for bytes
without factors of blocks.
"""

from __future__ import annotations

from typing import cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..activations import activated
from ..epilogue import narrowed
from .groups import Cut, count_tiles, first_group, group_at

TILE, DEPTH, THREADS, EACH = 64, 16, 256, 4
BLOCK = 128
"""Elements that share a scale, where blocks have one; a multiple of the depth."""


@flyc.kernel
def plain_kernel(
    a: fx.Pointer,
    b: fx.Pointer,
    c: fx.Pointer,
    bias: fx.Tensor | None,
    scale_a: fx.Tensor | None,
    scale_b: fx.Tensor | None,
    activation: fx.Constexpr[str],
    single: fx.Constexpr[tuple[bool, ...]],
    blocked: fx.Constexpr[bool],
    m: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    step_a: fx.Int64,
    depth_a: fx.Int64,
    batch_a: fx.Int64,
    depth_b: fx.Int64,
    step_b: fx.Int64,
    batch_b: fx.Int64,
    step_c: fx.Int64,
    column_c: fx.Int64,
    batch_c: fx.Int64,
    offsets: fx.Pointer | None,
    groups: fx.Int32,
    scale_out: fx.Tensor | None,
    by_group: fx.Constexpr[bool],
):
    tid = fx.thread_idx.x
    # Bytes with factors of blocks are fractions as soon as they are fetched.
    total = fx.Int32 if a.dtype in (fx.Int8, fx.Uint8) and not blocked else fx.Float32
    shared = fx.SharedAllocator()
    layout = fx.make_layout((TILE, DEPTH), (DEPTH + 1, 1))
    tile_a, tile_b = (shared.allocate(fx.Array[total, TILE * (DEPTH + 1), 16]).peek().view(layout) for _ in range(2))
    columns = fx.ceildiv(n, TILE)
    per_batch = columns * fx.ceildiv(m, TILE)
    batch, at = fx.block_idx.x // per_batch, fx.block_idx.x % per_batch
    row, column = at // columns * TILE, at % columns * TILE
    batch_y = batch
    if fx.const_expr(offsets is not None):
        # Tiles of rows end where groups do. Blocks beyond the last one have no rows.
        which = fx.block_idx.x // columns
        batch_y, row, m = group_rows(cast("fx.Pointer", offsets), which, groups, m)
        batch = fx.Int32(0)
        if fx.const_expr(by_group):
            scale_b = scales_of(cast("fx.Tensor", scale_b), batch_y, blocked)
    rows_a = Side(a + fx.Int64(batch) * batch_a, tile_a, row, m, step_a, depth_a)
    rows_b = Side(b + fx.Int64(batch_y) * batch_b, tile_b, column, n, step_b, depth_b)
    acc = fx.make_rmem_tensor(fx.make_layout((EACH, EACH), (EACH, 1)), total)
    acc.fill(0)
    top, left = tid // 16, tid % 16
    for step in range(fx.ceildiv(k, DEPTH)):
        of_a, of_b = block_scales(scale_a, scale_b, step) if blocked else (None, None)
        for i in fx.range_constexpr(TILE * DEPTH // THREADS):
            r, d = (i * THREADS + tid) // DEPTH, tid % DEPTH
            fetch(rows_a, total, r, d, step, k, of_a, 1)
            fetch(rows_b, total, r, d, step, k, of_b, BLOCK)
        fx.barrier()
        for d in fx.range_constexpr(DEPTH):
            for i in fx.range_constexpr(EACH):
                for j in fx.range_constexpr(EACH):
                    acc[i, j] = acc[i, j] + tile_a[top + 16 * i, d] * tile_b[left + 16 * j, d]
        fx.barrier()
    here = c + fx.Int64(batch) * batch_c
    for i in fx.range_constexpr(EACH):
        for j in fx.range_constexpr(EACH):
            r, q = row + top + 16 * i, column + left + 16 * j
            if (r < m) & (q < n):
                value = acc[i, j]
                if fx.const_expr(c.dtype is not fx.Int32):
                    value = fx.Float32(value)
                    if fx.const_expr(not blocked):
                        value = scaled(scaled(value, scale_a, 0 if single[0] else r), scale_b, 0 if single[1] else q)
                    if fx.const_expr(bias is not None):
                        value = value + element(bias, q)
                    value = activated(activation, value)
                    if fx.const_expr(scale_out is not None):
                        value = value / cast("fx.Tensor", scale_out)[0]
                    value = narrowed(value, c.dtype)
                here[fx.Int64(r) * step_c + fx.Int64(q) * column_c] = c.dtype(value)


@flyc.jit
def group_rows(offsets: fx.Pointer, tile: fx.Int32, groups: fx.Int32, rows: fx.Int32):
    """The group of a tile, the tile's first row and the group's end; no rows where there is no such tile."""
    number, first, last = fx.Int32(0), fx.Int32(0), fx.Int32(0)
    if tile < count_tiles(offsets, groups, rows, Cut(TILE)):
        found = group_at(offsets, first_group(offsets, rows), tile, rows, Cut(TILE))
        number, first, last = found.number, found.start + (tile - found.tiles_before) * TILE, found.end
    return number, first, last


def scales_of(scales: fx.Tensor, group: fx.Int32, blocked: bool) -> fx.Tensor:
    """Those of a group's matrix."""
    return scales[group, None, None] if blocked else scales[group, None]


def block_scales(scale_a: fx.Tensor, scale_b: fx.Tensor, step: fx.Int32) -> tuple[fx.Tensor, fx.Tensor]:
    """The scales of a step along K: of A's rows, and of blocks of B's columns."""
    return scale_a[None, step * DEPTH // BLOCK], scale_b[step * DEPTH // BLOCK, None]


def scaled(value: fx.Float32, scale: fx.Tensor | None, at: int | fx.Int32) -> fx.Float32:
    return value if scale is None else value * scale[at]


def element(vector: fx.Tensor, at: fx.Int32) -> fx.Float32:
    return fx.Float32(vector[at])


class Side:
    """A's or B's rows of a tile: where they begin, how many there are, and the tile they go to."""

    def __init__(
        self, place: fx.Pointer, tile: fx.Tensor, first: fx.Int32, count: fx.Int32, step: fx.Int64, depth: fx.Int64
    ):
        self.place, self.tile, self.first, self.count = place, tile, first, count
        self.step, self.depth = step, depth


def fetch(
    side: Side,
    total: type[fx.Numeric],
    r: fx.Int32,
    d: fx.Int32,
    step: fx.Int32,
    k: fx.Int32,
    scales: fx.Tensor | None,
    block: int,
) -> None:
    """One element of a tile, or zero; times the scale of its block, where blocks have one."""
    row = side.first + r
    fetch_element(side.place, side.tile, row, side.count, side.step, side.depth, total, r, d, step, k, scales, block)


@flyc.jit
def fetch_element(
    place: fx.Pointer,
    tile: fx.Tensor,
    row: fx.Int32,
    rows: fx.Int32,
    step_row: fx.Int64,
    step_k: fx.Int64,
    total: type[fx.Numeric],
    r: fx.Int32,
    d: fx.Int32,
    step: fx.Int32,
    k: fx.Int32,
    scales: fx.Tensor | None,
    block: int,
):
    value = total(0)
    at = step * DEPTH + d
    if (row < rows) & (at < k):
        value = total(place[fx.Int64(row) * step_row + fx.Int64(at) * step_k])
        if fx.const_expr(scales is not None):
            value = value * cast("fx.Tensor", scales)[row // block]
    tile[r, d] = value


@flyc.jit
def plain(
    a: fx.Tensor,
    b: fx.Tensor,
    c: fx.Tensor,
    bias: fx.Tensor | None,
    scale_a: fx.Tensor | None,
    scale_b: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    batches: fx.Int32,
    step_a: fx.Int64,
    depth_a: fx.Int64,
    batch_a: fx.Int64,
    depth_b: fx.Int64,
    step_b: fx.Int64,
    batch_b: fx.Int64,
    step_c: fx.Int64,
    column_c: fx.Int64,
    batch_c: fx.Int64,
    activation: fx.Constexpr[str],
    single: fx.Constexpr[tuple[bool, ...]] = (False, False),
    blocked: fx.Constexpr[bool] = False,
    stream: fx.Stream = fx.Stream(None),
    offsets: fx.Tensor | None = None,
    scale_out: fx.Tensor | None = None,
    by_group: fx.Constexpr[bool] = False,
):
    """Strides are in elements: of rows, of k and of the batch for A; of k, of columns and of the batch for B.

    A scale has a value for each row of A or column of B, or (`single`) one for all, or (`blocked`) one for 128 elements
    of a row of A and one for 128 x 128 of B. With `offsets`, the ends of groups, A and C have no batch, and each group
    of rows has a matrix of B; `by_group` with scales of its own, the groups in front.
    """
    blocks = fx.ceildiv(m, TILE) * fx.ceildiv(n, TILE) * batches
    if fx.const_expr(offsets is not None):
        blocks = (fx.ceildiv(m, TILE) + batches) * fx.ceildiv(n, TILE)
    ends = None if offsets is None else fx.get_iter(offsets)
    plain_kernel(
        fx.get_iter(a), fx.get_iter(b), fx.get_iter(c), bias, scale_a, scale_b, activation, single, blocked, m, n, k,
        step_a, depth_a, batch_a, depth_b, step_b, batch_b, step_c, column_c, batch_c, ends, batches,
        scale_out, by_group,
    ).launch(grid=blocks, block=THREADS, stream=stream)  # fmt: skip
