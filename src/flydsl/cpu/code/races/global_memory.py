"""Races on global memory in checked mode: what each word was last written and read by in this launch.

Threads of one block are in the order of `shadow.py`, those of different blocks only where one has learned of the other
through memory (`places.py`). The table has a place per word (4 bytes, with a mask of those concerned), found by a hash;
what has no room any more is forgotten, so a race may be missed but none is made up. It is one for the process, since it
takes 48 MB (`cpu/unwritten_arrays.py`); code that nobody has told of it makes its own.

An entry: word, launch, then of the last plain write, of a read and of the last atomic write: block and cell
(`shadow.py`), then the masks of the three, how they were done, their places in the source, their times, and where
schedules are explored those that have left their place (`history.py`).
"""

from __future__ import annotations

from ....llvm.text.routine import Routine, Value
from .. import report as cpu_report
from ..block import SHADOW
from ..places import lock, time_now, unlock
from ..ranks import BY_READER
from ..shadow import ATOMIC, COUNTED, COUNTED_BY, ISSUED, NARROW, READS, WARP_BITS, WRITES, cell_of
from . import history

BITS = 19
ENTRY = 96
_PROBES = 8
_GOLDEN = -7046029254386353131  # 2**64 / golden ratio, odd
WORD, LAUNCH, DONE, MASKS, HOW, LINES, TIMES, MORE = 0, 8, 16, 64, 67, 70, 76, 88
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
        with r.when(history.exact(r) & (r["how"] & ISSUED).is_not(0)):
            made.set(r.value_of("fly_check_ticket", "i64", r["state"], r["t"]))
    return made.get()


def _unordered(r: Routine, block: Value, other: Value, cell: Value, time: Value) -> Value:
    """Whether an access that was noted, of block `other`, and this one may come in any order."""
    found = r.variable("i1", 0)
    with r.when(cell.is_not(0)):
        found.set(other.is_not(block) | (((cell >> 52) & 0x7FF) - 1).is_not(r["t"]))
        with r.when(r.address(r["state"]).is_not(0)):
            theirs, done, pending = history.resolve(r, other, cell)

            def inside() -> None:
                shadow = r.load("ptr", r["state"], SHADOW)
                found.set(~r.value_of("fly_check_ordered", "i1", shadow, r["t"], done))

            def between() -> None:
                found.set(~r.value_of("fly_check_learned", "i1", r["state"], r["t"], theirs, done, time))

            r.either(theirs.is_(block), inside, between)
            found.set(found.get() | pending)
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
    block = _block(r)
    me = _cell(r)
    exact, conflicts = history.exact(r), r.variable("i1", 0)
    bits = r.variable("i64", history.NO_WARPS)
    with r.when(exact & r.address(r["state"]).is_not(0)):
        bits.set(r.load("i64", r.load("ptr", r["state"], SHADOW), WARP_BITS))
    bits = bits.get()
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
        with r.when(found.get().is_(0)):
            history.count(r, history.FORGOTTEN)
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
        forgotten: list[Value] = []
        for k in (WRITE, READ, UPDATE):
            place = r.at(at, DONE + 16 * k)
            other, how = r.load("i64", place, 0, 8), r.load("i8", at, HOW + k)
            done = r.load("i64", place, 8, 8)
            time = r.load("i32", at, TIMES + 4 * k, 4).to("i64")
            unordered = _unordered(r, block, other, done, time)
            fine.append(~unordered | _both_atomic(r, block, other, how))
            # What this access does not stand for, should it take the place.
            forgotten.append(masks[k].is_not(0) & (unordered | (masks[k] & ~mask).is_not(0)))
            theirs = (mask & masks[k]).is_not(0) & (other.is_not(block) | ((done >> 52) & 0x7FF).is_not(r["t"] + 1))
            with r.when(exact):
                conflicts.set(conflicts.get() | (theirs & writes if k == READ else theirs))
            collides = (mask & masks[k]).is_not(0) & ~fine[k] & r["differs"]
            with r.when(collides & writes if k == READ else collides):
                tell(RACE_WITH_READ if k == READ else RACE_WITH_WRITE, k)

        with r.when(exact & r.load("i32", at, MORE, 4).is_not(0)):
            r.call(
                "fly_check_global_history", "void", *(r[word] for word in ("state", "t", "bx", "by", "bz")), at, start,
                mask, r["how"], r["differs"], r["table"], r["tensor"], r["low"], r["high"],
            )  # fmt: skip

        def keep(which: Value, at: Value = at) -> None:
            """Before an access takes the place of another that it does not stand for."""
            how, part = (r.load("i8", at, which + place).to("i64") for place in (HOW, MASKS))
            line = r.load("i16", at, which * 2 + LINES).to("i64")
            other, done = (r.load("i64", at, which * 16 + (DONE + 8 * i), 8) for i in range(2))
            time = r.load("i32", at, which * 4 + TIMES, 4).to("i64")
            word = history.meta(r, which, how, part, line)
            r.call("fly_check_remember", "void", r.at(at, MORE), other, done, word, time, bits)

        def note(which: Value | int, mask: Value = mask, at: Value = at) -> None:
            k = which if isinstance(which, Value) else r.number(which)
            place = r.at(at, k * 16 + DONE)
            r.store("i64", block, place, 0, 8)
            r.store("i64", me, place, 8, 8)
            r.store("i8", mask, at, k + MASKS)
            r.store("i8", r["how"].to("i8"), at, k + HOW)
            r.store("i16", line, at, k * 2 + LINES)
            r.store("i32", now.to("i32"), at, k * 4 + TIMES, 4)

        def writing(forgotten: list[Value] = forgotten) -> None:
            atomic = (r["how"] & ATOMIC).is_not(0)
            which = r.choose(atomic, r.number(UPDATE), r.number(WRITE))
            with r.when(exact & r.choose(atomic, forgotten[UPDATE], forgotten[WRITE])):
                keep(which)
            note(which)

        def reading(
            masks: list[Value] = masks, fine: list[Value] = fine, forgotten: list[Value] = forgotten,
            mask: Value = mask, at: Value = at, now: Value = now,
        ) -> None:  # fmt: skip
            # A reader that nothing orders before this one is worth more than this one.
            takes = masks[READ].is_(0) | fine[READ]
            with r.when(takes & exact & forgotten[READ]):
                keep(r.number(READ))
            with r.when(takes):
                note(READ)
            with r.when(~takes & exact):
                word = history.meta(r, r.number(READ), r["how"].to("i64") & 0xFF, mask.to("i64"), line.to("i64"))
                r.call("fly_check_remember", "void", r.at(at, MORE), block, me, word, now, bits)

        r.either(writes, writing, reading)
    history.count(r, history.GLOBAL_ACCESSES)
    with r.when(conflicts.get()):
        history.count(r, history.GLOBAL_CONFLICTS)
    unlock(r)
    return r


def _block(r: Routine) -> Value:
    return (r["bz"] << 42) | (r["by"] << 21) | r["bx"]


def older() -> Routine:
    """Test an access to a word against those that have left its record (`history.py`)."""
    r = Routine(
        "fly_check_global_history", "void",
        "ptr state, i64 t, i64 bx, i64 by, i64 bz, ptr record, i64 start, i8 mask, i32 how, i1 differs, ptr table, "
        "ptr tensor, i64 low, i64 high",
    )  # fmt: skip
    block, mask = _block(r), r["mask"].to("i64")
    writes, atomic = ((r["how"] & bit).is_not(0) for bit in (WRITES, ATOMIC))

    def each(node: Value) -> Value:
        other, cell, word, time = (
            r.load("i64", node, at) for at in (history.BLOCK, history.CELL, history.META, history.TIME)
        )
        part, how = (word >> 16) & 0xFF, ((word >> 8) & 0xFF).to("i8")
        known = r.variable("i1", ~_unordered(r, block, other, cell, time))
        with r.when(r.address(r["state"]).is_not(0) & other.is_(block)):
            known.set(history.before(r, node, known.get()))
        wrote = (word & 0xFF).is_not(READ)
        collides = (part & mask).is_not(0) & (writes | wrote) & r["differs"] & ~known.get()
        collides = collides & ~_both_atomic(r, block, other, how)
        there = r.load("ptr", Value(r, "ptr", "@fly_source_lines"), (word >> 32) * 8, 8)
        for flag, which in ((wrote, RACE_WITH_WRITE), (~wrote, RACE_WITH_READ)):
            with r.when(collides & flag):
                place, text = r.load("ptr", r["table"], 16 * which), r.load("ptr", r["table"], 16 * which + 8)
                r.call(
                    "fly_report", "void", place, text, ("i64", cpu_report.MISTAKE), r["start"], r["low"], r["high"],
                    r["t"], r["bx"], r["by"], r["bz"], r["tensor"], (cell >> 52) & 0x7FF, there,
                )  # fmt: skip
        return known.get() & writes & ~atomic & (part & ~mask).is_(0)

    history.walk(r, r.at(r["record"], MORE), each)
    return r
