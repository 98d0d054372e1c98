"""C = A B^T with `cp.async`, `ldmatrix` and `mma.sync`: for every NVIDIA GPU from sm_80 on.

A is (M, K), B is (N, K), both with contiguous K and 16-byte rows, f16 or bf16. Four warps work on a tile of 128 x 128;
three stages of shared memory are filled ahead. M and N must be multiples of 128, K of 32.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

BM, BN, BK = 128, 128, 32
STAGES = 3
THREADS = 128
SMEM_BYTES = 2 * (BM + BN) * BK * STAGES


@flyc.kernel
def gemm_sm80_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, mma: fx.TiledMma, fill: fx.TiledCopy):
    nv = fx.nvgpu
    bm, bn, _ = fx.block_idx
    tid = fx.thread_idx.x
    dtype = a.dtype
    base = fx.get_dyn_shared(dtype)
    # Rows of 64 bytes: two bits of the row permute the 16-byte units, so that eight rows of a matrix differ in banks.
    swizzle = fx.static(fx.SwizzleType.get(2, 4, 3))
    smem_a = fx.make_view(fx.apply_swizzle(base, swizzle), fx.make_layout((BM, BK, STAGES), (BK, 1, BM * BK)))
    smem_b = fx.make_view(
        fx.apply_swizzle(base + BM * BK * STAGES, swizzle), fx.make_layout((BN, BK, STAGES), (BK, 1, BN * BK))
    )
    tile_a = fx.flat_divide(a, (BM, BK))[None, None, bm, None]
    tile_b = fx.flat_divide(b, (BN, BK))[None, None, bn, None]
    tile_c = fx.flat_divide(c, (BM, BN))[None, None, bm, bn]
    mine = fill.get_slice(tid)
    from_a, from_b = mine.partition_S(tile_a), mine.partition_S(tile_b)
    to_a, to_b = mine.partition_D(smem_a), mine.partition_D(smem_b)
    async_copy = fx.make_copy_atom(nv.CpAsync128b(), dtype)

    product = mma.get_slice(tid)
    ra, rb = product.make_fragment_A(smem_a[None, None, 0]), product.make_fragment_B(smem_b[None, None, 0])
    acc = product.make_fragment_C(tile_c)
    acc.fill(0.0)
    matrices = fx.make_copy_atom(nv.LdMatrix(4), dtype)
    read_a, read_b = (
        fx.make_tiled_copy_A(matrices, mma).get_slice(tid),
        fx.make_tiled_copy_B(matrices, mma).get_slice(tid),
    )
    shared_a, shared_b = read_a.partition_S(smem_a), read_b.partition_S(smem_b)

    steps = fx.get_scalar(fx.size(tile_a.shape[2]))
    for stage in fx.range_constexpr(STAGES - 1):
        if stage < steps:
            fx.copy(async_copy, from_a[None, None, None, stage], to_a[None, None, None, stage])
            fx.copy(async_copy, from_b[None, None, None, stage], to_b[None, None, None, stage])
        nv.cp_async_commit()
    for step in range(steps):
        nv.cp_async_wait(STAGES - 2)
        fx.barrier()
        ahead = step + (STAGES - 1)
        if ahead < steps:
            fx.copy(async_copy, from_a[None, None, None, ahead], to_a[None, None, None, ahead % STAGES])
            fx.copy(async_copy, from_b[None, None, None, ahead], to_b[None, None, None, ahead % STAGES])
        nv.cp_async_commit()
        stage = step % STAGES
        fx.copy(matrices, shared_a[None, None, None, stage], read_a.retile(ra))
        fx.copy(matrices, shared_b[None, None, None, stage], read_b.retile(rb))
        fx.gemm(mma, acc, ra, rb, acc)
    out = fx.make_fragment_like(acc, dtype=c.dtype)
    out.store(acc.load().to(c.dtype))
    pair = fx.make_copy_atom(fx.UniversalCopy(2 * c.dtype.width), c.dtype)
    fx.copy(pair, out, product.partition_C(tile_c))


@flyc.jit
def gemm_sm80(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    """C = A B^T for A (M, K), B (N, K) of f16 or bf16 and C (M, N) of f16, bf16 or f32."""
    nv = fx.nvgpu
    atom = fx.make_mma_atom(nv.MMA(16, 8, 16, a.dtype))
    mma = fx.make_tiled_mma(atom, fx.make_layout((2, 2, 1), (1, 2, 0)), (32, 32, 16))
    copy = fx.make_copy_atom(nv.CpAsync128b(), a.dtype)
    fill = fx.make_tiled_copy_tv(copy, fx.make_layout((32, 4), (4, 1)), fx.make_layout((1, 8), (8, 1)))
    m, n = c.shape.unpack()
    gemm_sm80_kernel(a, b, c, mma, fill).launch(grid=(m // BM, n // BN), block=THREADS, smem=SMEM_BYTES, stream=stream)
