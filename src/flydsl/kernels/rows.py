"""Operations on the rows of a matrix: softmax, RMS norm, layer norm. One block per row, any row length, every target.

f32, f16 or bf16 in and out; sums and statistics are f32.
"""

from __future__ import annotations

import flydsl.compiler as flyc
import flydsl.expr as fx

THREADS = 256
LOG2E = 1.4426950408889634


@flyc.kernel
def softmax_kernel(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    reduce = fx.coop.BlockReduce[fx.Float32, THREADS]
    scratch = fx.SharedAllocator().allocate(reduce.SharedStorage).peek()
    row, first = fx.block_idx.x, fx.thread_idx.x
    largest = fx.Float32(float("-inf"))
    for c in range(first, n, THREADS):
        largest = fx.maxnumf(largest, fx.Float32(x[row, c]))
    largest = reduce(largest, fx.ReductionOp.MAX, storage=scratch)
    fx.barrier()
    total = fx.Float32(0.0)
    for c in range(first, n, THREADS):
        total = total + fx.exp2((fx.Float32(x[row, c]) - largest) * LOG2E)
    total = reduce(total, fx.ReductionOp.ADD, storage=scratch)
    for c in range(first, n, THREADS):
        out[row, c] = out.dtype(fx.exp2((fx.Float32(x[row, c]) - largest) * LOG2E) / total)


@flyc.jit
def softmax(x: fx.Tensor, out: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    """Softmax of every row."""
    m, n = x.shape.unpack()
    softmax_kernel(x, out, n).launch(grid=m, block=THREADS, stream=stream)


@flyc.kernel
def rms_norm_kernel(x: fx.Tensor, weight: fx.Tensor, out: fx.Tensor, n: fx.Int32, eps: fx.Float32):
    reduce = fx.coop.BlockReduce[fx.Float32, THREADS]
    scratch = fx.SharedAllocator().allocate(reduce.SharedStorage).peek()
    row, first = fx.block_idx.x, fx.thread_idx.x
    total = fx.Float32(0.0)
    for c in range(first, n, THREADS):
        v = fx.Float32(x[row, c])
        total = total + v * v
    total = reduce(total, fx.ReductionOp.ADD, storage=scratch)
    scale = fx.rsqrt(total / fx.Float32(n) + eps)
    for c in range(first, n, THREADS):
        out[row, c] = out.dtype(fx.Float32(x[row, c]) * scale * fx.Float32(weight[c]))


@flyc.jit
def rms_norm(x: fx.Tensor, weight: fx.Tensor, out: fx.Tensor, eps: fx.Float32, stream: fx.Stream = fx.Stream(None)):
    """Every row divided by its root mean square, times `weight`."""
    m, n = x.shape.unpack()
    rms_norm_kernel(x, weight, out, n, eps).launch(grid=m, block=THREADS, stream=stream)


@flyc.kernel
def layer_norm_kernel(x: fx.Tensor, weight: fx.Tensor, bias: fx.Tensor, out: fx.Tensor, n: fx.Int32, eps: fx.Float32):
    reduce = fx.coop.BlockReduce[fx.Float32, THREADS]
    scratch = fx.SharedAllocator().allocate(reduce.SharedStorage).peek()
    row, first = fx.block_idx.x, fx.thread_idx.x
    total = fx.Float32(0.0)
    for c in range(first, n, THREADS):
        total = total + fx.Float32(x[row, c])
    mean = reduce(total, fx.ReductionOp.ADD, storage=scratch) / fx.Float32(n)
    fx.barrier()
    spread = fx.Float32(0.0)
    for c in range(first, n, THREADS):
        d = fx.Float32(x[row, c]) - mean
        spread = spread + d * d
    scale = fx.rsqrt(reduce(spread, fx.ReductionOp.ADD, storage=scratch) / fx.Float32(n) + eps)
    for c in range(first, n, THREADS):
        v = (fx.Float32(x[row, c]) - mean) * scale
        out[row, c] = out.dtype(v * fx.Float32(weight[c]) + fx.Float32(bias[c]))


@flyc.jit
def layer_norm(
    x: fx.Tensor,
    weight: fx.Tensor,
    bias: fx.Tensor,
    out: fx.Tensor,
    eps: fx.Float32,
    stream: fx.Stream = fx.Stream(None),
):
    """Every row less its mean, divided by its standard deviation, times `weight` plus `bias`."""
    m, n = x.shape.unpack()
    layer_norm_kernel(x, weight, bias, out, n, eps).launch(grid=m, block=THREADS, stream=stream)


__all__ = ["layer_norm", "rms_norm", "softmax"]
