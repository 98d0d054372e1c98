"""Group norm: rows are the groups of channels of an image, and a channel has one weight for all its places.

The gradient of the weights takes two sums for each channel of each image, then one over the images; both orders depend
on the shape alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLValueError

from ..matmul.workspace import repeated_scratch
from ..repeats import fresh_as, fresh_like, relaunch, remember_call, repeated
from ..scalars import choice, flags, number, whole
from .arrays import (
    FLOATS,
    Array,
    Given,
    HostArray,
    describe,
    is_view,
    matrix,
    same_place,
    shaped,
    vacant,
    vector,
    zeros,
)
from .call import Result, arrays_only, check_apart, described, dtype_of, more_of, part_of, recall
from .columns import sum_columns
from .form import Form, form_of
from .lines import ADD, Lines, Place
from .norm_kernels import Channels, statistics, summed_at
from .softmax_kernels import blocks_for, row_of

if TYPE_CHECKING:
    from flydsl.compiler.jit_function import JitFunction
    from flydsl.expr.annotations import Value


@flyc.kernel
def group_norm_kernel(
    x: fx.Tensor,
    residual: fx.Tensor | None,
    weight: fx.Tensor | None,
    bias: fx.Tensor | None,
    out: fx.Tensor,
    summed: fx.Tensor | None,
    means: fx.Tensor,
    scales: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    groups: fx.Int32,
    each: fx.Int32,
    size: fx.Int32,
    eps: fx.Float64,
    even: fx.Constexpr[bool],
    form: fx.Constexpr[Form],
):
    lines = Lines(form, row_of(form), m, n, fx.SharedAllocator(), x=x, residual=residual, out=out, summed=summed)
    lines.fetch("x", "residual")
    channels = Channels(lines, groups, each, size, even)
    mean, scale = statistics(lines, lines.wide(eps), True)
    assert mean is not None

    def finish(at: Place) -> None:
        value = summed_at(lines, at)
        if summed is not None:
            lines.write("summed", at, value)
        value = (value - mean) * scale
        value = value if weight is None else value * channels.read(weight, at)
        lines.write("out", at, value if bias is None else value + channels.read(bias, at))

    lines.each(finish)

    def leave() -> None:
        means[lines.row], scales[lines.row] = means.dtype(mean), scales.dtype(scale)

    lines.first(leave)


@flyc.jit
def group_norm_rows(
    x: fx.Tensor,
    residual: fx.Tensor | None,
    weight: fx.Tensor | None,
    bias: fx.Tensor | None,
    out: fx.Tensor,
    summed: fx.Tensor | None,
    means: fx.Tensor,
    scales: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    groups: fx.Int32,
    each: fx.Int32,
    size: fx.Int32,
    eps: fx.Float64,
    even: fx.Constexpr[bool],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """The norm of `m` groups of `each` channels of `size` elements of x + residual; the sum and statistics on the side.

    Statistics are the means and the reciprocal deviations.
    """
    group_norm_kernel(
        x, residual, weight, bias, out, summed, means, scales, m, n, groups, each, size, eps, even, form
    ).launch(grid=blocks_for(form, m), block=form.block, stream=stream)  # fmt: skip


@flyc.kernel
def group_norm_back_kernel(
    dy: fx.Tensor,
    x: fx.Tensor,
    weight: fx.Tensor | None,
    means: fx.Tensor,
    scales: fx.Tensor,
    dsummed: fx.Tensor | None,
    dx: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    groups: fx.Int32,
    each: fx.Int32,
    size: fx.Int32,
    even: fx.Constexpr[bool],
    form: fx.Constexpr[Form],
):
    lines = Lines(form, row_of(form), m, n, fx.SharedAllocator(), dy=dy, x=x, dsummed=dsummed, dx=dx)
    lines.fetch("dy", "x", "dsummed")
    channels = Channels(lines, groups, each, size, even)
    mean, scale, count = lines.wide(means[lines.row]), lines.wide(scales[lines.row]), lines.wide(n)

    def normed(at: Place) -> Value:
        return (lines.read("x", at) - mean) * scale

    def weighted(at: Place) -> Value:
        value = lines.read("dy", at)
        return value if weight is None else lines.keep("weighted", at, lambda: value * channels.read(weight, at))

    along, level = lines.fold(lambda at: [weighted(at) * normed(at), weighted(at)], [ADD, ADD])
    along, level = along / count, level / count

    def finish(at: Place) -> None:
        value = (weighted(at) - level - normed(at) * along) * scale
        lines.write("dx", at, value if dsummed is None else value + lines.read("dsummed", at))

    lines.each(finish)


@flyc.jit
def group_norm_back(
    dy: fx.Tensor,
    x: fx.Tensor,
    weight: fx.Tensor | None,
    means: fx.Tensor,
    scales: fx.Tensor,
    dsummed: fx.Tensor | None,
    dx: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    groups: fx.Int32,
    each: fx.Int32,
    size: fx.Int32,
    even: fx.Constexpr[bool],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """dx of every group, with the gradient of the sum on top."""
    group_norm_back_kernel(dy, x, weight, means, scales, dsummed, dx, m, n, groups, each, size, even, form).launch(
        grid=blocks_for(form, m), block=form.block, stream=stream
    )


@flyc.kernel
def channel_sums_kernel(
    dy: fx.Tensor,
    x: fx.Tensor,
    means: fx.Tensor,
    scales: fx.Tensor,
    dweights: fx.Tensor | None,
    dbiases: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    each: fx.Int32,
    form: fx.Constexpr[Form],
):
    lines = Lines(form, row_of(form), m, n, fx.SharedAllocator(), dy=dy, x=x)
    lines.fetch("dy", "x")
    group = lines.row // each
    mean, scale = lines.wide(means[group]), lines.wide(scales[group])
    dw, db = lines.fold(
        lambda at: [lines.read("dy", at) * (lines.read("x", at) - mean), lines.read("dy", at)], [ADD, ADD]
    )  # fmt: skip

    def leave() -> None:
        if dweights is not None:
            dweights[lines.row] = dweights.dtype(dw * scale)
        if dbiases is not None:
            dbiases[lines.row] = dbiases.dtype(db)

    lines.first(leave)


@flyc.jit
def channel_sums(
    dy: fx.Tensor,
    x: fx.Tensor,
    means: fx.Tensor,
    scales: fx.Tensor,
    dweights: fx.Tensor | None,
    dbiases: fx.Tensor | None,
    of_weight: fx.Tensor | None,
    of_bias: fx.Tensor | None,
    dweight: fx.Tensor | None,
    dbias: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    each: fx.Int32,
    images: fx.Int32,
    channels: fx.Int32,
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """The gradients of weight and bias, by the part of each channel of each image in them.

    `of_weight` and `of_bias` are these parts, `dweights` and `dbiases`, as matrices of images.
    """
    channel_sums_kernel(dy, x, means, scales, dweights, dbiases, m, n, each, form).launch(
        grid=blocks_for(form, m), block=form.block, stream=stream
    )
    sum_columns([(of_weight, dweight), (of_bias, dbias)], images, channels, stream)


class GroupNorm(NamedTuple):
    """A group norm, and what its gradient needs: the mean and the reciprocal deviation of each group."""

    out: Given
    summed: Given
    """x + residual in the type of x; x itself without a residual."""
    mean: Given
    scale: Given


class Extents(NamedTuple):
    images: int
    groups: int
    each: int
    size: int


def group_norm(
    x: HostArray,
    groups: int,
    weight: HostArray | None = None,
    bias: HostArray | None = None,
    *,
    eps: float = 1e-5,
    residual: HostArray | None = None,
    out: HostArray | None = None,
    stream: object = None,
) -> Given:
    """`x`, (images, channels, ...), less its mean and over its deviation in each group of channels.

    `weight` and `bias` have a value for each channel. With a residual the norm is that of x + residual, and the result
    (norm, x + residual).
    """
    made = group_norm_forward(x, groups, weight, bias, eps=eps, residual=residual, out=out, stream=stream)
    return made.out if residual is None else (made.out, made.summed)


def group_norm_forward(
    x: HostArray,
    groups: int,
    weight: HostArray | None = None,
    bias: HostArray | None = None,
    *,
    eps: float = 1e-5,
    residual: HostArray | None = None,
    out: HostArray | None = None,
    stream: object = None,
) -> GroupNorm:
    """The norm, and what its gradient needs."""
    op, key = "group_norm", None
    if type(groups) is not int or type(eps) is not float:
        groups, eps = whole(op, "groups", groups), number(op, "eps", eps, 0)
    if out is None and stream is None:
        key, known = repeated(op, (groups, eps), x, weight, bias, residual)
        if known is not None:
            return known
    extents = check_group_norm(op, x, groups, weight, bias, residual, eps)
    arrays_only(op, out=out)
    result = Result(op, "out", x, dtype_of(x), out, plain=True)
    check_apart(op, "out", out, x=x, residual=residual, weight=weight, bias=bias)
    summed = None if residual is None else Result(op, "summed", x, dtype_of(x), None, plain=True)
    m, n = extents.images * groups, extents.each * extents.size
    wide = "float64" if dtype_of(x) == "float64" else "float32"
    means, scales = (vacant(x, (m,), wide) for _ in range(2))
    if m and n:
        rows = {
            "x": matrix(x.reshape(m, n)), "residual": None if residual is None else matrix(residual.reshape(m, n)),
            "out": result.plain.reshape(m, n), "summed": None if summed is None else summed.plain.reshape(m, n),
        }  # fmt: skip
        form = recall(op, rows, None, lambda: _form(op, rows, 4))
        vectors = (_vector(weight), _vector(bias))
        rest = (m, n, groups, extents.each, extents.size, eps, _even(form, extents.size), form)
        group_norm_rows(
            rows["x"], rows["residual"], *vectors, rows["out"], rows["summed"], means, scales, *rest, **more_of(stream)
        )
        if key is not None and _in_place(rows, x=x, residual=residual) and vectors[0] is weight and vectors[1] is bias:
            _remember(key, x, weight, bias, residual, means, rest)
    return GroupNorm(result.done(), x if summed is None else summed.done(), means, scales)


def _remember(
    key: object, x: Given, weight: Given, bias: Given, residual: Given, means: Given, rest: tuple[object, ...]
) -> None:
    """The forward call, for tensors like these."""
    fresh, statistic, shape, sums = fresh_like(x), fresh_as(x, means.shape, means.dtype), rest[:2], residual is not None

    def arrange(
        x: Given, weight: Given, bias: Given, residual: Given, out: Given, summed: Given, mean: Given, scale: Given
    ) -> tuple[object, ...]:
        x, residual, out, summed = (None if v is None else v.view(shape) for v in (x, residual, out, summed))
        return (x, residual, weight, bias, out, summed, mean, scale, *rest)

    rows = relaunch(group_norm_rows, arrange, (0, 3, 1, 2, 4, 5, 6, 7), fresh=4)

    def call(x: Given, weight: Given, bias: Given, residual: Given) -> GroupNorm | None:
        out, summed, mean, scale = fresh(x), fresh(x) if sums else None, statistic(), statistic()
        if not rows.now(x, weight, bias, residual, out, summed, mean, scale):
            return None
        return GroupNorm(out, summed if sums else x, mean, scale)

    remember_call(key, call)


def group_norm_backward(
    dy: HostArray,
    x: HostArray,
    groups: int,
    weight: HostArray | None,
    mean: HostArray,
    scale: HostArray,
    *,
    dsummed: HostArray | None = None,
    wanted: tuple[bool, bool, bool] = (True, True, True),
    bias_type: str | None = None,
    stream: object = None,
) -> tuple[Given, Given, Given]:
    """The gradients of x, weight and bias, None for those that are not `wanted`.

    `x` is what was normed: with a residual the sum, whose gradient, where it was a result, is `dsummed`; the residual's
    is that of x. Those of weight and bias have the type of `weight`, or of x without one; that of the bias `bias_type`,
    if given.
    """
    op, key = "group_norm_backward", None
    inputs, weights, biases = flags(op, "wanted", wanted, 3)
    groups = whole(op, "groups", groups)
    if stream is None:
        key, known = repeated(op, (groups, inputs, weights, biases, bias_type), dy, x, weight, mean, scale, dsummed)
        if known is not None:
            return known
    extents = check_group_norm_backward(op, dy, x, groups, weight, mean, scale, dsummed, bias_type)
    images, _, each, size = extents
    m, n, channels = images * groups, each * size, groups * each
    result = Result(op, "dx", x, dtype_of(x), None, plain=True) if inputs else None
    kind = dtype_of(x if weight is None else weight)
    fresh, types = vacant if m and n else zeros, ((weights, kind), (biases, bias_type or kind))
    made = [fresh(x, (channels,), t) if want else None for want, t in types]
    if m and n and (inputs or weights or biases):
        means, scales = vector(mean), vector(scale)
        vectors = (_vector(weight), means, scales)
        launches: list[_Launch] = []
        views: list[bool] = []
        if result is not None:
            rows = {
                "dy": matrix(dy.reshape(m, n)), "x": matrix(x.reshape(m, n)),
                "dsummed": None if dsummed is None else matrix(dsummed.reshape(m, n)), "dx": result.plain.reshape(m, n),
            }  # fmt: skip
            form = recall(op, rows, None, lambda: _form(op, rows, 8))
            rest = (m, n, groups, each, size, _even(form, size), form)
            launches.append(_Launch(group_norm_back, (m, n), rest))
            views.append(_in_place(rows, dy=dy, x=x, dsummed=dsummed))
            group_norm_back(rows["dy"], rows["x"], *vectors, rows["dsummed"], rows["dx"], *rest, **more_of(stream))
        sums = None
        if weights or biases:
            lines = {name: matrix(v.reshape(images * channels, size)) for name, v in (("dy", dy), ("x", x))}
            wide = "float64" if dtype_of(x) == "float64" else "float32"
            sums = vacant(x, (weights + biases, images, channels), wide)
            form = recall(f"{op}: channels", lines, None, lambda: _form(op, lines, 8))
            rest = (images * channels, size, each, images, channels, form)
            launches.append(_Launch(channel_sums, (images * channels, size), rest))
            views.append(_in_place(lines, dy=dy, x=x))
            sent: list[Given] = [lines["dy"], lines["x"], means, scales, *_parts(sums, made), *made, *rest]
            channel_sums(*sent, **more_of(stream))
        as_they_are = all(a is b for a, b in zip(vectors, (weight, mean, scale), strict=True))
        if key is not None and all(views) and as_they_are:
            _remember_backward(key, x, made, sums, launches)
    return None if result is None else result.done(), made[0], made[1]


def _in_place(rows: Mapping[str, HostArray | None], **given: HostArray | None) -> bool:
    """Whether matrices of rows are what was given."""
    return all(v is None or is_view(cast("HostArray", rows[name]), v) for name, v in given.items())


class _Launch(NamedTuple):
    """One of a function that is given rows of this shape, and what comes behind all arrays."""

    function: JitFunction
    shape: tuple[int, int]
    rest: tuple[object, ...]


def _parts(sums: Given, made: Sequence[Given]) -> tuple[Given, ...]:
    """The sums of weight and bias, which are one array: by the channel, and as matrices of images."""
    of_weight, of_bias = None if made[0] is None else sums[0], None if made[1] is None else sums[-1]
    return (*(None if t is None else t.reshape(-1) for t in (of_weight, of_bias)), of_weight, of_bias)


_SOURCES = {"group_norm_back": (0, 1, 2, 3, 4, 5, 6), "channel_sums": (0, 1, 3, 4, 7, 7, 7, 7, 8, 9)}
"""Of dy, x, weight, mean, scale, dsummed, dx, the sums, dweight and dbias, those that a function takes."""


def _remember_backward(key: object, x: Given, made: list[Given], sums: Given, launches: list[_Launch]) -> None:
    """The gradients, for tensors like these; `made` and `sums` are as those of weight and bias."""
    inputs, fresh = launches[0].function is group_norm_back, fresh_like(x)
    of_weight, of_bias = (None if t is None else fresh_as(x, t.shape, t.dtype) for t in made)
    of_sums = None if sums is None else repeated_scratch(x, sums.nbytes)
    shape, wide = (None, None) if sums is None else (tuple(sums.shape), sums.dtype)

    def arranged(launch: _Launch, *tensors: Given) -> tuple[object, ...]:
        dy, x, weight, mean, scale, dsummed, dx, memory, *made = tensors
        rows = (dy.view(launch.shape), x.view(launch.shape))
        if launch.function is group_norm_back:
            extra = None if dsummed is None else dsummed.view(launch.shape)
            return (*rows, weight, mean, scale, extra, dx.view(launch.shape), *launch.rest)
        assert shape is not None
        return (*rows, mean, scale, *_parts(part_of(memory, shape, wide), made), *made, *launch.rest)

    first, *more = (
        relaunch(launch.function, partial(arranged, launch), _SOURCES[launch.function.__name__], fresh=4)
        for launch in launches
    )
    second = more[0] if more else None

    def call(
        dy: Given, x: Given, weight: Given, mean: Given, scale: Given, dsummed: Given
    ) -> tuple[Given, Given, Given] | None:
        dx = fresh(x) if inputs else None
        sums = None if of_sums is None else of_sums()
        dweight = None if of_weight is None else of_weight()
        dbias = None if of_bias is None else of_bias()
        if not first.now(dy, x, weight, mean, scale, dsummed, dx, sums, dweight, dbias):
            return None
        if second is not None and not second.now(dy, x, weight, mean, scale, dsummed, dx, sums, dweight, dbias):
            return None
        return dx, dweight, dbias

    remember_call(key, call)


def _vector(x: HostArray | None) -> HostArray | None:
    return None if x is None else vector(x)


def _even(form: Form, size: int) -> bool:
    """Whether all elements of a unit are of one channel."""
    return not form.edges and size % form.unit == 0


def _form(op: str, rows: Mapping[str, HostArray | None], held: int) -> Form:
    found = described(op, rows)
    same_place(op, found)
    x = found["x"]
    assert x is not None
    m, n = x.shape
    return form_of(m, n, found, max(held, x.itemsize))


def check_group_norm(
    op: str,
    x: HostArray,
    groups: int,
    weight: HostArray | None,
    bias: HostArray | None,
    residual: HostArray | None,
    eps: float,
) -> Extents:
    """What is refused of a group norm, by extents and types alone."""
    number(op, "eps", eps, 0)
    arrays_only(op, x=x, weight=weight, bias=bias, residual=residual)
    found: Array = describe(op, "x", x)
    if len(found.shape) < 2:
        raise DSLValueError(f"{op}: x is (images, channels, ...), got {found}")
    images, channels = found.shape[:2]
    if groups < 1 or channels % groups:
        raise DSLValueError(f"{op}: {channels} channels are no {groups} groups of equal size")
    for name, v in (("weight", weight), ("bias", bias)):
        if v is not None:
            shaped(op, name, describe(op, name, v), (channels,), "x")
    if residual is not None:
        shaped(op, "residual", describe(op, "residual", residual, (found.dtype,)), found.shape, "x")
    size = 1
    for extent in found.shape[2:]:
        size *= extent
    return Extents(images, groups, channels // groups, size)


def check_group_norm_backward(
    op: str,
    dy: HostArray,
    x: HostArray,
    groups: int,
    weight: HostArray | None,
    mean: HostArray,
    scale: HostArray,
    dsummed: HostArray | None,
    bias_type: str | None = None,
) -> Extents:
    """The same of its gradients."""
    if bias_type is not None:
        choice(op, "bias_type", bias_type, tuple(FLOATS))
    arrays_only(op, dy=dy, x=x, weight=weight, mean=mean, scale=scale, dsummed=dsummed)
    extents = check_group_norm(op, x, groups, weight, None, None, 0.0)
    for name, v in (("dy", dy), ("dsummed", dsummed)):
        if v is not None:
            shaped(op, name, describe(op, name, v), x.shape, "x")
    for name, v in (("mean", mean), ("scale", scale)):
        shaped(op, name, describe(op, name, v), (extents.images * groups,), "x")
    return extents


__all__ = ["GroupNorm", "group_norm", "group_norm_backward", "group_norm_forward"]
