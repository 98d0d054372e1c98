"""Blocks that stay: weights lie in shared memory, and rows pass through it.

A block, or a cluster of them, takes one row after the other. Its part of a row is cut into chunks of a unit of each
thread, which bulk copies bring into a ring: as soon as all threads have read a row, which they have when they meet,
the copies of what comes later start, so that memory is read all the time. What a row is multiplied with and what is
added to it is read from memory once by each block, not with every row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from .form import UNIT_BYTES, Form
from .lines import Lines, Place, unit_of, units_within, when

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value


Meeting = Callable[[Sequence[fx.Numeric]], tuple[list[list[fx.Numeric]], int]]
"""How the warps of a row get each other's values: as `Lines.join` gives them."""
WORDS = UNIT_BYTES // 4


def ring_bytes(form: Form, vectors: int) -> int:
    """Shared memory of a block for its vectors and the ring."""
    return (vectors * form.turns * _vector_units(form) + form.ring * form.block) * UNIT_BYTES if form.ring else 0


def _vector_units(form: Form) -> int:
    """Units of a vector that go with a chunk; where rows lie across them, one more."""
    return form.block + bool(form.shifted)


class StayingLines(Lines):
    """A row that came through the ring, and vectors beside it that lie in shared memory."""

    def __init__(self, stay: Stay, row: fx.Int32, meet: Meeting | None = None, **arrays: fx.Tensor | None):
        super().__init__(stay.form, row, stay.m, stay.n, stay.shared, **arrays)
        self._stay, self._meeting = stay, meet

    def _gather(self, values: Sequence[fx.Numeric]) -> tuple[list[list[fx.Numeric]], int]:
        meet, self._meeting = self._meeting, None
        assert meet is not None, "the threads of a row that came through the ring meet once"
        return meet(values)

    def _load(self, name: str, at: Place, row: fx.Int32 | None) -> Value:
        if name not in self._stay.vectors or at.key is None or at.size == 1:
            return super()._load(name, at, row)
        pair = self._stay.vector(name, at.key, self.body)
        return self._across(self.arrays[name], pair) if len(pair) > 1 else pair[0]

    def edge(self, *names: str) -> list[Value]:
        """What the thread has of arrays at the edge of the row, if there are edges."""
        return [self._raw(name, at, None) for name in names for at in self._edge()]

    def take_edge(self, values: Sequence[Value], *names: str) -> None:
        """Use what was read there before."""
        keys = [(name, cast(int, at.key)) for name in names for at in self._edge()]
        self._kept.update(zip(keys, values, strict=True))


class Stay:
    """What a block keeps from row to row; the rows of several matrices come through the ring one after the other."""

    def __init__(
        self,
        form: Form,
        rows: dict[str, fx.Tensor | None],
        m: fx.Int32,
        n: fx.Int32,
        vectors: dict[str, fx.Tensor | None],
    ):
        nv = fx.nvgpu
        self.form, self.m, self.n = form, m, n
        self.rows, self.vectors = ({name: t for name, t in some.items() if t is not None} for some in (rows, vectors))
        dtype = next(iter(self.rows.values())).dtype
        self.chunks, self._waited = form.turns * len(self.rows), False
        self.shared = fx.SharedAllocator()
        self.first, self.step = fx.block_idx.x // form.cluster, fx.grid_dim.x // form.cluster
        self.begin = nv.cluster.rank() * form.block if form.cluster > 1 else fx.Int32(0)
        self.full = nv.MBarrier(self.shared.allocate(fx.Array[fx.Int64, form.ring + 3, 8]).peek().ptr)
        base, unit = fx.get_dyn_shared(dtype), form.unit
        wide, chunks = _vector_units(form), form.turns * len(self.vectors)
        self.kept = fx.make_view(base, fx.make_layout((unit, wide, max(chunks, 1)), (1, unit, wide * unit)))
        size = form.block * unit
        self.ring = fx.make_view(
            base + chunks * wide * unit, fx.make_layout((unit, form.block, form.ring), (1, unit, size))
        )
        # Two places for what warps leave, in turns: others may still be reading the values of the row before.
        warps = form.team // fx.num_warp_threads()
        self.found = self.shared.allocate(fx.Array[fx.Float32, 2 * warps * WORDS, UNIT_BYTES]).peek().ptr
        self.left = self.found
        if form.cluster > 1:
            own = warps // form.cluster
            self.left = self.shared.allocate(fx.Array[fx.Float32, 2 * own * WORDS, UNIT_BYTES]).peek().ptr
        self._start()

    def _start(self) -> None:
        form = self.form
        ready = self.full[form.ring]

        def set_up() -> None:
            for i in range(form.ring + 1):
                self.full[i].init(1)
            for i in range(2 if form.cluster > 1 else 0):
                self.full[form.ring + 1 + i].init(form.cluster)

        def bring() -> None:
            for number in range(form.ring):
                ahead, chunk = divmod(number, self.chunks)
                self._bring(self.first + ahead * self.step, chunk, fx.Int32(number))
            if not self.vectors:
                return
            most = _vector_units(form)
            counts = [self._units(turn, self.n // form.unit, most) for turn in range(form.turns)]
            total = counts[0]
            for count in counts[1:]:
                total = total + count
            ready.expect_tx(total * (UNIT_BYTES * len(self.vectors)))
            for place, v in enumerate(self.vectors.values()):
                for turn, count in enumerate(counts):
                    number = place * form.turns + turn
                    self._copy(v, fx.Int32(0), turn, self.kept[None, None, number], ready, count)

        leads = fx.thread_idx.x == 0
        when(leads, set_up)
        if form.cluster > 1:
            fx.nvgpu.cluster.sync()
        else:
            fx.barrier()
        when(leads, bring)

    def _units(self, turn: int, units: fx.Int32, most: int) -> fx.Int32:
        """Of the units of a line those of this block in a turn."""
        return fx.min(fx.max(units - turn * self.form.team - self.begin, fx.Int32(0)), fx.Int32(most))

    def _copy(
        self,
        line: fx.Tensor,
        head: fx.Int32,
        turn: int,
        place: fx.Tensor,
        barrier: fx.nvgpu.MBarrier,
        count: fx.Int32,
        evict: str | None = None,
    ) -> None:
        """Start the copy of a turn's units of a line, where it has some."""
        start = unit_of(line, head + (turn * self.form.team + self.begin) * self.form.unit, self.form.unit)

        def copy() -> None:
            fx.nvgpu.bulk_load(fx.get_iter(start), place, barrier, nbytes=count * UNIT_BYTES, evict=evict)

        when(count > 0, copy)

    def _bring(self, row: fx.Int32, chunk: int, stage: fx.Int32) -> None:
        """Start the copy of a chunk of a row, if there is such a row."""
        form = self.form
        which, turn = divmod(chunk, form.turns)
        matrix = list(self.rows.values())[which]

        def bring() -> None:
            line = matrix[row, None]
            head, body = units_within(form, line, self.n)
            count, barrier = self._units(turn, body, form.block), self.full[stage]
            barrier.expect_tx(count * UNIT_BYTES)
            evict = "first" if form.streamed else None
            self._copy(line, head, turn, self.ring[None, None, stage], barrier, count, evict)

        when(row < self.m, bring)

    def await_vectors(self) -> None:
        """Wait for the vectors before the first row: otherwise threads do it when they meet, and read them later."""
        self._await_vectors()
        self._waited = True

    def _await_vectors(self) -> None:
        if self.vectors and not self._waited:
            self.full[self.form.ring].wait(0)

    def vector(self, name: str, turn: int, body: fx.Int32) -> list[fx.Vector]:
        """The thread's unit of a vector, or the two that its unit of a row of `body` units lies across."""
        first = list(self.vectors).index(name) * self.form.turns
        thread, chunk = self._place(turn, body, fx.Int32(first + turn), fx.Int32(first))
        places = (thread, thread + 1) if self.form.shifted else (thread,)
        return [self.kept[None, at, chunk].load() for at in places]

    def _place(self, turn: int, body: fx.Int32, chunk: fx.Int32, first: fx.Int32) -> tuple[fx.Int32, fx.Int32]:
        """The thread's unit in a chunk of a row; another's, maybe of the first turn, where the last turn has none."""
        thread = fx.Int32(fx.thread_idx.x)
        if turn < self.form.turns - 1:
            return thread, chunk
        count = self._units(turn, body, self.form.block)
        if turn:
            chunk = (count > 0).select(chunk, first)
        return fx.min(thread, fx.max(count - 1, 0)), chunk

    def _read(self, body: fx.Int32, stage: fx.Int32, phase: fx.Int32) -> list[Value]:
        """The thread's units of a row of each matrix, the first of which lies at `stage` of the ring."""
        found: list[Value] = []
        first = stage
        for chunk in range(self.chunks):
            at, parity = self._further(stage, phase, chunk)
            turn = chunk % self.form.turns
            first = at if turn == 0 else first
            self.full[at].wait(parity)
            thread, place = self._place(turn, body, at, first)
            found.append(self.ring[None, thread, place].load())
        return found

    def _further(self, stage: fx.Int32, phase: fx.Int32, count: int) -> tuple[fx.Int32, fx.Int32]:
        """So many chunks further on in the ring."""
        at, ring = stage + count, self.form.ring
        if count < self.chunks and ring % self.chunks == 0:
            return at, phase
        again = at >= ring
        return again.select(at - ring, at), again.select(1 - phase, phase)

    def _meet(
        self, values: Sequence[fx.Numeric], number: fx.Int32, release: Callable[[], None]
    ) -> tuple[list[list[fx.Numeric]], int]:
        """The values of all warps of row `number` of this block; `release` is called when its threads have read it."""
        form, lanes = self.form, fx.num_warp_threads()
        thread, turn = fx.Int32(fx.thread_idx.x), number % 2
        warps = form.team // lanes
        own = warps // form.cluster
        several = form.cluster > 1
        left, found = (
            fx.make_view(place, fx.make_layout((WORDS, count, 2), (1, WORDS, WORDS * count)))
            for place, count in ((self.left, own), (self.found, warps))
        )
        rank = fx.nvgpu.cluster.rank() if several else fx.Int32(0)

        def leave() -> None:
            words = [*values, *[fx.Float32(0.0)] * (WORDS - len(values))]
            unit = fx.Vector.from_elements(words, fx.Float32)
            found[None, rank * own + thread // lanes, turn].store(unit)
            if several:
                left[None, thread // lanes, turn].store(unit)
                fx.nvgpu.fence_proxy_async()

        when(thread % lanes == 0, leave)
        fx.barrier()
        if several:
            # A barrier of the cluster would wait for all that was stored, and forget the caches.
            here = self.full[form.ring + 1 + turn]
            place = fx.make_view(
                fx.get_iter(found), fx.make_layout((WORDS * own, form.cluster, 2), (1, WORDS * own, WORDS * warps))
            )
            source = fx.make_view(fx.get_iter(left), fx.make_layout((WORDS * own, 2), (1, WORDS * own)))

            assert own >= form.cluster, "a warp for each block of the cluster"

            def send() -> None:
                to = thread // lanes
                fx.nvgpu.bulk_send(source[None, turn], place[None, rank, turn], here, to, nbytes=own * UNIT_BYTES)
                here.arrive_remote(to)  # all that this block has read is behind it

            when(thread == 0, lambda: here.expect_tx((warps - own) * UNIT_BYTES))
            sends = (thread % lanes == 0) & (thread < form.cluster * lanes)
            when(sends & (thread // lanes != rank), send)
            release()
            here.wait(number // 2 % 2)
        else:
            release()
        self._await_vectors()
        width = min(warps, lanes)
        lane = thread % width
        units = [found[None, lane + i * width, turn].load() for i in range(warps // width)]
        return [[u[i] for u in units] for i in range(len(values))], width

    def over_rows(self, work: Callable[[StayingLines], None], **arrays: fx.Tensor | None) -> None:
        """`work` on each row."""

        def alone(lines: StayingLines, _: Sequence[Value], values: list[Value]) -> list[Value]:
            work(lines)
            return values

        self.fold_rows([], alone, arrays)

    def fold_rows(
        self,
        values: Sequence[Value],
        work: Callable[[StayingLines, Sequence[Value], list[Value]], list[Value]],
        arrays: Mapping[str, fx.Tensor | None],
        ask: Callable[[fx.Int32], list[Value]] | None = None,
    ) -> list[Value]:
        """Values carried from row to row; `work` also gets what was read of its row by `ask`, with the row before."""
        form = self.form
        ahead, first = divmod(form.ring, self.chunks)

        def lines_of(row: fx.Int32, meet: Meeting | None = None) -> StayingLines:
            return StayingLines(self, row, meet, **self.rows, **self.vectors, **arrays)

        def asked(row: fx.Int32) -> tuple[list[Value], list[Value]]:
            return lines_of(row).edge(*self.rows), [] if ask is None else ask(row)

        edge, given = asked(fx.min(self.first, self.m - 1))
        begin = 3 + len(edge)
        end = begin + len(given)

        def one(row: fx.Int32, carried: Sequence[Value]) -> list[Value]:
            stage, phase, number = (cast("fx.Int32", v) for v in carried[:3])

            def release() -> None:
                def bring() -> None:
                    # What comes into the places of this row: the rest of a row that has begun, and of the next one.
                    for i in range(self.chunks):
                        more, which = divmod(first + i, self.chunks)
                        self._bring(row + (ahead + more) * self.step, which, self._further(stage, phase, i)[0])

                when(fx.thread_idx.x == 0, bring)

            lines = lines_of(row, lambda values: self._meet(values, number, release))
            # What lies at edges comes from memory: of the row with the row before, of vectors before they are needed.
            lines.take_edge(carried[3:begin], *self.rows)
            further = row + self.step
            coming = asked((further < self.m).select(further, row))
            lines.edge(*self.vectors)
            lines.take(self._read(lines.body, stage, phase), *self.rows)
            made = work(lines, carried[begin:end], list(carried[end:]))
            return [*self._further(stage, phase, self.chunks), number + 1, *coming[0], *coming[1], *made]

        start = [*[fx.Int32(0)] * 3, *edge, *given, *values]
        found = _over_rows(self.first, self.m, self.step, start, one)
        if form.cluster > 1:
            fx.nvgpu.cluster.sync()  # nobody leaves while its values are on their way
        return found[end:]


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
