"""What the two consumers of the gradients of long rows have in common: shared memory, its barriers, and their steps."""

from __future__ import annotations

from typing import NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx

from ...matmul.sm90.out import swizzle
from ..backward_operands import clear_rows
from ..backward_steps import Reach, Sequence
from .form import M, Wide


class Room(NamedTuple):
    """Shared memory and its barriers."""

    keys: fx.Pointer
    values: fx.Pointer
    queries: fx.Pointer
    grads: fx.Pointer
    slopes: fx.Pointer
    weights: fx.Pointer
    sides: fx.Pointer
    held: fx.nvgpu.MBarrier
    """Of keys, and the next of values."""
    full_q: fx.nvgpu.MBarrier
    full_g: fx.nvgpu.MBarrier
    empty_q: fx.nvgpu.MBarrier
    empty_g: fx.nvgpu.MBarrier


class Work(NamedTuple):
    """What a block does: its place, the first step, and how many steps there are for each head that shares the keys."""

    form: Wide
    reach: Reach
    block: fx.Int32
    head: fx.Int32
    batch: fx.Int32
    low: fx.Int32
    steps: fx.Int32
    group: fx.Int32
    here: Sequence
    all_tiles: fx.Int32 | None

    @property
    def tiles(self) -> fx.Int32:
        """Steps of all queries of a head, those of all sequences where they are packed."""
        return fx.ceildiv(self.reach.queries, M) if self.all_tiles is None else self.all_tiles

    def first(self) -> tuple[fx.Int32, fx.Int32]:
        """A step's first query, and its place among the steps of all heads and sequences."""
        line = self.here.batch_q * self.reach.heads + self.head * self.group
        return self.low * M, line * self.tiles + self.here.tile + self.low

    def after(self, row: fx.Int32, place: fx.Int32) -> tuple[fx.Int32, fx.Int32]:
        """The same of the next step, which may be the next head's first."""
        row = row + M
        last = row == (self.low + self.steps) * M
        return last.select(self.low * M, row), place + last.select(self.tiles - self.steps + 1, fx.Int32(1))

    def rows_behind(self, row: fx.Int32, more: fx.Boolean) -> fx.Int32:
        """Queries from the next step's first on; a whole step if there are no more."""
        return more.select(self.reach.queries - self.after(row, row)[0], fx.Int32(M))

    def line(self, place: fx.Int32) -> fx.Int32:
        """A step's head, among those of all sequences."""
        line = place // self.tiles
        return line if self.all_tiles is None else line + self.batch * self.reach.heads


def weights_ready() -> fx.nvgpu.named_barrier:
    return fx.nvgpu.named_barrier(1, 256)


def slopes_ready() -> fx.nvgpu.named_barrier:
    return fx.nvgpu.named_barrier(2, 256)


def cleared() -> fx.nvgpu.named_barrier:
    return fx.nvgpu.named_barrier(5, 256)


def own(consumer: int) -> fx.nvgpu.named_barrier:
    return fx.nvgpu.named_barrier(3 + consumer, 128)


def rows_of(base: fx.Pointer, width: int, box: int, stages: int) -> fx.Tensor:
    """(rows, columns, stage) of what lies in boxes of columns."""
    layout = fx.make_layout((M, (box, width // box), stages), (box, (1, M * box), M * width))
    return fx.make_view(fx.apply_swizzle(base, swizzle(2 * box)), layout)


def columns_of(base: fx.Pointer, width: int, box: int, stages: int, columns: int) -> fx.Tensor:
    """The same as (columns, rows, stage), the first `columns`."""
    layout = fx.make_layout(((box, columns // box), M, stages), ((1, M * box), box, M * width))
    return fx.make_view(fx.apply_swizzle(base, swizzle(2 * box)), layout)


def tiled(
    columns: int, dtype: type[fx.Numeric], a_from: str = "smem", major_a: str = "k", major_b: str = "k"
) -> fx.TiledMma:
    """Products of one warpgroup."""
    atom = fx.nvgpu.WGMMA(columns, 16, dtype, a_from=a_from, major_a=major_a, major_b=major_b)
    return fx.make_tiled_mma(fx.make_mma_atom(atom), fx.make_layout((1, 1, 1), (0, 0, 0)))


def in_fours(base: fx.Pointer) -> fx.Tensor:
    """Registers of a product in shared memory, (four, thread, which four): threads' units lie beside each other."""
    return fx.make_view(base, fx.make_layout((4, 128, M // 8), (1, 4, 512)))


def fours_of(x: fx.Tensor, columns: int) -> fx.Tensor:
    return fx.make_view(fx.get_iter(x), fx.make_layout((4, columns // 8), (1, 4)))


@flyc.jit
def clear(base: fx.Pointer, first: fx.Int32, d: int, box: int, consumer: int, tells: bool = False):
    """Zeros for the rows from `first` on, if there are some, in front of a product of `consumer` that reads them."""
    if first < M:
        clear_rows(base, fx.max(first, 0), M, d, fx.thread_idx.x % 128, 128, box)
        fx.nvgpu.fence_proxy_async()
        own(consumer).sync()
        if fx.const_expr(tells):
            cleared().arrive()


def stage_of(i: fx.Int32, stages: int) -> tuple[fx.Int32, fx.Int32]:
    """A step's stage, and the phase of its barriers."""
    if stages == 2:
        return i & 1, i >> 1 & 1
    return i % stages, i // stages % 2


def first_key(work: Work, member: fx.Int32) -> fx.Int32:
    """Of a thread's two, which are 8 apart."""
    return work.block * M + member // 32 * 16 + member % 32 // 4


__all__ = [
    "Room",
    "Work",
    "clear",
    "cleared",
    "columns_of",
    "first_key",
    "fours_of",
    "in_fours",
    "own",
    "rows_of",
    "slopes_ready",
    "stage_of",
    "tiled",
    "weights_ready",
]
