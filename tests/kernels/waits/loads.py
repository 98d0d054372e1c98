"""Pipelines that fetch rows into shared memory ahead of their use, by every kind of asynchronous copy.

Each kernel takes the numbers of a `Plan`; `events` says what it does, for the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..schedules.case import aligned
from .model import BEFORE, BEHIND, NONE, Event, Plan, right

r, nv = fx.rocdl, fx.nvgpu
AHEAD, STEPS = 2, 4
MOST = 9
"""The largest number that a wait of these kernels leaves under way."""


class Machine(NamedTuple):
    """A kind of copy: `fetch(x, to, at, t)` copies the part of a row that begins `at`, `width` elements a thread."""

    arch: str
    threads: int
    width: int
    fetch: Callable[[Any, Any, Any, Any], None]
    wait: Callable[[int], None]
    barrier: Callable[[], None]
    parts: int = 2
    commit: Callable[[], None] | None = None
    stores_count: bool = False
    """Whether the counter counts what threads store, too."""
    others: Sequence[tuple[str, int]] = ()
    """Behind each fetch: another access, and how many the counter takes it for."""
    short: int = 0
    """Elements that are missing at the end of the tensor: a buffer's copies give zeros there."""

    @property
    def part(self) -> int:
        return self.threads * self.width

    @property
    def row(self) -> int:
        return self.part * self.parts

    def arrays(self) -> tuple[Any, Any, Any]:
        """Rows of different numbers, aligned; poisoned results; room for other accesses."""
        made = [aligned(n) for n in (self.row * STEPS, self.threads * STEPS, 16 * self.threads)]
        made[0][:] = np.random.default_rng().integers(1, 1000, made[0].size)
        made[1][:] = -1
        return made[0][: made[0].size - self.short], made[1], made[2]

    def expected(self, x: Any) -> Any:
        whole = np.zeros(self.row * STEPS, np.float32)
        whole[: x.size] = x
        rows = whole.reshape(STEPS, self.parts, self.part)[:, :, ::-1]
        return rows.reshape(STEPS, self.parts * self.width, self.threads).sum(axis=1).reshape(-1)

    def events(self, plan: Plan) -> list[Event]:
        """What a wave does."""
        made: list[Event] = []

        def issue(stage: int) -> None:
            where = plan.commits[stage] if plan.commits else 0
            made.extend([("commit",)] * (where == BEFORE))
            made.extend([("copy", stage, stage % AHEAD)] * self.parts)
            made.extend([("commit",)] * (where == BEHIND))
            if self.others:
                made.extend([("other",)] * self.others[stage % len(self.others)][1])

        for stage in range(AHEAD):
            issue(stage)
        for step in range(STEPS):
            if plan.waits[step] != NONE:
                made.append(("wait", plan.waits[step]))
            made.extend([("barrier",)] * plan.first[step])
            made.append(("use", step, step % AHEAD))
            if self.stores_count:
                made.append(("other",))
            made.extend([("barrier",)] * plan.second[step])
            if step + AHEAD < STEPS:
                issue(step + AHEAD)
        return made

    def plan(self) -> Plan:
        """The right numbers, as large as they may be."""
        ones = (1,) * STEPS
        made = Plan((0,) * STEPS, ones, ones, ones if self.commit is not None else ())
        for step in range(STEPS):
            grown = [made._replace(waits=(*made.waits[:step], n, *made.waits[step + 1 :])) for n in range(MOST + 1)]
            made = [plan for plan in grown if right(self.events(plan), self.commit is not None)][-1]
        return made


def pipeline(machine: Machine) -> Any:
    """The kernel and its launch."""
    threads, width, parts, part, row = machine.threads, machine.width, machine.parts, machine.part, machine.row
    grouped, commit = machine.commit is not None, machine.commit or machine.barrier

    @flyc.kernel
    def fetching(
        x: fx.Tensor, y: fx.Tensor, z: fx.Tensor, waits: fx.Int32, first: fx.Int32, second: fx.Int32, commits: fx.Int32
    ):
        t = fx.thread_idx.x
        base = fx.get_dyn_shared(fx.Float32)
        kept = []
        for turn in fx.range_constexpr(-AHEAD, STEPS):
            stage = turn + AHEAD
            if fx.const_expr(turn >= 0):
                number = (waits >> (4 * turn)) & 15
                for n in fx.range_constexpr(MOST + 1):
                    if number == n:
                        machine.wait(n)
                if (first >> (4 * turn)) & 1 != 0:
                    machine.barrier()
                total = fx.Float32(0)
                for i in fx.range_constexpr(width * parts):
                    back = part * (i // width + 1) - 1 - i % width * threads
                    total = total + base[row * (turn % AHEAD) + back - t]
                y[threads * turn + t] = total
                if (second >> (4 * turn)) & 1 != 0:
                    machine.barrier()
            if fx.const_expr(stage < STEPS):
                where = (commits >> (4 * stage)) & 15
                if fx.const_expr(grouped):
                    if where == BEFORE:
                        commit()
                for p in fx.range_constexpr(parts):
                    machine.fetch(x, base + (row * (stage % AHEAD) + part * p), row * stage + part * p, t)
                if fx.const_expr(grouped):
                    if where == BEHIND:
                        commit()
                if fx.const_expr(len(machine.others) > 0):
                    other(machine.others[stage % len(machine.others)][0], z, t, kept)
        for value in kept:
            z[8 * threads + t] = z[8 * threads + t] + value

    @flyc.jit
    def launch(
        x: fx.Tensor, y: fx.Tensor, z: fx.Tensor, waits: fx.Int32, first: fx.Int32, second: fx.Int32, commits: fx.Int32
    ):
        fetching(x, y, z, waits, first, second, commits).launch(grid=1, block=threads, smem=4 * AHEAD * row)

    return launch


def other(kind: str, z: Any, t: Any, kept: list[Any]) -> None:
    """Another access to memory; what it loads is used at the very end."""
    four, buffer = fx.make_layout(4, 1), r.make_buffer_tensor(z)
    mine = fx.make_view(fx.get_iter(buffer) + 4 * t, four)
    held = fx.make_rmem_tensor(4, fx.Float32)
    if kind == "load of 16 bytes":
        fx.copy_atom_call(fx.make_copy_atom(r.BufferCopy128b(), fx.Float32), mine, held)
        kept.append(held[1])
    elif kind == "store of 16 bytes":
        held.fill(2)
        fx.copy_atom_call(fx.make_copy_atom(r.BufferCopy128b(), fx.Float32), held, mine)
    elif kind == "load of 32 bytes":
        kept.append(fx.make_view(fx.get_iter(z) + 8 * t, fx.make_layout(8, 1)).load()[5])
    elif kind == "scalar load":
        kept.append(r.s_buffer_load(buffer, 4).bitcast(fx.Float32))
    elif kind == "atomic":
        fx.atomic_add(fx.get_iter(z) + (1536 + t), 1.0)


# --- gfx9: vmcnt and marked groups ------------------------------------------------------------------------------------


def _of_wave(t: Any) -> Any:
    return r.readfirstlane(fx.Int32, t // 64) * 64


def buffer_copy(nbytes: int, size: int) -> Callable[[Any, Any, Any, Any], None]:
    """Copies of so many bytes a lane out of a buffer of `size` elements."""
    width = nbytes // 4

    def fetch(x: Any, to: Any, at: Any, t: Any) -> None:
        place = to + _of_wave(t) * width
        buffer = r.make_buffer_tensor(x, num_records_bytes=4 * size)
        r.raw_ptr_buffer_load_lds(buffer, place, nbytes, (at + width * t) * 4, 0, 0)

    return fetch


def global_copy(x: Any, to: Any, at: Any, t: Any) -> None:
    atom = fx.make_copy_atom(r.cdna4.GlobalLoadAsyncLDS128b(), fx.Float32)
    four = fx.make_layout(4, 1)
    fx.copy_atom_call(atom, fx.make_view(fx.get_iter(x) + (at + 4 * t), four), fx.make_view(to + _of_wave(t) * 4, four))


def wait_loads(n: int) -> None:
    """The same wait in all its spellings."""
    if n % 3 == 0:
        r.s_waitcnt(vmcnt=n)
    elif n % 3 == 1:
        r.s_waitcnt((n & 15) | 7 << 4 | 15 << 8 | (n >> 4) << 14)
    else:
        fx.inline_asm(None, [], f"s_waitcnt vmcnt({n})", "~{memory}")


# --- gfx1250: asynccnt and tensorcnt ----------------------------------------------------------------------------------


def lane_copy(x: Any, to: Any, at: Any, t: Any) -> None:
    r.cluster_load_async_to_lds(fx.get_iter(x) + (at + 4 * t), to + 4 * t, 16)


def mover_copy(x: Any, to: Any, at: Any, t: Any) -> None:
    row = fx.make_layout(64, 1)
    atom = r.cdna5.make_tdm_atom(fx.Float32, 1, num_warps=2)
    fx.copy_atom_call(atom, fx.make_view(fx.get_iter(x) + at, row), fx.make_view(to, row))


# --- sm_80: cp.async --------------------------------------------------------------------------------------------------


def cp_async(x: Any, to: Any, at: Any, t: Any) -> None:
    atom, four = fx.make_copy_atom(nv.CpAsync(128), fx.Float32), fx.make_layout(4, 1)
    fx.copy_atom_call(atom, fx.make_view(fx.get_iter(x) + (at + 4 * t), four), fx.make_view(to + 4 * t, four))


MACHINES: dict[str, Machine] = {
    "vmcnt, dwords": Machine("gfx942", 128, 1, buffer_copy(4, 1024), wait_loads, r.s_barrier, stores_count=True,
                             others=(("load of 16 bytes", 1), ("scalar load", 0), ("store of 16 bytes", 1))),
    "vmcnt, 16 bytes": Machine("gfx950", 128, 4, buffer_copy(16, 2042), wait_loads, r.s_barrier, 1, stores_count=True,
                               others=(("load of 32 bytes", 2), ("atomic", 1)), short=6),
    "marked groups": Machine("gfx950", 128, 4, global_copy, r.wait_asyncmark, r.s_barrier, 1, r.asyncmark,
                             others=(("load of 16 bytes", 1),)),
    "asynccnt": Machine("gfx1250", 64, 4, lane_copy, r.s_wait_asynccnt, fx.barrier, others=(("load of 16 bytes", 0),)),
    "tensorcnt": Machine("gfx1250", 64, 1, mover_copy, r.s_wait_tensorcnt, fx.barrier),
    "cp.async": Machine("sm_80", 64, 4, cp_async, nv.cp_async_wait, fx.barrier, 2, nv.cp_async_commit),
}  # fmt: skip

__all__ = ["MACHINES", "Machine", "pipeline"]
