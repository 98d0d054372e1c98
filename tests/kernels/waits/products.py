"""A pipeline of matrix products of a warpgroup, whose operands in shared memory are filled again while they run."""

from __future__ import annotations

from typing import Any

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..schedules.case import aligned
from ..schedules.engines import operand
from .model import BEFORE, BEHIND, NONE, Event, Plan, right

nv = fx.nvgpu
SLOTS, STEPS, MOST = 2, 4, 6
SIZE = 64 * 16
ONES = (1,) * STEPS


class Products:
    """The same questions as of a kind of copy."""

    arch = "sm_90a"
    commit = nv.wgmma_commit

    def arrays(self) -> tuple[Any, Any]:
        x, y = aligned(STEPS), aligned(64 * 64)
        # All different: a write that changes nothing is no race.
        x[:] = np.random.default_rng().permutation(20)[:STEPS] + 1
        y[:] = -1
        return x, y

    def expected(self, x: Any) -> Any:
        return np.full(64 * 64, 16 * x.sum(), np.float32)

    def events(self, plan: Plan) -> list[Event]:
        made: list[Event] = []
        for step in range(STEPS):
            if plan.waits[step] != NONE:
                # The compiler closes a group that is open at a wait.
                made += [("commit if open",), ("wait", plan.waits[step])]
            made.extend([("barrier",)] * plan.second[step])
            made.append(("fill", step, step % SLOTS))
            made.extend([("barrier",)] * plan.first[step])
            made.extend([("commit",)] * (plan.commits[step] == BEFORE))
            made.append(("store", step, step % SLOTS))
            made.extend([("commit",)] * (plan.commits[step] == BEHIND))
        return made

    def plan(self) -> Plan:
        """The right numbers, as large as they may be."""
        made = Plan((0,) * STEPS, ONES, ONES, ONES)
        for step in range(STEPS):
            grown = [made._replace(waits=(*made.waits[:step], n, *made.waits[step + 1 :])) for n in range(3)]
            made = [plan for plan in grown if right(self.events(plan), True)][-1]
        return made


@flyc.kernel
def multiplying(x: fx.Tensor, y: fx.Tensor, waits: fx.Int32, first: fx.Int32, second: fx.Int32, commits: fx.Int32):
    t = fx.thread_idx.x
    base = fx.get_dyn_shared(fx.Float16)
    a = operand(base, 0)
    slots = [operand(base, SIZE * (1 + slot)) for slot in range(SLOTS)]
    row, half = t // 2, t % 2 * 8
    for i in fx.range_constexpr(8):
        a[row, half + i] = fx.Float16(1)
    product = fx.make_tiled_mma(
        fx.make_mma_atom(nv.WGMMA(64, 16, fx.Float16, fx.Float32)), fx.make_layout((1, 1, 1), (0, 0, 0))
    )
    mine = product.get_slice(t)
    out = fx.make_view(fx.get_iter(y), fx.make_layout((64, 64), (64, 1)))
    acc = mine.make_fragment_C(out)
    acc.fill(0)
    for step in fx.range_constexpr(STEPS):
        number = (waits >> (4 * step)) & 15
        for n in fx.range_constexpr(MOST + 1):
            if number == n:
                nv.wgmma_wait(n)
        if (second >> (4 * step)) & 1 != 0:
            fx.barrier()
        for i in fx.range_constexpr(8):
            slots[step % SLOTS][row, half + i] = fx.Float16(x[step])
        nv.fence_proxy_async()
        if (first >> (4 * step)) & 1 != 0:
            fx.barrier()
        where = (commits >> (4 * step)) & 15
        nv.wgmma_fence()
        if where == BEFORE:
            nv.wgmma_commit()
        fx.gemm(product, acc, mine.partition_A(a), mine.partition_B(slots[step % SLOTS]), acc)
        if where == BEHIND:
            nv.wgmma_commit()
    nv.wgmma_wait(0, acc)
    fx.copy(fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float32), acc, mine.partition_C(out))


@flyc.jit
def launch(x: fx.Tensor, y: fx.Tensor, waits: fx.Int32, first: fx.Int32, second: fx.Int32, commits: fx.Int32):
    multiplying(x, y, waits, first, second, commits).launch(grid=1, block=128, smem=2 * SIZE * (1 + SLOTS))


__all__ = ["Products", "launch"]
