"""Gradients of attention for every target: threads multiply and add, in f32, always in the same order.

A block holds 16 rows, of queries for dQ or of keys for dK and dV, eight threads a row, and walks along the others, 16
at a time. Both are the same walk: a pair's score is the product of a query and a key, its weight's gradient that of a
result's gradient and a value, whichever of them is held.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from .. import grids
from . import plain
from .dropout import Drop, share_of
from .plain import KEYS, LANES, PAD, ROWS, THREADS, Extras, Sight, Steps, at, changed, offset
from .softmax import LOG2E
from .walk import pointer_of


class Kind(NamedTuple):
    """What is compiled in."""

    d: int
    dv: int
    left: bool
    right: bool
    softcap: bool
    dropout: bool
    of_keys: bool
    """Gradients of keys and values are computed, not those of queries."""


@flyc.kernel
def delta_kernel(
    out: fx.Pointer,
    grad: fx.Pointer,
    delta: fx.Pointer,
    dv: fx.Int32,
    queries: fx.Int32,
    heads: fx.Int32,
    rows: fx.Int32,
    of_out: Steps,
    of_grad: Steps,
):
    """Of each row of the result, its product with its gradient."""
    lane = fx.thread_idx.x % LANES
    which = fx.block_idx.x * ROWS + fx.thread_idx.x // LANES
    total = fx.Float32(0.0)
    if which < rows:
        line, row = which // queries, which % queries
        batch, head = line // heads, line % heads
        for column in range(lane, dv, LANES):
            total = total + at(out, of_out, batch, row, head, column) * at(grad, of_grad, batch, row, head, column)
    for i in fx.range_constexpr(3):
        total = total + fx.shuffle_xor(total, 1 << i, LANES)
    if (which < rows) & (lane == 0):
        delta[which] = total


@flyc.kernel
def gradient_kernel(
    held: fx.Pointer,
    held_v: fx.Pointer,
    others: fx.Pointer,
    others_v: fx.Pointer,
    lse: fx.Pointer,
    delta: fx.Pointer,
    result: fx.Pointer,
    result_v: fx.Pointer,
    bias: fx.Pointer | None,
    alibi: fx.Pointer | None,
    cu_q: fx.Pointer | None,
    cu_k: fx.Pointer | None,
    kind: fx.Constexpr[Kind],
    sight: Sight,
    drop: Drop,
    batches: fx.Int32,
    queries: fx.Int32,
    keys: fx.Int32,
    heads: fx.Int32,
    group: fx.Int32,
    alibi_batch: fx.Int32,
    lse_head: fx.Int64,
    lse_batch: fx.Int64,
    of_held: Steps,
    of_held_v: Steps,
    of_others: Steps,
    of_others_v: Steps,
    of_result: Steps,
    of_result_v: Steps,
    of_bias: Steps,
):
    extras = Extras(None, None, None, bias, alibi, None, cu_q, cu_k, None, None)
    scored = plain.Kind(kind.d, kind.dv, kind.left, kind.right, kind.softcap, False, kind.dropout)
    tid = fx.thread_idx.x
    blocks = fx.ceildiv(keys if kind.of_keys else queries, ROWS)
    block, head, batch = fx.block_idx.x % blocks, fx.block_idx.x // blocks, fx.min(grids.number(), batches - 1)
    r, lane = tid // LANES, tid % LANES
    d, dv = kind.d, kind.dv
    base = fx.get_dyn_shared(fx.Float32)
    rows = fx.make_layout((ROWS, d), (d + PAD, 1))
    rows_v = fx.make_layout((ROWS, dv), (dv + PAD, 1))
    smem = fx.make_view(base, rows)
    smem_v = fx.make_view(base + ROWS * (d + PAD), rows_v)
    second = base + ROWS * (d + dv + 2 * PAD)
    other, other_v = fx.make_view(second, rows), fx.make_view(second + ROWS * (d + PAD), rows_v)
    third = second + ROWS * (d + dv + 2 * PAD)
    pairs = fx.make_layout((ROWS, KEYS), (KEYS + PAD, 1))
    weights, slopes = fx.make_view(third, pairs), fx.make_view(third + ROWS * (KEYS + PAD), pairs)
    first_q, first_k = fx.Int32(0), fx.Int32(0)
    if fx.const_expr(cu_q is not None):
        first_q = fx.Int32(cast("fx.Pointer", cu_q)[batch])
        queries = fx.Int32(cast("fx.Pointer", cu_q)[batch + 1]) - first_q
    if fx.const_expr(cu_k is not None):
        first_k = fx.Int32(cast("fx.Pointer", cu_k)[batch])
        keys = fx.Int32(cast("fx.Pointer", cu_k)[batch + 1]) - first_k
    # Blocks of no sequence have no rows, nor anything to walk along.
    there = grids.number() < batches
    count, length = (there.select(x, fx.Int32(0)) for x in ((keys, queries) if kind.of_keys else (queries, keys)))
    begin_held, begin_others = (first_k, first_q) if kind.of_keys else (first_q, first_k)
    shift = keys - queries
    first = block * ROWS
    row = first + r
    for i in range(tid, ROWS * d, THREADS):
        smem[i // d, i % d] = element(held, of_held, batch, begin_held, first + i // d, head, i % d, count)
    for i in range(tid, ROWS * dv, THREADS):
        smem_v[i // dv, i % dv] = element(
            held_v, of_held_v, batch, begin_held, first + i // dv, head, i % dv, count
        )  # fmt: skip
    sums = fx.make_rmem_tensor(fx.make_layout(d // LANES, 1), fx.Float32)
    sums_v = fx.make_rmem_tensor(fx.make_layout(dv // LANES, 1), fx.Float32)
    sums.fill(0.0)
    sums_v.fill(0.0)
    low, high = fx.Int32(0), length
    if fx.const_expr(kind.of_keys):
        if fx.const_expr(kind.right):
            low = fx.max(first - shift - sight.right, 0) // KEYS
        if fx.const_expr(kind.left):
            high = fx.min(high, first + ROWS - shift + sight.left)
    else:
        if fx.const_expr(kind.right):
            high = fx.min(high, first + ROWS + shift + sight.right)
        if fx.const_expr(kind.left):
            low = fx.max(first + shift - sight.left, 0) // KEYS
    steps = fx.max(fx.ceildiv(fx.max(high, 0), KEYS) - low, 0)
    # Keys have the queries of all heads that share them; queries the keys of one head.
    repeats = group if kind.of_keys else fx.Int32(1)
    for step in range(steps * repeats):
        which = step // fx.max(steps, 1)
        begin = (low + step - which * steps) * KEYS
        from_head = head * group + which if kind.of_keys else head // group
        fx.barrier()
        for i in range(tid, KEYS * d, THREADS):
            other[i // d, i % d] = element(
                others, of_others, batch, begin_others, begin + i // d, from_head, i % d, length
            )  # fmt: skip
        for i in range(tid, KEYS * dv, THREADS):
            other_v[i // dv, i % dv] = element(
                others_v, of_others_v, batch, begin_others, begin + i // dv, from_head, i % dv, length
            )  # fmt: skip
        fx.barrier()
        for s in fx.range_constexpr(KEYS // LANES):
            column = lane + s * LANES
            score, slope = fx.Float32(0.0), fx.Float32(0.0)
            for e in range(d):
                score = score + smem[r, e] * other[column, e]
            for e in range(dv):
                slope = slope + smem_v[r, e] * other_v[column, e]
            query, key = (begin + column, row) if kind.of_keys else (row, begin + column)
            asks = from_head if kind.of_keys else head
            line = fx.Int64(batch) * lse_batch + fx.Int64(asks) * lse_head + first_q
            score = score * sight.scale
            bent = fx.Float32(1.0)
            if fx.const_expr(kind.softcap):
                capped = fx.tanh(score / sight.softcap)
                bent = 1.0 - capped * capped
            score = changed(
                score, query, key, shift, queries, keys, batch, asks, extras, scored, sight, of_bias, alibi_batch
            )
            weight, mean = fx.Float32(0.0), fx.Float32(0.0)
            if (query < queries) & (score > float("-inf")):
                mean = fx.Float32(delta[line + query])
                weight = fx.exp2(score - fx.Float32(lse[line + query]) * LOG2E)
            stays = fx.Float32(1.0)
            if fx.const_expr(kind.dropout):
                stays = share_of(drop, batch * heads + asks, query, key)
            weights[r, column] = weight * stays
            slopes[r, column] = weight * (slope * stays - mean) * bent * sight.scale
        fx.barrier()
        for column in range(KEYS):
            slope = slopes[r, column]
            for i in fx.range_constexpr(d // LANES):
                sums[i] = sums[i] + slope * other[column, lane + i * LANES]
            if fx.const_expr(kind.of_keys):
                weight = weights[r, column]
                for i in fx.range_constexpr(dv // LANES):
                    sums_v[i] = sums_v[i] + weight * other_v[column, lane + i * LANES]
    if row < count:
        for i in fx.range_constexpr(d // LANES):
            result[offset(of_result, batch, begin_held + row, head, lane + i * LANES)] = result.dtype(sums[i])
        if fx.const_expr(kind.of_keys):
            for i in fx.range_constexpr(dv // LANES):
                place = offset(of_result_v, batch, begin_held + row, head, lane + i * LANES)
                result_v[place] = result_v.dtype(sums_v[i])


@flyc.jit
def element(
    x: fx.Pointer,
    steps: Steps,
    batch: fx.Int32,
    begin: fx.Int32,
    row: fx.Int32,
    head: fx.Int32,
    column: fx.Int32,
    rows: fx.Int32,
):
    """An element of a sequence that begins at a row, or zero where the sequence has no such row."""
    value = fx.Float32(0.0)
    if row < rows:
        value = at(x, steps, batch, begin + row, head, column)
    return value


def shared_bytes(d: int, dv: int) -> int:
    return 4 * (2 * ROWS * (d + dv + 2 * PAD) + 2 * ROWS * (KEYS + PAD))


@flyc.jit
def plain_backward(
    q: fx.Tensor,
    k: fx.Tensor,
    v: fx.Tensor,
    out: fx.Tensor,
    grad: fx.Tensor,
    lse: fx.Tensor,
    delta: fx.Tensor,
    dq: fx.Tensor,
    dk: fx.Tensor,
    dv: fx.Tensor,
    bias: fx.Tensor | None,
    alibi: fx.Tensor | None,
    cu_q: fx.Tensor | None,
    cu_k: fx.Tensor | None,
    batches: fx.Int32,
    queries: fx.Int32,
    keys: fx.Int32,
    all_queries: fx.Int32,
    all_keys: fx.Int32,
    heads: fx.Int32,
    kv_heads: fx.Int32,
    alibi_batch: fx.Int32,
    batch_q: fx.Int64,
    row_q: fx.Int64,
    head_q: fx.Int64,
    column_q: fx.Int64,
    batch_k: fx.Int64,
    row_k: fx.Int64,
    head_k: fx.Int64,
    column_k: fx.Int64,
    batch_v: fx.Int64,
    row_v: fx.Int64,
    head_v: fx.Int64,
    column_v: fx.Int64,
    batch_out: fx.Int64,
    row_out: fx.Int64,
    head_out: fx.Int64,
    column_out: fx.Int64,
    batch_grad: fx.Int64,
    row_grad: fx.Int64,
    head_grad: fx.Int64,
    column_grad: fx.Int64,
    batch_bias: fx.Int64,
    row_bias: fx.Int64,
    head_bias: fx.Int64,
    column_bias: fx.Int64,
    left: fx.Int32,
    right: fx.Int32,
    scale: fx.Float32,
    softcap: fx.Float32,
    seed: fx.Int64,
    cut: fx.Int64,
    factor: fx.Float32,
    kind: fx.Constexpr[Kind],
    stream: fx.Stream = fx.Stream(None),
):
    """Gradients are contiguous, (batch, rows, heads, d); strides of the others are in elements.

    `queries` and `keys` are those of the longest sequence, and `all_queries` and `all_keys` the rows of the arrays.
    """
    of_q, of_k = Steps(batch_q, row_q, head_q, column_q), Steps(batch_k, row_k, head_k, column_k)
    of_v, of_out = Steps(batch_v, row_v, head_v, column_v), Steps(batch_out, row_out, head_out, column_out)
    of_grad = Steps(batch_grad, row_grad, head_grad, column_grad)
    of_bias = Steps(batch_bias, row_bias, head_bias, column_bias)
    sight, drop = Sight(left, right, scale, softcap), Drop(seed, cut, factor)
    group = heads // kv_heads
    # Sequences that lie one behind the other are one long one where heads do not matter.
    rows = (1 if cu_q is not None else batches) * heads * all_queries
    lse_head = fx.Int64(all_queries)
    lse_batch = fx.Int64(0) if cu_q is not None else fx.Int64(heads) * lse_head
    places = [fx.get_iter(t) for t in (q, k, v, out, grad, lse, delta, dq, dk, dv)]
    at_q, at_k, at_v, at_out, at_grad, at_lse, at_delta, at_dq, at_dk, at_dv = places
    wide = shared_bytes(kind.d, kind.dv)
    delta_kernel(at_out, at_grad, at_delta, fx.Int32(kind.dv), all_queries, heads, rows, of_out, of_grad).launch(
        grid=fx.ceildiv(rows, ROWS), block=THREADS, stream=stream
    )
    packed_q = packed(None if cu_q is not None else queries, heads, kind.d)
    packed_k, packed_v = (packed(None if cu_k is not None else keys, kv_heads, x) for x in (kind.d, kind.dv))
    more = pointer_of(bias), pointer_of(alibi), pointer_of(cu_q), pointer_of(cu_k)
    gradient_kernel(
        at_q, at_grad, at_k, at_v, at_lse, at_delta, at_dq, at_dv, *more, kind._replace(of_keys=False), sight, drop,
        batches, queries, keys, heads, group, alibi_batch, lse_head, lse_batch, of_q, of_grad, of_k, of_v, packed_q,
        packed_v, of_bias,
    ).launch(
        grid=(fx.ceildiv(queries, ROWS) * heads, *grids.spread(batches)), block=THREADS, smem=wide, stream=stream
    )  # fmt: skip
    gradient_kernel(
        at_k, at_v, at_q, at_grad, at_lse, at_delta, at_dk, at_dv, *more, kind._replace(of_keys=True), sight, drop,
        batches, queries, keys, heads, group, alibi_batch, lse_head, lse_batch, of_k, of_v, of_q, of_grad, packed_k,
        packed_v, of_bias,
    ).launch(
        grid=(fx.ceildiv(keys, ROWS) * kv_heads, *grids.spread(batches)), block=THREADS, smem=wide, stream=stream
    )  # fmt: skip


def packed(rows: fx.Int32 | None, heads: fx.Int32, columns: int) -> Steps:
    """Strides of a contiguous (batch, rows, heads, columns), or without a batch."""
    line = fx.Int64(heads) * columns
    return Steps(fx.Int64(0 if rows is None else rows) * line, line, fx.Int64(columns), fx.Int64(1))
