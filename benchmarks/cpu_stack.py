"""The cpu stack against numpy and, with --peer, Triton's interpreter mode.

python benchmarks/cpu_stack.py [--peer] [--repeat 5]

Four kernels: an elementwise sum, a row softmax with warp shuffles and shared memory, a matrix product from MFMA atoms
(emulating gfx942), and an inclusive scan of rows with barriers in a loop. Results are checked before they are timed.
`--peer` installs Triton and CPU torch into `.bench-peer/triton` of the repository and times its interpreter there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("FLYDSL_COMPILE_BACKEND", "cpu")
os.environ.setdefault("FLYDSL_COMPILE_ARCH", "gfx942")

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.cpu.runtime import native as cpu_native

ROOT = Path(__file__).resolve().parents[1]
PEER = ROOT / ".bench-peer" / "triton"
WARP, BLOCK, ROW = 64, 256, 1024
TILE, STEP = 64, 16


@flyc.kernel
def add_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor):
    i = fx.block_idx.x * 1024 + fx.thread_idx.x
    c[i] = a[i] + b[i]


@flyc.jit
def add(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor):
    add_kernel(a, b, c).launch(grid=fx.get_scalar(c.shape[0]) // 1024, block=1024)


def warp_reduce(v, combine):
    for i in fx.range_constexpr(6):
        v = combine(v, fx.shuffle_xor(v, 32 >> i, WARP))
    return v


@flyc.kernel
def softmax_kernel(x: fx.Tensor, y: fx.Tensor):
    shared = fx.SharedAllocator()
    tops = shared.allocate(fx.Array[fx.Float32, BLOCK // WARP]).peek()
    sums = shared.allocate(fx.Array[fx.Float32, BLOCK // WARP]).peek()
    row, t = fx.block_idx.x, fx.thread_idx.x
    values = [x[row, t + BLOCK * i] for i in range(ROW // BLOCK)]
    top = values[0]
    for v in values[1:]:
        top = fx.arith.maximumf(top, v)
    top = warp_reduce(top, fx.arith.maximumf)
    if t % WARP == 0:
        tops[t // WARP] = top
    fx.barrier()
    top = tops[0]
    for i in fx.range_constexpr(1, BLOCK // WARP):
        top = fx.arith.maximumf(top, tops[i])
    values = [fx.math.exp(v - top) for v in values]
    total = values[0]
    for v in values[1:]:
        total = total + v
    total = warp_reduce(total, lambda p, q: p + q)
    if t % WARP == 0:
        sums[t // WARP] = total
    fx.barrier()
    total = sums[0]
    for i in fx.range_constexpr(1, BLOCK // WARP):
        total = total + sums[i]
    for i in fx.range_constexpr(ROW // BLOCK):
        y[row, t + BLOCK * i] = values[i] / total


@flyc.jit
def softmax(x: fx.Tensor, y: fx.Tensor):
    softmax_kernel(x, y).launch(grid=fx.get_scalar(x.shape[0]), block=BLOCK)


@flyc.kernel
def gemm_kernel(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, mma: fx.TiledMma):
    bm, bn, _ = fx.block_idx
    mine = mma.get_slice(fx.thread_idx.x)
    ga = fx.flat_divide(a, (TILE, STEP))[None, None, bm, None]
    gb = fx.flat_divide(b, (TILE, STEP))[None, None, bn, None]
    gc = fx.flat_divide(c, (TILE, TILE))[None, None, bm, bn]
    ta, tb, tc = mine.partition_A(ga), mine.partition_B(gb), mine.partition_C(gc)
    ra = mine.make_fragment_A(ga[None, None, 0])
    rb = mine.make_fragment_B(gb[None, None, 0])
    rc = mine.make_fragment_C(gc)
    rc.fill(0.0)
    copy = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float16)
    for k in range(fx.get_scalar(fx.size(ga.shape[2]))):
        fx.copy(copy, ta[None, None, None, k], ra)
        fx.copy(copy, tb[None, None, None, k], rb)
        fx.gemm(mma, rc, ra, rb, rc)
    tc.store(rc.load())


@flyc.jit
def gemm(a: fx.Tensor, b: fx.Tensor, c: fx.Tensor):
    atom = fx.make_mma_atom(fx.rocdl.MFMA(32, 32, 8, fx.Float16, fx.Float32))
    mma = fx.make_tiled_mma(atom, fx.make_layout((2, 2, 1), (1, 2, 0)))
    m, n = c.shape.unpack()
    gemm_kernel(a, b, c, mma).launch(grid=(m // TILE, n // TILE), block=256)


@flyc.kernel
def scan_kernel(x: fx.Tensor, y: fx.Tensor):
    s = fx.SharedAllocator().allocate(fx.Array[fx.Int32, ROW]).peek()
    row, t = fx.block_idx.x, fx.thread_idx.x
    s[t] = x[row, t]
    fx.barrier()
    d = fx.Int32(1)
    while d < ROW:
        v = fx.Int32(0)
        if t >= d:
            v = s[t - d]
        fx.barrier()
        s[t] = s[t] + v
        fx.barrier()
        d = d * 2
    y[row, t] = s[t]


@flyc.jit
def scan(x: fx.Tensor, y: fx.Tensor):
    scan_kernel(x, y).launch(grid=fx.get_scalar(x.shape[0]), block=ROW)


def numpy_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def cases(rng: np.random.Generator) -> dict[str, tuple[Callable[[], Any], Callable[[], Any], Callable[[], None]]]:
    """Name to our run, numpy's run, and a check of ours."""
    a, b = (rng.standard_normal(1 << 22).astype(np.float32) for _ in range(2))
    c = np.empty_like(a)
    x = rng.standard_normal((4096, ROW)).astype(np.float32)
    y = np.empty_like(x)
    p, q = (rng.standard_normal((512, 512)).astype(np.float16) for _ in range(2))
    r = np.empty((512, 512), np.float32)
    i = rng.integers(-100, 100, (4096, ROW)).astype(np.int32)
    j = np.empty_like(i)
    wide = [z.astype(np.float64) for z in (p, q)]
    return {
        "vector add 2^22 f32": (
            lambda: add(a, b, c),
            lambda: np.add(a, b, out=c),
            lambda: np.testing.assert_array_equal(c, a + b),
        ),
        "softmax 4096x1024 f32": (
            lambda: softmax(x, y),
            lambda: numpy_softmax(x),
            lambda: np.testing.assert_allclose(y, numpy_softmax(x.astype(np.float64)), rtol=1e-4),
        ),
        "matmul 512^3 f16 MFMA": (
            lambda: gemm(p, q, r),
            lambda: np.matmul(p, q.T),
            lambda: np.testing.assert_allclose(r, wide[0] @ wide[1].T, rtol=1e-3, atol=1e-3),
        ),
        "scan 4096x1024 i32": (
            lambda: scan(i, j),
            lambda: np.cumsum(i, 1, dtype=np.int32),
            lambda: np.testing.assert_array_equal(j, np.cumsum(i, 1)),
        ),
    }


def best(run: Callable[[], Any], repeat: int) -> float:
    """Shortest of several runs in seconds."""
    times: list[float] = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


_PEER_CODE = r"""
import json, os, sys, time
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton, triton.language as tl

@triton.jit
def add_kernel(a, b, c, n: tl.constexpr):
    i = tl.program_id(0) * n + tl.arange(0, n)
    tl.store(c + i, tl.load(a + i) + tl.load(b + i))

@triton.jit
def softmax_kernel(x, y, n: tl.constexpr):
    i = tl.program_id(0) * n + tl.arange(0, n)
    v = tl.load(x + i)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + i, e / tl.sum(e, 0))

@triton.jit
def matmul_kernel(a, b, c, m, n, k, t: tl.constexpr, s: tl.constexpr):
    rm = tl.program_id(0) * t + tl.arange(0, t)
    rn = tl.program_id(1) * t + tl.arange(0, t)
    acc = tl.zeros((t, t), tl.float32)
    for i in range(0, k, s):
        rk = i + tl.arange(0, s)
        acc += tl.dot(tl.load(a + rm[:, None] * k + rk[None, :]), tl.load(b + rn[None, :] * k + rk[:, None]))
    tl.store(c + rm[:, None] * n + rn[None, :], acc)

@triton.jit
def scan_kernel(x, y, n: tl.constexpr):
    i = tl.program_id(0) * n + tl.arange(0, n)
    tl.store(y + i, tl.cumsum(tl.load(x + i), 0))

a, b = torch.randn(1 << 22), torch.randn(1 << 22)
c = torch.empty_like(a)
x = torch.randn(4096, 1024); y = torch.empty_like(x)
p, q = torch.randn(512, 512).half(), torch.randn(512, 512).half()
r = torch.empty(512, 512)
i = torch.randint(-100, 100, (4096, 1024), dtype=torch.int32); j = torch.empty_like(i)
runs = {
    "vector add 2^22 f32": lambda: add_kernel[(4096,)](a, b, c, 1024),
    "softmax 4096x1024 f32": lambda: softmax_kernel[(4096,)](x, y, 1024),
    "matmul 512^3 f16 MFMA": lambda: matmul_kernel[(8, 8)](p, q, r, 512, 512, 512, 64, 16),
    "scan 4096x1024 i32": lambda: scan_kernel[(4096,)](i, j, 1024),
}
found = {}
for name, run in runs.items():
    times = []
    for _ in range(2):
        start = time.perf_counter(); run(); times.append(time.perf_counter() - start)
    found[name] = min(times)
print(json.dumps(found))
"""


def peer_times() -> dict[str, float]:
    """Triton's interpreter on the same problems, in an environment of its own."""
    python = PEER / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEER)], check=True)
        index = ["--extra-index-url", "https://download.pytorch.org/whl/cpu"]
        subprocess.run([str(python), "-m", "pip", "install", "-q", *index, "torch", "triton", "numpy"], check=True)
    script = PEER / "cpu_stack_peer.py"  # Triton reads the source of its kernels
    script.write_text(_PEER_CODE)
    done = subprocess.run([str(python), str(script)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="store_true", help="time Triton's interpreter mode too")
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    peer = peer_times() if args.peer else {}
    heads = ("ours ms", "numpy ms", "ours/numpy", "triton ms", "faster")
    print(f"{'case':24} threads", *(f"{h:>{w}}" for h, w in zip(heads, (9, 9, 10, 10, 7), strict=True)))
    for threads in sorted({1, os.cpu_count() or 1}):
        for name, (ours, theirs, check) in cases(np.random.default_rng()).items():
            ours()
            check()
            cpu_native.launcher().threads = threads
            mine, reference = best(ours, args.repeat), best(theirs, args.repeat)
            row = f"{name:24} {threads:7} {mine * 1e3:9.2f} {reference * 1e3:9.2f} {mine / reference:10.2f}"
            if name in peer:
                row += f" {peer[name] * 1e3:10.1f} {peer[name] / mine:6.0f}x"
            print(row)


if __name__ == "__main__":
    main()
