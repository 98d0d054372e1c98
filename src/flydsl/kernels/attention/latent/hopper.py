"""Decoding with latent keys on Hopper: all heads share one row for each key, and its first columns are the value.

A block has 64 rows of queries (heads, and queries behind each other) and walks along the keys, 64 at a time; what the
copy engine brings once is keys for one product and values for the other. The first consumer computes scores, with most
of the queries in registers, their softmax, and the first columns of the sums with weights from its registers; the
second one the others, with weights through shared memory. While the second still multiplies, the first is with the next
scores.
"""

from __future__ import annotations

from typing import cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ...matmul.sm90.out import swizzle
from ..consumer import after
from ..fetching import fetch, load_map
from ..softmax import LN2, Scale, over_quad, rescale_if_needed
from ..walk import pointer_of
from .first import First, hold, multiply_keys, multiply_values, weigh_scores
from .form import CHUNK, ROWS, WIDE, Latent, Rows, fetch_pages, pages_of
from .widen import Raw, bring, halves


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
    work = fx.Float16 if form.raw else dtype
    base_q = fx.get_dyn_shared(work)
    base_kv = base_q + ROWS * WIDE * form.kept
    lent = base_kv + (stages - 1) * n * d if form.lent else base_q
    base_p = base_kv + stages * n * d
    base_raw = base_p + ROWS * n
    stats = fx.recast_iter(fx.Float32, base_raw + form.raw * CHUNK * d // 2)
    full_q = nv.MBarrier(fx.recast_iter(fx.Int64, stats + 2 * ROWS))
    full, empty = full_q[1], full_q[1 + stages]
    free = full_q[1 + 2 * stages]
    weights_ready, weights_read = full_q[2 + 2 * stages], full_q[3 + 2 * stages]
    raw = Raw(fx.recast_iter(kind, base_raw), full_q[4 + 2 * stages])
    if tid == 0:
        load_q.prefetch()
        load_kv.prefetch()
        full_q.init(1)
        free.init(128)
        weights_ready.init(128)
        weights_read.init(128)
        for s in fx.range_constexpr(stages):
            full[s].init(128 if form.raw else 1)
            empty[s].init(2)
        for s in fx.range_constexpr(form.raw):
            raw.full[s].init(1)
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
        nv.setmaxnreg(40 if form.raw else 24, increase=False)
        if fx.nvgpu.leader(tid):
            full_q.expect_tx(2 * ROWS * d)
            for i in fx.range_constexpr(d // WIDE):
                place = lent + i * (ROWS * WIDE) if i < form.lent else base_q + (i - form.lent) * (ROWS * WIDE)
                load_q.load((block * ROWS, i * WIDE, 0, batch), place, full_q)
        if fx.const_expr(form.raw):
            bring(load_kv, raw, base_kv, full, empty, free, high, count, keys, batch, table, numbers, form)
        elif fx.nvgpu.leader(tid) if form.asks == 1 else tid < form.asks:
            leads = fx.Boolean(True) if form.asks == 1 else tid == 0
            stage, phase = fx.Int32(0), fx.Int32(1)
            for i in range(count):
                row = (high - 1 - i) * n
                place = base_kv + stage * (n * d)
                # Asked for before there is room.
                pages = pages_of(row, keys, batch, table, numbers, form)
                if fx.const_expr(form.lent):
                    if i == stages - 1:
                        free.wait(0)
                empty[stage].wait(phase)
                if leads:
                    full[stage].expect_tx(2 * n * d)
                if fx.const_expr(form.page):
                    fetch_pages(load_kv, place, full[stage], row, pages, numbers, form)
                else:
                    fetch(load_kv, place, full[stage], row, fx.Int32(0), batch, n, d)
                stage = stage + 1
                if stage == stages:
                    stage = fx.Int32(0)
                    phase = phase ^ 1
    else:
        nv.setmaxnreg(232 if form.raw else 240, increase=True)
        member = tid % 128
        alone = fx.make_layout((1, 1, 1), (0, 0, 0))
        line = member // 32 * 16 + member % 32 // 4
        stage, phase = fx.Int32(0), fx.Int32(0)
        inverse = fx.Float32(1.0)
        if fx.const_expr(form.raw and dtype is not work):
            full_q.wait(0)
            inverse = halves(base_q, lent, stats, form)
        if role == 1:
            scores_mma = fx.make_tiled_mma(fx.make_mma_atom(nv.WGMMA(n, 16, work)), alone)
            held_mma = fx.make_tiled_mma(fx.make_mma_atom(nv.WGMMA(n, 16, work, a_from="registers")), alone)
            atom = nv.WGMMA(form.left, 16, work, a_from="registers", major_b="mn")
            sums_mma = fx.make_tiled_mma(fx.make_mma_atom(atom), alone)
            sums = empty_sums(form.left)
            queries = scores_mma.get_slice(0).partition_A(keys_view(base_q, ROWS, form.kept))
            all_keys = scores_mma.get_slice(0).partition_B(keys_view(base_kv, n, d // WIDE, stages))
            values = sums_mma.get_slice(0).partition_B(values_view(base_kv, 0, form.left, form))
            scores = fx.make_rmem_tensor(fx.make_layout(((2, 2, n // 8), 1, 1), ((1, 2, 4), 0, 0)), fx.Float32)
            operand = fx.make_layout(((2, 2, 2), 1, 1), ((1, 2, 4), 0, 0))
            weights = [fx.make_rmem_tensor(operand, work) for _ in range(n // 16)]
            highest, total = (fx.make_rmem_tensor(fx.make_layout(2, 1), fx.Float32) for _ in range(2))
            store = fx.make_copy_atom(nv.StMatrix(4), work)
            copy = fx.make_tiled_copy_C(store, scores_mma).get_slice(member)
            factor, grow = numbers.factor, None
            if fx.const_expr(descale is not None):
                grow = fx.Float32(cast("fx.Pointer", descale)[batch if form.each else 0])
                factor = factor * grow
            factor = factor * inverse
            scale = Scale(factor, fx.maxnumf(fx.Float32(-1e30) / factor, fx.Float32(-3e38)))
            highest.fill(scale.least)
            total.fill(0.0)
            full_q.wait(0)
            held = hold(lent, line, member, form)
            if fx.const_expr(form.lent):
                free.arrive()
            me = First(
                form, numbers, scale, member, line, block * ROWS + line, keys, scores_mma, sums_mma, held_mma, queries,
                held, all_keys, values, scores, weights, sums, highest, total, store, copy,
                copy.partition_D(weights_view(base_p, n)), stats, weights_ready, weights_read,
            )  # fmt: skip
            for i in range(count):
                full[stage].wait(phase)
                multiply_keys(me, stage)
                nv.wgmma_wait(0, scores)
                factors = weigh_scores(me, high - 1 - i, base_kv + stage * (n * d), (i & 1) ^ 1)
                rescale_if_needed(sums, factors)
                multiply_values(me, stage)
                nv.wgmma_wait(0, sums)
                if member == 0:
                    empty[stage].arrive()
                stage, phase = after(stage, phase, stages)
            weights_read.wait((count & 1) ^ 1)
            for r in fx.range_constexpr(2):
                share = finished(
                    lse, highest[r], total[r], scale, block * ROWS + line + 8 * r, member, split, batch, numbers
                )
                if fx.const_expr(grow is not None):
                    share = share * cast("fx.Float32", grow)
                if member % 4 == 0:
                    stats[line + 8 * r] = share
            weights_ready.arrive()
            nv.named_barrier(1, 128).sync()
            put(out, [sums], 0, stats, line, member, block, split, batch, numbers, form)
        else:
            atom = nv.WGMMA(form.right, 16, work, major_b="mn")
            sums_mma = fx.make_tiled_mma(fx.make_mma_atom(atom), alone)
            weights = sums_mma.get_slice(0).partition_A(weights_view(base_p, n))
            values = [
                sums_mma.get_slice(0).partition_B(values_view(base_kv, form.left + part * form.right, form.right, form))
                for part in range(form.parts)
            ]
            sums = [empty_sums(form.right) for _ in range(form.parts)]
            for i in range(count):
                weights_ready.wait(i & 1)
                factors = fx.Float32(stats[line]), fx.Float32(stats[line + 8])
                for x in sums:
                    rescale_if_needed(x, factors)
                full[stage].wait(phase)
                for k in fx.range_constexpr(n // 16):
                    for x, y in zip(sums, values, strict=True):
                        fx.gemm(sums_mma, x, weights[None, None, k], y[None, None, k, stage], x)
                nv.wgmma_commit()
                nv.wgmma_wait(0, *sums)
                weights_read.arrive()
                if member == 0:
                    empty[stage].arrive()
                stage, phase = after(stage, phase, stages)
            weights_ready.wait(count & 1)
            put(out, sums, form.left, stats, line, member, block, split, batch, numbers, form)


def empty_sums(columns: int) -> fx.Tensor:
    """A thread's part of 64 rows of sums."""
    sums = fx.make_rmem_tensor(fx.make_layout(((2, 2, columns // 8), 1, 1), ((1, 2, 4), 0, 0)), fx.Float32)
    sums.fill(0.0)
    return sums


@flyc.jit
def put(
    out: fx.Pointer,
    sums: list[fx.Tensor],
    column: int,
    stats: fx.Pointer,
    line: fx.Int32,
    member: fx.Int32,
    block: fx.Int32,
    split: fx.Int32,
    batch: fx.Int32,
    numbers: Rows,
    form: Latent,
):
    """Sums times what `stats` has for their rows, from a column on."""
    shares = fx.Float32(stats[line]), fx.Float32(stats[line + 8])
    origin = out + (fx.Int64(split) * numbers.out_split + fx.Int64(batch) * numbers.out_batch)
    for r in fx.range_constexpr(2):
        row = block * ROWS + line + 8 * r
        if row < numbers.rows:
            at = origin + (fx.Int64(row) * numbers.out_row + column + member % 4 * 2)
            for i, part in enumerate(sums):
                columns = form.right if column else form.left
                for j in fx.range_constexpr(columns // 8):
                    pair = [out.dtype(part[(e, r, j), 0, 0] * shares[r]) for e in range(2)]
                    fx.nvgpu.store_global(at + (i * columns + 8 * j), fx.Vector.from_elements(pair, out.dtype))


def keys_view(base: fx.Pointer, rows: int, boxes: int, stages: int = 0) -> fx.Tensor:
    """Rows in boxes of 64 columns, and all stages of them."""
    shape, strides = (rows, (WIDE, boxes)), (WIDE, (1, rows * WIDE))
    if stages:
        shape, strides = (*shape, stages), (*strides, rows * boxes * WIDE)
    return fx.make_view(fx.apply_swizzle(base, swizzle(128)), fx.make_layout(shape, strides))


def values_view(base: fx.Pointer, column: int, columns: int, form: Latent) -> fx.Tensor:
    """Some of the values' columns, as (columns, keys, stage)."""
    n, boxes = form.n, columns // WIDE
    layout = fx.make_layout(((WIDE, boxes), n, form.stages), ((1, n * WIDE), WIDE, n * form.d))
    return fx.make_view(fx.apply_swizzle(base + column // WIDE * (n * WIDE), swizzle(128)), layout)


def weights_view(base: fx.Pointer, n: int) -> fx.Tensor:
    return fx.make_view(fx.apply_swizzle(base, swizzle(2 * n)), fx.make_layout((ROWS, n), (n, 1)))


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
        box = (form.page or CHUNK, WIDE, 1, 1)
        view = fx.make_view(fx.get_iter(kv), layout)
        load_kv = fx.nvgpu.make_tma_atom(fx.nvgpu.TMALoad(), view, None, box, l2_fetch=128)
    else:
        strides = row_k, row_k, batch_k
        load_kv = load_map(kv, rows_k, form.d, fx.Int32(1), batches_k, strides, form.page or form.n, once=True)
    numbers = Rows(
        rows, heads, queries, keys, splits, page, table_row, factor, split_out, batch_out, row_out, split_lse
    )  # fmt: skip
    latent_kernel(
        load_q, load_kv, fx.get_iter(out), pointer_of(lse), pointer_of(used_k), pointer_of(table), pointer_of(descale),
        q.dtype, kv.dtype, form, numbers, value_attrs={"nvvm.minctasm": 1},
    ).launch(grid=(fx.ceildiv(rows, ROWS), splits, batches), block=384, smem=form.smem, stream=stream)  # fmt: skip
