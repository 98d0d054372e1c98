"""A prediction line by line: what each one is limited by, and how each of its accesses uses the memory."""

from __future__ import annotations

from dataclasses import dataclass

from .counts import Access, Amounts, Line
from .predict import Prediction, clocks_of, share_of


@dataclass(frozen=True)
class AccessCost:
    """One access of a line, for one warp."""

    what: str
    space: str
    """`global` or `shared`."""
    factor: float
    """Global: bytes that move for each that is used. Shared: clocks for each that is needed."""
    used: int
    moved: int
    """Bytes, or clocks of shared memory."""
    times: float
    """How often warps of a block do it."""
    known: bool
    """Whether its addresses could be followed; if not, it counts as ideal."""

    def __str__(self) -> str:
        if not self.known:
            return f"{self.space} {self.what}: addresses depend on data, taken for ideal"
        if self.space == "shared":
            how = f"{self.factor:.3g}-way bank conflict" if self.factor > 1.01 else "no bank conflict"
            return f"shared {self.what}: {how}, {self.moved} clocks a warp"
        how = "coalesced" if self.factor <= 1.01 else f"{self.factor:.3g}x the bytes"
        return f"global {self.what}: {how}, {self.moved} B move for {self.used} B"


@dataclass(frozen=True)
class LineCost:
    """What a line does to the launch it is in."""

    line: Line
    limiter: str
    """The resource that takes longest for this line alone."""
    clocks: float
    """What that resource takes, of one unit and block."""
    share: float
    """Of the resource that limits the launch, from 0 to 1."""
    accesses: tuple[AccessCost, ...]


def lines_of(prediction: Prediction) -> list[LineCost]:
    """The lines of a launch, those first that have the greatest share of what limits it."""
    machine, work = prediction.machine, prediction.work
    share = share_of(prediction.limiter)
    whole = sum(share(each, machine) for each in work.lines.values())
    by_line: dict[Line | None, list[AccessCost]] = {}
    for access in work.accesses:
        by_line.setdefault(access.line, []).append(_access(access))
    found: list[LineCost] = []
    for line, amounts in work.lines.items():
        parts = clocks_of(amounts, machine)
        if not parts:
            continue
        limiter = max(parts, key=lambda name: parts[name])
        part = share(amounts, machine) / whole if whole else 0.0
        found.append(LineCost(line, limiter, parts[limiter], part, tuple(_merged(by_line.get(line, [])))))
    return sorted(found, key=lambda cost: (-cost.share, -cost.clocks))


def _access(access: Access) -> AccessCost:
    each: Amounts = access.each
    known = not each.guessed
    if each.asked:
        return AccessCost(access.what, "global", each.moved / each.asked, int(each.asked), int(each.moved),
                          access.times, known)  # fmt: skip
    ideal = each.shared_ideal or each.shared
    return AccessCost(access.what, "shared", each.shared / ideal, int(ideal), int(each.shared), access.times, known)


def _merged(accesses: list[AccessCost]) -> list[AccessCost]:
    """Those that are alike as one: an unrolled loop repeats them."""
    times: dict[AccessCost, float] = {}
    for access in accesses:
        alike = AccessCost(access.what, access.space, access.factor, access.used, access.moved, 0.0, access.known)
        times[alike] = times.get(alike, 0.0) + access.times
    return [AccessCost(a.what, a.space, a.factor, a.used, a.moved, n, a.known) for a, n in times.items()]
