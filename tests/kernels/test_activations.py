"""Activations against float64, NaN and infinities included."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.activations import ACTIVATIONS, activated

WANTED = {
    "none": lambda x: x,
    "relu": lambda x: np.where(np.isnan(x), x, np.maximum(x, 0)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * np.vectorize(math.erfc)(-x / math.sqrt(2)) / 2,
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


@flyc.kernel
def apply_kernel(x: fx.Tensor, y: fx.Tensor, name: fx.Constexpr[str]):
    at = fx.block_idx.x
    y[at] = activated(name, x[at])
    parts = [fx.flat_divide(t, (4,))[None, at // 4] for t in (x, y)]
    if at % 4 == 0:
        parts[1].store(activated(name, parts[0].load()))


@flyc.jit
def apply(x: fx.Tensor, y: fx.Tensor, name: fx.Constexpr[str]):
    apply_kernel(x, y, name).launch(grid=x.shape.unpack()[0], block=1)


def test_all_are_here():
    assert set(WANTED) == set(ACTIVATIONS)


@pytest.mark.parametrize("name", WANTED)
def test_numbers_nan_and_zero(name: str, rng: np.random.Generator):
    x = np.concatenate([rng.standard_normal(57) * 5, [0.0, -0.0, 30.0, -30.0, np.nan, 1e-20, -1e-20]]).astype(
        np.float32
    )
    y = np.full_like(x, 99.0)
    apply(x, y, name)
    with np.errstate(over="ignore"):
        want = WANTED[name](x.astype(np.float64))
    np.testing.assert_allclose(y, want, rtol=2e-5, atol=2e-6)
    assert np.isnan(y[-3])
