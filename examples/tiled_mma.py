"""A matrix product C = A * B^T, one 32x32 tile per block, with a TiledMma over the scalar FMA atom.

python examples/tiled_mma.py
"""

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

TILE, STEP = 32, 8


@flyc.kernel
def tiled_mma_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, mma: fx.TiledMma, step: fx.Constexpr[int]):
    bm, bn, _ = fx.block_idx
    mine = mma.get_slice(fx.thread_idx.x)
    ga = fx.flat_divide(a, (TILE, step))[None, None, bm, None]
    gb = fx.flat_divide(b, (TILE, step))[None, None, bn, None]
    gc = fx.flat_divide(c, (TILE, TILE))[None, None, bm, bn]
    ta, tb, tc = mine.partition_A(ga), mine.partition_B(gb), mine.partition_C(gc)
    ra = mine.make_fragment_A(ga[None, None, 0])
    rb = mine.make_fragment_B(gb[None, None, 0])
    rc = mine.make_fragment_C(gc)
    rc.fill(0.0)
    word = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
    for k in range(fx.get_scalar(fx.size(ga.shape[2]))):
        fx.copy(word, ta[None, None, None, k], ra)
        fx.copy(word, tb[None, None, None, k], rb)
        fx.gemm(mma, rc, ra, rb, rc)
    fx.copy(word, rc, tc)


@flyc.jit
def tiled_mma(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    atom = fx.make_mma_atom(fx.UniversalFMA(fx.Float32))
    mma = fx.make_tiled_mma(atom, fx.make_layout((16, 16, 1), (1, 16, 0)))
    m, n = c.shape.unpack()
    tiled_mma_kernel(a, b, c, mma, STEP).launch(grid=(m // TILE, n // TILE), block=256, stream=stream)


def make_args(m: int, n: int, k: int, rng: np.random.Generator):
    """Random inputs, a poisoned output, and what the output must be."""
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((n, k)).astype(np.float32)
    c = np.full((m, n), np.nan, np.float32)
    return (a, b, c), c, a.astype(np.float64) @ b.astype(np.float64).T


def compile_args():
    """The jit function and arguments to compile it for."""
    return tiled_mma, make_args(64, 64, 32, np.random.default_rng(0))[0]


if __name__ == "__main__":
    args, out, expected = make_args(96, 64, 40, np.random.default_rng())
    tiled_mma(*args)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
    print("tiled_mma:", out.shape)
