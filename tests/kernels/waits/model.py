"""What asynchronous copies do on the hardware, as simple as can be: they end in order, at the latest at a wait.

A program is a list of events of a wave; all waves of the block run the same one. What a wave has waited for, the others
may rely on behind the next barrier. Events are tuples:

- `("copy", stage, slot)`: an instruction that fills a part of a slot; `("store", stage, slot)`: one that empties it
- `("other",)`: another instruction that the same counter counts
- `("commit",)`: the instructions since the last one are a group; `("commit if open",)`: where there are any
- `("wait", n)`: until at most `n` instructions or groups are under way; `("read", n)`: until all but `n` have read
- `("barrier",)`, `("use", stage, slot)`: all parts are read; `("fill", stage, slot)`: written by threads
- `("results",)`: what was stored is read
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import NamedTuple

Event = tuple[str | int, ...]
NONE = 15
"""In place of a number: no wait."""
BEHIND, BEFORE, NOWHERE = 1, 2, 0
"""Where a group is closed: behind its copy, before it, nowhere."""


class Plan(NamedTuple):
    """Numbers of a program, one of each kind for every step."""

    waits: tuple[int, ...]
    first: tuple[int, ...]
    """Whether there is a barrier: behind the wait, or what is filled."""
    second: tuple[int, ...]
    """The same behind the use, or the wait."""
    commits: tuple[int, ...] = ()

    def words(self) -> tuple[int, int, int, int]:
        """The numbers as a kernel takes them, four bits each."""
        w, a, b, c = (sum(n << 4 * i for i, n in enumerate(part)) for part in self)
        return w - (1 << 32) if w >> 31 else w, a, b, c


def _changed(plan: Plan, which: int, at: int, number: int) -> Plan:
    part = list(plan[which])
    part[at] = number
    return plan._replace(**{Plan._fields[which]: tuple(part)})


def mutants(plan: Plan, rng: random.Random, pairs: int) -> Iterator[Plan]:
    """Plans with one number changed, each once, and some with two."""
    steps: list[tuple[int, int, int]] = []
    for at, n in enumerate(plan.waits):
        steps += [(0, at, n + by) for by in (-1, 1, 2, 3, 4) if 0 <= n + by < NONE] + [(0, at, NONE)]
    steps += [(which, at, 0) for which in (1, 2) for at in range(len(plan[which]))]
    steps += [(3, at, where) for at in range(len(plan.commits)) for where in (NOWHERE, BEFORE)]
    for step in steps:
        yield _changed(plan, *step)
    for _ in range(pairs):
        one, other = rng.sample(steps, 2)
        yield _changed(_changed(plan, *one), *other)


class Copies:
    """What is under way, oldest first: groups, or where there are none instructions."""

    def __init__(self, grouped: bool):
        self.grouped = grouped
        self.under_way: list[set[int]] = []
        self.unread: list[set[int]] = []
        self.open: set[int] = set()
        self.ended: set[int] = set()
        self.has_read: set[int] = set()

    def issue(self, number: int | None) -> None:
        made = set() if number is None else {number}
        if self.grouped:
            self.open |= made
        else:
            self._close(made)

    def _close(self, made: set[int]) -> None:
        self.under_way.append(made)
        self.unread.append(made)

    def commit(self) -> None:
        self._close(self.open)
        self.open = set()

    def wait(self, n: int) -> None:
        while len(self.under_way) > n:
            self.ended |= self.under_way.pop(0)
        self.read(n)

    def read(self, n: int) -> None:
        while len(self.unread) > n:
            self.has_read |= self.unread.pop(0)


def right(events: Iterable[Event], grouped: bool) -> bool:
    """Whether nothing is used before it is there, nor overwritten while it is in use."""
    copies, number = Copies(grouped), 0
    known_ended: set[int] = set()
    known_read: set[int] = set()
    in_slot: dict[object, set[int]] = {}
    of_stage: dict[object, set[int]] = {}
    touched: set[object] = set()
    stores: set[int] = set()
    for kind, *args in events:
        stage, slot = args if len(args) == 2 else (None, None)
        if kind == "barrier":
            known_ended, known_read = set(copies.ended), set(copies.has_read)
            touched = set()
        elif kind == "copy":
            if ("read", slot) in touched or not in_slot.get(slot, set()) - of_stage.get(stage, set()) <= copies.ended:
                return False
            for numbers, key in ((in_slot, slot), (of_stage, stage)):
                numbers.setdefault(key, set()).add(number)
            copies.issue(number)
        elif kind == "use":
            if not of_stage.get(stage, set()) <= known_ended:
                return False
            touched.add(("read", slot))
        elif kind == "fill":
            if not in_slot.get(slot, set()) <= known_read:
                return False
            touched.add(("filled", slot))
        elif kind == "store":
            if ("filled", slot) in touched:
                return False
            in_slot.setdefault(slot, set()).add(number)
            stores.add(number)
            copies.issue(number)
        elif kind == "results":
            if not stores <= known_ended:
                return False
        elif kind == "other":
            copies.issue(None)
        elif kind == "commit" or (kind == "commit if open" and copies.open):
            copies.commit()
        elif kind in ("wait", "read"):
            assert isinstance(args[0], int)
            (copies.wait if kind == "wait" else copies.read)(args[0])
        number += 1
    return True


__all__ = ["BEFORE", "BEHIND", "NONE", "NOWHERE", "Event", "Plan", "mutants", "right"]
