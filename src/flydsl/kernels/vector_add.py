"""c = a + b over any number of elements, on every target."""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

THREADS = 256


@flyc.kernel
def vector_add_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * THREADS + fx.thread_idx.x
    if i < n:
        c[i] = a[i] + b[i]


@flyc.jit
def vector_add(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    """`c = a + b` for one-dimensional tensors of one length and type."""
    (n,) = c.shape.unpack()
    vector_add_kernel(a, b, c, n).launch(grid=(n + THREADS - 1) // THREADS, block=THREADS, stream=stream)


__all__ = ["vector_add"]
