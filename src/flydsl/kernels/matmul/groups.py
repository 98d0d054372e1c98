"""Rows that belong to groups, one behind the other: where each ends is read on the device, nothing of it on the host.

`offsets` holds the end of every group. Whatever it holds, a group starts where the one before ends and none goes beyond
the matrix, so that a wrong one cannot reach other memory.
"""

from __future__ import annotations

from typing import NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx


class Cut(NamedTuple):
    """How a group is cut into tiles: so many rows each, in so many columns."""

    m: int
    columns: fx.Int32 | int = 1
    either: bool = False
    """Tiles come in pairs: above each other, and beside each other in a row that is left."""

    def tiles(self, length: fx.Int32) -> fx.Int32:
        """Of a group, or pairs of them."""
        rows = fx.ceildiv(length, self.m)
        if self.either:
            return rows // 2 * self.columns + rows % 2 * fx.ceildiv(self.columns, 2)
        return rows * self.columns


class Group(NamedTuple):
    """A group: its number, the tiles of all before it, and its rows."""

    number: fx.Int32
    tiles_before: fx.Int32
    start: fx.Int32
    end: fx.Int32


def end_of(offsets: fx.Pointer, group: fx.Int32, start: fx.Int32, rows: fx.Int32) -> fx.Int32:
    """Where a group ends that starts at a row."""
    given = offsets[group]
    return fx.Int32(fx.max(fx.min(given, given.__class__(rows)), given.__class__(start)))


@flyc.jit
def count_tiles(offsets: fx.Pointer, groups: fx.Int32, rows: fx.Int32, cut: Cut):
    """Tiles that all groups take."""
    start, count = fx.Int32(0), fx.Int32(0)
    for group in range(groups):
        end = end_of(offsets, group, start, rows)
        count = count + cut.tiles(end - start)
        start = end
    return count


def first_group(offsets: fx.Pointer, rows: fx.Int32) -> Group:
    zero = fx.Int32(0)
    return Group(zero, zero, zero, end_of(offsets, zero, zero, rows))


def group_at(offsets: fx.Pointer, known: Group, tile: fx.Int32, rows: fx.Int32, cut: Cut) -> Group:
    """The group of a tile, from that of an earlier one; there must be one."""
    return Group(*_group_at(offsets, *known, tile, rows, cut))


@flyc.jit
def _group_at(
    offsets: fx.Pointer,
    number: fx.Int32,
    before: fx.Int32,
    start: fx.Int32,
    end: fx.Int32,
    tile: fx.Int32,
    rows: fx.Int32,
    cut: Cut,
):
    while tile >= before + cut.tiles(end - start):
        before = before + cut.tiles(end - start)
        number = number + 1
        start = end
        end = end_of(offsets, number, start, rows)
    return number, before, start, end


MOST = 256
"""Groups that a table has room for."""
TABLE_BYTES = 8 * (MOST + 1) + 8
LANES = 32


class Table(NamedTuple):
    """Every group's first tile and row, in shared memory; behind the last one's, what would be the next one's."""

    place: fx.Pointer
    groups: fx.Int32

    def tiles(self) -> fx.Int32:
        """Of all groups."""
        return self.place[self.groups * 2]

    def at(self, tile: fx.Int32) -> Group:
        """The group of a tile; there must be one. Groups without rows share a tile with the next, which is found."""
        number = fx.Int32(0)
        step = MOST // 2
        while step:
            there = fx.min(number + step, self.groups)
            number = (self.place[there * 2] <= tile).select(there, number)
            step //= 2
        mine = self.place + number * 2
        return Group(number, mine[0], mine[1], mine[3])


@flyc.jit
def fill_table(table: Table, offsets: fx.Pointer, rows: fx.Int32, cut: Cut, lane: fx.Int32):
    """By a warp, a group for each lane at a time."""
    last, tiles = fx.Int32(0), fx.Int32(0)
    for first in range(0, table.groups, LANES):
        given = offsets[fx.min(first + lane, table.groups - 1)]
        end = fx.max(fx.Int32(fx.max(fx.min(given, given.__class__(rows)), given.__class__(0))), last)
        for i in fx.range_constexpr(5):
            before = fx.shuffle_idx(end, fx.max(lane - (1 << i), 0), LANES)
            end = fx.max(end, before)
        start = (lane == 0).select(last, fx.shuffle_idx(end, fx.max(lane - 1, 0), LANES))
        mine = cut.tiles(end - start)
        total = mine
        for i in fx.range_constexpr(5):
            before = fx.shuffle_idx(total, fx.max(lane - (1 << i), 0), LANES)
            total = total + (lane >= (1 << i)).select(before, 0)
        if first + lane < table.groups:
            place = table.place + (first + lane) * 2
            place[0] = tiles + total - mine
            place[1] = start
        last = fx.shuffle_idx(end, LANES - 1, LANES)
        tiles = tiles + fx.shuffle_idx(total, LANES - 1, LANES)
    if lane == 0:
        place = table.place + table.groups * 2
        place[0] = tiles
        place[1] = last


__all__ = [
    "MOST",
    "TABLE_BYTES",
    "Cut",
    "Group",
    "Table",
    "count_tiles",
    "end_of",
    "fill_table",
    "first_group",
    "group_at",
]
