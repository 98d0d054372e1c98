"""Which tile of a product of groups a block has: groups end where the device alone knows."""

from __future__ import annotations

from typing import NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..groups import Cut, Table, count_tiles, fill_table, first_group, group_at
from ..sm90.tiles import Grid, walked


class Found(NamedTuple):
    """A tile: its first row and column, where its group ends, which group that is, and what of K is to be summed."""

    row: fx.Int32
    column: fx.Int32
    end: fx.Int32
    group: fx.Int32
    k: fx.Int32


class Sought(NamedTuple):
    """Groups of `rows` rows together, cut into tiles of m x n; `together` rows of these are walked at a time."""

    offsets: fx.Pointer
    groups: fx.Int32
    rows: fx.Int32
    columns: fx.Int32
    k: fx.Int32
    together: fx.Int32
    m: int
    n: int


def find_tile(sought: Sought, number: fx.Int32, room: fx.Pointer, in_table: bool) -> Found:
    """Of a block: with a table in shared memory, where stages lie afterwards, or from group to group. Blocks that there
    is no tile for have one without rows, of which nothing is summed."""
    across = fx.ceildiv(sought.columns, sought.n)
    cut = Cut(sought.m, across)
    find = by_table if in_table else by_steps
    some, group, before, start, end = find(sought, number, fx.recast_iter(fx.Int32, room), cut)
    high = fx.max(fx.ceildiv(end - start, sought.m), fx.Int32(1))
    row, column = walked(number - before, Grid(high, across, fx.min(sought.together, high)))
    k = (some == 1).select(sought.k, fx.Int32(0))
    return Found(start + row * sought.m, column * sought.n, end, group, k)


@flyc.jit
def by_table(sought: Sought, number: fx.Int32, room: fx.Pointer, cut: Cut):
    some, group, before, start, end = fx.Int32(0), fx.Int32(0), number, fx.Int32(0), fx.Int32(0)
    table = Table(room, sought.groups)
    if fx.thread_idx.x < 32:
        fill_table(table, sought.offsets, sought.rows, cut, fx.thread_idx.x)
    fx.barrier()
    if number < table.tiles():
        found = table.at(number)
        some, group, before, start, end = fx.Int32(1), found.number, found.tiles_before, found.start, found.end
    fx.barrier()
    return some, group, before, start, end


@flyc.jit
def by_steps(sought: Sought, number: fx.Int32, room: fx.Pointer, cut: Cut):
    some, group, before, start, end = fx.Int32(0), fx.Int32(0), number, fx.Int32(0), fx.Int32(0)
    if number < count_tiles(sought.offsets, sought.groups, sought.rows, cut):
        found = group_at(sought.offsets, first_group(sought.offsets, sought.rows), number, sought.rows, cut)
        some, group, before, start, end = fx.Int32(1), found.number, found.tiles_before, found.start, found.end
    return some, group, before, start, end


__all__ = ["Found", "Sought", "find_tile"]
