"""AMD: shared memory used again, copies into it that counters wait for."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import Array, number, pick, template
from .copies import STEPS, reversed_rows

r = fx.rocdl


def turned(x: Array) -> Array:
    y = x * 0
    for i in range(STEPS):
        row = x[128 * i : 128 * i + 128]
        y[128 * i : 128 * i + 128] = row[::-1]
    return y


@template(
    {
        1: ("vmcnt one short", "before the wait"),
        2: ("no wait for the copies", "before the wait"),
        3: ("no barrier behind the wait", "asynchronous copy"),
        4: ("double buffer off by one", "asynchronous copy"),
    },
    block=128,
    smem=2 * 128 * 4,
    arch="gfx942",
    expected=turned,
)
@flyc.kernel
def counted_loads(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """The next row is under way while one is used; barriers wait for no copies."""
    t = fx.thread_idx.x
    wave = r.readfirstlane(fx.Int32, t // 64)
    base = fx.get_dyn_shared(fx.Float32)
    buffer = r.make_buffer_tensor(x)

    def fetch(step, to):
        r.raw_ptr_buffer_load_lds(buffer, base + (128 * to + 64 * wave), 4, (128 * step + t) * 4, 0, 0)

    fetch(0, 0)
    for step in fx.range_constexpr(STEPS):
        if fx.const_expr(step + 1 < STEPS):
            fetch(step + 1, pick(bug == 4, step % 2, (step + 1) % 2))
            if bug == 1:
                r.s_waitcnt(vmcnt=2)
            elif bug != 2:
                r.s_waitcnt(vmcnt=1)
        else:
            if bug != 2:
                r.s_waitcnt(vmcnt=0)
        if bug != 3:
            r.s_barrier()
        y[128 * step + t] = base[128 * (step % 2) + 127 - t]
        r.s_barrier()


@template(
    {1: ("the source of a wide copy is written before the wait", "race on the tensor")},
    block=64,
    smem=64 * 16,
    arch="gfx950",
)
@flyc.kernel
def wide_source(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """16 bytes a lane by one instruction, of which each dword is read until the wait."""
    t, base = fx.thread_idx.x, fx.get_dyn_shared(fx.Float32)
    r.raw_ptr_buffer_load_lds(r.make_buffer_tensor(x), base, 16, t * 16, 0, 0)
    if (bug == 1) & (t == 63):
        x[1] = -1.0
    r.s_waitcnt(vmcnt=0)
    r.s_barrier()
    if (bug == 0) & (t == 63):
        x[1] = -1.0
    y[t] = base[63 - t]


@template(
    {
        1: ("LDS used again without a barrier", "race on shared memory"),
        2: ("LDS read without a barrier", "race on shared memory"),
        3: ("barrier in front of the write, none behind it", "race on shared memory"),
        4: ("double buffer off by one", "nobody has written"),
        5: ("a wave leaves the loop early", "race on shared memory"),
    },
    block=128,
    smem=2 * 64 * 4,
    arch="gfx942",
)
@flyc.kernel
def lds_reuse(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
    """Wave 0 writes a row, wave 1 reads it, in two buffers."""
    t = fx.thread_idx.x
    wave, lane = t // 64, t % 64
    lds = fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout((64, 2), (1, 64)))
    for step in fx.range_constexpr(STEPS):
        buffer = fx.Int32(step % 2) * number(bug != 1)
        if wave == 0:
            lds[lane, buffer] = x[64 * step + lane]
        if (bug != 2) & (bug != 3):
            fx.barrier()
        if wave == 1:
            y[64 * step + lane] = lds[63 - lane, pick(bug == 4, 1 - buffer, buffer)]
        if bug == 3:
            fx.barrier()
        if (bug == 5) & (wave == 1) & (step == 1):
            pass
        elif bug != 1:
            fx.barrier()


__all__ = ["counted_loads", "lds_reuse", "reversed_rows", "wide_source"]
