"""Copies into shared memory past registers (gfx9) and out of it by bulk stores: what ends them, and for whom."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import bug, floats

r, nv = fx.rocdl, fx.nvgpu
EARLY = "before the wait for it"
GFX950: dict[str, Any] = {"block": 128, "smem": 2 * 128 * 4, "arch": "gfx950", "make": floats}


def fetch(x: fx.Tensor, to: fx.Pointer, at: Any) -> None:
    """A dword of each lane."""
    wave = r.readfirstlane(fx.Int32, fx.thread_idx.x // 64)
    r.raw_ptr_buffer_load_lds(r.make_buffer_tensor(x), to + 64 * wave, 4, (at + fx.thread_idx.x) * 4, 0, 0)


@bug(EARLY, **GFX950)
@flyc.kernel
def wave_uses_its_own_copy(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Behind its wait a wave may use what its lanes have copied, without a barrier; not what another one has."""
    t, base = fx.thread_idx.x, fx.get_dyn_shared(fx.Float32)
    fetch(x, base, 0)
    r.s_waitcnt(vmcnt=0)
    y[t] = base[t // 64 * 64 + 63 - t % 64 if fx.const_expr(mended) else 127 - t]  # bug


@bug(EARLY, **GFX950)
@flyc.kernel
def waits_and_barriers_by_name(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Intrinsics: the barrier waits for nothing, the wait counts as `s_waitcnt(vmcnt=1)` and one too many."""
    t, base = fx.thread_idx.x, fx.get_dyn_shared(fx.Float32)
    for i in fx.range_constexpr(2):
        fetch(x, base + 128 * i, 128 * i)
    fx.llvm_intrinsic(None, "llvm.amdgcn.s.waitcnt", [fx.Int32(0xF71 if mended else 0xF72)])
    fx.llvm_intrinsic(None, "llvm.amdgcn.s.barrier", [])
    y[t] = base[127 - t]  # bug


@bug(EARLY, **GFX950)
@flyc.kernel
def ragged_copy(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Some lanes take no part in the second copy: their waves have issued it all the same."""
    t, base = fx.thread_idx.x, fx.get_dyn_shared(fx.Float32)
    fetch(x, base, 0)
    if t % 64 < 40:
        fetch(x, base + 128, 128)
    r.s_waitcnt(vmcnt=1 if mended else 2)
    r.s_barrier()
    y[t] = base[127 - t]  # bug


@bug("loss, at the end of the block, of shared memory", block=64, smem=2 * 64 * 4, arch="sm_90a", make=floats)
@flyc.kernel
def store_outlives_its_block(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """The wait for what stores read leaves the last one under way."""
    t, base = fx.thread_idx.x, fx.get_dyn_shared(fx.Float32)
    row = fx.make_layout(64, 1)
    for i in fx.range_constexpr(2):
        base[64 * i + t] = x[64 * i + t]
    nv.fence_proxy_async()
    fx.barrier()
    if t == 0:
        for i in fx.range_constexpr(2):
            nv.bulk_store(fx.make_view(base + 64 * i, row), fx.make_view(fx.get_iter(y) + 64 * i, row))  # bug
            nv.tma_commit()
        nv.tma_wait(0 if mended else 1, read=True)
