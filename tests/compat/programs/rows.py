"""Norms and softmax over rows, with reductions over lanes and blocks."""

from __future__ import annotations

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.expr import arith, coop
from flydsl.expr.typing import Vector as Vec

from .case import CDNA, Call, poison, program, randn

BLOCK = 64
VEC = 8


@flyc.kernel
def rmsnorm_kernel(x: fx.Tensor, weight: fx.Tensor, out: fx.Tensor, n: fx.Constexpr[int], eps: fx.Constexpr[float]):
    row, t = fx.block_idx.x, fx.thread_idx.x
    reduce = fx.coop.BlockReduce[fx.Float32, BLOCK]
    scratch = fx.SharedAllocator().allocate(reduce.SharedStorage).peek()
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), fx.BFloat16)
    lines = [fx.rocdl.make_buffer_tensor(v) for v in (x, out)]
    line_x, line_out = (fx.logical_divide(fx.slice(v, (row, None)), fx.make_layout(VEC, 1)) for v in lines)
    line_w = fx.logical_divide(fx.rocdl.make_buffer_tensor(weight), fx.make_layout(VEC, 1))
    kept = []
    total = fx.Float32(0.0)
    for i in fx.range_constexpr(n // (BLOCK * VEC)):
        regs = fx.make_rmem_tensor(fx.make_layout(VEC, 1), fx.BFloat16)
        fx.copy(atom, fx.slice(line_x, (None, i * BLOCK + t)), regs)
        v = regs.load().to(fx.Float32)
        kept.append(v)
        total += (v * v).reduce(fx.ReductionOp.ADD)
    mean = reduce(total, fx.ReductionOp.ADD, storage=scratch) / float(n)
    scale = fx.math.rsqrt(mean + eps, fastmath=arith.FastMathFlags.fast)
    for i in fx.range_constexpr(n // (BLOCK * VEC)):
        regs = fx.make_rmem_tensor(fx.make_layout(VEC, 1), fx.BFloat16)
        fx.copy(atom, fx.slice(line_w, (None, i * BLOCK + t)), regs)
        regs.store((kept[i] * scale * regs.load().to(fx.Float32)).to(fx.BFloat16))
        fx.copy(atom, regs, fx.slice(line_out, (None, i * BLOCK + t)))


@flyc.jit
def rmsnorm(
    x: fx.Tensor, weight: fx.Tensor, out: fx.Tensor, m: fx.Int32, n: fx.Constexpr[int], eps: fx.Constexpr[float]
):
    rmsnorm_kernel(x, weight, out, n, eps).launch(grid=(m, 1, 1), block=(BLOCK, 1, 1))


@program(rmsnorm)
def rmsnorm_bf16():
    x, w, out = (randn(*s, dtype=torch.bfloat16) for s in ((5, 1024), (1024,), (5, 1024)))
    wide = x.double()
    wanted = wide * (wide.square().mean(1, keepdim=True) + 1e-5).rsqrt() * w.double()
    return Call([x, w, out, 5, 1024, 1e-5], [(out, wanted)], rtol=1e-5)


@flyc.kernel
def softmax_kernel(x: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    """Any number of columns: each thread walks its row in steps of the block."""
    row, t = fx.block_idx.x, fx.thread_idx.x
    reduce = coop.BlockReduce[fx.Float32, fx.known_block_size()]
    scratch = fx.SharedAllocator().allocate(reduce.SharedStorage).peek()
    top = fx.Float32(float("-inf"))
    for c in range(t, n, 128):
        top = fx.max(top, x[row, c])
    top = reduce(top, fx.ReductionOp.MAX, storage=scratch)
    total = fx.Float32(0.0)
    for c in range(t, n, 128):
        total = total + fx.exp2((x[row, c] - top) * 1.4426950408889634, fastmath=arith.FastMathFlags.fast)
    fx.barrier()
    total = reduce(total, fx.ReductionOp.ADD, storage=scratch)
    scale = 1.0 / total
    for c in range(t, n, 128):
        out[row, c] = fx.exp2((x[row, c] - top) * 1.4426950408889634, fastmath=arith.FastMathFlags.fast) * scale


@flyc.jit
def softmax(x: fx.Tensor, out: fx.Tensor, m: fx.Int32, n: fx.Int32):
    softmax_kernel(x, out, n).launch(grid=(m, 1, 1), block=(128, 1, 1))


@program(softmax)
def softmax_any_width():
    x, out = randn(3, 333), poison(3, 333)
    return Call([x, out, 3, 333], [(out, x.double().softmax(1))], rtol=1e-5)


@flyc.kernel
def layernorm_kernel(x: fx.Tensor, gamma: fx.Tensor, beta: fx.Tensor, out: fx.Tensor, n: fx.Constexpr[int]):
    """A wave for each row; sums by shuffles."""
    lanes = fx.num_warp_threads()
    row = fx.block_idx.x
    lane = fx.lane_id()
    per = n // lanes
    view = fx.logical_divide(fx.slice(x, (row, None)), fx.make_layout(per, 1))
    mine = fx.make_rmem_tensor(per, fx.Float32)
    fx.copy(fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float32), fx.slice(view, (None, lane)), mine)
    v = mine.load()
    mean = warp_sum(v.reduce("add"), lanes) / n
    centred = v - mean
    variance = warp_sum((centred * centred).reduce(fx.ReductionOp.ADD), lanes) / n
    scale = fx.rsqrt(variance + 1e-6, fastmath="fast")
    g = fx.slice(fx.logical_divide(gamma, fx.make_layout(per, 1)), (None, lane))
    b = fx.slice(fx.logical_divide(beta, fx.make_layout(per, 1)), (None, lane))
    back = fx.slice(fx.logical_divide(fx.slice(out, (row, None)), fx.make_layout(per, 1)), (None, lane))
    back.store(centred * scale * g.load() + b.load())


def warp_sum(value, lanes):
    offset = lanes // 2
    while offset:
        value = value + fx.shuffle_xor(value, offset, lanes)
        offset //= 2
    return value


@flyc.jit
def layernorm(x: fx.Tensor, gamma: fx.Tensor, beta: fx.Tensor, out: fx.Tensor, m: fx.Int32, n: fx.Constexpr[int]):
    layernorm_kernel(x, gamma, beta, out, n).launch(grid=(m, 1, 1), block=(fx.num_warp_threads(), 1, 1))


@program(layernorm, CDNA)
def layernorm_of_waves():
    x, g, b, out = randn(6, 128), randn(128), randn(128), poison(6, 128)
    wide = x.double()
    wanted = torch.nn.functional.layer_norm(wide, (128,), g.double(), b.double(), 1e-6)
    return Call([x, g, b, out, 6, 128], [(out, wanted)], rtol=1e-5, atol=1e-5)


@flyc.kernel
def collect_kernel(x: fx.Tensor, out: fx.Tensor, lengths: fx.Tensor):
    t = fx.thread_idx.x
    v = x[t]
    out[0, t] = coop.warp_reduce(v, fx.ReductionOp.ADD)
    out[1, t] = coop.warp_reduce(v, fx.ReductionOp.MAX, width=16)
    out[2, t] = coop.warp_inclusive_scan(v, fx.ReductionOp.ADD, width=32)
    out[3, t] = coop.warp_exclusive_scan(v, fx.ReductionOp.ADD, width=8, init=fx.Int32(100))
    scan = coop.BlockScan[fx.Int32, 128]
    scratch = fx.SharedAllocator().allocate(scan.SharedStorage).peek()
    both = Vec.from_elements([v, v + 1], fx.Int32)
    run, total = scan.inclusive_with_aggregate(both, fx.ReductionOp.ADD, storage=scratch)
    out[4, t] = run[1]
    lengths[t] = total


@flyc.jit
def collect(x: fx.Tensor, out: fx.Tensor, lengths: fx.Tensor):
    collect_kernel(x, out, lengths).launch(grid=(1, 1, 1), block=(128, 1, 1))


@program(collect, CDNA)
def reductions_and_scans():
    from .case import randint

    x, out, lengths = randint(-1000, 1000, 128), poison(5, 128, dtype=torch.int32), poison(128, dtype=torch.int32)
    v = x.long()
    waves = v.reshape(2, 64).sum(1, keepdim=True).expand(2, 64).reshape(-1)
    eights = v.reshape(-1, 8)
    wanted = [
        waves,
        v.reshape(-1, 16).max(1, keepdim=True).values.expand(-1, 16).reshape(-1),
        v.reshape(-1, 32).cumsum(1).reshape(-1),
        (100 + eights.cumsum(1) - eights).reshape(-1),
        (2 * v + 1).cumsum(0),
    ]
    return Call([x, out, lengths], [(out, torch.stack(wanted)), (lengths, (2 * v + 1).sum().expand(128))])
