"""Copies of gfx1250 in checked mode: `asynccnt` counts those of lanes, `tensorcnt` those of the tensor data mover.

Each instruction counts as one, loads as well as stores, and they end in the order in which a wave issued them. Barriers
wait for none. Lanes count for themselves, and take over the count of their wave where they meet to wait: of what they
have issued since the last wait, those that left instructions out may take a little too much for done. Of a copy into
several blocks of a cluster only what comes to the own block lasts until the wait.
"""

from __future__ import annotations

from typing import NamedTuple

from ...llvm.text.routine import Routine
from .block import SHARED
from .copies import LANE_LOAD, LANE_STORE, TENSOR_LOAD, TENSOR_STORE, groups_at, mark_of, own_mark, touch
from .races import history
from .shadow import BYTES, COUNT, NEVER, READS, SITE, TABLE_LINE, WARP_BITS, WRITES, shadow_of


class Counter(NamedTuple):
    """A counter: its name, the kinds of its copies, and the place of its count among those of a thread."""

    name: str
    load: int
    store: int
    place: int


_COUNTERS = Counter("lane", LANE_LOAD, LANE_STORE, 4), Counter("tensor", TENSOR_LOAD, TENSOR_STORE, 5)


def _piece(counter: Counter, load: bool) -> Routine:
    """A piece of the instruction a thread is at; `tests` where nothing else compares its access to shared memory."""
    name = f"fly_check_{counter.name}_{'load' if load else 'store'}"
    r = Routine(name, "void", "ptr state, i64 tid, ptr at, i64 size, i1 tests")
    shadow = shadow_of(r)
    offset = r.address(r["at"]) - r.address(r.load("ptr", r["state"], SHARED))
    with r.when((offset + r["size"]) > r.load("i64", shadow, BYTES)):
        r.give()
    with r.when(r["tests"]):
        touch(r, r["state"], r["at"], WRITES if load else READS)
    group = r.load("i32", groups_at(r, shadow, r["tid"], counter.place), 0, 4).to("i64")
    line = r.load("i64", r.load("ptr", r["state"], SITE), TABLE_LINE)
    r.call(
        "fly_check_pend", "void", r["state"], ("i64", counter.load if load else counter.store), r["tid"], group, offset,
        r["size"], mark_of(r, r["tid"], NEVER), line, ("i64", 0),
    )  # fmt: skip
    return r


def _issued(counter: Counter) -> Routine:
    """All pieces of an instruction are there, and what it does to global memory has one ticket."""
    r = Routine(f"fly_check_{counter.name}_issued", "void", "ptr state, i64 tid")
    at = groups_at(r, shadow_of(r), r["tid"], counter.place)
    issued = r.load("i32", at, 0, 4)
    ticket = history.take_ticket(r, r["tid"])
    with r.when(ticket.is_not(0)):
        zero = ("i64", 0)
        r.call(
            "fly_check_pend", "void", r["state"], ("i64", counter.load), r["tid"], issued.to("i64"), zero, zero, zero,
            zero, ticket,
        )  # fmt: skip
    r.store("i32", issued + 1, at, 0, 4)
    return r


def _waited(counter: Counter) -> Routine:
    """A thread waits until at most `pending` instructions of its wave are under way, whose lanes have met."""
    r = Routine(f"fly_check_{counter.name}_wait", "void", "ptr state, i64 tid, i32 pending")
    history.count(r, history.WAITS)
    shadow, pending = shadow_of(r), r["pending"]
    bits = r.load("i64", shadow, WARP_BITS)
    first = (r["tid"] >> bits) << bits
    most = r.variable("i32", 0)
    with r.loop(r.least(first + (r.number(1) << bits), r.load("i64", shadow, COUNT)), first) as lane:
        most.set(r.most(most.get(), r.load("i32", groups_at(r, shadow, lane, counter.place), 0, 4)))
    issued = most.get()
    r.store("i32", issued, groups_at(r, shadow, r["tid"], counter.place), 0, 4)
    until = r.choose(issued > pending, issued - pending, r.number(0, "i32")).to("i64")
    mark = own_mark(r, r["tid"])
    for kind in (counter.load, counter.store):
        r.call("fly_check_settle", "void", r["state"], ("i64", kind), r["tid"], until, mark)
    return r


def counter_routines() -> list[Routine]:
    """The routines of this file."""
    return [
        routine
        for counter in _COUNTERS
        for routine in (_piece(counter, True), _piece(counter, False), _issued(counter), _waited(counter))
    ]


__all__ = ["counter_routines"]
