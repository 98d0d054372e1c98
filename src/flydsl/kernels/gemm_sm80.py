"""C = f(A B^T + bias) with `cp.async`, `ldmatrix` and `mma.sync`: for every NVIDIA GPU from sm_80 on.

A is (M, K), B is (N, K), both with contiguous K, f16 or bf16; C is (M, N) of f16, bf16 or f32. All extents are
arbitrary. Four warps work on a tile of 128 x 128; three stages of shared memory are filled ahead.

Where the arguments promise rows of 16-byte units (`from_torch_tensor(t, assumed_align=16)` with
`.mark_layout_dynamic(divisibility=8)`, or a static layout that has them), units are copied asynchronously, with zeros
for what lies outside; without that promise elements are.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import flydsl.compiler as flyc
import flydsl.expr as fx

from .activations import activated
from .epilogue import biased, fetch_bias
from .extents import check_extents

BM, BN, BK = 128, 128, 32
STAGES = 3
THREADS = 128
UNIT = 8
"""Elements of a 16-byte unit."""
LANES = BK // UNIT
"""Threads beside each other in a row of a tile."""
PAD = 8
"""Elements between rows of the result in shared memory, so that rows start in different banks."""


def has_units(t: fx.Tensor, unit: int = UNIT) -> bool:
    """Whether rows of a matrix are promised to start at multiples of 16 bytes and to be contiguous."""
    step, inner = t.data.layout.stride
    return inner == 1 and t.alignment % 16 == 0 and (step if type(step) is int else step.div) % unit == 0


@flyc.kernel
def gemm_sm80_kernel(
    a: fx.Tensor,
    b: fx.Tensor,
    c: fx.Tensor,
    bias: fx.Tensor | None,
    m: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
    mma: fx.TiledMma,
    fill: fx.TiledCopy,
    units_in: fx.Constexpr[bool],
    units_out: fx.Constexpr[bool],
    activation: fx.Constexpr[str],
):
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
    row, column = bm * BM, bn * BN
    inside = (row + BM <= m) & (column + BN <= n)

    product = mma.get_slice(tid)
    ra, rb = product.make_fragment_A(smem_a[None, None, 0]), product.make_fragment_B(smem_b[None, None, 0])
    tile = fx.make_layout((BM, BN), (BN + PAD, 1))
    smem_c = fx.make_view(fx.get_dyn_shared(c.dtype), tile)
    acc = product.make_fragment_C(fx.make_view(fx.get_dyn_shared(fx.Float32), tile))
    acc.fill(0.0)
    matrices = fx.make_copy_atom(nv.LdMatrix(4), dtype)
    read_a, read_b = (
        fx.make_tiled_copy_A(matrices, mma).get_slice(tid),
        fx.make_tiled_copy_B(matrices, mma).get_slice(tid),
    )
    shared_a, shared_b = read_a.partition_S(smem_a), read_b.partition_S(smem_b)

    biases = fx.recast_iter(fx.Float32, fx.get_dyn_shared(fx.Int8) + tile_bytes(c.dtype))
    if fx.const_expr(bias is not None):
        fetch_bias(bias, biases, column, n, tid, BN, THREADS)

    operands = Rows(a, smem_a, row, m), Rows(b, smem_b, column, n)
    steps = fx.ceildiv(k, BK)
    for stage in fx.range_constexpr(STAGES - 1):
        if stage < steps:
            fetch(*operands, fill, k, fx.Int32(stage), fx.Int32(stage), inside, units_in)
        nv.cp_async_commit()
    for step in range(steps):
        nv.cp_async_wait(STAGES - 2)
        fx.barrier()
        ahead = step + (STAGES - 1)
        if ahead < steps:
            fetch(*operands, fill, k, ahead, ahead % STAGES, inside, units_in)
        nv.cp_async_commit()
        stage = step % STAGES
        fx.copy(matrices, shared_a[None, None, None, stage], read_a.retile(ra))
        fx.copy(matrices, shared_b[None, None, None, stage], read_b.retile(rb))
        fx.gemm(mma, acc, ra, rb, acc)

    # Through shared memory, so that threads store what lies together.
    fx.barrier()
    out = fx.make_fragment_like(acc, dtype=c.dtype)
    values = acc.load()
    if fx.const_expr(bias is not None):
        values = biased(values, biases, (BM, BN), product)
    out.store(activated(activation, values).to(c.dtype))
    pair = fx.make_copy_atom(fx.UniversalCopy(2 * c.dtype.width), c.dtype)
    fx.copy(pair, out, product.partition_C(smem_c))
    fx.barrier()
    store(c, smem_c, row, column, m, n, inside, units_out)


class Rows(NamedTuple):
    """A's or B's part of a tile: rows from `first` on, of as many as there are, and the stages they go to."""

    x: fx.Tensor
    smem: fx.Tensor
    first: fx.Int32
    total: fx.Int32


@flyc.jit
def fetch(
    a: Rows, b: Rows, fill: fx.TiledCopy, k: fx.Int32, step: fx.Int32, stage: fx.Int32, inside: fx.Boolean, units: bool
):
    """A step of both operands into a stage; zeros where a matrix has nothing."""
    if fx.const_expr(units):
        if inside & (step * BK + BK <= k):
            fetch_units(a, fill, step, stage)
            fetch_units(b, fill, step, stage)
        else:
            fetch_units(a, fill, step, stage, k)
            fetch_units(b, fill, step, stage, k)
    else:
        for i in range(fx.thread_idx.x, BM * BK, THREADS):
            fetch_element(a, k, step, stage, i // BK, i % BK)
            fetch_element(b, k, step, stage, i // BK, i % BK)


@flyc.jit
def fetch_units(rows: Rows, fill: fx.TiledCopy, step: fx.Int32, stage: fx.Int32, k: fx.Int32 | None = None):
    """The tile in units; with `k` it may lie across an edge of the matrix."""
    tid = fx.thread_idx.x
    atom = fx.make_copy_atom(fx.nvgpu.CpAsync(128, "cg", zero_fill=True), rows.x.dtype)
    tile = fx.flat_divide(rows.x, (BM, BK))[None, None, rows.first // BM, step]
    source = fill.get_slice(tid).partition_S(tile)
    target = fill.get_slice(tid).partition_D(rows.smem[None, None, stage])
    if fx.const_expr(k is None):
        fx.copy(atom, source, target)
    else:
        left = cast("fx.Int32", k) - step * BK - tid % LANES * UNIT
        for i in fx.range_constexpr(BM * LANES // THREADS):
            there = rows.first + tid // LANES + i * (THREADS // LANES) < rows.total
            fx.copy(atom, source[None, i, 0], target[None, i, 0], valid=there.select(left, 0))


@flyc.jit
def fetch_element(rows: Rows, k: fx.Int32, step: fx.Int32, stage: fx.Int32, at: fx.Int32, column: fx.Int32):
    """One element of a tile, or zero."""
    value = rows.x.dtype(0.0)
    if (rows.first + at < rows.total) & (step * BK + column < k):
        value = rows.x[rows.first + at, step * BK + column]
    rows.smem[at, column, stage] = value


@flyc.jit
def store(
    c: fx.Tensor,
    smem: fx.Tensor,
    row: fx.Int32,
    column: fx.Int32,
    m: fx.Int32,
    n: fx.Int32,
    inside: fx.Boolean,
    units: bool,
):
    """The tile in shared memory to C, as far as C goes."""
    tid = fx.thread_idx.x
    if fx.const_expr(units):
        unit = 128 // c.dtype.width
        if inside:
            to = fx.flat_divide(fx.flat_divide(c, (BM, BN))[None, None, row // BM, column // BN], (1, unit))
            source = fx.flat_divide(smem, (1, unit))
            for i in fx.range_constexpr(BM * BN // unit // THREADS):
                at = tid + i * THREADS
                r, u = at // (BN // unit), at % (BN // unit)
                to[0, None, r, u].store(source[0, None, r, u].load())
        else:
            store_elements(c, smem, row, column, m, n)
    else:
        store_elements(c, smem, row, column, m, n)


@flyc.jit
def store_elements(c: fx.Tensor, smem: fx.Tensor, row: fx.Int32, column: fx.Int32, m: fx.Int32, n: fx.Int32):
    for i in range(fx.thread_idx.x, BM * BN, THREADS):
        r, k = i // BN, i % BN
        if (row + r < m) & (column + k < n):
            c[row + r, column + k] = smem[r, k]


def tile_bytes(out: type[fx.Numeric]) -> int:
    """Bytes of shared memory for the stages, or for the tile on its way out, which comes after them."""
    return max(2 * (BM + BN) * BK * STAGES, BM * (BN + PAD) * out.width // 8)


@flyc.jit
def gemm_sm80(
    a: fx.Tensor,
    b: fx.Tensor,
    c: fx.Tensor,
    activation: fx.Constexpr[str] = "none",
    bias: fx.Tensor | None = None,
    stream: fx.Stream = fx.Stream(None),
):
    """C = f(A B^T + bias) for A (M, K), B (N, K) of f16 or bf16 and C (M, N) of f16, bf16 or f32; any extents.

    The bias, if given, is N values of any float type; `activation` names f: see `flydsl.kernels.activations`.
    """
    check_extents("gemm_sm80", a=(a, "mk"), b=(b, "nk"), c=(c, "mn"), bias=(bias, "n"))
    nv = fx.nvgpu
    atom = fx.make_mma_atom(nv.MMA(16, 8, 16, a.dtype))
    mma = fx.make_tiled_mma(atom, fx.make_layout((2, 2, 1), (1, 2, 0)), (32, 32, 16))
    copy = fx.make_copy_atom(nv.CpAsync128b(), a.dtype)
    fill = fx.make_tiled_copy_tv(
        copy, fx.make_layout((THREADS // LANES, LANES), (LANES, 1)), fx.make_layout((1, UNIT), (UNIT, 1))
    )
    m, n = c.shape.unpack()
    k = a.shape.unpack()[1]
    units_in = has_units(a) and has_units(b)
    units_out = has_units(c, 128 // c.dtype.width)
    smem = tile_bytes(c.dtype) + (4 * BN if bias is not None else 0)
    grid = (fx.ceildiv(m, BM), fx.ceildiv(n, BN))
    gemm_sm80_kernel(
        a, b, c, bias, fx.Int32(m), fx.Int32(n), fx.Int32(k), mma, fill, units_in, units_out, activation
    ).launch(grid=grid, block=THREADS, smem=smem, stream=stream)  # fmt: skip


__all__ = ["gemm_sm80"]
