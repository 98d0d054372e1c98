"""Steps 5 and 6: weights stay in the registers they were computed in; with two stages, keys and values of the next step
are on their way while this one is multiplied. For NVIDIA GPUs from sm_80 on.

Four warps have 16 rows each. What `mma.sync` leaves in a thread's registers, two neighbours of eight columns in two
rows, is what it takes as its first operand: scores become weights without leaving the thread.
"""

import flydsl.compiler as flyc
import flydsl.expr as fx

ROWS, KEYS, THREADS = 64, 64, 128
LOG2E = 1.4426950408889634


@flyc.kernel
def pipelined_kernel(
    q: fx.Tensor,
    k: fx.Tensor,
    v: fx.Tensor,
    out: fx.Tensor,
    length: fx.Int32,
    scale: fx.Float32,
    mma: fx.TiledMma,
    fill: fx.TiledCopy,
    d: fx.Constexpr[int],
    stages: fx.Constexpr[int],
):
    nv, tid, dtype = fx.nvgpu, fx.thread_idx.x, q.dtype
    base = fx.get_dyn_shared(dtype)
    # Three bits of the row permute the 16-byte units of a row, so that the rows of a matrix lie in different banks.
    swizzle = fx.static(fx.SwizzleType.get(3, 4, 3 if d == 64 else 4))
    base_k, base_v = base + ROWS * d, base + (ROWS + stages * KEYS) * d
    smem_q = fx.make_view(fx.apply_swizzle(base, swizzle), fx.make_layout((ROWS, d), (d, 1)))
    rows, columns = fx.make_layout((KEYS, d, stages), (d, 1, KEYS * d)), (d, KEYS, stages)
    smem_k = fx.make_view(fx.apply_swizzle(base_k, swizzle), rows)
    smem_v = fx.make_view(fx.apply_swizzle(base_v, swizzle), rows)
    turned = fx.make_view(fx.apply_swizzle(base_v, swizzle), fx.make_layout(columns, (1, d, KEYS * d)))

    mover, product = fill.get_slice(tid), mma.get_slice(tid)
    unit = fx.make_copy_atom(nv.CpAsync(128, "cg"), dtype)
    first = fx.block_idx.x * ROWS
    steps = length // KEYS
    head = first // length * steps
    tiles_k, tiles_v = (fx.flat_divide(x, (KEYS, d))[None, None, None, 0] for x in (k, v))
    held_q = product.make_fragment_A(smem_q)
    held_k = product.make_fragment_B(smem_k[None, None, 0])
    held_v = product.make_fragment_B(turned[None, None, 0])
    scores = product.make_fragment_C(fx.make_view(base, fx.make_layout((ROWS, KEYS), (KEYS, 1))))
    sums = product.make_fragment_C(fx.make_view(base, fx.make_layout((ROWS, d), (d, 1))))
    weights = product.make_fragment_A(fx.make_view(base, fx.make_layout((ROWS, KEYS), (KEYS, 1))))
    highest, total = (fx.make_rmem_tensor(2, fx.Float32) for _ in range(2))
    straight, across = fx.make_copy_atom(nv.LdMatrix(4), dtype), fx.make_copy_atom(nv.LdMatrix(4, trans=True), dtype)
    read_q = fx.make_tiled_copy_A(straight, mma).get_slice(tid)
    read_k = fx.make_tiled_copy_B(straight, mma).get_slice(tid)
    read_v = fx.make_tiled_copy_B(across, mma).get_slice(tid)

    def fetch(step: fx.Int32, stage: fx.Int32):
        for tiles, smem in ((tiles_k, smem_k), (tiles_v, smem_v)):
            source, place = tiles[None, None, head + step], smem[None, None, stage]
            fx.copy(unit, mover.partition_S(source), mover.partition_D(place))

    tile_q = fx.flat_divide(q, (ROWS, d))[None, None, fx.block_idx.x, 0]
    fx.copy(unit, mover.partition_S(tile_q), mover.partition_D(smem_q))
    if fx.const_expr(stages > 1):
        fetch(fx.Int32(0), fx.Int32(0))
    nv.cp_async_commit()
    nv.cp_async_wait(0)
    fx.barrier()
    fx.copy(read_q, read_q.partition_S(smem_q), read_q.retile(held_q))
    sums.fill(0.0)
    total.fill(0.0)
    highest.fill(-1e30)
    factor = scale * LOG2E
    for step in range(steps):
        stage = step % stages
        if fx.const_expr(stages == 1):
            fetch(step, stage)
            nv.cp_async_commit()
        nv.cp_async_wait(0)
        fx.barrier()
        if fx.const_expr(stages > 1):
            # Everyone has passed the barrier, so nobody reads the other stage any more.
            if step + 1 < steps:
                fetch(step + 1, (step + 1) % stages)
            nv.cp_async_commit()
        fx.copy(read_k, read_k.partition_S(smem_k[None, None, stage]), read_k.retile(held_k))
        scores.fill(0.0)
        fx.gemm(mma, scores, held_q, held_k, scores)
        factors = softmax_step(scores, highest, total, factor)
        weights.store(scores.load().to(dtype).reshape(weights.load().shape))
        values = sums.load()
        sums.store(values * of_rows(factors, values.numel).reshape(values.shape))
        fx.copy(read_v, read_v.partition_S(turned[None, None, stage]), read_v.retile(held_v))
        fx.gemm(mma, sums, weights, held_v, sums)
        if fx.const_expr(stages == 1):
            fx.barrier()
    shares = [1.0 / over_quad(total[r], lambda a, b: a + b) for r in range(2)]
    values = sums.load()
    result = fx.make_fragment_like(sums, dtype=dtype)
    result.store((values * of_rows(shares, values.numel).reshape(values.shape)).to(dtype))
    tile = fx.flat_divide(out, (ROWS, d))[None, None, fx.block_idx.x, 0]
    fx.copy(fx.make_copy_atom(fx.UniversalCopy32b(), dtype), result, product.partition_C(tile))


def over_quad(x, combine):
    """The values of the four threads that share a row, combined."""
    x = combine(x, fx.shuffle_xor(x, 1))
    return combine(x, fx.shuffle_xor(x, 2))


def of_rows(pair, count: int) -> fx.Vector:
    """A number of each of the two rows, for all of a thread's values: two of the first, two of the second, again."""
    both = fx.Vector.from_elements(list(pair), fx.Float32)
    return both.shuffle(both, [i // 2 % 2 for i in range(count)])


def softmax_step(scores: fx.Tensor, highest: fx.Tensor, total: fx.Tensor, factor: fx.Float32) -> list:
    """Scores become weights; what earlier sums count now is the result."""
    values = scores.load()
    count = values.numel
    flat = values.reshape((count,))
    factors, shifts = [], []
    for r in range(2):
        mine = [flat[i] for i in range(count) if i // 2 % 2 == r]
        while len(mine) > 1:
            mine = [fx.maxnumf(a, b) for a, b in zip(mine[::2], mine[1::2], strict=True)]
        top = fx.maxnumf(over_quad(mine[0], fx.maxnumf), highest[r])
        factors.append(fx.exp2((highest[r] - top) * factor, fastmath="fast"))
        shifts.append(-(top * factor))
        highest[r] = top
    weights = fx.exp2(
        fx.fma(flat, fx.Vector.filled(count, factor, fx.Float32), of_rows(shifts, count)), fastmath="fast"
    )
    for r in range(2):
        mine = [weights[i] for i in range(count) if i // 2 % 2 == r]
        while len(mine) > 1:
            mine = [a + b for a, b in zip(mine[::2], mine[1::2], strict=True)]
        total[r] = fx.fma(total[r], factors[r], mine[0])
    scores.store(weights.reshape(values.shape))
    return factors


@flyc.jit
def pipelined(
    q: fx.Tensor,
    k: fx.Tensor,
    v: fx.Tensor,
    out: fx.Tensor,
    length: fx.Int32,
    scale: fx.Float32,
    d: fx.Constexpr[int],
    stages: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):
    """`stages` is 1 or 2; d is 64 or 128."""
    nv, dtype = fx.nvgpu, q.dtype
    mma = fx.make_tiled_mma(
        fx.make_mma_atom(nv.MMA(16, 8, 16, dtype)), fx.make_layout((4, 1, 1), (1, 0, 0)), (64, 16, 16)
    )
    lanes = d // 8
    fill = fx.make_tiled_copy_tv(
        fx.make_copy_atom(nv.CpAsync(128, "cg"), dtype),
        fx.make_layout((THREADS // lanes, lanes), (lanes, 1)),
        fx.make_layout((1, 8), (8, 1)),
    )
    rows, _ = q.shape.unpack()
    smem = 2 * d * (ROWS + 2 * stages * KEYS)
    pipelined_kernel(q, k, v, out, length, scale, mma, fill, d, stages).launch(
        grid=rows // ROWS, block=THREADS, smem=smem, stream=stream
    )
