"""Operations on rows as people call them: plain tensors, forward and backward, beside torch and torch.compile.

    python benchmarks/h200_training.py [--quick] [--only forward|others] [--dtypes bfloat16,...] [--lengths 257,...]
    python benchmarks/h200_training.py --random 40 --seed 7 [--only forward] [--out FILE.jsonl]

The second form takes operations and extents at random (`random_rows.py`), and ends with how they compare.

Every result is compared with float64 before it is timed. Calls run in CUDA graphs and the contenders take turns, as in
h200.py. Terabytes per second count what must be read and written: two passes over the data forward, three backward.

Other processes compile everything of a type first, ours and torch.compile's, into caches on disk; what they tuned while
they shared the GPU is thrown away, so that each contender is tuned where nobody disturbs it. Lines are written as they
are found, so that a run that is cut leaves what it had.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch
from h200 import ROWS, interleaved, note
from random_rows import (
    DTYPES,
    ELEMENTS,
    EPS,
    FORWARD,
    PASSES,
    Draw,
    Made,
    draws,
    gates,
    gradients,
    largest,
    loss,
    matrix,
    operation,
    operations,
    product,
    turned,
)
from torch.nn import functional as F

from flydsl import kernels

LENGTHS = (64, 257, 512, 768, 1024, 2048, 4095, 4096, 8192, 16384, 32768, 50257, 65536, 131072, 262144)
PROCESSES = 14
ROUNDS, INNER = 11, 3
LONG_ENOUGH = 0.1
"""Milliseconds that the calls of a graph take at least, about."""
MOST_CALLS = 30


def check(what: str, who: str, made: Made, want: torch.Tensor, dtype: torch.dtype) -> None:
    """The first rows, to the format; the smallest shares of long rows are subnormal in float16."""
    got = made[0] if isinstance(made, tuple) else made
    error = (got[: want.shape[0]].double() - want).norm().item()
    kind = torch.finfo(dtype)
    least = kind.smallest_normal * kind.eps / 2 * want.numel() ** 0.5
    bound = {torch.float32: 1e-5, torch.float16: 1e-3}.get(dtype, 4e-3) * want.norm().item() + least
    assert error < bound, (what, who, error, bound)


def compare(
    what: str,
    calls: dict[str, Callable[[], Made]],
    want: torch.Tensor,
    nbytes: float,
    dtype: torch.dtype = torch.bfloat16,
    beside: dict[str, Callable[[], Made]] | None = None,
) -> None:
    """Check the calls, then time them and what is `beside` them."""
    for who, call in calls.items():
        check(what, who, call(), want, dtype)
    least = nbytes / 4e9  # milliseconds at the speed of memory
    inner = min(max(INNER, math.ceil(LONG_ENOUGH / least)), MOST_CALLS)
    times = interleaved(calls | (beside or {}), rounds=ROUNDS, inner=inner)
    for who, milliseconds in times.items():
        note(what, who, nbytes / milliseconds / 1e9, "TB/s")


def contenders(ours: Callable[[], Made], theirs: Callable[[], Made]) -> dict[str, Callable[[], Made]]:
    compiled = torch.compile(theirs)
    return {"flydsl": ours, "torch": theirs, "compile": compiled}


def prepare(job: tuple[int, str] | Draw) -> None:
    """Compile what `forward` or `drawn` compares."""
    if isinstance(job, Draw):
        x = matrix(job.m, job.n, job.dtype)
        found = [operation(job, x)]
    else:
        n, dtype = job
        x = matrix(ELEMENTS // n, n, dtype)
        made = operations(x)
        found = [made[op] for op in FORWARD]
    for ours, theirs, _ in found:
        torch.compiler.reset()
        for call in contenders(ours, theirs).values():
            call()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def prepare_all(jobs: Sequence[tuple[int, str] | Draw]) -> None:
    """In several processes; they leave compiled code in caches on disk, and no choices."""
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        for job, made in [(job, pool.submit(prepare, job)) for job in jobs]:
            if (error := made.exception()) is not None:  # it is compiled, or fails, where it is measured
                print(f"not compiled ahead: {job}: {error!r}", flush=True)
    for choice in Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).rglob("*.best_config"):
        choice.unlink()


def forward(n: int, dtype: str) -> None:
    x = matrix(ELEMENTS // n, n, dtype)
    name, made = f"{dtype} {x.shape[0]} x {n}", operations(x)
    for op in FORWARD:
        ours, theirs, want = made[op]
        torch.compiler.reset()
        compare(f"{op} {name}", contenders(ours, theirs), want, 2 * x.nbytes, x.dtype)
    copies(name, x)


def copies(name: str, x: torch.Tensor) -> None:
    """A copy by the driver, which is slow at some sizes, and by a kernel of torch."""
    y = torch.empty_like(x)
    calls = {"torch": lambda: y.copy_(x), "kernel": lambda: torch.mul(x, 1, out=y)}
    compare(f"copy {name}", calls, x[:64].double(), 2 * x.nbytes, x.dtype)


def drawn(draw: Draw) -> None:
    """One operation of random extents."""
    x = matrix(draw.m, draw.n, draw.dtype)
    ours, theirs, want = operation(draw, x)
    torch.compiler.reset()
    y = torch.empty_like(x)
    copied = {"copy": lambda: torch.mul(x, 1, out=y), "memcpy": lambda: y.copy_(x)} if draw.op in FORWARD else None
    compare(str(draw), contenders(ours, theirs), want, PASSES.get(draw.op, 2) * x.nbytes, x.dtype, copied)


def summary(found: Sequence[Draw]) -> None:
    """Speed beside the better peer of each operation, and beside a copy where one was made."""
    values: dict[str, dict[str, float]] = {}
    for row in ROWS:
        values.setdefault(row["what"], {})[row["who"]] = row["value"]
    shares: dict[str, list[float]] = {}
    for draw in dict.fromkeys(found):
        seen = values[str(draw)]
        peer = seen["flydsl"] / max(seen["torch"], seen["compile"])
        copied = [seen[who] for who in ("copy", "memcpy") if who in seen]
        beside = f" {seen['flydsl'] / max(copied):.3f} of a copy" if copied else ""
        shares.setdefault("forward" if draw.op in FORWARD else draw.op, []).append(peer)
        print(f"{peer:7.3f} of the better peer{beside}: {draw}, {seen['flydsl']:.2f} TB/s")
    for op, ratios in shares.items():
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"{op}: {mean:.3f} in the mean, worst {min(ratios):.3f}, of {len(ratios)}")


def backward(m: int = 16384, n: int = 4096) -> None:
    x = matrix(m, n, "bfloat16")
    for op, (ours, theirs, want) in gradients(x).items():
        compare(f"{op} {m} x {n}", contenders(ours, theirs), want, 3 * x.nbytes)


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


def others() -> None:
    x = matrix(16384, 14336, "bfloat16")
    ours, theirs, want = product(x)
    compare("SiLU mul", contenders(ours, theirs), want, 3 * x.nbytes)
    q = torch.randn(8, 4096, 32, 128, device="cuda").bfloat16()
    angle = torch.rand(4096, 64, device="cuda") * 6
    cos, sin = angle.cos(), angle.sin()
    calls = contenders(lambda: kernels.rope(q, None, cos, sin), lambda: turned(q, cos, sin))
    compare("RoPE", calls, turned(q, cos, sin).double(), 2 * q.nbytes)
    for m, n, k in ((16384, 256, 8), (64, 131072, 64)):
        x = matrix(m, n, "bfloat16")
        ours, theirs, want = largest(x, k)
        compare(f"top {k} of {m} x {n}", contenders(ours, theirs), want, x.nbytes)
    x = matrix(16384, 256, "bfloat16")
    ours, theirs, want = gates(x, 8)
    compare("gate, 8 of 16384 x 256", contenders(ours, theirs), want, x.nbytes)


def losses() -> None:
    for m, n in ((8192, 32768), (4096, 128256)):
        x = matrix(m, n, "bfloat16")
        ours, theirs, want = loss(x)
        compare(f"cross entropy {m} x {n}", contenders(ours, theirs), want, x.nbytes)


def at_random(count: int, seed: int, more: bool, out: Path | None) -> None:
    """Operations of random extents."""
    found = draws(count, seed, more)
    start = time.perf_counter()
    prepare_all(found)
    print(f"compiled after {time.perf_counter() - start:.0f} s", flush=True)
    for draw in found:
        drawn(draw)
        keep(out)
    summary(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="bfloat16 and a few lengths")
    parser.add_argument("--only", default="", choices=("", "forward", "others"), help="one part alone")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="of rows, forward")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="so many operations of random extents")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    start = time.perf_counter()
    lengths, dtypes = [int(n) for n in args.lengths.split(",")], args.dtypes.split(",")
    if args.quick:
        lengths, dtypes = lengths[1::3], dtypes[:1]
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", folder)
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # of each process
        if args.random:
            at_random(args.random, args.seed, args.only != "forward", args.out)
        elif args.only != "forward":
            losses()
            backward()
            called_backward()
            others()
            keep(args.out)
        for dtype in () if args.random or args.only == "others" else dtypes:
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
