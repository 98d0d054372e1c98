"""Counters of AMD GPUs in checked mode: what they count, and which copies a wait for them ends.

`asynccnt` counts copies of lanes (gfx1250), `tensorcnt` those of the tensor data mover, `vmcnt` all vector memory
instructions, among them copies into shared memory past registers (gfx9). Each instruction counts as one, loads as well
as stores, whatever it moves and however it is emulated, and they end in the order in which a wave issued them. Only
`fx.barrier` waits for those that `vmcnt` counts. Lanes count for themselves, and take over the count of their wave
where they meet to wait: of what they have issued since the last wait, those that left instructions out may take a
little too much for done. Of a copy into several blocks of a cluster only what comes to the own block lasts until the
wait.
"""

from __future__ import annotations

from typing import NamedTuple

from ...llvm.text.routine import Routine, Value
from .block import SHARED
from .copies import (
    ENTRY,
    LANE_LOAD,
    LANE_STORE,
    TENSOR_LOAD,
    TENSOR_STORE,
    TO_SHARED,
    groups_at,
    mark_of,
    own_mark,
    touch,
)
from .races import history
from .shadow import BYTES, COUNT, NEVER, PENDING, PENDING_COUNT, READS, SITE, TABLE_LINE, WARP_BITS, WRITES, shadow_of


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


def _wave_count(r: Routine, place: int) -> Value:
    """The largest count of the thread's wave, which it takes over."""
    shadow = shadow_of(r)
    bits = r.load("i64", shadow, WARP_BITS)
    first = (r["tid"] >> bits) << bits
    most = r.variable("i32", 0)
    with r.loop(r.least(first + (r.number(1) << bits), r.load("i64", shadow, COUNT)), first) as lane:
        most.set(r.most(most.get(), r.load("i32", groups_at(r, shadow, lane, place), 0, 4)))
    r.store("i32", most.get(), groups_at(r, shadow, r["tid"], place), 0, 4)
    return most.get()


def _waited(counter: Counter) -> Routine:
    """A thread waits until at most `pending` instructions of its wave are under way, whose lanes have met."""
    r = Routine(f"fly_check_{counter.name}_wait", "void", "ptr state, i64 tid, i32 pending")
    history.count(r, history.WAITS)
    pending, issued = r["pending"], _wave_count(r, counter.place)
    until = r.choose(issued > pending, issued - pending, r.number(0, "i32")).to("i64")
    mark = own_mark(r, r["tid"])
    for kind in (counter.load, counter.store):
        r.call("fly_check_settle", "void", r["state"], ("i64", kind), r["tid"], until, mark)
    return r


# --- vmcnt ------------------------------------------------------------------------------------------------------------

_NUMBER = 6
"""The place of the number of a thread's next vector memory instruction."""
_SHIFT = 32
"""The group of a copy is its number, and in so many bits below that how many groups were marked before it
(`asyncmark`): both kinds of waits find it."""


def _number_at(r: Routine) -> Value:
    return groups_at(r, shadow_of(r), r["tid"], _NUMBER)


def _copied() -> Routine:
    """A thread's part of a copy has been issued; the data was written at once."""
    r = Routine("fly_check_to_shared", "void", "ptr state, i64 tid, ptr at, i64 size")
    shadow, at = shadow_of(r), _number_at(r)
    # Lanes compute where it goes from another's address, so that the write itself is not known for one.
    touch(r, r["state"], r["at"], WRITES)
    offset = r.address(r["at"]) - r.address(r.load("ptr", r["state"], SHARED))
    number = r.load("i32", at, 0, 4)
    marked = r.load("i32", groups_at(r, shadow, r["tid"], TO_SHARED), 0, 4).to("i64")
    line = r.load("i64", r.load("ptr", r["state"], SITE), TABLE_LINE)
    ticket = history.take_ticket(r, r["tid"])
    group = (number.to("i64") << _SHIFT) | marked
    r.call(
        "fly_check_pend", "void", r["state"], ("i64", TO_SHARED), r["tid"], group, offset, r["size"],
        mark_of(r, r["tid"], NEVER), line, ticket,
    )  # fmt: skip
    r.store("i32", number + 1, at, 0, 4)
    return r


def _others() -> Routine:
    """A thread has issued instructions that are no copies; those at an address in shared memory are others."""
    r = Routine("fly_check_vector_memory", "void", "ptr state, i64 tid, ptr at, i32 count")
    offset = r.address(r["at"]) - r.address(r.load("ptr", r["state"], SHARED))
    with r.when(offset < r.load("i64", shadow_of(r), BYTES)):
        r.give()
    at = _number_at(r)
    r.store("i32", r.load("i32", at, 0, 4) + r["count"], at, 0, 4)
    return r


def _settle(r: Routine, until: Value) -> None:
    """The instructions before a number have ended."""
    mark = own_mark(r, r["tid"])
    r.call("fly_check_settle", "void", r["state"], ("i64", TO_SHARED), r["tid"], until << _SHIFT, mark)


def _loads_waited() -> Routine:
    """A thread waits until at most `pending` instructions of its wave are under way, whose lanes have met."""
    r = Routine("fly_check_to_shared_wait_count", "void", "ptr state, i64 tid, i32 pending")
    history.count(r, history.WAITS)
    issued = _wave_count(r, _NUMBER)
    until = r.choose(issued > r["pending"], issued - r["pending"], r.number(0, "i32"))
    _settle(r, until.to("i64"))
    return r


def _marks_waited() -> Routine:
    """A thread waits until at most `pending` of its marked groups are under way."""
    r = Routine("fly_check_to_shared_wait", "void", "ptr state, i64 tid, i32 pending")
    history.count(r, history.WAITS)
    shadow = shadow_of(r)
    marked = r.load("i32", groups_at(r, shadow, r["tid"], TO_SHARED), 0, 4)
    groups = r.choose(marked > r["pending"], marked - r["pending"], r.number(0, "i32")).to("i64")
    entries = r.load("ptr", shadow, PENDING)
    until = r.variable("i64", 0)
    with r.loop(r.load("i64", shadow, PENDING_COUNT)) as i:
        entry = r.at(entries, i * ENTRY)
        kind, who, group = (r.load("i64", entry, 8 * k) for k in range(3))
        before = (group & ((1 << _SHIFT) - 1)) < groups
        with r.when(kind.is_(TO_SHARED) & who.is_(r["tid"]) & before):
            until.set(r.most(until.get(), (group >> _SHIFT) + 1))
    _settle(r, until.get())
    return r


def _all_copies_waited() -> Routine:
    """A thread waits for all of its copies."""
    r = Routine("fly_check_to_shared_wait_all", "void", "ptr state, i64 tid")
    _settle(r, r.number((1 << 30) - 1))
    return r


def counter_routines() -> list[Routine]:
    """The routines of this file."""
    return [
        *(
            routine
            for counter in _COUNTERS
            for routine in (_piece(counter, True), _piece(counter, False), _issued(counter), _waited(counter))
        ),
        *(_copied(), _others(), _loads_waited(), _marks_waited(), _all_copies_waited()),
    ]
