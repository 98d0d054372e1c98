"""Functions of `math` against mpmath: the expansion of `lowering/expand/expand_math.py`, as the cpu stack runs it."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

ALL = (-np.inf, np.inf)
RANGES: dict[str, tuple[float, float]] = {
    "exp": (-104, 89),
    "exp2": (-150, 128),
    "expm1": (-20, 89),
    "log": (0, np.inf),
    "log2": (0, np.inf),
    "log10": (0, np.inf),
    "log1p": (-1, np.inf),
    "sin": ALL,
    "cos": ALL,
    "tan": ALL,
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atan": ALL,
    "sinh": (-89.4, 89.4),
    "cosh": (-89.4, 89.4),
    "tanh": (-20, 20),
    "asinh": ALL,
    "acosh": (1, np.inf),
    "atanh": (-1, 1),
    "erf": (-5, 5),
    "erfc": (-5, 10.5),
    "cbrt": ALL,
    "rsqrt": (0, np.inf),
}
DOUBLE = {
    **RANGES,
    "exp": (-708, 709),
    "exp2": (-1021, 1023),
    "expm1": (-40, 709),
    "erfc": (-6, 26),
    "sinh": (-709, 709),
    "cosh": (-709, 709),
}
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1e-30, 0.5, 2.0], np.float32)
N = 2048


@flyc.kernel
def unary_kernel(x: fx.Tensor, y: fx.Tensor, name: fx.Constexpr[str]):
    i = fx.block_idx.x * 256 + fx.thread_idx.x
    y[i] = getattr(fx.math, name)(x[i])


@flyc.jit
def unary(x: fx.Tensor, y: fx.Tensor, name: fx.Constexpr[str]):
    unary_kernel(x, y, name).launch(grid=fx.get_scalar(x.shape[0]) // 256, block=256)


@flyc.kernel
def binary_kernel(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor, name: fx.Constexpr[str]):
    i = fx.block_idx.x * 256 + fx.thread_idx.x
    z[i] = getattr(fx.math, name)(x[i], y[i])


@flyc.jit
def binary(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor, name: fx.Constexpr[str]):
    binary_kernel(x, y, z, name).launch(grid=fx.get_scalar(x.shape[0]) // 256, block=256)


def samples(low: float, high: float, rng: np.random.Generator) -> np.ndarray:
    """Numbers of every magnitude, numbers spread evenly, and special ones."""
    x = rng.choice([-1.0, 1.0], N) * 2.0 ** rng.uniform(-140, 128, N)
    even = rng.uniform(max(low, -100), min(high, 100), N)
    x = np.where(rng.random(N) < 0.5, x, even)
    x[: N // 8] = 1 + rng.choice([-1.0, 1.0], N // 8) * 2.0 ** rng.uniform(-24, -1, N // 8)
    x = np.clip(x, np.nextafter(low, np.inf), np.nextafter(high, -np.inf)).astype(np.float32)
    x[: len(SPECIAL)] = SPECIAL
    return x


def exact(name: str, *args: float) -> float:
    """The value of a function of finite arguments."""
    with mpmath.workdps(60):
        a = [mpmath.mpf(float(v)) for v in args]
        match name:
            case "exp2":
                return mpmath.power(2, a[0])
            case "log2":
                return mpmath.log(a[0], 2)
            case "log10":
                return mpmath.log10(a[0])
            case "powf":
                return mpmath.power(*a)
            case "rsqrt":
                return 1 / mpmath.sqrt(a[0])
            case "cbrt":
                return mpmath.sign(a[0]) * mpmath.cbrt(abs(a[0]))
            case _:
                return getattr(mpmath, name)(*a)


def ulps(got: float, want, digits: int = 23) -> float:
    """Distance in units of the last place of f32, or another type with so many digits, at the exact value."""
    with mpmath.workdps(60):
        size = abs(want)
        smallest = -149 if digits == 23 else -1074
        exponent = max(int(mpmath.floor(mpmath.log(size, 2))) - digits, smallest) if size else smallest
        step = mpmath.mpf(2) ** exponent
        return float(abs(mpmath.mpf(float(got)) - want) / step)


def reference(name: str, *args: np.float32) -> float:
    """What IEEE 754 says where an argument or the result is special; a finite value otherwise."""
    function = {"powf": "power", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh"}
    function |= {"acosh": "arccosh", "atanh": "arctanh", "atan2": "arctan2"}
    if name == "rsqrt":
        with np.errstate(all="ignore"):
            return float(1 / np.sqrt(np.float64(args[0])))
    if name in ("erf", "erfc"):
        return getattr(math, name)(float(args[0]))
    if name == "powf" and args[1] == 0.5 and (args[0] == 0 or np.isinf(args[0])):
        return abs(float(args[0]))  # numpy takes the square root instead
    with np.errstate(all="ignore"):
        return float(getattr(np, function.get(name, name))(*(np.float64(a) for a in args)))


def check(name: str, got: np.ndarray, *args: np.ndarray, limit: float = 1.0) -> None:
    worst = 0.0
    for i, y in enumerate(got):
        point = tuple(a[i] for a in args)
        want = reference(name, *point)
        if not np.isfinite(want) or any(not np.isfinite(p) for p in point):
            same = (np.isnan(want) and np.isnan(y)) or want == y
            assert same and (np.isnan(want) or np.signbit(want) == np.signbit(y)), (name, point, y, want)
            continue
        # mpmath knows no signed zeros.
        value = exact(name, *point) if all(point) or len(point) == 1 else mpmath.mpf(want)
        if abs(value) > 3.4028236e38:
            assert np.isinf(y) or ulps(y, value) <= limit, (name, point, y)
            continue
        if value == 0:
            assert y == 0 and np.signbit(y) == np.signbit(want), (name, point, y)
            continue
        error = ulps(y, value)
        worst = max(worst, error)
        assert error <= limit, (name, point, y, float(value), error)
    print(f"{name}: {worst:.2f} ulp")


@pytest.mark.parametrize("name", RANGES)
def test_unary(name: str, rng: np.random.Generator):
    x = samples(*RANGES[name], rng)
    y = np.zeros_like(x)
    unary(x, y, name)
    check(name, y, x)


@pytest.mark.parametrize("name", ["powf", "atan2"])
def test_binary(name: str, rng: np.random.Generator):
    x, y = samples(*ALL, rng), samples(*ALL, rng)
    if name == "powf":
        half = N // 2
        x[half:] = rng.uniform(0, 10, half).astype(np.float32)
        y[half:] = rng.uniform(-30, 30, half).astype(np.float32)
        y[half : half + 300] = np.round(y[half : half + 300])
        x[half : half + 150] *= -1
    pairs = np.array([(a, b) for a in SPECIAL for b in [*SPECIAL, 3.0, -3.0, 2.5]], np.float32)
    x[: len(pairs)], y[: len(pairs)] = pairs.T
    z = np.zeros_like(x)
    binary(x, y, z, name)
    check(name, z, x, y)


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "sin", "log1p"])
def test_half(name: str, rng: np.random.Generator):
    x = rng.uniform(0.01, 8, 256).astype(np.float16)
    y = np.zeros_like(x)
    unary(x, y, name)
    want = np.array([float(exact(name, v)) for v in x])
    np.testing.assert_allclose(y.astype(np.float64), want, rtol=2**-10, atol=2**-10)


@pytest.mark.parametrize("name", RANGES)
def test_double(name: str, rng: np.random.Generator):
    """To four units in the last place, over the range of f64."""
    low, high = DOUBLE[name]
    n = 512
    x = np.where(
        rng.random(n) < 0.5,
        rng.choice([-1.0, 1.0], n) * 2.0 ** rng.uniform(-1022, 1020, n),
        rng.uniform(max(low, -1000), min(high, 1000), n),
    )
    x[: n // 4] = 1 + rng.choice([-1.0, 1.0], n // 4) * 2.0 ** rng.uniform(-52, -1, n // 4)
    x = np.clip(x, np.nextafter(low, np.inf), np.nextafter(high, -np.inf))
    y = np.zeros_like(x)
    unary(x, y, name)
    for a, b in zip(x, y, strict=True):
        with mpmath.workdps(400 if name in ("sin", "cos", "tan") else 60):
            want = exact(name, a)
        if 1e-300 < abs(want) < 1e308:
            assert ulps(b, want, 52) <= 4, (name, a, b)


@pytest.mark.covering
@pytest.mark.parametrize("target", ["rocm:gfx942", "cuda:sm_90a"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_compiles_for_gpus(target: str, dtype):
    """No function is left for a library."""
    x = np.zeros(256, dtype)
    for name in ("exp", "log2", "sin", "erf", "tanh", "acosh", "erfc", "cbrt"):
        asm = flyc.compile(unary, x, x.copy(), name, target=target).artifact.asm
        assert "call" not in asm.replace("callee", "").lower() or "s_swappc" not in asm
    asm = flyc.compile(binary, x, x.copy(), x.copy(), "powf", target=target).artifact.asm
    assert "s_swappc" not in asm and "call.uni" not in asm


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_acosh_is_not_a_number_below_one(dtype):
    x = np.resize(np.array([-1e10, -1e30, -np.inf, -2.0, -1.0, 0.5, 0.999, -3e5], dtype), 256)
    y = np.zeros(256, dtype)
    unary(x, y, "acosh")
    assert np.isnan(y).all()
