"""Asynchronous copies and products of one thread or warp: groups, counters, and buffers used again."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import Array, number, pick, template

nv = fx.nvgpu
STEPS = 3


def reversed_rows(x: Array) -> Array:
    y = x * 0
    for i in range(STEPS):
        y[64 * i : 64 * i + 64] = x[64 * i : 64 * i + 64][::-1]
    return y


def copy_one(source: Any, to: Any) -> None:
    """One element of this thread by `cp.async`."""
    fx.copy_atom_call(fx.make_copy_atom(nv.CpAsync(32), fx.Float32), source, to)


@template(
    {
        1: ("cp.async group waited one short", "before the wait"),
        2: ("no barrier behind the wait for cp.async", "asynchronous copy"),
        3: ("double buffer off by one", "asynchronous copy"),
        4: ("no barrier before the buffer is filled again", "another thread read"),
        5: ("a group that is not closed", "before the wait"),
    },
    block=64,
    smem=2 * 64 * 4,
    arch="sm_80",
    expected=reversed_rows,
)
@flyc.kernel
def cp_async_ring(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """The next row is under way while one is used, in two buffers."""
    t = fx.thread_idx.x
    ring = fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout((1, 64, 2), (1, 1, 64)))
    rows = fx.make_view(fx.get_iter(x), fx.make_layout((1, 64, STEPS), (1, 1, 64)))
    copy_one(rows[None, t, 0], ring[None, t, 0])
    nv.cp_async_commit()
    for step in fx.range_constexpr(STEPS):
        if fx.const_expr(step + 1 < STEPS):
            to = pick(bug == 3, step % 2, (step + 1) % 2)
            copy_one(rows[None, t, step + 1], ring[None, t, to])
            if bug != 5:
                nv.cp_async_commit()
        if (bug == 1) | (step + 1 < STEPS):
            nv.cp_async_wait(1)
        else:
            nv.cp_async_wait(0)
        if bug != 2:
            fx.barrier()
        y[64 * step + t] = ring[0, 63 - t, step % 2]
        if bug != 4:
            fx.barrier()


@template(
    {1: ("the source of a copy with a predicate is written before the wait", "race on the tensor")},
    block=64,
    smem=64 * 16,
    arch="sm_80",
)
@flyc.kernel
def masked_source(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """Zeros come in place of what is not there; what is there is read until the wait."""
    t, four = fx.thread_idx.x, fx.make_layout(4, 1)
    base = fx.get_dyn_shared(fx.Float32)
    atom = fx.make_copy_atom(nv.CpAsync(128, zero_fill=True), fx.Float32).set_value("valid", fx.Int32(50) - 4 * t)
    fx.copy_atom_call(atom, fx.make_view(fx.get_iter(x) + 4 * t, four), fx.make_view(base + 4 * t, four))
    nv.cp_async_commit()
    if (bug == 1) & (t == 63):
        x[1] = -1.0
    nv.cp_async_wait(0)
    fx.barrier()
    if (bug == 0) & (t == 63):
        x[1] = -1.0
    y[t] = base[63 - t]


@template(
    {
        1: ("the arrival that copies bring is not waited for", "asynchronous copy"),
        2: ("arrival at once, not behind the copies", "asynchronous copy"),
        3: ("the barrier counts a warp too many", "deadlock"),
        4: ("arrival that adds to the count of a full barrier", "asynchronous copy"),
    },
    block=64,
    smem=64 * 4 + 16,
    arch="sm_80",
)
@flyc.kernel
def cp_async_counted(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """An mbarrier counts the copies of all threads."""
    t = fx.thread_idx.x
    base = fx.get_dyn_shared(fx.Float32)
    row = fx.make_view(base, fx.make_layout((1, 64), (1, 1)))
    there = nv.MBarrier(base + 64)
    if t == 0:
        there.init(64 + 32 * number(bug == 3) - 63 * number(bug == 4))
    fx.barrier()
    copy_one(fx.make_view(fx.get_iter(x), fx.make_layout((1, 64), (1, 1)))[None, t], row[None, t])
    if bug == 2:
        there.arrive()
    elif bug == 4:
        there.arrive_after_copies()
        if t == 0:
            there.arrive()
    else:
        there.arrive_after_copies(noinc=True)
    if bug != 1:
        there.wait(0)
    y[t] = row[0, 63 - t]


@template(
    {
        1: ("shared memory written again before the store has read it", "still reads"),
        2: ("the wait for stores is one short", "still reads"),
        3: ("stored before everybody has written", "still reads"),
        4: ("stores of two warps to one place", "race on the tensor"),
    },
    block=64,
    smem=2 * 64 * 4,
)
@flyc.kernel
def bulk_stores(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """Two rows go out in turn through two buffers."""
    t = fx.thread_idx.x
    rows = fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout((64, 2), (1, 64)))
    out = fx.make_view(fx.get_iter(y), fx.make_layout((64, 8), (1, 64)))
    for step in fx.range_constexpr(3):
        if t == 0:
            if fx.const_expr(step == 2):
                if bug == 2:
                    nv.tma_wait(2, read=True)
                elif bug != 1:
                    nv.tma_wait(1, read=True)
        fx.barrier()
        rows[t, step % 2] = x[64 * step + t]
        nv.fence_proxy_async()
        if bug != 3:
            fx.barrier()
        if t == 0:
            nv.bulk_store(rows[None, step % 2], out[None, step])
            nv.tma_commit()
        if (bug == 4) & (t == 32):
            nv.bulk_store(rows[None, (step + 1) % 2], out[None, step])
            nv.tma_commit()
            nv.tma_wait(0)
        fx.barrier()
    if t == 0:
        nv.tma_wait(0)
    fx.barrier()
    if t >= 32:
        y[256 + t] = y[t - 32]


@template(
    {
        1: ("the copy is issued, and the block ends", "copy outlives its block"),
        2: ("polled with the wrong parity", "before the wait"),
        3: ("polled for a phase that never ends", "deadlock"),
        4: ("bytes announced twice", "deadlock"),
        5: ("two copies, the bytes of one announced", "copy outlives its block"),
        6: ("the source is written before it was read", "race on the tensor"),
    },
    block=64,
    smem=2 * 64 * 4 + 16,
)
@flyc.kernel
def polled_copy(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """Threads look at the barrier again and again."""
    t = fx.thread_idx.x
    base = fx.get_dyn_shared(fx.Float32)
    rows = fx.make_view(base, fx.make_layout((64, 2), (1, 64)))
    source = fx.make_view(fx.get_iter(x), fx.make_layout((64, 8), (1, 64)))
    there = nv.MBarrier(base + 128)
    if t == 0:
        there.init(1)
    fx.barrier()
    if t == 0:
        if bug == 4:
            there.expect_tx(256, arrive=False)
        there.expect_tx(256)
        nv.bulk_load(source[None, 0], rows[None, 0], there)
        if bug == 5:
            nv.bulk_load(source[None, 1], rows[None, 1], there)
    if bug == 6:
        if t == 40:
            x[0] = -1.0
    if bug != 1:
        while ~there.test(number(bug == 2)):
            pass
        if bug == 3:
            while ~there.test(1):
                pass
        y[t] = rows[63 - t, 0]
