"""C = f(A B + bias) on Hopper: tiles come by TMA, warpgroups multiply them with `wgmma`, in every shape of tile.

The kernel computes D = X Y^T. X is A and Y is B, or (`Tile.swap`) X is B and Y is A: then D is C's transpose, and a C
of few rows has tiles of few columns. A warpgroup fetches, the others multiply; stages of shared memory lie between
them, each with a full and an empty barrier. Blocks stay and take tile after tile.

* Consumers work on one tile together, or take turns (`pingpong`): one stores while another multiplies.
* Blocks of a cluster share the rows of one operand, or pairs of them those of both: each fetches a part for all.
* Parts of K (`splits`) are summed by different blocks of a cluster, which then read each other's sums, each for its
  share of the columns, and add them in the order of K: the same bits in every run. Or (`slices`) blocks leave
  their sums in memory, and the block of the last slice waits for them and adds them, again in the order of K. It has
  the highest number of them, so those it waits for run or have run: they wait for nobody. With many
  slices the first ones' blocks add up a share of the columns each (`together`), once all are there; they wait for a
  while only, and the last to come does what others did not wait for. Slices are for all tiles, or (`tail`) for those
  that are left when every block has had as many whole ones.

Outside the matrices the copy engine reads zeros and writes nothing. It takes rows of 16-byte units; where C has none,
where C is f32 and where K was split, threads store their values themselves.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from .groups import TABLE_BYTES, Table, count_tiles, fill_table
from .sm90.factors import SENDERS, Ring, Sources, advance, send_factors
from .sm90.fill import Pair, clear_rows, fetch, fetch_either, load_map, sharers
from .sm90.out import Out, hold, in_group, store_by_engine, store_by_threads, store_in_group, store_pieces, swizzle
from .sm90.promote import Tiles, multiply, release, sum_class, sum_up, wait
from .sm90.sums import add_sums, collect_sums, leave_sums, put_sums, share_out, wait_for_slices
from .sm90.tiles import Dealt, Grid, Map, Place, cut_of, slice_of
from .tile import (
    BARRIER_BYTES,
    LINE,
    Form,
    Tile,
    boxes_of,
    fetched,
    fixed_bytes,
    registers,
    shared_bytes,
    span,
    stage_bytes,
    stages,
    staging,
)


@flyc.kernel
def hopper_kernel(
    load_x: fx.nvgpu.TmaAtom,
    load_y: fx.nvgpu.TmaAtom,
    store_c: fx.nvgpu.TmaAtom | None,
    c: fx.Pointer,
    bias: fx.Tensor | None,
    scale_x: fx.Tensor | None,
    scale_y: fx.Tensor | None,
    work: fx.Pointer | None,
    counters: fx.Pointer | None,
    dtype: type[fx.Numeric],
    dtype_y: type[fx.Numeric],
    tile: fx.Constexpr[Tile],
    form: fx.Constexpr[Form],
    rows: fx.Int32,
    columns: fx.Int32,
    k: fx.Int32,
    batches: fx.Int32,
    group: fx.Int32,
    step_c: fx.Int64,
    step_batch: fx.Int64,
    offsets: fx.Pointer | None,
    scale_out: fx.Tensor | None,
):
    nv = fx.nvgpu
    bk = depth_of(dtype)
    count = stages(tile)
    tid = fx.thread_idx.x
    role = nv.uniform(tid // 128)
    base = fx.get_dyn_shared(dtype)
    elements_x, elements_y = tile.m * bk, tile.n * bk
    rows_x, rows_y = fetched(tile, form)
    boxes_x, boxes_y = boxes_of(tile, form)
    base_y = base + count * elements_x
    after = fx.recast_iter(fx.Int8, base) + count * stage_bytes(tile)
    full = nv.MBarrier(fx.recast_iter(fx.Int64, after))
    empty = full[count]
    teams = 1 if tile.pingpong else tile.consumers
    if tid == 0:
        prefetch(load_x, load_y, store_c)
        for s in fx.range_constexpr(count):
            full[s].init(1 + SENDERS if tile.factors else 1)
            empty[s].init(teams * tile.cluster)
    rank = fx.Int32(0)
    if fx.const_expr(tile.blocks > 1):
        rank = nv.uniform(nv.cluster.rank())
        # Barriers are all that the others must see, and the fence that the compiler sets is for them.
        nv.cluster.arrive(relaxed=True)
        nv.cluster.wait()
    else:
        fx.barrier()
    if fx.const_expr(form.overlap):
        nv.griddepcontrol_wait()
        nv.griddepcontrol_launch()
    place, part = rank % tile.cluster, rank // tile.cluster

    # Tiles are dealt to clusters; a cluster's are beside or above each other.
    high, wide = tile.high, tile.wide
    of_x, of_y = sharers(tile, place, part)
    grid = Grid(fx.ceildiv(rows, tile.m * high), fx.ceildiv(columns, tile.n * wide), group)
    first, stride = fx.block_idx.x // tile.blocks, fx.grid_dim.x // tile.blocks
    once = grid.rows * grid.columns * batches
    table = None
    if fx.const_expr(form.table):
        table = Table(fx.recast_iter(fx.Int32, fx.recast_iter(fx.Int8, base) + shared_bytes(tile)), batches)
        if tid < 32:
            fill_table(table, cast("fx.Pointer", offsets), rows, cut_of(tile, grid.columns), tid)
        fx.barrier()
        once = table.tiles()
    elif fx.const_expr(form.grouped):
        once = count_tiles(offsets, batches, rows, cut_of(tile, grid.columns))
    # What is dealt: whole tiles, as many to each cluster, then slices of the others.
    whole, rest = fx.Int32(0), once
    if fx.const_expr(tile.tail):
        whole = once // stride * stride
        rest = once - whole
    dealt = Dealt(whole, fx.max(rest, 1))
    tiles = whole + rest * tile.slices
    where = Map(grid, dealt, tile, place, offsets, rows, table)
    steps = fx.ceildiv(k, bk)
    begin = fx.Int32(0)
    if fx.const_expr(tile.splits > 1):
        per = fx.ceildiv(steps, tile.splits)
        begin = per * part
        steps = fx.max(fx.min(steps - begin, per), 0)
    fours = 4 if form.quads else 1
    few, many = registers(tile)
    ring = Ring(full, empty, count, base, part, fx.recast_iter(fx.Float32, after + fixed_bytes(tile)))
    if role == 0:
        if fx.const_expr(tile.consumers > 1):
            nv.setmaxnreg(few, increase=False)
        if nv.leader(tid):
            stage, phase = fx.Int32(0), fx.Int32(1)
            here = where.start()
            for at in range(first, tiles, stride):
                here = where.at(at, here)
                batch, batch_x, top = here.batch, here.batch, here.row * tile.m
                if fx.const_expr(form.grouped):
                    batch_x, top = fx.Int32(0), here.group.start + top
                short, expected = fx.Int32(0), fx.Int32(LINE * (rows_x + rows_y))
                if fx.const_expr(tile.halves):
                    short = fx.Int32(here.group.end - top <= tile.m // 2)
                    expected = expected - short * (LINE * tile.m // 2)
                origin, count_k = slice_of(at, dealt, steps, tile, fours)
                for step in range(count_k):
                    fx.ktrace.range_push("wait empty")
                    empty[stage].wait(phase)
                    fx.ktrace.range_pop()
                    fx.ktrace.range_push("issue copies")
                    depth = (begin + origin + step) * bk
                    to_x, to_y = base + stage * elements_x, base_y + stage * elements_y
                    full[stage].expect_tx(expected)
                    left = here.column * tile.n
                    if fx.const_expr(tile.either):
                        pair = Pair(
                            load_x, load_y, form.x_major, form.y_major, place, here.above, short, columns, boxes_y
                        )  # fmt: skip
                        fetch_either(pair, tile, to_x, to_y, full[stage], top, left, depth, batch)
                    else:
                        fetch(load_x, to_x, full[stage], top, depth, batch_x, rows_x, form.x_major, of_x, boxes_x, rows)
                        fetch(
                            load_y, to_y, full[stage], left, depth, batch, rows_y, form.y_major, of_y, boxes_y, columns
                        )  # fmt: skip
                    fx.ktrace.range_pop()
                    stage, phase = advance(stage, phase, count)
            if fx.const_expr(tile.cluster > 1):
                # Nobody leaves while another block may still count on a barrier here.
                for _ in fx.range_constexpr(count):
                    empty[stage].wait(phase)
                    stage, phase = advance(stage, phase, count)
        if fx.const_expr(tile.factors):
            if tid >= 128 - 32 * SENDERS:
                sources = Sources(cast("fx.Tensor", scale_x), cast("fx.Tensor", scale_y), rows, columns, form.quads)
                stage, phase = fx.Int32(0), fx.Int32(1)
                here = where.start()
                for at in range(first, tiles, stride):
                    here = where.at(at, here)
                    row, column = here.row, here.column
                    mine = sources.of(here.group) if form.grouped else sources
                    origin, count_k = slice_of(at, dealt, steps, tile, fours)
                    stage, phase = send_factors(
                        ring, mine, tile, tid % (32 * SENDERS), row, column, begin + origin, count_k, stage, phase
                    )
        if fx.const_expr(tile.splits > 1):
            nv.cluster.sync()
            nv.cluster.arrive()
    else:
        if fx.const_expr(tile.consumers > 1):
            nv.setmaxnreg(many, increase=True)
        consumer = role - 1
        member = tid % 128
        if fx.const_expr((rows_x, rows_y) != (tile.m, tile.n)):
            # Rows that nobody fetches are those of results that nobody stores, but they are multiplied.
            here = fx.min(fx.ceildiv(k, bk) * fx.ceildiv(tiles, stride), count)
            clear_rows(base, here, tile.m, rows_x, tid - 128, 128 * tile.consumers)
            clear_rows(base_y, here, tile.n, rows_y, tid - 128, 128 * tile.consumers)
            nv.fence_proxy_async()
            nv.named_barrier(9, 128 * tile.consumers).sync()
        team = fx.make_layout((teams, 1, 1), (1, 0, 0))
        atom = nv.WGMMA(tile.n, bk // 4, dtype, b=dtype_y, major_a=form.x_major, major_b=form.y_major)
        mma = fx.make_tiled_mma(fx.make_mma_atom(atom), team)
        smem_x = operand(base, tile.m, bk, count, form.x_major)
        smem_y = operand(base_y, tile.n, bk, count, form.y_major)
        mine = mma.get_slice((consumer if teams > 1 else fx.Int32(0)) * 128)
        parts_x, parts_y = mine.partition_A(smem_x), mine.partition_B(smem_y)
        repeats, values = tile.rows // 64, tile.n // 2
        total = sum_class(dtype)
        room = work if work is None else fx.recast_iter(total, work)
        acc = fx.make_rmem_tensor(fx.make_layout(((2, 2, tile.n // 8), repeats, 1), ((1, 2, 4), values, 0)), total)
        grand = acc
        if fx.const_expr(form.promote):
            grand = fx.make_rmem_tensor(acc.layout, total)
        turn = nv.named_barrier(consumer + 1, 128)
        out = Out(
            c, bias, scale_x, scale_y, store_c, after + BARRIER_BYTES, tile, form, rows, columns, step_c, step_batch,
            consumer, member, turn, scale_out,
        )  # fmt: skip
        # Consumers that take turns multiply one after the other: waits tell the phases of a stage apart by parity only.
        mine_next, other_next = (nv.named_barrier(x, 256) for x in (4 + consumer, 5 - consumer))
        if fx.const_expr(tile.pingpong):
            if consumer == 1:
                other_next.arrive()
        start, hop = (first + consumer * stride, stride * 2) if tile.pingpong else (first, stride)
        done = consumer * steps if tile.pingpong else fx.Int32(0)
        here = where.start()
        # Where K is in one piece, the next tile is found while the first products of this one run.
        ahead = tile.slices == tile.splits == 1
        if fx.const_expr(ahead):
            if start < tiles:
                here = where.at(start, here)
        for at in range(start, tiles, hop):
            if fx.const_expr(not ahead):
                here = where.at(at, here)
            coming = here
            row, column, batch = here.row, here.column, fx.Int32(0) if form.grouped else here.batch
            origin, count_k = slice_of(at, dealt, steps, tile, fours)
            stage, phase = done % count, done // count % 2
            if fx.const_expr(tile.pingpong):
                mine_next.sync()
            whole_tile = in_group(out, here.group) if form.grouped else out
            if fx.const_expr(tile.splits == 1 and (tile.slices == 1 or tile.tail)):
                whole_tile = hold(whole_tile, row, column)
            if fx.const_expr(form.promote or ahead):
                work_on = Work(mma, acc, parts_x, parts_y, ring, tile, member, count_k, stage, phase)
                tiles_on = Tiles(where, here, fx.min(at + hop, tiles - 1), ahead)
                if fx.const_expr(form.grouped and teams > 1):
                    if row * tile.m + consumer * 64 < here.group.end - here.group.start:
                        coming = sum_tile(work_on, grand, out, dtype, tiles_on)
                    else:
                        coming = where.at(tiles_on.following, here)
                        pass_by(work_on, turn)
                else:
                    coming = sum_tile(work_on, grand, out, dtype, tiles_on)
            else:
                acc.fill(0)
                before = fx.Int32(0)
                for step in range(count_k):
                    fx.ktrace.range_push("wait full")
                    full[stage].wait(phase)
                    fx.ktrace.range_pop()
                    fx.ktrace.range_push("multiply")
                    fx.gemm(mma, acc, parts_x[None, None, None, stage], parts_y[None, None, None, stage], acc)
                    nv.wgmma_wait(1)
                    fx.ktrace.range_pop()
                    # The products of the step before are done: its stage may be filled again.
                    if step > 0:
                        release(empty[before], member, tile.cluster, part)
                    before = stage
                    stage = stage + 1
                    if stage == count:
                        stage = fx.Int32(0)
                        phase = phase ^ 1
                nv.wgmma_wait(0, acc)
                if count_k > 0:
                    release(empty[before], member, tile.cluster, part)
            if fx.const_expr(tile.pingpong):
                if at + stride < tiles:
                    other_next.arrive()
            done = done + (2 * steps if tile.pingpong else count_k)
            fx.ktrace.range_push("store")
            if fx.const_expr(tile.splits > 1):
                # Nobody reads the stages any more: they take the sums.
                nv.named_barrier(8, 128 * tile.consumers).sync()
                sums = fx.recast_iter(total, base) + consumer * (64 * values * 2 * repeats)
                put_sums(grand, sums, member, repeats * values)
                nv.cluster.sync()
                share = tile.n // tile.splits
                each = share // 2
                added = [
                    add_sums(sums, member, r * values, part, each, tile.cluster, tile.splits, place)
                    for r in range(repeats)
                ]
                nv.cluster.arrive()
                for r in fx.range_constexpr(repeats):
                    store_by_threads(out, added[r], row, column, batch, r, part * share, share)
            elif fx.const_expr(tile.together):
                if at < whole:
                    if fx.const_expr(form.store == "engine"):
                        store_by_engine(whole_tile, grand, row, column, batch)
                    else:
                        store_pieces(whole_tile, grand, row, column, batch)
                else:
                    unit = ((at - whole) % dealt.rest * tile.cluster + place) * tile.consumers + consumer
                    found = fx.recast_iter(fx.Int32, after + (fixed_bytes(tile) - 16)) + consumer
                    which = (at - whole) // dealt.rest
                    share_out(
                        out._replace(form=form._replace(store=form.edge)), grand, cast("fx.Pointer", room),
                        cast("fx.Pointer", counters) + unit, unit, which, found, row, column, batch,
                    )  # fmt: skip
            elif fx.const_expr(tile.slices > 1):
                unit = (at % once * tile.cluster + place) * tile.consumers + consumer
                counter = cast("fx.Pointer", counters) + unit
                size = repeats * values * 128
                sums = cast("fx.Pointer", room) + (unit * ((tile.slices - 1) * size) + member * 4)
                if at < tiles - once:
                    leave_sums(grand, sums + at // once * size, repeats * values)
                    turn.sync()
                    if member == 0:
                        fx.atomic_add(counter, 1, syncscope="device", ordering=fx.AtomicOrdering.Release)
                else:
                    wait_for_slices(counter, member, tile.slices - 1)
                    turn.sync()
                    collect_sums(grand, sums, repeats * values, tile.slices - 1, size)
                    if fx.const_expr(form.store == "engine"):
                        store_by_engine(out, grand, row, column, batch)
                    else:
                        store_pieces(out, grand, row, column, batch)
            elif fx.const_expr(form.grouped):
                store_in_group(whole_tile, grand, row, column)
            elif fx.const_expr(form.store == "engine"):
                store_by_engine(whole_tile, grand, row, column, batch)
            else:
                store_pieces(whole_tile, grand, row, column, batch)
            fx.ktrace.range_pop()
            here = coming
        if fx.const_expr(form.store == "engine"):
            if nv.leader(member):
                nv.tma_wait(0)
    if fx.const_expr(tile.splits > 1):
        # Nobody leaves while another block may still read here.
        nv.cluster.wait()


class Work(NamedTuple):
    """A consumer's share of a tile: its sums and operands, the ring they come by, and where in it the first step is."""

    mma: fx.TiledMma
    acc: fx.Tensor
    x: fx.Tensor
    y: fx.Tensor
    ring: Ring
    tile: Tile
    member: fx.Int32
    steps: fx.Int32
    stage: fx.Int32
    phase: fx.Int32


def sum_tile(work: Work, grand: fx.Tensor, out: Out, dtype: type[fx.Numeric], tiles: Tiles) -> Place:
    """A tile's products, summed in f32 by threads where that is asked for; and where the following tile is."""
    if not out.form.promote:
        return multiply_tile(work, tiles.where, tiles.here, tiles.following)
    together = work.tile.consumers > 1 and not work.tile.pingpong
    me = (out.consumer if together else fx.Int32(0)) * 128
    return sum_up(
        grand, out, work.ring, work.mma, dtype, me, work.x, work.y, tiles, work.steps, work.stage, work.phase
    )  # fmt: skip


@flyc.jit
def multiply_tile(work: Work, where: Map, here: Place, following: fx.Int32):
    """A tile's products, of one step at least; and where the following tile is, found while the first ones run."""
    nv, ring, acc, stage, phase = fx.nvgpu, work.ring, work.acc, work.stage, work.phase
    wait(ring.full[stage], phase)
    multiply(work.mma, acc, work.x, work.y, stage)
    coming = where.at(following, here).held()
    before = stage
    stage, phase = advance(stage, phase, ring.stages)
    for _ in range(1, work.steps):
        wait(ring.full[stage], phase)
        fx.ktrace.range_push("multiply")
        fx.gemm(work.mma, acc, work.x[None, None, None, stage], work.y[None, None, None, stage], acc)
        nv.wgmma_wait(1)
        fx.ktrace.range_pop()
        # The products of the step before are done: its stage may be filled again.
        release(ring.empty[before], work.member, work.tile.cluster, ring.part)
        before = stage
        stage, phase = advance(stage, phase, ring.stages)
    nv.wgmma_wait(0, acc)
    release(ring.empty[before], work.member, work.tile.cluster, ring.part)
    return coming


@flyc.jit
def pass_by(work: Work, turn: fx.nvgpu.named_barrier):
    """A tile's steps of a consumer whose rows are behind the group's end.

    One warp sees all stages come and go. No product holds the others back or them up: one that still stores might look
    at a stage when it has been filled twice since, and wait for ever.
    """
    ring, stage, phase = work.ring, work.stage, work.phase
    if work.member < 32:
        for _ in range(work.steps):
            wait(ring.full[stage], phase)
            release(ring.empty[stage], work.member, work.tile.cluster, ring.part)
            stage, phase = advance(stage, phase, ring.stages)
    turn.sync()


def prefetch(*maps: fx.nvgpu.TmaAtom | None) -> None:
    """The descriptions of the matrices into the cache."""
    for one in maps:
        if one is not None:
            one.prefetch()


def operand(base: fx.Pointer, rows: int, bk: int, count: int, major: str) -> fx.Tensor:
    """All stages of an operand as (rows, k, stage), swizzled."""
    if major == "k":
        width, layout = LINE, fx.make_layout((rows, bk, count), (bk, 1, rows * bk))
    else:
        line = span(rows)
        width = 2 * line
        layout = fx.make_layout(((line, rows // line), bk, count), ((1, line * bk), line, rows * bk))
    return fx.make_view(fx.apply_swizzle(base, swizzle(width)), layout)


def depth_of(dtype: type[fx.Numeric]) -> int:
    """Elements of a step along K."""
    return LINE * 8 // dtype.width


@flyc.jit
def hopper(
    x: fx.Tensor,
    y: fx.Tensor,
    c: fx.Tensor,
    bias: fx.Tensor | None,
    scale_x: fx.Tensor | None,
    scale_y: fx.Tensor | None,
    work: fx.Tensor | None,
    counters: fx.Tensor | None,
    rows: fx.Int32,
    columns: fx.Int32,
    k: fx.Int32,
    batches: fx.Int32,
    step_x: fx.Int64,
    batch_x: fx.Int64,
    step_y: fx.Int64,
    batch_y: fx.Int64,
    step_c: fx.Int64,
    batch_c: fx.Int64,
    blocks: fx.Int32,
    group: fx.Int32,
    tile: fx.Constexpr[Tile],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
    offsets: fx.Tensor | None = None,
    scale_out: fx.Tensor | None = None,
):
    """D = f(X Y^T + bias). `step_*` and `batch_*` are strides in elements: of rows, or of k if rows are contiguous.

    `work` has room for the sums of all slices (but one, if not `together`) of all tiles, and `counters` a zero for each
    consumer of a tile.
    With slices there is a block for each. In groups X and C have no batch, and Y has a matrix for each of `batches`.
    """
    nv, dtype = fx.nvgpu, x.dtype
    tile = tile._replace(factors=form.blocked)
    bk = depth_of(dtype)
    extents = k, batches
    count_c = fx.Int32(1) if form.grouped else batches
    rows_x, rows_y = fetched(tile, form)
    boxes_x, boxes_y = boxes_of(tile, form)
    load_x = load_map(x, (rows, k, count_c), step_x, batch_x, rows_x, boxes_x, form.x_major, bk, form.l2_fetch)
    load_y = load_map(y, (columns, *extents), step_y, batch_y, rows_y, boxes_y, form.y_major, bk, form.l2_fetch)
    store_c = None
    if fx.const_expr(form.store == "engine"):
        width, box = staging(tile)
        if fx.const_expr(tile.swap):
            view = fx.make_view(fx.get_iter(c), fx.make_layout((columns, rows, count_c), (step_c, 1, batch_c)))
            store_c = nv.make_tma_atom(nv.TMAStore(), view, None, (width, 64, 1), swizzle=LINE)
        else:
            view = fx.make_view(fx.get_iter(c), fx.make_layout((rows, columns, count_c), (step_c, 1, batch_c)))
            store_c = nv.make_tma_atom(nv.TMAStore(), view, None, (64, box, 1), swizzle=2 * box)
    work_at, counters_at, offsets_at = [t if t is None else fx.get_iter(t) for t in (work, counters, offsets)]
    hopper_kernel(
        load_x, load_y, store_c, fx.get_iter(c), bias, scale_x, scale_y, work_at, counters_at, dtype,
        y.dtype, tile, form, rows, columns, k, batches, group, step_c, batch_c, offsets_at, scale_out,
        value_attrs={"nvvm.minctasm": tile.fits},
    ).launch(
        grid=blocks, block=tile.threads, cluster=tile.blocks, stream=stream, pdl=form.overlap,
        smem=shared_bytes(tile) + (TABLE_BYTES if form.table else 0),
    )  # fmt: skip
