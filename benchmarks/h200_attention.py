"""Attention on an NVIDIA GPU beside cuDNN's and torch's flash attention (through torch), at many shapes and tiles.

    python benchmarks/h200_attention.py [--tune] [--decode] [--backward] [--out FOLDER] [--budget SECONDS]

Without `--tune` the entry point alone runs, as callers get it; with it every tile of the list, each checked first in a
process of its own, which compiles it. Results are compared with float32 sums of a few heads before they are timed, on
fresh random data and a poisoned output. Times are medians of CUDA events around
graph replays; contenders take turns. One JSON object per
measurement goes to FOLDER/attention.jsonl, a line to the screen.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("FLYDSL_COMPILE_BACKEND", "cuda")
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from flydsl.kernels import attention
from flydsl.kernels.attention import attention_backward
from flydsl.kernels.attention.calls import Given, Wanted, on_hopper
from flydsl.kernels.attention.request import check
from flydsl.kernels.attention.tile import Tile, problem
from flydsl.kernels.matmul.arrays import describe
from flydsl.kernels.matmul.calls import Target
from flydsl.target import GPUTarget


class Case(NamedTuple):
    b: int
    h: int
    hk: int
    s: int
    d: int
    causal: bool

    def __str__(self) -> str:
        return f"{self.b},{self.h},{self.hk},{self.s},{self.d} {'causal' if self.causal else 'full'}"

    @property
    def flops(self) -> float:
        return 4 * self.b * self.h * self.s**2 * self.d / (2 if self.causal else 1)


SHAPES = [
    (4, 32, 32, 4096, 128), (2, 32, 8, 8192, 128), (1, 64, 8, 16384, 128), (16, 32, 8, 1024, 128),
    (8, 16, 16, 2048, 64), (4, 32, 32, 4096, 64), (4, 16, 16, 4096, 256),
]  # fmt: skip
MORE_BACKWARD = [(4, 32, 32, 4096, 96), (4, 16, 16, 4096, 192), (2, 16, 4, 8192, 256)]
DECODE = [(16, 32, 8, 4096, 128), (64, 32, 8, 8192, 128), (1, 32, 8, 32768, 128)]
TILES = {
    (64, False): [(128, 3, 2, 1), (112, 3, 2, 1)],
    (64, True): [(128, 3, 2, 1), (112, 3, 2, 1)],
    (128, False): [(128, 2, 2, 1), (160, 2, 2, 1)],
    (128, True): [(128, 2, 2, 1), (112, 2, 2, 1)],
    (256, False): [(80, 2, 2, 0), (64, 2, 2, 0)],
    (256, True): [(80, 2, 2, 0), (64, 2, 2, 0)],
}
"""By the elements of a query and whether it is causal: keys of a step, consumers, stages, whether they take turns."""


def tiles(d: int, causal: bool) -> dict[str, Tile]:
    found = {}
    for n, consumers, stages, turns in TILES[d, causal]:
        tile = Tile(d, d, n, consumers, stages, bool(turns))
        assert problem(tile) is None, problem(tile)
        found[f"{tile.m}x{n} s{stages}{' pp' if turns else ''}"] = tile
    return found


def tensors(case: Case, queries: int | None = None):
    """(batch, heads, rows, d) as torch takes them."""
    shape = (case.b, case.h, case.s if queries is None else queries, case.d)
    kv = (case.b, case.hk, case.s, case.d)
    return [torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in (shape, kv, kv)]


def poisoned(q) -> torch.Tensor:
    return torch.full_like(q, math.nan)


def call_tile(tile: Tile, q, k, v, out, causal: bool) -> None:
    """A tile by name, past the plan."""
    q, k, v, out = (x.transpose(1, 2) for x in (q, k, v, out))
    arrays = [describe(n, x) for n, x in zip("qkv", (q, k, v), strict=True)]
    none = (None,) * 3
    request = check(*arrays, causal, None, None, None, None, None, None, None, None, None, None, none)
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    where = Target(GPUTarget.parse("cuda:sm_90a"), processors)
    run = on_hopper(request, describe("out", out), where, Wanted(tile))
    assert run is not None
    given = Given(q, k, v, out, None, None, None, None, None, None, None, None, none, (0, 0, 1.0))
    run(given, q.shape[1], k.shape[1], None)


def reference(q, k, v, causal: bool, b: int, h: int, rows: slice) -> torch.Tensor:
    """Some rows of one head in float64."""
    group = q.shape[1] // k.shape[1]
    x, y, z = q[b, h, rows].double(), k[b, h // group].double(), v[b, h // group].double()
    scores = x @ y.T * q.shape[-1] ** -0.5
    if causal:
        places = torch.arange(q.shape[2], device="cuda")[rows] + k.shape[2] - q.shape[2]
        scores.masked_fill_(torch.arange(k.shape[2], device="cuda")[None] > places[:, None], -math.inf)
    return scores.softmax(-1) @ z


def error(q, k, v, out, causal: bool) -> float:
    """The largest of the relative errors of some rows of some heads, norm over norm; NaN anywhere is infinite."""
    if not bool(torch.isfinite(out).all()):
        return math.inf
    worst = 0.0
    length = q.shape[2]
    for b, h in {(0, 0), (q.shape[0] - 1, q.shape[1] - 1), (q.shape[0] // 2, q.shape[1] // 3)}:
        for first in {0, max(0, length // 2 - 100), max(0, length - 200)}:
            rows = slice(first, first + 200)
            want = reference(q, k, v, causal, b, h, rows)
            worst = max(worst, ((out[b, h, rows].double() - want).norm() / want.norm()).item())
    return worst


def check_share(share: int, of: int, logs: Path) -> None:
    """This process' part of the tiles, on ragged sequences: right, or not."""
    every = [(d, causal, name, tile) for d, causal in TILES for name, tile in tiles(d, causal).items()]
    for d, causal, name, tile in every[share::of]:
        word = "good"
        for s, sk in ((333, 700), (1024, 1024)):
            q, k, v = tensors(Case(1, 4, 2, s, d, causal))
            if sk != s:
                _, k, v = tensors(Case(1, 4, 2, sk, d, causal))
            out = poisoned(q)
            call_tile(tile, q, k, v, out, causal)
            torch.cuda.synchronize()
            found = error(q, k, v, out, causal)
            if not found < 6e-3:
                word = f"wrong {found:.1e} at {s}x{sk}"
        with (logs / f"checked-{share}.txt").open("a") as file:
            file.write(f"{d} {causal} {name}|{word}\n")


def check_all(of: int, logs: Path, budget: float) -> set[str]:
    logs.mkdir(parents=True, exist_ok=True)
    for old in logs.glob("checked-*.txt"):
        old.unlink()
    workers = []
    for i in range(of):
        log = (logs / f"worker-{i}.log").open("w")
        command = [sys.executable, __file__, "--check", f"{i}/{of}", "--logs", str(logs)]
        workers.append(subprocess.Popen(command, stderr=log, stdout=log))
    end = time.time() + budget
    for worker in workers:
        try:
            worker.wait(max(1.0, end - time.time()))
        except subprocess.TimeoutExpired:
            worker.kill()
    words = dict(
        line.split("|", 1) for log in logs.glob("checked-*.txt") for line in log.read_text().splitlines()
    )  # fmt: skip
    for d, causal in TILES:
        for name in tiles(d, causal):
            word = words.get(f"{d} {causal} {name}", "DIED or hangs")
            if word != "good":
                print(f"TILE {d} {causal} {name}: {word}", flush=True)
    for i, worker in enumerate(workers):
        if worker.returncode:
            print(f"worker {i}:", (logs / f"worker-{i}.log").read_text()[-600:], flush=True)
    return {what for what, word in words.items() if word == "good"}


def timed(calls, rounds: int) -> dict[str, float]:
    """Median microseconds of replays of a graph of each call; contenders take turns."""
    graphs, counts, times = {}, {}, {who: [] for who in calls}
    for who, one in calls.items():
        one()
        torch.cuda.synchronize()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            one()
        graph.replay()
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        graphs[who] = graph.replay
        counts[who] = max(1, min(20, math.ceil(4.0 / max(start.elapsed_time(end), 0.01))))
    for _ in range(rounds):
        for who, one in graphs.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(counts[who]):
                one()
            end.record()
            end.synchronize()
            times[who].append(start.elapsed_time(end) / counts[who] * 1e3)
    return {who: statistics.median(found) for who, found in times.items()}


def library(q, k, v, causal: bool):
    """Peers by name; those that do not take a shape are left out."""
    gqa = q.shape[1] != k.shape[1]

    def peer(backend):
        def one():
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=gqa)

        return one

    calls = {}
    for who, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        try:
            peer(backend)()
            torch.cuda.synchronize()
            calls[who] = peer(backend)
        except RuntimeError as problem:
            print(f"{who} does not take it: {str(problem)[:80]}", flush=True)
    return calls


def run(case: Case, options, good: set[str], file) -> float | None:
    """One case: a line; the ratio to the fastest peer."""
    q, k, v = tensors(case)
    out = poisoned(q)
    calls = library(q, k, v, case.causal)
    peers = set(calls)
    errors = {who: error(q, k, v, one(), case.causal) for who, one in calls.items()}

    def entry() -> None:
        attention(*(x.transpose(1, 2) for x in (q, k, v)), causal=case.causal, out=out.transpose(1, 2))

    mine = {"ours": entry}
    if options.tune:
        for name, tile in tiles(case.d, case.causal).items():
            if f"{case.d} {case.causal} {name}" in good:
                mine[name] = lambda tile=tile: call_tile(tile, q, k, v, out, case.causal)
    for who, one in mine.items():
        out.fill_(math.nan)
        one()
        torch.cuda.synchronize()
        errors[who] = error(q, k, v, out, case.causal)
        if errors[who] < 6e-3:
            calls[who] = one
        else:
            print(f"WRONG {case} {who}: {errors[who]:.1e}", flush=True)
    times = timed(calls, options.rounds)
    for who, found in times.items():
        row = {"case": case._asdict(), "who": who, "us": found, "tflops": case.flops / found / 1e6}
        file.write(json.dumps({**row, "error": errors[who]}) + "\n")
    start = time.perf_counter()
    for _ in range(10):
        entry()
    host = (time.perf_counter() - start) / 10 * 1e6
    torch.cuda.synchronize()
    rates = {who: case.flops / found / 1e6 for who, found in times.items()}
    print(
        f"{case!s:28} "
        + ", ".join(f"{w} {r:.0f} ({errors[w]:.1e})" for w, r in rates.items())
        + f"; host {host:.0f} us",
        flush=True,
    )
    best = max((rates[w] for w in peers), default=math.nan)
    return rates["ours"] / best if "ours" in rates else None


def queued(calls, rounds: int) -> dict[str, float]:
    """Median microseconds of calls that are issued one after the other; contenders take turns."""
    times, counts = {who: [] for who in calls}, {}
    for turn in range(rounds + 2):
        for who, one in calls.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(counts.get(who, 1)):
                one()
            end.record()
            end.synchronize()
            found = start.elapsed_time(end) / counts.get(who, 1) * 1e3
            if turn == 1:
                counts[who] = max(2, min(10, math.ceil(12e3 / found)))
            elif turn > 1:
                times[who].append(found)
    return {who: statistics.median(found) for who, found in times.items()}


def run_backward(case: Case, options, file) -> float | None:
    """Gradients of one case, beside cuDNN's by torch's autograd."""
    q, k, v = (x.requires_grad_() for x in tensors(case))
    grad = torch.randn_like(q)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        peer_out = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=case.causal, enable_gqa=case.h != case.hk
        )
    turned = [x.detach().transpose(1, 2) for x in (q, k, v)]
    out, lse = attention(*turned, causal=case.causal, return_lse=True)
    given = grad.transpose(1, 2)
    calls = {
        "cudnn": lambda: torch.autograd.grad(peer_out, (q, k, v), grad, retain_graph=True),
        "ours": lambda: attention_backward(given, *turned, out, lse, causal=case.causal),
    }
    want, got = calls["cudnn"](), [x.transpose(1, 2) for x in calls["ours"]()]
    apart = [((a - b).norm() / b.norm()).item() for a, b in zip(got, want, strict=True)]
    if not max(apart) < 2e-2:
        print(f"WRONG gradients {case}: {apart}", flush=True)
        return None
    times = queued(calls, options.rounds)
    rates = {who: 2.5 * case.flops / found / 1e6 for who, found in times.items()}
    for who, found in times.items():
        row = {"backward": case._asdict(), "who": who, "us": found, "tflops": rates[who], "apart": max(apart)}
        file.write(json.dumps(row) + "\n")
    print(f"backward {case!s:28} cudnn {rates['cudnn']:.0f}, ours {rates['ours']:.0f} ({max(apart):.1e})", flush=True)
    return rates["ours"] / rates["cudnn"]


def run_decode(case: Case, options, file) -> None:
    """One query a sequence: terabytes of keys and values a second; unpaged, and in pages."""
    q, k, v = tensors(case, 1)
    out = poisoned(q)
    calls = library(q, k, v, False)
    nbytes = 4 * case.b * case.hk * case.s * case.d
    # As caches are laid out: (batch, keys, heads, d), and the same in pages of 64.
    kc, vc = (x.transpose(1, 2).contiguous() for x in (k, v))
    used = torch.full((case.b,), case.s, dtype=torch.int32, device="cuda")
    count = case.s // 64
    order = torch.randperm(case.b * count, device="cuda")
    table = order.argsort().to(torch.int32).reshape(case.b, count)
    kp, vp = (x.reshape(-1, 64, case.hk, case.d)[order].contiguous() for x in (kc, vc))
    turned = q.transpose(1, 2)
    mine = {
        "ours": lambda: attention(turned, kc, vc, out=out.transpose(1, 2)),
        "paged": lambda: attention(turned, kp, vp, block_table=table, seqlens_k=used, out=out.transpose(1, 2)),
    }
    errors = {who: error(q, k, v, one(), False) for who, one in calls.items()}
    for who, one in mine.items():
        out.fill_(math.nan)
        one()
        torch.cuda.synchronize()
        errors[who] = error(q, k, v, out, False)
        calls[who] = one
    times = timed(calls, options.rounds)
    for who, one in mine.items():
        # In a graph the device picks the number of parts.
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            one()
        out.fill_(math.nan)
        graph.replay()
        torch.cuda.synchronize()
        errors[who] = max(errors[who], error(q, k, v, out, False))
    # Where no graph is captured the host knows the lengths.
    times |= {f"{who}, no graph": found for who, found in queued(mine, options.rounds).items()}
    errors |= {f"{who}, no graph": errors[who] for who in mine}
    for who, found in times.items():
        row = {"decode": case._asdict(), "who": who, "us": found, "tbs": nbytes / found / 1e6, "error": errors[who]}
        file.write(json.dumps(row) + "\n")
    rates = ", ".join(f"{w} {t:.0f} us {nbytes / t / 1e6:.2f} TB/s ({errors[w]:.1e})" for w, t in times.items())
    print(f"decode {case.b},{case.h},{case.hk},{case.s},{case.d}: {rates}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--decode", action="store_true")
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--out", default=".")
    parser.add_argument("--name", default="attention.jsonl")
    parser.add_argument("--logs", default=os.path.join(tempfile.gettempdir(), "attention-logs"))
    parser.add_argument("--check", default="")
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=100.0)
    parser.add_argument("--check-budget", type=float, default=70.0)
    options = parser.parse_args()
    if options.check:
        share, of = map(int, options.check.split("/"))
        check_share(share, of, Path(options.logs))
        return
    begin = time.time()
    good = check_all(options.workers, Path(options.logs), options.check_budget) if options.tune else set()
    print(f"checked in {time.time() - begin:.0f} s, {len(good)} tiles are right", flush=True)
    end = time.time() + options.budget
    ratios = []
    with Path(options.out, options.name).open("w") as file:
        if options.backward:
            for causal in (False, True):
                for shape in (*SHAPES, *MORE_BACKWARD):
                    if time.time() < end:
                        ratios.append(run_backward(Case(*shape, causal), options, file) or math.nan)
                        torch.cuda.empty_cache()
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"geometric mean of the ratio to cuDNN: {mean:.3f}; least {min(ratios):.3f}")
            return
        if options.decode:
            for shape in DECODE:
                run_decode(Case(*shape, False), options, file)
            return
        for causal in (False, True):
            for shape in SHAPES:
                if time.time() > end:
                    print("out of time", flush=True)
                    break
                found = run(Case(*shape, causal), options, good, file)
                file.flush()
                if found:
                    ratios.append(found)
                torch.cuda.empty_cache()
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean of the ratio to the fastest peer: {mean:.3f}; least {min(ratios):.3f}")


if __name__ == "__main__":
    main()
