"""Functions of `math` on an NVIDIA GPU against mpmath: f32 to 2 ulp, f64 for arguments of any size."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import flydsl.compiler as flyc
import flydsl.expr as fx

pytestmark = pytest.mark.cuda
mpmath = pytest.importorskip("mpmath")


def _common():
    """Samples, exact values and kernels of the cpu stack's tests."""
    name = "flydsl_tests.test_cpu_math"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("test_cpu_math.py"))
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


M = _common()
IN_F64 = {
    "exp": (-700, 700), "exp2": (-1000, 1000), "log": (0, 1e300), "log2": (0, 1e300), "tanh": (-30, 30),
    "erf": (-6, 6), "atan": (-1e6, 1e6), "asin": (-1, 1), "cbrt": (-1e6, 1e6), "sinh": (-700, 700),
}  # fmt: skip


@pytest.fixture(autouse=True)
def cuda_stack(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cuda")


def on_gpu(function, arrays: list[np.ndarray], name: str) -> np.ndarray:
    moved = [torch.from_numpy(a).cuda() for a in arrays]
    out = torch.full_like(moved[0], 77.0)
    function(*moved, out, name)
    return out.cpu().numpy()


@pytest.mark.parametrize("name", M.RANGES)
def test_unary(name: str, rng: np.random.Generator):
    x = M.samples(*M.RANGES[name], rng)
    M.check(name, on_gpu(M.unary, [x], name), x)


@pytest.mark.parametrize("name", ["powf", "atan2"])
def test_binary(name: str, rng: np.random.Generator):
    x, y = M.samples(*M.ALL, rng), M.samples(*M.ALL, rng)
    if name == "powf":
        half = M.N // 2
        x[half:] = rng.uniform(0, 10, half).astype(np.float32)
        y[half:] = rng.uniform(-30, 30, half).astype(np.float32)
    M.check(name, on_gpu(M.binary, [x, y], name), x, y)


@pytest.mark.parametrize("name", ["sqrt", "rsqrt", "floor", "ceil", "trunc", "roundeven", "absf"])
def test_simple(name: str, rng: np.random.Generator):
    x = np.abs(M.samples(0, np.inf, rng)) if "sqrt" in name else M.samples(*M.ALL, rng)
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        want = {
            "sqrt": np.sqrt, "rsqrt": lambda v: 1 / np.sqrt(v), "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
            "roundeven": np.rint, "absf": np.abs,
        }[name](wide).astype(np.float32)  # fmt: skip
    got = on_gpu(M.unary, [x], name)
    # Numbers as integers that count representable values.
    steps = np.abs(got.view(np.int32).astype(np.int64) - want.view(np.int32).astype(np.int64))
    same = (steps <= (2 if name == "rsqrt" else 0)) | (np.isnan(got) & np.isnan(want))
    assert same.all(), (name, x[~same][:5], got[~same][:5], want[~same][:5])


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_f64_angles_of_any_size(name: str, rng: np.random.Generator):
    """Up to the largest f64, those close to multiples of pi / 2 included."""
    x = rng.choice([-1.0, 1.0], 512) * 2.0 ** rng.uniform(-30, 1023, 512)
    x[:128] = rng.choice([-1.0, 1.0], 128) * 2.0 ** rng.uniform(25, 60, 128)
    x[:4] = 6381956970095103 * 2.0**797, 2.0**30, np.nextafter(2.0**30, np.inf), np.finfo(np.float64).max
    got = on_gpu(M.unary, [x], name)
    with mpmath.workprec(1400):
        for at, y in zip(x, got, strict=True):
            want = getattr(mpmath, name)(mpmath.mpf(float(at)))
            assert abs((mpmath.mpf(float(y)) - want) / want) < 8 * 2.0**-53, (name, at, y, float(want))


@pytest.mark.parametrize("name", IN_F64)
def test_f64(name: str, rng: np.random.Generator):
    x = rng.uniform(*IN_F64[name], 256)
    got = on_gpu(M.unary, [x], name)
    want = np.array([float(M.exact(name, v)) for v in x])
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "sin", "log1p", "rsqrt"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half(name: str, dtype, rng: np.random.Generator):
    x = torch.from_numpy(rng.uniform(0.01, 8, 256)).to(dtype).cuda()
    out = torch.full_like(x, float("nan"))
    M.unary(x, out, name)
    wide = x.cpu().double().numpy()
    want = 1 / np.sqrt(wide) if name == "rsqrt" else np.array([float(M.exact(name, v)) for v in wide])
    limit = 2**-10 if dtype == torch.float16 else 2**-7
    np.testing.assert_allclose(out.cpu().double().numpy(), want, rtol=limit, atol=limit)


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "log10", "sin", "cos"])
def test_fast_versions(name: str, rng: np.random.Generator):
    """With `afn` the hardware's approximation: one instruction, of about 2^-20 around the origin."""

    @flyc.kernel
    def kernel(x: fx.Tensor, y: fx.Tensor):
        i = fx.thread_idx.x
        part = fx.flat_divide(x, (4,))[None, i].load()
        fx.flat_divide(y, (4,))[None, i].store(getattr(fx.math, name)(part, fastmath="afn"))

    @flyc.jit
    def run(x: fx.Tensor, y: fx.Tensor):
        kernel(x, y).launch(grid=1, block=64)

    x = torch.from_numpy(rng.uniform(0.1, 3, 256)).float().cuda()
    y = torch.full_like(x, float("nan"))
    static = [flyc.from_torch_tensor(t, assumed_align=16) for t in (x, y)]
    run(*static)
    want = np.array([float(M.exact(name, v)) for v in x.cpu().numpy()])
    np.testing.assert_allclose(y.cpu().numpy(), want, rtol=3e-6, atol=3e-6)
