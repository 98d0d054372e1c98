"""`quantize_mx`, `rms_norm_mx`, `layer_norm_mx` and `dequantize_mx`: rows in MX blocks, also behind a norm in one pass.

The threads of a block's units are neighbours in a warp: they find its largest element by shuffles, as the bits of its
size, whose exponent is the block's scale.
"""

from __future__ import annotations

from typing import cast

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError

from ..rows.arrays import Given, HostArray, describe, matrix, packed, shaped, stretches, type_name, vacant, vector
from ..rows.call import arrays_only, described, dtype_of, more_of, recall
from ..rows.form import WARP, Form, form_of
from ..rows.lines import Lines, Place, when
from ..rows.norm_kernels import statistics, summed_at
from ..rows.norms import layer_norm, rms_norm
from ..rows.softmax_kernels import blocks_for, row_of
from ..scalars import number
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
    weight: fx.Tensor | None,
    bias: fx.Tensor | None,
    out: fx.Tensor,
    scales: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    eps: fx.Float64,
    kind: fx.Constexpr[str],
    norm: fx.Constexpr[str],
    form: fx.Constexpr[Form],
):
    lines = Lines(form, row_of(form), m, n, fx.SharedAllocator(), x=x, weight=weight, bias=bias)
    lines.fetch("x", "weight", "bias")
    format, group = FORMATS[kind], BLOCK // form.unit
    mean, scale = statistics(lines, lines.wide(eps), norm == "layer") if norm else (None, None)

    def value_at(at: Place) -> fx.Vector:
        value = summed_at(lines, at)
        value = value if mean is None else value - mean
        value = value if scale is None else value * scale
        value = value if weight is None else value * lines.read("weight", at)
        return cast("fx.Vector", value if bias is None else value + lines.read("bias", at))

    def finish(at: Place) -> None:
        value = value_at(at)
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
    weight: fx.Tensor | None,
    bias: fx.Tensor | None,
    out: fx.Tensor,
    scales: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    eps: fx.Float64,
    kind: fx.Constexpr[str],
    norm: fx.Constexpr[str],
    form: fx.Constexpr[Form],
    stream: fx.Stream = fx.Stream(None),
):
    """Rows, or (`norm` is "rms" or "layer") their norms, in MX blocks: bytes and the bytes of the scales."""
    mx_rows_kernel(x, weight, bias, out, scales, m, n, eps, kind, norm, form).launch(
        grid=blocks_for(form, m), block=form.block, stream=stream
    )


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
    shape = tuple(x.shape)
    blocks: Given = packed(x)
    return _launch("quantize_mx", blocks.reshape(-1, BLOCK), shape, None, None, kind, "", 0.0, stream)


def rms_norm_mx(
    x: HostArray,
    weight: HostArray | None = None,
    dtype: object = "float8_e4m3fn",
    *,
    eps: float = 1e-6,
    stream: object = None,
) -> tuple[Given, Given]:
    """`quantize_mx(rms_norm(x, weight))` in one pass, from float32; rows too long for registers take two."""
    return _normed("rms_norm_mx", x, weight, None, dtype, "rms", eps, stream)


def layer_norm_mx(
    x: HostArray,
    weight: HostArray | None = None,
    bias: HostArray | None = None,
    dtype: object = "float8_e4m3fn",
    *,
    eps: float = 1e-5,
    stream: object = None,
) -> tuple[Given, Given]:
    """`quantize_mx(layer_norm(x, weight, bias))` in one pass, from float32; rows too long for registers take two."""
    return _normed("layer_norm_mx", x, weight, bias, dtype, "layer", eps, stream)


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


def _normed(
    op: str,
    x: HostArray,
    weight: HostArray | None,
    bias: HostArray | None,
    dtype: object,
    norm: str,
    eps: float,
    stream: object,
) -> tuple[Given, Given]:
    kind, eps = _check(op, x, dtype), number(op, "eps", eps, 0)
    arrays_only(op, weight=weight, bias=bias)
    for name, v in (("weight", weight), ("bias", bias)):
        if v is not None:
            shaped(op, name, describe(op, name, v), x.shape[-1:], "x")
    rows = matrix(x)
    rows = rows if _whole(rows) else _copy(rows)
    made = _launch(op, rows, tuple(x.shape), weight, bias, kind, norm, eps, stream)
    if made[0] is not None:
        return made
    normed: Given = (
        rms_norm(x, weight, eps=eps, stream=stream)
        if norm == "rms"
        else layer_norm(x, weight, bias, eps=eps, stream=stream)
    )
    return quantize_mx(normed, kind, stream=stream)


def _whole(x: HostArray) -> bool:
    """Whether rows begin at whole units."""
    found = describe("mx", "x", x)
    return found.address % 16 == 0 and (found.shape[0] < 2 or found.strides[0] * found.itemsize % 16 == 0)


def _copy(x: HostArray) -> Given:
    made: Given = vacant(x, tuple(x.shape), dtype_of(x))
    made[...] = x
    return made


def _launch(
    op: str,
    rows: HostArray,
    shape: tuple[int, ...],
    weight: HostArray | None,
    bias: HostArray | None,
    kind: str,
    norm: str,
    eps: float,
    stream: object,
) -> tuple[Given, Given]:
    """Bytes and scales; None where a row is too long for one pass."""
    m, n = rows.shape
    size = FORMATS[kind].bits
    rows = rows if not m or not n or _whole(rows) else _copy(rows)
    out: Given = vacant(rows, (*shape[:-1], shape[-1] * size // 8), "uint8")
    scales: Given = vacant(rows, (*shape[:-1], shape[-1] // BLOCK), "uint8")
    if not m or not n:
        return out, scales
    read = {
        "x": rows,
        "weight": None if weight is None else vector(weight),
        "bias": None if bias is None else vector(bias),
    }
    form = recall(op, read, None, lambda: _form(op, m, n, read))
    if not form.turns:
        return None, None
    mx_rows(
        rows, read["weight"], read["bias"], out.reshape(m, n * size // 8), scales.reshape(m, n // BLOCK), m, n, eps,
        kind, norm, form, **more_of(stream),
    )  # fmt: skip
    return out, scales


def _form(op: str, m: int, n: int, read: dict[str, HostArray | None]) -> Form:
    """The rule of rows, with teams that have all units of a block side by side."""
    form = form_of(m, n, described(op, read), 8)
    group = BLOCK // form.unit
    if form.turns and form.team < group:
        form = form._replace(team=group, turns=-(-(n // form.unit) // group), rows=max(WARP // group, 1))
    return form


__all__ = ["dequantize_mx", "layer_norm_mx", "quantize_mx", "rms_norm_mx"]
