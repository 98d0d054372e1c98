"""The largest elements of rows one by one: a pass over the row finds the largest one below the one found before.

An element and its number make one integer of 64 bits that sorts as wanted: NaN first, then by value, equal ones in
their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..form import Form
from ..lines import MAX, Lines, Place, power
from ..softmax_kernels import blocks_for, row_of, top_and_sum
from .many import keys_of, number_of, rank_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from flydsl.expr.annotations import Value

HIGHEST, LOWEST = 2**63 - 1, -(2**63)


def _ranks(lines: Lines, at: Place) -> list[fx.Int64]:
    """The elements at a place as sortable integers."""
    return [rank_of(key, at.at + i) for i, key in enumerate(keys_of(lines.read("x", at), at.size))]


def _best(lines: Lines, below: Value) -> fx.Numeric:
    """The highest rank of the row below another."""

    def look(at: Place, so_far: list[Value]) -> list[Value]:
        best = so_far[0]
        for rank in _ranks(lines, at):
            counts = rank < below if at.here is True else (rank < below) & at.here
            best = fx.max(best, counts.select(rank, fx.Int64(LOWEST)))
        return [best]

    (mine,) = lines.collect([fx.Int64(LOWEST)], look)
    return lines.meet([cast("fx.Int64", mine)], [MAX])[0]


@flyc.kernel
def largest_kernel(
    x: fx.Tensor,
    values: fx.Tensor | None,
    numbers: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    what: fx.Constexpr[str],
    form: fx.Constexpr[Form],
):
    lines = Lines(form, row_of(form), m, n, fx.SharedAllocator(), x=x)
    lines.fetch("x")
    wide = lines.wide
    top, total = top_and_sum(lines, "x") if what != "values" else (wide(0.0), wide(1.0))
    line = lines.line(x)

    def find(j: fx.Int32, carried: list[Value]) -> list[Value]:
        below, chosen = carried
        found = _best(lines, below)
        at = number_of(cast("fx.Int64", found))
        value = wide(line[at])
        if what != "values":
            value = power(value - top) / total

        def leave() -> None:
            numbers[lines.row, j] = numbers.dtype(at)
            if values is not None:
                values[lines.row, j] = values.dtype(value)

        lines.first(leave)
        if form.team > fx.num_warp_threads():
            fx.barrier()  # before the next one uses the same shared memory
        return [found, chosen + value]

    _, chosen = count_up(k, [fx.Int64(HIGHEST), wide(0.0)], find)

    def norm() -> None:
        if values is not None:
            walk_up(k, lambda j: set_scaled(values, lines.row, j, wide, chosen))

    if fx.const_expr(what == "normed gates"):
        lines.first(norm)


def set_scaled(values: fx.Tensor, row: fx.Int32, j: fx.Int32, wide: type[fx.Numeric], by: Value) -> None:
    values[row, j] = values.dtype(wide(values[row, j]) / by)


@flyc.jit
def count_up(k: fx.Int32, carried: list[Value], work: Callable[[fx.Int32, list[Value]], list[Value]]) -> list[Value]:
    for j in range(k):
        carried = work(j, carried)
    return carried


@flyc.jit
def walk_up(k: fx.Int32, work: Callable[[fx.Int32], None]):
    for j in range(k):
        work(j)


@flyc.jit
def largest_rows(
    x: fx.Tensor,
    values: fx.Tensor | None,
    numbers: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    what: fx.Constexpr[str],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """The `k` largest elements of each row, or their share of the row's softmax, and their numbers."""
    largest_kernel(x, values, numbers, m, n, k, what, form).launch(
        grid=blocks_for(form, m), block=form.block, stream=stream
    )


__all__ = ["LOWEST", "count_up"]
