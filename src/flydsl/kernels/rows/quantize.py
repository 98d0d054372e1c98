"""Rows in 8 bits with a scale for each row, each 128 elements or all of them; also behind an RMS norm, in one pass."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError

from ..scalars import number
from .arrays import Given, HostArray, describe, is_torch, matrix, same_place, shaped, type_name, vacant, vector
from .call import Result, arrays_only, described, more_of, recall
from .form import Form, form_of
from .lines import MAX, Lines, Place
from .norm_kernels import statistics, summed_at
from .softmax_entry import describe_rows
from .softmax_kernels import blocks_for, row_of

if TYPE_CHECKING:
    from flydsl.expr.annotations import Value

LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "int8": 127.0}
"""The types of 8 bits, and what the largest element of a row becomes."""
SCALES = ("row", "block", "tensor")
BLOCK = 128


@flyc.kernel
def quantize_kernel(
    x: fx.Tensor,
    weight: fx.Tensor | None,
    out: fx.Tensor,
    scales: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    eps: fx.Float64,
    largest: fx.Constexpr[float],
    normed: fx.Constexpr[bool],
    given: fx.Constexpr[bool],
    form: fx.Constexpr[Form],
):
    lines = Lines(form, row_of(form), m, n, fx.SharedAllocator(), x=x, weight=weight, out=out)
    lines.fetch("x", "weight")
    scale = statistics(lines, lines.wide(eps), False)[1] if normed else None

    def value_at(at: Place) -> Value:
        def make() -> Value:
            value = summed_at(lines, at)
            value = value if scale is None else value * scale
            return value if weight is None else value * lines.read("weight", at)

        return lines.keep("result", at, make)

    if fx.const_expr(given):
        step = lines.wide(scales[0])
    else:
        (most,) = lines.fold(lambda at: [fx.absf(value_at(at))], [MAX])
        # A row of zeros, or of next to nothing, has no largest element to go by; the scale of one with a NaN is NaN.
        step = most * (1.0 / largest)
        step = (step == 0.0).select(lines.wide(1.0), step)

    def finish(at: Place) -> None:
        value = fx.minimumf(fx.maximumf(value_at(at) / step, -largest), largest)
        lines.write("out", at, fx.roundeven(value) if out.dtype is fx.Int8 else value)

    lines.each(finish)

    def leave() -> None:
        scales[lines.row] = scales.dtype(step)

    if fx.const_expr(not given):
        lines.first(leave)


@flyc.jit
def quantize_rows(
    x: fx.Tensor,
    weight: fx.Tensor | None,
    out: fx.Tensor,
    scales: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    eps: fx.Float64,
    largest: fx.Constexpr[float],
    normed: fx.Constexpr[bool],
    given: fx.Constexpr[bool],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """Rows, or their RMS norm, over a scale each, which is left in `scales` or (`given`) the first one there."""
    quantize_kernel(x, weight, out, scales, m, n, eps, largest, normed, given, form).launch(
        grid=blocks_for(form, m), block=form.block, stream=stream
    )


def quantize(
    x: HostArray,
    dtype: object = "float8_e4m3fn",
    *,
    scale: str | HostArray = "row",
    stream: object = None,
) -> tuple[Given, Given]:
    """`x` in 8 bits, and the float32 scales that it is to be multiplied with.

    `dtype` is float8_e4m3fn, float8_e5m2 or int8. `scale` is "row", "block" (128 elements of a row), "tensor", or an
    array with one scale that is known. Larger elements than a known scale has room for become the largest number.

    >>> quantize(np.array([[1.0, -4.0], [0.0, 0.0]], "f4"), "int8")
    (array([[  32, -127],
           [   0,    0]], dtype=int8), array([0.03149606, 1.        ], dtype=float32))
    """
    op = "quantize"
    kind = _check(op, x, dtype)
    known = None if isinstance(scale, str) else scale
    if not isinstance(scale, str):
        if not is_torch(scale) and not hasattr(scale, "__array_interface__"):
            raise DSLTypeError(f"{op}: scale is one of {', '.join(SCALES)}, or an array, got {scale!r:.80}")
        found = describe(op, "scale", scale, ("float32",))
        if found.shape not in ((), (1,)):
            raise DSLValueError(f"{op}: a known scale is one number, got {found}")
    elif scale not in SCALES:
        raise DSLValueError(f"{op}: scale is one of {', '.join(SCALES)}, or an array, got {scale!r}")
    rows, shape = x, tuple(x.shape[:-1])
    if known is None and scale == "block":
        if x.shape[-1] % BLOCK:
            raise DSLValueError(f"{op}: blocks are {BLOCK} elements of a row, got rows of {x.shape[-1]}")
        shape = (*x.shape[:-1], x.shape[-1] // BLOCK)
        rows = x.reshape(*shape, BLOCK)
    if known is None and scale == "tensor":
        known = _one_for_all(x, kind)
    made, scales = _launch(op, rows, None, kind, 0.0, False, known, stream)
    return made.reshape(x.shape), known if known is not None else scales.reshape(shape)


def rms_norm_quantized(
    x: HostArray,
    weight: HostArray | None = None,
    dtype: object = "float8_e4m3fn",
    *,
    eps: float = 1e-6,
    scale: HostArray | None = None,
    stream: object = None,
) -> tuple[Given, Given]:
    """`rms_norm(x, weight)` in 8 bits, and a float32 scale for each row; or with the one scale that is given."""
    op = "rms_norm_quantized"
    eps = number(op, "eps", eps, 0)
    kind = _check(op, x, dtype)
    arrays_only(op, weight=weight, scale=scale)
    if weight is not None:
        shaped(op, "weight", describe(op, "weight", weight), x.shape[-1:], "x")
    made, scales = _launch(op, x, weight, kind, eps, True, scale, stream)
    return made, scale if scale is not None else scales.reshape(x.shape[:-1])


def _check(op: str, x: HostArray, dtype: object) -> str:
    arrays_only(op, x=x)
    describe_rows(op, "x", x)
    kind = type_name(dtype)
    if kind not in LARGEST:
        raise DSLTypeError(f"{op}: dtype is one of {', '.join(LARGEST)}, got {kind}")
    return kind


def _launch(
    op: str,
    x: HostArray,
    weight: HostArray | None,
    kind: str,
    eps: float,
    normed: bool,
    known: HostArray | None,
    stream: object,
) -> tuple[Given, Given]:
    result = Result(op, "out", x, kind, None)
    mx = matrix(x)
    m, n = mx.shape
    # Rows of no elements have scales, too.
    scales: Given = vacant(x, (math.prod(x.shape[:-1]),), "float32") if known is None else vector(known)
    if m and n:
        rows = {"x": mx, "weight": None if weight is None else vector(weight), "out": result.matrix}

        def decide() -> Form:
            found = described(op, rows)
            same_place(op, found)
            return form_of(m, n, found, 4)

        form = recall(op, rows, None, decide)
        quantize_rows(
            mx, rows["weight"], result.matrix, scales, m, n, eps, LARGEST[kind], normed, known is not None, form,
            **more_of(stream),
        )  # fmt: skip
    elif known is None:
        scales[...] = 1.0
    return result.done(), scales


def _one_for_all(x: HostArray, kind: str) -> Given:
    """The scale of the largest element of all, by the arrays' own library; it stays where they are."""
    made: Given = vacant(x, (1,), "float32")
    made[...] = 0.0
    if 0 not in x.shape:
        array: Given = x
        # In float32 before the division: 16 bits have no number for the scale of small elements.
        made[...] = abs(array).max()
        made /= LARGEST[kind]
    made[made == 0] = 1.0
    return made


__all__ = ["quantize", "rms_norm_quantized"]
