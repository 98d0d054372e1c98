"""Races on shared memory in checked mode: an access is compared with those that its bytes remember (`shadow.py`)."""

from __future__ import annotations

from ....llvm.text.routine import Routine, Value
from .. import shadow as S
from ..block import RANK, SHADOW, SHARED
from ..shadow import cell_of, cells_of, tell
from . import history


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
    with r.when((offset + r["size"]) > r.load("i64", owner, S.BYTES)):
        r.give()
    me = cell_of(r, state, t)
    my_rank = r.load("i64", state, RANK)
    writes, reads, atomic = ((how & bit).is_not(0) for bit in (S.WRITES, S.READS, S.ATOMIC))
    line = r.load("i64", table, S.TABLE_LINE).to("i16")
    cells = cells_of(r, owner)
    exact = history.exact(r)
    bits = r.load("i64", owner, S.WARP_BITS)
    conflicts = r.variable("i1", 0)

    def lines(cell: Value, which: int) -> Value:
        number = r.load("i16", cell, S.LINES + 2 * which, 2).to("i64")
        return r.load("ptr", Value(r, "ptr", "@fly_source_lines"), number * 8, 8)

    with r.loop(r["size"]) as i:
        cell = r.at(cells, (offset + i) * S.CELL)
        place = address + i
        done = [r.load("i64", cell, 8 * k, 8) for k in range(4)]
        flags = r.load("i32", cell, S.HOW, 4).to("i64")
        known = [r.value_of("fly_check_before", "i1", state, t, done[k], (flags >> (4 * k)) & 15) for k in range(4)]
        free = [known[k] | (atomic & ((flags >> (16 + k)) & 1).is_not(0)) for k in range(4)]
        with r.when(exact):
            for k in range(4):
                theirs = done[k].is_not(0) & ((done[k] >> 52) & 0x7FF).is_not(t + 1)
                conflicts.set(conflicts.get() | (theirs if k in (S.WRITE, S.UPDATE) else theirs & writes))
            with r.when(r.load("i32", cell, S.MORE, 4).is_not(0)):
                r.call("fly_check_history", "void", state, t, cell, place, how, r["differs"], table)

        def note(which: Value | int) -> None:
            at = which if isinstance(which, Value) else r.number(which)
            r.store("i64", me, cell, at * 8, 8)
            r.store("i16", line, cell, at * 2 + S.LINES, 2)
            kept = flags & ~((r.number(15) << (at * 4)) | (r.number(1) << (at + 16)))
            made = kept | (my_rank << (at * 4)) | (atomic.to("i64") << (at + 16))
            r.store("i32", made.to("i32"), cell, S.HOW, 4)

        for k in (S.WRITE, S.UPDATE):
            with r.when(~free[k] & r["differs"]):
                copied = (done[k] >> 63).is_not(0)
                for flag, which in ((copied, S.NOT_THERE_YET), (~copied, S.RACE_WITH_WRITE)):
                    with r.when(flag):
                        tell(r, table, which, place, t, done[k], lines(cell, k))
        with r.when(reads & (done[S.WRITE] | done[S.UPDATE]).is_(0)):
            tell(r, table, S.UNWRITTEN, place, t, r.number(0), lines(cell, S.WRITE))

        def leaves(kind: Value, done: Value, known: Value, cell: Value = cell) -> None:
            with r.when(exact & done.is_not(0) & ~known):
                history.keep(r, cell, kind, done, bits)

        def writing() -> None:
            for k in (S.READ, S.READ + 1):
                with r.when(~free[k] & r["differs"]):
                    copying = (done[k] >> 63).is_not(0)
                    for flag, which in ((copying, S.STILL_READ), (~copying, S.RACE_WITH_READ)):
                        with r.when(flag):
                            tell(r, table, which, place, t, done[k], lines(cell, k))
            which = r.choose(atomic, r.number(S.UPDATE), r.number(S.WRITE))
            leaves(
                which,
                r.choose(atomic, done[S.UPDATE], done[S.WRITE]),
                r.choose(atomic, known[S.UPDATE], known[S.WRITE]),
            )
            note(which)

        def reading() -> None:
            # The second place takes what the first has no room for; of many readers any two will do.
            slot = r.choose(free[S.READ], r.number(S.READ), r.number(S.READ + 1))
            keeps = ~free[S.READ] & (done[S.READ + 1] >> 63).is_not(0) & ~free[S.READ + 1]
            with r.when(~keeps):
                leaves(slot, r.choose(free[S.READ], done[S.READ], done[S.READ + 1]),
                       r.choose(free[S.READ], known[S.READ], known[S.READ + 1]))  # fmt: skip
                note(slot)
            with r.when(exact & keeps):
                word = history.meta(r, r.number(S.READ), r["how"].to("i64") & S.ATOMIC, 0, line.to("i64"))
                r.call("fly_check_remember", "void", r.at(cell, S.MORE), my_rank, me, word, ("i64", 0), bits)

        r.either(writes, writing, reading)
    history.count(r, history.SHARED_ACCESSES)
    with r.when(conflicts.get()):
        history.count(r, history.SHARED_CONFLICTS)
    return r
