"""Sums of fp8 that keep f32: tensor cores add up 128 products, and threads these sums, times their factors."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..tile import LINE, Tile
from .factors import Ring, advance, factors, scale_counts, take_factors
from .out import Out, swizzle
from .tiles import Map, Place


def factors_of_columns(out: Out, held: fx.Tensor, first: int, column: fx.Int32) -> list[fx.Float32]:
    """A factor for each two of a thread's columns that are beside each other, or one for each of them."""
    tile, form = out.tile, out.form
    _, count = scale_counts(tile, form)
    values = [held[first + i] for i in range(count)]
    if form.scale_y == "line":
        return values
    # Squares begin anywhere in a tile whose width does not divide them, but for multiples of what divides both.
    inside = column * tile.n % 128
    unit = gcd(tile.n, 128)
    found: list[fx.Float32] = []
    for start in range(0, tile.n, unit):
        value = values[0] if start == 0 or count == 1 else values[1]
        if count == 2 and 0 < start < 128:
            value = (inside + start < 128).select(values[0], values[1])
        found += [value] * (unit // 4)
    return found


def add_rows(
    out: Out, grand: fx.Tensor, acc: fx.Tensor, held: fx.Tensor, column: fx.Int32, r: int, first: bool = False
) -> None:
    """The sums of some products of 64 rows, with their factors, to those of all; or the first ones for them."""
    values = out.tile.n // 2
    if not out.form.blocked:
        for i in range(values):
            grand[r * values + i] = acc[i] if first else grand[r * values + i] + acc[i]
        return
    of_rows, of_columns = scale_counts(out.tile, out.form)
    begin = r * (of_rows + of_columns)
    of_column = factors_of_columns(out, held, begin + of_rows, column)
    for i in range(values):
        at = r * values + i
        j, v, e = i // 4, i // 2 % 2, i % 2
        factor = held[begin + min(v, of_rows - 1)] * of_column[2 * j + e]
        grand[at] = acc[i] * factor if first else fx.fma(acc[i], factor, grand[at])


def add_step(out: Out, grand: fx.Tensor, acc: fx.Tensor, held: fx.Tensor, column: fx.Int32) -> None:
    """The same for all rows."""
    values = out.tile.n // 2
    for r in range(out.tile.rows // 64):
        mine = fx.make_view(fx.get_iter(acc) + r * values, fx.make_layout(values, 1))
        add_rows(out, grand, mine, held, column, r)


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


@flyc.jit
def release(barrier: fx.nvgpu.MBarrier, member: fx.Int32, cluster: int, part: fx.Int32):
    """A warpgroup has read a stage: tell the producers of all blocks that write to it."""
    if fx.const_expr(cluster == 1):
        if member == 0:
            barrier.arrive()
    else:
        if member < cluster:
            barrier.arrive_remote(part * cluster + member)


def sum_class(dtype: type[fx.Numeric]) -> type[fx.Numeric]:
    """What products of a type are summed in."""
    return fx.Int32 if dtype in (fx.Int8, fx.Uint8) else fx.Float32


class Tiles(NamedTuple):
    """A tile, the number of the one that follows it, and how that is found: while the first products run."""

    where: Map
    here: Place
    following: fx.Int32
    ahead: bool
    """Whether it is: there is a step at least."""

    def coming(self) -> Place:
        return self.where.at(self.following, self.here).held() if self.ahead else self.here


@flyc.jit
def sum_twice(
    grand: fx.Tensor,
    out: Out,
    ring: Ring,
    mma: fx.TiledMma,
    parts_x: fx.Tensor,
    parts_y: fx.Tensor,
    tiles: Tiles,
    steps: fx.Int32,
    stage: fx.Int32,
    phase: fx.Int32,
):
    """Two sets of sums: threads add up one while the tensor cores fill the other. Where the following tile is."""
    found = tiles.here
    if fx.const_expr(tiles.ahead):
        found = in_two_sets(grand, out, ring, mma, parts_x, parts_y, tiles, steps, stage, phase)
    else:
        grand.fill(0)
        if steps > 0:
            in_two_sets(grand, out, ring, mma, parts_x, parts_y, tiles, steps, stage, phase)
    return found


@flyc.jit
def in_two_sets(
    grand: fx.Tensor,
    out: Out,
    ring: Ring,
    mma: fx.TiledMma,
    parts_x: fx.Tensor,
    parts_y: fx.Tensor,
    tiles: Tiles,
    steps: fx.Int32,
    stage: fx.Int32,
    phase: fx.Int32,
):
    nv, tile, form = fx.nvgpu, out.tile, out.form
    row, column = tiles.here.row, tiles.here.column
    acc, other = (fx.make_rmem_tensor(grand.layout, fx.Float32) for _ in range(2))
    scales, coming = factors(tile, form), factors(tile, form)
    wait(ring.full[stage], phase)
    take_factors(out, scales, ring, row, stage)
    multiply(mma, acc, parts_x, parts_y, stage)
    found = tiles.coming()
    if fx.const_expr(tiles.ahead):
        grand.fill(0)
    before = stage
    stage, phase = advance(stage, phase, ring.stages)
    for _ in range((steps - 1) // 2):
        for second in fx.range_constexpr(2):
            ready, held = (other, coming) if second else (acc, scales)
            filled, asked = (acc, scales) if second else (other, coming)
            wait(ring.full[stage], phase)
            take_factors(out, asked, ring, row, stage)
            multiply(mma, filled, parts_x, parts_y, stage)
            nv.wgmma_wait(1, ready)
            release(ring.empty[before], out.member, tile.cluster, ring.part)
            add_step(out, grand, ready, held, column)
            before = stage
            stage, phase = advance(stage, phase, ring.stages)
    if steps % 2 == 0:
        wait(ring.full[stage], phase)
        take_factors(out, coming, ring, row, stage)
        multiply(mma, other, parts_x, parts_y, stage)
        nv.wgmma_wait(1, acc)
        release(ring.empty[before], out.member, tile.cluster, ring.part)
        add_step(out, grand, acc, scales, column)
        nv.wgmma_wait(0, other)
        release(ring.empty[stage], out.member, tile.cluster, ring.part)
        add_step(out, grand, other, coming, column)
    else:
        nv.wgmma_wait(0, acc)
        release(ring.empty[before], out.member, tile.cluster, ring.part)
        add_step(out, grand, acc, scales, column)
    return found


def sum_up(
    grand: fx.Tensor,
    out: Out,
    ring: Ring,
    mma: fx.TiledMma,
    dtype: type[fx.Numeric],
    mine: fx.Int32,
    parts_x: fx.Tensor,
    parts_y: fx.Tensor,
    tiles: Tiles,
    steps: fx.Int32,
    stage: fx.Int32,
    phase: fx.Int32,
) -> Place:
    """A tile's sums, with as many sets of them as registers hold. Where the following tile is."""
    if out.tile.two_sets:
        return sum_twice(grand, out, ring, mma, parts_x, parts_y, tiles, steps, stage, phase)
    return sum_once(grand, out, ring, mma, dtype, mine, parts_y, tiles, steps, stage, phase)


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
    mma: fx.TiledMma,
    dtype: type[fx.Numeric],
    mine: fx.Int32,
    parts_y: fx.Tensor,
    tiles: Tiles,
    steps: fx.Int32,
    stage: fx.Int32,
    phase: fx.Int32,
):
    """One set of sums of 64 rows: a consumer adds them up while the tensor cores multiply for another. Where the
    following tile is."""
    tile, row, column = out.tile, tiles.here.row, tiles.here.column
    repeats = tile.rows // 64
    acc = fx.make_rmem_tensor(fx.make_layout(((2, 2, tile.n // 8), 1, 1), ((1, 2, 4), 0, 0)), fx.Float32)
    parts_x = [mma.get_slice(mine).partition_A(rows_at(ring, tile, dtype, r)) for r in range(repeats)]
    scales = factors(tile, out.form)
    found = tiles.here
    # Of several 64 rows the sums would be read between products, which then wait for each other.
    apart = tiles.ahead and repeats == 1

    def add_up(stage: fx.Int32, phase: fx.Int32, first: bool) -> Place:
        found = tiles.here
        wait(ring.full[stage], phase)
        take_factors(out, scales, ring, row, stage)
        for r in fx.range_constexpr(repeats):
            multiply(mma, acc, parts_x[r], parts_y, stage)
            if fx.const_expr(first and r == 0):
                found = tiles.coming()
            fx.nvgpu.wgmma_wait(0, acc)
            if fx.const_expr(r == repeats - 1):
                release(ring.empty[stage], out.member, tile.cluster, ring.part)
            add_rows(out, grand, acc, scales, column, r, first)
        return found

    if fx.const_expr(apart):
        found = add_up(stage, phase, True)
        stage, phase = advance(stage, phase, ring.stages)
    else:
        found = tiles.coming()
        grand.fill(0)
    for _ in range(1 if apart else 0, steps):
        add_up(stage, phase, False)
        stage, phase = advance(stage, phase, ring.stages)
    return found


__all__ = ["Tiles", "multiply", "release", "sum_class", "sum_up", "wait"]
