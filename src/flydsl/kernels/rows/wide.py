"""Rows that a block keeps in registers: softmax, RMS norm, layer norm for row lengths known at compile time.

Memory is read once and written once, 16 bytes at a time, and all reads of a row are under way before the first value is
used. Sums and statistics are f32. Where the hardware has bulk copies (Hopper and later) results are staged in shared
memory and leave as whole rows, several rows per block if they are short: 1 to 2 % faster than stores of the threads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..extents import divisor_of, modes_of

if TYPE_CHECKING:
    from flydsl.expr.annotations import ValueT

UNIT_BYTES = 16
TEAM = 64
"""Threads come in multiples of the longest warp."""
MOST_THREADS = 1024
MOST_VALUES = 64
"""Values a thread has registers for."""
LOG2E = 1.4426950408889634


class Plan(NamedTuple):
    """How the threads of a block share a row."""

    columns: int
    unit: int
    """Elements of one access."""
    threads: int
    """Threads of a row."""
    rows: int = 1
    """Rows of a block."""
    staged: bool = False
    """Whether rows leave by bulk copies from shared memory."""

    @property
    def block(self) -> int:
        """Threads of a block."""
        return self.threads * self.rows

    @property
    def units(self) -> int:
        """Accesses a row takes."""
        return self.columns // self.unit

    @property
    def turns(self) -> int:
        """Units of a thread; in the last turn some threads may have none."""
        return -(-self.units // self.threads)


def units_of(matrices: tuple[fx.Tensor, ...], vectors: tuple[fx.Tensor, ...]) -> tuple[int, int] | None:
    """Length of the rows, and elements of a 16-byte unit; None unless all rows are known to consist of such units.

    The row length must be known, the row step and the alignment must be promised.
    """
    columns, width = matrices[0].data.layout.shape[1], matrices[0].dtype.width
    unit = UNIT_BYTES * 8 // width
    if type(columns) is not int or columns % unit:
        return None
    for t in (*matrices, *vectors):
        shape, strides = modes_of(t.data.layout.shape), modes_of(t.data.layout.stride)
        steps = [divisor_of(s) for s in strides[:-1]]
        if t.dtype.width != width or shape[-1] != columns or strides[-1] != 1 or t.alignment % UNIT_BYTES:
            return None
        if any(s % unit for s in steps):
            return None
    return columns, unit


def plan(
    matrices: tuple[fx.Tensor, ...], vectors: tuple[fx.Tensor, ...], values: int, *, prefer: int = MOST_THREADS
) -> Plan | None:
    """A plan by which a thread keeps about `values` elements, or twice as many rather than take over `prefer` threads.

    None where rows are too long or no 16-byte units.
    """
    found = units_of(matrices, vectors)
    if found is None:
        return None
    columns, unit = found
    wanted = -(-columns // values)
    if wanted > prefer:
        wanted = max(prefer, -(-columns // (2 * values)))
    made = Plan(columns, unit, min(max(-(-wanted // TEAM) * TEAM, TEAM), MOST_THREADS))
    return made if made.turns * unit <= MOST_VALUES else None


def plan_of(x: fx.Tensor, threads: int, rows: int = 1, staged: bool = False) -> Plan:
    """The plan for the rows of `x` with that many threads."""
    return Plan(x.data.layout.shape[1], UNIT_BYTES * 8 // x.dtype.width, threads, rows, staged)


def staged(how: Plan, x: fx.Tensor, threads: int, nbytes: int) -> Plan:
    """The same with rows that leave by bulk copies: so many threads and bytes of a block, more if rows are longer."""
    rows = max(nbytes * 8 // (how.columns * x.dtype.width), 1)
    team = max(threads // rows, -(-how.units // (MOST_VALUES // how.unit)), TEAM)
    team = min(1 << (team - 1).bit_length(), MOST_THREADS)  # so that a thread's place in its row is cheap to compute
    return how._replace(threads=team, rows=min(rows, MOST_THREADS // team), staged=True)


def member(how: Plan) -> fx.Int32:
    """Which of its row's threads this one is."""
    return fx.thread_idx.x if how.rows == 1 else fx.thread_idx.x % how.threads


def place_of(how: Plan) -> fx.Int32:
    """Which of its block's rows a thread works on."""
    return fx.Int32(0) if how.rows == 1 else fx.thread_idx.x // how.threads


def row_of(how: Plan, x: fx.Tensor) -> tuple[fx.Int32, fx.Int32]:
    """The row of a thread, and the row it reads: in the last block rows may be missing."""
    row = fx.block_idx.x * how.rows + place_of(how)
    return row, row if how.rows == 1 else fx.min(row, fx.Int32(x.shape.unpack()[0]) - 1)


def unit_of(how: Plan, turn: int) -> fx.Int32:
    """Number of the unit a thread has in this turn; past the end of the row it is the last one again."""
    at = member(how) + turn * how.threads
    return at if (turn + 1) * how.threads <= how.units else fx.min(at, how.units - 1)


def has_unit(how: Plan, turn: int) -> bool | fx.Boolean:
    """Whether the thread has a unit in this turn; True where all have."""
    if (turn + 1) * how.threads <= how.units:
        return True
    return member(how) + turn * how.threads < how.units


def read_row(how: Plan, row: fx.Tensor) -> list[fx.Vector]:
    """The thread's units of a row in memory, as they are there: `turns` vectors, `threads` units apart."""
    units = fx.flat_divide(row, (how.unit,))
    return [units[None, unit_of(how, turn)].load() for turn in range(how.turns)]


def write_row(how: Plan, row: fx.Tensor, parts: list[fx.Vector]) -> None:
    """Store the thread's units of a row."""
    units = fx.flat_divide(row, (how.unit,))
    for turn, part in enumerate(parts):
        _store(units, unit_of(how, turn), part.to(row.dtype), has_unit(how, turn))


def leave(how: Plan, shared: fx.SharedAllocator, out: fx.Tensor, row: fx.Int32, parts: list[fx.Vector]) -> None:
    """Write a row of the result: store it, or stage it and send it."""
    if not how.staged:
        write_row(how, out[row, None], parts)
        return
    stage = shared.allocate(fx.Array[out.dtype, how.rows * how.columns, 128]).peek()
    mine = stage.view(fx.make_layout((how.rows, how.columns), (how.columns, 1)))[place_of(how), None]
    write_row(how, mine, parts)
    fx.barrier()
    _send(mine, out[row, None], (member(how) == 0) & (row < fx.Int32(out.shape.unpack()[0])))


@flyc.jit
def _send(mine: fx.Tensor, row: fx.Tensor, chosen: fx.Boolean):
    if chosen:
        fx.nvgpu.bulk_store(mine, row)
        fx.nvgpu.tma_commit()
        fx.nvgpu.tma_wait(0, read=True)


def _fold(
    how: Plan,
    parts: list[fx.Vector],
    op: fx.ReductionOp,
    combine: Callable[[fx.Float32, fx.Float32], fx.Float32],
    nothing: float,
) -> fx.Float32:
    """The thread's values combined; units it has not count as `nothing`."""
    found: list[fx.Float32] = []
    for turn, part in enumerate(parts):
        mine, here = part.reduce(op), has_unit(how, turn)
        found.append(mine if isinstance(here, bool) else here.select(mine, fx.Float32(nothing)))
    return functools.reduce(combine, found)


def largest_of(how: Plan, parts: list[fx.Vector]) -> fx.Float32:
    """The largest of the thread's values."""
    return _fold(how, parts, fx.ReductionOp.MAX, fx.maxnumf, float("-inf"))


def sum_of(how: Plan, parts: list[fx.Vector]) -> fx.Float32:
    """The sum of the thread's values."""
    return _fold(how, parts, fx.ReductionOp.ADD, lambda x, y: x + y, 0.0)


def powers_of(parts: list[fx.Vector], largest: fx.Float32, *, narrow: bool) -> list[fx.Vector]:
    """e to the power of the values less `largest`.

    For a `narrow` result one operation per value is saved, at the cost of an error of half an ulp of `largest`.
    """
    if narrow:
        shift = largest * -LOG2E
        return [_power(cast("fx.Vector", fx.fma(p, LOG2E, shift))) for p in parts]
    return [_power((p - largest) * LOG2E) for p in parts]


def _power(x: ValueT) -> ValueT:
    """2^x by the hardware."""
    return fx.exp2(x, fastmath="fast")


def wide(parts: list[fx.Vector]) -> list[fx.Vector]:
    """The values as f32."""
    return [p.to(fx.Float32) for p in parts]


@flyc.jit
def _store(units: fx.Tensor, at: fx.Int32, value: fx.Vector, inside: bool | fx.Boolean):
    if fx.const_expr(inside is True):
        units[None, at].store(value)
    else:
        if inside:
            units[None, at].store(value)


@flyc.kernel
def softmax_wide_kernel(
    x: fx.Tensor, out: fx.Tensor, team: fx.Constexpr[int], rows: fx.Constexpr[int], bulk: fx.Constexpr[bool]
):
    """Each warp takes powers relative to its own largest value, so that warps meet once instead of twice."""
    how, lanes = plan_of(x, team, rows, bulk), fx.num_warp_threads()
    warps = team // lanes
    shared = fx.SharedAllocator()
    tops, totals = (shared.allocate(fx.Array[fx.Float32, rows * warps, 16]).peek() for _ in range(2))
    nothing = fx.Float32(float("-inf"))
    row, from_row = row_of(how, x)
    parts = wide(read_row(how, x[from_row, None]))
    top = fx.coop.warp_reduce(largest_of(how, parts), fx.ReductionOp.MAX)
    # A warp of nothing but -inf has powers of zero.
    powers = powers_of(parts, (top == nothing).select(fx.Float32(0.0), top), narrow=out.dtype.width < 32)
    total = fx.coop.warp_reduce(sum_of(how, powers), fx.ReductionOp.ADD)
    lane, warp = fx.thread_idx.x % lanes, fx.thread_idx.x // lanes
    if lane == 0:
        tops[warp] = top
        totals[warp] = total
    fx.barrier()
    at, real = place_of(how) * warps + fx.min(lane, warps - 1), lane < warps
    top_here, total_here = tops[at], real.select(totals[at], fx.Float32(0.0))
    best = fx.coop.warp_reduce(top_here, fx.ReductionOp.MAX)
    everything = fx.coop.warp_reduce(total_here * _power((top_here - best) * LOG2E), fx.ReductionOp.ADD)
    scale = _power((top - best) * LOG2E) / everything
    leave(how, shared, out, row, [p * scale for p in powers])


@flyc.jit
def _row_sum(how: fx.Constexpr[Plan], shared: fx.SharedAllocator, value: fx.Float32) -> fx.Float32:
    """The sum of a value over the threads of a row."""
    lanes = fx.num_warp_threads()
    warps = how.threads // lanes
    sums = shared.allocate(fx.Array[fx.Float32, how.rows * warps, 16]).peek()
    mine = fx.coop.warp_reduce(value, fx.ReductionOp.ADD)
    lane, warp = fx.thread_idx.x % lanes, fx.thread_idx.x // lanes
    if lane == 0:
        sums[warp] = mine
    fx.barrier()
    found = sums[place_of(how) * warps + fx.min(lane, warps - 1)]
    return fx.coop.warp_reduce((lane < warps).select(found, fx.Float32(0.0)), fx.ReductionOp.ADD)


@flyc.kernel
def rms_norm_wide_kernel(
    x: fx.Tensor,
    weight: fx.Tensor,
    out: fx.Tensor,
    eps: fx.Float32,
    team: fx.Constexpr[int],
    rows: fx.Constexpr[int],
    bulk: fx.Constexpr[bool],
):
    how, shared = plan_of(x, team, rows, bulk), fx.SharedAllocator()
    row, from_row = row_of(how, x)
    kept, weights = read_row(how, x[from_row, None]), read_row(how, weight)
    parts = wide(kept)
    total = _row_sum(how, shared, sum_of(how, [p * p for p in parts]))
    scale = fx.rsqrt(total * (1.0 / how.columns) + eps)
    leave(how, shared, out, row, [p * scale * w for p, w in zip(parts, wide(weights), strict=True)])


@flyc.kernel
def layer_norm_wide_kernel(
    x: fx.Tensor, weight: fx.Tensor, bias: fx.Tensor, out: fx.Tensor, eps: fx.Float32, team: fx.Constexpr[int]
):
    """Its own stores are faster than staging: weight and bias take the registers that several rows would need."""
    how = plan_of(x, team)
    reduce = fx.coop.BlockReduce[fx.Float32, team]
    shared = fx.SharedAllocator()
    sums, squares = (shared.allocate(reduce.SharedStorage).peek() for _ in range(2))
    row = fx.block_idx.x
    kept, weights, shifts = read_row(how, x[row, None]), read_row(how, weight), read_row(how, bias)
    parts = wide(kept)
    total = sum_of(how, parts)
    mean = reduce(total, fx.ReductionOp.ADD, storage=sums) * (1.0 / how.columns)
    parts = [p - mean for p in parts]
    spread = sum_of(how, [p * p for p in parts])
    scale = fx.rsqrt(reduce(spread, fx.ReductionOp.ADD, storage=squares) * (1.0 / how.columns) + eps)
    scaled = zip(parts, wide(weights), wide(shifts), strict=True)
    write_row(how, out[row, None], [p * scale * w + b for p, w, b in scaled])
