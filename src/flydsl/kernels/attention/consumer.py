"""A warpgroup that multiplies: the steps of its softmax around its products, and its way out."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..matmul.sm90.out import swizzle
from .dropout import Drop, in_columns
from .softmax import LN2, LOG2E, Scale, finite, look, of_rows, over_quad, rescale, rescale_if_needed, tanh, weigh
from .tile import Form, Tile, span
from .walk import Numbers, Places, Work


class Pipe(NamedTuple):
    """The barriers of a ring of stages."""

    full: fx.nvgpu.MBarrier
    empty: fx.nvgpu.MBarrier


def wait_full(pipe: Pipe, stage: fx.Int32, phase: fx.Int32, form: Form) -> None:
    """What was brought is there, for the tensor cores too."""
    pipe.full[stage].wait(phase)
    if form.by_threads:
        fx.nvgpu.fence_proxy_async()


class Place(NamedTuple):
    """Where a consumer is in the rings of keys and of values."""

    stage_k: fx.Int32
    phase_k: fx.Int32
    stage_v: fx.Int32
    phase_v: fx.Int32


class Factors(NamedTuple):
    """What queries, keys and values of one byte are multiplied by."""

    q: fx.Pointer | None
    k: fx.Pointer | None
    v: fx.Pointer | None
    places: Places


class Part(NamedTuple):
    """Columns of the values that are multiplied together."""

    mma: fx.TiledMma
    values: fx.Tensor
    step: fx.Tensor
    """Where a step's own sums are; if they are not apart, where all of them are."""
    sums: fx.Tensor


class Consumer(NamedTuple):
    """What a warpgroup that multiplies works with."""

    tile: Tile
    form: Form
    numbers: Numbers
    scale: Scale
    member: fx.Int32
    consumer: fx.Int32
    scores_mma: fx.TiledMma
    queries: fx.Tensor
    keys: fx.Tensor
    parts: list[Part]
    scores: fx.Tensor
    weights: list[fx.Tensor]
    """An operand for each instruction: a single tensor would be cut element by element where no vector is as long."""
    sums: fx.Tensor
    highest: fx.Tensor
    total: fx.Tensor
    factors: fx.Tensor
    """What earlier sums count, once those of the step come that weights are there for."""
    pipe_k: Pipe
    pipe_v: Pipe
    base_v: fx.Pointer
    base_out: fx.Pointer
    store_out: fx.nvgpu.TmaAtom | None
    place: fx.Pointer
    """A place in shared memory of this thread's own, which nobody reads."""
    grow: fx.Float32
    """What a result is multiplied by."""
    drop: Drop | None


def with_factors(me: Consumer, factors: Factors, work: Work) -> Consumer:
    """A consumer with the factors of a tile's head: they go into the one in front of exp2, or of tanh."""
    f, p, head = factors, factors.places, work.head // me.numbers.group
    score: fx.Float32 | None = None
    places = (
        (f.q, work.batch * p.batch_q + work.head // p.share * p.head_q),
        (f.k, work.batch * p.batch_k + head * p.head_k),
    )
    for pointer, at in places:
        if pointer is not None:
            one = fx.Float32(pointer[at])
            score = one if score is None else score * one
    if score is not None and me.form.softcap:
        me = me._replace(numbers=me.numbers._replace(inner=me.numbers.inner * score))
    elif score is not None:
        factor = me.scale.factor * score
        me = me._replace(scale=Scale(factor, fx.Float32(-1e30) / factor))
    if f.v is None:
        return me
    grow = fx.Float32(f.v[work.batch * p.batch_v + head * p.head_v])
    return me._replace(grow=grow if me.drop is None else grow * me.drop.factor)


def lift_of(tile: Tile) -> int:
    """Weights are 2 to this power times what they are: in one byte there is more room above 1 than below."""
    if not tile.fp8:
        return 0
    return 4 if tile.lazy else 8


def lazy_of(tile: Tile) -> int:
    """A maximum may be behind by 2 to this power; weights in one byte must not be more than 448."""
    return (4 if tile.fp8 else 8) if tile.lazy else 0


def multiply_keys(me: Consumer, stage: fx.Int32) -> None:
    """Issue a step's scores."""
    for k in range(me.tile.d // me.tile.depth):
        mma = me.scores_mma.set_value("accumulate", fx.Int32(0)) if k == 0 else me.scores_mma
        fx.gemm(mma, me.scores, me.queries[None, None, k], me.keys[None, None, k, stage], me.scores)
    fx.nvgpu.wgmma_commit()


def multiply_values(me: Consumer, stage: fx.Int32, part: Part) -> None:
    """Issue a step's sums."""
    for k in range(me.tile.n // me.tile.depth):
        anew = me.tile.apart and k == 0
        mma = part.mma.set_value("accumulate", fx.Int32(0)) if anew else part.mma
        fx.gemm(mma, part.step, me.weights[k][None, None, 0], part.values[None, None, k, stage], part.step)
    fx.nvgpu.wgmma_commit()


def add_step(me: Consumer, part: Part) -> None:
    """A step's own sums to those before it."""
    values = part.step.load()
    factors = of_rows(me.factors[0], me.factors[1], values.numel).reshape(values.shape)
    part.sums.store(fx.fma(part.sums.load(), factors, values))


def converted(me: Consumer) -> list[fx.Vector]:
    """Weights in the type of the values, as the operands of their products."""
    dtype, values = me.weights[0].dtype, me.scores.load().reshape(me.tile.n // 2)
    each = 16 // me.tile.size
    order = list(range(each))
    if me.tile.fp8:
        # A register of the operand has two neighbours of one group of eight keys and two of the next: see `values.py`.
        order = [8 * i + 4 * (x // 2) + 2 * r + x % 2 for i in range(2) for r in range(2) for x in range(4)]
    parts = [values.shuffle(values, [k * each + i for i in order]) for k in range(len(me.weights))]
    return [fx.nvgpu.to_fp8(x, dtype) if me.tile.fp8 else x.to(dtype) for x in parts]


def keep(me: Consumer, made: list[fx.Vector]) -> None:
    """Converted weights where their products take them from."""
    for operand, part in zip(me.weights, made, strict=True):
        operand.store(part.reshape(operand.shape.unpack()))


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


def thin(me: Consumer, work: Work, top: fx.Int32, step_index: fx.Int32) -> None:
    """Weights that are dropped become 0; what the others are multiplied by is left to the result."""
    if me.drop is None:
        return
    line, first = work.batch * me.numbers.heads + work.head, step_index * me.tile.n + me.member % 4 * 2
    for j in range(0, me.tile.n // 8, 2):
        going = in_columns(me.drop, line, top, first + 8 * j)
        for i, r, e in product(range(2), range(2), range(2)):
            at = (e, r, j + i), 0, 0
            me.scores[at] = going[i][r][e].select(fx.Float32(0.0), me.scores[at])


def cap(me: Consumer) -> None:
    """Scores through tanh; the factor in front of exp2 has the cap."""
    if me.form.softcap:
        me.scores.store(tanh(me.scores.load(), me.numbers.inner))


@flyc.jit
def begin(me: Consumer, work: Work, top: fx.Int32, index: fx.Int32, place: Place):
    """The first step's weights."""
    stage, phase, stage_v, phase_v = place
    wait_full(me.pipe_k, stage, phase, me.form)
    multiply_keys(me, stage)
    fx.nvgpu.wgmma_wait(0, me.scores)
    if me.member == 0:
        me.pipe_k.empty[stage].arrive()
    cap(me)
    mask(me, work, top, index)
    if fx.const_expr((me.form.packed_k or me.form.used_k) and not (me.tile.fp8 or me.form.by_threads)):
        clear_values(me, work, index, stage_v, phase_v)
    turn = look(me.scores, me.highest, me.scale, first=True, masked=True, lift=lift_of(me.tile))
    me.factors[0], me.factors[1] = turn.factors
    weigh(me.scores, None if me.tile.ones else me.total, me.scale, turn, first=True)
    thin(me, work, top, index)
    keep(me, converted(me))
    stage, phase = after(stage, phase, me.tile.stages)
    return Place(stage, phase, stage_v, phase_v)


@flyc.jit
def clear_values(me: Consumer, work: Work, index: fx.Int32, stage: fx.Int32, phase: fx.Int32):
    """Zeros for what lies behind the last value in memory: whatever that is, its weights of 0 must not make it NaN."""
    tile = me.tile
    wide = span(tile.dv)
    rows = work.keys - index * tile.n
    if rows < tile.n:
        wait_full(me.pipe_v, stage, phase, me.form)
        fx.nvgpu.named_barrier(8, 128 * tile.consumers).sync()
        base = me.base_v + stage * (tile.n * tile.dv)
        # Rows of a box lie one behind the other, each a permutation of its own units.
        for i in range(rows * wide + me.consumer * 128 + me.member, tile.n * wide, 128 * tile.consumers):
            for box in fx.range_constexpr(tile.dv // wide):
                base[i + box * (tile.n * wide)] = me.weights[0].dtype(0.0)
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
    if fx.const_expr(tile.apart):
        return advance_apart(me, work, top, index, place, masked)
    stage, phase, stage_v, phase_v = place
    turns = tile.pingpong and tile.consumers > 1
    fx.ktrace.range_push("wait full")
    wait_full(me.pipe_k, stage, phase, me.form)
    if fx.const_expr(turns):
        nv.named_barrier(1 + me.consumer, 256).sync()
    fx.ktrace.range_pop()
    fx.ktrace.range_push("multiply")
    multiply_keys(me, stage)
    wait_full(me.pipe_v, stage_v, phase_v, me.form)
    multiply_values(me, stage_v, me.parts[0])
    following = nv.named_barrier((me.consumer == tile.consumers - 1).select(fx.Int32(1), me.consumer + 2), 256)
    if fx.const_expr(turns and not tile.early):
        following.arrive()
    nv.wgmma_wait(1, me.scores)
    if fx.const_expr(turns and tile.early):
        following.arrive()
    fx.ktrace.range_pop()
    if me.member == 0:
        me.pipe_k.empty[stage].arrive()
    fx.ktrace.range_push("softmax")
    cap(me)
    if fx.const_expr(masked):
        mask(me, work, top, index)
    turn = look(
        me.scores, me.highest, me.scale, first=False, masked=masked, lift=lift_of(tile), lazy=lazy_of(tile)
    )  # fmt: skip
    if fx.const_expr(not tile.early):
        weigh(me.scores, me.total, me.scale, turn, first=False)
        thin(me, work, top, index)
    fx.ktrace.range_pop()
    fx.ktrace.range_push("wait values")
    if fx.const_expr(tile.early):
        nv.hold(turn.factors[0] + turn.factors[1], me.place)
        nv.wgmma_wait(0, me.sums)
    else:
        nv.wgmma_wait(0, me.sums, me.scores)
        keep(me, converted(me))
    fx.ktrace.range_pop()
    if me.member == 0:
        me.pipe_v.empty[stage_v].arrive()
    if fx.const_expr(tile.lazy):
        rescale_if_needed(me.sums, turn.factors)
    else:
        rescale(me.sums, turn.factors)
    if fx.const_expr(tile.early):
        fx.ktrace.range_push("softmax")
        weigh(me.scores, me.total, me.scale, turn, first=False)
        thin(me, work, top, index)
        keep(me, converted(me))
        fx.ktrace.range_pop()
    stage, phase = after(stage, phase, tile.stages)
    stage_v, phase_v = after(stage_v, phase_v, tile.stages)
    return Place(stage, phase, stage_v, phase_v)


@flyc.jit
def advance_apart(me: Consumer, work: Work, top: fx.Int32, index: fx.Int32, place: Place, masked: bool):
    """The sums of the step before, then a step's weights: scores take the registers that a step's sums had."""
    tile = me.tile
    stage, phase, stage_v, phase_v = finish(me, place)
    fx.ktrace.range_push("wait full")
    wait_full(me.pipe_k, stage, phase, me.form)
    fx.ktrace.range_pop()
    fx.ktrace.range_push("multiply")
    multiply_keys(me, stage)
    fx.nvgpu.wgmma_wait(0, me.scores)
    fx.ktrace.range_pop()
    if me.member == 0:
        me.pipe_k.empty[stage].arrive()
    fx.ktrace.range_push("softmax")
    cap(me)
    if fx.const_expr(masked):
        mask(me, work, top, index)
    turn = look(me.scores, me.highest, me.scale, first=False, masked=masked, lift=lift_of(tile))
    me.factors[0], me.factors[1] = turn.factors
    weigh(me.scores, None if tile.ones else me.total, me.scale, turn, first=False)
    thin(me, work, top, index)
    keep(me, converted(me))
    fx.ktrace.range_pop()
    stage, phase = after(stage, phase, tile.stages)
    return Place(stage, phase, stage_v, phase_v)


@flyc.jit
def finish(me: Consumer, place: Place):
    """The sums of the last step that has weights."""
    stage, phase, stage_v, phase_v = place
    wait_full(me.pipe_v, stage_v, phase_v, me.form)
    for part in me.parts:
        multiply_values(me, stage_v, part)
        fx.nvgpu.wgmma_wait(0, part.step)
        if fx.const_expr(me.tile.apart):
            add_step(me, part)
    if me.member == 0:
        me.pipe_v.empty[stage_v].arrive()
    stage_v, phase_v = after(stage_v, phase_v, me.tile.stages)
    return Place(stage, phase, stage_v, phase_v)


@flyc.jit
def finalize(
    me: Consumer, out: fx.Pointer, lse: fx.Pointer | None, sinks: fx.Pointer | None, top: fx.Int32, work: Work
):
    """Sums over the weights' sums; a row with nothing to attend to gives 0, and minus infinity."""
    numbers, dtype = me.numbers, out.dtype
    factors: list[fx.Float32] = []
    for r in fx.range_constexpr(2):
        if fx.const_expr(me.tile.ones):
            total = me.sums[(0, r, me.tile.dv // 8), 0, 0] * 2.0 ** -lift_of(me.tile)
        else:
            total = over_quad(me.total[r], lambda a, b: a + b) * 2.0 ** -lift_of(me.tile)
        height = me.highest[r] * me.scale.factor
        none = total == 0.0
        weight = fx.Float32(1.0)
        if fx.const_expr(sinks is not None):
            # A column of its own in front of the softmax, which no value belongs to.
            sink = fx.Float32(cast("fx.Pointer", sinks)[work.head]) * LOG2E
            above = fx.maxnumf(none.select(sink, height), sink)
            weight = fx.exp2(none.select(fx.Float32(0.0), height - above))
            total = total * weight + fx.exp2(sink - finite(above))
            height = above
            none = total == 0.0
        weight = weight * me.grow * 2.0 ** -lift_of(me.tile)
        factors.append(none.select(fx.Float32(0.0), weight / none.select(fx.Float32(1.0), total)))
        if fx.const_expr(lse is not None):
            found = (height + fx.log2(none.select(fx.Float32(1.0), total))) * LN2
            found = none.select(fx.Float32(float("-inf")), found)
            row = top + 8 * r
            if (me.member % 4 == 0) & (row < work.queries):
                line = fx.Int64(work.batch) * numbers.lse_batch + fx.Int64(work.head) * numbers.lse_head
                line = line + fx.Int64(work.split) * numbers.lse_split
                cast("fx.Pointer", lse)[line + (work.first_query + row)] = found
    rescale(me.sums, (factors[0], factors[1]))
    result = fx.make_rmem_tensor(fx.make_layout(((2, 2, me.tile.dv // 8), 1, 1), ((1, 2, 4), 0, 0)), dtype)
    found = me.sums.load().reshape(me.tile.columns // 2)
    if fx.const_expr(me.tile.ones):
        found = found.shuffle(found, list(range(me.tile.dv // 2)))
    result.store(found.to(dtype).reshape(result.shape.unpack()))
    if fx.const_expr(me.form.engine):
        store_by_engine(me, result, work)
    else:
        store_by_threads(me, out, result, top, work)


@flyc.jit
def store_by_engine(me: Consumer, result: fx.Tensor, work: Work):
    """A warpgroup's rows through shared memory; the engine leaves out those that are not there."""
    nv, tile, dtype = fx.nvgpu, me.tile, result.dtype
    wide = span(tile.dv)
    place = me.base_out + me.consumer * (64 * tile.dv)
    product = fx.make_tiled_mma(fx.make_mma_atom(nv.WGMMA(tile.dv, 16, dtype)), fx.make_layout((1, 1, 1), (0, 0, 0)))
    move = fx.make_copy_atom(nv.StMatrix(4), dtype)
    copy = fx.make_tiled_copy_C(move, product).get_slice(me.member)
    layout = fx.make_layout((64, (wide, tile.dv // wide)), (wide, (1, 64 * wide)))
    smem = fx.make_view(fx.apply_swizzle(place, swizzle(2 * wide)), layout)
    turn = nv.named_barrier(4 + me.consumer, 128)
    if fx.nvgpu.leader(me.member):
        nv.tma_wait(0, read=True)
    turn.sync()
    fx.copy(move, copy.retile(result), copy.partition_D(smem))
    turn.sync()
    if fx.nvgpu.leader(me.member):
        store = cast("fx.nvgpu.TmaAtom", me.store_out)
        row = work.block * tile.m + me.consumer * 64
        for i in fx.range_constexpr(tile.dv // wide):
            store.store(place + i * (64 * wide), (row, i * wide, work.head, work.batch))
        nv.tma_commit()


@flyc.jit
def store_by_threads(me: Consumer, out: fx.Pointer, result: fx.Tensor, top: fx.Int32, work: Work):
    """Each thread its own values, as far as there are rows."""
    numbers, tile, dtype = me.numbers, me.tile, out.dtype
    origin = out + (
        fx.Int64(work.split) * numbers.out_split
        + fx.Int64(work.batch) * numbers.out_batch
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


__all__ = ["Consumer", "Factors", "Pipe", "Place", "advance", "begin", "finalize", "finish", "with_factors"]
