"""Gradients of attention on Hopper: a block holds 128 keys and values and walks along the queries, 64 at a time.

Everything is computed transposed, with keys as rows: scores K Q^T and the weights' gradients V dO^T come from shared
memory; weights and scores' gradients stay in registers, as the first operands of dV += P^T dO and dK += dS^T Q. For dQ
scores' gradients go to shared memory, where both consumers read all of them; each has half of the columns of dQ, which
the copy engine adds to the sums in memory, in f32. All heads of queries that share the keys are walked.
"""

from __future__ import annotations

from typing import NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..matmul.hopper_out import swizzle
from .hopper import fetch, load_map
from .softmax import LOG2E
from .tile import span

ROWS, QUERIES, STAGES = 128, 64, 2
"""Keys of a block, queries of a step, and steps that are in shared memory."""
CONSUMERS = 2
NOTHING = 1e30
"""The logarithm of a row that has no weights."""


class Sides(NamedTuple):
    """What is compiled in: elements of a head, and whether keys end or begin for a query."""

    d: int
    right: bool
    left: bool

    @property
    def smem(self) -> int:
        held = 2 * 2 * ROWS * self.d
        walked = STAGES * (2 * 2 * QUERIES * self.d + 2 * 4 * QUERIES)
        return held + walked + 2 * 2 * ROWS * QUERIES + 4 * QUERIES * self.d + 256


class Reach(NamedTuple):
    """What a launch is told in numbers."""

    queries: fx.Int32
    keys: fx.Int32
    heads: fx.Int32
    kv_heads: fx.Int32
    right: fx.Int32
    left: fx.Int32
    scale: fx.Float32


@flyc.kernel
def backward_kernel(
    load_q: fx.nvgpu.TmaAtom,
    load_k: fx.nvgpu.TmaAtom,
    load_v: fx.nvgpu.TmaAtom,
    load_grad: fx.nvgpu.TmaAtom,
    load_sides: fx.nvgpu.TmaAtom,
    add_q: fx.nvgpu.TmaAtom,
    dk: fx.Pointer,
    dv: fx.Pointer,
    dtype: type[fx.Numeric],
    form: fx.Constexpr[Sides],
    reach: Reach,
):
    nv = fx.nvgpu
    tid = fx.thread_idx.x
    role = nv.uniform(tid // 128)
    d = form.d
    base_k = fx.get_dyn_shared(dtype)
    base_v = base_k + ROWS * d
    base_q = base_v + ROWS * d
    base_g = base_q + STAGES * QUERIES * d
    base_s = base_g + STAGES * QUERIES * d
    staged = fx.recast_iter(fx.Float32, base_s + 2 * ROWS * QUERIES)
    sides = staged + QUERIES * d
    barriers = nv.MBarrier(fx.recast_iter(fx.Int64, sides + STAGES * 2 * QUERIES))
    held, full_q, full_g, empty = barriers, barriers[1], barriers[1 + STAGES], barriers[1 + 2 * STAGES]
    if tid == 0:
        held.init(1)
        for s in fx.range_constexpr(STAGES):
            full_q[s].init(1)
            full_g[s].init(1)
            empty[s].init(CONSUMERS)
        nv.fence_mbarrier_init()
    fx.barrier()
    block, head, batch = fx.block_idx
    group = reach.heads // reach.kv_heads
    low, high = steps_of(block, form, reach)
    steps = fx.max(high - low, 0)
    if role == 0:
        nv.setmaxnreg(24, increase=False)
        if tid == 0:
            held.expect_tx(2 * 2 * ROWS * d)
            fetch(load_k, base_k, held, block * ROWS, head, batch, ROWS, d)
            fetch(load_v, base_v, held, block * ROWS, head, batch, ROWS, d)
            stage, phase = fx.Int32(0), fx.Int32(1)
            for i in range(steps * group):
                which = i // fx.max(steps, 1)
                row, from_head = (low + i - which * steps) * QUERIES, head * group + which
                empty[stage].wait(phase)
                full_q[stage].expect_tx(2 * QUERIES * d + 2 * 4 * QUERIES)
                fetch(load_q, base_q + stage * (QUERIES * d), full_q[stage], row, from_head, batch, QUERIES, d)
                line = batch * reach.heads + from_head
                load_sides.load((line, 0, row), sides + stage * (2 * QUERIES), full_q[stage])
                full_g[stage].expect_tx(2 * QUERIES * d)
                fetch(load_grad, base_g + stage * (QUERIES * d), full_g[stage], row, from_head, batch, QUERIES, d)
                stage = stage + 1
                if stage == STAGES:
                    stage = fx.Int32(0)
                    phase = phase ^ 1
    else:
        nv.setmaxnreg(240, increase=True)
        consumer, member = role - 1, tid % 128
        alone = fx.make_layout((1, 1, 1), (0, 0, 0))
        product = fx.make_tiled_mma(fx.make_mma_atom(nv.WGMMA(QUERIES, 16, dtype)), alone)
        sums_atom = nv.WGMMA(d, 16, dtype, a_from="registers", major_b="mn")
        sums_mma = fx.make_tiled_mma(fx.make_mma_atom(sums_atom), alone)
        half_mma = fx.make_tiled_mma(fx.make_mma_atom(nv.WGMMA(d // 2, 16, dtype, major_a="mn", major_b="mn")), alone)
        first, second, third = product.get_slice(0), sums_mma.get_slice(0), half_mma.get_slice(0)
        wide = span(d)
        mine = consumer * (64 * wide)
        keys, values = (first.partition_A(held_rows(base + mine, d)) for base in (base_k, base_v))
        queries, grads = (first.partition_B(walked(base, d)) for base in (base_q, base_g))
        queries_t, grads_t = (second.partition_B(turned(base, d)) for base in (base_q, base_g))
        slopes_smem = fx.apply_swizzle(base_s, swizzle(128))
        slopes_all = third.partition_A(
            fx.make_view(slopes_smem, fx.make_layout((QUERIES, ROWS, 2), (1, QUERIES, ROWS * QUERIES)))
        )
        half_base = base_k + consumer * (ROWS * wide if d // 2 % wide == 0 else d // 2)
        half_keys = third.partition_B(
            fx.make_view(fx.apply_swizzle(half_base, swizzle(2 * wide)), fx.make_layout((d // 2, ROWS), (1, wide)))
        )
        scores, slopes = (accumulators(QUERIES) for _ in range(2))
        sums_k, sums_v, part_q = accumulators(d), accumulators(d), accumulators(d // 2)
        operand = fx.make_layout(((2, 2, 2), 1, QUERIES // 16), ((1, 2, 4), 0, 8))
        weights, slopes_half = (fx.make_rmem_tensor(operand, dtype) for _ in range(2))
        store = fx.make_copy_atom(nv.StMatrix(4, trans=False), dtype)
        copy = fx.make_tiled_copy_C(store, product).get_slice(member)
        rows_of_slopes = fx.make_layout((64, QUERIES, 2), (QUERIES, 1, ROWS * QUERIES))
        to_slopes = copy.partition_D(
            fx.make_view(fx.apply_swizzle(base_s + consumer * (64 * QUERIES), swizzle(128)), rows_of_slopes)
        )
        boxes = d // 2 // 32
        place = staged + consumer * (QUERIES * (d // 2))
        pair = fx.make_copy_atom(fx.UniversalCopy(64), fx.Float32)
        out_copy = fx.make_tiled_copy_C(pair, half_mma).get_slice(member)
        to_staged = out_copy.partition_D(
            fx.make_view(
                fx.apply_swizzle(place, swizzle(128)),
                fx.make_layout((QUERIES, (32, boxes)), (32, (1, QUERIES * 32))),
            )
        )
        sums_k.fill(0.0)
        sums_v.fill(0.0)
        key = block * ROWS + consumer * 64 + member // 32 * 16 + member % 32 // 4
        factor = reach.scale * LOG2E
        held.wait(0)
        stage, phase = fx.Int32(0), fx.Int32(0)
        for i in range(steps * group):
            which = i // fx.max(steps, 1)
            row, from_head = (low + i - which * steps) * QUERIES, head * group + which
            full_q[stage].wait(phase)
            multiply(product, scores, keys, queries[None, None, None, stage], d)
            full_g[stage].wait(phase)
            multiply(product, slopes, values, grads[None, None, None, stage], d)
            nv.wgmma_wait(1, scores)
            side = sides + (stage * (2 * QUERIES) + member % 4 * 2)
            weigh(scores, side, factor, key, row + member % 4 * 2, form, reach)
            weights.store(scores.load().to(dtype).reshape(weights.shape.unpack()))
            for k in fx.range_constexpr(QUERIES // 16):
                fx.gemm(sums_mma, sums_v, weights[None, None, k], grads_t[None, None, k, stage], sums_v)
            nv.wgmma_commit()
            nv.wgmma_wait(1, slopes)
            derive(scores, slopes, side + QUERIES)
            slopes_half.store(slopes.load().to(dtype).reshape(slopes_half.shape.unpack()))
            for k in fx.range_constexpr(QUERIES // 16):
                fx.gemm(sums_mma, sums_k, slopes_half[None, None, k], queries_t[None, None, k, stage], sums_k)
            nv.wgmma_commit()
            # Two places take turns: who writes here has met the others since they read it.
            turn = i % 2
            flat = fx.make_rmem_tensor(scores.layout, dtype)
            flat.store(slopes_half.load().reshape(scores.shape.unpack()))
            fx.copy(store, copy.retile(flat), to_slopes[None, None, None, turn])
            nv.named_barrier(1, 256).sync()
            for k in fx.range_constexpr(ROWS // 16):
                mma = half_mma.set_value("accumulate", fx.Int32(0)) if k == 0 else half_mma
                fx.gemm(mma, part_q, slopes_all[None, None, k, turn], half_keys[None, None, k], part_q)
            nv.wgmma_commit()
            nv.wgmma_wait(1)
            if member == 0:
                empty[stage].arrive()
                nv.tma_wait(0, read=True)
            nv.wgmma_wait(0, part_q)
            nv.named_barrier(2 + consumer, 128).sync()
            fx.copy(pair, out_copy.retile(part_q), to_staged)
            nv.named_barrier(2 + consumer, 128).sync()
            if member == 0:
                for box in fx.range_constexpr(boxes):
                    column = consumer * (d // 2) + box * 32
                    add_q.store(place + box * (QUERIES * 32), (row, column, from_head, batch))
                nv.tma_commit()
            stage = stage + 1
            if stage == STAGES:
                stage = fx.Int32(0)
                phase = phase ^ 1
        nv.wgmma_wait(0, sums_k, sums_v)
        line = (fx.Int64(batch) * fx.Int64(reach.keys) * fx.Int64(reach.kv_heads) + fx.Int64(head)) * d
        for r in fx.range_constexpr(2):
            if key + 8 * r < reach.keys:
                origin = line + fx.Int64(key + 8 * r) * fx.Int64(reach.kv_heads) * d + member % 4 * 2
                for j in fx.range_constexpr(d // 8):
                    one = [dtype(sums_k[(e, r, j), 0, 0] * reach.scale) for e in range(2)]
                    other = [dtype(sums_v[(e, r, j), 0, 0]) for e in range(2)]
                    nv.store_global(dk + (origin + 8 * j), fx.Vector.from_elements(one, dtype))
                    nv.store_global(dv + (origin + 8 * j), fx.Vector.from_elements(other, dtype))
        if member == 0:
            nv.tma_wait(0)


def steps_of(block: fx.Int32, form: Sides, reach: Reach) -> tuple[fx.Int32, fx.Int32]:
    """The first step of queries that sees some of a block's keys, and the one behind the last."""
    shift = reach.keys - reach.queries
    low, end = fx.Int32(0), reach.queries
    if form.right:
        low = fx.max(block * ROWS - shift - reach.right, 0) // QUERIES
    if form.left:
        end = fx.max(fx.min(end, block * ROWS + ROWS - shift + reach.left), 0)
    return low, fx.ceildiv(end, QUERIES)


def accumulators(columns: int) -> fx.Tensor:
    return fx.make_rmem_tensor(fx.make_layout(((2, 2, columns // 8), 1, 1), ((1, 2, 4), 0, 0)), fx.Float32)


def held_rows(base: fx.Pointer, d: int) -> fx.Tensor:
    """A consumer's 64 rows of what the block holds."""
    wide = span(d)
    layout = fx.make_layout((64, (wide, d // wide)), (wide, (1, ROWS * wide)))
    return fx.make_view(fx.apply_swizzle(base, swizzle(2 * wide)), layout)


def walked(base: fx.Pointer, d: int) -> fx.Tensor:
    """All stages of what is walked along, (queries, d, stage)."""
    wide = span(d)
    layout = fx.make_layout((QUERIES, (wide, d // wide), STAGES), (wide, (1, QUERIES * wide), QUERIES * d))
    return fx.make_view(fx.apply_swizzle(base, swizzle(2 * wide)), layout)


def turned(base: fx.Pointer, d: int) -> fx.Tensor:
    """The same as (d, queries, stage)."""
    wide = span(d)
    layout = fx.make_layout(((wide, d // wide), QUERIES, STAGES), ((1, QUERIES * wide), wide, QUERIES * d))
    return fx.make_view(fx.apply_swizzle(base, swizzle(2 * wide)), layout)


def multiply(mma: fx.TiledMma, out: fx.Tensor, a: fx.Tensor, b: fx.Tensor, d: int) -> None:
    for k in range(d // 16):
        now = mma.set_value("accumulate", fx.Int32(0)) if k == 0 else mma
        fx.gemm(now, out, a[None, None, k], b[None, None, k], out)
    fx.nvgpu.wgmma_commit()


def weigh(
    scores: fx.Tensor,
    heights: fx.Pointer,
    factor: fx.Float32,
    key: fx.Int32,
    query: fx.Int32,
    form: Sides,
    reach: Reach,
) -> None:
    """Scores become weights, with the logarithms of their queries' sums; 0 for pairs that do not see each other."""
    shift = reach.keys - reach.queries
    for j in range(QUERIES // 8):
        for e in range(2):
            height = heights[8 * j + e]
            for r in range(2):
                seen = key + 8 * r < reach.keys
                at = query + (8 * j + e) + shift
                if form.right:
                    seen = seen & (key + 8 * r <= at + reach.right)
                if form.left:
                    seen = seen & (key + 8 * r >= at - reach.left)
                weight = fx.exp2(fx.fma(scores[(e, r, j), 0, 0], factor, -height), fastmath="fast")
                scores[(e, r, j), 0, 0] = seen.select(weight, fx.Float32(0.0))


def derive(weights: fx.Tensor, slopes: fx.Tensor, means: fx.Pointer) -> None:
    """The gradients of weights become those of scores."""
    for j in range(QUERIES // 8):
        for e in range(2):
            mean = means[8 * j + e]
            for r in range(2):
                at = (e, r, j), 0, 0
                slopes[at] = weights[at] * (slopes[at] - mean)


@flyc.kernel
def sides_kernel(
    out: fx.Pointer,
    grad: fx.Pointer,
    lse: fx.Pointer,
    sides: fx.Pointer,
    d: fx.Constexpr[int],
    queries: fx.Int32,
    heads: fx.Int32,
    long: fx.Int32,
    rows: fx.Int32,
    batch_out: fx.Int64,
    row_out: fx.Int64,
    head_out: fx.Int64,
    batch_grad: fx.Int64,
    row_grad: fx.Int64,
    head_grad: fx.Int64,
):
    """A warp a row: its logarithm, of base 2, and the product of the result and its gradient."""
    lane = fx.thread_idx.x % 32
    which = fx.block_idx.x * 4 + fx.thread_idx.x // 32
    line, row = which // long, which % long
    batch, head = line // heads, line % heads
    total, height = fx.Float32(0.0), fx.Float32(NOTHING)
    if (which < rows) & (row < queries):
        at_out = out + (fx.Int64(batch) * batch_out + fx.Int64(row) * row_out + fx.Int64(head) * head_out)
        at_grad = grad + (fx.Int64(batch) * batch_grad + fx.Int64(row) * row_grad + fx.Int64(head) * head_grad)
        for i in fx.range_constexpr(d // 32):
            total = total + fx.Float32(at_out[lane + 32 * i]) * fx.Float32(at_grad[lane + 32 * i])
        found = fx.Float32(lse[fx.Int64(line) * fx.Int64(queries) + row])
        height = (found == float("-inf")).select(height, found * LOG2E)
    for i in fx.range_constexpr(5):
        total = total + fx.shuffle_xor(total, 1 << i)
    if (which < rows) & (lane == 0):
        place = fx.Int64(line) * (2 * fx.Int64(long)) + row
        sides[place] = height
        sides[place + long] = total


@flyc.kernel
def round_kernel(sums: fx.Pointer, out: fx.Pointer, count: fx.Int64, scale: fx.Float32):
    """Sums times the scale, in the type of the queries; eight a thread."""
    at = (fx.Int64(fx.block_idx.x) * 256 + fx.thread_idx.x) * 8
    if at < count:
        values = fx.nvgpu.load_global(sums + at, 8)
        fx.nvgpu.store_global(out + at, (values * scale).to(out.dtype))


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
    dq: fx.Tensor,
    dk: fx.Tensor,
    dv: fx.Tensor,
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
    form: fx.Constexpr[Sides],
    stream: fx.Stream = fx.Stream(None),
):
    """Gradients are contiguous. `sides` has room for two numbers of each query, rounded up to a step; `sums` is f32,
    zero, and like dq."""
    nv, d = fx.nvgpu, form.d
    long = fx.ceildiv(queries, QUERIES) * QUERIES
    lines = batches * heads
    load_q = load_map(q, queries, d, heads, batches, (row_q, head_q, batch_q), QUERIES)
    load_grad = load_map(grad, queries, d, heads, batches, (row_grad, head_grad, batch_grad), QUERIES)
    load_k = load_map(k, keys, d, kv_heads, batches, (row_k, head_k, batch_k), ROWS)
    load_v = load_map(v, keys, d, kv_heads, batches, (row_v, head_v, batch_v), ROWS)
    two = fx.make_layout((lines, 2, long), (fx.Int64(long) * 2, fx.Int64(long), 1))
    load_sides = nv.make_tma_atom(nv.TMALoad(), fx.make_view(fx.get_iter(sides), two), None, (1, 2, QUERIES))
    row = fx.Int64(heads) * d
    whole = fx.make_layout((queries, d, heads, batches), (row, 1, fx.Int64(d), fx.Int64(queries) * row))
    add_q = nv.make_tma_atom(
        nv.TMAReduce("add"), fx.make_view(fx.get_iter(sums), whole), None, (QUERIES, 32, 1, 1), swizzle=128
    )
    rows = lines * long
    sides_kernel(
        fx.get_iter(out), fx.get_iter(grad), fx.get_iter(lse), fx.get_iter(sides), d, queries, heads, long, rows,
        batch_out, row_out, head_out, batch_grad, row_grad, head_grad,
    ).launch(grid=fx.ceildiv(rows, 4), block=128, stream=stream)  # fmt: skip
    reach = Reach(queries, keys, heads, kv_heads, right, left, scale)
    backward_kernel(
        load_q, load_k, load_v, load_grad, load_sides, add_q, fx.get_iter(dk), fx.get_iter(dv), q.dtype, form, reach,
        value_attrs={"nvvm.minctasm": 1},
    ).launch(
        grid=(fx.ceildiv(keys, ROWS), kv_heads, batches), block=128 * (CONSUMERS + 1), smem=form.smem, stream=stream
    )  # fmt: skip
    count = fx.Int64(lines) * fx.Int64(queries) * d
    round_kernel(fx.get_iter(sums), fx.get_iter(dq), count, scale).launch(
        grid=fx.Int32((count + 2047) // 2048), block=256, stream=stream
    )
