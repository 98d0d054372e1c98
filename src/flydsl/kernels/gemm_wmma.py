"""C = A B^T with WMMA, for gfx11xx, gfx120x and gfx1250: the kernel of `gemm_cdna` with waves of 32 lanes.

A is (M, K), B is (N, K), both with contiguous K, f16 or bf16; C is (M, N), f32 or the type of A. M and N are any size,
K is a multiple of 8.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.rocdl.target import trace_target
from flydsl.kernels.gemm_cdna import BK, BM, BN, check_matrices, gemm_cdna_kernel

THREADS = 256


@flyc.jit
def gemm_wmma(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    """`c = a @ b.T`."""
    check_matrices("gemm_wmma", a, b, c)
    target = trace_target()
    step = 32 if target is not None and target.has("wmma_v3") else 16
    atom = fx.make_mma_atom(fx.rocdl.WMMA(16, 16, step, a.dtype))
    mma = fx.make_tiled_mma(atom, fx.make_layout((4, 2, 1), (1, 4, 0)))
    chunk = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), a.dtype)
    fill = fx.make_tiled_copy_tv(chunk, fx.make_layout((64, 4), (4, 1)), fx.make_layout((1, 8), (8, 1)))
    m, n = c.shape.unpack()
    grid = ((m + BM - 1) // BM, (n + BN - 1) // BN)
    products = (BM // 16) * (BN // 16) * (BK // step) * 32 // THREADS
    gemm_cdna_kernel(a, b, c, m, n, mma, fill, products).launch(grid=grid, block=THREADS, stream=stream)


__all__ = ["gemm_wmma"]
