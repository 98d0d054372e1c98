"""What programs do on the host: questions, hints, known blocks, several kernels, tuning, random numbers, printing."""

from __future__ import annotations

import os

import torch

import flydsl
import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.kernel_function import CompilationContext
from flydsl.expr import meta

from .case import Call, poison, program, randint, randn

if "ARCH" in os.environ or "FLYDSL_COMPILE_ARCH" in os.environ:
    assert fx.num_warp_threads() in (32, 64)
assert fx.Int32.width == 32
assert fx.Stream(None).value is None


@flyc.kernel(known_block_size=(64, 1, 1))
def known_kernel(x: fx.Tensor, out: fx.Tensor):
    threads, _, _ = fx.known_block_size()
    t = fx.thread_idx.x
    out[t] = x[threads - 1 - t] * float(threads)


@flyc.jit
def known(x: fx.Tensor, out: fx.Tensor):
    known_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(known)
def known_block():
    x, out = randn(64), poison(64)
    return Call([x, out], [(out, 64 * x.double().flip(0))])


@flyc.kernel
def first_kernel(x: fx.Tensor, tmp: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        tmp[i] = x[i] * x[i]


@flyc.kernel(name="second_step")
def second_kernel(tmp: fx.Tensor, out: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        out[i] = tmp[n - 1 - i] + 1.0


class Pipeline:
    """Methods are kernels and jit functions too."""

    factor = 2.0

    @flyc.kernel
    def third(self, out: fx.Tensor, n: fx.Int32):
        i = fx.block_idx.x * 64 + fx.thread_idx.x
        if i < n:
            out[i] = out[i] * self.factor


PIPELINE = Pipeline()


@flyc.jit
def steps(x: fx.Tensor, tmp: fx.Tensor, out: fx.Tensor, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    blocks = (n + 63) // 64
    first_kernel(x, tmp, n).launch(grid=(blocks, 1, 1), block=(64, 1, 1), stream=stream)
    second_kernel(tmp, out, n).launch(grid=(blocks, 1, 1), block=(64, 1, 1), stream=stream)
    PIPELINE.third(out, n).launch(grid=(blocks, 1, 1), block=(64, 1, 1), stream=stream)


@program(steps)
def several_kernels():
    x, tmp, out = randn(150), poison(150), poison(150)
    return Call([x, tmp, out, 150], [(out, 2 * (x.double().square().flip(0) + 1))], terms=3)


@flyc.kernel
def noise_kernel(out: fx.Tensor, seed: fx.Int32, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        words = fx.random.universal.randint4x(seed, i)
        for j in fx.range_constexpr(4):
            out[i, j] = fx.Int32(words[j])


@flyc.jit
def noise(out: fx.Tensor, seed: fx.Int32, n: fx.Int32):
    noise_kernel(out, seed, n).launch(grid=(fx.ceildiv(n, 64), 1, 1), block=(64, 1, 1))


def philox(seed, offset):
    c, k = [offset, 0, 0, 0], [seed, 0]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return [v - (v >> 31 << 32) for v in c]


@program(noise)
def random_numbers():
    seed = int(randint(0, 1 << 30, 1))
    out = poison(100, 4, dtype=torch.int32)
    return Call([out, seed, 100], [(out, torch.tensor([philox(seed, i) for i in range(100)]))])


@flyc.jit
def hinted(x: fx.Tensor, out: fx.Tensor):
    known_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


flyc.compile[{"waves_per_eu": 2, "fast_fp_math": True}](hinted)


def run_hinted(*args):
    with CompilationContext.compile_hints({"fast_fp_math": True}):
        hinted(*args)


@program(hinted, run=run_hinted)
def compile_hints():
    x, out = randn(64), poison(64)
    return Call([x, out], [(out, 64 * x.double().flip(0))])


@flyc.kernel
def printing_kernel(x: fx.Tensor, out: fx.Tensor):
    t = fx.thread_idx.x
    if t == 3:
        fx.printf("thread {} has {} of {}", t, x[t], "three")
    with meta.tracing_context(depth=2):
        depth = meta.tracing_option("depth")
    out[t] = x[t] * float(depth)


@flyc.jit
def printing(x: fx.Tensor, out: fx.Tensor):
    printing_kernel(x, out).launch(grid=(1, 1, 1), block=(64, 1, 1))


@program(printing, flydsl="printing needs a device library")
def printed_values():
    x, out = randn(64), poison(64)
    return Call([x, out], [(out, 2 * x.double())])


@flyc.kernel
def tuned_kernel(x: fx.Tensor, out: fx.Tensor, n: fx.Int32, per: fx.Constexpr[int]):
    i = (fx.block_idx.x * 64 + fx.thread_idx.x) * per
    for j in fx.range_constexpr(per):
        if i + j < n:
            out[i + j] = x[i + j] + 1.0


@flydsl.autotune(configs=[flydsl.Config(per=1), flydsl.Config(per=4)], key=["n"], warmup=0, rep=1)
@flyc.jit
def tuned(x: fx.Tensor, out: fx.Tensor, n: fx.Int32, per: fx.Constexpr[int], stream: fx.Stream = fx.Stream(None)):
    tuned_kernel(x, out, n, per).launch(grid=(fx.ceildiv(n, 64 * per), 1, 1), block=(64, 1, 1), stream=stream)


@flyc.jit
def untuned(x: fx.Tensor, out: fx.Tensor, n: fx.Int32, per: fx.Constexpr[int]):
    tuned_kernel(x, out, n, per).launch(grid=(fx.ceildiv(n, 64 * per), 1, 1), block=(64, 1, 1))


def run_tuned(x, out, n, per):
    tuned(x, out, n)


@program(untuned, run=run_tuned)
def tuned_configurations():
    x, out = randn(200), poison(200)
    return Call([x, out, 200, 4], [(out, x.double() + 1)])
