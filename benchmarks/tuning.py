"""How well the model ranks: its times beside those of a GPU, over every configuration of some kernels and shapes.

    python benchmarks/tuning.py [--out FOLDER] [--workers N] [--budget SECONDS] [--only FAMILY,...]
    python benchmarks/tuning.py --predict-only --out FOLDER      # no GPU needed
    python benchmarks/tuning.py --evaluate FOLDER/tuning.jsonl   # the figures of an earlier run

Candidates compile, and are predicted, in parallel processes; then they are checked against the first one's results and
timed one by one with `do_bench`. One JSON object for each goes to FOLDER/tuning.jsonl, the figures and a plot last. A
search of one product's space comes at the end: how long it takes with the model, and how near it comes to the best.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
os.environ.setdefault("FLYDSL_COMPILE_BACKEND", "cuda")
os.environ.setdefault("FLYDSL_COMPILE_ARCH", "sm_90a")

from tuning_kernels import FAMILIES, Family, matmul_configs  # noqa: E402

SEARCHED = (4096, 4096, 4096)


def family(name: str) -> Family:
    return next(f for f in FAMILIES if f.name == name)


def predicted(job: tuple[str, tuple[int, ...], int]) -> tuple[float | None, str]:
    """Milliseconds by the model for one case; the code lands in the disk cache. Runs in a process of a pool."""
    name, shape, at = job
    import flydsl.compiler as flyc
    from flydsl.autotune.model.predict import predict, total_ms
    from flydsl.compiler.active_backend import resolve_backend

    chosen = family(name)
    config = chosen.configs(*shape)[at]
    specs = [flyc.TensorSpec(s, d) for s, d in chosen.arrays(*shape)]
    try:
        call = chosen.function.bind_given([*specs, *chosen.numbers(*shape)], config.all_kwargs())
        artifact = chosen.function.artifact(call, resolve_backend(f"cuda:{os.environ['FLYDSL_COMPILE_ARCH']}"))
        found = predict(artifact, list(call.adapted.values()))
        return total_ms(found), found[0].limiter
    except Exception as error:  # noqa: BLE001 - a case that fails is a row
        return None, f"{type(error).__name__}: {str(error).splitlines()[0]}"


def measured(chosen: Family, shape: tuple[int, ...], rows: list[dict[str, Any]], stop: float) -> None:
    """Times of every configuration, each checked against the first one's result."""
    import torch

    from flydsl.autotune import do_bench

    torch.manual_seed(0)
    data = [torch.randn(s, device="cuda").to(getattr(torch, d)) for s, d in chosen.arrays(*shape)]
    kept = data[-1].clone()
    reference = None
    for row, config in zip(rows, chosen.configs(*shape), strict=True):
        if time.monotonic() > stop:
            row["error"] = "the budget was spent"
            continue
        try:
            data[-1].copy_(kept)
            run = lambda config=config: chosen.function(*data, *chosen.numbers(*shape), **config.all_kwargs())  # noqa: E731
            run()
            torch.cuda.synchronize()
            got = data[-1].float()
            if reference is None:
                reference = got
            elif (got - reference).abs().max() > 2e-2 * reference.abs().max():
                row["error"] = "wrong numbers"
                continue
            low, middle, high = do_bench(run, warmup=3, rep=15, quantiles=(0.2, 0.5, 0.8))
            row.update(ms=middle, low=low, high=high)
        except Exception as error:  # noqa: BLE001 - a case that fails is a row
            row["error"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"


# --- figures ------------------------------------------------------------------------------------------------------


def ranks(values: list[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    for place, i in enumerate(order):
        found[i] = float(place)
    return found


def correlation(a: list[float], b: list[float]) -> float:
    a, b = ranks(a), ranks(b)
    return statistics.correlation(a, b) if len(set(a)) > 1 and len(set(b)) > 1 else 1.0


def figures(rows: Iterable[dict[str, Any]]) -> str:
    """Per shape: whether the best is among the model's first five, the price of its first choice, rank correlation."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if row.get("ms") and row.get("predicted_ms"):
            groups.setdefault((row["kernel"], row["shape"]), []).append(row)
    lines = [f"{'kernel':<10} {'shape':<16} cases  in five  first/best  rank corr."]
    total: list[tuple[bool, float, float, bool]] = []
    for (kernel, shape), found in groups.items():
        if len(found) < 3:
            continue
        by_model = sorted(found, key=lambda r: r["predicted_ms"])
        best = min(r["ms"] for r in found)
        # What cannot be told apart by measuring is as good as the best.
        inside = any(r["ms"] <= best * 1.01 for r in by_model[:5])
        first = by_model[0]["ms"] / best
        rho = correlation([r["ms"] for r in found], [r["predicted_ms"] for r in found])
        total.append((inside, first, rho, bool(found[0].get("fitted"))))
        lines.append(f"{kernel:<10} {shape:<16} {len(found):5d}  {inside!s:>7}  {first:10.3f}  {rho:10.2f}")
    for what, part in (("all", total), ("not fitted on", [t for t in total if not t[3]])):
        if part:
            share = 100.0 * sum(t[0] for t in part) / len(part)
            lines.append(
                f"{what}: best in the first five at {share:.0f} % of {len(part)} shapes; "
                f"first choice {statistics.median(t[1] for t in part):.3f} "
                f"of the best in the median; rank correlation {statistics.median(t[2] for t in part):.2f} in the median"
            )
    return "\n".join(lines)


def picture(rows: list[dict[str, Any]]) -> str:
    from flydsl.autotune.plot import lines

    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row.get("ms") and row.get("predicted_ms"):
            series.setdefault(row["kernel"], []).append((row["ms"] * 1e3, row["predicted_ms"] * 1e3))
    return lines({name: sorted(points) for name, points in series.items()}, title="model and measurement",
                 x_label="measured, us", y_label="predicted, us", log_x=True, log_y=True)  # fmt: skip


def search(stop: float) -> dict[str, Any]:
    """One product's space, searched with the model and a bound, and exhaustively."""
    import torch

    from flydsl.autotune import Autotuner, do_bench

    os.environ["FLYDSL_AUTOTUNE"] = "1"
    chosen, shape = family("matmul"), SEARCHED
    configs = matmul_configs(*shape, most=40)
    data = [torch.randn(s, device="cuda").to(getattr(torch, d)) for s, d in chosen.arrays(*shape)]
    found: dict[str, Any] = {"shape": "x".join(map(str, shape)), "candidates": len(configs)}
    numbers = chosen.numbers(*shape)
    tuner = Autotuner(chosen.function, configs, rep=15, check=False, budget=8, method="events")
    start = time.monotonic()
    first = tuner.prepare(*data, *numbers)
    found["with_model_s"] = time.monotonic() - start
    found["report"] = tuner.report().counts()
    start = time.monotonic()
    times: dict[Any, float] = {}
    for config in configs:
        if time.monotonic() > stop:
            break
        run = lambda config=config: chosen.function(*data, *numbers, **config.all_kwargs())  # noqa: E731
        times[config] = do_bench(run, warmup=3, rep=15)
    found["exhaustive_s"] = time.monotonic() - start
    best = min(times.values())
    found.update(first_ms=times.get(first, math.nan), best_ms=best, ratio=times.get(first, math.nan) / best)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--workers", type=int, default=max((os.cpu_count() or 2) - 2, 1))
    parser.add_argument("--budget", type=float, default=100.0, help="seconds for all of it")
    parser.add_argument("--only", default="", help="families, separated by commas")
    parser.add_argument("--predict-only", action="store_true")
    parser.add_argument("--no-search", action="store_true")
    parser.add_argument("--evaluate", type=Path)
    options = parser.parse_args()
    if options.evaluate is not None:
        print(figures(json.loads(line) for line in options.evaluate.read_text().splitlines()))
        return
    start = time.monotonic()
    names = [f.name for f in FAMILIES if not options.only or f.name in options.only.split(",")]
    jobs = [(n, s, i) for n in names for s in family(n).shapes for i in range(len(family(n).configs(*s)))]
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        guesses = list(pool.map(predicted, jobs, chunksize=4))
    rows: list[dict[str, Any]] = []
    for (name, shape, i), (ms, limiter) in zip(jobs, guesses, strict=True):
        row: dict[str, Any] = {
            "kernel": name,
            "shape": "x".join(map(str, shape)),
            "config": str(family(name).configs(*shape)[i]),
        }
        row.update({"predicted_ms": ms, "limiter": limiter} if ms is not None else {"error": limiter})
        # The constants of the model come from these: they are no evidence for it.
        row["fitted"] = family(name).fitted or (name == "matmul" and row["shape"] in ("512x512x512", "1024x1024x1024"))
        rows.append(row)
    print(f"{len(rows)} cases compiled and predicted in {time.monotonic() - start:.1f} s", flush=True)
    if not options.predict_only:
        for name in names:
            for shape in family(name).shapes:
                mine = [r for r in rows if r["kernel"] == name and r["shape"] == "x".join(map(str, shape))]
                measured(family(name), shape, mine, start + options.budget)
        print(f"measured after {time.monotonic() - start:.1f} s", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "tuning.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if options.predict_only:
        return
    print(figures(rows))
    (options.out / "tuning.svg").write_text(picture(rows))
    for row in rows:
        if row.get("error"):
            print(f"{row['kernel']} {row['shape']} {row['config']}: {row['error']}")
    if not options.no_search and time.monotonic() < start + options.budget:
        found = search(start + options.budget)
        print(json.dumps(found))
        (options.out / "tuning-search.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
