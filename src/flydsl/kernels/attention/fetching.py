"""Rows of arrays on their way to shared memory: maps for the copy engine, and boxes as wide as the swizzle."""

from __future__ import annotations

from typing import NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx

from .tile import Form, Tile, span
from .walk import Numbers, Work


def fetch(
    load: fx.nvgpu.TmaAtom,
    smem: fx.Pointer,
    barrier: fx.nvgpu.MBarrier,
    row: fx.Int32,
    head: fx.Int32,
    batch: fx.Int32,
    rows: int,
    d: int,
    size: int = 2,
) -> None:
    """Rows of a head to shared memory, in boxes as wide as the swizzle."""
    wide = span(d, size)
    for i in range(d // wide):
        load.load((row, i * wide, head, batch), smem + i * (rows * wide), barrier)


class Source(NamedTuple):
    """An array that threads read, and from row to row, head to head, and sequence to sequence or page to page."""

    start: fx.Pointer
    row: fx.Int64
    head: fx.Int64
    batch: fx.Int64


class Rows(NamedTuple):
    """The rows of a step that a thread of the producer asks for: `many` of them, `apart` rows from each other."""

    first: fx.Int32
    apart: int
    many: int


def rows_of(tile: Tile, form: Form) -> Rows:
    """Threads bring rows; one, or the lanes of a warp, ask the copy engine for pages, or for what a step has of one."""
    if form.by_threads:
        return Rows(fx.thread_idx.x // tile.lanes, 128 // tile.lanes, tile.n * tile.lanes // 128)
    if form.asks(tile.n) == 1:
        return Rows(fx.Int32(0), form.page, tile.n // form.page)
    return Rows(fx.thread_idx.x * form.page, 32 * form.page, -(-tile.n // (32 * form.page)))


def in_page(at: fx.Int32, numbers: Numbers, form: Form) -> tuple[fx.Int32, fx.Int32]:
    """Which page of its sequence a key is in, and where in it."""
    if form.page_keys:
        return at >> (form.page_keys.bit_length() - 1), at & (form.page_keys - 1)
    which = at // numbers.page
    return which, at - which * numbers.page


@flyc.jit
def look_up(
    entries: fx.Tensor, step: fx.Int32, work: Work, table: fx.Pointer, numbers: Numbers, tile: Tile, form: Form
):
    """The entries of the page table for a thread's rows of a step; behind the last key come others of its page."""
    rows = rows_of(tile, form)
    for i in fx.range_constexpr(rows.many):
        at = fx.min(step * tile.n + (rows.first + i * rows.apart), work.keys - 1)
        which, _ = in_page(fx.max(at, 0), numbers, form)
        entries[i] = fx.Int32(table[work.batch * numbers.table_row + which])


@flyc.jit
def ask_pages(
    load: fx.nvgpu.TmaAtom,
    smem: fx.Pointer,
    barrier: fx.nvgpu.MBarrier,
    row: fx.Int32,
    head: fx.Int32,
    pages: list[fx.Int32],
    numbers: Numbers,
    tile: Tile,
    form: Form,
    width: int,
):
    """A step's rows from their pages, `form.page` rows at a time."""
    columns = load.tile[1]
    rows = rows_of(tile, form)
    for i in fx.range_constexpr(rows.many):
        line = rows.first + i * rows.apart
        if line < tile.n:
            _, at = in_page(row + line, numbers, form)
            for box in fx.range_constexpr(width // columns):
                target = smem + (box * (tile.n * columns) + line * columns)
                load.load((at, box * columns, head, pages[i]), target, barrier)


@flyc.jit
def bring_rows(
    source: Source,
    smem: fx.Pointer,
    barrier: fx.nvgpu.MBarrier,
    row: fx.Int32,
    head: fx.Int32,
    work: Work,
    pages: list[fx.Int32],
    numbers: Numbers,
    tile: Tile,
    form: Form,
    width: int,
):
    """A step's rows by a warpgroup, 16 bytes a thread, as the copy engine brings them; zeros behind the last.

    Who reads them by the tensor cores has a fence behind its wait: it is the copies that arrive, not their threads.
    """
    lanes, wide = tile.lanes, span(width)
    each = wide // 8
    rows, lane = rows_of(tile, form), fx.thread_idx.x % lanes
    atom = fx.make_copy_atom(fx.nvgpu.CpAsync(128, "cg", zero_fill=True), source.start.dtype)
    start = source.start + (fx.Int64(head) * source.head + fx.Int64(lane * 8))
    if fx.const_expr(not form.page):
        batch = fx.Int32(0) if form.packed_k else work.batch
        start = start + (fx.Int64(batch) * source.batch + fx.Int64(work.first_key) * source.row)
    # A thread's rows are apart by what the swizzle repeats after: it is the same for all of them.
    turn = (rows.first * (2 * wide) >> 7) & (each - 1)
    places: list[fx.Pointer] = []
    for c in fx.range_constexpr(0, width // 8, lanes):
        unit = (lane + c % each) ^ turn
        places.append(smem + (rows.first * wide + unit * 8 + c // each * (tile.n * wide)))
    whole = fx.make_layout(8, 1)
    for i in fx.range_constexpr(rows.many):
        line = row + (rows.first + i * rows.apart)
        at, place = fx.min(line, work.keys - 1), fx.Int64(0)
        if fx.const_expr(form.page):
            _, at = in_page(at, numbers, form)
            place = fx.Int64(pages[i]) * source.batch
        given = start + (place + fx.Int64(at) * source.row)
        valid = (line < work.keys).select(fx.Int32(8), fx.Int32(0))
        for c in fx.range_constexpr(len(places)):
            to = fx.make_view(places[c] + i * (rows.apart * wide), whole)
            fx.copy(atom, fx.make_view(given + c * (lanes * 8), whole), to, valid=valid)
    barrier.arrive_after_copies(noinc=True)


def load_map(
    x: fx.Tensor,
    rows: fx.Int32,
    d: int,
    heads: fx.Int32,
    batches: fx.Int32,
    strides: tuple[fx.Int64, fx.Int64, fx.Int64],
    box: int,
    once: bool = False,
    wide: int = 0,
) -> fx.nvgpu.TmaAtom:
    """(rows, d, heads, batch) for the copy engine, in boxes of what one copy fetches: `wide` columns, or what divides
    `d`.

    What is read once comes at memory's speed if L2 asks for no more than a line at a time.
    """
    row, head, batch = strides
    view = fx.make_view(fx.get_iter(x), fx.make_layout((rows, d, heads, batches), (row, 1, head, batch)))
    size = x.dtype.width // 8
    wide = wide or span(d, size)
    return fx.nvgpu.make_tma_atom(
        fx.nvgpu.TMALoad(), view, None, (box, wide, 1, 1), swizzle=size * wide, l2_fetch=128 if once else 256
    )


def turned_map(x: fx.Tensor, steps: fx.Int32, tile: Tile, once: bool) -> fx.nvgpu.TmaAtom:
    """Turned values, (boxes of all steps, dv, keys of a box), for the copy engine."""
    width = span(tile.n, 1)
    layout = fx.make_layout((steps * (tile.n // width), tile.dv, width), (fx.Int64(tile.dv * width), width, 1))
    view = fx.make_view(fx.get_iter(x), layout)
    return fx.nvgpu.make_tma_atom(
        fx.nvgpu.TMALoad(), view, None, (1, tile.dv, width), swizzle=width, l2_fetch=128 if once else 256
    )


__all__ = [
    "Source",
    "ask_pages",
    "bring_rows",
    "fetch",
    "load_map",
    "look_up",
    "rows_of",
    "turned_map",
]
