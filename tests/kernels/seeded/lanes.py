"""Lanes: shuffles and broadcasts from lanes that take no part."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import bug

ABSENT = "a shuffle reads from a lane that takes no part in it"


@bug(ABSENT, block=32)
@flyc.kernel
def butterfly_in_a_branch(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Only the lower lanes come to the shuffle."""
    t = fx.thread_idx.x
    if t < (32 if mended else 24):
        x[t] = fx.gpu.shuffle(t, 16, 32, "xor")  # bug


@bug(ABSENT, block=32)
@flyc.kernel
def sum_of_some_lanes(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """A tree of sums over lanes of which the last ones stay away."""
    t = fx.thread_idx.x
    if t < (32 if mended else 20):
        total = t + 1
        for step in (16, 8, 4, 2, 1):
            total = total + fx.gpu.shuffle(total, step, 32, "down")  # bug
        x[t] = total


@bug(ABSENT, block=32)
@flyc.kernel
def leader_is_elsewhere(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Odd lanes ask lane 0, which is even."""
    t = fx.thread_idx.x
    if t % 2 == 1:
        x[t] = fx.gpu.shuffle(t, 1 if mended else 0, 32, "idx")  # bug


@bug(ABSENT, block=48)
@flyc.kernel
def block_ends_in_a_warp(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """The second warp has 16 threads."""
    t = fx.thread_idx.x
    x[t] = fx.gpu.shuffle(t, 8 if mended else 16, 32, "xor")  # bug


@bug(ABSENT, block=64, arch="gfx942")
@flyc.kernel
def read_of_a_lane_that_left(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    if t < 40:
        x[t] = fx.rocdl.readlane(fx.Int32, t + 5, 39 if mended else 40)  # bug


@bug("race on shared memory", block=32)
@flyc.kernel
def shuffle_is_no_barrier_for_others(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Lanes that did not come to a shuffle are not ordered by it."""
    t = fx.thread_idx.x
    s = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 32]).peek()
    s[t] = t
    if t < 16:
        x[t] = fx.gpu.shuffle(t, 1, 16, "xor")
    if fx.const_expr(mended):
        fx.barrier()
    x[t + 32] = s[t ^ 16]  # bug
