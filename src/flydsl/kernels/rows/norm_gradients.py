"""Gradients of RMS norm and layer norm.

With v the normed row (v = (x - mean) s), g = dy w and averages over the row: dx = s (g - avg(g v) v), less s avg(g) for
layer norm; dw = sum of dy v and db = sum of dy over the rows.

One pass makes all of it where a row fits registers: blocks stay and go from row to row, each thread sums its columns of
dw and db, and a second kernel adds the sums of the blocks (`columns.py`). Sums for which there are no registers wait in
shared memory; rows that are longer still have their columns summed in a pass of their own.
Every sum is taken in an order that depends on the shape alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from .columns import starts_early, sum_columns
from .form import MOST_THREADS, Form
from .lines import ADD, Lines, Place, wide_of
from .softmax_kernels import cluster_of, registers_for
from .staying import Stay, StayingLines, ring_bytes

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value


ROWS = ("dy", "x", "dsummed")
PIECE = 4
"""Sums of 16 bytes."""


class _Row:
    """A row in the gradient's words."""

    def __init__(self, lines: Lines, mean: fx.Numeric | None, scale: fx.Numeric):
        self.lines, self.wide, self.mean, self.scale = lines, lines.wide, mean, scale

    def normed(self, at: Place) -> Value:
        x = self.lines.read("x", at)
        return (x if self.mean is None else x - self.mean) * self.scale

    def weighted(self, at: Place) -> Value:
        dy = self.lines.read("dy", at)
        return dy * self.lines.read("weight", at) if "weight" in self.lines.arrays else dy

    def write(self) -> None:
        """Find the averages, and write dx."""
        lines, count = self.lines, self.wide(self.lines.n)
        if self.mean is None:
            (along,) = lines.fold(lambda at: [self.weighted(at) * self.normed(at)], [ADD])
            level = None
        else:
            along, total = lines.fold(
                lambda at: [self.weighted(at) * self.normed(at), self.weighted(at)], [ADD, ADD]
            )  # fmt: skip
            level = total / count
        along = along / count

        def finish(at: Place) -> None:
            dx = self.weighted(at) - self.normed(at) * along
            dx = (dx if level is None else dx - level) * self.scale
            if "dsummed" in lines.arrays:
                dx = dx + lines.read("dsummed", at)
            lines.write("dx", at, dx)

        lines.each(finish)


class _Pool:
    """Sums of a thread in shared memory, in pieces of 16 bytes; nobody else sees them."""

    def __init__(self, form: Form, kinds: int, begin: int):
        self.form, self.count, self.begin = form, kinds * form.turns, begin
        zero = fx.full((PIECE,), 0.0, fx.Float32)
        for piece in self._pieces():
            piece.store(zero)

    def _pieces(self) -> list[fx.Tensor]:
        base, step = fx.get_dyn_shared(fx.Float32) + self.begin // 4, self.form.block * PIECE
        places = [base + (number * step + fx.thread_idx.x * PIECE) for number in range(self.count * self._each)]
        return [fx.make_view(place, fx.make_layout(PIECE, 1)) for place in places]

    @property
    def _each(self) -> int:
        """Pieces of a unit."""
        return self.form.unit // PIECE

    def add(self, terms: Sequence[Value]) -> None:
        """A term for each sum."""
        parts = [part for term in terms for part in _cut(cast("fx.Vector", term))]
        for piece, part in zip(self._pieces(), parts, strict=True):
            piece.store(piece.load() + part)

    def sums(self) -> list[Value]:
        found = [cast("fx.Vector", piece.load()) for piece in self._pieces()]
        each = self._each
        groups = [found[i : i + each] for i in range(0, len(found), each)]
        return [fx.Vector.from_elements([v[i] for v in group for i in range(PIECE)], fx.Float32) for group in groups]


def _cut(term: fx.Vector) -> list[fx.Vector]:
    count = term.numel
    return [
        fx.Vector.from_elements([term[i] for i in range(first, first + PIECE)], fx.Float32)
        for first in range(0, count, PIECE)
    ]


def _weights(lines: Lines) -> Lines:
    lines.fetch("weight")
    return lines


def pool_bytes(form: Form, kinds: int) -> int:
    """Shared memory of a block for sums that wait there."""
    return kinds * form.turns * form.unit * form.block * 4 if form.pooled else 0


@flyc.kernel
def norm_back_kernel(
    dy: fx.Tensor,
    x: fx.Tensor,
    weight: fx.Tensor | None,
    means: fx.Tensor | None,
    scales: fx.Tensor,
    dsummed: fx.Tensor | None,
    dx: fx.Tensor,
    dweights: fx.Tensor | None,
    dbiases: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    form: fx.Constexpr[Form],
):
    kinds = (dweights is not None) + (dbiases is not None)
    if fx.const_expr(kinds > 0 and starts_early()):
        fx.nvgpu.griddepcontrol_launch()  # what adds the blocks' sums may get ready: it waits for all of them
    pool = _Pool(form, kinds, ring_bytes(form, weight is not None)) if form.pooled else None
    work = _Work(form, means, scales, dweights is not None, dbiases is not None, pool)
    if fx.const_expr(form.ring > 0):
        stay = Stay(form, {"dy": dy, "x": x, "dsummed": dsummed}, m, n, {"weight": weight})
        shared, place = stay.shared, fx.Int32(0)
        stay.await_vectors()

        def one(lines: StayingLines, given: Sequence[Value], sums: list[Value]) -> list[Value]:
            return work.on(lines, given, sums)

        sums = stay.fold_rows(work.zeros(dy.dtype), one, {"dx": dx}, work.ask)
    else:
        shared = fx.SharedAllocator()
        place = fx.thread_idx.x // form.team if form.rows > 1 else fx.Int32(0)
        sums = _in_registers(work, form, shared, place, dy, x, weight, dsummed, dx, m, n)
    if pool is not None:
        sums = pool.sums()
    if fx.const_expr(kinds > 0):
        # Teams leave a row of sums each, whether they had rows or not.
        lines = Lines(
            form, fx.block_idx.x * form.rows + place, fx.grid_dim.x * form.rows, n, shared,
            dweights=dweights, dbiases=dbiases,
        )  # fmt: skip
        names = [name for name, t in (("dweights", dweights), ("dbiases", dbiases)) if t is not None]
        for number, name in enumerate(names):
            for turn, at in enumerate(lines.turns()):
                lines.write(name, at, sums[number * form.turns + turn])


class _Work:
    """What is done with each row, wherever it comes from."""

    def __init__(
        self,
        form: Form,
        means: fx.Tensor | None,
        scales: fx.Tensor,
        weights: bool,
        biases: bool,
        pool: _Pool | None,
    ):
        self.form, self.pool, self.weights, self.biases = form, pool, weights, biases
        self.centred = means is not None
        self.parameters = [t for t in (means, scales) if t is not None]
        self.count = 0 if pool is not None else (weights + biases) * form.turns

    def zeros(self, dtype: type[fx.Numeric]) -> list[Value]:
        """Sums of no rows."""
        wide = wide_of(dtype)
        zero: Value = fx.full((self.form.unit,), 0.0, wide) if self.form.unit > 1 else wide(0.0)
        return [zero] * self.count

    def ask(self, row: fx.Int32) -> list[Value]:
        """The statistics of a row."""
        return [t[row] for t in self.parameters]

    def on(self, lines: Lines, given: Sequence[Value], sums: Sequence[Value]) -> list[Value]:
        """Write dx of a row of these statistics, and add to the sums."""
        found = [cast("fx.Numeric", v).to(lines.wide) for v in given]
        row = _Row(lines, found[0] if self.centred else None, found[-1])
        row.write()
        made: list[Value] = []
        if self.weights:
            made += lines.terms(lambda at: lines.read("dy", at) * row.normed(at))
        if self.biases:
            made += lines.terms(lambda at: lines.read("dy", at))
        if self.pool is not None:
            self.pool.add(made)
            return []
        return [a + b for a, b in zip(sums, made, strict=True)]


def _in_registers(
    work: _Work,
    form: Form,
    shared: fx.SharedAllocator,
    place: fx.Int32,
    dy: fx.Tensor,
    x: fx.Tensor,
    weight: fx.Tensor | None,
    dsummed: fx.Tensor | None,
    dx: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
) -> list[Value]:
    """The sums of all rows of a block, where the next row comes into registers."""
    first, step = fx.block_idx.x * form.rows, fx.grid_dim.x * form.rows
    if form.cluster > 1:
        first, step = fx.block_idx.x // form.cluster, fx.grid_dim.x // form.cluster

    def row_at(base: fx.Int32) -> Lines:
        return Lines(form, base + place, m, n, shared, dy=dy, x=x, weight=weight, dsummed=dsummed, dx=dx)

    stays, count = work.weights or work.biases, work.count
    # Beside longer rows a block that has all threads of a multiprocessor finds no registers for the next one.
    ahead = stays and not (form.pooled and form.block == MOST_THREADS)
    known = len(work.parameters)
    last = (m - 1) // form.rows * form.rows

    def ask(lines: Lines) -> list[Value]:
        """What is read of a row."""
        found = work.ask(lines.row)
        lines.fetch(*ROWS)
        return [*found, *lines.held(*ROWS)]

    # Blocks that sum columns stay: the weight is the same for all their rows, and the next row comes while they work
    # on one; behind the last it is that again.
    weights = _weights(row_at(first)) if stays and not form.pooled else None

    def one(base: fx.Int32, carried: list[Value]) -> list[Value]:
        sums, given = carried[:count], carried[count:]
        lines = row_at(base)
        coming: list[Value] = []
        if weights is not None:
            lines.take(weights.held("weight"), "weight")
        if ahead:
            coming = ask(row_at(fx.min(base + step, last)))
            lines.take(given[known:], *ROWS)
        elif stays:
            given = ask(lines)
        else:
            given = work.ask(lines.row)
            lines.fetch(*ROWS, "weight")
        sums = work.on(lines, given[:known], sums)
        if form.team > fx.num_warp_threads():
            fx.barrier()  # before the next row uses the same shared memory
        return [*sums, *coming]

    start = [*work.zeros(dy.dtype), *(ask(row_at(first)) if ahead else [])]
    return over_rows(first, m, step, start, one)[:count]


@flyc.jit
def over_rows(
    first: fx.Int32,
    m: fx.Int32,
    step: fx.Int32,
    sums: list[Value],
    work: Callable[[fx.Int32, list[Value]], list[Value]],
) -> list[Value]:
    for base in range(first, m, step):
        sums = work(base, sums)
    return sums


@flyc.jit
def norm_back(
    dy: fx.Tensor,
    x: fx.Tensor,
    weight: fx.Tensor | None,
    means: fx.Tensor | None,
    scales: fx.Tensor,
    dsummed: fx.Tensor | None,
    dx: fx.Tensor,
    dweights: fx.Tensor | None,
    dbiases: fx.Tensor | None,
    dweight: fx.Tensor | None,
    dbias: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    blocks: fx.Int32,
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """dx, plus `dsummed` where it is given; and dw and db, by a row of sums of every team of every block."""
    norm_back_kernel(
        dy, x, weight, means, scales, dsummed, dx, dweights, dbiases, m, n, form, value_attrs=registers_for(form)
    ).launch(
        grid=blocks, block=form.block, cluster=cluster_of(form),
        smem=pool_bytes(form, (dweights is not None) + (dbiases is not None)) + ring_bytes(form, weight is not None),
        stream=stream,
    )  # fmt: skip
    sum_columns([(dweights, dweight), (dbiases, dbias)], blocks * form.rows, n, stream)
