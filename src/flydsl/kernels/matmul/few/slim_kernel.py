"""C = f(A W + bias) for few rows of A, at the speed W comes from memory: W in 4, 8, 16 or 32 bits.

A thread of its own fetches: packed blocks of W in one piece each (or its rows by TMA, where they are not packed), and
the rows of A, by TMA. The others multiply with `mma.sync` or `wgmma`, W's columns as the rows of the product. Integers
become floats in registers, by their bits alone: a number of 4 bits is the end of the mantissa of 128 (bf16) or 1024
(f16), from which that is taken off again, exactly. What a group of them sums up to is multiplied by its scale in f32.
Numbers of 32 bits become two of 11 bits each, and three products of those.

Warps that divide K add up through shared memory; blocks that do, through memory: the last to come adds up all. Both in
the order of K, so that results are the same bits in every run.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..pack import in_parts
from ..sm90.out import swizzle
from .slim import (
    BARRIER_BYTES,
    DEEP,
    HIGH,
    LINE,
    Slim,
    Weights,
    registers,
    shared_bytes,
    token_bytes,
    weight_bytes,
)
from .slim_sums import Problem, Warp, finish, place_of, put_sums, unit_at


@flyc.kernel
def slim_kernel(
    load_a: fx.nvgpu.TmaAtom,
    load_w: fx.nvgpu.TmaAtom | None,
    w: fx.Pointer,
    c: fx.Pointer,
    bias: fx.Tensor | None,
    work: fx.Pointer | None,
    counters: fx.Pointer | None,
    dtype: type[fx.Numeric],
    slim: fx.Constexpr[Slim],
    weights: fx.Constexpr[Weights],
    activation: fx.Constexpr[str],
    quads: fx.Constexpr[bool],
    given: Problem,
):
    nv = fx.nvgpu
    tid = fx.thread_idx.x
    warp = nv.uniform(tid // 32)
    # Warps that read a stage together: there are no barriers for each of sixteen.
    team = 4 if slim.wide else 1
    base = fx.get_dyn_shared(fx.Int8)
    full = nv.MBarrier(fx.recast_iter(fx.Int64, base + (shared_bytes(slim, weights) - BARRIER_BYTES)))
    empty = full[slim.stages]
    if tid == 0:
        load_a.prefetch()
        for s in fx.range_constexpr(slim.stages):
            full[s].init(1)
            empty[s].init(slim.warps // team)
    fx.barrier()
    nv.griddepcontrol_wait()
    nv.griddepcontrol_launch()

    # Units of a warp's depth: this block's first, and how many.
    units = fx.ceildiv(given.k, weights.depth)
    per = fx.ceildiv(units, slim.slices)
    begin = fx.block_idx.y * per
    count = fx.max(fx.min(units - begin, per), 0)
    steps = fx.ceildiv(count, slim.along)
    token = fx.block_idx.z * slim.tokens
    few, many = registers(slim) if slim.wide else (0, 0)
    if warp >= slim.warps:
        if fx.const_expr(few > 0):
            nv.setmaxnreg(few, increase=False)
        if nv.leader(tid - 32 * slim.warps):
            stage, phase = fx.Int32(0), fx.Int32(1)
            for step in range(steps):
                empty[stage].wait(phase)
                fetch(load_a, load_w, w, base, full[stage], stage, begin + step * slim.along,
                      fx.min(count - step * slim.along, slim.along), token, slim, weights, given)  # fmt: skip
                stage = stage + 1
                if stage == slim.stages:
                    stage = fx.Int32(0)
                    phase = phase ^ 1
    else:
        if fx.const_expr(few > 0):
            nv.setmaxnreg(many, increase=True)
        lane = tid % 32
        me = place_of(warp, lane, slim)
        sums = fx.make_rmem_tensor(fx.make_layout(4 * slim.tiles * (slim.tokens // 8), 1), fx.Float32)
        sums.fill(0.0)
        apart = nv.named_barrier(warp // team + 1, 32 * team)
        stage, phase = fx.Int32(0), fx.Int32(0)
        zero = fx.min(given.m, 0)
        if fx.const_expr(slim.turns):
            multiply_in_turns(base, full, empty, sums, dtype, slim, weights, me, count, apart, tid, zero)
        else:
            for step in range(steps):
                full[stage].wait(phase)
                if count - step * slim.along - me.along > 0:
                    if fx.const_expr(slim.wide):
                        multiply_wide(base, stage, sums, dtype, slim, weights, me, zero)
                    else:
                        multiply(base, stage, sums, dtype, slim, weights, me, zero)
                leave(empty[stage], apart, tid % (32 * team))
                stage, phase = advance(stage, phase, slim.stages)
        together = nv.named_barrier(0, 32 * slim.warps)
        # Nobody reads the stages any more: they take the sums.
        together.sync()
        parts = fx.recast_iter(fx.Float32, base)
        put_sums(parts, sums, slim, me)
        together.sync()
        finish(parts, work, counters, c, bias, slim, activation, quads, given, token, tid, together)


@flyc.jit
def fetch(
    load_a: fx.nvgpu.TmaAtom,
    load_w: fx.nvgpu.TmaAtom | None,
    w: fx.Pointer,
    base: fx.Pointer,
    full: fx.nvgpu.MBarrier,
    stage: fx.Int32,
    unit: fx.Int32,
    units: fx.Int32,
    token: fx.Int32,
    slim: Slim,
    weights: Weights,
    given: Problem,
):
    """So many units along K, from `unit` on, into a stage."""
    nv = fx.nvgpu
    bytes_a, bytes_w = token_bytes(slim, weights), weight_bytes(slim, weights)
    box = slim.tokens * LINE * 2
    lines = weights.lines
    first = fx.block_idx.x * (slim.rows // HIGH)
    at_a = base + stage * bytes_a
    at_w = base + slim.stages * bytes_a
    element = fx.Int32 if weights.bits == 32 else fx.Int16
    if fx.const_expr(weights.packed):
        # Behind the last columns the last block comes again, for nobody.
        blocks, last = slim.rows // HIGH, fx.ceildiv(given.n, HIGH) - 1
        full.expect_tx(units * (blocks * weights.block_bytes + lines * box))
        deep = fx.Int64(fx.ceildiv(given.k, DEEP))
        size = slim.along * weights.block_bytes
        places = fx.make_view(at_w, fx.make_layout((size, slim.rows // HIGH, slim.stages), (1, size, bytes_w)))
        for i in range(blocks):
            source = w + ((fx.Int64(fx.min(first + i, last)) * deep + unit) * weights.block_bytes)
            nv.bulk_load(source, places[None, i, stage], full, nbytes=units * weights.block_bytes, evict="first")
    else:
        full.expect_tx(units * (slim.rows * LINE * 2 + box))
        for i in range(units):
            place = fx.recast_iter(element, at_w + (stage * bytes_w + i * (slim.rows * LINE * 2)))
            cast("fx.nvgpu.TmaAtom", load_w).load((first * HIGH, (unit + i) * weights.line), place, full)
    for i in range(units * lines):
        place = fx.recast_iter(element, at_a + i * box)
        load_a.load((token, (unit * lines + i) * weights.line), place, full)


def matrices_at(base: fx.Pointer, dtype: type[fx.Numeric], row: fx.Int32, unit: fx.Int32) -> fx.Vector:
    """Four matrices of 8 x 16 bytes; each lane names a line of one, in rows of 128 swizzled bytes."""
    narrow = fx.Float16 if dtype is fx.Float32 else dtype
    line = fx.recast_iter(narrow, base + (row * (LINE * 2) + (unit ^ (row % 8)) * 16))
    layout = fx.make_layout(8, 1)
    held = fx.make_rmem_tensor(layout, narrow)
    fx.copy_atom_call(fx.make_copy_atom(fx.nvgpu.LdMatrix(4), narrow), fx.make_view(line, layout), held)
    return held.load() if dtype is narrow else held.load().bitcast(dtype)


def multiply(
    base: fx.Pointer,
    stage: fx.Int32,
    sums: fx.Tensor,
    dtype: type[fx.Numeric],
    slim: Slim,
    weights: Weights,
    me: Warp,
    zero: fx.Int32,
) -> None:
    """A warp's part of a stage: for 32 elements along K at a time, A's fragments, then those of W."""
    bytes_a, bytes_w = token_bytes(slim, weights), weight_bytes(slim, weights)
    columns = slim.tokens // 8
    box = slim.tokens * LINE * 2
    at_a = base + (stage * bytes_a + me.along * (weights.lines * box))
    at_w = base + (slim.stages * bytes_a + stage * bytes_w)
    total = sums
    if weights.packed:
        total = fx.make_rmem_tensor(sums.layout, fx.Float32)
    instruction = Product(dtype)
    for part in range(2 * weights.lines):
        if weights.packed and part % max(1, 4 // weights.groups) == 0:
            total.fill(0.0)
        held = [
            matrices_at(at_a + part // 2 * box, dtype, me.lane % 8 + 8 * j, part % 2 * 4 + me.lane // 8)
            for j in range(columns)
        ]
        halves = [weights_of(at_w, dtype, slim, weights, me, i, part, zero) for i in range(slim.tiles)]
        for step in range(2):
            rights = [instruction.parts(x, step) for x in held]
            for i in range(slim.tiles):
                lefts = instruction.parts(halves[i][step])
                for j in range(columns):
                    acc = fx.make_view(fx.get_iter(total) + 4 * (i * columns + j), fx.make_layout(4, 1))
                    instruction.add(acc, lefts, rights[j])
        if weights.packed and (part + 1) % max(1, 4 // weights.groups) == 0:
            for i in range(slim.tiles):
                here, mine = (
                    fx.make_view(fx.get_iter(x) + 4 * columns * i, fx.make_layout(4 * columns, 1))
                    for x in (sums, total)
                )
                group = part // max(1, 4 // weights.groups)
                scale_sums(here, mine, factors_of(at_w, slim, weights, me, i, group), columns)


def weights_of(
    at_w: fx.Pointer,
    dtype: type[fx.Numeric],
    slim: Slim,
    weights: Weights,
    me: Warp,
    i: int,
    part: int,
    zero: fx.Int32,
) -> list[fx.Vector]:
    """16 rows and 64 bytes of floats along K, for two instructions."""
    if weights.packed:
        words = words_of(at_w, slim, weights, me, me.tile(i), part // 2 if weights.bits == 4 else part)
        return widened_part(words, weights, part, dtype, zero)
    at = at_w + me.along * (slim.rows * LINE * 2)
    row, unit = me.tile(i) * 16 + me.lane % 16, part % 2 * 4 + me.lane // 16
    return [matrices_at(at, dtype, row, unit + 2 * step) for step in range(2)]


class Product:
    """A warp's product of 16 rows, 8 tokens and 32 bytes along K; of float32, those of parts that are small enough."""

    def __init__(self, dtype: type[fx.Numeric]):
        self.dtype = dtype
        self.thrice = dtype is fx.Float32
        self.mma = fx.make_mma_atom(fx.nvgpu.MMA(16, 8, 8 if self.thrice else 16, dtype))
        each = 1 if self.thrice else 2
        self.left, self.right = (fx.make_rmem_tensor(fx.make_layout(x * each, 1), dtype) for x in (4, 2))

    def parts(self, values: fx.Vector, half: int | None = None) -> list[fx.Vector]:
        """An operand, all of it or a half: as it is, or what is multiplied in its place."""
        if half is not None:
            count = 2 if self.thrice else 4
            values = values.shuffle(values, [count * half + e for e in range(count)])
        if not self.thrice:
            return [values]
        found = [in_parts(values[i]) for i in range(2 if half is not None else 4)]
        return [fx.Vector.from_elements([x[p] for x in found], fx.Float32) for p in range(3)]

    def add(self, acc: fx.Tensor, lefts: list[fx.Vector], rights: list[fx.Vector]) -> None:
        # The rests first: they are small. What is not finite is in the upper parts alone.
        for a, b in ((1, 2), (2, 1), (0, 0)) if self.thrice else ((0, 0),):
            self.left.store(lefts[a])
            self.right.store(rights[b])
            fx.mma_atom_call(self.mma, acc, self.left, self.right, acc)


def multiply_wide(
    base: fx.Pointer,
    stage: fx.Int32,
    sums: fx.Tensor,
    dtype: type[fx.Numeric],
    slim: Slim,
    weights: Weights,
    me: Warp,
    zero: fx.Int32,
) -> None:
    """Four warps' part of a stage, group after group."""
    job = job_of(dtype, slim, weights)
    for i, group in product(range(slim.tiles), range(weights.groups)):
        begin_job(job, base, stage, dtype, slim, weights, me, i, group, zero)
        end_job(job, 0, sums, i, slim)


@flyc.jit
def multiply_in_turns(
    base: fx.Pointer,
    full: fx.nvgpu.MBarrier,
    empty: fx.nvgpu.MBarrier,
    sums: fx.Tensor,
    dtype: type[fx.Numeric],
    slim: Slim,
    weights: Weights,
    me: Warp,
    count: fx.Int32,
    apart: fx.nvgpu.named_barrier,
    tid: fx.Int32,
    zero: fx.Int32,
):
    """All of four warps' stages: a group is widened while the one before, maybe of another stage, is multiplied."""
    mine = fx.ceildiv(fx.max(count - me.along, 0), slim.along)
    jobs = [job_of(dtype, slim, weights) for _ in range(2)]
    groups = list(product(range(slim.tiles), range(weights.groups)))
    many = len(groups)
    stage, phase, before = fx.Int32(0), fx.Int32(0), fx.Int32(0)
    if mine > 0:
        full[stage].wait(phase)
        for j in fx.range_constexpr(many):
            begin_job(jobs[j % 2], base, stage, dtype, slim, weights, me, *groups[j], zero)
            if fx.const_expr(j > 0):
                end_job(jobs[(j - 1) % 2], 1, sums, groups[j - 1][0], slim)
        stage, phase = advance(stage, phase, slim.stages)
        # Two stages, so that registers of the one that is open are known.
        for _ in range((mine - 1) // 2):
            for second in fx.range_constexpr(2):
                full[stage].wait(phase)
                for j in fx.range_constexpr(many):
                    number = (second + 1) * many + j
                    begin_job(jobs[number % 2], base, stage, dtype, slim, weights, me, *groups[j], zero)
                    end_job(jobs[(number - 1) % 2], 1, sums, groups[j - 1][0], slim)
                    if fx.const_expr(j == 0):
                        leave(empty[before], apart, tid % 128)
                before = stage
                stage, phase = advance(stage, phase, slim.stages)
        if (mine - 1) % 2 == 1:
            full[stage].wait(phase)
            for j in fx.range_constexpr(many):
                begin_job(jobs[(many + j) % 2], base, stage, dtype, slim, weights, me, *groups[j], zero)
                end_job(jobs[(many + j - 1) % 2], 1, sums, groups[j - 1][0], slim)
                if fx.const_expr(j == 0):
                    leave(empty[before], apart, tid % 128)
            before = stage
            end_job(jobs[(2 * many - 1) % 2], 0, sums, groups[-1][0], slim)
        else:
            end_job(jobs[(many - 1) % 2], 0, sums, groups[-1][0], slim)
        leave(empty[before], apart, tid % 128)


def advance(stage: fx.Int32, phase: fx.Int32, count: int) -> tuple[fx.Int32, fx.Int32]:
    """The next stage, and the parity of its barriers."""
    around = stage == count - 1
    return around.select(fx.Int32(0), stage + 1), phase ^ fx.Int32(around)


@flyc.jit
def leave(empty: fx.nvgpu.MBarrier, apart: fx.nvgpu.named_barrier, member: fx.Int32):
    """All of a team have read the stage: tell who fills it."""
    apart.sync()
    if member == 0:
        empty.arrive()


class Job(NamedTuple):
    """A group of 64 rows that is being multiplied: its weights as floats, its sums and its scales."""

    left: fx.Tensor
    total: fx.Tensor
    factors: fx.Tensor


def job_of(dtype: type[fx.Numeric], slim: Slim, weights: Weights) -> Job:
    steps = DEEP // 16 // weights.groups
    return Job(
        fx.make_rmem_tensor(fx.make_layout(((2, 2, 2), 1, steps), ((1, 2, 4), 0, 8)), dtype),
        fx.make_rmem_tensor(fx.make_layout(((2, 2, slim.tokens // 8), 1, 1), ((1, 2, 4), 0, 0)), fx.Float32),
        fx.make_rmem_tensor(fx.make_layout(2, 1), fx.Float32),
    )


def begin_job(
    job: Job,
    base: fx.Pointer,
    stage: fx.Int32,
    dtype: type[fx.Numeric],
    slim: Slim,
    weights: Weights,
    me: Warp,
    i: int,
    group: int,
    zero: fx.Int32,
) -> None:
    """Each warp has 16 of 64 rows in registers, and A's rows stay in shared memory."""
    nv = fx.nvgpu
    bytes_a, bytes_w = token_bytes(slim, weights), weight_bytes(slim, weights)
    lines = DEEP // LINE
    at_w = base + (slim.stages * bytes_a + stage * bytes_w)
    mma = fx.make_tiled_mma(
        fx.make_mma_atom(nv.WGMMA(slim.tokens, 16, dtype, a_from="registers")), fx.make_layout((1, 1, 1), (0, 0, 0))
    )
    boxes = slim.stages * slim.along * lines
    layout = fx.make_layout((slim.tokens, LINE, boxes), (LINE, 1, slim.tokens * LINE))
    tokens = mma.get_slice(0).partition_B(
        fx.make_view(fx.apply_swizzle(fx.recast_iter(dtype, base), swizzle(2 * LINE)), layout)
    )
    steps = DEEP // 16 // weights.groups
    job.factors.store(fx.Vector.from_elements(list(factors_of(at_w, slim, weights, me, i, group)), fx.Float32))
    per = 16 // weights.bits
    units = range(group * steps // per, max((group + 1) * steps // per, group * steps // per + 1))
    words = {unit: words_of(at_w, slim, weights, me, me.tile(i), unit) for unit in units}
    box = (stage * slim.along + me.along) * lines
    for k in range(0, steps, 2):
        at = group * steps + k
        halves = widened_part(words[at // per], weights, at // 2, dtype, zero)
        for e in range(2):
            fx.make_view(fx.get_iter(job.left) + 8 * (k + e), fx.make_layout(8, 1)).store(halves[e])
    for k in range(steps):
        at = group * steps + k
        now = mma.set_value("accumulate", fx.Int32(0)) if k == 0 else mma
        fx.gemm(now, job.total, job.left[None, None, k], tokens[None, None, at % 4, box + at // 4], job.total)
    nv.wgmma_commit()


def end_job(job: Job, pending: int, sums: fx.Tensor, i: int, slim: Slim) -> None:
    """When it is done, but for so many that came behind it, scale and add."""
    fx.nvgpu.wgmma_wait(pending, job.total)
    columns = slim.tokens // 8
    here = fx.make_view(fx.get_iter(sums) + 4 * columns * i, fx.make_layout(4 * columns, 1))
    scale_sums(here, job.total, (job.factors[0], job.factors[1]), columns)


def block_at(at_w: fx.Pointer, slim: Slim, weights: Weights, me: Warp, tile: fx.Int32) -> fx.Pointer:
    """The packed block of 16 rows of a stage."""
    per = HIGH // 16
    return at_w + (tile // per * (slim.along * weights.block_bytes) + me.along * weights.block_bytes)


def words_of(at_w: fx.Pointer, slim: Slim, weights: Weights, me: Warp, tile: fx.Int32, unit: int) -> fx.Vector:
    """A lane's 16 bytes of 16 rows: 64 elements along K of 4 bits, 32 of 8 bits."""
    block = block_at(at_w, slim, weights, me, tile) + tile % (HIGH // 16) * (16 * DEEP * weights.bits // 8)
    return unit_at(block + (unit * 512 + me.lane * 16), fx.Int32)


def widened_part(
    words: fx.Vector, weights: Weights, part: int, dtype: type[fx.Numeric], zero: fx.Int32
) -> list[fx.Vector]:
    """16 rows and 32 elements along K, for two instructions."""
    each = weights.bits // 4
    offset = part % 2 * 2 if weights.bits == 4 else 0
    return [widened([words[offset + s * each + i] for i in range(each)], weights.bits, dtype, zero) for s in range(2)]


def widened(words: list[fx.Numeric], bits: int, dtype: type[fx.Numeric], zero: fx.Int32) -> fx.Vector:
    """Eight integers as floats: pairs that lie 16 bits apart are those of a register of the instruction.

    `zero` is one the assembler does not know: of two constants of an instruction one must be in a register, and what it
    knows it puts there anew each time.
    """
    half = dtype is fx.Float16
    if bits == 4:
        fields = [(words[0] >> (4 * i)) & (zero + 0x000F000F) for i in range(4)]
        # The highest bit turned round: the number plus 8, at the end of the mantissa of 1024 or 128.
        magic, off = (0x64086408, 1032.0) if half else (0x43084308, 136.0)
        return fx.Vector.from_elements([x ^ magic for x in fields], fx.Int32).bitcast(dtype) - dtype(off)
    shifted = [w >> s for w in words for s in (0, 8)]
    if half:
        fields = [(x & (zero + 0x00FF00FF)) ^ 0x64806480 for x in shifted]
        return fx.Vector.from_elements(fields, fx.Int32).bitcast(dtype) - dtype(1152.0)
    # The mantissa of bf16 has 7 bits: 128 + the lower ones, and 128 or 256 by the sign.
    lower = fx.Vector.from_elements([(x & 0x007F007F) | (zero + 0x43004300) for x in shifted], fx.Int32)
    signs = fx.Vector.from_elements([(x & 0x00800080) | (zero + 0x43004300) for x in shifted], fx.Int32)
    return lower.bitcast(dtype) - signs.bitcast(dtype)


def factors_of(
    at_w: fx.Pointer, slim: Slim, weights: Weights, me: Warp, i: int, group: int
) -> tuple[fx.Float32, fx.Float32]:
    """The scales of a lane's two rows."""
    dtype = {"float16": fx.Float16, "bfloat16": fx.BFloat16, "float32": fx.Float32}[weights.scale]
    tile = me.tile(i)
    block = block_at(at_w, slim, weights, me, tile) + HIGH * DEEP * weights.bits // 8
    scales = fx.recast_iter(dtype, block) + (group * HIGH + tile % (HIGH // 16) * 16 + me.lane // 4)
    return fx.Float32(scales[0]), fx.Float32(scales[8])


def scale_sums(sums: fx.Tensor, total: fx.Tensor, factors: tuple[fx.Float32, fx.Float32], columns: int) -> None:
    """What a group's integers sum up to, times its scale, to the sums of all."""
    for at in range(4 * columns):
        sums[at] = fx.fma(total[at], factors[at // 2 % 2], sums[at])


@flyc.jit
def slim_matmul(
    a: fx.Tensor,
    w: fx.Tensor,
    c: fx.Tensor,
    bias: fx.Tensor | None,
    work: fx.Tensor | None,
    counters: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    step_a: fx.Int64,
    step_w: fx.Int64,
    step_c: fx.Int64,
    slim: fx.Constexpr[Slim],
    weights: fx.Constexpr[Weights],
    activation: fx.Constexpr[str] = "none",
    quads: fx.Constexpr[bool] = False,
    stream: fx.Stream = fx.Stream(None),
):
    """C (m, n) = f(A (m, k) W + bias), with rows of A and C in one piece; strides are in elements.

    W is packed, or of 16 or 32 bits with `step_w` from one of its columns to the next and K in one piece. Rows of A,
    and columns of such a W, are units of 16 bytes. `quads`: C takes four elements at a time. `work` has room for the
    sums of all slices, and `counters` a zero for each block of rows and tokens.
    """
    nv, dtype = fx.nvgpu, a.dtype
    view = fx.make_view(fx.get_iter(a), fx.make_layout((m, k), (step_a, 1)))
    load_a = nv.make_tma_atom(nv.TMALoad(), view, None, (slim.tokens, weights.line), swizzle=2 * LINE)
    load_w = None
    if fx.const_expr(not weights.packed):
        other = fx.make_view(fx.get_iter(w), fx.make_layout((n, k), (step_w, 1)))
        load_w = nv.make_tma_atom(nv.TMALoad(), other, None, (slim.rows, weights.line), swizzle=2 * LINE)
    work_at, counters_at = [t if t is None else fx.get_iter(t) for t in (work, counters)]
    grid = (fx.ceildiv(n, slim.rows), slim.slices, fx.ceildiv(m, slim.tokens))
    slim_kernel(
        load_a, load_w, fx.recast_iter(fx.Int8, fx.get_iter(w)), fx.get_iter(c), bias, work_at, counters_at, dtype,
        slim, weights, activation, quads, Problem(m, n, k, step_c), value_attrs={"nvvm.minctasm": 1},
    ).launch(
        grid=grid, block=slim.threads, stream=stream, pdl=True,
        smem=shared_bytes(slim, weights),
    )  # fmt: skip
