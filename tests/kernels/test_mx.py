"""MX blocks: every format against ml_dtypes bit for bit, norms in one pass, and back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.nn import functional as F

import flydsl.compiler as flyc
from flydsl import kernels
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.kernels.mx.formats import FORMATS
from flydsl.kernels.mx.quantize import mx_rows, mx_values
from flydsl.kernels.rows.arrays import describe
from flydsl.kernels.rows.form import form_of

EPS = 0.7
"""Large beside the squares, so that it shows."""
HIGHEST = {"float8_e4m3fn": 8, "float8_e5m2": 15, "float6_e2m3fn": 2, "float6_e3m2fn": 4, "float4_e2m1fn": 2}


def wanted(x: np.ndarray[Any, Any], kind: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The numbers after a round trip, and the scales, by OCP's rule in float64."""
    blocks = x.astype("f8").reshape(*x.shape[:-1], -1, 32)
    most = np.abs(blocks).max(-1)
    exponent = np.floor(np.log2(np.where(most > 0, most, 2.0**-200))) - HIGHEST[kind]
    exponent = np.clip(exponent, -127, None)
    dtype = getattr(ml_dtypes, kind)
    largest = float(ml_dtypes.finfo(dtype).max)
    scaled = np.clip(blocks / 2.0 ** exponent[..., None], -largest, largest)
    made = scaled.astype("f4").astype(dtype).astype("f8") * 2.0 ** exponent[..., None]
    return made.reshape(x.shape), exponent + 127


@pytest.mark.parametrize("way", ["plain", "checked"])
def test_every_format(way: str, device: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch):
    kinds = list(HIGHEST)
    if way == "checked":
        if device != "cpu":
            pytest.skip("the cpu stack checks accesses")
        monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")
        kinds = ["float6_e2m3fn"]
    for i, kind in enumerate(kinds):
        dtype = (torch.float32, torch.bfloat16, torch.float16)[i % 3]
        spread = rng.standard_normal((5, 96)) * np.exp(rng.standard_normal((5, 96)) * 2)
        x = torch.from_numpy(spread).to(dtype)
        x[1, 32:64] = 0
        x[2, :32] = torch.linspace(-1, 1, 32) * 6  # ties among them
        codes, scales = kernels.quantize_mx(x.to(device), kind)
        assert codes.shape == (5, 96 * FORMATS[kind].bits // 8) and scales.shape == (5, 3)
        numbers, exponents = wanted(x.double().numpy(), kind)
        assert np.array_equal(scales.cpu().numpy(), exponents), kind
        got = kernels.dequantize_mx(codes, scales, kind).cpu().double().numpy()
        assert np.array_equal(got, numbers), kind
        if kind.startswith("float8"):
            bits = getattr(torch, kind)
            assert np.array_equal(
                codes.cpu().view(bits).double().numpy().reshape(5, 3, 32) * 2.0 ** (exponents[..., None] - 127),
                numbers.reshape(5, 3, 32),
            )


def test_numbers_at_the_ends_and_strides(device: str):
    x = torch.zeros(3, 64)
    x[0, 5], x[0, 40] = float("nan"), float("-inf")
    x[1, :32], x[1, 32:] = 2.0**-149, 3.4e38
    x[2] = torch.arange(64) - 20.0
    wide = torch.zeros(3, 67)
    wide[:, 3:] = x
    for given in (x.to(device), wide.to(device)[:, 3:]):
        codes, scales = kernels.quantize_mx(given, "float8_e5m2")
        assert scales.tolist()[:2] == [[255, 255], [0, 239]]
        back = kernels.dequantize_mx(codes, scales, "float8_e5m2", out_dtype="float32").cpu()
        assert back[0].isnan().all() and not back[1:].isnan().any()
        assert torch.equal(back[2].double(), torch.from_numpy(wanted(x[2:].numpy(), "float8_e5m2")[0])[0])
    none = kernels.quantize_mx(x[:0].to(device), "float4_e2m1fn")
    assert none[0].shape == (0, 32) and none[1].shape == (0, 2)
    assert kernels.dequantize_mx(*none, "float4_e2m1fn").shape == (0, 64)


def test_norms_in_one_pass(device: str, rng: np.random.Generator):
    """As near to the norm in float64 as the format allows; a row too long for registers is the same."""
    for norm, n in (("rms", 64), ("layer", 4128), ("rms", 65536 + 32)):
        x = torch.from_numpy(rng.standard_normal((2, n)) * 2).float()
        w, b = (torch.from_numpy(rng.standard_normal(n)).float() for _ in range(2))
        if norm == "rms":
            want = F.rms_norm(x.double(), (n,), w.double(), EPS)
            codes, scales = kernels.rms_norm_mx(x.to(device), w.to(device), "float8_e4m3fn", eps=EPS)
        else:
            want = F.layer_norm(x.double(), (n,), w.double(), b.double(), EPS)
            codes, scales = kernels.layer_norm_mx(x.to(device), w.to(device), b.to(device), "float8_e4m3fn", eps=EPS)
        got = kernels.dequantize_mx(codes, scales).cpu().double()
        # Half a unit in the last place of four bits; the largest of a block may be cut from 480 to 448.
        step = torch.exp2(scales.cpu().double() - 127).repeat_interleave(32, -1)
        error = (got - want).abs()
        cut = want.abs() / step > 448
        assert (error[~cut] <= torch.maximum(want.abs() * 2.0**-4, step * 2.0**-10)[~cut] * 1.001).all()
        assert (error[cut] <= step[cut] * 64).all()


def test_mistakes():
    x = np.zeros((2, 64), "f4")
    with pytest.raises(DSLValueError, match=r"blocks are 32 elements of a row, got float32\[2, 40\]"):
        kernels.quantize_mx(x[:, :40])
    with pytest.raises(DSLTypeError, match="dtype is one of float8_e4m3fn, .* got int8"):
        kernels.quantize_mx(x, "int8")
    with pytest.raises(DSLTypeError, match="x has elements of float32, float16, bfloat16, got float64"):
        kernels.rms_norm_mx(x.astype("f8"))
    with pytest.raises(DSLValueError, match=r"weight has the shape \[64\]"):
        kernels.rms_norm_mx(x, x[0, :32])
    codes, scales = kernels.quantize_mx(x)
    with pytest.raises(DSLValueError, match=r"codes has the shape \[2, 32\], as scales tells"):
        kernels.dequantize_mx(codes, scales, "float4_e2m1fn")
    with pytest.raises(DSLTypeError, match="out_dtype is float32, float16 or bfloat16, got int8"):
        kernels.dequantize_mx(codes, scales, out_dtype="int8")


X, B = torch.zeros(2, 4096, dtype=torch.bfloat16), torch.zeros(2, 4096, dtype=torch.uint8)
FORM = form_of(16384, 4096, {"x": describe("test", "x", X)._replace(address=0)}, 8)
SHAPE, ALONE = (2, 4096, 1e-6), (None, None, None)
CALLS = {
    "norm to fp4": (
        mx_rows,
        (X, X, X[0], None, B[:, :2048], X, B[:, :128], *SHAPE, *ALONE, "float4_e2m1fn", "rms", False, FORM),
    ),
    "fp6": (mx_rows, (X, *ALONE, B[:, :3072], None, B[:, :128], *SHAPE, *ALONE, "float6_e3m2fn", "", False, FORM)),
    "back": (mx_values, (B[0], B[0, :128], X[0], 4096, "float6_e2m3fn")),
}


@pytest.mark.parametrize("what", CALLS)
def test_builds(what: str):
    function, arguments = CALLS[what]
    for target in ("cuda:sm_90a", "rocm:gfx942"):
        artifact = flyc.compile(function, *arguments, target=target).artifact
        for used in (artifact.resources or {}).values():
            assert used.get("spills", 0) == 0, target
