"""Blocks: races on global memory, and how blocks hand results to each other."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import bug, floats

ORDER = fx.AtomicOrdering
nv = fx.nvgpu


@bug("race on the tensor of argument 0 ('x'): write of what another thread wrote", grid=4, block=32)
@flyc.kernel
def two_blocks_write(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t, b = fx.thread_idx.x, fx.block_idx.x
    x[t + 32 * (b if mended else b // 2)] = b + 1  # bug


@bug("race on the tensor of argument 0 ('x'): read of what another thread wrote", grid=4, block=32)
@flyc.kernel
def neighbour_block(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """A kernel that also counts atomically: its plain accesses are in no order by that."""
    t, b = fx.thread_idx.x, fx.block_idx.x
    fx.atomic_add(fx.get_iter(y), 1)
    x[b * 32 + t] = b + 1
    y[t + 32 * (b + 1)] = x[t + 32 * (b if mended else (b + 3) % 4)]  # bug


@bug("race on the tensor of argument 0 ('x'): read of what another thread wrote", grid=4, block=32)
@flyc.kernel
def fence_is_no_barrier(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Fences alone order nothing between threads."""
    t, b = fx.thread_idx.x, fx.block_idx.x
    x[b * 32 + t] = b + 1
    fx.memory_fence()
    y[t + 32 * b] = x[t + 32 * (b if mended else (b + 3) % 4)]  # bug


@flyc.jit
def last_block(x: fx.Tensor, y: fx.Tensor, fences: fx.Constexpr[bool], learns: fx.Constexpr[bool]):
    """Blocks write partial results; the one that counts last adds them up. Gives whether this is that one."""
    t, b = fx.thread_idx.x, fx.block_idx.x
    slot = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 1]).peek()
    x[b * 32 + t] = b + t + 1
    fx.barrier()
    if t == 31:
        if fx.const_expr(fences):
            fx.memory_fence(ordering=ORDER.Release)
        slot[0] = fx.atomic_add(fx.get_iter(y) + 255, 1)
        if fx.const_expr(learns):
            fx.memory_fence(ordering=ORDER.Acquire)
    fx.barrier()
    return slot[0] == 3


@bug("race on the tensor of argument 0 ('x'): read of what another thread wrote", grid=4, block=32)
@flyc.kernel
def last_block_without_fence(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    if last_block(x, y, mended, True):
        total = fx.Int32(0)
        for b in fx.range_constexpr(4):
            total += x[b * 32 + fx.thread_idx.x]  # bug
        y[fx.thread_idx.x] = total


@bug("race on the tensor of argument 0 ('x'): read of what another thread wrote", grid=4, block=32)
@flyc.kernel
def last_block_without_acquire(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    if last_block(x, y, True, mended):
        total = fx.Int32(0)
        for b in fx.range_constexpr(4):
            total += x[b * 32 + fx.thread_idx.x]  # bug
        y[fx.thread_idx.x] = total


@bug("race on the tensor of argument 0 ('x'): read of what another thread wrote", grid=4, block=64)
@flyc.kernel
def last_block_that_does_not_meet(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """The thread that counts does not wait for those of the other warp of its block."""
    t, b = fx.thread_idx.x, fx.block_idx.x
    slot = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 1]).peek()
    x[b * 64 + t] = b + t + 1
    if fx.const_expr(mended):
        fx.barrier()
    if t == 0:
        fx.memory_fence()
        slot[0] = fx.atomic_add(fx.get_iter(y) + 255, 1)
        fx.memory_fence()
    fx.barrier()
    if slot[0] == 3:
        total = fx.Int32(0)
        for i in fx.range_constexpr(4):
            total += x[i * 64 + t]  # bug
        y[t] = total


@bug("race on the tensor of argument 0 ('x'): read of what another thread wrote", grid=2, block=64)
@flyc.kernel
def flag_seen_by_one_thread(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Thread 0 has seen the other block's flag; its block does not wait for thread 0."""
    t, b = fx.thread_idx.x, fx.block_idx.x
    flag = fx.get_iter(y) + 255
    if b == 0:
        x[t] = t + 1
        fx.barrier()
        if t == 0:
            fx.generic_store(flag, 1, memory_order=ORDER.Release)
    else:
        if t == 0:
            while fx.generic_load(flag, memory_order=ORDER.Acquire) == 0:
                pass
        if fx.const_expr(mended):
            fx.barrier()
        y[t] = x[63 - t]  # bug


@bug(
    "race on the tensor of argument 0 ('x'): atomic update of what another thread wrote",
    grid=2, block=32, arch="gfx942",
)  # fmt: skip
@flyc.kernel
def scope_too_narrow(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Atomic for threads of a block, used by two."""
    fx.atomic_add(fx.get_iter(x), 1, syncscope="agent" if mended else "workgroup")  # bug


@bug("race on the tensor of argument 0 ('x'): read of what another thread wrote", grid=4, block=32, arch="gfx942")
@flyc.kernel
def fence_too_narrow(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t, b = fx.thread_idx.x, fx.block_idx.x
    slot = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 1]).peek()
    x[b * 32 + t] = b + t + 1
    fx.barrier()
    if t == 0:
        fx.memory_fence(syncscope="agent" if mended else "workgroup")
        slot[0] = fx.atomic_add(fx.get_iter(y) + 255, 1)
        fx.memory_fence()
    fx.barrier()
    if slot[0] == 3:
        total = fx.Int32(0)
        for i in fx.range_constexpr(4):
            total += x[i * 32 + t]  # bug
        y[t] = total


# --- copy engines -----------------------------------------------------------------------------------------------------


@bug("race on the tensor of argument 0 ('x'): write of what another thread read", arch="sm_90a", make=floats)
@flyc.kernel
def bulk_load_of_what_changes(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Another warp writes what a bulk load reads."""
    t = fx.thread_idx.x
    s = fx.SharedAllocator()
    row, barrier = s.allocate(fx.Array[fx.Float32, 64, 16]).peek(), s.allocate(nv.MBarrier).peek()
    if t == 0:
        barrier.init(1)
    fx.barrier()
    if t == 0:
        barrier.expect_tx(256)
        nv.bulk_load(fx.get_iter(x), row, barrier)
    if fx.const_expr(mended):
        barrier.wait(0)
        fx.barrier()
    if t >= 32:
        x[t] = -1.0  # bug
    if fx.const_expr(not mended):
        barrier.wait(0)
    y[t] = row[t]


@bug("race on the tensor of argument 0 ('x'): write of what another thread read", arch="sm_90a", make=floats)
@flyc.kernel
def source_written_before_wait(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """The thread that asked for the copy itself writes before it has come."""
    t = fx.thread_idx.x
    s = fx.SharedAllocator()
    row, barrier = s.allocate(fx.Array[fx.Float32, 64, 16]).peek(), s.allocate(nv.MBarrier).peek()
    if t == 0:
        barrier.init(1)
        barrier.expect_tx(256)
        nv.bulk_load(fx.get_iter(x), row, barrier)
        if fx.const_expr(mended):
            barrier.wait(0)
        x[0] = -1.0  # bug
        if fx.const_expr(not mended):
            barrier.wait(0)
    fx.barrier()


@bug("race on the tensor of argument 0 ('x'): read of what another thread wrote", arch="sm_90a", make=floats)
@flyc.kernel
def reduced_and_read(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """A bulk reduction beside a plain read of the same place."""
    t = fx.thread_idx.x
    row = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64, 16]).peek()
    row[t] = 1.0
    fx.barrier()
    if t == 0:
        nv.bulk_reduce(row, fx.get_iter(x), "add")
        nv.tma_commit()
        nv.tma_wait(0)
    if fx.const_expr(mended):
        fx.barrier()
    if t >= 32:
        y[t] = x[t]  # bug
