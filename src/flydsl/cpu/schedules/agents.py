"""Agents of a schedule, what a strategy is asked and told, and who decides now."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ..code.races.seen import SEEN
from .operations import MBARRIER, NAMES, Kind, Operation


class Agent(NamedTuple):
    """Lanes of a warp that are about to do something, or a copy that is about to come."""

    name: str
    block: int
    warp: int
    lanes: int
    """One bit each; 0 for a copy."""
    status: int
    operations: tuple[Operation, ...]
    enabled: bool
    place: str
    """File and line."""


class Event(NamedTuple):
    """Something that was done."""

    agent: Agent
    drained: tuple[tuple[int, int], ...] = ()
    """Warps and lanes that met at collectives behind it."""
    issued: tuple[str, ...] = ()
    """Copies that were issued by it."""


class Strategy(Protocol):
    """What decides on a schedule and is told what happens."""

    def choose(self, agents: Sequence[Agent]) -> Agent | None:
        """Who goes on, of those that are enabled; None gives the run up."""
        ...

    def done(self, event: Event) -> None: ...

    def stuck(self, agents: Sequence[Agent]) -> None:
        """Nobody can go on, though these are not through."""
        ...

    def opened(self, block: int) -> None:
        """A barrier of a block has opened."""
        ...

    def started(self, kernel: str, blocks: int) -> None: ...

    def found(self, what: str, text: str, agents: Sequence[Agent]) -> None:
        """Something is wrong; `agents` are concerned."""
        ...

    def uncovered(self, text: str) -> None:
        """Something that this run does not try."""
        ...


class Session:
    """Who decides on the launches of this process, and what went wrong while it did."""

    def __init__(self) -> None:
        self.strategy: Strategy | None = None
        self.error: BaseException | None = None
        self.arrays: list[tuple[int, int]] = []
        """First byte of the arrays among the arguments, and the one behind the last."""
        self.seen = (ctypes.c_int64 * len(SEEN))()
        """What code counts of what it looks at (`cpu/code/races/history.py`)."""

    def place(self, address: int) -> str:
        """An address in words that are the same in every process."""
        for i, (low, high) in enumerate(self.arrays):
            if low <= address < high:
                return f"byte {address - low} of array argument {i}"
        return f"global memory at {address:#x}"


session = Session()


def describe(agent: Agent) -> str:
    """What an agent is about to do, in words."""
    o = agent.operations[0]
    text = NAMES[o.kind]
    word, block, number = o.on
    if o.kind in MBARRIER:
        text += f" at shared byte {number} of block {block}"
        if o.kind in (Kind.WAIT, Kind.TEST):
            text += f", parity {o.arg & 1}, the barrier is in phase {o.phase}"
    elif word == "named barrier":
        text += f" {number}"
    elif word == "shared memory":
        text += f" of byte {number} of the shared memory of block {block}"
    elif word == "global memory":
        text += f" of {session.place(number)}"
    elif o.kind is Kind.REGISTERS:
        text += f" to {o.arg}"
    return text
