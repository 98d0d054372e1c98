"""Latent keys of one byte on Hopper: a warpgroup brings them and widens them to the type of the queries.

The tensor cores multiply operands of one width. What the copy engine brings stays in stages of its own, and all threads
of the warpgroup write it, eight elements of 16 bits to a unit, to where products read it.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ...matmul.sm90.out import swizzle
from ..consumer import after
from .form import CHUNK, ROWS, WIDE, Latent, Rows, fetch_pages, pages_of

THREADS = 128
UNIT = 16
"""Elements that a thread widens at once; with four to a row of a box, a thread has one unit of a box."""
TOGETHER = 5
"""Boxes whose units are read before the first of them is written."""


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
    free: fx.nvgpu.MBarrier,
    high: fx.Int32,
    count: fx.Int32,
    keys: fx.Int32,
    batch: fx.Int32,
    table: fx.Pointer | None,
    numbers: Rows,
    form: Latent,
):
    """All steps from the last one on, `form.raw` chunks of keys asked for ahead."""
    size, each = CHUNK * form.d, form.n // CHUNK
    end = high * form.n
    chunks = count * each
    for i in range(fx.min(chunks, form.raw)):
        ask(load, raw.base + i * size, raw.full[i], end - (i + 1) * CHUNK, keys, batch, table, numbers, form)
    stage, phase, source, parity = fx.Int32(0), fx.Int32(1), fx.Int32(0), fx.Int32(0)
    for i in range(count):
        if fx.const_expr(form.lent):
            if i == form.stages - 1:
                free.wait(0)
        empty[stage].wait(phase)
        for j in fx.range_constexpr(each):
            raw.full[source].wait(parity)
            row = end - (i * each + j + 1) * CHUNK
            place = base + (stage * (form.n * form.d) + (each - 1 - j) * (CHUNK * WIDE))
            widen(raw.base + source * size, place, keys - row, form)
            if fx.const_expr(j == each - 1):
                fx.nvgpu.fence_proxy_async()
                full[stage].arrive()
            fx.nvgpu.named_barrier(2, THREADS).sync()
            later = i * each + j + form.raw
            if later < chunks:
                row = end - (later + 1) * CHUNK
                ask(load, raw.base + source * size, raw.full[source], row, keys, batch, table, numbers, form)
            source, parity = after(source, parity, form.raw)
        stage, phase = after(stage, phase, form.stages)


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
    """A chunk of rows."""
    tid = fx.thread_idx.x
    if fx.nvgpu.leader(tid) if form.asks == 1 else tid < form.asks:
        leads = fx.Boolean(True) if form.asks == 1 else tid == 0
        if leads:
            barrier.expect_tx(CHUNK * form.d)
        if fx.const_expr(form.page):
            pages = pages_of(row, keys, batch, table, numbers, form)
            fetch_pages(load, place, barrier, row, pages, numbers, form)
        else:
            for box in fx.range_constexpr(form.d // WIDE):
                load.load((row, box * WIDE, 0, batch), place + box * (CHUNK * WIDE), barrier)


def widen(source: fx.Pointer, target: fx.Pointer, rows: fx.Int32, form: Latent) -> None:
    """A chunk of bytes in 16 bits, as products read them; behind the last of `rows` come zeros."""
    boxes, units = form.d // WIDE, WIDE // UNIT
    layout = fx.make_layout((UNIT // 4, CHUNK * units, boxes), (1, UNIT // 4, CHUNK * WIDE // 4))
    given = fx.make_view(fx.recast_iter(fx.Int32, source), layout)
    layout = fx.make_layout((4, 2 * units, CHUNK, boxes), (1, 4, WIDE // 2, form.n * WIDE // 2))
    wanted = fx.make_view(fx.apply_swizzle(fx.recast_iter(fx.Int32, target), swizzle(2 * WIDE)), layout)
    copy = fx.make_copy_atom(fx.UniversalCopy(128), fx.Int32)
    held = [fx.make_rmem_tensor(fx.make_layout(UNIT // 4, 1), fx.Int32) for _ in range(TOGETHER)]
    made = fx.make_rmem_tensor(fx.make_layout(4, 1), fx.Int32)
    unit = fx.thread_idx.x
    row, column = unit // units, unit % units * 2
    for first in range(0, boxes, TOGETHER):
        some = range(first, min(first + TOGETHER, boxes))
        for box in some:
            fx.copy(copy, given[None, unit, box], held[box - first])
        for box in some:
            found = held[box - first].load()
            if form.used_k:
                # Whatever lies there, its weights of 0 must not make it NaN.
                found = cast("fx.Vector", (row < rows).select(found, fx.Vector.filled(found.numel, 0, fx.Int32)))
            packed = fx.nvgpu.from_fp8(found.bitcast(source.dtype)).bitcast(fx.Int32)
            for i in range(2):
                made.store(packed.shuffle(packed, [4 * i + x for x in range(4)]))
                fx.copy(copy, made, wanted[None, column + i, row, box])


@flyc.jit
def halves(base: fx.Pointer, lent: fx.Pointer, tops: fx.Pointer, form: Latent):
    """Queries of bf16 become f16 where they are, times a power of two that leaves their largest near 2 to the 15th.

    Both consumers have a part of them. What undoes the power is the result: scores are multiplied by it. Rows whose
    elements are not finite stay so, and do not count.
    """
    tid = fx.thread_idx.x - THREADS
    places = [(x, boxes * ROWS * WIDE // 8) for x, boxes in ((base, form.kept), (lent, form.lent)) if boxes]
    copy = fx.make_copy_atom(fx.UniversalCopy(128), fx.Int32)
    held = fx.make_rmem_tensor(fx.make_layout(4, 1), fx.Int32)
    top = fx.Int32(0)
    for place, units in places:
        view = fx.make_view(fx.recast_iter(fx.Int32, place), fx.make_layout((4, units), (1, 4)))
        for unit in range(tid, units, 2 * THREADS):
            fx.copy(copy, view[None, unit], held)
            for i in fx.range_constexpr(4):
                for shift in (0, 16):
                    bits = (fx.Int32(held[i]) >> shift) & 0x7FFF
                    top = fx.max(top, (bits < 0x7F80).select(bits, fx.Int32(0)))
    for i in fx.range_constexpr(5):
        top = fx.max(top, fx.shuffle_xor(top, 1 << i, 32))
    heights = fx.recast_iter(fx.Int32, tops)
    if tid % 32 == 0:
        heights[tid // 32] = top
    fx.nvgpu.named_barrier(3, 2 * THREADS).sync()
    for i in fx.range_constexpr(2 * THREADS // 32):
        top = fx.max(top, fx.Int32(heights[i]))
    # Exponents as f32 has them; within what the factor of scores, up to 1e8, leaves room for.
    power = fx.min(fx.max(268 - (top >> 7), 27), 157)
    grow = (power << 23).bitcast(fx.Float32)
    for place, units in places:
        view = fx.make_view(fx.recast_iter(fx.Int32, place), fx.make_layout((4, units), (1, 4)))
        for unit in range(tid, units, 2 * THREADS):
            fx.copy(copy, view[None, unit], held)
            values = held.load().bitcast(fx.BFloat16).to(fx.Float32) * grow
            held.store(values.to(fx.Float16).bitcast(fx.Int32))
            fx.copy(copy, held, view[None, unit])
    fx.nvgpu.fence_proxy_async()
    fx.nvgpu.named_barrier(3, 2 * THREADS).sync()
    return ((254 - power) << 23).bitcast(fx.Float32)


__all__ = ["Raw", "bring", "halves"]
