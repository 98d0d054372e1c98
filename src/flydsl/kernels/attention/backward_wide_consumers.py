"""The two consumers of the gradients of long rows on Hopper, and how they hand each other what both need.

One has the values' sums, the other the keys'. Weights go from the first to the second as f32, by threads that have the
same places of a product; scores' gradients to both, for dQ. There is one room for each of the two:

* Weights are written again when the first consumer has met `slopes_ready`, where the second comes after reading them.
* Scores' gradients are written again behind `weights_ready`, where both come after their own part of dQ, which reads
  them, has ended: the first has waited for it before it weighs scores, the second before it meets.

Neither barrier is met twice by one side alone, for the same reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..matmul.hopper_out import swizzle
from ..matmul.hopper_promote import release
from .backward_operands import accumulators, add_products, multiply
from .backward_steps import Reach, derive, kept, mask, masked, thin, weigh
from .backward_wide_form import M, Wide
from .dropout import Drop
from .softmax import LOG2E
from .tile import span


class Room(NamedTuple):
    """Shared memory and its barriers."""

    keys: fx.Pointer
    values: fx.Pointer
    queries: fx.Pointer
    grads: fx.Pointer
    slopes: fx.Pointer
    weights: fx.Pointer
    sides: fx.Pointer
    held: fx.nvgpu.MBarrier
    """Of keys, and the next of values."""
    full_q: fx.nvgpu.MBarrier
    full_g: fx.nvgpu.MBarrier
    empty_q: fx.nvgpu.MBarrier
    empty_g: fx.nvgpu.MBarrier


class Work(NamedTuple):
    """What a block does: its place, the first step, and how many steps there are for each head that shares the keys."""

    form: Wide
    reach: Reach
    block: fx.Int32
    head: fx.Int32
    batch: fx.Int32
    low: fx.Int32
    steps: fx.Int32
    group: fx.Int32

    def at(self, i: fx.Int32) -> tuple[fx.Int32, fx.Int32]:
        """The first query of a step, and its head."""
        which = i // fx.max(self.steps, 1)
        return (self.low + i - which * self.steps) * M, self.head * self.group + which


class Parts(NamedTuple):
    """Where parts of dQ go."""

    sums: fx.Pointer
    turns: fx.Pointer | None
    consumer: int
    member: fx.Int32


def weights_ready() -> fx.nvgpu.named_barrier:
    return fx.nvgpu.named_barrier(1, 256)


def slopes_ready() -> fx.nvgpu.named_barrier:
    return fx.nvgpu.named_barrier(2, 256)


def own(consumer: int) -> fx.nvgpu.named_barrier:
    return fx.nvgpu.named_barrier(3 + consumer, 128)


def rows_of(base: fx.Pointer, width: int, box: int, stages: int) -> fx.Tensor:
    """(rows, columns, stage) of what lies in boxes of columns."""
    layout = fx.make_layout((M, (box, width // box), stages), (box, (1, M * box), M * width))
    return fx.make_view(fx.apply_swizzle(base, swizzle(2 * box)), layout)


def columns_of(base: fx.Pointer, width: int, box: int, stages: int, columns: int) -> fx.Tensor:
    """The same as (columns, rows, stage), the first `columns`."""
    layout = fx.make_layout(((box, columns // box), M, stages), ((1, M * box), box, M * width))
    return fx.make_view(fx.apply_swizzle(base, swizzle(2 * box)), layout)


def tiled(atom: object) -> fx.TiledMma:
    return fx.make_tiled_mma(fx.make_mma_atom(atom), fx.make_layout((1, 1, 1), (0, 0, 0)))


def in_fours(base: fx.Pointer) -> fx.Tensor:
    """Registers of a product in shared memory, (four, thread, which four): threads' units lie beside each other."""
    return fx.make_view(base, fx.make_layout((4, 128, M // 8), (1, 4, 512)))


def fours_of(x: fx.Tensor, columns: int) -> fx.Tensor:
    return fx.make_view(fx.get_iter(x), fx.make_layout((4, columns // 8), (1, 4)))


class Part(NamedTuple):
    """A consumer's half of dQ's columns."""

    mma: fx.TiledMma
    slopes: fx.Tensor
    keys: fx.Tensor
    out: fx.Tensor

    def issue(self) -> None:
        multiply(self.mma, self.out, self.slopes, self.keys, M // 16)


def part_of(room: Room, form: Wide, consumer: int) -> Part:
    mma = tiled(fx.nvgpu.WGMMA(form.columns, 16, room.keys.dtype, major_a="mn", major_b="mn"))
    one = mma.get_slice(0)
    slopes = fx.make_view(fx.apply_swizzle(room.slopes, swizzle(128)), fx.make_layout((M, M), (1, M)))
    base = room.keys + consumer * (M * form.columns)
    keys = columns_of(base, form.width, form.box, 1, form.columns)[None, None, 0]
    return Part(mma, one.partition_A(slopes), one.partition_B(keys), accumulators(form.columns))


def finish(
    order: str,
    sums: Callable[[], None],
    following: Callable[[], None],
    meet: Callable[[], None],
    part: Part,
    free: Callable[[], None],
    add: Callable[[], None],
) -> None:
    """Issue what is left of a step and the first product of the next, and add its part of dQ. `free` is called when the
    sums' operands have been read. There are no registers for them, dQ's part and the next scores all at once."""
    wait = fx.nvgpu.wgmma_wait
    if order == "qsn":
        meet()
        part.issue()
        sums()
        wait(1, part.out)
        add()
        following()
        wait(1)
        free()
        return
    sums()
    if order == "snq":
        following()
    meet()
    if order == "snq":
        wait(1)
        free()
        part.issue()
        wait(0, part.out)
    else:
        part.issue()
        wait(1)
        free()
        following()
        wait(1, part.out)
    add()


@flyc.jit
def add_part(x: fx.Tensor, to: Parts, work: Work, row: fx.Int32, head: fx.Int32):
    """A part of dQ to the sums in memory. Where they have an order, behind the blocks with earlier keys, which have been
    dispatched before."""
    nv, form, reach = fx.nvgpu, work.form, work.reach
    which = ((work.batch * reach.heads + head) * fx.ceildiv(reach.queries, M) + row // M) * 2 + to.consumer
    target = to.sums + (fx.Int64(which) * (M * form.columns) + to.member * 4)
    if fx.const_expr(form.ordered):
        if to.member == 0:
            together = M * form.cluster
            first = fx.Int32(0)
            if fx.const_expr(form.left):
                first = fx.max(row + reach.keys - reach.queries - reach.left, 0) // together * form.cluster
            turn, seen = cast("fx.Pointer", to.turns) + which, fx.Int32(-1)
            while seen != work.block - first:
                seen = fx.Int32(fx.atomic_add(turn, 0, syncscope="device", ordering=fx.AtomicOrdering.AcqRel))
        own(to.consumer).sync()
    fours = fours_of(x, form.columns)
    for j in fx.range_constexpr(form.columns // 8):
        nv.add_global(target + 512 * j, fours[None, j].load())
    if fx.const_expr(form.ordered):
        own(to.consumer).sync()
        if to.member == 0:
            turn = cast("fx.Pointer", to.turns) + which
            fx.atomic_add(turn, 1, syncscope="device", ordering=fx.AtomicOrdering.AcqRel)


@flyc.jit
def sum_values(
    room: Room, work: Work, drop: Drop | None, sums_q: fx.Pointer, turns: fx.Pointer | None, out: fx.Pointer
):
    """Scores and weights, dV, and the first half of dQ's columns."""
    nv, form, reach, dtype = fx.nvgpu, work.form, work.reach, room.keys.dtype
    member, width, stages = fx.thread_idx.x % 128, form.width, form.stages
    scores_mma = tiled(nv.WGMMA(M, 16, dtype))
    sums_mma = tiled(nv.WGMMA(form.width_v, 16, dtype, a_from="registers", major_b="mn"))
    keys = scores_mma.get_slice(0).partition_A(rows_of(room.keys, width, form.box, 1)[None, None, 0])
    queries = scores_mma.get_slice(0).partition_B(rows_of(room.queries, width, span(width), stages))
    wide = span(form.width_v)
    grads = sums_mma.get_slice(0).partition_B(columns_of(room.grads, form.width_v, wide, stages, form.width_v))
    part, to = part_of(room, form, 0), Parts(sums_q, turns, 0, member)
    scores, sums = accumulators(M), accumulators(form.width_v)
    weights = fx.make_rmem_tensor(fx.make_layout(((2, 2, 2), 1, M // 16), ((1, 2, 4), 0, 8)), dtype)
    four = fx.make_copy_atom(fx.UniversalCopy(128), fx.Float32)
    handed = in_fours(room.weights)
    sums.fill(0.0)
    key = work.block * M + member // 32 * 16 + member % 32 // 4
    factor = reach.scale * LOG2E
    stage, phase = fx.Int32(0), fx.Int32(0)
    count = work.steps * work.group
    if count > 0:
        room.held.wait(0)
        room.full_q.wait(0)
        multiply(scores_mma, scores, keys, queries[None, None, None, 0], width // 16)
        for i in range(count):
            row, head = work.at(i)
            nv.wgmma_wait(0, scores)
            side = room.sides + (stage * (2 * M) + member % 4 * 2)
            if masked(work.block, row, form, reach, M):
                mask(scores, fx.Float32(-1e30) / factor, key, row + member % 4 * 2, form, reach)
            weigh(scores, side, factor)
            if fx.const_expr(drop is not None):
                line = work.batch * reach.heads + head
                thin(scores, cast("Drop", drop), line, row + member % 4 * 2, key)
            units = fours_of(scores, M)
            for j in fx.range_constexpr(M // 8):
                fx.copy(four, units[None, j], handed[None, member, j])
            weights_ready().arrive()
            weights.store(kept(scores, drop).to(dtype).reshape(weights.shape.unpack()))
            room.full_g[stage].wait(phase)
            # Behind the last step comes its own first product again, which nobody reads: its stage is filled no more.
            after, after_phase = following(i, count, stage, phase, stages)

            def add_sums(stage: fx.Int32 = stage) -> None:
                add_products(sums_mma, sums, weights, grads[None, None, None, stage], M // 16)

            def next_scores(stage: fx.Int32 = after, phase: fx.Int32 = after_phase) -> None:
                room.full_q[stage].wait(phase)
                multiply(scores_mma, scores, keys, queries[None, None, None, stage], width // 16)

            def free(stage: fx.Int32 = stage) -> None:
                # All threads have met since they read heights.
                release(room.empty_q[stage], member, form.cluster, fx.Int32(0))
                release(room.empty_g[stage], member, form.cluster, fx.Int32(0))

            def add(row: fx.Int32 = row, head: fx.Int32 = head) -> None:
                add_part(part.out, to, work, row, head)

            finish(form.order_values, add_sums, next_scores, lambda: slopes_ready().sync(), part, free, add)
            stage, phase = after, after_phase
        nv.wgmma_wait(0, scores, sums)
    scale = None
    if fx.const_expr(drop is not None):
        scale = cast("Drop", drop).factor
    put(out, sums, key, member, form.dv, scale, work)


@flyc.jit
def sum_keys(room: Room, work: Work, drop: Drop | None, sums_q: fx.Pointer, turns: fx.Pointer | None, out: fx.Pointer):
    """The gradients of weights and of scores, dK, and the second half of dQ's columns."""
    nv, form, reach, dtype = fx.nvgpu, work.form, work.reach, room.keys.dtype
    member, width, stages = fx.thread_idx.x % 128, form.width, form.stages
    slopes_mma = tiled(nv.WGMMA(M, 16, dtype))
    sums_mma = tiled(nv.WGMMA(width, 16, dtype, a_from="registers", major_b="mn"))
    wide = span(form.width_v)
    values = slopes_mma.get_slice(0).partition_A(rows_of(room.values, form.width_v, wide, 1)[None, None, 0])
    grads = slopes_mma.get_slice(0).partition_B(rows_of(room.grads, form.width_v, wide, stages))
    queries = sums_mma.get_slice(0).partition_B(columns_of(room.queries, width, span(width), stages, width))
    part, to = part_of(room, form, 1), Parts(sums_q, turns, 1, member)
    slopes, weights, sums = accumulators(M), accumulators(M), accumulators(width)
    operand = fx.make_rmem_tensor(fx.make_layout(((2, 2, 2), 1, M // 16), ((1, 2, 4), 0, 8)), dtype)
    store = fx.make_copy_atom(nv.StMatrix(4, trans=False), dtype)
    copy = fx.make_tiled_copy_C(store, slopes_mma).get_slice(member)
    place = fx.make_view(fx.apply_swizzle(room.slopes, swizzle(128)), fx.make_layout((M, M), (M, 1)))
    to_slopes = copy.partition_D(place)
    four = fx.make_copy_atom(fx.UniversalCopy(128), fx.Float32)
    handed, units = in_fours(room.weights), fours_of(weights, M)
    sums.fill(0.0)
    key = work.block * M + member // 32 * 16 + member % 32 // 4
    share, scale = None, reach.scale
    if fx.const_expr(drop is not None):
        share = 1.0 / cast("Drop", drop).factor
        scale = scale * cast("Drop", drop).factor
    stage, phase = fx.Int32(0), fx.Int32(0)
    count = work.steps * work.group
    if count > 0:
        room.held[0].wait(0)
        room.held[1].wait(0)
        room.full_g.wait(0)
        multiply(slopes_mma, slopes, values, grads[None, None, None, 0], form.width_v // 16)
        for i in range(count):
            row, head = work.at(i)
            room.full_q[stage].wait(phase)
            nv.wgmma_wait(0, slopes)
            release(room.empty_g[stage], member, form.cluster, fx.Int32(0))
            weights_ready().sync()
            for j in fx.range_constexpr(M // 8):
                fx.copy(four, handed[None, member, j], units[None, j])
            derive(weights, slopes, room.sides + (stage * (2 * M) + M + member % 4 * 2), share)
            operand.store(slopes.load().to(dtype).reshape(operand.shape.unpack()))
            flat = fx.make_rmem_tensor(slopes.layout, dtype)
            flat.store(operand.load().reshape(slopes.shape.unpack()))
            fx.copy(store, copy.retile(flat), to_slopes)
            slopes_ready().arrive()
            after, after_phase = following(i, count, stage, phase, stages)

            def add_sums(stage: fx.Int32 = stage) -> None:
                add_products(sums_mma, sums, operand, queries[None, None, None, stage], M // 16)

            def next_slopes(stage: fx.Int32 = after, phase: fx.Int32 = after_phase) -> None:
                room.full_g[stage].wait(phase)
                multiply(slopes_mma, slopes, values, grads[None, None, None, stage], form.width_v // 16)

            def free(stage: fx.Int32 = stage) -> None:
                release(room.empty_q[stage], member, form.cluster, fx.Int32(0))

            def add(row: fx.Int32 = row, head: fx.Int32 = head) -> None:
                add_part(part.out, to, work, row, head)

            finish(form.order_keys, add_sums, next_slopes, lambda: own(1).sync(), part, free, add)
            stage, phase = after, after_phase
        nv.wgmma_wait(0, slopes, sums)
    put(out, sums, key, member, form.d, scale, work)


def following(
    i: fx.Int32, count: fx.Int32, stage: fx.Int32, phase: fx.Int32, stages: int
) -> tuple[fx.Int32, fx.Int32]:
    """The next step's stage and phase, and the same again behind the last."""
    last, wrapped = i == count - 1, stage == stages - 1
    after = wrapped.select(fx.Int32(0), stage + 1)
    after_phase = wrapped.select(phase ^ 1, phase)
    return last.select(stage, after), last.select(phase, after_phase)


@flyc.jit
def put(
    out: fx.Pointer, sums: fx.Tensor, key: fx.Int32, member: fx.Int32, d: int, scale: fx.Float32 | None, work: Work
):
    """Sums of a thread's keys, as far as there are keys and elements."""
    reach = work.reach
    line = (fx.Int64(work.batch) * fx.Int64(reach.keys) * fx.Int64(reach.kv_heads) + fx.Int64(work.head)) * d
    for r in fx.range_constexpr(2):
        if key + 8 * r < reach.keys:
            origin = line + fx.Int64(key + 8 * r) * fx.Int64(reach.kv_heads) * d + member % 4 * 2
            for j in fx.range_constexpr(d // 8):
                pair = [sums[(e, r, j), 0, 0] for e in range(2)]
                made = [out.dtype(x if scale is None else x * scale) for x in pair]
                fx.nvgpu.store_global(out + (origin + 8 * j), fx.Vector.from_elements(made, out.dtype))


__all__ = ["Room", "Work", "sum_keys", "sum_values"]
