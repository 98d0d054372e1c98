"""A tile of a @ b^T by plain multiplications in f32: 256 threads, 32 by 32 elements, 16 of depth at a time."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

TILE, DEPTH, SIDE = 32, 16, 16
THREADS = SIDE * SIDE
_STEP = DEPTH + 1
"""Elements between rows in shared memory, so that rows start in different banks."""


@flyc.jit
def _fill(shared: fx.Array, x: fx.Tensor, row: fx.Int32, at: fx.Int32, rows: fx.Int32, depth: fx.Int32):
    """Rows `row ...` and columns `at ...` of a matrix, zeros outside of it."""
    for half in fx.range_constexpr(TILE * DEPTH // THREADS):
        i = fx.thread_idx.x + half * THREADS
        r, c = i // DEPTH, i % DEPTH
        value = fx.Float32(0)
        if (row + r < rows) & (at + c < depth):
            value = fx.Float32(x[row + r, at + c])
        shared[r * _STEP + c] = value


@fx.struct
class Shared:
    """What a block has in shared memory."""

    left: fx.Array[fx.Float32, TILE * _STEP]
    right: fx.Array[fx.Float32, TILE * _STEP]
    last: fx.Array[fx.Int32, 1]
    """For `sync.leave`."""


@flyc.jit
def tile_product(
    shared: Shared,
    a: fx.Tensor,
    b: fx.Tensor,
    row: fx.Int32,
    column: fx.Int32,
    rows: fx.Int32,
    columns: fx.Int32,
):
    """Four elements of this thread: rows `row + y` and 16 below, columns `column + x` and 16 further."""
    left, right = shared.left, shared.right
    depth = fx.Int32(a.shape.unpack()[1])
    y, x = fx.thread_idx.x // SIDE, fx.thread_idx.x % SIDE
    s00, s01, s10, s11 = fx.Float32(0), fx.Float32(0), fx.Float32(0), fx.Float32(0)
    for at in range(0, depth, DEPTH):
        _fill(left, a, row, at, rows, depth)
        _fill(right, b, column, at, columns, depth)
        fx.barrier()
        for d in range(DEPTH):
            a0, a1 = left[y * _STEP + d], left[(y + SIDE) * _STEP + d]
            b0, b1 = right[x * _STEP + d], right[(x + SIDE) * _STEP + d]
            s00, s01 = s00 + a0 * b0, s01 + a0 * b1
            s10, s11 = s10 + a1 * b0, s11 + a1 * b1
        fx.barrier()
    return ((0, 0, s00), (0, SIDE, s01), (SIDE, 0, s10), (SIDE, SIDE, s11))


__all__ = ["SIDE", "THREADS", "Shared", "TILE", "tile_product"]
