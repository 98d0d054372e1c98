"""Results of parts of the keys, each with the logarithm of its sum of exponentials, become one.

32 lanes have a row of a head. They have a part's logarithm each, and four columns of the sums; what several parts
have is asked for before the first of them is waited for. Parts without a key have minus infinity and count nothing.
"""

from __future__ import annotations

from typing import cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.nvgpu.target import trace_target

from .softmax import LN2, LOG2E
from .walk import pointer_of

WARPS = 4
LANES = 32
MOST = 2 * LANES
"""Parts there may be."""
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
    splits: fx.Int32,
    batches: fx.Int32,
    queries: fx.Int32,
    heads: fx.Int32,
    batch_out: fx.Int64,
    row_out: fx.Int64,
    head_out: fx.Int64,
):
    nv = fx.nvgpu
    lane = fx.thread_idx.x % LANES
    at = fx.block_idx.x * WARPS + fx.thread_idx.x // LANES
    rows = batches * heads * queries
    if fx.const_expr(starts_early()):
        nv.griddepcontrol_wait()
    if at < rows:
        line, row = at // queries, at % queries
        batch, head = line // heads, line % heads
        mine: list[fx.Float32] = []
        for i in fx.range_constexpr(MOST // LANES):
            found = fx.Float32(float("-inf"))
            if lane + i * LANES < splits:
                found = fx.Float32(heights[fx.Int64(lane + i * LANES) * fx.Int64(rows) + at]) * LOG2E
            mine.append(found)
        top = mine[0]
        for i in fx.range_constexpr(1, MOST // LANES):
            top = fx.maximumf(top, mine[i])
        for i in fx.range_constexpr(5):
            top = fx.maximumf(top, fx.shuffle_xor(top, 1 << i, LANES))
        if fx.const_expr(sinks is not None):
            top = fx.maximumf(top, fx.Float32(cast("fx.Pointer", sinks)[head]) * LOG2E)
        none = top == float("-inf")
        height = none.select(fx.Float32(0.0), top)
        weights = [fx.exp2(x - height) for x in mine]
        total = weights[0]
        for i in fx.range_constexpr(1, MOST // LANES):
            total = total + weights[i]
        for i in fx.range_constexpr(5):
            total = total + fx.shuffle_xor(total, 1 << i, LANES)
        if fx.const_expr(sinks is not None):
            total = total + fx.exp2(fx.Float32(cast("fx.Pointer", sinks)[head]) * LOG2E - height)
        groups = -(-dv // (COLUMNS * LANES))
        sums = fx.make_rmem_tensor(fx.make_layout((COLUMNS, groups), (1, COLUMNS)), fx.Float32)
        sums.fill(0.0)
        first = lane * COLUMNS
        for s in range(0, splits, BATCH):
            for j in fx.range_constexpr(groups):
                column = first + j * (COLUMNS * LANES)
                there: list[fx.Vector] = []
                for i in fx.range_constexpr(BATCH):
                    # Behind the last part the last one comes again, with no weight.
                    place = fx.Int64(fx.min(s + i, splits - 1)) * fx.Int64(rows) + at
                    here = parts + (place * dv + fx.min(column, dv - COLUMNS))
                    there.append(cast("fx.Vector", nv.load_global(here, COLUMNS)))
                for i in fx.range_constexpr(BATCH):
                    low = fx.shuffle_idx(weights[0], (s + i) % LANES, LANES)
                    high = fx.shuffle_idx(weights[1], (s + i) % LANES, LANES)
                    weight = (fx.Int32(s) + i < LANES).select(low, high)
                    for c in fx.range_constexpr(COLUMNS):
                        sums[c, j] = sums[c, j] + weight * there[i][c]
        share = none.select(fx.Float32(0.0), 1.0 / none.select(fx.Float32(1.0), total))
        origin = fx.Int64(batch) * batch_out + fx.Int64(row) * row_out + fx.Int64(head) * head_out
        for j in fx.range_constexpr(groups):
            column = first + j * (COLUMNS * LANES)
            if column < dv:
                for c in fx.range_constexpr(COLUMNS):
                    out[origin + (column + c)] = out.dtype(sums[c, j] * share)
        if fx.const_expr(lse is not None):
            if lane == 0:
                found = (height + fx.log2(none.select(fx.Float32(1.0), total))) * LN2
                cast("fx.Pointer", lse)[at] = none.select(fx.Float32(float("-inf")), found)


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
    stream: fx.Stream = fx.Stream(None),
):
    """`parts` is (splits, batch, heads, queries, dv) and `heights` (splits, batch, heads, queries), f32 both."""
    combine_kernel(
        fx.get_iter(parts), fx.get_iter(heights), fx.get_iter(out), pointer_of(lse), pointer_of(sinks), dv,
        splits, batches, queries, heads,
        batch_out, row_out, head_out,
    ).launch(
        grid=fx.ceildiv(batches * heads * queries, WARPS), block=WARPS * LANES, stream=stream, pdl=starts_early()
    )  # fmt: skip
