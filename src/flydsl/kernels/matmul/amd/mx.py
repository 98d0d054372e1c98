"""Products of matrices in MX blocks: gfx950 multiplies them as they are, with a scale for 32 elements of a row.

The kernel takes the scales of 128 rows in words: one for each lane and each 128 elements of K, with a byte for each of
the four instructions whose rows a wave multiplies.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.target import GPUTarget

from ...mx.formats import BLOCK, FORMATS, decode
from ..arrays import HostArray, describe, empty, is_torch
from ..operands import Target
from ..request import check_apart, check_bias, check_placed, result_type
from ..workspace import scratch
from .blocks import MxMatrix
from .entry import amd_matmul
from .kernel import EACH, MX_BYTES, Form, Tile
from .plan import Given, cut

TILE = Tile(128, 128, 128, 2, 2, 2)
HIGH = 128
"""Rows whose scales lie together."""
CLASSES = {"float8_e4m3fn": "Float8E4M3FN", "float8_e5m2": "Float8E5M2", "float4_e2m1fn": "Float4E2M1FN"}
"""What is multiplied as it is; six bits become eight first, which have all their numbers."""
THREADS = 256


@flyc.kernel
def pack_scales_kernel(
    scales: fx.Tensor, words: fx.Tensor, rows: fx.Int32, blocks: fx.Int32, highs: fx.Int32, total: fx.Int32
):
    at = fx.block_idx.x * THREADS + fx.thread_idx.x
    if at < total:
        lane, part, rest = at % 64, at // 64 % 2, at // 128
        high, step = rest % highs, rest // highs
        column = step * 4 + lane // 16
        word = fx.Uint32(0)
        for i in fx.range_constexpr(4):
            row = high * HIGH + 32 * i + part * 16 + lane % 16
            one = fx.Uint32(127)
            if (row < rows) & (column < blocks):
                one = fx.Uint32(scales[row, column])
            word = word | one << (8 * i)
        words[at] = word.bitcast(fx.Int32)


@flyc.jit
def pack_scales(
    scales: fx.Tensor,
    words: fx.Tensor,
    rows: fx.Int32,
    blocks: fx.Int32,
    highs: fx.Int32,
    total: fx.Int32,
    stream: fx.Stream = fx.Stream(None),
):
    """Scales of rows to the words of lanes; those of rows and blocks that are not there are one."""
    pack_scales_kernel(scales, words, rows, blocks, highs, total).launch(
        grid=fx.ceildiv(total, THREADS), block=THREADS, stream=stream
    )


@flyc.kernel
def widen_kernel(source: fx.Tensor, target: fx.Tensor, triples: fx.Int32, kind: fx.Constexpr[str]):
    at = fx.block_idx.x * THREADS + fx.thread_idx.x
    if at < triples:
        bits = fx.Int32(0)
        for i in fx.range_constexpr(3):
            bits = bits | fx.Int32(fx.Uint32(source[at * 3 + i])) << (8 * i)
        for i in fx.range_constexpr(4):
            value = decode((bits >> (6 * i)) & 63, FORMATS[kind])
            target[at * 4 + i] = value.to(fx.Float8E4M3FN).bitcast(fx.Uint8)


@flyc.jit
def widen(
    source: fx.Tensor,
    target: fx.Tensor,
    triples: fx.Int32,
    kind: fx.Constexpr[str],
    stream: fx.Stream = fx.Stream(None),
):
    """Elements of six bits, four in three bytes, as e4m3: every one of them is a number there."""
    widen_kernel(source, target, triples, kind).launch(grid=fx.ceildiv(triples, THREADS), block=THREADS, stream=stream)


class Side(NamedTuple):
    """An operand for the kernel: its bytes, the scales' words, and the type of its elements."""

    data: HostArray
    words: HostArray
    kind: str


def side(x: MxMatrix[HostArray], what: str, stream: object) -> Side:
    rows, k = x.shape
    more = () if stream is None else (stream,)
    data, kind, scales = contiguous(x.data), x.kind, contiguous(x.scales)
    if kind not in CLASSES:
        wide = scratch(data, f"{what} in bytes", rows * k, "uint8", stream)
        widen(data.reshape(-1), wide, rows * k // 4, kind, *more)
        data, kind = wide, "float8_e4m3fn"
    step = MX_BYTES[CLASSES[kind]] * 8 // FORMATS[kind].bits
    highs = -(-rows // HIGH)
    # As many steps as whole stages have.
    length = k * FORMATS[kind].bits // 8
    steps = -(-length // TILE.row_bytes) * (TILE.row_bytes // MX_BYTES[CLASSES[kind]])
    assert step == 128
    words = scratch(data, f"scales of {what}", steps * highs * 2 * 64, "int32", stream)
    pack_scales(scales, words, rows, k // BLOCK, highs, steps * highs * 2 * 64, *more)
    return Side(data, words, kind)


def contiguous(x: HostArray) -> Any:
    if is_torch(x):
        return x.contiguous()
    import numpy as np

    return np.ascontiguousarray(x)


def as_type(x: HostArray, kind: str) -> Any:
    """Bytes as elements: those of four bits stay bytes."""
    flat: Any = x
    if is_torch(x):
        import torch

        return flat.view(torch.int8 if kind == "float4_e2m1fn" else getattr(torch, kind))
    if kind == "float4_e2m1fn":
        return flat.view("int8")
    import ml_dtypes

    return flat.view(getattr(ml_dtypes, kind))


def takes(target: GPUTarget, a: MxMatrix[HostArray], b: MxMatrix[HostArray]) -> bool:
    """Whether the architecture multiplies such blocks; both have one type after six bits became eight."""
    return target.has("mfma_scale") and len({x.kind if x.kind in CLASSES else "float8_e4m3fn" for x in (a, b)}) == 1


def matmul_mx(
    a: MxMatrix[HostArray],
    b: object,
    out: HostArray | None,
    bias: HostArray | None,
    activation: str | None,
    out_dtype: object,
    stream: object,
    where: Target,
    otherwise: Any,
) -> Any:
    """`activation(a @ b.T + bias)`; `otherwise` multiplies what was put back into float32 first."""
    if not isinstance(b, MxMatrix):
        raise DSLTypeError(f"matmul: a is in MX blocks, and so must b be, got {type(b).__name__}")
    other: MxMatrix[HostArray] = b  # pyright: ignore[reportUnknownVariableType]
    (m, k), (n, depth) = a.shape, other.shape
    if k != depth:
        raise DSLValueError(f"matmul: rows of a have {k} elements and those of b {depth}: {a} and {other}")
    name = result_type("float32", "float32" if out_dtype is None else out_dtype)
    if not takes(where.target, a, other) or 0 in (m, n, k):
        from ...mx.quantize import dequantize_mx

        first, second = (dequantize_mx(x.data, x.scales, x.kind, stream=stream) for x in (a, other))
        return otherwise(first, second.T, out=out, bias=bias, activation=activation, out_dtype=name, stream=stream)
    if out is None:
        out = empty(a.data, (m, n), name)
    else:
        place = describe("out", out)
        check_placed(place, (m, n), name, describe("scales", as_type(a.scales, "float4_e2m1fn")).device)
        if place.strides[1] != 1 and n > 1:
            raise DSLValueError(f"matmul: rows of out lie in one piece for MX blocks, its strides are {place.strides}")
        inputs = {"a": a.data, "b": other.data, "scales of a": a.scales, "scales of b": other.scales}
        reaches = [(what, x, x.shape[0] * x.shape[1]) for what, x in inputs.items()]
        if bias is not None:
            reaches.append(("bias", bias, describe("bias", bias).reach))
        check_apart(place.address, place.reach, reaches)  # pyright: ignore[reportArgumentType]
    if bias is not None:
        check_bias(describe("bias", bias), n)
    x, y = side(a, "a", stream), side(other, "b", stream)
    moved = CLASSES[x.kind]
    length = k * FORMATS[x.kind].bits // 8
    step_c = describe("out", out).strides[0] if m > 1 else n
    form = (
        Form("mfma", 64, part=16, direct="buffer")
        if x.kind == "float4_e2m1fn"
        else Form("mfma_scale", 128, part=32, direct="buffer")
    )
    width = 4 if n % 4 == 0 and step_c % 4 == 0 and describe("out", out).address % 16 == 0 else 1
    extras = () if bias is None else ("bias",)
    form = form._replace(mx=moved, store=width, extras=extras, activation=activation or "none")
    more: dict[str, object] = {} if stream is None else {"stream": stream}
    shared = where.target.caps.shared_mem_per_block or 65536
    given = Given(m, n, length, 1, 1, describe("out", out).itemsize, where.processors, shared)
    part, slices = cut(given, where.target, TILE)
    if slices > 1:
        more["parts"] = scratch(out, "sums", slices * m * -(-n // EACH) * EACH, "float32", stream)
    amd_matmul(
        as_type(x.data, x.kind), as_type(y.data, y.kind), out, bias, None, None, None, m, n, length, 1, length, length,
        step_c, 0, 0, 0, min(8, -(-m // HIGH)), part, TILE, form, blocks_w=y.words, blocks_a=x.words, **more,
    )  # fmt: skip
    return out


__all__ = ["matmul_mx"]
