"""Elements, coordinates and simple control flow."""

from __future__ import annotations

import torch

import flydsl.compiler as flyc
import flydsl.expr as fx

from .case import Call, poison, program, randint, randn


@flyc.kernel
def axpy_kernel(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor, alpha: fx.Float32, n: fx.Int32):
    i = fx.block_idx.x * fx.block_dim.x + fx.thread_idx.x
    if i < n:
        out[i] = alpha * x[i] + y[i]


@flyc.jit
def axpy(
    x: fx.Tensor, y: fx.Tensor, out: fx.Tensor, alpha: fx.Float32, n: fx.Int32, stream: fx.Stream = fx.Stream(None)
):
    axpy_kernel(x, y, out, alpha, n).launch(grid=(fx.ceildiv(n, 128), 1, 1), block=(128, 1, 1), stream=stream)


@program(axpy)
def axpy_odd_size():
    x, y, out = randn(301), randn(301), poison(301)
    return Call([x, y, out, 0.75, 301], [(out, 0.75 * x.double() + y.double())], terms=2)


@flyc.kernel
def transpose_kernel(src: fx.Tensor, dst: fx.Tensor):
    rows, cols = src.shape.unpack()
    c = fx.block_idx.x * 16 + fx.thread_idx.x
    r = fx.block_idx.y * 16 + fx.thread_idx.y
    if r < rows and c < cols:
        dst[c, r] = src[r, c]


@flyc.jit
def transpose(src: fx.Tensor, dst: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
    rows, cols = src.shape.unpack()
    transpose_kernel(src, dst).launch(grid=((cols + 15) // 16, (rows + 15) // 16, 1), block=(16, 16, 1), stream=stream)


@program(transpose)
def transpose_plain():
    src, dst = randn(19, 37), poison(37, 19)
    return Call([src, dst], [(dst, src.T.double())])


@flyc.kernel
def collatz_kernel(start: fx.Tensor, steps: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        v = start[i]
        count = fx.Int32(0)
        while v != 1 and count < 200:
            v = v // 2 if v % 2 == 0 else 3 * v + 1
            count += 1
        steps[i] = count


@flyc.jit
def collatz(start: fx.Tensor, steps: fx.Tensor, n: fx.Int32):
    collatz_kernel(start, steps, n).launch(grid=(fx.ceildiv(n, 64), 1, 1), block=(64, 1, 1))


@program(collatz)
def while_loop():
    start, steps = randint(1, 1000, 100), poison(100, dtype=torch.int32)
    wanted = []
    for v in start.tolist():
        n = 0
        while v != 1 and n < 200:
            v, n = v // 2 if v % 2 == 0 else 3 * v + 1, n + 1
        wanted.append(n)
    return Call([start, steps, 100], [(steps, torch.tensor(wanted))])
