"""Registers that are read before anything was put into them."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import bug, floats


@bug("a register that was never set is written to memory")
@flyc.kernel
def element_never_set(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    r = fx.make_rmem_tensor(4, fx.Int32)
    for i in fx.range_constexpr(4 if mended else 3):
        r[i] = t + i
    x[t] = r[3]  # bug


@bug("a register that was never set is written to memory", make=floats)
@flyc.kernel
def sum_without_start(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """The accumulator is not zeroed before the loop."""
    t = fx.thread_idx.x
    total = fx.make_rmem_tensor(1, fx.Float32)
    if fx.const_expr(mended):
        total[0] = 0.0
    for i in range(4):
        total[0] = total[0] + x[t + 64 * i]
    y[t] = total[0]  # bug


@bug("a register that was never set is written to memory", make=floats)
@flyc.kernel
def vector_with_a_hole(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """A wide copy of a fragment of which one element was left out."""
    t = fx.thread_idx.x
    r = fx.make_rmem_tensor(4, fx.Float32)
    for i in fx.range_constexpr(4):
        if fx.const_expr(mended or i != 2):
            r[i] = x[t * 4 + i]
    atom = fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32)
    fx.copy_atom_call(atom, r, fx.make_view(fx.get_iter(y) + t * 4, fx.make_layout(4, 1)))  # bug


@bug("a register that was never set is what a branch depends on")
@flyc.kernel
def branch_on_nothing(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    limit = fx.make_rmem_tensor(1, fx.Int32)
    if fx.const_expr(mended):
        limit[0] = 7
    if t < limit[0]:  # bug
        x[t] = t


@bug("a register that was never set is part of an address")
@flyc.kernel
def address_of_nothing(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    at = fx.make_rmem_tensor(1, fx.Int32)
    if fx.const_expr(mended):
        at[0] = t
    y[t] = x[at[0]]  # bug


@bug("an element of a register tensor that was never set is read")
@flyc.kernel
def table_with_a_gap(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """A table that is indexed when the kernel runs, filled too little."""
    t = fx.thread_idx.x
    r = fx.make_rmem_tensor(8, fx.Int32)
    for i in range(t * 0 + (8 if mended else 7)):
        r[i] = t + i
    x[t] = r[t % 8]  # bug


@bug("an element of a register tensor that was never set is read")
@flyc.kernel
def set_by_some_threads(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    t = fx.thread_idx.x
    r = fx.make_rmem_tensor(4, fx.Int32)
    if t < (64 if mended else 60):
        r[t % 4] = t
    x[t] = r[t % 4]  # bug


@bug("a register that was never set is written to memory", block=32, make=floats, arch="sm_90a")
@flyc.kernel
def product_without_start(x: fx.Tensor, y: fx.Tensor, mended: fx.Constexpr[bool]):
    """Of the accumulators of a matrix product one is not zeroed."""
    t = fx.thread_idx.x
    a, b = fx.make_rmem_tensor(8, fx.Float16), fx.make_rmem_tensor(4, fx.Float16)
    acc = fx.make_rmem_tensor(4, fx.Float32)
    a.fill(1.0)
    b.fill(2.0)
    for i in fx.range_constexpr(4 if mended else 3):
        acc[i] = 0.0
    fx.mma_atom_call(fx.make_mma_atom(fx.nvgpu.MMA(16, 8, 16, fx.Float16)), acc, a, b, acc)
    y[t] = acc[0]
    y[t + 32] = acc[3]  # bug
