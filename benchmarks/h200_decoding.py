"""The plan's choice for decoding on a Hopper GPU beside cuDNN, flash attention, an earlier rule, and its neighbours.

    python benchmarks/h200_decoding.py [--budget SECONDS] [--seed 2] [--count 36] [--out FOLDER]
    FLYDSL_COMPILE_BACKEND=cpu FLYDSL_COMPILE_ARCH=sm_90a python benchmarks/h200_decoding.py --dry

Workers compile every kernel and check it on ragged lengths; the good ones take turns at random shapes, in CUDA graphs
over several copies of keys and values, so that L2 does not hold them. JSON lines go to
FOLDER/decode-rule.jsonl.
With --dry everything runs at tiny shapes on the cpu stack, without graphs. Lengths that are given are not known to the
host, as in a graph.
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
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("FLYDSL_COMPILE_BACKEND", "cuda")
import torch

from flydsl.kernels.attention.calls import Given, Wanted, on_hopper
from flydsl.kernels.attention.plan import MIXED, parts_for, splits_for, tile_for_few
from flydsl.kernels.attention.request import check
from flydsl.kernels.attention.tile import Tile
from flydsl.kernels.matmul.arrays import describe
from flydsl.kernels.matmul.calls import Target
from flydsl.target import GPUTarget

DRY = "--dry" in sys.argv
DEVICE = "cpu" if DRY else "cuda"
PROCESSORS = 4 if DRY else torch.cuda.get_device_properties(0).multi_processor_count
ROTATED = 1 if DRY else 600 << 20
"""Bytes of keys and values that calls of a graph go through, twelve times what L2 holds."""
GOOD = 1e-2


class Case(NamedTuple):
    b: int
    h: int
    hk: int
    s: int
    d: int
    ragged: int = 0
    """0, or the seed of lengths from 1 to s."""

    def __str__(self) -> str:
        return f"{self.b},{self.h},{self.hk},{self.s},{self.d}{'r' if self.ragged else ''}"


class Form(NamedTuple):
    name: str
    page: int
    wanted: Wanted
    used: bool = False
    """Lengths are given."""
    ordered: bool = False
    """The pages of a sequence follow each other in memory."""


PAGES = (1, 16, 64)
SIZES = (64, 64, 96, 128, 256)


def one(d: int) -> Tile:
    """One block a multiprocessor, as it was before."""
    tile = Tile(d, d, 64 if d > 128 else 128, 1)
    room = (tile.most_smem - tile._replace(stages=0).smem) // (4 * tile.n * d)
    return tile._replace(stages=max(2, min(6, room)))


def rule_of(case: Case, lengths: bool) -> int:
    tile = tile_for_few(case.d, case.d, 0)
    share = MIXED if lengths else 1.0
    return parts_for(case.b * case.hk, -(-case.s // tile.n), case.b * case.h, tile, PROCESSORS, share)


def forms(case: Case) -> list[Form]:
    """The rule's choice, the one before it, other numbers of parts for the same tile, and pages."""
    used, tile, units = case.ragged > 0, one(case.d), case.b * case.hk
    steps = -(-case.s // tile.n)
    before = splits_for(units, steps, PROCESSORS)
    chosen, mine = rule_of(case, used), tile_for_few(case.d, case.d, 0)
    most = max(1, min(256, -(-case.s // mine.n) // 2))
    made = [
        Form("rule", 0, Wanted(), used),
        Form("static", 0, Wanted(dynamic=False), used),
        Form("before", 0, Wanted(tile, dynamic=used, splits=before), used),
    ]
    if mine.blocks > 1:
        both = splits_for(units, -(-case.s // mine.n), 2 * PROCESSORS)
        made.append(Form("before two", 0, Wanted(dynamic=used, splits=both), used))
        made.append(Form("one", 0, Wanted(tile, splits=max(1, min(chosen, steps // 2))), used))
    near = {1, 2, 3, 4, 6, 8, 12, 16, 24, chosen - 1, chosen + 1, chosen // 2, 2 * chosen} - {chosen}
    made += [Form(f"parts {k}", 0, Wanted(splits=k), used) for k in sorted(near) if 1 <= k <= most]
    if not used:
        made.append(Form("lengths", 0, Wanted(), True))
    for page in PAGES:
        made.append(Form("rule", page, Wanted(), True))
    made.append(Form("engine", 16, Wanted(by_threads=False), True))
    made.append(Form("threads", 64, Wanted(by_threads=True), True))
    if mine.blocks > 1:
        made += [Form("one", page, Wanted(tile), True) for page in PAGES]
    return made


class Data(NamedTuple):
    """Copies of keys and values (copies, b, s, hk, d), queries, results, lengths, and what is right."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out: torch.Tensor
    lengths: torch.Tensor
    right: torch.Tensor


def data(case: Case) -> Data:
    copies = max(1, min(8, -(-ROTATED // (4 * case.b * case.s * case.hk * case.d))))
    make = partial(torch.randn, device=DEVICE, dtype=torch.bfloat16)
    q = make(copies, case.b, 1, case.h, case.d)
    k, v = (make(copies, case.b, case.s, case.hk, case.d) for _ in range(2))
    lengths = [case.s] * case.b
    if case.ragged:
        draw = random.Random(case.ragged)
        lengths = [draw.randint(1, case.s) for _ in lengths]
        for i, n in enumerate(lengths):
            k[:, i, n:], v[:, i, n:] = math.nan, math.nan
    right = torch.empty(q.shape, device=DEVICE, dtype=torch.float32)
    for c in range(copies):
        for i, n in enumerate(lengths):
            x = q[c, i, 0].double().reshape(case.hk, -1, case.d)
            y, z = (t[c, i, :n].double().transpose(0, 1) for t in (k, v))
            right[c, i, 0] = ((x @ y.mT * case.d**-0.5).softmax(-1) @ z).reshape(case.h, case.d)
    used = torch.tensor(lengths, dtype=torch.int32, device=DEVICE)
    return Data(q, k, v, torch.empty_like(q), used, right)


def paged(x: Data, page: int, ordered: bool):
    """The same keys and values in pages, and a table for each copy."""
    copies, b, s, hk, d = x.k.shape
    room = -(-s // page)
    k, v = x.k, x.v
    if room * page > s:
        k, v = (torch.nn.functional.pad(t, (0, 0, 0, 0, 0, room * page - s), value=math.nan) for t in (k, v))
    count = copies * b * room
    order = torch.arange(count, device=DEVICE) if ordered else torch.randperm(count, device=DEVICE)
    table = order.argsort().to(torch.int32).reshape(copies, b, room)
    k, v = (t.reshape(count, page, hk, d) for t in (k, v))
    return (k, v, table) if ordered else (k[order], v[order], table)


def calls_of(form: Form, x: Data, kept: dict[object, tuple]) -> list:
    """A call for each copy."""
    made = []
    where = Target(GPUTarget.parse("cuda:sm_90a"), PROCESSORS)
    longest = int(x.lengths.max())
    used = x.lengths if form.used else None
    for c in range(x.q.shape[0]):
        table = None
        if form.page:
            key = form.page, form.ordered
            if key not in kept:
                kept[key] = paged(x, *key)
            k, v, tables = kept[key]
            table = tables[c]
        else:
            k, v = x.k[c], x.v[c]
        q, out = x.q[c], x.out[c]
        request = check(
            describe("q", q), describe("k", k), describe("v", v), False, None, None, None,
            table=None if table is None else describe("block_table", table),
            used_k=None if used is None else describe("seqlens_k", used),
        )  # fmt: skip
        run = on_hopper(request, describe("out", out), where, form.wanted)
        assert run is not None, form
        none = (None, None, None)
        share = 1.0 if used is None else None
        given = Given(q, k, v, out, None, None, None, None, None, None, used, table, none, (0, 0, 1.0), share)
        made.append(partial(run, given, 1, longest, None))
    return made


def peers(x: Data) -> dict[str, list]:
    """cuDNN and flash attention through torch; those that do not take a shape are left out."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def one(backend, c: int) -> None:
        q, k, v = (t[c].transpose(1, 2) for t in (x.q, x.k, x.v))
        with sdpa_kernel(backend):
            found = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1])
        kept_results[c] = found

    kept_results: dict[int, torch.Tensor] = {}
    made = {}
    for who, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        try:
            one(backend, 0)
            wait()
        except RuntimeError as problem:
            print(f"{who} does not take it: {str(problem)[:80]}", flush=True)
            continue
        made[who] = [partial(one, backend, c) for c in range(x.q.shape[0])]
    return made


def wait() -> None:
    if not DRY:
        torch.cuda.synchronize()


def error(x: Data, calls: list) -> float:
    """The largest of the relative errors of all sequences, norm over norm; NaN anywhere is infinite."""
    x.out.fill_(math.nan)
    for one in calls:
        one()
    wait()
    if not bool(torch.isfinite(x.out).all()):
        return math.inf
    off = (x.out.float() - x.right).flatten(2).norm(dim=2) / x.right.flatten(2).norm(dim=2)
    return off.max().item()


def timed(calls: dict[str, list], rounds: int) -> dict[str, float]:
    """Median microseconds of a call, by replays of a graph of all copies' calls; contenders take turns."""
    if DRY:
        return dict.fromkeys(calls, 1.0)
    graphs, counts, times = {}, {}, {who: [] for who in calls}
    for who, every in calls.items():
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for one in every:
                one()
        graph.replay()
        wait()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        graphs[who] = graph
        counts[who] = max(1, min(10, math.ceil(1.5 / max(start.elapsed_time(end), 0.01))))
    for _ in range(rounds):
        for who, graph in graphs.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(counts[who]):
                graph.replay()
            end.record()
            end.synchronize()
            times[who].append(start.elapsed_time(end) / counts[who] / len(calls[who]) * 1e3)
    return {who: statistics.median(found) for who, found in times.items()}


def name_of(form: Form) -> str:
    return f"{form.name} p{form.page}" if form.page else form.name


def kernels() -> list[tuple[Form, int]]:
    """Every kernel that is timed, once, with the elements of its rows: whole, and in parts."""
    made: dict[object, tuple[Form, int]] = {}
    for d in sorted(set(SIZES)):
        for ragged in (0, 1):
            for f in forms(Case(5, 8, 2, 768, d, ragged)):
                if f.name.startswith(("parts", "before")):
                    continue
                for k in (1, 3):
                    form = f._replace(wanted=f.wanted._replace(splits=k), name=f"{f.name} /{k}")
                    made.setdefault((form.wanted, f.page, f.used, d), (form, d))
        for k in (1, 3):
            form = Form(f"before /{k}", 0, Wanted(one(d), dynamic=False, splits=k))
            made.setdefault((form.wanted, 0, False, d), (form, d))
    return list(made.values())


def check_share(share: int, of: int, logs: Path) -> None:
    """This process' part of the kernels, right or not: lengths within and at steps, and what lies behind is NaN."""
    shown = {}
    for form, d in kernels()[share::of]:
        if d not in shown:
            case = Case(5, 8, 2, 768, d)
            x = data(case)
            lengths = [1, 768, 513, 200, 640]
            for i, n in enumerate(lengths):
                x.k[:, i, n:], x.v[:, i, n:] = math.nan, math.nan
                y = x.q[:, i, 0].double().reshape(-1, 2, 4, d)
                k, v = (t[:, i, :n].double().transpose(1, 2) for t in (x.k, x.v))
                x.right[:, i, 0] = ((y @ k.mT * d**-0.5).softmax(-1) @ v).reshape(-1, 8, d).float()
            ragged = x._replace(lengths=torch.tensor(lengths, dtype=torch.int32, device=DEVICE))
            shown[d] = (data(case), ragged)
        try:
            x = shown[d][form.used]
            found = error(x, calls_of(form, x, {}))
            word = "good" if found < GOOD else f"wrong {found:.1e}"
        except Exception as problem:  # noqa: BLE001 the others are to be checked all the same
            word = f"{type(problem).__name__}: {str(problem)[:300]}"
        with (logs / f"checked-{share}.txt").open("a") as file:
            file.write(f"{key_of(form, d)}|{word}\n".replace("\n", " ") + "\n")


def key_of(form: Form, d: int) -> str:
    return f"{form.name} p{form.page} u{int(form.used)} d{d}"


def check_all(of: int, logs: Path, budget: float) -> None:
    logs.mkdir(parents=True, exist_ok=True)
    for old in logs.glob("checked-*.txt"):
        old.unlink()
    workers = []
    for i in range(of):
        log = (logs / f"worker-{i}.log").open("w")
        command = [sys.executable, __file__, "--check", f"{i}/{of}", "--logs", str(logs), *(["--dry"] * DRY)]
        workers.append(subprocess.Popen(command, stderr=log, stdout=log))
    end = time.time() + budget
    for worker in workers:
        try:
            worker.wait(max(1.0, end - time.time()))
        except subprocess.TimeoutExpired:
            worker.kill()
    words = dict(line.split("|", 1) for log in logs.glob("checked-*.txt") for line in log.read_text().splitlines())
    for form, d in kernels():
        word = words.get(key_of(form, d), "DIED or hangs").strip()
        if word != "good":
            print(f"KERNEL {key_of(form, d)}: {word}", flush=True)
    for i, worker in enumerate(workers):
        if worker.returncode:
            print(f"worker {i}:", (logs / f"worker-{i}.log").read_text()[-600:], flush=True)


def measure(what: str, case: Case, forms: list[Form], rounds: int, file) -> dict[str, float]:
    """Times of all forms that are right."""
    x = data(case)
    kept: dict[object, tuple] = {}
    calls = {} if case.ragged or DRY else peers(x)
    errors = {}
    for form in forms:
        who = name_of(form)
        try:
            made = calls_of(form, x, kept)
            errors[who] = error(x, made)
        except Exception as problem:  # noqa: BLE001 the others are to be timed all the same
            print(f"FAILED {case} {who}: {type(problem).__name__} {str(problem)[:200]}", flush=True)
            continue
        if errors[who] < GOOD:
            calls[who] = made
        else:
            print(f"WRONG {case} {who}: {errors[who]:.1e}", flush=True)
    times = timed(calls, rounds)
    keys = int(x.lengths.sum())
    nbytes = 4 * keys * case.hk * case.d
    for who, found in times.items():
        row = {"what": what, "case": case._asdict(), "who": who, "us": round(found, 2), "tbs": nbytes / found / 1e6}
        file.write(json.dumps({**row, "error": errors.get(who), "keys": keys}) + "\n")
    file.flush()
    return times


LINES: list[tuple[Case, dict[str, float]]] = []


def run_rule(case: Case, rounds: int, file) -> None:
    used = case.ragged > 0
    every = forms(case)
    times = measure("rule", case, every, rounds, file)
    LINES.append((case, times))
    base, units = times.get("rule", math.nan), case.b * case.hk
    tile = tile_for_few(case.d, case.d, 0)
    head = f"{case} units {units} rule {rule_of(case, used)} x{tile.blocks} {base:.1f}us"
    head += f" {rate(case, keys_of(case), base):.2f}TB/s: "
    print(head + ", ".join(f"{w} {base / t:.2f}" for w, t in times.items() if w != "rule"), flush=True)


def keys_of(case: Case) -> int:
    if not case.ragged:
        return case.b * case.s
    draw = random.Random(case.ragged)
    return sum(draw.randint(1, case.s) for _ in range(case.b))


def mean(found: list[float]) -> str:
    if not found:
        return "none"
    middle = math.exp(statistics.fmean(map(math.log, found)))
    return f"{middle:.3f} worst {min(found):.3f} best {max(found):.3f} ({len(found)})"


def summary() -> None:
    """Speeds of the rule over those of others: geometric mean, least, most."""
    for name, some in (("equal", lambda c: not c.ragged), ("ragged", lambda c: c.ragged)):
        for d in (0, *sorted(set(SIZES))):
            rows = [t for c, t in LINES if some(c) and d in (0, c.d) and "rule" in t]
            if not rows:
                continue
            words = []
            for who in ("cudnn", "flash", "before", "before two", "one", "static", "lengths"):
                found = [t[who] / t["rule"] for t in rows if who in t]
                if found:
                    words.append(f"{who} {mean(found)}")
            own = ("rule", "static", "before", "before two", "one", "parts")
            pages = [f" p{page}" for page in PAGES]
            plain = [[x for w, x in t.items() if w.startswith(own) and not w.endswith(tuple(pages))] for t in rows]
            best = list(map(min, plain))
            words.append(f"best of all {mean([b / t['rule'] for b, t in zip(best, rows, strict=True)])}")
            peers_of = [[t[w] for w in ("cudnn", "flash") if w in t] for t in rows]
            words.append(f"faster peer {mean([min(p) / t['rule'] for p, t in zip(peers_of, rows, strict=True) if p])}")
            print(f"== {name} d={d or 'all'}: rule over " + "; ".join(words), flush=True)
            words = []
            for page in PAGES:
                found = [t.get("lengths", t["rule"]) / t[f"rule p{page}"] for t in rows if f"rule p{page}" in t]
                words.append(f"p{page} of unpaged {mean(found)}")
                for who in ("one", "engine", "threads"):
                    key = f"{who} p{page}"
                    found = [t[key] / t[f"rule p{page}"] for t in rows if key in t and f"rule p{page}" in t]
                    if found:
                        words.append(f"over {who} {mean(found)}")
            print("      " + "; ".join(words), flush=True)


def rate(case: Case, keys: float, us: float) -> float:
    return 4 * keys * case.hk * case.d / us / 1e6


def drawn(count: int, seed: int) -> list[Case]:
    """Random shapes, two of five of 64 elements; between 16 MiB and 1 GiB of keys and values; every third ragged."""
    draw = random.Random(seed)
    made: list[Case] = []
    while len(made) < count:
        hk = draw.choice((1, 2, 4, 8, 8, 16))
        group = draw.choice((1, 4, 8))
        d = SIZES[len(made) % len(SIZES)]
        case = Case(draw.randint(1, 80), hk * group, hk, 256 * draw.randint(2, 80), d)
        if 16 << 20 <= 4 * case.b * case.hk * case.s * case.d <= 1024 << 20:
            made.append(case._replace(ragged=len(made) + 1 if len(made) % 3 == 2 else 0))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", default="")
    parser.add_argument("--logs", default=os.path.join(tempfile.gettempdir(), "decode-forms"))
    parser.add_argument("--workers", type=int, default=2 if DRY else 14)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=40.0)
    parser.add_argument("--check-budget", type=float, default=45.0)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--count", type=int, default=36)
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.check:
        share, of = map(int, options.check.split("/"))
        check_share(share, of, Path(options.logs))
        return
    begin = time.time()
    if not DRY:
        check_all(options.workers, Path(options.logs), options.check_budget)
    print(f"checked {len(kernels())} kernels in {time.time() - begin:.0f} s", flush=True)
    todo = drawn(options.count, options.seed)
    if DRY:
        todo = [Case(2, 4, 2, 512, 64), Case(3, 4, 1, 256, 96, 1)]
    end = time.time() + options.budget
    folder = Path(options.out)
    with (folder / "decode-rule.jsonl").open("w") as file:
        for case in todo:
            if time.time() > end:
                print("out of time", flush=True)
                break
            try:
                run_rule(case, options.rounds, file)
            except torch.OutOfMemoryError:
                print(f"{case}: out of memory", flush=True)
            if not DRY:
                torch.cuda.empty_cache()
    summary()
    print(f"all of it in {time.time() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
