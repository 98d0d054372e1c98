"""Gradients of attention on Hopper: a block holds 128 keys and values and walks along the queries, 64 or 128 at a time.

Everything is computed transposed, with keys as rows: scores K Q^T and the weights' gradients V dO^T come from shared
memory; weights and scores' gradients stay in registers, as the first operands of dV += P^T dO and dK += dS^T Q. For dQ
scores' gradients go to shared memory, where both consumers read them; each has half of dQ (of its columns, or of 128
queries), which its threads add to the sums in memory, in f32, while the tensor cores are with dK. The sums lie as the
registers of a product do, and `round_kernel` puts them in order. All heads of queries that share the keys are walked.

Blocks are counted for the longest of packed sequences. What lies behind the end of one is the next one's; zeros take
its place in shared memory.

With `Sides.stays` blocks take tile after tile of keys, and bring the next one's while they walk along the last queries
of this one. With `Sides.ordered` blocks add one after the other, in the order of their keys: the bits of dQ are always
the same. Its parts then go through shared memory to the copy engine, which says when it has added them.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..matmul.sm90.out import swizzle
from .backward_operands import (
    accumulators,
    add_products,
    clear_rows,
    held_rows,
    multiply,
    multiply_parts,
    parts_of_dq,
    turned,
    walked,
)
from .backward_steps import (
    ROWS,
    Reach,
    Sides,
    bent,
    derive,
    kept,
    mask,
    masked,
    sequence_of,
    steps_of,
    thin,
    weigh,
)
from .consumer import after
from .dropout import Drop
from .fetching import fetch, load_map
from .rounding import UNIT, lanes_of, round_kernel, sides_kernel
from .softmax import LOG2E, tanh
from .tile import span
from .walk import pointer_of

CONSUMERS = 2


@flyc.kernel
def backward_kernel(
    load_q: fx.nvgpu.TmaAtom,
    load_k: fx.nvgpu.TmaAtom,
    load_v: fx.nvgpu.TmaAtom,
    load_grad: fx.nvgpu.TmaAtom,
    load_sides: fx.nvgpu.TmaAtom,
    sums: fx.Pointer,
    turns: fx.Pointer | None,
    dk: fx.Pointer,
    dv: fx.Pointer,
    cu_q: fx.Pointer | None,
    cu_k: fx.Pointer | None,
    all_tiles: fx.Int32 | None,
    all_keys: fx.Int32 | None,
    cap: fx.Float32 | None,
    drop: Drop | None,
    dtype: type[fx.Numeric],
    form: fx.Constexpr[Sides],
    reach: Reach,
):
    nv = fx.nvgpu
    tid = fx.thread_idx.x
    role = nv.uniform(tid // 128)
    d, width, m, columns, stages = form.d, form.dv, form.m, form.columns, form.stages
    base_k = fx.get_dyn_shared(dtype)
    base_v = base_k + ROWS * d
    apart = ROWS * (d + width)
    base_q = base_k + form.tiles * apart
    base_g = base_q + stages * m * d
    base_s = base_g + stages * m * width
    staged = fx.recast_iter(fx.Float32, base_s + 2 * ROWS * m)
    sides = staged + (m * d if form.ordered else 0)
    barriers = nv.MBarrier(fx.recast_iter(fx.Int64, sides + stages * 2 * m))
    held, full_q = barriers, barriers[form.tiles]
    full_g, empty = full_q[stages], full_q[2 * stages]
    free = empty[stages]
    if tid == 0:
        for t in fx.range_constexpr(form.tiles):
            held[t].init(1)
            if fx.const_expr(form.stays):
                free[t].init(CONSUMERS)
        for s in fx.range_constexpr(stages):
            full_q[s].init(1)
            full_g[s].init(1)
            empty[s].init(CONSUMERS)
    fx.barrier()
    group = reach.heads // reach.kv_heads
    block, head, batch = fx.block_idx
    begin, end, hop = (block, cast("fx.Int32", all_keys), fx.grid_dim.x) if form.stays else (0, 1, 1)
    here, reach = sequence_of(batch, m, cu_q, cu_k, reach)
    low, high = steps_of(block, form, reach)
    steps = fx.max(high - low, 0)
    own = Own(block, head, batch, here.batch_q, here.batch_k)
    if role == 0:
        nv.setmaxnreg(24, increase=False)
        asks = fx.nvgpu.leader(tid)
        if fx.const_expr(form.packed_k):
            asks = asks & (block * ROWS < reach.keys)
        if asks:
            stage, phase, tile, parity = fx.Int32(0), fx.Int32(1), fx.Int32(0), fx.Int32(1)
            for at in range(begin, end, hop):
                mine = tile_of(at, own, form, reach)
                if fx.const_expr(form.stays):
                    free[tile].wait(parity)
                held[tile].expect_tx(2 * ROWS * (d + width))
                first_key = here.first_k + mine.block * ROWS
                for load, base, n in ((load_k, base_k, d), (load_v, base_v, width)):
                    fetch(load, base + tile * apart, held[tile], first_key, mine.head, mine.batch_k, ROWS, n)
                for i in range(steps * group):
                    which = i // fx.max(steps, 1)
                    row, from_head = (low + i - which * steps) * m, mine.head * group + which
                    empty[stage].wait(phase)
                    full_q[stage].expect_tx(2 * m * d + 2 * 4 * m)
                    top = here.first_q + row
                    fetch(load_q, base_q + stage * (m * d), full_q[stage], top, from_head, mine.batch_q, m, d)
                    line = mine.batch_q * reach.heads + from_head
                    load_sides.load((line, 0, here.tile * m + row), sides + stage * (2 * m), full_q[stage])
                    full_g[stage].expect_tx(2 * m * width)
                    to = base_g + stage * (m * width)
                    fetch(load_grad, to, full_g[stage], top, from_head, mine.batch_q, m, width)
                    stage = stage + 1
                    if stage == stages:
                        stage = fx.Int32(0)
                        phase = phase ^ 1
                if fx.const_expr(form.stays):
                    tile, parity = after(tile, parity, form.tiles)
    else:
        nv.setmaxnreg(240, increase=True)
        consumer, member = role - 1, tid % 128
        alone = fx.make_layout((1, 1, 1), (0, 0, 0))
        product = fx.make_tiled_mma(fx.make_mma_atom(nv.WGMMA(m, 16, dtype)), alone)
        mma_k, mma_v = (
            fx.make_tiled_mma(fx.make_mma_atom(nv.WGMMA(count, 16, dtype, a_from="registers", major_b="mn")), alone)
            for count in (d, width)
        )
        first = product.get_slice(0)
        sides_of = ((base_k, base_q, d, mma_k), (base_v, base_g, width, mma_v))
        held_keys, held_values = (
            first.partition_A(held_rows(x + consumer * (64 * span(n)), form, n)) for x, _, n, _ in sides_of
        )
        queries, grads = (first.partition_B(walked(x, form, n)) for _, x, n, _ in sides_of)
        queries_t, grads_t = (mma.get_slice(0).partition_B(turned(x, form, n)) for _, x, n, mma in sides_of)
        # Scores' gradients lie in boxes of 64 queries, the contiguous ones: a consumer has a box of its own, or half of
        # the columns for the only one.
        slopes_base = base_s + consumer * (ROWS * 64) if m == 128 else base_s
        slopes_smem = fx.apply_swizzle(slopes_base, swizzle(128))
        slopes_view = fx.make_view(slopes_smem, fx.make_layout((64, ROWS, 2), (1, 64, ROWS * m)))
        scores, slopes = (accumulators(m) for _ in range(2))
        sums_k, sums_v, part_q = accumulators(d), accumulators(width), accumulators(columns)
        parts = [
            (mma, mma.get_slice(0).partition_A(slopes_view), mma.get_slice(0).partition_B(some), to)
            for mma, some, to in parts_of_dq(base_k, part_q, consumer, dtype, form)
        ]
        operand = fx.make_layout(((2, 2, 2), 1, m // 16), ((1, 2, 4), 0, 8))
        weights, slopes_half = (fx.make_rmem_tensor(operand, dtype) for _ in range(2))
        store = fx.make_copy_atom(nv.StMatrix(4, trans=False), dtype)
        copy = fx.make_tiled_copy_C(store, product).get_slice(member)
        rows_of_slopes = fx.make_layout((64, (64, m // 64), 2), (64, (1, ROWS * 64), ROWS * m))
        to_slopes = copy.partition_D(
            fx.make_view(fx.apply_swizzle(base_s + consumer * (64 * 64), swizzle(128)), rows_of_slopes)
        )
        to_staged = fx.make_view(staged, fx.make_layout((4, 128, columns // 8, 2), (1, 4, 512, 64 * columns)))
        place = fx.make_view(staged, fx.make_layout((64 * columns, 2), (1, 64 * columns)))[None, consumer]
        four = fx.make_copy_atom(fx.UniversalCopy(128), fx.Float32)
        in_fours = fx.make_view(fx.get_iter(part_q), fx.make_layout((4, columns // 8), (1, 4)))
        tiles = fx.ceildiv(reach.queries, m) if all_tiles is None else all_tiles
        factor, inner = reach.scale * LOG2E, reach.scale
        if fx.const_expr(cap is not None):
            factor, inner = cast("fx.Float32", cap) * LOG2E, reach.scale / cast("fx.Float32", cap)
        share = None
        if fx.const_expr(drop is not None):
            share = 1.0 / cast("Drop", drop).factor
        stage, phase, taken = (fx.Int32(0) for _ in range(3))
        done = fx.Int32(0)
        for at in range(begin, end, hop):
            mine = tile_of(at, own, form, reach)
            tile, parity = taken % form.tiles, taken // form.tiles % 2
            keys, values = (x[None, None, None, tile] for x in (held_keys, held_values))
            sums_k.fill(0.0)
            sums_v.fill(0.0)
            key = mine.block * ROWS + consumer * 64 + member // 32 * 16 + member % 32 // 4
            if fx.const_expr(form.packed_k):
                left_over = reach.keys - mine.block * ROWS
                if left_over > 0:
                    held[tile].wait(parity)
                    if left_over < ROWS:
                        clear_rows(base_k, left_over, ROWS, d, tid - 128, 256)
                        clear_rows(base_v, left_over, ROWS, width, tid - 128, 256)
                        nv.fence_proxy_async()
                        nv.named_barrier(1, 256).sync()
            else:
                held[tile].wait(parity)
            for i in range(steps * group):
                which = i // fx.max(steps, 1)
                row, from_head = (low + i - which * steps) * m, mine.head * group + which
                full_q[stage].wait(phase)
                if fx.const_expr(form.packed_q):
                    left_over = reach.queries - row
                    if left_over < m:
                        full_g[stage].wait(phase)
                        clear_rows(base_q + stage * (m * d), left_over, m, d, tid - 128, 256)
                        clear_rows(base_g + stage * (m * width), left_over, m, width, tid - 128, 256)
                        nv.fence_proxy_async()
                        nv.named_barrier(1, 256).sync()
                multiply(product, scores, keys, queries[None, None, None, stage], d // 16)
                full_g[stage].wait(phase)
                multiply(product, slopes, values, grads[None, None, None, stage], width // 16)
                nv.wgmma_wait(1, scores)
                if fx.const_expr(form.softcap):
                    scores.store(tanh(scores.load(), inner, "afn"))
                side = sides + (stage * (2 * m) + member % 4 * 2)
                if masked(mine.block, row, form, reach):
                    mask(scores, fx.Float32(-1e30) / factor, key, row + member % 4 * 2, form, reach)
                slant = bent(scores) if form.softcap else None
                weigh(scores, side, factor)
                if fx.const_expr(drop is not None):
                    of_head = mine.batch * reach.heads + from_head
                    thin(scores, cast("Drop", drop), of_head, row + member % 4 * 2, key)
                if fx.const_expr(m == 128):
                    # There are no registers for weights in both types: scores' gradients come first.
                    nv.wgmma_wait(0, slopes)
                    derive(scores, slopes, side + m, share)
                    slopes_half.store(slopes.load().to(dtype).reshape(slopes_half.shape.unpack()))
                weights.store(kept(scores, drop).to(dtype).reshape(weights.shape.unpack()))
                if fx.const_expr(slant is not None):
                    scores.store(scores.load() * cast("fx.Vector", slant))
                add_products(mma_v, sums_v, weights, grads_t[None, None, None, stage], m // 16)
                if fx.const_expr(m < 128):
                    nv.wgmma_wait(1, slopes)
                    derive(scores, slopes, side + m, share)
                    slopes_half.store(slopes.load().to(dtype).reshape(slopes_half.shape.unpack()))
                # Two places take turns: who writes here has met the others since they read it.
                turn = stage if form.stays and stages == 2 else (done if form.stays else i) % 2
                flat = fx.make_rmem_tensor(scores.layout, dtype)
                flat.store(slopes_half.load().reshape(scores.shape.unpack()))
                fx.copy(store, copy.retile(flat), to_slopes[None, None, None, turn])
                nv.named_barrier(1, 256).sync()
                multiply_parts(
                    [(mma, a[None, None, None, turn], b[None, None, None, tile], to) for mma, a, b, to in parts],
                    ROWS // 16,
                )
                add_products(mma_k, sums_k, slopes_half, queries_t[None, None, None, stage], m // 16)
                wrapped = stage == stages - 1
                next_stage, next_phase = wrapped.select(fx.Int32(0), stage + 1), wrapped.select(phase ^ 1, phase)
                line = mine.batch_q * reach.heads + from_head
                which_part = (line * tiles + here.tile + row // m) * 2 + consumer
                target = sums + fx.Int64(which_part) * (64 * columns)
                nv.wgmma_wait(1, part_q)
                if fx.const_expr(form.ordered):
                    nv.named_barrier(2 + consumer, 128).sync()
                    for j in fx.range_constexpr(columns // 8):
                        fx.copy(four, in_fours[None, j], to_staged[None, member, j, consumer])
                    nv.named_barrier(2 + consumer, 128).sync()
                    if member == 0:
                        add_in_turn(place, target, cast("fx.Pointer", turns) + which_part, mine.block, row, form, reach)
                else:
                    for j in fx.range_constexpr(columns // 8):
                        nv.add_global(target + (member * 4 + 512 * j), in_fours[None, j].load())
                nv.wgmma_wait(0, sums_k)
                if member == 0:
                    empty[stage].arrive()
                stage, phase = next_stage, next_phase
                if fx.const_expr(form.stays and stages != 2):
                    done = done + 1
            nv.wgmma_wait(0, sums_k, sums_v)
            if fx.const_expr(form.stays):
                # The other consumer may still be with them: the next ones come to the other place.
                if member == 0:
                    free[tile].arrive()
                taken = taken + 1
            start = fx.Int64(here.first_k) if form.packed_k else fx.Int64(mine.batch) * fx.Int64(reach.keys)
            line = start * fx.Int64(reach.kv_heads) + fx.Int64(mine.head)
            scale_k, scale_v = reach.scale, None
            if fx.const_expr(drop is not None):
                scale_v = cast("Drop", drop).factor
                scale_k = scale_k * scale_v
            for r in fx.range_constexpr(2):
                if key + 8 * r < reach.keys:
                    below = line + fx.Int64(key + 8 * r) * fx.Int64(reach.kv_heads)
                    at_k, at_v = (below * n + member % 4 * 2 for n in (d, width))
                    for j in fx.range_constexpr(max(d, width) // 8):
                        one = [dtype(sums_k[(e, r, j), 0, 0] * scale_k) for e in range(2 if 8 * j < d else 0)]
                        other = [
                            dtype(times(sums_v[(e, r, j), 0, 0], scale_v)) for e in range(2 if 8 * j < width else 0)
                        ]
                        for to, start_of, pair in ((dk, at_k, one), (dv, at_v, other)):
                            if fx.const_expr(len(pair) > 0):
                                nv.store_global(to + (start_of + 8 * j), fx.Vector.from_elements(pair, dtype))


class Own(NamedTuple):
    """A tile of keys: its number among those of a sequence and a head, and where these are."""

    block: fx.Int32
    head: fx.Int32
    batch: fx.Int32
    batch_q: fx.Int32
    batch_k: fx.Int32


def tile_of(at: fx.Int32, own: Own, form: Sides, reach: Reach) -> Own:
    """The tile of a number, heads behind each other; or the block's only one."""
    if not form.stays:
        return own
    blocks = fx.ceildiv(reach.keys, ROWS)
    line = at // blocks
    batch = line // reach.kv_heads
    return Own(at - line * blocks, line - batch * reach.kv_heads, batch, batch, batch)


@flyc.jit
def add_in_turn(
    place: fx.Tensor, target: fx.Pointer, turn: fx.Pointer, block: fx.Int32, row: fx.Int32, form: Sides, reach: Reach
):
    """A part of dQ behind those of the blocks with earlier keys, which have been dispatched before."""
    nv = fx.nvgpu
    first = fx.Int32(0)
    if fx.const_expr(form.left):
        first = fx.max(row + reach.keys - reach.queries - reach.left, 0) // ROWS
    seen = fx.Int32(-1)
    while seen != block - first:
        seen = fx.Int32(fx.atomic_add(turn, 0, syncscope="device", ordering=fx.AtomicOrdering.AcqRel))
    nv.bulk_reduce(place, target, "add")
    nv.tma_commit()
    nv.tma_wait(0)
    fx.atomic_add(turn, 1, syncscope="device", ordering=fx.AtomicOrdering.AcqRel)


def times(x: fx.Float32, factor: fx.Float32 | None) -> fx.Float32:
    return x if factor is None else x * factor


@flyc.jit
def hopper_backward(
    q: fx.Tensor,
    k: fx.Tensor,
    v: fx.Tensor,
    out: fx.Tensor,
    grad: fx.Tensor,
    lse: fx.Tensor,
    sides: fx.Tensor,
    sums: fx.Tensor,
    turns: fx.Tensor | None,
    dq: fx.Tensor,
    dk: fx.Tensor,
    dv: fx.Tensor,
    cu_q: fx.Tensor | None,
    cu_k: fx.Tensor | None,
    rows_q: fx.Int32,
    rows_k: fx.Int32,
    batches_q: fx.Int32,
    batches_k: fx.Int32,
    batches: fx.Int32,
    queries: fx.Int32,
    keys: fx.Int32,
    heads: fx.Int32,
    kv_heads: fx.Int32,
    row_q: fx.Int64,
    head_q: fx.Int64,
    batch_q: fx.Int64,
    row_k: fx.Int64,
    head_k: fx.Int64,
    batch_k: fx.Int64,
    row_v: fx.Int64,
    head_v: fx.Int64,
    batch_v: fx.Int64,
    row_out: fx.Int64,
    head_out: fx.Int64,
    batch_out: fx.Int64,
    row_grad: fx.Int64,
    head_grad: fx.Int64,
    batch_grad: fx.Int64,
    right: fx.Int32,
    left: fx.Int32,
    scale: fx.Float32,
    softcap: fx.Float32,
    seed: fx.Int64,
    cut: fx.Int64,
    factor: fx.Float32,
    processors: fx.Int32,
    form: fx.Constexpr[Sides],
    stream: fx.Stream = fx.Stream(None),
):
    """Gradients are contiguous. `sides` has room for two numbers of each query, rounded up to a step, and `sums` for a
    row of f32 of each; `turns` are zeros, two for each head's steps, where sums have an order.

    `rows_*` and `batches_*` are those of the arrays; `queries`, `keys` and `batches` those of the sequences, the
    longest where they are packed."""
    nv, d, m = fx.nvgpu, form.d, form.m
    long = (rows_q // m + batches if form.packed_q else fx.ceildiv(queries, m)) * m
    lines = batches_q * heads
    load_q = load_map(q, rows_q, d, heads, batches_q, (row_q, head_q, batch_q), m)
    load_grad = load_map(grad, rows_q, form.dv, heads, batches_q, (row_grad, head_grad, batch_grad), m)
    load_k = load_map(k, rows_k, d, kv_heads, batches_k, (row_k, head_k, batch_k), ROWS)
    load_v = load_map(v, rows_k, form.dv, kv_heads, batches_k, (row_v, head_v, batch_v), ROWS)
    two = fx.make_layout((lines, 2, long), (fx.Int64(long) * 2, fx.Int64(long), 1))
    load_sides = nv.make_tma_atom(nv.TMALoad(), fx.make_view(fx.get_iter(sides), two), None, (1, 2, m))
    # Packed sequences have a line of blocks each, as long as the longest.
    rows = fx.ceildiv(queries, m) * m if form.packed_q else lines * long
    over = (heads, batches) if form.packed_q else ()
    sides_kernel(
        fx.get_iter(out), fx.get_iter(grad), fx.get_iter(lse), fx.get_iter(sides), fx.get_iter(sums), pointer_of(cu_q),
        form.sums, rows_q, heads, long, rows, batch_out, row_out, head_out, batch_grad, row_grad, head_grad,
    ).launch(grid=(fx.ceildiv(rows, 128 // lanes_of(form.dv)), *over), block=128, stream=stream)  # fmt: skip
    reach, blocks = Reach(queries, keys, heads, kv_heads, right, left, scale), fx.ceildiv(keys, ROWS)
    backward_kernel(
        load_q, load_k, load_v, load_grad, load_sides, fx.get_iter(sums), pointer_of(turns), fx.get_iter(dk),
        fx.get_iter(dv), pointer_of(cu_q), pointer_of(cu_k), long // m if form.packed_q else None,
        blocks * kv_heads * batches if form.stays else None,
        softcap if form.softcap else None,
        Drop(seed, cut, factor) if form.dropout else None, q.dtype, form, reach, value_attrs={"nvvm.minctasm": 1},
    ).launch(
        grid=fx.min(blocks * kv_heads * batches, processors) if form.stays else (blocks, kv_heads, batches),
        block=128 * (CONSUMERS + 1), smem=form.smem, stream=stream,
    )  # fmt: skip
    units = fx.Int64(rows) * (d // UNIT) if form.packed_q else fx.Int64(lines) * fx.Int64(long) * (d // UNIT)
    if fx.const_expr(form.dropout):
        scale = scale * factor
    round_kernel(
        fx.get_iter(sums), fx.get_iter(dq), pointer_of(cu_q), form.sums, units, long // m, rows_q, heads, scale
    ).launch(grid=(fx.Int32((units + 255) // 256), *over), block=256, stream=stream)
