"""Rows whose length is known only at run time: softmax, RMS norm, layer norm.

A block reads its row once per pass, in 16-byte units where it finds that the rows at hand consist of them, and element
by element otherwise. One kernel serves all row lengths. Sums and statistics are f32.
"""

from __future__ import annotations

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.layout import flatten

THREADS = 256
LOG2E = 1.4426950408889634


def unit_of(*tensors: fx.Tensor) -> int:
    """Elements of a 16-byte unit, if the tensors can have such units at all; else 1."""
    width = tensors[0].dtype.width
    for t in tensors:
        strides: Any = flatten(t.data.layout.stride)
        if t.dtype.width != width or type(strides[-1]) is not int or strides[-1] != 1:
            return 1
    return 128 // width


def line(t: fx.Tensor, row: Any) -> fx.Tensor:
    """A row of a matrix, or a vector as it is."""
    return t[row, None] if t.rank == 2 else t


def are_units(tensors: tuple[fx.Tensor, ...], row: Any, n: Any, unit: int) -> Any:
    """Whether the rows at hand consist of units."""
    whole = n % unit == 0
    for t in tensors:
        whole = whole & (fx.ptrtoint(fx.get_iter(line(t, row))) % 16 == 0)
    return whole


def units(t: fx.Tensor, row: Any, n: Any, unit: int) -> fx.Tensor:
    """A row as (unit, number); with units of 1 as it is."""
    found = line(t, row)
    if unit == 1:
        return found
    type_ = fx.PointerType.get(t.dtype.ir_type, fx.AddressSpace.Global, 16)
    start = fx.inttoptr(type_, fx.ptrtoint(fx.get_iter(found)))
    return fx.make_view(start, fx.make_layout((unit, n // unit), (1, unit)))


def take(row: fx.Tensor, at: Any, unit: int) -> Any:
    """A unit as f32, a scalar or a vector."""
    return fx.Float32(row[at]) if unit == 1 else row[None, at].load().to(fx.Float32)


def put(row: fx.Tensor, at: Any, unit: int, value: Any) -> None:
    """Store a unit."""
    if unit == 1:
        row[at] = row.dtype(value)
    else:
        row[None, at].store(value.to(row.dtype))


def filled(unit: int, value: float) -> Any:
    """Where a thread collects: one number per place of a unit."""
    return fx.Float32(value) if unit == 1 else fx.full((unit,), value, fx.Float32)


@flyc.jit
def softmax_row(x: fx.Tensor, out: fx.Tensor, row: Any, n: Any, unit: int, maxima: Any, sums: Any):
    reduce = fx.coop.BlockReduce[fx.Float32, THREADS]
    xs, outs = units(x, row, n, unit), units(out, row, n, unit)
    first, count = fx.thread_idx.x, n // unit
    largest = filled(unit, float("-inf"))
    for c in range(first, count, THREADS):
        largest = fx.maxnumf(largest, take(xs, c, unit))
    largest = reduce(largest, fx.ReductionOp.MAX, storage=maxima)
    total = filled(unit, 0.0)
    for c in range(first, count, THREADS):
        total = total + fx.exp2((take(xs, c, unit) - largest) * LOG2E, fastmath="afn")
    scale = 1.0 / reduce(total, fx.ReductionOp.ADD, storage=sums)
    for c in range(first, count, THREADS):
        put(outs, c, unit, fx.exp2((take(xs, c, unit) - largest) * LOG2E, fastmath="afn") * scale)


@flyc.jit
def rms_norm_row(x: fx.Tensor, weight: fx.Tensor, out: fx.Tensor, row: Any, n: Any, eps: Any, unit: int, scratch: Any):
    reduce = fx.coop.BlockReduce[fx.Float32, THREADS]
    xs, outs, ws = units(x, row, n, unit), units(out, row, n, unit), units(weight, row, n, unit)
    first, count = fx.thread_idx.x, n // unit
    total = filled(unit, 0.0)
    for c in range(first, count, THREADS):
        v = take(xs, c, unit)
        total = total + v * v
    total = reduce(total, fx.ReductionOp.ADD, storage=scratch)
    scale = fx.rsqrt(total / fx.Float32(n) + eps)
    for c in range(first, count, THREADS):
        put(outs, c, unit, take(xs, c, unit) * scale * take(ws, c, unit))


@flyc.jit
def layer_norm_row(
    x: fx.Tensor,
    weight: fx.Tensor,
    bias: fx.Tensor,
    out: fx.Tensor,
    row: Any,
    n: Any,
    eps: Any,
    unit: int,
    sums: Any,
    squares: Any,
):
    reduce = fx.coop.BlockReduce[fx.Float32, THREADS]
    xs, outs = units(x, row, n, unit), units(out, row, n, unit)
    ws, bs = units(weight, row, n, unit), units(bias, row, n, unit)
    first, count = fx.thread_idx.x, n // unit
    total = filled(unit, 0.0)
    for c in range(first, count, THREADS):
        total = total + take(xs, c, unit)
    mean = reduce(total, fx.ReductionOp.ADD, storage=sums) / fx.Float32(n)
    spread = filled(unit, 0.0)
    for c in range(first, count, THREADS):
        d = take(xs, c, unit) - mean
        spread = spread + d * d
    scale = fx.rsqrt(reduce(spread, fx.ReductionOp.ADD, storage=squares) / fx.Float32(n) + eps)
    for c in range(first, count, THREADS):
        put(outs, c, unit, (take(xs, c, unit) - mean) * scale * take(ws, c, unit) + take(bs, c, unit))


@flyc.kernel
def softmax_any_kernel(x: fx.Tensor, out: fx.Tensor, n: fx.Int32, unit: fx.Constexpr[int]):
    reduce = fx.coop.BlockReduce[fx.Float32, THREADS]
    shared = fx.SharedAllocator()
    maxima, sums = (shared.allocate(reduce.SharedStorage).peek() for _ in range(2))
    row = fx.block_idx.x
    if are_units((x, out), row, n, unit):
        softmax_row(x, out, row, n, unit, maxima, sums)
    else:
        softmax_row(x, out, row, n, 1, maxima, sums)


@flyc.kernel
def rms_norm_any_kernel(
    x: fx.Tensor, weight: fx.Tensor, out: fx.Tensor, n: fx.Int32, eps: fx.Float32, unit: fx.Constexpr[int]
):
    reduce = fx.coop.BlockReduce[fx.Float32, THREADS]
    scratch = fx.SharedAllocator().allocate(reduce.SharedStorage).peek()
    row = fx.block_idx.x
    if are_units((x, weight, out), row, n, unit):
        rms_norm_row(x, weight, out, row, n, eps, unit, scratch)
    else:
        rms_norm_row(x, weight, out, row, n, eps, 1, scratch)


@flyc.kernel
def layer_norm_any_kernel(
    x: fx.Tensor,
    weight: fx.Tensor,
    bias: fx.Tensor,
    out: fx.Tensor,
    n: fx.Int32,
    eps: fx.Float32,
    unit: fx.Constexpr[int],
):
    reduce = fx.coop.BlockReduce[fx.Float32, THREADS]
    shared = fx.SharedAllocator()
    sums, squares = (shared.allocate(reduce.SharedStorage).peek() for _ in range(2))
    row = fx.block_idx.x
    if are_units((x, weight, bias, out), row, n, unit):
        layer_norm_row(x, weight, bias, out, row, n, eps, unit, sums, squares)
    else:
        layer_norm_row(x, weight, bias, out, row, n, eps, 1, sums, squares)
