"""softmax(Q K^T) V with the matrix instructions of sm_80 and of AMD's GPUs, for 16-bit types and all that is done to
scores.

A block has 64 rows of queries of one head, 16 for each of its four waves. Steps of keys and values go through shared
memory, and so do scores on their way from one product to the other: threads see them there by rows.
"""

from __future__ import annotations

from typing import cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.target import GPUTarget

from .. import grids
from .dropout import Drop, shares_of
from .plain import Extras, Kind, Sight, Steps, changed, key_place, offset
from .softmax import LN2, LOG2E, finite
from .walk import pointer_of

ROWS, WAVES = 64, 4
PAD = 8
"""Elements between rows in shared memory, so that rows start in different banks."""


def keys_of(kind: Kind) -> int:
    """Keys of a step, as many as there is room for."""
    return 32 if max(kind.d, kind.dv) <= 128 else 16


def depth_of(target: GPUTarget) -> int | None:
    """Along k, what one instruction multiplies; None where there is none for 16-bit types."""
    if target.has("wmma_v3"):
        return 32
    found = any(map(target.has, ("mma_sync", "mfma", "wmma_v1", "wmma_v2")))
    return 16 if found else None


def takes(kind: Kind, target: GPUTarget) -> bool:
    depth = depth_of(target)
    return depth is not None and not (kind.d % depth or kind.dv % 16 or keys_of(kind) % depth)


@flyc.kernel
def matrix_kernel(
    q: fx.Pointer,
    k: fx.Pointer,
    v: fx.Pointer,
    out: fx.Pointer,
    lse: fx.Pointer | None,
    bias: fx.Pointer | None,
    alibi: fx.Pointer | None,
    sinks: fx.Pointer | None,
    cu_q: fx.Pointer | None,
    cu_k: fx.Pointer | None,
    used_k: fx.Pointer | None,
    table: fx.Pointer | None,
    mma: fx.TiledMma,
    kind: fx.Constexpr[Kind],
    members: fx.Constexpr[int],
    sight: Sight,
    drop: Drop,
    batches: fx.Int32,
    longest: fx.Int32,
    keys: fx.Int32,
    group: fx.Int32,
    page: fx.Int32,
    table_row: fx.Int32,
    alibi_batch: fx.Int32,
    of_q: Steps,
    of_k: Steps,
    of_v: Steps,
    of_out: Steps,
    of_bias: Steps,
    lse_head: fx.Int64,
    lse_batch: fx.Int64,
):
    extras = Extras(None, None, None, bias, alibi, sinks, cu_q, cu_k, used_k, table)
    tid, dtype = fx.thread_idx.x, q.dtype
    blocks = fx.ceildiv(longest, ROWS)
    block, head, batch = fx.block_idx.x % blocks, fx.block_idx.x // blocks, fx.min(grids.number(), batches - 1)
    d, dv, wide = kind.d, kind.dv, keys_of(kind)
    lanes = members // ROWS
    each = wide // lanes
    base = fx.get_dyn_shared(dtype)
    smem_q = fx.make_view(base, fx.make_layout((ROWS, d), (d + PAD, 1)))
    base_k = base + ROWS * (d + PAD)
    smem_k = fx.make_view(base_k, fx.make_layout((wide, d), (d + PAD, 1)))
    base_v = base_k + wide * (d + PAD)
    smem_v = fx.make_view(base_v, fx.make_layout((wide, dv), (dv + PAD, 1)))
    turned_v = fx.make_view(base_v, fx.make_layout((dv, wide), (1, dv + PAD)))
    base_w = base_v + wide * (dv + PAD)
    weights = fx.make_view(base_w, fx.make_layout((ROWS, wide), (wide + PAD, 1)))
    base_s = fx.recast_iter(fx.Float32, base_w + ROWS * (wide + PAD))
    scores = fx.make_view(base_s, fx.make_layout((ROWS, wide), (wide + 4, 1)))
    factors = base_s + ROWS * (wide + 4)

    first_q, queries = fx.Int32(0), longest
    if fx.const_expr(cu_q is not None):
        first_q = fx.Int32(cast("fx.Pointer", cu_q)[batch])
        queries = fx.Int32(cast("fx.Pointer", cu_q)[batch + 1]) - first_q
    # Blocks of no sequence have no queries.
    queries = (grids.number() < batches).select(queries, fx.Int32(0))
    first_k = fx.Int32(0)
    if fx.const_expr(cu_k is not None):
        first_k = fx.Int32(cast("fx.Pointer", cu_k)[batch])
        keys = fx.Int32(cast("fx.Pointer", cu_k)[batch + 1]) - first_k
    if fx.const_expr(used_k is not None):
        keys = fx.Int32(cast("fx.Pointer", used_k)[batch])
    shift = keys - queries
    kv_head = head // group
    first = block * ROWS
    r, lane = tid // lanes, tid % lanes
    row = first + r

    product = mma.get_slice(tid)
    held_q, held_k = product.make_fragment_A(smem_q), product.make_fragment_B(smem_k)
    held_w, held_v = product.make_fragment_A(weights), product.make_fragment_B(turned_v)
    found = product.make_fragment_C(scores)
    shape_out = fx.make_view(base_s, fx.make_layout((ROWS, dv), (0, 0)))
    sums = product.make_fragment_C(shape_out)
    by_rows = product.partition_C(fx.make_view(factors, fx.make_layout((ROWS, dv), (1, 0))))
    pair = fx.make_copy_atom(fx.UniversalCopy(32), dtype)
    single = fx.make_copy_atom(fx.UniversalCopy(16), dtype)
    word = fx.make_copy_atom(fx.UniversalCopy(32), fx.Float32)
    read_a = fx.make_tiled_copy_A(pair, mma).get_slice(tid)
    read_b = fx.make_tiled_copy_B(pair, mma).get_slice(tid)
    write = fx.make_tiled_copy_C(word, mma).get_slice(tid)
    read_turned = fx.make_tiled_copy_B(single, mma).get_slice(tid)
    if first < queries:
        for i in range(tid, ROWS * d, members):
            line, column = i // d, i % d
            value = dtype(0.0)
            if first + line < queries:
                value = q[offset(of_q, batch, first_q + first + line, head, column)]
            smem_q[line, column] = value
        fx.barrier()
        fx.copy(pair, read_a.partition_S(smem_q), read_a.retile(held_q))
        sums.fill(0.0)
        highest, total = fx.Float32(float("-inf")), fx.Float32(0.0)
        low, high = fx.Int32(0), keys
        if fx.const_expr(kind.right):
            high = fx.min(high, first + ROWS + shift + sight.right)
        if fx.const_expr(kind.left):
            low = fx.max(first + shift - sight.left, 0) // wide
        for step in range(low, fx.ceildiv(fx.max(high, 0), wide)):
            begin = step * wide
            fx.barrier()
            for i in range(tid, wide * d, members):
                line, column = i // d, i % d
                value = dtype(0.0)
                if begin + line < keys:
                    where, place = key_place(extras, kind, batch, first_k + begin + line, page, table_row)
                    value = k[offset(of_k, where, place, kv_head, column)]
                smem_k[line, column] = value
            for i in range(tid, wide * dv, members):
                line, column = i // dv, i % dv
                value = dtype(0.0)
                if begin + line < keys:
                    where, place = key_place(extras, kind, batch, first_k + begin + line, page, table_row)
                    value = v[offset(of_v, where, place, kv_head, column)]
                smem_v[line, column] = value
            fx.barrier()
            fx.copy(pair, read_b.partition_S(smem_k), read_b.retile(held_k))
            found.fill(0.0)
            fx.gemm(mma, found, held_q, held_k, found)
            fx.copy(word, write.retile(found), write.partition_D(scores))
            fx.barrier()
            mine = fx.make_rmem_tensor(fx.make_layout(each, 1), fx.Float32)
            top = highest
            for i in fx.range_constexpr(each):
                key = begin + lane * each + i
                score = changed(
                    scores[r, lane * each + i] * sight.scale, row, key, shift, queries, keys, batch, head, extras,
                    kind, sight, of_bias, alibi_batch,
                )  # fmt: skip
                mine[i] = score
                top = fx.maximumf(top, score)
            for i in fx.range_constexpr(lanes.bit_length() - 1):
                top = fx.maximumf(top, fx.shuffle_xor(top, 1 << i, lanes))
            height = finite(top)
            factor = fx.exp2(highest - height)
            part = fx.Float32(0.0)
            shares: list[fx.Float32] = []
            if fx.const_expr(kind.dropout):
                shares = shares_of(drop, batch * (fx.grid_dim.x // blocks) + head, row, begin + lane * each, each)
            for i in fx.range_constexpr(each):
                weight = fx.exp2(mine[i] - height)
                part = part + weight
                if fx.const_expr(kind.dropout):
                    weight = weight * shares[i]
                weights[r, lane * each + i] = dtype(weight)
            for i in fx.range_constexpr(lanes.bit_length() - 1):
                part = part + fx.shuffle_xor(part, 1 << i, lanes)
            total = total * factor + part
            highest = top
            if lane == 0:
                factors[r] = factor
            fx.barrier()
            sums.store(sums.load() * by_rows.load().reshape(sums.load().shape))
            fx.copy(pair, read_a.partition_S(weights), read_a.retile(held_w))
            fx.copy(single, read_turned.partition_S(turned_v), read_turned.retile(held_v))
            fx.gemm(mma, sums, held_w, held_v, sums)
        none = total == 0.0
        share = fx.Float32(1.0)
        if fx.const_expr(sinks is not None):
            sink = fx.Float32(cast("fx.Pointer", sinks)[head]) * LOG2E
            above = fx.maximumf(highest, sink)
            share = none.select(fx.Float32(0.0), fx.exp2(highest - finite(above)))
            total = total * share + fx.exp2(sink - finite(above))
            highest, none = above, total == 0.0
        share = none.select(fx.Float32(0.0), share / none.select(fx.Float32(1.0), total))
        fx.barrier()
        if lane == 0:
            factors[r] = share
            if fx.const_expr(lse is not None):
                if row < queries:
                    height = (highest + fx.log2(none.select(fx.Float32(1.0), total))) * LN2
                    line = fx.Int64(batch) * lse_batch + fx.Int64(head) * lse_head
                    there = cast("fx.Pointer", lse)
                    there[line + (first_q + row)] = none.select(fx.Float32(float("-inf")), height)
        fx.barrier()
        sums.store(sums.load() * by_rows.load().reshape(sums.load().shape))
        places = product.partition_C(fx.make_view((0, 0), fx.make_identity_layout((ROWS, dv))))
        values, atoms_m, atoms_n = (fx.get_scalar(fx.size(places.shape[i])) for i in range(3))
        for i in fx.range_constexpr(atoms_m):
            for j in fx.range_constexpr(atoms_n):
                for e in fx.range_constexpr(values):
                    line, column = (fx.get_scalar(places[e, i, j][x]) for x in range(2))
                    if first + line < queries:
                        out[offset(of_out, batch, first_q + first + line, head, column)] = dtype(sums[e, i, j])


def shared_bytes(kind: Kind) -> int:
    wide = keys_of(kind)
    halves = (ROWS + wide) * (kind.d + PAD) + wide * (kind.dv + PAD) + ROWS * (wide + PAD)
    return 2 * halves + 4 * ROWS * (wide + 5)


def instruction(target: GPUTarget | None, dtype: type[fx.Numeric]) -> fx.TiledMma:
    """Four waves below each other."""
    if target is None or target.has("mma_sync"):
        atom = fx.nvgpu.MMA(16, 8, 16, dtype)
    elif target.has("mfma"):
        atom = fx.rocdl.MFMA(16, 16, 16, dtype)
    else:
        atom = fx.rocdl.WMMA(16, 16, 32 if target.has("wmma_v3") else 16, dtype)
    return fx.make_tiled_mma(fx.make_mma_atom(atom), fx.make_layout((WAVES, 1, 1), (1, 0, 0)))


@flyc.jit
def matrix_attention(
    q: fx.Tensor,
    k: fx.Tensor,
    v: fx.Tensor,
    out: fx.Tensor,
    lse: fx.Tensor | None,
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
    target: fx.Constexpr[str],
    stream: fx.Stream = fx.Stream(None),
):
    """As `plain_attention`, for the matrix instructions of `target`."""
    where = GPUTarget.parse(target)
    mma = instruction(where, q.dtype)
    threads = WAVES * where.warp_size
    matrix_kernel(
        fx.get_iter(q), fx.get_iter(k), fx.get_iter(v), fx.get_iter(out), pointer_of(lse), pointer_of(bias),
        pointer_of(alibi), pointer_of(sinks), pointer_of(cu_q), pointer_of(cu_k), pointer_of(used_k),
        pointer_of(table), mma, kind, threads, Sight(left, right, scale, softcap), Drop(seed, cut, factor),
        batches, longest, keys, heads // kv_heads, page, table_row, alibi_batch,
        Steps(batch_q, row_q, head_q, column_q), Steps(batch_k, row_k, head_k, column_k),
        Steps(batch_v, row_v, head_v, column_v), Steps(batch_out, row_out, head_out, column_out),
        Steps(batch_bias, row_bias, head_bias, column_bias), head_lse, batch_lse,
    ).launch(
        grid=(fx.ceildiv(longest, ROWS) * heads, *grids.spread(batches)), block=threads, smem=shared_bytes(kind),
        stream=stream,
    )  # fmt: skip
