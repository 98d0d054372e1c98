"""Blocks that hand results on through flags, counters and locks in global memory."""

from __future__ import annotations

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import Array, number, pick, template

ORDER = fx.AtomicOrdering
INTS = {"arch": "native", "dtype": np.int32}


def summed(x: Array) -> Array:
    y = x * 0
    y[:32] = x[:32] + x[32:64] + x[64:96]
    y[64:160], y[500] = x[:96], 3
    return y


@template(
    {
        1: ("split-K counter without release", "race on the tensor"),
        2: ("split-K counter without acquire", "race on the tensor"),
        3: ("the counter goes up before the partial result is written", "race on the tensor"),
        4: ("the block before the last adds up", "race on the tensor"),
        5: ("one thread counts before its block has met", "race on the tensor"),
        6: ("the counter is read and written, not updated", "order"),
    },
    grid=3,
    expected=summed,
    **INTS,
)
@flyc.kernel
def split_k(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """Blocks write partial results (at 64 and on); the one that counts last adds them up."""
    t, b = fx.thread_idx.x, fx.block_idx.x
    seen = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 1]).peek()
    counter = fx.get_iter(y) + 500
    if bug != 3:
        if t < 32:
            y[64 + 32 * b + t] = x[32 * b + t]
        if bug != 5:
            fx.barrier()
    if t == 32:
        if bug != 1:
            fx.memory_fence(ordering=ORDER.Release)
        if bug == 6:
            before = fx.generic_load(counter, memory_order=ORDER.Monotonic)
            fx.generic_store(counter, before + 1, memory_order=ORDER.Monotonic)
            seen[0] = before
        else:
            seen[0] = fx.atomic_add(counter, 1)
        if bug != 2:
            fx.memory_fence(ordering=ORDER.Acquire)
    if bug == 3:
        if t < 32:
            y[64 + 32 * b + t] = x[32 * b + t]
    fx.barrier()
    if seen[0] == 2 - number(bug == 4):
        if t < 32:
            y[t] = y[64 + t] + y[96 + t] + y[128 + t]


@template(
    {
        1: ("flag without release", "race on the tensor"),
        2: ("flag without acquire", "race on the tensor"),
        3: ("flag set before the data is written", "race on the tensor"),
        4: ("waits for a value that nobody writes", "deadlock"),
        5: ("both blocks wait before they write", "deadlock"),
        6: ("the block does not wait for its thread that saw the flag", "race on the tensor"),
    },
    grid=2,
    **INTS,
)
@flyc.kernel
def flag_between_blocks(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """Stream-K: block 1 needs what block 0 has computed."""
    t, b = fx.thread_idx.x, fx.block_idx.x
    flag, back = fx.get_iter(y) + 500, fx.get_iter(y) + 501
    if b == 0:
        if bug == 5:
            if t == 0:
                while fx.generic_load(back, memory_order=ORDER.Acquire) == 0:
                    pass
        if bug == 3:
            if t == 0:
                fx.generic_store(flag, 1, memory_order=ORDER.Release)
        y[t] = x[t]
        fx.barrier()
        if t == 0:
            if bug == 1:
                fx.generic_store(flag, 1, memory_order=ORDER.Monotonic)
            elif bug != 3:
                fx.generic_store(flag, 1, memory_order=ORDER.Release)
    else:
        if t == 0:
            if bug == 2:
                while fx.generic_load(flag, memory_order=ORDER.Monotonic) == 0:
                    pass
            else:
                while fx.generic_load(flag, memory_order=ORDER.Acquire) != pick(bug == 4, 2, 1):
                    pass
        if bug != 6:
            fx.barrier()
        y[64 + t] = y[63 - t] + 1
        if bug == 5:
            if t == 0:
                fx.generic_store(back, 1, memory_order=ORDER.Release)


def take(lock: fx.Pointer) -> fx.Numeric:
    """Try to take a lock; gives 0 where that worked."""
    return fx.atomic_cas(lock, 0, 1, success_ordering=ORDER.Acquire)[0]


@template(
    {
        1: ("two locks taken in opposite orders", "deadlock"),
        2: ("a lock is not given back", "deadlock"),
        3: ("a lock is given back without release", "race on the tensor"),
        4: ("a read and a write in place of an update", "order"),
        5: ("the lock is looked at and then taken", "race on the tensor"),
        6: ("the last one to write wins", "order"),
    },
    grid=2,
    block=32,
    **INTS,
)
@flyc.kernel
def locks(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """Each block takes two locks, in bug 5 one, adds to a word, and gives them back."""
    t, b = fx.thread_idx.x, fx.block_idx.x
    base = fx.get_iter(y)
    if t == 0:
        flip = (bug == 1) & (b == 1)
        first, second = pick(flip, 501, 500), pick(flip, 500, 501)
        if bug == 4:
            before = fx.generic_load(base + 502, memory_order=ORDER.Monotonic)
            fx.generic_store(base + 502, before + 1, memory_order=ORDER.Monotonic)
        elif bug == 6:
            fx.generic_store(base + 502, b + 1, memory_order=ORDER.Monotonic)
        else:
            fx.atomic_add(base + 502, 1)
        if bug == 5:
            while fx.generic_load(base + first, memory_order=ORDER.Acquire) != 0:
                pass
            fx.generic_store(base + first, 1, memory_order=ORDER.Monotonic)
        else:
            while take(base + first) != 0:
                pass
            while take(base + second) != 0:
                pass
        y[0] = y[0] + 1
        if bug == 3:
            fx.generic_store(base + second, 0, memory_order=ORDER.Monotonic)
            fx.generic_store(base + first, 0, memory_order=ORDER.Monotonic)
        else:
            if bug != 5:
                fx.generic_store(base + second, 0, memory_order=ORDER.Release)
            if bug != 2:
                fx.generic_store(base + first, 0, memory_order=ORDER.Release)
