"""Steps of the gradients' kernel on Hopper: which there are, what they mask, and what becomes of scores."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple, Protocol

import flydsl.expr as fx

from .dropout import Drop, in_rows
from .tile import Sums, span
from .walk import of_batch

ROWS = 128
"""Keys of a block."""


class Cut(Protocol):
    """How scores are cut and masked."""

    @property
    def m(self) -> int: ...
    @property
    def right(self) -> bool: ...
    @property
    def left(self) -> bool: ...
    @property
    def packed_k(self) -> bool: ...


class Sides(NamedTuple):
    """What is compiled in: elements of a head, and whether keys end or begin for a query."""

    d: int
    right: bool
    left: bool
    m: int = 64
    """Queries of a step: 64 or 128."""
    ordered: bool = False
    wide: bool = True
    """Rows of the result are 16-byte units."""
    dropout: bool = False
    stages: int = 2
    """Steps of queries that are in shared memory."""
    packed_q: bool = False
    """Sequences of queries lie one behind the other."""
    packed_k: bool = False
    values: int = 0
    """Elements of a value; 0 if they are as many."""
    softcap: bool = False
    stays: bool = False
    """Blocks stay and take tile after tile of keys, all of which are as long: the next one's keys and values come while
    they are with the last queries of this one."""

    @property
    def dv(self) -> int:
        return self.values or self.d

    @property
    def tiles(self) -> int:
        """Tiles of keys and values that there is room for."""
        return 2 if self.stays else 1

    @property
    def smem(self) -> int:
        held = self.tiles * 2 * ROWS * (self.d + self.dv)
        walked = self.stages * (2 * self.m * (self.d + self.dv) + 2 * 4 * self.m)
        return held + walked + 2 * 2 * ROWS * self.m + (4 * self.m * self.d if self.ordered else 0) + 256

    @property
    def columns(self) -> int:
        """Of a consumer's part of dQ, which has 64 queries."""
        return self.d if self.m == 128 else self.d // 2

    @property
    def sums(self) -> Sums:
        return Sums(self.d, self.dv, self.m, self.columns, self.whole, self.d, self.wide)

    @property
    def whole(self) -> int:
        """How many of them are multiplied at once. Where boxes are odd in number consumers have half of the middle one
        each, by instructions of its own."""
        boxes = self.d // span(self.d)
        return self.columns if self.m == 128 or boxes == 1 else boxes // 2 * span(self.d)


class Reach(NamedTuple):
    """What a launch is told in numbers."""

    queries: fx.Int32
    keys: fx.Int32
    heads: fx.Int32
    kv_heads: fx.Int32
    right: fx.Int32
    left: fx.Int32
    scale: fx.Float32


class Sequence(NamedTuple):
    """Where a block's sequence is: in the arrays, and in a head's sums and sides."""

    batch_q: fx.Int32
    batch_k: fx.Int32
    first_q: fx.Int32
    first_k: fx.Int32
    tile: fx.Int32


def sequence_of(
    batch: fx.Int32, m: int, cu_q: fx.Pointer | None, cu_k: fx.Pointer | None, reach: Reach
) -> tuple[Sequence, Reach]:
    """A sequence, with its own lengths. Packed ones begin a step of their own in a head's sums: all of them have no
    more than their rows have, and one each."""
    queries, first_q = of_batch(cu_q, batch, reach.queries)
    keys, first_k = of_batch(cu_k, batch, reach.keys)
    zero = fx.Int32(0)
    batch_q, batch_k = (batch if cu is None else zero for cu in (cu_q, cu_k))
    found = Sequence(batch_q, batch_k, first_q, first_k, zero if cu_q is None else first_q // m + batch)
    return found, reach._replace(queries=queries, keys=keys)


def steps_of(block: fx.Int32, form: Cut, reach: Reach, rows: int = ROWS) -> tuple[fx.Int32, fx.Int32]:
    """The first step of queries that sees some of a block's `rows` keys, and the one behind the last."""
    shift = reach.keys - reach.queries
    low, end = fx.Int32(0), reach.queries
    if form.right:
        low = fx.max(block * rows - shift - reach.right, 0) // form.m
    if form.left:
        end = fx.max(fx.min(end, block * rows + rows - shift + reach.left), 0)
    if form.packed_k:
        # Blocks are counted for the longest sequence.
        end = (block * rows < reach.keys).select(end, fx.Int32(0))
    return low, fx.ceildiv(end, form.m)


def masked(block: fx.Int32, row: fx.Int32, form: Cut, reach: Reach, rows: int = ROWS) -> fx.Boolean:
    """Whether some query of a step must not see some key of the block, or there is no such key."""
    last = block * rows + rows - 1
    shift = reach.keys - reach.queries
    found = last >= reach.keys
    if form.right:
        found = found | (row + shift + reach.right < last)
    if form.left:
        found = found | (row + form.m - 1 + shift - reach.left > block * rows)
    return found


def mask(scores: fx.Tensor, least: fx.Float32, key: fx.Int32, query: fx.Int32, form: Cut, reach: Reach) -> None:
    """Scores of pairs that do not see each other become the least there is."""
    origin = query + reach.keys - reach.queries
    for r in range(2):
        mine = key + 8 * r
        first = mine - origin - reach.right if form.right else fx.Int32(-1)
        first = (mine < reach.keys).select(first, fx.Int32(2 * form.m))
        last = mine - origin + reach.left
        for j in range(form.m // 8):
            for e in range(2):
                seen = first <= 8 * j + e
                if form.left:
                    seen = seen & (last >= 8 * j + e)
                at = (e, r, j), 0, 0
                scores[at] = seen.select(scores[at], least)


def weigh(scores: fx.Tensor, heights: fx.Pointer, factor: fx.Float32) -> None:
    """Scores become weights, with the logarithms of their queries' sums."""
    for j in range(scores.shape.unpack()[0][2]):
        for e in range(2):
            height = -heights[8 * j + e]
            for r in range(2):
                at = (e, r, j), 0, 0
                scores[at] = fx.exp2(fx.fma(scores[at], factor, height), fastmath="fast")


def bent(scores: fx.Tensor) -> fx.Vector:
    """What tanh multiplies gradients by, where scores have been through it; those that are masked are out of range."""
    values = scores.load()
    return 1.0 - fx.minnumf(values * values, fx.Vector.filled(values.numel, 1.0, fx.Float32).reshape(values.shape))


def derive(weights: fx.Tensor, slopes: fx.Tensor, means: fx.Pointer, share: fx.Float32 | None) -> None:
    """The gradients of weights become those of scores. Dropout keeps a `share` of weights, the others have a sign; what
    it multiplies gradients by is left to their sums."""
    for j in range(weights.shape.unpack()[0][2]):
        for e in range(2):
            mean = means[8 * j + e]
            if share is not None:
                mean = mean * share
            for r in range(2):
                at = (e, r, j), 0, 0
                weight, slope = weights[at], slopes[at]
                if share is not None:
                    weight, slope = fx.absf(weight), (weight < 0.0).select(fx.Float32(0.0), slope)
                slopes[at] = weight * (slope - mean)


def thin(weights: fx.Tensor, drop: Drop, line: fx.Int32, query: fx.Int32, key: fx.Int32) -> None:
    """Weights that are dropped get a sign, which none has: both what is left and what was there is needed."""
    for j in range(0, weights.shape.unpack()[0][2], 2):
        going = in_rows(drop, line, query + 8 * j, key)
        for i, r, e in product(range(2), range(2), range(2)):
            at = (e, r, j + i), 0, 0
            weights[at] = going[i][r][e].select(-weights[at], weights[at])


def kept(weights: fx.Tensor, drop: Drop | None) -> fx.Vector:
    """Weights but for those that are dropped."""
    values = weights.load()
    if drop is None:
        return values
    return (values < 0.0).select(fx.Vector.filled(values.numel, 0.0, fx.Float32).reshape(values.shape), values)


__all__ = [
    "ROWS", "Cut", "Reach", "Sequence", "Sides", "bent", "derive", "kept", "mask", "masked", "sequence_of", "steps_of",
    "thin", "weigh",
]  # fmt: skip
