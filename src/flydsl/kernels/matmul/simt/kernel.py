"""D = f(X Y sx sy + bias) of float32 by FMA, for NVIDIA GPUs from sm_80 on: any extents, any strides, every sum in the
order of K.

A thread has a tile of the result in registers, a warp 4 x 8 threads. Steps along K come by `cp.async`, some ahead, with
zeros for what lies outside (`sides.py`). Where K is cut, slices' sums go to memory, and the last block to come adds
them up in the order of K.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..groups import TABLE_BYTES
from .groups import Sought, find_tile
from .out import Out, store_tile
from .sides import Side, Strides
from .sums import Slices, finish_slice
from .tile import HIGH, QUAD, WIDE, Form, Tile, lane_places, shared_bytes, stage_elements


class Given(NamedTuple):
    """Extents at run time, and how the result is dealt: `group` rows of tiles are walked together."""

    m: fx.Int32
    n: fx.Int32
    k: fx.Int32
    group: fx.Int32
    slices: fx.Int32


@flyc.kernel
def simt_kernel(
    x: fx.Pointer,
    y: fx.Pointer,
    c: fx.Pointer,
    bias: fx.Tensor | None,
    scale_x: fx.Tensor | None,
    scale_y: fx.Tensor | None,
    scale_out: fx.Tensor | None,
    work: fx.Pointer | None,
    counters: fx.Pointer | None,
    tile: fx.Constexpr[Tile],
    form: fx.Constexpr[Form],
    given: Given,
    strides_x: Strides,
    strides_y: Strides,
    strides_c: Strides,
    offsets: fx.Pointer | None,
    groups: fx.Int32 | None,
):
    nv = fx.nvgpu
    tid = fx.thread_idx.x
    warp, lane = nv.uniform(tid // 32), tid % 32
    down, across = fx.ceildiv(given.m, tile.m), fx.ceildiv(given.n, tile.n)
    tiles = down * across
    number, batch = fx.block_idx.x % tiles, fx.block_idx.x // tiles
    which = fx.Int32(0)
    if fx.const_expr(form.split):
        which, batch = batch % given.slices, batch // given.slices
    base = fx.get_dyn_shared(fx.Float32)
    rows, k = given.m, given.k
    # Groups of rows of tiles, each walked down and then across: what runs at the same time has both operands in common.
    per = given.group * across
    top = number // per * given.group
    high = fx.min(down - top, given.group)
    # The same for all of a block: they are in registers that threads have in common.
    row, column = nv.uniform((top + number % per % high) * tile.m), nv.uniform(number % per // high * tile.n)
    batch, which = nv.uniform(batch), nv.uniform(which)
    if fx.const_expr(form.grouped):
        wait_for_others(form)
        sought = Sought(
            cast("fx.Pointer", offsets), cast("fx.Int32", groups), given.m, given.n, given.k, given.group, tile.m,
            tile.n,
        )  # fmt: skip
        found = find_tile(sought, fx.block_idx.x, base, form.table)
        row, column, rows, batch, k = (nv.uniform(value) for value in found)
        if fx.const_expr(form.by_group):
            scale_y = cast("fx.Tensor", scale_y)[batch, None]
    of_x, of_c = (fx.Int32(0), fx.Int32(0)) if form.grouped else (batch, batch)

    base_y = base + tile.stages * stage_elements(form.x, tile.m, tile.depth)
    lane_x, lane_y = lane_places(lane)
    warp_x, warp_y = warp // tile.wide, warp % tile.wide
    sides = (
        Side(form.x, tile, tile.m, x + fx.Int64(of_x) * strides_x.batch, strides_x, row, rows, base).seen_by(
            warp_x, lane_x, HIGH, tile.rows
        ),
        Side(form.y, tile, tile.n, y + fx.Int64(batch) * strides_y.batch, strides_y, column, given.n, base_y).seen_by(
            warp_y, lane_y, WIDE, tile.columns
        ),
    )
    acc = fx.make_rmem_tensor(fx.make_layout((tile.columns, tile.rows), (1, tile.columns)), fx.Float32)
    acc.fill(0.0)
    if fx.const_expr(not form.grouped):
        wait_for_others(form)

    steps = fx.ceildiv(k, tile.depth)
    begin, end = fx.Int32(0), steps
    if fx.const_expr(form.split):
        share = fx.ceildiv(steps, given.slices)
        begin = nv.uniform(fx.min(share * which, steps))
        end = nv.uniform(fx.min(begin + share, steps))
    for stage in fx.range_constexpr(tile.stages - 1):
        if begin + stage < end:
            fetch(sides, fx.Int32(stage), (begin + stage) * tile.depth, k)
        nv.cp_async_commit()
    slot, free = fx.Int32(0), fx.Int32(tile.stages - 1)
    for step in range(begin, end):
        nv.cp_async_wait(tile.stages - 2)
        fx.barrier()
        if step + (tile.stages - 1) < end:
            fetch(sides, free, (step + (tile.stages - 1)) * tile.depth, k)
        nv.cp_async_commit()
        multiply(acc, sides, slot, tile)
        free = slot
        slot = (slot == tile.stages - 1).select(fx.Int32(0), slot + 1)
    nv.cp_async_wait(0)

    place = c + fx.Int64(of_c) * strides_c.batch
    out = Out(place, strides_c, bias, scale_x, scale_y, scale_out, form, rows, given.n)
    if fx.const_expr(form.split):
        flag = fx.recast_iter(fx.Int32, base_y + tile.stages * stage_elements(form.y, tile.n, tile.depth))
        unit = batch * tiles + number
        slices = Slices(
            cast("fx.Pointer", work) + fx.Int64(unit * given.slices) * tile.size, cast("fx.Pointer", counters) + unit,
            flag, which, given.slices,
        )  # fmt: skip
        finish_slice(out, acc, slices, sides, tile)
    else:
        store_tile(out, acc, sides, tile)


def wait_for_others(form: Form) -> None:
    """Until the launch in front is done, where this one began before; nothing is read or written before that."""
    if form.overlap:
        fx.nvgpu.griddepcontrol_wait()
        fx.nvgpu.griddepcontrol_launch()


def fetch(sides: tuple[Side, Side], slot: fx.Int32, at: fx.Int32, k: fx.Int32) -> None:
    """A step of both operands from `at` on."""
    for side in sides:
        side.fetch(slot, at, k)


def multiply(acc: fx.Tensor, sides: tuple[Side, Side], slot: fx.Int32, tile: Tile) -> None:
    """A stage, four places of K at a time; the next four are read while these are multiplied."""
    x, y = (side.stage(slot) for side in sides)
    sums = [acc[None, i].load() for i in range(tile.rows)]
    coming = sides[0].read(x, 0), sides[1].read(y, 0)
    for at in range(0, tile.depth, QUAD):
        rows, columns = coming
        if at + QUAD < tile.depth:
            coming = sides[0].read(x, at + QUAD), sides[1].read(y, at + QUAD)
        for q in range(QUAD):
            line = columns.vector(q)
            for i in range(tile.rows):
                sums[i] = fx.fma(fx.Vector.filled(tile.columns, rows.value(i, q), fx.Float32), line, sums[i])
    for i in range(tile.rows):
        acc[None, i].store(sums[i])


@flyc.jit
def simt(
    x: fx.Tensor,
    y: fx.Tensor,
    c: fx.Tensor,
    bias: fx.Tensor | None,
    scale_x: fx.Tensor | None,
    scale_y: fx.Tensor | None,
    work: fx.Tensor | None,
    counters: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    batches: fx.Int32,
    row_x: fx.Int64,
    depth_x: fx.Int64,
    batch_x: fx.Int64,
    row_y: fx.Int64,
    depth_y: fx.Int64,
    batch_y: fx.Int64,
    row_c: fx.Int64,
    column_c: fx.Int64,
    batch_c: fx.Int64,
    group: fx.Int32,
    slices: fx.Int32,
    tile: fx.Constexpr[Tile],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
    scale_out: fx.Tensor | None = None,
    offsets: fx.Tensor | None = None,
):
    """C (m, n) = f(X Y^T) for X (m, k) and Y (n, k) of float32, in batches; strides in elements, whatever they are.

    `form` says how operands come: `DEEP` needs a stride of 1 along k and rows of 16-byte units, `ALONG` a stride of 1
    from row to row and the same along k. With `form.split` K is cut into `slices`: `work` has room for as many tiles'
    sums as there are tiles and slices, and `counters` a zero for each tile, which are left as they were found.
    With `form.grouped` X and C have no batch, and Y has a matrix for each of `batches` groups of rows, which end at
    `offsets`; `form.by_group` with scales of its own, the groups in front.
    """
    blocks = fx.ceildiv(m, tile.m) * fx.ceildiv(n, tile.n) * batches
    if fx.const_expr(form.grouped):
        blocks = (fx.ceildiv(m, tile.m) + fx.min(batches, m)) * fx.ceildiv(n, tile.n)
    if fx.const_expr(form.split):
        blocks = blocks * slices
    one = fx.Int64(1)
    given = Given(m, n, k, group, slices)
    strides_x = Strides(one if form.x == "along" else row_x, one if form.x == "deep" else depth_x, batch_x)
    strides_y = Strides(one if form.y == "along" else row_y, one if form.y == "deep" else depth_y, batch_y)
    strides_c = Strides(row_c, one if form.quads else column_c, batch_c)
    simt_kernel(
        fx.get_iter(x), fx.get_iter(y), fx.get_iter(c), bias, scale_x, scale_y, scale_out,
        None if work is None else fx.get_iter(work), None if counters is None else fx.get_iter(counters), tile, form,
        given, strides_x, strides_y, strides_c, None if offsets is None else fx.get_iter(offsets),
        batches if form.grouped else None, value_attrs={"nvvm.minctasm": tile.fits},
    ).launch(
        grid=blocks, block=tile.threads, stream=stream, pdl=form.overlap,
        smem=max(shared_bytes(tile, form), TABLE_BYTES if form.table else 0),
    )  # fmt: skip
