"""C = f(A B^T + bias) on Hopper: tiles come by TMA, warpgroups multiply them with `wgmma`, TMA stores the result.

A is (M, K), B is (N, K), both with contiguous K, f16 or bf16; C is (M, N). A block of three warpgroups works on tiles
of 128 x 256: the first fetches, the other two multiply. Four stages of shared memory lie between them, each with a full
and an empty barrier. Blocks stay and take tile after tile. Two blocks of a cluster work on tiles above each other and
share B: each fetches half of it for both. M and N are arbitrary, K is a multiple of 8: the copy engine reads zeros and
writes nothing outside. Where C's rows are no multiples of 16 bytes, threads store it instead of the copy engine.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

from .activations import activated
from .epilogue import biased, fetch_bias
from .extents import check_extents

BM, BN, BK = 128, 256, 64
"""The tile of a block and its step along K."""
STAGES = 4
GROUP = 8
"""Rows of tiles that are walked together, so that what they share stays in L2."""
HALF = BN // 2
"""Columns that go through shared memory at once on the way out."""
BOX = 64
"""Elements of a 128-byte row, the widest the swizzle takes."""
THREADS = 384
STAGE_BYTES = 2 * BK * (BM + BN)
BARRIER_BYTES = 2 * 8 * STAGES
SMEM_BYTES = STAGES * STAGE_BYTES + 2 * (2 * 64 * HALF) + BARRIER_BYTES
BIAS_BYTES = 2 * 4 * BN
"""The columns of a tile's bias as f32, for each consumer."""
ELEMENTS_A, ELEMENTS_B = BM * BK, BN * BK


@flyc.kernel
def gemm_sm90_kernel(
    load_a: fx.nvgpu.TmaAtom,
    load_b: fx.nvgpu.TmaAtom,
    store_c: fx.nvgpu.TmaAtom,
    c: fx.Tensor,
    bias: fx.Tensor | None,
    dtype: type[fx.Numeric],
    cluster_size: fx.Constexpr[int],
    activation: fx.Constexpr[str],
    by_engine: fx.Boolean,
    m: fx.Int32,
    n: fx.Int32,
    k: fx.Int32,
):
    nv = fx.nvgpu
    mma = fx.make_tiled_mma(fx.make_mma_atom(nv.WGMMA(BN, 16, dtype)), fx.make_layout((2, 1, 1), (1, 0, 0)))
    half_mma = fx.make_tiled_mma(fx.make_mma_atom(nv.WGMMA(HALF, 16, dtype)), fx.make_layout((1, 1, 1), (0, 0, 0)))
    out_copy = fx.make_tiled_copy_C(fx.make_copy_atom(nv.StMatrix(4), dtype), half_mma)
    tid = fx.thread_idx.x
    group = nv.uniform(tid // 128)
    swizzle = fx.static(fx.SwizzleType.get(3, 4, 3))
    base = fx.get_dyn_shared(dtype)
    first_b = STAGES * ELEMENTS_A
    first_c = first_b + STAGES * ELEMENTS_B
    smem_a = fx.make_view(fx.apply_swizzle(base, swizzle), fx.make_layout((BM, BK, STAGES), (BK, 1, ELEMENTS_A)))
    smem_b = fx.make_view(
        fx.apply_swizzle(base + first_b, swizzle), fx.make_layout((BN, BK, STAGES), (BK, 1, ELEMENTS_B))
    )
    full = nv.MBarrier(base + (first_c + 2 * 64 * HALF))
    empty = full[STAGES]
    if tid == 0:
        load_a.prefetch()
        load_b.prefetch()
        store_c.prefetch()
        for s in fx.range_constexpr(STAGES):
            full[s].init(1)
            empty[s].init(2 * cluster_size)
    rank = fx.Int32(0)
    if fx.const_expr(cluster_size > 1):
        rank = nv.uniform(nv.cluster.rank())
        nv.cluster.sync()
    else:
        fx.barrier()

    # Tiles are dealt to clusters, which are `cluster_size` tiles high.
    first, stride = fx.block_idx.x // cluster_size, fx.grid_dim.x // cluster_size
    rows, columns = fx.ceildiv(m, BM * cluster_size), fx.ceildiv(n, BN)
    steps = fx.ceildiv(k, BK)
    tiles = rows * columns
    if group == 0:
        nv.setmaxnreg(40, increase=False)
        if nv.leader(tid):
            stage, phase = fx.Int32(0), fx.Int32(1)
            for tile in range(first, tiles, stride):
                row, column = tile_position(tile, rows, columns, cluster_size, rank)
                for step in range(steps):
                    fx.ktrace.range_push("wait empty")
                    empty[stage].wait(phase)
                    fx.ktrace.range_pop()
                    fx.ktrace.range_push("issue copies")
                    full[stage].expect_tx(STAGE_BYTES)
                    load_a.load((row * BM, step * BK), smem_a[None, None, stage], full[stage])
                    if fx.const_expr(cluster_size == 1):
                        load_b.load((column * BN, step * BK), smem_b[None, None, stage], full[stage])
                    else:
                        # This block's share of B's rows goes to the same place in all blocks of the cluster.
                        share = fx.flat_divide(smem_b, (BN // cluster_size, BK))[None, None, rank, 0, stage]
                        at = (column * BN + rank * (BN // cluster_size), step * BK)
                        load_b.load(at, share, full[stage], multicast=(1 << cluster_size) - 1)
                    fx.ktrace.range_pop()
                    stage = stage + 1
                    if stage == STAGES:
                        stage = fx.Int32(0)
                        phase = phase ^ 1
    else:
        nv.setmaxnreg(232, increase=True)
        member = tid % 128
        consumer = group - 1
        mine = mma.get_slice(consumer * 128)
        parts_a, parts_b = mine.partition_A(smem_a), mine.partition_B(smem_b)
        staging = base + (first_c + consumer * (64 * HALF))
        smem_c = fx.make_view(
            fx.apply_swizzle(staging, swizzle), fx.make_layout((64, (BOX, HALF // BOX)), (BOX, (1, 64 * BOX)))
        )
        biases = fx.recast_iter(fx.Float32, base + (first_c + 2 * 64 * HALF + BARRIER_BYTES // 2)) + consumer * BN
        out = out_copy.get_slice(member)
        out_atom = fx.make_copy_atom(nv.StMatrix(4), dtype)
        acc = fx.make_rmem_tensor(fx.make_layout(((2, 2, BN // 8), 1, 1), ((1, 2, 4), 0, 0)), fx.Float32)
        turn = nv.named_barrier(consumer + 1, 128)
        stage, phase = fx.Int32(0), fx.Int32(0)
        for tile in range(first, tiles, stride):
            row, column = tile_position(tile, rows, columns, cluster_size, rank)
            if fx.const_expr(bias is not None):
                fetch_bias(bias, biases, column * BN, n, member, BN, 128)
            acc.fill(0.0)
            before = fx.Int32(0)
            for step in range(steps):
                fx.ktrace.range_push("wait full")
                full[stage].wait(phase)
                fx.ktrace.range_pop()
                fx.ktrace.range_push("multiply")
                fx.gemm(mma, acc, parts_a[None, None, None, stage], parts_b[None, None, None, stage], acc)
                nv.wgmma_wait(1)
                fx.ktrace.range_pop()
                # The products of the step before are done: its stage may be filled again.
                if step > 0:
                    release(empty[before], member, cluster_size)
                before = stage
                stage = stage + 1
                if stage == STAGES:
                    stage = fx.Int32(0)
                    phase = phase ^ 1
            nv.wgmma_wait(0, acc)
            release(empty[before], member, cluster_size)
            fx.ktrace.range_push("store")
            for half in fx.range_constexpr(2):
                part = fx.make_view(
                    fx.get_iter(acc) + half * (HALF // 2),
                    fx.make_layout(((2, 2, HALF // 8), 1, 1), ((1, 2, 4), 0, 0)),
                )
                result = fx.make_rmem_tensor(part.layout, dtype)
                values = part.load()
                if nv.leader(member):
                    nv.tma_wait(0, read=True)
                # Also tells that all of the tile's bias is there, and that threads have read what they stored before.
                turn.sync()
                if fx.const_expr(bias is not None):
                    values = biased(values, biases + half * HALF, (64, HALF), half_mma.get_slice(member))
                result.store(activated(activation, values).to(dtype))
                fx.copy(out_atom, out.retile(result), out.partition_D(smem_c))
                turn.sync()
                top, left = row * BM + consumer * 64, column * BN + half * HALF
                if by_engine:
                    if nv.leader(member):
                        for box in fx.range_constexpr(HALF // BOX):
                            store_c.store(smem_c[None, (None, box)], (top, left + box * BOX))
                        nv.tma_commit()
                else:
                    for i in range(member, 64 * HALF, 128):
                        r, k = i // HALF, i % HALF
                        if (top + r < m) & (left + k < n):
                            c[top + r, left + k] = smem_c[r, (k % BOX, k // BOX)]
            fx.ktrace.range_pop()
        if nv.leader(member):
            nv.tma_wait(0)
    if fx.const_expr(cluster_size > 1):
        # Nobody leaves while another block may still write here or count on a barrier here.
        nv.cluster.sync()


@flyc.jit
def release(barrier: fx.nvgpu.MBarrier, member: fx.Int32, cluster_size: int):
    """A warpgroup has read a stage: tell the producers of all blocks that write to it."""
    if fx.const_expr(cluster_size == 1):
        if member == 0:
            barrier.arrive()
    else:
        if member < cluster_size:
            barrier.arrive_remote(member)


def tile_position(
    tile: fx.Int32, rows: fx.Int32, columns: fx.Int32, cluster_size: int, rank: fx.Int32
) -> tuple[fx.Int32, fx.Int32]:
    """Row and column of a block's tile: groups of `GROUP` rows of cluster tiles, each walked along the columns."""
    per_group = GROUP * columns
    which = tile // per_group
    inside = tile % per_group
    height = fx.min(rows - which * GROUP, GROUP)
    return (which * GROUP + inside % height) * cluster_size + rank, inside // height


@flyc.jit
def gemm_sm90(
    a: fx.Tensor,
    b: fx.Tensor,
    c: fx.Tensor,
    blocks: fx.Int32,
    cluster_size: fx.Constexpr[int] = 2,
    activation: fx.Constexpr[str] = "none",
    bias: fx.Tensor | None = None,
    stream: fx.Stream = fx.Stream(None),
):
    """C = f(A B^T + bias) for A (M, K), B (N, K) and C (M, N) of f16 or bf16, and N values of any float type, if given.

    `blocks` stay on the GPU, as many as it has multiprocessors; a multiple of `cluster_size`, which is 1 or 2.
    `activation` names f: see `flydsl.kernels.activations`.
    """
    check_extents("gemm_sm90", a=(a, "mk"), b=(b, "nk"), c=(c, "mn"), bias=(bias, "n"))
    nv, dtype = fx.nvgpu, a.dtype
    m, k = a.shape.unpack()
    n = b.shape.unpack()[0]
    load_a = nv.make_tma_atom(nv.TMALoad(), a, None, (BM, BK), swizzle=128)
    load_b = nv.make_tma_atom(nv.TMALoad(), b, None, (BN // cluster_size, BK), swizzle=128)
    # The copy engine takes rows that are multiples of 16 bytes. Where C's are not, its map describes longer ones and
    # goes unused.
    step = c.stride.unpack()[0]
    by_engine = fx.Boolean(step % 8 == 0)
    rows = fx.make_view(fx.get_iter(c), fx.make_layout((m, n), ((step + 7) // 8 * 8, 1)))
    store_c = nv.make_tma_atom(nv.TMAStore(), rows, None, (64, BOX), swizzle=128)
    smem = SMEM_BYTES + BIAS_BYTES * (bias is not None)
    gemm_sm90_kernel(
        load_a, load_b, store_c, c, bias, dtype, cluster_size, activation, by_engine,
        fx.Int32(m), fx.Int32(n), fx.Int32(k), value_attrs={"nvvm.minctasm": 1},
    ).launch(grid=blocks, block=THREADS, smem=smem, cluster=cluster_size, stream=stream)  # fmt: skip


__all__ = ["gemm_sm90"]
