"""Softmax, RMS norm and layer norm of bf16 rows: the kernels of this package, torch's and Triton's, checked and timed.

Triton's kernels hold one row per program; the number of warps that is fastest at a size is the one that counts.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

import flydsl.compiler as flyc

SIZES = ((32768, 4096), (16384, 8192), (4096, 32768))
EPS = 1e-5
WARPS = (4, 8, 16, 32)


def static(t: torch.Tensor):
    """The layout as a constant of the kernel, and 16-byte accesses promised."""
    return flyc.from_torch_tensor(t, assumed_align=16)


def triton_rows():
    """Triton's kernels by operation: f(x, weight, bias, out, warps)."""
    import triton
    import triton.language as tl

    @triton.jit
    def softmax(x, out, n, block: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        at = tl.arange(0, block)
        v = tl.load(x + row * n + at, at < n, -float("inf")).to(tl.float32)
        v = tl.exp2((v - tl.max(v, 0)) * 1.4426950408889634)
        tl.store(out + row * n + at, (v / tl.sum(v, 0)).to(out.dtype.element_ty), at < n)

    @triton.jit
    def rms_norm(x, weight, out, n, eps, block: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        at = tl.arange(0, block)
        v = tl.load(x + row * n + at, at < n, 0.0).to(tl.float32)
        w = tl.load(weight + at, at < n, 0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(v * v, 0) / n + eps)
        tl.store(out + row * n + at, (v * scale * w).to(out.dtype.element_ty), at < n)

    @triton.jit
    def layer_norm(x, weight, bias, out, n, eps, block: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        at = tl.arange(0, block)
        v = tl.load(x + row * n + at, at < n, 0.0).to(tl.float32)
        w = tl.load(weight + at, at < n, 0.0).to(tl.float32)
        b = tl.load(bias + at, at < n, 0.0).to(tl.float32)
        v = tl.where(at < n, v - tl.sum(v, 0) / n, 0.0)
        scale = tl.rsqrt(tl.sum(v * v, 0) / n + eps)
        tl.store(out + row * n + at, (v * scale * w + b).to(out.dtype.element_ty), at < n)

    def shape(x):
        return x.shape[0], x.shape[1], triton.next_power_of_2(x.shape[1])

    def run_softmax(x, w, b, out, warps):
        m, n, block = shape(x)
        softmax[(m,)](x, out, n, block=block, num_warps=warps)

    def run_rms_norm(x, w, b, out, warps):
        m, n, block = shape(x)
        rms_norm[(m,)](x, w, out, n, EPS, block=block, num_warps=warps)

    def run_layer_norm(x, w, b, out, warps):
        m, n, block = shape(x)
        layer_norm[(m,)](x, w, b, out, n, EPS, block=block, num_warps=warps)

    return {"softmax": run_softmax, "RMS norm": run_rms_norm, "layer norm": run_layer_norm}


def references(x, w, b) -> dict[str, torch.Tensor]:
    """What the first rows must come to, in float64."""
    d, w, b = x.double(), w.double(), b.double()
    return {
        "softmax": torch.softmax(d, -1),
        "RMS norm": d / torch.sqrt((d * d).mean(-1, keepdim=True) + EPS) * w,
        "layer norm": torch.nn.functional.layer_norm(d, (d.shape[1],), w, b, EPS),
    }


def torch_rows(x, w, b) -> dict[str, Callable[[], torch.Tensor]]:
    n = x.shape[1]
    return {
        "softmax": lambda: torch.softmax(x, -1),
        "RMS norm": lambda: torch.nn.functional.rms_norm(x, (n,), w, EPS),
        "layer norm": lambda: torch.nn.functional.layer_norm(x, (n,), w, b, EPS),
    }


def our_rows(x, w, b, out, wrap=static) -> dict[str, Callable[[], None]]:
    from flydsl.kernels.rows import layer_norm, rms_norm, softmax

    x, w, b, out = map(wrap, (x, w, b, out))
    return {
        "softmax": lambda: softmax(x, out),
        "RMS norm": lambda: rms_norm(x, w, out, EPS),
        "layer norm": lambda: layer_norm(x, w, b, out, EPS),
    }


def check(what: str, who: str, got: torch.Tensor, some: torch.Tensor, expected: torch.Tensor) -> None:
    """Every element was written, and the first and last rows are right to bf16."""
    assert torch.isfinite(got).all(), (what, who)
    error = ((got[some].double() - expected).norm() / expected.norm()).item()
    assert error < 4e-3, (what, who, error)


def bench_rows(note: Callable[..., None], interleaved: Callable[..., dict[str, float]]) -> None:
    """All operations at all sizes; terabytes per second of the row read and the row written."""
    triton = triton_rows()
    for m, n in SIZES:
        x = torch.randn(m, n, device="cuda").bfloat16()
        w, b = (torch.randn(n, device="cuda").bfloat16() for _ in range(2))
        out = torch.empty_like(x)
        some = torch.cat([torch.arange(64), torch.arange(m - 64, m)]).cuda()
        expected = references(x[some], w, b)
        ours, theirs = our_rows(x, w, b, out), torch_rows(x, w, b)
        plain = our_rows(x, w, b, out, lambda t: t)
        for what, reference in expected.items():
            label, traffic = f"{what} bf16 {m} x {n}", 4 * m * n / 1e9

            def run_ours(call=ours[what]):
                call()
                return out  # noqa: B023

            def run_triton(warps, call=triton[what]):
                call(x, w, b, out, warps)  # noqa: B023
                return out  # noqa: B023

            calls = {"flydsl": run_ours, "any length": lambda call=plain[what]: run_ours(call), "torch": theirs[what]}
            calls |= {f"triton/{warps}": lambda warps=warps: run_triton(warps) for warps in WARPS}
            for who, call in calls.items():
                out.fill_(float("nan"))
                check(what, who, call(), some, reference)
            calls["copy"] = lambda: out.copy_(x)  # noqa: B023
            times = interleaved(calls, rounds=15, inner=5)
            best = min((who for who in times if who.startswith("triton")), key=times.__getitem__)
            for who in ("flydsl", "any length", "torch", "triton", "copy"):
                key = best if who == "triton" else who
                more = {"warps": int(best.split("/")[1])} if who == "triton" else {}
                note(label, who, traffic / times[key], "TB/s", **more)
