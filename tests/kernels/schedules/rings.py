"""Rings of buffers that asynchronous copies fill, in every form, and what must be found of each.

One kernel per kind of copy takes a `Ring` apart when it runs: how many buffers, how many rows ahead, how many copies a
wait leaves under way, which barriers there are. `is_racy` tells from these numbers alone whether a row may be read
before it is there or overwritten while it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import Array, aligned
from .copies import copy_one
from .movers import lanes_load, mover_copies

nv, r = fx.nvgpu, fx.rocdl
ROWS = 4
NEVER = 1 << 30


class Ring(NamedTuple):
    """A pipeline over `ROWS` rows."""

    buffers: int
    ahead: int
    """Rows that are under way while one is used; they are issued in front of the loop."""
    pending: int
    """What the wait leaves under way."""
    meets: bool
    """Whether there is a barrier behind the wait."""
    frees: bool
    """Whether there is a barrier behind the reads."""
    late: bool
    """Whether the next row is issued behind the reads, not in front of the wait."""
    drains: bool
    """Whether empty groups are closed at the end, so that the wait always means the same."""

    @property
    def words(self) -> tuple[int, ...]:
        flags = sum(1 << i for i, flag in enumerate(self[3:]) if flag)
        return self.buffers, self.ahead, self.pending, flags


def every_ring() -> Iterator[Ring]:
    for buffers, ahead, pending in product((1, 2, 3), (0, 1, 2), (0, 1, 2)):
        for flags in product((False, True), repeat=4):
            yield Ring(buffers, ahead, pending, *flags)


def is_racy(ring: Ring, groups: bool) -> bool:
    """Whether some order gives something else, with waits for `groups` of copies, or for copies that are counted.

    All threads do the same, so where a thread is in its program is told by how many barriers it has passed and how many
    steps it has made. What different threads do is ordered if a barrier is between; what one does, by its program.
    """
    passed, step = 0, 0
    issued: dict[int, tuple[int, int]] = {}
    there: dict[int, tuple[int, int]] = {}
    read: dict[int, tuple[int, int]] = {}
    counted: list[int | None] = []

    def issue(row: int) -> None:
        nonlocal step
        if row < ROWS:
            step += 1
            issued[row] = passed, step
            counted.append(row)
        elif groups and ring.drains:
            counted.append(None)

    for row in range(ring.ahead):
        issue(row)
    for row in range(ROWS):
        if not ring.late:
            issue(row + ring.ahead)
        step += 1
        for done in counted[: max(len(counted) - ring.pending, 0)]:
            if done is not None:
                there.setdefault(done, (passed, step))
        passed += ring.meets
        step += 1
        read[row] = passed, step
        if not groups:
            # The store of what was read is counted, too.
            counted.append(None)
        passed += ring.frees
        if ring.late:
            issue(row + ring.ahead)

    def before(first: tuple[int, int], second: tuple[int, int]) -> bool:
        """Whether what other threads did first is ordered."""
        return first[0] < second[0]

    for row, when in read.items():
        if row not in issued or not before(there.get(row, (NEVER, NEVER)), when):
            return True
        for other, start in issued.items():
            if other == row or other % ring.buffers != row % ring.buffers:
                continue
            if other > row and not before(when, start):
                return True
            # A copy by the same thread to the same place must have ended.
            if other < row and not there.get(other, (NEVER, NEVER))[1] < issued[row][1]:
                return True
    return False


def reversed_rows(x: Array, threads: int) -> Array:
    return x[: ROWS * threads].reshape(ROWS, threads)[:, ::-1].reshape(-1)


@flyc.kernel
def cp_async_kernel(x: fx.Tensor, y: fx.Tensor, buffers: fx.Int32, ahead: fx.Int32, pending: fx.Int32, flags: fx.Int32):
    t = fx.thread_idx.x
    meets, frees, late, drains = ((flags & 1 << i) != 0 for i in fx.range_constexpr(4))
    ring = fx.make_view(fx.get_dyn_shared(fx.Float32), fx.make_layout((1, 64, 3), (1, 1, 64)))
    rows = fx.make_view(fx.get_iter(x), fx.make_layout((1, 64, ROWS), (1, 1, 64)))

    def issue(row):
        if row < ROWS:
            copy_one(rows[None, t, row], ring[None, t, row % buffers])
            nv.cp_async_commit()
        elif drains:
            nv.cp_async_commit()

    for row in range(ahead):
        issue(row)
    for row in range(ROWS):
        if ~late:
            issue(row + ahead)
        if pending == 0:
            nv.cp_async_wait(0)
        elif pending == 1:
            nv.cp_async_wait(1)
        else:
            nv.cp_async_wait(2)
        if meets:
            fx.barrier()
        y[64 * row + t] = ring[0, 63 - t, row % buffers]
        if frees:
            fx.barrier()
        if late:
            issue(row + ahead)


@flyc.kernel
def vmcnt_kernel(x: fx.Tensor, y: fx.Tensor, buffers: fx.Int32, ahead: fx.Int32, pending: fx.Int32, flags: fx.Int32):
    t = fx.thread_idx.x
    meets, frees, late = ((flags & 1 << i) != 0 for i in fx.range_constexpr(3))
    wave = r.readfirstlane(fx.Int32, t // 64)
    base = fx.get_dyn_shared(fx.Float32)
    buffer = r.make_buffer_tensor(x)

    def issue(row):
        if row < ROWS:
            to = base + (128 * (row % buffers) + 64 * wave)
            r.raw_ptr_buffer_load_lds(buffer, to, 4, (128 * row + t) * 4, 0, 0)

    for row in range(ahead):
        issue(row)
    for row in range(ROWS):
        if ~late:
            issue(row + ahead)
        if pending == 0:
            r.s_waitcnt(vmcnt=0)
        elif pending == 1:
            r.s_waitcnt(vmcnt=1)
        else:
            r.s_waitcnt(vmcnt=2)
        if meets:
            r.s_barrier()
        y[128 * row + t] = base[128 * (row % buffers) + 127 - t]
        if frees:
            r.s_barrier()
        if late:
            issue(row + ahead)


@flyc.kernel
def asyncmark_kernel(
    x: fx.Tensor, y: fx.Tensor, buffers: fx.Int32, ahead: fx.Int32, pending: fx.Int32, flags: fx.Int32
):
    t = fx.thread_idx.x
    meets, frees, late, drains = ((flags & 1 << i) != 0 for i in fx.range_constexpr(4))
    wave = r.readfirstlane(fx.Int32, t // 64)
    base = fx.get_dyn_shared(fx.Float32)
    atom = fx.make_copy_atom(r.cdna4.BufferLoadAsyncLDS(32), fx.Float32)
    buffer = fx.get_iter(r.make_buffer_tensor(x, max_size=False))
    one = fx.make_layout(1, 1)

    def issue(row):
        if row < ROWS:
            to = base + (128 * (row % buffers) + 64 * wave)
            fx.copy_atom_call(atom, fx.make_view(buffer + (128 * row + t), one), fx.make_view(to, one))
            r.asyncmark()
        elif drains:
            r.asyncmark()

    for row in range(ahead):
        issue(row)
    for row in range(ROWS):
        if ~late:
            issue(row + ahead)
        if pending == 0:
            r.wait_asyncmark(0)
        elif pending == 1:
            r.wait_asyncmark(1)
        else:
            r.wait_asyncmark(2)
        if meets:
            r.s_barrier()
        y[128 * row + t] = base[128 * (row % buffers) + 127 - t]
        if frees:
            r.s_barrier()
        if late:
            issue(row + ahead)


def _counted_kernel(copy: Any, wait: Any) -> Any:
    """Copies of a row that a counter of gfx1250 counts, and nothing else."""

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor, buffers: fx.Int32, ahead: fx.Int32, pending: fx.Int32, flags: fx.Int32):
        t = fx.thread_idx.x
        meets, frees, late = ((flags & 1 << i) != 0 for i in fx.range_constexpr(3))
        base = fx.get_dyn_shared(fx.Float32)

        def issue(row):
            if row < ROWS:
                copy(fx.get_iter(x) + 64 * row, base + 64 * (row % buffers))

        for row in range(ahead):
            issue(row)
        for row in range(ROWS):
            if ~late:
                issue(row + ahead)
            if pending == 0:
                wait(0)
            elif pending == 1:
                wait(1)
            else:
                wait(2)
            if meets:
                fx.barrier()
            y[64 * row + t] = base[64 * (row % buffers) + 63 - t]
            if frees:
                fx.barrier()
            if late:
                issue(row + ahead)

    return kernel


class Kind(NamedTuple):
    """A kind of copy: its kernel as a call, the GPU, its threads, and whether waits are for groups."""

    launch: Any
    arch: str
    threads: int
    groups: bool
    whole: bool
    """Whether every ring is tried in every run of the tests, or some that are drawn."""
    empty: bool
    """Whether a group may be empty."""

    def is_racy(self, ring: Ring) -> bool:
        """Whether something must be found."""
        return is_racy(ring if self.empty else ring._replace(drains=False), self.groups)

    def arguments(self, ring: Ring) -> tuple[Any, ...]:
        x, y = aligned(ROWS * self.threads), aligned(ROWS * self.threads)
        # All numbers differ: copying one over another one that is still read changes it.
        x[:] = range(1, x.size + 1)
        return x, y, *ring.words


def _kind(kernel: Any, arch: str, threads: int, groups: bool, whole: bool = True, empty: bool = True) -> Kind:
    @flyc.jit
    def launch(x: fx.Tensor, y: fx.Tensor, buffers: fx.Int32, ahead: fx.Int32, pending: fx.Int32, flags: fx.Int32):
        kernel(x, y, buffers, ahead, pending, flags).launch(grid=1, block=threads, smem=3 * threads * 4)

    return Kind(launch, arch, threads, groups, whole, empty)


KINDS = {
    "cp.async on sm_80": _kind(cp_async_kernel, "sm_80", 64, True),
    "cp.async on sm_90a": _kind(cp_async_kernel, "sm_90a", 64, True, False),
    "vmcnt on gfx942": _kind(vmcnt_kernel, "gfx942", 128, False),
    "vmcnt on gfx950": _kind(vmcnt_kernel, "gfx950", 128, False, False),
    "asyncmark on gfx942": _kind(asyncmark_kernel, "gfx942", 128, True, False),
    "asyncmark on gfx950": _kind(asyncmark_kernel, "gfx950", 128, True),
    "asynccnt on gfx1250": _kind(_counted_kernel(lanes_load, r.s_wait_asynccnt), "gfx1250", 64, True, empty=False),
    "tensorcnt on gfx1250": _kind(_counted_kernel(mover_copies, r.s_wait_tensorcnt), "gfx1250", 64, True, empty=False),
}

__all__ = ["KINDS", "Kind", "Ring", "every_ring", "is_racy", "reversed_rows"]
