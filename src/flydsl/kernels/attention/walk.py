"""Which tile a block of a Hopper attention has next, what keys count for it, and which of them must be masked."""

from __future__ import annotations

from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from .plan import EQUAL
from .tile import Form, Tile


class Numbers(NamedTuple):
    """What a launch is told in numbers."""

    queries: fx.Int32
    keys: fx.Int32
    heads: fx.Int32
    group: fx.Int32
    """Heads of queries for a head of keys."""
    batches: fx.Int32
    together: fx.Int32
    """Heads whose tiles are walked together, so that their keys stay in L2."""
    right: fx.Int32
    """A query at the end of the keys sees so many keys behind it; 0 if causal."""
    left: fx.Int32
    """And so many in front of it."""
    factor: fx.Float32
    """Of scores in front of exp2."""
    inner: fx.Float32
    """Of scores in front of tanh, where they are capped."""
    out_row: fx.Int64
    out_head: fx.Int64
    out_batch: fx.Int64
    lse_head: fx.Int64
    lse_batch: fx.Int64
    splits: fx.Int32
    """Parts of the keys, each with a result of its own; two numbers where lengths decide, see `picked`."""
    out_split: fx.Int64
    lse_split: fx.Int64
    page: fx.Int32
    """Keys of a page."""
    table_row: fx.Int32
    value_steps: fx.Int32
    """Steps of all sequences, of a head of turned values."""


class Whole(NamedTuple):
    """The result and its strides, for launches that find out whether keys are in one part."""

    out: fx.Pointer
    row: fx.Int64
    head: fx.Int64
    batch: fx.Int64


class Places(NamedTuple):
    """Factors of fp8 from sequence to sequence and from head to head; `share` heads of queries have one."""

    batch_q: fx.Int32
    head_q: fx.Int32
    share: fx.Int32
    batch_k: fx.Int32
    head_k: fx.Int32
    batch_v: fx.Int32
    head_v: fx.Int32


class Lengths(NamedTuple):
    """Where sequences are that differ in length: their first rows, or how many keys there are."""

    cu_q: fx.Pointer | None
    cu_k: fx.Pointer | None
    used_k: fx.Pointer | None


class Work(NamedTuple):
    """A tile: which rows of queries, of which head; and the sequence it is in."""

    block: fx.Int32
    head: fx.Int32
    batch: fx.Int32
    queries: fx.Int32
    keys: fx.Int32
    first_query: fx.Int32
    first_key: fx.Int32
    split: fx.Int32


def pointer_of(t: fx.Tensor | None) -> fx.Pointer | None:
    """Where an array starts that may be missing."""
    return None if t is None else fx.get_iter(t)


ABOUT_EQUAL = 0.875
"""The mean of lengths, of the longest, from which on they are taken for equal ones."""


@flyc.jit
def picked(lengths: Lengths, batches: fx.Int32, both: fx.Int32):
    """The number of parts for lengths that nobody knew when the launch was recorded in a graph."""
    lane = fx.lane_id()
    total, top = fx.Float32(0.0), fx.Float32(0.0)
    for batch in range(lane, batches, 32):
        keys, _ = of_batch(lengths.cu_k, batch, fx.Int32(0))
        if fx.const_expr(lengths.used_k is not None):
            keys = fx.Int32(cast("fx.Pointer", lengths.used_k)[batch])
        total, top = total + fx.Float32(keys), fx.maximumf(top, fx.Float32(keys))
    for i in fx.range_constexpr(5):
        total, top = total + fx.shuffle_xor(total, 1 << i, 32), fx.maximumf(top, fx.shuffle_xor(top, 1 << i, 32))
    equal = total >= top * fx.Float32(batches) * ABOUT_EQUAL
    return fx.nvgpu.uniform(equal.select(both // EQUAL, both % EQUAL))


def position(at: fx.Int32, blocks: fx.Int32, numbers: Numbers, lengths: Lengths) -> Work:
    """Heads in groups that L2 has room for; in a group the last rows of all heads come first, they have most keys."""
    which = at // (numbers.together * blocks)
    inside = at - which * (numbers.together * blocks)
    left = numbers.heads * numbers.batches * numbers.splits - which * numbers.together
    heads = fx.min(numbers.together, left)
    block = inside // heads
    head = which * numbers.together + (inside - block * heads)
    # Heads that lie next to each other in memory are read at the same time, whatever the part.
    lines = numbers.heads * numbers.batches
    split = head // lines
    whole = head - split * lines
    batch = whole // numbers.heads
    queries, first_query = of_batch(lengths.cu_q, batch, numbers.queries)
    keys, first_key = of_batch(lengths.cu_k, batch, numbers.keys)
    if lengths.used_k is not None:
        keys = fx.Int32(lengths.used_k[batch])
    block, head = blocks - 1 - block, whole - batch * numbers.heads
    return Work(block, head, batch, queries, keys, first_query, first_key, split)


def of_batch(cu: fx.Pointer | None, batch: fx.Int32, count: fx.Int32) -> tuple[fx.Int32, fx.Int32]:
    """A sequence's length and first row."""
    if cu is None:
        return count, fx.Int32(0)
    first = fx.Int32(cu[batch])
    return fx.Int32(cu[batch + 1]) - first, first


def steps_of(work: Work, tile: Tile, form: Form, numbers: Numbers) -> tuple[fx.Int32, fx.Int32]:
    """The first step of keys that counts for a tile, and the one behind the last."""
    shift = work.keys - work.queries
    end, begin = work.keys, fx.Int32(0)
    if form.right:
        end = fx.max(fx.min(end, (work.block + 1) * tile.m + shift + numbers.right), 0)
    if form.left:
        begin = fx.max(work.block * tile.m + shift - numbers.left, 0) // tile.n
    high = fx.ceildiv(end, tile.n)
    if form.packed_q:
        # Tiles are counted for the longest sequence.
        high = (work.block * tile.m < work.queries).select(high, fx.Int32(0))
    if form.split:
        # A part of the steps, perhaps none.
        count = fx.max(high - begin, 0)
        high = begin + count * (work.split + 1) // numbers.splits
        begin = begin + count * work.split // numbers.splits
    return begin, high


def masked_steps(
    work: Work, tile: Tile, form: Form, numbers: Numbers, low: fx.Int32, high: fx.Int32
) -> tuple[fx.Int32, fx.Int32]:
    """Steps from the first of these to the end, and below the second, have keys that some row must not see."""
    shift = work.keys - work.queries
    clear, always = high - 1, low
    if form.right:
        clear = fx.min(clear, fx.max(work.block * tile.m + shift + numbers.right + 1, 0) // tile.n)
    if form.left:
        # Keys from the last row's first one on are seen by all rows.
        last = fx.max((work.block + 1) * tile.m - 1 + shift - numbers.left, 0)
        always = fx.min(fx.ceildiv(last, tile.n), high)
        clear = fx.max(clear, always)
    return fx.max(clear, low), always


class Turns(NamedTuple):
    """How consumers learn which tile is next: two places, with barriers for written and for read."""

    full: fx.nvgpu.MBarrier
    empty: fx.nvgpu.MBarrier
    tiles: fx.Pointer


def publish(turns: Turns, count: fx.Int32, at: fx.Int32) -> None:
    slot, phase = count % 2, count // 2 % 2
    turns.empty[slot].wait(phase ^ 1)
    turns.tiles[slot] = at
    turns.full[slot].arrive()


def receive(turns: Turns, count: fx.Int32) -> fx.Int32:
    slot, phase = count % 2, count // 2 % 2
    turns.full[slot].wait(phase)
    at = fx.Int32(turns.tiles[slot])
    turns.empty[slot].arrive()
    return fx.nvgpu.uniform(at)


__all__ = [
    "Lengths", "Numbers", "Places", "Turns", "Work", "masked_steps", "of_batch", "pointer_of",
    "position", "publish", "receive", "steps_of",
]  # fmt: skip
