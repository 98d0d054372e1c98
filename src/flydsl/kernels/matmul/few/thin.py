"""How a product of at most 16 rows is cut: plain numbers, no compiler. The kernel is `thin_kernel.py`."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

HIGH = 16
"""Columns of W in a matrix instruction."""
PAD = 4
"""Elements between lines of sums in shared memory: a quad's tokens are in different banks."""
DEEP = 64
"""Bytes along K of two matrix instructions: a unit of 16 for each of four lanes."""
MOST = 16
"""Rows of A."""


class Scales(NamedTuple):
    """What factors are for: nothing, "one" and all, or each of the "rows" of A, and of the columns of W."""

    a: str = ""
    b: str = ""


UNSCALED = Scales()


class Thin(NamedTuple):
    """A block's part of the product."""

    tiles: int
    """Of 16 columns of W."""
    tokens: int
    """Rows of A: 8 or 16."""
    warps: int
    """Which divide K."""
    units: int
    """Reads of a column that a lane has under way."""
    slices: int = 1
    """Blocks of a cluster, which divide K."""
    blocks: int = 0
    """Blocks that have equal shares of all columns' steps along K, whichever columns that are; 0: each has its own."""

    @property
    def rows(self) -> int:
        return HIGH * self.tiles

    @property
    def size(self) -> int:
        """Sums of a block's columns."""
        return self.tokens * self.rows

    @property
    def part_bytes(self) -> int:
        """Of all warps' sums in shared memory."""
        return 4 * self.warps * self.tokens * (self.rows + PAD)

    @property
    def shared_bytes(self) -> int:
        """Sums; where blocks go on to other columns meanwhile, those of two, and a word."""
        return 2 * self.part_bytes + 16 if self.blocks else self.part_bytes


def depth_of(width: int) -> int:
    """Elements of so many bits along K that a warp multiplies with a unit of every lane."""
    return DEEP * 8 // width


def ceildiv(a: int, b: int) -> int:
    return -(-a // b)


@lru_cache(4096)
def choose(m: int, n: int, k: int, processors: int, width: int = 16) -> Thin:
    """A step deep enough to keep memory busy, but no deeper than K is long; equal shares where multiprocessors would
    have different numbers of columns. By the times of 74 shapes on an H200: it loses 1.4 % against the best form.
    """
    blocks = ceildiv(n, HIGH)
    if width == 8:
        # Registers for fewer reads leave room for more blocks, where there are as many: about three of eight warps.
        units, warps = 4 if blocks <= processors else 2, 8 if blocks <= 3 * processors else 4
        slices = 2 if 2 * blocks <= processors and k >= 4096 else 1
        return Thin(1, 8 if m <= 8 else 16, warps, units, slices)
    if m <= 8:
        if blocks > processors and k >= LONG and evenly(form := Thin(1, 8, 16, 4), n, k, processors):
            return shared(form, n, k, processors)
        if blocks <= processors and k >= LONG and pays(n, k):
            return shared(Thin(1, 8, 8, 4), n, k, 2 * processors)
        if k >= 2048 or blocks <= processors:
            return Thin(1, 8, 8, 4)
        return Thin(1, 8, 8 if blocks <= 4 * processors else 4, 2)
    if blocks >= 8 * processors:
        return Thin(1, 16, 4, 2)
    if blocks <= processors and k >= LONG:
        return shared(Thin(1, 16, 8, 2), n, k, 2 * processors) if pays(n, k) else Thin(1, 16, 8, 4)
    if blocks <= 2 * processors:
        return Thin(2, 16, 8, 4) if k >= 3072 else Thin(1, 16, 8, 2)
    return Thin(2, 16, 4, 4)


def pays(n: int, k: int) -> bool:
    """Whether equal shares are worth it where there are fewer blocks than multiprocessors: a block gets 43 bytes a
    nanosecond from memory, all together 4.1 kB, and parts of sums take 1.8 microseconds.
    """
    return 2 * HIGH * k / 43 > 2 * n * k / 4100 + 1800


def evenly(form: Thin, n: int, k: int, most: int) -> bool:
    """Whether nearly all blocks have as many steps."""
    steps = ceildiv(n, form.rows) * ceildiv(k, depth_of(16) * form.units * form.warps)
    return steps >= 0.96 * most * ceildiv(steps, most)


def shared(form: Thin, n: int, k: int, most: int, width: int = 16) -> Thin:
    """With equal shares, of a step at least."""
    steps = ceildiv(n, form.rows) * ceildiv(k, depth_of(width) * form.units * form.warps)
    return form._replace(blocks=min(most, steps))


LONG = 3500
"""Sums that are worth dividing."""
START = {8: 2.0, 16: 3.3}
"""Microseconds until weights come, and behind the last of them, by bits."""
BYTES = {8: 4.12e6, 16: 3.75e6}
"""Of weights that come in a microsecond, by tokens."""


def microseconds(m: int, n: int, k: int, width: int = 16) -> float:
    """What it takes, whatever the form: fitted to 31 shapes of 16 bits and 11 of 8 bits on an H200."""
    return START[width] + n * k * width / 8 / BYTES[8 if m <= 8 else 16]


__all__ = [
    "DEEP", "HIGH", "LONG", "MOST", "PAD", "UNSCALED", "Scales", "Thin", "choose", "depth_of", "microseconds", "pays",
    "shared",
]  # fmt: skip
