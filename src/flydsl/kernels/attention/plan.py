"""Which tile a Hopper attention takes, and in which order tiles are walked."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from .tile import Form, Tile

L2_BYTES = 32 << 20
"""What keys and values of heads that are walked together may take."""
FEW = 64
"""Parts of keys that are combined by one group of lanes; four of them combine up to `MOST`."""
MOST = 4 * FEW
EQUAL = 1 << 16
"""Two numbers of parts are told in one: that for equal lengths is multiplied by this."""
MIXED = 0.5
"""The mean of lengths that differ, of the longest one's, where nobody knows it."""


@lru_cache(256)
def tile_for(d: int, dv: int, form: Form, queries: int, size: int = 2) -> Tile:
    """The fastest by measurement on an H200, by what is multiplied and whether steps are masked."""
    wide = max(d, dv)
    if size == 1:
        return tile_of_bytes(d, dv, form, queries)
    masked = form.right or form.left
    few = 1 if queries <= 64 else 2
    if wide <= 128:
        # Three have no registers for the generator of dropout.
        return Tile(d, dv, 128, 3 if wide <= 64 and queries > 128 and not form.dropout else few, early=True)
    if wide <= 192:
        return Tile(d, dv, 96, few)
    # So few keys a step leave no time to take turns in.
    return Tile(d, dv, 64 if masked or form.softcap else 80, few, pingpong=False, lazy=True)


def tile_of_bytes(d: int, dv: int, form: Form, queries: int) -> Tile:
    """In one byte there is room for longer steps, and up to 128 columns for a step's own sums."""
    few = 1 if queries <= 64 else 2
    if max(d, dv) > 128:
        return Tile(d, dv, 128, few, 2, True, 1, early=True)
    # Three take a sixth less for a row, and have no registers for the generator of dropout.
    three = not form.dropout and 5 * rows_of(queries, 3) <= 6 * rows_of(queries, few)
    return Tile(d, dv, 128, 3 if three else few, 3, False, 1, apart=True, ones=not form.dropout)


def rows_of(queries: int, consumers: int) -> int:
    """Rows of tiles that have all queries."""
    return -(-queries // (64 * consumers)) * 64 * consumers


def tile_for_few(d: int, dv: int, page: int, size: int = 2) -> Tile:
    """For up to 64 queries: one consumer, and stages as deep as there is room for, since memory is what is waited for.

    A page divides a step, or steps divide it. Where rows are short, a block's softmax takes about as long as its bytes:
    two of them share a multiprocessor.
    """
    two = size == 2 and max(d, dv) <= 64
    every = (128, 64, 32, 16) if size == 2 else (128, 64, 32)
    n = next((n for n in every if not page or n % page == 0 or page % n == 0), every[-1])
    if two or max(d, dv) > 128:
        n = min(n, 64)
    apart = size == 1 and max(d, dv) <= 128
    tile = Tile(d, dv, n, 1, pingpong=not apart, size=size, apart=apart, blocks=2 if two else 1)
    room = (tile.most_smem - tile._replace(stages=0).smem) // (size * n * (d + dv))
    return tile._replace(stages=max(2, min(6, room)))


def threads_fetch(page: int, size: int, wide: int) -> bool:
    """Whether threads bring keys and values: from pages so small that the copy engine would have too many boxes to go
    through, or whose rows are of two steps. In one byte values are turned in front, and come as wholes. Where two
    blocks share a multiprocessor, the engine is faster from 16 rows on."""
    few = 16 if wide > 64 else 8
    return size == 2 and page > 0 and (page <= few or (128 % page > 0 and page % 128 > 0))


class Pace(NamedTuple):
    """What decoding takes on an H200, in microseconds, fitted to `h200-attention-decode-forms-2026-11-18.jsonl` and
    `h200-attention-decode-rule-2026-11-18.jsonl`."""

    byte: float = 1 / 34.6e3
    """Of what a multiprocessor gets from memory, where all of them read."""
    pair: float = 1 / 86e3
    """Of what two neighbours get, that have one way to memory."""
    step: float = 0.43
    """Of 128 keys in a block that is alone: of the softmax, and for an element of a key and of a value."""
    element: float = 0.0022
    tile: float = 0.585
    """Of a tile in a block's time; for the second and the third more, as long as blocks still end together."""
    wave: float = 1.05
    combine: float = 3e-6
    """Of an element of a part's results."""
    tail: float = 0.35
    """Of the longest part, where tiles differ: how long blocks are without one in the end."""


PACE = Pace()


@lru_cache(4096)
def parts_for(units: int, steps: int, lines: int, tile: Tile, processors: int, share: float) -> int:
    """Parts of the keys for one consumer's tiles, that of the least time.

    Waves that are full run as memory does. One that is not takes what a block alone takes, and more the more blocks
    have a tile; as soon as there are more than one for two multiprocessors, those share what a pair gets.

    `share` is the mean of all sequences' lengths, of the longest one's.
    """
    pace, blocks = PACE, processors * tile.blocks
    size = tile.size * tile.n * (tile.d + tile.dv)
    full = size * tile.blocks * pace.byte
    alone = min(full, tile.n / 128 * (pace.step + pace.element * (tile.d + tile.dv)))
    pair = max(alone, min(full, 2 * size * pace.pair))
    shared = min(full, tile.blocks * alone)

    def wave(busy: float) -> float:
        """A step of a wave that others went before, in which so many of the blocks have a tile."""
        return alone + (full - alone) * min(1.0, busy)

    def first(busy: float) -> float:
        """A step of the only wave: blocks are spread over the multiprocessors."""
        if busy * tile.blocks <= 1.0:
            return max(alone if 2 * busy * tile.blocks <= 1.0 else pair, full * busy)
        return shared + (full - shared) * (busy * tile.blocks - 1.0) / (tile.blocks - 1.0)

    def time(splits: int) -> float:
        tiles, longest = units * splits, -(-steps // splits)
        waves, each = tiles / blocks, steps / splits
        whole, rest = divmod(tiles, blocks)
        last = longest * (wave if whole else first)(rest / blocks) if rest else 0.0
        found = whole * each * full + last
        beside = pace.tile * waves + pace.wave * min(-(-tiles // blocks) - 1, 2)
        if splits > 1:
            beside += pace.combine * splits * lines * tile.dv
        if share == 1.0:
            return found + beside
        apart = max(waves * each * full * share + pace.tail * longest * wave(waves), longest * wave(waves * share))
        return apart + beside

    return min(range(1, max(1, min(MOST, steps // 2)) + 1), key=time)


@lru_cache(4096)
def splits_for(units: int, steps: int, processors: int) -> int:
    """Parts of the keys so that all multiprocessors have some: the least time, in steps.

    A tile costs a step more than it has, and combining what two steps do, or three where parts are many.
    """

    def time(splits: int) -> float:
        combining = 0 if splits == 1 else 2 if splits <= FEW else 3
        return -(-units * splits // processors) * (-(-steps // splits) + 1) + combining

    return min(range(1, max(1, min(MOST, steps // 2)) + 1), key=time)


def heads_together(keys: int, d: int, dv: int, heads: int, kv_heads: int, batches: int, form: Form) -> int:
    """Heads whose keys and values fit into L2 together; tiles of the same length follow each other if they differ."""
    if not (form.right or form.left):
        return 1
    one = max(1, 2 * keys * (d + dv))
    return max(1, min(heads * batches, max(1, L2_BYTES // one) * (heads // kv_heads)))


__all__ = [
    "EQUAL",
    "FEW",
    "MIXED",
    "heads_together",
    "parts_for",
    "splits_for",
    "threads_fetch",
    "tile_for",
    "tile_for_few",
]
