"""softmax(Q K^T) V for every target, type, layout and mask: threads multiply and add, in f32.

A block has 16 rows of queries of one head, eight threads a row. Steps of 16 keys and values go through shared memory;
each thread has two scores of its row, and every eighth column of its sums.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from .. import grids
from .dropout import Drop, share_of
from .softmax import LN2, LOG2E, finite
from .walk import Places, pointer_of

ROWS, KEYS, LANES = 16, 16, 8
THREADS = ROWS * LANES
PAD = 1
"""Elements between rows in shared memory, so that rows start in different banks."""


class Steps(NamedTuple):
    """Strides in elements."""

    batch: fx.Int64
    row: fx.Int64
    head: fx.Int64
    column: fx.Int64


class Sight(NamedTuple):
    """What of the keys is seen, and how scores become weights."""

    left: fx.Int32
    right: fx.Int32
    scale: fx.Float32
    softcap: fx.Float32


class Kind(NamedTuple):
    """What is compiled in."""

    d: int
    dv: int
    left: bool
    right: bool
    softcap: bool
    page: bool
    dropout: bool


class Extras(NamedTuple):
    """What may be there besides: factors of fp8, a bias, slopes, sinks, lengths and pages."""

    of_q: fx.Pointer | None
    of_k: fx.Pointer | None
    of_v: fx.Pointer | None
    bias: fx.Pointer | None
    alibi: fx.Pointer | None
    sinks: fx.Pointer | None
    cu_q: fx.Pointer | None
    cu_k: fx.Pointer | None
    used_k: fx.Pointer | None
    table: fx.Pointer | None


@flyc.kernel
def plain_kernel(
    q: fx.Pointer,
    k: fx.Pointer,
    v: fx.Pointer,
    out: fx.Pointer,
    lse: fx.Pointer | None,
    descale_q: fx.Pointer | None,
    descale_k: fx.Pointer | None,
    descale_v: fx.Pointer | None,
    bias: fx.Pointer | None,
    alibi: fx.Pointer | None,
    sinks: fx.Pointer | None,
    cu_q: fx.Pointer | None,
    cu_k: fx.Pointer | None,
    used_k: fx.Pointer | None,
    table: fx.Pointer | None,
    kind: fx.Constexpr[Kind],
    sight: Sight,
    drop: Drop,
    batches: fx.Int32,
    longest: fx.Int32,
    keys: fx.Int32,
    group: fx.Int32,
    page: fx.Int32,
    table_row: fx.Int32,
    alibi_batch: fx.Int32,
    by: Places,
    of_q: Steps,
    of_k: Steps,
    of_v: Steps,
    of_out: Steps,
    of_bias: Steps,
    lse_head: fx.Int64,
    lse_batch: fx.Int64,
):
    extras = Extras(descale_q, descale_k, descale_v, bias, alibi, sinks, cu_q, cu_k, used_k, table)
    tid = fx.thread_idx.x
    blocks = fx.ceildiv(longest, ROWS)
    block, head, batch = fx.block_idx.x % blocks, fx.block_idx.x // blocks, fx.min(grids.number(), batches - 1)
    r, lane = tid // LANES, tid % LANES
    d, dv = kind.d, kind.dv
    base = fx.get_dyn_shared(fx.Float32)
    smem_q = fx.make_view(base, fx.make_layout((ROWS, d), (d + PAD, 1)))
    smem_k = fx.make_view(base + ROWS * (d + PAD), fx.make_layout((KEYS, d), (d + PAD, 1)))
    smem_v = fx.make_view(base + (ROWS + KEYS) * (d + PAD), fx.make_layout((KEYS, dv), (dv + PAD, 1)))
    weights = fx.make_view(
        base + (ROWS + KEYS) * (d + PAD) + KEYS * (dv + PAD), fx.make_layout((ROWS, KEYS), (KEYS + PAD, 1))
    )
    first_q, queries = fx.Int32(0), longest
    if fx.const_expr(extras.cu_q is not None):
        first_q = fx.Int32(cast("fx.Pointer", extras.cu_q)[batch])
        queries = fx.Int32(cast("fx.Pointer", extras.cu_q)[batch + 1]) - first_q
    # Blocks of no sequence have no queries.
    queries = (grids.number() < batches).select(queries, fx.Int32(0))
    first_k = fx.Int32(0)
    if fx.const_expr(extras.cu_k is not None):
        first_k = fx.Int32(cast("fx.Pointer", extras.cu_k)[batch])
        keys = fx.Int32(cast("fx.Pointer", extras.cu_k)[batch + 1]) - first_k
    if fx.const_expr(extras.used_k is not None):
        keys = fx.Int32(cast("fx.Pointer", extras.used_k)[batch])
    row = block * ROWS + r
    shift = keys - queries
    kv_head = head // group
    if block * ROWS < queries:
        scale_q = one_of(extras.of_q, batch * by.batch_q + head // by.share * by.head_q)
        scale_k = one_of(extras.of_k, batch * by.batch_k + kv_head * by.head_k)
        scale_v = one_of(extras.of_v, batch * by.batch_v + kv_head * by.head_v)
        for i in range(tid, ROWS * d, THREADS):
            line, column = i // d, i % d
            value = fx.Float32(0.0)
            if block * ROWS + line < queries:
                value = at(q, of_q, batch, first_q + block * ROWS + line, head, column)
            smem_q[line, column] = value * scale_q
        sums = fx.make_rmem_tensor(fx.make_layout(dv // LANES, 1), fx.Float32)
        sums.fill(0.0)
        highest, total = fx.Float32(float("-inf")), fx.Float32(0.0)
        low, high = fx.Int32(0), keys
        if fx.const_expr(kind.right):
            high = fx.min(high, block * ROWS + ROWS + shift + sight.right)
        if fx.const_expr(kind.left):
            low = fx.max(block * ROWS + shift - sight.left, 0) // KEYS
        for step in range(low, fx.ceildiv(fx.max(high, 0), KEYS)):
            fx.barrier()
            for i in range(tid, KEYS * d, THREADS):
                line, column = i // d, i % d
                value = fx.Float32(0.0)
                if step * KEYS + line < keys:
                    where, place = key_place(extras, kind, batch, first_k + step * KEYS + line, page, table_row)
                    value = at(k, of_k, where, place, kv_head, column)
                smem_k[line, column] = value * scale_k
            for i in range(tid, KEYS * dv, THREADS):
                line, column = i // dv, i % dv
                value = fx.Float32(0.0)
                if step * KEYS + line < keys:
                    where, place = key_place(extras, kind, batch, first_k + step * KEYS + line, page, table_row)
                    value = at(v, of_v, where, place, kv_head, column)
                smem_v[line, column] = value * scale_v
            fx.barrier()
            scores: list[fx.Float32] = []
            for s in fx.range_constexpr(KEYS // LANES):
                column = lane + s * LANES
                key = step * KEYS + column
                score = fx.Float32(0.0)
                for e in range(d):
                    score = score + smem_q[r, e] * smem_k[column, e]
                scores.append(
                    changed(
                        score * sight.scale, row, key, shift, queries, keys, batch, head, extras, kind, sight, of_bias,
                        alibi_batch,
                    )
                )  # fmt: skip
            top = highest
            for s in fx.range_constexpr(KEYS // LANES):
                top = fx.maximumf(top, scores[s])
            for i in fx.range_constexpr(3):
                top = fx.maximumf(top, fx.shuffle_xor(top, 1 << i, LANES))
            # A row that has seen nothing yet has no weights at all.
            height = finite(top)
            factor = fx.exp2(highest - height)
            part = fx.Float32(0.0)
            for s in fx.range_constexpr(KEYS // LANES):
                weight = fx.exp2(scores[s] - height)
                part = part + weight
                if fx.const_expr(kind.dropout):
                    # The sum is that of all weights: those that stay make up for those that go.
                    line = batch * (fx.grid_dim.x // blocks) + head
                    weight = weight * share_of(drop, line, row, step * KEYS + lane + s * LANES)
                weights[r, lane + s * LANES] = weight
            for i in fx.range_constexpr(3):
                part = part + fx.shuffle_xor(part, 1 << i, LANES)
            total = total * factor + part
            highest = top
            fx.barrier()
            sums.store(sums.load() * factor)
            for key in range(KEYS):
                weight = weights[r, key]
                for i in fx.range_constexpr(dv // LANES):
                    sums[i] = sums[i] + weight * smem_v[key, lane + i * LANES]
        if row < queries:
            none = total == 0.0
            share = fx.Float32(1.0)
            if fx.const_expr(extras.sinks is not None):
                sink = fx.Float32(cast("fx.Pointer", extras.sinks)[head]) * LOG2E
                above = fx.maximumf(highest, sink)
                share = none.select(fx.Float32(0.0), fx.exp2(highest - finite(above)))
                total = total * share + fx.exp2(sink - finite(above))
                highest, none = above, total == 0.0
            share = none.select(fx.Float32(0.0), share / none.select(fx.Float32(1.0), total))
            for i in fx.range_constexpr(dv // LANES):
                place = offset(of_out, batch, first_q + row, head, lane + i * LANES)
                out[place] = out.dtype(sums[i] * share)
            if fx.const_expr(lse is not None):
                if lane == 0:
                    found = (highest + fx.log2(none.select(fx.Float32(1.0), total))) * LN2
                    found = none.select(fx.Float32(float("-inf")), found)
                    line = fx.Int64(batch) * lse_batch + fx.Int64(head) * lse_head
                    cast("fx.Pointer", lse)[line + (first_q + row)] = found


@flyc.jit
def changed(
    score: fx.Float32,
    row: fx.Int32,
    key: fx.Int32,
    shift: fx.Int32,
    queries: fx.Int32,
    keys: fx.Int32,
    batch: fx.Int32,
    head: fx.Int32,
    extras: Extras,
    kind: Kind,
    sight: Sight,
    of_bias: Steps,
    alibi_batch: fx.Int32,
):
    """A scaled score with all that is done to it, times log2(e); minus infinity for a key that is not seen."""
    if fx.const_expr(kind.softcap):
        score = sight.softcap * fx.tanh(score / sight.softcap)
    if fx.const_expr(extras.alibi is not None):
        slope = fx.Float32(cast("fx.Pointer", extras.alibi)[batch * alibi_batch + head])
        score = score - slope * fx.Float32(fx.max(row + shift - key, key - row - shift))
    seen = key < keys
    if fx.const_expr(kind.right):
        seen = seen & (key <= row + shift + sight.right)
    if fx.const_expr(kind.left):
        seen = seen & (key >= row + shift - sight.left)
    if fx.const_expr(extras.bias is not None):
        if seen & (row < queries):
            score = score + at(cast("fx.Pointer", extras.bias), of_bias, batch, row, head, key)
    return seen.select(score * LOG2E, fx.Float32(float("-inf")))


def one_of(x: fx.Pointer | None, place: fx.Int32) -> fx.Float32:
    return fx.Float32(1.0) if x is None else fx.Float32(x[place])


def offset(steps: Steps, batch: fx.Int32, row: fx.Int32, head: fx.Int32, column: fx.Int32) -> fx.Int64:
    return (
        fx.Int64(batch) * steps.batch
        + fx.Int64(row) * steps.row
        + fx.Int64(head) * steps.head
        + fx.Int64(column) * steps.column
    )


def at(x: fx.Pointer, steps: Steps, batch: fx.Int32, row: fx.Int32, head: fx.Int32, column: fx.Int32) -> fx.Float32:
    return fx.Float32(x[offset(steps, batch, row, head, column)])


def key_place(
    extras: Extras, kind: Kind, batch: fx.Int32, row: fx.Int32, page: fx.Int32, table_row: fx.Int32
) -> tuple[fx.Int32, fx.Int32]:
    """Which page, or sequence, a key is in, and which row of it."""
    if not kind.page:
        return batch, row
    which = row // page
    return fx.Int32(cast("fx.Pointer", extras.table)[batch * table_row + which]), row - which * page


def shared_bytes(kind: Kind) -> int:
    return 4 * ((ROWS + KEYS) * (kind.d + PAD) + KEYS * (kind.dv + PAD) + ROWS * (KEYS + PAD))


@flyc.jit
def plain_attention(
    q: fx.Tensor,
    k: fx.Tensor,
    v: fx.Tensor,
    out: fx.Tensor,
    lse: fx.Tensor | None,
    descale_q: fx.Tensor | None,
    descale_k: fx.Tensor | None,
    descale_v: fx.Tensor | None,
    bias: fx.Tensor | None,
    alibi: fx.Tensor | None,
    sinks: fx.Tensor | None,
    cu_q: fx.Tensor | None,
    cu_k: fx.Tensor | None,
    used_k: fx.Tensor | None,
    table: fx.Tensor | None,
    batches: fx.Int32,
    longest: fx.Int32,
    keys: fx.Int32,
    heads: fx.Int32,
    kv_heads: fx.Int32,
    page: fx.Int32,
    table_row: fx.Int32,
    alibi_batch: fx.Int32,
    batch_descale_q: fx.Int32,
    head_descale_q: fx.Int32,
    share_descale_q: fx.Int32,
    batch_descale_k: fx.Int32,
    head_descale_k: fx.Int32,
    batch_descale_v: fx.Int32,
    head_descale_v: fx.Int32,
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
    batch_bias: fx.Int64,
    row_bias: fx.Int64,
    head_bias: fx.Int64,
    column_bias: fx.Int64,
    head_lse: fx.Int64,
    batch_lse: fx.Int64,
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
    """Strides are in elements; those of a page are its batch's. `longest` is the number of queries, or the most."""
    plain_kernel(
        fx.get_iter(q), fx.get_iter(k), fx.get_iter(v), fx.get_iter(out), pointer_of(lse),
        pointer_of(descale_q), pointer_of(descale_k), pointer_of(descale_v), pointer_of(bias), pointer_of(alibi),
        pointer_of(sinks), pointer_of(cu_q), pointer_of(cu_k), pointer_of(used_k), pointer_of(table), kind,
        Sight(left, right, scale, softcap), Drop(seed, cut, factor), batches, longest, keys, heads // kv_heads, page,
        table_row, alibi_batch, Places(
            batch_descale_q, head_descale_q, share_descale_q, batch_descale_k, head_descale_k, batch_descale_v,
            head_descale_v,
        ), Steps(batch_q, row_q, head_q, column_q), Steps(batch_k, row_k, head_k, column_k),
        Steps(batch_v, row_v, head_v, column_v), Steps(batch_out, row_out, head_out, column_out),
        Steps(batch_bias, row_bias, head_bias, column_bias), head_lse, batch_lse,
    ).launch(
        grid=(fx.ceildiv(longest, ROWS) * heads, *grids.spread(batches)), block=THREADS, smem=shared_bytes(kind),
        stream=stream,
    )  # fmt: skip
