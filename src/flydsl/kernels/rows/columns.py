"""Sums over the columns of a matrix, in two stages and in an order that depends on its shape alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.nvgpu.target import trace_target

from .lines import either, unit_of, when, wide_of

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value

WIDTH, HEIGHT = 32, 16
"""Columns of a block, and threads for each of them."""
AHEAD = 4
"""Rows that a thread reads at once."""
THREADS = 128
"""Threads of a block that sums columns of a part."""


def starts_early() -> bool:
    """Whether a kernel may start before the one it depends on is done."""
    target = trace_target()
    return target is not None and target.has("dependent_launch")


@flyc.jit
def down(
    first: fx.Int32,
    m: fx.Int32,
    step: int | fx.Int32,
    sums: list[Value],
    work: Callable[[fx.Int32, list[Value]], list[Value]],
) -> list[Value]:
    for row in range(first, m, step):
        sums = work(row, sums)
    return sums


@flyc.kernel
def column_sums_kernel(
    x: fx.Tensor, out: fx.Tensor, y: fx.Tensor | None, out_y: fx.Tensor | None, m: fx.Int32, n: fx.Int32
):
    """Threads of a column take some rows each, in turn, then the first one adds what they have."""
    slots = fx.SharedAllocator().allocate(fx.Array[wide_of(x.dtype), WIDTH * HEIGHT, 16]).peek()
    if fx.const_expr(starts_early()):
        fx.nvgpu.griddepcontrol_wait()
    if fx.const_expr(y is not None and out_y is not None):
        either(
            fx.block_idx.y == 0, lambda: _sum_block(x, out, m, n, slots), lambda: _sum_block(y, out_y, m, n, slots)
        )  # fmt: skip
    else:
        _sum_block(x, out, m, n, slots)


def _sum_block(x: fx.Tensor, out: fx.Tensor, m: fx.Int32, n: fx.Int32, slots: fx.Array) -> None:
    """The columns of a block."""
    wide = wide_of(x.dtype)
    column, part = fx.block_idx.x * WIDTH + fx.thread_idx.x % WIDTH, fx.thread_idx.x // WIDTH
    at = fx.min(column, n - 1)

    def some(row: fx.Int32, sums: list[Value]) -> list[Value]:
        rows = [row + i * HEIGHT for i in range(AHEAD)]
        found = [wide(x[fx.min(r, m - 1), at]) for r in rows]
        return [a + (r < m).select(v, wide(0.0)) for a, r, v in zip(sums, rows, found, strict=True)]

    sums = down(part, m, HEIGHT * AHEAD, [wide(0.0)] * AHEAD, some)
    slots[fx.thread_idx.x] = (sums[0] + sums[1]) + (sums[2] + sums[3])
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
    sum_columns([(x, out)], m, n, stream)


def sum_columns(
    given: Sequence[tuple[fx.Tensor | None, fx.Tensor | None]], m: fx.Int32, n: fx.Int32, stream: fx.Stream
) -> None:
    """The same of one or two matrices of the same type, as a part of another function; None was not asked for."""
    pairs = [(x, out) for x, out in given if x is not None and out is not None]
    if not pairs:
        return
    x, out = pairs[0]
    y, out_y = pairs[1] if len(pairs) > 1 else (None, None)
    grid = (fx.ceildiv(n, WIDTH), len(pairs))
    column_sums_kernel(x, out, y, out_y, m, n).launch(
        grid=grid, block=WIDTH * HEIGHT, stream=stream, pdl=starts_early()
    )


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
    slices: fx.Int32,
    unit: fx.Constexpr[int],
):
    wide = wide_of(dy.dtype)
    column, part = (fx.block_idx.x * THREADS + fx.thread_idx.x) * unit, fx.block_idx.y
    at = fx.min(column, n - unit)

    def read(t: fx.Tensor, row: fx.Int32) -> Value:
        return t[row, at] if unit == 1 else unit_of(t[row, None], at, unit).load()

    def some(row: fx.Int32, sums: list[Value]) -> list[Value]:
        rows = [row + i * slices for i in range(AHEAD)]
        there = [fx.min(r, m - 1) for r in rows]
        found = [(read(dy, r), read(x, r)) for r in there]
        dw, db = sums
        for row, place, (g, v) in zip(rows, there, found, strict=True):
            g, v = g.to(wide), v.to(wide)
            # A row that there is not has a scale of 0, and no gradient.
            scale = (row < m).select(wide(scales[place]), wide(0.0))
            v = (v if means is None else v - wide(means[place])) * scale
            dw, db = dw + g * v, db + g * (row < m).select(wide(1.0), wide(0.0))
        return [dw, db]

    zero: Value = wide(0.0) if unit == 1 else fx.full((unit,), 0.0, wide)
    dw, db = down(part, m, slices * AHEAD, [zero, zero], some)

    def leave(t: fx.Tensor, sums: Value) -> None:
        if unit == 1:
            t[part, column] = sums
        else:
            unit_of(t[part, None], column, unit).store(sums)

    def finish() -> None:
        if dweights is not None:
            leave(dweights, dw)
        if dbiases is not None:
            leave(dbiases, db)

    when(column < n, finish)


@flyc.jit
def weight_sums(
    dy: fx.Tensor,
    x: fx.Tensor,
    means: fx.Tensor | None,
    scales: fx.Tensor,
    dweights: fx.Tensor | None,
    dbiases: fx.Tensor | None,
    dweight: fx.Tensor | None,
    dbias: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    slices: fx.Int32,
    unit: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):
    """dw and db of a norm for rows too long for registers, by sums over parts of the rows.

    Columns are read in aligned units of so many elements, all arrays alike.
    """
    weight_sums_kernel(dy, x, means, scales, dweights, dbiases, m, n, slices, unit).launch(
        grid=(fx.ceildiv(n, THREADS * unit), slices), block=THREADS, stream=stream
    )
    sum_columns([(dweights, dweight), (dbiases, dbias)], slices, n, stream)
