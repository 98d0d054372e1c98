"""How stages of a Hopper product are filled: by the copy engine, or by the threads of a warpgroup.

The engine asks L2 for lines of 128 bytes. Where rows start anywhere in lines, each row of a step is two of them;
threads copy 16 bytes each, and L2 gives the sectors of 32 bytes that they touch.
"""

from __future__ import annotations

from typing import NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx

from .tile import LINE, span


class Matrix(NamedTuple):
    """An operand as threads read it: rows of contiguous k, `step` elements apart, and `batch` between matrices."""

    at: fx.Pointer
    step: fx.Int64
    batch: fx.Int64


class Matrices(NamedTuple):
    x: Matrix
    y: Matrix


UNIT = 8
"""Elements of 16 bits that a thread copies at a time."""
UNITS = LINE // 16
"""Of a row of a stage."""


@flyc.jit
def fill(
    x: Matrix,
    smem: fx.Pointer,
    row: fx.Int32,
    total: fx.Int32,
    depth: fx.Int32,
    k: fx.Int32,
    batch: fx.Int32,
    rows: int,
):
    """Rows of a step to a stage, swizzled as the engine does it; zeros where the matrix has none. By 128 threads."""
    tid = fx.thread_idx.x
    mine, unit = tid // UNITS, tid % UNITS
    atom = fx.make_copy_atom(fx.nvgpu.CpAsync(128, "cg", zero_fill=True), x.at.dtype)
    one = fx.make_layout(UNIT, 1)
    # Rows are whole units.
    deep = depth + unit * UNIT < k
    source = x.at + (fx.Int64(batch) * x.batch + fx.Int64(row + mine) * x.step + (depth + unit * UNIT))
    target = smem + (mine * (UNIT * UNITS) + (unit ^ (mine % 8)) * UNIT)
    each = 128 // UNITS
    for i in fx.range_constexpr(-(-rows // each)):
        there = deep & (row + mine + i * each < total)
        to = fx.make_view(target + i * (each * UNIT * UNITS), one)
        if fx.const_expr((i + 1) * each <= rows):
            fx.copy(atom, fx.make_view(source, one), to, valid=there.select(fx.Int32(UNIT), 0))
        else:
            if mine + i * each < rows:
                fx.copy(atom, fx.make_view(source, one), to, valid=there.select(fx.Int32(UNIT), 0))
        source = source + x.step * each


@flyc.jit
def ask_early(
    x: Matrix,
    row: fx.Int32,
    total: fx.Int32,
    depth: fx.Int32,
    k: fx.Int32,
    batch: fx.Int32,
    rows: int,
    steps: int,
    sharers: int,
    place: fx.Int32,
):
    """Rows of the first steps to L2, each in one piece; of rows that a cluster shares, this block's. By 128 threads."""
    nbytes = fx.min((k - depth) * (x.at.dtype.width // 8), steps * LINE) // 16 * 16
    for i in range(fx.thread_idx.x, rows // sharers, 128):
        at = row + i * sharers + place if sharers > 1 else row + i
        if (at < total) & (nbytes > 0):
            source = x.at + (fx.Int64(batch) * x.batch + fx.Int64(at) * x.step + depth)
            fx.nvgpu.bulk_prefetch(source, nbytes=nbytes)


@flyc.jit
def clear_rows(base: fx.Pointer, stages: fx.Int32, rows: int, first: int, member: fx.Int32, members: int):
    """Zeros from row `first` on, in the first `stages` stages of an operand."""
    each = (rows - first) * UNITS
    zero = fx.make_rmem_tensor(fx.make_layout(4, 1), fx.Int32)
    zero.fill(0)
    words = fx.recast_iter(fx.Int32, base)
    unit = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Int32)
    if fx.const_expr(each > 0):
        for i in range(member, stages * each, members):
            at = i // each * (rows * (LINE // 4)) + (first * UNITS + i % each) * 4
            fx.copy_atom_call(unit, zero, fx.make_view(words + at, fx.make_layout(4, 1)))


def fetch(
    load: fx.nvgpu.TmaAtom | None,
    smem: fx.Pointer,
    barrier: fx.nvgpu.MBarrier,
    row: fx.Int32,
    depth: fx.Int32,
    batch: fx.Int32,
    rows: int,
    major: str,
    cluster: int,
    place: fx.Int32,
    part: fx.Int32,
) -> None:
    """Rows of an operand to a stage; where a cluster shares them, this block's part of them to all."""
    assert load is not None
    line = rows // cluster if major == "k" else span(rows)
    elements = load.nbytes * 8 // load.width
    mask = None
    first = fx.Int32(0)
    if cluster > 1:
        mask = fx.Int32((1 << cluster) - 1) << (part * cluster)
        first = place * (rows // cluster // line)
    for i in range(rows // cluster // line):
        at = first + i
        load.load((row + at * line, depth, batch), smem + at * elements, barrier, multicast=mask)


def load_map(
    x: fx.Tensor,
    extents: tuple[fx.Int32, fx.Int32, fx.Int32],
    step: fx.Int64,
    batch: fx.Int64,
    rows: int,
    cluster: int,
    major: str,
    bk: int,
    l2_fetch: int,
) -> fx.nvgpu.TmaAtom:
    """The operand as (rows, k, batch) for the copy engine, in boxes of what one copy fetches."""
    box, strides = (rows // cluster, (step, 1, batch)) if major == "k" else (span(rows), (1, step, batch))
    width = LINE if major == "k" else 2 * box
    view = fx.make_view(fx.get_iter(x), fx.make_layout(extents, strides))
    return fx.nvgpu.make_tma_atom(fx.nvgpu.TMALoad(), view, None, (box, bk, 1), swizzle=width, l2_fetch=l2_fetch)


__all__ = ["Matrices", "Matrix", "ask_early", "clear_rows", "fetch", "fill", "load_map"]
