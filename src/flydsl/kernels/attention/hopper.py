"""softmax(Q K^T) V on Hopper: a warpgroup fetches by TMA, the others multiply with `wgmma` and keep all else in registers.

A block has 64 rows of queries for each consumer and walks along the keys from the last one that counts to the first,
so that what must be masked comes first. A step's scores are products from shared memory; weights stay in the registers
they were computed in, where the second product takes them as its first operand.

* Inside a warpgroup the scores of the next step are issued before the sums of this one, and the softmax of the one runs
  during the products of the other.
* Between warpgroups (`Tile.pingpong`) barriers let them issue in turns, so that one multiplies during another's softmax.
* Blocks stay and take tile after tile: the keys of the next tile come while the last sums of this one are stored.

Outside the arrays the copy engine reads zeros. Threads store the results, as far as there are rows.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..matmul.hopper_out import swizzle
from .softmax import LN2, LOG2E, Scale, over_quad, rescale, step
from .tile import Form, Tile, registers, span


class Numbers(NamedTuple):
    """What a launch is told in numbers."""

    queries: fx.Int32
    keys: fx.Int32
    heads: fx.Int32
    group: fx.Int32
    """Heads of queries for a head of keys."""
    batches: fx.Int32
    together: fx.Int32
    """Heads whose tiles are walked together, so that their keys stay in L2."""
    right: fx.Int32
    """A query at the end of the keys sees so many keys behind it; 0 if causal."""
    left: fx.Int32
    """And so many in front of it."""
    factor: fx.Float32
    """Of scores in front of exp2."""
    inner: fx.Float32
    """Of scores in front of tanh, where they are capped."""
    out_row: fx.Int64
    out_head: fx.Int64
    out_batch: fx.Int64
    lse_head: fx.Int64
    lse_batch: fx.Int64


class Lengths(NamedTuple):
    """Where sequences are that differ in length: their first rows, or how many keys there are."""

    cu_q: fx.Pointer | None
    cu_k: fx.Pointer | None
    used_k: fx.Pointer | None


class Work(NamedTuple):
    """A tile: which rows of queries, of which head; and the sequence it is in."""

    block: fx.Int32
    head: fx.Int32
    batch: fx.Int32
    queries: fx.Int32
    keys: fx.Int32
    first_query: fx.Int32
    first_key: fx.Int32


@flyc.kernel
def attention_kernel(
    load_q: fx.nvgpu.TmaAtom,
    load_k: fx.nvgpu.TmaAtom,
    load_v: fx.nvgpu.TmaAtom,
    out: fx.Pointer,
    lse: fx.Pointer | None,
    sinks: fx.Pointer | None,
    cu_q: fx.Pointer | None,
    cu_k: fx.Pointer | None,
    used_k: fx.Pointer | None,
    counters: fx.Pointer | None,
    dtype: type[fx.Numeric],
    tile: fx.Constexpr[Tile],
    form: fx.Constexpr[Form],
    numbers: Numbers,
):
    nv = fx.nvgpu
    tid = fx.thread_idx.x
    role = nv.uniform(tid // 128)
    stages = tile.stages
    base_q = fx.get_dyn_shared(dtype)
    base_k = base_q + tile.m * tile.d
    base_v = base_k + stages * tile.n * tile.d
    after = fx.recast_iter(fx.Int64, base_v + stages * tile.n * tile.dv)
    full_q = nv.MBarrier(after)
    empty_q, full_k = full_q[1], full_q[2]
    empty_k = full_k[stages]
    full_v = empty_k[stages]
    empty_v = full_v[stages]
    turns = Turns(empty_v[stages], empty_v[stages + 2], fx.recast_iter(fx.Int32, after + (4 * stages + 6)))
    if tid == 0:
        load_q.prefetch()
        load_k.prefetch()
        load_v.prefetch()
        full_q.init(1)
        empty_q.init(tile.consumers)
        for s in fx.range_constexpr(stages):
            full_k[s].init(1)
            full_v[s].init(1)
            empty_k[s].init(tile.consumers)
            empty_v[s].init(tile.consumers)
        for s in fx.range_constexpr(2):
            turns.full[s].init(1)
            turns.empty[s].init(128 * tile.consumers)
        nv.fence_mbarrier_init()
    fx.barrier()

    lengths = Lengths(cu_q, cu_k, used_k)
    blocks = fx.ceildiv(numbers.queries, tile.m)
    tiles = blocks * numbers.heads * numbers.batches
    first, stride = fx.block_idx.x, fx.grid_dim.x
    few, many = registers(tile)
    if role == 0:
        if fx.const_expr(tile.consumers > 1):
            nv.setmaxnreg(few, increase=False)
        if tid == 0:
            stage, phase, phase_q = fx.Int32(0), fx.Int32(1), fx.Int32(1)
            at, count = first, fx.Int32(0)
            while at < tiles:
                coming = at + stride
                if fx.const_expr(form.dynamic):
                    coming = stride + fx.Int32(fx.atomic_add(cast("fx.Pointer", counters), 1, syncscope="device"))
                    publish(turns, count, at)
                work = position(at, blocks, numbers, lengths)
                low, high = steps_of(work, tile, form, numbers)
                if high > low:
                    empty_q.wait(phase_q)
                    phase_q = phase_q ^ 1
                    full_q.expect_tx(2 * tile.m * tile.d)
                    row = work.first_query + work.block * tile.m
                    batch = fx.Int32(0) if form.packed_q else work.batch
                    fetch(load_q, base_q, full_q, row, work.head, batch, tile.m, tile.d)
                    kv_head = work.head // numbers.group
                    batch = fx.Int32(0) if form.packed_k else work.batch
                    for i in range(high - low):
                        row = work.first_key + (high - 1 - i) * tile.n
                        empty_k[stage].wait(phase)
                        full_k[stage].expect_tx(2 * tile.n * tile.d)
                        place_k = base_k + stage * (tile.n * tile.d)
                        fetch(load_k, place_k, full_k[stage], row, kv_head, batch, tile.n, tile.d)
                        empty_v[stage].wait(phase)
                        full_v[stage].expect_tx(2 * tile.n * tile.dv)
                        place_v = base_v + stage * (tile.n * tile.dv)
                        fetch(load_v, place_v, full_v[stage], row, kv_head, batch, tile.n, tile.dv)
                        stage = stage + 1
                        if stage == stages:
                            stage = fx.Int32(0)
                            phase = phase ^ 1
                at = coming
                count = count + 1
            if fx.const_expr(form.dynamic):
                publish(turns, count, at)
                # The last block to come here leaves zeros for the next launch.
                done = fx.atomic_add(
                    cast("fx.Pointer", counters) + 1, 1, syncscope="device", ordering=fx.AtomicOrdering.AcqRel
                )
                if done == stride - 1:
                    cast("fx.Pointer", counters)[0] = 0
                    cast("fx.Pointer", counters)[1] = 0
    else:
        if fx.const_expr(tile.consumers > 1):
            nv.setmaxnreg(many, increase=True)
        consumer = role - 1
        member = tid % 128
        alone = fx.make_layout((1, 1, 1), (0, 0, 0))
        scores_mma = fx.make_tiled_mma(fx.make_mma_atom(nv.WGMMA(tile.n, 16, dtype)), alone)
        values_atom = nv.WGMMA(tile.dv, 16, dtype, a_from="registers", major_b="mn")
        values_mma = fx.make_tiled_mma(fx.make_mma_atom(values_atom), alone)
        queries, keys, values = operands(base_q, base_k, base_v, consumer, tile)
        first_mma, second_mma = scores_mma.get_slice(0), values_mma.get_slice(0)
        parts_q, parts_k = first_mma.partition_A(queries), first_mma.partition_B(keys)
        parts_v = second_mma.partition_B(values)
        scores = fx.make_rmem_tensor(fx.make_layout(((2, 2, tile.n // 8), 1, 1), ((1, 2, 4), 0, 0)), fx.Float32)
        weights = fx.make_rmem_tensor(fx.make_layout(((2, 2, 2), 1, tile.n // 16), ((1, 2, 4), 0, 8)), dtype)
        sums = fx.make_rmem_tensor(fx.make_layout(((2, 2, tile.dv // 8), 1, 1), ((1, 2, 4), 0, 0)), fx.Float32)
        highest, total = (fx.make_rmem_tensor(fx.make_layout(2, 1), fx.Float32) for _ in range(2))
        me = Consumer(
            tile, form, numbers, Scale(numbers.factor, fx.Float32(-1e30) / numbers.factor), member, consumer, scores_mma,
            values_mma, parts_q, parts_k, parts_v, scores, weights, sums, highest, total,
            Pipe(full_k, empty_k), Pipe(full_v, empty_v), base_v,
        )  # fmt: skip
        if fx.const_expr(tile.pingpong and tile.consumers > 1):
            if consumer == tile.consumers - 1:
                nv.named_barrier(1, 256).arrive()
        place, phase_q = Place(fx.Int32(0), fx.Int32(0), fx.Int32(0), fx.Int32(0)), fx.Int32(0)
        at, count = first, fx.Int32(0)
        if fx.const_expr(form.dynamic):
            at = receive(turns, count)
        while at < tiles:
            work = position(at, blocks, numbers, lengths)
            low, high = steps_of(work, tile, form, numbers)
            top = work.block * tile.m + consumer * 64 + member // 32 * 16 + member % 32 // 4
            sums.fill(0.0)
            highest.fill(0.0)
            total.fill(0.0)
            if high > low:
                full_q.wait(phase_q)
                phase_q = phase_q ^ 1
                place = begin(me, work, top, high - 1, place)
                clear, always = masked_steps(work, tile, form, numbers, low, high)
                if fx.const_expr(form.right or form.left):
                    for i in range(high - 1 - clear):
                        place = advance(me, work, top, high - 2 - i, place, True)
                rest = fx.min(high - 1, clear)
                for i in range(rest - always):
                    place = advance(me, work, top, rest - 1 - i, place, False)
                if fx.const_expr(form.left):
                    rest = fx.min(rest, always)
                    for i in range(rest - low):
                        place = advance(me, work, top, rest - 1 - i, place, True)
                if member == 0:
                    empty_q.arrive()
                place = finish(me, place)
            finalize(me, out, lse, sinks, top, work)
            count = count + 1
            if fx.const_expr(form.dynamic):
                at = receive(turns, count)
            else:
                at = at + stride
        if fx.const_expr(tile.pingpong and tile.consumers > 1):
            if consumer == 0:
                nv.named_barrier(1, 256).sync()


class Turns(NamedTuple):
    """How consumers learn which tile is next: two places, with barriers for written and for read."""

    full: fx.nvgpu.MBarrier
    empty: fx.nvgpu.MBarrier
    tiles: fx.Pointer


def publish(turns: Turns, count: fx.Int32, at: fx.Int32) -> None:
    slot, phase = count % 2, count // 2 % 2
    turns.empty[slot].wait(phase ^ 1)
    turns.tiles[slot] = at
    turns.full[slot].arrive()


def receive(turns: Turns, count: fx.Int32) -> fx.Int32:
    slot, phase = count % 2, count // 2 % 2
    turns.full[slot].wait(phase)
    at = fx.Int32(turns.tiles[slot])
    turns.empty[slot].arrive()
    return fx.nvgpu.uniform(at)


class Pipe(NamedTuple):
    """The barriers of a ring of stages."""

    full: fx.nvgpu.MBarrier
    empty: fx.nvgpu.MBarrier


class Place(NamedTuple):
    """Where a consumer is in the rings of keys and of values."""

    stage_k: fx.Int32
    phase_k: fx.Int32
    stage_v: fx.Int32
    phase_v: fx.Int32


class Consumer(NamedTuple):
    """What a warpgroup that multiplies works with."""

    tile: Tile
    form: Form
    numbers: Numbers
    scale: Scale
    member: fx.Int32
    consumer: fx.Int32
    scores_mma: fx.TiledMma
    values_mma: fx.TiledMma
    queries: fx.Tensor
    keys: fx.Tensor
    values: fx.Tensor
    scores: fx.Tensor
    weights: fx.Tensor
    sums: fx.Tensor
    highest: fx.Tensor
    total: fx.Tensor
    pipe_k: Pipe
    pipe_v: Pipe
    base_v: fx.Pointer


def position(at: fx.Int32, blocks: fx.Int32, numbers: Numbers, lengths: Lengths) -> Work:
    """Heads in groups that L2 has room for; in a group the last rows of all heads come first, they have most keys."""
    which = at // (numbers.together * blocks)
    inside = at - which * (numbers.together * blocks)
    left = numbers.heads * numbers.batches - which * numbers.together
    heads = fx.min(numbers.together, left)
    block = inside // heads
    head = which * numbers.together + (inside - block * heads)
    batch = head // numbers.heads
    queries, first_query = of_batch(lengths.cu_q, batch, numbers.queries)
    keys, first_key = of_batch(lengths.cu_k, batch, numbers.keys)
    if lengths.used_k is not None:
        keys = fx.Int32(lengths.used_k[batch])
    return Work(blocks - 1 - block, head - batch * numbers.heads, batch, queries, keys, first_query, first_key)


def of_batch(cu: fx.Pointer | None, batch: fx.Int32, count: fx.Int32) -> tuple[fx.Int32, fx.Int32]:
    """A sequence's length and first row."""
    if cu is None:
        return count, fx.Int32(0)
    first = fx.Int32(cu[batch])
    return fx.Int32(cu[batch + 1]) - first, first


def steps_of(work: Work, tile: Tile, form: Form, numbers: Numbers) -> tuple[fx.Int32, fx.Int32]:
    """The first step of keys that counts for a tile, and the one behind the last."""
    shift = work.keys - work.queries
    end, begin = work.keys, fx.Int32(0)
    if form.right:
        end = fx.max(fx.min(end, (work.block + 1) * tile.m + shift + numbers.right), 0)
    if form.left:
        begin = fx.max(work.block * tile.m + shift - numbers.left, 0) // tile.n
    high = fx.ceildiv(end, tile.n)
    if form.packed_q:
        # Tiles are counted for the longest sequence.
        high = (work.block * tile.m < work.queries).select(high, fx.Int32(0))
    return begin, high


def masked_steps(
    work: Work, tile: Tile, form: Form, numbers: Numbers, low: fx.Int32, high: fx.Int32
) -> tuple[fx.Int32, fx.Int32]:
    """Steps from the first of these to the end, and below the second, have keys that some row must not see."""
    shift = work.keys - work.queries
    clear, always = high - 1, low
    if form.right:
        clear = fx.min(clear, fx.max(work.block * tile.m + shift + numbers.right + 1, 0) // tile.n)
    if form.left:
        # Keys from the last row's first one on are seen by all rows.
        last = fx.max((work.block + 1) * tile.m - 1 + shift - numbers.left, 0)
        always = fx.min(fx.ceildiv(last, tile.n), high)
        clear = fx.max(clear, always)
    return fx.max(clear, low), always


def fetch(
    load: fx.nvgpu.TmaAtom,
    smem: fx.Pointer,
    barrier: fx.nvgpu.MBarrier,
    row: fx.Int32,
    head: fx.Int32,
    batch: fx.Int32,
    rows: int,
    d: int,
) -> None:
    """Rows of a head to shared memory, in boxes as wide as the swizzle."""
    for i in range(d // span(d)):
        load.load((row, i * span(d), head, batch), smem + i * (rows * span(d)), barrier)


def operands(
    base_q: fx.Pointer, base_k: fx.Pointer, base_v: fx.Pointer, consumer: fx.Int32, tile: Tile
) -> tuple[fx.Tensor, fx.Tensor, fx.Tensor]:
    """A consumer's queries (64, d), all stages of keys (n, d, stage), and of values as (dv, n, stage)."""
    m, n, d, dv, wide, wide_v = tile.m, tile.n, tile.d, tile.dv, span(tile.d), span(tile.dv)
    pattern, pattern_v = swizzle(2 * wide), swizzle(2 * wide_v)
    queries = fx.make_view(
        fx.apply_swizzle(base_q + consumer * (64 * wide), pattern),
        fx.make_layout((64, (wide, d // wide)), (wide, (1, m * wide))),
    )
    keys = fx.make_view(
        fx.apply_swizzle(base_k, pattern),
        fx.make_layout((n, (wide, d // wide), tile.stages), (wide, (1, n * wide), n * d)),
    )
    values = fx.make_view(
        fx.apply_swizzle(base_v, pattern_v),
        fx.make_layout(((wide_v, dv // wide_v), n, tile.stages), ((1, n * wide_v), wide_v, n * dv)),
    )
    return queries, keys, values


def multiply_keys(me: Consumer, stage: fx.Int32) -> None:
    """Issue a step's scores."""
    for k in range(me.tile.d // 16):
        mma = me.scores_mma.set_value("accumulate", fx.Int32(0)) if k == 0 else me.scores_mma
        fx.gemm(mma, me.scores, me.queries[None, None, k], me.keys[None, None, k, stage], me.scores)
    fx.nvgpu.wgmma_commit()


def multiply_values(me: Consumer, stage: fx.Int32) -> None:
    """Issue a step's sums."""
    for k in range(me.tile.n // 16):
        fx.gemm(
            me.values_mma, me.sums, me.weights[None, None, k], me.values[None, None, k, stage], me.sums
        )  # fmt: skip
    fx.nvgpu.wgmma_commit()


def keep_weights(me: Consumer) -> None:
    """Weights in the type of the values, as the operand of their product."""
    me.weights.store(me.scores.load().to(me.weights.dtype).reshape(me.weights.shape.unpack()))


def mask(me: Consumer, work: Work, top: fx.Int32, step_index: fx.Int32) -> None:
    """Scores of keys that a row must not see become the least there is."""
    tile, form, numbers = me.tile, me.form, me.numbers
    origin = step_index * tile.n + me.member % 4 * 2
    shift = work.keys - work.queries
    ends: list[fx.Int32] = []
    begins: list[fx.Int32] = []
    for r in range(2):
        row = top + 8 * r + shift
        end = fx.min(work.keys, row + 1 + numbers.right) if form.right else work.keys
        ends.append(end - origin)
        begins.append(row - numbers.left - origin)
    for j in range(tile.n // 8):
        for r in range(2):
            for e in range(2):
                seen = ends[r] > 8 * j + e
                if form.left:
                    seen = seen & (begins[r] <= 8 * j + e)
                value = me.scores[(e, r, j), 0, 0]
                me.scores[(e, r, j), 0, 0] = seen.select(value, me.scale.least)


def cap(me: Consumer) -> None:
    """Scores through tanh; the factor in front of exp2 has the cap."""
    if me.form.softcap:
        values = me.scores.load()
        grown = fx.exp2(values * (me.numbers.inner * (2 * LOG2E)), fastmath="afn")
        me.scores.store(1.0 - 2.0 / (grown + 1.0))


@flyc.jit
def begin(me: Consumer, work: Work, top: fx.Int32, index: fx.Int32, place: Place):
    """The first step's weights."""
    stage, phase, stage_v, phase_v = place
    me.pipe_k.full[stage].wait(phase)
    multiply_keys(me, stage)
    fx.nvgpu.wgmma_wait(0, me.scores)
    if me.member == 0:
        me.pipe_k.empty[stage].arrive()
    cap(me)
    mask(me, work, top, index)
    if fx.const_expr(me.form.packed_k or me.form.used_k):
        clear_values(me, work, index, stage_v, phase_v)
    step(me.scores, me.highest, me.total, me.scale, first=True, masked=True)
    keep_weights(me)
    stage, phase = after(stage, phase, me.tile.stages)
    return Place(stage, phase, stage_v, phase_v)


@flyc.jit
def clear_values(me: Consumer, work: Work, index: fx.Int32, stage: fx.Int32, phase: fx.Int32):
    """Zeros for what lies behind the last value in memory: whatever that is, its weights of 0 must not make it NaN."""
    tile = me.tile
    wide = span(tile.dv)
    rows = work.keys - index * tile.n
    if rows < tile.n:
        me.pipe_v.full[stage].wait(phase)
        fx.nvgpu.named_barrier(8, 128 * tile.consumers).sync()
        base = me.base_v + stage * (tile.n * tile.dv)
        # Rows of a box lie one behind the other, each a permutation of its own units.
        for i in range(rows * wide + me.consumer * 128 + me.member, tile.n * wide, 128 * tile.consumers):
            for box in fx.range_constexpr(tile.dv // wide):
                base[i + box * (tile.n * wide)] = me.weights.dtype(0.0)
        fx.nvgpu.fence_proxy_async()
        fx.nvgpu.named_barrier(8, 128 * tile.consumers).sync()


def after(stage: fx.Int32, phase: fx.Int32, stages: int) -> tuple[fx.Int32, fx.Int32]:
    """The next stage of a ring, and the parity of its phase."""
    wrapped = stage == stages - 1
    return wrapped.select(fx.Int32(0), stage + 1), wrapped.select(phase ^ 1, phase)


@flyc.jit
def advance(me: Consumer, work: Work, top: fx.Int32, index: fx.Int32, place: Place, masked: bool):
    """A step's weights, while the sums of the one before are computed."""
    nv, tile = fx.nvgpu, me.tile
    stage, phase, stage_v, phase_v = place
    turns = tile.pingpong and tile.consumers > 1
    me.pipe_k.full[stage].wait(phase)
    if fx.const_expr(turns):
        nv.named_barrier(1 + me.consumer, 256).sync()
    multiply_keys(me, stage)
    me.pipe_v.full[stage_v].wait(phase_v)
    multiply_values(me, stage_v)
    if fx.const_expr(turns):
        following = (me.consumer == tile.consumers - 1).select(fx.Int32(1), me.consumer + 2)
        nv.named_barrier(following, 256).arrive()
    nv.wgmma_wait(1, me.scores)
    if me.member == 0:
        me.pipe_k.empty[stage].arrive()
    cap(me)
    if fx.const_expr(masked):
        mask(me, work, top, index)
    factors = step(me.scores, me.highest, me.total, me.scale, first=False, masked=masked)
    nv.wgmma_wait(0, me.sums, me.scores)
    if me.member == 0:
        me.pipe_v.empty[stage_v].arrive()
    keep_weights(me)
    rescale(me.sums, factors)
    stage, phase = after(stage, phase, tile.stages)
    stage_v, phase_v = after(stage_v, phase_v, tile.stages)
    return Place(stage, phase, stage_v, phase_v)


@flyc.jit
def finish(me: Consumer, place: Place):
    """The last step's sums."""
    stage, phase, stage_v, phase_v = place
    me.pipe_v.full[stage_v].wait(phase_v)
    multiply_values(me, stage_v)
    fx.nvgpu.wgmma_wait(0, me.sums)
    if me.member == 0:
        me.pipe_v.empty[stage_v].arrive()
    stage_v, phase_v = after(stage_v, phase_v, me.tile.stages)
    return Place(stage, phase, stage_v, phase_v)


@flyc.jit
def finalize(
    me: Consumer, out: fx.Pointer, lse: fx.Pointer | None, sinks: fx.Pointer | None, top: fx.Int32, work: Work
):
    """Sums over the weights' sums; a row with nothing to attend to gives 0, and minus infinity."""
    numbers, tile, dtype = me.numbers, me.tile, out.dtype
    factors: list[fx.Float32] = []
    for r in fx.range_constexpr(2):
        total = over_quad(me.total[r], lambda a, b: a + b)
        height = me.highest[r] * me.scale.factor
        none = total == 0.0
        weight = fx.Float32(1.0)
        if fx.const_expr(sinks is not None):
            # A column of its own in front of the softmax, which no value belongs to.
            sink = fx.Float32(cast("fx.Pointer", sinks)[work.head]) * LOG2E
            above = fx.maxnumf(none.select(sink, height), sink)
            weight = fx.exp2(none.select(fx.Float32(0.0), height - above))
            total = total * weight + fx.exp2(sink - above)
            height = above
            none = total == 0.0
        factors.append(none.select(fx.Float32(0.0), weight / none.select(fx.Float32(1.0), total)))
        if fx.const_expr(lse is not None):
            found = (height + fx.log2(none.select(fx.Float32(1.0), total))) * LN2
            found = none.select(fx.Float32(float("-inf")), found)
            row = top + 8 * r
            if (me.member % 4 == 0) & (row < work.queries):
                line = fx.Int64(work.batch) * numbers.lse_batch + fx.Int64(work.head) * numbers.lse_head
                cast("fx.Pointer", lse)[line + (work.first_query + row)] = found
    rescale(me.sums, (factors[0], factors[1]))
    result = fx.make_rmem_tensor(me.sums.layout, dtype)
    result.store(me.sums.load().to(dtype))
    origin = out + (
        fx.Int64(work.batch) * numbers.out_batch
        + fx.Int64(work.head) * numbers.out_head
        + fx.Int64(work.first_query) * numbers.out_row
    )
    for r in fx.range_constexpr(2):
        row = top + 8 * r
        if row < work.queries:
            line = origin + (fx.Int64(row) * numbers.out_row + me.member % 4 * 2)
            for j in fx.range_constexpr(tile.dv // 8):
                pair = fx.Vector.from_elements([result[(e, r, j), 0, 0] for e in range(2)], dtype)
                fx.nvgpu.store_global(line + 8 * j, pair)


@flyc.jit
def hopper_attention(
    q: fx.Tensor,
    k: fx.Tensor,
    v: fx.Tensor,
    out: fx.Tensor,
    lse: fx.Tensor | None,
    sinks: fx.Tensor | None,
    cu_q: fx.Tensor | None,
    cu_k: fx.Tensor | None,
    used_k: fx.Tensor | None,
    counters: fx.Tensor | None,
    rows_q: fx.Int32,
    rows_k: fx.Int32,
    batches_q: fx.Int32,
    batches_k: fx.Int32,
    queries: fx.Int32,
    keys: fx.Int32,
    heads: fx.Int32,
    kv_heads: fx.Int32,
    batches: fx.Int32,
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
    head_lse: fx.Int64,
    batch_lse: fx.Int64,
    together: fx.Int32,
    right: fx.Int32,
    left: fx.Int32,
    factor: fx.Float32,
    inner: fx.Float32,
    blocks: fx.Int32,
    tile: fx.Constexpr[Tile],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """Strides are in elements: of rows, of heads and of the batch. `rows_*` and `batches_*` are those of the arrays;
    `queries`, `keys` and `batches` those of the sequences, the longest where they differ. `counters` are two zeros.
    """
    load_q = load_map(q, rows_q, tile.d, heads, batches_q, (row_q, head_q, batch_q), tile.m)
    load_k = load_map(k, rows_k, tile.d, kv_heads, batches_k, (row_k, head_k, batch_k), tile.n)
    load_v = load_map(v, rows_k, tile.dv, kv_heads, batches_k, (row_v, head_v, batch_v), tile.n)
    numbers = Numbers(
        queries, keys, heads, heads // kv_heads, batches, together, right, left, factor, inner, row_out, head_out,
        batch_out, head_lse, batch_lse,
    )  # fmt: skip
    more = [t if t is None else fx.get_iter(t) for t in (lse, sinks, cu_q, cu_k, used_k, counters)]
    attention_kernel(
        load_q, load_k, load_v, fx.get_iter(out), *more, q.dtype, tile, form, numbers,
        value_attrs={"nvvm.minctasm": 1},
    ).launch(grid=blocks, block=tile.threads, stream=stream, smem=tile.smem)  # fmt: skip


def load_map(
    x: fx.Tensor,
    rows: fx.Int32,
    d: int,
    heads: fx.Int32,
    batches: fx.Int32,
    strides: tuple[fx.Int64, fx.Int64, fx.Int64],
    box: int,
) -> fx.nvgpu.TmaAtom:
    """(rows, d, heads, batch) for the copy engine, in boxes of what one copy fetches."""
    row, head, batch = strides
    view = fx.make_view(fx.get_iter(x), fx.make_layout((rows, d, heads, batches), (row, 1, head, batch)))
    return fx.nvgpu.make_tma_atom(fx.nvgpu.TMALoad(), view, None, (box, span(d), 1, 1), swizzle=2 * span(d))


__all__ = ["hopper_attention"]
