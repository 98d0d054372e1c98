"""Rows of a table by number, and the gradient of the table: the sum of the gradients of each row's uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLValueError

from ..matmul.workspace import in_stream
from ..repeats import fresh_as, relaunch, remember_call, repeated
from ..scalars import whole
from .arrays import (
    INDICES,
    Array,
    Given,
    HostArray,
    describe,
    is_torch,
    is_view,
    matrix,
    same_place,
    shaped,
    vacant,
    vector,
    zeros,
)
from .call import arrays_only, described, dtype_of, more_of, recall
from .form import Form, form_of
from .lines import Lines, Place, pick, when
from .softmax_entry import describe_rows
from .softmax_kernels import blocks_for, row_of

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value


@flyc.kernel
def embedding_kernel(
    table: fx.Tensor,
    ids: fx.Tensor,
    out: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    count: fx.Int32,
    form: fx.Constexpr[Form],
):
    lines = Lines(form, row_of(form), m, n, out=out, table=table)
    asked = fx.Int64(ids[lines.row])
    known = (asked >= 0) & (asked < fx.Int64(count))
    row = fx.Int32(known.select(asked, fx.Int64(0)))
    lines.each(lambda at: lines.write("out", at, pick(known, lines.read("table", at, row), float("nan"))))


@flyc.jit
def embedding_rows(
    table: fx.Tensor,
    ids: fx.Tensor,
    out: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    count: fx.Int32,
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """out[i] = table[ids[i]]; NaN for a number that has no row."""
    embedding_kernel(table, ids, out, m, n, count, form).launch(
        grid=blocks_for(form, m), block=form.block, stream=stream
    )


@flyc.kernel
def embedding_back_kernel(
    dy: fx.Tensor,
    ids: fx.Tensor,
    order: fx.Tensor,
    dtable: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    count: fx.Int32,
    ignored: fx.Int64,
    form: fx.Constexpr[Form],
):
    """Numbers are sorted: who stands at the first of a run adds up all of it, in order."""
    at = row_of(form)
    here = fx.min(at, m - 1)
    mine = fx.Int64(ids[here])
    first = (here == 0) | (fx.Int64(ids[fx.max(here - 1, fx.Int32(0))]) != mine)
    known = (mine >= 0) & (mine < fx.Int64(count)) & (mine != ignored)

    def work() -> None:
        run(dy, ids, order, dtable, here, m, n, mine, form)

    when((at < m) & first & known, work)


def run(
    dy: fx.Tensor,
    ids: fx.Tensor,
    order: fx.Tensor,
    dtable: fx.Tensor,
    begin: fx.Int32,
    m: fx.Int32,
    n: fx.Int32,
    mine: fx.Int64,
    form: Form,
) -> None:
    """Add up the gradients of one row of the table, unit by unit."""
    row = fx.Int32(mine)
    lines = Lines(form._replace(turns=0, rows=1), row, m, n, dtable=dtable, dy=dy)
    lines.member = fx.thread_idx.x % form.team

    def total(place: Place) -> None:
        zero = lines.wide(0.0) if place.size == 1 else fx.full((place.size,), 0.0, lines.wide)
        found = down(
            begin, m, ids, mine, zero, lambda at, so_far: so_far + lines.read("dy", place, fx.Int32(order[at]))
        )  # fmt: skip
        lines.write("dtable", place, found)

    lines.each(total)


@flyc.jit
def down(
    begin: fx.Int32,
    m: fx.Int32,
    ids: fx.Tensor,
    mine: fx.Int64,
    so_far: Value,
    add: Callable[[fx.Int32, Value], Value],
) -> Value:
    at = begin
    while (at < m) & (fx.Int64(ids[fx.min(at, m - 1)]) == mine):
        so_far = add(at, so_far)
        at = at + 1
    return so_far


@flyc.jit
def embedding_back(
    dy: fx.Tensor,
    ids: fx.Tensor,
    order: fx.Tensor,
    dtable: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    count: fx.Int32,
    ignored: fx.Int64,
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """dtable[i] = the sum of dy[order[j]] where ids[j], which are sorted, is i; other rows are left as they are."""
    embedding_back_kernel(dy, ids, order, dtable, m, n, count, ignored, form).launch(
        grid=blocks_for(form, m), block=form.block, stream=stream
    )


def embedding(ids: HostArray, table: HostArray, *, stream: object = None) -> Given:
    """`table[ids]` for any shape of `ids` (int32 or int64); a number that has no row gives a row of NaN.

    >>> embedding(np.array([1, 0, 1]), np.array([[1.0, 2.0], [3.0, 4.0]], "f4"))
    array([[3., 4.],
           [1., 2.],
           [3., 4.]], dtype=float32)
    """
    op, key = "embedding", None
    if stream is None:
        key, known = repeated(op, None, ids, table)
        if known is not None:
            return known
    numbers, found = check_embedding(op, ids, table)
    n = found.shape[1]
    out: Given = vacant(table, (*numbers.shape, n), found.dtype)
    rows = {"out": matrix(out), "table": matrix(table)}
    m = rows["out"].shape[0]
    if m and n:
        if not found.shape[0]:
            out[...] = float("nan")
            return out
        form = recall(op, rows, None, lambda: form_of(m, n, described(op, rows), found.itemsize, edges=False))
        rest, flat = (m, n, found.shape[0], form), vector(ids)
        embedding_rows(rows["table"], flat, rows["out"], *rest, **more_of(stream))
        if key is not None and is_view(rows["table"], table) and is_view(flat, ids):
            _remember(key, ids, table, rest)
    return out


def _remember(key: object, ids: Given, table: Given, rest: tuple[object, ...]) -> None:
    """The forward call, for tensors like these."""
    fresh, shape = fresh_as(table, (*ids.shape, table.shape[1]), table.dtype), rest[:2]

    def arrange(ids: Given, table: Given, made: Given) -> tuple[object, ...]:
        return (table, ids.view(-1), made.view(shape), *rest)

    rows = relaunch(embedding_rows, arrange, (1, 0, 2), fresh=1)

    def call(ids: Given, table: Given) -> Given:
        made = fresh()
        return made if rows.now(ids, table, made) else None

    remember_call(key, call)


def embedding_backward(
    dy: HostArray, ids: HostArray, count: int, *, padding_idx: int | None = None, stream: object = None
) -> Given:
    """The gradient of a table of `count` rows: for each the sum of the rows of `dy` that came from it, in order.

    The row `padding_idx` gets none. Sums are float32, and the same in every run.
    """
    op = "embedding_backward"
    check_embedding_backward(op, dy, ids, count, padding_idx)
    count, size = int(count), describe(op, "dy", dy).itemsize
    ignored = -1 if padding_idx is None else padding_row(op, padding_idx, count)
    n = dy.shape[-1]
    with in_stream(dy, stream) as queue:
        made = zeros(dy, (count, n), dtype_of(dy))
        given = matrix(dy)
        m = given.shape[0]
        if m and n and count:
            flat: Given = vector(ids)
            order: Given = flat.argsort(stable=True) if is_torch(ids) else flat.argsort(kind="stable")
            ordered = flat[order]
            rows = {"dtable": made, "dy": given}
            form = recall(op, rows, None, lambda: form_of(m, n, described(op, rows), size, edges=False))
            embedding_back(given, ordered, order, made, m, n, count, ignored, form, **more_of(queue))
        return made


def check_embedding(op: str, ids: HostArray, table: HostArray) -> tuple[Array, Array]:
    """What is refused, by extents and types alone."""
    arrays_only(op, ids=ids, table=table)
    numbers, found = describe(op, "ids", ids, INDICES), describe(op, "table", table)
    if len(found.shape) != 2:
        raise DSLValueError(f"{op}: table is (rows, columns), got {found}")
    same_place(op, {"ids": numbers, "table": found})
    return numbers, found


def check_embedding_backward(op: str, dy: HostArray, ids: HostArray, count: int, padding: int | None) -> None:
    """The same of the gradient of a table of so many rows."""
    count = whole(op, "count", count, 0)
    if padding is not None:
        padding_row(op, padding, count)
    arrays_only(op, dy=dy, ids=ids)
    numbers, found = describe(op, "ids", ids, INDICES), describe(op, "dy", describe_rows(op, "dy", dy))
    shaped(op, "dy", found, (*numbers.shape, *dy.shape[-1:]), "ids")
    same_place(op, {"dy": found, "ids": numbers})


def padding_row(op: str, index: int, count: int) -> int:
    """The row that `padding_idx` names; it may be counted from the end."""
    row = whole(op, "padding_idx", index)
    if not -count <= row < count:
        raise DSLValueError(f"{op}: padding_idx is a row of a table of {count}, got {row}")
    return row % count


__all__ = ["embedding", "embedding_backward", "padding_row"]
