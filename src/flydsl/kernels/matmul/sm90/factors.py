"""Factors of blocks on their way to who multiplies: warps of their own bring them to shared memory, beside each stage.

A step's factors are one for each row of the operand that has them for 128 elements of a line, then those of the squares
of 128 x 128 of the other one that a tile touches. Whoever multiplies finds them there when its operands are there. Read
from memory by itself they would come when it needs them, and its next products would wait for them too.
"""

from __future__ import annotations

from typing import NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx

from ....extension.coop.warp.sync import warp_sync
from ..groups import Group
from ..tile import Form, Tile, factor_bytes, lines_of, squares_of
from .out import Out

SENDERS = 3
"""Warps that bring them, beside the one that fetches operands."""
THREADS = 32 * SENDERS


class Ring(NamedTuple):
    """Stages: their barriers, how many there are, where the first is, this block's part of K, and their factors."""

    full: fx.nvgpu.MBarrier
    empty: fx.nvgpu.MBarrier
    stages: int
    base: fx.Pointer
    part: fx.Int32
    factors: fx.Pointer


def advance(stage: fx.Int32, phase: fx.Int32, count: int) -> tuple[fx.Int32, fx.Int32]:
    """The next stage, and the parity of its barriers."""
    around = stage == count - 1
    return around.select(fx.Int32(0), stage + 1), phase ^ fx.Int32(around)


class Sources(NamedTuple):
    """Where factors come from, and how many rows and columns have some."""

    scale_x: fx.Tensor
    scale_y: fx.Tensor
    rows: fx.Int32
    columns: fx.Int32
    quads: bool
    """Whether four steps' are read at once: 32 lanes with a row each take a cycle for each of these, not four."""
    first: fx.Int32 | None = None
    """The row that tiles are counted from, where rows have groups."""

    def of(self, group: Group) -> Sources:
        """Those of a group's rows, and of its matrix."""
        mine = self.scale_y[group.number, None, None]
        return self._replace(scale_y=mine, rows=group.end, first=group.start)


@flyc.jit
def send_factors(
    ring: Ring,
    sources: Sources,
    tile: Tile,
    member: fx.Int32,
    row: fx.Int32,
    column: fx.Int32,
    begin: fx.Int32,
    steps: fx.Int32,
    stage: fx.Int32,
    phase: fx.Int32,
):
    """A tile's factors, step by step, into the stages; those of several steps lie beside each other in memory."""
    count = held_by_a_thread(tile)
    # Those who fetch have few registers: the next ones are under way meanwhile where there is room for both.
    together, twice = (4, True) if count == 1 else (4, False) if count == 2 or sources.quads else (2, False)
    layout = fx.make_layout((count, together), (together, 1))
    held = fx.make_rmem_tensor(layout, fx.Float32)
    coming = fx.make_rmem_tensor(layout, fx.Float32) if twice else held
    if fx.const_expr(twice):
        fetch_some(held, sources, tile, member, row, column, begin, fx.Int32(0), steps, together)
    for some in range(fx.ceildiv(steps, together)):
        at = (some + 1 if twice else some) * together
        fetch_some(coming, sources, tile, member, row, column, begin, at, steps, together)
        for i in fx.range_constexpr(together):
            if some * together + i < steps:
                ring.empty[stage].wait(phase)
                put_factors(ring.factors + stage * (factor_bytes(tile) // 4), held[None, i], tile, member)
                warp_sync(32)
                if member % 32 == 0:
                    ring.full[stage].arrive()
                stage, phase = advance(stage, phase, ring.stages)
        if fx.const_expr(twice):
            held.store(coming.load())
    return stage, phase


def fetch_some(
    held: fx.Tensor,
    sources: Sources,
    tile: Tile,
    member: fx.Int32,
    row: fx.Int32,
    column: fx.Int32,
    begin: fx.Int32,
    at: fx.Int32,
    steps: fx.Int32,
    count: int,
) -> None:
    """So many steps' factors from step `at` on; behind the last step, those of the last."""
    if sources.quads:
        step = begin + fx.max(fx.min(at, steps - 4), 0)
        fetch_factors(held, sources, tile, member, row, column, step)
        return
    for i in range(count):
        step = begin + fx.max(fx.min(at + i, steps - 1), 0)
        fetch_factors(held[None, i], sources, tile, member, row, column, step)


def held_by_a_thread(tile: Tile) -> int:
    return -(-(lines_of(tile) + squares_of(tile)) // THREADS)


def fetch_factors(
    held: fx.Tensor,
    sources: Sources,
    tile: Tile,
    member: fx.Int32,
    row: fx.Int32,
    column: fx.Int32,
    step: fx.Int32,
) -> None:
    """A thread's share; of rows that are not there, those of the last one."""
    lines, squares = (sources.scale_y, sources.scale_x) if tile.swap else (sources.scale_x, sources.scale_y)
    top, left = row * tile.m, column * tile.n
    if sources.first is not None:
        top = sources.first + top
    many, others = (sources.columns, sources.rows) if tile.swap else (sources.rows, sources.columns)
    first, across = (left, top) if tile.swap else (top, left)
    extent, count = (tile.m if tile.swap else tile.n), lines_of(tile)
    for i in range(held_by_a_thread(tile)):
        at = i * THREADS + member
        if sources.quads:
            fetch_quad(held[i, None], lines, squares, first, across, many, others, at, step, extent, count)
        elif (i + 1) * THREADS <= count:
            held[i] = lines[fx.min(first + at, many - 1), step]
        else:
            held[i] = line_or_square(lines, squares, first, across, many, others, at, step, extent, count)


@flyc.jit
def fetch_quad(
    held: fx.Tensor,
    lines: fx.Tensor,
    squares: fx.Tensor,
    first: fx.Int32,
    across: fx.Int32,
    many: fx.Int32,
    others: fx.Int32,
    at: fx.Int32,
    step: fx.Int32,
    extent: int,
    count: int,
):
    if at < count:
        line = fx.get_iter(lines[fx.min(first + at, many - 1), None])
        held.store(fx.nvgpu.load_global(line + step, 4))
    elif at < count + 2:
        # The first square and the last one.
        place = (at == count).select(across, across + (extent - 1))
        square = fx.get_iter(squares[fx.min(place, others - 1) // 128, None])
        held.store(fx.nvgpu.load_global(square + step, 4))


@flyc.jit
def line_or_square(
    lines: fx.Tensor,
    squares: fx.Tensor,
    first: fx.Int32,
    across: fx.Int32,
    many: fx.Int32,
    others: fx.Int32,
    at: fx.Int32,
    step: fx.Int32,
    extent: int,
    count: int,
):
    value = fx.Float32(0.0)
    if at < count:
        value = lines[fx.min(first + at, many - 1), step]
    elif at < count + 2:
        # The first square and the last one.
        place = (at == count).select(across, across + (extent - 1))
        value = squares[fx.min(place, others - 1) // 128, step]
    return value


@flyc.jit
def put_factors(place: fx.Pointer, held: fx.Tensor, tile: Tile, member: fx.Int32):
    count = lines_of(tile) + squares_of(tile)
    for i in fx.range_constexpr(held_by_a_thread(tile)):
        at = i * THREADS + member
        if fx.const_expr((i + 1) * THREADS <= count):
            place[place_of(at, tile)] = held[i]
        else:
            if at < count:
                place[place_of(at, tile)] = held[i]


def place_of(at: fx.Int32, tile: Tile) -> fx.Int32:
    """Where a factor lies: those of rows that a thread has, eight apart, are beside each other, and read as one."""
    if tile.swap:
        return at
    inside = at % 16
    return (at < lines_of(tile)).select(at - inside + inside % 8 * 2 + inside // 8, at)


def scale_counts(tile: Tile, form: Form) -> tuple[int, int]:
    """Factors a thread has of 128 products of 64 rows: of its rows, and of its columns."""
    if form.scale_x == "line":
        return 2, squares_of(tile)
    return 1, tile.n // 4


def factors(tile: Tile, form: Form) -> fx.Tensor:
    return fx.make_rmem_tensor(fx.make_layout(tile.rows // 64 * sum(scale_counts(tile, form)), 1), fx.Float32)


def take_factors(out: Out, held: fx.Tensor, ring: Ring, row: fx.Int32, stage: fx.Int32) -> None:
    """A thread's factors of a stage, for each 64 rows of a consumer. In front of the products, which free the stage."""
    tile, form = out.tile, out.form
    if not form.blocked:
        return
    place = ring.factors + stage * (factor_bytes(tile) // 4)
    squares = place + lines_of(tile)
    lane = out.member % 32
    of_rows, of_columns = scale_counts(tile, form)
    for r in range(tile.rows // 64):
        first = r * (of_rows + of_columns)
        teams = 1 if tile.pingpong else tile.consumers
        block = r if teams == 1 else out.consumer + r * teams
        if form.scale_x == "line":
            mine = place + (block * 64 + out.member // 32 * 16 + lane // 4 * 2)
            for v in range(2):
                held[first + v] = mine[v]
            for i in range(of_columns):
                held[first + of_rows + i] = squares[i]
        else:
            # 64 rows are in one square: the tile's first or its last.
            which = 0 if squares_of(tile) == 1 else (row * tile.m % 128 + block * 64) // 128
            held[first] = squares[which]
            for i in range(of_columns):
                held[first + of_rows + i] = place[lane % 4 * 2 + (8 * (i // 2) + i % 2)]


__all__ = ["SENDERS", "Ring", "Sources", "advance", "factors", "scale_counts", "send_factors", "take_factors"]
