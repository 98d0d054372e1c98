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


__all__ = ["Cut", "Group", "count_tiles", "end_of", "first_group", "group_at"]
