"""What comes in front of the gradients' kernel on Hopper and behind it: a pass over queries, and one over the sums."""

from __future__ import annotations

from typing import cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from .softmax import LOG2E

NOTHING = 1e30
"""The logarithm of a row that has no weights."""
UNIT = 16
"""Sums a thread rounds: eight neighbours of two rows, which lie together."""


def lanes_of(d: int) -> int:
    """Threads of a row, which add by exchanges: a power of two."""
    return 1 << (d // 8 - 1).bit_length()


@flyc.kernel
def sides_kernel(
    out: fx.Pointer,
    grad: fx.Pointer,
    lse: fx.Pointer,
    sides: fx.Pointer,
    sums: fx.Pointer,
    d: fx.Constexpr[int],
    room: fx.Constexpr[int],
    wide: fx.Constexpr[bool],
    queries: fx.Int32,
    heads: fx.Int32,
    long: fx.Int32,
    rows: fx.Int32,
    batch_out: fx.Int64,
    row_out: fx.Int64,
    head_out: fx.Int64,
    batch_grad: fx.Int64,
    row_grad: fx.Int64,
    head_grad: fx.Int64,
):
    """A row's logarithm, of base 2, the product of the result and its gradient, and `room` zeros to add to.

    A thread has eight of a row's `d` elements; they come in units of 16 bytes, where the result's are `wide`, too."""
    each = lanes_of(d)
    lane = fx.thread_idx.x % each
    which = fx.block_idx.x * (128 // each) + fx.thread_idx.x // each
    line, row = which // long, which % long
    batch, head = line // heads, line % heads
    total, height = fx.Float32(0.0), fx.Float32(NOTHING)
    if (which < rows) & (row < queries) & (lane * 8 < d):
        at_out = out + (fx.Int64(batch) * batch_out + fx.Int64(row) * row_out + fx.Int64(head) * head_out)
        at_grad = grad + (fx.Int64(batch) * batch_grad + fx.Int64(row) * row_grad + fx.Int64(head) * head_grad)
        theirs = cast("fx.Vector", fx.nvgpu.load_global(at_grad + lane * 8, 8)).to(fx.Float32)
        if fx.const_expr(wide):
            mine = cast("fx.Vector", fx.nvgpu.load_global(at_out + lane * 8, 8)).to(fx.Float32)
        else:
            mine = fx.Vector.from_elements([fx.Float32(at_out[lane * 8 + i]) for i in range(8)], fx.Float32)
        for i in fx.range_constexpr(8):
            total = fx.fma(mine[i], theirs[i], total)
        found = fx.Float32(lse[fx.Int64(line) * fx.Int64(queries) + row])
        height = (found == float("-inf")).select(height, found * LOG2E)
    for i in fx.range_constexpr(each.bit_length() - 1):
        total = total + fx.shuffle_xor(total, 1 << i)
    if which < rows:
        zeros = fx.Vector.filled(4, 0.0, fx.Float32)
        for i in fx.range_constexpr(0, room // 4, each):
            # Neighbours write neighbouring units.
            if lane + i < room // 4:
                fx.nvgpu.store_global(sums + (fx.Int64(which) * room + (lane + i) * 4), zeros)
        if lane == 0:
            place = fx.Int64(line) * (2 * fx.Int64(long)) + row
            sides[place] = height
            sides[place + long] = total


@flyc.kernel
def round_kernel(
    sums: fx.Pointer,
    out: fx.Pointer,
    d: fx.Constexpr[int],
    m: fx.Constexpr[int],
    columns: fx.Constexpr[int],
    units: fx.Int64,
    tiles: fx.Int32,
    queries: fx.Int32,
    heads: fx.Int32,
    scale: fx.Float32,
):
    """Sums times the scale, in the type of the queries and in order.

    Of a step's part, 64 queries and so many columns, eight columns follow each other; of these, the threads of a
    product, with two neighbours of each of two rows. Columns behind `d` are nobody's.
    """
    at = fx.Int64(fx.block_idx.x) * 256 + fx.thread_idx.x
    if at < units:
        # Neighbouring threads write neighbouring columns.
        each = 32 * (columns // 8)
        which, inside = at // each, fx.Int32(at % each)
        pair, rest = inside % 2, inside // 2
        thread, column = rest % 32 * 4, (rest // 32 * 2 + pair) * 8
        source = sums + (which * (64 * columns) + (column * 64 + thread * 4))
        values = cast("fx.Vector", fx.nvgpu.load_global(source, UNIT))
        part, step = fx.Int32(which % 2), which // 2
        tile, line = fx.Int32(step % fx.Int64(tiles)), fx.Int32(step // fx.Int64(tiles))
        row = tile * m + thread // 32 * 16 + thread % 32 // 4
        if fx.const_expr(m == 128):
            row = row + part * 64
        else:
            column = column + part * columns
        batch, head = line // heads, line % heads
        for r in fx.range_constexpr(2):
            if (row + 8 * r < queries) & (column < d):
                mine = values.shuffle(values, [4 * t + 2 * r + e for t in range(4) for e in range(2)])
                place = ((fx.Int64(batch) * fx.Int64(queries) + (row + 8 * r)) * fx.Int64(heads) + head) * d + column
                fx.nvgpu.store_global(out + place, (mine * scale).to(out.dtype))


__all__ = ["UNIT", "lanes_of", "round_kernel", "sides_kernel"]
