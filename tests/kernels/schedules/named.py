"""Named barriers, registers that warps trade, loops of different length: hangs without an mbarrier."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import Array, number, pick, template

nv = fx.nvgpu
TURNS = 3


def handed_over(x: Array) -> Array:
    y = x * 0
    y[: 32 * TURNS] = x[: 32 * TURNS]
    return y


@template(
    {
        1: ("consumer waits at the other barrier", "deadlock"),
        2: ("producer forgets to arrive in the last turn", "deadlock"),
        3: ("producer does not wait for the slot to be free", "deadlock"),
        4: ("consumer frees the slot before it reads", "race on shared memory"),
        5: ("both warps wait for each other first", "deadlock"),
        6: ("barrier told of a warp that never comes", "deadlock"),
        7: ("consumer does a turn too few", "deadlock"),
        8: ("producer tells before it writes", "race on shared memory"),
        9: ("arrivals at a barrier that is told of fewer threads", "deadlock"),
    },
    block=96,
    expected=handed_over,
)
@flyc.kernel
def two_named_barriers(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """Warp 0 writes, warp 1 reads, through one slot; warp 2 has nothing to do with it."""
    t = fx.thread_idx.x
    warp, lane = t // 32, t % 32
    slot = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 32]).peek()
    there, free = nv.named_barrier(1, 64), nv.named_barrier(2, 64)
    if warp == 0:
        for turn in range(TURNS):
            if bug != 3:
                if (turn != 0) | (bug == 5):
                    free.sync()
            if bug == 8:
                there.arrive()
            slot[lane] = x[32 * turn + lane]
            if bug == 6:
                nv.named_barrier(1, 96).arrive()
            elif bug == 9:
                nv.named_barrier(1, 32).arrive()
            elif (bug != 8) & ((bug != 2) | (turn != TURNS - 1)):
                there.arrive()
        if bug == 7:
            free.sync()
    elif warp == 1:
        for turn in range(TURNS - number(bug == 7)):
            if bug == 6:
                nv.named_barrier(1, 96).sync()
            else:
                nv.named_barrier(pick(bug == 1, 3, 1), 64).sync()
            if bug == 4:
                if turn != TURNS - 1:
                    free.arrive()
            y[32 * turn + lane] = slot[lane]
            if bug != 4:
                if (turn != TURNS - 1) & (bug != 3):
                    free.arrive()
        if bug == 3:
            free.arrive()


@template(
    {
        1: ("producer keeps too many registers", "deadlock"),
        2: ("consumers ask for more than there are", "deadlock"),
        3: ("producer gives registers back only when consumers have begun", "deadlock"),
        4: ("one warpgroup never gives back", "deadlock"),
    },
    block=384,
)
@flyc.kernel
def traded_registers(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """168 registers for each of 384 threads; two warpgroups of three want more."""
    t = fx.thread_idx.x
    group = t // 128
    begun = nv.named_barrier(1, 384)
    if group == 0:
        if bug == 3:
            begun.sync()
        if bug == 1:
            nv.setmaxnreg(56, increase=False)
        elif bug != 4:
            nv.setmaxnreg(40, increase=False)
        if bug != 3:
            begun.sync()
    else:
        if bug == 2:
            nv.setmaxnreg(240, increase=True)
        else:
            nv.setmaxnreg(232, increase=True)
        begun.sync()
    y[t] = x[t]


@template(
    {
        1: ("persistent loop of uneven trip counts around a named barrier", "deadlock"),
        2: ("persistent loop of uneven trip counts around an mbarrier", "deadlock"),
        3: ("a warp leaves before a named barrier", "deadlock"),
        4: ("named barriers taken in opposite orders", "deadlock"),
        5: ("a barrier of the block while a warp waits for another", "deadlock"),
    },
    block=64,
    smem=16,
)
@flyc.kernel
def uneven_loops(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    t = fx.thread_idx.x
    warp, lane = t // 32, t % 32
    met = nv.MBarrier(fx.get_dyn_shared(fx.Int64))
    if t == 0:
        met.init(2)
    fx.barrier()
    for _ in range(3 - number((bug == 1) & (warp == 1))):
        nv.named_barrier(1, 64).sync()
    phase = fx.Int32(0)
    for _ in range(2 + number((bug == 2) & (warp == 1))):
        if lane == 0:
            met.arrive()
        met.wait(phase)
        phase = phase ^ 1
    if (bug == 3) & (warp == 1):
        y[t] = x[t]
    else:
        nv.named_barrier(2, 64).sync()
        flip = (bug == 4) & (warp == 1)
        nv.named_barrier(pick(flip, 4, 3), 64).sync()
        nv.named_barrier(pick(flip, 3, 4), 64).sync()
        if (bug == 5) & (warp == 1):
            nv.named_barrier(5, 64).sync()
        fx.barrier()
        if bug == 5:
            nv.named_barrier(5, 64).arrive()
        y[t] = x[t]
