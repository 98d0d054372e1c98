"""Gradients of attention on Hopper with long rows: a block holds 64 keys and values and walks along the queries, 64 at
a time, for all heads that share the keys.

As in `hopper_backward` keys are rows of all products, and weights and scores' gradients the first operands of dV and dK
in registers. Sums of 256 columns are half of a thread's registers: one consumer has dV, with scores and weights, the
other dK, with the gradients of weights and of scores (`consumers.py`). Each computes half of the columns
of dQ and adds it to sums in memory, in f32.

Blocks of a cluster have neighbouring keys, of one sequence. Each fetches half of the queries' rows for both. Of packed
sequences, clusters are counted for the longest: those behind the end of a sequence's keys have no steps.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from ...matmul.sm90.factors import advance
from ..backward_steps import Reach, sequence_of, steps_of
from ..dropout import Drop
from ..fetching import load_map
from ..rounding import UNIT, lanes_of, round_kernel, sides_kernel
from ..tile import span
from ..walk import pointer_of
from .consumers import sum_keys, sum_values
from .form import M, Wide
from .room import Room, Work

CONSUMERS = 2


@flyc.kernel
def wide_kernel(
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
    cap: fx.Float32 | None,
    drop: Drop | None,
    dtype: type[fx.Numeric],
    form: fx.Constexpr[Wide],
    reach: Reach,
):
    nv = fx.nvgpu
    tid = fx.thread_idx.x
    role = nv.uniform(tid // 128)
    width, width_v, stages, cluster = form.width, form.width_v, form.stages, form.cluster
    keys = fx.get_dyn_shared(dtype)
    values = keys + M * width
    queries = values + M * width_v
    grads = queries + stages * M * width
    slopes = grads + stages * M * width_v
    weights = fx.recast_iter(fx.Float32, slopes + M * M)
    sides = weights + M * M
    held = nv.MBarrier(fx.recast_iter(fx.Int64, sides + stages * 2 * M))
    full_q, full_g, empty_q, empty_g = (held[2 + i * stages] for i in range(4))
    if tid == 0:
        held[0].init(1)
        held[1].init(1)
        for s in fx.range_constexpr(stages):
            full_q[s].init(1)
            full_g[s].init(1)
            empty_q[s].init(CONSUMERS * cluster)
            empty_g[s].init(CONSUMERS * cluster)
    rank, mask = fx.Int32(0), None
    if fx.const_expr(cluster > 1):
        rank, mask = nv.uniform(nv.cluster.rank()), fx.Int32((1 << cluster) - 1)
        nv.cluster.arrive(relaxed=True)
        nv.cluster.wait()
    else:
        fx.barrier()
    if role == 0:
        nv.setmaxnreg(24, increase=False)
        if nv.leader(tid):
            _, head, _ = fx.block_idx
            work = work_of(form, reach, cu_q, cu_k, all_tiles)
            group, low, here = work.group, work.low, work.here
            if fx.const_expr(form.packed_q or form.packed_k):
                # Nobody waits for what there are no steps for.
                if work.steps > 0:
                    hold(load_k, load_v, keys, values, held, work)
            else:
                hold(load_k, load_v, keys, values, held, work)
            stage, phase = fx.Int32(0), fx.Int32(1)
            for i in range(work.steps * group):
                which = i // fx.max(work.steps, 1)
                row, from_head = (low + i - which * work.steps) * M, head * group + which
                line, at = here.batch_q * reach.heads + from_head, here.first_q + row
                empty_q[stage].wait(phase)
                full_q[stage].expect_tx(2 * M * width + 2 * 4 * M)
                to, side = queries + stage * (M * width), sides + stage * (2 * M)
                bring(load_q, to, full_q[stage], at, from_head, here.batch_q, width, span(width), cluster, rank, mask)
                for x in fx.range_constexpr(2 // cluster):
                    which_side = (line, rank + x, here.tile * M + row)
                    load_sides.load(which_side, side + (rank + x) * M, full_q[stage], multicast=mask)
                empty_g[stage].wait(phase)
                full_g[stage].expect_tx(2 * M * width_v)
                to = grads + stage * (M * width_v)
                box = span(width_v)
                bring(load_grad, to, full_g[stage], at, from_head, here.batch_q, width_v, box, cluster, rank, mask)
                stage, phase = advance(stage, phase, stages)
            if fx.const_expr(cluster > 1):
                # Nobody leaves while another block may still count on a barrier here, or write.
                for _ in fx.range_constexpr(stages):
                    empty_q[stage].wait(phase)
                    empty_g[stage].wait(phase)
                    stage, phase = advance(stage, phase, stages)
    else:
        nv.setmaxnreg(240, increase=True)
        room = Room(
            keys, values, queries, grads, slopes, weights, sides, held, full_q, full_g, empty_q, empty_g
        )  # fmt: skip
        if role == 1:
            sum_values(room, work_of(form, reach, cu_q, cu_k, all_tiles), drop, cap, sums, turns, dv)
        else:
            sum_keys(room, work_of(form, reach, cu_q, cu_k, all_tiles), drop, sums, turns, dk)


def work_of(
    form: Wide, reach: Reach, cu_q: fx.Pointer | None, cu_k: fx.Pointer | None, all_tiles: fx.Int32 | None
) -> Work:
    """Blocks of a cluster have the same steps."""
    block, head, batch = fx.block_idx
    here, reach = sequence_of(batch, M, cu_q, cu_k, reach)
    # What depends on this is each role's own, and not in registers where others begin.
    reach = reach._replace(queries=fx.nvgpu.uniform(reach.queries))
    if form.packed_k:
        reach = reach._replace(keys=fx.nvgpu.uniform(reach.keys))
    low, high = steps_of(block // form.cluster, form, reach, M * form.cluster)
    group = reach.heads // reach.kv_heads
    return Work(form, reach, block, head, batch, low, fx.max(high - low, 0), group, here, all_tiles)


def hold(
    load_k: fx.nvgpu.TmaAtom,
    load_v: fx.nvgpu.TmaAtom,
    keys: fx.Pointer,
    values: fx.Pointer,
    held: fx.nvgpu.MBarrier,
    work: Work,
) -> None:
    """Keys and values of the block."""
    form, here = work.form, work.here
    row, zero, wide = here.first_k + work.block * M, fx.Int32(0), span(form.width_v)
    held[0].expect_tx(2 * M * form.width)
    bring(load_k, keys, held[0], row, work.head, here.batch_k, form.width, form.box, 1, zero, None)
    held[1].expect_tx(2 * M * form.width_v)
    bring(load_v, values, held[1], row, work.head, here.batch_k, form.width_v, wide, 1, zero, None)


def bring(
    load: fx.nvgpu.TmaAtom,
    smem: fx.Pointer,
    barrier: fx.nvgpu.MBarrier,
    row: fx.Int32,
    head: fx.Int32,
    batch: fx.Int32,
    width: int,
    box: int,
    cluster: int,
    rank: fx.Int32,
    mask: fx.Int32 | None,
) -> None:
    """This block's share of 64 rows, to all blocks of the cluster."""
    first = rank * (M // cluster)
    for i in range(width // box):
        to = smem + (first * box + i * (M * box))
        load.load((row + first, i * box, head, batch), to, barrier, multicast=mask)


@flyc.jit
def hopper_backward_wide(
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
    form: fx.Constexpr[Wide],
    stream: fx.Stream = fx.Stream(None),
):
    """Gradients are contiguous. `sides` has room for two numbers of each query, rounded up to a step, and `sums` for
    `form.width` of f32 of each; `turns` are zeros, two for each head's steps, where sums have an order.

    `rows_*` and `batches_*` are those of the arrays; `queries`, `keys` and `batches` those of the sequences, the
    longest where they are packed."""
    nv, d, dim_v, cluster = fx.nvgpu, form.d, form.dv, form.cluster
    long = (rows_q // M + batches if form.packed_q else fx.ceildiv(queries, M)) * M
    lines = batches_q * heads
    box_q, box_v, rows = span(form.width), span(form.width_v), M // cluster
    load_q = load_map(q, rows_q, d, heads, batches_q, (row_q, head_q, batch_q), rows, wide=box_q)
    load_grad = load_map(grad, rows_q, dim_v, heads, batches_q, (row_grad, head_grad, batch_grad), rows, wide=box_v)
    load_k = load_map(k, rows_k, d, kv_heads, batches_k, (row_k, head_k, batch_k), M, wide=form.box)
    load_v = load_map(v, rows_k, dim_v, kv_heads, batches_k, (row_v, head_v, batch_v), M, wide=box_v)
    two = fx.make_layout((lines, 2, long), (fx.Int64(long) * 2, fx.Int64(long), 1))
    load_sides = nv.make_tma_atom(nv.TMALoad(), fx.make_view(fx.get_iter(sides), two), None, (1, 1, M))
    # Packed sequences have a line of blocks each, as long as the longest.
    all_rows = fx.ceildiv(queries, M) * M if form.packed_q else lines * long
    over = (heads, batches) if form.packed_q else ()
    sides_kernel(
        fx.get_iter(out), fx.get_iter(grad), fx.get_iter(lse), fx.get_iter(sides), fx.get_iter(sums), pointer_of(cu_q),
        form.sums, rows_q, heads, long, all_rows, batch_out, row_out, head_out, batch_grad, row_grad, head_grad,
    ).launch(grid=(fx.ceildiv(all_rows, 128 // lanes_of(dim_v)), *over), block=128, stream=stream)  # fmt: skip
    reach = Reach(queries, keys, heads, kv_heads, right, left, scale)
    wide_kernel(
        load_q, load_k, load_v, load_grad, load_sides, fx.get_iter(sums), pointer_of(turns), fx.get_iter(dk),
        fx.get_iter(dv), pointer_of(cu_q), pointer_of(cu_k), long // M if form.packed_q else None,
        softcap if form.softcap else None, Drop(seed, cut, factor) if form.dropout else None, q.dtype, form, reach,
        value_attrs={"nvvm.minctasm": 1},
    ).launch(
        grid=(fx.ceildiv(keys, M * cluster) * cluster, kv_heads, batches), block=128 * (CONSUMERS + 1),
        smem=form.smem, cluster=cluster, stream=stream,
    )  # fmt: skip
    units = fx.Int64(all_rows) * (form.width // UNIT)
    if fx.const_expr(form.dropout):
        scale = scale * factor
    round_kernel(
        fx.get_iter(sums), fx.get_iter(dq), pointer_of(cu_q), form.sums, units, long // M, rows_q, heads, scale
    ).launch(grid=(fx.Int32((units + 255) // 256), *over), block=256, stream=stream)  # fmt: skip
