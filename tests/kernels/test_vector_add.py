"""The vector add: element by element, and in units of 16 bytes with a part of a block left over."""

from __future__ import annotations

import pytest
import torch

import flydsl.compiler as flyc
from flydsl.kernels.vector_add import vector_add


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", request.param)
    return request.param


def promised(t: torch.Tensor):
    return flyc.from_torch_tensor(t, assumed_align=16).mark_layout_dynamic(divisibility=8)


@pytest.mark.parametrize("wrap", [lambda t: t, promised, lambda t: flyc.from_torch_tensor(t, assumed_align=16)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
def test_vector_add(wrap, dtype, device: str):
    for n in (8, 256, 8 * 1111, 3 * 8 * 1024, *((1, 1001) if wrap is not promised else ())):
        a, b = (torch.randint(-100, 100, (n,)).to(dtype).to(device) for _ in range(2))
        whole = torch.full((n + 8,), 77, dtype=dtype, device=device)
        vector_add(*(wrap(t) for t in (a, b, whole[:n])))
        assert torch.equal(whole[:n], a + b) and (whole[n:] == 77).all()


@pytest.mark.parametrize("target", ["cuda:sm_90", "rocm:gfx942"])
def test_wide_accesses(target: str):
    x = promised(torch.zeros(4096))
    asm = flyc.compile(vector_add, x, x, x, target=target).artifact.asm
    assert asm.count("ld.global.v4.b32" if "cuda" in target else "global_load_dwordx4") == 2
