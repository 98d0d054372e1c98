"""The largest elements of rows: `top_k`, `argmax`, and the gates of a mixture of experts.

An element and its number make one integer that sorts as wanted: NaN first, then by value, equal ones by their number.
A few of a row that registers hold are found by `few_largest.py`. Of a longer row a pass finds the largest one below the
one found before; more than two are found by `many_largest.py`, and very many by sorting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError

from .arrays import Given, HostArray, matrix, vacant
from .call import arrays_only, described, dtype_of, more_of, recall
from .few_largest import FEW, SHORT_ROW, few_largest_rows
from .form import UNIT_BYTES, Form, form_of, known_form
from .lines import MAX, Lines, Place, power
from .many_largest import (
    AHEAD,
    MOST_CANDIDATES,
    MOST_THREADS,
    keys_of,
    many_largest_rows,
    number_of,
    parts_of,
    rank_of,
    threads_for,
)
from .softmax_entry import describe_rows
from .softmax_kernels import blocks_for, row_of, top_and_sum

if TYPE_CHECKING:
    from collections.abc import Callable

    from flydsl.expr.annotations import Value

HIGHEST, LOWEST = 2**63 - 1, -(2**63)
FORMS = ("values", "gates", "normed gates")
SORTED = 32
"""Elements that a thread sorts."""
ONE_BY_ONE = 2
"""What is found by as many passes over rows that are too long for registers."""


def _ranks(lines: Lines, at: Place) -> list[fx.Int64]:
    """The elements at a place as sortable integers."""
    return [rank_of(key, at.at + i) for i, key in enumerate(keys_of(lines.read("x", at), at.size))]


def _best(lines: Lines, below: Value) -> fx.Numeric:
    """The highest rank of the row below another."""

    def look(at: Place, so_far: list[Value]) -> list[Value]:
        best = so_far[0]
        for rank in _ranks(lines, at):
            counts = rank < below if at.here is True else (rank < below) & at.here
            best = fx.max(best, counts.select(rank, fx.Int64(LOWEST)))
        return [best]

    (mine,) = lines.collect([fx.Int64(LOWEST)], look)
    return lines.meet([cast("fx.Int64", mine)], [MAX])[0]


@flyc.kernel
def largest_kernel(
    x: fx.Tensor,
    values: fx.Tensor | None,
    numbers: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    what: fx.Constexpr[str],
    form: fx.Constexpr[Form],
):
    lines = Lines(form, row_of(form), m, n, fx.SharedAllocator(), x=x)
    lines.fetch("x")
    wide = lines.wide
    top, total = top_and_sum(lines, "x") if what != "values" else (wide(0.0), wide(1.0))
    line = lines.line(x)

    def find(j: fx.Int32, carried: list[Value]) -> list[Value]:
        below, chosen = carried
        found = _best(lines, below)
        at = number_of(cast("fx.Int64", found))
        value = wide(line[at])
        if what != "values":
            value = power(value - top) / total

        def leave() -> None:
            numbers[lines.row, j] = numbers.dtype(at)
            if values is not None:
                values[lines.row, j] = values.dtype(value)

        lines.first(leave)
        if form.team > fx.num_warp_threads():
            fx.barrier()  # before the next one uses the same shared memory
        return [found, chosen + value]

    _, chosen = count_up(k, [fx.Int64(HIGHEST), wide(0.0)], find)

    def norm() -> None:
        if values is not None:
            walk_up(k, lambda j: set_scaled(values, lines.row, j, wide, chosen))

    if fx.const_expr(what == "normed gates"):
        lines.first(norm)


def set_scaled(values: fx.Tensor, row: fx.Int32, j: fx.Int32, wide: type[fx.Numeric], by: Value) -> None:
    values[row, j] = values.dtype(wide(values[row, j]) / by)


@flyc.jit
def count_up(k: fx.Int32, carried: list[Value], work: Callable[[fx.Int32, list[Value]], list[Value]]) -> list[Value]:
    for j in range(k):
        carried = work(j, carried)
    return carried


@flyc.jit
def walk_up(k: fx.Int32, work: Callable[[fx.Int32], None]):
    for j in range(k):
        work(j)


@flyc.jit
def largest_rows(
    x: fx.Tensor,
    values: fx.Tensor | None,
    numbers: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    what: fx.Constexpr[str],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """The `k` largest elements of each row, or their share of the row's softmax, and their numbers."""
    largest_kernel(x, values, numbers, m, n, k, what, form).launch(
        grid=blocks_for(form, m), block=form.block, stream=stream
    )


def top_k(x: HostArray, k: int, *, stream: object = None) -> tuple[Given, Given]:
    """The `k` largest elements of each row, largest first, and their int64 numbers.

    Equal ones come in their order, and a NaN before all numbers.

    >>> top_k(np.array([[1.0, 3.0, 2.0, 3.0]], "f4"), 3)
    (array([[3., 3., 2.]], dtype=float32), array([[1, 3, 2]]))
    """
    return _largest("top_k", x, k, "values", None, stream)


def gate(x: HostArray, k: int, *, normed: bool = True, stream: object = None) -> tuple[Given, Given]:
    """The `k` largest elements of each row's softmax as float32, and their int64 numbers; `normed` to a sum of 1.

    >>> weights, experts = gate(np.array([[0.0, 1.0, 1.0]], "f4"), 2)
    >>> weights, experts
    (array([[0.5, 0.5]], dtype=float32), array([[1, 2]]))
    """
    return _largest("gate", x, k, "normed gates" if normed else "gates", "float32", stream)


def argmax(x: HostArray, *, stream: object = None) -> Given:
    """The int64 number of each row's largest element, the first of equal ones; that of a NaN, where there is one.

    >>> argmax(np.array([[1.0, 3.0, 2.0, 3.0]], "f4"))
    array([1])
    """
    numbers = _largest("argmax", x, 1, "values", "", stream)[1]
    return numbers.reshape(numbers.shape[:-1])


def _largest(op: str, x: HostArray, k: int, what: str, dtype: str | None, stream: object) -> tuple[Given, Given]:
    arrays_only(op, x=x)
    describe_rows(op, "x", x)
    if dtype_of(x) == "float64":
        raise DSLTypeError(f"{op}: x is float32, float16 or bfloat16, got float64")
    rows = matrix(x)
    m, n = rows.shape
    if not 0 <= k <= x.shape[-1]:
        raise DSLValueError(f"{op}: a row of {x.shape[-1]} elements has no {k} largest ones")
    shape = (*x.shape[:-1], k)
    values = None if dtype == "" else vacant(x, shape, dtype or dtype_of(x))
    numbers = vacant(x, shape, "int64")
    if m and what == "values" and (k > MOST_THREADS or 8 * k > n > MOST_CANDIDATES):
        # Many of them, or so large a part of the row that threads have no bound to give.
        return _sorted(x, values, numbers, k, stream)
    if m and k:
        form = recall(op, {"x": rows}, k <= FEW, lambda: _form(op, rows, k <= FEW))
        flat = None if values is None else values.reshape(-1, k)
        if form.turns and k <= FEW:
            short = n <= SHORT_ROW and dtype_of(x) != "float32"
            few_largest_rows(
                rows, flat, numbers.reshape(-1, k), m, n, k, what, 1 << (k - 1).bit_length(), short, form,
                **more_of(stream),
            )  # fmt: skip
            return values, numbers
        if what == "values" and k > ONE_BY_ONE:
            _many(op, rows, flat, numbers.reshape(-1, k), k, form, stream)
            return values, numbers
        largest_rows(rows, flat, numbers.reshape(-1, k), m, n, k, what, form, **more_of(stream))
    return values, numbers


def _many(
    op: str, x: HostArray, values: HostArray | None, numbers: HostArray, k: int, form: Form, stream: object
) -> None:
    """The largest of each row, or of each part of it, and then of those."""
    m, n = x.shape
    (parts, length), more = parts_of(m, n, k), more_of(stream)

    def looking_at(n: int, form: Form) -> Form:
        return known_form(form._replace(team=threads_for(n // form.unit, k), rows=1, turns=0, ahead=AHEAD))

    if parts == 1:
        many_largest_rows(x, None, values, numbers, m, n, n, k, 1, looking_at(n, form), **more)
        return
    some, names = vacant(x, (m, parts * k), dtype_of(x)), vacant(x, (m, parts * k), "int32")
    many_largest_rows(x, None, some, names, m, length, n, k, parts, looking_at(length, form), **more)
    n = parts * k
    form = recall(op, {"x": some}, False, lambda: _form(op, some, False))
    many_largest_rows(some, names, values, numbers, m, n, n, k, 1, looking_at(n, form), **more)


def _form(op: str, rows: HostArray, few: bool) -> Form:
    """A few are sorted by threads that have many elements each: putting lists together is what takes time."""
    found = described(op, {"x": rows})
    x = found["x"]
    assert x is not None
    m, n = x.shape
    if not few:
        return form_of(m, n, found, 4)
    each = SORTED * x.itemsize // UNIT_BYTES
    return form_of(m, n, found, 4, each=each, most=each)


def _sorted(x: HostArray, values: Given, numbers: Given, k: int, stream: object) -> tuple[Given, Given]:
    from ..axes.sort import sort

    ordered, order = sort(x, descending=True, stream=stream)
    values[...], numbers[...] = ordered[..., :k], order[..., :k]
    return values, numbers


__all__ = ["argmax", "gate", "top_k"]
