"""What threads learn through memory: release and acquire at an address, within a block and between blocks.

A place is an address that knowledge was handed on at: by an atomic access that releases, by one behind a fence, by an
arrival at another block's mbarrier or at the cluster's barrier. It holds a vector of clocks (`shadow.py`) per block of
which something is known. Who takes it up learns that: of the own block at once, of others as an entry of the block's
list of what was learned, good for threads that are ordered behind the one that learned it (its `gate`).

An access that is neither acquire nor release hands on what its thread knew at its last fence, and what it takes up
counts from the next fence on (until then the gate is 0).

Where a list grows too long, its block or place is taken to know all that was done before: a race may be missed, none is
made up. Places are of a launch and of a `space`: 0 for memory of all blocks, a block's number + 1 for what is its own.
"""

from __future__ import annotations

from ...llvm.text.routine import Routine, Value
from . import shadow as S
from .races import history
from .shadow import block_of, cell_of, clock_at, join, shadow_of, thread_at, tick, warp_of

NOW, FENCE_OF_BLOCK, FENCE_OF_DEVICE = range(3)
"""What is handed on: what the thread knows, or what it knew at its last fence."""

_BITS = 12
_PROBES = 16
_PLACE = 48
"""Address, space, launch, entries: how many, room for how many, where."""
_AT, _SPACE, _LAUNCH, _COUNT, _ROOM, _ENTRIES = range(0, _PLACE, 8)
_ENTRY = 32 + S.VECTOR_BYTES
_BLOCK, _GATE, _WHO, _TIME, _CLOCKS = 0, 8, 16, 24, 32
_ALL = -1
"""In place of a block: all that was done before a time."""
_MOST = 512
_ALWAYS = 1 << 52
"""A cell that is before everything."""
_GOLDEN = -7046029254386353131  # 2**64 / golden ratio, odd

GLOBALS = """
@fly_places = internal global ptr null, align 8
@fly_time = internal global i64 1, align 8
"""


def lock(r: Routine) -> None:
    """Wait until no other core is at the tables of the launch."""
    at = _lock_of(r).name
    with r.again(lambda: r.assign("i32", f"atomicrmw xchg ptr {at}, i32 1 acquire").is_not(0)):
        pass


def unlock(r: Routine) -> None:
    r.line(f"store atomic i32 0, ptr {_lock_of(r).name} release, align 4")


def _lock_of(r: Routine) -> Value:
    """Behind the address of the table of `global_races.py`."""
    return r.at(r.load("ptr", Value(r, "ptr", "@fly_global_words"), 0, 8), 8)


def time_now(r: Routine) -> Value:
    return r.load("i64", Value(r, "ptr", "@fly_time"), 0, 8)


def _next_time(r: Routine) -> Value:
    now = time_now(r) + 1
    r.store("i64", now, Value(r, "ptr", "@fly_time"), 0, 8)
    return now


def _find() -> Routine:
    """The place of an address, made where `make` is set and there is room; null otherwise."""
    r = Routine("fly_check_place", "ptr", "ptr at, i64 space, i1 make")
    table = r.variable("ptr", r.load("ptr", Value(r, "ptr", "@fly_places"), 0, 8))
    with r.when(r.address(table.get()).is_(0)):
        table.set(r.value_of("calloc", "ptr", ("i64", 1 << _BITS), ("i64", _PLACE), external=True))
        r.store("ptr", table.get(), Value(r, "ptr", "@fly_places"), 0, 8)
    launch = r.load("i64", Value(r, "ptr", "@fly_launch"), 0, 8)
    key = r.address(r["at"])
    with r.loop(_PROBES) as probe:
        slot = ((((key ^ (r["space"] << 20)) * _GOLDEN) >> (64 - _BITS)) + probe) & ((1 << _BITS) - 1)
        place = r.at(table.get(), slot * _PLACE)
        stale = r.load("i64", place, _LAUNCH).is_not(launch)
        with r.when(~stale & r.load("i64", place, _AT).is_(key) & r.load("i64", place, _SPACE).is_(r["space"])):
            r.give(place)
        with r.when(stale):
            with r.when(~r["make"]):
                r.give(Value(r, "ptr", "null"))
            for offset, word in ((_AT, key), (_SPACE, r["space"]), (_LAUNCH, launch), (_COUNT, 0)):
                r.store("i64", word, place, offset)
            r.give(place)
    history.count(r, history.FORGOTTEN)
    r.give(Value(r, "ptr", "null"))
    return r


def _add() -> Routine:
    """Add what is known of a block to a list of entries: `list` is where its count, room and address are."""
    r = Routine("fly_check_add", "void", "ptr list, i64 block, i64 gate, i64 who, i64 time, ptr clocks")
    list_, clocks = r["list"], r["clocks"]
    count, room = r.load("i64", list_, 0), r.load("i64", list_, 8)
    entries = r.variable("ptr", r.load("ptr", list_, 16))
    with r.loop(count) as i:
        entry = r.at(entries.get(), i * _ENTRY)
        same = r.load("i64", entry, _BLOCK).is_(r["block"]) & r.load("i64", entry, _WHO).is_(r["who"])
        with r.when(same):
            gate = r.load("i64", entry, _GATE)
            with r.when(gate.is_(r["gate"])):
                join(r, r.at(entry, _CLOCKS), clocks)
                r.store("i64", r.most(r.load("i64", entry, _TIME), r["time"]), entry, _TIME)
                r.give()
            # What an entry says already, from an earlier time on, need not be said again.
            old, new = r.load(S.VECTOR, entry, _CLOCKS, 4), r.load(S.VECTOR, clocks, 0, 4)
            more = r.assign(f"<{S.VECTOR_BYTES // 4} x i1>", f"icmp ugt {S.VECTOR} {new.name}, {old.name}")
            name = f"llvm.vector.reduce.or.v{S.VECTOR_BYTES // 4}i1"
            news = r.value_of(name, "i1", more, external=True) | (r["time"] > r.load("i64", entry, _TIME))
            with r.when(~news & gate.is_not(0)):
                r.give()
    full = count >= _MOST
    with r.when(full):
        history.count(r, history.FORGOTTEN)
        first = entries.get()
        r.store("i64", _ALL, first, _BLOCK)
        r.store("i64", _ALWAYS, first, _GATE)
        r.store("i64", 0, first, _WHO)
        r.store("i64", _next_time(r), first, _TIME)
        r.store(S.VECTOR, Value(r, S.VECTOR, "zeroinitializer"), first, _CLOCKS, 4)
        r.store("i64", 1, list_, 0)
        r.give()
    with r.when(count >= room):
        more = room * 2 + 4
        entries.set(r.value_of("realloc", "ptr", entries.get(), more * _ENTRY, external=True))
        r.store("ptr", entries.get(), list_, 16)
        r.store("i64", more, list_, 8)
    entry = r.at(entries.get(), count * _ENTRY)
    for offset, word in ((_BLOCK, "block"), (_GATE, "gate"), (_WHO, "who"), (_TIME, "time")):
        r.store("i64", r[word], entry, offset)
    r.store(S.VECTOR, r.load(S.VECTOR, clocks, 0, 4), entry, _CLOCKS, 4)
    r.store("i64", count + 1, list_, 0)
    return r


def _learned_list(r: Routine, shadow: Value) -> Value:
    """The block's list in the form that `fly_check_add` takes: its words lie in another order."""
    made = r.room(24)
    _copy_words(r, shadow, made, ((S.LEARNED_COUNT, 0), (S.LEARNED_ROOM, 8), (S.LEARNED, 16)))
    return made


def _keep_learned(r: Routine, shadow: Value, list_: Value) -> None:
    _copy_words(r, list_, shadow, ((0, S.LEARNED_COUNT), (8, S.LEARNED_ROOM), (16, S.LEARNED)))


def _copy_words(r: Routine, source: Value, to: Value, offsets: tuple[tuple[int, int], ...]) -> None:
    for there, here in offsets:
        r.store("i64", r.load("i64", source, there), to, here)


def hand_on() -> Routine:
    """A thread releases at an address: what it knows `NOW`, or what it knew at its last fence of a kind."""
    r = Routine("fly_check_hand_on", "void", "ptr state, i64 tid, ptr at, i64 space, i32 what")
    shadow, t = shadow_of(r), r["tid"]
    warp = warp_of(r, shadow, t)
    clocks = r.room(S.VECTOR_BYTES)

    def present() -> None:
        r.store(S.VECTOR, r.load(S.VECTOR, thread_at(r, shadow, t), 0, 4), clocks, 0, 4)
        r.store("i32", tick(r, clock_at(r, shadow, warp)), clocks, warp * 4, 4)

    def fenced() -> None:
        which = (r["what"] - 1).to("i64") * S.VECTOR_BYTES + S.FENCED
        r.store(S.VECTOR, r.load(S.VECTOR, thread_at(r, shadow, t), which, 4), clocks, 0, 4)

    r.either(r["what"].is_(NOW), present, fenced)
    # Without a fence nothing is handed on.
    with r.when(r.load("i32", clocks, warp * 4, 4).is_(0)):
        r.give()
    lock(r)
    place = r.value_of("fly_check_place", "ptr", r["at"], r["space"], ("i1", 1))
    with r.when(r.address(place).is_not(0)):
        time = _next_time(r)
        list_ = r.at(place, _COUNT)
        mine = block_of(r, r["state"])
        r.call("fly_check_add", "void", list_, mine, ("i64", 0), ("i64", 0), time, clocks)
        entries = r.load("ptr", shadow, S.LEARNED)
        with r.loop(r.load("i64", shadow, S.LEARNED_COUNT)) as i:
            entry = r.at(entries, i * _ENTRY)
            gate = r.load("i64", entry, _GATE)
            known = r.value_of("fly_check_ordered", "i1", shadow, t, gate)
            with r.when(gate.is_not(0) & known):
                block, when = r.load("i64", entry, _BLOCK), r.load("i64", entry, _TIME)
                r.call("fly_check_add", "void", list_, block, ("i64", 0), ("i64", 0), when, r.at(entry, _CLOCKS))
    unlock(r)
    return r


def take_up() -> Routine:
    """A thread learns what was handed on at an address: at once, or from its next fence on."""
    r = Routine("fly_check_take_up", "void", "ptr state, i64 tid, ptr at, i64 space, i1 acquires")
    shadow, t = shadow_of(r), r["tid"]
    lock(r)
    place = r.value_of("fly_check_place", "ptr", r["at"], r["space"], ("i1", 0))
    with r.when(r.address(place).is_not(0)):
        mine = block_of(r, r["state"])
        now = cell_of(r, r["state"], t)
        gate = r.choose(r["acquires"], now, r.number(0))
        list_ = _learned_list(r, shadow)
        entries = r.load("ptr", place, _ENTRIES)
        with r.loop(r.load("i64", place, _COUNT)) as i:
            entry = r.at(entries, i * _ENTRY)
            block, when = r.load("i64", entry, _BLOCK), r.load("i64", entry, _TIME)
            clocks = r.at(entry, _CLOCKS)
            ours = block.is_(mine) & r["acquires"]
            with r.when(ours):
                join(r, thread_at(r, shadow, t), clocks)
            with r.when(~ours):
                r.call("fly_check_add", "void", list_, block, gate, t, when, clocks)
        _keep_learned(r, shadow, list_)
    unlock(r)
    return r


def fence() -> Routine:
    """A fence of a thread; `narrow` ones are for its block alone."""
    r = Routine("fly_check_fence", "void", "ptr state, i64 tid, i1 releases, i1 acquires, i1 narrow")
    shadow, t = shadow_of(r), r["tid"]
    with r.when(r["acquires"]):
        mine = block_of(r, r["state"])
        now = cell_of(r, r["state"], t)
        entries = r.load("ptr", shadow, S.LEARNED)
        with r.loop(r.load("i64", shadow, S.LEARNED_COUNT)) as i:
            entry = r.at(entries, i * _ENTRY)
            with r.when(r.load("i64", entry, _GATE).is_(0) & r.load("i64", entry, _WHO).is_(t)):
                ours = r.load("i64", entry, _BLOCK).is_(mine)
                with r.when(ours):
                    join(r, thread_at(r, shadow, t), r.at(entry, _CLOCKS))
                with r.when(ours | ~r["narrow"]):
                    r.store("i64", now, entry, _GATE)
    with r.when(r["releases"]):
        warp = warp_of(r, shadow, t)
        known = thread_at(r, shadow, t)
        time = tick(r, clock_at(r, shadow, warp))

        def keep(which: int) -> None:
            at = r.at(known, S.FENCED + (which - 1) * S.VECTOR_BYTES)
            r.store(S.VECTOR, r.load(S.VECTOR, known, 0, 4), at, 0, 4)
            r.store("i32", time, at, warp * 4, 4)

        keep(FENCE_OF_BLOCK)
        with r.when(~r["narrow"]):
            keep(FENCE_OF_DEVICE)
    return r


def learned() -> Routine:
    """Whether what another block did, by its cell and time, came before what thread `t` does now."""
    r = Routine("fly_check_learned", "i1", "ptr state, i64 t, i64 block, i64 cell, i64 time")
    shadow, cell = shadow_of(r), r["cell"]
    who = ((cell >> 52) & 0x7FF) - 1
    theirs = r.choose(who >= S.AGENT_THREAD, who - (S.AGENT_THREAD - S.AGENTS), warp_of(r, shadow, who))
    clock = ((cell >> 26) & S.CLOCK_MASK).to("i32")
    entries = r.load("ptr", shadow, S.LEARNED)
    with r.loop(r.load("i64", shadow, S.LEARNED_COUNT)) as i:
        entry = r.at(entries, i * _ENTRY)
        gate, block = r.load("i64", entry, _GATE), r.load("i64", entry, _BLOCK)
        told = block.is_(r["block"]) & (r.load("i32", entry, theirs * 4 + _CLOCKS, 4) >= clock)
        told = told | (block.is_(_ALL) & (r["time"] < r.load("i64", entry, _TIME)))
        with r.when(gate.is_not(0) & told):
            with r.when(r.value_of("fly_check_ordered", "i1", shadow, r["t"], gate)):
                r.give(1)
    r.give(0)
    return r


def place_routines() -> list[Routine]:
    """The routines of this file."""
    return [_find(), _add(), hand_on(), take_up(), fence(), learned()]
