"""Floats of 8 bits and less: to and from other types, and in arithmetic."""

from __future__ import annotations

import operator

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.ir.fold import FORMATS, float_bits, float_from_bits, round_float

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


STORED = [
    fx.Float8E5M2, fx.Float8E5M2FNUZ, fx.Float8E4M3, fx.Float8E4M3FN, fx.Float8E4M3FNUZ, fx.Float8E4M3B11FNUZ,
    fx.Float8E8M0FNU,
]  # fmt: skip
EXACT = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod,
}  # fmt: skip


@pytest.mark.parametrize("wide", [np.float32, np.float64])
@pytest.mark.parametrize("small", STORED, ids=str)
def test_run_time_conversions_round_as_constants_do(small, wide):
    """Halfway between any two values, next to that, both zeros, and numbers beyond the format."""
    exact = fx.Float32 if wide is np.float32 else fx.Float64

    @flyc.kernel
    def convert_kernel(x: fx.Tensor, y: fx.Tensor):
        i = fx.block_idx.x * 64 + fx.thread_idx.x
        y[i] = x[i].to(small).bitcast(fx.Uint8)

    @flyc.jit
    def convert(x: fx.Tensor, y: fx.Tensor):
        convert_kernel(x, y).launch(grid=fx.get_scalar(x.shape[0]) // 64, block=64)

    name = small.ir_name
    codes = np.array([float_from_bits(code, name) for code in range(256)])
    finite = np.unique(codes[np.isfinite(codes)])
    ties = (finite[1:] + finite[:-1]) / 2
    probes = [*ties, *np.nextafter(ties, np.inf), *np.nextafter(ties, -np.inf), *finite, 0.0, -0.0, -1e-300, 1e38]
    x = np.resize(np.array(probes).astype(wide), -(-len(probes) // 64) * 64)
    y = np.full(len(x), 0x55, np.uint8)
    convert(x, y)
    expected = [float_bits(float(v), name) for v in x]
    assert exact.width == x.itemsize * 8
    wrong = [(v, hex(a), hex(b)) for v, a, b in zip(x, y, expected, strict=True) if a != b]
    assert not wrong


@pytest.mark.parametrize("vector", [False, True], ids=["scalar", "vector"])
@pytest.mark.parametrize("small", [fx.Float8E4M3FN, fx.Float8E5M2FNUZ, fx.Float8E8M0FNU], ids=str)
def test_arithmetic_of_small_floats(small, vector):
    """Every operator gives what the same operator gives on constants."""

    @flyc.kernel
    def compute_kernel(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor, flags: fx.Tensor):
        i = fx.thread_idx.x
        x, y = a[i].bitcast(small), b[i].bitcast(small)
        if fx.const_expr(vector):
            x, y = fx.Vector.from_elements([x, y]), fx.Vector.from_elements([y, x])
        first = (lambda v: v[0]) if vector else (lambda v: v)
        for k, op in enumerate([*EXACT.values(), lambda p, q: -p, lambda p, q: abs(p)]):
            out[i, k] = first(op(x, y)).to(fx.Float32)
        for k, op in enumerate((operator.lt, operator.le, operator.eq, operator.ne)):
            flags[i, k] = first(op(x, y)).to(fx.Int32)
        flags[i, 4] = first(x.to(fx.Boolean)).to(fx.Int32)

    @flyc.jit
    def compute(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor, flags: fx.Tensor):
        compute_kernel(a, b, out, flags).launch(grid=1, block=128)

    a, b = np.random.default_rng().integers(0, 256, (2, 128)).astype(np.uint8)
    out, flags = np.full((128, 8), 77.0, np.float32), np.full((128, 5), 77, np.int32)
    compute(a, b, out, flags)
    for i in range(128):
        x, y = (small(float_from_bits(int(v[i]), small.ir_name)) for v in (a, b))
        values = [op(x, y) for op in EXACT.values()] + [-x, abs(x)]
        expected = [round_float(v.to(float), small.ir_name) for v in values]
        np.testing.assert_array_equal(out[i], np.array(expected, np.float32), err_msg=f"{x} {y}")
        compared = [x < y, x <= y, x == y, x != y, x.to(fx.Boolean)]
        assert flags[i].tolist() == [int(bool(f)) for f in compared], (x, y)


def test_reductions_of_small_floats():
    def sums(x):
        v = fx.Vector.from_elements([(x + i).to(fx.Float8E4M3FN) for i in range(4)])
        start = fx.Float8E4M3FN(10.0)
        return [v.reduce(op).to(fx.Float32) for op in ("add", "mul", "max", "min")] + [v.reduce("add", start)]

    assert flyc.evaluate(sums, 1.5) == [12.0, 60.0, 4.5, 1.5, 22.0]  # 59.0625 and 12.0 exactly
    with pytest.raises(TypeError, match="exp does not take Float8E5M2, a storage format"):
        flyc.evaluate(lambda x: fx.exp(x.to(fx.Float8E5M2)), 1.0)
    with pytest.raises(TypeError, match="maxnumf does not take Float8E5M2, a storage format"):
        flyc.evaluate(lambda x: fx.maxnumf(x.to(fx.Float8E5M2), x.to(fx.Float8E5M2)), 1.0)


@pytest.mark.parametrize("small", STORED, ids=str)
def test_predicates_of_small_floats(small):
    tests = (fx.isnan, fx.isinf, fx.isfinite, fx.isnormal)

    @flyc.kernel
    def predicates_kernel(out: fx.Tensor):
        i = fx.thread_idx.x
        x = i.to(fx.Uint8).bitcast(small)
        for k, test in enumerate(tests):
            out[i, k] = test(x).to(fx.Int32) + 2 * test(fx.Vector.from_elements([x, x]))[1].to(fx.Int32)

    @flyc.jit
    def predicates(out: fx.Tensor):
        predicates_kernel(out).launch(grid=1, block=256)

    out = np.full((256, 4), 77, np.int32)
    predicates(out)
    fmt = FORMATS[small.ir_name]
    values = np.array([float_from_bits(code, small.ir_name) for code in range(256)])
    normal = np.isfinite(values) & (np.abs(values) >= 2.0 ** (1 - fmt.bias))
    expected = np.stack([np.isnan(values), np.isinf(values), np.isfinite(values), normal], axis=1)
    np.testing.assert_array_equal(out, 3 * expected)


def test_subnormal_bfloat16_is_not_zero():
    """Also where LLVM keeps a value as bfloat16 across many uses: an instruction of some CPUs makes zeros of them."""
    names = "Int8 Int16 Int32 Int64 Uint8 Uint16 Uint32 Uint64".split()
    classes = [*(getattr(fx, n) for n in names), fx.Float16, fx.Float32, fx.Float64, *STORED]

    @flyc.kernel
    def widen_kernel(x: fx.Tensor, out: fx.Tensor):
        i = fx.thread_idx.x
        v = x[i].bitcast(fx.BFloat16)
        for k, cls in enumerate(classes):
            made = v.to(cls)
            bits = made.bitcast(getattr(fx, f"Uint{cls.width}")) if cls.is_float else made
            out[k, i] = bits.to(fx.Uint64)

    @flyc.jit
    def widen(x: fx.Tensor, out: fx.Tensor):
        widen_kernel(x, out).launch(grid=1, block=64)

    x = np.arange(64).astype(np.uint16) * 2
    out = np.full((len(classes), 64), 7, np.uint64)
    widen(x, out)
    exact = (x.astype(np.uint32) << 16).view(np.float32)
    assert not out[:9].any()
    np.testing.assert_array_equal(out[9].astype(np.uint32).view(np.float32), exact)
    np.testing.assert_array_equal(out[10].view(np.float64), exact.astype(np.float64))
