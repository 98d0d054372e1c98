"""The operations of a kernel that other threads can see, on which objects they act, and which of them commute.

Only their order is explored: what threads do between two of them is theirs alone, or a race, which checked mode finds
in any order.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Kind(IntEnum):
    """What a thread is about to do, or an asynchronous copy."""

    INIT = 1
    ARRIVE = 2
    """Count arrivals or expected bytes at an mbarrier."""
    WAIT = 3
    TEST = 4
    NAMED_ARRIVE = 5
    NAMED_WAIT = 6
    CLUSTER_ARRIVE = 7
    CLUSTER_WAIT = 8
    LEAVE = 9
    """A thread of a cluster ends."""
    LOAD = 10
    STORE = 11
    UPDATE = 12
    """An atomic update whose result nobody uses."""
    EXCHANGE = 13
    REGISTERS = 14
    """`setmaxnreg`."""
    COMPLETE = 15
    """A copy has come: its bytes, or its arrival, are counted at an mbarrier."""
    PEER = 16
    """An access to the shared memory of another block."""


NAMES = {
    Kind.INIT: "mbarrier init",
    Kind.ARRIVE: "mbarrier arrive",
    Kind.WAIT: "mbarrier wait",
    Kind.TEST: "mbarrier test",
    Kind.NAMED_ARRIVE: "named barrier arrive",
    Kind.NAMED_WAIT: "named barrier wait",
    Kind.CLUSTER_ARRIVE: "cluster arrive",
    Kind.CLUSTER_WAIT: "cluster wait",
    Kind.LEAVE: "exit",
    Kind.LOAD: "atomic load",
    Kind.STORE: "atomic store",
    Kind.UPDATE: "atomic update",
    Kind.EXCHANGE: "atomic exchange",
    Kind.REGISTERS: "setmaxnreg",
    Kind.COMPLETE: "copy complete",
    Kind.PEER: "access to a peer",
}

MBARRIER = frozenset((Kind.INIT, Kind.ARRIVE, Kind.WAIT, Kind.TEST, Kind.COMPLETE))
WAITS = frozenset((Kind.WAIT, Kind.NAMED_WAIT, Kind.CLUSTER_WAIT))
"""Operations that cannot be done before their phase is over."""
POLLS = frozenset((Kind.TEST, Kind.LOAD, Kind.EXCHANGE))
"""Operations of loops that look at memory again and again."""
READS = WAITS | {Kind.TEST, Kind.LOAD, Kind.PEER}
"""Operations that change nothing for others."""
_LASTING = frozenset((Kind.NAMED_WAIT, Kind.CLUSTER_WAIT))
"""Waits that know their phase: once it is over they pass, whatever comes."""
_COUNTS = frozenset((Kind.ARRIVE, Kind.COMPLETE, Kind.NAMED_ARRIVE, Kind.CLUSTER_ARRIVE, Kind.LEAVE, Kind.UPDATE))

Object = tuple[str, int, int]
"""What an operation acts on: a word for its kind, a block (or cluster), and its number or address there."""


class Operation(NamedTuple):
    """One operation on one object."""

    kind: Kind
    on: Object
    arg: int = 0
    extra: int = 0
    phase: int = 0
    """The phase of the barrier when it was done, or is about to be."""

    @property
    def raises(self) -> bool:
        """Whether its phase has to wait for more: for another arrival, or for bytes that come with none."""
        return self.kind is Kind.ARRIVE and (self.arg < 0 or (self.arg == 0 and self.extra > 0))

    def enabled_in(self, phase: int) -> bool:
        """Whether a wait passes while its barrier is in a phase."""
        if self.kind is Kind.WAIT:
            return (phase & 1) != (self.arg & 1)
        return phase != self.arg


def dependent(a: Operation, b: Operation) -> bool:
    """Whether the order of two operations can make a difference."""
    if a.on != b.on or (a.kind in READS and b.kind in READS):
        return False
    for wait, other in ((a, b), (b, a)):
        if wait.kind in _LASTING and other.kind in _COUNTS:
            return other.phase == wait.arg
    if a.kind is Kind.REGISTERS and b.kind is Kind.REGISTERS:
        # Whoever gives registers back first, there are as many afterwards.
        return False
    if a.kind in _COUNTS and b.kind in _COUNTS:
        if a.kind is Kind.UPDATE:
            return a.extra != b.extra
        # Within one phase it does not matter who comes first, unless the phase might be over before one of them.
        return a.phase != b.phase or a.raises != b.raises
    return True
