"""Products of matrices."""

from __future__ import annotations

from typing import Any

import torch

from flydsl.kernels.gemm_cdna import gemm_cdna
from flydsl.kernels.gemm_preshuffle import gemm_preshuffle, gemm_preshuffle_scaled, preshuffle_weights
from flydsl.kernels.gemm_sm80 import gemm_sm80
from flydsl.kernels.gemm_sm90 import gemm_sm90
from flydsl.kernels.gemm_wmma import gemm_wmma

from .case import CUDA, ROCM, Case, plain, units

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
FP8 = {"rocm:gfx942": torch.float8_e4m3fnuz, "rocm:gfx950": torch.float8_e4m3fn}
HOPPER = ("cuda:sm_90",)
CDNA, RDNA = ROCM[:3], ROCM[3:]
MATRICES = {"a": "mk", "b": "nk", "c": "mn"}
SILU_RTOL = 1e-5


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b.T


def _biased(function: Any):
    return lambda a, b, bias: function(a @ b.T + bias)


def _magnitude(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    return a @ b.T if bias is None else a @ b.T + bias


def gemm(kernel: Any, m: int, n: int, k: int, dtype: torch.dtype, targets: tuple[str, ...], **more: Any) -> Case:
    sizes = {"m": m, "n": n, "k": k}
    given = {"arrays": MATRICES, "wanted": product, "magnitude": _magnitude, **more}
    return Case(kernel, sizes=sizes, targets=targets, result="c", dtype=dtype, terms="k", **given)


def with_bias(kernel: Any, m: int, n: int, k: int, targets: tuple[str, ...], activation: str, **others: Any) -> Case:
    function = {"silu": torch.nn.functional.silu, "relu": torch.relu}[activation]
    return gemm(kernel, m, n, k, BF16, targets, arrays={**MATRICES, "bias": "n"}, wanted=_biased(function),
                dtypes={"bias": F32}, others={**others, "activation": activation}, rtol=SILU_RTOL)  # fmt: skip


def preshuffled(target: str, dtype: torch.dtype, scaled: bool = False, again: bool = False) -> Case:
    arrays = {"a": "mk", "w": "nk", "c": "mn"}
    if not scaled:
        return gemm(gemm_preshuffle, 141, 176, 256, dtype, (target,), arrays=arrays, wrap=units,
                    wanted=lambda a, w: a @ w.T, magnitude=lambda a, w: a @ w.T, dtypes={"c": BF16},
                    place={"w": preshuffle_weights}, others={"block_m": 128, "block_n": 128}, again=again)  # fmt: skip

    def wanted(a: torch.Tensor, w: torch.Tensor, row_scales: torch.Tensor, column_scales: torch.Tensor) -> torch.Tensor:
        return (a @ w.T) * row_scales[:, None] * column_scales

    arrays |= {"row_scales": "m", "column_scales": "n"}
    return gemm(gemm_preshuffle_scaled, 45, 64, 256, dtype, (target,), arrays=arrays, wrap=units, wanted=wanted,
                magnitude=wanted, dtypes={"c": BF16, "row_scales": F32, "column_scales": F32},
                place={"w": preshuffle_weights}, others={"block_m": 128, "block_n": 128}, again=again)  # fmt: skip


CASES = [
    gemm(gemm_sm80, 130, 67, 36, F16, CUDA),
    gemm(gemm_sm80, 136, 136, 40, BF16, CUDA, wrap=units),
    gemm(gemm_sm80, 64, 72, 40, BF16, CUDA[:1], wrap=units, dtypes={"c": F32}, again=True),
    with_bias(gemm_sm80, 130, 67, 72, CUDA[:1], "relu"),
    gemm(gemm_sm90, 150, 264, 200, F16, HOPPER, others={"blocks": 1, "cluster_size": 1}),
    gemm(gemm_sm90, 150, 264, 200, BF16, HOPPER, others={"blocks": 4, "cluster_size": 2}),
    gemm(gemm_sm90, 130, 67, 72, BF16, HOPPER, others={"blocks": 2, "cluster_size": 2}),
    with_bias(gemm_sm90, 70, 136, 72, HOPPER, "silu", blocks=4, cluster_size=2),
    *(
        gemm(kernel, 131, 72, 64, dtype, targets, wrap=units, wraps={"c": plain}, dtypes={"c": out}, again=dtype is F16)
        for kernel, targets in ((gemm_cdna, CDNA), (gemm_wmma, RDNA))
        for dtype, out in ((F16, F32), (BF16, BF16))
    ),
    preshuffled("rocm:gfx942", BF16),
    preshuffled("rocm:gfx950", FP8["rocm:gfx950"]),
    preshuffled("rocm:gfx942", F16, again=True),
    preshuffled("rocm:gfx942", FP8["rocm:gfx942"], again=True),
    *(preshuffled("rocm:gfx950", dtype, again=True) for dtype in (F16, BF16)),
    preshuffled("rocm:gfx942", FP8["rocm:gfx942"], scaled=True),
    preshuffled("rocm:gfx950", FP8["rocm:gfx950"], scaled=True, again=True),
]
