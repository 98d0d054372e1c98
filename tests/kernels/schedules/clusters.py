"""Blocks of a cluster: each other's barriers and shared memory, and who may leave when."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import Array, number, pick, template

nv = fx.nvgpu
cluster = fx.nvgpu.cluster


def swapped(x: Array) -> Array:
    y = x * 0
    y[:32], y[32:64] = x[32:64], x[:32]
    return y


@template(
    {
        1: ("a block leaves before the other has arrived at its barrier", "block has ended"),
        2: ("a block leaves before the other has read its memory", "block has ended"),
        3: ("the peer's memory is read before the peer has written it", "race on shared memory"),
        4: ("the arrival goes to the own block", "race on shared memory"),
        5: ("the barrier counts a warp too many", "deadlock"),
        6: ("arrival before the write it announces", "race on shared memory"),
        7: ("only one block waits for the cluster", "deadlock"),
        8: ("remote arrival before the peer has set its barrier up", "not initialised"),
        9: ("peers write before everybody has read", "race on shared memory"),
        10: ("wait for the other parity", "race on shared memory"),
    },
    grid=2,
    block=32,
    smem=144,
    cluster=2,
    expected=swapped,
)
@flyc.kernel
def exchange(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """Every block writes its row into the other, which its barrier tells, and is read by the other."""
    t, rank = fx.thread_idx.x, cluster.rank()
    base = fx.get_dyn_shared(fx.Float32)
    mine = fx.make_view(base, fx.make_layout(32, 1))
    told = nv.MBarrier(base + 32)
    if t == 0:
        told.init(32 + 32 * number(bug == 5))
        nv.fence_mbarrier_init()
    if bug == 8:
        fx.barrier()
    else:
        cluster.sync()
    other = rank ^ 1
    if bug == 6:
        told.arrive_remote(other)
    if bug != 2:
        cluster.peer(mine, other)[t] = x[32 * rank + t]
        if bug != 6:
            told.arrive_remote(pick(bug == 4, rank, other))
        if (bug != 1) | (rank == 1):
            if bug != 3:
                told.wait(number(bug == 10))
            y[32 * rank + t] = mine[t]
    else:
        mine[t] = x[32 * rank + t]
        cluster.sync()
        if rank == 0:
            y[t] = cluster.peer(mine, 1)[t]
    if bug == 9:
        cluster.peer(mine, other)[t] = 0.0
    if (bug == 7) & (rank == 0):
        nv.named_barrier(1, 64).sync()
    elif (bug != 1) & (bug != 2):
        cluster.sync()
