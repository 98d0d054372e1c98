"""Matrix products on an NVIDIA GPU beside cuBLAS (through torch): every tile the model likes, at many shapes.

    python benchmarks/h200_matmul.py [--tune] [--precisions] [--out FOLDER] [--shapes 4096x4096x4096,...]
    python benchmarks/h200_matmul.py --tune --random 80 --seed 7      # shapes nobody chose
    python benchmarks/h200_matmul.py --precisions --random 20 --what "fp8 rows,int8"
    python benchmarks/h200_matmul.py --f32 [--tune] [--majors k/k,mn/mn,k/mn,mn/k]   # float32 as it is, beside sgemm
    python benchmarks/h200_matmul.py --winners matmul.jsonl,...       # what ships, from such runs; needs no GPU

Without `--tune` the entry point alone runs, as callers get it; `--precisions` is fp8, int8 and float32 beside cuBLASLt.
Every result is compared with float64 first, element by element, on fresh random data and a poisoned output. Times are
medians of CUDA events around graph replays; contenders take turns, and rotate among as many sets of matrices as L2 does
not hold. One JSON object per measurement goes to FOLDER/matmul.jsonl; a table comes last.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("FLYDSL_COMPILE_BACKEND", "cuda")
import f32_tiles
import torch

from flydsl.kernels.matmul.calls import FEW
from flydsl.kernels.matmul.hopper import hopper
from flydsl.kernels.matmul.plan import RATES, Plan, Problem, candidates, operands
from flydsl.kernels.matmul.tile import Form, Tile, boxes, limits, problem
from flydsl.kernels.matmul.workspace import scratch

SHAPES = [
    (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (3072, 3072, 3072), (4096, 4096, 4096),
    (5120, 5120, 5120), (6144, 6144, 6144), (8192, 8192, 8192), (1536, 12288, 2048), (1000, 1000, 1000),
    (3000, 2000, 1000), (4096, 4096, 512), (8192, 1024, 1024), (512, 512, 16384), (1024, 1024, 8192), (256, 256, 28672),
    (1, 8192, 8192), (8, 4096, 4096), (16, 8192, 8192), (16, 28672, 8192), (32, 8192, 28672), (64, 8192, 8192),
    (64, 4096, 4096), (128, 4096, 4096), (128, 8192, 8192), (128, 28672, 4096), (192, 6144, 4096), (256, 4096, 14336),
    (256, 28672, 8192), (512, 4096, 4096), (512, 6144, 4096), (1024, 28672, 4096), (1024, 4096, 14336),
    (2048, 6144, 4096), (2048, 28672, 8192), (4096, 4096, 14336), (4096, 7168, 16384), (8192, 8192, 1024),
    (16384, 4096, 4096), (16384, 512, 7168), (777, 1296, 2056),
]  # fmt: skip
L2 = 50 << 20
MOST_FLOPS = 3e12
REACH = 1.25
"""How far a winner serves other shapes, as a factor over all extents."""


def random_shapes(count: int, seed: int, ragged: float = 0.25) -> list[tuple[int, int, int]]:
    """M from 1 to 16384, N and K from 512 to 28672, evenly by their logarithms; `ragged` of them are multiples of 8 in
    N and K and anything in M, the others multiples of 64."""
    source, found = random.Random(seed), []
    while len(found) < count:
        m = round(2 ** source.uniform(0, 14))
        n, k = (round(2 ** source.uniform(9, math.log2(28672))) for _ in range(2))
        if source.random() >= ragged:
            m, n, k = m if m < 64 else m // 64 * 64, n // 64 * 64, k // 64 * 64
        else:
            n, k = n // 8 * 8, k // 8 * 8
        if 2 * m * n * k <= MOST_FLOPS:
            found.append((m, n, k))
    return found


def write_winners(files: list[str], older: list[str], target: Path, *, keep: bool) -> None:
    """The fastest of each case's tiles, as the package has them; a case is taken from the first file that has it.
    With `keep` what ships already stays where no file has the case.

    Few rows have kernels of their own. Lines of older runs are of kernels that have become faster since, may have tiles
    that are no more, and lack some that there are now: where one is faster by the model, it decides.
    """
    from flydsl.autotune import Config
    from flydsl.autotune.shipped import write

    best: dict[Case, dict] = {}
    tried: set[tuple[Case, Tile]] = set()
    for file in (*files, *older):
        found: dict[Case, dict] = {}
        for row in map(json.loads, Path(file).read_text().splitlines()):
            case = Case(**row["case"])
            gone = "tile" not in row or row.get("burst", 1) > 1 or problem(Tile(**row["tile"])) is not None
            if (case.m > FEW or case.b_major != "k") and not gone:
                if file in files:
                    tried.add((case, Tile(**row["tile"])))
                found[case] = min(found.get(case, row), row, key=lambda x: x["us"])
        best = found | best
    points = []
    for case, row in sorted(best.items()):
        plans = candidates(problem_of(case, 132))
        if Tile(**row["tile"]) not in [plan.tile for plan in plans]:
            continue  # nobody would find it
        favourite = plans[0]
        if (case, favourite.tile) in tried or row["us"] < favourite.clocks / RATES.clock * 1e6:
            points.append((case._asdict(), Config(**row["tile"])))
    if keep:
        have = {Case(**key) for key, _ in points}
        ships = json.loads(target.read_text())["points"]
        points += [(x["key"], Config(**x["config"])) for x in ships if Case(**x["key"]) not in have]
    write(target, sorted(points, key=lambda point: Case(**point[0])), reach=REACH)
    print(f"{len(points)} winners in {target}")


class Case(NamedTuple):
    m: int
    n: int
    k: int
    a_major: str = "k"
    b_major: str = "k"

    def __str__(self) -> str:
        majors = "" if (self.a_major, self.b_major) == ("k", "k") else f" {self.a_major}/{self.b_major}"
        return f"{self.m}x{self.n}x{self.k}{majors}"


def problem_of(case: Case, processors: int) -> Problem:
    steps = (case.k if case.a_major == "k" else case.m, case.k if case.b_major == "k" else case.n)
    ragged = steps[0] % 64 != 0, steps[1] % 64 != 0
    return Problem(
        case.m, case.n, case.k, 1, 16, 2, case.a_major, case.b_major, case.n % 8 != 0, processors, ragged=ragged
    )


def chosen(case: Case, processors: int) -> list[Plan]:
    """The model's favourite, and others that differ from each other."""
    found, seen = [], set()
    ranked = candidates(problem_of(case, processors))
    for plan in ranked:
        shape = plan.tile._replace(swap=False, together=False)
        if shape not in seen and plan.clocks < 2.0 * ranked[0].clocks:
            seen.add(shape)
            found.append(plan)
    return found


def timed_plans(kind: Kind, case: Case, processors: int, options) -> list:
    """Plans that are timed: --most of the favourites, or --drawn of them any that the model finds up to half as slow
    again, by which it is seen where it is wrong."""
    found = kind.chosen(case, processors)
    first = options.most - options.drawn
    others = [plan for plan in found[first:] if plan.clocks < 1.5 * found[0].clocks]
    return found[:first] + random.Random(str(case)).sample(others, min(options.drawn, len(others)))


def form_of(case: Case, plan: Plan) -> Form:
    given = problem_of(case, 132)
    rows, columns, x_major, y_major = operands(given, plan.tile.swap)
    store = ("pairs" if plan.tile.by_threads else "engine") if case.n % 8 == 0 else "elements"
    edge = "pairs" if case.n % 8 == 0 and not plan.tile.swap else "elements"
    rows_x, rows_y = limits(plan.tile, rows, columns, x_major, y_major)
    boxes_x, boxes_y = boxes(plan.tile, rows, columns, x_major, y_major)
    return Form(
        x_major, y_major, store, edge=edge, rows_x=rows_x, rows_y=rows_y,
        boxes_x=boxes_x, boxes_y=boxes_y,
    )  # fmt: skip


def call(case: Case, plan: Plan, a, b, c) -> None:
    """`a` and `b` as they lie in memory: (m, k) or (k, m), (n, k) or (k, n)."""
    x, y = (b, a) if plan.tile.swap else (a, b)
    rows, columns = (case.n, case.m) if plan.tile.swap else (case.m, case.n)
    floats, counts = plan.sums(problem_of(case, 132))
    work = counters = None
    if counts:
        work = scratch(c, "sums", floats, "float32", None)
        counters = scratch(c, "counters", counts, "int32", None, zero=True)
    hopper(
        x, y, c, None, None, None, work, counters, rows, columns, case.k, 1, x.stride(0), 0, y.stride(0), 0,
        c.stride(0), 0, plan.blocks, plan.group, plan.tile, form_of(case, plan),
    )  # fmt: skip


def matrices(case: Case, dtype=torch.bfloat16):
    a = torch.randn((case.m, case.k) if case.a_major == "k" else (case.k, case.m), device="cuda").to(dtype)
    b = torch.randn((case.n, case.k) if case.b_major == "k" else (case.k, case.n), device="cuda").to(dtype)
    return a, b, torch.full((case.m, case.n), float("nan"), device="cuda", dtype=dtype)


ROUNDING = {torch.bfloat16: 2**-7.99, torch.float32: 2**-23.9}
"""Half a unit of the last place, relative, and a bit."""
ALL = {torch.bfloat16: 2.5e-3, torch.float32: 1e-5}
"""What the whole error is of the whole result, at most."""


class Checker:
    """Every element against float64: half a unit of its last place and what sums of k products in f32 may lose."""

    def __init__(self, case: Case, a, b):
        left = a if case.a_major == "k" else a.T
        right = b.T if case.b_major == "k" else b
        self.reference = left.double() @ right.double()
        most = left.float().abs() @ right.float().abs()
        self.most = ALL[a.dtype]
        self.bound = (self.reference.abs() * ROUNDING[a.dtype] + most.double() * (case.k * 2**-25)).float()
        self.size = self.reference.norm()

    def __call__(self, c) -> float:
        error = (c.double() - self.reference).abs()
        if not bool((error.float() <= self.bound).all()):
            worst = (error.float() - self.bound).nan_to_num(math.inf).argmax().item()
            at = divmod(worst, c.shape[1])
            raise AssertionError(f"{at}: {c[at].item()} instead of {self.reference[at].item()}")
        found = (error.norm() / self.size).item()
        assert found < self.most, found
        return found


def timed(calls, rounds: int, sets: int) -> dict[str, float]:
    """Median microseconds of each call, which gets the number of the set; they take turns.

    A graph has as many calls of one contender as of another: starting it takes some microseconds.
    """
    graphs, times, shortest = {}, {who: [] for who in calls}, math.inf
    for one in calls.values():
        one(0)
        torch.cuda.synchronize()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for i in range(2):
            one(i % sets)
        end.record()
        end.synchronize()
        shortest = min(shortest, max(start.elapsed_time(end) / 2, 0.002))
    count = max(sets, min(64, math.ceil(0.8 / shortest)))
    for who, one in calls.items():
        graphs[who] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[who]):
            for i in range(count):
                one(i % sets)
    for turn in range(rounds + 1):
        for who, graph in graphs.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            if turn:
                times[who].append(start.elapsed_time(end) / count * 1e3)
    return {who: statistics.median(found) for who, found in times.items()}


def name(plan: Plan) -> str:
    t = plan.tile
    words = [f"{t.m}x{t.n}", f"w{t.consumers}"]
    words += ["pp"] if t.pingpong else []
    words += [f"c{t.cluster}{t.shares}"] if t.cluster > 1 else []
    words += [f"k{t.splits}"] if t.splits > 1 else []
    words += [f"s{t.slices}"] if t.slices > 1 else []
    words += ["tail"] if t.tail else ["together"] if t.together else []
    words += [f"f{t.fits}"] if t.fits > 1 else []
    return " ".join([*words, *(["swap"] if t.swap else [])])


class Kind(NamedTuple):
    """What is timed: elements, and how the tiles that a model likes are found, called, told apart and written down."""

    dtype: torch.dtype
    chosen: Callable
    call: Callable
    name: Callable
    numbers: Callable


def numbers(plan: Plan) -> dict:
    model = plan.clocks / RATES.clock * 1e6
    return {"tile": plan.tile._asdict(), "group": plan.group, "blocks": plan.blocks, "model": model}


def kind_of(options) -> Kind:
    if options.f32:
        return Kind(torch.float32, f32_tiles.chosen, f32_tiles.call, f32_tiles.name, f32_tiles.numbers)
    return Kind(torch.bfloat16, chosen, call, name, numbers)


def check_share(cases: list[Case], processors: int, options, share: int, of: int) -> None:
    """This process' part of the cases: every tile once, compared. A log tells what was tried, should it not return."""
    log = Path(options.logs, f"checked-{share}.txt")
    before = set(log.read_text().splitlines()) if log.exists() else set()
    kind = kind_of(options)
    for case in cases[share::of]:
        check = None
        for plan in timed_plans(kind, case, processors, options):
            what = f"{case} {kind.name(plan)}"
            if f"try {what}" in before:
                continue
            with log.open("a") as file:
                file.write(f"try {what}\n")
            if check is None:
                a, b, c = matrices(case, kind.dtype)
                check = Checker(case, a, b)
            c.fill_(float("nan"))
            kind.call(case, plan, a, b, c)
            torch.cuda.synchronize()
            try:
                check(c)
                word = "good"
            except AssertionError as error:
                word = f"wrong ({error})"
            with log.open("a") as file:
                file.write(f"{word} {what}\n")


def check_all(arguments: list[str], options, of: int) -> set[str]:
    """Cases and tiles that gave the right numbers; workers that die or hang are started again behind that tile."""
    folder = Path(options.logs)
    folder.mkdir(exist_ok=True)
    for old in folder.glob("checked-*.txt"):
        old.unlink()
    workers = {i: spawn(arguments, i, of) for i in range(of)}
    begin = time.time()
    seen = {i: (time.time(), -1) for i in range(of)}
    while workers and time.time() - begin < options.check_budget:
        time.sleep(0.2)
        for i, worker in list(workers.items()):
            log = folder / f"checked-{i}.txt"
            size = log.stat().st_size if log.exists() else 0
            if size != seen[i][1]:
                seen[i] = time.time(), size
            code = worker.poll()
            if code is None and time.time() - seen[i][0] > 30:
                print(f"worker {i} hangs", flush=True)
                worker.kill()
                code = worker.wait()
            if code == 0:
                del workers[i]
            elif code is not None:
                workers[i] = spawn(arguments, i, of)
                seen[i] = time.time(), size
    for worker in workers.values():
        worker.kill()
    lines = [line for log in folder.glob("checked-*.txt") for line in log.read_text().splitlines()]
    good = {line.removeprefix("good ") for line in lines if line.startswith("good ")}
    for line in lines:
        if line.startswith("wrong"):
            print(line, flush=True)
        elif line.startswith("try ") and line.removeprefix("try ") not in good:
            if not any(x.startswith("wrong") and x.endswith(line.removeprefix("try ")) for x in lines):
                print("DIED", line.removeprefix("try "), flush=True)
    return good


def spawn(arguments: list[str], share: int, of: int) -> subprocess.Popen:
    quiet = open(os.devnull, "w")  # noqa: SIM115 - it lives as long as the process
    return subprocess.Popen([sys.executable, __file__, *arguments, "--check", f"{share}/{of}"], stderr=quiet)


def probe() -> None:
    """How many clusters run at once: time of so many tiles of a product whose parts of K are clusters."""
    for splits, counts in ((2, range(60, 68, 2)), (4, range(26, 34)), (8, range(11, 17))):
        times = []
        for count in counts:
            case = Case(64, 128 * count, 64 * splits * 64)
            plan = Plan(Tile(64, 128, 1, splits=splits), count * splits, 1, 0.0)
            a, b, c = matrices(case)
            found = timed({"x": lambda i: call(case, plan, a, b, c)}, 5, 1)  # noqa: B023
            times.append(f"{count}: {found['x']:.1f}")
        print(f"clusters of {splits}, us by number: {', '.join(times)}", flush=True)


def entry_calls(case: Case, data):
    """The entry point, as a caller has it."""
    from flydsl.kernels.matmul import matmul

    def one(i: int) -> None:
        a, b, c = data[i]
        matmul(a if case.a_major == "k" else a.T, b.T if case.b_major == "k" else b, out=c)

    return {"matmul": one}


def library_calls(case: Case, data):
    def one(i: int) -> None:
        a, b, c = data[i]
        torch.mm(a if case.a_major == "k" else a.T, b.T if case.b_major == "k" else b, out=c)

    return {"cublas": one}


def run(case: Case, processors: int, options, rows: list[dict]):
    """A line of the table and the ratios of one case; appends to `rows`."""
    kind = kind_of(options)
    nbytes = kind.dtype.itemsize * (case.m * case.k + case.n * case.k + case.m * case.n)
    sets = max(2, min(24, math.ceil(3 * L2 / nbytes)))
    data = [matrices(case, kind.dtype) for _ in range(sets)]
    calls = library_calls(case, data)
    plans = {}
    if options.tune:
        plans = {kind.name(plan): plan for plan in timed_plans(kind, case, processors, options)}
        plans = {who: plan for who, plan in plans.items() if f"{case} {who}" in options.good}
        for who, plan in plans.items():
            calls[who] = lambda i, plan=plan: kind.call(case, plan, *data[i])
    else:
        calls |= entry_calls(case, data)
        check = Checker(case, *data[0][:2])
        calls["matmul"](0)
        check(data[0][2])
    times = timed(calls, options.rounds, sets)
    peer = times.pop("cublas")
    flops = 2 * case.m * case.n * case.k
    for who, found in {"cublas": peer, **times}.items():
        more = kind.numbers(plans[who]) if who in plans else {}
        if options.f32:
            more["dtype"] = "float32"
        rows.append({"case": case._asdict(), "who": who, "us": found, "tflops": flops / found / 1e6, **more})
    if not times:
        return f"{case}: nothing right", []
    first = next(iter(times))
    order = sorted(times, key=times.__getitem__)
    line = (
        f"{case!s:20} {peer:7.1f} {flops / peer / 1e6:4.0f} | {times[first]:7.1f} {peer / times[first]:4.2f} "
        f"{first:18} | {peer / times[order[0]]:4.2f} {', '.join(f'{w} {times[w]:.1f}' for w in order[:3])}"
    )
    return line, [(peer / times[first], peer / times[order[0]])]


FP8_SHAPES = [(2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (4096, 7168, 16384), (16, 8192, 8192)]


def precision_calls(case: Case):
    """Products of fp8 and int8 by what they are of: ours, the library's, and what both should give.

    For factors of blocks torch has none: there Triton stands for it.
    """
    import triton_blocks

    from flydsl.kernels.matmul import matmul

    m, n, k = case.m, case.n, case.k
    a, b = (torch.randn(x, k, device="cuda").to(torch.float8_e4m3fn) for x in (m, n))
    one, rows, columns = (torch.rand(*s, device="cuda") + 0.5 for s in ((1,), (m, 1), (1, n)))
    # Weights are kept as (n, k), and so are their factors.
    lines, squares = (torch.rand(*s, device="cuda") + 0.5 for s in ((m, k // 128), (-(-n // 128), k // 128)))
    squares = squares.T
    product = a.float() @ b.float().T
    wide = squares.repeat_interleave(128, 0).repeat_interleave(128, 1)[:, :n]
    blocked = (a.float() * lines.repeat_interleave(128, 1)) @ (b.float().T * wide)
    x, y = (torch.randint(-128, 128, (q, k), device="cuda", dtype=torch.int8) for q in (max(m, 32), n))

    def scaled(first, second, fast):
        return lambda: torch._scaled_mm(
            a, b.T, scale_a=first, scale_b=second, out_dtype=torch.bfloat16, use_fast_accum=fast
        )

    u, v = (torch.randn(q, k, device="cuda") for q in (m, n))
    exact = (u.double() @ v.double().T).float()

    def library(fast):
        def call():
            torch.backends.cuda.matmul.allow_tf32 = fast
            return torch.mm(u, v.T)

        return call

    def ours(first, second, sums="f32"):
        return lambda: matmul(a, b.T, scale_a=first, scale_b=second, accumulate=sums)

    single = one.reshape(())
    found = {
        "fp8 one fast": (ours(one, one, "fast"), scaled(single, single, True), product * one * one),
        "fp8 one": (ours(one, one), scaled(single, single, False), product * one * one),
        "fp8 rows fast": (ours(rows, columns, "fast"), scaled(rows, columns, True), product * rows * columns),
        "fp8 rows": (ours(rows, columns), scaled(rows, columns, False), product * rows * columns),
        "fp8 blocks": (ours(lines, squares), lambda: triton_blocks.product(a, b, lines, squares), blocked),
        "f32 tf32": (lambda: matmul(u, v.T, precision="tf32"), library(True), exact),
        "f32 tf32x3": (lambda: matmul(u, v.T, precision="tf32x3"), library(False), exact),
        "int8": (lambda: matmul(x, y.T), lambda: torch._int_mm(x, y.T), x.float() @ y.float().T),
    }
    return found


def run_precisions(shapes: list[tuple[int, int, int]], only: set[str], rows: list[dict], budget: float) -> None:
    begin = time.time()
    for shape in shapes:
        case = Case(*shape)
        if time.time() - begin > budget:
            print(f"{case}: out of time")
            continue
        for what, (ours, library, want) in precision_calls(case).items():
            if only and what not in only:
                continue
            try:
                error = ((ours().float() - want).norm() / want.norm()).item()
                calls = {"flydsl": lambda i, call=ours: call()}
                if library is not None:
                    library()
                    calls["library"] = lambda i, call=library: call()
                times = timed(calls, 5, 1)
            except Exception as problem:  # noqa: BLE001 - what a library does not have is told, not fatal
                print(f"{case!s:18} {what:14} {str(problem)[:150]}", flush=True)
                continue
            speed = {who: 2 * case.m * case.n * case.k / us / 1e6 for who, us in times.items()}
            rows.append({"case": case._asdict(), "what": what, "error": error, "us": times, "tflops": speed})
            words = ", ".join(f"{who} {times[who]:.1f} us {speed[who]:.0f}" for who in times)
            ratio = times.get("library", math.nan) / times["flydsl"]
            print(f"{case!s:18} {what:14} error {error:.1e} {words}, ratio {ratio:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--shapes", default="")
    parser.add_argument("--random", type=int, default=0, help="so many shapes, evenly spread by their logarithms")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--ragged", type=float, default=0.25, help="the share of random shapes that are no multiples of 64"
    )
    parser.add_argument("--winners", default="", help="write what ships from the results of --tune, comma-separated")
    parser.add_argument("--older", default="", help="with --winners: results of kernels before the last change")
    parser.add_argument("--keep", action="store_true", help="with --winners: beside those that ship")
    parser.add_argument("--majors", default="k/k")
    parser.add_argument("--most", type=int, default=12)
    parser.add_argument(
        "--drawn", type=int, default=0, help="so many of --most are drawn from what the model does not like"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=1000.0)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--check-budget", type=float, default=90.0)
    parser.add_argument("--name", default="matmul.jsonl")
    parser.add_argument("--logs", default="/tmp/matmul-checks")
    parser.add_argument("--precisions", action="store_true")
    parser.add_argument("--what", default="", help="with --precisions: only these, comma-separated")
    parser.add_argument("--f32", action="store_true", help="float32 as it is; cuBLAS without TF32")
    parser.add_argument("--probe", action="store_true")
    parser.add_argument("--check", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.winners:
        from flydsl.autotune.shipped import FOLDER, file_of

        FOLDER.mkdir(exist_ok=True)
        older = [file for file in options.older.split(",") if file]
        write_winners(options.winners.split(","), older, file_of("matmul", "sm_90a"), keep=options.keep)
        return
    shapes = [tuple(map(int, s.split("x"))) for s in options.shapes.split(",") if s]
    if options.random:
        shapes = random_shapes(options.random, options.seed, options.ragged)
    if options.precisions:
        # Whole blocks of 128 along K: every way of scaling takes them.
        shapes = [(m, n // 16 * 16, -(-k // 128) * 128) for m, n, k in shapes] or FP8_SHAPES
    shapes = shapes or SHAPES
    cases = [Case(*shape, *majors.split("/")) for majors in options.majors.split(",") for shape in shapes]
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    if options.check:
        share, of = map(int, options.check.split("/"))
        check_share(cases, processors, options, share, of)
        return
    torch.backends.cuda.matmul.allow_tf32 = False
    begin = time.time()
    if options.probe:
        probe()
    if options.precisions:
        found: list[dict] = []
        run_precisions(shapes, set(filter(None, options.what.split(","))), found, options.budget)
        Path(options.out, "precisions.jsonl").write_text("\n".join(map(json.dumps, found)) + "\n")
        for what in dict.fromkeys(row["what"] for row in found):
            ratios = [row["us"]["library"] / row["us"]["flydsl"] for row in found if row["what"] == what]
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{what}: geometric mean {mean:.3f}, worst {min(ratios):.2f}")
        return
    options.good = check_all(sys.argv[1:], options, options.workers) if options.tune else set()
    if options.tune:
        print(f"checked {len(options.good)} in {time.time() - begin:.1f} s", flush=True)
    lines, ratios, rows = [], [], []
    for case in cases:
        if time.time() - begin > options.budget:
            lines.append(f"{case}: out of time")
            continue
        line, ratio = run(case, processors, options, rows)
        lines.append(line)
        ratios += ratio
        Path(options.out, options.name).write_text("\n".join(map(json.dumps, rows)) + "\n")
    print(f"{time.time() - begin:.0f} s; us, TFLOP/s of cuBLAS | model's choice: us, ratio | best")
    print("\n".join(lines))
    for i, what in enumerate(("first choice", "best")):
        values = [r[i] for r in ratios]
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"{what}: geometric mean {mean:.3f}, worst {min(values):.2f}")


if __name__ == "__main__":
    main()
