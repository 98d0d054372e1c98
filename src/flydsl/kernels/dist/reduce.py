"""All-reduce and reduce-scatter over symmetric memory: sums in f32, in the order of the ranks, the same bits everywhere.

One shot: every rank adds up all elements from all ranks, which is the least waiting. Two shots: every rank adds up its
part, and then fetches the parts of the others, which is the least traffic.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError

from ..extents import check_extents
from .sync import count_of, epoch_of, remember, row_of

THREADS = 256


def _total(x: fx.Tensor, i: fx.Int32, ranks: int) -> fx.Numeric:
    """The sum of an element over the ranks."""
    wide = fx.Float64 if x.dtype.width > 32 else fx.Float32
    loaded = [wide(fx.dist.peer(x, r)[i]) for r in range(ranks)]
    found = loaded[0]
    for value in loaded[1:]:
        found = found + value
    return found


def check_floats(kernel: str, *tensors: fx.Tensor) -> None:
    """All tensors have the same type, a float."""
    for t in tensors:
        if not t.dtype.is_float or t.dtype is not tensors[0].dtype or t.dtype.width < 16:
            raise DSLTypeError(f"{kernel} takes tensors of one type, f64, f32, f16 or bf16, got {t.dtype}")


@flyc.kernel
def one_shot_kernel(
    x: fx.Tensor, out: fx.Tensor, flags: fx.Tensor, rank: fx.Int32, n: fx.Int32, ranks: fx.Constexpr[int]
):
    row = row_of(flags, fx.block_idx.x)
    epoch = epoch_of(row, rank, ranks)
    fx.dist.barrier(row, rank, epoch + 1)  # every rank's elements are there
    for i in range(fx.block_idx.x * THREADS + fx.thread_idx.x, n, fx.grid_dim.x * THREADS):
        out[i] = _total(x, i, ranks).to(out.dtype)
    fx.dist.barrier(row, rank, epoch + 2)  # and nobody reads them any more
    remember(row, rank, ranks, epoch + 2)


@flyc.kernel
def two_shot_kernel(
    x: fx.Tensor,
    sums: fx.Tensor,
    out: fx.Tensor,
    flags: fx.Tensor,
    rank: fx.Int32,
    n: fx.Int32,
    ranks: fx.Constexpr[int],
):
    row = row_of(flags, fx.block_idx.x)
    epoch = epoch_of(row, rank, ranks)
    first, step = fx.block_idx.x * THREADS + fx.thread_idx.x, fx.grid_dim.x * THREADS
    part = fx.ceildiv(n, ranks)
    fx.dist.barrier(row, rank, epoch + 1)
    own = fx.dist.peer(sums, rank)
    for i in range(first, count_of(n, part, rank), step):
        own[i] = _total(x, part * rank + i, ranks).to(out.dtype)
    fx.dist.barrier(row, rank, epoch + 2)  # blocks of this number have made the elements that this one fetches
    for k in fx.range_constexpr(ranks):
        other = (rank + k) % ranks  # not all ask the same rank at a time
        theirs = fx.dist.peer(sums, other)
        for i in range(first, count_of(n, part, other), step):
            out[part * other + i] = theirs[i]
    fx.dist.barrier(row, rank, epoch + 3)
    remember(row, rank, ranks, epoch + 3)


@flyc.kernel
def reduce_scatter_kernel(
    x: fx.Tensor, out: fx.Tensor, flags: fx.Tensor, rank: fx.Int32, n: fx.Int32, ranks: fx.Constexpr[int]
):
    row = row_of(flags, fx.block_idx.x)
    epoch = epoch_of(row, rank, ranks)
    part = fx.ceildiv(n, ranks)
    fx.dist.barrier(row, rank, epoch + 1)
    for i in range(
        fx.block_idx.x * THREADS + fx.thread_idx.x, count_of(n, part, rank), fx.grid_dim.x * THREADS
    ):
        out[i] = _total(x, part * rank + i, ranks).to(out.dtype)
    fx.dist.barrier(row, rank, epoch + 2)
    remember(row, rank, ranks, epoch + 2)


def grid_of(n: fx.Int32, flags: fx.Tensor) -> fx.Int32:
    """Blocks for n elements: as many as there are rows of flags at most, and one that meets the others at least."""
    return fx.max(fx.min(fx.ceildiv(n, THREADS), fx.Int32(flags.shape.unpack()[1])), 1)


@flyc.jit
def all_reduce_one_shot(
    x: fx.Tensor,
    out: fx.Tensor,
    flags: fx.Tensor,
    rank: fx.Int32,
    ranks: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):
    """`out = sum of x over the ranks`: x is symmetric, `(ranks, n)`, out has n elements."""
    check_extents("all_reduce_one_shot", x=(x, "wn"), out=(out, "n"), flags=(flags, "wbc"))
    check_floats("all_reduce_one_shot", x, out)
    n = fx.Int32(x.shape.unpack()[1])
    one_shot_kernel(x, out, flags, rank, n, ranks).launch(grid=grid_of(n, flags), block=THREADS, stream=stream)


@flyc.jit
def all_reduce_two_shot(
    x: fx.Tensor,
    sums: fx.Tensor,
    out: fx.Tensor,
    flags: fx.Tensor,
    rank: fx.Int32,
    ranks: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):
    """The same by way of `sums`, which is symmetric and has room for each rank's part, n / ranks rounded up."""
    check_extents("all_reduce_two_shot", x=(x, "wn"), sums=(sums, "wp"), out=(out, "n"), flags=(flags, "wbc"))
    check_floats("all_reduce_two_shot", x, sums, out)
    n = fx.Int32(x.shape.unpack()[1])
    grid = grid_of(fx.ceildiv(n, ranks), flags)
    two_shot_kernel(x, sums, out, flags, rank, n, ranks).launch(grid=grid, block=THREADS, stream=stream)


@flyc.jit
def reduce_scatter(
    x: fx.Tensor,
    out: fx.Tensor,
    flags: fx.Tensor,
    rank: fx.Int32,
    ranks: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):
    """`out = this rank's part of the sum of x`: parts are n / ranks elements, rounded up; the last may be shorter."""
    check_extents("reduce_scatter", x=(x, "wn"), out=(out, "p"), flags=(flags, "wbc"))
    check_floats("reduce_scatter", x, out)
    n = fx.Int32(x.shape.unpack()[1])
    grid = grid_of(fx.ceildiv(n, ranks), flags)
    reduce_scatter_kernel(x, out, flags, rank, n, ranks).launch(grid=grid, block=THREADS, stream=stream)


__all__ = ["all_reduce_one_shot", "all_reduce_two_shot", "reduce_scatter"]
