"""How a Hopper product is cut: the tile of a block, its warpgroups, stages and cluster. Plain numbers, no compiler."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

SHARED_BYTES = 233472
"""Of a multiprocessor of sm_90."""
RESERVED_BYTES = 1024
"""Of each block, for the system."""
LINE = 128
"""Bytes of a tile's row along K, the widest the swizzle takes."""


MOST_STAGES = 24
BARRIER_BYTES = 16 * MOST_STAGES
"""Of a full and an empty barrier for each stage."""


MOST_SLICES = 16
MOST_SUMS = {1: 128, 2: 160, 3: 96}
"""Registers of a consumer's thread that may hold sums."""


class Tile(NamedTuple):
    """D = X Y^T in tiles of m x n; X is A and Y is B, or the other way round where operands are swapped."""

    m: int
    """Rows, a multiple of 64: those of all consumers together, or of each where they take turns."""
    n: int
    """Columns, a multiple of 16 up to 256, or of 8 up to 144."""
    consumers: int = 2
    """Warpgroups that multiply."""
    pingpong: bool = False
    """Each consumer has tiles of its own: one's epilogue runs during another's products."""
    cluster: int = 1
    """Blocks that share an operand, each fetching a part of it for all."""
    shares: str = "y"
    """Whose rows they have in common: "y", blocks above each other, "x", blocks beside each other, "xy" both: two above
    each other, and two or four such pairs, or in groups "either": two above each other, and beside each other in a row
    that is left."""
    splits: int = 1
    """Parts of K, each summed by a block of its own; the cluster adds them up."""
    swap: bool = False
    """X is B: D is the transpose of C."""
    slices: int = 1
    """Parts of K whose sums meet in memory, where the block of the last part adds them up in order."""
    together: bool = False
    """The first slices' blocks (`sharers`) add up a share of the columns each, instead of the last one all."""
    tail: bool = False
    """Slices are for those tiles that are left when all blocks have had as many whole ones."""
    fits: int = 1
    """Blocks that a multiprocessor has room for: the next launch's set up beside those that still multiply."""
    factors: bool = False
    """Factors of blocks lie beside each stage."""

    @property
    def rows(self) -> int:
        """Rows of a consumer."""
        return self.m if self.pingpong else self.m // self.consumers

    @property
    def threads(self) -> int:
        return 128 * (self.consumers + 1)

    @property
    def in_shares(self) -> bool:
        """Whether a block stores some columns of each tile only: its threads do."""
        return self.splits > 1 or (self.together and not self.tail)

    @property
    def sharers(self) -> int:
        """Slices whose blocks have a share of the columns, 8 at least."""
        return next(x for x in range(self.slices, 0, -1) if self.n // 8 % x == 0)

    @property
    def by_threads(self) -> bool:
        """Whether threads store results: the copy engine's boxes are 16 columns, or 8 rows of C."""
        return self.in_shares or (self.n % 16 != 0 and not self.swap)

    @property
    def high(self) -> int:
        """Blocks of a cluster above each other, which share rows of Y."""
        return {"y": self.cluster, "x": 1, "xy": 2, "either": self.cluster}[self.shares]

    @property
    def wide(self) -> int:
        """Blocks of a cluster beside each other, which share rows of X."""
        return self.cluster // self.high

    @property
    def either(self) -> bool:
        return self.shares == "either"

    @property
    def boxes(self) -> tuple[int, int]:
        """Parts that rows of X and of Y are fetched in."""
        return (2, 2) if self.either else (self.wide, self.high)

    @property
    def halves(self) -> bool:
        """Whether each of two consumers has one such part of X, so that one may have nothing to do."""
        return self.either and self.consumers == 2 and self.rows == 64 and not self.pingpong

    @property
    def blocks(self) -> int:
        """Blocks of a cluster."""
        return self.cluster * self.splits

    @property
    def accumulators(self) -> int:
        """Registers of a consumer's thread that hold sums."""
        return self.rows // 64 * self.n // 2

    @property
    def two_sets(self) -> bool:
        """Whether registers hold the sums twice, besides those that threads add up."""
        return self.accumulators <= (32 if self.consumers == 3 else 64)

    @property
    def promotes(self) -> bool:
        """Whether there is room for the sums of all products, and of 128 of them for 64 rows."""
        return self.accumulators + self.n // 2 <= (128 if self.consumers == 3 else 192)


class Form(NamedTuple):
    """What is compiled in besides the tile."""

    x_major: str
    """Which direction is contiguous: "k" or "mn"."""
    y_major: str
    store: str
    """Who stores C: "engine", or threads in "pairs" or single "elements"."""
    activation: str = "none"
    bias: str = ""
    """Along which direction of D it goes: "rows", "columns", or "" where there is none."""
    scale_x: str = ""
    """A factor for "one" and all, each of X's "rows", 128 elements of a "line", or 128 x 128 of a "square"."""
    scale_y: str = ""
    promote: bool = False
    """The tensor cores sum 128 products at a time, and threads add these sums up in f32.

    Their own sums keep about 14 bits: of 512 products one was seen off by more than 2^-13 of them.
    """

    overlap: bool = True
    """Set up while the kernel in front in the stream still runs: nothing is read or written before it is done."""

    grouped: bool = False
    """Rows of X belong to groups, each with a matrix of its own for Y; tiles end where groups do."""

    edge: str = "elements"
    """How threads store tiles that reach beyond their group, where the engine stores the others."""

    table: bool = False
    """A table of the groups is in shared memory, behind all else; otherwise each is looked for from the one before."""

    l2_fetch: int = 128
    """Bytes that L2 fetches from memory at least, for the copy engine."""

    rows_x: int = 0
    """Rows of X that a step of a tile fetches, where the matrix has fewer than the tile; 0 for all."""
    rows_y: int = 0

    boxes_x: int = 0
    """Copies that fetch a step's rows of X, all blocks' that share them together; 0 for one each."""
    boxes_y: int = 0

    quads: bool = False
    """Factors of four steps along K lie in 16 bytes, in both operands, and steps come in fours."""

    by_group: bool = False
    """Each group has factors of Y of its own."""

    @property
    def blocked(self) -> bool:
        return self.scale_x in ("line", "square")


class Staging(NamedTuple):
    """How results leave by the copy engine: up to `columns` at a time of a warpgroup's 64 rows, in boxes of `box`."""

    columns: int
    box: int


@lru_cache(None)
def staging(tile: Tile) -> Staging:
    """16-bit results in shared memory. Swapped tiles are stored with their rows, which C has in one piece, inside.

    As many columns at a time as there may be, for each time is waited for; but a stage is worth more, if there are few.
    """
    if tile.swap:
        return Staging(next(tile.n // x for x in range(1, 33) if tile.n % (8 * x) == 0 and tile.n // x <= 144), 64)
    if tile.by_threads:
        return Staging(0, 0)
    box = span(tile.n)
    most = stages_beside(tile, box)
    for times in range(-(-tile.n // 128), tile.n // box):
        columns = -(-tile.n // (times * box)) * box
        left = stages_beside(tile, columns)
        if left >= most or left >= 6:
            return Staging(columns, box)
    return Staging(box, box)


def stages_beside(tile: Tile, columns: int) -> int:
    """How many stages there is room for, where results leave so many columns at a time."""
    word = 16 if tile.together else 0
    fixed = BARRIER_BYTES + word + (0 if tile.by_threads else tile.consumers * 2 * 64 * columns)
    return min(
        MOST_STAGES, (SHARED_BYTES // tile.fits - RESERVED_BYTES - fixed) // (stage_bytes(tile) + factor_bytes(tile))
    )


def slots(tile: Tile) -> int:
    """Parts of that room which results of 64 rows take in turn: one is filled while the engine reads the other."""
    columns, box = staging(tile)
    several = tile.rows // 64 * -(-tile.n // columns) > 1
    return 2 if several and not tile.swap and columns % (2 * box) == 0 else 1


def pieces(tile: Tile) -> list[tuple[int, int]]:
    """The first column and the width of what leaves at a time."""
    columns = staging(tile).columns // slots(tile)
    return [(first, min(columns, tile.n - first)) for first in range(0, tile.n, columns)]


def span(rows: int) -> int:
    """Elements of the swizzled rows of an operand that is contiguous along its rows."""
    return next(x for x in (64, 32, 16) if rows % x == 0)


def stage_bytes(tile: Tile) -> int:
    return LINE * (tile.m + tile.n)


def lines_of(tile: Tile) -> int:
    """Rows of a tile's operand that has a factor for 128 elements of each."""
    return tile.n if tile.swap else tile.m


def squares_of(tile: Tile) -> int:
    """Squares of 128 x 128 that the other operand's rows are in, at most."""
    return 1 if 128 % (tile.m if tile.swap else tile.n) == 0 else 2


def factor_bytes(tile: Tile) -> int:
    """Of a stage: units of 16."""
    return -(-(lines_of(tile) + squares_of(tile)) // 4) * 16 if tile.factors else 0


def fixed_bytes(tile: Tile) -> int:
    """Shared memory besides the stages: barriers, and results on their way out or a word for each consumer."""
    word = 16 if tile.together else 0
    return BARRIER_BYTES + word + (0 if tile.by_threads else tile.consumers * 2 * 64 * staging(tile).columns)


@lru_cache(None)
def stages(tile: Tile) -> int:
    """As many as there is room for, up to a limit."""
    return stages_beside(tile, staging(tile).columns)


def shared_bytes(tile: Tile) -> int:
    """Stages, what is fixed, and behind it the factors of all stages."""
    return stages(tile) * (stage_bytes(tile) + factor_bytes(tile)) + fixed_bytes(tile)


def has_room(tile: Tile, nbytes: int) -> bool:
    """Whether shared memory has so many bytes left for a block."""
    return shared_bytes(tile) + nbytes <= SHARED_BYTES // tile.fits - RESERVED_BYTES


def limits(tile: Tile, rows: int, columns: int, x_major: str, y_major: str) -> tuple[int, int]:
    """`Form.rows_x` and `rows_y`: as many as the matrices have, in steps of the swizzle, where these are fewer."""
    x, y = (-(-have // step) * step for have, step in ((rows, 8 * tile.wide), (columns, 8 * tile.high)))
    return (x if x < tile.m and x_major == "k" else 0, y if y < tile.n and y_major == "k" else 0)


MOST_BOXES = 4
"""Copies of a block for an operand's rows of a step."""


def boxes(tile: Tile, rows: int, columns: int, x_major: str, y_major: str) -> tuple[int, int]:
    """`Form.boxes_x` and `boxes_y`: copies that end where the matrix does, as far as that pays.

    The engine makes zeros of rows that are not there, and is slow at that. Copies that have none of the matrix' rows
    fetch others instead.
    """
    few = limits(tile, rows, columns, x_major, y_major)
    sides = (tile.m, rows, tile.boxes[0], x_major, few[0]), (tile.n, columns, tile.boxes[1], y_major, few[1])
    found = (_boxes(*side[:3], side[2]) if side[3] == "k" and not side[4] else side[2] for side in sides)
    return next(found), next(found)


def by_depth(rows: int, sharers: int) -> bool:
    """Whether blocks that share rows which lie beside each other in memory fetch a part of K each: there are too few
    boxes of such rows for all of them."""
    return rows // span(rows) % sharers != 0


def boxes_in_groups(tile: Tile, columns: int, y_major: str) -> int:
    """`Form.boxes_y` in groups: of a pair that is beside each other each block fetches all of its rows of Y."""
    return _boxes(tile.n, columns, tile.boxes[1], 1) if y_major == "k" else tile.boxes[1]


def _boxes(high: int, extent: int, unit: int, sharers: int) -> int:
    """Parts of `high` rows, a multiple of `unit`: a copy more costs as much as some rows of zeros."""
    ways = [x for x in range(unit, MOST_BOXES * sharers + 1, unit) if high % (8 * x) == 0]
    return min(ways, key=lambda many: -extent % high % (high // many) + 8 * many // sharers)


def boxes_of(tile: Tile, form: Form) -> tuple[int, int]:
    """Copies that fetch a step's rows of X and of Y, all blocks' that share them together."""
    return form.boxes_x or tile.boxes[0], form.boxes_y or tile.boxes[1]


def fetched(tile: Tile, form: Form) -> tuple[int, int]:
    """Rows of X and of Y that a block's step takes from the matrices."""
    return form.rows_x or tile.m, form.rows_y or tile.n


def registers(tile: Tile) -> tuple[int, int]:
    """Of a producer's and of a consumer's thread: 65536 are to be shared. A single consumer has enough as it is."""
    return {1: (0, 0), 2: (40, 232), 3: (32, 160)}[tile.consumers]


def problem(tile: Tile, x_major: str = "k", y_major: str = "k") -> str | None:
    """Why there is no such kernel; None if there is."""
    if tile.m % 64 or tile.m <= 0 or (not tile.pingpong and tile.m % (64 * tile.consumers)):
        return f"a tile has 64 rows, or a multiple, for each of its {tile.consumers} consumers, got {tile.m}"
    if tile.n % (16 if tile.n > 144 or y_major == "mn" else 8) or not 16 <= tile.n <= 256:
        return f"a tile has 16 to 256 columns in steps of 16, or up to 144 of 8 where Y lies along k, got {tile.n}"
    if not 1 <= tile.consumers <= 3 or (tile.pingpong and tile.consumers != 2):
        return f"one to three warpgroups multiply, and two take turns, got {tile.consumers}"
    if tile.accumulators > MOST_SUMS[tile.consumers]:
        return f"{tile.m} x {tile.n} for {tile.consumers} consumers needs {tile.accumulators} accumulators a thread"
    if tile.blocks > 8:
        return f"a cluster has at most 8 blocks, got {tile.cluster} x {tile.splits}"
    if tile.splits not in (1, 2, 4, 8) or tile.cluster not in (1, 2, 4, 8):
        return f"K is split in 1, 2, 4 or 8 and a cluster of 1, 2, 4 or 8 shares, got {tile.splits} and {tile.cluster}"
    if tile.splits > 1 and (tile.n % (8 * tile.splits) or tile.pingpong):
        return f"{tile.splits} parts of K divide {tile.n} columns in steps of 8, and consumers do not take turns"
    if (tile.cluster < 4 and tile.shares == "xy") or (tile.cluster == 8 and tile.shares != "xy"):
        return f"4 or 8 blocks share rows of both, and up to 4 those of one, got {tile.cluster} and {tile.shares}"
    if tile.either and (tile.cluster != 2 or tile.splits > 1 or tile.slices > 1 or tile.swap):
        return f"two blocks are above or beside each other, and only in groups, got {tile.cluster}"
    for shared, major, sharers in ((tile.n, y_major, tile.boxes[1]), (tile.m, x_major, tile.boxes[0])):
        if (shared // 8 % sharers) if major == "k" else (tile.either and by_depth(shared, sharers)):
            return f"{sharers} blocks cannot share {shared} rows of {tile.shares}"
    if tile.slices > 1 and (tile.splits > 1 or tile.pingpong or tile.slices > MOST_SLICES):
        return f"K has parts, or up to {MOST_SLICES} slices and consumers that work together, got {tile.slices}"
    if tile.together and tile.slices == 1:
        return "blocks share columns of slices, and there is one"
    if tile.tail and not tile.together:
        return "slices of the tiles that are left are added up in shares"
    if tile.fits > 1 and (tile.consumers > 1 or tile.accumulators > {2: 64, 3: 32}.get(tile.fits, 0)):
        return f"{tile.fits} blocks of {tile.threads} threads with {tile.accumulators} accumulators each"
    if stages(tile) < 2:
        return f"{tile.m} x {tile.n} has no room for two stages"
    if tile.splits > 1 and stages(tile) * stage_bytes(tile) < 4 * tile.m * tile.n:
        return f"{tile.m} x {tile.n} has no room for the sums of a part of K"
    return None


__all__ = [
    "BARRIER_BYTES", "LINE", "MOST_SLICES", "Form", "Staging", "Tile", "boxes", "boxes_in_groups", "boxes_of",
    "by_depth", "factor_bytes", "fetched", "fixed_bytes", "has_room", "limits", "lines_of", "pieces", "problem",
    "registers", "shared_bytes", "slots", "span", "squares_of", "stage_bytes", "stages", "staging",
]  # fmt: skip
