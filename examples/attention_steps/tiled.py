"""Steps 2 to 4: one kernel that walks along the keys, and keeps a maximum and a sum for each row (online softmax).

The products are a `TiledMma`, so the same source multiplies with scalar instructions (step 2) and with the matrix
instructions of NVIDIA's and AMD's GPUs (step 3). Scores go through shared memory, where threads find them by rows.
`fold` (step 4) has the scale and log2(e) in one factor in front of exp2.
"""

import flydsl.compiler as flyc
import flydsl.expr as fx

ROWS, KEYS, STEP = 64, 32, 16
"""Queries of a block, keys of a step, and what one call of `gemm` goes along k."""
PAD = 8
"""Elements between rows in shared memory, so that rows start in different banks."""
LOG2E = 1.4426950408889634


@flyc.kernel
def tiled_kernel(
    q: fx.Tensor,
    k: fx.Tensor,
    v: fx.Tensor,
    out: fx.Tensor,
    length: fx.Int32,
    scale: fx.Float32,
    mma: fx.TiledMma,
    dtype: type[fx.Numeric],
    d: fx.Constexpr[int],
    members: fx.Constexpr[int],
    fold: fx.Constexpr[bool],
):
    tid = fx.thread_idx.x
    base = fx.get_dyn_shared(dtype)
    smem_q = fx.make_view(base, fx.make_layout((ROWS, d), (d + PAD, 1)))
    smem_k = fx.make_view(base + ROWS * (d + PAD), fx.make_layout((KEYS, d), (d + PAD, 1)))
    base_v = base + (ROWS + KEYS) * (d + PAD)
    smem_v = fx.make_view(base_v, fx.make_layout((KEYS, d), (d + PAD, 1)))
    turned = fx.make_view(base_v, fx.make_layout((d, KEYS), (1, d + PAD)))
    base_w = base_v + KEYS * (d + PAD)
    weights = fx.make_view(base_w, fx.make_layout((ROWS, KEYS), (KEYS + PAD, 1)))
    base_s = fx.recast_iter(fx.Float32, base_w + ROWS * (KEYS + PAD))
    scores = fx.make_view(base_s, fx.make_layout((ROWS, KEYS), (KEYS + 4, 1)))
    factors = base_s + ROWS * (KEYS + 4)

    first = fx.block_idx.x * ROWS
    head = first // length * length
    product = mma.get_slice(tid)
    found = product.make_fragment_C(scores)
    sums = product.make_fragment_C(fx.make_view(base_s, fx.make_layout((ROWS, d), (d, 1))))
    by_rows = product.partition_C(fx.make_view(factors, fx.make_layout((ROWS, d), (1, 0))))
    lanes = members // ROWS
    each = KEYS // lanes
    row, lane = tid // lanes, tid % lanes

    fetch(q, smem_q, first, ROWS * d, d, members)
    sums.fill(0.0)
    highest, total = fx.Float32(float("-inf")), fx.Float32(0.0)
    for step in range(length // KEYS):
        fx.barrier()
        fetch(k, smem_k, head + step * KEYS, KEYS * d, d, members)
        fetch(v, smem_v, head + step * KEYS, KEYS * d, d, members)
        fx.barrier()
        found.fill(0.0)
        multiply(mma, found, smem_q, smem_k, d)
        write = fx.make_tiled_copy_C(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), mma).get_slice(tid)
        fx.copy(write, write.retile(found), write.partition_D(scores))
        fx.barrier()
        # A row's maximum so far, of all threads that have some of it.
        mine = fx.make_rmem_tensor(each, fx.Float32)
        top = highest
        for i in fx.range_constexpr(each):
            mine[i] = scores[row, lane + i * lanes]
            top = fx.maximumf(top, mine[i])
        for i in fx.range_constexpr(lanes.bit_length() - 1):
            top = fx.maximumf(top, fx.shuffle_xor(top, 1 << i, lanes))
        # What was summed up before counts less by this factor, if the maximum has grown.
        factor = power(highest, top, scale, fold)
        part = 0.0
        for i in fx.range_constexpr(each):
            weight = power(mine[i], top, scale, fold)
            part = part + weight
            weights[row, lane + i * lanes] = dtype(weight)
        total, highest = total * factor + part, top
        if lane == 0:
            factors[row] = factor
        fx.barrier()
        values = sums.load()
        sums.store(values * by_rows.load().reshape(values.shape))
        multiply(mma, sums, weights, turned, KEYS)
    for i in fx.range_constexpr(lanes.bit_length() - 1):
        total = total + fx.shuffle_xor(total, 1 << i, lanes)
    fx.barrier()
    if lane == 0:
        factors[row] = 1.0 / total
    fx.barrier()
    values = sums.load()
    result = fx.make_fragment_like(sums, dtype=out.dtype)
    result.store((values * by_rows.load().reshape(values.shape)).to(out.dtype))
    tile = fx.flat_divide(out, (ROWS, d))[None, None, fx.block_idx.x, 0]
    single = fx.make_copy_atom(fx.UniversalCopy(out.dtype.width), out.dtype)
    leave = fx.make_tiled_copy_C(single, mma).get_slice(tid)
    fx.copy(leave, leave.retile(result), leave.partition_D(tile))


def power(score: fx.Float32, top: fx.Float32, scale: fx.Float32, fold: bool) -> fx.Float32:
    """exp((score - top) * scale), or what the instruction gives for 2 to that power in its units."""
    if fold:
        factor = scale * LOG2E
        return fx.exp2(fx.fma(score, factor, -(top * factor)), fastmath="fast")
    return fx.exp((score - top) * scale)


@flyc.jit
def fetch(x: fx.Tensor, smem: fx.Tensor, first: fx.Int32, count: int, d: int, members: int):
    """Rows from `first` on, by all threads of the block."""
    for i in range(fx.thread_idx.x, count, members):
        smem[i // d, i % d] = smem.dtype(x[first + i // d, i % d])


def multiply(mma: fx.TiledMma, acc: fx.Tensor, a: fx.Tensor, b: fx.Tensor, depth: int) -> None:
    """acc += a b^T, both in shared memory, a step of k at a time."""
    tid, width = fx.thread_idx.x, a.dtype.width
    product = mma.get_slice(tid)
    single = fx.make_copy_atom(fx.UniversalCopy(width), a.dtype)
    read_a = fx.make_tiled_copy_A(single, mma).get_slice(tid)
    read_b = fx.make_tiled_copy_B(single, mma).get_slice(tid)
    for i in range(depth // STEP):
        part_a = fx.flat_divide(a, (a.shape[0], STEP))[None, None, 0, i]
        part_b = fx.flat_divide(b, (b.shape[0], STEP))[None, None, 0, i]
        held_a, held_b = product.make_fragment_A(part_a), product.make_fragment_B(part_b)
        fx.copy(read_a, read_a.partition_S(part_a), read_a.retile(held_a))
        fx.copy(read_b, read_b.partition_S(part_b), read_b.retile(held_b))
        fx.gemm(mma, acc, held_a, held_b, acc)


@flyc.jit
def tiled(
    q: fx.Tensor,
    k: fx.Tensor,
    v: fx.Tensor,
    out: fx.Tensor,
    length: fx.Int32,
    scale: fx.Float32,
    d: fx.Constexpr[int],
    matrix: fx.Constexpr[bool],
    fold: fx.Constexpr[bool],
    stream: fx.Stream = fx.Stream(None),
):
    """`matrix`: by matrix instructions, in the arguments' type; else by scalar ones, in f32."""
    target, dtype, threads = fx.target(), q.dtype, 4 * fx.target().warp_size
    if not matrix:
        dtype, threads = fx.Float32, 128
        mma = fx.make_tiled_mma(fx.make_mma_atom(fx.UniversalFMA(dtype)), fx.make_layout((16, 8, 1), (1, 16, 0)))
    else:
        atom = fx.rocdl.MFMA(16, 16, 16, dtype) if target.has("mfma") else fx.nvgpu.MMA(16, 8, 16, dtype)
        mma = fx.make_tiled_mma(fx.make_mma_atom(atom), fx.make_layout((4, 1, 1), (1, 0, 0)))
    halves = (ROWS + 2 * KEYS) * (d + PAD) + ROWS * (KEYS + PAD)
    smem = halves * dtype.width // 8 + 4 * ROWS * (KEYS + 5)
    rows, _ = q.shape.unpack()
    tiled_kernel(q, k, v, out, length, scale, mma, dtype, d, threads, fold).launch(
        grid=rows // ROWS, block=threads, smem=smem, stream=stream
    )
