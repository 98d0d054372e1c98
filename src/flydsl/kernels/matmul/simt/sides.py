"""An operand's way to a thread: to shared memory by `cp.async`, and from there to registers, 16 bytes at a time.

Whichever direction of an operand lies in one piece, a read of shared memory gives four of its elements: four rows at a
place along K, or four places of one row. With the first a thread's rows are beside each other, with the second they are
as far apart as lanes are many, so that eight lanes read eight units of different banks.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import flydsl.compiler as flyc
import flydsl.expr as fx

from .tile import ALONG, DEEP, QUAD, Tile, copies, first_copy, pitch, stage_elements, unit_of


class Strides(NamedTuple):
    """From row to row, along k and from batch to batch; of C: rows, columns, batches."""

    row: fx.Int64
    depth: fx.Int64
    batch: fx.Int64


class Fragment(NamedTuple):
    """What a thread has of four places along K: for each of them its rows', or for each row all four."""

    parts: list[fx.Vector]
    deep: bool
    each: int

    def value(self, i: int, q: int) -> fx.Float32:
        if self.deep:
            return self.parts[i][q]
        width = min(QUAD, self.each)
        return self.parts[q * (self.each // width) + i // width][i % width]

    def vector(self, q: int) -> fx.Vector:
        return fx.Vector.from_elements([self.value(i, q) for i in range(self.each)], fx.Float32)


class Side:
    """`many` rows of an operand from `first` on, of `rows` that there are."""

    def __init__(
        self,
        form: str,
        tile: Tile,
        many: int,
        place: fx.Pointer,
        strides: Strides,
        first: fx.Int32,
        rows: fx.Int32,
        smem: fx.Pointer,
    ):
        self.form, self.tile, self.many, self.smem = form, tile, many, smem
        self.first, self.rows, self.strides = first, rows, strides
        self.pitch, self.elements = pitch(form, many, tile.depth), stage_elements(form, many, tile.depth)
        row, at = first_copy(form, many, tile.depth, fx.thread_idx.x)
        self.at, self.row = at, first + row
        self.start = place + (fx.Int64(self.row) * strides.row + fx.Int64(at) * strides.depth)
        self.target = smem + self.offset(row, at)

    def seen_by(self, warp: fx.Int32, lane: fx.Int32, lanes: int, each: int) -> Self:
        """With the rows of a thread: `each` of its own, of a warp's `lanes` times as many."""
        self.lanes, self.each = lanes, each
        self.width = 1 if self.form == DEEP else min(QUAD, each)
        self.seen = warp * (lanes * each) + lane * self.width
        self.source = self.smem + self.offset(self.seen, 0)
        return self

    def offset(self, row: fx.Int32 | int, at: fx.Int32 | int) -> fx.Int32 | int:
        """Of an element of a stage."""
        return row * self.pitch + at if self.form == DEEP else at * self.pitch + row

    def rows_from(self, i: int) -> int:
        """How far a thread's `i`-th row is from its first."""
        return i // self.width * self.lanes * self.width + i % self.width

    def fetch(self, slot: fx.Int32, at: fx.Int32, k: fx.Int32) -> None:
        """The step from `at` on."""
        here = self.start + fx.Int64(at) * self.strides.depth
        to = self.target + slot * self.elements
        left = k - at - self.at
        units, threads = self.many * self.tile.depth // unit_of(self.form), self.tile.threads
        steps = copies(self.form, self.many, self.tile)
        for i, (row, along) in enumerate(steps):
            source = here + (self.strides.row * row + self.strides.depth * along)
            if units % threads and i == len(steps) - 1:
                fetch_last(self, source, to + self.offset(row, along), row, left - along, i * threads, units)
            else:
                self.copy(source, to + self.offset(row, along), row, left - along)

    def copy(self, source: fx.Pointer, to: fx.Pointer, row: int, left: fx.Int32) -> None:
        """A unit or an element; `left` places of K are there, from its first on."""
        rows, none = self.rows - self.row - row, fx.Int32(0)
        if self.form == DEEP:
            atom, count, valid = fx.nvgpu.CpAsync(128, "cg", zero_fill=True), QUAD, (rows > 0).select(left, none)
        elif self.form == ALONG:
            atom, count, valid = fx.nvgpu.CpAsync(128, "cg", zero_fill=True), QUAD, (left > 0).select(rows, none)
        else:
            inside = (rows > 0) & (left > 0)
            atom, count, valid = fx.nvgpu.CpAsync(32, "ca", zero_fill=True), 1, inside.select(fx.Int32(1), none)
        layout = fx.make_layout(count, 1)
        fx.copy(
            fx.make_copy_atom(atom, fx.Float32), fx.make_view(source, layout), fx.make_view(to, layout), valid=valid
        )

    def stage(self, slot: fx.Int32) -> fx.Pointer:
        """Where a thread's rows of a stage begin."""
        return self.source + slot * self.elements

    def read(self, stage: fx.Pointer, at: int) -> Fragment:
        """Four places along K from `at` on."""
        parts: list[fx.Vector] = []
        if self.form == DEEP:
            parts = [read_vector(stage + self.offset(self.rows_from(i), at), QUAD) for i in range(self.each)]
        else:
            for q in range(QUAD):
                for i in range(0, self.each, self.width):
                    parts.append(read_vector(stage + self.offset(self.rows_from(i), at + q), self.width))
        return Fragment(parts, self.form == DEEP, self.each)


@flyc.jit
def fetch_last(side: Side, source: fx.Pointer, to: fx.Pointer, row: int, left: fx.Int32, before: int, units: int):
    """The same where there are fewer units than threads."""
    if fx.thread_idx.x < units - before:
        side.copy(source, to, row, left)


def read_vector(place: fx.Pointer, count: int) -> fx.Vector:
    layout = fx.make_layout(count, 1)
    held = fx.make_rmem_tensor(layout, fx.Float32)
    fx.copy_atom_call(fx.make_copy_atom(fx.UniversalCopy(32 * count), fx.Float32), fx.make_view(place, layout), held)
    return held.load()


__all__ = ["Fragment", "Side", "Strides"]
