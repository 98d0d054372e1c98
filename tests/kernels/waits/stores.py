"""Pipelines that empty shared memory by asynchronous stores, or by matrix products, and fill it again.

A step waits, fills a slot with a row, and issues what reads it; at the end comes a wait for all of them, whose results
are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..schedules.case import aligned
from ..schedules.movers import lanes_store, mover_copies
from .model import BEFORE, BEHIND, NONE, Event, Plan, right

nv, r = fx.nvgpu, fx.rocdl
SLOTS, STEPS = 2, 4
ROW = 64
MOST = 6


class Machine(NamedTuple):
    """A kind of store: `store(from, to)` empties a row, and `wait(n)` waits for all but the last."""

    arch: str
    store: Callable[[Any, Any], None]
    wait: Callable[[int], None]
    read: Callable[[int], None] | None = None
    """Waits until rows have been read, where that is another wait."""
    commit: Callable[[], None] | None = None
    one_thread: bool = False
    """Whether one thread stores for all."""

    def arrays(self) -> tuple[Any, Any]:
        x, y = aligned(ROW * STEPS), aligned(ROW * (STEPS + 1))
        x[:] = np.random.default_rng().integers(1, 1000, x.size)
        y[:] = -1
        return x, y

    def expected(self, x: Any) -> Any:
        rows = x.reshape(STEPS, ROW)[:, ::-1]
        return np.concatenate([rows.reshape(-1), rows[STEPS - 1, ::-1]])

    def events(self, plan: Plan) -> list[Event]:
        made: list[Event] = []

        def wait(step: int) -> None:
            if plan.waits[step] != NONE:
                made.append(("wait" if self.read is None or step == STEPS else "read", plan.waits[step]))
            made.extend([("barrier",)] * plan.second[step])

        for step in range(STEPS):
            wait(step)
            made.append(("fill", step, step % SLOTS))
            made.extend([("barrier",)] * plan.first[step])
            where = plan.commits[step] if plan.commits else 0
            made.extend([("commit",)] * (where == BEFORE))
            made.append(("store", step, step % SLOTS))
            made.extend([("commit",)] * (where == BEHIND))
        wait(STEPS)
        made.append(("results",))
        return made

    def plan(self) -> Plan:
        """The right numbers, as large as they may be."""
        ones = (1,) * STEPS
        made = Plan((0,) * (STEPS + 1), ones, (*ones, 1), ones if self.commit is not None else ())
        for step in range(STEPS + 1):
            grown = [made._replace(waits=(*made.waits[:step], n, *made.waits[step + 1 :])) for n in range(3)]
            made = [plan for plan in grown if right(self.events(plan), self.commit is not None)][-1]
        return made


def pipeline(machine: Machine) -> Any:
    """The kernel and its launch."""
    grouped, commit = machine.commit is not None, machine.commit or fx.barrier
    read = machine.read or machine.wait

    @flyc.kernel
    def storing(x: fx.Tensor, y: fx.Tensor, waits: fx.Int32, first: fx.Int32, second: fx.Int32, commits: fx.Int32):
        t = fx.thread_idx.x
        base = fx.get_dyn_shared(fx.Float32)
        mine = (t == 0) | (not machine.one_thread)
        for step in fx.range_constexpr(STEPS + 1):
            number = (waits >> (4 * step)) & 15
            for n in fx.range_constexpr(MOST + 1):
                if (number == n) & mine:
                    if fx.const_expr(step == STEPS):
                        machine.wait(n)
                    else:
                        read(n)
            if (second >> (4 * step)) & 1 != 0:
                fx.barrier()
            if fx.const_expr(step < STEPS):
                place = base + ROW * (step % SLOTS)
                place[ROW - 1 - t] = x[ROW * step + t]
                if fx.const_expr(machine.read is not None):
                    nv.fence_proxy_async()
                if (first >> (4 * step)) & 1 != 0:
                    fx.barrier()
                where = (commits >> (4 * step)) & 15
                if mine:
                    if fx.const_expr(grouped):
                        if where == BEFORE:
                            commit()
                    machine.store(place, fx.get_iter(y) + ROW * step)
                    if fx.const_expr(grouped):
                        if where == BEHIND:
                            commit()
        y[ROW * STEPS + t] = y[ROW * STEPS - 1 - t]

    @flyc.jit
    def launch(x: fx.Tensor, y: fx.Tensor, waits: fx.Int32, first: fx.Int32, second: fx.Int32, commits: fx.Int32):
        storing(x, y, waits, first, second, commits).launch(grid=1, block=ROW, smem=4 * SLOTS * ROW)

    return launch


def bulk_store(source: Any, to: Any) -> None:
    row = fx.make_layout(ROW, 1)
    nv.bulk_store(fx.make_view(source, row), fx.make_view(to, row))


MACHINES: dict[str, Machine] = {
    "bulk groups": Machine("sm_90a", bulk_store, nv.tma_wait, lambda n: nv.tma_wait(n, read=True), nv.tma_commit, True),
    "asynccnt": Machine("gfx1250", lanes_store, r.s_wait_asynccnt),
    "tensorcnt": Machine("gfx1250", mover_copies, r.s_wait_tensorcnt),
}

__all__ = ["MACHINES", "Machine", "pipeline"]
