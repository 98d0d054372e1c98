"""Kernels on the rows of a matrix: lengths of any kind, in registers, and in shared memory."""

from __future__ import annotations

import torch

from flydsl.kernels.rows import layer_norm, rms_norm, softmax

from .case import CUDA, ROCM, Case, plain, static

EPS = 0.3
"""Large beside the squares, so that it shows."""
F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
HOPPER = ("cuda:sm_90",)


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def _rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPS) * weight


def _layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, (x.shape[1],), weight, bias, EPS)


KERNELS = [
    (softmax, {"x": "mn", "out": "mn"}, _softmax, {}),
    (rms_norm, {"x": "mn", "weight": "n", "out": "mn"}, _rms_norm, {"eps": EPS}),
    (layer_norm, {"x": "mn", "weight": "n", "bias": "n", "out": "mn"}, _layer_norm, {"eps": EPS}),
]
FORMS = [
    (F32, 3, 333, plain, (*CUDA, *ROCM)),
    (F16, 4, 1000, plain, (*CUDA, *ROCM)),
    (BF16, 4, 1000, plain, (*CUDA, *ROCM)),
    (BF16, 5, 4096, static, (*CUDA, "rocm:gfx942")),
    (BF16, 3, 1032, static, (*HOPPER, "rocm:gfx1201")),
    (BF16, 3, 16392, static, HOPPER),
]

CASES = [
    # Powers of two and reciprocal roots are approximated, to some units of f32.
    Case(
        kernel,
        arrays,
        {"m": m, "n": n},
        wanted,
        targets,
        "out",
        dtype,
        others=others,
        terms="n",
        rtol=1e-6,
        wrap=wrap,
        again=dtype == F16,
    )  # fmt: skip
    for kernel, arrays, wanted, others in KERNELS
    for dtype, m, n, wrap, targets in FORMS
]
