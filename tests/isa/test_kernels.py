"""Kernels of the library as machine code, against float64: every instruction of the code objects that ship is executed.

More of the suite runs this way with `-p tests.isa.plugin`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.kernels.library import CASES, Case

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels import attention, matmul

QUICK = {
    "gfx942": ("transpose-float16", "softmax-bfloat16-4x1000", "gemm_cdna-float16", "gemm_preshuffle_scaled-float8"),
    "gfx950": ("gemm_preshuffle_scaled-float8",),
    "gfx1201": ("layer_norm-bfloat16-4x1000", "gemm_wmma-bfloat16"),
    "gfx1100": ("gemm_wmma-float16",),
    "gfx90a": ("gemm_cdna-bfloat16",),
    "gfx1250": ("transpose-float16", "vector_add-bfloat16"),
}
"""Architecture -> the cases of the default run."""


def cases() -> list[Any]:
    found: list[Any] = []
    for arch, quick in QUICK.items():
        for case in CASES:
            if (
                f"rocm:{arch}" not in case.targets
                or "world" in case.others
                or case.kernel.__module__.startswith("flydsl.kernels.dist")
            ):
                continue
            marks = () if case.name.startswith(quick) else (pytest.mark.slow,)
            found.append(pytest.param(arch, case, id=f"{arch}-{case.name}", marks=marks))
    return found


@pytest.mark.parametrize(("arch", "case"), cases())
def test_library(arch: str, case: Case, gpu: Any, rng: np.random.Generator):
    used = gpu(arch)
    case.check(rng)
    assert used.hip.launches and used.hip.instructions > 0


@pytest.mark.parametrize(
    ("arch", "dtype"),
    [
        ("gfx942", torch.bfloat16),
        ("gfx950", torch.float16),
        ("gfx1201", torch.float16),
        ("gfx1250", torch.bfloat16),
    ],
)
def test_products(arch: str, dtype: torch.dtype, gpu: Any, rng: np.random.Generator):
    """Ends inside tiles in all directions; K is long enough to be cut."""
    gpu(arch)
    for m, n, k in ((5, 20, 2056), (33, 68, 200)):
        a, b = (torch.from_numpy(rng.standard_normal(shape)).to(dtype) for shape in ((m, k), (n, k)))
        whole = torch.full((m, n + 4), float("nan"))
        matmul(a, b.T, out=whole[:, :n], out_dtype="float32")
        wanted, terms = a.double() @ b.double().T, a.double().abs() @ b.double().abs().T
        assert ((whole[:, :n].double() - wanted).abs() <= (k + 16) * 2.0**-23 * terms).all()
        assert whole[:, n:].isnan().all()


FAR = (0, 16320, 16384, 20011, 32768, 40000)
"""Words of shared memory in front of a lane's: within an instruction's reach of 64 KiB, and behind it."""


@flyc.kernel
def far_kernel(x: fx.Tensor, y: fx.Tensor):
    t = fx.thread_idx.x
    cells = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 40960]).peek()
    mine, others = cells.ptr + t, cells.ptr + (fx.block_dim.x - 1 - t)
    for i in fx.range_constexpr(len(FAR)):
        mine[FAR[i]] = x[t, i]
    fx.barrier()
    for i in fx.range_constexpr(len(FAR)):
        y[t, i] = others[FAR[i]]


@flyc.jit
def far(x: fx.Tensor, y: fx.Tensor):
    far_kernel(x, y).launch(grid=1, block=64)


@pytest.mark.parametrize("arch", ["gfx950", "gfx1250"])
def test_far_places_of_shared_memory(arch: str, gpu: Any, rng: np.random.Generator):
    """Written by one lane and read by another, at distances that no instruction can add."""
    gpu(arch)
    x, y = rng.standard_normal((64, len(FAR))).astype("f4"), np.full((64, len(FAR)), np.nan, "f4")
    far(x, y)
    assert (y == x[::-1]).all()


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_attention(arch: str, gpu: Any, rng: np.random.Generator):
    gpu(arch)
    q, k, v = (
        torch.from_numpy(rng.standard_normal((1, rows, h, 64))).bfloat16() for rows, h in ((19, 2), (45, 1), (45, 1))
    )
    out = attention(q, k, v, causal=True)
    scores = torch.einsum("bqhd,bkd->bhqk", q.double(), k[:, :, 0].double()) / 8
    hidden = torch.arange(45)[None, :] > torch.arange(19)[:, None] + 26
    wanted = torch.einsum("bhqk,bkd->bqhd", scores.masked_fill(hidden, float("-inf")).softmax(-1), v[:, :, 0].double())
    torch.testing.assert_close(out.double(), wanted, rtol=0.02, atol=0.02)
