"""What orders the threads of a block in checked mode: collectives, barriers, mbarriers, the cluster's barrier.

Each passes on what threads know of the clocks (`shadow.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from ...llvm.text.routine import Routine, Value
from . import report as cpu_report
from . import shadow as S
from .block import BARRIER, BLOCK_IDS, CLUSTER, SITE_MASK, STATUS, TOOK
from .block import JOINED as PHASES
from .places import NOW
from .races import history
from .shadow import block_of, clock_at, join, shadow_of, thread_at, tick, warp_of

_STATES, _BLOCKS = 24, 32
"""Where a cluster's record has the states of its blocks, and their number."""


def _meet(r: Routine, shadow: Value, begin: Value, end: Value, takes_part: Callable[[Value], Value]) -> None:
    """Threads that meet know afterwards what each of them knew, and all that their warps did before."""
    joined = r.at(shadow, S.JOINED)
    r.store(S.VECTOR, Value(r, S.VECTOR, "zeroinitializer"), joined, 0, 4)
    with r.loop(end, begin) as t:
        with r.when(takes_part(t)):
            join(r, joined, thread_at(r, shadow, t))
    bits = r.load("i64", shadow, S.WARP_BITS)
    first, last = begin >> bits, (end - 1) >> bits
    with r.loop(last + 1, first) as w:
        now = tick(r, clock_at(r, shadow, w))
        r.store("i32", now, joined, w * 4, 4)
        at = r.at(shadow, w * 4 + S.SYNC_COUNTS)
        r.store("i32", r.load("i32", at, 0, 4) + 1, at, 0, 4)
    with r.loop(end, begin) as t:
        with r.when(takes_part(t)):
            r.store(S.VECTOR, r.load(S.VECTOR, joined, 0, 4), thread_at(r, shadow, t), 0, 4)


def meet() -> Routine:
    """A collective of the threads of a unit that took part."""
    r = Routine("fly_check_meet", "void", "ptr state, i64 begin, i64 end")
    _meet(r, shadow_of(r), r["begin"], r["end"], lambda t: r.load("i8", r["state"], t + TOOK).is_not(0))
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
    _meet(r, shadow_of(r), r.number(0), n, lambda t: r.load("i32", state, t * 4 + STATUS).is_not(0))
    return r


def known_by(r: Routine, shadow: Value, barrier_: Value | int) -> Value:
    number = r.number(barrier_) if isinstance(barrier_, int) else barrier_
    return r.at(shadow, number * S.VECTOR_BYTES + S.KNOWN_BY_BARRIER)


def slot() -> Routine:
    """Number of an mbarrier in the block's table, where it is entered if need be; the last is shared by all others."""
    r = Routine("fly_check_slot", "i64", "ptr state, ptr at")
    shadow = shadow_of(r)
    address = r.address(r["at"])
    with r.loop(S.BARRIERS) as i:
        place = r.load("i64", shadow, i * 8 + S.PLACES, 8)
        with r.when(place.is_(0)):
            r.store("i64", address, shadow, i * 8 + S.PLACES, 8)
            r.give(i)
        with r.when(place.is_(address)):
            r.give(i)
    history.count(r, history.FORGOTTEN)
    r.give(S.BARRIERS - 1)
    return r


def init() -> Routine:
    """A fresh mbarrier knows nothing."""
    r = Routine("fly_check_init", "void", "ptr state, i64 tid, ptr at")
    shadow = shadow_of(r)
    number = r.value_of("fly_check_slot", "i64", r["state"], r["at"])
    r.store(S.VECTOR, Value(r, S.VECTOR, "zeroinitializer"), known_by(r, shadow, number), 0, 4)
    return r


def _release(r: Routine, shadow: Value, known: Value) -> None:
    """Hand on what the thread knows and what its warp did."""
    t = r["tid"]
    join(r, known, thread_at(r, shadow, t))
    warp = warp_of(r, shadow, t)
    r.store("i32", tick(r, clock_at(r, shadow, warp)), known, warp * 4, 4)


def _space(r: Routine, owner: Value) -> Value:
    """Where an address in the shared memory of a block is one of its own (`places.py`)."""
    return block_of(r, owner) + 1


def space() -> Routine:
    """The same of the block whose shared memory an address lies in, the own one for other addresses."""
    r = Routine("fly_check_space", "i64", "ptr state, i64 tid, ptr at")
    r.give(_space(r, r.value_of("fly_owner", "ptr", r["state"], r["tid"], r["at"])))
    return r


def _several(r: Routine) -> Value:
    """Whether the block has others in its cluster."""
    return r.load("i64", r.load("ptr", r["state"], CLUSTER), _BLOCKS) > 1


def _cluster_place(r: Routine) -> tuple[Value, Value]:
    """A place that stands for the barrier of a cluster in the phase its thread came in.

    That is an address in its record; a record serves one cluster after the other, which their first blocks tell apart.
    """
    record = r.load("ptr", r["state"], CLUSTER)
    phase = r.load("i32", r["state"], r["tid"] * 4 + PHASES).to("i64") & 1
    return r.at(record, phase), _space(r, r.load("ptr", r.load("ptr", record, _STATES)))


def release() -> Routine:
    """An arrival at an mbarrier, which may be another block's."""
    r = Routine("fly_check_release", "void", "ptr state, i64 tid, ptr owner, ptr at")
    with r.when(r.address(r["owner"]).is_not(r.address(r["state"]))):
        r.call("fly_check_hand_on", "void", r["state"], r["tid"], r["at"], _space(r, r["owner"]), ("i32", NOW))
        r.give()
    shadow = shadow_of(r)
    number = r.value_of("fly_check_slot", "i64", r["state"], r["at"])
    _release(r, shadow, known_by(r, shadow, number))
    return r


def acquire() -> Routine:
    """A thread has seen a phase of an mbarrier end."""
    r = Routine("fly_check_acquire", "void", "ptr state, i64 tid, ptr at")
    shadow = shadow_of(r)
    number = r.value_of("fly_check_slot", "i64", r["state"], r["at"])
    join(r, thread_at(r, shadow, r["tid"]), known_by(r, shadow, number))
    with r.when(_several(r)):
        r.call("fly_check_take_up", "void", r["state"], r["tid"], r["at"], _space(r, r["state"]), ("i1", 1))
    return r


def named() -> Routine:
    """An arrival at a named barrier, or its end for a thread."""
    r = Routine("fly_check_named", "void", "ptr state, i64 tid, i32 number, i1 arrives")
    shadow = shadow_of(r)
    known = known_by(r, shadow, (r["number"] & 15).to("i64") + S.NAMED_FIRST)
    r.either(r["arrives"], lambda: _release(r, shadow, known), lambda: join(r, thread_at(r, shadow, r["tid"]), known))
    return r


def cluster_arrive() -> Routine:
    r = Routine("fly_check_cluster_arrive", "void", "ptr state, i64 tid")
    r.call("fly_check_hand_on", "void", r["state"], r["tid"], *_cluster_place(r), ("i32", NOW))
    return r


def cluster_wait() -> Routine:
    r = Routine("fly_check_cluster_wait", "void", "ptr state, i64 tid")
    r.call("fly_check_take_up", "void", r["state"], r["tid"], *_cluster_place(r), ("i1", 1))
    return r


def registers() -> Routine:
    """A warp gives registers back or takes more, which matters to schedules alone."""
    return Routine("fly_check_registers", "void", "ptr state, i64 tid, i32 count, i32 more")


def order_routines() -> list[Routine]:
    """The routines of this file."""
    return [
        meet(), barrier(), slot(), init(), release(), acquire(), named(), cluster_arrive(), cluster_wait(),
        space(), registers(),
    ]  # fmt: skip
