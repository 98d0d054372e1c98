"""`reduce`: sums, products, largest and smallest elements, means along any axes.

Along the last axis teams of threads take rows as the operations on rows do. Along others a block takes 32 elements
side by side, which eight threads each walk down together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.extension.coop.operators import combine, identity

from .. import grids
from ..rows.arrays import Given, HostArray, type_of, vacant
from ..rows.call import described as described_all
from ..rows.call import more_of, recall
from ..rows.columns import HEIGHT, WIDTH, down
from ..rows.form import Form, form_of
from ..rows.lines import Lines, Place, when
from ..rows.softmax_kernels import blocks_for, row_of
from ..scalars import choice, flag
from .view import OPS, along, axes_of, described, last, wide_of

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value

KINDS = (*OPS, "mean")


def _finished(total: fx.Numeric, kind: str, n: fx.Int32) -> fx.Numeric:
    return total / type(total)(n) if kind == "mean" else total


@flyc.kernel
def reduce_rows_kernel(
    x: fx.Tensor, out: fx.Tensor, m: fx.Int32, n: fx.Int32, kind: fx.Constexpr[str], form: fx.Constexpr[Form]
):
    lines = Lines(form, row_of(form), m, n, fx.SharedAllocator(), x=x)
    lines.wide = wide_of(x.dtype)
    op = OPS["sum" if kind == "mean" else kind]
    nothing = identity(op, lines.wide)

    def more(at: Place, so_far: list[Value]) -> list[Value]:
        values = lines.read("x", at)
        total = cast("fx.Numeric", so_far[0])
        for i in range(at.size):
            value = values[i] if isinstance(values, fx.Vector) else values
            kept = value if isinstance(at.here, bool) else at.here.select(value, nothing)
            total = combine(op, total, kept)
        return [total]

    (mine,) = lines.collect([nothing], more)
    (total,) = lines.meet([cast("fx.Numeric", mine)], [op])

    def leave() -> None:
        out[lines.row] = out.dtype(_finished(total, kind, n))

    lines.first(leave)


@flyc.jit
def reduce_rows(
    x: fx.Tensor,
    out: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    kind: fx.Constexpr[str],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """out[i] = all elements of row `i` combined."""
    reduce_rows_kernel(x, out, m, n, kind, form).launch(grid=blocks_for(form, m), block=form.block, stream=stream)


@flyc.kernel
def reduce_columns_kernel(
    x: fx.Tensor, out: fx.Tensor, count: fx.Int32, n: fx.Int32, inner: fx.Int32, kind: fx.Constexpr[str]
):
    wide, op = wide_of(x.dtype), OPS["sum" if kind == "mean" else kind]
    column, part = fx.block_idx.x * WIDTH + fx.thread_idx.x % WIDTH, fx.thread_idx.x // WIDTH
    number = grids.number()
    at, outer = fx.min(column, inner - 1), fx.min(number, count - 1)

    def more(row: fx.Int32, so_far: list[Value]) -> list[Value]:
        return [combine(op, cast("fx.Numeric", so_far[0]), wide(x[outer, row, at]))]

    (mine,) = down(part, n, HEIGHT, [identity(op, wide)], more)
    slots = fx.SharedAllocator().allocate(fx.Array[wide, WIDTH * HEIGHT, 16]).peek()
    slots[fx.thread_idx.x] = mine
    fx.barrier()

    def finish() -> None:
        total = slots[fx.thread_idx.x]
        for i in range(1, HEIGHT):
            total = combine(op, total, slots[i * WIDTH + fx.thread_idx.x])
        out[outer, column] = out.dtype(_finished(total, kind, n))

    when((part == 0) & (column < inner) & (number < count), finish)


@flyc.jit
def reduce_columns(
    x: fx.Tensor,
    out: fx.Tensor,
    outer: fx.Int32,
    n: fx.Int32,
    inner: fx.Int32,
    kind: fx.Constexpr[str],
    stream: fx.Stream = fx.Stream(None),
):
    """out[i, j] = all elements x[i, :, j] combined."""
    reduce_columns_kernel(x, out, outer, n, inner, kind).launch(
        grid=(fx.ceildiv(inner, WIDTH), *grids.spread(outer)), block=WIDTH * HEIGHT, stream=stream
    )


def reduce(
    x: HostArray,
    op: str = "sum",
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    stream: object = None,
) -> Given:
    """All elements along an axis, several ones, or (None) all combined: "sum", "prod", "max", "min" or "mean".

    `x` is float32, float16, bfloat16, float64, int32 or int64, and so is the result; 16-bit floats are combined in
    float32. A NaN spoils what it is part of. The order follows from the shape alone.

    >>> x = np.arange(6, dtype="f4").reshape(2, 3)
    >>> reduce(x, axis=1), reduce(x, "max", axis=0), reduce(x, "mean")
    (array([ 3., 12.], dtype=float32), array([3., 4., 5.], dtype=float32), array(2.5, dtype=float32))
    """
    what = "reduce"
    axes, kept = check_reduce(x, op, axis, keepdims)
    out: Given = vacant(x, kept, type_of(x))
    if 0 in kept:
        return out
    if not axes:
        out[...] = x
        return out
    if axes != list(range(axes[0], axes[-1] + 1)):
        x = last(x, axes)
        axes = list(range(x.ndim - len(axes), x.ndim))
    view = along(x, axes)
    if not view.n:
        out[...] = {"sum": 0, "prod": 1, "mean": float("nan")}[op]
        return out
    if view.inner > 1:
        reduce_columns(
            view.array, out.reshape(view.outer, view.inner), view.outer, view.n, view.inner, op, **more_of(stream)
        )
        return out
    rows = {"x": view.array}
    form = recall(what, rows, None, lambda: form_of(view.outer, view.n, described_all(what, rows), 4))
    reduce_rows(view.array, out.reshape(view.outer), view.outer, view.n, op, form, **more_of(stream))
    return out


def check_reduce(
    x: HostArray, op: str, axis: int | Sequence[int] | None, keepdims: bool
) -> tuple[list[int], tuple[int, ...]]:
    """What is refused, by extents and types alone; the axes that are combined, and the extents of the result."""
    what = "reduce"
    shape = described(what, "x", x)
    choice(what, "op", op, KINDS)
    keepdims = flag(what, "keepdims", keepdims)
    if op == "mean" and type_of(x).startswith("int"):
        raise DSLTypeError(f"{what}: means are of floats, got {type_of(x)}")
    several = isinstance(axis, (tuple, list, range))
    axes = axes_of(what, range(len(shape)) if axis is None else axis if several else (axis,), shape)
    kept = tuple(1 if i in axes else e for i, e in enumerate(shape) if keepdims or i not in axes)
    if op in ("max", "min") and 0 not in kept and 0 in [shape[a] for a in axes]:
        raise DSLValueError(f"{what}: there is no {op} of no elements, x has the shape {list(shape)}")
    return axes, kept


__all__ = ["check_reduce", "reduce"]
