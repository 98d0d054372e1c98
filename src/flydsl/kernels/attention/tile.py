"""How a Hopper attention is cut: rows of queries, blocks of keys, warpgroups and stages. Plain numbers, no compiler."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

SHARED_BYTES = 232448
"""What a block of sm_90 may have."""
BARRIER_BYTES = 256
BOXES = 8
"""Pages of a step that one thread asks for."""


class Tile(NamedTuple):
    """A block of threads has 64 rows of queries for each consumer, and walks along the keys, `n` at a time."""

    d: int
    """Elements of a query and of a key."""
    dv: int
    """Elements of a value."""
    n: int
    """Keys of a step, a multiple of 16."""
    consumers: int = 2
    """Warpgroups that multiply, each its own 64 rows."""
    stages: int = 2
    """Steps of keys, and of values, that are in shared memory."""
    pingpong: bool = True
    """Consumers issue their products one after the other, so that one's products run during another's softmax."""
    size: int = 2
    """Bytes of an element. Values of one byte are taken as (dv, keys), which the tensor cores want: see `values.py`."""
    lazy: bool = False
    """Sums are rescaled only where a maximum has grown by much: it pays where they are many to a score."""
    early: bool = False
    """The sums of the step before are waited for right behind a step's maxima, and the next consumer's turn is there;
    else wherever the assembler likes, and when products are issued."""
    apart: bool = False
    """A step's sums have registers of their own, and threads add them to the rest: tensor cores keep 14 bits of sums of
    bytes, and what is cut off is missing from a long one. A warpgroup waits for all its products; others go on."""
    ones: bool = False
    """The sum of weights is a product with a column of ones behind the values: what weights lose by rounding is missing
    in both. Threads add as many numbers fewer."""
    blocks: int = 1
    """Blocks of a multiprocessor, which share its registers and its shared memory."""

    @property
    def m(self) -> int:
        return 64 * self.consumers

    @property
    def threads(self) -> int:
        return 128 * (self.consumers + 1)

    @property
    def smem(self) -> int:
        """Bytes of shared memory: queries, stages of keys and of values, barriers."""
        held = 4 * 128 * self.consumers if self.early else 0
        return self.size * (self.m * self.d + self.stages * self.n * self.d + self.room) + BARRIER_BYTES + held

    @property
    def columns(self) -> int:
        """Columns of sums: those of the values, and eight of ones, which no instruction has fewer of."""
        return self.dv + (8 if self.ones else 0)

    @property
    def without_ones(self) -> Tile:
        """The same where threads add weights, before they are rounded."""
        return self._replace(ones=False) if self.ones else self

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Where columns begin that are multiplied together, and how many they are: few where a step's own sums need
        registers as well."""
        if not self.apart:
            return [(0, self.columns)]
        firsts = range(0, self.dv, 64)
        return [
            (first, min(64, self.dv - first) + (self.columns - self.dv) * (first == firsts[-1])) for first in firsts
        ]

    @property
    def room(self) -> int:
        """Elements of all stages of values, up to where a swizzle repeats."""
        unit = 1024 // self.size
        return -(-self.stages * self.n * self.columns // unit) * unit

    @property
    def depth(self) -> int:
        """Elements of a row that one instruction multiplies."""
        return 32 // self.size

    @property
    def fp8(self) -> bool:
        return self.size == 1

    @property
    def staged(self) -> int:
        """Bytes of results on their way out by the copy engine."""
        return 2 * self.m * self.dv

    @property
    def has_room(self) -> bool:
        """Whether there is room for them, too."""
        return self.smem + self.staged <= self.most_smem

    @property
    def most_smem(self) -> int:
        """Bytes of shared memory a block may have: each takes 1024 for itself."""
        return (SHARED_BYTES + 1024) // self.blocks - 1024

    @property
    def lanes(self) -> int:
        """Threads that bring a row of keys or of values, 16 bytes each at a time: neighbours have a whole line, and
        each has few rows to look for."""
        units = gcd(self.d, self.dv) // 8
        return min(8, units & -units)


class Form(NamedTuple):
    """What is compiled in besides the tile."""

    right: bool = False
    """Keys end for a query: it is causal, or a window has a right side."""
    left: bool = False
    """Keys begin for a query: a window has a left side."""
    softcap: bool = False
    dynamic: bool = False
    """Blocks take the next tile from a counter, which balances tiles of different length."""
    packed_q: bool = False
    """Sequences of queries lie one behind the other."""
    packed_k: bool = False
    used_k: bool = False
    """Sequences of keys have lengths of their own."""
    page: int = 0
    """Rows of a page that come together, where keys are paged; they divide a step."""
    split: bool = False
    """Parts of the keys have results of their own, which are combined afterwards."""
    engine: bool = False
    """The copy engine stores results, while the next tile is under way; else threads do."""
    dropout: bool = False
    by_threads: bool = False
    """Threads bring keys and values, 16 bytes at a time; else the copy engine."""
    page_keys: int = 0
    """Keys of a page, where they are a power of two and compiled in; 0 if they are a number of the launch."""
    picks: bool = False
    """The number of parts follows from the lengths, which the host has not seen."""

    def asks(self, n: int) -> int:
        """Threads that bring a step's `n` keys and values, or ask the copy engine for them: one, or where there are
        more boxes than that one has time for, as many as a warp has."""
        if self.by_threads:
            return 128
        return 1 if n <= BOXES * (self.page or n) else 32


class Turned(NamedTuple):
    """How turned values are cut: columns, keys of a step, and of them in a box."""

    dv: int
    n: int
    width: int


class Sums(NamedTuple):
    """How sums of dQ lie in memory: what a pass over queries and one over the sums have to know."""

    d: int
    dv: int
    m: int
    columns: int
    """Of a consumer's part."""
    whole: int
    """How many of them follow each other in dQ."""
    room: int
    """Columns of a query, those behind `d` included."""
    wide: bool
    """Rows of the result are 16-byte units."""


def span(d: int, size: int = 2) -> int:
    """Columns of a box in shared memory, as wide as the swizzle can be."""
    return next(x for x in (128 // size, 64 // size, 32 // size) if d % x == 0)


def registers(tile: Tile, dropout: bool = False) -> tuple[int, int]:
    """Of a producer's and of a consumer's thread: 65536 are to be shared. A single consumer has enough as it is.

    Keys of dropout's generator are in registers that a warp has in common: a producer needs more of its own then, where
    consumers can spare them."""
    spare = dropout and max(tile.d, tile.dv) <= 64
    return {1: (0, 0), 2: (40, 232) if spare else (24, 240), 3: (32, 160)}[tile.consumers]


def problem(tile: Tile) -> str | None:
    """Why there is no such kernel; None if there is."""
    step = tile.depth
    if tile.d % step or tile.dv % 16 or not step <= tile.d <= 256 or not 16 <= tile.dv <= 256:
        return (
            f"queries and keys have {step} to 256 elements in steps of {step}, values 16 to 256 in steps of 16, "
            f"got {tile.d} and {tile.dv}"
        )
    if tile.n % step or not step <= tile.n <= 256:
        return f"a step has {step} to 256 keys in steps of {step}, got {tile.n}"
    if not 1 <= tile.consumers <= 3:
        return f"one to three warpgroups multiply, got {tile.consumers}"
    if tile.stages < 2:
        return f"there are at least two stages, got {tile.stages}"
    if tile.apart and (tile.pingpong or tile.early or tile.lazy):
        return f"steps apart have no turns, no early waits and are rescaled always, got {tile}"
    if tile.ones and not (tile.apart and tile.fp8):
        return f"ones are for bytes whose steps are apart, got {tile}"
    if tile.smem > tile.most_smem:
        return f"{tile} needs {tile.smem} bytes of shared memory, and there are {tile.most_smem}"
    return None


__all__ = ["BARRIER_BYTES", "SHARED_BYTES", "Form", "Sums", "Tile", "Turned", "problem", "registers", "span"]
