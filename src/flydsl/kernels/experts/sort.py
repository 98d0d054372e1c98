"""`sort_tokens`: which rows tokens have when they are sorted by expert; the same in every run.

Blocks count their part's tokens for each expert, a scan over experts and parts tells where each part's rows begin, and
blocks deal them: a token comes behind those of its expert that are in front of it.
"""

from __future__ import annotations

from typing import cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLValueError

from ..axes.scan import scan
from ..rows.arrays import INDICES, Given, HostArray, describe, packed, vacant
from ..rows.call import more_of
from ..scalars import whole

THREADS = 256
"""Choices of a block, one for each thread."""
MOST = 12000
"""Experts whose counters shared memory has room for, on every stack."""


@flyc.kernel
def count_kernel(chosen: fx.Pointer, counts: fx.Pointer, total: fx.Int32, experts: fx.Int32):
    tid = fx.thread_idx.x
    mine = fx.get_dyn_shared(fx.Int32)
    for e in range(tid, experts, THREADS):
        mine[e] = 0
    fx.barrier()
    at = fx.block_idx.x * THREADS + tid
    expert = expert_at(chosen, at, total, experts)
    if expert >= 0:
        fx.atomic_add(mine + expert, 1)
    fx.barrier()
    for e in range(tid, experts, THREADS):
        counts[fx.Int64(e) * fx.grid_dim.x + fx.block_idx.x] = mine[e]


@flyc.kernel
def deal_kernel(
    chosen: fx.Pointer,
    begins: fx.Pointer,
    counts: fx.Pointer,
    order: fx.Pointer,
    places: fx.Pointer,
    total: fx.Int32,
    experts: fx.Int32,
):
    tid = fx.thread_idx.x
    beside = fx.SharedAllocator().allocate(fx.Array[fx.Int32, THREADS]).peek()
    at = fx.block_idx.x * THREADS + tid
    expert = expert_at(chosen, at, total, experts)
    beside[tid] = expert
    fx.barrier()
    before = fx.Int32(0)
    for i in range(tid):
        before = before + fx.Int32(beside[i] == expert)
    if at < total:
        place = fx.Int32(-1)
        if expert >= 0:
            place = begins[fx.Int64(expert) * fx.grid_dim.x + fx.block_idx.x] + before
            order[place] = at
        places[at] = place
        # Rows behind those of the last expert are nobody's.
        last = fx.Int64(experts) * fx.grid_dim.x - 1
        if at >= begins[last] + counts[last]:
            order[at] = -1


@flyc.kernel
def end_kernel(begins: fx.Pointer, counts: fx.Pointer, ends: fx.Pointer, experts: fx.Int32, parts: fx.Int32):
    expert = fx.block_idx.x * THREADS + fx.thread_idx.x
    if expert < experts:
        last = fx.Int64(expert) * parts + (parts - 1)
        ends[expert] = begins[last] + counts[last]


@flyc.jit
def expert_at(chosen: fx.Pointer, at: fx.Int32, total: fx.Int32, experts: fx.Int32):
    """The expert of a choice; -1 where there is none of that number."""
    found = fx.Int32(-1)
    if at < total:
        number = fx.Int64(chosen[at])
        if (number >= 0) & (number < fx.Int64(experts)):
            found = fx.Int32(number)
    return found


@flyc.jit
def count_tokens(
    chosen: fx.Tensor, counts: fx.Tensor, total: fx.Int32, experts: fx.Int32, stream: fx.Stream = fx.Stream(None)
):
    """counts[expert, part]: the choices of each part."""
    count_kernel(fx.get_iter(chosen), fx.get_iter(counts), total, experts).launch(
        grid=fx.ceildiv(total, THREADS), block=THREADS, smem=experts * 4, stream=stream
    )


@flyc.jit
def deal_tokens(
    chosen: fx.Tensor,
    begins: fx.Tensor,
    counts: fx.Tensor,
    order: fx.Tensor,
    places: fx.Tensor,
    ends: fx.Tensor,
    total: fx.Int32,
    experts: fx.Int32,
    stream: fx.Stream = fx.Stream(None),
):
    """The row of each choice, the choice of each row, and the end of each expert's rows."""
    parts = fx.ceildiv(total, THREADS)
    deal_kernel(
        fx.get_iter(chosen), fx.get_iter(begins), fx.get_iter(counts), fx.get_iter(order), fx.get_iter(places), total,
        experts,
    ).launch(grid=parts, block=THREADS, stream=stream)  # fmt: skip
    end_kernel(fx.get_iter(begins), fx.get_iter(counts), fx.get_iter(ends), experts, parts).launch(
        grid=fx.ceildiv(experts, THREADS), block=THREADS, stream=stream
    )


def sort_tokens(chosen: HostArray, experts: int, *, stream: object = None) -> tuple[Given, Given, Given]:
    """Tokens sorted by expert: the choice of each row, the row of each choice, and the end of each expert's rows.

    `chosen` is (tokens, k) of int32 or int64, the experts of each token. Choice i is the i-th number of it. Rows of an
    expert are in the order of the tokens. Numbers that no expert has get no row: their place is -1, and so is the
    choice of the rows that are left over. All results are int32: (tokens k), (tokens, k) and (experts).

    >>> sort_tokens(np.array([[1, 0], [2, 1]]), 3)
    (array([1, 0, 3, 2], dtype=int32), array([[1, 0],
           [3, 2]], dtype=int32), array([1, 3, 4], dtype=int32))
    """
    op = "sort_tokens"
    found = describe(op, "chosen", chosen, INDICES)
    if len(found.shape) != 2:
        raise DSLValueError(f"{op}: chosen has 2 dimensions, tokens and experts of each, got {found}")
    experts = whole(op, "experts", experts)
    if not 0 <= experts <= MOST:
        raise DSLValueError(f"{op}: there are 0 to {MOST} experts, got {experts}")
    total = found.shape[0] * found.shape[1]
    order, places, ends = (vacant(chosen, shape, "int32") for shape in ((total,), found.shape, (experts,)))
    if not (total and experts):
        for made, value in ((order, -1), (places, -1), (ends, 0)):
            cast("Given", made)[...] = value
    else:
        parts = -(-total // THREADS)
        counts: Given = vacant(chosen, (experts * parts,), "int32")
        flat, more = packed(chosen), more_of(stream)
        count_tokens(flat, counts, total, experts, **more)
        begins = scan(counts, exclusive=True, stream=stream)
        deal_tokens(flat, begins, counts, order, places, ends, total, experts, **more)
    return order, places, ends


__all__ = ["sort_tokens"]
