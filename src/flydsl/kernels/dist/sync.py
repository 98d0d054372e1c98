"""How kernels on several ranks count: flags are never reset, every use of them has a larger number.

A symmetric tensor of flags has rows of one word for each rank and one more. Blocks of the same number on all ranks share
a row; its last word is the number their last meeting had, so calls follow each other with nothing in between, also in a
graph.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx


def row_of(flags: fx.Tensor, row: fx.Int32 | int) -> fx.Tensor:
    """A row of the flags of all ranks: `(world, world + 1)`."""
    return flags[None, row, None]


def epoch_of(row: fx.Tensor, rank: fx.Int32, ranks: int) -> fx.Int32:
    """The number of the last meeting at a row."""
    return fx.dist.peer(row, rank)[ranks]


@flyc.jit
def remember(row: fx.Tensor, rank: fx.Int32, ranks: fx.Constexpr[int], epoch: fx.Int32):
    """Note the number of this meeting, for the next launch."""
    if fx.thread_idx.x == 0:
        fx.dist.peer(row, rank)[ranks] = epoch


def count_of(n: fx.Int32, part: fx.Int32, rank: fx.Int32 | int) -> fx.Int32:
    """Elements of a rank's part of n, in parts of which the last ones may be shorter or empty."""
    return fx.max(fx.min(n - part * rank, part), 0)


# --- grids whose blocks do not meet -------------------------------------------------------------------------------
# Row 0: who has come; row 1: who has left; row 2: blocks that are done, then the number of the last launch.

READY, LEFT, STATE, TILES = 0, 1, 2, 3
"""Rows of the flags; those of single tiles begin at the last one."""


def launch_number(flags: fx.Tensor, rank: fx.Int32) -> fx.Int32:
    """The number of this launch."""
    return fx.dist.peer(row_of(flags, STATE), rank)[1] + 1


@flyc.jit
def announce(flags: fx.Tensor, rank: fx.Int32, ranks: fx.Constexpr[int], number: fx.Int32):
    """This rank's inputs are there. Every block says so: whichever runs first does it for all."""
    t = fx.thread_idx.x
    if t < ranks:
        fx.dist.signal(fx.get_iter(fx.dist.peer(row_of(flags, READY), t)) + rank, number)
    fx.barrier()


@flyc.jit
def leave(last: fx.Array, flags: fx.Tensor, rank: fx.Int32, ranks: fx.Constexpr[int], number: fx.Int32):
    """The last block of the grid waits until all ranks are done with what they read here, and counts the launch.

    `last` is a word of shared memory.
    """
    blocks = fx.grid_dim.x * fx.grid_dim.y * fx.grid_dim.z
    state = fx.get_iter(fx.dist.peer(row_of(flags, STATE), rank))
    fx.barrier()
    if fx.thread_idx.x == 0:
        # Fences, as LLVM's code for NVIDIA GPUs makes every atomic update a relaxed one.
        fx.memory_fence(ordering=fx.AtomicOrdering.Release, syncscope=fx.SyncScope.Device)
        last[0] = fx.atomic_add(state, 1, syncscope=fx.SyncScope.Device)
        fx.memory_fence(ordering=fx.AtomicOrdering.Acquire, syncscope=fx.SyncScope.Device)
    fx.barrier()
    if last[0] == blocks - 1:
        fx.dist.barrier(row_of(flags, LEFT), rank, number)
        if fx.thread_idx.x == 0:
            fx.generic_store(state, 0, memory_order=fx.AtomicOrdering.Monotonic)
            (state + 1).store(number)


__all__ = [
    "READY",
    "TILES",
    "announce",
    "count_of",
    "epoch_of",
    "launch_number",
    "leave",
    "remember",
    "row_of",
]
