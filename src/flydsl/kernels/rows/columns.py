"""Sums over the columns of a matrix, in two stages and in an order that depends on its shape alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import flydsl.compiler as flyc
import flydsl.expr as fx

from .lines import when, wide_of

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value

WIDTH, HEIGHT = 32, 16
"""Columns of a block, and threads for each of them."""
AHEAD = 4
"""Rows that a thread reads at once."""
SLICES = 64
"""Parts of the rows of a tall matrix."""


@flyc.jit
def down(
    first: fx.Int32, m: fx.Int32, step: int, sums: list[Value], work: Callable[[fx.Int32, list[Value]], list[Value]]
) -> list[Value]:
    for row in range(first, m, step):
        sums = work(row, sums)
    return sums


@flyc.kernel
def column_sums_kernel(x: fx.Tensor, out: fx.Tensor, m: fx.Int32, n: fx.Int32):
    """Threads of a column take some rows each, in turn, then the first one adds what they have."""
    wide = wide_of(x.dtype)
    column, part = fx.block_idx.x * WIDTH + fx.thread_idx.x % WIDTH, fx.thread_idx.x // WIDTH
    at = fx.min(column, n - 1)

    def some(row: fx.Int32, sums: list[Value]) -> list[Value]:
        rows = [row + i * HEIGHT for i in range(AHEAD)]
        found = [wide(x[fx.min(r, m - 1), at]) for r in rows]
        return [a + (r < m).select(v, wide(0.0)) for a, r, v in zip(sums, rows, found, strict=True)]

    sums = down(part, m, HEIGHT * AHEAD, [wide(0.0)] * AHEAD, some)
    mine = (sums[0] + sums[1]) + (sums[2] + sums[3])
    slots = fx.SharedAllocator().allocate(fx.Array[wide, WIDTH * HEIGHT, 16]).peek()
    slots[fx.thread_idx.x] = mine
    fx.barrier()

    def finish() -> None:
        total = wide(0.0)
        for i in range(HEIGHT):
            total = total + slots[i * WIDTH + fx.thread_idx.x]
        out[column] = out.dtype(total)

    when((part == 0) & (column < n), finish)


@flyc.jit
def column_sums(x: fx.Tensor, out: fx.Tensor, m: fx.Int32, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    """The sum of each column."""
    sum_columns(x, out, m, n, stream)


def sum_columns(x: fx.Tensor, out: fx.Tensor, m: fx.Int32, n: fx.Int32, stream: fx.Stream) -> None:
    """The same, as a part of another function."""
    column_sums_kernel(x, out, m, n).launch(grid=fx.ceildiv(n, WIDTH), block=WIDTH * HEIGHT, stream=stream)


@flyc.kernel
def weight_sums_kernel(
    dy: fx.Tensor,
    x: fx.Tensor,
    means: fx.Tensor | None,
    scales: fx.Tensor,
    dweights: fx.Tensor | None,
    dbiases: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
):
    wide = wide_of(dy.dtype)
    column, part = fx.block_idx.x * fx.block_dim.x + fx.thread_idx.x, fx.block_idx.y
    at = fx.min(column, n - 1)

    def work(row: fx.Int32, sums: list[Value]) -> list[Value]:
        g = wide(dy[row, at])
        v = wide(x[row, at])
        v = (v if means is None else v - wide(means[row])) * wide(scales[row])
        return [sums[0] + g * v, sums[1] + g]

    dw, db = down(part, m, SLICES, [wide(0.0), wide(0.0)], work)

    def finish() -> None:
        if dweights is not None:
            dweights[part, column] = dw
        if dbiases is not None:
            dbiases[part, column] = db

    when(column < n, finish)


@flyc.jit
def weight_sums(
    dy: fx.Tensor,
    x: fx.Tensor,
    means: fx.Tensor | None,
    scales: fx.Tensor,
    dweights: fx.Tensor | None,
    dbiases: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    stream: fx.Stream = fx.Stream(None),
):
    """The sums of dw and db of a norm over every 64th row, for rows too long for registers."""
    weight_sums_kernel(dy, x, means, scales, dweights, dbiases, m, n).launch(
        grid=(fx.ceildiv(n, 256), SLICES), block=256, stream=stream
    )
