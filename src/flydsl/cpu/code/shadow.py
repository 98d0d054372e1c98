"""What checked mode knows of a block: clocks, and who used each byte of its shared memory.

Warps have clocks, and threads know of each clock how far they have seen it (a vector of `ENTRIES` numbers).
Synchronizing (`order.py`) and memory that hands knowledge on (`places.py`) pass it on. A byte of shared memory
remembers who wrote it last and two who read it: thread, clock of its warp, how often the warp had met. Two accesses are
ordered if one thread did both, if they are of one warp that met in between, or if the second thread has seen the first
one's clock. Accesses of one warp are not ordered by the program: its lanes run one by one here.

Asynchronous copies (`copies.py`) write under the number of what completes them: the mbarrier (`AGENTS` + its place in a
table), or the issuing thread for copies that it waits for. Until then the clock is `NEVER`, which nobody has seen.
"""

from __future__ import annotations

from ...llvm.text.routine import Routine, Value
from . import report as cpu_report
from .block import BLOCK_IDS, CLUSTER, RANK, SHADOW, SHARED

ENTRIES = 64
AGENTS = 32
"""Entries of a clock vector: warps first, then mbarriers."""
BARRIERS = 32
NAMED_FIRST, NAMED_COUNT = BARRIERS, 16
AGENT_THREAD = 1024
"""Threads from this number on are mbarriers."""
NEVER = (1 << 26) - 1
CLOCK_MASK = (1 << 26) - 1
ASYNC = -(1 << 63)
VECTOR = f"<{ENTRIES} x i32>"
VECTOR_BYTES = 4 * ENTRIES

# What the shadow of a block holds, by offset.
BYTES, WARP_BITS, COUNT, PENDING, PENDING_COUNT, PENDING_ROOM = 0, 8, 16, 24, 32, 40
LEARNED, LEARNED_COUNT, LEARNED_ROOM = 48, 56, 64
"""What the block has learned of other blocks (`places.py`)."""
CLOCKS = 96
SYNC_COUNTS = CLOCKS + VECTOR_BYTES
PLACES = SYNC_COUNTS + VECTOR_BYTES
KNOWN_BY_BARRIER = PLACES + 8 * BARRIERS
JOINED = KNOWN_BY_BARRIER + (NAMED_FIRST + NAMED_COUNT) * VECTOR_BYTES
KNOWN = JOINED + VECTOR_BYTES
GROUPS = VECTOR_BYTES
FENCED = VECTOR_BYTES + 16
PER_THREAD = FENCED + 2 * VECTOR_BYTES
"""Of a thread: its clock vector, how many groups of copies it has closed (of each kind), and its vector as it was at
its last fence for the block, and at the last for the device."""
CELL = 48
"""Last plain write, two reads, last atomic write, the places in the source of the four (16 bits each), and `HOW`."""
WRITE, READ, UPDATE = 0, 1, 3
LINES, HOW = 32, 40
"""`HOW`: the rank in the cluster of who did each of the four (4 bits each), then which of them were atomic."""

READS, WRITES, ATOMIC, NARROW, COUNTED = 1, 2, 4, 8, 16
"""What an access does; `NARROW` ones are atomic for their block alone, `COUNTED` ones end with a barrier's phase."""

RACE_WITH_WRITE, RACE_WITH_READ, UNWRITTEN, NOT_THERE_YET, STILL_READ = range(5)
"""What is said of an access, by place in its table."""
ACCESS_TEXTS = 5
TABLE_LINE = 16 * ACCESS_TEXTS
"""In the table of an access: behind the flags and texts, the number of its place in the source."""
SITE = 80
"""Where a block's state has the table of the access that a routine makes."""
GLOBAL_SITE = 96
"""The same for its access to global memory."""
COUNTED_BY = 88
"""Where it has the cell of a `COUNTED` access."""
_STATES = 24
"""Where a cluster's record has the states of its blocks."""


def shadow_of(r: Routine, state: str = "state") -> Value:
    return r.load("ptr", r[state], SHADOW)


def thread_at(r: Routine, shadow: Value, t: Value) -> Value:
    return r.at(shadow, t * PER_THREAD + KNOWN)


def cells_of(r: Routine, shadow: Value) -> Value:
    return r.at(shadow, r.load("i64", shadow, COUNT) * PER_THREAD + KNOWN)


def join(r: Routine, into: Value, other: Value) -> None:
    x, y = (r.load(VECTOR, v, 0, 4) for v in (into, other))
    name = f"llvm.umax.v{ENTRIES}i32"
    r.store(VECTOR, r.value_of(name, VECTOR, x, y, external=True), into, 0, 4)


def warp_of(r: Routine, shadow: Value, t: Value) -> Value:
    return t >> r.load("i64", shadow, WARP_BITS)


def clock_at(r: Routine, shadow: Value, entry: Value) -> Value:
    """Where the clock of an entry is."""
    return r.at(shadow, entry * 4 + CLOCKS)


def tick(r: Routine, at: Value) -> Value:
    """The clock's time, which then goes on."""
    now = r.load("i32", at, 0, 4)
    r.store("i32", now + 1, at, 0, 4)
    return now


# --- life -------------------------------------------------------------------------------------------------------------


def make() -> Routine:
    r = Routine("fly_check_make", "void", "ptr state, i64 bytes, i64 warp, i64 n")
    size = r["n"] * PER_THREAD + r["bytes"] * CELL + KNOWN
    shadow = r.value_of("malloc", "ptr", size, external=True)
    r.store("ptr", shadow, r["state"], SHADOW)
    r.store("i64", r["bytes"], shadow, BYTES)
    bits = r.value_of("llvm.cttz.i64", "i64", r["warp"], ("i1", 1), external=True)
    r.store("i64", bits, shadow, WARP_BITS)
    r.store("i64", r["n"], shadow, COUNT)
    for list_, room in ((PENDING, PENDING_ROOM), (LEARNED, LEARNED_ROOM)):
        r.store("ptr", Value(r, "ptr", "null"), shadow, list_)
        r.store("i64", 0, shadow, room)
    return r


def clear() -> Routine:
    r = Routine("fly_check_clear", "void", "ptr state")
    shadow = shadow_of(r)
    size = r.load("i64", shadow, COUNT) * PER_THREAD + r.load("i64", shadow, BYTES) * CELL + (KNOWN - CLOCKS)
    r.call("llvm.memset.p0.i64", "void", r.at(shadow, CLOCKS), ("i8", 0), size, ("i1", 0), external=True)
    r.store("i64", 0, shadow, PENDING_COUNT)
    r.store("i64", 0, shadow, LEARNED_COUNT)
    with r.loop(ENTRIES) as i:
        r.store("i32", 1, clock_at(r, shadow, i), 0, 4)
        r.store("i32", 1, r.at(shadow, i * 4 + SYNC_COUNTS), 0, 4)
    return r


def free() -> Routine:
    r = Routine("fly_check_free", "void", "ptr state")
    shadow = shadow_of(r)
    for list_ in (PENDING, LEARNED):
        r.call("free", "void", r.load("ptr", shadow, list_), external=True)
    r.call("free", "void", shadow, external=True)
    return r


# --- accesses -------------------------------------------------------------------------------------------------------


def ordered() -> Routine:
    """Whether what a cell holds came before what thread `t` does now."""
    r = Routine("fly_check_ordered", "i1", "ptr shadow, i64 t, i64 cell", "nounwind noinline")
    cell, t, shadow = r["cell"], r["t"], r["shadow"]
    with r.when(cell.is_(0)):
        r.give(1)
    who = ((cell >> 52) & 0x7FF) - 1
    clock = ((cell >> 26) & CLOCK_MASK).to("i32")
    copied = (cell >> 63).is_not(0)
    with r.when(~copied & who.is_(t)):
        r.give(1)
    mine = warp_of(r, shadow, t)
    theirs = r.choose(who >= AGENT_THREAD, who - (AGENT_THREAD - AGENTS), warp_of(r, shadow, who))
    met = r.load("i32", r.at(shadow, mine * 4 + SYNC_COUNTS), 0, 4)
    since = ~copied & theirs.is_(mine) & (cell & CLOCK_MASK).to("i32").is_not(met & CLOCK_MASK)
    seen = r.load("i32", thread_at(r, shadow, t), theirs * 4, 4)
    r.give(since | (clock <= seen))
    return r


def before() -> Routine:
    """The same for what a block of the same cluster did, by its rank."""
    r = Routine("fly_check_before", "i1", "ptr state, i64 t, i64 cell, i64 rank", "nounwind noinline")
    with r.when(r["cell"].is_(0)):
        r.give(1)
    with r.when(r["rank"].is_(r.load("i64", r["state"], RANK))):
        r.give(r.value_of("fly_check_ordered", "i1", shadow_of(r), r["t"], r["cell"]))
    states = r.load("ptr", r.load("ptr", r["state"], CLUSTER), _STATES)
    block = block_of(r, r.load("ptr", states, r["rank"] * 8))
    # Of times nothing is known here, so what was learned of all times counts.
    r.give(r.value_of("fly_check_learned", "i1", r["state"], r["t"], block, r["cell"], ("i64", 0)))
    return r


def block_of(r: Routine, state: Value) -> Value:
    """A block as one number."""
    x, y, z = (r.load("i64", state, BLOCK_IDS + 8 * i) for i in range(3))
    return (z << 42) | (y << 21) | x


def cell_of(r: Routine, state: Value, t: Value) -> Value:
    """What a thread does now, as cells have it."""
    shadow = r.load("ptr", state, SHADOW)
    warp = warp_of(r, shadow, t)
    clock, met = (r.load("i32", shadow, warp * 4 + place, 4).to("i64") & CLOCK_MASK for place in (CLOCKS, SYNC_COUNTS))
    return ((t + 1) << 52) | (clock << 26) | met


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
    """Note an access of a thread to bytes of shared memory of `owner`, a block of its cluster, and test it.

    A write that does not change what is there (`differs`) collides with nothing, two atomic accesses do not collide.
    An atomic write is kept beside the last plain one, or it would hide that one.
    """
    r = Routine(
        "fly_check_access", "void", "ptr state, i64 t, ptr owner, ptr at, i64 size, i32 how, i1 differs, ptr table"
    )
    state, t, table, how = r["state"], r["t"], r["table"], r["how"]
    owner = r.load("ptr", r["owner"], SHADOW)
    address = r.address(r["at"])
    offset = address - r.address(r.load("ptr", r["owner"], SHARED))
    with r.when((offset + r["size"]) > r.load("i64", owner, BYTES)):
        r.give()
    me = cell_of(r, state, t)
    my_rank = r.load("i64", state, RANK)
    writes, reads, atomic = ((how & bit).is_not(0) for bit in (WRITES, READS, ATOMIC))
    line = r.load("i64", table, TABLE_LINE).to("i16")
    cells = cells_of(r, owner)

    def lines(cell: Value, which: int) -> Value:
        number = r.load("i16", cell, LINES + 2 * which, 2).to("i64")
        return r.load("ptr", Value(r, "ptr", "@fly_source_lines"), number * 8, 8)

    with r.loop(r["size"]) as i:
        cell = r.at(cells, (offset + i) * CELL)
        place = address + i
        done = [r.load("i64", cell, 8 * k, 8) for k in range(4)]
        flags = r.load("i32", cell, HOW, 4).to("i64")
        free = [
            r.value_of("fly_check_before", "i1", state, t, done[k], (flags >> (4 * k)) & 15)
            | (atomic & ((flags >> (16 + k)) & 1).is_not(0))
            for k in range(4)
        ]

        def note(which: Value | int) -> None:
            at = which if isinstance(which, Value) else r.number(which)
            r.store("i64", me, cell, at * 8, 8)
            r.store("i16", line, cell, at * 2 + LINES, 2)
            kept = flags & ~((r.number(15) << (at * 4)) | (r.number(1) << (at + 16)))
            made = kept | (my_rank << (at * 4)) | (atomic.to("i64") << (at + 16))
            r.store("i32", made.to("i32"), cell, HOW, 4)

        for k in (WRITE, UPDATE):
            with r.when(~free[k] & r["differs"]):
                copied = (done[k] >> 63).is_not(0)
                for flag, which in ((copied, NOT_THERE_YET), (~copied, RACE_WITH_WRITE)):
                    with r.when(flag):
                        _tell(r, table, which, place, t, done[k], lines(cell, k))
        with r.when(reads & (done[WRITE] | done[UPDATE]).is_(0)):
            _tell(r, table, UNWRITTEN, place, t, r.number(0), lines(cell, WRITE))

        def writing() -> None:
            for k in (READ, READ + 1):
                with r.when(~free[k] & r["differs"]):
                    copying = (done[k] >> 63).is_not(0)
                    for flag, which in ((copying, STILL_READ), (~copying, RACE_WITH_READ)):
                        with r.when(flag):
                            _tell(r, table, which, place, t, done[k], lines(cell, k))
            note(r.choose(atomic, r.number(UPDATE), r.number(WRITE)))

        def reading() -> None:
            # The second place takes what the first has no room for; of many readers any two will do.
            slot = r.choose(free[READ], r.number(READ), r.number(READ + 1))
            keeps = ~free[READ] & (done[READ + 1] >> 63).is_not(0) & ~free[READ + 1]
            with r.when(~keeps):
                note(slot)

        r.either(writes, writing, reading)
    return r


def shadow_routines() -> list[Routine]:
    """The routines of this file."""
    return [make(), clear(), free(), ordered(), before(), access()]


__all__ = [
    "ACCESS_TEXTS", "ATOMIC", "COUNTED", "NARROW", "READS", "SITE", "TABLE_LINE", "WRITES", "block_of", "cell_of",
    "shadow_routines",
]  # fmt: skip
