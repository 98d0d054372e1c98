"""Instructions that the Hopper kernels count on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLValueError


@flyc.kernel
def powers_kernel(x: fx.Tensor):
    at = fx.thread_idx.x
    x[at] = fx.exp2(x[at], fastmath="fast") + fx.exp2(x[at] * 2.0, fastmath="afn")


@flyc.jit
def powers(x: fx.Tensor):
    powers_kernel(x).launch(grid=1, block=32)


def test_fast_powers_flush_denormal_numbers():
    text = flyc.compile(powers, np.zeros(32, "f4"), target="cuda:sm_90a").artifact.binary("ptx").decode()
    assert text.count("ex2.approx.ftz.f32") == 1
    assert text.count("ex2.approx.f32") == 1


@flyc.kernel
def bytes_kernel(x: fx.Pointer, y: fx.Pointer):
    values = fx.make_rmem_tensor(fx.make_layout(4, 1), fx.Float32)
    for i in fx.range_constexpr(4):
        values[i] = x[4 * fx.thread_idx.x + i]
    made = fx.nvgpu.to_fp8(values.load(), y.dtype)
    for i in fx.range_constexpr(4):
        y[4 * fx.thread_idx.x + i] = made[i]


@flyc.jit
def to_bytes(x: fx.Tensor, y: fx.Tensor):
    bytes_kernel(fx.get_iter(x), fx.get_iter(y)).launch(grid=1, block=32)


@pytest.mark.parametrize(("dtype", "most"), [(torch.float8_e4m3fn, 448.0), (torch.float8_e5m2, 57344.0)])
def test_packed_conversions_saturate(dtype: torch.dtype, most: float, rng: np.random.Generator, emulate):
    x = torch.from_numpy(rng.standard_normal(128) * 10.0 ** rng.integers(-8, 6, 128)).float()
    x[:4] = torch.tensor([float("inf"), -1e30, float("nan"), most * 1.01])
    y = torch.zeros(128, dtype=dtype)
    text = flyc.compile(to_bytes, x, y, target="cuda:sm_89").artifact.binary("ptx").decode()
    assert text.count("cvt.rn.satfinite.e") == 2
    emulate("sm_90")
    to_bytes(x, y)
    torch.testing.assert_close(y.float(), x.clamp(-most, most).to(dtype).float(), rtol=0, atol=0, equal_nan=True)
    with pytest.raises(DSLValueError, match="sm_80"):
        flyc.compile(to_bytes, x, y, target="cuda:sm_80")
