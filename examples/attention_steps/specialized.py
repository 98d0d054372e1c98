"""Step 7: warp specialisation on Hopper. One warpgroup fetches by TMA, two multiply with `wgmma`; barriers in shared
memory are all that ties them together. Nobody copies through registers, and softmax is all that multiplying threads do
besides.
"""

from pipelined import LOG2E, of_rows, over_quad, softmax_step

import flydsl.compiler as flyc
import flydsl.expr as fx

ROWS, KEYS, STAGES, THREADS = 128, 128, 2, 384
BOX = 64
"""Columns of 128 bytes, the widest the swizzle takes."""


@flyc.kernel
def specialized_kernel(
    load_q: fx.nvgpu.TmaAtom,
    load_k: fx.nvgpu.TmaAtom,
    load_v: fx.nvgpu.TmaAtom,
    out: fx.Tensor,
    length: fx.Int32,
    scale: fx.Float32,
    d: fx.Constexpr[int],
):
    nv, tid, dtype = fx.nvgpu, fx.thread_idx.x, out.dtype
    role = nv.uniform(tid // 128)
    base_q = fx.get_dyn_shared(dtype)
    base_k, base_v = base_q + ROWS * d, base_q + (ROWS + STAGES * KEYS) * d
    full_q = nv.MBarrier(base_v + STAGES * KEYS * d)
    full_k, full_v = full_q[1], full_q[1 + STAGES]
    empty_k, empty_v = full_q[1 + 2 * STAGES], full_q[1 + 3 * STAGES]
    if tid == 0:
        full_q.init(1)
        for s in fx.range_constexpr(STAGES):
            full_k[s].init(1)
            full_v[s].init(1)
            empty_k[s].init(2)
            empty_v[s].init(2)
        nv.fence_mbarrier_init()
    fx.barrier()
    first = fx.block_idx.x * ROWS
    head = first // length * length
    steps = length // KEYS
    if role == 0:
        nv.setmaxnreg(24, increase=False)
        if tid == 0:
            full_q.expect_tx(2 * ROWS * d)
            fetch(load_q, base_q, full_q, first, ROWS, d)
            stage, phase = fx.Int32(0), fx.Int32(1)
            for step in range(steps):
                for load, base, full, empty in (
                    (load_k, base_k, full_k, empty_k),
                    (load_v, base_v, full_v, empty_v),
                ):
                    empty[stage].wait(phase)
                    full[stage].expect_tx(2 * KEYS * d)
                    fetch(load, base + stage * (KEYS * d), full[stage], head + step * KEYS, KEYS, d)
                stage, phase = after(stage, phase)
    else:
        nv.setmaxnreg(240, increase=True)
        member, consumer = tid % 128, role - 1
        alone = fx.make_layout((1, 1, 1), (0, 0, 0))
        scores_mma = fx.make_tiled_mma(fx.make_mma_atom(nv.WGMMA(KEYS, 16, dtype)), alone)
        values_mma = fx.make_tiled_mma(
            fx.make_mma_atom(nv.WGMMA(d, 16, dtype, a_from="registers", major_b="mn")), alone
        )
        swizzle = fx.static(fx.SwizzleType.get(3, 4, 3))
        boxes = d // BOX
        queries = fx.make_view(
            fx.apply_swizzle(base_q + consumer * (64 * BOX), swizzle),
            fx.make_layout((64, (BOX, boxes)), (BOX, (1, ROWS * BOX))),
        )
        keys = fx.make_view(
            fx.apply_swizzle(base_k, swizzle),
            fx.make_layout((KEYS, (BOX, boxes), STAGES), (BOX, (1, KEYS * BOX), KEYS * d)),
        )
        values = fx.make_view(
            fx.apply_swizzle(base_v, swizzle),
            fx.make_layout(((BOX, boxes), KEYS, STAGES), ((1, KEYS * BOX), BOX, KEYS * d)),
        )
        parts_q = scores_mma.get_slice(0).partition_A(queries)
        parts_k = scores_mma.get_slice(0).partition_B(keys)
        parts_v = values_mma.get_slice(0).partition_B(values)
        quads = lambda n: fx.make_layout(((2, 2, n // 8), 1, 1), ((1, 2, 4), 0, 0))  # noqa: E731
        scores, sums = fx.make_rmem_tensor(quads(KEYS), fx.Float32), fx.make_rmem_tensor(quads(d), fx.Float32)
        weights = fx.make_rmem_tensor(fx.make_layout(((2, 2, 2), 1, KEYS // 16), ((1, 2, 4), 0, 8)), dtype)
        highest, total = (fx.make_rmem_tensor(2, fx.Float32) for _ in range(2))
        sums.fill(0.0)
        total.fill(0.0)
        highest.fill(-1e30)
        factor = scale * LOG2E
        stage, phase = fx.Int32(0), fx.Int32(0)
        full_q.wait(0)
        for _ in range(steps):
            full_k[stage].wait(phase)
            scores.fill(0.0)
            fx.gemm(scores_mma, scores, parts_q, parts_k[None, None, None, stage], scores)
            nv.wgmma_wait(0, scores)
            if member == 0:
                empty_k[stage].arrive()
            factors = softmax_step(scores, highest, total, factor)
            weights.store(scores.load().to(dtype).reshape(weights.load().shape))
            held = sums.load()
            sums.store(held * of_rows(factors, held.numel).reshape(held.shape))
            full_v[stage].wait(phase)
            fx.gemm(values_mma, sums, weights, parts_v[None, None, None, stage], sums)
            nv.wgmma_wait(0, sums)
            if member == 0:
                empty_v[stage].arrive()
            stage, phase = after(stage, phase)
        shares = [1.0 / over_quad(total[r], lambda a, b: a + b) for r in range(2)]
        held = sums.load()
        result = fx.make_rmem_tensor(sums.layout, dtype)
        result.store((held * of_rows(shares, held.numel).reshape(held.shape)).to(dtype))
        tile = fx.flat_divide(out, (64, d))[None, None, fx.block_idx.x * 2 + consumer, 0]
        mine = values_mma.get_slice(member).partition_C(tile)
        fx.copy(fx.make_copy_atom(fx.UniversalCopy32b(), dtype), result, mine)


def fetch(
    load: fx.nvgpu.TmaAtom, smem: fx.Pointer, barrier: fx.nvgpu.MBarrier, row: fx.Int32, rows: int, d: int
) -> None:
    """Rows to shared memory, in boxes as wide as the swizzle."""
    for i in range(d // BOX):
        load.load((row, i * BOX), smem + i * (rows * BOX), barrier)


def after(stage: fx.Int32, phase: fx.Int32) -> tuple[fx.Int32, fx.Int32]:
    """The next stage of the ring, and the parity of its phase."""
    wrapped = stage == STAGES - 1
    return wrapped.select(fx.Int32(0), stage + 1), wrapped.select(phase ^ 1, phase)


@flyc.jit
def specialized(
    q: fx.Tensor,
    k: fx.Tensor,
    v: fx.Tensor,
    out: fx.Tensor,
    length: fx.Int32,
    scale: fx.Float32,
    d: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):
    """`length` is a multiple of 128, d is 64 or 128."""
    nv = fx.nvgpu
    load_q, load_k, load_v = (
        nv.make_tma_atom(nv.TMALoad(), x, None, (rows, BOX), swizzle=128)
        for x, rows in ((q, ROWS), (k, KEYS), (v, KEYS))
    )
    rows, _ = q.shape.unpack()
    smem = 2 * d * (ROWS + 2 * STAGES * KEYS) + 8 * (1 + 4 * STAGES)
    specialized_kernel(load_q, load_k, load_v, out, length, scale, d, value_attrs={"nvvm.minctasm": 1}).launch(
        grid=rows // ROWS, block=THREADS, smem=smem, stream=stream
    )
