"""Results of parts of the keys, each with the logarithm of its sum of exponentials, become one.

32 lanes have up to 128 columns of a row of a head. They have a part's logarithm each, and four columns of the sums;
what several parts have is asked for before the first of them is waited for. Parts without a key have minus infinity and
count nothing. Where parts are many, four such groups of lanes have every fourth of them.
"""

from __future__ import annotations

from typing import cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.nvgpu.target import trace_target

from .plan import FEW
from .softmax import LN2, LOG2E, finite
from .walk import Lengths, picked, pointer_of

WARPS = 4
LANES = 32
COLUMNS = 4
"""Neighbouring columns of a lane."""
BATCH = 8
"""Parts that are asked for together."""


def starts_early() -> bool:
    """Whether a kernel may start before the one it depends on is done."""
    target = trace_target()
    return target is not None and target.has("dependent_launch")


@flyc.kernel
def combine_kernel(
    parts: fx.Pointer,
    heights: fx.Pointer,
    out: fx.Pointer,
    lse: fx.Pointer | None,
    sinks: fx.Pointer | None,
    dv: fx.Constexpr[int],
    many: fx.Constexpr[bool],
    splits: fx.Int32,
    batches: fx.Int32,
    queries: fx.Int32,
    heads: fx.Int32,
    batch_out: fx.Int64,
    row_out: fx.Int64,
    head_out: fx.Int64,
    cu_k: fx.Pointer | None,
    used_k: fx.Pointer | None,
):
    if fx.const_expr(cu_k is not None or used_k is not None):
        splits = picked(Lengths(None, cu_k, used_k), batches, splits)
    if fx.const_expr(starts_early()):
        fx.nvgpu.griddepcontrol_wait()
    if fx.const_expr(cu_k is not None or used_k is not None):
        # One part was the result already.
        if splits > 1:
            combine_parts(
                parts, heights, out, lse, sinks, dv, many, splits, batches, queries, heads, batch_out, row_out, head_out
            )
    else:
        combine_parts(
            parts, heights, out, lse, sinks, dv, many, splits, batches, queries, heads, batch_out, row_out, head_out
        )


@flyc.jit
def combine_parts(
    parts: fx.Pointer,
    heights: fx.Pointer,
    out: fx.Pointer,
    lse: fx.Pointer | None,
    sinks: fx.Pointer | None,
    dv: int,
    many: bool,
    splits: fx.Int32,
    batches: fx.Int32,
    queries: fx.Int32,
    heads: fx.Int32,
    batch_out: fx.Int64,
    row_out: fx.Int64,
    head_out: fx.Int64,
):
    """A warp's rows, or where parts are many a block's."""
    lane, warp = fx.thread_idx.x % LANES, fx.thread_idx.x // LANES
    groups = -(-dv // (COLUMNS * LANES))
    rows = batches * heads * queries
    if fx.const_expr(many):
        unit = fx.block_idx.x
        at, first = unit // groups, unit % groups * (COLUMNS * LANES)
        column = first + lane * COLUMNS
        top, total, sums = gather(parts, heights, dv, at, column, lane, warp, WARPS, splits, rows)
        base = fx.get_dyn_shared(fx.Float32)
        width = COLUMNS * LANES
        for c in fx.range_constexpr(COLUMNS):
            base[warp * width + (lane * COLUMNS + c)] = sums[c]
        ends = base + WARPS * width
        if lane == 0:
            ends[warp] = top
            ends[warp + WARPS] = total
        fx.barrier()
        tops = [fx.Float32(ends[i]) for i in range(WARPS)]
        top = tops[0]
        for i in fx.range_constexpr(1, WARPS):
            top = fx.maximumf(top, tops[i])
        top, sink = with_sink(top, sinks, at // queries % heads)
        height = finite(top)
        total, mine = fx.exp2(sink - height), fx.Float32(0.0)
        for i in fx.range_constexpr(WARPS):
            weight = fx.exp2(tops[i] - height)
            total = total + weight * fx.Float32(ends[i + WARPS])
            mine = mine + weight * fx.Float32(base[i * width + fx.thread_idx.x])
        share = finished(lse, top, height, total, at, (fx.thread_idx.x == 0) & (first == 0))
        place = place_of(at, queries, heads, batch_out, row_out, head_out)
        if first + fx.thread_idx.x < dv:
            out[place + (first + fx.thread_idx.x)] = out.dtype(mine * share)
    else:
        unit = fx.block_idx.x * WARPS + warp
        if unit < rows * groups:
            at, first = unit // groups, unit % groups * (COLUMNS * LANES)
            column = first + lane * COLUMNS
            own, total, sums = gather(parts, heights, dv, at, column, lane, fx.Int32(0), 1, splits, rows)
            top, sink = with_sink(own, sinks, at // queries % heads)
            height = finite(top)
            weight = fx.exp2(own - height)
            total = fx.exp2(sink - height) + weight * total
            share = finished(lse, top, height, total, at, (lane == 0) & (first == 0)) * weight
            place = place_of(at, queries, heads, batch_out, row_out, head_out)
            if column < dv:
                for c in fx.range_constexpr(COLUMNS):
                    out[place + (column + c)] = out.dtype(sums[c] * share)


@flyc.jit
def gather(
    parts: fx.Pointer,
    heights: fx.Pointer,
    dv: int,
    at: fx.Int32,
    column: fx.Int32,
    lane: fx.Int32,
    way: fx.Int32,
    ways: int,
    splits: fx.Int32,
    rows: fx.Int32,
):
    """The highest logarithm (of base 2) of every `ways`th part, and sums with it: of the weights, and of this lane's
    columns."""
    mine: list[fx.Float32] = []
    for i in fx.range_constexpr(FEW // LANES):
        found = fx.Float32(float("-inf"))
        part = (lane + i * LANES) * ways + way
        if part < splits:
            found = fx.Float32(heights[fx.Int64(part) * fx.Int64(rows) + at]) * LOG2E
        mine.append(found)
    top = mine[0]
    for i in fx.range_constexpr(1, FEW // LANES):
        top = fx.maximumf(top, mine[i])
    for i in fx.range_constexpr(5):
        top = fx.maximumf(top, fx.shuffle_xor(top, 1 << i, LANES))
    height = finite(top)
    weights = [fx.exp2(x - height) for x in mine]
    total = weights[0]
    for i in fx.range_constexpr(1, FEW // LANES):
        total = total + weights[i]
    for i in fx.range_constexpr(5):
        total = total + fx.shuffle_xor(total, 1 << i, LANES)
    sums = fx.make_rmem_tensor(fx.make_layout(COLUMNS, 1), fx.Float32)
    sums.fill(0.0)
    count = fx.ceildiv(splits - way, ways)
    # A wave of 64 has two groups.
    origin = fx.Int32(fx.lane_id()) // LANES * LANES
    for s in range(0, count, BATCH):
        there: list[fx.Vector] = []
        for i in fx.range_constexpr(BATCH):
            # Behind the last part the last one comes again, with no weight.
            place = fx.Int64(fx.min(s + i, count - 1) * ways + way) * fx.Int64(rows) + at
            here = parts + (place * dv + fx.min(column, dv - COLUMNS))
            there.append(cast("fx.Vector", fx.nvgpu.load_global(here, COLUMNS)))
        for i in fx.range_constexpr(BATCH):
            low = fx.shuffle_idx(weights[0], origin + (s + i) % LANES)
            high = fx.shuffle_idx(weights[1], origin + (s + i) % LANES)
            weight = (fx.Int32(s) + i < LANES).select(low, high)
            for c in fx.range_constexpr(COLUMNS):
                sums[c] = sums[c] + weight * there[i][c]
    return top, total, sums


def with_sink(top: fx.Float32, sinks: fx.Pointer | None, head: fx.Int32) -> tuple[fx.Float32, fx.Float32]:
    """The highest logarithm with a head's sink, and the sink's own; minus infinity where there is none."""
    if sinks is None:
        return top, fx.Float32(float("-inf"))
    sink = fx.Float32(sinks[head]) * LOG2E
    return fx.maximumf(top, sink), sink


@flyc.jit
def finished(
    lse: fx.Pointer | None, top: fx.Float32, height: fx.Float32, total: fx.Float32, at: fx.Int32, stores: fx.Boolean
):
    """What sums are multiplied by; the logarithm is stored."""
    none = top == float("-inf")
    some = none.select(fx.Float32(1.0), total)
    if fx.const_expr(lse is not None):
        if stores:
            found = none.select(fx.Float32(float("-inf")), (height + fx.log2(some)) * LN2)
            cast("fx.Pointer", lse)[at] = found
    return none.select(fx.Float32(0.0), 1.0 / some)


def place_of(
    at: fx.Int32, queries: fx.Int32, heads: fx.Int32, batch_out: fx.Int64, row_out: fx.Int64, head_out: fx.Int64
) -> fx.Int64:
    """Where a row of the result starts."""
    line, row = at // queries, at % queries
    batch, head = line // heads, line % heads
    return fx.Int64(batch) * batch_out + fx.Int64(row) * row_out + fx.Int64(head) * head_out


@flyc.jit
def combine(
    parts: fx.Tensor,
    heights: fx.Tensor,
    out: fx.Tensor,
    lse: fx.Tensor | None,
    sinks: fx.Tensor | None,
    splits: fx.Int32,
    batches: fx.Int32,
    queries: fx.Int32,
    heads: fx.Int32,
    batch_out: fx.Int64,
    row_out: fx.Int64,
    head_out: fx.Int64,
    dv: fx.Constexpr[int],
    many: fx.Constexpr[bool],
    stream: fx.Stream = fx.Stream(None),
    cu_k: fx.Tensor | None = None,
    used_k: fx.Tensor | None = None,
):
    """`parts` is (splits, batch, heads, queries, dv) and `heights` (splits, batch, heads, queries), f32 both.

    `many` says that there are more than `FEW` parts. Where lengths are given, `splits` are two numbers of them.
    """
    units = batches * heads * queries * (-(-dv // (COLUMNS * LANES)))
    combine_kernel(
        fx.get_iter(parts), fx.get_iter(heights), fx.get_iter(out), pointer_of(lse), pointer_of(sinks), dv, many,
        splits, batches, queries, heads, batch_out, row_out, head_out, pointer_of(cu_k), pointer_of(used_k),
    ).launch(
        grid=units if many else fx.ceildiv(units, WARPS), block=WARPS * LANES, stream=stream, pdl=starts_early(),
        smem=4 * WARPS * (COLUMNS * LANES + 2) if many else 0,
    )  # fmt: skip
