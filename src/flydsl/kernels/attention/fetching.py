"""Rows of arrays on their way to shared memory: maps for the copy engine, and boxes as wide as the swizzle."""

from __future__ import annotations

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


@flyc.jit
def fetch_pages(
    load: fx.nvgpu.TmaAtom,
    smem: fx.Pointer,
    barrier: fx.nvgpu.MBarrier,
    row: fx.Int32,
    head: fx.Int32,
    work: Work,
    table: fx.Pointer,
    numbers: Numbers,
    tile: Tile,
    form: Form,
    width: int,
):
    """A step's rows from their pages, `form.page` rows at a time; behind the last key come others of its page."""
    columns = load.tile[1]
    boxes = width // columns
    last = fx.max(work.keys - 1, 0) // numbers.page
    for i in range(fx.thread_idx.x, tile.n // form.page, 32):
        at = row + i * form.page
        which = at // numbers.page
        page = fx.Int32(table[work.batch * numbers.table_row + fx.min(which, last)])
        for box in fx.range_constexpr(boxes):
            target = smem + (box * (tile.n * columns) + i * (form.page * columns))
            load.load((at - which * numbers.page, box * columns, head, page), target, barrier)


def load_map(
    x: fx.Tensor,
    rows: fx.Int32,
    d: int,
    heads: fx.Int32,
    batches: fx.Int32,
    strides: tuple[fx.Int64, fx.Int64, fx.Int64],
    box: int,
    once: bool = False,
) -> fx.nvgpu.TmaAtom:
    """(rows, d, heads, batch) for the copy engine, in boxes of what one copy fetches.

    What is read once comes at memory's speed if L2 asks for no more than a line at a time.
    """
    row, head, batch = strides
    view = fx.make_view(fx.get_iter(x), fx.make_layout((rows, d, heads, batches), (row, 1, head, batch)))
    size = x.dtype.width // 8
    wide = span(d, size)
    return fx.nvgpu.make_tma_atom(
        fx.nvgpu.TMALoad(), view, None, (box, wide, 1, 1), swizzle=size * wide, l2_fetch=128 if once else 256
    )


def turned_map(x: fx.Tensor, steps: fx.Int32, tile: Tile) -> fx.nvgpu.TmaAtom:
    """Turned values, (boxes of all steps, dv, keys of a box), for the copy engine."""
    width = span(tile.n, 1)
    layout = fx.make_layout((steps * (tile.n // width), tile.dv, width), (fx.Int64(tile.dv * width), width, 1))
    view = fx.make_view(fx.get_iter(x), layout)
    return fx.nvgpu.make_tma_atom(fx.nvgpu.TMALoad(), view, None, (1, tile.dv, width), swizzle=width)


__all__ = ["fetch", "fetch_pages", "load_map", "turned_map"]
