"""`scan`: running sums, products, largest and smallest elements along any axis.

A block walks along a row, four elements a thread at a time, and carries what it has. A long row is shared: blocks
combine pieces of it, what they found is scanned, and then each scans its piece from where the ones before it end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLValueError
from flydsl.extension.coop.operators import combine, identity

from .. import grids
from ..rows.arrays import Given, HostArray, type_of, vacant
from ..rows.call import more_of
from ..rows.columns import down
from ..rows.lines import when
from ..scalars import choice, flag
from .view import OPS, Along, along, axis_of, back, described, wide_of

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value

THREADS, ITEMS = 256, 4
SHORT = 64
"""Threads for rows that they take at once."""
PIECE = 32 * THREADS * ITEMS
"""Elements of a row for one block, where there are too few rows for all."""
BUSY = 132
"""Rows that are enough for a large GPU."""
COLUMNS = 64


class Way(NamedTuple):
    """How rows are scanned; a constant of the kernel."""

    op: str
    exclusive: bool
    reverse: bool
    threads: int
    totals: bool
    """Whether only what pieces come to is asked for."""


@flyc.jit
def _march(
    first: fx.Int32,
    end: fx.Int32,
    step: int,
    carried: list[Value],
    work: Callable[[fx.Int32, list[Value]], list[Value]],
) -> list[Value]:
    for begin in range(first, end, step):
        carried = work(begin, carried)
    return carried


@flyc.kernel
def scan_rows_kernel(
    x: fx.Tensor,
    starts: fx.Tensor | None,
    out: fx.Tensor,
    n: fx.Int32,
    piece: fx.Int32,
    pieces: fx.Int32,
    way: fx.Constexpr[Way],
):
    wide, op = wide_of(x.dtype), OPS[way.op]
    row, number = fx.block_idx.x // pieces, fx.block_idx.x % pieces
    first, end = number * piece, fx.min((number + 1) * piece, n)
    nothing = identity(op, wide)
    block = fx.coop.BlockScan[wide, way.threads]
    storage = fx.SharedAllocator().allocate(block.SharedStorage).peek()
    line, result = x[row, None], out[row, None]

    def place(at: fx.Int32) -> fx.Int32:
        return n - 1 - at if way.reverse else at

    def work(begin: fx.Int32, carried: list[Value]) -> list[Value]:
        so_far = cast("fx.Numeric", carried[0])
        at = begin + fx.thread_idx.x * ITEMS
        items = [(at + i < end).select(wide(line[place(fx.min(at + i, end - 1))]), nothing) for i in range(ITEMS)]
        values = fx.Vector.from_elements(items, wide)
        scan = block.exclusive_with_aggregate if way.exclusive else block.inclusive_with_aggregate
        made, total = scan(values, op, storage=storage, init=so_far)
        parts = cast("fx.Vector", made)
        for i in fx.range_constexpr(0 if way.totals else ITEMS):
            when(at + i < end, lambda i=i: put(at + i, parts[i]))
        fx.barrier()  # before the next turn uses the same shared memory
        return [combine(op, so_far, total)]

    def put(at: fx.Int32, value: fx.Numeric) -> None:
        result[place(at)] = out.dtype(value)

    start = nothing if starts is None else wide(starts[row, number])
    (total,) = _march(first, end, way.threads * ITEMS, [start], work)

    def leave() -> None:
        result[number] = out.dtype(total)

    if fx.const_expr(way.totals):
        when(fx.thread_idx.x == 0, leave)


@flyc.jit
def scan_rows(
    x: fx.Tensor,
    starts: fx.Tensor | None,
    out: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    piece: fx.Int32,
    pieces: fx.Int32,
    way: fx.Constexpr[Way],
    stream: fx.Stream = fx.Stream(None),
):
    """Scan rows in pieces, each from its start; or leave in `out` what each piece comes to."""
    scan_rows_kernel(x, starts, out, n, piece, pieces, way).launch(grid=m * pieces, block=way.threads, stream=stream)


@flyc.kernel
def scan_columns_kernel(
    x: fx.Tensor, out: fx.Tensor, count: fx.Int32, n: fx.Int32, inner: fx.Int32, way: fx.Constexpr[Way]
):
    wide, op = wide_of(x.dtype), OPS[way.op]
    column, outer = fx.block_idx.x * COLUMNS + fx.thread_idx.x, grids.number()

    def work(row: fx.Int32, carried: list[Value]) -> list[Value]:
        so_far = cast("fx.Numeric", carried[0])
        at = n - 1 - row if way.reverse else row
        total = combine(op, so_far, wide(x[outer, at, column]))
        out[outer, at, column] = out.dtype(so_far if way.exclusive else total)
        return [total]

    def walk_down() -> None:
        down(fx.Int32(0), n, 1, [identity(op, wide)], work)

    when((column < inner) & (outer < count), walk_down)


@flyc.jit
def scan_columns(
    x: fx.Tensor,
    out: fx.Tensor,
    outer: fx.Int32,
    n: fx.Int32,
    inner: fx.Int32,
    way: fx.Constexpr[Way],
    stream: fx.Stream = fx.Stream(None),
):
    """Scan x[i, :, j]: a thread for each, side by side."""
    scan_columns_kernel(x, out, outer, n, inner, way).launch(
        grid=(fx.ceildiv(inner, COLUMNS), *grids.spread(outer)), block=COLUMNS, stream=stream
    )


def scan(
    x: HostArray,
    op: str = "sum",
    *,
    axis: int = -1,
    exclusive: bool = False,
    reverse: bool = False,
    stream: object = None,
) -> Given:
    """All elements up to each one along an axis combined: "sum", "prod", "max" or "min".

    `exclusive` leaves the element itself out: the first one is 0, 1, or the lowest or highest number. `reverse` begins
    at the end. Types are those of `reduce`; a NaN spoils what comes after it.

    >>> scan(np.array([1, 2, 3, 4], "i4")), scan(np.array([1.0, 3.0, 2.0], "f4"), "max", exclusive=True)
    (array([ 1,  3,  6, 10], dtype=int32), array([-inf,   1.,   3.], dtype=float32))
    """
    exclusive, reverse = flag("scan", "exclusive", exclusive), flag("scan", "reverse", reverse)
    at, shape = check_scan(x, op, axis), tuple(x.shape)
    view = along(x, (at,))
    made: Given = vacant(x, tuple(view.array.shape), type_of(x))
    if 0 not in shape:
        if view.inner > 1:
            way = Way(op, exclusive, reverse, COLUMNS, False)
            scan_columns(view.array, made, view.outer, view.n, view.inner, way, **more_of(stream))
        else:
            _scan_rows(view, made, op, exclusive, reverse, stream)
    if view.inner > 1:
        return made.reshape(*shape)
    others = (*shape[:at], *shape[at + 1 :])
    return back(made.reshape(*others, shape[at]), at)


def _scan_rows(view: Along, made: Given, op: str, exclusive: bool, reverse: bool, stream: object) -> None:
    m, n, more = view.outer, view.n, more_of(stream)
    way = Way(op, exclusive, reverse, SHORT if n <= SHORT * ITEMS else THREADS, False)
    if n <= PIECE or m >= BUSY:
        scan_rows(view.array, None, made, m, n, n, 1, way, **more)
        return
    pieces = -(-n // PIECE)
    kind = type_of(view.array)
    wide = "float32" if kind in ("float16", "bfloat16") else kind
    totals, starts = (vacant(view.array, (m, pieces), wide) for _ in range(2))
    scan_rows(view.array, None, totals, m, n, PIECE, pieces, way._replace(totals=True), **more)
    _scan_rows(Along(totals, m, pieces, 1), starts, op, True, False, stream)
    scan_rows(view.array, starts, made, m, n, PIECE, pieces, way, **more)


def check_scan(x: HostArray, op: str, axis: int) -> int:
    """What is refused, by extents and types alone; the axis, counted from the front."""
    what = "scan"
    shape = described(what, "x", x)
    choice(what, "op", op, OPS)
    if not shape:
        raise DSLValueError(f"{what}: x has at least one axis, got a single element")
    return axis_of(what, axis, shape)


__all__ = ["check_scan", "scan"]
