"""Which tile of a Hopper product is a block's next one: batches, groups of rows, slices of K, and the order in L2."""

from __future__ import annotations

from typing import NamedTuple

import flydsl.expr as fx

from ..groups import Cut, Group, Table, first_group, group_at
from ..tile import Tile


class Grid(NamedTuple):
    """Tiles of clusters: how many below and beside each other, and how many rows of them are walked together."""

    rows: fx.Int32
    columns: fx.Int32
    group: fx.Int32


class Dealt(NamedTuple):
    """How many tiles are dealt whole, and how many others there are: slice after slice of them follows."""

    whole: fx.Int32
    rest: fx.Int32


class Place(NamedTuple):
    """A block's tile: its row, counted from its group's first where rows have groups, its column and batch."""

    row: fx.Int32
    column: fx.Int32
    batch: fx.Int32
    above: fx.Int32
    """1 where blocks that do either are above each other now, 0 where they are beside each other."""
    group: Group

    def held(self) -> Place:
        """The same, found here and now: not where it is used, as a compiler would have it."""
        return self._replace(row=fx.nvgpu.uniform(self.row), column=fx.nvgpu.uniform(self.column))


class Map(NamedTuple):
    """What the number of a tile is read by."""

    grid: Grid
    dealt: Dealt
    tile: Tile
    member: fx.Int32
    """Which of its cluster's blocks this is."""
    offsets: fx.Pointer | None
    rows: fx.Int32
    table: Table | None = None

    def cut(self) -> Cut:
        return cut_of(self.tile, self.grid.columns)

    def start(self) -> Place:
        """In front of the first tile."""
        zero = fx.Int32(0)
        group = Group(zero, zero, zero, zero)
        if self.offsets is not None and self.table is None:
            group = first_group(self.offsets, self.rows)
        return Place(zero, zero, zero, zero, group)

    def at(self, number: fx.Int32, before: Place) -> Place:
        """Of a tile, after an earlier one's."""
        if self.table is not None:
            return in_group(number, self.table.at(number), self)
        if self.offsets is not None:
            group = group_at(self.offsets, before.group, number, self.rows, self.cut())
            return in_group(number, group, self)
        number = tile_of(number, self.dealt, self.tile)
        row, column, batch = tile_position(number, self.grid, self.tile, self.member)
        return Place(row, column, batch, before.above, before.group)


def cut_of(tile: Tile, columns: fx.Int32) -> Cut:
    """How groups are cut, whose clusters have so many columns of tiles."""
    return Cut(tile.m, columns, True) if tile.either else Cut(tile.m * tile.high, columns)


def quotient(a: fx.Int32, b: fx.Int32) -> tuple[fx.Int32, fx.Int32]:
    """And what is left; neither is negative, which saves a third of the instructions."""
    x, y = fx.Uint32(a), fx.Uint32(b)
    whole = x // y
    return fx.Int32(whole), fx.Int32(x - whole * y)


def walked(at: fx.Int32, grid: Grid) -> tuple[fx.Int32, fx.Int32]:
    """Row and column of a cluster: groups of rows, each walked along the columns, stay in L2."""
    which, inside = quotient(at, grid.group * grid.columns)
    height = fx.min(grid.rows - which * grid.group, grid.group)
    column, row = quotient(inside, height)
    return which * grid.group + row, column


def tile_position(at: fx.Int32, grid: Grid, tile: Tile, member: fx.Int32) -> tuple[fx.Int32, fx.Int32, fx.Int32]:
    """Row, column and batch of a block's tile."""
    batch, at = quotient(at, grid.rows * grid.columns)
    row, column = walked(at, grid)
    return *beside(row, column, tile, member), batch


def beside(row: fx.Int32, column: fx.Int32, tile: Tile, member: fx.Int32) -> tuple[fx.Int32, fx.Int32]:
    """A block's row and column of tiles, from those of clusters."""
    high, wide = tile.high, tile.wide
    if high > 1 and wide > 1:
        return row * high + member % high, column * wide + member // high
    if high > 1:
        return row * high + member, column
    if wide > 1:
        return row, column * wide + member
    return row, column


def in_group(number: fx.Int32, group: Group, where: Map) -> Place:
    """A tile of a group that has it."""
    tile, grid, member = where.tile, where.grid, where.member
    inside, length = number - group.tiles_before, group.end - group.start
    one = fx.Int32(1)
    if not tile.either:
        rows = fx.max(fx.ceildiv(length, tile.m * tile.high), one)
        row, column = walked(inside, grid._replace(rows=rows, group=fx.min(grid.group, rows)))
        return Place(*beside(row, column, tile, member), group.number, fx.Int32(0), group)
    # Pairs of rows come first, then a row that is left.
    high = fx.ceildiv(length, tile.m)
    pairs = high // 2
    paired = pairs * grid.columns
    above = inside < paired
    rows = fx.max(pairs, one)
    row, column = walked(above.select(inside, fx.Int32(0)), grid._replace(rows=rows, group=fx.min(grid.group, rows)))
    row = above.select(row * 2 + member, high - 1)
    column = above.select(column, (inside - paired) * 2 + member)
    return Place(row, column, group.number, fx.Int32(above), group)


def tile_of(at: fx.Int32, dealt: Dealt, tile: Tile) -> fx.Int32:
    """The tile that the `at`th piece of work belongs to."""
    if not tile.tail:
        return at % dealt.rest if tile.slices > 1 else at
    return (at < dealt.whole).select(at, dealt.whole + (at - dealt.whole) % dealt.rest)


def slice_of(at: fx.Int32, dealt: Dealt, steps: fx.Int32, tile: Tile, unit: int = 1) -> tuple[fx.Int32, fx.Int32]:
    """The first step along K of the `at`th piece of work, and their number: both multiples of `unit`, if `steps` is."""
    if tile.slices == 1:
        return fx.Int32(0), steps
    per = fx.ceildiv(steps, tile.slices * unit) * unit
    first = (at - dealt.whole) // dealt.rest * per
    count = fx.max(fx.min(steps - first, per), 0)
    if not tile.tail:
        return first, count
    return (at < dealt.whole).select(fx.Int32(0), first), (at < dealt.whole).select(steps, count)


__all__ = ["Dealt", "Grid", "Map", "Place", "cut_of", "slice_of", "tile_of", "tile_position"]
