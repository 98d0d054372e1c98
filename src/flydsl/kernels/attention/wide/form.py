"""How the gradients of long rows are cut on Hopper. Plain numbers, no compiler."""

from __future__ import annotations

from typing import NamedTuple

from ..tile import BARRIER_BYTES, SHARED_BYTES, Sums, span

M = 64
"""Keys of a block, and queries of a step."""
MOST_STAGES = 3
CLUSTER = 2
"""Blocks that fetch queries for each other, where there are as many."""


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
    order_values: str = "snfqa"
    """What the consumer of values does behind a step's weights: issue its (s)ums, the (n)ext step's scores, a piece of
    d(q); (a)dd that, and (f)ree the stage. Its half of dQ has as many pieces as there are."""
    order_keys: str = "snfqa"
    """The same of the consumer of keys."""
    packed_q: bool = False
    """Sequences of queries lie one behind the other."""
    packed_k: bool = False
    softcap: bool = False

    def in_order(self) -> Wide:
        """The fastest of ten on an H200. dQ has two pieces, if these are whole boxes: more would be in registers."""
        values, keys = ("snfqaqa", "qaqasnf") if self.columns % 32 == 0 else ("snfqa", "qasnf")
        return self._replace(order_values=values, order_keys=keys)

    @property
    def m(self) -> int:
        return M

    @property
    def width(self) -> int:
        """Columns of queries and keys in shared memory. Those behind `d` are zeros."""
        return -(-self.d // 32) * 32

    @property
    def sums(self) -> Sums:
        return Sums(self.d, self.dv, M, self.columns, self.columns, self.width, self.wide)

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
        """Columns of keys that lie together: each piece of dQ has its own."""
        return span(self.columns // max(x.count("q") for x in (self.order_values, self.order_keys)))

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
