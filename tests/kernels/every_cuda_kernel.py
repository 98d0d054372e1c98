"""Runs every kernel of the library on an NVIDIA GPU and checks it: the program that `compute-sanitizer` watches.

compute-sanitizer --tool racecheck python tests/kernels/every_cuda_kernel.py

Words behind it choose what runs by parts of the names. `--device cpu` runs the same on the cpu stack, which emulates
the GPU that a call is for.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch

# The folder of this file is on the path of a program.
from attention.device import CALLS as ATTENTION
from library import CASES, Case
from library.calls import Call, every_call
from library.calls.running import never_written, run
from matmul_checks import bound

from flydsl.kernels import grouped_matmul, matmul
from flydsl.target import CUDA_ARCHES, GPUTarget, gpu_backend_of_arch
from flydsl.target.compatibility import runs_on

Step = Callable[[str], object]
"""Something to do on a device."""

ran: set[str] = set()
wanted: set[str] = set()
"""Kernels that calls were for. How many processors a GPU has may decide which call runs which of them."""

PRODUCTS = ((64, 48, 200), (130, 257, 72), (16, 512, 2048), (33, 31, 30), (256, 384, 128))
"""Rows, columns and terms of products of the one entry point: several kernels stand behind it."""

HANDED_ON = "factors by lanes"
"""Lanes of a warp write, meet, and one of them arrives at an mbarrier: PTX orders that before whoever waits there, but
`racecheck` sees what that lane wrote alone. With 32 arrivals it reports nothing; they take longer."""

SIZES = (70, 0, 1, 130)
"""Rows of groups."""


def check_call(call: Call, device: str) -> None:
    """Two runs over different bytes: nothing is left unwritten, and no result comes from what nobody has written."""
    seed = random.getrandbits(32)
    print(f"seed {seed}", flush=True)
    os.environ["FLYDSL_COMPILE_ARCH"] = call.arch
    try:
        first, second = (run(call, seed, byte, device) for byte in (0xFF, 0x5A))
    finally:
        del os.environ["FLYDSL_COMPILE_ARCH"]
    ran.update(first.kernels)
    wanted.update(call.kernels.split())
    for x, y in zip(first.arrays, second.arrays, strict=True):
        assert not never_written(x, y).any(), "elements that nobody has written"
        assert not (x.is_floating_point() and (x.float().isnan().any() or y.float().isnan().any()))


def check_case(case: Case, device: str) -> None:
    print(f"{case.check(np.random.default_rng(), device):.3f} of the error allowed", flush=True)


def multiply(m: int, n: int, k: int, device: str) -> None:
    a, b = (torch.randn(shape, device=device).bfloat16() for shape in ((m, k), (k, n)))
    bound(matmul(a, b), a, b)
    for left, right in ((a.float(), b.float()), (a.float().T.contiguous().T, b.float().T.contiguous().T)):
        bound(matmul(left, right), left, right)


def multiply_groups(fp8: bool, device: str) -> None:
    """Of float32, and of fp8 with factors of blocks."""
    ends = torch.tensor(SIZES, device=device).cumsum(0)
    a, b = torch.randn(sum(SIZES), 256, device=device), torch.randn(len(SIZES), 200, 256, device=device).mT
    lines, squares = torch.rand(sum(SIZES), 2, device=device) + 0.5, torch.rand(len(SIZES), 2, 2, device=device) + 0.5
    found = [(grouped_matmul(a, b, ends), a, b, 0.0)]
    if fp8:
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


def steps(gpu: str) -> Iterator[tuple[str, Step]]:
    """What is for a GPU, or for one that it runs the code of."""
    hopper = gpu == "sm_90a"
    for name, call in every_call().items():
        if gpu_backend_of_arch(call.arch) == "cuda" and runs_on(GPUTarget.parse(call.arch), GPUTarget.parse(gpu)):
            yield f"call: {name}", partial(check_call, call)
    for case in CASES:
        if any(target.startswith(f"cuda:{gpu.rstrip('a')}") for target in case.targets):
            yield f"case: {case.name}", partial(check_case, case)
    for m, n, k in PRODUCTS:
        yield f"matmul: {m} x {n} x {k}", partial(multiply, m, n, k)
    yield "grouped_matmul: float32", partial(multiply_groups, False)
    if hopper:
        yield f"grouped_matmul: fp8, {HANDED_ON}", partial(multiply_groups, True)
    if hopper:
        for what, check in ATTENTION.items():
            yield f"attention: {what}", partial(check, np.random.default_rng())


def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    given.add_argument("--without", action="append", default=[], help="leave out names with this in them")
    given.add_argument("words", nargs="*")
    asked = given.parse_args()
    os.environ["FLYDSL_COMPILE_BACKEND"] = asked.device
    gpu = "sm_90a"
    if asked.device == "cuda":
        name = "sm_{}{}".format(*torch.cuda.get_device_capability())
        # Where a chip has instructions of its own, they have this name.
        gpu = f"{name}a" if f"{name}a" in CUDA_ARCHES else name
    else:
        os.environ["FLYDSL_GPU_ARCH"] = gpu
    count = 0
    for name, step in steps(gpu):
        if any(word in name for word in asked.without):
            continue
        if not asked.words or any(word in name for word in asked.words):
            print(name, flush=True)
            step(asked.device)
            count += 1
    assert count, f"nothing is for {gpu}"
    assert wanted <= ran, f"no call ran {', '.join(sorted(wanted - ran))}"
    if asked.device == "cuda":
        torch.cuda.synchronize()
    print("done", count)


if __name__ == "__main__":
    main()
