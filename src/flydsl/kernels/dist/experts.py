"""Tokens to the ranks of their experts and back: the two all-to-alls of a mixture of experts.

A token goes to the ranks of its k experts; experts `e // experts_per_rank` live on a rank. Rows of a rank lie at its
experts' rank in the order of its tokens, so positions do not depend on who runs first. `dispatch` notes the position of
every row, `combine` fetches the results from there and adds them up in the order of the k.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..extents import check_extents
from .reduce import check_floats
from .sync import epoch_of, remember, row_of

THREADS = 128
PARTS = 4
"""Blocks that share the columns of the rows for one rank."""


@flyc.kernel
def dispatch_kernel(
    tokens: fx.Tensor,
    experts: fx.Tensor,
    received: fx.Tensor,
    owners: fx.Tensor,
    counts: fx.Tensor,
    slots: fx.Tensor,
    flags: fx.Tensor,
    rank: fx.Int32,
    per_rank: fx.Int32,
    ranks: fx.Constexpr[int],
    k: fx.Constexpr[int],
):
    t, part = fx.thread_idx.x, fx.block_idx.y
    # Block i of a rank sends to the i-th rank behind it, and what comes to a rank is sent by blocks i as well.
    to = (rank + fx.block_idx.x) % ranks
    row = row_of(flags, part * ranks + fx.block_idx.x)
    epoch = epoch_of(row, rank, ranks)
    scan = fx.coop.BlockScan[fx.Int32, THREADS]
    shared = fx.SharedAllocator()
    scratch = shared.allocate(scan.SharedStorage).peek()
    chosen = shared.allocate(fx.Array[fx.Int32, THREADS]).peek()
    total, columns = fx.Int32(tokens.shape.unpack()[0]) * k, fx.Int32(tokens.shape.unpack()[1])
    room = fx.Int32(received.shape.unpack()[2])
    width = fx.ceildiv(columns, PARTS)
    first, last = part * width, fx.min((part + 1) * width, columns)
    fx.dist.barrier(row, rank, epoch + 1)  # what was received before has been used
    there, owned = fx.dist.peer(received, to), fx.dist.peer(owners, to)
    sent = fx.Int32(0)
    for base in range(0, total, THREADS):
        j = base + t
        goes = fx.Int32(0)
        expert = fx.Int32(-1)
        if j < total:
            expert = experts[j // k, j % k]
            known = (expert >= 0) & (expert < per_rank * ranks)
            if known & (expert // per_rank == to):
                goes = fx.Int32(1)
            if (part == 0) & (fx.block_idx.x == 0):
                if not known:
                    slots[j // k, j % k] = -1  # nobody's
        before, here = scan.exclusive_with_aggregate(goes, fx.ReductionOp.ADD, storage=scratch)
        at = sent + before
        if goes == 1:
            chosen[before] = j
            if part == 0:
                fits = at < room
                slots[j // k, j % k] = fits.select(at, fx.Int32(-1))
                if fits:
                    owned[rank, at] = expert
        fx.barrier()
        for m in range(fx.min(here, room - sent)):
            source = chosen[m] // k
            for h in range(first + t, last, THREADS):
                there[rank, sent + m, h] = tokens[source, h]
        fx.barrier()
        sent = sent + here
    if (part == 0) & (t == 0):
        fx.dist.peer(counts, to)[rank] = fx.min(sent, room)
    fx.dist.barrier(row, rank, epoch + 2)  # the blocks that send to this rank have done so
    remember(row, rank, ranks, epoch + 2)


@flyc.kernel
def combine_kernel(
    results: fx.Tensor,
    experts: fx.Tensor,
    slots: fx.Tensor,
    weights: fx.Tensor,
    out: fx.Tensor,
    flags: fx.Tensor,
    rank: fx.Int32,
    per_rank: fx.Int32,
    ranks: fx.Constexpr[int],
    k: fx.Constexpr[int],
):
    row = row_of(flags, fx.block_idx.x)
    epoch = epoch_of(row, rank, ranks)
    fx.dist.barrier(row, rank, epoch + 1)
    columns = fx.Int32(out.shape.unpack()[1])
    elements = fx.Int32(out.shape.unpack()[0]) * columns
    for i in range(fx.block_idx.x * THREADS + fx.thread_idx.x, elements, fx.grid_dim.x * THREADS):
        token, h = i // columns, i % columns
        total = fx.Float32(0)
        for j in range(k):
            slot = slots[token, j]
            if slot >= 0:  # else it had no room, or no expert
                there = fx.dist.peer(results, experts[token, j] // per_rank)
                total = total + fx.Float32(weights[token, j]) * fx.Float32(there[rank, slot, h])
        out[token, h] = total.to(out.dtype)
    fx.dist.barrier(row, rank, epoch + 2)
    remember(row, rank, ranks, epoch + 2)


@flyc.jit
def dispatch(
    tokens: fx.Tensor,
    experts: fx.Tensor,
    received: fx.Tensor,
    owners: fx.Tensor,
    counts: fx.Tensor,
    slots: fx.Tensor,
    flags: fx.Tensor,
    rank: fx.Int32,
    per_rank: fx.Int32,
    ranks: fx.Constexpr[int],
    k: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):
    """Send `tokens (t, h)` to the ranks of their `experts (t, k)`; an expert that does not exist gets nothing.

    Symmetric are `received (ranks, sources, room, h)`, the expert of each row `owners (ranks, sources, room)` and how
    many rows came, `counts (ranks, sources)`. `slots (t, k)` become the rows' positions, -1 where there was no room.
    """
    check_extents(
        "dispatch",
        tokens=(tokens, "th"),
        experts=(experts, "tk"),
        received=(received, "wsrh"),
        owners=(owners, "wsr"),
        counts=(counts, "ws"),
        slots=(slots, "tk"),
        flags=(flags, "wbc"),
    )
    check_floats("dispatch", tokens, received)
    dispatch_kernel(
        tokens, experts, received, owners, counts, slots, flags, rank, per_rank, ranks, k
    ).launch(grid=(ranks, PARTS), block=THREADS, stream=stream)


@flyc.jit
def combine(
    results: fx.Tensor,
    experts: fx.Tensor,
    slots: fx.Tensor,
    weights: fx.Tensor,
    out: fx.Tensor,
    flags: fx.Tensor,
    rank: fx.Int32,
    per_rank: fx.Int32,
    ranks: fx.Constexpr[int],
    k: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):
    """`out[t] = sum over j of weights[t, j] * the row that expert j of token t made`, for tokens with a slot.

    `results (ranks, sources, room, h)` is symmetric: each rank has written there what its experts make of the rows that
    it received, in their places.
    """
    check_extents(
        "combine",
        results=(results, "wsrh"),
        experts=(experts, "tk"),
        slots=(slots, "tk"),
        weights=(weights, "tk"),
        out=(out, "th"),
        flags=(flags, "wbc"),
    )
    check_floats("combine", results, out)
    rows, columns = (fx.Int32(n) for n in out.shape.unpack())
    blocks = fx.ceildiv(rows * columns, THREADS)
    grid = fx.max(fx.min(blocks, fx.Int32(flags.shape.unpack()[1])), 1)
    combine_kernel(results, experts, slots, weights, out, flags, rank, per_rank, ranks, k).launch(
        grid=grid, block=THREADS, stream=stream
    )


__all__ = ["combine", "dispatch"]
