"""How the gradients of long rows are cut on Hopper. Plain numbers, no compiler."""

from __future__ import annotations

from typing import NamedTuple

from .tile import BARRIER_BYTES, SHARED_BYTES, span

M = 64
"""Keys of a block, and queries of a step."""
MOST_STAGES = 3


class Wide(NamedTuple):
    """What is compiled in: elements of a key and of a value, and whether keys end or begin for a query."""

    d: int
    dv: int
    right: bool
    left: bool
    ordered: bool = False
    wide: bool = True
    """Rows of the result are 16-byte units."""
    dropout: bool = False
    cluster: int = 1
    """Blocks of neighbouring keys that fetch queries for each other: 1 or 2."""
    most_stages: int = MOST_STAGES
    order_values: str = "snq"
    """In which order the consumer of values issues products: its sums, the next step's scores, its part of dQ. "snq" or
    "sqn"."""
    order_keys: str = "snq"
    """The same of the consumer of keys, or "qsn"."""

    @property
    def m(self) -> int:
        return M

    @property
    def width(self) -> int:
        """Columns of queries and keys in shared memory. Those behind `d` are zeros."""
        return -(-self.d // 32) * 32

    @property
    def width_v(self) -> int:
        """The same of values."""
        return -(-self.dv // 16) * 16

    @property
    def columns(self) -> int:
        """Of a consumer's part of dQ."""
        return self.width // 2

    @property
    def box(self) -> int:
        """Columns of keys that lie together: each consumer has its own for dQ."""
        return span(self.columns)

    @property
    def _stage(self) -> int:
        return 2 * M * (self.width + self.width_v) + 2 * 4 * M

    @property
    def _held(self) -> int:
        """Keys and values, weights in f32, scores' gradients, barriers."""
        return 2 * M * (self.width + self.width_v) + 4 * M * M + 2 * M * M + BARRIER_BYTES

    @property
    def stages(self) -> int:
        """Steps of queries that are in shared memory."""
        return min(self.most_stages, (SHARED_BYTES - self._held) // self._stage)

    @property
    def smem(self) -> int:
        return self._held + self.stages * self._stage


__all__ = ["M", "Wide"]
