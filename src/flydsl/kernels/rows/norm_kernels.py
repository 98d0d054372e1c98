"""RMS norm and layer norm of rows, with a sum of two rows in front."""

from __future__ import annotations

from typing import TYPE_CHECKING

import flydsl.compiler as flyc
import flydsl.expr as fx

from .form import Form
from .lines import Lines, Place
from .softmax_kernels import blocks_for, cluster_of, registers_for, row_of, waiting_bytes
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
