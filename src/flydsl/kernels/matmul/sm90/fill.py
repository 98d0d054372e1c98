"""How stages of a Hopper product are filled: boxes of rows for the copy engine, and what it does not fetch."""

from __future__ import annotations

from typing import NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..tile import LINE, Tile, by_depth, span


class Sharers(NamedTuple):
    """Blocks of a cluster that have rows in common: how many, which of them this one is, and a bit for each."""

    many: int
    place: fx.Int32
    mask: fx.Int32 | None


def sharers(tile: Tile, place: fx.Int32, part: fx.Int32) -> tuple[Sharers, Sharers]:
    """Those of X, beside each other, and those of Y, above each other. A cluster's columns come one after the other."""
    above, beside = (place % tile.high, place // tile.high) if tile.shares == "xy" else (place, place)
    first = part * tile.cluster
    row = fx.Int32(sum(1 << (i * tile.high) for i in range(tile.wide)))
    column = fx.Int32((1 << tile.high) - 1)
    if tile.shares == "xy":
        row, column = row << above, column << (beside * tile.high)
    return (
        Sharers(tile.wide, beside, row << first if tile.wide > 1 else None),
        Sharers(tile.high, above, column << first if tile.high > 1 else None),
    )


UNITS = LINE // 16
"""Of 16 bytes, of a row of a stage."""


@flyc.jit
def clear_rows(base: fx.Pointer, stages: fx.Int32, rows: int, first: int, member: fx.Int32, members: int):
    """Zeros from row `first` on, in the first `stages` stages of an operand."""
    each = (rows - first) * UNITS
    zero = fx.make_rmem_tensor(fx.make_layout(4, 1), fx.Int32)
    zero.fill(0)
    words = fx.recast_iter(fx.Int32, base)
    unit = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Int32)
    if fx.const_expr(each > 0):
        for i in range(member, stages * each, members):
            at = i // each * (rows * (LINE // 4)) + (first * UNITS + i % each) * 4
            fx.copy_atom_call(unit, zero, fx.make_view(words + at, fx.make_layout(4, 1)))


def fetch(
    load: fx.nvgpu.TmaAtom,
    smem: fx.Pointer,
    barrier: fx.nvgpu.MBarrier,
    row: fx.Int32,
    depth: fx.Int32,
    batch: fx.Int32,
    rows: int,
    major: str,
    sharers: Sharers,
    boxes: int,
    extent: fx.Int32 | None = None,
) -> None:
    """Rows of an operand to a stage; where blocks share them, this block's part of them to all.

    A copy that would begin beyond the matrix' `extent` fetches its first rows: their results go nowhere, and the engine
    is slow to make zeros.
    """
    line = rows // boxes if major == "k" else span(rows)
    elements = load.nbytes * 8 // load.width
    if major == "mn" and by_depth(rows, sharers.many):
        part = elements // line * sharers.place
        for i in range(rows // line):
            place = smem + (i * (elements * sharers.many) + elements * sharers.place)
            load.load((row + i * line, depth + part, batch), place, barrier, multicast=sharers.mask)
        return
    first = fx.Int32(0)
    if sharers.many > 1:
        first = sharers.place * (rows // sharers.many // line)
    mask = sharers.mask
    for i in range(rows // sharers.many // line):
        at = first + i
        begin = row + at * line
        if extent is not None and boxes > 1:
            begin = (begin < extent).select(begin, fx.Int32(0))
        load.load((begin, depth, batch), smem + at * elements, barrier, multicast=mask)


class Pair(NamedTuple):
    """Where the rows of a step of two blocks come from, and who shares them now."""

    load_x: fx.nvgpu.TmaAtom
    load_y: fx.nvgpu.TmaAtom
    major_x: str
    major_y: str
    member: fx.Int32
    above: fx.Int32
    short: fx.Int32
    """1 if the second half of X's rows is of no use."""
    columns: fx.Int32
    """Rows of Y that a matrix has."""
    boxes: int
    """Copies that fetch a step's rows of Y."""


@flyc.jit
def fetch_either(
    pair: Pair,
    tile: Tile,
    to_x: fx.Pointer,
    to_y: fx.Pointer,
    full: fx.nvgpu.MBarrier,
    top: fx.Int32,
    left: fx.Int32,
    depth: fx.Int32,
    batch: fx.Int32,
):
    """A step's rows: one operand's whole for this block alone, and half of the other's for both."""
    alone, both = Sharers(1, fx.Int32(0), None), Sharers(2, pair.member, fx.Int32(3))
    zero = fx.Int32(0)
    half = tile.m // 2
    if pair.above == 1:
        fetch(pair.load_x, to_x, full, top, depth, zero, half, pair.major_x, alone, 1)
        if pair.short == 0:
            second = to_x + half * (LINE * 8 // pair.load_x.width)
            fetch(pair.load_x, second, full, top + half, depth, zero, half, pair.major_x, alone, 1)
        fetch(pair.load_y, to_y, full, left, depth, batch, tile.n, pair.major_y, both, pair.boxes, pair.columns)
    else:
        if (pair.short == 0) | (pair.member == 0):
            fetch(pair.load_x, to_x, full, top, depth, zero, tile.m, pair.major_x, both, 2)
        fetch(pair.load_y, to_y, full, left, depth, batch, tile.n, pair.major_y, alone, pair.boxes, pair.columns)


def load_map(
    x: fx.Tensor,
    extents: tuple[fx.Int32, fx.Int32, fx.Int32],
    step: fx.Int64,
    batch: fx.Int64,
    rows: int,
    cluster: int,
    major: str,
    bk: int,
    l2_fetch: int,
) -> fx.nvgpu.TmaAtom:
    """The operand as (rows, k, batch) for the copy engine, in boxes of what one copy fetches."""
    box, strides = (rows // cluster, (step, 1, batch)) if major == "k" else (span(rows), (1, step, batch))
    if major == "mn" and by_depth(rows, cluster):
        bk //= cluster
    width = LINE if major == "k" else 2 * box
    view = fx.make_view(fx.get_iter(x), fx.make_layout(extents, strides))
    return fx.nvgpu.make_tma_atom(fx.nvgpu.TMALoad(), view, None, (box, bk, 1), swizzle=width, l2_fetch=l2_fetch)


__all__ = ["Pair", "Sharers", "clear_rows", "fetch", "fetch_either", "load_map", "sharers"]
