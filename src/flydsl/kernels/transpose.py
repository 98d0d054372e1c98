"""dst = src^T of any shape through a tile of shared memory, on every target.

A block moves a tile of 32 x 32: rows are read and written along the contiguous direction, and the tile's rows are one
element longer than they need be, so that reading a column touches every bank once.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from .extents import check_extents

TILE, ROWS = 32, 8


@flyc.kernel
def transpose_kernel(src: fx.Tensor, dst: fx.Tensor, m: fx.Int32, n: fx.Int32):
    lds = fx.SharedAllocator().allocate(fx.Array[src.dtype, TILE * (TILE + 1), 16]).peek()
    tile = lds.view(fx.make_layout((TILE, TILE), (TILE + 1, 1)))
    x, y = fx.thread_idx.x % TILE, fx.thread_idx.x // TILE
    row, column = fx.block_idx.y * TILE, fx.block_idx.x * TILE
    for j in fx.range_constexpr(TILE // ROWS):
        r = y + j * ROWS
        if (row + r < m) & (column + x < n):
            tile[r, x] = src[row + r, column + x]
    fx.barrier()
    for j in fx.range_constexpr(TILE // ROWS):
        r = y + j * ROWS
        if (column + r < n) & (row + x < m):
            dst[column + r, row + x] = tile[x, r]


@flyc.jit
def transpose(src: fx.Tensor, dst: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    """`dst[j, i] = src[i, j]`."""
    check_extents("transpose", src=(src, "mn"), dst=(dst, "nm"))
    m, n = src.shape.unpack()
    grid = ((n + TILE - 1) // TILE, (m + TILE - 1) // TILE)
    transpose_kernel(src, dst, m, n).launch(grid=grid, block=TILE * ROWS, stream=stream)


__all__ = ["transpose"]
