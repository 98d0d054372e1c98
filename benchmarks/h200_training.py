"""Operations on rows as people call them: plain tensors, forward and backward, beside torch and torch.compile.

    python benchmarks/h200_training.py [--quick] [--only forward|others] [--dtypes bfloat16,...] [--out FILE.jsonl]

Every result is compared with float64 before it is timed. Calls run in CUDA graphs and the contenders take turns, as in
h200.py. Terabytes per second count what must be read and written: two passes over the data forward, three backward.

Other processes compile everything of a type first, ours and torch.compile's, into caches on disk; what they tuned while
they shared the GPU is thrown away, so that each contender is tuned where nobody disturbs it. Lines are written as they
are found, so that a run that is cut leaves what it had.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch
from h200 import ROWS, interleaved, note
from torch.nn import functional as F

from flydsl import kernels
from flydsl.kernels.rows.norms import norm

LENGTHS = (64, 257, 512, 768, 1024, 2048, 4095, 4096, 8192, 16384, 32768, 50257, 65536, 131072, 262144)
ELEMENTS = 2**27
DTYPES = ("bfloat16", "float32", "float16")
EPS = 1e-5
PROCESSES = 14
ROUNDS, INNER = 11, 3


Made = torch.Tensor | tuple[torch.Tensor, ...]
"""What a call gives; of several results the first is compared, but none may be left out."""


def check(what: str, who: str, made: Made, want: torch.Tensor, dtype: torch.dtype) -> None:
    """The first rows, to the format."""
    got = made[0] if isinstance(made, tuple) else made
    error = ((got[: want.shape[0]].double() - want).norm() / want.norm()).item()
    assert error < {torch.float32: 1e-5, torch.float16: 1e-3}.get(dtype, 4e-3), (what, who, error)


def compare(
    what: str,
    calls: dict[str, Callable[[], Made]],
    want: torch.Tensor,
    nbytes: float,
    dtype: torch.dtype = torch.bfloat16,
) -> None:
    for who, call in calls.items():
        check(what, who, call(), want, dtype)
    times = interleaved(calls, rounds=ROUNDS, inner=INNER)
    for who, milliseconds in times.items():
        note(what, who, nbytes / milliseconds / 1e9, "TB/s")


def contenders(ours: Callable[[], Made], theirs: Callable[[], Made]) -> dict[str, Callable[[], Made]]:
    compiled = torch.compile(theirs)
    return {"flydsl": ours, "torch": theirs, "compile": compiled}


Operation = tuple[Callable[[], Made], Callable[[], Made], torch.Tensor]
"""Ours, torch's, and what the first rows come to."""


def operations(x: torch.Tensor) -> dict[str, Operation]:
    n = x.shape[1]
    w, b = (torch.randn(n, device="cuda").to(x.dtype) for _ in range(2))
    some, dw, db = x[:64].double(), w.double(), b.double()
    return {
        "softmax": (lambda: kernels.softmax(x), lambda: torch.softmax(x, -1), torch.softmax(some, -1)),
        "RMS norm": (
            lambda: kernels.rms_norm(x, w, eps=EPS),
            lambda: F.rms_norm(x, (n,), w, EPS),
            F.rms_norm(some, (n,), dw, EPS),
        ),
        "layer norm": (
            lambda: kernels.layer_norm(x, w, b, eps=EPS),
            lambda: F.layer_norm(x, (n,), w, b, EPS),
            F.layer_norm(some, (n,), dw, db, EPS),
        ),
    }


def matrix(n: int, dtype: str) -> torch.Tensor:
    return torch.randn(ELEMENTS // n, n, device="cuda").to(getattr(torch, dtype))


def prepare(job: tuple[int, str]) -> None:
    """Compile what `forward` compares."""
    x = matrix(*job)
    for ours, theirs, _ in operations(x).values():
        torch.compiler.reset()
        for call in contenders(ours, theirs).values():
            call()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def prepare_all(jobs: list[tuple[int, str]]) -> None:
    """In several processes; they leave compiled code in caches on disk, and no choices."""
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        for job, made in [(job, pool.submit(prepare, job)) for job in jobs]:
            if (error := made.exception()) is not None:  # it is compiled, or fails, where it is measured
                print(f"not compiled ahead: {job}: {error!r}", flush=True)
    for choice in Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).rglob("*.best_config"):
        choice.unlink()


def forward(n: int, dtype: str) -> None:
    x = matrix(n, dtype)
    name = f"{dtype} {x.shape[0]} x {n}"
    for op, (ours, theirs, want) in operations(x).items():
        torch.compiler.reset()
        compare(f"{op} {name}", contenders(ours, theirs), want, 2 * x.nbytes, x.dtype)
    y = torch.empty_like(x)
    compare(f"copy {name}", {"torch": lambda: y.copy_(x)}, x[:64].double(), 2 * x.nbytes, x.dtype)


def backward(m: int = 16384, n: int = 4096) -> None:
    x, d = (torch.randn(m, n, device="cuda").bfloat16() for _ in range(2))
    w, b = (torch.randn(n, device="cuda").bfloat16() for _ in range(2))
    y = kernels.softmax(x)
    rms = norm("rms_norm", x, w, None, EPS, None, None, False, True, None)
    layer = norm("layer_norm", x, w, b, EPS, None, None, True, True, None)
    aten = torch.ops.aten
    some, given = x[:64].double().requires_grad_(), d[:64].double()
    wanted = {
        "softmax": torch.autograd.grad(torch.softmax(some, -1), some, given)[0],
        "RMS norm": torch.autograd.grad(F.rms_norm(some, (n,), w.double(), EPS), some, given)[0],
        "layer norm": torch.autograd.grad(F.layer_norm(some, (n,), w.double(), b.double(), EPS), some, given)[0],
    }

    def rms_by_hand() -> tuple[torch.Tensor, ...]:
        v, g = x.float() * rms.scale[:, None], d.float() * w.float()
        dx = (g - v * (g * v).mean(-1, keepdim=True)) * rms.scale[:, None]
        return dx.bfloat16(), (d.float() * v).sum(0).bfloat16()

    shape, mean, scale = [n], layer.mean[:, None], layer.scale[:, None]
    calls = {
        "softmax": (
            lambda: kernels.softmax_backward(y, d),
            lambda: aten._softmax_backward_data(d, y, -1, torch.bfloat16),
        ),
        "RMS norm": (lambda: kernels.rms_norm_backward(d, x, w, rms.scale)[:2], rms_by_hand),
        "layer norm": (
            lambda: tuple(kernels.layer_norm_backward(d, x, w, layer.mean, layer.scale)),
            lambda: aten.native_layer_norm_backward(d, x, shape, mean, scale, w, b, [True, True, True]),
        ),
    }
    for op, (ours, theirs) in calls.items():
        compare(f"{op} backward {m} x {n}", contenders(ours, theirs), wanted[op], 3 * x.nbytes)


def in_turns(calls: dict[str, Callable[[], Made]], rounds: int = 9, inner: int = 10) -> dict[str, float]:
    """Median milliseconds of a call among `inner` in a row, without graphs: the host's work counts where it is slow."""
    times: dict[str, list[float]] = {who: [] for who in calls}
    for turn in range(rounds + 1):
        for who, call in calls.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            for _ in range(inner):
                call()
            end.record()
            end.synchronize()
            if turn:
                times[who].append(start.elapsed_time(end) / inner)
    return {who: statistics.median(found) for who, found in times.items()}


def called_backward(m: int = 16384, n: int = 4096) -> None:
    """Gradients as a training step asks for them: through autograd, of operators called on plain tensors."""
    from torch._functorch import config

    import flydsl.torch as ours

    config.donated_buffer = False  # one graph is gone through many times
    x, d = (torch.randn(m, n, device="cuda").bfloat16() for _ in range(2))
    w, b = (torch.randn(n, device="cuda").bfloat16().requires_grad_() for _ in range(2))
    x.requires_grad_()
    some, given = x[:64].detach().double().requires_grad_(), d[:64].double()
    ops: dict[str, tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
        "softmax": (lambda x: ours.softmax(x, -1), lambda x: torch.softmax(x, -1), ()),
        "RMS norm": (lambda x, w: ours.rms_norm(x, w, EPS), lambda x, w: F.rms_norm(x, (n,), w, EPS), (w,)),
        "layer norm": (
            lambda x, w, b: ours.layer_norm(x, w, b, EPS),
            lambda x, w, b: F.layer_norm(x, (n,), w, b, EPS),
            (w, b),
        ),
    }
    for op, (mine, theirs, more) in ops.items():
        torch.compiler.reset()
        want = torch.autograd.grad(theirs(some, *(t.detach().double() for t in more)), some, given)[0]
        calls: dict[str, Callable[[], Made]] = {}
        for who, forward in {"flydsl": mine, "torch": theirs, "compile": torch.compile(theirs)}.items():
            made = forward(x, *more)
            calls[who] = lambda made=made, to=(x, *more): torch.autograd.grad(made, to, d, retain_graph=True)
        what = f"{op} backward through autograd {m} x {n}"
        for who, call in calls.items():
            check(what, who, call(), want, torch.bfloat16)
        for who, milliseconds in in_turns(calls).items():
            note(what, who, 3 * x.nbytes / milliseconds / 1e9, "TB/s")


def loss(m: int, n: int) -> None:
    x = torch.randn(m, n, device="cuda").bfloat16()
    target = torch.randint(0, n, (m,), device="cuda")
    want = F.cross_entropy(x[:64].double(), target[:64], reduction="none")
    calls = contenders(
        lambda: kernels.cross_entropy(x, target, reduction="none"),
        lambda: F.cross_entropy(x.float(), target, reduction="none"),
    )
    compare(f"cross entropy {m} x {n}", calls, want, x.nbytes)


def largest(m: int, n: int, k: int) -> None:
    x = torch.randn(m, n, device="cuda").bfloat16()
    want = torch.topk(x[:64].double(), k).values
    calls = contenders(lambda: kernels.top_k(x, k)[0], lambda: torch.topk(x, k)[0])
    compare(f"top {k} of {m} x {n}", calls, want, x.nbytes)


def others() -> None:
    g, u = (torch.randn(16384, 14336, device="cuda").bfloat16() for _ in range(2))
    want = F.silu(g[:64].double()) * u[:64].double()
    compare("SiLU mul", contenders(lambda: kernels.silu_mul(g, u), lambda: F.silu(g) * u), want, 3 * g.nbytes)
    q = torch.randn(8, 4096, 32, 128, device="cuda").bfloat16()
    angle = torch.rand(4096, 64, device="cuda") * 6
    cos, sin = angle.cos(), angle.sin()

    def turned(x: torch.Tensor) -> torch.Tensor:
        a, b = x.float().chunk(2, -1)
        c, s = cos[None, :, None], sin[None, :, None]
        return torch.cat([a * c - b * s, b * c + a * s], -1).bfloat16()

    calls = contenders(lambda: kernels.rope(q, None, cos, sin), lambda: turned(q))
    compare("RoPE", calls, turned(q).double(), 2 * q.nbytes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="bfloat16 and a few lengths")
    parser.add_argument("--only", default="", choices=("", "forward", "others"), help="one part alone")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    start = time.perf_counter()
    lengths, dtypes = (LENGTHS[1::3], DTYPES[:1]) if args.quick else (LENGTHS, args.dtypes.split(","))
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", folder)
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # of each process
        if args.only != "forward":
            for m, n in ((8192, 32768), (4096, 128256)):
                loss(m, n)
            backward()
            called_backward()
            others()
            for m, n, k in ((16384, 256, 8), (64, 131072, 64)):
                largest(m, n, k)
            keep(args.out)
        for dtype in () if args.only == "others" else dtypes:
            prepare_all([(n, dtype) for n in lengths])
            print(f"{dtype} compiled after {time.perf_counter() - start:.0f} s", flush=True)
            for n in lengths:
                forward(n, dtype)
                keep(args.out)
    print(f"done after {time.perf_counter() - start:.0f} s")


def keep(file: Path | None) -> None:
    """Write what was found so far."""
    if file is not None:
        file.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")


if __name__ == "__main__":
    main()
