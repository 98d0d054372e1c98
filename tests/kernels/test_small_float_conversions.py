"""Integers to and from floats of 8 bits and less, against ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

SMALL = {
    fx.Float8E4M3FN: ml_dtypes.float8_e4m3fn,
    fx.Float8E5M2: ml_dtypes.float8_e5m2,
}


@pytest.mark.parametrize("small", SMALL, ids=str)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
def test_integers_become_small_floats_and_return(small, dtype):
    @flyc.kernel
    def convert_kernel(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor):
        i = fx.block_idx.x * 32 + fx.thread_idx.x
        made = x[i].to(small)
        y[i] = made.to(fx.Float32)
        z[i] = made.to(fx.Int32)

    @flyc.jit
    def convert(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor):
        convert_kernel(x, y, z).launch(grid=4, block=32)

    x = np.random.default_rng().integers(0 if dtype is np.uint8 else -127, 128, 128).astype(dtype)
    y, z = np.full(128, np.nan, np.float32), np.full(128, -999, np.int32)
    convert(x, y, z)
    expected = x.astype(np.float32).astype(SMALL[small]).astype(np.float32)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(z, expected.astype(np.int32))
