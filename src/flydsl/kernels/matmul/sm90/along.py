"""Factors and bias along rows or columns of a tile: asked for in front of its products, there when these are done."""

from __future__ import annotations

from typing import NamedTuple

import flydsl.expr as fx

LANES = 32
QUAD = 4
"""Lanes with the same rows of a warpgroup's sums: two columns each of eight."""


class Vectors(NamedTuple):
    """What a thread holds of them; None where there is none."""

    scale_x: fx.Tensor | None = None
    scale_y: fx.Tensor | None = None
    bias: fx.Tensor | None = None


class Part(NamedTuple):
    """Sums of 64 rows: the first row and column, how many columns, and which of the tile's these are, if known."""

    top: fx.Int32
    left: fx.Int32
    columns: int
    repeat: int = 0
    first: int | None = None

    def cut(self, first: int, columns: int) -> Part:
        """Some of the columns."""
        inside = None if self.first is None else self.first + first
        return self._replace(left=self.left + first, columns=columns, first=inside)


def row_of(member: fx.Int32, v: int) -> fx.Int32:
    """Of 64, that a thread's sums are of: two."""
    return member // LANES * 16 + member % LANES // QUAD + 8 * v


def column_of(member: fx.Int32, j: int, e: int) -> fx.Int32:
    """The `e`th of a thread's two of the `j`th eight columns."""
    return member % QUAD * 2 + (8 * j + e)


def at_once(vector: fx.Tensor, at: fx.Int32, extent: fx.Int32) -> fx.Float32:
    """Of what is not there, the last one: loads without a condition are under way together."""
    return fx.Float32(vector[fx.min(at, extent - 1)])


def held_rows(vector: fx.Tensor, tops: list[fx.Int32], member: fx.Int32, extent: fx.Int32) -> fx.Tensor:
    """A thread's rows of each 64."""
    found = fx.make_rmem_tensor(fx.make_layout((2, len(tops)), (1, 2)), fx.Float32)
    for r, top in enumerate(tops):
        for v in range(2):
            found[v, r] = at_once(vector, top + row_of(member, v), extent)
    return found


def held_columns(vector: fx.Tensor, left: fx.Int32, columns: int, member: fx.Int32, extent: fx.Int32) -> fx.Tensor:
    """All of the tile's in each warp: a lane has its two of every eighth eight of them."""
    found = fx.make_rmem_tensor(fx.make_layout((2, -(-columns // 64)), (1, 2)), fx.Float32)
    eight = member % LANES // QUAD
    for i in range(-(-columns // 64)):
        for e in range(2):
            found[e, i] = at_once(vector, left + eight * 8 + column_of(member, 8 * i, e), extent)
    return found


def from_lanes(held: fx.Tensor, member: fx.Int32, first: int, j: int, e: int) -> fx.Float32:
    """A column's value, from the lane that has it."""
    eight = first // 8 + j
    return fx.shuffle_idx(held[e, eight // 8], member % QUAD + eight % 8 * QUAD, LANES)


__all__ = ["Part", "Vectors", "at_once", "column_of", "from_lanes", "held_columns", "held_rows", "row_of"]
