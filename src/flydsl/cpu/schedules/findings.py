"""What exploring schedules gives: findings with a schedule that shows each again, and what was not tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from ...errors import DSLValueError
from ...markup import code, figures
from .timeline import Timeline

_PREFIX = "s1:"


def encode(decisions: Sequence[int]) -> str:
    """A schedule as a string: the choices in order, `3*5` for five times the same."""
    parts: list[str] = []
    i = 0
    while i < len(decisions):
        j = i
        while j < len(decisions) and decisions[j] == decisions[i]:
            j += 1
        parts.append(f"{decisions[i]}*{j - i}" if j - i > 1 else str(decisions[i]))
        i = j
    return _PREFIX + ".".join(parts)


def decode(text: str) -> list[int]:
    """The choices of a schedule.

    >>> from flydsl.cpu.schedules.findings import decode, encode
    >>> encode([0, 0, 0, 2, 1]), decode("s1:0*3.2.1")
    ('s1:0*3.2.1', [0, 0, 0, 2, 1])
    """
    made: list[int] = []
    if not text.startswith(_PREFIX):
        raise DSLValueError(f"a schedule begins with {_PREFIX!r}, as `explore_schedules` gives it; got {text!r}")
    for part in filter(None, text[len(_PREFIX) :].split(".")):
        choice, _, times = part.partition("*")
        if not choice.isdigit() or not (times or "1").isdigit():
            raise DSLValueError(f"{part!r} in the schedule {text!r} is no choice: expected `2` or `2*5`")
        made += [int(choice)] * int(times or 1)
    return made


@dataclass(frozen=True)
class Finding:
    """Something wrong that a schedule brings about."""

    kind: str
    """`deadlock`, `check`, `order`, `not initialised`, `too many arrivals`, `block has ended`, ..."""
    text: str
    schedule: str
    """What `replay_schedule` takes to see it again."""
    timeline: Timeline = field(repr=False)

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}\n  schedule {self.schedule}"

    def _repr_html_(self) -> str:
        first = (self.text.splitlines() or [""])[0]
        return figures([(f"{self.kind}: {first} schedule {self.schedule}", self.timeline.svg())])


@dataclass(frozen=True)
class ScheduleRun:
    """One schedule that was replayed."""

    findings: tuple[Finding, ...]
    timeline: Timeline = field(repr=False)

    def __bool__(self) -> bool:
        return not self.findings

    def _repr_html_(self) -> str:
        found = "; ".join(each.kind for each in self.findings) or "nothing found"
        return figures([(found, self.timeline.svg())])


@dataclass(frozen=True)
class LookedAt:
    """What a run had besides operations: what barriers and waits order alike in every schedule.

    Nothing of it is tried in another order. An access that another one of which one writes could come before or after,
    or the use of a copy that may still be under way, is a race, which any schedule shows; where there is none, all
    orders of them give the same.
    """

    barriers: int = 0
    """How often a barrier of a block opened."""
    copies: int = 0
    """Asynchronous copies and products, each of which may end at any time up to the wait for it."""
    waits: int = 0
    """Waits of threads for their groups of copies, or by counters."""
    shared_accesses: int = 0
    shared_conflicts: int = 0
    """Those of the accesses that meet another thread's, of which one writes: all ordered where nothing was found."""
    global_accesses: int = 0
    global_conflicts: int = 0
    forgotten: int = 0
    """How often a table was too small to remember what was done."""

    def most(self, other: LookedAt) -> LookedAt:
        """The larger numbers of two runs."""
        mine, theirs = ((getattr(x, f.name) for f in fields(LookedAt)) for x in (self, other))
        return LookedAt(*(max(a, b) for a, b in zip(mine, theirs, strict=True)))

    def __str__(self) -> str:
        return (
            f"{self.barriers} barrier(s) of a block, {self.copies} asynchronous copies and products, {self.waits} "
            f"wait(s) for them; {self.shared_accesses} accesses to shared memory, {self.shared_conflicts} of them to "
            f"what another thread writes or reads; {self.global_accesses} to global memory, {self.global_conflicts} of "
            "them so"
        )


@dataclass(frozen=True)
class ScheduleReport:
    """What exploring the schedules of a call gave; true where nothing was found."""

    findings: tuple[Finding, ...]
    schedules: int
    """How often the call was run."""
    orders: int
    """How many of the runs differ in the order of operations that depend on each other."""
    operations: int
    """The most operations a run had."""
    complete: bool
    """Whether every order was tried, of what is tried at all."""
    left: int
    """Where it is not complete: choices that are known and were not made."""
    seconds: float
    uncovered: tuple[str, ...]
    """What was not tried."""
    kernels: tuple[str, ...] = ()
    looked_at: LookedAt = LookedAt()
    """What was proved to be ordered, not tried in other orders."""

    def __bool__(self) -> bool:
        return not self.findings

    def _repr_html_(self) -> str:
        witnesses = "".join(each._repr_html_() for each in self.findings)  # pyright: ignore[reportPrivateUsage]
        return code(repr(self)) + witnesses

    def __repr__(self) -> str:
        found = f"{len(self.findings)} finding(s)" if self.findings else "nothing found"
        if self.complete:
            far = "every order"
        elif self.findings:
            far = "not every order: it ended at what it found"
        else:
            far = f"not every order: the time was over with {self.left} choice(s) known and not made"
        lines = [
            f"{found} in {self.schedules} schedule(s) of {', '.join(self.kernels) or 'no kernel'}, "
            f"{self.orders} of them different, of up to {self.operations} operations, in {self.seconds:.1f} s ({far})",
            f"  looked at in each: {self.looked_at}",
            *(f"  {line}" for each in self.findings for line in str(each).splitlines()),
            *(f"  not covered: {text}" for text in self.uncovered),
        ]
        return "\n".join(lines)


ALWAYS_UNCOVERED = (
    "orders of lanes of a warp that are at the same place: they go together",
    "relaxed atomics that different threads see in different orders (missing fences are races, which are found)",
    "loops that look at memory a limited number of times: they do so when it has changed, or nobody else can go on",
    "where the copy engine reads global memory that threads wrote, whether a proxy fence is between",
    "accumulators of a product in flight: done at once",
    "copies that `asynccnt` or `tensorcnt` count, into other blocks of a cluster: there at once",
)
"""What no run tries."""
