"""C = A B^T with MFMA, for gfx90a, gfx942 and gfx950: double-buffered, swizzled shared memory filled through registers.

A is (M, K), B is (N, K), both with contiguous K, f16 or bf16; C is (M, N), f32 or the type of A. M and N are any size:
buffer descriptors give zeros for rows that are not there, and stores are predicated. K is a multiple of 32.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr.rocdl.target import trace_target

BM, BN, BK = 128, 128, 32
THREADS = 256
STAGES = 2


@flyc.kernel
def gemm_cdna_kernel(
    a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, m: fx.Int32, n: fx.Int32, mma: fx.TiledMma, fill: fx.TiledCopy
):
    rocdl = fx.rocdl
    bm, bn, _ = fx.block_idx
    tid = fx.thread_idx.x
    dtype = a.dtype
    per_lane = fx.get_scalar(fx.size(mma.mma_atom.layout_A_tv.shape[1]))
    read_bits = min(per_lane * dtype.width, 128)
    pool = fx.SharedAllocator().allocate(fx.Array[dtype, STAGES * (BM + BN) * BK, 128]).peek()
    # Rows of 64 bytes: two bits of the row permute the 16-byte units.
    swizzle = fx.static(fx.SwizzleType.get(2, 4, 3))
    base = fx.get_iter(pool.view(fx.make_layout(1, 1)))
    smem_a = fx.make_view(fx.apply_swizzle(base, swizzle), fx.make_layout((BM, BK, STAGES), (BK, 1, BM * BK)))
    smem_b = fx.make_view(
        fx.apply_swizzle(base + STAGES * BM * BK, swizzle), fx.make_layout((BN, BK, STAGES), (BK, 1, BN * BK))
    )
    global_a = rocdl.make_buffer_tensor(a, max_size=False)
    global_b = rocdl.make_buffer_tensor(b, max_size=False)
    tile_a = fx.flat_divide(global_a, (BM, BK))[None, None, bm, None]
    tile_b = fx.flat_divide(global_b, (BN, BK))[None, None, bn, None]

    mine = fill.get_slice(tid)
    from_a, from_b = mine.partition_S(tile_a), mine.partition_S(tile_b)
    to_a, to_b = mine.partition_D(smem_a), mine.partition_D(smem_b)
    held_a = fx.make_fragment_like(from_a[None, None, None, 0])
    held_b = fx.make_fragment_like(from_b[None, None, None, 0])
    wide = fx.make_copy_atom(rocdl.BufferCopy128b(), dtype)
    store = fx.make_copy_atom(fx.UniversalCopy128b(), dtype)

    product = mma.get_slice(tid)
    ra, rb = product.make_fragment_A(smem_a[None, None, 0]), product.make_fragment_B(smem_b[None, None, 0])
    shape = fx.make_layout((BM, BN), (BN, 1))
    acc = product.make_fragment_C(fx.make_view(fx.get_iter(c), shape))
    acc.fill(0.0)
    read = fx.make_copy_atom(fx.UniversalCopy(read_bits), dtype)
    read_a = fx.make_tiled_copy_A(read, mma).get_slice(tid)
    read_b = fx.make_tiled_copy_B(read, mma).get_slice(tid)
    shared_a, shared_b = read_a.partition_S(smem_a), read_b.partition_S(smem_b)
    into_a, into_b = read_a.retile(ra), read_b.retile(rb)

    fx.copy(wide, from_a[None, None, None, 0], held_a)
    fx.copy(wide, from_b[None, None, None, 0], held_b)
    fx.copy(store, held_a, to_a[None, None, None, 0])
    fx.copy(store, held_b, to_b[None, None, None, 0])
    fx.barrier()
    steps = fx.get_scalar(fx.size(tile_a.shape[2]))
    for step in range(steps):
        # Behind the last tile this reads what nobody uses, or zeros.
        fx.copy(wide, from_a[None, None, None, step + 1], held_a)
        fx.copy(wide, from_b[None, None, None, step + 1], held_b)
        stage = step % STAGES
        fx.copy(read, shared_a[None, None, None, stage], into_a)
        fx.copy(read, shared_b[None, None, None, stage], into_b)
        fx.gemm(mma, acc, ra, rb, acc)
        fx.copy(store, held_a, to_a[None, None, None, 1 - stage])
        fx.copy(store, held_b, to_b[None, None, None, 1 - stage])
        fx.barrier()

    places = fx.make_view((0, 0), fx.make_identity_layout((BM, BN)))
    where = product.partition_C(places)
    row, column = bm * BM, bn * BN
    for v in fx.range_constexpr(fx.get_scalar(fx.size(where.shape[0]))):
        for i in fx.range_constexpr(fx.get_scalar(fx.size(where.shape[1]))):
            for j in fx.range_constexpr(fx.get_scalar(fx.size(where.shape[2]))):
                at = where[v, i, j]
                r, k = row + fx.get_scalar(at[0]), column + fx.get_scalar(at[1])
                if (r < m) & (k < n):
                    c[r, k] = c.dtype(acc[v, i, j])


@flyc.jit
def gemm_cdna(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    """`c = a @ b.T`."""
    target = trace_target()
    step = 32 if target is not None and target.arch == "gfx950" else 16
    atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, step, a.dtype))
    mma = fx.make_tiled_mma(atom, fx.make_layout((2, 2, 1), (1, 2, 0)))
    chunk = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), a.dtype)
    fill = fx.make_tiled_copy_tv(chunk, fx.make_layout((64, 4), (4, 1)), fx.make_layout((1, 8), (8, 1)))
    m, n = c.shape.unpack()
    grid = ((m + BM - 1) // BM, (n + BN - 1) // BN)
    gemm_cdna_kernel(a, b, c, m, n, mma, fill).launch(grid=grid, block=THREADS, stream=stream)


__all__ = ["gemm_cdna"]
