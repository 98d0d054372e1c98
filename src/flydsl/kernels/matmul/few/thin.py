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

    @property
    def rows(self) -> int:
        return HIGH * self.tiles

    @property
    def shared_bytes(self) -> int:
        return 4 * self.warps * self.tokens * (self.rows + PAD)


def depth_of(width: int) -> int:
    """Elements of so many bits along K that a warp multiplies with a unit of every lane."""
    return DEEP * 8 // width


def ceildiv(a: int, b: int) -> int:
    return -(-a // b)


@lru_cache(4096)
def choose(m: int, n: int, k: int, processors: int, width: int = 16) -> Thin:
    """A step deep enough to keep memory busy, but no deeper than K is long; clusters where there are few columns."""
    blocks = ceildiv(n, HIGH)
    if width == 8:
        # Registers for fewer reads leave room for more blocks, where there are as many: about three of eight warps.
        units, warps = 4 if blocks <= processors else 2, 8 if blocks <= 3 * processors else 4
        slices = 2 if 2 * blocks <= processors and k >= 4096 else 1
        return Thin(1, 8 if m <= 8 else 16, warps, units, slices)
    warps = 8 if m <= 8 or blocks <= 2 * processors else 4
    units = 4
    if k < 2048:
        warps, units = 4, 2
    steps = k // (depth_of(width) * units)
    slices = 1 if 2 * blocks > processors else 2 if 3 * blocks > processors else 4
    if slices == 1 and k >= LONG:
        slices = min((1, 2, 4), key=lambda s: EVEN ** (s > 1) * ceildiv(blocks * s, processors) / s)
    while slices > 1 and steps < 2 * warps * slices:
        slices //= 2
    # More rows are read as often as there are blocks.
    wide = m > 8 and n >= 2048 and slices == 1
    return Thin(2 if wide else 1, 8 if m <= 8 else 16, warps, units, slices)


LONG, EVEN = 8192, 1.2
"""Sums that are worth dividing for the sake of multiprocessors that would have more columns than others; how much fewer
columns the busiest one must have then. By count: 149 blocks of 27536 elements took 1.2 times cuBLAS' time undivided."""
START = {8: 2.0, 16: 3.3}
"""Microseconds until weights come, and behind the last of them, by bits."""
BYTES = {8: 4.12e6, 16: 3.75e6}
"""Of weights that come in a microsecond, by tokens."""


def microseconds(m: int, n: int, k: int, width: int = 16) -> float:
    """What it takes, whatever the form: fitted to 31 shapes of 16 bits and 11 of 8 bits on an H200."""
    return START[width] + n * k * width / 8 / BYTES[8 if m <= 8 else 16]


__all__ = ["DEEP", "HIGH", "MOST", "PAD", "UNSCALED", "Scales", "Thin", "choose", "depth_of", "microseconds"]
