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
from .block import BLOCK_IDS, CLUSTER, RANK, SHADOW

ENTRIES = 128
AGENTS = 32
"""Entries of a clock vector: warps first, then mbarriers."""
BARRIERS = ENTRIES - AGENTS
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
FENCED = VECTOR_BYTES + 32
TICKET = FENCED + 2 * VECTOR_BYTES
PER_THREAD = TICKET + 8
"""Of a thread: its clock vector, how many groups of copies it has closed (by kind, then by counter), its vector as it
was at its last fence for the block, and at the last for the device, and the ticket of the copy it issues
(`races/history.py`)."""
CELL = 48
"""Last plain write, two reads, last atomic write, the places in the source of the four (16 bits each), and `HOW`."""
WRITE, READ, UPDATE = 0, 1, 3
LINES, HOW, MORE = 32, 40, 44
"""`HOW`: the rank in the cluster of who did each of the four (4 bits each), then which of them were atomic. `MORE`:
accesses that have left their place, where schedules are explored (`races/history.py`)."""

READS, WRITES, ATOMIC, NARROW, COUNTED, ISSUED = 1, 2, 4, 8, 16, 32
"""What an access does; `NARROW` ones are atomic for their block alone, `COUNTED` ones end with a barrier's phase,
`ISSUED` ones are of a copy and end with the wait for it."""

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


def shadow_of(r: Routine) -> Value:
    return r.load("ptr", r["state"], SHADOW)


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


def tell(r: Routine, table: Value, which: int, at: Value, thread: Value, cell: Value, line: Value) -> None:
    """Report an access, and the one it collides with."""
    flag, text = r.load("ptr", table, 16 * which), r.load("ptr", table, 16 * which + 8)
    ids = [r.load("i64", r["state"], BLOCK_IDS + 8 * i) for i in range(3)]
    nothing = Value(r, "ptr", "null")
    other = (cell >> 52) & 0x7FF
    r.call(
        "fly_report", "void", flag, text, ("i64", cpu_report.MISTAKE), at, ("i64", 0), ("i64", 0), thread, *ids,
        nothing, other, line,
    )  # fmt: skip


def shadow_routines() -> list[Routine]:
    """The routines of this file."""
    return [make(), clear(), free(), ordered(), before()]
