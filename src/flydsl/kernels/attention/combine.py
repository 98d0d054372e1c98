"""Results of parts of the keys, each with the logarithm of its sum of exponentials, become one.

A warp has a row of a head. Parts without a key have minus infinity and count nothing.
"""

from __future__ import annotations

from typing import cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from .softmax import LN2, LOG2E
from .walk import pointer_of

WARPS = 4
LANES = 32


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
    fx.nvgpu.griddepcontrol_wait()
    lane = fx.thread_idx.x % LANES
    at = fx.block_idx.x * WARPS + fx.thread_idx.x // LANES
    rows = batches * heads * queries
    if at < rows:
        line, row = at // queries, at % queries
        batch, head = line // heads, line % heads
        top = fx.Float32(float("-inf"))
        for s in range(splits):
            top = fx.maximumf(top, fx.Float32(heights[fx.Int64(s) * fx.Int64(rows) + at]) * LOG2E)
        if fx.const_expr(sinks is not None):
            top = fx.maximumf(top, fx.Float32(cast("fx.Pointer", sinks)[head]) * LOG2E)
        none = top == float("-inf")
        height = none.select(fx.Float32(0.0), top)
        total = fx.Float32(0.0)
        if fx.const_expr(sinks is not None):
            total = fx.exp2(fx.Float32(cast("fx.Pointer", sinks)[head]) * LOG2E - height)
        columns = -(-dv // LANES)
        sums = fx.make_rmem_tensor(fx.make_layout(columns, 1), fx.Float32)
        sums.fill(0.0)
        for s in range(splits):
            place = fx.Int64(s) * fx.Int64(rows) + at
            weight = fx.exp2(fx.Float32(heights[place]) * LOG2E - height)
            total = total + weight
            for i in fx.range_constexpr(columns):
                if lane + i * LANES < dv:
                    sums[i] = sums[i] + weight * parts[place * dv + (lane + i * LANES)]
        share = none.select(fx.Float32(0.0), 1.0 / none.select(fx.Float32(1.0), total))
        origin = fx.Int64(batch) * batch_out + fx.Int64(row) * row_out + fx.Int64(head) * head_out
        for i in fx.range_constexpr(columns):
            if lane + i * LANES < dv:
                out[origin + (lane + i * LANES)] = out.dtype(sums[i] * share)
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
        grid=fx.ceildiv(batches * heads * queries, WARPS), block=WARPS * LANES, stream=stream, pdl=True
    )  # fmt: skip
