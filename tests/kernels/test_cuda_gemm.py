"""The matrix products for NVIDIA GPUs: both compile without spills, and on a GPU agree with float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
from flydsl.kernels.gemm_sm80 import gemm_sm80
from flydsl.kernels.gemm_sm90 import gemm_sm90
from flydsl.llvm import ptx, tools


def aligned(t: torch.Tensor):
    return flyc.from_torch_tensor(t, assumed_align=16).mark_layout_dynamic(divisibility=8)


def usage(artifact) -> ptx.KernelUsage | None:
    if tools.try_find_tool("ptxas") is None:
        return None
    _, log = ptx.assemble(artifact.binary("ptx").decode())
    assert "warning" not in log.lower(), log
    (found,) = ptx.parse_log(log).values()
    return found


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sm80_compiles(dtype):
    args = [aligned(torch.zeros(256, 256).to(dtype)) for _ in range(3)]
    artifact = flyc.compile(gemm_sm80, *args, target="cuda:sm_80").artifact
    text = artifact.asm
    assert text.count("mma.sync.aligned.m16n8k16") == 64 and text.count("ldmatrix.sync.aligned.m8n8.x4") == 16
    assert text.count("cp.async.cg.shared.global") == 24
    used = usage(artifact)
    assert used is None or used.spill_stores == 0


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sm90_compiles(dtype, cluster: int):
    args = [torch.zeros(256, 256).to(dtype) for _ in range(3)]
    artifact = flyc.compile(gemm_sm90, *args, 132, cluster, target="cuda:sm_90").artifact
    text = artifact.asm
    assert text.count("wgmma.mma_async.sync.aligned.m64n256k16") == 4
    assert ("multicast::cluster" in text) == (".reqnctapercluster 2" in text) == (cluster == 2)
    assert "setmaxnreg.inc" in text and "stmatrix.sync.aligned.m8n8.x4" in text
    used = usage(artifact)
    assert used is None or (used.spill_stores == 0 and used.registers == 168)


def _check(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    expected = a.double() @ b.double().T
    assert torch.isfinite(c).all()
    error = ((c.double() - expected).norm() / expected.norm()).item()
    assert error < (1e-3 if a.dtype == torch.float16 else 4e-3), error


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sm80_numbers(dtype, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    for _ in range(5):
        m, n, k = 128 * int(rng.integers(1, 5)), 128 * int(rng.integers(1, 5)), 32 * int(rng.integers(1, 20))
        a, b = (torch.from_numpy(rng.standard_normal((x, k))).to(dtype).cuda() for x in (m, n))
        c = torch.full((m, n), float("nan"), dtype=dtype, device="cuda")
        gemm_sm80(aligned(a), aligned(b), aligned(c))
        _check(c, a, b)


@pytest.mark.cuda
@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sm90_numbers(dtype, cluster: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    """Any M and N, K a multiple of 8; few blocks, so that each works on several tiles."""
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")
    for _ in range(10):
        m, n, k = int(rng.integers(1, 1000)), 8 * int(rng.integers(1, 150)), 8 * int(rng.integers(1, 200))
        a, b = (torch.from_numpy(rng.standard_normal((x, k))).to(dtype).cuda() for x in (m, n))
        c = torch.full((m, n), float("nan"), dtype=dtype, device="cuda")
        gemm_sm90(a, b, c, cluster * int(rng.integers(1, 12)), cluster)
        _check(c, a, b)
