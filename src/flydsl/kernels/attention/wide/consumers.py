"""The two consumers of the gradients of long rows on Hopper, and how they hand each other what both need.

One has the values' sums, the other the keys'. Weights go from the first to the second as f32, by threads that have the
same places of a product; scores' gradients to both, for dQ. There is one room for each of the two:

* Weights are written again when the first consumer has met `slopes_ready`, where the second comes after reading them.
* Scores' gradients are written again behind `weights_ready`, where both come after their own part of dQ, which reads
  them, has ended: the first has waited for it before it weighs scores, the second before it meets.

Neither barrier is met twice by one side alone, for the same reasons.

Zeros take the place of what lies behind a packed sequence's end. The first consumer writes those of keys and queries,
in front of scores; the second, which comes to `weights_ready` before it reads them, those of values and of the result's
gradients. For these the first waits at `cleared`, in front of `weights_ready`: the second is behind that when it comes
to `cleared` again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ...matmul.sm90.out import swizzle
from ...matmul.sm90.promote import release
from ..backward_operands import accumulators, add_products, multiply
from ..backward_steps import bent, derive, kept, mask, masked, thin, weigh
from ..dropout import Drop
from ..softmax import LOG2E, tanh
from ..tile import span
from .form import M, Wide
from .room import (
    Room,
    Work,
    clear,
    cleared,
    columns_of,
    first_key,
    fours_of,
    in_fours,
    own,
    rows_of,
    slopes_ready,
    stage_of,
    tiled,
    weights_ready,
)


class Parts(NamedTuple):
    """Where parts of dQ go."""

    sums: fx.Pointer
    turns: fx.Pointer | None
    consumer: int
    member: fx.Int32


class Part(NamedTuple):
    """A consumer's half of dQ's columns, in pieces."""

    mma: fx.TiledMma
    slopes: fx.Tensor
    keys: list[fx.Tensor]
    out: fx.Tensor
    columns: int
    """Of a piece."""

    def issue(self, piece: int) -> None:
        multiply(self.mma, self.out, self.slopes, self.keys[piece], M // 16)


def part_of(room: Room, form: Wide, consumer: int, order: str) -> Part:
    pieces = order.count("q")
    columns = form.columns // pieces
    mma = tiled(columns, room.keys.dtype, major_a="mn", major_b="mn")
    one = mma.get_slice(0)
    slopes = fx.make_view(fx.apply_swizzle(room.slopes, swizzle(128)), fx.make_layout((M, M), (1, M)))
    bases = [room.keys + M * (consumer * form.columns + i * columns) for i in range(pieces)]
    keys = [one.partition_B(columns_of(x, form.width, form.box, 1, columns)[None, None, 0]) for x in bases]
    return Part(mma, one.partition_A(slopes), keys, accumulators(columns), columns)


def finish(
    order: str,
    sums: Callable[[], None],
    following: Callable[[], None],
    meet: Callable[[], None],
    part: Part,
    free: Callable[[], None],
    add: Callable[[int], None],
) -> None:
    """The rest of a step, and the first product of the next, in an order: see `Wide.order_values`. Before scores'
    gradients are read, or the stage is freed, the threads that wrote the ones and read the other `meet`."""
    issued, met, done = "", False, 0
    for what in order:
        if what in "qf" and not met:
            meet()
            met = True
        if what == "s":
            sums()
        elif what == "n":
            following()
        elif what == "q":
            part.issue(done)
        elif what == "a":
            fx.nvgpu.wgmma_wait(len(issued) - 1 - issued.rindex("q"), part.out)
            add(done)
            done += 1
        else:
            fx.nvgpu.wgmma_wait(len(issued) - 1 - issued.index("s"))
            free()
        if what in "snq":
            issued += what


@flyc.jit
def add_part(part: Part, piece: int, to: Parts, work: Work, row: fx.Int32, place: fx.Int32):
    """A piece of dQ to the sums in memory. Where they have an order, behind the blocks with earlier keys, which have
    been dispatched before."""
    nv, form, reach = fx.nvgpu, work.form, work.reach
    which = place * 2 + to.consumer
    target = to.sums + (fx.Int64(which) * (M * form.columns) + to.member * 4)
    if fx.const_expr(form.ordered and piece == 0):
        if to.member == 0:
            first = fx.Int32(0)
            if fx.const_expr(form.left):
                first = fx.max(row + reach.keys - reach.queries - reach.left, 0) // M
            turn, seen = cast("fx.Pointer", to.turns) + which, fx.Int32(-1)
            while seen != work.block - first:
                seen = fx.Int32(fx.atomic_add(turn, 0, syncscope="device", ordering=fx.AtomicOrdering.AcqRel))
        own(to.consumer).sync()
    fours = fours_of(part.out, part.columns)
    for j in fx.range_constexpr(part.columns // 8):
        nv.add_global(target + 512 * (piece * (part.columns // 8) + j), fours[None, j].load())
    if fx.const_expr(form.ordered and piece == len(part.keys) - 1):
        own(to.consumer).sync()
        if to.member == 0:
            turn = cast("fx.Pointer", to.turns) + which
            fx.atomic_add(turn, 1, syncscope="device", ordering=fx.AtomicOrdering.AcqRel)


@flyc.jit
def sum_values(
    room: Room,
    work: Work,
    drop: Drop | None,
    cap: fx.Float32 | None,
    sums_q: fx.Pointer,
    turns: fx.Pointer | None,
    out: fx.Pointer,
):
    """Scores and weights, dV, and the first half of dQ's columns."""
    nv, form, reach, dtype = fx.nvgpu, work.form, work.reach, room.keys.dtype
    member, width, stages = fx.thread_idx.x % 128, form.width, form.stages
    scores_mma = tiled(M, dtype)
    sums_mma = tiled(form.width_v, dtype, a_from="registers", major_b="mn")
    keys = scores_mma.get_slice(0).partition_A(rows_of(room.keys, width, form.box, 1)[None, None, 0])
    queries = scores_mma.get_slice(0).partition_B(rows_of(room.queries, width, span(width), stages))
    wide = span(form.width_v)
    grads = sums_mma.get_slice(0).partition_B(columns_of(room.grads, form.width_v, wide, stages, form.width_v))
    part, to = part_of(room, form, 0, form.order_values), Parts(sums_q, turns, 0, member)
    scores, sums = accumulators(M), accumulators(form.width_v)
    weights = fx.make_rmem_tensor(fx.make_layout(((2, 2, 2), 1, M // 16), ((1, 2, 4), 0, 8)), dtype)
    four = fx.make_copy_atom(fx.UniversalCopy(128), fx.Float32)
    handed = in_fours(room.weights)
    sums.fill(0.0)
    key = first_key(work, member)
    factor, inner, scale = reach.scale * LOG2E, reach.scale, None
    if fx.const_expr(cap is not None):
        factor, inner = cast("fx.Float32", cap) * LOG2E, reach.scale / cast("fx.Float32", cap)
    if fx.const_expr(drop is not None):
        scale = cast("Drop", drop).factor
    count = work.steps * work.group
    if count > 0:
        room.held.wait(0)
        if fx.const_expr(form.packed_k):
            clear(room.keys, reach.keys - work.block * M, width, form.box, 0)
        room.full_q.wait(0)
        if fx.const_expr(form.packed_q):
            clear(room.queries, reach.queries - work.low * M, width, span(width), 0)
        multiply(scores_mma, scores, keys, queries[None, None, None, 0], width // 16)
        row, at = work.first()
        for i in range(count):
            stage, phase = stage_of(i, stages)
            nv.wgmma_wait(0, scores)
            if fx.const_expr(form.softcap):
                scores.store(tanh(scores.load(), inner, "afn"))
            side = room.sides + (stage * (2 * M) + member % 4 * 2)
            if masked(work.block, row, form, reach, M):
                mask(scores, fx.Float32(-1e30) / factor, key, row + member % 4 * 2, form, reach)
            slant = bent(scores) if form.softcap else None
            weigh(scores, side, factor)
            if fx.const_expr(drop is not None):
                thin(scores, cast("Drop", drop), work.line(at), row + member % 4 * 2, key)
            if fx.const_expr(slant is not None):
                rounded(weights, scores, drop)
                scores.store(scores.load() * cast("fx.Vector", slant))
            if fx.const_expr(form.packed_q):
                if reach.queries - row < M:
                    cleared().sync()
            units = fours_of(scores, M)
            for j in fx.range_constexpr(M // 8):
                fx.copy(four, units[None, j], handed[None, member, j])
            weights_ready().arrive()
            if fx.const_expr(slant is None):
                rounded(weights, scores, drop)
            room.full_g[stage].wait(phase)
            # Behind the last step comes its own first product again, which nobody reads: its stage is filled no more.
            after, after_phase = stage_of(fx.min(i + 1, count - 1), stages)

            def add_sums(stage: fx.Int32 = stage) -> None:
                add_products(sums_mma, sums, weights, grads[None, None, None, stage], M // 16)

            def next_scores(
                stage: fx.Int32 = after, phase: fx.Int32 = after_phase, i: fx.Int32 = i, row: fx.Int32 = row
            ) -> None:
                room.full_q[stage].wait(phase)
                if form.packed_q:
                    rest = work.rows_behind(row, i + 1 < count)
                    clear(room.queries + stage * (M * width), rest, width, span(width), 0)
                multiply(scores_mma, scores, keys, queries[None, None, None, stage], width // 16)

            def free(stage: fx.Int32 = stage) -> None:
                # All threads have met since they read heights.
                release(room.empty_q[stage], member, form.cluster, fx.Int32(0))
                release(room.empty_g[stage], member, form.cluster, fx.Int32(0))

            def add(piece: int, row: fx.Int32 = row, at: fx.Int32 = at) -> None:
                add_part(part, piece, to, work, row, at)

            finish(form.order_values, add_sums, next_scores, lambda: slopes_ready().sync(), part, free, add)
            row, at = work.after(row, at)
        nv.wgmma_wait(0, scores, sums)
        put(out, sums, form.dv, scale, work)
    else:
        put(out, sums, form.dv, None, work)


@flyc.jit
def sum_keys(room: Room, work: Work, drop: Drop | None, sums_q: fx.Pointer, turns: fx.Pointer | None, out: fx.Pointer):
    """The gradients of weights and of scores, dK, and the second half of dQ's columns."""
    nv, form, reach, dtype = fx.nvgpu, work.form, work.reach, room.keys.dtype
    member, width, stages = fx.thread_idx.x % 128, form.width, form.stages
    slopes_mma = tiled(M, dtype)
    sums_mma = tiled(width, dtype, a_from="registers", major_b="mn")
    wide = span(form.width_v)
    values = slopes_mma.get_slice(0).partition_A(rows_of(room.values, form.width_v, wide, 1)[None, None, 0])
    grads = slopes_mma.get_slice(0).partition_B(rows_of(room.grads, form.width_v, wide, stages))
    queries = sums_mma.get_slice(0).partition_B(columns_of(room.queries, width, span(width), stages, width))
    part, to = part_of(room, form, 1, form.order_keys), Parts(sums_q, turns, 1, member)
    slopes, weights, sums = accumulators(M), accumulators(M // 2), accumulators(width)
    operand = fx.make_rmem_tensor(fx.make_layout(((2, 2, 2), 1, M // 16), ((1, 2, 4), 0, 8)), dtype)
    store = fx.make_copy_atom(nv.StMatrix(4, trans=False), dtype)
    copy = fx.make_tiled_copy_C(store, tiled(M // 2, dtype)).get_slice(member)
    halves = fx.make_layout((M, M // 2, 2), (M, 1, M // 2))
    to_slopes = copy.partition_D(fx.make_view(fx.apply_swizzle(room.slopes, swizzle(128)), halves))
    four = fx.make_copy_atom(fx.UniversalCopy(128), fx.Float32)
    handed, units = in_fours(room.weights), fours_of(weights, M // 2)
    sums.fill(0.0)
    share, scale = None, reach.scale
    if fx.const_expr(drop is not None):
        share = 1.0 / cast("Drop", drop).factor
        scale = scale * cast("Drop", drop).factor
    count = work.steps * work.group
    if count > 0:
        room.held[0].wait(0)
        room.held[1].wait(0)
        if fx.const_expr(form.packed_k):
            clear(room.values, reach.keys - work.block * M, form.width_v, wide, 1)
        room.full_g.wait(0)
        if fx.const_expr(form.packed_q):
            clear(room.grads, reach.queries - work.low * M, form.width_v, wide, 1, tells=True)
        multiply(slopes_mma, slopes, values, grads[None, None, None, 0], form.width_v // 16)
        row, at = work.first()
        for i in range(count):
            stage, phase = stage_of(i, stages)
            room.full_q[stage].wait(phase)
            nv.wgmma_wait(0, slopes)
            release(room.empty_g[stage], member, form.cluster, fx.Int32(0))
            weights_ready().sync()
            # Half of the queries at a time: there are no registers for all weights and their gradients.
            for half in fx.range_constexpr(2):
                for j in fx.range_constexpr(M // 16):
                    fx.copy(four, handed[None, member, half * (M // 16) + j], units[None, j])
                some = fx.make_view(fx.get_iter(slopes) + half * (M // 4), weights.layout)
                derive(weights, some, room.sides + (stage * (2 * M) + M + half * (M // 2) + member % 4 * 2), share)
                flat = fx.make_rmem_tensor(weights.layout, dtype)
                flat.store(some.load().to(dtype))
                fx.copy(store, copy.retile(flat), to_slopes[None, None, None, half])
                fx.make_view(fx.get_iter(operand) + half * (M // 4), weights.layout).store(flat.load())
            slopes_ready().arrive()
            after, after_phase = stage_of(fx.min(i + 1, count - 1), stages)

            def add_sums(stage: fx.Int32 = stage) -> None:
                add_products(sums_mma, sums, operand, queries[None, None, None, stage], M // 16)

            def next_slopes(
                stage: fx.Int32 = after, phase: fx.Int32 = after_phase, i: fx.Int32 = i, row: fx.Int32 = row
            ) -> None:
                room.full_g[stage].wait(phase)
                if form.packed_q:
                    rest = work.rows_behind(row, i + 1 < count)
                    clear(room.grads + stage * (M * form.width_v), rest, form.width_v, wide, 1, tells=True)
                multiply(slopes_mma, slopes, values, grads[None, None, None, stage], form.width_v // 16)

            def free(stage: fx.Int32 = stage) -> None:
                release(room.empty_q[stage], member, form.cluster, fx.Int32(0))

            def add(piece: int, row: fx.Int32 = row, at: fx.Int32 = at) -> None:
                add_part(part, piece, to, work, row, at)

            finish(form.order_keys, add_sums, next_slopes, lambda: own(1).sync(), part, free, add)
            row, at = work.after(row, at)
        nv.wgmma_wait(0, slopes, sums)
        put(out, sums, form.d, scale, work)
    else:
        put(out, sums, form.d, None, work)


def rounded(to: fx.Tensor, weights: fx.Tensor, drop: Drop | None) -> None:
    """What is left of weights, as an operand."""
    to.store(kept(weights, drop).to(to.dtype).reshape(to.shape.unpack()))


@flyc.jit
def put(out: fx.Pointer, sums: fx.Tensor, d: int, scale: fx.Float32 | None, work: Work):
    """Sums of a thread's keys, as far as there are keys and elements."""
    # Places that depend on this are not computed in front of the loop, and kept in registers.
    member = fx.nvgpu.uniform(fx.thread_idx.x % 128 // 32) * 32 + fx.thread_idx.x % 32
    reach = work.reach
    key = first_key(work, member)
    first = fx.Int64(work.here.first_k) if work.form.packed_k else fx.Int64(work.batch) * fx.Int64(reach.keys)
    line = ((first + key) * fx.Int64(reach.kv_heads) + fx.Int64(work.head)) * d
    for r in fx.range_constexpr(2):
        if key + 8 * r < reach.keys:
            origin = line + (fx.Int64(reach.kv_heads) * (8 * r * d) + member % 4 * 2)
            for j in fx.range_constexpr(d // 8):
                pair = [sums[(e, r, j), 0, 0] for e in range(2)]
                made = [out.dtype(x if scale is None else x * scale) for x in pair]
                fx.nvgpu.store_global(out + (origin + 8 * j), fx.Vector.from_elements(made, out.dtype))


__all__ = ["sum_keys", "sum_values"]
