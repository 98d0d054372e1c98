"""Products fused with what moves their operands or results between the ranks.

`all_gather_matmul`: rows of a are spread over the ranks; a tile waits for the rank whose rows it needs, beginning with
those that are here. `matmul_reduce_scatter`: the inner dimension is spread; every rank makes the tiles of others first
and tells their owners of each, which add up what all have made in the order of the ranks.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..extents import check_extents
from .reduce import check_floats
from .sync import READY, TILES, announce, count_of, launch_number, leave, row_of
from .tile import SIDE, THREADS, TILE, Shared, tile_product


@flyc.kernel
def all_gather_matmul_kernel(
    a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, flags: fx.Tensor, rank: fx.Int32, ranks: fx.Constexpr[int]
):
    shared = fx.SharedAllocator().allocate(Shared).peek()
    number = launch_number(flags, rank)
    announce(flags, rank, ranks, number)
    rows, columns = fx.Int32(c.shape.unpack()[1]), fx.Int32(c.shape.unpack()[2])
    other = (rank + fx.block_idx.z) % ranks
    if fx.thread_idx.x == 0:
        fx.dist.wait(fx.get_iter(fx.dist.peer(row_of(flags, READY), rank)) + other, number)
    fx.barrier()
    row, column = fx.block_idx.y * TILE, fx.block_idx.x * TILE
    y, x = row + fx.thread_idx.x // SIDE, column + fx.thread_idx.x % SIDE
    for down, right, value in tile_product(shared, fx.dist.peer(a, other), b, row, column, rows, columns):
        if (y + down < rows) & (x + right < columns):
            c[other, y + down, x + right] = value.to(c.dtype)
    leave(shared.last, flags, rank, ranks, number)


@flyc.kernel
def matmul_reduce_scatter_kernel(
    a: fx.Tensor,
    b: fx.Tensor,
    partial: fx.Tensor,
    out: fx.Tensor,
    flags: fx.Tensor,
    rank: fx.Int32,
    ranks: fx.Constexpr[int],
):
    shared = fx.SharedAllocator().allocate(Shared).peek()
    number = launch_number(flags, rank)
    rows, columns = fx.Int32(partial.shape.unpack()[1]), fx.Int32(partial.shape.unpack()[2])
    part = fx.ceildiv(rows, ranks)
    owner = (rank + fx.block_idx.z + 1) % ranks  # the own part comes last: by then the others have made theirs
    tile = fx.block_idx.y * fx.grid_dim.x + fx.block_idx.x
    start, count = part * owner, count_of(rows, part, owner)
    row, column = fx.block_idx.y * TILE, fx.block_idx.x * TILE
    y, x = row + fx.thread_idx.x // SIDE, column + fx.thread_idx.x % SIDE
    mine = fx.dist.peer(partial, rank)
    for down, right, value in tile_product(shared, a, b, start + row, column, start + count, columns):
        if (y + down < count) & (x + right < columns):
            mine[start + y + down, x + right] = value
    fx.barrier()
    if fx.thread_idx.x == 0:
        fx.dist.signal(fx.get_iter(fx.dist.peer(row_of(flags, TILES + tile), owner)) + rank, number)
    if owner == rank:
        if fx.thread_idx.x < ranks:
            fx.dist.wait(fx.get_iter(fx.dist.peer(row_of(flags, TILES + tile), rank)) + fx.thread_idx.x, number)
        fx.barrier()
        for down, right in ((0, 0), (0, SIDE), (SIDE, 0), (SIDE, SIDE)):
            if (y + down < count) & (x + right < columns):
                total = fx.Float32(0)
                for r in fx.range_constexpr(ranks):
                    total = total + fx.dist.peer(partial, r)[start + y + down, x + right]
                out[y + down, x + right] = total.to(out.dtype)
    leave(shared.last, flags, rank, ranks, number)


@flyc.jit
def all_gather_matmul(
    a: fx.Tensor,
    b: fx.Tensor,
    c: fx.Tensor,
    flags: fx.Tensor,
    rank: fx.Int32,
    ranks: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):
    """`c[r] = a of rank r @ b^T`: a is symmetric, `(ranks, m, k)`; b `(n, k)` and c `(ranks, m, n)` are this rank's."""
    check_extents("all_gather_matmul", a=(a, "wmk"), b=(b, "nk"), c=(c, "wmn"), flags=(flags, "wbc"))
    check_floats("all_gather_matmul", a, b, c)
    rows, columns = fx.Int32(c.shape.unpack()[1]), fx.Int32(c.shape.unpack()[2])
    grid = (fx.max(fx.ceildiv(columns, TILE), 1), fx.max(fx.ceildiv(rows, TILE), 1), ranks)
    all_gather_matmul_kernel(a, b, c, flags, rank, ranks).launch(grid=grid, block=THREADS, stream=stream)


@flyc.jit
def matmul_reduce_scatter(
    a: fx.Tensor,
    b: fx.Tensor,
    partial: fx.Tensor,
    out: fx.Tensor,
    flags: fx.Tensor,
    rank: fx.Int32,
    ranks: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):
    """`out = this rank's rows of the sum over the ranks of a @ b^T`, a `(m, k)` and b `(n, k)` of each rank.

    Parts are m / ranks rows, rounded up; the last may be shorter. `partial (ranks, m, n)` of Float32 is symmetric.
    """
    check_extents(
        "matmul_reduce_scatter",
        a=(a, "mk"),
        b=(b, "nk"),
        partial=(partial, "wmn"),
        out=(out, "pn"),
        flags=(flags, "wbc"),
    )
    check_floats("matmul_reduce_scatter", a, b, out)
    check_floats("the partial sums of matmul_reduce_scatter", partial)
    rows, columns = fx.Int32(partial.shape.unpack()[1]), fx.Int32(partial.shape.unpack()[2])
    part = fx.ceildiv(rows, ranks)
    grid = (fx.max(fx.ceildiv(columns, TILE), 1), fx.max(fx.ceildiv(part, TILE), 1), ranks)
    matmul_reduce_scatter_kernel(a, b, partial, out, flags, rank, ranks).launch(
        grid=grid, block=THREADS, stream=stream
    )


__all__ = ["all_gather_matmul", "matmul_reduce_scatter"]
