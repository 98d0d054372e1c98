"""gfx1250: copies into and out of shared memory, by lanes and by the tensor data mover, which only counters end."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..schedules.movers import ROW, lanes_load, lanes_store, mover_copies
from .case import bug, floats

r = fx.rocdl
TWO_ROWS: dict[str, Any] = {"block": ROW, "smem": 2 * ROW * 4, "arch": "gfx1250", "make": floats}
EARLY, STILL_READ = "before the wait for it", "that an asynchronous copy still reads"


@bug(EARLY, **TWO_ROWS)
@flyc.kernel
def lanes_waited_one_short(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t, base = fx.thread_idx.x, fx.get_dyn_shared(fx.Float32)
    for i in fx.range_constexpr(2):
        lanes_load(fx.get_iter(x) + ROW * i, base + ROW * i)
    r.s_wait_asynccnt(0 if mended else 1)
    fx.barrier()
    y[t] = base[2 * ROW - 1 - t]  # bug


@bug(EARLY, **TWO_ROWS)
@flyc.kernel
def barrier_waits_for_no_lanes(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Nor does a wait for loads."""
    t, base = fx.thread_idx.x, fx.get_dyn_shared(fx.Float32)
    lanes_load(fx.get_iter(x), base)
    if fx.const_expr(mended):
        r.s_wait_asynccnt(0)
    else:
        r.s_waitcnt(vmcnt=0)
    fx.barrier()
    y[t] = base[ROW - 1 - t]  # bug


@bug(EARLY, **TWO_ROWS)
@flyc.kernel
def ragged_row_of_lanes(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """The second row is of 48 elements: half of the lanes of a wave do not load, but the wave does."""
    t, base = fx.thread_idx.x, fx.get_dyn_shared(fx.Float32)
    lanes_load(fx.get_iter(x), base)
    if t < 48:
        lanes_load(fx.get_iter(x) + ROW, base + ROW)
    r.s_wait_asynccnt(1 if mended else 2)
    fx.barrier()
    y[t] = base[ROW - 1 - t]  # bug


@bug(EARLY, **TWO_ROWS)
@flyc.kernel
def row_of_one_wave(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Behind the wait a wave may use what it has copied without a barrier."""
    t, base = fx.thread_idx.x, fx.get_dyn_shared(fx.Float32)
    half, lane = base + t // 32 * 32, t % 32
    for i in fx.range_constexpr(2):
        r.cluster_load_async_to_lds(fx.get_iter(x) + (ROW * i + t), half + (ROW * i + lane), 4)
    r.s_wait_asynccnt(1)
    y[t] = half[(0 if mended else ROW) + 31 - lane]  # bug


@bug(STILL_READ, **TWO_ROWS)
@flyc.kernel
def row_under_a_store_of_lanes(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """A load that is waited for by its number ends before a store that was issued behind it."""
    t, base = fx.thread_idx.x, fx.get_dyn_shared(fx.Float32)
    lanes_load(fx.get_iter(x), base)
    r.s_wait_asynccnt(0)
    lanes_load(fx.get_iter(x), base + ROW)
    lanes_store(base, fx.get_iter(y))
    r.s_wait_asynccnt(0 if mended else 1)
    fx.barrier()
    base[ROW - 1 - t] = y[ROW + t] + 1.0  # bug


@bug(EARLY, **TWO_ROWS)
@flyc.kernel
def mover_waited_one_short(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t, base = fx.thread_idx.x, fx.get_dyn_shared(fx.Float32)
    for i in fx.range_constexpr(2):
        mover_copies(fx.get_iter(x) + ROW * i, base + ROW * i)
    r.s_wait_tensorcnt(0 if mended else 1)
    fx.barrier()
    y[t] = base[2 * ROW - 1 - t]  # bug


@bug(EARLY, **TWO_ROWS)
@flyc.kernel
def mover_waited_by_one_wave(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Each wave counts its own half."""
    t, base = fx.thread_idx.x, fx.get_dyn_shared(fx.Float32)
    mover_copies(fx.get_iter(x), base)
    if (t < 32) | mended:
        r.s_wait_tensorcnt(0)
    fx.barrier()
    y[t] = base[ROW - 1 - t]  # bug


@bug("of what an asynchronous copy writes", **TWO_ROWS)
@flyc.kernel
def mover_without_a_barrier(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t, base = fx.thread_idx.x, fx.get_dyn_shared(fx.Float32)
    base[t] = x[t]
    fx.barrier()
    mover_copies(fx.get_iter(x) + ROW, base)
    r.s_wait_tensorcnt(0)
    if fx.const_expr(mended):
        fx.barrier()
    y[t] = base[ROW - 1 - t]  # bug


@bug(STILL_READ, **TWO_ROWS)
@flyc.kernel
def row_under_a_store_of_the_mover(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t, base = fx.thread_idx.x, fx.get_dyn_shared(fx.Float32)
    for i in fx.range_constexpr(2):
        base[ROW * i + t] = x[ROW * i + t] + 1.0
    fx.barrier()
    for i in fx.range_constexpr(2):
        mover_copies(base + ROW * i, fx.get_iter(y) + ROW * i)
    r.s_wait_tensorcnt(1)
    fx.barrier()
    base[ROW - 1 - t + (0 if mended else ROW)] = x[t] - 1.0  # bug


def described(x: fx.Tensor, base: fx.Pointer, **more: Any) -> Any:
    """A tile of 8 x 8 by a descriptor, whose words hide what is copied."""
    shared = fx.make_view(base, fx.make_layout((8, 8), (8, 1)))
    tile = {"tensor_shape": (8, 8), "strides": (8, 1), "tile_shape": (8, 8), "elem_bytes": 4, "num_warps": 2}
    return r.tdm_ops.make_tensor_descriptor_2d(x, shared, (0, 0), **tile, **more)


@bug(EARLY, **TWO_ROWS)
@flyc.kernel
def descriptor_not_waited_for(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t, base = fx.thread_idx.x, fx.get_dyn_shared(fx.Float32)
    r.tdm_ops.tensor_load_2d(described(x, base))
    if fx.const_expr(mended):
        r.tdm_ops.tensor_wait(0)
    fx.barrier()
    y[t] = base[ROW - 1 - t]  # bug


@bug(STILL_READ, **TWO_ROWS)
@flyc.kernel
def tile_under_a_store_by_a_descriptor(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """The wait is assembly."""
    t, base = fx.thread_idx.x, fx.get_dyn_shared(fx.Float32)
    base[t] = x[t] + 1.0
    fx.barrier()
    r.tdm_ops.tensor_store_2d(described(y, base, for_store=True))
    fx.inline_asm(None, [], "s_wait_tensorcnt 0x0" if mended else "s_wait_tensorcnt 0x1", "")
    fx.barrier()
    base[ROW - 1 - t] = x[t] - 1.0  # bug
