"""float32 on tensor cores: how many bits are kept, and that what is not finite stays so. Results of 8 bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.kernels import matmul, quantize_weight
from flydsl.kernels.matmul.pack import pack

from .matmul_checks import bound


def random(rng: np.random.Generator, *shape: int) -> torch.Tensor:
    return torch.from_numpy((rng.standard_normal(shape) * np.exp2(rng.integers(-9, 9, shape))).astype("f4"))


def test_parts_of_a_number(rng: np.random.Generator, device: str):
    """Two parts of 11 bits have 22; they meet once what is not finite."""
    x = random(rng, 5, 70)
    x[0, :6] = torch.tensor([float("inf"), -float("inf"), float("nan"), 3.4028235e38, -1e-40, 0.0])
    x[1, 0] = torch.tensor(0x7F800001, dtype=torch.int32).view(torch.float32)
    found = {}
    for parts in ("left", "right"):
        target = torch.full((5, 256), float("nan"), device=device)
        pack(x.to(device), target, 5, 70, 1, 70, 1, 0, 256, False, parts)
        assert torch.isnan(target[:, 210:]).all()
        found[parts] = target[:, :210].reshape(5, 3, 70).transpose(0, 1).cpu()
    upper, lower, finite = found["left"]
    assert torch.equal(torch.nan_to_num(upper), torch.nan_to_num(found["right"][0]))
    assert torch.equal(finite, found["right"][1]) and torch.equal(lower, found["right"][2])
    ends = ~torch.isfinite(x)
    assert torch.equal(upper[ends & ~x.isnan()], x[ends & ~x.isnan()]) and upper[x.isnan()].isnan().all()
    assert not (finite[ends].any() or lower[ends].any())
    for part in (finite, lower):
        assert not (part.view(torch.int32) & 0x1FFF).any()
    rest = (finite.double() + lower.double() - x.double())[~ends].abs()
    assert (rest <= x.double().abs()[~ends] * 2.0**-22 + 2.0**-136).all()


@pytest.mark.parametrize("precision, bits", [("tf32", 10), ("tf32x3", 21)])
def test_bits(precision: str, bits: int, rng: np.random.Generator, device: str):
    for m, n, k, turned in ((37, 40, 72, False), (20, 9, 33, True)):
        a, b = random(rng, m, k).to(device), random(rng, n, k).to(device).T
        if turned:
            a, b = a.T.contiguous().T, b.contiguous()
        c = matmul(a, b, precision=precision)
        exact, terms = a.double() @ b.double(), a.double().abs() @ b.double().abs()
        # Two operands lose so many bits; sums are f32.
        allowed = terms * (2 * 2.0**-bits + (k + 8) * 2.0**-22)
        assert ((c.double() - exact).abs() <= allowed).all()
        if precision == "tf32x3":
            a[3, 4] = float("inf")
            b[4, :3] = torch.tensor([1.0, -2.0, 0.0])
            row = matmul(a, b, precision=precision)[3]
            assert row[0] == float("inf") and row[1] == -float("inf") and row[2].isnan()


def nearest(x: torch.Tensor, dtype) -> torch.Tensor:
    """In 8 bits, the largest number for all that is too large."""
    largest = torch.finfo(dtype).max
    return x.clamp(-largest, largest).to(dtype).double()


@pytest.mark.parametrize("rows, arch", [(20, "sm_90a"), (3, "sm_90a"), (9, "gfx942")])
def test_results_of_8_bits(rows: int, arch: str, rng: np.random.Generator, emulate):
    """The nearest number to what f32 sums may be; a NaN stays one, what is too large is the largest."""
    emulate(arch)
    a, b = (torch.from_numpy(rng.standard_normal(s)).bfloat16() for s in ((rows, 72), (72, 41)))
    a[0, 1], a[1] = float("nan"), 1e30
    exact = a.double() @ b.double()
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        for scale in (None, 0.25) if rows > 8 else (None,):
            given = None if scale is None else torch.tensor([scale])
            c = matmul(a, b, out_dtype=dtype, scale_out=given).double()
            wanted = exact / (scale or 1.0)
            slack = (a.double().abs() @ b.double().abs()) / (scale or 1.0) * 72 * 2.0**-22
            low, high = nearest(wanted - slack, dtype), nearest(wanted + slack, dtype)
            assert c[0].isnan().all() and (c[1].abs() == torch.finfo(dtype).max).all()
            assert ((low[1:] <= c[1:]) & (c[1:] <= high[1:])).all()


@pytest.mark.parametrize("arch", ["gfx942", "native"])
def test_other_stacks_multiply_as_it_is(arch: str, rng: np.random.Generator, emulate):
    emulate(arch)
    a, b = random(rng, 9, 20), random(rng, 20, 5)
    bound(matmul(a, b, precision="tf32"), a, b)


def test_what_is_refused(rng: np.random.Generator, emulate):
    emulate("native")
    a, b = random(rng, 3, 32), random(rng, 32, 4)
    with pytest.raises(DSLValueError, match="precision is one of ieee, tf32x3, tf32, got 'bf16'"):
        matmul(a, b, precision="bf16")
    with pytest.raises(DSLTypeError, match="precision='tf32' is about float32, got a of float16"):
        matmul(a.half(), b.half(), precision="tf32")
    with pytest.raises(DSLTypeError, match="scale_out goes with results of float8_e4m3fn and float8_e5m2, not float32"):
        matmul(a, b, scale_out=torch.ones(1))
    with pytest.raises(DSLValueError, match="scale_out is one value of float32, got float32.2."):
        matmul(a, b, out_dtype="float8_e5m2", scale_out=torch.ones(2))
    with pytest.raises(DSLValueError, match="two matrices of float32"):
        matmul(a, quantize_weight(b), precision="tf32")
