"""Keys and values on their way into shared memory: by registers, the second stage, or straight into two stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import flydsl.expr as fx

from ...matmul.amd.kernel import FAR_BYTES
from . import places
from .tile import TOGETHER, Cut, Machine, Tile, keys_cut, values_cut


class Rows(NamedTuple):
    """The rows of a head: the first, and the step from one to the next."""

    base: fx.Pointer
    row: fx.Int32


class Pages(NamedTuple):
    """Where the rows of a sequence are if they are in pages."""

    table: fx.Pointer
    """The row of the sequence."""
    page: fx.Int32
    """Rows of a page."""
    step_k: fx.Int32
    step_v: fx.Int32
    """Elements from a page to the next."""
    reach_k: fx.Int32
    reach_v: fx.Int32
    """Bytes from the head's first element on."""


class Mover:
    """A thread's part of the steps."""

    def __init__(
        self,
        tile: Tile,
        machine: Machine,
        thread: fx.Int32,
        wave: fx.Int32,
        shared: fx.Pointer,
        keys: Rows,
        values: Rows,
        count: fx.Int32,
        pages: Pages | None,
    ) -> None:
        self.tile, self.machine, self.thread, self.wave = tile, machine, thread, wave
        self.threads, self.unit = tile.threads(machine), machine.unit
        self.keys, self.values, self.count, self.pages = keys, values, count, pages
        self.cut_k, self.cut_v = keys_cut(tile, machine), values_cut(tile, machine)
        self.shared_k = shared
        self.shared_v = shared + (2 if machine.direct else 1) * self.cut_k.elements
        dtype = shared.dtype
        self.lines_k = self._lines(self.cut_k, self._mixed_key)
        if machine.direct:
            self.lines_v = self._lines(self.cut_v, self._mixed_value)
        else:
            self.groups = [places.group_of(thread, i, self.cut_v, self.threads) for i in range(self.cut_v.moved)]
            self.lines_v = [
                (places.key_of(group, machine) + e, column * self.unit)
                for group, column in self.groups
                for e in range(TOGETHER)
            ]
            self.held_k = [places.registers(self.unit, dtype) for _ in self.lines_k]
            self.held_v = [places.registers(self.unit, dtype) for _ in self.lines_v]
        self.far = fx.Int32(FAR_BYTES // machine.size)
        # Where the units of a step are, from its first row on.
        self.places_k = [row * keys.row + column for row, column in self.lines_k]
        self.places_v = [self._inside(column, row * values.row + column) for row, column in self.lines_v]
        if pages is not None:
            self.pages_k = places.registers(len(self.lines_k), fx.Int32)
            self.pages_v = places.registers(len(self.lines_v), fx.Int32)

    @property
    def moved(self) -> int:
        """Copies of a step."""
        return len(self.lines_k) + len(self.lines_v)

    def _mixed_key(self, row: fx.Int32) -> fx.Int32:
        return places.mixed(row, self.cut_k.units)

    def _mixed_value(self, row: fx.Int32) -> fx.Int32:
        return places.mixed_value(row, self.cut_v.units, self.machine)

    def _lines(self, cut: Cut, mix: Callable[[fx.Int32], fx.Int32]) -> list[tuple[fx.Int32, fx.Int32]]:
        """Rows and columns of a thread's units."""
        found = [places.unit_of(self.thread, i, cut, self.threads, mix) for i in range(cut.moved)]
        return [(row, unit * self.unit) for row, unit in found]

    def _inside(self, column: fx.Int32, place: fx.Int32) -> fx.Int32:
        """A column that is there only to be dealt out has no place."""
        if self.machine.direct or self.cut_v.units * self.unit == self.tile.dv:
            return place
        return (column < self.tile.dv).select(place, self.far)

    def _step(self, rows: Rows, step: fx.Int32) -> fx.Pointer:
        """A step's rows: what lies behind the last key is out of range; between rows no lane reads.

        Steps begin less than two steps behind the last key: that many rows are within a descriptor's reach.
        """
        begin = step * self.tile.n
        reach = fx.min(self.count - begin, self.tile.n) * (rows.row * self.machine.size)
        return fx.rocdl.make_buffer_ptr(rows.base + fx.Int64(begin) * fx.Int64(rows.row), fx.max(reach, 0))

    def _sources(self, which: str, step: fx.Int32) -> list[fx.Pointer]:
        rows, lines = (self.keys, self.lines_k) if which == "k" else (self.values, self.lines_v)
        found = self.places_k if which == "k" else self.places_v
        if self.pages is None:
            source = self._step(rows, step)
            return [source + place for place in found]
        numbers = self.pages_k if which == "k" else self.pages_v
        each, reach = self.pages.step_v, self.pages.reach_v
        if which == "k":
            each, reach = self.pages.step_k, self.pages.reach_k
        source = fx.rocdl.make_buffer_ptr(rows.base, reach)
        made: list[fx.Pointer] = []
        for i, (row, column) in enumerate(lines):
            key = step * self.tile.n + row
            place = numbers[i] * each + self._in_page(key) * rows.row + column
            if which == "v":
                place = self._inside(column, place)
            made.append(source + (key < self.count).select(place, self.far))
        return made

    def look_up(self, which: str, step: fx.Int32) -> None:
        """A step's pages, ahead of its rows; behind the last key the last page."""
        if self.pages is None:
            return
        lines, numbers = (self.lines_k, self.pages_k) if which == "k" else (self.lines_v, self.pages_v)
        last = fx.max(self.count - 1, 0)
        for i, (row, _) in enumerate(lines):
            numbers[i] = fx.Int32(self.pages.table[self._page(fx.min(step * self.tile.n + row, last))])

    def _page(self, key: fx.Int32) -> fx.Int32:
        assert self.pages is not None
        return key >> (self.tile.page.bit_length() - 1) if self.tile.page else key // self.pages.page

    def _in_page(self, key: fx.Int32) -> fx.Int32:
        assert self.pages is not None
        return key & (self.tile.page - 1) if self.tile.page else key % self.pages.page

    def load_keys(self, step: fx.Int32) -> None:
        for to, source in zip(self.held_k, self._sources("k", step), strict=True):
            places.load_unit(source, to)

    def load_values(self, step: fx.Int32) -> None:
        for to, source in zip(self.held_v, self._sources("v", step), strict=True):
            places.load_unit(source, to)

    def write_keys(self) -> None:
        for i, x in enumerate(self.held_k):
            places.write(self.shared_k + (self.thread + i * self.threads) * self.unit, x.load())

    def write_values(self) -> None:
        """Turned: `TOGETHER` keys of a column at once."""
        long = self.tile.n // self.unit
        for i, (group, column) in enumerate(self.groups):
            four = [x.load() for x in self.held_v[i * TOGETHER : (i + 1) * TOGETHER]]
            for e, value in enumerate(places.turned(four)):
                places.write(self.shared_v + places.column_place(group, column, e, long), value)

    def _copy(self, sources: list[fx.Pointer], to: fx.Pointer) -> None:
        for i, source in enumerate(sources):
            at = (self.wave * self.machine.lanes + i * self.threads) * self.unit
            places.copy_unit(source, to + at, self.unit)
        fx.rocdl.asyncmark()

    def copy_keys(self, step: fx.Int32, stage: fx.Int32 | int) -> None:
        self._copy(self._sources("k", step), self.shared_k + stage * self.cut_k.elements)

    def copy_values(self, step: fx.Int32, stage: fx.Int32 | int) -> None:
        self._copy(self._sources("v", step), self.shared_v + stage * self.cut_v.elements)


__all__ = ["Mover", "Pages", "Rows"]
