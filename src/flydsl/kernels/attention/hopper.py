"""softmax(Q K^T) V on Hopper: a warpgroup fetches by TMA, the others multiply with `wgmma`, and all else is registers.

A block has 64 rows of queries for each consumer and walks along the keys from the last one that counts to the first,
so that what must be masked comes first. A step's scores are products from shared memory; weights stay in the registers
they were computed in, where the second product takes them as its first operand.

* Inside a warpgroup the scores of the next step are issued before the sums of this one, and the softmax of the one runs
  during the products of the other.
* Between warpgroups (`Tile.pingpong`) barriers let them issue in turns: one multiplies during another's softmax.
* Blocks stay and take tile after tile: the keys of the next tile come while the last sums of this one are stored.

Outside the arrays the copy engine reads zeros and writes nothing. It stores the results where there is room for them in
shared memory and a tile ends with its sequence; else threads do, as far as there are rows.
"""

from __future__ import annotations

from typing import cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..matmul.sm90.out import swizzle
from .combine import combine
from .consumer import Consumer, Factors, Part, Pipe, Place, advance, begin, finalize, finish, with_factors
from .dropout import Drop
from .fetching import (
    Source,
    ask_pages,
    bring_rows,
    fetch,
    load_map,
    look_up,
    rows_of,
    turned_map,
)  # fmt: skip
from .softmax import Scale
from .tile import BARRIER_BYTES, Form, Tile, registers, span
from .values import fetch_turned, first_step, steps_of_head
from .walk import (
    Lengths,
    Numbers,
    Places,
    Turns,
    Whole,
    Work,
    masked_steps,
    picked,
    pointer_of,
    position,
    publish,
    receive,
    steps_of,
)


@flyc.kernel
def attention_kernel(
    load_q: fx.nvgpu.TmaAtom,
    load_k: fx.nvgpu.TmaAtom | None,
    load_v: fx.nvgpu.TmaAtom | None,
    sources: tuple[Source, Source] | None,
    store_out: fx.nvgpu.TmaAtom | None,
    out: fx.Pointer,
    lse: fx.Pointer | None,
    sinks: fx.Pointer | None,
    cu_q: fx.Pointer | None,
    cu_k: fx.Pointer | None,
    used_k: fx.Pointer | None,
    table: fx.Pointer | None,
    counters: fx.Pointer | None,
    descale_q: fx.Pointer | None,
    descale_k: fx.Pointer | None,
    descale_v: fx.Pointer | None,
    drop: Drop | None,
    whole: Whole | None,
    whole_lse: fx.Pointer | None,
    whole_sinks: fx.Pointer | None,
    places: Places,
    dtype: type[fx.Numeric],
    tile: fx.Constexpr[Tile],
    form: fx.Constexpr[Form],
    numbers: Numbers,
):
    nv = fx.nvgpu
    tid = fx.thread_idx.x
    role = nv.uniform(tid // 128)
    stages = tile.stages
    map_k, map_v = cast("tuple[fx.nvgpu.TmaAtom, fx.nvgpu.TmaAtom]", (load_k, load_v))
    of_keys, of_values = cast("tuple[Source, Source]", (None, None) if sources is None else sources)
    base_q = fx.get_dyn_shared(dtype)
    base_k = base_q + tile.m * tile.d
    base_v = base_k + stages * tile.n * tile.d
    base_out = fx.recast_iter(out.dtype, base_v + tile.room)
    after = fx.recast_iter(fx.Int64, base_out + (tile.m * tile.dv if form.engine else 0))
    full_q = nv.MBarrier(after)
    empty_q, full_k = full_q[1], full_q[2]
    empty_k = full_k[stages]
    full_v = empty_k[stages]
    empty_v = full_v[stages]
    turns = Turns(empty_v[stages], empty_v[stages + 2], fx.recast_iter(fx.Int32, after + (4 * stages + 6)))
    held = fx.recast_iter(fx.Float32, after + BARRIER_BYTES // 8)
    if tid == 0:
        load_q.prefetch()
        if fx.const_expr(not form.by_threads):
            map_k.prefetch()
            map_v.prefetch()
        full_q.init(1)
        empty_q.init(tile.consumers)
        for s in fx.range_constexpr(stages):
            full_k[s].init(128 if form.by_threads else 1)
            full_v[s].init(128 if form.by_threads else 1)
            empty_k[s].init(tile.consumers)
            empty_v[s].init(tile.consumers)
        for s in fx.range_constexpr(2):
            turns.full[s].init(1)
            # Threads that bring rows have to be told of tiles, too.
            turns.empty[s].init(tile.threads if form.by_threads else 128 * tile.consumers)
    if fx.const_expr(tile.ones):
        fill_ones(base_v, tid, tile)
    fx.barrier()

    if fx.const_expr(form.split):
        # What combines the parts may get ready: it waits for all of them.
        nv.griddepcontrol_launch()
    lengths = Lengths(cu_q, cu_k, used_k)
    if fx.const_expr(form.picks):
        numbers = numbers._replace(splits=picked(lengths, numbers.batches, numbers.splits))
    blocks = fx.ceildiv(numbers.queries, tile.m)
    tiles = blocks * numbers.heads * numbers.batches * numbers.splits
    first, stride = fx.block_idx.x, fx.grid_dim.x
    few, many = registers(tile, form.dropout)
    if role == 0:
        if fx.const_expr(tile.consumers > 1):
            nv.setmaxnreg(few, increase=False)
        asks = form.asks(tile.n)
        if fx.nvgpu.leader(tid) if asks == 1 else tid < asks:
            leads = fx.Boolean(True) if asks == 1 else tid == 0
            stage, phase, phase_q = fx.Int32(0), fx.Int32(1), fx.Int32(1)
            at, count = first, fx.Int32(0)
            told = form.dynamic and form.by_threads
            if fx.const_expr(told):
                if leads:
                    publish(turns, count, at)
                at = receive(turns, count)
            held_rows = rows_of(tile, form).many if form.page else 1
            entries = fx.make_rmem_tensor(fx.make_layout(held_rows, 1), fx.Int32)
            while at < tiles:
                taken = at
                if fx.const_expr(form.dynamic):
                    if leads:
                        taken = fx.Int32(fx.atomic_add(cast("fx.Pointer", counters), 1, syncscope="device"))
                        if fx.const_expr(not told):
                            publish(turns, count, at)
                work = position(at, blocks, numbers, lengths)
                low, high = steps_of(work, tile, form, numbers)
                if high > low:
                    empty_q.wait(phase_q)
                    phase_q = phase_q ^ 1
                    row = work.first_query + work.block * tile.m
                    batch = fx.Int32(0) if form.packed_q else work.batch
                    if leads if asks == 1 else fx.nvgpu.leader(tid):
                        full_q.expect_tx(tile.size * tile.m * tile.d)
                        fetch(load_q, base_q, full_q, row, work.head, batch, tile.m, tile.d, tile.size)
                    kv_head = work.head // numbers.group
                    batch = fx.Int32(0) if form.packed_k else work.batch
                    if fx.const_expr(form.page):
                        look_up(entries, high - 1, work, table, numbers, tile, form)
                    for i in range(high - low):
                        step = high - 1 - i
                        row = work.first_key + step * tile.n
                        pages = [entries[j] for j in range(held_rows)] if form.page else []
                        if fx.const_expr(form.page):
                            look_up(entries, step - 1, work, table, numbers, tile, form)
                        place_k, place_v = base_k + stage * (tile.n * tile.d), base_v + stage * (tile.n * tile.columns)
                        fx.ktrace.range_push("wait empty")
                        empty_k[stage].wait(phase)
                        fx.ktrace.range_pop()
                        fx.ktrace.range_push("issue keys")
                        if fx.const_expr(form.by_threads):
                            bring_rows(
                                of_keys, place_k, full_k[stage], step * tile.n, kv_head, work, pages, numbers, tile,
                                form, tile.d,
                            )  # fmt: skip
                        else:
                            if leads:
                                full_k[stage].expect_tx(tile.size * tile.n * tile.d)
                            if fx.const_expr(form.page):
                                ask_pages(
                                    map_k, place_k, full_k[stage], row, kv_head, pages, numbers, tile, form, tile.d
                                )  # fmt: skip
                            else:
                                fetch(map_k, place_k, full_k[stage], row, kv_head, batch, tile.n, tile.d, tile.size)
                        fx.ktrace.range_pop()
                        fx.ktrace.range_push("wait empty")
                        empty_v[stage].wait(phase)
                        fx.ktrace.range_pop()
                        fx.ktrace.range_push("issue values")
                        if fx.const_expr(form.by_threads):
                            bring_rows(
                                of_values, place_v, full_v[stage], step * tile.n, kv_head, work, pages, numbers, tile,
                                form, tile.dv,
                            )  # fmt: skip
                        else:
                            if leads:
                                full_v[stage].expect_tx(tile.size * tile.n * tile.dv)
                            if fx.const_expr(tile.fp8):
                                if leads:
                                    line = kv_head * numbers.value_steps
                                    line = line + first_step(work, tile.n, numbers, form.packed_k)
                                    width = span(tile.n, 1)
                                    fetch_turned(
                                        map_v, place_v, full_v[stage], line + step, tile.n, tile.columns, width
                                    )  # fmt: skip
                            elif fx.const_expr(form.page):
                                ask_pages(
                                    map_v, place_v, full_v[stage], row, kv_head, pages, numbers, tile, form, tile.dv
                                )  # fmt: skip
                            else:
                                fetch(map_v, place_v, full_v[stage], row, kv_head, batch, tile.n, tile.dv)
                        fx.ktrace.range_pop()
                        stage = stage + 1
                        if stage == stages:
                            stage = fx.Int32(0)
                            phase = phase ^ 1
                # Asked for when the tile began, and not waited for before it ends.
                if fx.const_expr(told):
                    if leads:
                        publish(turns, count + 1, stride + taken)
                    at = receive(turns, count + 1)
                else:
                    if fx.const_expr(form.dynamic and asks > 1):
                        taken = fx.shuffle_idx(taken, 0, 32)
                    at = stride + taken
                count = count + 1
            if fx.const_expr(form.dynamic):
                if leads:
                    if fx.const_expr(not told):
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
        scores_mma = fx.make_tiled_mma(fx.make_mma_atom(nv.WGMMA(tile.n, tile.depth, dtype)), alone)
        kind = fx.Float8E4M3FN if tile.fp8 else dtype
        major = "k" if tile.fp8 else "mn"
        queries, keys, values = operands(base_q, base_k, base_v, consumer, tile)
        first_mma = scores_mma.get_slice(0)
        parts_q, parts_k = first_mma.partition_A(queries), first_mma.partition_B(keys)
        scores = fx.make_rmem_tensor(results(tile.n), fx.Float32)
        pack = 4 // tile.size
        operand = fx.make_layout(((pack, 2, 2), 1, 1), ((1, pack, 2 * pack), 0, 0))
        weights = [fx.make_rmem_tensor(operand, kind) for _ in range(tile.n // tile.depth)]
        sums = fx.make_rmem_tensor(results(tile.columns), fx.Float32)
        parts: list[Part] = []
        for (start, columns), some in zip(tile.parts, values, strict=True):
            atom = nv.WGMMA(columns, tile.depth, kind, b=dtype, a_from="registers", major_b=major)
            values_mma = fx.make_tiled_mma(fx.make_mma_atom(atom), alone)
            mine = fx.make_view(fx.get_iter(sums) + start // 2, results(columns))
            step = fx.make_rmem_tensor(results(columns), fx.Float32) if tile.apart else mine
            parts.append(Part(values_mma, values_mma.get_slice(0).partition_B(some), step, mine))
        highest, total, factors = (fx.make_rmem_tensor(fx.make_layout(2, 1), fx.Float32) for _ in range(3))
        scale = Scale(numbers.factor, fx.Float32(-1e30) / numbers.factor)
        everyone = Consumer(
            tile, form, numbers, scale, member, consumer, scores_mma,
            parts_q, parts_k, parts, scores, weights, sums, highest, total, factors,
            Pipe(full_k, empty_k), Pipe(full_v, empty_v), base_v, base_out, store_out,
            held + (tid - 128), fx.Float32(1.0) if drop is None else drop.factor, drop,
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
            me = with_factors(everyone, Factors(descale_q, descale_k, descale_v, places), work)
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
            fx.ktrace.range_push("store")
            if fx.const_expr(whole is not None):
                if numbers.splits == 1:
                    finalize_whole(me, cast("Whole", whole), whole_lse, whole_sinks, top, work)
                else:
                    finalize(me, out, lse, sinks, top, work)
            else:
                finalize(me, out, lse, sinks, top, work)
            fx.ktrace.range_pop()
            count = count + 1
            if fx.const_expr(form.dynamic):
                at = receive(turns, count)
            else:
                at = at + stride
        if fx.const_expr(form.engine):
            if fx.nvgpu.leader(member):
                nv.tma_wait(0)
        if fx.const_expr(tile.pingpong and tile.consumers > 1):
            if consumer == 0:
                nv.named_barrier(1, 256).sync()


def finalize_whole(
    me: Consumer, whole: Whole, lse: fx.Pointer | None, sinks: fx.Pointer | None, top: fx.Int32, work: Work
) -> None:
    """Of keys in one part: what `finalize` gives is the result, and nothing is left to combine."""
    numbers = me.numbers._replace(out_row=whole.row, out_head=whole.head, out_batch=whole.batch)
    finalize(me._replace(numbers=numbers), whole.out, lse, sinks, top, work)


@flyc.jit
def fill_ones(base_v: fx.Pointer, tid: fx.Int32, tile: Tile):
    """Ones behind the columns of all stages of values, which fetches leave alone."""
    width = span(tile.n, 1)
    behind = (tile.columns - tile.dv) * width
    for i in range(tid, tile.stages * (tile.n // width) * behind, tile.threads):
        box = i // behind
        base_v[box * (tile.columns * width) + tile.dv * width + i % behind] = base_v.dtype(1.0)
    fx.nvgpu.fence_proxy_async()


def operands(
    base_q: fx.Pointer, base_k: fx.Pointer, base_v: fx.Pointer, consumer: fx.Int32, tile: Tile
) -> tuple[fx.Tensor, fx.Tensor, list[fx.Tensor]]:
    """A consumer's queries (64, d), all stages of keys (n, d, stage), and of values as (dv, n, stage), in parts."""
    m, n, d, dv, wide, wide_v = tile.m, tile.n, tile.d, tile.dv, span(tile.d, tile.size), span(tile.dv)
    pattern, pattern_v = swizzle(tile.size * wide), swizzle(2 * wide_v)
    queries = fx.make_view(
        fx.apply_swizzle(base_q + consumer * (64 * wide), pattern),
        fx.make_layout((64, (wide, d // wide)), (wide, (1, m * wide))),
    )
    keys = fx.make_view(
        fx.apply_swizzle(base_k, pattern),
        fx.make_layout((n, (wide, d // wide), tile.stages), (wide, (1, n * wide), n * d)),
    )
    if tile.fp8:
        width, dv = span(n, 1), tile.columns
        places = ((width, n // width), tile.stages), ((1, dv * width), n * dv)
        turned = [
            fx.make_view(
                fx.apply_swizzle(base_v + start * width, swizzle(width)),
                fx.make_layout((columns, *places[0]), (width, *places[1])),
            )
            for start, columns in tile.parts
        ]
        return queries, keys, turned
    values = fx.make_view(
        fx.apply_swizzle(base_v, pattern_v),
        fx.make_layout(((wide_v, dv // wide_v), n, tile.stages), ((1, n * wide_v), wide_v, n * dv)),
    )
    return queries, keys, [values]


def results(columns: int) -> fx.Layout:
    """A thread's part of a product's result."""
    return fx.make_layout(((2, 2, columns // 8), 1, 1), ((1, 2, 4), 0, 0))


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
    table: fx.Tensor | None,
    counters: fx.Tensor | None,
    turned: fx.Tensor | None,
    descale_q: fx.Tensor | None,
    descale_k: fx.Tensor | None,
    descale_v: fx.Tensor | None,
    batch_descale_q: fx.Int32,
    head_descale_q: fx.Int32,
    share_descale_q: fx.Int32,
    batch_descale_k: fx.Int32,
    head_descale_k: fx.Int32,
    batch_descale_v: fx.Int32,
    head_descale_v: fx.Int32,
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
    splits: fx.Int32,
    split_out: fx.Int64,
    split_lse: fx.Int64,
    page: fx.Int32,
    table_row: fx.Int32,
    together: fx.Int32,
    right: fx.Int32,
    left: fx.Int32,
    factor: fx.Float32,
    inner: fx.Float32,
    blocks: fx.Int32,
    seed: fx.Int64,
    cut: fx.Int64,
    kept: fx.Float32,
    tile: fx.Constexpr[Tile],
    form: fx.Constexpr[Form],
    final: fx.Tensor | None = None,
    final_lse: fx.Tensor | None = None,
    final_sinks: fx.Tensor | None = None,
    many: fx.Constexpr[bool] = False,
    stream: fx.Stream = fx.Stream(None),
):
    """Strides are in elements: of rows, of heads and of the batch. `rows_*` and `batches_*` are those of the arrays;
    `queries`, `keys` and `batches` those of the sequences, the longest where they differ. `counters` are two zeros.

    Where keys are split, `out` and `lse` are those of the parts, in one piece, which `combine` puts together in
    `final`: that is what the strides are of.
    """
    to_row, to_head, to_batch = row_out, head_out, batch_out
    if fx.const_expr(final is not None):
        to_row, to_head = fx.Int64(tile.dv), fx.Int64(queries) * tile.dv
        to_batch = fx.Int64(heads) * to_head
    load_q = load_map(q, rows_q, tile.d, heads, batches_q, (row_q, head_q, batch_q), tile.m)
    # A single consumer has all queries of a head.
    box, once = form.page or tile.n, tile.consumers == 1
    load_k, load_v, sources, value_steps = None, None, None, fx.Int32(0)
    if fx.const_expr(form.by_threads):
        sources = Source(fx.get_iter(k), row_k, head_k, batch_k), Source(fx.get_iter(v), row_v, head_v, batch_v)
    else:
        load_k = load_map(k, rows_k, tile.d, kv_heads, batches_k, (row_k, head_k, batch_k), box, once)
        if fx.const_expr(turned is None):
            load_v = load_map(v, rows_k, tile.dv, kv_heads, batches_k, (row_v, head_v, batch_v), box, once)
        else:
            value_steps = steps_of_head(keys, rows_k, batches, tile.n, form.packed_k)
            load_v = turned_map(turned, kv_heads * value_steps, tile, once)
    store_out = None
    if fx.const_expr(form.engine):
        whole = fx.make_layout((queries, tile.dv, heads, batches), (row_out, 1, head_out, batch_out))
        box = (64, span(tile.dv), 1, 1)
        view = fx.make_view(fx.get_iter(out), whole)
        store_out = fx.nvgpu.make_tma_atom(fx.nvgpu.TMAStore(), view, None, box, swizzle=2 * span(tile.dv))
    numbers = Numbers(
        queries, keys, heads, heads // kv_heads, batches, together, right, left, factor, inner, to_row, to_head,
        to_batch, head_lse, batch_lse, splits, split_out, split_lse, page, table_row, value_steps,
    )  # fmt: skip
    whole, whole_lse, whole_sinks = None, None, None
    if fx.const_expr(form.picks):
        whole = Whole(fx.get_iter(cast("fx.Tensor", final)), row_out, head_out, batch_out)
        whole_lse, whole_sinks = pointer_of(final_lse), pointer_of(final_sinks)
    places = Places(
        batch_descale_q, head_descale_q, share_descale_q, batch_descale_k, head_descale_k, batch_descale_v,
        head_descale_v,
    )  # fmt: skip
    attention_kernel(
        load_q, load_k, load_v, sources, store_out, fx.get_iter(out), pointer_of(lse), pointer_of(sinks),
        pointer_of(cu_q), pointer_of(cu_k), pointer_of(used_k), pointer_of(table), pointer_of(counters),
        pointer_of(descale_q), pointer_of(descale_k), pointer_of(descale_v),
        Drop(seed, cut, kept) if form.dropout else None, whole, whole_lse, whole_sinks, places, q.dtype, tile,
        form, numbers,
        value_attrs={"nvvm.minctasm": tile.blocks},
    ).launch(
        grid=blocks, block=tile.threads, stream=stream, smem=tile.smem + (tile.staged if form.engine else 0)
    )  # fmt: skip
    if fx.const_expr(final is not None):
        lengths = (cu_k, used_k) if form.picks else (None, None)
        combine(
            out, cast("fx.Tensor", lse), cast("fx.Tensor", final), final_lse, final_sinks, splits, batches, queries,
            heads, batch_out, row_out, head_out, tile.dv, many, stream, *lengths,
        )  # fmt: skip
