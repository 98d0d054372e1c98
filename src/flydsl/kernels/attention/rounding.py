"""What comes in front of the gradients' kernel on Hopper and behind it: a pass over queries, and one over the sums."""

from __future__ import annotations

from typing import cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from .softmax import LOG2E
from .tile import Sums
from .walk import of_batch

NOTHING = 1e30
"""The logarithm of a row that has no weights."""
UNIT = 16
"""Sums a thread rounds: eight neighbours of two rows, which lie together."""


def lanes_of(dv: int) -> int:
    """Threads of a row, whose parts are added in pairs."""
    return 1 << (dv // 8 - 1).bit_length()


@flyc.kernel
def sides_kernel(
    out: fx.Pointer,
    grad: fx.Pointer,
    lse: fx.Pointer,
    sides: fx.Pointer,
    sums: fx.Pointer,
    cu_q: fx.Pointer | None,
    form: fx.Constexpr[Sums],
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

    A thread has eight elements of a row, or none; they come in units of 16 bytes, where the result's are `form.wide`,
    too. Packed sequences have a line of blocks for each head; `queries` are the rows of all of them then, and `rows`
    those of the longest."""
    dv, m, each = form.dv, form.m, lanes_of(form.dv)
    lane = fx.thread_idx.x % each
    which = fx.block_idx.x * (128 // each) + fx.thread_idx.x // each
    line, row = which // long, which % long
    batch, head = line // heads, line % heads
    first, inside, known = fx.Int32(0), which < rows, row < queries
    if fx.const_expr(cu_q is not None):
        _, line, of_sequence = fx.block_idx
        count, first = of_batch(cu_q, of_sequence, queries)
        batch, head, row = fx.Int32(0), line, which
        inside, known = row < fx.ceildiv(count, m) * m, row < count
        which = line * long + (first // m + of_sequence) * m + row
    if fx.const_expr(each > dv // 8):
        known = known & (lane < dv // 8)
    total, height = fx.Float32(0.0), fx.Float32(NOTHING)
    if inside & known:
        at_out = out + (fx.Int64(batch) * batch_out + fx.Int64(first + row) * row_out + fx.Int64(head) * head_out)
        at_grad = grad + (fx.Int64(batch) * batch_grad + fx.Int64(first + row) * row_grad + fx.Int64(head) * head_grad)
        theirs = cast("fx.Vector", fx.nvgpu.load_global(at_grad + lane * 8, 8)).to(fx.Float32)
        if fx.const_expr(form.wide):
            mine = cast("fx.Vector", fx.nvgpu.load_global(at_out + lane * 8, 8)).to(fx.Float32)
        else:
            mine = fx.Vector.from_elements([fx.Float32(at_out[lane * 8 + i]) for i in range(8)], fx.Float32)
        for i in fx.range_constexpr(8):
            total = fx.fma(mine[i], theirs[i], total)
        found = fx.Float32(lse[fx.Int64(line) * fx.Int64(queries) + (first + row)])
        height = (found == float("-inf")).select(height, found * LOG2E)
    for i in fx.range_constexpr(each.bit_length() - 1):
        total = total + fx.shuffle_xor(total, 1 << i)
    if inside:
        # Neighbours write neighbouring units.
        units = form.room // 4
        zeros = fx.Vector.filled(4, 0.0, fx.Float32)
        for i in fx.range_constexpr(units // each):
            fx.nvgpu.store_global(sums + (fx.Int64(which) * form.room + (lane + each * i) * 4), zeros)
        if fx.const_expr(units % each):
            if lane < units % each:
                fx.nvgpu.store_global(sums + (fx.Int64(which) * form.room + (lane + units // each * each) * 4), zeros)
        if lane == 0:
            place = fx.Int64(line) * (2 * fx.Int64(long)) + (row if cu_q is None else which - line * long)
            sides[place] = height
            sides[place + long] = total


@flyc.kernel
def round_kernel(
    sums: fx.Pointer,
    out: fx.Pointer,
    cu_q: fx.Pointer | None,
    form: fx.Constexpr[Sums],
    units: fx.Int64,
    tiles: fx.Int32,
    queries: fx.Int32,
    heads: fx.Int32,
    scale: fx.Float32,
):
    """Sums times the scale, in the type of the queries and in order.

    Of a step's part, 64 queries and so many columns, eight columns follow each other; of these, the threads of a
    product, with two neighbours of each of two rows. `queries` are the rows of all sequences where they are packed, and
    `tiles` the steps of all of them; `units` are those of the longest then. Columns behind
    `form.d` are nobody's.
    """
    d, m, columns, whole = form.d, form.m, form.columns, form.whole
    at = fx.Int64(fx.block_idx.x) * 256 + fx.thread_idx.x
    _, of_head, of_sequence = fx.block_idx
    count, first = of_batch(cu_q, of_sequence, queries)
    start = fx.Int64(0)
    if fx.const_expr(cu_q is not None):
        units = fx.Int64(fx.ceildiv(count, m) * m) * (form.room // UNIT)
        start = (fx.Int64(of_head) * fx.Int64(tiles) + (first // m + of_sequence)) * 2
    if at < units:
        each = 32 * (columns // 8)
        which, inside = at // each, fx.Int32(at % each)
        thread, column = inside % 32 * 4, inside // 32 * 8
        if fx.const_expr(columns % 16 == 0):
            # Neighbouring threads write neighbouring columns.
            pair, rest = inside % 2, inside // 2
            thread, column = rest % 32 * 4, (rest // 32 * 2 + pair) * 8
        source = sums + ((start + which) * (64 * columns) + (column * 64 + thread * 4))
        values = cast("fx.Vector", fx.nvgpu.load_global(source, UNIT))
        part, step = fx.Int32(which % 2), which // 2
        tile, line = fx.Int32(step % fx.Int64(tiles)), fx.Int32(step // fx.Int64(tiles))
        row = tile * m + thread // 32 * 16 + thread % 32 // 4
        if fx.const_expr(m == 128):
            row = row + part * 64
        else:
            if fx.const_expr(whole == columns):
                column = column + part * columns
            else:
                # Boxes behind the middle one, and half of that.
                column = column + part * (column < whole).select(fx.Int32(d - whole), fx.Int32(columns - whole))
        batch, head = line // heads, line % heads
        origin = fx.Int64(batch) * fx.Int64(queries)
        if fx.const_expr(cu_q is not None):
            origin, head = fx.Int64(first), of_head
        for r in fx.range_constexpr(2):
            stays = row + 8 * r < count
            if fx.const_expr(form.room > d):
                stays = stays & (column < d)
            if stays:
                mine = values.shuffle(values, [4 * t + 2 * r + e for t in range(4) for e in range(2)])
                place = ((origin + (row + 8 * r)) * fx.Int64(heads) + head) * d + column
                fx.nvgpu.store_global(out + place, (mine * scale).to(out.dtype))


__all__ = ["UNIT", "lanes_of", "round_kernel", "sides_kernel"]
