"""Decoding with latent keys on Hopper: all heads share one row for each key, and its first columns are the value.

A block has 64 rows of queries (heads, and queries behind each other) and walks along the keys, 64 at a time; what the
copy engine brings once is keys for one product and values for the other. The first consumer computes scores, their
softmax, and the left half of the sums with weights from its registers; the second one the right half, with weights
through shared memory. While the second still multiplies, the first is with the next scores.
"""

from __future__ import annotations

from typing import cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ...matmul.hopper_out import swizzle
from ..fetching import fetch, load_map
from ..softmax import LN2, Scale, look, over_quad, rescale, rescale_if_needed, weigh
from ..walk import pointer_of
from .form import ROWS, WIDE, Latent, Rows, fetch_pages, page_of
from .widen import Raw, bring

LAZY = 8
"""A maximum may be behind by 2 to this power."""


@flyc.kernel
def latent_kernel(
    load_q: fx.nvgpu.TmaAtom,
    load_kv: fx.nvgpu.TmaAtom,
    out: fx.Pointer,
    lse: fx.Pointer | None,
    used_k: fx.Pointer | None,
    table: fx.Pointer | None,
    descale: fx.Pointer | None,
    dtype: type[fx.Numeric],
    kind: type[fx.Numeric],
    form: fx.Constexpr[Latent],
    numbers: Rows,
):
    nv = fx.nvgpu
    tid = fx.thread_idx.x
    role = nv.uniform(tid // 128)
    d, n, stages = form.d, form.n, form.stages
    base_q = fx.get_dyn_shared(dtype)
    base_kv = base_q + ROWS * d
    base_p = base_kv + stages * n * d
    base_raw = base_p + ROWS * n
    stats = fx.recast_iter(fx.Float32, base_raw + form.raw * n * d // 2)
    full_q = nv.MBarrier(fx.recast_iter(fx.Int64, stats + 2 * ROWS))
    full, empty = full_q[1], full_q[1 + stages]
    raw = Raw(fx.recast_iter(kind, base_raw), full_q[1 + 2 * stages])
    if tid == 0:
        load_q.prefetch()
        load_kv.prefetch()
        full_q.init(1)
        for s in fx.range_constexpr(stages):
            full[s].init(128 if form.raw else 1)
            empty[s].init(2)
        for s in fx.range_constexpr(form.raw):
            raw.full[s].init(1)
        nv.fence_mbarrier_init()
    fx.barrier()
    if fx.const_expr(form.split):
        # What combines the parts may get ready: it waits for all of them.
        nv.griddepcontrol_launch()
    block, split, batch = fx.block_idx
    keys = numbers.keys
    if fx.const_expr(form.used_k):
        keys = fx.Int32(cast("fx.Pointer", used_k)[batch])
    low, high = fx.Int32(0), fx.ceildiv(keys, n)
    if fx.const_expr(form.split):
        each = fx.ceildiv(high, numbers.splits)
        low = split * each
        high = fx.min(high, low + each)
    count = fx.max(high - low, 0)
    if role == 0:
        nv.setmaxnreg(56 if form.raw else 24, increase=False)
        if fx.const_expr(form.raw):
            if tid == 0:
                full_q.expect_tx(2 * ROWS * d)
                fetch(load_q, base_q, full_q, block * ROWS, fx.Int32(0), batch, ROWS, d)
            bring(load_kv, raw, base_kv, full, empty, high, count, keys, batch, table, numbers, form)
        # Pages are fetched by as many threads as a warp has, each with its own; all else by one.
        elif tid < (32 if form.page else 1):
            if tid == 0:
                full_q.expect_tx(2 * ROWS * d)
                fetch(load_q, base_q, full_q, block * ROWS, fx.Int32(0), batch, ROWS, d)
            stage, phase = fx.Int32(0), fx.Int32(1)
            for i in range(count):
                row = (high - 1 - i) * n
                place = base_kv + stage * (n * d)
                first = fx.Int32(0)
                if fx.const_expr(form.page):
                    # Asked for before there is room.
                    first = page_of(row + tid * form.page, keys, batch, table, numbers)
                empty[stage].wait(phase)
                if tid == 0:
                    full[stage].expect_tx(2 * n * d)
                if fx.const_expr(form.page):
                    fetch_pages(load_kv, place, full[stage], row, first, keys, batch, table, numbers, form)
                else:
                    fetch(load_kv, place, full[stage], row, fx.Int32(0), batch, n, d)
                stage = stage + 1
                if stage == stages:
                    stage = fx.Int32(0)
                    phase = phase ^ 1
    else:
        nv.setmaxnreg(224 if form.raw else 240, increase=True)
        member = tid % 128
        half = form.dv // 2
        alone = fx.make_layout((1, 1, 1), (0, 0, 0))
        sums = fx.make_rmem_tensor(fx.make_layout(((2, 2, half // 8), 1, 1), ((1, 2, 4), 0, 0)), fx.Float32)
        sums.fill(0.0)
        line = member // 32 * 16 + member % 32 // 4
        weights_ready, weights_read = nv.named_barrier(1, 256), nv.named_barrier(2, 256)
        stage, phase = fx.Int32(0), fx.Int32(0)
        if role == 1:
            scores_mma = fx.make_tiled_mma(fx.make_mma_atom(nv.WGMMA(n, 16, dtype)), alone)
            atom = nv.WGMMA(half, 16, dtype, a_from="registers", major_b="mn")
            sums_mma = fx.make_tiled_mma(fx.make_mma_atom(atom), alone)
            queries = scores_mma.get_slice(0).partition_A(keys_view(base_q, ROWS, form))
            all_keys = scores_mma.get_slice(0).partition_B(keys_view(base_kv, n, form, stages))
            values = sums_mma.get_slice(0).partition_B(values_view(base_kv, 0, form))
            scores = fx.make_rmem_tensor(fx.make_layout(((2, 2, n // 8), 1, 1), ((1, 2, 4), 0, 0)), fx.Float32)
            weights = fx.make_rmem_tensor(fx.make_layout(((2, 2, 2), 1, n // 16), ((1, 2, 4), 0, 8)), dtype)
            highest, total = (fx.make_rmem_tensor(fx.make_layout(2, 1), fx.Float32) for _ in range(2))
            store = fx.make_copy_atom(nv.StMatrix(4), dtype)
            copy = fx.make_tiled_copy_C(store, scores_mma).get_slice(member)
            to_weights = copy.partition_D(weights_view(base_p, n))
            factor, grow = numbers.factor, None
            if fx.const_expr(descale is not None):
                grow = fx.Float32(cast("fx.Pointer", descale)[batch if form.each else 0])
                factor = factor * grow
            scale = Scale(factor, fx.Float32(-1e30) / factor)
            highest.fill(scale.least)
            total.fill(0.0)
            full_q.wait(0)
            for i in range(count):
                index = high - 1 - i
                full[stage].wait(phase)
                for k in fx.range_constexpr(d // 16):
                    mma = scores_mma.set_value("accumulate", fx.Int32(0)) if k == 0 else scores_mma
                    fx.gemm(mma, scores, queries[None, None, k], all_keys[None, None, k, stage], scores)
                nv.wgmma_commit()
                nv.wgmma_wait(0, scores)
                end = keys - (numbers.queries - 1 if form.causal else 0)
                if (index + 1) * n > end:
                    mask(scores, index * n + member % 4 * 2, block * ROWS + line, keys, scale, form, numbers)
                    if fx.const_expr(form.used_k and not form.raw):
                        clear(base_kv + stage * (n * d), keys - index * n, member, form)
                turn = look(scores, highest, scale, first=False, masked=True, lazy=LAZY)
                weigh(scores, total, scale, turn, first=False)
                weights.store(scores.load().to(dtype).reshape(weights.shape.unpack()))
                weights_read.sync()
                flat = fx.make_rmem_tensor(scores.layout, dtype)
                flat.store(weights.load().reshape(scores.shape.unpack()))
                fx.copy(store, copy.retile(flat), to_weights)
                if member % 4 == 0:
                    stats[line] = turn.factors[0]
                    stats[line + 8] = turn.factors[1]
                weights_ready.arrive()
                rescale_if_needed(sums, turn.factors)
                for k in fx.range_constexpr(n // 16):
                    fx.gemm(sums_mma, sums, weights[None, None, k], values[None, None, k, stage], sums)
                nv.wgmma_commit()
                nv.wgmma_wait(0, sums)
                if member == 0:
                    empty[stage].arrive()
                stage = stage + 1
                if stage == stages:
                    stage = fx.Int32(0)
                    phase = phase ^ 1
            weights_read.sync()
            for r in fx.range_constexpr(2):
                share = finished(
                    lse, highest[r], total[r], scale, block * ROWS + line + 8 * r, member, split, batch, numbers
                )
                if fx.const_expr(grow is not None):
                    share = share * cast("fx.Float32", grow)
                if member % 4 == 0:
                    stats[line + 8 * r] = share
            weights_ready.arrive()
            nv.named_barrier(3, 128).sync()
        else:
            atom = nv.WGMMA(half, 16, dtype, major_b="mn")
            sums_mma = fx.make_tiled_mma(fx.make_mma_atom(atom), alone)
            weights = sums_mma.get_slice(0).partition_A(weights_view(base_p, n))
            values = sums_mma.get_slice(0).partition_B(values_view(base_kv, half, form))
            weights_read.arrive()
            for _ in range(count):
                weights_ready.sync()
                rescale_if_needed(sums, (fx.Float32(stats[line]), fx.Float32(stats[line + 8])))
                full[stage].wait(phase)
                for k in fx.range_constexpr(n // 16):
                    fx.gemm(sums_mma, sums, weights[None, None, k], values[None, None, k, stage], sums)
                nv.wgmma_commit()
                nv.wgmma_wait(0, sums)
                weights_read.arrive()
                if member == 0:
                    empty[stage].arrive()
                stage = stage + 1
                if stage == stages:
                    stage = fx.Int32(0)
                    phase = phase ^ 1
            weights_ready.sync()
        rescale(sums, (fx.Float32(stats[line]), fx.Float32(stats[line + 8])))
        origin = out + (fx.Int64(split) * numbers.out_split + fx.Int64(batch) * numbers.out_batch)
        for r in fx.range_constexpr(2):
            row = block * ROWS + line + 8 * r
            if row < numbers.rows:
                at = origin + (fx.Int64(row) * numbers.out_row + (role - 1) * half + member % 4 * 2)
                for j in fx.range_constexpr(half // 8):
                    pair = [out.dtype(sums[(e, r, j), 0, 0]) for e in range(2)]
                    nv.store_global(at + 8 * j, fx.Vector.from_elements(pair, out.dtype))


def keys_view(base: fx.Pointer, rows: int, form: Latent, stages: int = 0) -> fx.Tensor:
    """Rows in boxes of 64 columns, and all stages of them."""
    shape, strides = (rows, (WIDE, form.d // WIDE)), (WIDE, (1, rows * WIDE))
    layout = fx.make_layout((*shape, stages), (*strides, rows * form.d)) if stages else fx.make_layout(shape, strides)
    return fx.make_view(fx.apply_swizzle(base, swizzle(128)), layout)


def values_view(base: fx.Pointer, column: int, form: Latent) -> fx.Tensor:
    """Half of the values' columns, as (columns, keys, stage)."""
    n, boxes = form.n, form.dv // 2 // WIDE
    layout = fx.make_layout(((WIDE, boxes), n, form.stages), ((1, n * WIDE), WIDE, n * form.d))
    return fx.make_view(fx.apply_swizzle(base + column // WIDE * (n * WIDE), swizzle(128)), layout)


def weights_view(base: fx.Pointer, n: int) -> fx.Tensor:
    return fx.make_view(fx.apply_swizzle(base, swizzle(2 * n)), fx.make_layout((ROWS, n), (n, 1)))


def mask(
    scores: fx.Tensor, column: fx.Int32, row: fx.Int32, keys: fx.Int32, scale: Scale, form: Latent, numbers: Rows
) -> None:
    """Scores of keys that a row must not see become the least there is."""
    for r in range(2):
        end = keys - column
        if form.causal:
            query = fx.min((row + 8 * r) // numbers.heads, numbers.queries - 1)
            end = end - (numbers.queries - 1 - query)
        for j in range(form.n // 8):
            for e in range(2):
                at = (e, r, j), 0, 0
                scores[at] = (end > 8 * j + e).select(scores[at], scale.least)


@flyc.jit
def clear(base: fx.Pointer, rows: fx.Int32, member: fx.Int32, form: Latent):
    """Zeros for values behind the last one: whatever lies there, its weights of 0 must not make it NaN."""
    # Each warp has waited for its own part of the product; the others may read on.
    fx.nvgpu.named_barrier(3, 128).sync()
    for i in range(fx.max(rows, 0) * WIDE + member, form.n * WIDE, 128):
        for box in fx.range_constexpr(form.dv // WIDE):
            base[i + box * (form.n * WIDE)] = base.dtype(0.0)
    fx.nvgpu.fence_proxy_async()
    fx.nvgpu.named_barrier(3, 128).sync()


@flyc.jit
def finished(
    lse: fx.Pointer | None,
    highest: fx.Float32,
    total: fx.Float32,
    scale: Scale,
    row: fx.Int32,
    member: fx.Int32,
    split: fx.Int32,
    batch: fx.Int32,
    numbers: Rows,
):
    """What a row's sums are multiplied by; its logarithm is stored."""
    total = over_quad(total, lambda a, b: a + b)
    none = total == 0.0
    some = none.select(fx.Float32(1.0), total)
    if fx.const_expr(lse is not None):
        if (member % 4 == 0) & (row < numbers.rows):
            found = (highest * scale.factor + fx.log2(some)) * LN2
            line = fx.Int64(split) * numbers.lse_split + fx.Int64(batch) * fx.Int64(numbers.rows) + row
            cast("fx.Pointer", lse)[line] = none.select(fx.Float32(float("-inf")), found)
    return none.select(fx.Float32(0.0), 1.0 / some)


@flyc.jit
def hopper_latent(
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
    rows_k: fx.Int32,
    batches_k: fx.Int32,
    row_q: fx.Int64,
    batch_q: fx.Int64,
    row_k: fx.Int64,
    batch_k: fx.Int64,
    row_out: fx.Int64,
    batch_out: fx.Int64,
    splits: fx.Int32,
    split_out: fx.Int64,
    split_lse: fx.Int64,
    page: fx.Int32,
    table_row: fx.Int32,
    factor: fx.Float32,
    form: fx.Constexpr[Latent],
    stream: fx.Stream = fx.Stream(None),
):
    """Rows of `q` are queries times heads, and lie at equal distances. `rows_k` and `batches_k` are those of the array,
    or of a page and pages; strides are in elements."""
    rows = queries * heads
    load_q = load_map(q, rows, form.d, fx.Int32(1), batches, (row_q, row_q, batch_q), ROWS)
    if fx.const_expr(form.raw):
        layout = fx.make_layout((rows_k, form.d, 1, batches_k), (row_k, 1, row_k, batch_k))
        box = (form.page or form.n, WIDE, 1, 1)
        load_kv = fx.nvgpu.make_tma_atom(fx.nvgpu.TMALoad(), fx.make_view(fx.get_iter(kv), layout), None, box)
    else:
        load_kv = load_map(kv, rows_k, form.d, fx.Int32(1), batches_k, (row_k, row_k, batch_k), form.page or form.n)
    numbers = Rows(
        rows, heads, queries, keys, splits, page, table_row, factor, split_out, batch_out, row_out, split_lse
    )  # fmt: skip
    latent_kernel(
        load_q, load_kv, fx.get_iter(out), pointer_of(lse), pointer_of(used_k), pointer_of(table), pointer_of(descale),
        q.dtype, kv.dtype, form, numbers, value_attrs={"nvvm.minctasm": 1},
    ).launch(grid=(fx.ceildiv(rows, ROWS), splits, batches), block=384, smem=form.smem, stream=stream)  # fmt: skip
