"""Which tile a Hopper product takes: a model of its time, from extents and layout, for every tile there is.

Times are in clocks of a multiprocessor. A step along K takes what is slowest of the tensor cores, shared memory's
bandwidth (operands are read anew for each instruction) and the way from L2. Tiles come in waves over the
multiprocessors, the last one as long as a full one. What must come from memory is a floor under all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import sqrt
from typing import NamedTuple

from .tile import LINE, Tile, problem, span, stages

CLOCK = 1.7e9
L2_BYTES = 44.0
"""What a multiprocessor gets from L2 in a clock, when all ask."""
MEMORY = 4.1e12
"""Bytes a second, of reads."""
START = 2600.0
"""Clocks until the first product: launch, maps, barriers, the first stage's way from memory."""
STEP_LATENCY = 1500.0
"""From the request of a stage to its arrival: a pipeline of few bytes waits for it."""
STORE_BYTES = 24.0
"""Of results, a clock, while consumers store and do nothing else."""
MEET = 1800.0
"""Clocks for the blocks of a cluster to meet twice around adding up parts of K."""
PEER_BYTES = 24.0
"""Of another block's shared memory, a clock."""


class Problem(NamedTuple):
    """D = X Y^T as the model sees it; `bits` of an operand's element, bytes of a result's."""

    m: int
    n: int
    k: int
    batches: int
    bits: int
    out: int
    a_major: str
    b_major: str
    direct: bool
    """Threads store C: it is f32, or its rows have no 16-byte units."""
    processors: int
    promote: bool = False
    """Threads add up the sums of 128 products, in as many registers again."""
    blocked: bool = False
    """With factors for 128 elements of a row of A, and for 128 x 128 of B."""


class Plan(NamedTuple):
    """A tile, the blocks to launch and the rows of tiles that are walked together."""

    tile: Tile
    blocks: int
    group: int
    clocks: float


def ceildiv(a: int, b: int) -> int:
    return -(-a // b)


@lru_cache(1)
def tiles() -> tuple[Tile, ...]:
    """Every tile that is worth a look, not swapped."""
    found: list[Tile] = []
    for m, n, consumers, pingpong in _shapes():
        for splits in (1, 2, 4, 8):
            for cluster, shares in ((1, "y"), (2, "y"), (2, "x")):
                tile = Tile(m, n, consumers, pingpong, cluster, shares, splits)
                if problem(tile) is None:
                    found.append(tile)
    return tuple(found)


def _shapes() -> Iterator[tuple[int, int, int, bool]]:
    for n in (16, 32, 48, 64, 96, 128, 160, 192, 224, 256):
        yield 64, n, 1, False
        yield 128, n, 2, False
        if n <= 128:
            yield 256, n, 2, False
            yield 192, n, 3, False
        if n >= 64:
            yield 64, n, 2, True
        if 64 <= n <= 128:
            yield 128, n, 2, True


def operands(given: Problem, swap: bool) -> tuple[int, int, str, str]:
    """Rows of X and of Y and their contiguous directions."""
    if swap:
        return given.n, given.m, given.b_major, given.a_major
    return given.m, given.n, given.a_major, given.b_major


def plan(given: Problem, tile: Tile) -> Plan | None:
    """What the model says of a tile; None where it cannot be used."""
    rows, columns, x_major, y_major = operands(given, tile.swap)
    if tile.cluster > 1 and problem(tile, x_major, y_major) is not None:
        return None
    if given.promote and tile.accumulators > (48 if tile.consumers == 3 else 96):
        return None
    if given.blocked and (tile.n > 64 if tile.swap else 128 % tile.n):
        return None
    bk = LINE * 8 // given.bits
    high = tile.cluster if tile.shares == "y" else 1
    wide = tile.cluster // high
    across = ceildiv(rows, tile.m * high)
    clusters = across * ceildiv(columns, tile.n * wide) * given.batches
    steps = ceildiv(given.k, bk)
    if tile.splits > 1 and steps < 2 * tile.splits:
        return None
    # Clusters of more than two blocks do not fit all groups of multiprocessors.
    room = given.processors // tile.blocks if tile.blocks <= 2 else given.processors // 8 * 8 // tile.blocks
    waves = ceildiv(clusters, room)
    mine = ceildiv(steps, tile.splits)
    active = min(clusters, room) * tile.blocks

    # m64nNk32B: N / 2 clocks of the tensor cores for 16-bit types; 8-bit types have twice the depth in the same time.
    width = max(tile.n / 2, 16 + tile.n / 4)
    products = tile.m // 64 * width * (LINE // 32)
    if given.promote:
        products = products * 1.15 + 3 * tile.accumulators
    fetched = LINE * (tile.m / wide + tile.n / high)
    # Few blocks have L2 to themselves, up to what a multiprocessor can take.
    feed = fetched / min(64.0, L2_BYTES * given.processors / active)
    latency = STEP_LATENCY / stages(tile)
    # Copies of few rows cost the engine as much as longer ones.
    copies = (1 if x_major == "k" else tile.m // wide // span(tile.m)) + (
        1 if y_major == "k" else tile.n // high // span(tile.n)
    )
    step = max(products * 1.04, feed, latency, 60.0 * copies) + (0 if tile.pingpong or tile.consumers > 1 else 24)

    stored = tile.m * tile.n * given.out / STORE_BYTES * (1.6 if given.direct else 1.0) + 500
    if tile.splits > 1:
        sums = 4 * tile.m * tile.n
        stored = stored / tile.splits * 1.3 + MEET + sums / 64 + sums / PEER_BYTES
    body = mine * step
    if tile.pingpong:
        # Turns: one's results leave during the other's products, and only the last ones are waited for.
        clocks = waves * max(body, (body + stored) / 2) + stored
    else:
        clocks = waves * body + waves * stored
    clocks += START

    size = given.bits // 8
    unique = (rows + columns) * given.k * size * given.batches + rows * columns * given.out * given.batches
    memory = unique / MEMORY * CLOCK / min(1.0, 0.35 + active / given.processors)
    clocks = max(clocks, memory + START + stored)
    group = max(1, round(sqrt(given.processors / tile.splits * tile.n / tile.m) / high))
    blocks = (clusters if tile.splits > 1 else min(clusters, room)) * tile.blocks
    return Plan(tile, blocks, min(group, across), clocks)


def candidates(given: Problem) -> list[Plan]:
    """All that can be used, the model's favourite first."""
    found: list[Plan] = []
    for tile in tiles():
        for swap in (False, True):
            one = plan(given, tile._replace(swap=swap))
            if one is not None:
                found.append(one)
    return sorted(found, key=lambda p: p.clocks)


@lru_cache(4096)
def best(given: Problem) -> Plan:
    """The model's favourite."""
    return candidates(given)[0]


__all__ = ["Plan", "Problem", "best", "candidates", "plan"]
