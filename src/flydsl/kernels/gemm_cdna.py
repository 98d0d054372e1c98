"""C = A B^T with MFMA, for gfx90a, gfx942 and gfx950: double-buffered, swizzled shared memory filled through registers.

A is (M, K), B is (N, K), both with contiguous K, f16 or bf16; C is (M, N), f32 or the type of A. M and N are any size:
buffer descriptors give zeros for rows that are not there and drop what is stored there. K is a multiple of 8; lanes
whose 16 bytes lie behind it read out of range, zeros again.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLTypeError, DSLValueError
from flydsl.expr.rocdl.target import trace_target

from .extents import check_extents

BM, BN, BK = 128, 128, 32
THREADS = 256
STAGES = 2
UNIT = 8
"""Elements of the 16 bytes a thread loads at once."""
FAR_BYTES = 0x7FFFFFFF
"""An offset that is out of range of every descriptor, and is no small one with another added to it."""


@flyc.kernel
def gemm_cdna_kernel(
    a: fx.Tensor,
    b: fx.Tensor,
    c: fx.Tensor,
    m: fx.Int32,
    n: fx.Int32,
    mma: fx.TiledMma,
    fill: fx.TiledCopy,
    products: fx.Constexpr[int],
):
    rocdl = fx.rocdl
    bm, bn, _ = fx.block_idx
    tid = fx.thread_idx.x
    dtype = a.dtype
    pool = fx.SharedAllocator().allocate(fx.Array[dtype, STAGES * (BM + BN) * BK, 128]).peek()
    # Rows of 64 bytes: two bits of the row permute the 16-byte units.
    swizzle = fx.static(fx.SwizzleType.get(2, 4, 3))
    base = fx.get_iter(pool.view(fx.make_layout(1, 1)))
    smem_a = fx.make_view(fx.apply_swizzle(base, swizzle), fx.make_layout((BM, BK, STAGES), (BK, 1, BM * BK)))
    smem_b = fx.make_view(
        fx.apply_swizzle(base + STAGES * BM * BK, swizzle), fx.make_layout((BN, BK, STAGES), (BK, 1, BN * BK))
    )
    k = fx.get_scalar(a.shape[1])
    tile_a = rows_in_buffer(fx.flat_divide(a, (BM, BK))[None, None, bm, None], a, fx.min(m - bm * BM, BM), k)
    tile_b = rows_in_buffer(fx.flat_divide(b, (BN, BK))[None, None, bn, None], b, fx.min(n - bn * BN, BN), k)

    mine = fill.get_slice(tid)
    from_a, from_b = mine.partition_S(tile_a), mine.partition_S(tile_b)
    to_a, to_b = mine.partition_D(smem_a), mine.partition_D(smem_b)
    held_a = fx.make_fragment_like(from_a[None, None, None, 0])
    held_b = fx.make_fragment_like(from_b[None, None, None, 0])
    wide = fx.make_copy_atom(rocdl.BufferCopy128b(), dtype)
    move = fx.make_copy_atom(fx.UniversalCopy128b(), dtype)

    product = mma.get_slice(tid)
    ra, rb = product.make_fragment_A(smem_a[None, None, 0]), product.make_fragment_B(smem_b[None, None, 0])
    shape = fx.make_layout((BM, BN), (BN, 1))
    acc = product.make_fragment_C(fx.make_view(fx.get_iter(c), shape))
    acc.fill(0.0)
    read_a = fx.make_tiled_copy_A(move, mma).get_slice(tid)
    read_b = fx.make_tiled_copy_B(move, mma).get_slice(tid)
    shared_a, shared_b = read_a.partition_S(smem_a), read_b.partition_S(smem_b)
    into_a, into_b = read_a.retile(ra), read_b.retile(rb)
    unit_column = tid % (BK // UNIT) * UNIT
    loads = (BM + BN) * BK // UNIT // THREADS

    def load(step: fx.Int32):
        """The tile's place along K is a uniform offset; lanes behind K go far away."""
        shift = (step * BK + unit_column < k).select(fx.Int32(0), fx.Int32(FAR_BYTES // (dtype.width // 8)))
        for parts, held in ((from_a, held_a), (from_b, held_b)):
            first = parts[None, None, None, 0]
            fx.copy(wide, fx.make_view(fx.get_iter(first) + shift, first.layout), held, soffset=step * BK)

    def write(stage: int):
        fx.copy(move, held_a, to_a[None, None, None, stage])
        fx.copy(move, held_b, to_b[None, None, None, stage])

    def multiply(stage: int):
        fx.copy(move, shared_a[None, None, None, stage], into_a)
        fx.copy(move, shared_b[None, None, None, stage], into_b)
        fx.gemm(mma, acc, ra, rb, acc)

    def advance(step: fx.Int32, stage: int):
        load(step + 1)
        multiply(stage)
        write(1 - stage)
        # Loads first, so that they are under way during the products; writes last.
        rocdl.sched_vmem(loads)
        rocdl.sched_mfma(products - loads)
        for _ in fx.range_constexpr(loads):
            rocdl.sched_dswr(1)
            rocdl.sched_mfma(1)
        rocdl.sched_barrier(0)
        fx.barrier()
        rocdl.sched_barrier(0)

    load(fx.Int32(0))
    write(0)
    fx.barrier()
    # Behind the last tile come zeros, so an odd number of tiles is no case of its own.
    for pair in range((k + 2 * BK - 1) // (2 * BK)):
        advance(pair * 2, 0)
        advance(pair * 2 + 1, 1)

    row, column = bm * BM, bn * BN
    stride = fx.get_scalar(c.stride[0])
    here = fx.make_view(fx.get_iter(c) + (fx.Int64(row) * stride + column), fx.make_layout((BM, BN), (stride, 1)))
    out = rows_in_buffer(here, c, fx.min(m - row, BM), fx.min(n - column, BN))
    mine_c = product.partition_C(out)
    where = product.partition_C(fx.make_view((0, 0), fx.make_identity_layout((BM, BN))))
    values, atoms_m, atoms_n = (fx.get_scalar(fx.size(where.shape[i])) for i in range(3))
    for j in fx.range_constexpr(atoms_n):
        # A lane's values of one instruction are in one column. Rows that are not there end behind the descriptor.
        inside = column + fx.get_scalar(where[0, 0, j][1]) < n
        shift = inside.select(fx.Int32(0), fx.Int32(FAR_BYTES // (c.dtype.width // 8)))
        part = mine_c[None, None, j]
        part = fx.make_view(fx.get_iter(part) + shift, part.layout)
        for i in fx.range_constexpr(atoms_m):
            for v in fx.range_constexpr(values):
                part[v, i] = c.dtype(acc[v, i, j])


def rows_in_buffer(tile: fx.Tensor, matrix: fx.Tensor, rows: fx.Int32, k: fx.Int32) -> fx.Tensor:
    """A block's rows behind a descriptor of their own: only they must be within 2 GiB."""
    elements = (rows - 1) * fx.get_scalar(matrix.stride[0]) + k
    return fx.rocdl.make_buffer_tensor(tile, num_records_bytes=elements * (matrix.dtype.width // 8))


def check_matrices(kernel: str, a: fx.Tensor, b: fx.Tensor, c: fx.Tensor) -> None:
    """Refuse what the kernel would read or write wrongly: it moves pieces of rows."""
    check_extents(kernel, a=(a, "mk"), b=(b, "nk"), c=(c, "mn"))
    if a.dtype is not b.dtype or a.dtype not in (fx.Float16, fx.BFloat16):
        raise DSLTypeError(f"{kernel} multiplies two matrices of Float16 or of BFloat16, got {a.dtype} and {b.dtype}")
    for name, matrix in (("a", a), ("b", b), ("c", c)):
        if matrix.leading_dim != 1:
            raise DSLValueError(
                f"{kernel} expects {name} with contiguous rows, stride 1 along its second dimension, got "
                f"{matrix.layout}; pass a contiguous copy, or where both strides are 1 "
                f"flyc.from_dlpack({name}).mark_layout_dynamic(leading_dim=1)"
            )


@flyc.jit
def gemm_cdna(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    """`c = a @ b.T`."""
    check_matrices("gemm_cdna", a, b, c)
    target = trace_target()
    step = 32 if target is not None and target.has("mfma_long_k") else 16
    atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, step, a.dtype))
    # A lane reads 16 bytes of shared memory at once. Where the instruction takes 8, K is permuted alike in A and B, so
    # that it takes them one half after the other.
    order = None if step == 32 else fx.make_layout((4, 4, 2), (1, 8, 4))
    mma = fx.make_tiled_mma(atom, fx.make_layout((2, 2, 1), (1, 2, 0)), (None, None, order))
    chunk = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), a.dtype)
    fill = fx.make_tiled_copy_tv(chunk, fx.make_layout((64, 4), (4, 1)), fx.make_layout((1, 8), (8, 1)))
    m, n = c.shape.unpack()
    grid = ((m + BM - 1) // BM, (n + BN - 1) // BN)
    products = (BM // 16) * (BN // 16) * (BK // step) * 64 // THREADS
    gemm_cdna_kernel(a, b, c, m, n, mma, fill, products).launch(grid=grid, block=THREADS, stream=stream)


__all__ = ["gemm_cdna"]
