"""A matrix of any strides as rows in one piece that start at cache lines: what the copy engine takes.

A block moves a tile of 64 x 64 through shared memory, so that it reads along the direction that lies in one piece,
whichever that is, and writes along the rows. Behind the end of a row come zeros, up to 16 bytes at least.

For products of f32 on tensor cores, which read 11 bits of a number, each becomes three: along K lie the upper bits of
all, then (of the left operand) the lower bits, then the upper ones again; of the right operand the upper bits twice,
then the lower ones. Their product is that of upper bits, and of upper with lower ones, in one sum.
"""

from __future__ import annotations

from typing import NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx

TILE, THREADS, PAD = 64, 256, 2
LINE_BYTES = 128


PARTS = {"": 1, "left": 3, "right": 3}
"""What an element becomes, by name: how many."""


class Packing(NamedTuple):
    """Lines of a matrix: how many, how long, and the strides of lines, of their elements and of the batch."""

    lines: int
    length: int
    batches: int
    step: int
    inner: int
    batch: int
    parts: str = ""

    def pitch(self, itemsize: int) -> int:
        """Elements from the start of a packed line to the next one's."""
        unit = LINE_BYTES // itemsize
        return -(-self.length * PARTS[self.parts] // unit) * unit

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
    parts: fx.Constexpr[str],
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
        value = source.dtype(0)
        if (top + r < lines) & (left + k < length):
            value = here[fx.Int64(top + r) * step + fx.Int64(left + k) * inner]
        tile[r, k] = value
    fx.barrier()
    there = target + fx.Int64(which) * lines * pitch
    for i in fx.range_constexpr(TILE * TILE // THREADS):
        r, k = tid // TILE + i * (THREADS // TILE), tid % TILE
        # A line ends with zeros: what multiplies whole units of 16 bytes reads them.
        if (top + r < lines) & (left + k < (pitch if parts == "" else length)):
            place = there + (fx.Int64(top + r) * pitch + (left + k))
            if fx.const_expr(parts == ""):
                place[0] = tile[r, k]
            else:
                upper, finite, lower = in_parts(tile[r, k])
                second, third = (lower, finite) if parts == "left" else (finite, lower)
                place[0] = upper
                place[length] = second
                place[fx.Int64(length) * 2] = third


def in_parts(x: fx.Float32) -> tuple[fx.Float32, fx.Float32, fx.Float32]:
    """The upper 11 bits of a number, the same where it is finite and else 0, and the upper 11 bits of the rest.

    What is not finite has no rest, and meets the other operand once: infinity times a rest of 0 would be no number.
    """
    bits = x.bitcast(fx.Int32)
    ends = (bits & 0x7F800000) == 0x7F800000
    odd = ends & ((bits & 0x007FFFFF) != 0)
    near = rounded(bits)
    # The largest numbers would become infinite.
    near = ((near & 0x7F800000) == 0x7F800000).select(bits & -8192, near)
    finite = near.bitcast(fx.Float32)
    lower = rounded((x - finite).bitcast(fx.Int32)).bitcast(fx.Float32)
    zero = fx.Float32(0.0)
    upper = odd.select(fx.Float32(float("nan")), ends.select(x, finite))
    return upper, ends.select(zero, finite), ends.select(zero, lower)


def rounded(bits: fx.Int32) -> fx.Int32:
    """The nearest number of 11 bits, by its magnitude."""
    return (bits + 4096) & -8192


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
    parts: fx.Constexpr[str] = "",
    stream: fx.Stream = fx.Stream(None),
):
    """`target[b, l, i] = source[b * batch + l * step + i * inner]`; `across` reads neighbouring lines together.

    `parts`: "left" and "right" operands of three parts, one behind the other in a line.
    """
    blocks = fx.ceildiv(lines, TILE) * fx.ceildiv(length, TILE) * batches
    pack_kernel(
        fx.get_iter(source), fx.get_iter(target), across, lines, length, step, inner, batch, pitch, parts
    ).launch(grid=blocks, block=THREADS, stream=stream)  # fmt: skip


__all__ = ["PARTS", "Packing"]
