"""How a product of float32 is cut: plain numbers, no compiler. The kernel is `kernel.py`."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

T = TypeVar("T", bound=Any)
"""A number, of the host or of a kernel."""

HIGH, WIDE = 4, 8
"""Lanes of a warp above each other, and beside each other."""
QUAD = 4
"""Elements of 16 bytes."""
DEEP, ALONG, ACROSS, SINGLE = "deep", "along", "across", "single"
"""How an operand comes, by what lies in one piece: units of 16 bytes of k, or of its rows; single elements of k, or of
its rows (or neither)."""
PAD = 4
"""Elements behind a line of shared memory: lines that lanes read together start in different banks, in whole units."""


class Form(NamedTuple):
    """How operands come and results leave. X has the rows of the result, Y its columns."""

    x: str
    y: str
    quads: bool = False
    """C takes four elements of a row at once."""
    activation: str = "none"
    bias: str = ""
    """It is for the `columns` of the result, or for its `rows`."""
    scale_x: str = ""
    """Of X: "one" for all, or for each of its "rows"."""
    scale_y: str = ""
    split: bool = False
    """K is cut into slices, whose sums meet in memory."""
    sharers: int = 1
    """Slices whose blocks wait for all others, and add up a share of the results each; 1: the last to come adds."""
    turned: bool = False
    """X is B: its scales come last, as they do where it is Y, or bits would depend on which is which."""
    overlap: bool = False
    """The launch may begin while the one in front of it ends."""
    grouped: bool = False
    """Rows of X belong to groups, each with a matrix of its own for Y; tiles end where groups do."""
    table: bool = False
    """Groups are found by a table in shared memory; otherwise one after the other."""
    by_group: bool = False
    """Each group has scales of Y of its own."""


class Tile(NamedTuple):
    """A block's part of the result."""

    high: int
    """Warps above each other."""
    wide: int
    """Warps beside each other."""
    rows: int = 8
    """Of a thread."""
    columns: int = 8
    depth: int = 16
    stages: int = 4
    fits: int = 1
    """Blocks that a multiprocessor must have room for."""

    @property
    def m(self) -> int:
        return HIGH * self.rows * self.high

    @property
    def n(self) -> int:
        return WIDE * self.columns * self.wide

    @property
    def warps(self) -> int:
        return self.high * self.wide

    @property
    def threads(self) -> int:
        return 32 * self.warps

    @property
    def size(self) -> int:
        return self.m * self.n

    @property
    def shares(self) -> bool:
        """Whether K may be cut: threads with more sums have no registers for what that takes."""
        return self.rows * self.columns <= 64


def unit_of(form: str) -> int:
    """Elements that a copy has."""
    return QUAD if form in (DEEP, ALONG) else 1


def pitch(form: str, rows: int, depth: int) -> int:
    """Elements of a line of a stage in shared memory: a row along k, or a step of k with all rows."""
    return depth + PAD if form == DEEP else rows + (PAD if form == ACROSS else 0)


def stage_elements(form: str, rows: int, depth: int) -> int:
    return (rows if form == DEEP else depth) * pitch(form, rows, depth)


def first_copy(form: str, many: int, depth: int, tid: T) -> tuple[T, T]:
    """The row and the place along K of a thread's first copy, of a stage of so many rows."""
    if form == ACROSS:
        # A warp has 8 places of K, a sector of memory, of 4 rows: they go to different banks.
        halves = depth // 8
        return tid // 8 % 4 + tid // (32 * halves) * 4, tid % 8 + tid // 32 % halves * 8
    if form == DEEP:
        return tid // (depth // QUAD), tid % (depth // QUAD) * QUAD
    unit = unit_of(form)
    return tid % (many // unit) * unit, tid // (many // unit)


def copies(form: str, many: int, tile: Tile) -> list[tuple[int, int]]:
    """Steps in rows and along K from a thread's first copy to each of its copies; all of them make a stage."""
    depth, unit = tile.depth, unit_of(form)
    inner, dealt, step_row, step_k = many // unit, tile.threads, unit, 1
    if form == ACROSS:
        inner, dealt, step_row, step_k = depth // 8, tile.warps, 4, 8
    elif form == DEEP:
        inner, dealt, step_row, step_k = depth // QUAD, tile.threads, 1, QUAD
    found: list[tuple[int, int]] = []
    for i in range(ceildiv(many * depth, unit * tile.threads)):
        # Threads, or warps, are dealt along what is inside first; their number divides it, or is divided by it.
        within, outside = i * dealt % inner, i * dealt // inner
        found.append((outside * step_row, within * step_k) if form in (ACROSS, DEEP) else (within * step_row, outside))
    return found


def lane_places(lane: T) -> tuple[T, T]:
    """Which of a warp's 4 x 8 places is a lane's. Lanes 2 i and 2 i + 1 are above each other, the next two beside them,
    and a warp's second half is below its first: eight lanes, which shared memory serves at once, read 2 units of X and
    4 of Y, and it serves twice as many where pairs of them want the same.
    """
    return lane % 2 + lane // 16 * 2, lane // 2 % 8


def shared_bytes(tile: Tile, form: Form) -> int:
    """Stages of both operands, and a word."""
    both = stage_elements(form.x, tile.m, tile.depth) + stage_elements(form.y, tile.n, tile.depth)
    return 4 * both * tile.stages + 16


def ceildiv(a: int, b: int) -> int:
    return -(-a // b)


__all__ = [
    "ACROSS", "ALONG", "DEEP", "HIGH", "PAD", "QUAD", "SINGLE", "WIDE", "Form", "Tile", "ceildiv", "copies",
    "first_copy", "lane_places", "pitch",
    "shared_bytes", "stage_elements", "unit_of",
]  # fmt: skip
