"""Blocks of a cluster: each other's shared memory, and what orders accesses to it."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import bug

nv = fx.nvgpu
cluster = fx.nvgpu.cluster
IN_PAIRS = {"grid": 2, "block": 32, "smem": 256, "cluster": 2, "arch": "sm_90a"}


def mine() -> fx.Tensor:
    """This block's 32 integers."""
    return fx.make_view(fx.get_dyn_shared(fx.Int32), fx.make_layout(32, 1))


@bug("race on shared memory: read of what another thread wrote", **IN_PAIRS)
@flyc.kernel
def peer_read_too_early(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """A barrier of the block is not one of the cluster."""
    t, own = fx.thread_idx.x, mine()
    own[t] = t + 1
    if fx.const_expr(mended):
        cluster.sync()
    else:
        cluster.sync()
        own[t] = t + 5
        fx.barrier()
    y[fx.block_idx.x * 32 + t] = cluster.peer(own, cluster.rank() ^ 1)[t]  # bug
    cluster.sync()


@bug("race on shared memory", **IN_PAIRS)
@flyc.kernel
def peer_writes_unseen(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """What the other block wrote here is read without waiting for it."""
    t, own = fx.thread_idx.x, mine()
    own[t] = 0
    cluster.sync()
    cluster.peer(own, cluster.rank() ^ 1)[t] = t + 1
    if fx.const_expr(mended):
        cluster.sync()
    else:
        cluster.arrive(relaxed=True)
    y[fx.block_idx.x * 32 + t] = own[t]  # bug
    if fx.const_expr(not mended):
        cluster.wait()


@bug("race on shared memory: write of what another thread read", **IN_PAIRS)
@flyc.kernel
def overwritten_under_the_peer(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """The block reuses memory that the other still reads."""
    t, own = fx.thread_idx.x, mine()
    own[t] = t + 1
    cluster.sync()
    y[fx.block_idx.x * 32 + t] = cluster.peer(own, cluster.rank() ^ 1)[t]
    if fx.const_expr(mended):
        cluster.sync()
    else:
        fx.barrier()
    own[t] = -1  # bug
    cluster.sync()


@bug("race on shared memory: write of what another thread wrote", **IN_PAIRS)
@flyc.kernel
def both_blocks_write(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t, own = fx.thread_idx.x, mine()
    own[t] = 0
    cluster.sync()
    target = cluster.rank() if fx.const_expr(mended) else cluster.rank() * 0
    cluster.peer(own, target)[t] = t + 10 * (cluster.rank() + 1)  # bug
    cluster.sync()
    y[fx.block_idx.x * 32 + t] = own[t]


@bug("read out of bounds of another block's shared memory", **{**IN_PAIRS, "smem": 128})
@flyc.kernel
def behind_the_peer(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t, own = fx.thread_idx.x, mine()
    own[t] = t + 1
    cluster.sync()
    y[fx.block_idx.x * 32 + t] = cluster.peer(own, cluster.rank() ^ 1)[t + (0 if mended else 1)]  # bug
    cluster.sync()


@bug("read of shared memory that nobody has written", **IN_PAIRS)
@flyc.kernel
def peer_never_written(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t, own = fx.thread_idx.x, mine()
    if t < (32 if mended else 31):
        own[t] = t + 1
    cluster.sync()
    y[fx.block_idx.x * 32 + t] = cluster.peer(own, cluster.rank() ^ 1)[t]  # bug
    cluster.sync()


@bug("race on shared memory: read of what another thread wrote", **IN_PAIRS)
@flyc.kernel
def remote_arrival_too_early(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Block 0 writes to block 1 and tells its mbarrier; in the bug it tells first."""
    t, own = fx.thread_idx.x, mine()
    barrier = nv.MBarrier(fx.recast_iter(fx.Int64, fx.get_iter(own) + 32))
    own[t] = 0
    if t == 0:
        barrier.init(32)
        nv.fence_mbarrier_init()
    cluster.sync()
    if cluster.rank() == 0:
        if fx.const_expr(not mended):
            barrier.arrive_remote(1)
        cluster.peer(own, 1)[t] = t + 1
        if fx.const_expr(mended):
            barrier.arrive_remote(1)
    else:
        barrier.wait(0)
        y[t] = own[t]  # bug
    cluster.sync()


@bug("race on the tensor of argument 0 ('x'): read of what another thread wrote", **IN_PAIRS)
@flyc.kernel
def global_between_blocks_of_a_cluster(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Through global memory; the cluster's barrier orders that as well."""
    t, b = fx.thread_idx.x, fx.block_idx.x
    x[b * 32 + t] = t + b + 1
    if fx.const_expr(mended):
        cluster.sync()
    else:
        fx.barrier()
    y[b * 32 + t] = x[(b ^ 1) * 32 + t]  # bug
    cluster.sync()
