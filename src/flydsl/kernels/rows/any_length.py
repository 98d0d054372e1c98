"""Rows whose length is known only at run time: softmax, RMS norm, layer norm.

One kernel serves all row lengths. A block reads its row in 16-byte units if it finds that the rows at hand consist of
them, and element by element otherwise. Units it keeps in shared memory, on NVIDIA GPUs and where there is room for all
of them; else every pass reads the row again. There the number of threads goes by the length too. Sums and statistics
are f32.
"""

from __future__ import annotations

from collections.abc import Callable

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.layout import flatten

THREADS = 256
MOST_WARPS = 16
LOG2E = 1.4426950408889634


def unit_of(*tensors: fx.Tensor) -> int:
    """Elements of a 16-byte unit, if the tensors can have such units at all; else 1."""
    width = tensors[0].dtype.width
    for t in tensors:
        strides = flatten(t.data.layout.stride)
        if t.dtype.width != width or type(strides[-1]) is not int or strides[-1] != 1:
            return 1
    return 128 // width


def line(t: fx.Tensor, row: fx.Int32) -> fx.Tensor:
    """A row of a matrix, or a vector as it is."""
    return t[row, None] if t.rank == 2 else t


def are_units(tensors: tuple[fx.Tensor, ...], row: fx.Int32, n: fx.Int32, unit: int) -> fx.Boolean:
    """Whether the rows at hand consist of units."""
    whole = n % unit == 0
    for t in tensors:
        whole = whole & (fx.ptrtoint(fx.get_iter(line(t, row))) % 16 == 0)
    return whole


def units(t: fx.Tensor, row: fx.Int32, n: fx.Int32, unit: int) -> fx.Tensor:
    """A row as (unit, number); with units of 1 as it is."""
    found = line(t, row)
    if unit == 1:
        return found
    type_ = fx.PointerType.get(t.dtype.ir_type, fx.AddressSpace.Global, 16)
    start = fx.inttoptr(type_, fx.ptrtoint(fx.get_iter(found)))
    return fx.make_view(start, fx.make_layout((unit, n // unit), (1, unit)))


@flyc.jit
def as_found(whole: fx.Boolean, n: fx.Int32, unit: int, room: int, work: Callable[[int, bool], None]):
    """`work(unit, keep)` for the rows at hand; `room` is for how many elements there is shared memory."""
    if fx.const_expr(room == 0):
        if whole:
            work(unit, False)
        else:
            work(1, False)
    elif whole & (n <= room):
        work(unit, True)
    elif whole:
        work(unit, False)
    else:
        work(1, False)


def kept(xs: fx.Tensor, first: fx.Int32, count: fx.Int32) -> fx.Tensor:
    """The units of a row, copied into shared memory. A thread reads back only what it has fetched itself."""
    slots = fx.make_view(fx.get_dyn_shared(xs.dtype), fx.make_layout(xs.shape, xs.stride))
    _fetch(xs, slots, first, count)
    fx.nvgpu.cp_async_wait_all()
    return slots


@flyc.jit
def _fetch(xs: fx.Tensor, slots: fx.Tensor, first: fx.Int32, count: fx.Int32):
    atom = fx.make_copy_atom(fx.nvgpu.CpAsync128b(), xs.dtype)
    for c in range(first, count, fx.block_dim.x):
        fx.copy_atom_call(atom, xs[None, c], slots[None, c])


def take(row: fx.Tensor, at: fx.Int32, unit: int) -> fx.Float32 | fx.Vector:
    """A unit as f32, a scalar or a vector."""
    return fx.Float32(row[at]) if unit == 1 else row[None, at].load().to(fx.Float32)


def put(row: fx.Tensor, at: fx.Int32, unit: int, value: fx.Float32 | fx.Vector) -> None:
    """Store a unit."""
    if unit == 1:
        row[at] = row.dtype(value)
    else:
        row[None, at].store(value.to(row.dtype))


def filled(unit: int, value: float) -> fx.Float32 | fx.Vector:
    """Where a thread collects: one number per place of a unit."""
    return fx.Float32(value) if unit == 1 else fx.full((unit,), value, fx.Float32)


def slots(count: int) -> list[fx.Array]:
    """Shared memory for so many folds, a place for each warp."""
    shared = fx.SharedAllocator()
    return [shared.allocate(fx.Array[fx.Float32, MOST_WARPS, 16]).peek() for _ in range(count)]


@flyc.jit
def fold(value: fx.Float32 | fx.Vector, op: fx.ReductionOp, places: fx.Array, nothing: float) -> fx.Float32:
    """The values of all threads combined, however many there are; vectors are folded first."""
    mine = fx.coop.warp_reduce(value if isinstance(value, fx.Numeric) else value.reduce(op), op)
    lanes = fx.num_warp_threads()
    lane, warp, warps = fx.thread_idx.x % lanes, fx.thread_idx.x // lanes, fx.block_dim.x // lanes
    if lane == 0:
        places[warp] = mine
    fx.barrier()
    found = places[fx.min(lane, warps - 1)]
    return fx.coop.warp_reduce((lane < warps).select(found, fx.Float32(nothing)), op)


@flyc.jit
def softmax_row(
    x: fx.Tensor, out: fx.Tensor, row: fx.Int32, n: fx.Int32, unit: int, keep: bool, maxima: fx.Array, sums: fx.Array
):
    xs, outs = units(x, row, n, unit), units(out, row, n, unit)
    first, count = fx.thread_idx.x, n // unit
    if fx.const_expr(keep):
        xs = kept(xs, first, count)
    largest = filled(unit, float("-inf"))
    for c in range(first, count, fx.block_dim.x):
        largest = fx.maxnumf(largest, take(xs, c, unit))
    largest = fold(largest, fx.ReductionOp.MAX, maxima, float("-inf"))
    total = filled(unit, 0.0)
    for c in range(first, count, fx.block_dim.x):
        total = total + fx.exp2((take(xs, c, unit) - largest) * LOG2E, fastmath="afn")
    scale = 1.0 / fold(total, fx.ReductionOp.ADD, sums, 0.0)
    for c in range(first, count, fx.block_dim.x):
        put(outs, c, unit, fx.exp2((take(xs, c, unit) - largest) * LOG2E, fastmath="afn") * scale)


@flyc.jit
def rms_norm_row(
    x: fx.Tensor,
    weight: fx.Tensor,
    out: fx.Tensor,
    row: fx.Int32,
    n: fx.Int32,
    eps: fx.Float32,
    unit: int,
    keep: bool,
    scratch: fx.Array,
):
    xs, outs, ws = units(x, row, n, unit), units(out, row, n, unit), units(weight, row, n, unit)
    first, count = fx.thread_idx.x, n // unit
    if fx.const_expr(keep):
        xs = kept(xs, first, count)
    total = filled(unit, 0.0)
    for c in range(first, count, fx.block_dim.x):
        v = take(xs, c, unit)
        total = total + v * v
    total = fold(total, fx.ReductionOp.ADD, scratch, 0.0)
    scale = fx.rsqrt(total / fx.Float32(n) + eps)
    for c in range(first, count, fx.block_dim.x):
        put(outs, c, unit, take(xs, c, unit) * scale * take(ws, c, unit))


@flyc.jit
def layer_norm_row(
    x: fx.Tensor,
    weight: fx.Tensor,
    bias: fx.Tensor,
    out: fx.Tensor,
    row: fx.Int32,
    n: fx.Int32,
    eps: fx.Float32,
    unit: int,
    keep: bool,
    sums: fx.Array,
    squares: fx.Array,
):
    xs, outs = units(x, row, n, unit), units(out, row, n, unit)
    ws, bs = units(weight, row, n, unit), units(bias, row, n, unit)
    first, count = fx.thread_idx.x, n // unit
    if fx.const_expr(keep):
        xs = kept(xs, first, count)
    total = filled(unit, 0.0)
    for c in range(first, count, fx.block_dim.x):
        total = total + take(xs, c, unit)
    mean = fold(total, fx.ReductionOp.ADD, sums, 0.0) / fx.Float32(n)
    spread = filled(unit, 0.0)
    for c in range(first, count, fx.block_dim.x):
        d = take(xs, c, unit) - mean
        spread = spread + d * d
    scale = fx.rsqrt(fold(spread, fx.ReductionOp.ADD, squares, 0.0) / fx.Float32(n) + eps)
    for c in range(first, count, fx.block_dim.x):
        put(outs, c, unit, (take(xs, c, unit) - mean) * scale * take(ws, c, unit) + take(bs, c, unit))


@flyc.kernel
def softmax_any_kernel(x: fx.Tensor, out: fx.Tensor, n: fx.Int32, unit: fx.Constexpr[int], room: fx.Constexpr[int]):
    maxima, sums = slots(2)
    row = fx.block_idx.x
    whole = are_units((x, out), row, n, unit)

    def work(unit: int, keep: bool) -> None:
        softmax_row(x, out, row, n, unit, keep, maxima, sums)

    as_found(whole, n, unit, room, work)


@flyc.kernel
def rms_norm_any_kernel(
    x: fx.Tensor,
    weight: fx.Tensor,
    out: fx.Tensor,
    n: fx.Int32,
    eps: fx.Float32,
    unit: fx.Constexpr[int],
    room: fx.Constexpr[int],
):
    (scratch,) = slots(1)
    row = fx.block_idx.x
    whole = are_units((x, weight, out), row, n, unit)

    def work(unit: int, keep: bool) -> None:
        rms_norm_row(x, weight, out, row, n, eps, unit, keep, scratch)

    as_found(whole, n, unit, room, work)


@flyc.kernel
def layer_norm_any_kernel(
    x: fx.Tensor,
    weight: fx.Tensor,
    bias: fx.Tensor,
    out: fx.Tensor,
    n: fx.Int32,
    eps: fx.Float32,
    unit: fx.Constexpr[int],
    room: fx.Constexpr[int],
):
    sums, squares = slots(2)
    row = fx.block_idx.x
    whole = are_units((x, weight, bias, out), row, n, unit)

    def work(unit: int, keep: bool) -> None:
        layer_norm_row(x, weight, bias, out, row, n, eps, unit, keep, sums, squares)

    as_found(whole, n, unit, room, work)
