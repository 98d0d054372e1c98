"""What a strategy needs of native code: who can go on, letting a warp go on, opening a barrier, ending a copy.

Copies into shared memory are made when they are issued, as ever; checked mode knows that nobody may look yet. What is
put off is their coming: the bytes and arrivals that an mbarrier counts.
"""

from __future__ import annotations

from ...llvm.text.routine import Routine, Value
from ..code.block import BARRIER, HANDLES, STATUS, WAIT
from ..code.shadow import SITE

OPERATIONS = 112
"""Where a block's state has the address of what its threads are about to do."""
OPERATION = 32
"""Of a thread: kind, address or number, two arguments."""
ROW, SUMMARY = 64, 32
"""A row per group of lanes with the same operation: block, warp, status, lanes, and the operation. A summary per block:
threads that have not left, those at a barrier, those at a collective, those before an operation."""
COPY = 64
"""A copy under way: state, thread, mbarrier, arrivals, bytes, table of the access, whether it has come, unused."""
MOST_COPIES = 1 << 14

GLOBALS = """
@fly_sched_hook = internal global ptr null, align 8
@fly_sched_copies = internal global ptr null, align 8
@fly_sched_count = internal global i64 0, align 8

define void @fly_sched_install(ptr %hook) nounwind {
  store ptr %hook, ptr @fly_sched_hook
  ret void
}
"""

SEEN = """
@fly_told = internal global ptr @fly_told_nobody, align 8

define internal void @fly_told_nobody(ptr %name) nounwind {
  ret void
}

define void @fly_seen_install(ptr %seen, ptr %told) nounwind {
  store ptr %seen, ptr @fly_seen
  store ptr %told, ptr @fly_told
  ret void
}
"""
"""What every module has: where code counts what it looks at, and who is told of kernels whose threads never meet."""


def _resume(r: Routine, state: Value, t: Value) -> None:
    r.call("llvm.coro.resume", "void", r.load("ptr", state, t * 8 + HANDLES), external=True)


def agents() -> Routine:
    """Write the rows and summaries; gives how many rows there are."""
    r = Routine("fly_sched_agents", "i64", "ptr states, i64 blocks, i64 n, i64 warp, ptr rows, ptr summaries")
    count = r.variable("i64", 0)
    with r.loop(r["blocks"]) as b:
        state = r.load("ptr", r["states"], b * 8)
        operations = r.load("ptr", state, OPERATIONS)
        live, waiting, meeting, ready = (r.variable("i64", 0) for _ in range(4))
        first = r.variable("i64", 0)
        with r.loop(r["n"]) as t:
            lane = t % r["warp"]
            with r.when(lane.is_(0)):
                first.set(count.get())
            status = r.load("i32", state, t * 4 + STATUS)
            with r.when(status.is_not(0)):
                live.set(live.get() + 1)
                with r.when(status < BARRIER):
                    meeting.set(meeting.get() + 1)
                with r.when((status >= BARRIER) & (status < WAIT)):
                    waiting.set(waiting.get() + 1)
            with r.when(status >= WAIT):
                ready.set(ready.get() + 1)
                at = r.at(operations, t * OPERATION)
                words = [r.load("i64", at, 8 * i) for i in range(4)]
                found = r.variable("i64", -1)
                with r.loop(count.get(), first.get()) as i:
                    row = r.at(r["rows"], i * ROW)
                    same = r.load("i64", row, 16).is_(status.to("i64"))
                    for k, word in enumerate(words):
                        same = same & r.load("i64", row, 32 + 8 * k).is_(word)
                    with r.when(same):
                        found.set(i)
                with r.when(found.get().is_(-1)):
                    found.set(count.get())
                    count.set(count.get() + 1)
                    row = r.at(r["rows"], found.get() * ROW)
                    for k, word in enumerate([b, t // r["warp"], status.to("i64"), r.number(0), *words]):
                        r.store("i64", word, row, 8 * k)
                row = r.at(r["rows"], found.get() * ROW)
                r.store("i64", r.load("i64", row, 24) | (r.number(1) << lane), row, 24)
        summary = r.at(r["summaries"], b * SUMMARY)
        for k, number in enumerate((live, waiting, meeting, ready)):
            r.store("i64", number.get(), summary, 8 * k)
    r.give(count.get())
    return r


def _drain(r: Routine, state: Value, begin: Value, force: int) -> Value:
    end = r.least(begin + r["unit"], r["n"])
    return r.value_of("fly_drain", "i64", state, begin, end, r["unit"], r["slot"], ("i1", force))


def step() -> Routine:
    """Let the lanes of a warp that are at an operation go on; gives how many collectives their unit had then."""
    r = Routine("fly_sched_step", "i64", "ptr state, i64 begin, i64 end, i32 status, i64 n, i64 unit, i64 slot")
    with r.loop(r["end"], r["begin"]) as t:
        with r.when(r.load("i32", r["state"], t * 4 + STATUS).is_(r["status"])):
            _resume(r, r["state"], t)
    r.give(_drain(r, r["state"], (r["begin"] // r["unit"]) * r["unit"], 0))
    return r


def open_barrier() -> Routine:
    """Let the threads of a block go on, which all wait at a barrier."""
    r = Routine("fly_sched_open", "void", "ptr state, i64 n, i64 unit, i64 slot, i64 warp, ptr sites")
    r.call("fly_check_barrier", "void", r["state"], r["n"], r["warp"], r["sites"])
    with r.loop(r["n"]) as t:
        status = r.load("i32", r["state"], t * 4 + STATUS)
        with r.when((status >= BARRIER) & (status < WAIT)):
            _resume(r, r["state"], t)
    with r.loop(r["n"], step=r["unit"]) as begin:
        _drain(r, r["state"], begin, 0)
    return r


def force() -> Routine:
    """Run collectives for which not all threads of a unit came; gives how many."""
    r = Routine("fly_sched_force", "i64", "ptr state, i64 n, i64 unit, i64 slot")
    ran = r.variable("i64", 0)
    with r.loop(r["n"], step=r["unit"]) as begin:
        ran.set(ran.get() + _drain(r, r["state"], begin, 1))
    r.give(ran.get())
    return r


def defer() -> Routine:
    """In place of `fly_mbarrier_update`: what a copy counts is counted when it comes."""
    r = Routine("fly_sched_defer", "void", "ptr state, i64 tid, ptr at, i32 arrivals, i32 expected")
    count = r.load("i64", Value(r, "ptr", "@fly_sched_count"), 0, 8)
    with r.when(count >= MOST_COPIES):
        # There is no room: it comes at once, and the strategy says so.
        r.call("fly_mbarrier_update", "void", *(r[name] for name in ("state", "tid", "at", "arrivals", "expected")))
        r.give()
    entry = r.at(r.load("ptr", Value(r, "ptr", "@fly_sched_copies"), 0, 8), count * COPY)
    r.store("ptr", r["state"], entry, 0, 8)
    r.store("i64", r["tid"], entry, 8, 8)
    r.store("ptr", r["at"], entry, 16, 8)
    r.store("i64", r["arrivals"].to("i64", signed=True), entry, 24, 8)
    r.store("i64", r["expected"].to("i64", signed=True), entry, 32, 8)
    r.store("ptr", r.load("ptr", r["state"], SITE), entry, 40, 8)
    r.store("i64", 0, entry, 48, 8)
    r.store("i64", count + 1, Value(r, "ptr", "@fly_sched_count"), 0, 8)
    return r


def complete() -> Routine:
    """A copy comes."""
    r = Routine("fly_sched_complete", "void", "ptr copy")
    entry = r["copy"]
    state, at = r.load("ptr", entry, 0, 8), r.load("ptr", entry, 16, 8)
    arrivals, due = (r.load("i64", entry, k, 8).to("i32") for k in (24, 32))
    r.store("i64", 1, entry, 48, 8)
    r.call("fly_mbarrier_update", "void", state, r.load("i64", entry, 8, 8), at, arrivals, due)
    return r


def schedule_routines() -> list[Routine]:
    """The routines of this file."""
    return [agents(), step(), open_barrier(), force(), defer(), complete()]
