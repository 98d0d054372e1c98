"""Runs every kernel of the library on an NVIDIA GPU and checks it: the program that `compute-sanitizer` watches.

compute-sanitizer --tool racecheck python tests/kernels/every_cuda_kernel.py
"""

from __future__ import annotations

import os

os.environ["FLYDSL_COMPILE_BACKEND"] = "cuda"

import numpy as np
import torch

# The folder of this file is on the path of a program.
from attention.device import CALLS
from library import CASES
from matmul_checks import bound

from flydsl.kernels import grouped_matmul, matmul

PRODUCTS = ((64, 48, 200), (130, 257, 72), (16, 512, 2048), (33, 31, 30), (256, 384, 128))
"""Rows, columns and terms of products of the one entry point: several kernels stand behind it."""

SIZES = (70, 0, 1, 130)
"""Rows of groups."""


def multiply_groups(major: int) -> None:
    """Of float32, and where there are tensor cores for it of fp8 with factors of blocks."""
    ends = torch.tensor(SIZES, device="cuda").cumsum(0)
    a, b = torch.randn(sum(SIZES), 256, device="cuda"), torch.randn(len(SIZES), 200, 256, device="cuda").mT
    lines, squares = torch.rand(sum(SIZES), 2, device="cuda") + 0.5, torch.rand(len(SIZES), 2, 2, device="cuda") + 0.5
    found = [(grouped_matmul(a, b, ends), a, b, 0.0)]
    if major == 9:
        left, right = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
        product = grouped_matmul(left, right, ends, scale_a=lines, scale_b=squares)
        wide = squares.double().repeat_interleave(128, 1).repeat_interleave(128, 2)[:, :, :200]
        found.append(
            (product, left.double() * lines.double().repeat_interleave(128, 1), right.double() * wide, 2.0**-12)
        )
    for product, x, y, kept in found:
        for group, end in enumerate(ends.tolist()):
            rows = slice(end - SIZES[group], end)
            bound(product[rows], x[rows], y[group], sums=kept)
    print("grouped_matmul of float32 and fp8", flush=True)


if __name__ == "__main__":
    major, minor = torch.cuda.get_device_capability()
    chosen = [case for case in CASES if any(t.startswith(f"cuda:sm_{major}{minor}") for t in case.targets)]
    assert chosen, f"no kernel is for sm_{major}{minor}"
    for case in chosen:
        share = case.check(np.random.default_rng(), "cuda")
        print(f"{case.name:60} {share:.3f} of the error allowed", flush=True)
    for m, n, k in PRODUCTS:
        a, b = (torch.randn(shape, device="cuda").bfloat16() for shape in ((m, k), (k, n)))
        bound(matmul(a, b), a, b)
        print(f"matmul {m} x {n} x {k}", flush=True)
        for left, right in ((a.float(), b.float()), (a.float().T.contiguous().T, b.float().T.contiguous().T)):
            bound(matmul(left, right), left, right)
        print(f"matmul {m} x {n} x {k} of float32", flush=True)
    multiply_groups(major)
    for what, call in CALLS.items():
        if major == 9:
            call(np.random.default_rng(), "cuda")
            print(f"attention: {what}", flush=True)
    torch.cuda.synchronize()
    print("done")
