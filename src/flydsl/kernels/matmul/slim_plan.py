"""Which cut a product of few rows takes: a model of its time, from extents and the form of the weights, for every cut.

Times are in seconds. A block's bytes come no faster than its multiprocessor takes them, all blocks' together no faster
than L2 gives them, and the weights no faster than memory does. Widening and multiplying go on beside that.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from .slim import Slim, Weights, deepest, problem


class Rates(NamedTuple):
    """What the hardware does."""

    clock: float = 1.6e9
    memory: float = 4.2e12
    """Bytes a second."""
    l2: float = 5.5e12
    block: float = 75e9
    """Bytes a second that a multiprocessor takes."""
    start: float = 3.0e-6
    """Launch, barriers, the first stage's way, and results."""
    slices: float = 1.8e-6
    """From the last slice's sums to the news of them."""
    sums: float = 2.5e12
    """Bytes a second of slices' sums, written and read."""


RATES = Rates()
WIDENED = {4: 12.0, 8: 16.0, 16: 4.0}
"""Clocks of a quarter of a multiprocessor to have 16 x 16 weights in registers, as floats."""


class Given(NamedTuple):
    """The product."""

    m: int
    n: int
    k: int
    weights: Weights
    processors: int


def ceildiv(a: int, b: int) -> int:
    return -(-a // b)


def seconds(given: Given, slim: Slim, rates: Rates = RATES) -> float:
    """What the model says of a cut."""
    m, n, k, weights, processors = given
    above, beside = ceildiv(n, slim.rows), ceildiv(m, slim.tokens)
    blocks = above * beside * slim.slices
    size = weights.block_bytes / (64 * 128) if weights.packed else 2.0
    depth = ceildiv(ceildiv(k, weights.depth), slim.slices) * weights.depth
    held, read = slim.rows * depth * size, slim.tokens * depth * 2
    rounds = ceildiv(blocks, processors)
    fetch = max(
        rounds * (held + read) / rates.block,
        blocks * (held + read) / rates.l2,
        above * slim.rows * k * size / rates.memory,
    )
    # 16 x 16 weights with all tokens; a warpgroup's instruction has twice the rate of a warp's.
    tiles = slim.rows * depth / 256
    multiplied = slim.tokens / 8 * (4 if slim.wide else 8)
    busy = rounds * tiles * (WIDENED[weights.bits] + multiplied) / 4 / rates.clock
    total = max(fetch, busy) + 0.2 * min(fetch, busy) + rates.start
    if slim.slices > 1:
        total += rates.slices + 8 * blocks * slim.rows * slim.tokens / rates.sums
    return total


def cuts(m: int, weights: Weights) -> Iterator[Slim]:
    """All that are worth a look, but for slices."""
    most = min(ceildiv(m, 8) * 8, 64)
    for tokens in (8, 16, 24, 32, 48, 64):
        if tokens > most and not (tokens == 64 and most > 48) and not (tokens == 48 and 32 < most <= 48):
            continue
        for rows, across, along, wide in (
            (64, 1, 8, False), (64, 2, 4, False), (128, 2, 4, False), (128, 4, 2, False), (64, 4, 4, True),
            (64, 4, 2, True), (128, 8, 1, True), (128, 8, 2, True), (256, 8, 1, True),
        ):  # fmt: skip
            slim = deepest(Slim(rows, tokens, across, along, 1, 1, wide), weights)
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
                found.append((seconds(given, one), one))
    return [slim for _, slim in sorted(found)]


@lru_cache(4096)
def best(given: Given) -> Slim:
    return candidates(given)[0]


__all__ = ["Given", "best", "candidates", "seconds"]
