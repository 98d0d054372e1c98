"""Printing, atomics and narrow floats on the cpu stack, and what they become on the GPUs."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.kernel
def hello_kernel(x: fx.Tensor):
    t = fx.thread_idx.x
    fx.printf("thread {} of {}: {} 100%", t, fx.block_dim.x, x[t])


@flyc.jit
def hello(x: fx.Tensor):
    hello_kernel(x).launch(grid=1, block=4)


def test_printf(capfd: pytest.CaptureFixture[str]):
    hello(np.arange(4, dtype=np.float32) * 1.5)
    lines = capfd.readouterr().out.splitlines()
    assert lines == [f"thread {t} of 4: {t * 1.5:.2f} 100%" for t in range(4)]


def test_printf_on_gpus():
    x = np.zeros(4, np.float32)
    assert "vprintf" in flyc.compile(hello, x, target="cuda:sm_90a").artifact.asm
    # Into memory of the launch, at a place that an atomic gives.
    assert "global_atomic_add" in flyc.compile(hello, x, target="rocm:gfx942").artifact.asm


@flyc.kernel
def histogram_kernel(x: fx.Tensor, counts: fx.Tensor, total: fx.Tensor, largest: fx.Tensor, lock: fx.Tensor):
    i = fx.block_idx.x * fx.block_dim.x + fx.thread_idx.x
    v = x[i]
    fx.atomic_add(fx.get_iter(counts) + v, 1)
    fx.atomic_add(fx.get_iter(total), fx.Float32(v))
    fx.atomic_max(fx.get_iter(largest), v)
    fx.atomic_cas(fx.get_iter(lock), 0, i + 1)


@flyc.jit
def histogram(x: fx.Tensor, counts: fx.Tensor, total: fx.Tensor, largest: fx.Tensor, lock: fx.Tensor, n: fx.Int32):
    histogram_kernel(x, counts, total, largest, lock).launch(grid=n // 128, block=128)


def arrays(rng: np.random.Generator, n: int):
    x = rng.integers(0, 50, n).astype(np.int32)
    return x, np.zeros(50, np.int32), np.zeros(1, np.float32), np.zeros(1, np.int32), np.zeros(1, np.int32)


def test_atomics(rng: np.random.Generator):
    n = 128 * 200
    x, counts, total, largest, lock = arrays(rng, n)
    histogram(x, counts, total, largest, lock, n)
    np.testing.assert_array_equal(counts, np.bincount(x, minlength=50))
    assert total[0] == x.sum() and largest[0] == x.max() and 1 <= lock[0] <= n


@pytest.mark.parametrize("target", ["rocm:gfx942", "cuda:sm_90a"])
def test_atomics_on_gpus(target: str, rng: np.random.Generator):
    asm = flyc.compile(histogram, *arrays(rng, 128), 128, target=target).artifact.asm
    words = ("global_atomic_add", "global_atomic_cmpswap") if "rocm" in target else (".add", ".cas")
    assert all(word in asm for word in words)


SMALL = {
    "Float8E4M3FN": ml_dtypes.float8_e4m3fn,
    "Float8E5M2": ml_dtypes.float8_e5m2,
    "Float8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "Float8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "Float8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
}


@flyc.kernel
def widen_kernel(codes: fx.Tensor, out: fx.Tensor, ty: fx.Constexpr):
    t = fx.thread_idx.x
    out[t] = fx.Uint8(codes[t]).bitcast(ty).to(fx.Float32)


@flyc.jit
def widen(codes: fx.Tensor, out: fx.Tensor, ty: fx.Constexpr):
    widen_kernel(codes, out, ty).launch(grid=1, block=256)


@flyc.kernel
def narrow_kernel(x: fx.Tensor, codes: fx.Tensor, ty: fx.Constexpr):
    i = fx.block_idx.x * 256 + fx.thread_idx.x
    codes[i] = x[i].to(ty).bitcast(fx.Uint8)


@flyc.jit
def narrow(x: fx.Tensor, codes: fx.Tensor, blocks: fx.Int32, ty: fx.Constexpr):
    narrow_kernel(x, codes, ty).launch(grid=blocks, block=256)


@pytest.mark.parametrize("name", SMALL)
def test_narrow_floats(name: str, rng: np.random.Generator):
    """Every code to f32, and f32 of every magnitude to the nearest code."""
    dtype = SMALL[name]
    codes = np.arange(256, dtype=np.uint8)
    wide = np.zeros(256, np.float32)
    widen(codes, wide, getattr(fx, name))
    np.testing.assert_array_equal(wide, codes.view(dtype).astype(np.float32))
    x = rng.standard_normal(256 * 64).astype(np.float32) * 2.0 ** rng.integers(-20, 20, 256 * 64).astype(np.float32)
    with np.errstate(all="ignore"):
        x[: 256 * 4] = np.concatenate([wide, -wide, np.nextafter(wide, np.inf), (wide + np.roll(wide, 1)) / 2])
    x[-8:] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-40]
    x = x.astype(np.float32)
    got = np.zeros(len(x), np.uint8)
    narrow(x, got, 64, getattr(fx, name))
    with np.errstate(all="ignore"):
        expected = x.astype(dtype)
    nan = np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(got.view(dtype).astype(np.float32)), nan)
    np.testing.assert_array_equal(got[~nan], expected.view(np.uint8)[~nan])


def test_unsigned_atomic_atoms_compare_as_unsigned():
    @flyc.kernel
    def extremes_kernel(out: fx.Tensor, v: fx.Uint32):
        mine = fx.make_rmem_tensor(1, fx.Uint32)
        mine[0] = v
        for i, op in enumerate((fx.UniversalAtomicMax, fx.UniversalAtomicMin)):
            atom = fx.make_copy_atom(op(fx.Uint32), fx.Uint32)
            fx.copy_atom_call(atom, mine, fx.make_view(fx.get_iter(out) + i, fx.make_layout(1, 1)))

    @flyc.jit
    def extremes(out: fx.Tensor, v: fx.Uint32):
        extremes_kernel(out, v).launch(grid=1, block=1)

    out = np.array([5, 5], np.uint32)
    extremes(out, 0xFFFFFFF0)
    assert out.tolist() == [0xFFFFFFF0, 5]
    ptx = flyc.compile(extremes, out, 1, target="cuda:sm_90a").artifact.asm
    assert ".max.u32" in ptx and ".min.u32" in ptx
    with pytest.raises(TypeError, match="not defined for Uint32"):
        fx.rocdl.BufferAtomicMax(fx.Uint32)


def test_packed_elements_behind_the_pointer():
    @flyc.kernel
    def read_kernel(p: fx.Pointer, out: fx.Tensor, by: fx.Int32):
        pair = (fx.recast_iter(fx.Int4, p) + 8 + by).load(fx.Vector[fx.Int4, 2])
        for i in fx.range_constexpr(2):
            out[i] = pair[i].to(fx.Int32)

    @flyc.jit
    def read(p: fx.Pointer, out: fx.Tensor, by: fx.Int32):
        read_kernel(p, out, by).launch(grid=1, block=1)

    packed = np.array([0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE], np.uint8)
    for by in (-8, -2, 0, 6):
        out = np.full(2, 99, np.int32)
        read(flyc.from_c_void_p(fx.Uint8, packed.ctypes.data), out, by)
        assert out.tolist() == [(v + 8) % 16 - 8 for v in (8 + by, 9 + by)]


def test_constant_offsets_beyond_32_bits():
    @flyc.kernel
    def far_kernel(x: fx.Tensor):
        x[3_000_000_000] = 1

    @flyc.jit
    def far(x: fx.Tensor):
        far_kernel(x).launch(grid=1, block=1)

    for target in ("cpu:native", "rocm:gfx942", "cuda:sm_90a"):
        ir = flyc.compile(far, np.zeros(4, np.int8), target=target).artifact.llvm_ir
        assert "i64 3000000000" in str(ir)
