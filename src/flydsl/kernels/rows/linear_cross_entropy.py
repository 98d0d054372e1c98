"""The cross entropy of `x @ weight.T + bias` without that matrix: its logits live in pieces of some rows and classes.

Pieces go by classes, so that a piece of the weight's gradient is one product, and by rows where there are many. A pass
over all pieces leaves for each row the logarithm of its sum of powers; the gradient computes the logits once more from
there. Logits of a piece are float32, their gradients have the type of `x`, as what the tensor cores read.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError

from ..matmul.workspace import in_stream
from ..scalars import flags, whole, wholes
from .arrays import INDICES, Given, HostArray, describe, matrix, same_place, shaped, type_of, vacant, vector, zeros
from .call import arrays_only, described, more_of, recall
from .columns import column_sums
from .cross_entropy import Loss, check_losses, check_reduction, counting, cross_entropy_back, reduced
from .form import Form, form_of
from .lines import ADD, Lines, logarithm, power
from .softmax_kernels import blocks_for, row_of, top_and_sum

MOST_ROWS = 8192
PIECE = 1 << 26
"""Logits of a piece: 256 MiB."""
FEWEST_CLASSES = 1024


@flyc.kernel
def partial_loss_kernel(
    logits: fx.Tensor,
    target: fx.Tensor,
    tops: fx.Tensor,
    totals: fx.Tensor,
    losses: fx.Tensor,
    averages: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    begin: fx.Int32,
    classes: fx.Int32,
    ignored: fx.Int64,
    smoothing: fx.Float64,
    form: fx.Constexpr[Form],
):
    lines = Lines(form, row_of(form), m, n, logits=logits)
    wide = lines.wide
    top, total = top_and_sum(lines, "logits")
    everything = wide(0.0)
    if fx.const_expr(averages is not None):
        (everything,) = lines.fold(lambda at: [lines.read("logits", at)], [ADD])

    def leave() -> None:
        row, first, last = lines.row, begin == 0, begin + n == classes
        before, sum_before = first.select(top, tops[row]), first.select(wide(0.0), totals[row])
        most = fx.maxnumf(before, top)
        powers = cast("fx.Numeric", sum_before * power(before - most) + total * power(top - most))
        tops[row] = most
        wanted = fx.Int64(target[row])
        column = wanted - fx.Int64(begin)
        inside = (column >= 0) & (column < fx.Int64(n))
        found = wide(lines.line(logits)[fx.Int32(inside.select(column, fx.Int64(0)))])
        # Until the last piece a loss is the logit that is wanted; a class that there is not has none.
        hit = inside.select(found, first.select(wide(float("nan")), losses[row]))
        level = last.select(most + logarithm(powers), powers)
        totals[row] = level
        loss = level - hit
        if averages is not None:
            so_far = everything + first.select(wide(0.0), averages[row])
            averages[row] = so_far
            share = wide(smoothing)
            loss = loss * (1.0 - share) + (level - so_far / wide(classes)) * share
        losses[row] = last.select((wanted == ignored).select(wide(0.0), loss), hit)

    lines.first(leave)


@flyc.jit
def partial_loss(
    logits: fx.Tensor,
    target: fx.Tensor,
    tops: fx.Tensor,
    totals: fx.Tensor,
    losses: fx.Tensor,
    averages: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    begin: fx.Int32,
    classes: fx.Int32,
    ignored: fx.Int64,
    smoothing: fx.Float64,
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """Take `n` of all classes, from `begin` on, into the losses of rows.

    With the last ones `totals` are the logarithms of the sums of powers, and `losses` the losses; before, `tops`,
    `totals`, `losses` and (with smoothing) `averages` hold what was found so far.
    """
    partial_loss_kernel(
        logits, target, tops, totals, losses, averages, m, n, begin, classes, ignored, smoothing, form
    ).launch(grid=blocks_for(form, m), block=form.block, stream=stream)


class LinearGradients(NamedTuple):
    """Gradients; None where none was asked for."""

    x: Given
    weight: Given
    bias: Given


class _Problem(NamedTuple):
    """The checked arguments: matrices and vectors in one piece."""

    x: Given
    weight: Given
    bias: Given
    target: Given
    piece: tuple[int, int]
    """Rows and classes."""

    @property
    def classes(self) -> int:
        return self.weight.shape[0]

    def steps(self) -> Iterator[tuple[slice, slice]]:
        """Pieces of classes, and for each the pieces of rows."""
        m, v = self.x.shape[0], self.classes
        for c in range(0, v, self.piece[1]):
            for r in range(0, m, self.piece[0]):
                yield slice(r, min(r + self.piece[0], m)), slice(c, min(c + self.piece[1], v))

    def logits(self, rows: slice, classes: slice, wide: str, stream: object) -> Given:
        bias = None if self.bias is None else self.bias[classes]
        return product(self.x[rows], self.weight[classes].T, wide, bias, stream)


def product(a: Given, b: Given, dtype: str, bias: Given, stream: object) -> Given:
    """`a @ b + bias`; in float64 by the arrays' own library."""
    if dtype == "float64":
        made = a @ b
        return made if bias is None else made + bias
    from ..matmul.entry import matmul

    return matmul(a, b, bias=bias, out_dtype=dtype, stream=stream)


def linear_cross_entropy(
    x: HostArray,
    weight: HostArray,
    target: HostArray,
    bias: HostArray | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    piece: tuple[int, int] | None = None,
    stream: object = None,
) -> Given:
    """`cross_entropy(x @ weight.T + bias, target)`, whose logits are never all there.

    `weight` is (classes, columns) and has the type of `x`, as `bias` has; losses are float32, float64 for float64.
    `piece` says how many rows and classes of logits there are at a time; by default at most 256 MiB of them.

    >>> x, weight = np.eye(2, dtype="f4"), np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]], "f4")
    >>> linear_cross_entropy(x, weight, np.array([1, 2]), reduction="none", piece=(2, 2)).round(4)
    array([2.1698, 0.1429], dtype=float32)
    """
    check_reduction("linear_cross_entropy", reduction)
    ignore_index = whole("linear_cross_entropy", "ignore_index", ignore_index)
    with in_stream(x, stream) as order:
        losses = linear_cross_entropy_forward(
            x, weight, target, bias, ignore_index=ignore_index, label_smoothing=label_smoothing, piece=piece,
            stream=order,
        ).losses  # fmt: skip
        return reduced(losses, target, ignore_index, reduction)


def linear_cross_entropy_forward(
    x: HostArray,
    weight: HostArray,
    target: HostArray,
    bias: HostArray | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    piece: tuple[int, int] | None = None,
    stream: object = None,
) -> Loss:
    """The loss of each row, and what the gradient needs."""
    op = "linear_cross_entropy"
    ignore_index, label_smoothing = counting(op, ignore_index, label_smoothing)
    check_linear_cross_entropy(op, x, weight, target, bias)
    problem = _problem(op, x, weight, target, bias, piece)
    wide = _wide(x)
    losses, sums, tops = (vacant(x, tuple(target.shape), wide) for _ in range(3))
    average: Given = vector(vacant(x, tuple(target.shape), wide)) if label_smoothing else None
    top: Given = vector(tops)
    total: Given = vector(sums)
    loss: Given = vector(losses)
    for rows, classes in problem.steps():
        logits = problem.logits(rows, classes, wide, stream)
        m, n = logits.shape
        form = _form(op, {"logits": logits})
        partial_loss(
            logits, problem.target[rows], top[rows], total[rows], loss[rows],
            None if average is None else average[rows], m, n, classes.start, problem.classes, ignore_index,
            label_smoothing, form, **more_of(stream),
        )  # fmt: skip
    return Loss(losses, sums)


def linear_cross_entropy_backward(
    x: HostArray,
    weight: HostArray,
    target: HostArray,
    sums: HostArray,
    dlosses: HostArray,
    bias: HostArray | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    wanted: tuple[bool, bool, bool] = (True, True, True),
    piece: tuple[int, int] | None = None,
    stream: object = None,
) -> LinearGradients:
    """The gradients of `x`, `weight` and `bias` from that of each row's loss; `wanted` says which."""
    op = "linear_cross_entropy_backward"
    ignore_index, label_smoothing = counting(op, ignore_index, label_smoothing)
    need_x, need_weight, need_bias = flags(op, "wanted", wanted, 3)
    check_linear_cross_entropy(op, x, weight, target, bias)
    check_losses(op, target, sums, dlosses)
    problem = _problem(op, x, weight, target, bias, piece)
    level: Given = vector(sums)
    given: Given = vector(dlosses)
    with in_stream(x, stream) as order:
        dtype, wide, more = type_of(x), _wide(x), more_of(order)
        (m, d), v = problem.x.shape, problem.classes
        need_bias = need_bias and bias is not None
        # Sums over pieces are wide; where there is but one piece nothing is added up.
        dx: Given = zeros(x, (m, d), wide) if need_x else None
        dweight: Given = zeros(weight, (v, d), type_of(weight)) if need_weight else None
        dbias: Given = zeros(x, (v,), wide) if need_bias else None
        several = m > problem.piece[0]
        share: Given = None
        for rows, classes in problem.steps():
            logits = problem.logits(rows, classes, wide, order)
            count, n = logits.shape
            dlogits: Given = vacant(x, (count, n), dtype)
            cross_entropy_back(
                logits, problem.target[rows], level[rows], given[rows], dlogits, count, n, classes.start, v,
                ignore_index, label_smoothing, _form(op, {"logits": logits, "dlogits": dlogits}), **more,
            )  # fmt: skip
            if dx is not None:
                dx[rows] += product(dlogits, problem.weight[classes], wide, None, order)
            if need_weight:
                part = product(dlogits.T, problem.x[rows], wide if several else dtype, None, order)
                share = part if rows.start == 0 else share + part
                if rows.stop == m:
                    dweight[classes] = share
            if need_bias:
                added: Given = vacant(x, (n,), wide)
                column_sums(dlogits, added, count, n, **more)
                dbias[classes] += added
        return LinearGradients(*(_as(t, like) for t, like in ((dx, x), (dweight, weight), (dbias, bias))))


def _as(made: Given, like: Given) -> Given:
    """In the type and shape of what it is the gradient of."""
    if made is None:
        return None
    made = made.reshape(*like.shape)
    if made.dtype == like.dtype:
        return made
    found: Given = vacant(like, tuple(like.shape), type_of(like))
    found[...] = made
    return found


def _wide(x: HostArray) -> str:
    return "float64" if type_of(x) == "float64" else "float32"


def _form(op: str, rows: dict[str, HostArray | None]) -> Form:
    m, n = next(x for x in rows.values() if x is not None).shape
    return recall(op, rows, None, lambda: form_of(m, n, described(op, rows), 4))


def check_linear_cross_entropy(
    op: str, x: HostArray, weight: HostArray, target: HostArray, bias: HostArray | None
) -> None:
    """What is refused, by extents and types alone."""
    arrays_only(op, x=x, weight=weight, target=target, bias=bias)
    found = {"x": describe(op, "x", x), "weight": describe(op, "weight", weight)}
    rows, table = found["x"], found["weight"]
    if not rows.shape or len(table.shape) != 2 or table.shape[1] != rows.shape[-1]:
        raise DSLValueError(f"{op}: x is (..., columns) and weight (classes, columns), got {rows} and {table}")
    if bias is not None:
        found["bias"] = describe(op, "bias", bias)
        shaped(op, "bias", found["bias"], table.shape[:1], "weight")
    for name, each in found.items():
        if each.dtype != rows.dtype:
            raise DSLTypeError(f"{op}: {name} has the type of x, {rows.dtype}, got {each}")
    found["target"] = describe(op, "target", target, INDICES)
    shaped(op, "target", found["target"], rows.shape[:-1], "x")
    same_place(op, found)
    m = prod(target.shape)
    if not table.shape[0] and m:
        raise DSLValueError(f"{op}: weight has no classes to choose from for the {m} rows of x")


def _problem(
    op: str,
    x: HostArray,
    weight: HostArray,
    target: HostArray,
    bias: HostArray | None,
    piece: tuple[int, int] | None,
) -> _Problem:
    sizes = None if piece is None else wholes(op, "piece", piece)
    if sizes is not None and (len(sizes) != 2 or min(sizes) < 1):
        raise DSLValueError(f"{op}: a piece has at least one row and one class, got {piece}")
    goal: Given = vector(target)
    m, v = goal.shape[0], weight.shape[0]
    flat: Given = matrix(x) if 0 not in x.shape else x.reshape(m, x.shape[-1])
    size = _piece(m, v) if sizes is None else (sizes[0], sizes[1])
    return _Problem(flat, weight, None if bias is None else vector(bias), goal, size)


def _piece(m: int, classes: int) -> tuple[int, int]:
    """Few pieces of classes, as each adds to the gradient of `x`."""
    rows = max(min(m, MOST_ROWS), 1)
    return rows, max(min(max(PIECE // rows // 128 * 128, FEWEST_CLASSES), classes), 1)


__all__ = [
    "LinearGradients", "linear_cross_entropy", "linear_cross_entropy_backward", "linear_cross_entropy_forward",
]  # fmt: skip
