"""Barriers in memory on the CPU: mbarriers in shared memory, and the named barriers of a block.

An mbarrier is two 32-bit words: arrivals that are pending and those of a whole phase (16 bits each), then the parity of
the phase in the top bit over the transferred bytes that are due, offset by `TX_ZERO`. A named barrier is one word:
arrivals in the low half, the phase above. The threads of a cluster take turns, so no step needs to be atomic.
"""

from __future__ import annotations

from ...llvm.text.routine import Routine, Value
from .block import NAMED, PROGRESS

TX_ZERO = 1 << 30
_PHASE = 1 << 31


def progress(checked: bool) -> Routine:
    """A thread that waited for memory goes on."""
    r = Routine("fly_progress", "void", "ptr state, i64 tid")
    r.store("i64", r.load("i64", r["state"], PROGRESS) + 1, r["state"], PROGRESS)
    return r


def init(checked: bool) -> Routine:
    """A barrier for `count` arrivals per phase."""
    r = Routine("fly_mbarrier_init", "void", "ptr state, i64 tid, ptr at, i32 count")
    r.store("i32", r["count"] | (r["count"] << 16), r["at"])
    r.store("i32", TX_ZERO, r["at"], 4)
    if checked:
        r.call("fly_check_init", "void", r["state"], r["tid"], r["at"])
    return r


def update(checked: bool) -> Routine:
    """Count arrivals and bytes; a phase that has all of them is over. The barrier may be another block's."""
    r = Routine("fly_mbarrier_update", "void", "ptr state, i64 tid, ptr at, i32 arrivals, i32 expected")
    at = r["at"]
    owner = r.value_of("fly_owner", "ptr", r["state"], r["tid"], at) if checked else r["state"]
    if checked:
        with r.when(r["arrivals"].is_not(0)):
            r.call("fly_check_release", "void", r["state"], r["tid"], owner, at)
    first = r.load("i32", at) - r["arrivals"]
    second = r.load("i32", at, 4) + r["expected"]
    over = (first & 0xFFFF).is_(0) & (second & (_PHASE - 1)).is_(TX_ZERO)
    r.store("i32", r.choose(over, first | (first >> 16), first), at)
    r.store("i32", r.choose(over, second ^ -_PHASE, second), at, 4)
    if checked:
        with r.when(over):
            r.call("fly_check_phase", "void", owner, at)
    return r


def arrive_copied(checked: bool) -> Routine:
    """The arrival that a thread's copies bring when they are there."""
    r = Routine("fly_mbarrier_arrive_copied", "void", "ptr state, i64 tid, ptr at")
    r.call("fly_mbarrier_update", "void", r["state"], r["tid"], r["at"], ("i32", 1), ("i32", 0))
    return r


def passed(checked: bool) -> Routine:
    """Whether the phase of this parity is over: the current one has the other parity."""
    r = Routine("fly_mbarrier_passed", "i1", "ptr state, i64 tid, ptr at, i32 parity")
    over = (r.load("i32", r["at"], 4) >> 31).is_not(r["parity"] & 1)
    if checked:
        with r.when(over):
            r.call("fly_check_acquire", "void", r["state"], r["tid"], r["at"])
    r.give(over)
    return r


def _named(r: Routine) -> Value:
    return r.at(r["state"], (r["number"] & 15).to("i64") * 4 + NAMED)


def named_arrive(checked: bool) -> Routine:
    """Arrive at barrier `number` of `total` threads; gives the phase it was in."""
    r = Routine("fly_named_arrive", "i32", "ptr state, i64 tid, i32 number, i32 total")
    at = _named(r)
    before = r.load("i32", at)
    phase = before & -(1 << 16)
    after = before + 1
    full = (after & 0xFFFF) >= r["total"]
    if checked:
        r.call("fly_check_named", "void", r["state"], r["tid"], r["number"], ("i1", 1))
    r.store("i32", r.choose(full, phase + (1 << 16), after), at)
    r.give(phase)
    return r


def named_passed(checked: bool) -> Routine:
    """Whether the phase a thread arrived in is over."""
    r = Routine("fly_named_passed", "i1", "ptr state, i64 tid, i32 number, i32 phase")
    over = (r.load("i32", _named(r)) & -(1 << 16)).is_not(r["phase"])
    if checked:
        with r.when(over):
            r.call("fly_check_named", "void", r["state"], r["tid"], r["number"], ("i1", 0))
    r.give(over)
    return r
