"""Which cut a product of few rows takes: a model of its time, from extents and the form of the weights, for every cut.

Times are in microseconds. A block's bytes come no faster than a multiprocessor takes them, and the weights no faster
than memory gives them. Beside that, teams of warps work through their steps along K: what one step takes is mostly
waiting, for barriers, shared memory and the end of the products, so that more teams are faster. The constants were
fitted to 203 times of 25 shapes on an H200 (`benchmarks/h200_quantized.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from .slim import Slim, Weights, deepest, problem


class Rates(NamedTuple):
    """What the hardware does."""

    clock: float = 1650.0
    """Clocks of a microsecond."""
    memory: float = 4.44e6
    """Bytes of a microsecond."""
    block: float = 1.24e5
    """Bytes that a multiprocessor takes."""
    rows_block: tuple[float, float] = (8.5e4, 4.5e4)
    """The same where they come in rows of 128 bytes, as weights of 16 bits do: alone, or beside a busy neighbour."""
    start: float = 2.81
    """Launch, barriers, the first stage's way, and results."""
    turn: float = 2.56
    """The same for blocks behind others."""
    rows_turn: float = 0.1
    slices: float = 1.72
    """From the last slice's sums to the news of them."""
    sums: float = 1.8e6
    """Bytes of slices' sums."""
    parts: float = 2.6e4
    """Sums of warps along K that a block adds up in a microsecond."""
    overlap: float = 0.434
    """How much of the shorter of fetching and multiplying comes on top of the longer."""
    wide: tuple[float, float, float] = (253.0, 302.0, 2.18)
    """Clocks of a step of four warps, for each 64 rows of it, and for each of their tokens."""
    turns: float = 0.784
    """How much of it is left where one group is widened while another is multiplied."""
    warp: tuple[float, float] = (192.0, 9.9)
    """Clocks of a step of a warp, and for each 16 x 8 of its sums and 128 elements along K."""
    matrix: float = 3.83
    """Clocks of a quarter of a multiprocessor for a warp's instruction; a warpgroup's has a higher rate."""
    split: float = 160.0
    """Clocks for taking 8 tokens of float32 apart, 32 elements each: every warp does that for itself."""


RATES = Rates()
WIDENED = {4: 77.5, 8: 31.8, 16: 5.0, 32: 240.0}
"""Clocks of a warp for 16 rows of a step."""
ISSUED = {4: 6.62, 8: 14.3, 16: 4.24, 32: 115.0}
"""Clocks of a quarter of a multiprocessor for 16 x 16 weights, whatever waits for whom."""


class Given(NamedTuple):
    """The product."""

    m: int
    n: int
    k: int
    weights: Weights
    processors: int


def ceildiv(a: int, b: int) -> int:
    return -(-a // b)


def microseconds(given: Given, slim: Slim, rates: Rates = RATES) -> float:
    """What the model says of a cut."""
    m, n, k, weights, processors = given
    above, beside = ceildiv(n, slim.rows), ceildiv(m, slim.tokens)
    blocks = above * beside * slim.slices
    rounds = ceildiv(blocks, processors)
    size = weights.block_bytes / (64 * 128) if weights.packed else weights.bits / 8
    units = ceildiv(ceildiv(k, weights.depth), slim.slices)
    depth = units * weights.depth
    read = slim.rows * depth * size + slim.tokens * depth * max(2.0, weights.bits / 8)
    taken, turn = rates.block, rates.turn
    if weights.bits == 16:
        taken, turn = rates.rows_block[2 * blocks > processors], rates.rows_turn
    fetch = max(rounds * read / taken, above * slim.rows * k * size / rates.memory)
    # Parts of float32 take six products of half the depth.
    apart, many = (rates.split * slim.tokens / 8, 6) if weights.bits == 32 else (0.0, 1)
    if slim.wide:
        step, high, token = rates.wide
        per = step + slim.tiles * weights.groups * (high + token * slim.tokens)
        if slim.turns:
            per *= rates.turns
        products = slim.tokens / 8 * 4
    else:
        step, matrix = rates.warp
        each = WIDENED[weights.bits] + many * matrix * slim.tokens / 8 * weights.depth / 128
        per = step + slim.tiles * each + apart
        products = slim.tokens / 8 * rates.matrix * many
    issued = slim.rows * depth / 256 * (ISSUED[weights.bits] + products) / 4 + slim.across * units * apart / 4
    busy = rounds * max(ceildiv(units, slim.along) * per, issued) / rates.clock
    total = max(fetch, busy) + rates.overlap * min(fetch, busy) + rates.start + turn * (rounds - 1)
    total += rounds * slim.along * slim.tokens * slim.rows / rates.parts
    if slim.slices > 1:
        total += rates.slices + 4 * blocks * slim.rows * slim.tokens / rates.sums
    return total


TEAMS = (
    (64, 1, 8, False, False), (64, 2, 4, False, False), (64, 4, 2, False, False), (128, 2, 4, False, False),
    (128, 4, 2, False, False),
    (64, 4, 4, True, False), (64, 4, 3, True, False), (64, 4, 3, True, True), (64, 4, 2, True, True),
    (128, 8, 1, True, True), (128, 8, 2, True, False), (192, 12, 1, True, False), (256, 8, 1, True, True),
    (256, 16, 1, True, False),
)  # fmt: skip
"""Rows of a block, warps across them and along K, whether four work together, and widen in turns."""


def cuts(m: int, weights: Weights) -> Iterator[Slim]:
    """All that are worth a look, but for slices."""
    sizes = (8, 16, 24, 32, 48, 64)
    enough = next((t for t in sizes if t >= m), sizes[-1])
    # Numbers of 32 bits come from memory once.
    least = sizes.index(enough) if weights.bits == 32 else 0
    for tokens in sizes[least : sizes.index(enough) + 1]:
        for rows, across, along, wide, turns in TEAMS:
            if weights.packed and not wide and tokens * across > 64:
                continue  # all warps across read the tokens, and four warps' instruction has twice the rate
            slim = deepest(Slim(rows, tokens, across, along, 1, 1, wide, turns), weights)
            if problem(slim, weights) is None and slim.stages >= 2:
                yield slim


SLICES = (1, 2, 3, 4, 5, 6, 8, 12, 16)


def candidates(given: Given) -> list[Slim]:
    """The model's favourite first."""
    units = ceildiv(given.k, given.weights.depth)
    found: list[tuple[float, Slim]] = []
    for slim in cuts(given.m, given.weights):
        for slices in SLICES:
            if slices == 1 or slices * slim.along <= units:
                one = slim._replace(slices=slices)
                found.append((microseconds(given, one), one))
    return [slim for _, slim in sorted(found)]


@lru_cache(4096)
def best(given: Given) -> Slim:
    return candidates(given)[0]


__all__ = ["Given", "best", "candidates", "microseconds"]
