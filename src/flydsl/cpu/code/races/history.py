"""What has no room in the record of a byte or word: kept where schedules are explored, so that no access is forgotten.

Checked mode keeps the last writes of a byte and one or two reads (`shadow.py`, `global_memory.py`), which finds most
races and is quick. To say that there is none, all accesses count that nothing orders before a later one. Those that
must leave a record go into a list of it: one node per warp, with the lanes that did the same since they last met.

Accesses to global memory of copies under way have a ticket in place of a clock; the wait for a copy fills it in.
`@fly_exact` is 1 in code whose schedules are explored; LLVM removes all of this elsewhere. What is seen is counted.
"""

from __future__ import annotations

from collections.abc import Callable

from ....llvm.text.routine import Routine, Value
from .. import shadow as S
from ..block import RANK
from ..shadow import shadow_of, tell, thread_at, warp_of
from .seen import SEEN

NODE = 48
NEXT, BLOCK, CELL, LANES, META, TIME = 0, 8, 16, 24, 32, 40
"""A node: the next one, the block (or its rank), what was done (`shadow.py`), the lanes, `META`, the time.

`META`: which of the record's places it comes from, how it was done, the mask of bytes (8 bits each), 16 bits, the line.
"""
SAME = 0xFFFFFF
"""What two accesses of a warp must have in common to share a node."""
NO_THREAD = 0x7FF
"""In place of a thread: the access has a ticket."""
NO_WARPS = 11
"""Bits of a lane's number where nothing is known of warps: all threads are one."""

SHARED_ACCESSES, SHARED_CONFLICTS, GLOBAL_ACCESSES, GLOBAL_CONFLICTS, COPIES, WAITS, FORGOTTEN = range(len(SEEN))


def globals_text(exact: bool) -> str:
    """What the routines of this file share."""
    return f"""
@fly_exact = internal constant i8 {int(exact)}
@fly_history = internal global ptr null, align 8
@fly_history_room = internal global i64 0, align 8
@fly_history_count = internal global i64 1, align 8
@fly_history_launch = internal global i64 0, align 8
@fly_tickets = internal global ptr null, align 8
@fly_tickets_room = internal global i64 0, align 8
@fly_tickets_count = internal global i64 1, align 8
@fly_seen_here = internal global [{len(SEEN)} x i64] zeroinitializer, align 8
@fly_seen = internal global ptr @fly_seen_here, align 8
"""


def exact(r: Routine) -> Value:
    """Whether nothing may be forgotten."""
    return r.load("i8", Value(r, "ptr", "@fly_exact")).is_not(0)


def count(r: Routine, which: int) -> None:
    """Count something that was looked at, where that is asked for."""
    with r.when(exact(r)):
        seen = r.load("ptr", Value(r, "ptr", "@fly_seen"), 0, 8)
        r.store("i64", r.load("i64", seen, 8 * which, 8) + 1, seen, 8 * which, 8)


def meta(r: Routine, kind: Value, how: Value, mask: Value | int, line: Value) -> Value:
    """The word of a node; all are i64."""
    return kind | (how << 8) | ((mask if isinstance(mask, Value) else r.number(mask)) << 16) | (line << 32)


def _global(r: Routine, name: str) -> Value:
    return Value(r, "ptr", f"@fly_{name}")


def _grow(r: Routine, name: str, size: int) -> Value:
    """A new entry of a table; gives its number. Those of earlier launches are forgotten."""
    launch = r.load("i64", _global(r, "launch"), 0, 8)
    with r.when(r.load("i64", _global(r, "history_launch"), 0, 8).is_not(launch)):
        r.store("i64", launch, _global(r, "history_launch"), 0, 8)
        for each in ("history", "tickets"):
            r.store("i64", 1, _global(r, f"{each}_count"), 0, 8)
    number, room = (r.load("i64", _global(r, f"{name}_{word}"), 0, 8) for word in ("count", "room"))
    with r.when(number >= room):
        more = room * 2 + 1024
        grown = r.value_of("realloc", "ptr", r.load("ptr", _global(r, name), 0, 8), more * size, external=True)
        r.store("ptr", grown, _global(r, name), 0, 8)
        r.store("i64", more, _global(r, f"{name}_room"), 0, 8)
    r.store("i64", number + 1, _global(r, f"{name}_count"), 0, 8)
    return number


def _node(r: Routine, number: Value) -> Value:
    return r.at(r.load("ptr", _global(r, "history"), 0, 8), number.to("i64") * NODE)


def walk(r: Routine, head: Value, each: Callable[[Value], Value | None]) -> None:
    """Go through a list whose first number is at `head`; nodes leave it for which `each` gives true."""
    link = r.variable("ptr", head)
    with r.again(lambda: r.load("i32", link.get(), 0, 4).is_not(0)):
        node = _node(r, r.load("i32", link.get(), 0, 4))
        drop = each(node)
        following = r.at(node, NEXT)
        if drop is None:
            link.set(following)
        else:
            r.either(
                drop,
                lambda: r.store("i32", r.load("i32", following, 0, 4), link.get(), 0, 4),
                lambda: link.set(following),
            )


def _remember() -> Routine:
    """Keep an access in a list, with those of the same warp that are alike."""
    r = Routine("fly_check_remember", "void", "ptr head, i64 block, i64 cell, i64 meta, i64 time, i64 bits")
    cell = r["cell"]
    thread = (cell >> 52) & NO_THREAD
    bits = r.choose(thread > S.AGENT_THREAD, r.number(0), r["bits"])
    warp, ticket = (thread - 1) >> bits, thread.is_(NO_THREAD)
    lane = r.number(1) << ((thread - 1) & ((r.number(1) << bits) - 1) & 63)
    met, clock = cell & S.CLOCK_MASK, (cell >> 26) & S.CLOCK_MASK

    def each(node: Value) -> None:
        other = r.load("i64", node, CELL)
        same = r.load("i64", node, BLOCK).is_(r["block"]) & ((r.load("i64", node, META) ^ r["meta"]) & SAME).is_(0)
        same = same & (other >> 63).is_(cell >> 63) & ((((other >> 52) & NO_THREAD) - 1) >> bits).is_(warp)
        with r.when(same & (~ticket | other.is_(cell))):
            # The later of two accesses of a warp stands for both.
            since = other & S.CLOCK_MASK
            lanes = r.load("i64", node, LANES)
            with r.when(met >= since):
                later = (met > since) | (clock >= ((other >> 26) & S.CLOCK_MASK))
                r.store("i64", r.choose(met.is_(since), lanes | lane, lane), node, LANES)
                r.store("i64", r.choose(later, cell, other), node, CELL)
                r.store("i64", r["meta"], node, META)
                r.store("i64", r["time"], node, TIME)
            r.give()

    walk(r, r["head"], each)
    number = _grow(r, "history", NODE)
    node = _node(r, number)
    r.store("i32", r.load("i32", r["head"], 0, 4), node, NEXT, 4)
    for place, word in ((BLOCK, r["block"]), (CELL, cell), (LANES, lane), (META, r["meta"]), (TIME, r["time"])):
        r.store("i64", word, node, place)
    r.store("i32", number.to("i32"), r["head"], 0, 4)
    return r


def before(r: Routine, node: Value, known: Value) -> Value:
    """Whether all accesses of a node come before what thread `t` of `state` does now; `known` is that of its last."""
    shadow, t = shadow_of(r), r["t"]
    cell = r.load("i64", node, CELL)
    who = ((cell >> 52) & NO_THREAD) - 1
    warp = warp_of(r, shadow, t)
    lane = r.number(1) << (t & ((r.number(1) << r.load("i64", shadow, S.WARP_BITS)) - 1))
    met = r.load("i32", r.at(shadow, warp * 4 + S.SYNC_COUNTS), 0, 4).to("i64") & S.CLOCK_MASK
    # Of the last lane the own one knows; others of the warp did the same.
    own = (cell >> 63).is_(0) & who.is_(t) & (cell & S.CLOCK_MASK).is_(met)
    others = (r.load("i64", node, LANES) & ~lane).is_not(0)
    clock = ((cell >> 26) & S.CLOCK_MASK).to("i32")
    return r.choose(own & others, clock <= r.load("i32", thread_at(r, shadow, t), warp * 4, 4), known)


def _history() -> Routine:
    """Test an access to a byte of shared memory against those that have left its record."""
    r = Routine(
        "fly_check_history", "void", "ptr state, i64 t, ptr cell, i64 at, i32 how, i1 differs, ptr table"
    )  # fmt: skip
    writes, atomic = ((r["how"] & bit).is_not(0) for bit in (S.WRITES, S.ATOMIC))
    mine = r.load("i64", r["state"], RANK)

    def each(node: Value) -> Value:
        cell, rank, word = (r.load("i64", node, place) for place in (CELL, BLOCK, META))
        last = r.value_of("fly_check_before", "i1", r["state"], r["t"], cell, rank)
        known = r.choose(rank.is_(mine), before(r, node, last), last)
        wrote = (word & 0xFF).is_not(S.READ)
        both = atomic & ((word >> 8) & S.ATOMIC).is_not(0)
        collides = (writes | wrote) & r["differs"] & ~both & ~known
        copied = (cell >> 63).is_not(0)
        there = r.load("ptr", Value(r, "ptr", "@fly_source_lines"), (word >> 32) * 8, 8)
        for flag, which in (
            (wrote & copied, S.NOT_THERE_YET),
            (wrote & ~copied, S.RACE_WITH_WRITE),
            (~wrote & copied, S.STILL_READ),
            (~wrote & ~copied, S.RACE_WITH_READ),
        ):
            with r.when(collides & flag):
                tell(r, r["table"], which, r["at"], r["t"], cell, there)
        return known & writes & ~atomic

    walk(r, r.at(r["cell"], S.MORE), each)
    return r


def keep(r: Routine, cell: Value, kind: Value, done: Value, bits: Value) -> None:
    """Move what a byte of shared memory has at one of its places into the list, before another access goes there."""
    flags = r.load("i32", cell, S.HOW, 4).to("i64")
    rank = (flags >> (kind * 4)) & 15
    how = ((flags >> (kind + 16)) & 1) * S.ATOMIC
    line = r.load("i16", cell, kind * 2 + S.LINES, 2).to("i64")
    word = meta(r, r.choose(kind.is_(S.READ + 1), r.number(S.READ), kind), how, 0, line)
    r.call("fly_check_remember", "void", r.at(cell, S.MORE), rank, done, word, ("i64", 0), bits)


def settle(r: Routine, cell: Value, who: Value, reading: Value, mark: Value) -> None:
    """What a thread has waited for is there, also where it is in the list."""
    with r.when(exact(r)):

        def each(node: Value) -> None:
            value, word = r.load("i64", node, CELL), r.load("i64", node, META)
            never = (value >> 63).is_not(0) & ((value >> 26) & S.CLOCK_MASK).is_(S.NEVER)
            read = (word & 0xFF).is_(S.READ)
            with r.when(never & ((value >> 52) & NO_THREAD).is_(who + 1) & read.is_(reading)):
                r.store("i64", mark, node, CELL)

        walk(r, r.at(cell, S.MORE), each)


# --- tickets ----------------------------------------------------------------------------------------------------------


def _ticket() -> Routine:
    """The mark of what the copy that a thread is about to issue does to global memory."""
    r = Routine("fly_check_ticket", "i64", "ptr state, i64 t")
    at = r.at(thread_at(r, shadow_of(r), r["t"]), S.TICKET)
    with r.when(r.load("i64", at).is_(0)):
        number = _grow(r, "tickets", 16)
        entry = r.at(r.load("ptr", _global(r, "tickets"), 0, 8), number * 16)
        r.store("i64", 0, entry, 8, 8)
        r.store("i64", number, at)
    r.give(r.load("i64", at) | (NO_THREAD << 52) | S.ASYNC)
    return r


def take_ticket(r: Routine, t: Value) -> Value:
    """The ticket that a thread has opened, which then has none; 0 is no ticket."""
    at = r.at(thread_at(r, shadow_of(r), t), S.TICKET)
    number = r.load("i64", at)
    r.store("i64", 0, at)
    return number


def fill_in(r: Routine, ticket: Value, block: Value, mark: Value) -> None:
    """A copy has been waited for."""
    with r.when(exact(r) & ticket.is_not(0)):
        entry = r.at(r.load("ptr", _global(r, "tickets"), 0, 8), ticket * 16)
        r.store("i64", block, entry, 0, 8)
        r.store("i64", mark, entry, 8, 8)


def resolve(r: Routine, block: Value, cell: Value) -> tuple[Value, Value, Value]:
    """Block and mark of an access, and whether it is one of a copy under way."""
    known, found = r.variable("i64", block), r.variable("i64", cell)
    pending = r.variable("i1", 0)
    with r.when(((cell >> 52) & NO_THREAD).is_(NO_THREAD)):
        entry = r.at(r.load("ptr", _global(r, "tickets"), 0, 8), (cell & ((1 << 52) - 1)) * 16)
        known.set(r.load("i64", entry, 0, 8))
        found.set(r.load("i64", entry, 8, 8))
        pending.set(found.get().is_(0))
    return known.get(), found.get(), pending.get()


def history_routines() -> list[Routine]:
    """The routines of this file."""
    return [_remember(), _history(), _ticket()]
