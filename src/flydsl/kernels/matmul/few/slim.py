"""How a product of few rows is cut: plain numbers, no compiler.

The kernel (`slim_kernel.py`) computes C^T = W^T A^T, so that the weights' columns are rows of the matrix instruction
and the rows of A, its tokens, are columns. A block has some rows of W^T and some part of K. Its warps share both:
`across` of them divide the rows, `along` of them the steps along K.
"""

from __future__ import annotations

from typing import NamedTuple

SHARED_BYTES = 232448
"""What a block of sm_90 may have."""
HIGH, DEEP = 64, 128
"""Rows and depth of a block of packed weights, which lies in one piece."""
LINE = 64
"""Elements of 16 bits along K that the copy engine fetches for each row, 128 bytes."""
PAD = 4
"""Elements between lines of sums in shared memory, so that a warp's four tokens are in different banks."""
BARRIER_BYTES = 256


class Weights(NamedTuple):
    """How weights lie: 4 or 8 bits in packed blocks with a scale for `group` elements along K; 16 or 32 bits in rows.

    Those of 32 bits, and the tokens with them, are multiplied as two numbers of 11 bits each.
    """

    bits: int
    group: int = 0
    scale: str = "bfloat16"
    """The type of scales."""

    @property
    def packed(self) -> bool:
        return self.bits < 16

    @property
    def groups(self) -> int:
        """Scales for a row of a block."""
        return max(1, DEEP // self.group) if self.packed else 0

    @property
    def scale_bytes(self) -> int:
        return HIGH * self.groups * (4 if self.scale == "float32" else 2)

    @property
    def block_bytes(self) -> int:
        """Of a block: its numbers, and behind them its scales."""
        return HIGH * DEEP * self.bits // 8 + self.scale_bytes

    @property
    def line(self) -> int:
        """Elements of a token in a line of 128 bytes."""
        return LINE // 2 if self.bits == 32 else LINE

    @property
    def lines(self) -> int:
        """Lines of a token that a warp takes from a stage."""
        return DEEP // LINE if self.packed else 1

    @property
    def depth(self) -> int:
        """Elements along K that a warp takes from a stage."""
        return self.lines * self.line


class Slim(NamedTuple):
    """A block's part of the product."""

    rows: int
    """Of W^T, a multiple of 64."""
    tokens: int
    """Rows of A, a multiple of 8."""
    across: int
    """Warps that divide the rows."""
    along: int
    """Warps that divide K."""
    stages: int
    slices: int = 1
    """Blocks that divide K; the last to come adds up the sums of all, in the order of K."""
    wide: bool = False
    """Four warps multiply 64 rows together, with `wgmma`."""
    turns: bool = False
    """A group is widened while the one before is multiplied."""

    @property
    def warps(self) -> int:
        return self.across * self.along

    @property
    def threads(self) -> int:
        """Those that multiply, and one or four warps that fetch: registers are dealt to four at a time."""
        return 32 * (self.warps + (4 if self.wide else 1))

    @property
    def tiles(self) -> int:
        """Of 16 rows, for each warp."""
        return self.rows // 16 // self.across


def weight_bytes(slim: Slim, weights: Weights) -> int:
    """Of a stage."""
    if weights.packed:
        return slim.rows // HIGH * slim.along * weights.block_bytes
    return slim.rows * slim.along * LINE * 2


def token_bytes(slim: Slim, weights: Weights) -> int:
    return slim.tokens * slim.along * weights.lines * LINE * 2


def stage_bytes(slim: Slim, weights: Weights) -> int:
    return token_bytes(slim, weights) + weight_bytes(slim, weights)


def shared_bytes(slim: Slim, weights: Weights) -> int:
    """Stages, or the warps' sums, which take their place; and barriers."""
    sums = slim.along * slim.tokens * (slim.rows + PAD) * 4
    return max(slim.stages * stage_bytes(slim, weights), sums) + BARRIER_BYTES


def problem(slim: Slim, weights: Weights) -> str | None:
    """Why there is no such kernel; None if there is."""
    if slim.rows % HIGH or slim.rows % (16 * slim.across) or not 0 < slim.rows <= 512:
        return f"{slim.rows} rows are no multiple of {HIGH} that {slim.across} warps can share"
    if slim.tokens % 8 or not 0 < slim.tokens <= 96:
        return f"{slim.tokens} tokens are no multiple of 8 up to 96"
    if not 1 <= slim.warps <= (16 if slim.wide else 15):
        return f"{slim.warps} warps"
    if slim.wide and (slim.across % 4 or slim.rows % (16 * slim.across) or not weights.packed):
        return "four warps multiply 64 rows of packed weights together"
    if slim.turns and not (slim.wide and two_totals(slim, weights)):
        return "four warps have no room for two groups"
    if slim.tiles * slim.tokens // 8 > most_sums(slim) * (1 if weights.packed else 2):
        return "the sums do not fit into registers"
    if slim.stages < 1 or shared_bytes(slim, weights) > SHARED_BYTES:
        return f"{slim.stages} stages do not fit into shared memory"
    if not weights.packed and slim.rows > 256:
        return "the copy engine fetches 256 rows at most"
    return None


def registers(slim: Slim) -> tuple[int, int]:
    """Of a thread that fetches and one that multiplies, in `wide` blocks; a single warpgroup has enough as it is."""
    return {1: (0, 0), 2: (40, 232), 3: (32, 160), 4: (24, 112)}[slim.warps // 4]


def most_sums(slim: Slim) -> int:
    """Matrices of 16 x 8 whose sums, and those of a group of packed weights, a warp has room for."""
    if slim.wide:
        return {1: 16, 2: 16, 3: 8, 4: 4}[slim.warps // 4]
    # Registers belong to a quarter of the multiprocessor's warps.
    return 16 if slim.warps < 8 else 10


def two_totals(slim: Slim, weights: Weights) -> bool:
    """Whether there is room for two groups, of which one is multiplied and one is widened and scaled."""
    room = {1: 208, 2: 208, 3: 112, 4: 64}[slim.warps // 4]
    return 4 * (slim.tokens // 8) * (slim.tiles + 2) + 2 * 32 // weights.groups <= room


def deepest(slim: Slim, weights: Weights, most: int = 8) -> Slim:
    """With as many stages as there is room for."""
    room = (SHARED_BYTES - BARRIER_BYTES) // stage_bytes(slim, weights)
    return slim._replace(stages=max(1, min(most, room)))


__all__ = [
    "BARRIER_BYTES", "DEEP", "HIGH", "LINE", "PAD", "Slim", "Weights", "deepest", "problem", "registers",
    "shared_bytes", "stage_bytes", "token_bytes", "two_totals",
    "weight_bytes",
]  # fmt: skip
