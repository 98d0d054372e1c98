"""How a product of at most 16 rows is cut: plain numbers, no compiler. The kernel is `thin_kernel.py`."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

HIGH = 16
"""Columns of W in a matrix instruction."""
PAD = 4
"""Elements between lines of sums in shared memory: a quad's tokens are in different banks."""
DEEP = 32
"""Elements along K of two matrix instructions: a unit of 16 bytes for each of four lanes."""
MOST = 16
"""Rows of A."""


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


def ceildiv(a: int, b: int) -> int:
    return -(-a // b)


@lru_cache(4096)
def choose(m: int, n: int, k: int, processors: int) -> Thin:
    """A step deep enough to keep memory busy, but no deeper than K is long; clusters where there are few columns."""
    blocks = ceildiv(n, HIGH)
    warps = 8 if m <= 8 or blocks <= 2 * processors else 4
    units = 4
    if k < 2048:
        warps, units = 4, 2
    steps = k // (DEEP * units)
    slices = 1 if 2 * blocks > processors else 2 if 3 * blocks > processors else 4
    while slices > 1 and steps < 2 * warps * slices:
        slices //= 2
    # More rows are read as often as there are blocks.
    wide = m > 8 and n >= 2048 and slices == 1
    return Thin(2 if wide else 1, 8 if m <= 8 else 16, warps, units, slices)


START = 3.3
"""Microseconds until weights come, and behind the last of them."""
BYTES = {8: 4.12e6, 16: 3.75e6}
"""Of weights that come in a microsecond, by tokens."""


def microseconds(m: int, n: int, k: int) -> float:
    """What it takes, whatever the form: fitted to 31 shapes on an H200."""
    return START + 2 * n * k / BYTES[8 if m <= 8 else 16]


__all__ = ["DEEP", "HIGH", "MOST", "PAD", "Thin", "choose", "microseconds"]
