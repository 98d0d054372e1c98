"""Casts to narrower floats with a rounding mode, against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

NARROW = {
    "Float32": np.float32,
    "Float16": np.float16,
    "BFloat16": ml_dtypes.bfloat16,
    "Float8E5M2": ml_dtypes.float8_e5m2,
    "Float8E4M3FN": ml_dtypes.float8_e4m3fn,
    "Float8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "Float8E4M3": ml_dtypes.float8_e4m3,
}
MODES = ["upward", "downward", "toward_zero", "to_nearest_away"]


def exactly(x: float, values: list[float], mode: str) -> float:
    """The value of a sorted list that `x` rounds to; ties away are between the two neighbours."""
    import bisect

    at = bisect.bisect_left(values, x)
    if at < len(values) and values[at] == x:
        return x
    low = values[at - 1] if at else -math.inf
    high = values[at] if at < len(values) else math.inf
    if mode == "toward_zero":
        mode = "upward" if x < 0 else "downward"
    if mode == "upward":
        return high
    if mode == "downward":
        return low
    below, above = Fraction(x) - Fraction(low), Fraction(high) - Fraction(x)
    if below == above:
        return high if x > 0 else low
    return low if below < above else high


@flyc.kernel
def cast_kernel(x: fx.Tensor, out: fx.Tensor, dtype: fx.Constexpr, mode: fx.Constexpr[str], n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        out[i] = x[i].to(getattr(fx, dtype), rounding_mode=fx.RoundingMode[mode]).to(out.dtype)


@flyc.jit
def cast(x: fx.Tensor, out: fx.Tensor, dtype: fx.Constexpr, mode: fx.Constexpr[str], n: fx.Int32):
    cast_kernel(x, out, dtype, mode, n).launch(grid=fx.ceildiv(n, 64), block=64)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NARROW)
def test_casts(name, mode, rng):
    dtype = NARROW[name]
    wide = np.float64 if name == "Float32" else np.float32
    width = np.dtype(dtype).itemsize * 8
    if width < 32:
        with np.errstate(invalid="ignore"):
            codes = np.arange(1 << width, dtype=f"u{width // 8}").view(dtype).astype(np.float64)
        values = np.unique(codes[np.isfinite(codes)])
        pick = rng.integers(1, len(values), 600)
        low, high = values[pick - 1], values[pick]
        share = rng.choice([0.0, 0.5, 0.25, rng.uniform()], 600)
        x = (low + (high - low) * share).astype(wide)
        x = x[np.isfinite(x)]
        listed = values.tolist()
        expected = np.array([exactly(float(v), listed, mode) for v in x])
    else:
        x = (rng.standard_normal(600) * 10.0 ** rng.uniform(-40, 37, 600)).astype(wide)
        near = x.astype(np.float32)
        up = np.where(near.astype(np.float64) >= x, near, np.nextafter(near, np.float32(np.inf)))
        down = np.where(near.astype(np.float64) <= x, near, np.nextafter(near, np.float32(-np.inf)))
        expected = {"upward": up, "downward": down, "toward_zero": np.where(x < 0, up, down)}.get(mode, near)
        expected = expected.astype(np.float64)
    out = np.full(x.size, np.nan, wide)
    cast(x, out, name, mode, x.size)
    np.testing.assert_array_equal(out.astype(np.float64), expected)


def test_what_cannot_be_rounded(rng):
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e30, -1e30], np.float32)
    expected = {
        "upward": [np.inf, -np.inf, np.nan, 0.0, -0.0, np.inf, -65504.0],
        "downward": [np.inf, -np.inf, np.nan, 0.0, -0.0, 65504.0, -np.inf],
        "toward_zero": [np.inf, -np.inf, np.nan, 0.0, -0.0, 65504.0, -65504.0],
        "to_nearest_away": [np.inf, -np.inf, np.nan, 0.0, -0.0, np.inf, -np.inf],
    }
    for mode, wanted in expected.items():
        out = np.zeros_like(x)
        cast(x, out, "Float16", mode, x.size)
        np.testing.assert_array_equal(out, np.array(wanted, np.float32))
        np.testing.assert_array_equal(np.signbit(out[3:5]), [False, True])


@pytest.mark.parametrize("name", ["Float16", "BFloat16", "Float8E5M2", "Float8E4M3FN"])
def test_nearest_even_of_everything_small(name, rng):
    """Subnormal numbers too, which some instructions take for zero."""
    dtype = NARROW[name]
    x = np.concatenate([rng.standard_normal(400) * 2.0 ** rng.integers(-140, 4, 400), [1e-39, -1e-40, 0.0, -0.0]])
    x = x.astype(np.float32)
    out = np.zeros_like(x)
    cast(x, out, name, "to_nearest_even", x.size)
    np.testing.assert_array_equal(out, x.astype(dtype).astype(np.float32))
    np.testing.assert_array_equal(np.signbit(out), np.signbit(x))


def test_doubles_round_to_bfloat16_once(rng):
    """Not to f32 first: a number just above the middle of two bfloat16 would land on the middle, and then below."""
    base = rng.integers(0x3F80, 0x4280, 500).astype(np.uint16)
    low = base.view(ml_dtypes.bfloat16).astype(np.float64)
    high = (base + np.uint16(1)).view(ml_dtypes.bfloat16).astype(np.float64)
    x = (low + high) / 2 * (1 + rng.choice([-1, 0, 1], 500) * 2.0**-45)
    out = np.zeros(500, np.float64)

    @flyc.kernel
    def kernel(x: fx.Tensor, out: fx.Tensor):
        i = fx.thread_idx.x
        out[i] = x[i].to(fx.BFloat16).to(fx.Float64)

    @flyc.jit
    def run(x: fx.Tensor, out: fx.Tensor):
        kernel(x, out).launch(grid=1, block=500)

    run(x, out)
    middle = (low + high) / 2
    even = np.where(base % 2 == 0, low, high)
    np.testing.assert_array_equal(out, np.where(x == middle, even, np.where(x < middle, low, high)))


@pytest.mark.parametrize("target", ["rocm:gfx942", "cuda:sm_90"])
@pytest.mark.parametrize("mode", MODES)
def test_casts_of_vectors_compile(mode, target):
    @flyc.kernel
    def kernel(x: fx.Pointer, out: fx.Pointer):
        out[0] = x.load(fx.Float32x4).to(fx.BFloat16, rounding_mode=fx.RoundingMode[mode])[1]

    @flyc.jit
    def run(x: fx.Pointer, out: fx.Pointer):
        kernel(x, out).launch(grid=1, block=64)

    args = [flyc.from_c_void_p(d, 0, assumed_align=16) for d in (fx.Float32, fx.BFloat16)]
    plain = flyc.compile(run, *args, target=target).artifact
    assert "icmp" in plain.llvm_ir or "fcmp" in plain.llvm_ir


def test_vectors_round_lane_by_lane(rng):
    x = [float(v) for v in rng.standard_normal(2)]
    mode = fx.RoundingMode.upward
    got = flyc.evaluate(lambda a, b: fx.Vector.from_elements([a, b]).to(fx.Float16, rounding_mode=mode), *x)
    for value, result in zip(x, got, strict=True):
        assert result >= np.float32(value) > np.nextafter(np.float16(result), np.float16(-np.inf))
