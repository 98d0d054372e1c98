"""Sums of fp8 that keep f32: tensor cores add up 128 products, and threads these sums, times their factors."""

from __future__ import annotations

from typing import NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx

from .hopper_out import Out, corner, swizzle
from .tile import LINE, Form, Tile


class Ring(NamedTuple):
    """Stages: their barriers, how many there are, where the first is, and this block's part of K."""

    full: fx.nvgpu.MBarrier
    empty: fx.nvgpu.MBarrier
    stages: int
    base: fx.Pointer
    part: fx.Int32


class Turns(NamedTuple):
    """Barriers of two consumers that issue their products one after the other."""

    mine: fx.nvgpu.named_barrier
    next: fx.nvgpu.named_barrier
    first: fx.Boolean


def scale_counts(tile: Tile, form: Form) -> tuple[int, int]:
    """Factors a thread has of 128 products of 64 rows: of its rows, and of its columns."""
    return (2 if form.scale_x == "line" else 1), (tile.n // 4 if form.scale_y == "line" else 1)


def factors(tile: Tile, form: Form) -> fx.Tensor:
    return fx.make_rmem_tensor(fx.make_layout(tile.rows // 64 * sum(scale_counts(tile, form)), 1), fx.Float32)


def fetch_scales(out: Out, held: fx.Tensor, row: fx.Int32, column: fx.Int32, step: fx.Int32) -> None:
    """The factors of a step's 128 products, for each 64 rows of a consumer; of sums that are not stored, any."""
    tile, form = out.tile, out.form
    if not form.blocked:
        return
    assert out.scale_x is not None and out.scale_y is not None
    lane = out.member % 32
    of_rows, of_columns = scale_counts(tile, form)
    for r in range(tile.rows // 64):
        top, left = corner(out, row, column, r)
        first = r * (of_rows + of_columns)
        if form.scale_x == "line":
            for v in range(2):
                at = top + out.member // 32 * 16 + lane // 4 + 8 * v
                held[first + v] = out.scale_x[fx.min(at, out.rows - 1), step]
        else:
            held[first] = out.scale_x[fx.min(top, out.rows - 1) // 128, step]
        first = first + of_rows
        if form.scale_y == "line":
            for i in range(tile.n // 4):
                at = left + lane % 4 * 2 + 8 * (i // 2) + i % 2
                held[first + i] = out.scale_y[fx.min(at, out.columns - 1), step]
        else:
            held[first] = out.scale_y[fx.min(left, out.columns - 1) // 128, step]


def add_rows(tile: Tile, form: Form, grand: fx.Tensor, acc: fx.Tensor, held: fx.Tensor, r: int) -> None:
    """The sums of some products of 64 rows, with their factors, to those of all."""
    values = tile.n // 2
    of_rows, of_columns = scale_counts(tile, form)
    first = r * (of_rows + of_columns)
    for i in range(values):
        at = r * values + i
        if form.blocked:
            j, v, e = i // 4, i // 2 % 2, i % 2
            factor = held[first + min(v, of_rows - 1)] * held[first + of_rows + min(2 * j + e, of_columns - 1)]
            grand[at] = fx.fma(acc[i], factor, grand[at])
        else:
            grand[at] = grand[at] + acc[i]


def add_step(tile: Tile, form: Form, grand: fx.Tensor, acc: fx.Tensor, held: fx.Tensor) -> None:
    """The same for all rows."""
    values = tile.n // 2
    for r in range(tile.rows // 64):
        add_rows(tile, form, grand, fx.make_view(fx.get_iter(acc) + r * values, fx.make_layout(values, 1)), held, r)


def multiply(mma: fx.TiledMma, acc: fx.Tensor, parts_x: fx.Tensor, parts_y: fx.Tensor, stage: fx.Int32) -> None:
    """The products of a stage, alone: they replace what `acc` had, and are a group of their own."""
    fx.ktrace.range_push("multiply")
    for k in range(4):
        now = mma.set_value("accumulate", fx.Int32(0)) if k == 0 else mma
        fx.gemm(now, acc, parts_x[None, None, k, stage], parts_y[None, None, k, stage], acc)
    fx.nvgpu.wgmma_commit()
    fx.ktrace.range_pop()


def wait(full: fx.nvgpu.MBarrier, phase: fx.Int32) -> None:
    fx.ktrace.range_push("wait full")
    full.wait(phase)
    fx.ktrace.range_pop()


def advance(stage: fx.Int32, phase: fx.Int32, count: int) -> tuple[fx.Int32, fx.Int32]:
    """The next stage, and the parity of its barriers."""
    around = stage == count - 1
    return around.select(fx.Int32(0), stage + 1), phase ^ fx.Int32(around)


@flyc.jit
def release(barrier: fx.nvgpu.MBarrier, member: fx.Int32, cluster: int, part: fx.Int32):
    """A warpgroup has read a stage: tell the producers of all blocks that write to it."""
    if fx.const_expr(cluster == 1):
        if member == 0:
            barrier.arrive()
    else:
        if member < cluster:
            barrier.arrive_remote(part * cluster + member)


@flyc.jit
def hand_over(turns: Turns, last: fx.Boolean):
    """It is the other's turn; behind the last one, nobody's."""
    if turns.first | ~last:
        turns.next.arrive()


def sum_class(dtype: type[fx.Numeric]) -> type[fx.Numeric]:
    """What products of a type are summed in."""
    return fx.Int32 if dtype in (fx.Int8, fx.Uint8) else fx.Float32


@flyc.jit
def sum_twice(
    grand: fx.Tensor,
    out: Out,
    ring: Ring,
    mma: fx.TiledMma,
    parts_x: fx.Tensor,
    parts_y: fx.Tensor,
    row: fx.Int32,
    column: fx.Int32,
    begin: fx.Int32,
    steps: fx.Int32,
    stage: fx.Int32,
    phase: fx.Int32,
):
    """Two sets of sums: threads add up one while the tensor cores fill the other.

    Factors come in front of a step's products, a step before they are needed; behind them they would be in the way.
    """
    nv, tile, form = fx.nvgpu, out.tile, out.form
    acc, other = (fx.make_rmem_tensor(grand.layout, fx.Float32) for _ in range(2))
    scales, coming = factors(tile, form), factors(tile, form)
    if steps > 0:
        fetch_scales(out, scales, row, column, begin)
        wait(ring.full[stage], phase)
        multiply(mma, acc, parts_x, parts_y, stage)
        before = stage
        stage, phase = advance(stage, phase, ring.stages)
        for pair in range((steps - 1) // 2):
            for second in fx.range_constexpr(2):
                ready, held = (other, coming) if second else (acc, scales)
                filled, asked = (acc, scales) if second else (other, coming)
                fetch_scales(out, asked, row, column, begin + pair * 2 + (1 + second))
                wait(ring.full[stage], phase)
                multiply(mma, filled, parts_x, parts_y, stage)
                nv.wgmma_wait(1, ready)
                release(ring.empty[before], out.member, tile.cluster, ring.part)
                add_step(tile, form, grand, ready, held)
                before = stage
                stage, phase = advance(stage, phase, ring.stages)
        if steps % 2 == 0:
            fetch_scales(out, coming, row, column, begin + steps - 1)
            wait(ring.full[stage], phase)
            multiply(mma, other, parts_x, parts_y, stage)
            nv.wgmma_wait(1, acc)
            release(ring.empty[before], out.member, tile.cluster, ring.part)
            add_step(tile, form, grand, acc, scales)
            nv.wgmma_wait(0, other)
            release(ring.empty[stage], out.member, tile.cluster, ring.part)
            add_step(tile, form, grand, other, coming)
        else:
            nv.wgmma_wait(0, acc)
            release(ring.empty[before], out.member, tile.cluster, ring.part)
            add_step(tile, form, grand, acc, scales)


def rows_at(ring: Ring, tile: Tile, dtype: type[fx.Numeric], r: int) -> fx.Tensor:
    """X's stages: 64 rows for each consumer."""
    bk = LINE * 8 // dtype.width
    teams = 1 if tile.pingpong else tile.consumers
    first = fx.recast_iter(dtype, ring.base) + r * 64 * teams * bk
    layout = fx.make_layout((64 * teams, bk, ring.stages), (bk, 1, tile.m * bk))
    return fx.make_view(fx.apply_swizzle(first, swizzle(LINE)), layout)


@flyc.jit
def sum_once(
    grand: fx.Tensor,
    out: Out,
    ring: Ring,
    turns: Turns,
    mma: fx.TiledMma,
    dtype: type[fx.Numeric],
    mine: fx.Int32,
    parts_y: fx.Tensor,
    row: fx.Int32,
    column: fx.Int32,
    begin: fx.Int32,
    steps: fx.Int32,
    stage: fx.Int32,
    phase: fx.Int32,
):
    """One set of sums of 64 rows: a consumer adds them up while the tensor cores multiply for another."""
    nv, tile, form = fx.nvgpu, out.tile, out.form
    repeats = tile.rows // 64
    acc = fx.make_rmem_tensor(fx.make_layout(((2, 2, tile.n // 8), 1, 1), ((1, 2, 4), 0, 0)), fx.Float32)
    parts_x = [mma.get_slice(mine).partition_A(rows_at(ring, tile, dtype, r)) for r in range(repeats)]
    scales = [factors(tile, form) for _ in range(2)]
    ordered = tile.in_order
    if steps > 0:
        if fx.const_expr(ordered):
            if ~turns.first:
                turns.next.arrive()
        fetch_scales(out, scales[0], row, column, begin)
        for pair in range(fx.ceildiv(steps, 2)):
            for second in fx.range_constexpr(2):
                step = pair * 2 + second
                if step < steps:
                    fetch_scales(out, scales[1 - second], row, column, begin + fx.min(step + 1, steps - 1))
                    wait(ring.full[stage], phase)
                    for r in fx.range_constexpr(repeats):
                        if fx.const_expr(ordered):
                            turns.mine.sync()
                        multiply(mma, acc, parts_x[r], parts_y, stage)
                        nv.wgmma_commit()
                        if fx.const_expr(ordered):
                            hand_over(turns, step == steps - 1)
                        nv.wgmma_wait(0, acc)
                        if fx.const_expr(r == repeats - 1):
                            release(ring.empty[stage], out.member, tile.cluster, ring.part)
                        add_rows(tile, form, grand, acc, scales[second], r)
                    stage, phase = advance(stage, phase, ring.stages)


__all__ = ["Ring", "Turns", "advance", "release", "sum_class", "sum_once", "sum_twice"]
