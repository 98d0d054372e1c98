"""Long rows on NVIDIA GPUs: softmax, RMS norm and layer norm of rows that do not fit a block's registers.

`cp.async` brings rows into shared memory, where every pass reads them again. A thread reads back only the 16-byte units
it has fetched itself, so no barrier lies between a copy and its use. The row length is known at compile time.

Softmax and RMS norm take one row per block, and as many blocks per multiprocessor as fit. Layer norm would then fetch
weight and bias anew for every row, twice the traffic of the row itself: there blocks stay, keep both in shared memory,
and fetch the next row while they work on one.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from .wide import Plan, largest_of, plan_of, powers_of, read_row, sum_of, unit_of, wide, write_row


def row_bytes(x: fx.Tensor, team: int) -> int:
    """Shared memory that a row takes."""
    how = plan_of(x, team)
    return how.turns * how.threads * how.unit * x.dtype.width // 8


def slots_of(how: Plan, x: fx.Tensor, rows: int) -> fx.Tensor:
    """Shared memory as (unit, thread, turn, row)."""
    turn = how.threads * how.unit
    layout = fx.make_layout((how.unit, how.threads, how.turns, rows), (1, how.unit, turn, turn * how.turns))
    return fx.make_view(fx.get_dyn_shared(x.dtype), layout)


def fetch(how: Plan, row: fx.Tensor, slots: fx.Tensor, place: int) -> None:
    """Start the copy of the thread's units of a row."""
    atom = fx.make_copy_atom(fx.nvgpu.CpAsync128b(), row.dtype)
    units = fx.flat_divide(row, (how.unit,))
    for turn in range(how.turns):
        fx.copy_atom_call(atom, units[None, unit_of(how, turn)], slots[None, fx.thread_idx.x, turn, place])


def held(how: Plan, slots: fx.Tensor, place: int) -> list[fx.Vector]:
    """The thread's units of a row, once its copy was waited for, as f32."""
    return wide([slots[None, fx.thread_idx.x, turn, place].load() for turn in range(how.turns)])


@flyc.kernel
def softmax_long_kernel(x: fx.Tensor, out: fx.Tensor, team: fx.Constexpr[int]):
    how, slots = plan_of(x, team), slots_of(plan_of(x, team), x, 1)
    reduce = fx.coop.BlockReduce[fx.Float32, team]
    shared = fx.SharedAllocator()
    maxima, sums = (shared.allocate(reduce.SharedStorage).peek() for _ in range(2))
    row, narrow = fx.block_idx.x, out.dtype.width < 32
    fetch(how, x[row, None], slots, 0)
    fx.nvgpu.cp_async_wait_all()
    largest = reduce(largest_of(how, held(how, slots, 0)), fx.ReductionOp.MAX, storage=maxima)
    total = sum_of(how, powers_of(held(how, slots, 0), largest, narrow=narrow))
    scale = 1.0 / reduce(total, fx.ReductionOp.ADD, storage=sums)
    # Powers are computed twice: keeping them would take the registers of two more blocks.
    write_row(how, out[row, None], [p * scale for p in powers_of(held(how, slots, 0), largest, narrow=narrow)])


@flyc.kernel
def rms_norm_long_kernel(x: fx.Tensor, weight: fx.Tensor, out: fx.Tensor, eps: fx.Float32, team: fx.Constexpr[int]):
    how, slots = plan_of(x, team), slots_of(plan_of(x, team), x, 1)
    reduce = fx.coop.BlockReduce[fx.Float32, team]
    scratch = fx.SharedAllocator().allocate(reduce.SharedStorage).peek()
    row = fx.block_idx.x
    fetch(how, x[row, None], slots, 0)
    fx.nvgpu.cp_async_wait_all()
    total = reduce(sum_of(how, [p * p for p in held(how, slots, 0)]), fx.ReductionOp.ADD, storage=scratch)
    scale = fx.rsqrt(total * (1.0 / how.columns) + eps)
    scaled = zip(held(how, slots, 0), wide(read_row(how, weight)), strict=True)
    write_row(how, out[row, None], [p * scale * w for p, w in scaled])


@flyc.jit
def fetch_next(how: Plan, x: fx.Tensor, slots: fx.Tensor, row: fx.Int32, m: fx.Int32):
    """Start the copy of row `row`, where there is one."""
    if row < m:
        fetch(how, x[row, None], slots, 0)


@flyc.kernel
def layer_norm_long_kernel(
    x: fx.Tensor,
    weight: fx.Tensor,
    bias: fx.Tensor,
    out: fx.Tensor,
    m: fx.Int32,
    eps: fx.Float32,
    team: fx.Constexpr[int],
):
    how, slots = plan_of(x, team), slots_of(plan_of(x, team), x, 3)
    reduce = fx.coop.BlockReduce[fx.Float32, team]
    shared = fx.SharedAllocator()
    sums, squares = (shared.allocate(reduce.SharedStorage).peek() for _ in range(2))
    first, step = fx.block_idx.x, fx.grid_dim.x
    fetch(how, weight, slots, 1)
    fetch(how, bias, slots, 2)
    fetch_next(how, x, slots, first, m)
    for row in range(first, m, step):
        fx.nvgpu.cp_async_wait_all()
        parts = held(how, slots, 0)
        mean = reduce(sum_of(how, parts), fx.ReductionOp.ADD, storage=sums) * (1.0 / how.columns)
        # Behind the barrier of the reduction all units were read: the next row may come.
        fetch_next(how, x, slots, row + step, m)
        parts = [p - mean for p in parts]
        spread = reduce(sum_of(how, [p * p for p in parts]), fx.ReductionOp.ADD, storage=squares)
        scale = fx.rsqrt(spread * (1.0 / how.columns) + eps)
        scaled = zip(parts, held(how, slots, 1), held(how, slots, 2), strict=True)
        write_row(how, out[row, None], [p * scale * w + b for p, w, b in scaled])
