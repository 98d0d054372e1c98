"""Latent keys of one byte on Hopper: a warpgroup brings them and widens them to the type of the queries.

The tensor cores multiply operands of one width. What the copy engine brings stays in stages of its own, and all threads
of the warpgroup write it, eight elements of 16 bits to a unit, to where products read it.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ...matmul.hopper_out import swizzle
from .form import WIDE, Latent, Rows, fetch_pages, page_of

THREADS = 128
UNIT = 16
"""Elements that a thread widens at once."""


class Raw(NamedTuple):
    """Stages of bytes, in boxes of 64 columns, and the barriers that say they are there."""

    base: fx.Pointer
    full: fx.nvgpu.MBarrier


@flyc.jit
def bring(
    load: fx.nvgpu.TmaAtom,
    raw: Raw,
    base: fx.Pointer,
    full: fx.nvgpu.MBarrier,
    empty: fx.nvgpu.MBarrier,
    high: fx.Int32,
    count: fx.Int32,
    keys: fx.Int32,
    batch: fx.Int32,
    table: fx.Pointer | None,
    numbers: Rows,
    form: Latent,
):
    """All steps from the last one on, `form.raw` of them asked for ahead."""
    n, size = form.n, form.n * form.d
    for i in range(fx.min(count, form.raw)):
        ask(load, raw.base + i * size, raw.full[i], (high - 1 - i) * n, keys, batch, table, numbers, form)
    stage, phase, source, parity = fx.Int32(0), fx.Int32(1), fx.Int32(0), fx.Int32(0)
    for i in range(count):
        raw.full[source].wait(parity)
        empty[stage].wait(phase)
        widen(raw.base + source * size, base + stage * size, keys - (high - 1 - i) * n, form)
        fx.nvgpu.fence_proxy_async()
        full[stage].arrive()
        fx.nvgpu.named_barrier(4, THREADS).sync()
        later = i + form.raw
        if later < count:
            row = (high - 1 - later) * n
            ask(load, raw.base + source * size, raw.full[source], row, keys, batch, table, numbers, form)
        stage = stage + 1
        if stage == form.stages:
            stage = fx.Int32(0)
            phase = phase ^ 1
        source = source + 1
        if source == form.raw:
            source = fx.Int32(0)
            parity = parity ^ 1


@flyc.jit
def ask(
    load: fx.nvgpu.TmaAtom,
    place: fx.Pointer,
    barrier: fx.nvgpu.MBarrier,
    row: fx.Int32,
    keys: fx.Int32,
    batch: fx.Int32,
    table: fx.Pointer | None,
    numbers: Rows,
    form: Latent,
):
    """A step's rows: from pages by as many threads as a warp has, each with its own; else by one."""
    tid = fx.thread_idx.x
    if tid < (32 if form.page else 1):
        if tid == 0:
            barrier.expect_tx(form.n * form.d)
        if fx.const_expr(form.page):
            first = page_of(row + tid * form.page, keys, batch, table, numbers)
            fetch_pages(load, place, barrier, row, first, keys, batch, table, numbers, form)
        else:
            for box in fx.range_constexpr(form.d // WIDE):
                load.load((row, box * WIDE, 0, batch), place + box * (form.n * WIDE), barrier)


def widen(source: fx.Pointer, target: fx.Pointer, rows: fx.Int32, form: Latent) -> None:
    """A stage of bytes in 16 bits, as products read them; behind the last of `rows` come zeros."""
    n, boxes, dtype = form.n, form.d // WIDE, target.dtype
    units = WIDE // UNIT
    each = UNIT // 2
    given = fx.make_view(source, fx.make_layout((UNIT, n * units, boxes), (1, UNIT, n * WIDE)))
    layout = fx.make_layout((each, WIDE // each, n, boxes), (1, each, WIDE, n * WIDE))
    wanted = fx.make_view(fx.apply_swizzle(target, swizzle(2 * WIDE)), layout)
    read, write = (fx.make_copy_atom(fx.UniversalCopy(128), x) for x in (source.dtype, dtype))
    held = fx.make_rmem_tensor(fx.make_layout(UNIT, 1), source.dtype)
    made = fx.make_rmem_tensor(fx.make_layout(each, 1), dtype)
    for first in range(0, n * units, THREADS):
        unit = fx.thread_idx.x + first
        row, column = unit // units, unit % units * 2
        for box in range(boxes):
            fx.copy(read, given[None, unit, box], held)
            found = held.load()
            if form.used_k:
                # Whatever lies there, its weights of 0 must not make it NaN.
                words = found.bitcast(fx.Int32)
                seen = (row < rows).select(words, fx.Vector.filled(words.numel, 0, fx.Int32))
                found = cast("fx.Vector", seen).bitcast(source.dtype)
            values = fx.nvgpu.from_fp8(found)
            wide = values if dtype is fx.Float16 else values.to(fx.Float32).to(dtype)
            for i in range(2):
                made.store(wide.shuffle(wide, [each * i + x for x in range(each)]))
                fx.copy(write, made, wanted[None, column + i, row, box])


__all__ = ["Raw", "bring"]
