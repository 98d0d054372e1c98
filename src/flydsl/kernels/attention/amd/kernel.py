"""softmax(Q K^T) V with the matrix instructions of AMD's GPUs.

Both products are computed transposed, S^T = K Q^T and O^T = V^T P^T. A lane then has one query of each 16 in both, and
its scores are, once they are weights, its part of the second product's operand: no lane moves them. What rescales sums
is one number of the lane.

A block has `rows` of queries for each of its waves, in registers, and walks along the keys. A step has two halves with
a barrier behind each:

    scores of step t from K(t)          meanwhile V(t) comes to shared memory, and V(t+1) is under way
    softmax, then sums from V(t)        meanwhile K(t+1) comes to shared memory, and K(t+2) is under way

By way of registers, these are the second stage; copies straight into shared memory have two stages there.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ...matmul.amd.kernel import meet, uniform
from ..dropout import Drop
from ..plain import Extras, Kind, Sight, Steps, one_of
from ..softmax import LN2, LOG2E, finite
from ..walk import Places, of_batch
from . import places
from .moves import Mover, Pages, Rows
from .products import LAZY, LIFT, Products, Where
from .softmax import larger
from .tile import Machine, Tile, shared_bytes, stages


class Numbers(NamedTuple):
    """What a launch is told in numbers."""

    queries: fx.Int32
    """Of each sequence, or of the longest."""
    keys: fx.Int32
    heads: fx.Int32
    group: fx.Int32
    """Heads of queries for a head of keys."""
    splits: fx.Int32
    """Parts of the keys, each with a result of its own."""
    page: fx.Int32
    table_row: fx.Int32
    alibi_batch: fx.Int32
    factor: fx.Float32
    """Of scores in front of exp2."""
    lse_head: fx.Int64
    lse_batch: fx.Int64
    out_split: fx.Int64
    lse_split: fx.Int64
    bytes_k: fx.Int32
    bytes_v: fx.Int32
    """Of all pages."""


@flyc.kernel
def amd_attention_kernel(
    q: fx.Pointer,
    k: fx.Pointer,
    v: fx.Pointer,
    out: fx.Pointer,
    lse: fx.Pointer | None,
    descale_q: fx.Pointer | None,
    descale_k: fx.Pointer | None,
    descale_v: fx.Pointer | None,
    bias: fx.Pointer | None,
    alibi: fx.Pointer | None,
    sinks: fx.Pointer | None,
    cu_q: fx.Pointer | None,
    cu_k: fx.Pointer | None,
    used_k: fx.Pointer | None,
    table: fx.Pointer | None,
    tile: fx.Constexpr[Tile],
    machine: fx.Constexpr[Machine],
    kind: fx.Constexpr[Kind],
    numbers: Numbers,
    sight: Sight,
    drop: Drop,
    by: Places,
    of_q: Steps,
    of_k: Steps,
    of_v: Steps,
    of_out: Steps,
    of_bias: Steps,
):
    rocdl, dtype = fx.rocdl, q.dtype
    extras = Extras(descale_q, descale_k, descale_v, bias, alibi, sinks, cu_q, cu_k, used_k, table)
    tid, lanes = fx.thread_idx.x, machine.lanes
    lane, wave = tid % lanes, uniform(tid // lanes)
    size, run, direct = machine.size, machine.run, machine.direct

    # --- which rows of which head ---------------------------------------------------------------------------------
    head = fx.block_idx.x
    if fx.const_expr(machine.dies > 1):
        # Heads that share keys go to one die.
        head = head % machine.dies * (numbers.heads // machine.dies) + head // machine.dies
    # The last rows have most keys.
    block = fx.grid_dim.y - 1 - fx.block_idx.y
    batch, split = fx.block_idx.z // numbers.splits, fx.block_idx.z % numbers.splits
    # Where registers are too few for all columns of the values, several blocks have some.
    column = fx.Int32(0)
    if fx.const_expr(kind.dv > tile.dv):
        column = batch % (kind.dv // tile.dv) * tile.dv
        batch = batch // (kind.dv // tile.dv)
    queries, first_q = of_batch(cu_q, batch, numbers.queries)
    keys, first_k = of_batch(cu_k, batch, numbers.keys)
    if fx.const_expr(used_k is not None):
        keys = fx.Int32(cast("fx.Pointer", used_k)[batch])
    shift, kv_head, first = keys - queries, head // numbers.group, block * tile.m
    rows = fx.min(queries - first, tile.m)
    if rows > 0:
        # --- which keys -------------------------------------------------------------------------------------------
        end, start = keys, fx.Int32(0)
        if fx.const_expr(kind.right):
            end = fx.max(fx.min(end, first + rows + shift + sight.right), 0)
        if fx.const_expr(kind.left):
            start = fx.max(first + shift - sight.left, 0) // tile.n
        stop = fx.ceildiv(end, tile.n)
        each = fx.ceildiv(fx.max(stop - start, 0), numbers.splits)
        start = fx.min(start + split * each, stop)
        stop = fx.min(stop, start + each)
        # Steps from the first of these on, and below the second, have keys that some row must not see.
        clear, always = keys // tile.n, fx.Int32(0)
        if fx.const_expr(kind.right):
            clear = fx.min(clear, fx.max(first + shift + sight.right + 1, 0) // tile.n)
        if fx.const_expr(kind.left):
            always = fx.ceildiv(fx.max(first + rows - 1 + shift - sight.left, 0), tile.n)

        # --- queries, keys and values -----------------------------------------------------------------------------
        row_q, row_k, row_v, row_out = (fx.Int32(x.row) for x in (of_q, of_k, of_v, of_out))
        here = q + (fx.Int64(batch) * of_q.batch + fx.Int64(first_q + first) * of_q.row + fx.Int64(head) * of_q.head)
        asked = rocdl.make_buffer_ptr(here, ((rows - 1) * row_q + tile.d) * size)
        here_k, here_v = k + fx.Int64(kv_head) * of_k.head, v + (fx.Int64(kv_head) * of_v.head + column)
        pages = None
        if fx.const_expr(kind.page):
            line = cast("fx.Pointer", table) + batch * numbers.table_row
            reach_k = numbers.bytes_k - kv_head * fx.Int32(of_k.head) * size
            reach_v = numbers.bytes_v - (kv_head * fx.Int32(of_v.head) + column) * size
            pages = Pages(line, numbers.page, fx.Int32(of_k.batch), fx.Int32(of_v.batch), reach_k, reach_v)
        else:
            here_k = here_k + (fx.Int64(batch) * of_k.batch + fx.Int64(first_k) * of_k.row)
            here_v = here_v + (fx.Int64(batch) * of_v.batch + fx.Int64(first_k) * of_v.row)
        pool = fx.SharedAllocator().allocate(fx.Array[dtype, shared_bytes(tile, machine) // size, 128]).peek()
        shared = fx.get_iter(pool.view(fx.make_layout(1, 1)))
        mover = Mover(tile, machine, tid, wave, shared, Rows(here_k, row_k), Rows(here_v, row_v), keys, pages)
        own = wave * tile.rows + lane % 16
        """The lane's first row."""
        where = Where(first + own, queries, keys, batch, head, numbers.heads)
        made = Products(tile, machine, kind, dtype, (mover.cut_k, mover.cut_v), lane, where)
        made.ask(asked, row_q, own)
        factor, scale = numbers.factor, sight.scale
        if fx.const_expr(descale_q is not None or descale_k is not None):
            scales = one_of(descale_q, batch * by.batch_q + head // by.share * by.head_q)
            scales = scales * one_of(descale_k, batch * by.batch_k + kv_head * by.head_k)
            factor, scale = factor * scales, scale * scales
        changes = kind.softcap or bias is not None or alibi is not None
        if fx.const_expr(changes):
            factor = fx.Float32(1.0)
        lazy = LAZY[size] / factor

        # --- the walk ---------------------------------------------------------------------------------------------
        busy = wave * tile.rows < rows
        if fx.const_expr(direct):
            for i in fx.range_constexpr(2):
                mover.look_up("k", start + i)
                mover.copy_keys(start + i, i)
                mover.look_up("v", start + i)
                mover.copy_values(start + i, i)
            arrive(mover.moved + len(mover.lines_v))
            mover.look_up("k", start + 2)
            mover.look_up("v", start + 2)
        else:
            mover.look_up("k", start)
            mover.look_up("v", start)
            mover.load_keys(start)
            mover.load_values(start)
            # In the order of the loop: it is waited for by counting.
            rocdl.sched_barrier(0)
            mover.look_up("k", start + 1)
            mover.look_up("v", start + 1)
            mover.write_keys()
            mover.load_keys(start + 1)
            mover.look_up("k", start + 2)
            meet(machine.wait)
        # A step for each stage of shared memory: no address in it is computed anew.
        for turn in range(start, stop, stages(machine)):
            for stage in fx.range_constexpr(stages(machine)):
                step = turn + stage
                if step < stop:
                    if fx.const_expr(not direct):
                        mover.write_values()
                        mover.load_values(step + 1)
                        mover.look_up("v", step + 2)
                    if busy:
                        made.find_scores(mover.shared_k + stage * mover.cut_k.elements)
                    if fx.const_expr(direct):
                        arrive(mover.moved)
                        mover.copy_keys(step + 2, stage)
                        mover.look_up("k", step + 3)
                    else:
                        meet(machine.wait)
                        mover.write_keys()
                        mover.load_keys(step + 2)
                        mover.look_up("k", step + 3)
                    if busy:
                        begin = step * tile.n
                        if fx.const_expr(changes):
                            made.change(begin, scale, extras, sight, of_bias, numbers.alibi_batch)
                        elif (step >= clear) | (step < always):
                            made.mask(begin, sight)
                        tops = made.largest()
                        if made.grows(tops):
                            made.grow(tops, factor, lazy)
                        weights = made.weigh(begin, factor, drop)
                        made.add_values(mover.shared_v + stage * mover.cut_v.elements, weights)
                    if fx.const_expr(direct):
                        arrive(mover.moved)
                        mover.copy_values(step + 2, stage)
                        mover.look_up("v", step + 3)
                    else:
                        meet(machine.wait)
        if fx.const_expr(direct):
            # Nothing comes to shared memory that another block may have by then.
            rocdl.s_waitcnt(vmcnt=0)

        # --- results ----------------------------------------------------------------------------------------------
        scale_v = one_of(descale_v, batch * by.batch_v + kv_head * by.head_v)
        there = out + (
            fx.Int64(split) * numbers.out_split + fx.Int64(batch) * of_out.batch
            + fx.Int64(first_q + first) * of_out.row + fx.Int64(head) * of_out.head + column
        )  # fmt: skip
        width = out.dtype.width // 8
        result = rocdl.make_buffer_ptr(there, ((rows - 1) * row_out + tile.dv) * width)
        stored = min(run, 16 // width)
        store = fx.make_copy_atom(rocdl.BufferCopy(stored * out.dtype.width), out.dtype)
        part = lane // 16
        for i in fx.range_constexpr(tile.rows // 16):
            whole, addend = made.result(i)
            share, none = fx.Float32(1.0), whole == 0.0
            if fx.const_expr(size == 1):
                whole, share = whole * 2.0**-LIFT, fx.Float32(2.0**-LIFT)
            top = none.select(fx.Float32(float("-inf")), made.lift - addend)
            if fx.const_expr(sinks is not None):
                sink = fx.Float32(cast("fx.Pointer", sinks)[head]) * LOG2E
                above = larger(top, sink)
                less = none.select(fx.Float32(0.0), fx.exp2(top - finite(above)))
                whole = whole * less + fx.exp2(sink - finite(above))
                share, top, none = share * less, above, whole == 0.0
            share = none.select(fx.Float32(0.0), share * scale_v / none.select(fx.Float32(1.0), whole))
            line = own + 16 * i
            if fx.const_expr(lse is not None):
                if (part == 0) & (column == 0) & (line < rows):
                    height = (top + fx.log2(none.select(fx.Float32(1.0), whole))) * LN2
                    place = fx.Int64(split) * numbers.lse_split + fx.Int64(batch) * numbers.lse_batch
                    place = place + fx.Int64(head) * numbers.lse_head + (first_q + first + line)
                    cast("fx.Pointer", lse)[place] = none.select(fx.Float32(float("-inf")), height)
            for j in fx.range_constexpr(tile.dv // 16):
                values = made.sums[i][j].load()
                for e in fx.range_constexpr(0, run, stored):
                    some = [values[e + x] * share for x in range(stored)]
                    piece = places.held(fx.Vector.from_elements(some, fx.Float32).to(out.dtype))
                    at = line * row_out + (16 * j + part * run + e)
                    fx.copy_atom_call(store, piece, fx.make_view(result + at, piece.layout))


def arrive(later: int) -> None:
    """This wave's copies are there but for so many, and it has read all it wanted; then all waves."""
    fx.rocdl.s_waitcnt(vmcnt=later, lgkmcnt=0)
    fx.rocdl.s_barrier()
