"""Atomic accesses: out of bounds, beside plain ones, and as what orders threads of a block."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import bug, floats

N = 64
ORDER = fx.AtomicOrdering


def shared(count: int = N):
    """Shared integers, as a tensor."""
    return fx.SharedAllocator().allocate(fx.Array[fx.Int32, count]).peek().view(fx.make_layout(count, 1))


@bug("atomic update out of bounds of the tensor of argument 0 ('x')")
@flyc.kernel
def add_behind_tensor(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    fx.atomic_add(fx.get_iter(x) + t * (4 if mended else 5), 1)  # bug


@bug("atomic update out of bounds of the tensor of argument 0 ('x')")
@flyc.kernel
def add_before_tensor(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    fx.atomic_max(fx.get_iter(x) + (t if mended else t - 1), t)  # bug


@bug("atomic update out of bounds of shared memory")
@flyc.kernel
def add_behind_shared(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    s = shared(32)
    if t < 32:
        s[t] = 0
    fx.barrier()
    fx.atomic_add(fx.get_iter(s) + (t % 32 if mended else t), 1)  # bug


@bug("atomic update out of bounds of the tensor of argument 1 ('y')")
@flyc.kernel
def swap_behind_tensor(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    fx.atomic_cas(fx.get_iter(y) + t + (192 if mended else 193), 0, t)  # bug


@bug("atomic update out of bounds of shared memory")
@flyc.kernel
def exchange_behind_shared(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    s = shared()
    x[t] = fx.atomic_xchg(fx.get_iter(s) + t + (0 if mended else 1), t)  # bug


@bug("atomic write out of bounds of the tensor of argument 0 ('x')")
@flyc.kernel
def atomic_store_behind_tensor(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    fx.generic_store(fx.get_iter(x) + t * (1 if mended else 8), t, memory_order=ORDER.Release)  # bug


@bug("atomic read out of bounds of the tensor of argument 0 ('x')")
@flyc.kernel
def atomic_load_behind_tensor(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    y[t] = fx.generic_load(fx.get_iter(x) + t * (1 if mended else 8), memory_order=ORDER.Acquire)  # bug


@bug("write out of bounds of the tensor of argument 0 ('x')")
@flyc.kernel
def streaming_store_behind_tensor(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    fx.generic_store(fx.get_iter(x) + t * (1 if mended else 8), t, nontemporal=True)  # bug


@bug("atomic read out of bounds of the tensor of argument 0 ('x')")
@flyc.kernel
def volatile_load_before_tensor(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    y[t] = fx.generic_load(fx.get_iter(x) + t - (0 if mended else 1), volatile=True)  # bug


@bug("at an address that is not a multiple of 4")
@flyc.kernel
def crooked_atomic(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    place = fx.recast_iter(fx.Int8, fx.get_iter(x)) + t * 4 + (0 if mended else 2)
    fx.atomic_add(fx.recast_iter(fx.Int32, place), 1)  # bug


# --- beside plain accesses --------------------------------------------------------------------------------------------


@bug("race on shared memory: atomic update of what another thread wrote")
@flyc.kernel
def count_before_zero(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Others may count before the first thread has zeroed the counter."""
    t = fx.thread_idx.x
    s = shared(1)
    if t == 0:
        s[0] = 7
    if fx.const_expr(mended):
        fx.barrier()
    fx.atomic_add(fx.get_iter(s), 1)  # bug
    fx.barrier()
    x[t] = s[0]


@bug("race on shared memory")
@flyc.kernel
def read_before_counted(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    s = shared(1)
    if t == 0:
        s[0] = 0
    fx.barrier()
    fx.atomic_add(fx.get_iter(s), 1)
    if fx.const_expr(mended):
        fx.barrier()
    x[t] = s[0]  # bug


@bug("race on shared memory")
@flyc.kernel
def reset_too_early(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """The counter is set back while others still count."""
    t = fx.thread_idx.x
    s = shared(1)
    if t == 0:
        s[0] = 0
    fx.barrier()
    fx.atomic_add(fx.get_iter(s), 1)
    if fx.const_expr(mended):
        fx.barrier()
    if t == 40:
        s[0] = -1  # bug


@bug("race on the tensor of argument 0 ('x'): read of what another thread wrote", make=floats)
@flyc.kernel
def plain_sum(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """One thread adds without an atomic."""
    t = fx.thread_idx.x
    if t == 63:
        if fx.const_expr(mended):
            fx.atomic_add(fx.get_iter(x), 1.0)
        else:
            x[0] = x[0] + 1.0  # bug
    else:
        fx.atomic_add(fx.get_iter(x), 1.0)


@bug("race on the tensor of argument 0 ('x'): atomic update of what another thread wrote", grid=4, block=32)
@flyc.kernel
def zeroed_by_one_block(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Blocks count in what the first one sets: on a GPU there is no first one."""
    t, b = fx.thread_idx.x, fx.block_idx.x
    if fx.const_expr(not mended):
        if (t == 0) & (b == 0):
            x[0] = 5
    fx.atomic_add(fx.get_iter(x), 1)  # bug


@bug("race on the tensor of argument 0 ('x')", grid=4, block=32)
@flyc.kernel
def peek_at_counter(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """A plain read of what others update atomically."""
    t, b = fx.thread_idx.x, fx.block_idx.x
    fx.atomic_add(fx.get_iter(x), 1)
    if fx.const_expr(mended):
        y[b * 32 + t] = fx.generic_load(fx.get_iter(x), memory_order=ORDER.Monotonic)
    else:
        y[b * 32 + t] = x[0]  # bug


@bug("atomic update of shared memory that nobody has written")
@flyc.kernel
def counters_not_zeroed(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    s = shared(16)
    if t < (16 if mended else 15):
        s[t] = 0
    fx.barrier()
    fx.atomic_add(fx.get_iter(s) + t % 16, 1)  # bug
    fx.barrier()
    if t < 15:
        x[t] = s[t]


@bug("read of shared memory that nobody has written")
@flyc.kernel
def exchanged_in_part(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """What an exchange has written is written."""
    t = fx.thread_idx.x
    s = shared()
    if t < (64 if mended else 60):
        fx.atomic_xchg(fx.get_iter(s) + t, t)
    fx.barrier()
    x[t] = s[63 - t]  # bug


# --- as what orders threads -------------------------------------------------------------------------------------------


@bug("race on shared memory: read of what another thread wrote")
@flyc.kernel
def flag_without_release(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    s = shared(2)
    flag = fx.get_iter(s) + 1
    if t == 0:
        s[1] = 0
    fx.barrier()
    if t == 0:
        s[0] = 42
        fx.generic_store(flag, 1, memory_order=ORDER.Release if mended else ORDER.Monotonic)
    if t == 32:
        if fx.generic_load(flag, memory_order=ORDER.Acquire) == 1:
            x[0] = s[0]  # bug


@bug("race on shared memory: read of what another thread wrote")
@flyc.kernel
def flag_without_acquire(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    s = shared(2)
    flag = fx.get_iter(s) + 1
    if t == 0:
        s[1] = 0
    fx.barrier()
    if t == 0:
        s[0] = 42
        fx.generic_store(flag, 1, memory_order=ORDER.Release)
    if t == 32:
        if fx.generic_load(flag, memory_order=ORDER.Acquire if mended else ORDER.Monotonic) == 1:
            x[0] = s[0]  # bug


@bug("race on shared memory: read of what another thread wrote")
@flyc.kernel
def fence_before_data(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """The fence stands before what it should publish."""
    t = fx.thread_idx.x
    s = shared(2)
    flag = fx.get_iter(s) + 1
    if t == 0:
        s[1] = 0
    fx.barrier()
    if t == 0:
        if fx.const_expr(mended):
            s[0] = 42
        fx.memory_fence(ordering=ORDER.Release)
        if fx.const_expr(not mended):
            s[0] = 42
        fx.atomic_xchg(flag, 1)
    if t == 32:
        if fx.atomic_add(flag, 0) == 1:
            fx.memory_fence(ordering=ORDER.Acquire)
            x[0] = s[0]  # bug


@bug("race on shared memory: read of what another thread wrote")
@flyc.kernel
def fence_behind_data(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """The reader's fence stands behind the read."""
    t = fx.thread_idx.x
    s = shared(2)
    flag = fx.get_iter(s) + 1
    if t == 0:
        s[1] = 0
    fx.barrier()
    if t == 0:
        s[0] = 42
        fx.memory_fence(ordering=ORDER.Release)
        fx.atomic_xchg(flag, 1)
    if t == 32:
        if fx.atomic_add(flag, 0) == 1:
            if fx.const_expr(mended):
                fx.memory_fence(ordering=ORDER.Acquire)
            value = s[0]  # bug
            fx.memory_fence(ordering=ORDER.Acquire)
            x[0] = value


@bug("race on shared memory: write of what another thread wrote")
@flyc.kernel
def lock_given_back_relaxed(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """A lock; the next holder does not see what the last one did."""
    t = fx.thread_idx.x
    s = shared(2)
    lock = fx.get_iter(s) + 1
    if t == 0:
        s[0] = 0
        s[1] = 0
    fx.barrier()
    done = t * 0
    while done == 0:
        _, held = fx.atomic_cas(lock, 0, 1, success_ordering=ORDER.Acquire)
        if held:
            s[0] = t + 1  # bug
            fx.generic_store(lock, 0, memory_order=ORDER.Release if mended else ORDER.Monotonic)
            done = t * 0 + 1
    fx.barrier()
    x[t] = s[0]
