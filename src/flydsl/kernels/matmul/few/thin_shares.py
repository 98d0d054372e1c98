"""`thin_kernel` where every block has as much to do: all columns' steps along K are dealt in equal shares.

A block's share begins and ends anywhere: it has some whole tiles of columns, and parts of the first and the last one.
What it has of a part goes to memory, and the last block to come adds up a tile's parts in the order of K: the same bits
in every run. Nobody waits for another. While the warps' sums of a tile are added up, the next one's weights are on
their way.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..sm90.promote import sum_class
from .thin import PAD, UNSCALED, Scales, Thin, depth_of
from .thin_kernel import (
    QUAD,
    WORDS,
    Given,
    Result,
    add_sums,
    columns_at,
    fetch,
    fetch_inside,
    multiply,
    put_sums,
    store,
    tokens_at,
)


class Share(NamedTuple):
    """How steps are dealt: `steps` for each tile of columns, `per` for each block."""

    steps: fx.Int32
    per: fx.Int32

    def parts_of(self, tile: fx.Int32) -> tuple[fx.Int32, fx.Int32]:
        """The first block that has some of a tile, and their number."""
        first = tile * self.steps // self.per
        return first, ((tile + 1) * self.steps - 1) // self.per - first + 1

    def slot(self, block: fx.Int32, tile: fx.Int32) -> fx.Int32:
        """Where a block's part of a tile is: it has at most one that it begins with, and one that it ends with."""
        return 2 * block + (block * self.per // self.steps != tile).select(fx.Int32(1), 0)


@flyc.kernel
def thin_shares_kernel(
    a: fx.Pointer,
    w: fx.Pointer,
    c: fx.Pointer,
    bias: fx.Tensor | None,
    scale_a: fx.Tensor | None,
    scale_b: fx.Tensor | None,
    work: fx.Pointer,
    counters: fx.Pointer,
    thin: fx.Constexpr[Thin],
    scales: fx.Constexpr[Scales],
    activation: fx.Constexpr[str],
    quads: fx.Constexpr[bool],
    given: Given,
):
    nv = fx.nvgpu
    total, deep = sum_class(a.dtype), depth_of(a.dtype.width)
    tid, block = fx.thread_idx.x, fx.block_idx.x
    warp, lane = nv.uniform(tid // 32), tid % 32
    along = lane % 4 * (deep // 4)
    tokens = tokens_at(a, lane, along, thin, given)
    sums = fx.make_rmem_tensor(fx.make_layout(4 * thin.tiles * (thin.tokens // 8), 1), total)
    sums.fill(0)
    depth = deep * thin.units
    steps = fx.ceildiv(given.k, depth * thin.warps)
    count = fx.ceildiv(given.n, thin.rows) * steps
    share = Share(steps, fx.ceildiv(count, fx.grid_dim.x))
    begin = block * share.per
    end = fx.min(begin + share.per, count)
    reads = 2 * thin.tiles + thin.tokens // 8
    layout = fx.make_layout((WORDS, reads, thin.units), (1, WORDS, WORDS * reads))
    held, coming = fx.make_rmem_tensor(layout, fx.Int32), fx.make_rmem_tensor(layout, fx.Int32)
    parts = fx.get_dyn_shared(total)
    flag = fx.recast_iter(fx.Int32, fx.recast_iter(fx.Int8, parts) + 2 * thin.part_bytes)
    out = Result(c, bias, scale_a, scale_b, scales, activation, quads)
    nv.griddepcontrol_wait()
    nv.griddepcontrol_launch()

    tile, step = begin // steps, begin % steps
    even = fx.Int32(0)
    if begin < end:
        fetch_step(held, w, tokens, tile, step, warp, lane, along, thin, given, deep)
    for i in range(begin, end):
        is_last = step + 1 == steps
        tile_next, step_next = tile + is_last.select(fx.Int32(1), 0), is_last.select(fx.Int32(0), step + 1)
        if i + 1 < end:
            fetch_step(coming, w, tokens, tile_next, step_next, warp, lane, along, thin, given, deep)
        multiply(sums, held, thin, w.dtype, a.dtype)
        if is_last | (i + 1 == end):
            # Sums of two tiles take turns: who is still adding up the one before has its own.
            here = parts + even * (thin.part_bytes // 4)
            even = 1 - even
            put_sums(here + warp * (thin.tokens * (thin.rows + PAD)), sums, thin, lane)
            sums.fill(0)
            fx.barrier()
            finish_tile(here, work, counters + tile, flag, out, given, share, begin, i + 1, tile, block, tid, thin)
        held.store(coming.load())
        tile, step = tile_next, step_next


@flyc.jit
def fetch_step(
    held: fx.Tensor,
    w: fx.Pointer,
    tokens: list[fx.Pointer],
    tile: fx.Int32,
    step: fx.Int32,
    warp: fx.Int32,
    lane: fx.Int32,
    along: fx.Int32,
    thin: Thin,
    given: Given,
    deep: int,
):
    """What a warp multiplies of a tile's step."""
    columns = columns_at(w, tile * thin.rows, lane, along, thin, given)
    at = (step * thin.warps + warp) * (deep * thin.units)
    if at + deep * thin.units <= given.k:
        fetch(held, columns, tokens, at, thin, deep)
    else:
        fetch_inside(held, [*columns, *tokens], at, along, given.k, thin, deep)


@flyc.jit
def finish_tile(
    parts: fx.Pointer,
    work: fx.Pointer,
    counter: fx.Pointer,
    flag: fx.Pointer,
    out: Result,
    given: Given,
    share: Share,
    begin: fx.Int32,
    end: fx.Int32,
    tile: fx.Int32,
    block: fx.Int32,
    tid: fx.Int32,
    thin: Thin,
):
    """Add up what the warps have of a tile, from step `begin` to `end` of all; a tile that is whole is stored."""
    results, threads, first = thin.size // QUAD, 32 * thin.warps, tile * thin.rows
    if (begin <= tile * share.steps) & (end == (tile + 1) * share.steps):
        for at in range(tid, results, threads):
            store(add_sums(parts, at, thin), out, given, first, at, thin)
    else:
        mine = work + fx.Int64(share.slot(block, tile)) * thin.size
        for at in range(tid, results, threads):
            fx.nvgpu.store_global(mine + at * QUAD, add_sums(parts, at, thin), cache="cg")
        fx.barrier()
        first_block, many = share.parts_of(tile)
        if tid == 0:
            before = fx.atomic_add(counter, 1, syncscope="device", ordering=fx.AtomicOrdering.AcqRel)
            if before == many - 1:
                # For the next launch.
                fx.generic_store(counter, 0, memory_order=fx.AtomicOrdering.Monotonic, syncscope="device")
            flag[0] = before
        fx.barrier()
        if flag[0] == many - 1:
            added = fx.make_rmem_tensor(fx.make_layout(QUAD, 1), work.dtype)
            for at in range(tid, results, threads):
                added.fill(0)
                for other in range(first_block, first_block + many):
                    place = work + (fx.Int64(share.slot(other, tile)) * thin.size + at * QUAD)
                    found = cast("fx.Vector", fx.nvgpu.load_global(place, QUAD, cache="cg"))
                    added.store(added.load() + found)
                store(added.load(), out, given, first, at, thin)


@flyc.jit
def thin_shares_matmul(
    a: fx.Tensor,
    w: fx.Tensor,
    c: fx.Tensor,
    bias: fx.Tensor | None,
    work: fx.Tensor,
    counters: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    step_a: fx.Int64,
    step_w: fx.Int64,
    step_c: fx.Int64,
    thin: fx.Constexpr[Thin],
    activation: fx.Constexpr[str] = "none",
    quads: fx.Constexpr[bool] = False,
    stream: fx.Stream = fx.Stream(None),
    scale_a: fx.Tensor | None = None,
    scale_b: fx.Tensor | None = None,
    scales: fx.Constexpr[Scales] = UNSCALED,
):
    """What `thin_matmul` does, by `thin.blocks` blocks.

    `work` has room for two tiles' sums of each, and `counters` a zero for each tile, which are left as they were found.
    """
    given = Given(m, n, k, step_a, step_w, step_c)
    room = fx.recast_iter(sum_class(a.dtype), fx.get_iter(work))
    thin_shares_kernel(
        fx.get_iter(a), fx.get_iter(w), fx.get_iter(c), bias, scale_a, scale_b, room, fx.get_iter(counters), thin,
        scales, activation, quads, given,
    ).launch(grid=thin.blocks, block=32 * thin.warps, stream=stream, pdl=True, smem=thin.shared_bytes)  # fmt: skip
