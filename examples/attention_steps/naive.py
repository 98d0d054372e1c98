"""Step 1: three kernels, one for each line of the formula, with all scores in memory."""

import flydsl.compiler as flyc
import flydsl.expr as fx

THREADS = 128


@flyc.kernel
def scores_kernel(q: fx.Tensor, k: fx.Tensor, scores: fx.Tensor, length: fx.Int32, scale: fx.Float32):
    row, key = fx.block_idx.x, fx.block_idx.y * THREADS + fx.thread_idx.x
    first = row // length * length
    if key < length:
        total = 0.0
        for e in range(q.shape[1]):
            total = total + fx.Float32(q[row, e]) * fx.Float32(k[first + key, e])
        scores[row, key] = total * scale


@flyc.kernel
def softmax_kernel(scores: fx.Tensor, length: fx.Int32):
    reduce = fx.coop.BlockReduce[fx.Float32, THREADS]
    scratch = fx.SharedAllocator().allocate(reduce.SharedStorage).peek()
    row, tid = fx.block_idx.x, fx.thread_idx.x
    top = fx.Float32(float("-inf"))
    for key in range(tid, length, THREADS):
        top = fx.maximumf(top, scores[row, key])
    top = reduce(top, fx.ReductionOp.MAX, storage=scratch)
    fx.barrier()
    total = 0.0
    for key in range(tid, length, THREADS):
        weight = fx.exp(scores[row, key] - top)
        scores[row, key] = weight
        total = total + weight
    total = reduce(total, fx.ReductionOp.ADD, storage=scratch)
    for key in range(tid, length, THREADS):
        scores[row, key] = scores[row, key] / total


@flyc.kernel
def sums_kernel(scores: fx.Tensor, v: fx.Tensor, out: fx.Tensor, length: fx.Int32):
    row, e = fx.block_idx.x, fx.thread_idx.x
    first = row // length * length
    total = 0.0
    for key in range(length):
        total = total + scores[row, key] * fx.Float32(v[first + key, e])
    out[row, e] = out.dtype(total)


@flyc.jit
def naive(
    q: fx.Tensor,
    k: fx.Tensor,
    v: fx.Tensor,
    out: fx.Tensor,
    scores: fx.Tensor,
    length: fx.Int32,
    scale: fx.Float32,
    d: fx.Constexpr[int],
    stream: fx.Stream = fx.Stream(None),
):
    """`scores` are (heads * length, length) numbers of f32 that exist for these three launches only."""
    rows, _ = q.shape.unpack()
    grid = (rows, fx.ceildiv(length, THREADS))  # the second extent ends at 65535
    scores_kernel(q, k, scores, length, scale).launch(grid=grid, block=THREADS, stream=stream)
    softmax_kernel(scores, length).launch(grid=rows, block=THREADS, stream=stream)
    sums_kernel(scores, v, out, length).launch(grid=rows, block=d, stream=stream)
