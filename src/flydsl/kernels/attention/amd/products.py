"""A wave's products and the softmax between them, in registers.

A lane has one query of each 16, and of every 16 keys `run` neighbours; the others of its query are in the lanes 16
apart. Maxima cross them in steps that outgrow them, sums at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import flydsl.expr as fx

from ...matmul.amd.kernel import UNIT_SCALE
from ..dropout import Drop, shares_of_lanes
from ..plain import Extras, Kind, Sight, Steps
from ..softmax import LOG2E
from . import places
from .softmax import add, added, larger, largest, narrowed, over_groups
from .tile import Cut, Machine, Tile

LIFT = 8
"""Weights of 8 bits are so many powers of two larger: there is more room above one than below."""
LAZY = {1: 0.75, 2: 8.0}
"""A maximum that grows by less than 2 to this power stays what it was: weights may be so much larger. By the bytes of
one: 448 is the most that those of 8 bits hold."""


class Where(NamedTuple):
    """The lane's first query, the keys it may see, and what they are of."""

    row: fx.Int32
    queries: fx.Int32
    keys: fx.Int32
    batch: fx.Int32
    head: fx.Int32
    heads: fx.Int32

    @property
    def shift(self) -> fx.Int32:
        return self.keys - self.queries


class Products:
    """What a wave holds: queries, scores, sums, and the rows' maxima and totals."""

    def __init__(
        self,
        tile: Tile,
        machine: Machine,
        kind: Kind,
        dtype: type[fx.Numeric],
        cuts: tuple[Cut, Cut],
        lane: fx.Int32,
        where: Where,
    ) -> None:
        self.tile, self.machine, self.kind, self.dtype, self.where = tile, machine, kind, dtype, where
        self.part, self.run = lane // 16, machine.run
        self.high, self.wide, self.deep = tile.rows // 16, tile.n // 16, tile.dv // 16
        # A read is multiplied with all rows; where that takes short, more of them are under way.
        self.ahead = 8 if machine.unit == machine.each and machine.lanes == 64 else 4
        self.reader = places.Reader(tile, machine, *cuts, lane)
        self.atom = instruction(dtype, machine)
        self.more = {"scale_a": UNIT_SCALE, "scale_b": UNIT_SCALE} if machine.instruction == "mfma_scale" else {}
        self.scores = [[places.registers(self.run, fx.Float32) for _ in range(self.wide)] for _ in range(self.high)]
        self.sums = [[places.registers(self.run, fx.Float32) for _ in range(self.deep)] for _ in range(self.high)]
        self.lift = float(LIFT if machine.size == 1 else 0)
        self.limit, self.addend = (places.registers(self.high, fx.Float32) for _ in range(2))
        """What no score may exceed without a new maximum, and what is added to a score in the exponent."""
        self.limit.fill(float("-inf"))
        self.addend.fill(self.lift)
        self.total = [places.registers(2, fx.Float32) for _ in range(self.high)]
        """Sums of the lane's weights, in two parts: they are added two at once."""
        for x in self.total:
            x.fill(0.0)
        for line in self.sums:
            for x in line:
                x.fill(0.0)
        self.asked: list[list[fx.Vector]] = []

    def ask(self, source: fx.Pointer, row: fx.Int32, first: fx.Int32) -> None:
        """Load queries; `first` is the wave's first row."""
        m = self.machine
        for i in range(self.high):
            parts: list[fx.Vector] = []
            for r in range(self.tile.d // m.span):
                found = places.registers(m.unit, self.dtype)
                at = (first + 16 * i) * row + (r * m.groups + self.part) * m.unit
                places.load_unit(source + at, found)
                parts.append(found.load())
            self.asked.append(places.operands(parts, m.each))

    def multiply(self, total: fx.Tensor, left: fx.Vector, right: fx.Vector) -> None:
        fx.mma_atom_call(self.atom, total, places.held(left), places.held(right), total, **self.more)

    def find_scores(self, base: fx.Pointer) -> None:
        for line in self.scores:
            for x in line:
                x.fill(0.0)
        items = self._items(self.wide, self.reader.key_items)

        def use(t: int, r: int, left: list[fx.Vector]) -> None:
            for o, x in enumerate(left, r * len(left)):
                for i in range(self.high):
                    self.multiply(self.scores[i][t], x, self.asked[i][o])

        self._pipeline(items, lambda t, r: self.reader.key(base, t, r), use)

    def add_values(self, base: fx.Pointer, weights: list[list[fx.Vector]]) -> None:
        items = self._items(self.deep, self.reader.value_items)

        def use(j: int, r: int, left: list[fx.Vector]) -> None:
            for o, x in enumerate(left, r * len(left)):
                for i in range(self.high):
                    self.multiply(self.sums[i][j], x, weights[i][o])

        self._pipeline(items, lambda j, r: self.reader.value(base, j, r), use)

    def _items(self, sums: int, reads: int) -> list[tuple[int, int]]:
        """Every sum with each of its reads. A product does not wait for the one right before it: that adds to the sums
        of other rows, or where there are none, to other sums."""
        together = 2 if self.high == 1 and sums % 2 == 0 else 1
        return [(x + i, r) for x in range(0, sums, together) for r in range(reads) for i in range(together)]

    def _pipeline(
        self,
        items: list[tuple[int, int]],
        fetch: Callable[[int, int], list[fx.Vector]],
        use: Callable[[int, int, list[fx.Vector]], None],
    ) -> None:
        """Operands are read `ahead` of their products, and no more: registers are few."""
        ahead = self.ahead
        found = [fetch(*item) for item in items[:ahead]]
        for at, item in enumerate(items):
            if at + ahead < len(items):
                found.append(fetch(*items[at + ahead]))
            use(*item, found[at])
            if at % (ahead // 2) == ahead // 2 - 1:
                fx.rocdl.sched_barrier(0)

    def mask(self, begin: fx.Int32, sight: Sight) -> None:
        """Scores of a step that are not seen become minus infinity."""
        for i in range(self.high):
            before, seen = self._seen(begin, sight, i)
            for t in range(self.wide):
                for e in range(self.run):
                    # One comparison without a sign has both ends.
                    inside = fx.Uint32(16 * t + e - before) < seen
                    self.scores[i][t][e] = inside.select(self.scores[i][t][e], fx.Float32(float("-inf")))

    def _seen(self, begin: fx.Int32, sight: Sight, i: int) -> tuple[fx.Int32, fx.Uint32]:
        """The first key of a step that a lane's query sees, counted from the lane's first one, and how many."""
        here = begin + self.part * self.run
        place = self.where.row + 16 * i + self.where.shift
        behind, before = self.where.keys, fx.Int32(0)
        if self.kind.right:
            behind = fx.min(behind, place + sight.right + 1)
        if self.kind.left:
            before = fx.max(before, place - sight.left)
        return before - here, fx.Uint32(fx.max(behind - before, 0))

    def change(
        self, begin: fx.Int32, scale: fx.Float32, extras: Extras, sight: Sight, of_bias: Steps, alibi_batch: fx.Int32
    ) -> None:
        """Scores of a step with all that is done to them, times log2(e); those that are not seen as `mask` has them."""
        w = self.where
        inner = scale / sight.softcap if self.kind.softcap else scale
        for i in range(self.high):
            row = w.row + 16 * i
            before, seen = self._seen(begin, sight, i)
            line = None
            if extras.bias is not None:
                # Behind the last row and the last key those are read again, for nobody.
                at = fx.Int64(w.batch) * of_bias.batch + fx.Int64(w.head) * of_bias.head
                line = extras.bias + (at + fx.Int64(fx.min(row, w.queries - 1)) * of_bias.row)
            slope = None if extras.alibi is None else fx.Float32(extras.alibi[w.batch * alibi_batch + w.head])
            for t in range(self.wide):
                for e in range(self.run):
                    key = begin + (self.part * self.run + 16 * t + e)
                    score = self.scores[i][t][e] * inner
                    if self.kind.softcap:
                        score = sight.softcap * bounded(score)
                    if slope is not None:
                        place = row + w.shift
                        score = score - slope * fx.Float32(fx.max(place - key, key - place))
                    if line is not None:
                        score = score + fx.Float32(line[fx.Int64(fx.min(key, w.keys - 1)) * of_bias.column])
                    inside = fx.Uint32(16 * t + e - before) < seen
                    self.scores[i][t][e] = inside.select(score * LOG2E, fx.Float32(float("-inf")))

    def largest(self) -> list[fx.Float32]:
        """Of each row, the largest score that the lane has."""
        return [largest([x.load() for x in line]) for line in self.scores]

    def grows(self, tops: list[fx.Float32]) -> fx.Boolean:
        """Whether some row of the wave needs a new maximum: most steps have none, and lanes exchange nothing."""
        some = tops[0] > self.limit[0]
        for i in range(1, self.high):
            some = some | (tops[i] > self.limit[i])
        return fx.rocdl.ballot(fx.Int64 if self.machine.lanes == 64 else fx.Int32, some) != 0

    def grow(self, tops: list[fx.Float32], factor: fx.Float32, lazy: fx.Float32) -> None:
        """New maxima of the rows that need one, and sums as if their weights had been computed with them."""
        for i in range(self.high):
            top, before, limit = over_groups(tops[i], self.machine, larger), self.addend[i], self.limit[i]
            grown = top > limit
            after = fx.fma(top, -factor, self.lift)
            # Sums of a row that has seen nothing are zeros, and the distance may be anything.
            share = (grown & (limit > float("-inf"))).select(fx.exp2(after - before, fastmath="fast"), fx.Float32(1.0))
            self.limit[i] = grown.select(top + lazy, limit)
            self.addend[i] = grown.select(after, before)
            for x in (self.total[i], *self.sums[i]):
                x.store(x.load() * share)

    def weigh(self, begin: fx.Int32, factor: fx.Float32, drop: Drop) -> list[list[fx.Vector]]:
        """Scores become weights, operands of the second product."""
        m, run = self.machine, self.run
        found: list[list[fx.Vector]] = []
        for i in range(self.high):
            both = [fx.Vector.filled(run, x, fx.Float32) for x in (factor, self.addend[i])]
            weights = [fx.exp2(fx.fma(x.load(), *both), fastmath="fast") for x in self.scores[i]]
            self.total[i].store(add(self.total[i].load(), added(weights)))
            if self.kind.dropout:
                key = begin + self.part * run
                weights = [self._kept(x, key + 16 * t, 16 * i, drop) for t, x in enumerate(weights)]
            count = m.each // run
            wholes = [places.joined(weights[t : t + count]) for t in range(0, self.wide, count)]
            found.append([narrowed(x, self.dtype, m) for x in wholes])
        return found

    def result(self, i: int) -> tuple[fx.Float32, fx.Float32]:
        """The sum of a row's weights, and what a power of two of them is less than it was."""
        halves = self.total[i].load()
        return over_groups(add(halves[0], halves[1]), self.machine, add), self.addend[i]

    def _kept(self, weights: fx.Vector, key: fx.Int32, row: int, drop: Drop) -> fx.Vector:
        line = self.where.batch * self.where.heads + self.where.head
        found = shares_of_lanes(drop, line, self.where.row + row, key, self.run, self.machine.lanes)
        return weights * fx.Vector.from_elements(found, fx.Float32)


def bounded(x: fx.Float32) -> fx.Float32:
    """tanh, to a few units of 2 to the power -24: for scores, whose exponentials are taken."""
    grown = fx.exp2(x * (2 * LOG2E), fastmath="fast")
    return 1.0 - 2.0 * fx.rocdl.rcp(fx.Float32, grown + 1.0)


def instruction(dtype: type[fx.Numeric], machine: Machine) -> fx.MmaAtom:
    if machine.instruction == "mfma_scale":
        return fx.make_mma_atom(fx.rocdl.cdna4.MFMA_Scale(16, 16, machine.atom_k, dtype))
    make = fx.rocdl.MFMA if machine.instruction == "mfma" else fx.rocdl.WMMA
    return fx.make_mma_atom(make(16, 16, machine.atom_k, dtype))


__all__ = ["LAZY", "LIFT", "Products", "Where"]
