"""Copies with other axes in front, or of another type."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
from flydsl import kernels
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.kernels.axes.permute import cast_elements, turn


@pytest.mark.parametrize("way", ["plain", "checked"])
def test_every_order(way: str, device: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    orders = list(itertools.permutations(range(4)))
    if way == "checked":
        if device != "cpu":
            pytest.skip("the cpu stack checks accesses")
        monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
        orders = [(0, 2, 3, 1)]
    for shape in ((2, 3, 35, 4), (5, 1, 7, 1)):
        x = torch.from_numpy(rng.integers(-99, 99, shape)).int().to(device)
        for order in orders:
            for given in (x, x.transpose(1, 3)):
                got = kernels.permute(given, order)
                assert got.is_contiguous() and torch.equal(got, given.permute(order)), (shape, order)
    half = torch.from_numpy(rng.standard_normal((40, 70))).bfloat16().to(device)
    assert torch.equal(kernels.permute(half, (-1, 0)), half.T)
    assert kernels.permute(half[:0], (1, 0)).shape == (70, 0)


def test_casts(device: str, rng: np.random.Generator):
    x = torch.from_numpy(rng.standard_normal(1000) * np.exp(rng.standard_normal(1000) * 8)).float()
    x[:3] = torch.tensor([float("nan"), float("inf"), -0.0])
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        got = kernels.cast(x.reshape(20, 50).T.to(device), dtype).cpu()
        torch.testing.assert_close(got, x.reshape(20, 50).T.to(dtype), atol=0, rtol=0, equal_nan=True)
    whole = torch.from_numpy(rng.integers(-(2**40), 2**40, 70))
    assert torch.equal(kernels.cast(whole.to(device), "int32").cpu(), whole.int())
    assert torch.equal(kernels.cast(whole.to(device), torch.float64).cpu(), whole.double())
    assert kernels.cast(x[:0].to(device), "float16").shape == (0,)


def test_mistakes():
    x = np.zeros((2, 3), "f4")
    with pytest.raises(DSLValueError, match=r"axes name each of 2 once, got \(0, 0\)"):
        kernels.permute(x, (0, 0))
    with pytest.raises(DSLTypeError, match="floats become floats, got float32 to int8"):
        kernels.cast(x, "int8")
    with pytest.raises(DSLTypeError, match="dtype is one of .* got complex64"):
        kernels.cast(x, "complex64")


def test_builds():
    x = torch.zeros(2, 64, 64, dtype=torch.bfloat16)
    for target in ("cuda:sm_90a", "rocm:gfx942"):
        flyc.compile(turn, x, x, 2, 64, 64, target=target)
        flyc.compile(cast_elements, x[0, 0], torch.zeros(64), 64, target=target)
