"""RMS norm and layer norm of rows, with a sum of two rows in front."""

from __future__ import annotations

from typing import TYPE_CHECKING

import flydsl.compiler as flyc
import flydsl.expr as fx

from .form import Form
from .lines import Lines, Place
from .softmax_kernels import blocks_for, cluster_of, registers_for, row_of, waiting_bytes

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


def statistics(lines: Lines, eps: fx.Numeric, centred: bool) -> tuple[fx.Numeric | None, fx.Numeric]:
    """Mean (None without it) and the reciprocal deviation of a row."""
    if not centred:
        return None, reciprocal(fx.fma(lines.squares(lambda at: summed_at(lines, at)), lines.share, eps))
    mean, squares = lines.moments(lambda at: summed_at(lines, at))
    return mean, reciprocal(fx.fma(squares, lines.share, eps))


def reciprocal(x: fx.Numeric) -> fx.Numeric:
    """1 / sqrt(x)."""
    return 1.0 / fx.sqrt(x) if type(x) is fx.Float64 else fx.rsqrt(x)


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
    lines = Lines(
        form, row_of(form), m, n, x=x, residual=residual, weight=weight, bias=bias, out=out, summed=summed
    )  # fmt: skip
    # Weight and bias come late, from L1: their registers let a multiprocessor work on more rows meanwhile.
    lines.fetch("x", "residual")
    mean, scale = statistics(lines, lines.wide(eps), centred)

    def leave() -> None:
        if means is not None and mean is not None:
            means[lines.row] = means.dtype(mean)
        if scales is not None:
            scales[lines.row] = scales.dtype(scale)

    def finish(at: Place) -> None:
        value = summed_at(lines, at)
        if summed is not None:
            lines.write("summed", at, value)
        value = (value if mean is None else value - mean) * scale
        if weight is not None and bias is not None:
            value = fx.fma(value, lines.read("weight", at), lines.read("bias", at))
        elif weight is not None:
            value = value * lines.read("weight", at)
        elif bias is not None:
            value = value + lines.read("bias", at)
        lines.write("out", at, value)

    lines.each(finish, [name for name in READ if name in lines.arrays])
    if fx.const_expr(scales is not None):
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
        smem=waiting_bytes(form, 1 if residual is None else 2), stream=stream,
    )  # fmt: skip
