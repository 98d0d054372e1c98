"""Blocks of a cluster on the CPU: their turns, their barrier, and each other's shared memory.

The record of a cluster (`cpu_block.py`): threads that arrived at its barrier at 0, threads that must at 4, the phase at
8, the bytes from one block's shared memory to the next at 16, the blocks' states at 24, their number at 32, their
number per dimension at 40. Blocks of one cluster run on one core, so nothing here needs to be atomic.
"""

from __future__ import annotations

from ...llvm.text.routine import Routine, Value
from .block import BLOCK_IDS, CLUSTER, JOINED, POLL_LIMIT, PROGRESS, RANK, SHARED, SITE_MASK, STATUS, WAIT
from .report import DEADLOCK

ARRIVED, EXPECTED, PHASE, STRIDE, STATES, BLOCKS, EXTENTS = 0, 4, 8, 16, 24, 32, 40


def _tell_stuck() -> Routine:
    """Report the threads of a block that wait for memory, once per place."""
    r = Routine("fly_tell_stuck", "void", "ptr state, i64 n, ptr sites", "cold noinline nounwind")
    ids = [r.load("i64", r["state"], BLOCK_IDS + 8 * i) for i in range(3)]
    with r.loop(r["n"]) as t:
        status = r.load("i32", r["state"], t * 4 + STATUS)
        with r.when(status >= WAIT):
            site = (status & SITE_MASK).to("i64")
            flag = r.load("ptr", r["sites"], site * 16)
            text = r.load("ptr", r["sites"], site * 16 + 8)
            r.call(
                "fly_report", "void", flag, text, ("i64", DEADLOCK), ("i64", 0), ("i64", 0), ("i64", 0), t, *ids,
                Value(r, "ptr", "null"), ("i64", 0), Value(r, "ptr", "null"),
            )  # fmt: skip
    return r


def _run_cluster() -> Routine:
    """Turns of the blocks of a cluster until all have finished, or none can go on."""
    r = Routine("fly_run_cluster", "void", "ptr states, i64 blocks, i64 n, i64 unit, i64 slot, i64 warp, ptr sites")
    idle = r.variable("i64", 0)
    finished = r.variable("i64", 0)
    with r.again(lambda: finished.get().is_(0)):
        moved, left, polls = (r.variable("i64", 0) for _ in range(3))
        with r.loop(r["blocks"]) as b:
            state = r.load("ptr", r["states"], b * 8)
            before = r.load("i64", state, PROGRESS)
            code = r.value_of("fly_run_block", "i32", state, *(r[x] for x in ("n", "unit", "slot", "warp", "sites")))
            with r.when(r.load("i64", state, PROGRESS).is_not(before)):
                moved.set(1)
            with r.when(code.is_not(0)):
                left.set(1)
            with r.when(code.is_(2)):
                polls.set(1)
        finished.set(left.get() ^ 1)
        with r.when((left.get() & (moved.get() ^ 1)).is_not(0)):
            with r.loop(r["blocks"]) as b:
                state = r.load("ptr", r["states"], b * 8)
                with r.loop(r["n"], step=r["unit"]) as begin:
                    end = r.least(begin + r["unit"], r["n"])
                    ran = r.value_of("fly_drain", "i64", state, begin, end, r["unit"], r["slot"], ("i1", 1))
                    with r.when(ran.is_not(0)):
                        moved.set(1)
        idle.set((idle.get() + 1) * (moved.get() ^ 1))
        patience = polls.get() * POLL_LIMIT
        stuck = left.get() & (idle.get() > patience).to("i64")
        with r.when(stuck.is_not(0)):
            with r.loop(r["blocks"]) as b:
                r.call("fly_tell_stuck", "void", r.load("ptr", r["states"], b * 8), r["n"], r["sites"])
            finished.set(1)
    return r


def scheduler() -> str:
    """What kernels whose threads wait for memory need beside the scheduler of a block."""
    return _tell_stuck().text() + "\n" + _run_cluster().text()


# --- what kernels call ----------------------------------------------------------------------------------------------


def rank(checked: bool) -> Routine:
    """Number of the block in its cluster."""
    r = Routine("fly_cluster_rank", "i32", "ptr state, i64 tid")
    r.give(r.load("i64", r["state"], RANK).to("i32"))
    return r


def size(checked: bool) -> Routine:
    """Blocks of the cluster."""
    r = Routine("fly_cluster_size", "i32", "ptr state, i64 tid")
    r.give(r.load("i64", r.load("ptr", r["state"], CLUSTER), BLOCKS).to("i32"))
    return r


def extent(checked: bool) -> Routine:
    """Blocks of the cluster along a dimension."""
    r = Routine("fly_cluster_extent", "i32", "ptr state, i64 tid, i32 dim")
    r.give(r.load("i32", r.load("ptr", r["state"], CLUSTER), r["dim"].to("i64") * 4 + EXTENTS))
    return r


def remote(checked: bool) -> Routine:
    """The same place in the shared memory of another block of the cluster."""
    r = Routine("fly_remote", "ptr", "ptr state, i64 tid, ptr at, i32 rank")
    record = r.load("ptr", r["state"], CLUSTER)
    steps = r["rank"].to("i64") - r.load("i64", r["state"], RANK)
    r.give(r.at(r["at"], steps * r.load("i64", record, STRIDE)))
    return r


def owner(checked: bool) -> Routine:
    """State of the block of the cluster whose shared memory an address lies in; the own one's for other addresses."""
    r = Routine("fly_owner", "ptr", "ptr state, i64 tid, ptr at")
    record = r.load("ptr", r["state"], CLUSTER)
    states = r.load("ptr", record, STATES)
    first = r.load("ptr", r.load("ptr", states), SHARED)
    stride = r.load("i64", record, STRIDE)
    offset = r.address(r["at"]) - r.address(first)
    with r.when(stride.is_(0)):
        r.give(r["state"])
    index = offset // stride
    with r.when(index >= r.load("i64", record, BLOCKS)):
        r.give(r["state"])
    r.give(r.load("ptr", states, index * 8))
    return r


def _open_if_full(r: Routine, record: Value) -> None:
    arrived, expected = r.load("i32", record, ARRIVED), r.load("i32", record, EXPECTED)
    with r.when(arrived >= expected):
        r.store("i32", 0, record, ARRIVED)
        r.store("i32", r.load("i32", record, PHASE) + 1, record, PHASE)


def arrive(checked: bool) -> Routine:
    """Count a thread at the cluster's barrier, and remember the phase it came in."""
    r = Routine("fly_cluster_arrive", "void", "ptr state, i64 tid")
    record = r.load("ptr", r["state"], CLUSTER)
    r.store("i32", r.load("i32", record, PHASE), r["state"], r["tid"] * 4 + JOINED)
    if checked:
        r.call("fly_check_cluster_arrive", "void", r["state"], r["tid"])
    r.store("i32", r.load("i32", record, ARRIVED) + 1, record, ARRIVED)
    _open_if_full(r, record)
    return r


def arrive_relaxed(checked: bool) -> Routine:
    """The same of a thread that passes nothing on."""
    r = arrive(False)
    r.name = "fly_cluster_arrive_relaxed"
    return r


def passed(checked: bool) -> Routine:
    """Whether the phase the thread arrived in is over."""
    r = Routine("fly_cluster_passed", "i1", "ptr state, i64 tid")
    record = r.load("ptr", r["state"], CLUSTER)
    over = r.load("i32", record, PHASE).is_not(r.load("i32", r["state"], r["tid"] * 4 + JOINED))
    if checked:
        with r.when(over):
            r.call("fly_check_cluster_wait", "void", r["state"], r["tid"])
    r.give(over)
    return r


def leave(checked: bool) -> Routine:
    """A thread that ends is no longer waited for."""
    r = Routine("fly_cluster_leave", "void", "ptr state, i64 tid")
    record = r.load("ptr", r["state"], CLUSTER)
    expected = r.load("i32", record, EXPECTED) - 1
    r.store("i32", expected, record, EXPECTED)
    with r.when(r.load("i32", record, ARRIVED).is_not(0)):
        _open_if_full(r, record)
    r.store("i64", r.load("i64", r["state"], PROGRESS) + 1, r["state"], PROGRESS)
    return r
