"""RMS norm and layer norm of rows, with a sum of two rows in front; and what of a row may be quantized."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import flydsl.compiler as flyc
import flydsl.expr as fx

from .form import Form
from .lines import Lines, Place, power
from .softmax_kernels import (
    blocks_for,
    cluster_of,
    power_at,
    registers_for,
    row_of,
    top_of_all_and_warp,
    waiting_bytes,
)
from .staying import Stay, ring_bytes

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value


READ = ("x", "residual", "weight", "bias")


def summed_at(lines: Lines, at: Place) -> Value:
    """What is normed: the row, or its sum with the residual as it is stored."""

    def make() -> Value:
        value = lines.read("x", at)
        if "residual" in lines.arrays:
            value = (value + lines.read("residual", at)).to(lines.arrays["summed"].dtype).to(lines.wide)
        return value

    return lines.keep("normed", at, make)


def statistics(
    lines: Lines, eps: fx.Numeric, centred: bool, narrow: bool = False
) -> tuple[fx.Numeric | None, fx.Numeric]:
    """Mean (None without it) and the reciprocal deviation of a row; the latter by the hardware for `narrow` results."""
    if not centred:
        squares = lines.squares(lambda at: summed_at(lines, at))
        return None, reciprocal(fx.fma(squares, lines.share, eps), narrow)
    mean, squares = lines.moments(lambda at: summed_at(lines, at))
    return mean, reciprocal(fx.fma(squares, lines.share, eps), narrow)


def reciprocal(x: fx.Numeric, narrow: bool) -> fx.Numeric:
    """1 / sqrt(x)."""
    if type(x) is fx.Float64:
        return 1.0 / fx.sqrt(x)
    return fx.rsqrt(x, fastmath="afn") if narrow else fx.rsqrt(x)


def centre(value: Value, mean: fx.Numeric, scale: fx.Numeric, narrow: bool) -> Value:
    """(value - mean) scale; for narrow results one operation, at the cost of half an ulp of mean times scale."""
    return fx.fma(value, scale, -mean * scale) if narrow else (value - mean) * scale


class Channels:
    """Which channel an element of a group belongs to."""

    def __init__(self, lines: Lines, groups: fx.Int32, each: fx.Int32, size: fx.Int32, even: bool):
        self.lines, self.size, self.even = lines, size, even
        self.first = lines.row % groups * each

    def read(self, t: fx.Tensor, at: Place) -> Value:
        """The values of the channels of a place: one for all of it where channels consist of whole units."""
        wide = self.lines.wide
        if at.size == 1 or self.even:
            return wide(t[self.first + at.at // self.size])
        found = [wide(t[self.first + (at.at + i) // self.size]) for i in range(at.size)]
        return fx.Vector.from_elements(found, wide)


def values_of(
    lines: Lines,
    norm: str,
    eps: fx.Float64,
    weight: fx.Tensor | None,
    bias: fx.Tensor | None,
    groups: fx.Int32 | None,
    each: fx.Int32 | None,
    size: fx.Int32 | None,
    even: bool,
) -> Callable[[Place], Value]:
    """The values at a place of the row as it is (""), of a norm of it, "rms", "layer" or "group", or of its "softmax".

    Of the "group" norm rows are groups of `each` channels of `size` elements. There weight and bias have a value for
    each channel; otherwise they are arrays of the lines.
    """
    lines.fetch(*READ)
    if norm == "softmax":
        top, mine, total = top_of_all_and_warp(lines, "x")
        share = power(mine - top) / total
        return lambda at: power_at(lines, "x", at, mine) * share
    mean, scale = statistics(lines, lines.wide(eps), norm != "rms") if norm else (None, None)
    channels = None
    if groups is not None and each is not None and size is not None:
        channels = Channels(lines, groups, each, size, even)

    def read(name: str, t: fx.Tensor, at: Place) -> Value:
        return lines.read(name, at) if channels is None else channels.read(t, at)

    def value_at(at: Place) -> Value:
        def make() -> Value:
            value = summed_at(lines, at)
            value = value if mean is None else value - mean
            value = value if scale is None else value * scale
            value = value if weight is None else value * read("weight", weight, at)
            return value if bias is None else value + read("bias", bias, at)

        return lines.keep("result", at, make)

    return value_at


@flyc.kernel
def norm_rows_kernel(
    x: fx.Tensor,
    residual: fx.Tensor | None,
    weight: fx.Tensor | None,
    bias: fx.Tensor | None,
    out: fx.Tensor,
    summed: fx.Tensor | None,
    means: fx.Tensor | None,
    scales: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    eps: fx.Float64,
    centred: fx.Constexpr[bool],
    form: fx.Constexpr[Form],
):
    def one(lines: Lines) -> None:
        norm_row(lines, means, scales, eps, centred)

    if fx.const_expr(form.ring > 0):
        Stay(form, {"x": x}, m, n, {"weight": weight, "bias": bias}).over_rows(one, out=out)
    else:
        one(Lines(form, row_of(form), m, n, x=x, residual=residual, weight=weight, bias=bias, out=out, summed=summed))


def norm_row(
    lines: Lines,
    means: fx.Tensor | None,
    scales: fx.Tensor | None,
    eps: fx.Float64,
    centred: bool,
) -> None:
    """One row."""
    # Weight and bias come late, from L1: their registers let a multiprocessor work on more rows meanwhile.
    lines.fetch("x", "residual")
    narrow = lines.arrays["out"].dtype.width < 32
    mean, scale = statistics(lines, lines.wide(eps), centred, narrow)

    def leave() -> None:
        if means is not None and mean is not None:
            means[lines.row] = means.dtype(mean)
        if scales is not None:
            scales[lines.row] = scales.dtype(scale)

    def finish(at: Place) -> None:
        value = summed_at(lines, at)
        if "summed" in lines.arrays:
            lines.write("summed", at, value)
        value = value * scale if mean is None else centre(value, mean, scale, narrow)
        weight, bias = "weight" in lines.arrays, "bias" in lines.arrays
        if weight and bias:
            value = fx.fma(value, lines.read("weight", at), lines.read("bias", at))
        elif weight:
            value = value * lines.read("weight", at)
        elif bias:
            value = value + lines.read("bias", at)
        lines.write("out", at, value)

    lines.each(finish, [name for name in READ if name in lines.arrays])
    if scales is not None:
        lines.first(leave)


@flyc.jit
def norm_rows(
    x: fx.Tensor,
    residual: fx.Tensor | None,
    weight: fx.Tensor | None,
    bias: fx.Tensor | None,
    out: fx.Tensor,
    summed: fx.Tensor | None,
    means: fx.Tensor | None,
    scales: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    eps: fx.Float64,
    centred: fx.Constexpr[bool],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """Layer norm (`centred`) or RMS norm of x + residual; the sum, the means and reciprocal deviations on the side."""
    norm_rows_kernel(
        x, residual, weight, bias, out, summed, means, scales, m, n, eps, centred, form,
        value_attrs=registers_for(form),
    ).launch(
        grid=blocks_for(form, m), block=form.block, cluster=cluster_of(form),
        smem=waiting_bytes(form, 1 if residual is None else 2)
        + ring_bytes(form, (weight is not None) + (bias is not None)),
        stream=stream,
    )  # fmt: skip
