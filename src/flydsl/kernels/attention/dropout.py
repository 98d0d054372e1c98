"""Which weights are dropped: drawn again for the gradients, from the seed and a weight's place alone.

A weight has 16 bits of its own, whatever kernel and tile compute it. Eight weights are drawn at once, of two rows that
are 8 apart and of four keys: two neighbours, and the two 8 further on. These are what a thread has of 16 queries and
16 keys in the registers of `wgmma`. Where it has keys as rows, a thread needs halves of two draws, each of which one of
two lanes makes for both. So do lanes that have a row of their own.

Word `2 (key % 2) + key // 8 % 2` of a draw is that of a key: the low half is the first row's, the high half the
second's.
"""

from __future__ import annotations

from typing import NamedTuple

import flydsl.expr as fx
from flydsl.errors import DSLValueError

from ..scalars import number, whole
from .request import fail

ROUNDS = 7
"""Of Philox: the fewest that pass the usual batteries of tests."""
BITS = 16
"""Of a weight."""
TILE = 16
"""Rows and keys whose draws 32 lanes make, one each."""


class Drop(NamedTuple):
    """A weight is dropped where its number is below `cut`, which is in the high half of 32 bits; the others are
    multiplied by `factor`."""

    seed: fx.Int64
    cut: fx.Int64
    factor: fx.Float32


def numbers_of(rate: object, seed: object) -> tuple[int, int, float]:
    """The seed, the cut and the factor of a rate."""
    share = _rate(rate)
    if seed is None and share:
        raise fail("dropout needs a seed, an int of 64 bits that the gradients take too, got None")
    place = 0 if seed is None else whole("attention", "seed", seed)
    if not share:
        return 0, 0, 1.0
    most = (1 << BITS) - 1
    return place, min(round(share * (most + 1)), most) << BITS, 1 / (1 - share)


def _rate(rate: object) -> float:
    if type(rate) is float and 0.0 <= rate < 1.0:
        return rate
    try:
        share = number("attention", "dropout", rate)
    except DSLValueError:
        share = -1.0
    if not 0.0 <= share < 1.0:
        raise fail(f"dropout is the share of weights to drop, from 0 to less than 1, got {rate!r:.80}")
    return share


def drawn(drop: Drop, line: fx.Int32, row: fx.Int32, key: fx.Int32) -> tuple[fx.Uint32, ...]:
    """The four words of the draw that a weight is in. `line` counts heads through all sequences."""
    rows, keys = (row >> 4 << 3) | (row & 7), (key >> 4 << 2) | (key >> 1 & 3)
    offset = (fx.Int64(rows) << 32) | fx.Int64(keys)
    return fx.random.randint4x(drop.seed, offset, ROUNDS, subsequence=line)


def goes(drop: Drop, word: fx.Uint32, second: bool) -> fx.Boolean:
    """Whether the weight of the first or of the second row is dropped."""
    return (word if second else word << BITS) < fx.Uint32(drop.cut)


def in_columns(drop: Drop, line: fx.Int32, row: fx.Int32, key: fx.Int32) -> list[list[list[fx.Boolean]]]:
    """What of 16 keys goes for a thread that has the rows `row` and 8 behind it, and the keys `key`, the next, and
    those 8 behind them: by the first or second eight, row, and key."""
    words = drawn(drop, line, row, key)
    return [[[goes(drop, words[2 * e + j], bool(r)) for e in range(2)] for r in range(2)] for j in range(2)]


def in_rows(drop: Drop, line: fx.Int32, row: fx.Int32, key: fx.Int32) -> list[list[list[fx.Boolean]]]:
    """The same for a thread that has the keys `key` and 8 behind it, and the rows `row`, the next, and those 8 behind
    them: by the first or second eight, key, and row. The lane 4 apart has the key next to it, and the same rows."""
    odd = (key & 1) != 0
    words = drawn(drop, line, row + (key & 1), key)
    mine = [odd.select(words[2 + i], words[i]) for i in range(2)]
    theirs = [fx.shuffle_xor(odd.select(words[i], words[2 + i]), 4) for i in range(2)]
    both = [[odd.select(a, b) for a, b in zip(*x, strict=True)] for x in ((theirs, mine), (mine, theirs))]
    return [[[goes(drop, both[e][r], bool(j)) for e in range(2)] for r in range(2)] for j in range(2)]


def shares_of(drop: Drop, line: fx.Int32, row: fx.Int32, key: fx.Int32, count: int) -> list[fx.Float32]:
    """What weights of neighbouring keys of one row are multiplied by; `count` is 4, 8 or 16 and divides `key`."""
    found = [fx.Float32(0.0)] * count
    for i in range(0, min(count, 8), 2):
        words = drawn(drop, line, row, key + i)
        for e in range(2):
            pair = words[2 * e : 2 * e + 2]
            if count < TILE:
                found[i + e] = _share(drop, row, ((key & 8) != 0).select(pair[1], pair[0]))
            else:
                found[i + e], found[i + e + 8] = (_share(drop, row, x) for x in pair)
    return found


def shares_of_lanes(
    drop: Drop, line: fx.Int32, row: fx.Int32, key: fx.Int32, count: int, lanes: int
) -> list[fx.Float32]:
    """The same for 4 or 8 keys, where the lane 8 apart has the row 8 apart: of two draws, each makes one."""
    second, later = (row & 8) != 0, (key & 8) != 0
    found: list[fx.Float32] = []
    for i in range(0, count, 4):
        words = drawn(drop, line, row, key + (i + (row >> 2 & 2)))
        mine = [later.select(words[2 * e + 1], words[2 * e]) for e in range(2)]
        theirs = [fx.shuffle_xor(x, 8, lanes) for x in mine]
        found += [_share(drop, row, second.select(a, b)) for a, b in zip(theirs, mine, strict=True)]
        found += [_share(drop, row, second.select(a, b)) for a, b in zip(mine, theirs, strict=True)]
    return found


def share_of(drop: Drop, line: fx.Int32, row: fx.Int32, key: fx.Int32) -> fx.Float32:
    """What the weight of a single key is multiplied by."""
    words, which = drawn(drop, line, row, key), (key & 1) * 2 + (key >> 3 & 1)
    word = words[0]
    for i in range(1, 4):
        word = (which == i).select(words[i], word)
    return _share(drop, row, word)


def _share(drop: Drop, row: fx.Int32, word: fx.Uint32) -> fx.Float32:
    number = ((row & 8) != 0).select(word, word << BITS)
    return (number < fx.Uint32(drop.cut)).select(fx.Float32(0.0), drop.factor)


__all__ = ["Drop", "in_columns", "in_rows", "numbers_of", "share_of", "shares_of", "shares_of_lanes"]
