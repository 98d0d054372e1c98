"""`quantize_mx`, the same behind norms and softmax in one pass, and `dequantize_mx`: rows in MX blocks.

The threads of a block's units are neighbours in a warp: they find its largest element by shuffles, as the bits of its
size, whose exponent is the block's scale.
"""

from __future__ import annotations

from typing import cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError

from ..rows.arrays import Given, HostArray, describe, packed, same_place, shaped, stretches, type_name, vacant, vector
from ..rows.call import arrays_only, described, dtype_of, more_of, recall
from ..rows.form import UNIT_BYTES, WARP, Form, form_of
from ..rows.lines import Lines, Place, when
from ..rows.norm_kernels import summed_at, values_of
from ..rows.quantize import Source, check_source, result_of, rows_of_source, shape_of_rows
from ..rows.softmax_kernels import blocks_for, row_of
from ..scalars import whole
from .formats import BLOCK, FORMATS, NO_NUMBER, Format, decode, encode, power_of_two

THREADS = 256


def _bytes(codes: list[fx.Uint32], bits: int) -> list[fx.Uint8]:
    """Codes one after the other, the first in the lowest bits."""
    made: list[fx.Uint8] = []
    for i in range(len(codes) * bits // 8):
        byte = fx.Uint32(0)
        for j in range(i * 8 // bits, ((i + 1) * 8 - 1) // bits + 1):
            shift = j * bits - i * 8
            byte = byte | (codes[j] << shift if shift >= 0 else codes[j] >> -shift)
        made.append((byte & 0xFF).to(fx.Uint8))
    return made


def _put(line: fx.Tensor, at: fx.Int32, data: list[fx.Uint8]) -> None:
    """Store bytes in pieces of a power of two: rows begin at whole blocks, so that they are aligned."""
    step = len(data) & -len(data)
    for i in range(0, len(data), step):
        if step == 1:
            line[at + i] = data[i]
        else:
            type_ = fx.PointerType.get(fx.Uint8.ir_type, fx.AddressSpace.Global, step)
            start = fx.inttoptr(type_, fx.ptrtoint(fx.get_iter(line)) + fx.Int64(at + i))
            fx.make_view(start, fx.make_layout(step, 1)).store(fx.Vector.from_elements(data[i : i + step], fx.Uint8))


@flyc.kernel
def mx_rows_kernel(
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
    kind: fx.Constexpr[str],
    norm: fx.Constexpr[str],
    even: fx.Constexpr[bool],
    form: fx.Constexpr[Form],
):
    vectors = {} if norm == "group" else {"weight": weight, "bias": bias}
    lines = Lines(
        form, row_of(form), m, n, fx.SharedAllocator(), x=x, residual=residual, **vectors, summed=summed
    )  # fmt: skip
    value_at = values_of(lines, norm, eps, weight, bias, groups, each, size, even)
    format, group = FORMATS[kind], BLOCK // form.unit

    def finish(at: Place) -> None:
        if summed is not None:
            lines.write("summed", at, summed_at(lines, at))
        value = cast("fx.Vector", value_at(at))
        parts: list[fx.Float32] = [value[i] for i in range(form.unit)]
        most = fx.Int32(0)
        for part in parts:
            most = fx.max(most, part.bitcast(fx.Int32) & 0x7FFFFFFF)
        most = fx.coop.warp_reduce(most, fx.ReductionOp.MAX, width=group)
        exponent = most >> 23
        none = exponent == 255
        shared = fx.max(exponent - format.highest, fx.Int32(0))
        by = power_of_two(127 - none.select(fx.Int32(127), shared))
        codes = [none.select(fx.Uint32(0), encode(part * by, format)) for part in parts]
        data = _bytes(codes, format.bits)
        stored = none.select(fx.Int32(NO_NUMBER), shared)

        def leave() -> None:
            _put(lines.line(out), at.at * format.bits // 8, data)
            first = at.at % BLOCK == 0
            when(first, mark)

        def mark() -> None:
            scales[lines.row, at.at // BLOCK] = stored.to(fx.Uint8)

        when(lines.mine(at), leave)

    lines.each(finish)


@flyc.jit
def mx_rows(
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
    kind: fx.Constexpr[str],
    norm: fx.Constexpr[str],
    even: fx.Constexpr[bool],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """Rows, or what `values_of` makes of them, in MX blocks: bytes and the bytes of the scales."""
    mx_rows_kernel(
        x, residual, weight, bias, out, summed, scales, m, n, eps, groups, each, size, kind, norm, even, form
    ).launch(grid=blocks_for(form, m), block=form.block, stream=stream)  # fmt: skip


@flyc.kernel
def mx_values_kernel(codes: fx.Tensor, scales: fx.Tensor, out: fx.Tensor, count: fx.Int64, kind: fx.Constexpr[str]):
    format: Format = FORMATS[kind]
    at = fx.Int64(fx.block_idx.x) * THREADS + fx.Int64(fx.thread_idx.x)

    def work() -> None:
        first = at * format.bits
        byte = first // 8
        # A code of six bits may end in the next byte.
        last = (first + format.bits - 1) // 8
        both = fx.Int32(codes[byte]) | (fx.Int32(codes[last]) << 8)
        code = (both >> fx.Int32(first % 8)) & ((1 << format.bits) - 1)
        exponent = fx.Int32(scales[at // BLOCK])
        # Two steps, as the smallest scales are no normal numbers of f32.
        half = (exponent - 127) // 2
        value = decode(code, format) * power_of_two(half) * power_of_two(exponent - 127 - half)
        out[at] = out.dtype((exponent == NO_NUMBER).select(fx.Float32(float("nan")), value))

    when(at < count, work)


@flyc.jit
def mx_values(
    codes: fx.Tensor,
    scales: fx.Tensor,
    out: fx.Tensor,
    count: fx.Int64,
    kind: fx.Constexpr[str],
    stream: fx.Stream = fx.Stream(None),
):
    """The numbers that blocks in one piece stand for."""
    mx_values_kernel(codes, scales, out, count, kind).launch(
        grid=fx.Int32(fx.ceildiv(count, THREADS)), block=THREADS, stream=stream
    )


def quantize_mx(x: HostArray, dtype: object = "float8_e4m3fn", *, stream: object = None) -> tuple[Given, Given]:
    """`x` in MX blocks: the bytes of its elements, and those of the scales, one for 32 elements of a row.

    `dtype` is float8_e4m3fn, float8_e5m2, float6_e2m3fn, float6_e3m2fn or float4_e2m1fn. Both results are uint8: the
    first has as many bytes as the elements take, the first element in the lowest bits (four elements of six bits are
    three bytes); a scale is the biased exponent of a power of two (E8M0). As OCP's specification has it, the scale is
    the exponent of the block's largest element less that of the type's largest number, elements are rounded to the
    nearest, and larger ones become the largest number. A block with a NaN or an infinity has the scale 255, NaN.

    >>> codes, scales = quantize_mx(np.linspace(-6, 6, 32, dtype="f4"), "float4_e2m1fn")
    >>> codes.shape, scales
    ((16,), array([127], dtype=uint8))
    """
    kind = _check("quantize_mx", x, dtype)
    blocks: Given = packed(x)
    made = _launch("quantize_mx", Source(blocks.reshape(-1, BLOCK)), kind, tuple(x.shape), stream)
    assert made is not None  # blocks are short rows
    return made[:2]


def rms_norm_mx(
    x: HostArray,
    weight: HostArray | None = None,
    dtype: object = "float8_e4m3fn",
    *,
    eps: float = 1e-6,
    residual: HostArray | None = None,
    stream: object = None,
) -> tuple[Given, ...]:
    """`quantize_mx(rms_norm(x, weight))` in one pass, from float32; rows too long for registers take two.

    With a residual the norm is that of x + residual, and the sum is a third result.
    """
    return _behind("rms_norm_mx", Source(x, "rms", residual, weight, None, eps), dtype, stream)


def layer_norm_mx(
    x: HostArray,
    weight: HostArray | None = None,
    bias: HostArray | None = None,
    dtype: object = "float8_e4m3fn",
    *,
    eps: float = 1e-5,
    residual: HostArray | None = None,
    stream: object = None,
) -> tuple[Given, ...]:
    """`quantize_mx(layer_norm(x, weight, bias))` in one pass; otherwise as `rms_norm_mx`."""
    return _behind("layer_norm_mx", Source(x, "layer", residual, weight, bias, eps), dtype, stream)


def group_norm_mx(
    x: HostArray,
    groups: int,
    weight: HostArray | None = None,
    bias: HostArray | None = None,
    dtype: object = "float8_e4m3fn",
    *,
    eps: float = 1e-5,
    residual: HostArray | None = None,
    stream: object = None,
) -> tuple[Given, ...]:
    """`quantize_mx(group_norm(x, groups, weight, bias))` in one pass; otherwise as `rms_norm_mx`."""
    op = "group_norm_mx"
    return _behind(op, Source(x, "group", residual, weight, bias, eps, whole(op, "groups", groups)), dtype, stream)


def softmax_mx(x: HostArray, dtype: object = "float8_e4m3fn", *, stream: object = None) -> tuple[Given, Given]:
    """`quantize_mx(softmax(x))` in one pass, from float32; rows too long for registers take two."""
    codes, scales = _behind("softmax_mx", Source(x, "softmax"), dtype, stream)
    return codes, scales


def dequantize_mx(
    codes: HostArray, scales: HostArray, dtype: object = "float8_e4m3fn", *, out_dtype: object = "float32",
    stream: object = None,
) -> Given:  # fmt: skip
    """The numbers that MX blocks of `dtype` stand for, as `out_dtype`: what `quantize_mx` gave.

    >>> codes, scales = quantize_mx(np.full(32, 3.0, "f4"), "float6_e2m3fn")
    >>> dequantize_mx(codes, scales, "float6_e2m3fn")[:2]
    array([3., 3.], dtype=float32)
    """
    op = "dequantize_mx"
    arrays_only(op, codes=codes, scales=scales)
    kind, wanted = _kind(op, dtype), type_name(out_dtype)
    if wanted not in ("float32", "float16", "bfloat16"):
        raise DSLTypeError(f"{op}: out_dtype is float32, float16 or bfloat16, got {wanted}")
    found = describe(op, "scales", scales, ("uint8",))
    n = found.shape[-1] * BLOCK if found.shape else 0
    size = n * FORMATS[kind].bits // 8
    shaped(op, "codes", describe(op, "codes", codes, ("uint8",)), (*found.shape[:-1], size), "scales")
    out: Given = vacant(codes, (*found.shape[:-1], n), wanted)
    flat = vector(out)
    for some, code, scale, value in stretches(flat.shape[0], vector(codes), vector(scales), flat):
        mx_values(code, scale, value, some, kind, **more_of(stream))
    return out


def _kind(op: str, dtype: object) -> str:
    kind = type_name(dtype)
    if kind not in FORMATS:
        raise DSLTypeError(f"{op}: dtype is one of {', '.join(FORMATS)}, got {kind}")
    return kind


def _check(op: str, x: HostArray, dtype: object) -> str:
    arrays_only(op, x=x)
    found = describe(op, "x", x, ("float32", "float16", "bfloat16"))
    if not found.shape or found.shape[-1] % BLOCK:
        raise DSLValueError(f"{op}: blocks are {BLOCK} elements of a row, got {found}")
    return _kind(op, dtype)


def _behind(op: str, given: Source, dtype: object, stream: object) -> tuple[Given, ...]:
    """Bytes and scales, and the sum where there is a residual."""
    check_source(op, given)
    kind = _check(op, given.x, dtype)
    given = given._replace(eps=float(given.eps))
    made = _launch(op, given, kind, tuple(given.x.shape), stream)
    if made is None:
        values, summed = result_of(given, stream)
        made = (*quantize_mx(values, kind, stream=stream), summed)
    return made[:2] if given.residual is None else made


def _whole(x: HostArray) -> HostArray:
    """Rows, or a vector, that begin at whole units; a copy of others."""
    found = describe("mx", "x", x)
    steps = found.strides[0] * found.itemsize if len(found.shape) > 1 and found.shape[0] > 1 else 0
    if found.address % UNIT_BYTES == 0 and steps % UNIT_BYTES == 0:
        return x
    made: Given = vacant(x, tuple(x.shape), dtype_of(x))
    made[...] = x
    return made


def _launch(
    op: str, given: Source, kind: str, shape: tuple[int, ...], stream: object
) -> tuple[Given, Given, Given] | None:
    """Bytes, scales and the sum of an array of this shape; None where a row is too long for one pass."""
    x, size = given.x, FORMATS[kind].bits
    m, n, groups = shape_of_rows(given)
    out: Given = vacant(x, (*shape[:-1], shape[-1] * size // 8), "uint8")
    scales: Given = vacant(x, (*shape[:-1], shape[-1] // BLOCK), "uint8")
    summed: Given = None if given.residual is None else vacant(x, shape, dtype_of(x))
    if not m or not n:
        return out, scales, summed
    rows = {name: None if v is None else _whole(v) for name, v in rows_of_source(given, m, n).items()}
    rows["summed"] = None if summed is None else summed.reshape(m, n)
    # Vectors of channels are read by the element.
    read = {name: v for name, v in rows.items() if groups.size is None or name not in ("weight", "bias")}

    def decide() -> Form:
        same_place(op, described(op, rows))
        return _form(op, m, n, read)

    form = recall(op, rows, None, decide)
    if not form.turns:
        return None
    mx_rows(
        rows["x"], rows["residual"], rows["weight"], rows["bias"], out.reshape(m, n * size // 8), rows["summed"],
        scales.reshape(m, n // BLOCK), m, n, given.eps, *groups, kind, given.norm, groups.even(form), form,
        **more_of(stream),
    )  # fmt: skip
    return out, scales, summed


def _form(op: str, m: int, n: int, read: dict[str, HostArray | None]) -> Form:
    """The rule of rows, with teams that have all units of a block side by side."""
    form = form_of(m, n, described(op, read), 8)
    group = BLOCK // form.unit
    if form.turns and form.team < group:
        form = form._replace(team=group, turns=-(-(n // form.unit) // group), rows=max(WARP // group, 1))
    return form


__all__ = ["dequantize_mx", "group_norm_mx", "layer_norm_mx", "quantize_mx", "rms_norm_mx", "softmax_mx"]
