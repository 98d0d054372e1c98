"""gfx1250: copies into and out of shared memory that `asynccnt` and `tensorcnt` count, and no barrier waits for."""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import pick, template
from .copies import STEPS, reversed_rows

r = fx.rocdl
ROW = 64
GFX1250: dict[str, Any] = {"block": ROW, "smem": 2 * ROW * 4, "arch": "gfx1250"}


def lanes_load(source: fx.Pointer, to: fx.Pointer) -> None:
    """A row, one element a lane."""
    t = fx.thread_idx.x
    r.cluster_load_async_to_lds(source + t, to + t, 4)


def lanes_store(source: fx.Pointer, to: fx.Pointer) -> None:
    """The same the other way."""
    t = fx.thread_idx.x
    places = [fx.to_llvm_ptr(p + t) for p in (to, source)]
    fx.llvm_intrinsic(None, "llvm.amdgcn.global.store.async.from.lds.b32", [*places, fx.Int32(0), fx.Int32(0)])


def mover_copies(source: fx.Pointer, to: fx.Pointer) -> None:
    """A row by the tensor data mover, either way; each wave copies its half."""
    row = fx.make_layout(ROW, 1)
    fx.copy_atom_call(
        r.cdna5.make_tdm_atom(fx.Float32, 1, num_warps=2), fx.make_view(source, row), fx.make_view(to, row)
    )


def loads(load: Any, wait: Any, other: Any) -> Any:
    """A ring of two buffers: the next row is under way while one is used."""

    @flyc.kernel
    def ring(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
        t = fx.thread_idx.x
        base = fx.get_dyn_shared(fx.Float32)
        source = fx.get_iter(x)
        load(source, base)
        for step in fx.range_constexpr(STEPS):
            if fx.const_expr(step + 1 < STEPS):
                load(source + ROW * (step + 1), base + ROW * pick(bug == 4, step % 2, (step + 1) % 2))
                if bug == 1:
                    wait(2)
                elif (bug != 2) & (bug != 5):
                    wait(1)
            else:
                if (bug != 2) & (bug != 5):
                    wait(0)
            if bug == 5:
                other(0)
            if bug != 3:
                fx.barrier()
            y[ROW * step + t] = base[ROW * (step % 2) + ROW - 1 - t]
            if bug != 6:
                fx.barrier()

    return ring


def stores(store: Any, wait: Any) -> Any:
    """Rows go out in turn through two buffers, turned around."""

    @flyc.kernel
    def ring(x: fx.Tensor, y: fx.Tensor, bug: fx.Int32):
        t = fx.thread_idx.x
        base = fx.get_dyn_shared(fx.Float32)
        target = fx.get_iter(y)
        for step in fx.range_constexpr(STEPS):
            if fx.const_expr(step == 2):
                if bug == 2:
                    wait(2)
                elif bug != 1:
                    wait(1)
            if bug != 4:
                fx.barrier()
            base[ROW * (step % 2) + ROW - 1 - t] = x[ROW * step + t]
            if bug != 3:
                fx.barrier()
            store(base + ROW * (step % 2), target + ROW * step)
        if bug == 5:
            wait(1)
        elif bug != 6:
            wait(0)
        if bug != 7:
            fx.barrier()
        y[ROW * STEPS + t] = y[ROW * STEPS - 1 - t]

    return ring


LOADS = {
    1: ("a wait for {} that is one short", "before the wait"),
    2: ("no wait for {}, but a barrier", "before the wait"),
    3: ("no barrier behind the wait for {}", "asynchronous copy"),
    4: ("{} into the buffer that is in use", "asynchronous copy"),
    5: ("a wait by another counter than that of {}", "before the wait"),
    6: ("{} into a buffer that is still read", "another thread read"),
}
STORES = {
    1: ("no wait for {} before the buffer is written again", "still reads"),
    2: ("a wait for {} that is one short, and the buffer written again", "still reads"),
    3: ("{} before everybody has written", "race on shared memory"),
    4: ("no barrier between the wait for {} and the next write", "still reads"),
    5: ("results of {} used, of which the last is under way", "race on the tensor"),
    6: ("results of {} used, of which none was waited for", "race on the tensor"),
    7: ("results of {} used without a barrier", "race on the tensor"),
}


def _enter(bugs: dict[int, tuple[str, str]], name: str, of: str, kernel: Any, **more: Any) -> None:
    kernel.__name__ = name
    template({n: (text.format(of), words) for n, (text, words) in bugs.items()}, **GFX1250, **more)(kernel)


_enter(
    LOADS,
    "lane_loads",
    "loads of lanes",
    loads(lanes_load, r.s_wait_asynccnt, r.s_wait_tensorcnt),
    expected=reversed_rows,
)
_enter(
    LOADS,
    "mover_loads",
    "the mover's loads",
    loads(mover_copies, r.s_wait_tensorcnt, r.s_wait_asynccnt),
    expected=reversed_rows,
)
_enter(STORES, "lane_stores", "stores of lanes", stores(lanes_store, r.s_wait_asynccnt))
_enter(STORES, "mover_stores", "the mover's stores", stores(mover_copies, r.s_wait_tensorcnt))

__all__ = ["LOADS", "STORES", "lanes_load", "lanes_store", "mover_copies"]
