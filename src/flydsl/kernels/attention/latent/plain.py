"""Decoding with latent keys for every target and type: threads multiply and add, in f32.

A block has eight rows of queries, a row for each group of 32 threads, which have every 32nd column of its query and of
its sums. Keys go through shared memory, eight at a time.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ... import grids
from ..softmax import LN2
from ..walk import pointer_of

ROWS, KEYS, LANES = 8, 8, 32
THREADS = ROWS * LANES


class Shape(NamedTuple):
    """What is compiled in."""

    d: int
    dv: int
    causal: bool
    page: bool
    each: bool = False
    """Sequences have factors of their own."""


@flyc.kernel
def plain_latent_kernel(
    q: fx.Pointer,
    kv: fx.Pointer,
    out: fx.Pointer,
    lse: fx.Pointer | None,
    used_k: fx.Pointer | None,
    table: fx.Pointer | None,
    descale: fx.Pointer | None,
    shape: fx.Constexpr[Shape],
    batches: fx.Int32,
    queries: fx.Int32,
    heads: fx.Int32,
    keys: fx.Int32,
    page: fx.Int32,
    table_row: fx.Int32,
    factor: fx.Float32,
    row_q: fx.Int64,
    batch_q: fx.Int64,
    row_k: fx.Int64,
    batch_k: fx.Int64,
    row_out: fx.Int64,
    batch_out: fx.Int64,
):
    d, dv = shape.d, shape.dv
    block, batch = fx.block_idx.x, fx.min(grids.number(), batches - 1)
    tid = fx.thread_idx.x
    r, lane = tid // LANES, tid % LANES
    # Blocks of no sequence have no rows.
    row, rows = block * ROWS + r, (grids.number() < batches).select(queries * heads, fx.Int32(0))
    here = fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout((KEYS, d), (d, 1)))
    if fx.const_expr(used_k is not None):
        keys = fx.Int32(cast("fx.Pointer", used_k)[batch])
    grow = None
    if fx.const_expr(descale is not None):
        grow = fx.Float32(cast("fx.Pointer", descale)[batch if shape.each else 0])
        factor = factor * grow
    mine = fx.make_rmem_tensor(fx.make_layout(d // LANES, 1), fx.Float32)
    sums = fx.make_rmem_tensor(fx.make_layout(dv // LANES, 1), fx.Float32)
    sums.fill(0.0)
    mine.fill(0.0)
    if row < rows:
        at = q + (fx.Int64(batch) * batch_q + fx.Int64(row) * row_q + lane)
        for i in fx.range_constexpr(d // LANES):
            mine[i] = fx.Float32(at[i * LANES]) * factor
    end = keys
    if fx.const_expr(shape.causal):
        end = keys - (queries - 1 - fx.min(row // heads, queries - 1))
    highest, total = fx.Float32(float("-inf")), fx.Float32(0.0)
    for step in range(fx.ceildiv(keys, KEYS)):
        fx.barrier()
        for i in range(tid, KEYS * d, THREADS):
            line, column = i // d, i % d
            key = step * KEYS + line
            value = fx.Float32(0.0)
            if key < keys:
                where, place = batch, key
                if fx.const_expr(shape.page):
                    which = key // page
                    where = fx.Int32(cast("fx.Pointer", table)[batch * table_row + which])
                    place = key - which * page
                value = fx.Float32(kv[fx.Int64(where) * batch_k + fx.Int64(place) * row_k + column])
            here[line, column] = value
        fx.barrier()
        for k in range(KEYS):
            score = fx.Float32(0.0)
            for i in fx.range_constexpr(d // LANES):
                score = score + mine[i] * here[k, lane + i * LANES]
            for i in fx.range_constexpr(5):
                score = score + fx.shuffle_xor(score, 1 << i, LANES)
            if step * KEYS + k < end:
                top = fx.maximumf(highest, score)
                fade, weight = fx.exp2(highest - top), fx.exp2(score - top)
                total = total * fade + weight
                highest = top
                for i in fx.range_constexpr(dv // LANES):
                    sums[i] = sums[i] * fade + weight * here[k, lane + i * LANES]
    if row < rows:
        none = total == 0.0
        some = none.select(fx.Float32(1.0), total)
        to = out + (fx.Int64(batch) * batch_out + fx.Int64(row) * row_out + lane)
        for i in fx.range_constexpr(dv // LANES):
            found = sums[i] / some
            to[i * LANES] = out.dtype(found if grow is None else found * grow)
        if fx.const_expr(lse is not None):
            if lane == 0:
                found = none.select(fx.Float32(float("-inf")), (highest + fx.log2(some)) * LN2)
                cast("fx.Pointer", lse)[fx.Int64(batch) * fx.Int64(rows) + row] = found


@flyc.jit
def plain_latent(
    q: fx.Tensor,
    kv: fx.Tensor,
    out: fx.Tensor,
    lse: fx.Tensor | None,
    used_k: fx.Tensor | None,
    table: fx.Tensor | None,
    descale: fx.Tensor | None,
    batches: fx.Int32,
    queries: fx.Int32,
    heads: fx.Int32,
    keys: fx.Int32,
    row_q: fx.Int64,
    batch_q: fx.Int64,
    row_k: fx.Int64,
    batch_k: fx.Int64,
    row_out: fx.Int64,
    batch_out: fx.Int64,
    page: fx.Int32,
    table_row: fx.Int32,
    factor: fx.Float32,
    shape: fx.Constexpr[Shape],
    stream: fx.Stream = fx.Stream(None),
):
    """Rows of `q` and of `out` are queries times heads, and lie at equal distances; strides are in elements."""
    plain_latent_kernel(
        fx.get_iter(q), fx.get_iter(kv), fx.get_iter(out), pointer_of(lse), pointer_of(used_k), pointer_of(table),
        pointer_of(descale), shape, batches, queries, heads, keys, page, table_row, factor, row_q, batch_q, row_k,
        batch_k, row_out, batch_out,
    ).launch(
        grid=(fx.ceildiv(queries * heads, ROWS), *grids.spread(batches)), block=THREADS, smem=4 * KEYS * shape.d,
        stream=stream,
    )  # fmt: skip
