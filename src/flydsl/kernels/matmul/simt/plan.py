"""Which tile a product of float32 takes: a model of its time, for every tile there is.

Times are in clocks of a multiprocessor. Its blocks share the slots for instructions, of which few warps take fewer, and
what shared memory gives; steps along K take no less than their way from L2, and than their part of its latency. What
must come from memory is a floor under all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import sqrt
from typing import NamedTuple

from .tile import DEEP, Form, Tile, ceildiv, copies, shared_bytes, unit_of


class Rates(NamedTuple):
    """What the hardware does."""

    clock: float = 1.75e9
    issue: float = 0.92
    """Slots for instructions that are taken, with many warps."""
    few_warps: float = 0.6
    """Of these, by one warp on each scheduler; the rest is halved with each further one."""
    shared: float = 2.0
    """Clocks that shared memory takes for a read of 16 bytes a lane."""
    crowding: float = 4.0
    """The power that these and those of instructions are added in."""
    step: float = 40.0
    """Instructions of a step beside products, reads and copies."""
    copy: float = 9.0
    """Instructions of a copy."""
    l2: float = 44.0
    """Bytes of a multiprocessor from L2 in a clock, when all ask."""
    l2_alone: float = 64.0
    """The most it can take."""
    memory: float = 4.1e12
    """Bytes a second."""
    latency: float = 1400.0
    """Clocks from a request to its arrival: a step takes no less than its part of it."""
    start: float = 4500.0
    """Until the first product, and behind the last one."""
    store: float = 20.0
    """Bytes of results a clock."""
    sums: float = 32.0
    """Bytes of slices' sums a clock, either way."""
    news: float = 2200.0
    """Until the last slice knows that it is the last."""


RATES = Rates()


class Problem(NamedTuple):
    """D = X Y^T as the model sees it; bytes of a result's element, and what a multiprocessor has."""

    m: int
    n: int
    k: int
    batches: int
    x: str
    y: str
    out: int
    processors: int
    shared: int
    """Bytes of shared memory that a block may have; a multiprocessor has 1 kB more, and takes as much of each block."""


class Plan(NamedTuple):
    """A tile, the slices of K, and the rows of tiles that are walked together."""

    tile: Tile
    slices: int
    group: int
    clocks: float
    sharers: int = 1
    """Slices whose blocks add up."""

    def sums(self, given: Problem) -> tuple[int, int]:
        """Elements of f32 that slices' sums take in memory, and counters."""
        if self.slices == 1:
            return 0, 0
        units = ceildiv(given.m, self.tile.m) * ceildiv(given.n, self.tile.n) * given.batches
        return units * self.slices * self.tile.size, units


SLICES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
MOST_SHARERS = 16
REGISTERS = 65536
"""Of a multiprocessor."""


def shapes() -> Iterator[tuple[int, int, int, int]]:
    """Warps above and beside each other, and a thread's rows and columns."""
    yield 2, 2, 16, 8
    yield 2, 1, 16, 8
    yield 4, 2, 8, 8
    yield 2, 2, 8, 8
    yield 4, 1, 8, 8
    yield 2, 1, 8, 8
    yield 1, 2, 8, 8
    yield 1, 2, 4, 8
    yield 1, 4, 4, 8
    yield 2, 1, 4, 8
    yield 1, 2, 2, 8
    yield 1, 4, 2, 8
    yield 1, 2, 1, 8
    yield 1, 4, 1, 8


def registers(tile: Tile, form: Form) -> int:
    """What a thread has for sums, fragments and addresses, so that nothing spills."""
    sums = tile.rows * tile.columns
    if sums > 64:
        return 255
    moved = sum(len(copies(f, many, tile)) for f, many in ((form.x, tile.m), (form.y, tile.n)))
    if sums == 64:
        return 168 if DEEP in (form.x, form.y) or moved > 32 else 128
    return 128 if sums == 32 else 96


@lru_cache(256)
def tiles(x: str, y: str, shared: int) -> tuple[Tile, ...]:
    """Every tile for operands that come so, with as many blocks of each as a multiprocessor has room for."""
    found: list[Tile] = []
    form = Form(x, y)
    for high, wide, rows, columns in shapes():
        for stages in (3, 4, 6) if rows <= 4 else (3, 4):
            tile = Tile(high, wide, rows, columns, stages=stages)
            by_registers = REGISTERS // (tile.threads * registers(tile, form))
            by_memory = (shared + 1024) // (shared_bytes(tile, form) + 1024)
            fits = min(by_registers, by_memory, 16)
            if fits and (stages == 3 or by_memory >= min(by_registers, 16) or rows <= 4):
                found.append(tile._replace(fits=fits))
    return tuple(found)


def plan(given: Problem, tile: Tile, slices: int, rates: Rates = RATES) -> Plan | None:
    """What the model says of a tile; None where K is not long enough for so many slices, or there is enough to do."""
    down, across = ceildiv(given.m, tile.m), ceildiv(given.n, tile.n)
    steps = ceildiv(given.k, tile.depth)
    units = down * across * given.batches
    if slices > 1 and (steps < 4 * slices or units * slices > 4 * given.processors * tile.fits or not tile.shares):
        return None
    blocks = units * slices
    mine = ceildiv(steps, slices)
    most = ceildiv(blocks, given.processors)
    rounds, rest = divmod(most, tile.fits)
    active = min(blocks, given.processors)
    floor = fetch_bytes(given) / rates.memory * rates.clock
    busy = rounds * alone(given, tile, tile.fits, mine, active, rates)
    if rest:
        busy += alone(given, tile, rest, mine, active, rates)
    stored = tile.size * given.out * min(most, tile.fits) / rates.store
    clocks = max(busy, floor) + rates.start + stored
    sharers = 1
    if slices > 1:
        # Nobody waits where not all blocks run at the same time.
        if blocks <= given.processors * tile.fits:
            sharers = 1 << (min(slices, MOST_SHARERS, tile.rows * tile.columns // 4).bit_length() - 1)
        sums = 4 * tile.size
        clocks += rates.news + sums * min(most, tile.fits) / rates.sums + slices * sums / sharers / rates.sums
    # What runs at the same time is about a square.
    running = min(units, given.processors * tile.fits)
    group = max(1, min(down, round(sqrt(running * tile.n / tile.m))))
    return Plan(tile, slices, group, clocks, sharers)


def alone(given: Problem, tile: Tile, count: int, steps: int, active: int, rates: Rates) -> float:
    """Clocks of `count` blocks on a multiprocessor, that many steps each."""
    # Instructions of a warp in a step; four schedulers take one each in a clock.
    reads = (tile.rows + tile.columns) / 4 * tile.depth
    copied = sum(rows * tile.depth / unit_of(form) for rows, form in ((tile.m, given.x), (tile.n, given.y)))
    slots = tile.rows * tile.columns * tile.depth + reads + rates.step + rates.copy * copied / tile.threads
    each = max(count * tile.warps / 4, 1.0)
    speed = rates.issue * (1 - (1 - rates.few_warps) * 0.5 ** (each - 1))
    # A block's warps are on different schedulers, as far as there are so many.
    products = slots * max(count * tile.warps / 4, 1.0) / speed
    shared = count * tile.warps * reads * rates.shared
    near = rates.crowding
    together = (products**near + shared**near) ** (1 / near)
    fetched = 4 * (tile.m + tile.n) * tile.depth * count
    feed = fetched / min(rates.l2 * given.processors / active, rates.l2_alone)
    waits = rates.latency / (tile.stages - 1)
    return steps * max(together, feed, waits)


def fetch_bytes(given: Problem) -> float:
    """What memory moves at least."""
    return given.batches * (4 * given.k * (given.m + given.n) + given.out * given.m * given.n)


def candidates(given: Problem, invariant: bool = False) -> list[Plan]:
    """Every plan, the fastest by the model first; K in one piece where rows must not depend on others."""
    found = [
        made
        for tile in tiles(given.x, given.y, given.shared)
        for slices in (SLICES[:1] if invariant else SLICES)
        if (made := plan(given, tile, slices)) is not None
    ]
    return sorted(found, key=lambda p: p.clocks)


@lru_cache(4096)
def best(given: Problem, invariant: bool = False) -> Plan:
    return candidates(given, invariant)[0]


__all__ = ["RATES", "Plan", "Problem", "Rates", "best", "candidates", "tiles"]
