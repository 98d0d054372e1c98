"""`dequantize`: codes of 8 bits times their scales, of every form that `quantize` gives."""

from __future__ import annotations

import math
from functools import partial

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError

from .arrays import Given, HostArray, describe, matrix, same_place, type_name, vector
from .call import Result, arrays_only, check_apart, described, in_pieces, more_of, recall
from .form import Form, form_of
from .lines import Lines
from .quantize import LARGEST
from .softmax_kernels import blocks_for, row_of

RESULTS = ("float32", "float16", "bfloat16", "float64")


@flyc.kernel
def dequantize_kernel(
    codes: fx.Tensor,
    scales: fx.Tensor,
    out: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    shared: fx.Int32,
    form: fx.Constexpr[Form],
):
    lines = Lines(form, row_of(form), m, n, codes=codes, out=out)
    lines.fetch("codes")
    scale = lines.wide(scales[lines.row // shared])
    lines.each(lambda at: lines.write("out", at, lines.read("codes", at) * scale))


@flyc.jit
def dequantize_rows(
    codes: fx.Tensor,
    scales: fx.Tensor,
    out: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    shared: fx.Int32,
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """Rows times a scale that so many of them have in common."""
    dequantize_kernel(codes, scales, out, m, n, shared, form).launch(
        grid=blocks_for(form, m), block=form.block, stream=stream
    )


def dequantize(
    codes: HostArray,
    scales: HostArray,
    *,
    dtype: object = "float32",
    out: HostArray | None = None,
    stream: object = None,
) -> Given:
    """What codes of 8 bits stand for, as `dtype`: each times its scale, in float32; codes as `quantize` gives them.

    Scales have the shape of the leading directions of the codes, the last of which may be a divisor: of rows, of blocks
    of any length, of the groups of a group norm, or one for all.

    >>> from flydsl.kernels import quantize
    >>> codes, scales = quantize(np.array([[1.0, -4.0], [0.0, 0.5]], "f4"), "int8")
    >>> dequantize(codes, scales)
    array([[ 1.007874, -4.      ],
           [ 0.      ,  0.5     ]], dtype=float32)
    """
    op = "dequantize"
    kind = check_dequantize(op, codes, scales, dtype)
    result = Result(op, "out", codes, kind, out, plain=True)
    check_apart(op, "out", out, codes=codes, scales=scales)
    if 0 not in codes.shape:
        run = math.prod(codes.shape) // math.prod(scales.shape)  # elements that share a scale
        n = min(run, codes.shape[-1]) if codes.shape else 1
        rows = {"codes": matrix(codes.reshape(-1, n)), "out": result.plain.reshape(-1, n)}
        if math.prod(scales.shape) == 1:
            pieces = in_pieces(rows)
            shared = [x["codes"].shape[0] for x in pieces]
        else:
            pieces, shared = [rows], [run // n]
        for part, several in zip(pieces, shared, strict=True):
            form = recall(op, {**part, "scales": scales}, None, partial(_form, op, part, scales))
            m, n = part["codes"].shape
            dequantize_rows(part["codes"], vector(scales), part["out"], m, n, several, form, **more_of(stream))
    return result.done()


def _form(op: str, rows: dict[str, HostArray], scales: HostArray) -> Form:
    found = described(op, rows)
    same_place(op, {**found, "scales": describe(op, "scales", scales, ("float32",))})
    m, n = rows["codes"].shape
    return form_of(m, n, found, 4)


def check_dequantize(op: str, codes: HostArray, scales: HostArray, dtype: object) -> str:
    """What is refused, by extents and types alone; the type of the result."""
    arrays_only(op, codes=codes, scales=scales)
    found = describe(op, "codes", codes, tuple(LARGEST))
    each = describe(op, "scales", scales, ("float32",))
    kind = type_name(dtype)
    if kind not in RESULTS:
        raise DSLTypeError(f"{op}: dtype is one of {', '.join(RESULTS)}, got {kind}")
    rank = len(each.shape)
    one = rank == 0 or each.shape == (1,)
    fits = rank <= len(found.shape) and each.shape[: rank - 1] == found.shape[: rank - 1]
    if not one and fits:
        whole, parts = found.shape[rank - 1], each.shape[-1]
        fits = whole % parts == 0 if parts else not whole
    if not (one or fits):
        raise DSLValueError(
            f"{op}: scales have the shape of the leading directions of codes, the last of which may be a divisor, "
            f"such as {list(found.shape[:-1])}, got {each} for {found}"
        )
    return kind


__all__ = ["dequantize"]
