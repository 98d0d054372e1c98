"""Weights into packed blocks and out of them: in the order `mma.sync` and `wgmma` take them from registers.

A block has 64 columns of the matrix and 128 of its rows. Its integers come first, as lanes of a warp multiply them: 16
columns after the other, for each lane a unit of 16 bytes at a time. Behind them are its scales, column by column.
"""

from __future__ import annotations

from typing import NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx

from .few.slim import DEEP, HIGH, Weights

THREADS = 128
TOGETHER = 8
"""Elements along K that a thread unpacks."""


class Source(NamedTuple):
    """A matrix (k, n) in memory and its strides."""

    k: fx.Int32
    n: fx.Int32
    step: fx.Int64
    column: fx.Int64


@flyc.kernel
def scale_kernel(
    w: fx.Pointer, scales: fx.Pointer, group: fx.Constexpr[int], largest: fx.Constexpr[int], given: Source
):
    """One scale: the largest element of a group becomes the largest integer."""
    at = fx.block_idx.x * THREADS + fx.thread_idx.x
    column, row = at % given.n, at // given.n * group
    if row < given.k:
        most = fx.Float32(0.0)
        for i in range(fx.min(given.k - row, group)):
            value = fx.Float32(w[fx.Int64(row + i) * given.step + fx.Int64(column) * given.column])
            most = fx.maximumf(most, fx.absf(value))
        scale = scales.dtype(most * (1.0 / largest))
        # Nothing to go by: zeros, or numbers that the scale's type is too coarse for.
        scales[at] = (fx.Float32(scale) == 0.0).select(scales.dtype(1.0), scale)


@flyc.kernel
def pack_kernel(
    w: fx.Pointer,
    scales: fx.Pointer,
    packed: fx.Pointer,
    weights: fx.Constexpr[Weights],
    words: fx.Int64,
    given: Source,
):
    """One word of a block: integers, or scales."""
    at = fx.Int64(fx.block_idx.x) * THREADS + fx.thread_idx.x
    if at < words:
        per = weights.block_bytes // 4
        block, word = at // per, fx.Int32(at % per)
        deep = fx.ceildiv(given.k, DEEP)
        top, left = fx.Int32(block % deep) * DEEP, fx.Int32(block // deep) * HIGH
        value = fx.Int32(0)
        if word < HIGH * DEEP * weights.bits // 32:
            value = integers(w, scales, weights, given, top, left, word)
        else:
            value = two_scales(scales, weights, given, top, left, word - HIGH * DEEP * weights.bits // 32)
        packed[at] = value


class Spot(NamedTuple):
    """Where the numbers of a word are: its first row along K and column in the block."""

    row: fx.Int32
    column: fx.Int32


def spot(word: fx.Int32, bits: int) -> Spot:
    """Of words of four: 512 bytes for all lanes, that often for 16 columns."""
    inside, unit = word % 4, word // 4
    lane, line = unit % 32, unit // 32
    per = bits // 2
    tile, part = line // per, line % per
    row = part * 64 + inside * 16 if bits == 4 else part * 32 + inside * 8
    return Spot(row + lane % 4 * 2, tile * 16 + lane // 4)


@flyc.jit
def integers(
    w: fx.Pointer,
    scales: fx.Pointer,
    weights: Weights,
    given: Source,
    top: fx.Int32,
    left: fx.Int32,
    word: fx.Int32,
):
    """Eight of 4 bits or four of 8 bits; zeros where the matrix has nothing."""
    bits = weights.bits
    here = spot(word, bits)
    value = fx.Int32(0)
    for i in fx.range_constexpr(32 // bits):
        # Pairs along K are 16 bits apart. Between them are the columns eight further on, then what is eight further on
        # along K.
        if fx.const_expr(bits == 4):
            pair, other, second = i % 4 // 2, i % 2, i // 4
        else:
            pair, other, second = 0, i % 2, i // 2
        row, column = top + here.row + (8 * pair + second), left + here.column + 8 * other
        number = fx.Int32(0)
        if (row < given.k) & (column < given.n):
            place = fx.Int64(row) * given.step + fx.Int64(column) * given.column
            number = quantized(w, place, scales, fx.Int64(row // weights.group) * given.n + column, bits)
        value = value | ((number & ((1 << bits) - 1)) << (bits * i))
    return value


def quantized(w: fx.Pointer, at: fx.Int64, scales: fx.Pointer, scale: fx.Int64, bits: int) -> fx.Int32:
    if w.dtype is fx.Int8:
        return fx.Int32(w[at])
    largest = (1 << (bits - 1)) - 1
    value = fx.roundeven(fx.Float32(w[at]) / fx.Float32(scales[scale]))
    return fx.Int32(fx.minimumf(fx.maximumf(value, -largest - 1.0), float(largest)))


@flyc.jit
def two_scales(scales: fx.Pointer, weights: Weights, given: Source, top: fx.Int32, left: fx.Int32, word: fx.Int32):
    """The scales in a word: one of 32 bits or two of 16."""
    count = 32 // scales.dtype.width
    found = fx.make_rmem_tensor(fx.make_layout(count, 1), scales.dtype)
    for i in fx.range_constexpr(count):
        at = word * count + i
        row, column = top + at // HIGH * weights.group, left + at % HIGH
        value = scales.dtype(1.0)
        if (row < given.k) & (column < given.n):
            value = scales[fx.Int64(row // weights.group) * given.n + column]
        found[i] = value
    return found.load().bitcast(fx.Int32)[0]


@flyc.kernel
def unpack_kernel(
    packed: fx.Pointer, out: fx.Pointer, weights: fx.Constexpr[Weights], lines: fx.Int32, pitch: fx.Int64, given: Source
):
    """Eight integers along K of a column, times their scale."""
    at = fx.Int64(fx.block_idx.x) * THREADS + fx.thread_idx.x
    column, row = fx.Int32(at // lines), fx.Int32(at % lines) * TOGETHER
    if column < given.n:
        bits = weights.bits
        deep = fx.ceildiv(given.k, DEEP)
        block = fx.Int64(column // HIGH) * deep + row // DEEP
        here = packed + block * (weights.block_bytes // 4)
        scale_type = {"float16": fx.Float16, "bfloat16": fx.BFloat16, "float32": fx.Float32}[weights.scale]
        scales = fx.recast_iter(scale_type, here + HIGH * DEEP * bits // 32)
        inside = row % DEEP
        scale = fx.Float32(scales[inside // weights.group % weights.groups * HIGH + column % HIGH])
        place = out + (fx.Int64(column) * pitch + row)
        for i in fx.range_constexpr(TOGETHER):
            if row + i < given.k:
                number = integer_at(here, bits, inside, i, column % HIGH)
                place[i] = out.dtype(fx.Float32(number) * scale)


def integer_at(here: fx.Pointer, bits: int, row: fx.Int32, i: int, column: fx.Int32) -> fx.Int32:
    """The integer `i` rows behind `row`, a multiple of eight, of a block's column."""
    per = 256 // bits
    unit = (column // 16 * (bits // 2) + row // per) * 32 + column % 8 * 4 + i // 2
    other, half = column // 8 % 2, row % 16 // 8
    if bits == 4:
        word, place = row % per // 16, 4 * (2 * half + other + 4 * (i % 2))
    else:
        word, place = row % per // 8, 8 * (other + 2 * (i % 2))
    return (here[unit * 4 + word] << (32 - bits - place)) >> (32 - bits)


@flyc.jit
def find_scales(
    w: fx.Tensor,
    scales: fx.Tensor,
    k: fx.Int32,
    n: fx.Int32,
    step: fx.Int64,
    column: fx.Int64,
    group: fx.Constexpr[int],
    largest: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):
    """Scales (K / group, N), rows in one piece, of a matrix (K, N)."""
    blocks = fx.ceildiv(fx.ceildiv(k, group) * n, THREADS)
    scale_kernel(fx.get_iter(w), fx.get_iter(scales), group, largest, Source(k, n, step, column)).launch(
        grid=blocks, block=THREADS, stream=stream
    )


@flyc.jit
def pack_weight(
    w: fx.Tensor,
    scales: fx.Tensor,
    packed: fx.Tensor,
    k: fx.Int32,
    n: fx.Int32,
    step: fx.Int64,
    column: fx.Int64,
    weights: fx.Constexpr[Weights],
    stream: fx.Stream = fx.Stream(None),
):
    """A matrix (K, N) of floats over their scales, or of integers, in packed blocks."""
    words = fx.Int64(fx.ceildiv(k, DEEP)) * fx.ceildiv(n, HIGH) * (weights.block_bytes // 4)
    pack_kernel(
        fx.get_iter(w), fx.get_iter(scales), fx.get_iter(packed), weights, words, Source(k, n, step, column)
    ).launch(grid=fx.Int32((words + (THREADS - 1)) // THREADS), block=THREADS, stream=stream)


@flyc.jit
def unpack_weight(
    packed: fx.Tensor,
    out: fx.Tensor,
    k: fx.Int32,
    n: fx.Int32,
    pitch: fx.Int64,
    weights: fx.Constexpr[Weights],
    stream: fx.Stream = fx.Stream(None),
):
    """The weights as floats (N, K), with `pitch` from one column of the matrix to the next."""
    lines = fx.ceildiv(k, TOGETHER)
    blocks = (fx.Int64(lines) * n + (THREADS - 1)) // THREADS
    unpack_kernel(
        fx.get_iter(packed), fx.get_iter(out), weights, lines, pitch, Source(k, n, fx.Int64(1), pitch)
    ).launch(grid=fx.Int32(blocks), block=THREADS, stream=stream)
