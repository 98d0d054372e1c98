"""Blocks that stay: weights lie in shared memory, and rows pass through it.

A block, or a cluster of them, takes one row after the other. Its part of a row is cut into chunks of a unit of each
thread, which bulk copies bring into a ring: as soon as all threads have read a row, which they have when they meet,
the copies of what comes later start, so that memory is read all the time. What a row is multiplied with and what is
added to it is read from memory once by each block, not with every row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from .form import UNIT_BYTES, Form
from .lines import Lines, Place, unit_of, when

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value


def ring_bytes(form: Form, vectors: int) -> int:
    """Shared memory of a block for its vectors and the ring."""
    return (vectors * form.turns + form.ring) * form.block * UNIT_BYTES if form.ring else 0


class StayingLines(Lines):
    """A row that came through the ring, and vectors beside it that lie in shared memory."""

    def __init__(self, stay: Stay, row: fx.Int32, **arrays: fx.Tensor | None):
        super().__init__(stay.form, row, stay.m, stay.n, stay.shared, **arrays)
        self._stay = stay

    def _load(self, name: str, at: Place, row: fx.Int32 | None) -> Value:
        if name in self._stay.vectors and at.key is not None and at.size > 1:
            return self._stay.vector(name, at.key)
        return super()._load(name, at, row)


class Stay:
    """What a block keeps from row to row."""

    def __init__(self, form: Form, x: fx.Tensor, m: fx.Int32, n: fx.Int32, vectors: dict[str, fx.Tensor | None]):
        nv = fx.nvgpu
        self.form, self.x, self.m, self.n = form, x, m, n
        self.vectors = {name: v for name, v in vectors.items() if v is not None}
        self.shared = fx.SharedAllocator()
        self.first, self.step = fx.block_idx.x // form.cluster, fx.grid_dim.x // form.cluster
        self.begin = nv.cluster.rank() * form.block if form.cluster > 1 else fx.Int32(0)
        self.units = n // form.unit
        self.full = nv.MBarrier(self.shared.allocate(fx.Array[fx.Int64, form.ring + 1, 8]).peek().ptr)
        chunks = form.turns * len(self.vectors) + form.ring
        size = form.block * form.unit
        layout = fx.make_layout((form.unit, form.block, chunks), (1, form.unit, size))
        self.chunks = fx.make_view(fx.get_dyn_shared(x.dtype), layout)
        self._start()

    def _start(self) -> None:
        form = self.form
        ready = self.full[form.ring]

        def set_up() -> None:
            for i in range(form.ring + 1):
                self.full[i].init(1)
            fx.nvgpu.fence_mbarrier_init()

        def bring() -> None:
            for number in range(form.ring):
                ahead, turn = divmod(number, form.turns)
                self._bring(self.first + ahead * self.step, turn, fx.Int32(number))
            if not self.vectors:
                return
            counts = [self._units(fx.Int32(turn)) for turn in range(form.turns)]
            total = counts[0]
            for count in counts[1:]:
                total = total + count
            ready.expect_tx(total * (UNIT_BYTES * len(self.vectors)))
            for place, v in enumerate(self.vectors.values()):
                for turn, count in enumerate(counts):
                    number = place * form.turns + turn
                    self._copy(v, fx.Int32(turn), self.chunks[None, None, number], ready, count)

        leads = fx.thread_idx.x == 0
        when(leads, set_up)
        if form.cluster > 1:
            fx.nvgpu.cluster.sync()
        else:
            fx.barrier()
        when(leads, bring)

    def _units(self, turn: fx.Int32) -> fx.Int32:
        """Units of this block in a turn."""
        form = self.form
        return fx.min(fx.max(self.units - turn * form.team - self.begin, fx.Int32(0)), fx.Int32(form.block))

    def _copy(
        self, line: fx.Tensor, turn: fx.Int32, place: fx.Tensor, barrier: fx.nvgpu.MBarrier, count: fx.Int32
    ) -> None:
        """Start the copy of a turn's units of a line, where it has some."""
        start = unit_of(line, (turn * self.form.team + self.begin) * self.form.unit, self.form.unit)

        def copy() -> None:
            fx.nvgpu.bulk_load(fx.get_iter(start), place, barrier, nbytes=count * UNIT_BYTES)

        when(count > 0, copy)

    def _bring(self, row: fx.Int32, turn: int, stage: fx.Int32) -> None:
        """Start the copy of a chunk of a row, if there is such a row."""
        form, at = self.form, fx.Int32(turn)

        def bring() -> None:
            count, barrier = self._units(at), self.full[stage]
            barrier.expect_tx(count * UNIT_BYTES)
            place = self.chunks[None, None, stage + form.turns * len(self.vectors)]
            self._copy(self.x[row, None], at, place, barrier, count)

        when(row < self.m, bring)

    def vector(self, name: str, turn: int) -> Value:
        """The thread's unit of a vector."""
        first = fx.Int32(list(self.vectors).index(name) * self.form.turns)
        return self._unit(turn, first + turn, first)

    def _unit(self, turn: int, chunk: fx.Int32, first: fx.Int32) -> Value:
        """The thread's unit of a chunk; one of the chunk, or of that of the first turn, where the last has none."""
        thread = fx.thread_idx.x
        if turn and turn == self.form.turns - 1:
            count = self._units(fx.Int32(turn))
            chunk = (count > 0).select(chunk, first)
            thread = fx.min(thread, fx.max(count - 1, 0))
        elif not turn and self.form.turns == 1:
            thread = fx.min(thread, self._units(fx.Int32(0)) - 1)
        return self.chunks[None, thread, chunk].load()

    def ready(self) -> None:
        """Wait for the vectors."""
        if self.vectors:
            self.full[self.form.ring].wait(0)

    def _read(self, stage: fx.Int32, phase: fx.Int32) -> list[Value]:
        """The thread's units of a row, the first of which lies at `stage` of the ring."""
        form, base = self.form, self.form.turns * len(self.vectors)
        found: list[Value] = []
        for turn in range(form.turns):
            at, parity = self._further(stage, phase, turn)
            self.full[at].wait(parity)
            found.append(self._unit(turn, base + at, base + stage))
        return found

    def _further(self, stage: fx.Int32, phase: fx.Int32, count: int) -> tuple[fx.Int32, fx.Int32]:
        """So many chunks further on in the ring."""
        at, ring = stage + count, self.form.ring
        if count < self.form.turns and ring % self.form.turns == 0:
            return at, phase
        again = at >= ring
        return again.select(at - ring, at), again.select(1 - phase, phase)

    def over_rows(self, work: Callable[[StayingLines, Callable[[], None]], None], **arrays: fx.Tensor | None) -> None:
        """`work` on each row; it calls what it is given as soon as all threads have read the row."""
        form = self.form
        ahead, first = divmod(form.ring, form.turns)

        def one(row: fx.Int32, carried: Sequence[Value]) -> list[Value]:
            stage, phase, turn = (cast("fx.Int32", v) for v in carried)
            lines = StayingLines(self, row, x=self.x, **self.vectors, **arrays)
            lines.take(self._read(stage, phase), "x")
            lines.round = turn

            def release() -> None:
                def bring() -> None:
                    # What comes into the places of this row: the rest of a row that has begun, and of the next one.
                    for i in range(form.turns):
                        more, which = divmod(first + i, form.turns)
                        self._bring(row + (ahead + more) * self.step, which, self._further(stage, phase, i)[0])

                when(fx.thread_idx.x == 0, bring)

            work(lines, release)
            return [*self._further(stage, phase, form.turns), 1 - turn]

        _over_rows(self.first, self.m, self.step, [fx.Int32(0)] * 3, one)


@flyc.jit
def _over_rows(
    first: fx.Int32,
    m: fx.Int32,
    step: fx.Int32,
    values: list[Value],
    work: Callable[[fx.Int32, list[Value]], list[Value]],
) -> list[Value]:
    for row in range(first, m, step):
        values = work(row, values)
    return values


__all__ = ["Stay", "StayingLines", "ring_bytes"]
