"""Runs every shipped kernel once on an NVIDIA GPU and checks it: the program that `compute-sanitizer` watches.

compute-sanitizer --tool racecheck python tests/kernels/every_cuda_kernel.py
"""

from __future__ import annotations

import os

os.environ["FLYDSL_COMPILE_BACKEND"] = "cuda"

import torch

import flydsl.compiler as flyc
from flydsl.kernels.gemm_sm80 import gemm_sm80
from flydsl.kernels.gemm_sm90 import gemm_sm90
from flydsl.kernels.rows import layer_norm, rms_norm, softmax
from flydsl.kernels.transpose import transpose
from flydsl.kernels.vector_add import vector_add

EPS = 1e-5


def close(what: str, got: torch.Tensor, want: torch.Tensor, limit: float = 5e-3) -> None:
    error = ((got.cpu().double() - want).norm() / want.norm()).item()
    print(f"{what:40} {error:.2e}", flush=True)
    assert error <= limit, (what, error)


def static(t: torch.Tensor):
    return flyc.from_torch_tensor(t, assumed_align=16)


def elementwise() -> None:
    a, b = torch.randn(1001), torch.randn(1001)
    c = torch.full((1001,), float("nan")).cuda()
    vector_add(a.cuda(), b.cuda(), c)
    close("vector_add", c, (a + b).double(), 0.0)
    x = torch.randn(70, 45)
    y = torch.full((45, 70), float("nan")).cuda()
    transpose(x.cuda(), y)
    close("transpose", y, x.T.double(), 0.0)


def rows(m: int, n: int, wrap) -> None:
    x, w, b = torch.randn(m, n).bfloat16(), torch.randn(n).bfloat16(), torch.randn(n).bfloat16()
    d, dw, db = x.double(), w.double(), b.double()
    xs, ws, bs = (wrap(t.cuda()) for t in (x, w, b))
    out = torch.full((m, n), float("nan")).bfloat16().cuda()
    softmax(xs, wrap(out))
    close(f"softmax {m} x {n}", out, torch.softmax(d, -1))
    rms_norm(xs, ws, wrap(out), EPS)
    close(f"rms_norm {m} x {n}", out, d / torch.sqrt((d * d).mean(-1, keepdim=True) + EPS) * dw)
    layer_norm(xs, ws, bs, wrap(out), EPS)
    close(f"layer_norm {m} x {n}", out, torch.nn.functional.layer_norm(d, (n,), dw, db, EPS))


def products(m: int, n: int, k: int) -> None:
    a, b, bias = torch.randn(m, k).bfloat16(), torch.randn(n, k).bfloat16(), torch.randn(n)
    want = a.double() @ b.double().T
    da, db, dbias = a.cuda(), b.cuda(), bias.cuda()

    def fresh():
        return torch.full((m, n), float("nan")).bfloat16().cuda()

    for cluster in (1, 2):
        c = fresh()
        gemm_sm90(da, db, c, 4, cluster)
        close(f"gemm_sm90 {m} x {n} x {k}, clusters of {cluster}", c, want)
    c = fresh()
    gemm_sm90(da, db, c, 4, 2, "silu", dbias)
    close(f"gemm_sm90 with a bias {m} x {n} x {k}", c, torch.nn.functional.silu(want + bias.double()))
    c = fresh()
    if n % 8 == 0:
        gemm_sm80(*(static(t).mark_layout_dynamic(divisibility=8) for t in (da, db, c)))
    else:
        gemm_sm80(da, db, c)
    close(f"gemm_sm80 {m} x {n} x {k}", c, want)
    c = fresh()
    gemm_sm80(da, db, c, "relu", dbias)
    close(f"gemm_sm80 with a bias {m} x {n} x {k}", c, torch.relu(want + bias.double()))


if __name__ == "__main__":
    elementwise()
    rows(3, 333, lambda t: t)
    rows(5, 4096, static)
    rows(3, 1032, static)
    rows(140, 16392, static)
    products(200, 520, 136)
    products(130, 67, 72)
    torch.cuda.synchronize()
    print("done")
