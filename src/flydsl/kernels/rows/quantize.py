"""Rows in 8 bits with a scale for each row, each 128 elements or all of them; also behind a norm, in one pass."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError

from ..scalars import choice, number
from .arrays import Given, HostArray, describe, is_torch, matrix, same_place, shaped, type_name, type_of, vacant, vector
from .call import Result, arrays_only, described, dtype_of, more_of, recall
from .form import SHORT_WARP, WARP, Form, form_of, known_form
from .lines import MAX, Lines, Place, when
from .norm_kernels import statistics, summed_at
from .norms import layer_norm, rms_norm
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
    residual: fx.Tensor | None,
    weight: fx.Tensor | None,
    bias: fx.Tensor | None,
    out: fx.Tensor,
    summed: fx.Tensor | None,
    scales: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    eps: fx.Float64,
    largest: fx.Constexpr[float],
    norm: fx.Constexpr[str],
    way: fx.Constexpr[str],
    form: fx.Constexpr[Form],
):
    lines = Lines(
        form, row_of(form), m, n, fx.SharedAllocator(), x=x, residual=residual, weight=weight, bias=bias, out=out,
        summed=summed,
    )  # fmt: skip
    lines.fetch("x", "residual", "weight", "bias")
    mean, scale = statistics(lines, lines.wide(eps), norm == "layer") if norm else (None, None)

    def value_at(at: Place) -> Value:
        def make() -> Value:
            value = summed_at(lines, at)
            value = value if mean is None else value - mean
            value = value if scale is None else value * scale
            value = value if weight is None else value * lines.read("weight", at)
            return value if bias is None else value + lines.read("bias", at)

        return lines.keep("result", at, make)

    def scale_for(most: fx.Numeric) -> fx.Numeric:
        # A row of zeros, or of next to nothing, has no largest element to go by; the scale of one with a NaN is NaN.
        step = most * (1.0 / largest)
        return (step == 0.0).select(lines.wide(1.0), step)

    def put(at: Place, step: fx.Numeric) -> None:
        if summed is not None:
            lines.write("summed", at, summed_at(lines, at))
        value = fx.minimumf(fx.maximumf(value_at(at) / step, -largest), largest)
        lines.write("out", at, fx.roundeven(value) if out.dtype is fx.Int8 else value)

    def put_block(at: Place) -> None:
        # Neighbours in a warp have the units of a block, and find its largest element as the bits of its size.
        value, most = cast("fx.Vector", value_at(at)), fx.Int32(0)
        for i in range(form.unit):
            most = fx.max(most, value[i].bitcast(fx.Int32) & 0x7FFFFFFF)
        most = fx.coop.warp_reduce(most, fx.ReductionOp.MAX, width=BLOCK // form.unit)
        step = scale_for(most.bitcast(fx.Float32))
        put(at, step)

        def leave() -> None:
            scales[lines.row, at.at // BLOCK] = scales.dtype(step)

        when(lines.mine(at), lambda: when(at.at % BLOCK == 0, leave))

    if fx.const_expr(way == "block"):
        lines.each(put_block)
    elif fx.const_expr(way == "given"):
        step = lines.wide(scales[0])
        lines.each(lambda at: put(at, step))
    else:
        (most,) = lines.fold(lambda at: [fx.absf(value_at(at))], [MAX])
        step = scale_for(most)
        lines.each(lambda at: put(at, step))

        def leave() -> None:
            scales[lines.row] = scales.dtype(step)

        lines.first(leave)


@flyc.jit
def quantize_rows(
    x: fx.Tensor,
    residual: fx.Tensor | None,
    weight: fx.Tensor | None,
    bias: fx.Tensor | None,
    out: fx.Tensor,
    summed: fx.Tensor | None,
    scales: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    eps: fx.Float64,
    largest: fx.Constexpr[float],
    norm: fx.Constexpr[str],
    way: fx.Constexpr[str],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """Rows, or ("rms", "layer") their norms, over scales: of a "row", of each "block" of 128, or the one "given"."""
    quantize_kernel(
        x, residual, weight, bias, out, summed, scales, m, n, eps, largest, norm, way, form
    ).launch(grid=blocks_for(form, m), block=form.block, stream=stream)  # fmt: skip


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
        _known(op, scale)
    elif scale not in SCALES:
        raise DSLValueError(f"{op}: scale is one of {', '.join(SCALES)}, or an array, got {scale!r}")
    rows, shape = x, tuple(x.shape[:-1])
    if known is None and scale == "block":
        shape = _blocks(op, x)
        rows = x.reshape(*shape, BLOCK)
    if known is None and scale == "tensor":
        known = _one_for_all(x, kind)
    found = _launch(op, _Rows(rows), kind, 0.0, "", known, stream)
    assert found is not None  # their blocks are rows
    made, scales, _ = found
    return made.reshape(x.shape), known if known is not None else scales.reshape(shape)


def rms_norm_quantized(
    x: HostArray,
    weight: HostArray | None = None,
    dtype: object = "float8_e4m3fn",
    *,
    eps: float = 1e-6,
    residual: HostArray | None = None,
    scale: str | HostArray | None = None,
    stream: object = None,
) -> tuple[Given, ...]:
    """`rms_norm(x, weight)` in 8 bits, and float32 scales; with a residual the norm of x + residual, and the sum.

    `scale` is "row" (as None is), "block" (128 elements of a row), or an array with one scale that is known. Blocks of
    rows that registers do not hold, or that begin anywhere, are quantized behind the norm, by a launch of their own.
    """
    return _normed("rms_norm_quantized", "rms", x, weight, None, dtype, eps, residual, scale, stream)


def layer_norm_quantized(
    x: HostArray,
    weight: HostArray | None = None,
    bias: HostArray | None = None,
    dtype: object = "float8_e4m3fn",
    *,
    eps: float = 1e-5,
    residual: HostArray | None = None,
    scale: str | HostArray | None = None,
    stream: object = None,
) -> tuple[Given, ...]:
    """`layer_norm(x, weight, bias)` in 8 bits, and float32 scales; otherwise as `rms_norm_quantized`."""
    return _normed("layer_norm_quantized", "layer", x, weight, bias, dtype, eps, residual, scale, stream)


def _normed(
    op: str,
    norm: str,
    x: HostArray,
    weight: HostArray | None,
    bias: HostArray | None,
    dtype: object,
    eps: float,
    residual: HostArray | None,
    scale: str | HostArray | None,
    stream: object,
) -> tuple[Given, ...]:
    eps = number(op, "eps", eps, 0)
    kind = _check(op, x, dtype)
    arrays_only(op, weight=weight, bias=bias, residual=residual)
    for name, v in (("weight", weight), ("bias", bias)):
        if v is not None:
            shaped(op, name, describe(op, name, v), x.shape[-1:], "x")
    if residual is not None:
        shaped(op, "residual", describe(op, "residual", residual, (type_of(x),)), x.shape, "x")
    blocks = isinstance(scale, str) and choice(op, "scale", scale, ("row", "block")) == "block"
    known = None if scale is None or isinstance(scale, str) else _known(op, scale)
    shape = _blocks(op, x) if blocks else tuple(x.shape[:-1])
    rows = _Rows(x, residual, weight, bias)
    made = _launch(op, rows, kind, eps, norm, "block" if blocks else known, stream)
    if made is None:
        function = layer_norm if norm == "layer" else rms_norm
        vectors = (weight, bias) if norm == "layer" else (weight,)
        found: Given = function(x, *vectors, eps=eps, residual=residual, stream=stream)
        normed, summed = (found, None) if residual is None else found
        made = (*quantize(normed, kind, scale="block", stream=stream), summed)
    codes, scales, summed = made
    scales = known if known is not None else scales.reshape(shape)
    return (codes, scales) if residual is None else (codes, scales, summed)


def _check(op: str, x: HostArray, dtype: object) -> str:
    arrays_only(op, x=x)
    describe_rows(op, "x", x)
    kind = type_name(dtype)
    if kind not in LARGEST:
        raise DSLTypeError(f"{op}: dtype is one of {', '.join(LARGEST)}, got {kind}")
    return kind


def _known(op: str, scale: object) -> HostArray:
    """A scale that the caller has."""
    if not is_torch(scale) and not hasattr(scale, "__array_interface__"):
        raise DSLTypeError(f"{op}: scale is one of {', '.join(SCALES)}, or an array, got {scale!r:.80}")
    array = cast("HostArray", scale)
    found = describe(op, "scale", array, ("float32",))
    if found.shape not in ((), (1,)):
        raise DSLValueError(f"{op}: a known scale is one number, got {found}")
    return array


def _blocks(op: str, x: HostArray) -> tuple[int, ...]:
    """The shape of the scales of blocks."""
    if x.shape[-1] % BLOCK:
        raise DSLValueError(f"{op}: blocks are {BLOCK} elements of a row, got rows of {x.shape[-1]}")
    return (*x.shape[:-1], x.shape[-1] // BLOCK)


class _Rows(NamedTuple):
    """What is quantized."""

    x: HostArray
    residual: HostArray | None = None
    weight: HostArray | None = None
    bias: HostArray | None = None


def _launch(
    op: str, given: _Rows, kind: str, eps: float, norm: str, scale: str | HostArray | None, stream: object
) -> tuple[Given, Given, Given] | None:
    """Codes, scales and the sum; None where "block"s have no form. A `scale` that is an array is known."""
    x, blocks = given.x, isinstance(scale, str)
    known = None if isinstance(scale, str) else scale
    result = Result(op, "out", x, kind, None)
    summed = None if given.residual is None else Result(op, "summed", x, dtype_of(x), None)
    mx = matrix(x)
    m, n = mx.shape
    # Rows of no elements have scales, too.
    shape = (m, n // BLOCK) if blocks else (math.prod(x.shape[:-1]),)
    scales: Given = vacant(x, shape, "float32") if known is None else vector(known)
    if m and n:
        rows = {
            "x": mx,
            "residual": None if given.residual is None else matrix(given.residual),
            "weight": None if given.weight is None else vector(given.weight),
            "bias": None if given.bias is None else vector(given.bias),
            "out": result.matrix,
            "summed": None if summed is None else summed.matrix,
        }

        def decide() -> Form:
            found = described(op, rows)
            same_place(op, found)
            form = form_of(m, n, found, 4)
            return _with_blocks(form, n) if blocks else form

        form = recall(op, rows, blocks, decide)
        if blocks and not form.turns:
            return None
        way = "block" if blocks else "row" if known is None else "given"
        quantize_rows(
            mx, rows["residual"], rows["weight"], rows["bias"], result.matrix, rows["summed"], scales, m, n, eps,
            LARGEST[kind], norm, way, form, **more_of(stream),
        )  # fmt: skip
    elif known is None:
        scales[...] = 1.0
    return result.done(), scales, None if summed is None else summed.done()


def _with_blocks(form: Form, n: int) -> Form:
    """The same with all units of a block side by side in a warp; without turns where there is no such form."""
    group = BLOCK // form.unit
    if form.edges or form.cluster > 1 or group > SHORT_WARP:
        return form._replace(turns=0)
    if form.turns and form.team < group:
        form = form._replace(team=group, turns=-(-(n // form.unit) // group), rows=max(WARP // group, 1))
    return known_form(form)


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


__all__ = ["layer_norm_quantized", "quantize", "rms_norm_quantized"]
