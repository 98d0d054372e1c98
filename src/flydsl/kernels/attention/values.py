"""Values of one byte as tensor cores take them: keys contiguous, step by step, and zeros behind the last one.

`wgmma` reads 8-bit operands along the summed direction only, and that of weights times values is the keys', which lie
apart in memory. A pass in front of the attention turns them. Since a sum has no order, it puts keys where the registers
of scores have them: what a thread computed is its part of the first operand, without a move. Of 16 keys the one of
place `4 q + 2 j + e` is key `8 j + 2 q + e`.
"""

from __future__ import annotations

from typing import cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from .tile import Turned
from .walk import Numbers, Work, of_batch, pointer_of

GROUP, COLUMNS = 16, 8
"""Keys and columns a thread turns: threads with neighbouring keys write neighbouring units of 16 bytes."""
THREADS = 64


def key_at(place: int) -> int:
    """Which of 16 keys lies at a place."""
    q, j, e = place // 4, place // 2 % 2, place % 2
    return 8 * j + 2 * q + e


def first_step(work: Work, n: int, numbers: Numbers, packed: bool) -> fx.Int32:
    """Where a sequence's steps start, in those of a head; packed ones share none."""
    if packed:
        return work.first_key // n + work.batch
    return work.batch * fx.ceildiv(numbers.keys, n)


def steps_of_head(keys: fx.Int32, rows: fx.Int32, batches: fx.Int32, n: int, packed: bool) -> fx.Int32:
    """Steps of all sequences. `keys` is the length of the longest, `rows` of all of them."""
    return rows // n + batches if packed else fx.ceildiv(keys, n) * batches


@flyc.kernel
def turn_kernel(
    v: fx.Pointer,
    out: fx.Pointer,
    cu_k: fx.Pointer | None,
    used_k: fx.Pointer | None,
    table: fx.Pointer | None,
    cut: fx.Constexpr[Turned],
    longest: fx.Int32,
    rows: fx.Int32,
    batches: fx.Int32,
    page: fx.Int32,
    table_row: fx.Int32,
    row_v: fx.Int64,
    head_v: fx.Int64,
    batch_v: fx.Int64,
):
    step, head, batch = fx.block_idx
    keys, first_key = of_batch(cu_k, batch, longest)
    if fx.const_expr(used_k is not None):
        keys = fx.Int32(cast("fx.Pointer", used_k)[batch])
    packed = cu_k is not None
    if (step * cut.n < keys) | (not packed):
        start = first_key // cut.n + batch if packed else batch * fx.ceildiv(longest, cut.n)
        line = head * steps_of_head(longest, rows, batches, cut.n, packed) + start + step
        base = out + fx.Int64(line) * (cut.n * cut.dv)
        groups, parts = cut.width // GROUP, cut.dv // COLUMNS
        for unit in range(fx.thread_idx.x, cut.n // GROUP * parts, THREADS):
            group, column, box = unit % groups, unit // groups % parts * COLUMNS, unit // (groups * parts)
            at = step * cut.n + box * cut.width + group * GROUP
            found: list[fx.Vector] = []
            for i in fx.range_constexpr(GROUP):
                value = fx.Vector.filled(COLUMNS, 0.0, v.dtype)
                if at + i < keys:
                    where, place = fx.Int32(0) if packed else batch, at + i
                    if fx.const_expr(table is not None):
                        which = place // page
                        where = fx.Int32(cast("fx.Pointer", table)[batch * table_row + which])
                        place = place - which * page
                    origin = fx.Int64(where) * batch_v + fx.Int64(first_key + place) * row_v + fx.Int64(head) * head_v
                    value = fx.nvgpu.load_global(v + (origin + column), COLUMNS)
                found.append(cast("fx.Vector", value))
            to = base + (box * (cut.dv * cut.width) + column * cut.width + group * GROUP)
            for c in fx.range_constexpr(COLUMNS):
                line_of_keys = [found[key_at(i)][c] for i in range(GROUP)]
                fx.nvgpu.store_global(to + c * cut.width, fx.Vector.from_elements(line_of_keys, v.dtype))


@flyc.jit
def turn_values(
    v: fx.Tensor,
    out: fx.Tensor,
    cu_k: fx.Tensor | None,
    used_k: fx.Tensor | None,
    table: fx.Tensor | None,
    longest: fx.Int32,
    rows: fx.Int32,
    batches: fx.Int32,
    kv_heads: fx.Int32,
    page: fx.Int32,
    table_row: fx.Int32,
    row_v: fx.Int64,
    head_v: fx.Int64,
    batch_v: fx.Int64,
    cut: fx.Constexpr[Turned],
    stream: fx.Stream = fx.Stream(None),
):
    """`out` is (kv heads, steps of all sequences, boxes of a step, dv, keys of a box)."""
    turn_kernel(
        fx.get_iter(v), fx.get_iter(out), pointer_of(cu_k), pointer_of(used_k), pointer_of(table), cut, longest, rows,
        batches, page, table_row, row_v, head_v, batch_v,
    ).launch(grid=(fx.ceildiv(longest, cut.n), kv_heads, batches), block=THREADS, stream=stream)  # fmt: skip


def fetch_turned(
    load: fx.nvgpu.TmaAtom, smem: fx.Pointer, barrier: fx.nvgpu.MBarrier, line: fx.Int32, n: int, dv: int, width: int
) -> None:
    """A step's values to shared memory, box by box."""
    boxes = n // width
    for i in range(boxes):
        load.load((line * boxes + i, 0, 0), smem + i * (dv * width), barrier)


__all__ = ["fetch_turned", "first_step", "key_at", "steps_of_head"]
