"""Which accesses to shared memory are ordered: checked mode's view of a block, as functions of its code.

Warps have clocks, and threads know of each clock how far they have seen it (a vector of `ENTRIES` numbers).
Synchronizing (collectives, barriers) and waiting (mbarriers, named barriers, the cluster's barrier) pass that
knowledge on. A byte of shared memory remembers who wrote it last and two who read it: thread, clock of its warp, how
often the warp had met. Two accesses are ordered if one thread did both, if they are of one warp that met in between,
or if the second thread has seen the first one's clock. Accesses of one warp are not ordered by the program: its lanes
run one by one here.

Asynchronous copies write under the number of what completes them: the mbarrier (`AGENTS` + its place in a table), or
the issuing thread for copies that it waits for. Until then the clock is `NEVER`, which nobody has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...llvm.text.routine import Routine, Value
from . import report as cpu_report
from .block import BARRIER, BLOCK_IDS, SHADOW, SHARED, SITE_MASK, STATUS, TOOK

ENTRIES = 64
AGENTS = 32
"""Entries of a clock vector: warps first, then mbarriers."""
BARRIERS = 32
NAMED_FIRST, CLUSTER_BARRIER = BARRIERS, BARRIERS + 16
AGENT_THREAD = 1024
"""Threads from this number on are mbarriers."""
NEVER = (1 << 26) - 1
_MASK = (1 << 26) - 1
_ASYNC = -(1 << 63)
_VECTOR = f"<{ENTRIES} x i32>"
_VECTOR_BYTES = 4 * ENTRIES

# What the shadow of a block holds, by offset.
BYTES, WARP_BITS, COUNT, PENDING, PENDING_COUNT, PENDING_ROOM = 0, 8, 16, 24, 32, 40
CLOCKS = 64
SYNC_COUNTS = CLOCKS + _VECTOR_BYTES
PLACES = SYNC_COUNTS + _VECTOR_BYTES
KNOWN_BY_BARRIER = PLACES + 8 * BARRIERS
JOINED = KNOWN_BY_BARRIER + (CLUSTER_BARRIER + 1) * _VECTOR_BYTES
KNOWN = JOINED + _VECTOR_BYTES
_PER_THREAD = _VECTOR_BYTES + 16
"""Clock vector of a thread, then how many groups of copies it has closed: of each kind."""
CELL = 32
"""Last write, two reads, and the places in the source of the three (16 bits each)."""
ENTRY = 40
"""A copy under way: kind, thread or barrier, group, offset, bytes."""

CP_ASYNC, TMA_STORE, TO_SHARED, TMA_LOAD, COUNTED = range(5)
"""Kinds of asynchronous copies."""

RACE_WITH_WRITE, RACE_WITH_READ, UNWRITTEN, NOT_THERE_YET, STILL_READ = range(5)
"""What is said of an access, by place in its table."""
ACCESS_TEXTS = 5
TABLE_LINE = 16 * ACCESS_TEXTS
"""In the table of an access: behind the flags and texts, the number of its place in the source."""
SITE = 80
"""Where a block's state has the table of the access that a routine makes."""


def _shadow(r: Routine, state: str = "state") -> Value:
    return r.load("ptr", r[state], SHADOW)


def _thread_at(r: Routine, shadow: Value, t: Value) -> Value:
    return r.at(shadow, t * _PER_THREAD + KNOWN)


def _cells(r: Routine, shadow: Value) -> Value:
    return r.at(shadow, r.load("i64", shadow, COUNT) * _PER_THREAD + KNOWN)


def _join(r: Routine, into: Value, other: Value) -> None:
    x, y = (r.load(_VECTOR, v, 0, 4) for v in (into, other))
    name = f"llvm.umax.v{ENTRIES}i32"
    r.store(_VECTOR, r.value_of(name, _VECTOR, x, y, external=True), into, 0, 4)


def _warp(r: Routine, shadow: Value, t: Value) -> Value:
    return t >> r.load("i64", shadow, WARP_BITS)


def _clock(r: Routine, shadow: Value, entry: Value) -> Value:
    """Where the clock of an entry is."""
    return r.at(shadow, entry * 4 + CLOCKS)


def _tick(r: Routine, at: Value) -> Value:
    """The clock's time, which then goes on."""
    now = r.load("i32", at, 0, 4)
    r.store("i32", now + 1, at, 0, 4)
    return now


# --- life -------------------------------------------------------------------------------------------------------------


def make() -> Routine:
    r = Routine("fly_check_make", "void", "ptr state, i64 bytes, i64 warp, i64 n")
    size = r["n"] * _PER_THREAD + r["bytes"] * CELL + KNOWN
    shadow = r.value_of("malloc", "ptr", size, external=True)
    r.store("ptr", shadow, r["state"], SHADOW)
    r.store("i64", r["bytes"], shadow, BYTES)
    bits = r.value_of("llvm.cttz.i64", "i64", r["warp"], ("i1", 1), external=True)
    r.store("i64", bits, shadow, WARP_BITS)
    r.store("i64", r["n"], shadow, COUNT)
    r.store("ptr", Value(r, "ptr", "null"), shadow, PENDING)
    r.store("i64", 0, shadow, PENDING_ROOM)
    return r


def clear() -> Routine:
    r = Routine("fly_check_clear", "void", "ptr state")
    shadow = _shadow(r)
    size = r.load("i64", shadow, COUNT) * _PER_THREAD + r.load("i64", shadow, BYTES) * CELL + (KNOWN - CLOCKS)
    r.call("llvm.memset.p0.i64", "void", r.at(shadow, CLOCKS), ("i8", 0), size, ("i1", 0), external=True)
    r.store("i64", 0, shadow, PENDING_COUNT)
    with r.loop(ENTRIES) as i:
        r.store("i32", 1, _clock(r, shadow, i), 0, 4)
        r.store("i32", 1, r.at(shadow, i * 4 + SYNC_COUNTS), 0, 4)
    return r


def free() -> Routine:
    r = Routine("fly_check_free", "void", "ptr state")
    shadow = _shadow(r)
    r.call("free", "void", r.load("ptr", shadow, PENDING), external=True)
    r.call("free", "void", shadow, external=True)
    return r


# --- accesses -------------------------------------------------------------------------------------------------------


def ordered() -> Routine:
    """Whether what a cell holds came before what thread `t` does now."""
    r = Routine("fly_check_ordered", "i1", "ptr shadow, i64 t, i64 cell", "nounwind alwaysinline")
    cell, t, shadow = r["cell"], r["t"], r["shadow"]
    with r.when(cell.is_(0)):
        r.give(1)
    who = ((cell >> 52) & 0x7FF) - 1
    clock = ((cell >> 26) & _MASK).to("i32")
    copied = (cell >> 63).is_not(0)
    with r.when(~copied & who.is_(t)):
        r.give(1)
    mine = _warp(r, shadow, t)
    theirs = r.choose(who >= AGENT_THREAD, who - (AGENT_THREAD - AGENTS), _warp(r, shadow, who))
    met = r.load("i32", r.at(shadow, mine * 4 + SYNC_COUNTS), 0, 4)
    since = ~copied & theirs.is_(mine) & (cell & _MASK).to("i32").is_not(met & _MASK)
    seen = r.load("i32", _thread_at(r, shadow, t), theirs * 4, 4)
    r.give(since | (clock <= seen))
    return r


def _tell(r: Routine, table: Value, which: int, at: Value, thread: Value, cell: Value, line: Value) -> None:
    """Report an access, and the one it collides with."""
    flag, text = r.load("ptr", table, 16 * which), r.load("ptr", table, 16 * which + 8)
    ids = [r.load("i64", r["state"], BLOCK_IDS + 8 * i) for i in range(3)]
    nothing = Value(r, "ptr", "null")
    other = (cell >> 52) & 0x7FF
    r.call(
        "fly_report", "void", flag, text, ("i64", cpu_report.MISTAKE), at, ("i64", 0), ("i64", 0), thread, *ids,
        nothing, other, line,
    )  # fmt: skip


def access() -> Routine:
    """Note an access of a thread to bytes of its block's shared memory, and test it against earlier ones.

    `write` says which kind it is; one that does not change what is there (`differs`) collides with nothing.
    """
    r = Routine("fly_check_access", "void", "ptr state, i64 t, ptr at, i64 size, i1 write, i1 differs, ptr table")
    state, t, table = r["state"], r["t"], r["table"]
    shadow = _shadow(r)
    address = r.address(r["at"])
    offset = address - r.address(r.load("ptr", state, SHARED))
    with r.when((offset + r["size"]) > r.load("i64", shadow, BYTES)):
        r.give()
    warp = _warp(r, shadow, t)
    clock = r.load("i32", _clock(r, shadow, warp), 0, 4).to("i64") & _MASK
    met = r.load("i32", r.at(shadow, warp * 4 + SYNC_COUNTS), 0, 4).to("i64") & _MASK
    me = ((t + 1) << 52) | (clock << 26) | met
    line = r.load("i64", table, TABLE_LINE).to("i16")
    cells = _cells(r, shadow)

    def lines(cell: Value, which: int) -> Value:
        number = r.load("i16", cell, 24 + 2 * which, 2).to("i64")
        return r.load("ptr", Value(r, "ptr", "@fly_source_lines"), number * 8, 8)

    with r.loop(r["size"]) as i:
        cell = r.at(cells, (offset + i) * CELL)
        place = address + i
        written = r.load("i64", cell, 0, 8)
        reads = [r.load("i64", cell, 8 + 8 * k, 8) for k in range(2)]
        after_write = r.value_of("fly_check_ordered", "i1", shadow, t, written)
        with r.when(~after_write & r["differs"]):
            copied = (written >> 63).is_not(0)
            r.either(
                copied,
                lambda: _tell(r, table, NOT_THERE_YET, place, t, written, lines(cell, 0)),
                lambda: _tell(r, table, RACE_WITH_WRITE, place, t, written, lines(cell, 0)),
            )

        def writing() -> None:
            for k, read in enumerate(reads):
                fine = r.value_of("fly_check_ordered", "i1", shadow, t, read)
                with r.when(~fine & r["differs"]):
                    copying = (read >> 63).is_not(0)
                    for flag, which in ((copying, STILL_READ), (~copying, RACE_WITH_READ)):
                        with r.when(flag):
                            _tell(r, table, which, place, t, read, lines(cell, 1 + k))
            r.store("i64", me, cell, 0, 8)
            r.store("i16", line, cell, 24, 2)

        def reading() -> None:
            with r.when(written.is_(0)):
                _tell(r, table, UNWRITTEN, place, t, r.number(0), lines(cell, 0))
            first = r.value_of("fly_check_ordered", "i1", shadow, t, reads[0])
            # The second place takes what the first has no room for; of many readers any two will do.
            slot = r.choose(first, r.number(0), r.number(1))
            second = reads[1]
            keeps = ~first & (second >> 63).is_not(0) & ~r.value_of("fly_check_ordered", "i1", shadow, t, second)
            with r.when(~keeps):
                r.store("i64", me, cell, slot * 8 + 8, 8)
                r.store("i16", line, cell, slot * 2 + 26, 2)

        r.either(r["write"], writing, reading)
    return r


def foreign() -> Routine:
    """A write to another block's shared memory: that it was written is all that is kept."""
    r = Routine("fly_check_foreign", "void", "ptr state, i64 tid, ptr at, i64 size")
    owner = r.value_of("fly_owner", "ptr", r["state"], r["tid"], r["at"])
    shadow = r.load("ptr", owner, SHADOW)
    offset = r.address(r["at"]) - r.address(r.load("ptr", owner, SHARED))
    with r.when((offset + r["size"]) <= r.load("i64", shadow, BYTES)):
        cells = _cells(r, shadow)
        with r.loop(r["size"]) as i:
            # Time 0 is before everything.
            r.store("i64", 1 << 52, cells, (offset + i) * CELL, 8)
    return r


# --- order ------------------------------------------------------------------------------------------------------------


def _meet(r: Routine, shadow: Value, begin: Value, end: Value, takes_part: Callable[[Value], Value]) -> None:
    """Threads that meet know afterwards what each of them knew, and all that their warps did before."""
    joined = r.at(shadow, JOINED)
    r.store(_VECTOR, Value(r, _VECTOR, "zeroinitializer"), joined, 0, 4)
    with r.loop(end, begin) as t:
        with r.when(takes_part(t)):
            _join(r, joined, _thread_at(r, shadow, t))
    bits = r.load("i64", shadow, WARP_BITS)
    first, last = begin >> bits, (end - 1) >> bits
    with r.loop(last + 1, first) as w:
        now = _tick(r, _clock(r, shadow, w))
        r.store("i32", now, joined, w * 4, 4)
        at = r.at(shadow, w * 4 + SYNC_COUNTS)
        r.store("i32", r.load("i32", at, 0, 4) + 1, at, 0, 4)
    with r.loop(end, begin) as t:
        with r.when(takes_part(t)):
            r.store(_VECTOR, r.load(_VECTOR, joined, 0, 4), _thread_at(r, shadow, t), 0, 4)


def meet() -> Routine:
    """A collective of the threads of a unit that took part."""
    r = Routine("fly_check_meet", "void", "ptr state, i64 begin, i64 end")
    _meet(r, _shadow(r), r["begin"], r["end"], lambda t: r.load("i8", r["state"], t + TOOK).is_not(0))
    return r


def barrier() -> Routine:
    """Before a barrier opens: all threads must wait at the same one and no warp may have left in part."""
    r = Routine("fly_check_barrier", "void", "ptr state, i64 n, i64 warp, ptr sites")
    state, n = r["state"], r["n"]
    seen, gone, here = r.variable("i32", 0), r.variable("i1", 0), r.variable("i32", 0)
    with r.loop(n) as t:
        with r.when((t % r["warp"]).is_(0)):
            gone.set(0)
            here.set(0)
        status = r.load("i32", state, t * 4 + STATUS)
        left = status.is_(0)
        gone.set(gone.get() | left)
        with r.when(~left):
            here.set(status)
        with r.when(~left & seen.get().is_(0)):
            seen.set(status)
        torn = gone.get() & here.get().is_not(0)
        other = ~left & seen.get().is_not(status)
        with r.when((torn | other) & (here.get() >= BARRIER)):
            site = (here.get() & SITE_MASK).to("i64")
            flag, text = r.load("ptr", r["sites"], site * 16), r.load("ptr", r["sites"], site * 16 + 8)
            ids = [r.load("i64", state, BLOCK_IDS + 8 * i) for i in range(3)]
            nothing = Value(r, "ptr", "null")
            r.call(
                "fly_report", "void", flag, text, ("i64", cpu_report.MISTAKE), ("i64", 0), ("i64", 0), ("i64", 0), t,
                *ids, nothing, ("i64", 0), nothing,
            )  # fmt: skip
    _meet(r, _shadow(r), r.number(0), n, lambda t: r.load("i32", state, t * 4 + STATUS).is_not(0))
    return r


def _known_by(r: Routine, shadow: Value, barrier_: Value | int) -> Value:
    number = r.number(barrier_) if isinstance(barrier_, int) else barrier_
    return r.at(shadow, number * _VECTOR_BYTES + KNOWN_BY_BARRIER)


def slot() -> Routine:
    """Number of an mbarrier in the block's table, where it is entered if need be; the last is shared by all others."""
    r = Routine("fly_check_slot", "i64", "ptr state, ptr at")
    shadow = _shadow(r)
    address = r.address(r["at"])
    with r.loop(BARRIERS) as i:
        place = r.load("i64", shadow, i * 8 + PLACES, 8)
        with r.when(place.is_(0)):
            r.store("i64", address, shadow, i * 8 + PLACES, 8)
            r.give(i)
        with r.when(place.is_(address)):
            r.give(i)
    r.give(BARRIERS - 1)
    return r


def init() -> Routine:
    """A fresh mbarrier knows nothing."""
    r = Routine("fly_check_init", "void", "ptr state, i64 tid, ptr at")
    shadow = _shadow(r)
    number = r.value_of("fly_check_slot", "i64", r["state"], r["at"])
    r.store(_VECTOR, Value(r, _VECTOR, "zeroinitializer"), _known_by(r, shadow, number), 0, 4)
    return r


def _release(r: Routine, shadow: Value, known: Value) -> None:
    """Hand on what the thread knows and what its warp did."""
    t = r["tid"]
    _join(r, known, _thread_at(r, shadow, t))
    warp = _warp(r, shadow, t)
    r.store("i32", _tick(r, _clock(r, shadow, warp)), known, warp * 4, 4)


def release() -> Routine:
    """An arrival at an mbarrier; of arrivals at another block's nothing is known here."""
    r = Routine("fly_check_release", "void", "ptr state, i64 tid, ptr owner, ptr at")
    with r.when(r.address(r["owner"]).is_not(r.address(r["state"]))):
        r.give()
    shadow = _shadow(r)
    number = r.value_of("fly_check_slot", "i64", r["state"], r["at"])
    _release(r, shadow, _known_by(r, shadow, number))
    return r


def acquire() -> Routine:
    """A thread has seen a phase of an mbarrier end."""
    r = Routine("fly_check_acquire", "void", "ptr state, i64 tid, ptr at")
    shadow = _shadow(r)
    number = r.value_of("fly_check_slot", "i64", r["state"], r["at"])
    _join(r, _thread_at(r, shadow, r["tid"]), _known_by(r, shadow, number))
    return r


def named() -> Routine:
    """An arrival at a named barrier, or its end for a thread."""
    r = Routine("fly_check_named", "void", "ptr state, i64 tid, i32 number, i1 arrives")
    shadow = _shadow(r)
    known = _known_by(r, shadow, (r["number"] & 15).to("i64") + NAMED_FIRST)
    r.either(
        r["arrives"],
        lambda: _release(r, shadow, known),
        lambda: _join(r, _thread_at(r, shadow, r["tid"]), known),
    )
    return r


def cluster_arrive() -> Routine:
    r = Routine("fly_check_cluster_arrive", "void", "ptr state, i64 tid")
    shadow = _shadow(r)
    _release(r, shadow, _known_by(r, shadow, CLUSTER_BARRIER))
    return r


def cluster_wait() -> Routine:
    r = Routine("fly_check_cluster_wait", "void", "ptr state, i64 tid")
    shadow = _shadow(r)
    _join(r, _thread_at(r, shadow, r["tid"]), _known_by(r, shadow, CLUSTER_BARRIER))
    return r


# --- asynchronous copies ----------------------------------------------------------------------------------------------


def pend() -> Routine:
    """Note a copy that is under way: its kind, its thread (or the barrier it is counted on), its group."""
    r = Routine(
        "fly_check_pend", "void", "ptr state, i64 kind, i64 who, i64 group, i64 offset, i64 size, i64 mark, i64 line"
    )
    shadow = _shadow(r)
    with r.when((r["offset"] + r["size"]) > r.load("i64", shadow, BYTES)):
        r.give()
    count, room = r.load("i64", shadow, PENDING_COUNT), r.load("i64", shadow, PENDING_ROOM)
    with r.when(count >= room):
        more = room * 2 + 64
        grown = r.value_of("realloc", "ptr", r.load("ptr", shadow, PENDING), more * ENTRY, external=True)
        r.store("ptr", grown, shadow, PENDING)
        r.store("i64", more, shadow, PENDING_ROOM)
    entry = r.at(r.load("ptr", shadow, PENDING), count * ENTRY)
    for i, word in enumerate(("kind", "who", "group", "offset", "size")):
        r.store("i64", r[word], entry, 8 * i)
    r.store("i64", count + 1, shadow, PENDING_COUNT)
    reads = r["kind"].is_(TMA_STORE)
    cells = _cells(r, shadow)
    with r.loop(r["size"]) as i:
        cell = r.at(cells, (r["offset"] + i) * CELL)
        first = r.load("i64", cell, 8, 8)
        place = r.choose(reads, r.choose((first >> 63).is_(0), r.number(1), r.number(2)), r.number(0))
        r.store("i64", r["mark"], cell, place * 8, 8)
        r.store("i16", r["line"].to("i16"), cell, place * 2 + 24, 2)
    return r


def settle() -> Routine:
    """Copies of a kind and thread (or barrier) in groups before `until` are done: their marks become `mark`.

    Those of threads that a barrier counts bring the mark in place of a group.
    """
    r = Routine("fly_check_settle", "void", "ptr state, i64 kind, i64 who, i64 until, i64 mark")
    shadow = _shadow(r)
    entries = r.load("ptr", shadow, PENDING)
    kept = r.variable("i64", 0)
    cells = _cells(r, shadow)
    with r.loop(r.load("i64", shadow, PENDING_COUNT)) as i:
        entry = r.at(entries, i * ENTRY)
        kind, who, group, offset, size = (r.load("i64", entry, 8 * k) for k in range(5))
        done = kind.is_(r["kind"]) & who.is_(r["who"]) & (group < r["until"])

        def finish() -> None:
            with r.loop(size) as b:
                cell = r.at(cells, (offset + b) * CELL)
                for k in range(3):
                    value = r.load("i64", cell, 8 * k, 8)
                    reads = kind.is_(TMA_STORE)
                    mine = reads if k else ~reads
                    never = (value >> 63).is_not(0) & ((value >> 26) & _MASK).is_(NEVER)
                    with r.when(mine & never):
                        r.store("i64", r.choose(kind.is_(COUNTED), group, r["mark"]), cell, 8 * k, 8)

        def keep() -> None:
            at = r.at(entries, kept.get() * ENTRY)
            for k in range(5):
                r.store("i64", r.load("i64", entry, 8 * k), at, 8 * k)
            kept.set(kept.get() + 1)

        r.either(done, finish, keep)
    r.store("i64", kept.get(), shadow, PENDING_COUNT)
    return r


def _mark(r: Routine, thread: Value, clock: Value | int) -> Value:
    moved = (clock if isinstance(clock, Value) else r.number(clock)) << 26
    return ((thread + 1) << 52) | moved | _ASYNC


def _groups(r: Routine, shadow: Value, t: Value, kind: int) -> Value:
    """Where the number of closed groups of a thread is."""
    return r.at(_thread_at(r, shadow, t), _VECTOR_BYTES + 4 * kind)


def copy_started(kind: int) -> Routine:
    """A thread's asynchronous copy into shared memory has been issued; the data was written at once."""
    name = {CP_ASYNC: "fly_check_cp_async", TO_SHARED: "fly_check_to_shared"}[kind]
    r = Routine(name, "void", "ptr state, i64 tid, ptr at, i64 size")
    shadow = _shadow(r)
    offset = r.address(r["at"]) - r.address(r.load("ptr", r["state"], SHARED))
    group = r.load("i32", _groups(r, shadow, r["tid"], kind), 0, 4).to("i64")
    line = r.load("i64", r.load("ptr", r["state"], SITE), TABLE_LINE)
    mark = _mark(r, r["tid"], NEVER)
    r.call("fly_check_pend", "void", r["state"], ("i64", kind), r["tid"], group, offset, r["size"], mark, line)
    return r


def _close(r: Routine, shadow: Value, kind: int) -> None:
    at = _groups(r, shadow, r["tid"], kind)
    r.store("i32", r.load("i32", at, 0, 4) + 1, at, 0, 4)


def group_closed(kind: int) -> Routine:
    """A thread ends a group of copies."""
    name = {CP_ASYNC: "cp_async", TMA_STORE: "tma", TO_SHARED: "to_shared"}[kind]
    r = Routine(f"fly_check_{name}_commit", "void", "ptr state, i64 tid")
    _close(r, _shadow(r), kind)
    return r


def _wait_groups(r: Routine, kind: int, until: Value) -> None:
    """The thread has waited: what it copied counts as written now, and it has seen that."""
    t = r["tid"]
    own = _own_mark(r, t)
    mark = r.number(0) if kind == TMA_STORE else own
    r.call("fly_check_settle", "void", r["state"], ("i64", kind), t, until, mark)


def _readdress(r: Routine, match: Callable[[Value, Value, Value], Value], new: Sequence[Value | int]) -> None:
    """Give the copies under way that match (by kind, owner and group) another kind, owner and group."""
    shadow = _shadow(r)
    entries = r.load("ptr", shadow, PENDING)
    with r.loop(r.load("i64", shadow, PENDING_COUNT)) as i:
        entry = r.at(entries, i * ENTRY)
        kind, who, group = (r.load("i64", entry, 8 * k) for k in range(3))
        with r.when(match(kind, who, group)):
            for k, word in enumerate(new):
                r.store("i64", word, entry, 8 * k)


def copies_counted() -> Routine:
    """From now on a phase of an mbarrier of this block completes the `cp.async` copies of a thread.

    Its arrival, which follows, passes on the clock they will be marked with; their entries hold that mark.
    """
    r = Routine("fly_check_cp_async_arrive", "void", "ptr state, i64 tid, ptr at")
    number, t = r.value_of("fly_check_slot", "i64", r["state"], r["at"]), r["tid"]
    mark = _own_mark(r, t)
    _readdress(r, lambda kind, who, _: kind.is_(CP_ASYNC) & who.is_(t), [COUNTED, number, mark])
    return r


def _own_mark(r: Routine, t: Value) -> Value:
    """The mark of what a thread writes now, at a new time of its warp that it has seen."""
    shadow = _shadow(r)
    warp = _warp(r, shadow, t)
    now = _tick(r, _clock(r, shadow, warp))
    r.store("i32", now, _thread_at(r, shadow, t), warp * 4, 4)
    return _mark(r, t, now.to("i64"))


def _take_back(r: Routine) -> None:
    """A thread that waits for its own copies waits for those as well that a barrier counts."""
    t = r["tid"]
    _readdress(r, lambda kind, _, mark: kind.is_(COUNTED) & ((mark >> 52) & 0x7FF).is_(t + 1), [CP_ASYNC, t, 0])


def groups_waited(kind: int) -> Routine:
    """A thread waits until at most `pending` of its groups are under way."""
    name = {CP_ASYNC: "cp_async", TMA_STORE: "tma", TO_SHARED: "to_shared"}[kind]
    r = Routine(f"fly_check_{name}_wait", "void", "ptr state, i64 tid, i32 pending")
    closed = r.load("i32", _groups(r, _shadow(r), r["tid"], kind), 0, 4)
    pending = r["pending"]
    until = r.choose(closed > pending, closed - pending, r.number(0, "i32"))
    if kind == CP_ASYNC:
        with r.when(pending.is_(0)):
            _take_back(r)
    _wait_groups(r, kind, until.to("i64"))
    return r


def all_waited(kind: int) -> Routine:
    """A thread waits for all of its copies, closed or not."""
    name = {CP_ASYNC: "cp_async", TO_SHARED: "to_shared"}[kind]
    r = Routine(f"fly_check_{name}_wait_all", "void", "ptr state, i64 tid")
    if kind == CP_ASYNC:
        _take_back(r)
    _wait_groups(r, kind, r.number(1 << 40))
    return r


def async_load() -> Routine:
    """A tensor copy into shared memory, complete with the phase of a barrier; both may be another block's."""
    r = Routine("fly_check_async_load", "void", "ptr state, i64 tid, ptr to, i64 size, ptr barrier")
    owner = r.value_of("fly_owner", "ptr", r["state"], r["tid"], r["to"])
    table = r.load("ptr", r["state"], SITE)
    with r.when(r.address(owner).is_(r.address(r["state"]))):
        # What was there must not be in use any more.
        r.call("fly_check_access", "void", r["state"], r["tid"], r["to"], r["size"], ("i1", 1), ("i1", 1), table)
    number = r.value_of("fly_check_slot", "i64", owner, r["barrier"])
    offset = r.address(r["to"]) - r.address(r.load("ptr", owner, SHARED))
    line = r.load("i64", table, TABLE_LINE)
    mark = _mark(r, number + AGENT_THREAD, NEVER)
    r.call(
        "fly_check_pend", "void", owner, ("i64", TMA_LOAD), number, ("i64", 0), offset, r["size"], mark, line
    )  # fmt: skip
    return r


def phase() -> Routine:
    """A phase of an mbarrier of this block is over: the copies counted on it are complete."""
    r = Routine("fly_check_phase", "void", "ptr state, ptr at")
    shadow = _shadow(r)
    number = r.value_of("fly_check_slot", "i64", r["state"], r["at"])
    now = _tick(r, _clock(r, shadow, number + AGENTS))
    r.store("i32", now, _known_by(r, shadow, number), (number + AGENTS) * 4, 4)
    mark = _mark(r, number + AGENT_THREAD, now.to("i64"))
    r.call("fly_check_settle", "void", r["state"], ("i64", TMA_LOAD), number, ("i64", 1), mark)
    r.call("fly_check_settle", "void", r["state"], ("i64", COUNTED), number, ("i64", -1), mark)
    return r


def async_store() -> Routine:
    """A tensor copy out of shared memory: its source is read until the thread has waited."""
    r = Routine("fly_check_async_store", "void", "ptr state, i64 tid, ptr from, i64 size")
    shadow = _shadow(r)
    table = r.load("ptr", r["state"], SITE)
    r.call("fly_check_access", "void", r["state"], r["tid"], r["from"], r["size"], ("i1", 0), ("i1", 1), table)
    group = r.load("i32", _groups(r, shadow, r["tid"], TMA_STORE), 0, 4).to("i64")
    offset = r.address(r["from"]) - r.address(r.load("ptr", r["state"], SHARED))
    mark = _mark(r, r["tid"], NEVER)
    line = r.load("i64", table, TABLE_LINE)
    r.call(
        "fly_check_pend", "void", r["state"], ("i64", TMA_STORE), r["tid"], group, offset, r["size"], mark, line
    )  # fmt: skip
    return r


def routines() -> list[Routine]:
    """All of them; those that are not used LLVM leaves out."""
    return [
        make(), clear(), free(), ordered(), access(), foreign(), meet(), barrier(), slot(), init(), release(),
        acquire(), named(), cluster_arrive(), cluster_wait(), pend(), settle(), phase(), async_load(), async_store(),
        copies_counted(),
        *(write(kind) for write in (copy_started, all_waited) for kind in (CP_ASYNC, TO_SHARED)),
        *(group_closed(kind) for kind in (CP_ASYNC, TMA_STORE, TO_SHARED)),
        *(groups_waited(kind) for kind in (CP_ASYNC, TMA_STORE, TO_SHARED)),
    ]  # fmt: skip


__all__ = ["ACCESS_TEXTS", "SITE", "TABLE_LINE", "routines"]
