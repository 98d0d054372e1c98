"""Races between ranks in checked mode: who wrote and read each byte of symmetric memory, and what ranks know of others.

A rank counts as one thread here, in the order in which things were done: its clock ticks at every atomic write to
symmetric memory, which hands on what the rank knows, as every atomic read takes up what was handed on there. So a race
between two ranks may be missed, none is made up. `cpu/rank_clocks.py` has the table, one for the process.
"""

from __future__ import annotations

from ...llvm.text.routine import Routine, Value
from ..rank_clocks import ACTIVE, CLOCKS, COUNT, HIGH, LOCK, LOW, MADE, PLACES, RANGE, RANGES, RANKS, READ, WRITTEN
from .shadow import ATOMIC, WRITES

CLOCK_BITS = 24
"""A cell of a byte: the rank + 1, and its clock then."""
BY_READER = 1 << 32
"""In an answer: the other one has read."""

GLOBALS = """
@fly_ranks = internal global ptr null, align 8
@fly_rank = internal global i64 0, align 8

define void @fly_join_ranks(ptr %table, i64 %rank) nounwind {
  store i64 %rank, ptr @fly_rank
  store ptr %table, ptr @fly_ranks
  ret void
}
"""


def _begin(r: Routine, nothing: int | None) -> tuple[Value, Value]:
    """The table and the rank; leaves where there is no world."""
    table = r.load("ptr", Value(r, "ptr", "@fly_ranks"), 0, 8)
    for absent in (lambda: r.address(table).is_(0), lambda: r.load("i64", table, ACTIVE, 8).is_(0)):
        with r.when(absent()):
            r.give(nothing)
    return table, r.load("i64", Value(r, "ptr", "@fly_rank"), 0, 8)


def _lock(r: Routine, table: Value) -> None:
    at = r.at(table, LOCK)
    with r.again(lambda: r.assign("i32", f"atomicrmw xchg ptr {at.name}, i32 1 acquire").is_not(0)):
        pass


def _unlock(r: Routine, table: Value) -> None:
    r.line(f"store atomic i32 0, ptr {r.at(table, LOCK).name} release, align 4")


def _find() -> Routine:
    """The array that an address belongs to, or null."""
    r = Routine("fly_check_rank_range", "ptr", "ptr table, i64 at")
    with r.loop(r.load("i64", r["table"], COUNT, 8)) as i:
        found = r.at(r["table"], i * RANGE + RANGES)
        with r.when((r["at"] >= r.load("i64", found, LOW, 8)) & (r["at"] < r.load("i64", found, HIGH, 8))):
            r.give(found)
    r.give(Value(r, "ptr", "null"))
    return r


def _clocks(r: Routine, table: Value, rank: Value) -> Value:
    return r.at(table, rank * (4 * RANKS) + CLOCKS)


def _join(r: Routine, into: Value, more: Value) -> None:
    with r.loop(RANKS) as i:
        here, there = (r.load("i32", clocks, i * 4, 4) for clocks in (into, more))
        r.store("i32", r.choose(here > there, here, there), into, i * 4, 4)


def _place(r: Routine, range_: Value) -> Value:
    """Where the clocks are that were handed on at an address."""
    return r.at(r.load("ptr", range_, PLACES, 8), ((r.address(r["at"]) - r.load("i64", range_, LOW, 8)) >> 2) * 8)


def hand_on() -> Routine:
    """Before an atomic write."""
    r = Routine("fly_check_rank_hand_on", "void", "ptr at")
    table, rank = _begin(r, None)
    range_ = r.value_of("fly_check_rank_range", "ptr", table, r.address(r["at"]))
    with r.when(r.address(range_).is_(0)):
        r.give()
    _lock(r, table)
    place = _place(r, range_)
    with r.when(r.load("i64", place, 0, 8).is_(0)):
        r.store("ptr", r.value_of("calloc", "ptr", ("i64", RANKS), ("i64", 4), external=True), place, 0, 8)
        r.store("i64", r.load("i64", range_, MADE, 8) + 1, range_, MADE, 8)
    own = _clocks(r, table, rank)
    _join(r, r.load("ptr", place, 0, 8), own)
    r.store("i32", r.load("i32", own, rank * 4, 4) + 1, own, rank * 4, 4)
    _unlock(r, table)
    return r


def take_up() -> Routine:
    """After an atomic read."""
    r = Routine("fly_check_rank_take_up", "void", "ptr at")
    table, rank = _begin(r, None)
    range_ = r.value_of("fly_check_rank_range", "ptr", table, r.address(r["at"]))
    with r.when(r.address(range_).is_(0)):
        r.give()
    _lock(r, table)
    place = r.load("ptr", _place(r, range_), 0, 8)
    with r.when(r.address(place).is_not(0)):
        _join(r, _clocks(r, table, rank), place)
    _unlock(r, table)
    return r


def compare() -> Routine:
    """Note a plain access; gives the rank + 1 that nothing orders with this one, or 0."""
    r = Routine("fly_check_ranks", "i64", "ptr at, i64 size, i32 how")
    table, rank = _begin(r, 0)
    first = r.address(r["at"])
    range_ = r.value_of("fly_check_rank_range", "ptr", table, first)
    with r.when(r.address(range_).is_(0) | (r["how"] & ATOMIC).is_not(0)):
        r.give(0)
    _lock(r, table)
    own = _clocks(r, table, rank)
    writes = (r["how"] & WRITES).is_not(0)
    me = ((rank + 1) << CLOCK_BITS) | r.load("i32", own, rank * 4, 4).to("i64")
    found = r.variable("i64", 0)
    low = r.load("i64", range_, LOW, 8)
    written, read = (r.load("ptr", range_, which, 8) for which in (WRITTEN, READ))

    def unordered(cell: Value) -> Value:
        """Whether another rank made this cell and this one has not heard of it since."""
        other = (cell >> CLOCK_BITS) - 1
        foreign = cell.is_not(0) & other.is_not(rank)
        heard = r.load("i32", own, (other & (RANKS - 1)) * 4, 4).to("i64")
        return foreign & ((cell & ((1 << CLOCK_BITS) - 1)) > heard)

    with r.loop(r.least(first + r["size"], r.load("i64", range_, HIGH, 8)), first) as byte:
        at = (byte - low) * 4
        before, reader = (r.load("i32", cells, at, 4).to("i64") for cells in (written, read))
        after_write, after_read = unordered(before), unordered(reader)
        with r.when(after_write & found.get().is_(0)):
            found.set(before >> CLOCK_BITS)
        with r.when(writes & after_read & found.get().is_(0)):
            found.set((reader >> CLOCK_BITS) | BY_READER)

        def keep(at: Value = at) -> None:
            r.store("i32", me.to("i32"), written, at, 4)

        def note(at: Value = at, after_read: Value = after_read) -> None:
            # A reader that nothing orders before this one is worth more than this one.
            with r.when(~after_read):
                r.store("i32", me.to("i32"), read, at, 4)

        r.either(writes, keep, note)
    _unlock(r, table)
    r.give(found.get())
    return r


def rank_routines() -> list[Routine]:
    """The routines of this file."""
    return [_find(), hand_on(), take_up(), compare()]
