"""Which rows a tile has where rows belong to groups: a wave reads the ends of as many groups as it has lanes at once.

What wrong ends do is said in `matmul/groups.py`.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.jit
def rows_of_tile(
    ends: fx.Pointer, groups: fx.Int32, rows: fx.Int32, tile: fx.Int32, lane: fx.Int32, m: int, lanes: int
):
    """The group of a tile of `m` rows, its first row and how many it has; none where there is no such tile."""
    zero = fx.Int32(0)
    number, start, stop, before, tiles, mine = fx.Int32(-1), zero, zero, zero, zero, zero
    while (number + 1 < groups) & (tiles <= tile):
        number = number + 1
        if number % lanes == 0:
            given = ends[fx.min(number + lane, groups - 1)]
            mine = fx.Int32(fx.max(fx.min(given, given.__class__(rows)), given.__class__(0)))
        start = stop
        stop = fx.max(fx.rocdl.readlane(fx.Int32, mine, number % lanes), start)
        before = tiles
        tiles = tiles + fx.Int32(fx.Uint32(stop - start + (m - 1)) // m)
    row = start + (tile - before) * m
    found = tiles > tile
    return found.select(number, zero), found.select(row, zero), found.select(fx.min(stop - row, m), zero)


__all__ = ["rows_of_tile"]
