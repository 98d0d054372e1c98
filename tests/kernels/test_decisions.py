"""What was decided for a call is not used where another target is asked for, whichever variable says so."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flydsl.kernels import attention, grouped_matmul, layer_norm, matmul, softmax


@pytest.mark.parametrize("variable", ["FLYDSL_COMPILE_ARCH", "FLYDSL_GPU_ARCH", "ARCH"])
def test_another_target_is_decided_anew(variable: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    """The same arrays, and targets whose kernels are not each other's."""
    for name in ("FLYDSL_COMPILE_ARCH", "FLYDSL_GPU_ARCH", "ARCH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    a, b = (torch.from_numpy(rng.standard_normal((40, 64))).to(torch.bfloat16) for _ in range(2))
    x = torch.from_numpy(rng.standard_normal((3, 1000))).float()
    q = torch.from_numpy(rng.standard_normal((1, 8, 1, 64))).half()
    ends = torch.tensor([40])
    found: list[list[torch.Tensor]] = []
    for arch in ("gfx942", "sm_90a", "gfx1100"):
        monkeypatch.setenv(variable, arch)
        products = matmul(a, b.T), grouped_matmul(a, b.T[None], ends)
        found.append([y.double() for y in (*products, softmax(x), layer_norm(x), attention(q, q, q))])
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            assert torch.allclose(one, other, rtol=2**-6, atol=2**-6)
