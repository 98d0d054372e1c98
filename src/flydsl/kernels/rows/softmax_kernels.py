"""Softmax and log-softmax of rows, and their gradients."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.nvgpu.target import trace_target

from .form import UNIT_BYTES, Form
from .lines import ADD, MAX, Lines, Place, logarithm, pick, power
from .staying import Stay, ring_bytes

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value

LOWEST = {fx.Float32: -(2 - 2**-23) * 2.0**127, fx.Float64: -(2 - 2**-52) * 2.0**1023}
"""Where the search for a largest value starts: no number is less, and it is finite, so that differences are numbers."""


def row_of(form: Form) -> fx.Int32:
    """The row of a thread: blocks take `form.rows` each, or a cluster of them takes one."""
    if form.cluster > 1:
        return fx.block_idx.x // form.cluster
    return fx.block_idx.x * form.rows + fx.thread_idx.x // form.team if form.rows > 1 else fx.block_idx.x


def blocks_for(form: Form, m: fx.Int32) -> fx.Int32:
    """Blocks for all rows."""
    if form.ring:
        return fx.min(m, fx.Int32(form.stays)) * form.cluster
    return m * form.cluster if form.cluster > 1 else fx.ceildiv(m, form.rows)


def cluster_of(form: Form) -> int | None:
    """Blocks of a cluster, where there are any."""
    return form.cluster if form.cluster > 1 else None


def registers_for(form: Form) -> dict[str, int]:
    """What tells the compiler how many blocks of a multiprocessor share its registers, where that can be said."""
    target = trace_target()
    return {"nvvm.minctasm": form.resident} if form.resident and target is not None and target.has("nvidia") else {}


def waiting_bytes(form: Form, arrays: int = 1) -> int:
    """Shared memory for the units of so many arrays that wait between the passes."""
    return arrays * form.parked * form.block * UNIT_BYTES


def top_and_sum(lines: Lines, name: str) -> tuple[fx.Numeric, fx.Numeric]:
    """The largest value of a row, and the sum of the powers relative to it.

    In registers that is one look after the other. A loop reads once: the sum follows the largest value found so far.
    """
    if lines.form.turns:
        lines.fetch(name)
        (top,) = lines.fold(lambda at: [lines.read(name, at)], [MAX])
        # Nothing but -inf has no difference to itself.
        top = fx.maxnumf(top, lines.wide(LOWEST[lines.wide]))
        (total,) = lines.fold(lambda at: [power_at(lines, name, at, top)], [ADD])
        return top, total
    wide = lines.wide

    def follow(at: Place, so_far: list[Value]) -> list[Value]:
        top, total = so_far
        values = lines.read(name, at)
        highest = values.reduce(MAX) if isinstance(values, fx.Vector) else values
        if at.here is not True:
            highest = pick(at.here, highest, float("-inf"))
        more = fx.maxnumf(top, highest)
        powers = power(values - more)
        powers = powers.reduce(ADD) if isinstance(powers, fx.Vector) else powers
        if at.here is not True:
            powers = pick(at.here, powers, 0.0)
        return [more, total * power(top - more) + powers]

    mine, total = (cast("fx.Numeric", v) for v in lines.collect([wide(LOWEST[wide]), wide(0.0)], follow, [name]))
    (top,) = lines.meet([mine], [MAX])
    (total,) = lines.meet([total * cast("fx.Numeric", power(mine - top))], [ADD])
    return top, total


def top_of_all_and_warp(lines: Lines, name: str) -> tuple[fx.Numeric, fx.Numeric, fx.Numeric]:
    """The largest value of a row, that of the warp's share, which its powers are relative to, and the sum of powers.

    Warps then meet once: the sum of each is scaled to the largest value of all.
    """
    wide = lines.wide
    if not lines.form.turns or lines.form.team <= fx.num_warp_threads():
        top, total = top_and_sum(lines, name)
        return top, top, total
    lines.fetch(name)
    (mine,) = lines.fold_warp(lambda at: [lines.read(name, at)], [MAX])
    mine = fx.maxnumf(mine, wide(LOWEST[wide]))  # nothing but -inf has no difference to itself
    (total,) = lines.fold_warp(lambda at: [power_at(lines, name, at, mine)], [ADD])
    (tops, totals), width = lines.join([mine, total])
    top = fx.coop.warp_reduce(functools.reduce(fx.maxnumf, tops), MAX, width=width)
    parts = [t * cast("fx.Numeric", power(m - top)) for m, t in zip(tops, totals, strict=True)]
    return top, mine, fx.coop.warp_reduce(functools.reduce(lambda a, b: a + b, parts), ADD, width=width)


def power_at(lines: Lines, name: str, at: Place, top: fx.Numeric) -> Value:
    """e to the values at a place less `top`."""
    return lines.keep(f"power of {name}", at, lambda: power(lines.read(name, at) - top))


@flyc.kernel
def softmax_rows_kernel(
    x: fx.Tensor, out: fx.Tensor, m: fx.Int32, n: fx.Int32, log: fx.Constexpr[bool], form: fx.Constexpr[Form]
):
    if fx.const_expr(form.ring > 0):
        Stay(form, {"x": x}, m, n, {}).over_rows(lambda lines: softmax_row(lines, log), out=out)
    else:
        softmax_row(Lines(form, row_of(form), m, n, x=x, out=out), log)


def softmax_row(lines: Lines, log: bool) -> None:
    """One row."""
    top, mine, total = top_of_all_and_warp(lines, "x")
    if log:
        shift = top + logarithm(total)
        lines.each(lambda at: lines.write("out", at, lines.read("x", at) - shift), ["x"])
    else:
        scale = power(mine - top) / total if mine is not top else 1.0 / total
        lines.each(lambda at: lines.write("out", at, power_at(lines, "x", at, mine) * scale), ["x"])


@flyc.jit
def softmax_rows(
    x: fx.Tensor,
    out: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    log: fx.Constexpr[bool],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """Softmax, or its logarithm, of `m` rows of `n` elements."""
    softmax_rows_kernel(x, out, m, n, log, form, value_attrs=registers_for(form)).launch(
        grid=blocks_for(form, m), block=form.block, cluster=cluster_of(form),
        smem=waiting_bytes(form) + ring_bytes(form, 0), stream=stream,
    )  # fmt: skip


@flyc.kernel
def softmax_back_kernel(
    y: fx.Tensor,
    dy: fx.Tensor,
    dx: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    log: fx.Constexpr[bool],
    form: fx.Constexpr[Form],
):
    lines = Lines(form, row_of(form), m, n, y=y, dy=dy, dx=dx)
    lines.fetch("y", "dy")
    if fx.const_expr(log):
        (total,) = lines.fold(lambda at: [lines.read("dy", at)], [ADD])
        lines.each(
            lambda at: lines.write("dx", at, lines.read("dy", at) - power(lines.read("y", at)) * total), ["y", "dy"]
        )
    else:
        (dot,) = lines.fold(lambda at: [lines.read("y", at) * lines.read("dy", at)], [ADD])
        lines.each(lambda at: lines.write("dx", at, lines.read("y", at) * (lines.read("dy", at) - dot)), ["y", "dy"])


@flyc.jit
def softmax_back(
    y: fx.Tensor,
    dy: fx.Tensor,
    dx: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    log: fx.Constexpr[bool],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """The gradient of the rows from that of their softmax, or of its logarithm, `y`."""
    softmax_back_kernel(y, dy, dx, m, n, log, form).launch(
        grid=blocks_for(form, m), block=form.block, cluster=cluster_of(form), stream=stream
    )
