"""Products of few rows on an NVIDIA GPU, weights in 4, 8 and 16 bits: every cut the model likes, beside cuBLAS.

    python benchmarks/h200_quantized.py [--cases N] [--most N] [--out FOLDER] [--seed N]

Shapes are 1, 16 and 64 rows of 8192 x 8192, and N random ones, log-uniform in all extents. cuBLAS multiplies the same
weights in bf16. Every result is compared with float64 first, element by element, in a poisoned output, by processes of
their own: what ends or hangs one is named and left out. Times are medians of CUDA events around graph replays;
contenders take turns, and rotate among as many sets of weights as L2 does not hold. One JSON object per measurement
goes to FOLDER/quantized.jsonl.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("FLYDSL_COMPILE_BACKEND", "cuda")
import torch
from h200_matmul import L2, timed

from flydsl.kernels import dequantize_weight, matmul, quantize_weight
from flydsl.kernels.matmul.few.slim import Slim, Weights
from flydsl.kernels.matmul.few.slim_kernel import slim_matmul
from flydsl.kernels.matmul.few.slim_plan import Given, candidates, microseconds
from flydsl.kernels.matmul.workspace import scratch

FORMS = {4: Weights(4, 128), 8: Weights(8, 128), 16: Weights(16)}


class Case(NamedTuple):
    m: int
    n: int
    k: int
    bits: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k} w{self.bits}"


def cases(count: int, seed: int) -> list[Case]:
    """The three bars for packed weights and one row of 16 bits, then random shapes."""
    found = [Case(m, 8192, 8192, bits) for bits in FORMS for m in (1, 16, 64) if bits < 16 or m == 1]
    draw = random.Random(seed)

    def some(low: int, high: int, unit: int) -> int:
        return max(unit, round(math.exp(draw.uniform(math.log(low), math.log(high))) / unit) * unit)

    for i in range(count):
        found.append(Case(some(1, 96, 1), some(1024, 28672, 64), some(1024, 28672, 64), (4, 8, 4)[i % 3]))
    return found


def chosen(case: Case, most: int) -> list[Slim]:
    """The model's favourite, its other slices, and others that differ from each other."""
    given = Given(case.m, case.n, case.k, FORMS[case.bits], 132)
    ranked = candidates(given)
    limit = 2.5 * microseconds(given, ranked[0])
    found, seen = [ranked[0]], {ranked[0]._replace(slices=1, stages=0)}
    for slim in ranked:
        shape = slim._replace(slices=1, stages=0)
        if shape not in seen and microseconds(given, slim) < limit and len(found) < most - 2:
            seen.add(shape)
            found.append(slim)
    same = [x for x in ranked[1:] if x._replace(slices=1) == ranked[0]._replace(slices=1)]
    return found + same[:2]


def name(slim: Slim) -> str:
    words = [f"{slim.rows}x{slim.tokens}", f"{slim.across}/{slim.along}", f"st{slim.stages}"]
    words += ["turns"] if slim.turns else []
    return " ".join([*words, *(["wide"] if slim.wide else []), *([f"s{slim.slices}"] if slim.slices > 1 else [])])


class Data(NamedTuple):
    """A set: A, the weights as they are multiplied, as a float matrix (K, N), and a poisoned C."""

    a: torch.Tensor
    w: object
    b: torch.Tensor
    c: torch.Tensor


def data_of(case: Case) -> Data:
    a = torch.randn(case.m, case.k, device="cuda").bfloat16()
    b = torch.randn(case.n, case.k, device="cuda").bfloat16().T
    c = torch.full((case.m, case.n), math.nan, device="cuda", dtype=torch.bfloat16)
    return Data(a, b if case.bits == 16 else quantize_weight(b, case.bits, 128), b, c)


def call(case: Case, slim: Slim, data: Data) -> None:
    form = FORMS[case.bits]
    blocks = -(-case.n // slim.rows) * -(-case.m // slim.tokens)
    work = counters = None
    if slim.slices > 1:
        work = scratch(data.c, "sums", blocks * slim.slices * slim.rows * slim.tokens, "float32", None)
        counters = scratch(data.c, "counters", blocks, "int32", None, zero=True)
    weights = data.b.T if case.bits == 16 else data.w.data
    slim_matmul(
        data.a, weights, data.c, None, work, counters, case.m, case.n, case.k, case.k, case.k, case.n, slim, form,
        "none", case.n % 4 == 0,
    )  # fmt: skip


def entry(data: Data) -> None:
    matmul(data.a, data.w, out=data.c)


class Checker:
    """Every element against float64: half a unit of bf16's last place and what sums of k products in f32 may lose."""

    def __init__(self, case: Case, data: Data):
        exact = (data.b if case.bits == 16 else dequantize_weight(data.w, "float32")).double()
        self.reference = data.a.double() @ exact
        most = data.a.double().abs() @ exact.abs()
        self.bound = self.reference.abs() * 2**-7.99 + most * (case.k * 2**-25 + 2**-22)

    def __call__(self, c) -> None:
        error = (c.double() - self.reference).abs()
        if not bool((error <= self.bound).all()):
            at = divmod((error - self.bound).nan_to_num(math.inf).argmax().item(), c.shape[1])
            raise AssertionError(f"{at}: {c[at].item()} instead of {self.reference[at].item()}")


def check_share(found: list[Case], options) -> None:
    """This process' part of the cases; a log tells what was tried, should it not return."""
    share, of = map(int, options.check.split("/"))
    log = Path(options.logs, f"checked-{share}.txt")
    tried = set(log.read_text().splitlines()) if log.exists() else set()
    for case in found[share::of]:
        check = data = None
        for slim in [None, *chosen(case, options.most)]:
            what = f"{case} {'matmul' if slim is None else name(slim)}"
            if f"try {what}" in tried:
                continue
            with log.open("a") as file:
                file.write(f"try {what}\n")
            if check is None or data is None:
                data = data_of(case)
                check = Checker(case, data)
            data.c.fill_(math.nan)
            if slim is None:
                entry(data)
            else:
                call(case, slim, data)
            torch.cuda.synchronize()
            try:
                check(data.c)
                word = "good"
            except AssertionError as error:
                word = f"WRONG ({error})"
            with log.open("a") as file:
                file.write(f"{word} {what}\n")


def check_all(options, arguments: list[str]) -> set[str]:
    """What gave the right numbers; workers that die or hang are started again behind that."""
    folder = Path(options.logs)
    folder.mkdir(exist_ok=True, parents=True)
    for old in folder.glob("checked-*.txt"):
        old.unlink()

    def spawn(i: int) -> subprocess.Popen:
        errors = (folder / f"errors-{i}.txt").open("a")
        return subprocess.Popen(
            [sys.executable, __file__, *arguments, "--check", f"{i}/{options.workers}"], stderr=errors
        )

    workers = {i: spawn(i) for i in range(options.workers)}
    begin = time.time()
    seen = {i: (time.time(), -1) for i in workers}
    while workers and time.time() - begin < options.check_budget:
        time.sleep(0.2)
        for i, worker in list(workers.items()):
            log = folder / f"checked-{i}.txt"
            size = log.stat().st_size if log.exists() else 0
            if size != seen[i][1]:
                seen[i] = time.time(), size
            code = worker.poll()
            if code is None and time.time() - seen[i][0] > 40:
                worker.kill()
                code = worker.wait()
            if code == 0:
                del workers[i]
            elif code is not None:
                workers[i], seen[i] = spawn(i), (time.time(), size)
    for worker in workers.values():
        worker.kill()
    lines = [line for log in folder.glob("checked-*.txt") for line in log.read_text().splitlines()]
    good = {line.removeprefix("good ") for line in lines if line.startswith("good ")}
    for line in lines:
        if line.startswith("WRONG"):
            print(line, flush=True)
        elif line.startswith("try ") and not any(x.endswith(line[4:]) and not x.startswith("try") for x in lines):
            print("DIED", line[4:], flush=True)
    print(f"{len(good)} right after {time.time() - begin:.0f} s", flush=True)
    return good


def run(case: Case, good: set[str], options, out) -> float:
    size = case.n * case.k * case.bits // 8 + 2 * case.m * (case.n + case.k)
    sets = max(2, min(12, math.ceil(3 * L2 / size)))
    data = [data_of(case) for _ in range(sets)]
    calls = {"cublas": lambda i: torch.mm(data[i].a, data[i].b, out=data[i].c)}
    if f"{case} matmul" in good:
        calls["matmul"] = lambda i: entry(data[i])
    cuts = {name(slim): slim for slim in chosen(case, options.most)}
    for who, slim in cuts.items():
        if f"{case} {who}" in good:
            calls[who] = lambda i, slim=slim: call(case, slim, data[i])
    times = timed(calls, options.rounds, sets)
    given = Given(case.m, case.n, case.k, FORMS[case.bits], 132)
    for who, us in times.items():
        more = {"slim": cuts[who]._asdict(), "model": microseconds(given, cuts[who])} if who in cuts else {}
        out.write(json.dumps({"case": case._asdict(), "who": who, "us": us, "gbs": size / us / 1e3, **more}) + "\n")
    out.flush()
    peer, ours = times.pop("cublas"), times.get("matmul", math.nan)
    order = sorted(times, key=times.__getitem__)
    best = ", ".join(f"{who} {times[who]:.1f}" for who in order[:4])
    print(f"{case!s:24} cublas {peer:6.1f} | matmul {ours:6.1f} {peer / ours:5.2f} | {best}", flush=True)
    return peer / ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=18)
    parser.add_argument("--most", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--budget", type=float, default=80)
    parser.add_argument("--check-budget", type=float, default=100)
    parser.add_argument("--check", default="")
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--logs", default="/tmp/quantized-logs")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    found = cases(options.cases, options.seed)
    if options.check:
        check_share(found, options)
        return
    good = check_all(options, sys.argv[1:])
    begin, ratios = time.time(), []
    with (Path(options.out) / "quantized.jsonl").open("w") as out:
        for case in found:
            if time.time() - begin < options.budget:
                ratios.append(run(case, good, options, out))
    ratios = [r for r in ratios if not math.isnan(r)]
    mean = math.exp(sum(map(math.log, ratios)) / max(1, len(ratios)))
    print(
        f"{len(ratios)} cases: geometric mean {mean:.2f}, worst {min(ratios, default=0):.2f} of cuBLAS' speed in bf16"
    )


if __name__ == "__main__":
    main()
