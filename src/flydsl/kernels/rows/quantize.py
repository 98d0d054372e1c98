"""Rows in 8 bits with a scale for each row, each 128 elements or all; also behind a norm or softmax, in one pass."""

from __future__ import annotations

import math
import typing
from collections.abc import Sequence
from typing import NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError

from ..axes.permute import cast
from ..scalars import choice, whole
from .arrays import Given, HostArray, describe, is_torch, matrix, same_place, type_name, vacant, vector
from .call import Result, arrays_only, described, dtype_of, more_of, recall
from .form import SHORT_WARP, WARP, Form, form_of, known_form
from .group_norm import check_group_norm, group_norm
from .lines import MAX, Lines, Place, when
from .norm_kernels import summed_at, values_of
from .norms import check_norm, layer_norm, rms_norm
from .softmax_entry import describe_rows, softmax
from .softmax_kernels import blocks_for, row_of

LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "int8": 127.0}
"""The types of 8 bits, and what the largest element of a row becomes."""
SCALES = ("row", "block", "tensor")
SOURCES = {
    "rms": ("residual", "weight"), "layer": ("residual", "weight", "bias"), "group": ("residual", "weight", "bias"),
    "softmax": (),
}  # fmt: skip
"""What may be quantized besides rows as they are, and the arrays it takes."""
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
    groups: fx.Int32 | None,
    each: fx.Int32 | None,
    size: fx.Int32 | None,
    largest: fx.Constexpr[float],
    norm: fx.Constexpr[str],
    even: fx.Constexpr[bool],
    way: fx.Constexpr[str],
    form: fx.Constexpr[Form],
):
    vectors = {} if norm == "group" else {"weight": weight, "bias": bias}
    lines = Lines(
        form, row_of(form), m, n, fx.SharedAllocator(), x=x, residual=residual, **vectors, out=out, summed=summed
    )
    value_at = values_of(lines, norm, eps, weight, bias, groups, each, size, even)

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
        value, most = typing.cast("fx.Vector", value_at(at)), fx.Int32(0)
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
    groups: fx.Int32 | None,
    each: fx.Int32 | None,
    size: fx.Int32 | None,
    largest: fx.Constexpr[float],
    norm: fx.Constexpr[str],
    even: fx.Constexpr[bool],
    way: fx.Constexpr[str],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """Rows, or what `values_of` makes of them, over scales: of a "row", of each "block" of 128, or the one "given"."""
    quantize_kernel(
        x, residual, weight, bias, out, summed, scales, m, n, eps, groups, each, size, largest, norm, even, way, form
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
    asked = check_quantize(op, x, dtype, scale)
    known = asked.known
    rows: Given = x.reshape(*asked.shape, BLOCK) if asked.way == "block" else x
    if asked.way == "tensor" and known is None:
        known = _one_for_all(x, asked.kind)
    found = _launch(op, Source(rows), asked.kind, "row" if known is None else known, stream)
    assert found is not None  # their blocks are rows
    made, scales, _ = found
    return made.reshape(x.shape), known if known is not None else scales.reshape(asked.shape)


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

    `scale` is "row" (as None is), "block" (128 elements of a row), "tensor", or an array with one scale that is known.
    One for the tensor, and blocks of rows that registers do not hold or that begin anywhere, are found behind the norm,
    by a launch of their own.
    """
    source = Source(x, "rms", residual, weight, None, eps)
    return quantized_behind("rms_norm_quantized", source, dtype, scale, stream)


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
    source = Source(x, "layer", residual, weight, bias, eps)
    return quantized_behind("layer_norm_quantized", source, dtype, scale, stream)


def group_norm_quantized(
    x: HostArray,
    groups: int,
    weight: HostArray | None = None,
    bias: HostArray | None = None,
    dtype: object = "float8_e4m3fn",
    *,
    eps: float = 1e-5,
    residual: HostArray | None = None,
    scale: str | HostArray | None = None,
    stream: object = None,
) -> tuple[Given, ...]:
    """`group_norm(x, groups, weight, bias)` in 8 bits, and float32 scales; with a residual also x + residual.

    `scale` is "group" (as None is), one for each group of an image; otherwise as that of `rms_norm_quantized`, and
    those of "row"s are found by a launch of their own.
    """
    op = "group_norm_quantized"
    source = Source(x, "group", residual, weight, bias, eps, whole(op, "groups", groups))
    return quantized_behind(op, source, dtype, scale, stream)


def softmax_quantized(
    x: HostArray, dtype: object = "float8_e4m3fn", *, scale: str | HostArray | None = None, stream: object = None
) -> tuple[Given, Given]:
    """`softmax(x)` in 8 bits, and float32 scales; `scale` as that of `rms_norm_quantized`.

    >>> softmax_quantized(np.array([[0.0, 0.0, -np.inf]], "f4"), "int8")
    (array([[127, 127,   0]], dtype=int8), array([0.00393701], dtype=float32))
    """
    codes, scales = quantized_behind("softmax_quantized", Source(x, "softmax"), dtype, scale, stream)
    return codes, scales


class Source(NamedTuple):
    """What is quantized: `norm` is one of `SOURCES`, of x + residual, or none."""

    x: HostArray
    norm: str = ""
    residual: HostArray | None = None
    weight: HostArray | None = None
    bias: HostArray | None = None
    eps: float = 0.0
    groups: int = 0


class Asked(NamedTuple):
    """Codes of a type, and scales of a shape."""

    kind: str
    way: str
    known: HostArray | None
    shape: tuple[int, ...]


def quantized_behind(
    op: str, given: Source, dtype: object, scale: str | HostArray | None, stream: object
) -> tuple[Given, ...]:  # fmt: skip
    """Codes and scales, and the sum where there is a residual."""
    asked = check_behind(op, given, dtype, scale)
    given = given._replace(eps=float(given.eps))
    own = asked.way in (("group", "block") if given.norm == "group" else ("row", "block"))
    made = None
    if asked.known is not None or own:
        way = "block" if asked.way == "block" else "row"
        made = _launch(op, given, asked.kind, way if asked.known is None else asked.known, stream)
    if made is None:
        values, summed = result_of(given, stream)
        made = (*quantize(values, asked.kind, scale=asked.way, stream=stream), summed)
    codes, scales, summed = made
    scales = asked.known if asked.known is not None else scales.reshape(asked.shape)
    return (codes, scales) if given.residual is None else (codes, scales, summed)


def result_of(given: Source, stream: object) -> tuple[Given, Given]:
    """What is quantized as an array, and the sum."""
    x, _, residual, weight, bias, eps, groups = given
    if given.norm == "softmax":
        # Of long rows shares are so small that 16 bits have few digits for them, or none.
        wide: Given = cast(x, "float32", stream=stream) if dtype_of(x) in ("float16", "bfloat16") else x
        return softmax(wide, out=None if wide is x else wide, stream=stream), None
    found: Given
    if given.norm == "group":
        found = group_norm(x, groups, weight, bias, eps=eps, residual=residual, stream=stream)
    elif given.norm == "layer":
        found = layer_norm(x, weight, bias, eps=eps, residual=residual, stream=stream)
    else:
        found = rms_norm(x, weight, eps=eps, residual=residual, stream=stream)
    return (found, None) if residual is None else found


def check_source(op: str, given: Source) -> tuple[int, ...]:
    """What is refused of a source, by extents and types alone; the shape of a scale for each of its rows."""
    x = given.x
    takes = SOURCES[choice(op, "norm", given.norm, SOURCES)]
    for name in ("residual", "weight", "bias"):
        if getattr(given, name) is not None and name not in takes:
            raise DSLValueError(f"{op}: {given.norm} has no {name}; leave it out")
    if given.norm == "group":
        whole(op, "groups", given.groups)
        found = check_group_norm(op, x, given.groups, given.weight, given.bias, given.residual, given.eps)
        return found.images, found.groups
    arrays_only(op, x=x)
    describe_rows(op, "x", x)
    if given.norm != "softmax":
        check_norm(op, x, given.weight, given.bias, given.residual, given.eps)
    return tuple(x.shape[:-1])


def check_behind(op: str, given: Source, dtype: object, scale: object) -> Asked:
    """What is refused of a call, by extents and types alone."""
    shape, own = check_source(op, given), "group" if given.norm == "group" else "row"
    ways = ("group", *SCALES) if own == "group" else SCALES
    kind = _kind(op, dtype)
    way = own if scale is None else scale
    if not isinstance(way, str):
        return Asked(kind, "given", _known(op, way, ways), ())
    if choice(op, "scale", way, ways) != own:
        shape = _shape_of(op, way, given.x)
    return Asked(kind, way, None, shape)


def check_quantize(op: str, x: HostArray, dtype: object, scale: object) -> Asked:
    """The same of `quantize`, whose scale has no default."""
    arrays_only(op, x=x)
    describe_rows(op, "x", x)
    kind = _kind(op, dtype)
    if isinstance(scale, str):
        return Asked(kind, scale, None, _shape_of(op, choice(op, "scale", scale, SCALES), x))
    return Asked(kind, "given", _known(op, scale, SCALES), ())


def _shape_of(op: str, way: str, x: HostArray) -> tuple[int, ...]:
    """The shape of scales."""
    if way == "tensor":
        return (1,)
    if way == "row":
        return tuple(x.shape[:-1])
    if x.shape[-1] % BLOCK:
        raise DSLValueError(f"{op}: blocks are {BLOCK} elements of a row, got rows of {x.shape[-1]}")
    return (*x.shape[:-1], x.shape[-1] // BLOCK)


def _kind(op: str, dtype: object) -> str:
    kind = type_name(dtype)
    if kind not in LARGEST:
        raise DSLTypeError(f"{op}: dtype is one of {', '.join(LARGEST)}, got {kind}")
    return kind


def _known(op: str, scale: object, ways: Sequence[str]) -> HostArray:
    """A scale that the caller has."""
    if not is_torch(scale) and not hasattr(scale, "__array_interface__"):
        raise DSLTypeError(f"{op}: scale is one of {', '.join(ways)}, or an array, got {scale!r:.80}")
    array = typing.cast("HostArray", scale)
    found = describe(op, "scale", array, ("float32",))
    if found.shape not in ((), (1,)):
        raise DSLValueError(f"{op}: a known scale is one number, got {found}")
    return array


def _launch(
    op: str, given: Source, kind: str, scale: str | HostArray, stream: object
) -> tuple[Given, Given, Given] | None:
    """Codes, scales and the sum; None where "block"s have no form. A `scale` that is an array is known."""
    x, blocks = given.x, isinstance(scale, str) and scale == "block"
    known = None if isinstance(scale, str) else scale
    result = Result(op, "out", x, kind, None)
    summed = None if given.residual is None else Result(op, "summed", x, dtype_of(x), None)
    m, n, groups = shape_of_rows(given)
    # Rows of no elements have scales, too.
    shape = (m, n // BLOCK) if blocks else (m,)
    scales: Given = vacant(x, shape, "float32") if known is None else vector(known)
    if m and n:
        rows = rows_of_source(given, m, n)
        rows |= {
            "out": result.array.reshape(m, n), "summed": None if summed is None else summed.array.reshape(m, n),
        }  # fmt: skip
        # Vectors of channels are read by the element.
        read = {name: v for name, v in rows.items() if groups.size is None or name not in ("weight", "bias")}

        def decide() -> Form:
            found = described(op, read)
            same_place(op, {**found, **described(op, {"scales": scales, **rows})})
            form = form_of(m, n, found, 4)
            return _with_blocks(form, n, rows["x"]) if blocks else form

        form = recall(op, {**rows, "scales": scales}, blocks, decide)
        if blocks and not form.turns:
            return None
        way = "block" if blocks else "row" if known is None else "given"
        quantize_rows(
            rows["x"], rows["residual"], rows["weight"], rows["bias"], rows["out"], rows["summed"], scales, m, n,
            given.eps, *groups, LARGEST[kind], given.norm, groups.even(form), way, form, **more_of(stream),
        )  # fmt: skip
    elif known is None:
        scales[...] = 1.0
    return result.done(), scales, None if summed is None else summed.done()


class Groups(NamedTuple):
    """How many groups an image has, a group's channels and a channel's elements; None where rows are no groups."""

    number: int | None = None
    each: int | None = None
    size: int | None = None

    def even(self, form: Form) -> bool:
        """Whether all elements of a unit are of one channel."""
        return self.size is not None and not form.edges and self.size % form.unit == 0


def shape_of_rows(given: Source) -> tuple[int, int, Groups]:
    """Rows, their elements, and the groups that they are."""
    shape = tuple(given.x.shape)
    if given.norm != "group":
        return math.prod(shape[:-1]), shape[-1], Groups()
    each, size = shape[1] // given.groups, math.prod(shape[2:])
    return shape[0] * given.groups, each * size, Groups(given.groups, each, size)


def rows_of_source(given: Source, m: int, n: int) -> dict[str, HostArray | None]:
    """The arrays that are read, as matrices and vectors."""
    rows: dict[str, HostArray | None] = {
        name: None if v is None else matrix(v.reshape(m, n))
        for name, v in (("x", given.x), ("residual", given.residual))
    }
    vectors = (("weight", given.weight), ("bias", given.bias))
    return {**rows, **{name: None if v is None else vector(v) for name, v in vectors}}


def _with_blocks(form: Form, n: int, x: HostArray | None) -> Form:
    """The same with all units of a block side by side in a warp; without turns where there is no such form."""
    group = BLOCK // form.unit
    # Sizes are compared as the bits of float32.
    if form.edges or form.cluster > 1 or group > SHORT_WARP or x is None or dtype_of(x) == "float64":
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


__all__ = [
    "Asked",
    "Source",
    "check_behind",
    "check_quantize",
    "check_source",
    "group_norm_quantized",
    "layer_norm_quantized",
    "quantize",
    "quantized_behind",
    "result_of",
    "rms_norm_quantized",
    "rows_of_source",
    "shape_of_rows",
    "softmax_quantized",
]
