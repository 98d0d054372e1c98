"""Sums and transposes."""

from __future__ import annotations

import torch

from flydsl.kernels.transpose import transpose
from flydsl.kernels.vector_add import vector_add

from .case import CUDA, ROCM, Case, plain, static

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
TARGETS = (*CUDA, *ROCM)

CASES = [
    *(
        Case(vector_add, {"a": "n", "b": "n", "c": "n"}, {"n": n}, lambda a, b: a + b, TARGETS, "c", dtype, wrap=wrap)
        for dtype, n, wrap in zip(DTYPES, (1001, 1000, 1024), (plain, plain, static), strict=True)
    ),
    *(
        Case(transpose, {"src": "mn", "dst": "nm"}, {"m": 65, "n": 37}, lambda src: src.T, TARGETS, "dst", dtype)
        for dtype in DTYPES
    ),
]
