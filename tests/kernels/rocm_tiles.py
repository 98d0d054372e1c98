"""One-tile kernels around an MMA atom, and what they must compute."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

NUMPY = {
    "Float64": np.float64,
    "Float32": np.float32,
    "Float16": np.float16,
    "BFloat16": ml_dtypes.bfloat16,
    "Float8E4M3FN": ml_dtypes.float8_e4m3fn,
    "Float8E5M2": ml_dtypes.float8_e5m2,
    "Float8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "Float8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "Int8": np.int8,
    "Uint8": np.uint8,
    "Int32": np.int32,
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
def tile(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, make: fx.Constexpr, args: fx.Constexpr, atoms: fx.Constexpr):
    op = getattr(fx.rocdl, make)(*args)
    atom = fx.make_mma_atom(op)
    m, n, k = atoms
    mma = fx.make_tiled_mma(atom, fx.make_layout((m, n, k), (1, m, 0)))
    ab = args[3] if isinstance(args[3], tuple) else (args[3], args[3])
    threads = m * n * atom.type.op.thr_layout.shape
    tile_kernel(a, b, c, mma, (*ab, args[4])).launch(grid=1, block=threads)


def raw(x: np.ndarray) -> np.ndarray:
    """The same bits as integers dlpack knows."""
    return x.view(f"int{8 * x.dtype.itemsize}")


def make_tile(m: int, n: int, k: int, a: str, b: str, acc: str, rng: np.random.Generator):
    """Random A (m, k), B (n, k), C (m, n) and A B^T + C in float64."""

    def draw(shape, name):
        dtype = np.dtype(NUMPY[name])
        if dtype.kind in "iu":
            return rng.integers(-100 if dtype.kind == "i" else 0, 100, shape).astype(dtype)
        return rng.standard_normal(shape).astype(dtype)

    x, y, z = draw((m, k), a), draw((n, k), b), draw((m, n), acc)
    return x, y, z, x.astype(np.float64) @ y.astype(np.float64).T + z.astype(np.float64)


def arguments(x: np.ndarray, y: np.ndarray, z: np.ndarray):
    """Static-layout arguments."""
    return [flyc.from_dlpack(raw(t)) for t in (x, y, z)]


def close(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal for integers; for floats within the rounding of the accumulator."""
    if got.dtype.kind in "iu":
        np.testing.assert_array_equal(got, expected)
        return
    eps = {2: 2e-3, 4: 3e-6, 8: 1e-13}[got.dtype.itemsize]
    if got.dtype == ml_dtypes.bfloat16:
        eps = 1.6e-2
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=eps, atol=eps * np.abs(expected).max())
