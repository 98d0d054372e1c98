"""Which weights are dropped: drawn again for the gradients, from the seed and a weight's place alone."""

from __future__ import annotations

from typing import NamedTuple

import flydsl.expr as fx

from .request import fail

_GOLDEN = 0x9E3779B97F4A7C15
"""Heads draw from seeds that lie far apart."""
TOGETHER = 4
"""Neighbouring keys whose numbers are drawn at once."""


class Drop(NamedTuple):
    """A weight is kept where its number is below `limit`, and multiplied by `factor` then."""

    seed: fx.Int64
    limit: fx.Int64
    factor: fx.Float32


def numbers_of(rate: object, seed: object) -> tuple[int, int, float]:
    """The seed, the limit and the factor of a rate."""
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate < 1:
        raise fail(f"dropout is the share of weights to drop, from 0 to less than 1, got {rate!r}")
    if not rate:
        return 0, 0, 1.0
    if isinstance(seed, bool) or not isinstance(seed, int) or not -(1 << 63) <= seed < 1 << 63:
        raise fail(f"dropout needs a seed, an int of 64 bits that the gradients take too, got {seed!r}")
    return seed, round((1 - rate) * 2**32), 1 / (1 - rate)


def drawn(drop: Drop, line: fx.Int32, row: fx.Int32, key: fx.Int32) -> tuple[fx.Uint32, ...]:
    """The numbers of four neighbouring keys, the first of which is a multiple of four.

    `line` counts heads through all sequences.
    """
    seed = drop.seed ^ (fx.Int64(line) * fx.Int64(_GOLDEN - (1 << 64)))
    place = (fx.Int64(row) << 32) | fx.Int64(key // TOGETHER)
    return fx.random.randint4x(seed, place)


def stays(drop: Drop, number: fx.Uint32) -> fx.Float32:
    """What a weight is multiplied by."""
    return (fx.Int64(number) < drop.limit).select(drop.factor, fx.Float32(0.0))


def share_of(drop: Drop, line: fx.Int32, row: fx.Int32, key: fx.Int32) -> fx.Float32:
    """The same, for a key of its own."""
    numbers = drawn(drop, line, row, key)
    number, which = numbers[0], key % TOGETHER
    for i in range(1, TOGETHER):
        number = (which == i).select(numbers[i], number)
    return stays(drop, number)


__all__ = ["TOGETHER", "Drop", "drawn", "numbers_of", "share_of", "stays"]
