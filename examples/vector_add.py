"""Guarded vector add: one element per thread, any length.

python examples/vector_add.py
"""

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

BLOCK = 256


@flyc.kernel
def vector_add_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * BLOCK + fx.thread_idx.x
    if i < n:
        c[i] = a[i] + b[i]


@flyc.jit
def vector_add(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    vector_add_kernel(a, b, c, n).launch(grid=fx.ceildiv(n, BLOCK), block=BLOCK, stream=stream)


def make_args(n: int, rng: np.random.Generator):
    """Random inputs, a poisoned output, and what the output must be."""
    a, b = rng.standard_normal((2, n)).astype(np.float32)
    c = np.full(n, np.nan, np.float32)
    return (a, b, c, n), c, a.astype(np.float64) + b


def compile_args():
    """The jit function and arguments to compile it for."""
    return vector_add, make_args(1000, np.random.default_rng(0))[0]


if __name__ == "__main__":
    args, out, expected = make_args(100_003, np.random.default_rng())
    vector_add(*args)
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6)
    print("vector_add:", out[:4], "...")
