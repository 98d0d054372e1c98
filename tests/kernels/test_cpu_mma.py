"""Matrix atoms on the cpu stack against float64 numpy: one atom, and several in a TiledMma."""

from __future__ import annotations

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.dialects.fly_nvgpu.mma_sync import MmaData, MmaSyncType

DTYPES = {
    "f64": (np.float64, "Float64"),
    "f32": (np.float32, "Float32"),
    "f16": (np.float16, "Float16"),
    "bf16": (ml_dtypes.bfloat16, "BFloat16"),
    "e4m3": (ml_dtypes.float8_e4m3fn, "Float8E4M3FN"),
    "e5m2": (ml_dtypes.float8_e5m2, "Float8E5M2"),
    "e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, "Float8E4M3FNUZ"),
    "i8": (np.int8, "Int8"),
    "i32": (np.int32, "Int32"),
}


def typed(t: fx.Tensor, ty):
    """A tensor of raw integers seen as elements of the same width."""
    return fx.make_view(fx.recast_iter(ty, fx.get_iter(t)), t.layout)


@flyc.kernel
def tile_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, mma: fx.TiledMma, types: fx.Constexpr):
    mine = mma.get_slice(fx.thread_idx.x)
    a, b, c = typed(a, types[0]), typed(b, types[1]), typed(c, types[2])
    ra, rb, rc = mine.make_fragment_A(a), mine.make_fragment_B(b), mine.make_fragment_C(c)
    ra.store(mine.partition_A(a).load())
    rb.store(mine.partition_B(b).load())
    part = mine.partition_C(c)
    rc.store(part.load())
    fx.gemm(mma, rc, ra, rb, rc)
    part.store(rc.load())


@flyc.jit
def tile(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, spec: fx.Constexpr, atoms: fx.Constexpr, types: fx.Constexpr):
    kind, args = spec
    atom = fx.make_mma_atom(make_op(kind, args))
    m, n, _ = atoms
    mma = fx.make_tiled_mma(atom, fx.make_layout((m, n, 1), (1, m, 0)))
    names = tuple(getattr(fx, DTYPES[t][1]) for t in types)
    tile_kernel(a, b, c, mma, names).launch(grid=1, block=m * n * fx_threads(atom))


def fx_threads(atom) -> int:
    import flydsl.layout as L

    return L.size(atom.type.op.thr_layout)


def make_op(kind: str, args):
    m, n, k, *names = args
    a, b, acc = (getattr(fx, DTYPES[t][1]) for t in names)
    if kind == "mfma":
        return fx.rocdl.MFMA(m, n, k, (a, b), acc)
    return SimpleNamespace(type=MmaSyncType(MmaData((m, n, k), a.ir_type, b.ir_type, acc.ir_type)))


def draw(shape, name: str, rng: np.random.Generator) -> np.ndarray:
    dtype = np.dtype(DTYPES[name][0])
    if dtype.kind == "i":
        return rng.integers(-100, 100, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def raw(x: np.ndarray):
    return flyc.from_dlpack(x.view(f"int{8 * x.dtype.itemsize}"))


MFMA = [
    ("f32", "f32", "f32", 16, 4),
    ("f32", "f32", "f32", 32, 2),
    ("f16", "f16", "f32", 16, 16),
    ("f16", "f16", "f32", 32, 8),
    ("bf16", "bf16", "f32", 16, 16),
    ("bf16", "bf16", "f32", 32, 16),
    ("f64", "f64", "f64", 16, 4),
    ("i8", "i8", "i32", 16, 32),
    ("i8", "i8", "i32", 32, 16),
    ("e4m3fnuz", "e4m3fnuz", "f32", 16, 32),
    ("e4m3", "e4m3", "f32", 32, 16),
    ("e4m3", "e5m2", "f32", 16, 32),
]


def run(kind: str, mnk, types, atoms, rng: np.random.Generator):
    m, n, k = (x * y for x, y in zip(mnk, atoms, strict=True))
    x, y, z = draw((m, k), types[0], rng), draw((n, k), types[1], rng), draw((m, n), types[2], rng)
    expected = x.astype(np.float64) @ y.astype(np.float64).T + z.astype(np.float64)
    args = [raw(t) for t in (x, y, z)]
    everything = (*args, (kind, (*mnk, *types)), atoms, types)
    tile(*everything)
    return z.astype(np.float64), expected, np.abs(x.astype(np.float64)) @ np.abs(y.astype(np.float64)).T


@pytest.mark.covering
@pytest.mark.parametrize("atoms", [(1, 1, 1), (2, 2, 1), (1, 2, 3)])
@pytest.mark.parametrize(("a", "b", "acc", "m", "k"), MFMA)
def test_mfma(a, b, acc, m, k, atoms, rng: np.random.Generator, emulate):
    emulate("gfx942" if "fnuz" in a else "gfx950")
    got, expected, bound = run("mfma", (m, m, k), (a, b, acc), atoms, rng)
    if acc == "i32":
        np.testing.assert_array_equal(got, expected)
        return
    eps = 2.0**-24 if acc == "f32" else 2.0**-53
    steps = atoms[2] * (k if acc == "f64" else 1)
    assert np.all(np.abs(got - expected) <= 2 * eps * steps * (bound + np.abs(expected)) + 1e-30)


def test_one_atom_is_rounded_once(rng: np.random.Generator, emulate):
    """The sum is exact before it is rounded to f32."""
    emulate("gfx942")
    got, expected, _ = run("mfma", (16, 16, 16), ("f16", "f16", "f32"), (1, 1, 1), rng)
    np.testing.assert_array_equal(got, expected.astype(np.float32))


SYNC = [
    ("f16", "f16", "f32", 16, 8, 16),
    ("f16", "f16", "f16", 16, 8, 8),
    ("bf16", "bf16", "f32", 16, 8, 16),
    ("i8", "i8", "i32", 16, 8, 32),
    ("e4m3", "e5m2", "f32", 16, 8, 32),
    ("f64", "f64", "f64", 8, 8, 4),
]


@pytest.mark.covering
@pytest.mark.parametrize("atoms", [(1, 1, 1), (2, 2, 2)])
@pytest.mark.parametrize(("a", "b", "acc", "m", "n", "k"), SYNC)
def test_mma_sync(a, b, acc, m, n, k, atoms, rng: np.random.Generator, emulate):
    emulate("sm_90a")
    got, expected, bound = run("sync", (m, n, k), (a, b, acc), atoms, rng)
    eps = {"i32": 0.0, "f32": 2.0**-24, "f16": 2.0**-11, "f64": 2.0**-53}[acc]
    steps = atoms[2] * (k if acc == "f64" else 1)
    assert np.all(np.abs(got - expected) <= 2 * eps * steps * (bound + np.abs(expected)))
