"""Cross entropy of rows of logits with the numbers of their classes, and its gradient; logits are read once by each."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLValueError

from ..matmul.workspace import in_stream
from ..repeats import fresh_as, fresh_like, relaunch, remember_call, repeated
from ..scalars import choice, number, whole
from .arrays import INDICES, Given, HostArray, describe, is_view, matrix, same_place, shaped, vacant, vector
from .call import Result, arrays_only, check_apart, described, dtype_of, more_of, recall, rows_of
from .form import Form, form_of, looped
from .lines import ADD, Lines, Place, logarithm, power
from .softmax_entry import describe_rows
from .softmax_kernels import blocks_for, cluster_of, row_of, top_and_sum

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value

REDUCTIONS = ("mean", "sum", "none")


class Loss(NamedTuple):
    """The losses of rows, and the logarithms of their sums of powers, which the gradient needs."""

    losses: Given
    sums: Given


@flyc.kernel
def cross_entropy_kernel(
    logits: fx.Tensor,
    target: fx.Tensor,
    losses: fx.Tensor,
    sums: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    ignored: fx.Int64,
    smoothing: fx.Float64,
    smooth: fx.Constexpr[bool],
    form: fx.Constexpr[Form],
):
    lines = Lines(form, row_of(form), m, n, logits=logits)
    wide = lines.wide
    top, total = top_and_sum(lines, "logits")
    level = top + logarithm(total)
    average = level
    if fx.const_expr(smooth):
        (everything,) = lines.fold(lambda at: [lines.read("logits", at)], [ADD])
        average = everything / wide(n)

    def leave() -> None:
        wanted = fx.Int64(target[lines.row])
        known = (wanted >= 0) & (wanted < fx.Int64(n))
        here = wide(lines.line(logits)[fx.Int32(known.select(wanted, fx.Int64(0)))])
        # A class that there is not has no loss, and must not look as if it had.
        loss = known.select(level - here, wide(float("nan")))
        if smooth:
            share = wide(smoothing)
            loss = loss * (1.0 - share) + (level - average) * share
        losses[lines.row] = losses.dtype((wanted == ignored).select(wide(0.0), loss))
        sums[lines.row] = sums.dtype(level)

    lines.first(leave)


@flyc.jit
def cross_entropy_rows(
    logits: fx.Tensor,
    target: fx.Tensor,
    losses: fx.Tensor,
    sums: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    ignored: fx.Int64,
    smoothing: fx.Float64,
    smooth: fx.Constexpr[bool],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """The loss of each row, and the logarithm of the sum of its powers."""
    cross_entropy_kernel(logits, target, losses, sums, m, n, ignored, smoothing, smooth, form).launch(
        grid=blocks_for(form, m), block=form.block, cluster=cluster_of(form), stream=stream
    )


@flyc.kernel
def cross_entropy_back_kernel(
    logits: fx.Tensor,
    target: fx.Tensor,
    sums: fx.Tensor,
    dlosses: fx.Tensor,
    dlogits: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    begin: fx.Int32,
    classes: fx.Int32,
    ignored: fx.Int64,
    smoothing: fx.Float64,
    form: fx.Constexpr[Form],
):
    lines = Lines(form, row_of(form), m, n, logits=logits, dlogits=dlogits)
    lines.fetch("logits")
    wide = lines.wide
    wanted, level = fx.Int64(target[lines.row]), wide(sums[lines.row])
    given = wide(dlosses[lines.row])
    known = (wanted >= 0) & (wanted < fx.Int64(classes))
    # As the loss of such a row, its gradient is no number.
    scale = (wanted == ignored).select(wide(0.0), known.select(given, wide(float("nan"))))
    share = wide(smoothing)
    less, one = share / wide(classes), 1.0 - share
    column = fx.Int32(known.select(wanted - fx.Int64(begin), fx.Int64(-1)))

    def finish(at: Place) -> None:
        chance = power(lines.read("logits", at) - level) - less
        lines.write("dlogits", at, (chance - hit(at, column, one)) * scale)

    def hit(at: Place, column: fx.Int32, one: fx.Numeric) -> Value:
        found = [(at.at + i == column).select(one, type(one)(0.0)) for i in range(at.size)]
        return found[0] if at.size == 1 else fx.Vector.from_elements(found, type(one))

    lines.each(finish)


@flyc.jit
def cross_entropy_back(
    logits: fx.Tensor,
    target: fx.Tensor,
    sums: fx.Tensor,
    dlosses: fx.Tensor,
    dlogits: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    begin: fx.Int32,
    classes: fx.Int32,
    ignored: fx.Int64,
    smoothing: fx.Float64,
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """The gradient of the logits from that of each row's loss; they may be `n` of all classes, from `begin` on."""
    cross_entropy_back_kernel(
        logits, target, sums, dlosses, dlogits, m, n, begin, classes, ignored, smoothing, form
    ).launch(grid=blocks_for(form, m), block=form.block, cluster=cluster_of(form), stream=stream)


def cross_entropy(
    logits: HostArray,
    target: HostArray,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    stream: object = None,
) -> Given:
    """The negative logarithm of the softmax of each row at its target: the mean, the sum, or ("none") all of them.

    `logits` has rows of any float type, `target` an int32 or int64 for each of them. A target of `ignore_index` has a
    loss of 0 and does not count for the mean; one that is no class has a loss that is no number. Losses are float32,
    float64 for float64.
    """
    check_reduction("cross_entropy", reduction)
    if type(ignore_index) is not int:
        ignore_index = whole("cross_entropy", "ignore_index", ignore_index)
    with in_stream(logits, stream) as order:
        losses = cross_entropy_forward(
            logits, target, ignore_index=ignore_index, label_smoothing=label_smoothing, stream=order
        ).losses  # fmt: skip
        return reduced(losses, target, ignore_index, reduction)


def check_reduction(op: str, reduction: str) -> None:
    """What becomes of the losses of rows is something that is known."""
    choice(op, "reduction", reduction, REDUCTIONS)


def reduced(losses: Given, target: Given, ignored: int, reduction: str) -> Given:
    """The losses of rows as they are, their sum, or the mean of those that count."""
    if reduction == "none":
        return losses
    total = losses.sum()
    counted: Given = target != ignored
    return total if reduction == "sum" else total / counted.sum()


def cross_entropy_forward(
    logits: HostArray,
    target: HostArray,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    stream: object = None,
) -> Loss:
    """The loss of each row, and what the gradient needs."""
    op, key = "cross_entropy", None
    if type(ignore_index) is not int or type(label_smoothing) is not float:
        ignore_index, label_smoothing = counting(op, ignore_index, label_smoothing)
    if stream is None:
        key, known = repeated(op, (ignore_index, label_smoothing), logits, target)
        if known is not None:
            return known
    check_cross_entropy(op, logits, target, ignore_index, label_smoothing)
    rows = matrix(logits)
    m, n = rows.shape
    wide = "float64" if dtype_of(logits) == "float64" else "float32"
    losses, sums = (vacant(logits, tuple(target.shape), wide) for _ in range(2))
    if m and n:
        form = recall(op, {"logits": rows}, None, lambda: looped(form_of(m, n, described(op, {"logits": rows}), 4), m))
        targets, rest = vector(target), (m, n, ignore_index, label_smoothing, label_smoothing != 0.0, form)
        cross_entropy_rows(rows, targets, vector(losses), vector(sums), *rest, **more_of(stream))
        if key is not None and is_view(rows, logits) and is_view(targets, target):
            _remember(key, logits, target, losses, rest)
    return Loss(losses, sums)


def _remember(key: object, logits: Given, target: Given, losses: Given, rest: tuple[object, ...]) -> None:
    """The forward call, for tensors like these."""
    fresh, (m, n) = fresh_as(logits, target.shape, losses.dtype), logits.reshape(-1, logits.shape[-1]).shape

    def arrange(logits: Given, *vectors: Given) -> tuple[object, ...]:
        return (rows_of(logits, m, n), *(x.view(-1) for x in vectors), *rest)

    rows = relaunch(cross_entropy_rows, arrange, range(4), fresh=2)

    def call(logits: Given, target: Given) -> Loss | None:
        losses, sums = fresh(), fresh()
        return Loss(losses, sums) if rows.now(logits, target, losses, sums) else None

    remember_call(key, call)


def cross_entropy_backward(
    logits: HostArray,
    target: HostArray,
    sums: HostArray,
    dlosses: HostArray,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    out: HostArray | None = None,
    stream: object = None,
) -> Given:
    """The gradient of the logits from that of each row's loss; `out` may be `logits`."""
    op, key = "cross_entropy_backward", None
    if type(ignore_index) is not int or type(label_smoothing) is not float:
        ignore_index, label_smoothing = counting(op, ignore_index, label_smoothing)
    if out is None and stream is None:
        key, known = repeated(op, (ignore_index, label_smoothing), logits, target, sums, dlosses)
        if known is not None:
            return known
    check_cross_entropy_backward(op, logits, target, sums, dlosses, ignore_index, label_smoothing)
    rows = matrix(logits)
    m, n = rows.shape
    result = Result(op, "out", logits, dtype_of(logits), out)
    check_apart(op, "out", out, logits=logits, target=target, sums=sums, dlosses=dlosses)
    if m and n:
        both = {"logits": rows, "dlogits": result.matrix}
        form = recall(op, both, None, lambda: form_of(m, n, described(op, both), 4))
        rest = (m, n, 0, n, ignore_index, label_smoothing, form)
        targets, powers = vector(target), vector(sums)
        cross_entropy_back(rows, targets, powers, vector(dlosses), result.matrix, *rest, **more_of(stream))
        if key is not None and is_view(rows, logits) and is_view(targets, target) and is_view(powers, sums):
            _remember_backward(key, logits, target, sums, dlosses, rest)
    return result.done()


def _remember_backward(
    key: object, logits: Given, target: Given, sums: Given, dlosses: Given, rest: tuple[object, ...]
) -> None:
    """The gradient, for tensors like these; that of a mean comes as one number in all places."""
    fresh, (m, n) = fresh_like(logits), logits.reshape(-1, logits.shape[-1]).shape
    apart = not dlosses.is_contiguous()

    def arrange(logits: Given, target: Given, sums: Given, dlosses: Given, made: Given) -> tuple[object, ...]:
        vectors = (x.view(-1) for x in (target, sums, dlosses))
        return (rows_of(logits, m, n), *vectors, rows_of(made, m, n), *rest)

    rows = relaunch(cross_entropy_back, arrange, range(5), fresh=1)

    def call(logits: Given, target: Given, sums: Given, dlosses: Given) -> Given:
        made = fresh(logits)
        return made if rows.now(logits, target, sums, dlosses.contiguous() if apart else dlosses, made) else None

    remember_call(key, call)


def counting(op: str, ignored: object, smoothing: object) -> tuple[int, float]:
    """The class that does not count, and the share of all classes in each target."""
    return whole(op, "ignore_index", ignored), number(op, "label_smoothing", smoothing, 0, 1)


def check_cross_entropy(op: str, logits: HostArray, target: HostArray, ignored: int, smoothing: float) -> None:
    """What is refused of losses, by extents and types alone."""
    arrays_only(op, logits=logits, target=target)
    describe_rows(op, "logits", logits)
    counting(op, ignored, smoothing)
    found = describe(op, "target", target, INDICES)
    shaped(op, "target", found, logits.shape[:-1], "logits")
    same_place(op, {"logits": describe(op, "logits", logits), "target": found})
    if not logits.shape[-1] and prod(target.shape):
        raise DSLValueError(f"{op}: the {prod(target.shape)} rows of logits have no classes to choose from")


def check_cross_entropy_backward(
    op: str,
    logits: HostArray,
    target: HostArray,
    sums: HostArray,
    dlosses: HostArray,
    ignored: int,
    smoothing: float,
) -> None:
    """The same of their gradient."""
    check_cross_entropy(op, logits, target, ignored, smoothing)
    check_losses(op, target, sums, dlosses)


def check_losses(op: str, target: HostArray, sums: HostArray, dlosses: HostArray) -> None:
    """What a loss has left, and its gradient: a number for each row."""
    for name, v in (("sums", sums), ("dlosses", dlosses)):
        arrays_only(op, **{name: v})
        shaped(op, name, describe(op, name, v), tuple(target.shape), "target")


__all__ = ["Loss", "cross_entropy", "cross_entropy_backward", "cross_entropy_forward"]
