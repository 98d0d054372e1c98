"""All-gather: every rank fetches the elements of all."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..extents import check_extents
from .reduce import THREADS, check_floats, grid_of
from .sync import epoch_of, remember, row_of


@flyc.kernel
def all_gather_kernel(
    x: fx.Tensor, out: fx.Tensor, flags: fx.Tensor, rank: fx.Int32, n: fx.Int32, ranks: fx.Constexpr[int]
):
    row = row_of(flags, fx.block_idx.x)
    epoch = epoch_of(row, rank, ranks)
    fx.dist.barrier(row, rank, epoch + 1)
    for k in fx.range_constexpr(ranks):
        other = (rank + k) % ranks
        theirs = fx.dist.peer(x, other)
        for i in range(fx.block_idx.x * THREADS + fx.thread_idx.x, n, fx.grid_dim.x * THREADS):
            out[other, i] = theirs[i]
    fx.dist.barrier(row, rank, epoch + 2)
    remember(row, rank, ranks, epoch + 2)


@flyc.jit
def all_gather(
    x: fx.Tensor,
    out: fx.Tensor,
    flags: fx.Tensor,
    rank: fx.Int32,
    ranks: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):
    """`out[r] = x of rank r`: x is symmetric, `(ranks, n)`, and out an array of that shape in this rank."""
    check_extents("all_gather", x=(x, "wn"), out=(out, "wn"), flags=(flags, "wbc"))
    check_floats("all_gather", x, out)
    n = fx.Int32(x.shape.unpack()[1])
    all_gather_kernel(x, out, flags, rank, n, ranks).launch(grid=grid_of(n, flags), block=THREADS, stream=stream)


__all__ = ["all_gather"]
