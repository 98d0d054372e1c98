"""Races on global memory in checked mode: what each word was last written and read by in this launch.

Threads of one block are in the order of `shadow.py`, those of different blocks only where one has learned of the other
through memory (`places.py`). The table has a place per word (4 bytes, with a mask of those concerned), found by a hash;
what has no room any more is forgotten, so a race may be missed but none is made up. It is one for the process, since it
takes 48 MB (`cpu/unwritten_arrays.py`); code that nobody has told of it makes its own.

An entry: word, launch, then of the last plain write, of a read and of the last atomic write: block and cell
(`shadow.py`), then the masks of the three, how they were done, their places in the source and their times.
"""

from __future__ import annotations

from ...llvm.text.routine import Routine, Value
from . import report as cpu_report
from .block import SHADOW
from .places import lock, time_now, unlock
from .ranks import BY_READER
from .shadow import ATOMIC, COUNTED, COUNTED_BY, NARROW, READS, WRITES, cell_of

BITS = 19
ENTRY = 96
_PROBES = 8
_GOLDEN = -7046029254386353131  # 2**64 / golden ratio, odd
WORD, LAUNCH, DONE, MASKS, HOW, LINES, TIMES = 0, 8, 16, 64, 67, 70, 76
WRITE, READ, UPDATE = range(3)
RACE_WITH_WRITE, RACE_WITH_READ, UNWRITTEN, RANK_WROTE, RANK_READ = range(5)
TABLE_LINE = 80
"""In the table of an access: behind the five flags and texts, the number of its place in the source."""
_RANGE = 24
"""A range of `cpu/unwritten_arrays.py`: first byte, byte behind the last, a byte per byte that is set once written."""

GLOBALS = """
@fly_own_words = internal global { ptr, i64 } zeroinitializer, align 8
@fly_global_words = internal global ptr @fly_own_words, align 8
@fly_launch = internal global i64 0, align 8
@fly_watched = internal global ptr null, align 8

define void @fly_watch(ptr %table, ptr %words) nounwind {
  store ptr %table, ptr @fly_watched
  store ptr %words, ptr @fly_global_words
  ret void
}
"""


def _cell(r: Routine) -> Value:
    """Thread, clock and count of synchronizations; of a kernel whose threads never synchronize the thread alone."""
    made = r.variable("i64", (r["t"] + 1) << 52)
    with r.when(r.address(r["state"]).is_not(0)):
        made.set(cell_of(r, r["state"], r["t"]))
        with r.when((r["how"] & COUNTED).is_not(0)):
            made.set(r.load("i64", r["state"], COUNTED_BY))
    return made.get()


def _unordered(r: Routine, block: Value, place: Value, time: Value) -> Value:
    """Whether the access noted at a place and this one may come in any order."""
    other, cell = r.load("i64", place, 0, 8), r.load("i64", place, 8, 8)
    found = r.variable("i1", 0)
    with r.when(cell.is_not(0)):
        found.set(other.is_not(block) | (((cell >> 52) & 0x7FF) - 1).is_not(r["t"]))
        with r.when(r.address(r["state"]).is_not(0)):

            def inside() -> None:
                shadow = r.load("ptr", r["state"], SHADOW)
                found.set(~r.value_of("fly_check_ordered", "i1", shadow, r["t"], cell))

            def between() -> None:
                found.set(~r.value_of("fly_check_learned", "i1", r["state"], r["t"], other, cell, time))

            r.either(other.is_(block), inside, between)
    return found.get()


def _both_atomic(r: Routine, block: Value, other: Value, how: Value) -> Value:
    """Whether this access and one that was noted are atomic for each other."""
    both = ((how & r["how"].to("i8")) & ATOMIC).is_not(0)
    wide = (((how | r["how"].to("i8")) & NARROW).is_(0)) | other.is_(block)
    return both & wide


def watch() -> Routine:
    """Note what is written of arrays nobody had written; gives the first byte that is read of them before, or 0."""
    r = Routine("fly_check_watched", "i64", "ptr at, i64 size, i32 how")
    table = r.load("ptr", Value(r, "ptr", "@fly_watched"), 0, 8)
    with r.when(r.address(table).is_(0)):
        r.give(0)
    first = r.address(r["at"])
    last = first + r["size"]
    found = r.variable("i64", 0)
    with r.loop(r.load("i64", table, 0, 8)) as i:
        low, high = (r.load("i64", table, i * _RANGE + 8 * k, 8) for k in (1, 2))
        bits = r.load("ptr", table, i * _RANGE + 24, 8)
        with r.loop(r.least(last, high), r.most(first, low)) as byte:
            at = r.at(bits, byte - low)
            with r.when((r["how"] & READS).is_not(0) & r.load("i8", at).is_(0) & found.get().is_(0)):
                found.set(byte)
            with r.when((r["how"] & WRITES).is_not(0)):
                r.store("i8", 1, at)
    r.give(found.get())
    return r


def access() -> Routine:
    """Note an access to an argument's tensor and test it against earlier ones."""
    r = Routine(
        "fly_check_global", "void",
        "ptr state, i64 t, i64 bx, i64 by, i64 bz, ptr at, i64 size, i32 how, i1 differs, ptr table, ptr tensor, "
        "i64 low, i64 high",
    )  # fmt: skip
    lock(r)
    writes = (r["how"] & WRITES).is_not(0)
    record = r.load("ptr", Value(r, "ptr", "@fly_global_words"), 0, 8)
    words = r.variable("ptr", r.load("ptr", record, 0, 8))
    with r.when(r.address(words.get()).is_(0)):
        words.set(r.value_of("calloc", "ptr", ("i64", 1 << BITS), ("i64", ENTRY), external=True))
        r.store("ptr", words.get(), record, 0, 8)
    launch = r.load("i64", Value(r, "ptr", "@fly_launch"), 0, 8)
    block = (r["bz"] << 42) | (r["by"] << 21) | r["bx"]
    me = _cell(r)
    first = r.address(r["at"])
    last = first + r["size"]
    line = r.load("i64", r["table"], TABLE_LINE).to("i16")
    missing = r.value_of("fly_check_watched", "i64", r["at"], r["size"], r["how"])
    with r.when(missing.is_not(0)):
        flag, text = (r.load("ptr", r["table"], 16 * UNWRITTEN + 8 * i) for i in range(2))
        r.call(
            "fly_report", "void", flag, text, ("i64", cpu_report.MISTAKE), missing, r["low"], r["high"], r["t"],
            r["bx"], r["by"], r["bz"], r["tensor"], ("i64", 0), Value(r, "ptr", "null"),
        )  # fmt: skip
    rank = r.value_of("fly_check_ranks", "i64", r["at"], r["size"], r["how"])
    for which, chosen in ((RANK_WROTE, rank.is_not(0) & (rank < BY_READER)), (RANK_READ, rank >= BY_READER)):
        with r.when(chosen & r["differs"]):
            flag, text = (r.load("ptr", r["table"], 16 * which + 8 * i) for i in range(2))
            r.call(
                "fly_report", "void", flag, text, ("i64", cpu_report.MISTAKE), first, r["low"], r["high"], r["t"],
                r["bx"], r["by"], r["bz"], r["tensor"], (rank & (BY_READER - 1)) + cpu_report.OTHER_RANKS,
                Value(r, "ptr", "null"),
            )  # fmt: skip
    with r.loop((last + 3) >> 2, first >> 2) as word:
        start, end = r.most(first, word << 2), r.least(last, (word + 1) << 2)
        ones = (r.number(1) << (end - start)) - 1
        mask = (ones << (start & 3)).to("i8")
        entry = r.variable("ptr", words.get())
        found = r.variable("i64", 0)
        with r.loop(_PROBES) as probe:
            with r.when(found.get().is_(0)):
                slot = (((word * _GOLDEN) >> (64 - BITS)) + probe) & ((1 << BITS) - 1)
                entry.set(r.at(words.get(), slot * ENTRY))
                mine = r.load("i64", entry.get(), WORD, 8).is_(word) & r.load("i64", entry.get(), LAUNCH, 8).is_(launch)
                stale = r.load("i64", entry.get(), LAUNCH, 8).is_not(launch)
                found.set((mine | stale).to("i64"))
        at = entry.get()
        fresh = r.load("i64", at, WORD, 8).is_not(word) | r.load("i64", at, LAUNCH, 8).is_not(launch)
        with r.when(fresh):
            r.call("llvm.memset.p0.i64", "void", at, ("i8", 0), ("i64", ENTRY), ("i1", 0), external=True)
            r.store("i64", word, at, WORD, 8)
            r.store("i64", launch, at, LAUNCH, 8)
        masks = [r.load("i8", at, MASKS + k) for k in range(3)]

        def tell(which: int, k: int, start: Value = start, at: Value = at) -> None:
            flag, text = r.load("ptr", r["table"], 16 * which), r.load("ptr", r["table"], 16 * which + 8)
            other = (r.load("i64", at, DONE + 16 * k + 8, 8) >> 52) & 0x7FF
            number = r.load("i16", at, LINES + 2 * k).to("i64")
            there = r.load("ptr", Value(r, "ptr", "@fly_source_lines"), number * 8, 8)
            r.call(
                "fly_report", "void", flag, text, ("i64", cpu_report.MISTAKE), start, r["low"], r["high"], r["t"],
                r["bx"], r["by"], r["bz"], r["tensor"], other, there,
            )  # fmt: skip

        now = time_now(r)
        fine: list[Value] = []
        for k in (WRITE, READ, UPDATE):
            place = r.at(at, DONE + 16 * k)
            other, how = r.load("i64", place, 0, 8), r.load("i8", at, HOW + k)
            time = r.load("i32", at, TIMES + 4 * k, 4).to("i64")
            fine.append(~_unordered(r, block, place, time) | _both_atomic(r, block, other, how))
            collides = (mask & masks[k]).is_not(0) & ~fine[k] & r["differs"]
            with r.when(collides & writes if k == READ else collides):
                tell(RACE_WITH_READ if k == READ else RACE_WITH_WRITE, k)

        def note(which: Value | int, mask: Value = mask, at: Value = at) -> None:
            k = which if isinstance(which, Value) else r.number(which)
            place = r.at(at, k * 16 + DONE)
            r.store("i64", block, place, 0, 8)
            r.store("i64", me, place, 8, 8)
            r.store("i8", mask, at, k + MASKS)
            r.store("i8", r["how"].to("i8"), at, k + HOW)
            r.store("i16", line, at, k * 2 + LINES)
            r.store("i32", now.to("i32"), at, k * 4 + TIMES, 4)

        def writing() -> None:
            note(r.choose((r["how"] & ATOMIC).is_not(0), r.number(UPDATE), r.number(WRITE)))

        def reading(masks: list[Value] = masks, fine: list[Value] = fine) -> None:
            # A reader that nothing orders before this one is worth more than this one.
            with r.when(masks[READ].is_(0) | fine[READ]):
                note(READ)

        r.either(writes, writing, reading)
    unlock(r)
    return r


__all__ = ["GLOBALS", "TABLE_LINE", "access", "watch"]
