"""Matrix products of a warpgroup, and tensor copies beside plain accesses to the same memory."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import bug, square

nv = fx.nvgpu
OPERANDS = 64 * 16 * 2
STILL_READ = "a product that was not waited for"


def operands() -> tuple[Any, Any]:
    """A and B of 64 x 16 in shared memory, without a swizzle."""
    base = fx.get_dyn_shared(fx.Float16)
    layout = fx.make_layout(((8, 8), (8, 2)), ((8, 128), (1, 64)))
    return fx.make_view(base, layout), fx.make_view(base + OPERANDS // 2, layout)


def product() -> Any:
    """One `wgmma` of 64 x 64 x 16."""
    atom = fx.make_mma_atom(nv.WGMMA(64, 16, fx.Float16, fx.Float32))
    return fx.make_tiled_mma(atom, fx.make_layout((1, 1, 1), (0, 0, 0)))


def tile_of(y: fx.Tensor) -> fx.Tensor:
    """A view of the shape of the result, of which nothing is read."""
    return fx.make_view(fx.recast_iter(fx.Float32, fx.get_iter(y)), fx.make_layout((64, 64), (64, 1)))


WARPGROUP = {"block": 128, "smem": 2 * OPERANDS, "arch": "sm_90a"}


@bug(STILL_READ, **WARPGROUP)
@flyc.kernel
def operand_overwritten(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """A is written again before the product is waited for."""
    t = fx.thread_idx.x
    a, b = operands()
    for i in fx.range_constexpr(8):
        a[t // 2, t % 2 * 8 + i], b[t // 2, t % 2 * 8 + i] = fx.Float16(1), fx.Float16(2)
    nv.fence_proxy_async()
    fx.barrier()
    mine = product().get_slice(t)
    acc = mine.make_fragment_C(tile_of(y))
    acc.fill(0)
    nv.wgmma_fence()
    fx.gemm(product(), acc, mine.partition_A(a), mine.partition_B(b), acc)
    nv.wgmma_commit()
    if fx.const_expr(mended):
        nv.wgmma_wait(0, acc)
    fx.barrier()
    a[t // 2, t % 2 * 8] = fx.Float16(3)  # bug
    if fx.const_expr(not mended):
        nv.wgmma_wait(0, acc)


@bug(STILL_READ, **WARPGROUP)
@flyc.kernel
def wait_for_the_first_only(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Two groups; the second still reads B."""
    t = fx.thread_idx.x
    a, b = operands()
    for i in fx.range_constexpr(8):
        a[t // 2, t % 2 * 8 + i], b[t // 2, t % 2 * 8 + i] = fx.Float16(1), fx.Float16(2)
    nv.fence_proxy_async()
    fx.barrier()
    mine = product().get_slice(t)
    acc = mine.make_fragment_C(tile_of(y))
    acc.fill(0)
    nv.wgmma_fence()
    for _ in fx.range_constexpr(2):
        fx.gemm(product(), acc, mine.partition_A(a), mine.partition_B(b), acc)
        nv.wgmma_commit()
    nv.wgmma_wait(0 if mended else 1, acc)
    fx.barrier()
    b[t // 2, t % 2 * 8] = fx.Float16(3)  # bug
    nv.wgmma_wait(0, acc)


# --- tensor copies beside plain accesses ------------------------------------------------------------------------------


def load_of(x: fx.Tensor) -> Any:
    return nv.make_tma_atom(nv.TMALoad(), x, None, (8, 8))


def store_to(x: fx.Tensor) -> Any:
    return nv.make_tma_atom(nv.TMAStore(), x, None, (8, 8))


@bug("race on the tensor of argument 1 ('y'): write of what another thread read", arch="sm_90a", smem=264, make=square,
     prepare=load_of)  # fmt: skip
@flyc.kernel
def box_of_what_changes(load: Any, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """The second warp writes to the tensor that a box is loaded from."""
    t = fx.thread_idx.x
    base = fx.get_dyn_shared(fx.Float32)
    barrier = nv.MBarrier(base + 64)
    if t == 0:
        barrier.init(1)
        nv.fence_mbarrier_init()
    fx.barrier()
    if t == 0:
        barrier.expect_tx(load.nbytes)
        load.load((0, 0), fx.make_view(base, fx.make_layout((8, 8), (8, 1))), barrier)
    if fx.const_expr(mended):
        barrier.wait(0)
        fx.barrier()
    if t >= 32:
        y[t // 8, t % 8] = -1.0  # bug
    if fx.const_expr(not mended):
        barrier.wait(0)


@bug("race on the tensor of argument 1 ('y'): read of what another thread wrote", arch="sm_90a", smem=256, make=square,
     prepare=store_to)  # fmt: skip
@flyc.kernel
def stored_and_read(store: Any, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """What a box is stored to is read by threads that know nothing of it."""
    t = fx.thread_idx.x
    s = fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout((8, 8), (8, 1)))
    s[t // 8, t % 8] = -t.to(fx.Float32)
    nv.fence_proxy_async()
    fx.barrier()
    if t == 0:
        store.store(s, (0, 0))
        nv.tma_commit()
        nv.tma_wait(0)
    if fx.const_expr(mended):
        fx.barrier()
    if t >= 32:
        y[t // 8 - 4, t % 8] = y[t // 8, t % 8] + 1.0  # bug
