"""C = A W^T with weights laid out beforehand for the matrix instruction; MFMA, for gfx942 and gfx950.

A is (M, K) with contiguous K, W is (N, K) in the order of `preshuffle_weights`, C is (M, N) with contiguous N; f16,
bf16 or the fp8 of the architecture in, f32, f16 or bf16 out. M is any size, N a multiple of 16, K one of 128 bytes.
The kernel itself is in `matmul/amd/kernel.py`; `matmul` takes such weights too, of any extents (`preshuffle_weight`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.expr.rocdl.target import amd_target
from flydsl.kernels.extents import check_extents
from flydsl.kernels.matmul.amd.kernel import GROUP_BYTES, UNIT_BYTES, Form, Tile, amd_tiles
from flydsl.kernels.matmul.amd.plan import form_for
from flydsl.kernels.matmul.amd.weights import LINE, shuffled
from flydsl.kernels.matmul.arrays import HostArray, type_name
from flydsl.target import where

ArrayT = TypeVar("ArrayT", bound="HostArray")

BLOCK_M = (32, 64, 128, 256)
BLOCK_N = (64, 128, 256)
GROUP = 8
"""Rows of blocks that are walked together."""


def _form(kernel: str, a: fx.Tensor, c: fx.Tensor, extras: tuple[str, ...]) -> Form:
    """The instruction of the target; C is stored four columns at a time."""
    target = amd_target(kernel)
    if a.dtype.width not in (8, 16) or not a.dtype.is_float:
        raise DSLTypeError(f"gemm_preshuffle multiplies f16, bf16 or fp8, got {a.dtype}")
    if not target.has("mfma_i8_k32"):
        raise DSLValueError(f"gemm_preshuffle exists for {where('mfma_i8_k32')}, not for {target.arch}")
    found = form_for(target, type_name(a.dtype))
    if found is None:
        raise DSLTypeError(f"gemm_preshuffle: {target.arch} has no matrix instruction for {a.dtype}")
    return found._replace(shuffled=True, store=4, extras=extras)


def _launch(
    a: fx.Tensor, w: fx.Tensor, c: fx.Tensor, extras: tuple[fx.Tensor, ...], tile: Tile, form: Form, stream: fx.Stream
) -> None:
    m, n = c.shape.unpack()
    k = fx.get_scalar(a.shape[1])
    step_a, step_c = fx.get_scalar(a.stride[0]), fx.get_scalar(c.stride[0])
    amd_tiles(a, w, c, extras, m, n, k, 1, step_a, k, step_c, 0, 0, 0, GROUP, k, tile, form, stream)


def _check_blocks(block_m: int, block_n: int) -> None:
    if block_m not in BLOCK_M or block_n not in BLOCK_N:
        raise DSLValueError(
            f"gemm_preshuffle takes block_m of {BLOCK_M} and block_n of {BLOCK_N}, got {block_m} and {block_n}"
        )


@flyc.jit
def gemm_preshuffle(
    a: fx.Tensor,
    w: fx.Tensor,
    c: fx.Tensor,
    block_m: fx.Constexpr[int] = 128,
    block_n: fx.Constexpr[int] = 128,
    stream: fx.Stream = fx.Stream(None),
):
    """`c = a @ w.T` for the `w` of `preshuffle_weights`.

    `block_m` is 32, 64, 128 or 256, `block_n` 64, 128 or 256. Extents of run time are the caller's responsibility;
    `matmul_preshuffled` checks them.
    """
    check_extents("gemm_preshuffle", a=(a, "mk"), w=(w, "nk"), c=(c, "mn"))
    _check_blocks(block_m, block_n)
    form = _form("gemm_preshuffle", a, c, ())
    _launch(a, w, c, (), Tile(block_m, block_n), form, stream)


@flyc.jit
def gemm_preshuffle_scaled(
    a: fx.Tensor,
    w: fx.Tensor,
    c: fx.Tensor,
    row_scales: fx.Tensor,
    column_scales: fx.Tensor,
    block_m: fx.Constexpr[int] = 128,
    block_n: fx.Constexpr[int] = 128,
    stream: fx.Stream = fx.Stream(None),
):
    """`c = (a @ w.T) * row_scales[:, None] * column_scales`, with f32 vectors of M and N scales."""
    matrices = {"a": (a, "mk"), "w": (w, "nk"), "c": (c, "mn")}
    check_extents(
        "gemm_preshuffle_scaled", **matrices, row_scales=(row_scales, "m"), column_scales=(column_scales, "n")
    )
    _check_blocks(block_m, block_n)
    form = _form("gemm_preshuffle_scaled", a, c, ("scale_a", "scale_b"))
    _launch(a, w, c, (row_scales, column_scales), Tile(block_m, block_n), form, stream)


def matmul_preshuffled(
    a: HostArray, w: HostArray, c: HostArray, scales: Sequence[HostArray] = (), stream: object = None
) -> None:
    """`gemm_preshuffle` on numpy or torch matrices of any M: checks them and picks the block by M.

    `scales` is empty, or the row and the column scales of `gemm_preshuffle_scaled`.
    """
    shapes = [tuple(int(extent) for extent in x.shape) for x in (a, w, c)]
    if [len(shape) for shape in shapes] != [2, 2, 2]:
        raise DSLTypeError(f"matmul_preshuffled expects matrices a, w and c, got shapes {shapes}")
    (m, k), (n, _), _ = shapes
    if shapes != [(m, k), (n, k), (m, n)]:
        raise DSLValueError(f"matmul_preshuffled expects a (M, K), w (N, K) and c (M, N), got {shapes}")
    if a.dtype != w.dtype:
        raise DSLTypeError(f"matmul_preshuffled: a is {a.dtype} and w is {w.dtype}")
    step = LINE // a.dtype.itemsize
    if m == 0 or n % 16 or k % step or k == 0:
        raise DSLValueError(
            f"matmul_preshuffled needs N to be a multiple of 16 and K of {step} for {a.dtype}, got M, N, K = {m, n, k}"
        )
    if scales and [tuple(x.shape) for x in scales] != [(m,), (n,)]:
        raise DSLValueError(f"the scales must be vectors of {m} rows and {n} columns")
    unit = UNIT_BYTES // a.dtype.itemsize
    matrices = [
        flyc.from_dlpack(x).mark_layout_dynamic(leading_dim=1, divisibility=by)
        for x, by in ((a, unit), (w, unit), (c, 4))
    ]
    vectors = [flyc.from_dlpack(x).mark_layout_dynamic() for x in scales]
    block_m = next((size for size in BLOCK_M[:3] if m <= size), 128)
    left, right, out = matrices
    if vectors:
        gemm_preshuffle_scaled(left, right, out, vectors[0], vectors[1], block_m, 128, fx.Stream(stream))
    else:
        gemm_preshuffle(left, right, out, block_m, 128, fx.Stream(stream))


def preshuffle_weights(w: ArrayT) -> ArrayT:
    """The weights (N, K), numpy or torch, in the order `gemm_preshuffle` wants; same shape, type and device.

    Each 16 rows are cut into blocks of 64 bytes of K; in a block, the 16 bytes of the 16 rows that the lanes of a wave
    load together follow each other: `(N/16, K/64 B, 4, 16, 16 B)`. N is a multiple of 16, K one of 64 bytes.
    """
    if len(w.shape) != 2:
        raise DSLTypeError(f"preshuffle_weights expects a matrix (N, K), got shape {tuple(w.shape)}")
    n, k = (int(extent) for extent in w.shape)
    group = GROUP_BYTES // w.dtype.itemsize
    if n % 16 or k % group:
        raise DSLValueError(
            f"preshuffle_weights needs N to be a multiple of 16 and K of {group} for {w.dtype}, got ({n}, {k})"
        )
    return shuffled(w)


__all__ = ["gemm_preshuffle", "gemm_preshuffle_scaled", "matmul_preshuffled", "preshuffle_weights"]
