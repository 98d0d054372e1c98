"""What goes wrong around the copy engine and products in flight, and with more readers than one remembers."""

from __future__ import annotations

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import Array, number, pick, template
from .copies import copy_one

nv = fx.nvgpu
ORDER = fx.AtomicOrdering


def three_times(x: Array) -> Array:
    y = x * 0
    for i in range(3):
        y[32 * i : 32 * i + 32] = x[:32]
    return y


@template(
    {
        1: ("the first of three readers is not waited for", "another thread read"),
        2: ("the second of three readers is not waited for", "another thread read"),
        3: ("the third of three readers is not waited for", "another thread read"),
    },
    block=128,
    expected=three_times,
)
@flyc.kernel
def three_readers(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """Warp 3 writes what three warps read, and writes it again when they are through."""
    t = fx.thread_idx.x
    warp, lane = t // 32, t % 32
    row = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 32]).peek()
    if warp == 3:
        row[lane] = x[lane]
    fx.barrier()
    if warp < 3:
        y[t] = row[lane]
    if warp == bug - 1:
        pass
    elif bug == 0:
        nv.named_barrier(1, 128).sync()
    else:
        nv.named_barrier(1, 96).sync()
    if warp == 3:
        row[lane] = x[lane] + 1.0


@template(
    {
        1: ("the first of three readers of global memory is not waited for", "another thread read"),
        2: ("the second of three readers of global memory is not waited for", "another thread read"),
        3: ("the third of three readers of global memory is not waited for", "another thread read"),
        7: ("the low halves of words are read before they are there", "another thread wrote"),
        8: ("the high halves of words are read before they are there", "another thread wrote"),
    },
    block=128,
    dtype=np.int16,
    arch="sm_80",
)
@flyc.kernel
def parts_of_words(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """Words of two numbers, which different warps read and write."""
    t = fx.thread_idx.x
    warp, lane = t // 32, t % 32
    if warp < 3:
        y[t] = x[lane]
    if warp == bug - 1:
        pass
    elif (bug == 0) | (bug > 3):
        nv.named_barrier(1, 128).sync()
    else:
        nv.named_barrier(1, 96).sync()
    if warp == 3:
        x[lane] = x[lane] + fx.Int16(1)
    fx.barrier()
    if warp < 2:
        y[128 + 2 * lane + warp] = (t + 1).to(fx.Int16)
    if warp == bug - 7:
        pass
    elif bug > 3:
        nv.named_barrier(2, 96).sync()
    else:
        nv.named_barrier(2, 128).sync()
    if warp == 2:
        y[256 + lane] = y[128 + 2 * lane] + y[129 + 2 * lane]


@template(
    {
        1: ("a thread writes the source of its cp.async before the wait", "write of what another thread read"),
        2: ("another thread does, behind a barrier", "write of what another thread read"),
        3: ("the wait leaves the group under way", "write of what another thread read"),
    },
    block=64,
    smem=64 * 4,
    arch="sm_80",
)
@flyc.kernel
def source_of_a_copy(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """Rows are copied in and overwritten in place."""
    t = fx.thread_idx.x
    row = fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout((1, 64), (1, 1)))
    copy_one(fx.make_view(fx.get_iter(x), fx.make_layout((1, 64), (1, 1)))[None, t], row[None, t])
    nv.cp_async_commit()
    if bug == 0:
        nv.cp_async_wait(0)
    elif bug == 3:
        nv.cp_async_wait(1)
    if bug == 2:
        fx.barrier()
    x[pick(bug == 2, 63 - t, t)] = -1.0
    nv.cp_async_wait(0)
    fx.barrier()
    y[t] = row[0, 63 - t]


@template(
    {
        1: ("the flag is set when the store has read its source", "race on the tensor"),
        2: ("the flag is set before the store is waited for", "race on the tensor"),
        3: ("one of two groups of stores is waited for", "race on the tensor"),
        4: ("the flag is set without release", "race on the tensor"),
    },
    grid=2,
    block=64,
    smem=64 * 4,
    dtype=np.int32,
)
@flyc.kernel
def store_and_flag(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """Block 0 stores a row by the engine and tells block 1."""
    t, b = fx.thread_idx.x, fx.block_idx.x
    flag = fx.get_iter(y) + 500
    out = fx.make_view(fx.get_iter(y), fx.make_layout((32, 2), (1, 32)))
    row = fx.make_view(fx.get_dyn_shared(fx.Int32), fx.make_layout((32, 2), (1, 32)))
    if b == 0:
        row[t % 32, t // 32] = x[t]
        nv.fence_proxy_async()
        fx.barrier()
        if t == 0:
            for i in fx.range_constexpr(2):
                nv.bulk_store(row[None, i], out[None, i])
                nv.tma_commit()
            if bug == 1:
                nv.tma_wait(0, read=True)
            elif bug == 3:
                nv.tma_wait(1)
            elif bug != 2:
                nv.tma_wait(0)
            if bug == 4:
                fx.generic_store(flag, 1, memory_order=ORDER.Monotonic)
            else:
                fx.generic_store(flag, 1, memory_order=ORDER.Release)
            nv.tma_wait(0)
    else:
        if t == 0:
            while fx.generic_load(flag, memory_order=ORDER.Acquire) == 0:
                pass
        fx.barrier()
        y[256 + t] = y[t]


@template(
    {
        1: ("a block of a persistent loop takes a tile too many", "deadlock"),
        2: ("both warps draw their own tile", "race on shared memory"),
        3: ("the tile is drawn before everybody has the last one", "race on shared memory"),
        4: ("the last tile is not marked", "deadlock"),
    },
    grid=2,
    block=64,
    dtype=np.int32,
)
@flyc.kernel
def drawn_tiles(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """Blocks draw tiles from a counter; each must be done once, and who is last tells."""
    t, b = fx.thread_idx.x, fx.block_idx.x
    counter, done = fx.get_iter(y) + 500, fx.get_iter(y) + 501
    tile = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 2]).peek()
    going = fx.Int32(1)
    turn = fx.Int32(0)
    while going != 0:
        slot = pick(bug == 3, 0, turn % 2)
        if (t == 0) | ((bug == 2) & (t == 32)):
            tile[slot] = fx.atomic_add(counter, 1)
        fx.barrier()
        at = tile[slot]
        if at < 3:
            if t < 32:
                y[32 * at + t] = x[32 * at + t] * 2
        else:
            going = fx.Int32(0)
        turn = turn + 1
    if t == 0:
        if (bug != 4) | (b == 0):
            fx.atomic_add(done, 1, ordering=ORDER.Release)
        if (bug == 1) | (bug == 4):
            while fx.generic_load(done, memory_order=ORDER.Acquire) < 2 + number(bug == 1):
                pass


def operand(base: fx.Pointer, at: int) -> fx.Tensor:
    """An operand of 64 x 16 in units of 8 x 8."""
    return fx.make_view(base + at, fx.make_layout(((8, 8), (8, 2)), ((8, 64), (1, 512))))


@template(
    {
        1: ("the first of three products is not waited for", "still reads"),
        2: ("the second of three products is not waited for", "still reads"),
        3: ("the third of three products is not waited for", "still reads"),
        4: ("the wait leaves a product under way", "still reads"),
    },
    block=384,
    smem=2 * 64 * 16 * 2,
    dtype=np.float32,
    n=64 * 64,
)
@flyc.kernel
def three_products(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """Three warpgroups multiply by the same operand, which is then written again."""
    t = fx.thread_idx.x
    base = fx.get_dyn_shared(fx.Float16)
    a, b = operand(base, 0), operand(base, 1024)
    if t < 128:
        for i in fx.range_constexpr(8):
            a[t // 2, t % 2 * 8 + i], b[t // 2, t % 2 * 8 + i] = fx.Float16(1), fx.Float16(2)
        nv.fence_proxy_async()
    fx.barrier()
    product = fx.make_tiled_mma(
        fx.make_mma_atom(nv.WGMMA(64, 16, fx.Float16, fx.Float32)), fx.make_layout((1, 1, 1), (0, 0, 0))
    )
    mine = product.get_slice(t % 128)
    acc = mine.make_fragment_C(fx.make_view(fx.get_iter(y), fx.make_layout((64, 64), (64, 1))))
    acc.fill(0)
    nv.wgmma_fence()
    fx.gemm(product, acc, mine.partition_A(a), mine.partition_B(b), acc)
    nv.wgmma_commit()
    if bug == 4:
        nv.wgmma_wait(1, acc)
    elif t // 128 != bug - 1:
        nv.wgmma_wait(0, acc)
    fx.barrier()
    if t < 128:
        b[t // 2, t % 2 * 8] = fx.Float16(3)
    nv.wgmma_wait(0, acc)
