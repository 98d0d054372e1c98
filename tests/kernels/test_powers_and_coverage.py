"""Integer powers by numbers; and every function of `fx.math` in kernels of every stack, type and shape."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

UNARY = """absf ceil floor trunc round roundeven exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt sin cos tan asin
    acos atan sinh cosh tanh asinh acosh atanh erf erfc""".split()
BINARY = ["powf", "atan2", "copysign"]
PREDICATES = ["isnan", "isinf", "isfinite", "isnormal"]
INTEGER = ["absi", "ctlz", "cttz", "ctpop"]
TARGETS = ["cpu:native", "rocm:gfx942", "rocm:gfx1201", "cuda:sm_90"]


def test_the_lists_name_all_of_fx_math():
    listed = {*UNARY, *BINARY, *PREDICATES, *INTEGER, "sincos", "fpowi", "ipowi", "fma", "clampf", "exp2_poly"}
    assert listed == set(fx.math.__all__)


@pytest.mark.covering
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [fx.Float16, fx.BFloat16, fx.Float32, fx.Float64], ids=str)
def test_every_float_function_compiles(dtype, target):
    @flyc.kernel
    def kernel(x: fx.Pointer, out: fx.Pointer):
        at = fx.thread_idx.x * 2
        pair = fx.Vector.from_elements([x[at], x[at + 1]])
        for value in (x[at], pair):
            total = value
            for name in UNARY:
                total = total + getattr(fx, name)(value)
            for name in BINARY:
                total = total + getattr(fx, name)(value, total)
            s, c = fx.sincos(value)
            total = fx.fma(s, c, total) + fx.clampf(value, 0.0, 1.0)
            total = total + fx.fpowi(value, 3) + fx.fpowi(value, fx.thread_idx.x)
            if fx.const_expr(dtype is fx.Float32):
                total = total + fx.exp2_poly(value)
            for name in PREDICATES:
                total = getattr(fx, name)(value).select(total, value)
            if fx.const_expr(isinstance(total, fx.Vector)):
                total = total[0] + total[1]
            out[at] = total

    @flyc.jit
    def run(x: fx.Pointer, out: fx.Pointer):
        kernel(x, out).launch(grid=1, block=64)

    p = flyc.from_c_void_p(dtype, 0)
    assert flyc.compile(run, p, p, target=target).artifact.binary()


@pytest.mark.covering
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [fx.Int8, fx.Uint16, fx.Int32, fx.Uint32, fx.Int64], ids=str)
def test_every_integer_function_compiles(dtype, target):
    @flyc.kernel
    def kernel(x: fx.Pointer, out: fx.Pointer):
        at = fx.thread_idx.x * 2
        pair = fx.Vector.from_elements([x[at], x[at + 1]])
        for value in (x[at], pair):
            total = fx.ipowi(value, value) + fx.ipowi(value, dtype(5)) + value ** dtype(3)
            for name in INTEGER:
                total = total + getattr(fx, name)(value)
            if fx.const_expr(isinstance(total, fx.Vector)):
                total = total[0] + total[1]
            out[at] = total

    @flyc.jit
    def run(x: fx.Pointer, out: fx.Pointer):
        kernel(x, out).launch(grid=1, block=64)

    p = flyc.from_c_void_p(dtype, 0)
    assert flyc.compile(run, p, p, target=target).artifact.binary()


# --- numbers ------------------------------------------------------------------------------------------------------


@flyc.kernel
def power_kernel(x: fx.Tensor, n: fx.Tensor, out: fx.Tensor, count: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < count:
        value = x[i]
        if fx.const_expr(value.dtype.is_float):
            out[i] = fx.fpowi(value, n[i])
        else:
            out[i] = value ** n[i]


@flyc.jit
def power(x: fx.Tensor, n: fx.Tensor, out: fx.Tensor, count: fx.Int32):
    power_kernel(x, n, out, count).launch(grid=fx.ceildiv(count, 64), block=64)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32])
def test_integer_powers(dtype, rng):
    info = np.iinfo(dtype)
    x = np.concatenate([rng.integers(info.min, info.max, 300, dtype, endpoint=True), rng.integers(-3, 4, 300)])
    n = np.concatenate([rng.integers(0, 40, 300), rng.integers(-4, 70, 300)])
    x, n = x.astype(dtype), (n % 70 if info.min == 0 else n).astype(dtype)
    n[(x == 0) & (n < 0)] = 0  # undefined, as a division by zero is
    out = np.empty_like(x)
    power(x, n, out, x.size)

    def exact(base: int, exponent: int) -> int:
        if exponent < 0:
            return {1: 1, -1: -1 if exponent % 2 else 1}.get(base, 0)
        return pow(base, exponent, 1 << info.bits)

    expected = np.array([exact(int(a), int(b)) % (1 << info.bits) for a, b in zip(x, n, strict=True)], dtype=np.uint64)
    np.testing.assert_array_equal(out, expected.astype(dtype))


def test_integer_powers_of_floats(rng):
    x = np.concatenate(
        [rng.standard_normal(500) * 3, rng.uniform(0.99, 1.01, 500), [0.0, -0.0, np.inf, -np.inf, np.nan]]
    )
    n = rng.integers(-60, 60, x.size).astype(np.int32)
    n[500:900] = rng.integers(-3000, 3000, 400)
    x = x.astype(np.float32)
    out = np.empty_like(x)
    power(x, n, out, x.size)
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), n)
        np.testing.assert_array_max_ulp(out, expected.astype(np.float32), maxulp=2)


@pytest.mark.parametrize("n", range(-2, 9))
def test_powers_known_at_compile_time(n, rng):
    x = float(np.float32(rng.uniform(-2, 2)))
    assert flyc.evaluate(lambda v: fx.fpowi(v, n), x) == pytest.approx(x**n, rel=3e-7)
    k = int(rng.integers(-30, 30))
    if n >= 0:
        assert flyc.evaluate(lambda v: v**n, k) == (k**n + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize("name", ["Uint8", "Uint32", "Int8", "Int64"])
def test_integer_powers_of_the_language(name):
    """Run-time powers are those of constants; an unsigned exponent with its top bit set is large, not negative."""
    cls, dtype = getattr(fx, name), np.dtype(name.lower())
    top = np.iinfo(dtype).max

    @flyc.kernel
    def power_kernel(x: fx.Tensor, n: fx.Tensor, y: fx.Tensor, z: fx.Tensor):
        i = fx.thread_idx.x
        y[i] = x[i] ** n[i]
        z[i] = (fx.Vector.from_elements([x[0], x[i]]) ** fx.Vector.from_elements([n[0], n[i]]))[1]

    @flyc.jit
    def power(x: fx.Tensor, n: fx.Tensor, y: fx.Tensor, z: fx.Tensor):
        power_kernel(x, n, y, z).launch(grid=1, block=64)

    bases = [1, 2, 3, 7, top, top - 1, top // 2 + 1, 10]
    exponents = [0, 1, 2, 5, top, top - 1, top // 2 + 2, 200 % (top + 1)]
    x, n = (np.array(v, dtype) for v in (np.repeat(bases, 8), np.tile(exponents, 8)))
    y, z = np.full(64, 99, dtype), np.full(64, 99, dtype)
    power(x, n, y, z)
    expected = [int(cls(pow(int(b), int(e), 1 << cls.width))) for b, e in zip(x, n, strict=True)]
    assert y.tolist() == z.tolist() == expected
    assert [int(cls(int(b)) ** cls(int(e))) for b, e in zip(x, n, strict=True)] == expected
