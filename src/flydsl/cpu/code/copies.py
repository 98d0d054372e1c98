"""Asynchronous work in checked mode: copies and matrix products that are done at once here, but may take until a wait.

A list holds what is under way, and the bytes concerned carry marks (`shadow.py`) until somebody has waited for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...llvm.text.routine import Routine, Value
from . import shadow as S
from .block import RANK, SHARED
from .order import known_by
from .races import history
from .shadow import block_of, cells_of, clock_at, shadow_of, tell, thread_at, tick, warp_of

ENTRY = 48
"""Something under way: kind, thread or barrier, group, offset, bytes, and its ticket (`races/history.py`)."""
_WORDS = ENTRY // 8

CP_ASYNC, TMA_STORE, TO_SHARED, WGMMA, TMA_LOAD, COUNTED, TMA_WRITE = range(7)
"""Kinds; of the first four a thread counts the groups it has closed, `TO_SHARED` ones `vmcnt` counts
(`counters.py`), `TMA_WRITE` is what a `TMA_STORE` does to global memory."""
LANE_LOAD, LANE_STORE, TENSOR_LOAD, TENSOR_STORE = range(7, 11)
"""Those of `counters.py`: every instruction is a group of its own, of which there may be many pieces."""


def _reads(kind: Value) -> Value:
    """Whether a kind reads shared memory, and does not write it."""
    return kind.is_(TMA_STORE) | kind.is_(WGMMA) | kind.is_(LANE_STORE) | kind.is_(TENSOR_STORE)


def pend() -> Routine:
    """Note a copy that is under way: its kind, its thread (or the barrier it is counted on), its group."""
    r = Routine(
        "fly_check_pend", "void",
        "ptr state, i64 kind, i64 who, i64 group, i64 offset, i64 size, i64 mark, i64 line, i64 ticket",
    )  # fmt: skip
    shadow = shadow_of(r)
    with r.when((r["offset"] + r["size"]) > r.load("i64", shadow, S.BYTES)):
        r.give()
    count, room = r.load("i64", shadow, S.PENDING_COUNT), r.load("i64", shadow, S.PENDING_ROOM)
    with r.when(count >= room):
        more = room * 2 + 64
        grown = r.value_of("realloc", "ptr", r.load("ptr", shadow, S.PENDING), more * ENTRY, external=True)
        r.store("ptr", grown, shadow, S.PENDING)
        r.store("i64", more, shadow, S.PENDING_ROOM)
    entries = r.load("ptr", shadow, S.PENDING)

    def add() -> None:
        entry = r.at(entries, count * ENTRY)
        for i, word in enumerate(("kind", "who", "group", "offset", "size", "ticket")):
            r.store("i64", r[word], entry, 8 * i)
        r.store("i64", count + 1, shadow, S.PENDING_COUNT)
        with r.when(r["size"].is_not(0)):
            history.count(r, history.COPIES)

    r.either(_goes_on(r, entries, count), lambda: None, add)
    reads = _reads(r["kind"])
    cells = cells_of(r, shadow)
    bits = r.load("i64", shadow, S.WARP_BITS)
    rank = r.load("i64", r["state"], RANK)
    with r.loop(r["size"]) as i:
        cell = r.at(cells, (r["offset"] + i) * S.CELL)
        first = r.load("i64", cell, 8, 8)
        place = r.choose(reads, r.choose((first >> 63).is_(0), r.number(1), r.number(2)), r.number(0))
        left = r.load("i64", cell, place * 8, 8)
        with r.when(history.exact(r) & reads & left.is_not(0)):
            history.keep(r, cell, place, left, bits)
        r.store("i64", r["mark"], cell, place * 8, 8)
        r.store("i16", r["line"].to("i16"), cell, place * 2 + S.LINES, 2)
        _note_rank(r, cell, place, rank)
    return r


def _note_rank(r: Routine, cell: Value, place: Value, rank: Value) -> None:
    """Whose mark is at a place of a cell: that of a thread of block `rank` of the cluster, not atomic."""
    others = r.load("i32", cell, S.HOW, 4).to("i64") & ~((r.number(1) << (place + 16)) | (r.number(15) << (place * 4)))
    r.store("i32", (others | (rank << (place * 4))).to("i32"), cell, S.HOW, 4)


def _goes_on(r: Routine, entries: Value, count: Value) -> Value:
    """Make the last entry longer where this is the next piece of the same instruction; gives whether it is."""
    found = r.variable("i1", 0)
    with r.when((r["kind"] >= LANE_LOAD) & count.is_not(0) & r["size"].is_not(0)):
        last = r.at(entries, (count - 1) * ENTRY)
        same = (r.load("i64", last, 24) + r.load("i64", last, 32)).is_(r["offset"])
        for i, word in ((0, "kind"), (1, "who"), (2, "group"), (5, "ticket")):
            same = same & r.load("i64", last, 8 * i).is_(r[word])
        with r.when(same):
            r.store("i64", r.load("i64", last, 32) + r["size"], last, 32)
            found.set(r.number(1, "i1"))
    return found.get()


def settle() -> Routine:
    """Copies of a kind and thread (or barrier) in groups before `until` are done: their marks become `mark`.

    Those of threads that a barrier counts bring the mark in place of a group. What a later group of the same thread
    still reads keeps one mark of that.
    """
    r = Routine("fly_check_settle", "void", "ptr state, i64 kind, i64 who, i64 until, i64 mark")
    shadow = shadow_of(r)
    entries = r.load("ptr", shadow, S.PENDING)
    kept = r.variable("i64", 0)
    cells = cells_of(r, shadow)
    reading = _reads(r["kind"])
    with r.loop(r.load("i64", shadow, S.PENDING_COUNT)) as i:
        entry = r.at(entries, i * ENTRY)
        kind, who, group, offset, size, ticket = (r.load("i64", entry, 8 * k) for k in range(_WORDS))
        done = kind.is_(r["kind"]) & who.is_(r["who"]) & (group < r["until"])

        def finish() -> None:
            mark = r.choose(kind.is_(COUNTED), group, r["mark"])
            history.fill_in(r, ticket, block_of(r, r["state"]), mark)
            with r.loop(size) as b:
                cell = r.at(cells, (offset + b) * S.CELL)
                history.settle(r, cell, who, reading, mark)
                for k in range(3):
                    value = r.load("i64", cell, 8 * k, 8)
                    theirs = ((value >> 52) & 0x7FF).is_(who + 1)
                    mine = reading & theirs if k else ~reading
                    never = (value >> 63).is_not(0) & ((value >> 26) & S.CLOCK_MASK).is_(S.NEVER)
                    with r.when(mine & never):
                        r.store("i64", mark, cell, 8 * k, 8)

        def keep() -> None:
            at = r.at(entries, kept.get() * ENTRY)
            for k in range(_WORDS):
                r.store("i64", r.load("i64", entry, 8 * k), at, 8 * k)
            kept.set(kept.get() + 1)

        r.either(done, finish, keep)
    r.store("i64", kept.get(), shadow, S.PENDING_COUNT)
    with r.when(reading):
        rank = r.load("i64", r["state"], RANK)
        with r.loop(kept.get()) as i:
            entry = r.at(entries, i * ENTRY)
            kind, who, _, offset, size = (r.load("i64", entry, 8 * k) for k in range(5))
            with r.when(_reads(kind) & who.is_(r["who"])):
                with r.loop(size) as b:
                    cell = r.at(cells, (offset + b) * S.CELL)
                    left = r.load("i64", cell, 8 * (S.READ + 1), 8)
                    with r.when(history.exact(r) & left.is_not(0)):
                        history.keep(r, cell, r.number(S.READ + 1), left, r.load("i64", shadow, S.WARP_BITS))
                    r.store("i64", mark_of(r, who, S.NEVER), cell, 8 * (S.READ + 1), 8)
                    _note_rank(r, cell, r.number(S.READ + 1), rank)
    return r


def mark_of(r: Routine, thread: Value, clock: Value | int) -> Value:
    moved = (clock if isinstance(clock, Value) else r.number(clock)) << 26
    return ((thread + 1) << 52) | moved | S.ASYNC


def groups_at(r: Routine, shadow: Value, t: Value, kind: int) -> Value:
    """Where the number of closed groups of a thread is."""
    return r.at(thread_at(r, shadow, t), S.GROUPS + 4 * kind)


_NAMES = {CP_ASYNC: "cp_async", TMA_STORE: "tma", TO_SHARED: "to_shared", WGMMA: "wgmma"}


def copy_started() -> Routine:
    """A thread's `cp.async` has been issued; the data was written at once."""
    r = Routine("fly_check_cp_async", "void", "ptr state, i64 tid, ptr at, i64 size")
    shadow = shadow_of(r)
    offset = r.address(r["at"]) - r.address(r.load("ptr", r["state"], SHARED))
    group = r.load("i32", groups_at(r, shadow, r["tid"], CP_ASYNC), 0, 4).to("i64")
    line = r.load("i64", r.load("ptr", r["state"], S.SITE), S.TABLE_LINE)
    mark = mark_of(r, r["tid"], S.NEVER)
    ticket = history.take_ticket(r, r["tid"])
    r.call(
        "fly_check_pend", "void", r["state"], ("i64", CP_ASYNC), r["tid"], group, offset, r["size"], mark, line, ticket
    )  # fmt: skip
    return r


def _close(r: Routine, shadow: Value, kind: int) -> None:
    at = groups_at(r, shadow, r["tid"], kind)
    r.store("i32", r.load("i32", at, 0, 4) + 1, at, 0, 4)


def group_closed(kind: int) -> Routine:
    """A thread ends a group of copies."""
    name = _NAMES[kind]
    r = Routine(f"fly_check_{name}_commit", "void", "ptr state, i64 tid")
    _close(r, shadow_of(r), kind)
    return r


def _wait_groups(r: Routine, kind: int, until: Value) -> None:
    """The thread has waited: what it copied counts as written or read now, and it has seen that."""
    t = r["tid"]
    r.call("fly_check_settle", "void", r["state"], ("i64", kind), t, until, own_mark(r, t))


def _readdress(r: Routine, match: Callable[[Value, Value, Value], Value], new: Sequence[Value | int]) -> None:
    """Give the copies under way that match (by kind, owner and group) another kind, owner and group."""
    shadow = shadow_of(r)
    entries = r.load("ptr", shadow, S.PENDING)
    with r.loop(r.load("i64", shadow, S.PENDING_COUNT)) as i:
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
    mark = own_mark(r, t)
    _readdress(r, lambda kind, who, _: kind.is_(CP_ASYNC) & who.is_(t), [COUNTED, number, mark])
    return r


def own_mark(r: Routine, t: Value) -> Value:
    """The mark of what a thread writes now, at a new time of its warp that it has seen."""
    shadow = shadow_of(r)
    warp = warp_of(r, shadow, t)
    now = tick(r, clock_at(r, shadow, warp))
    r.store("i32", now, thread_at(r, shadow, t), warp * 4, 4)
    return mark_of(r, t, now.to("i64"))


def _take_back(r: Routine) -> None:
    """A thread that waits for its own copies waits for those as well that a barrier counts."""
    t = r["tid"]
    _readdress(r, lambda kind, _, mark: kind.is_(COUNTED) & ((mark >> 52) & 0x7FF).is_(t + 1), [CP_ASYNC, t, 0])


def _close_open(r: Routine) -> None:
    """A wait for products ends the group that is open, as the compiler does for them."""
    shadow = shadow_of(r)
    at = groups_at(r, shadow, r["tid"], WGMMA)
    now = r.load("i32", at, 0, 4)
    entries = r.load("ptr", shadow, S.PENDING)
    with r.loop(r.load("i64", shadow, S.PENDING_COUNT)) as i:
        entry = r.at(entries, i * ENTRY)
        kind, who, group = (r.load("i64", entry, 8 * k) for k in range(3))
        with r.when(kind.is_(WGMMA) & who.is_(r["tid"]) & group.is_(now.to("i64"))):
            r.store("i32", now + 1, at, 0, 4)


def groups_waited(kind: int, reads: bool = False) -> Routine:
    """A thread waits until at most `pending` of its groups are under way, or have not `read` their source."""
    name = _NAMES[kind]
    r = Routine(f"fly_check_{name}_wait{'_read' if reads else ''}", "void", "ptr state, i64 tid, i32 pending")
    history.count(r, history.WAITS)
    if kind == WGMMA:
        _close_open(r)
    closed = r.load("i32", groups_at(r, shadow_of(r), r["tid"], kind), 0, 4)
    pending = r["pending"]
    until = r.choose(closed > pending, closed - pending, r.number(0, "i32"))
    if kind == CP_ASYNC:
        with r.when(pending.is_(0)):
            _take_back(r)
    _wait_groups(r, kind, until.to("i64"))
    if kind == TMA_STORE and not reads:
        _wait_groups(r, TMA_WRITE, until.to("i64"))
    return r


def all_waited() -> Routine:
    """A thread waits for all of its `cp.async` copies, closed or not."""
    r = Routine("fly_check_cp_async_wait_all", "void", "ptr state, i64 tid")
    _take_back(r)
    history.count(r, history.WAITS)
    _wait_groups(r, CP_ASYNC, r.number(1 << 40))
    return r


def touch(r: Routine, owner: Value, at: Value, how: int) -> None:
    """Test the access that the routine makes when it is called."""
    table = r.load("ptr", r["state"], S.SITE)
    r.call(
        "fly_check_access", "void", r["state"], r["tid"], owner, at, r["size"], ("i32", how), ("i1", 1), table
    )  # fmt: skip


def async_load() -> Routine:
    """A tensor copy into shared memory, complete with the phase of a barrier; both may be another block's."""
    r = Routine("fly_check_async_load", "void", "ptr state, i64 tid, ptr to, i64 size, ptr barrier")
    owner = r.value_of("fly_owner", "ptr", r["state"], r["tid"], r["to"])
    table = r.load("ptr", r["state"], S.SITE)
    # What was there must not be in use any more.
    touch(r, owner, r["to"], S.WRITES)
    number = r.value_of("fly_check_slot", "i64", owner, r["barrier"])
    offset = r.address(r["to"]) - r.address(r.load("ptr", owner, SHARED))
    line = r.load("i64", table, S.TABLE_LINE)
    mark = mark_of(r, number + S.AGENT_THREAD, S.NEVER)
    ticket = history.take_ticket(r, r["tid"])
    r.call(
        "fly_check_pend", "void", owner, ("i64", TMA_LOAD), number, ("i64", 0), offset, r["size"], mark, line, ticket
    )  # fmt: skip
    return r


def read_counted() -> Routine:
    """The next access to global memory lasts until the phase of an mbarrier of this block is over."""
    r = Routine("fly_check_counted", "void", "ptr state, i64 tid, ptr at")
    number = r.value_of("fly_check_slot", "i64", r["state"], r["at"])
    clock = r.load("i32", clock_at(r, shadow_of(r), number + S.AGENTS), 0, 4).to("i64")
    r.store("i64", mark_of(r, number + S.AGENT_THREAD, clock), r["state"], S.COUNTED_BY)
    return r


def phase() -> Routine:
    """A phase of an mbarrier of this block is over: the copies counted on it are complete."""
    r = Routine("fly_check_phase", "void", "ptr state, ptr at")
    shadow = shadow_of(r)
    number = r.value_of("fly_check_slot", "i64", r["state"], r["at"])
    now = tick(r, clock_at(r, shadow, number + S.AGENTS))
    r.store("i32", now, known_by(r, shadow, number), (number + S.AGENTS) * 4, 4)
    mark = mark_of(r, number + S.AGENT_THREAD, now.to("i64"))
    r.call("fly_check_settle", "void", r["state"], ("i64", TMA_LOAD), number, ("i64", 1), mark)
    r.call("fly_check_settle", "void", r["state"], ("i64", COUNTED), number, ("i64", -1), mark)
    return r


def async_store() -> Routine:
    """A tensor copy out of shared memory: its source is read until the thread has waited."""
    r = Routine("fly_check_async_store", "void", "ptr state, i64 tid, ptr from, i64 size")
    shadow = shadow_of(r)
    table = r.load("ptr", r["state"], S.SITE)
    touch(r, r["state"], r["from"], S.READS)
    group = r.load("i32", groups_at(r, shadow, r["tid"], TMA_STORE), 0, 4).to("i64")
    offset = r.address(r["from"]) - r.address(r.load("ptr", r["state"], SHARED))
    mark = mark_of(r, r["tid"], S.NEVER)
    line = r.load("i64", table, S.TABLE_LINE)
    zero = ("i64", 0)
    r.call(
        "fly_check_pend", "void", r["state"], ("i64", TMA_STORE), r["tid"], group, offset, r["size"], mark, line, zero
    )  # fmt: skip
    ticket = history.take_ticket(r, r["tid"])
    with r.when(ticket.is_not(0)):
        r.call(
            "fly_check_pend", "void", r["state"], ("i64", TMA_WRITE), r["tid"], group, zero, zero, zero, zero, ticket
        )  # fmt: skip
    return r


def left() -> Routine:
    """A thread ends: with its block goes the shared memory that its stores must have read by then."""
    r = Routine("fly_check_left", "void", "ptr state, i64 tid, ptr table")
    shadow = shadow_of(r)
    entries, base = r.load("ptr", shadow, S.PENDING), r.address(r.load("ptr", r["state"], SHARED))
    with r.loop(r.load("i64", shadow, S.PENDING_COUNT)) as i:
        kind, who, _, offset = (r.load("i64", r.at(entries, i * ENTRY), 8 * k) for k in range(4))
        with r.when(kind.is_(TMA_STORE) & who.is_(r["tid"])):
            line = r.load("i16", r.at(cells_of(r, shadow), offset * S.CELL), 2 * S.READ + S.LINES, 2).to("i64")
            there = r.load("ptr", Value(r, "ptr", "@fly_source_lines"), line * 8, 8)
            tell(r, r["table"], S.STILL_READ, base + offset, who, mark_of(r, who, S.NEVER), there)
    return r


def product() -> Routine:
    """A matrix product reads shared memory until its thread has waited."""
    r = Routine("fly_check_wgmma", "void", "ptr state, i64 tid, ptr at, i64 size")
    shadow = shadow_of(r)
    group = r.load("i32", groups_at(r, shadow, r["tid"], WGMMA), 0, 4).to("i64")
    offset = r.address(r["at"]) - r.address(r.load("ptr", r["state"], SHARED))
    line = r.load("i64", r.load("ptr", r["state"], S.SITE), S.TABLE_LINE)
    mark = mark_of(r, r["tid"], S.NEVER)
    zero = ("i64", 0)
    r.call("fly_check_pend", "void", r["state"], ("i64", WGMMA), r["tid"], group, offset, r["size"], mark, line, zero)
    return r


def copy_routines() -> list[Routine]:
    """The routines of this file."""
    waited = (CP_ASYNC, TMA_STORE, WGMMA)
    return [
        pend(), settle(), phase(), async_load(), async_store(), copies_counted(), read_counted(), product(),
        copy_started(), all_waited(), left(), *(group_closed(kind) for kind in (*waited, TO_SHARED)),
        *(groups_waited(kind) for kind in waited), groups_waited(TMA_STORE, reads=True),
    ]  # fmt: skip
