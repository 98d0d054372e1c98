"""A matrix of any strides as rows in one piece that start at cache lines: what the copy engine takes.

A block moves a tile of 64 x 64 through shared memory, so that it reads along the direction that lies in one piece,
whichever that is, and writes along the rows.
"""

from __future__ import annotations

from typing import NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx

TILE, THREADS, PAD = 64, 256, 2
LINE_BYTES = 128


class Packing(NamedTuple):
    """Lines of a matrix: how many, how long, and the strides of lines, of their elements and of the batch."""

    lines: int
    length: int
    batches: int
    step: int
    inner: int
    batch: int

    def pitch(self, itemsize: int) -> int:
        """Elements from the start of a packed line to the next one's."""
        unit = LINE_BYTES // itemsize
        return -(-self.length // unit) * unit

    def elements(self, itemsize: int) -> int:
        return self.batches * self.lines * self.pitch(itemsize)


@flyc.kernel
def pack_kernel(
    source: fx.Pointer,
    target: fx.Pointer,
    across: fx.Constexpr[bool],
    lines: fx.Int32,
    length: fx.Int32,
    step: fx.Int64,
    inner: fx.Int64,
    batch: fx.Int64,
    pitch: fx.Int64,
):
    tid = fx.thread_idx.x
    shared = fx.SharedAllocator().allocate(fx.Array[source.dtype, TILE * (TILE + PAD), 16]).peek()
    tile = shared.view(fx.make_layout((TILE, TILE), (TILE + PAD, 1)))
    columns = fx.ceildiv(length, TILE)
    per_batch = columns * fx.ceildiv(lines, TILE)
    which, at = fx.block_idx.x // per_batch, fx.block_idx.x % per_batch
    top, left = at // columns * TILE, at % columns * TILE
    here = source + fx.Int64(which) * batch
    for i in fx.range_constexpr(TILE * TILE // THREADS):
        far, near = tid // TILE + i * (THREADS // TILE), tid % TILE
        r, k = (near, far) if across else (far, near)
        if (top + r < lines) & (left + k < length):
            tile[r, k] = here[fx.Int64(top + r) * step + fx.Int64(left + k) * inner]
    fx.barrier()
    there = target + fx.Int64(which) * lines * pitch
    for i in fx.range_constexpr(TILE * TILE // THREADS):
        r, k = tid // TILE + i * (THREADS // TILE), tid % TILE
        if (top + r < lines) & (left + k < length):
            there[fx.Int64(top + r) * pitch + (left + k)] = tile[r, k]


@flyc.jit
def pack(
    source: fx.Tensor,
    target: fx.Tensor,
    lines: fx.Int32,
    length: fx.Int32,
    batches: fx.Int32,
    step: fx.Int64,
    inner: fx.Int64,
    batch: fx.Int64,
    pitch: fx.Int64,
    across: fx.Constexpr[bool],
    stream: fx.Stream = fx.Stream(None),
):
    """`target[b, l, i] = source[b * batch + l * step + i * inner]`; `across` reads neighbouring lines together."""
    blocks = fx.ceildiv(lines, TILE) * fx.ceildiv(length, TILE) * batches
    pack_kernel(
        fx.get_iter(source), fx.get_iter(target), across, lines, length, step, inner, batch, pitch
    ).launch(grid=blocks, block=THREADS, stream=stream)  # fmt: skip


__all__ = ["Packing"]
