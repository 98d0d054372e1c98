"""Grouped matrix products on an NVIDIA GPU beside torch's `_grouped_mm`.

    python benchmarks/h200_grouped.py [--tiles N] [--out FOLDER]

Groups of equal and of ragged sizes. Every result is compared with float64 first, element by element, in a poisoned
output. Times are medians of CUDA events around graph replays; contenders take turns, and rotate among as many sets of
matrices as L2 does not hold. `--tiles N` also times the model's next N favourites. One JSON object per measurement goes
to FOLDER/grouped.jsonl.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from pathlib import Path

os.environ.setdefault("FLYDSL_COMPILE_BACKEND", "cuda")
import torch
from h200_matmul import L2, name, timed

from flydsl.kernels import grouped_matmul
from flydsl.kernels.matmul.groups import MOST, TABLE_BYTES
from flydsl.kernels.matmul.hopper import hopper
from flydsl.kernels.matmul.plan import Plan, Problem, blocks_in_groups, candidates_in_groups, raggedness
from flydsl.kernels.matmul.tile import Form, boxes_in_groups, has_room

SHAPES = [
    (8, 4096, 1536, 2048), (8, 2048, 4096, 4096), (32, 256, 4096, 2048), (64, 128, 2048, 7168),
    (16, 700, 2880, 2880), (128, 64, 1536, 4096), (4, 8192, 2048, 1408),
]  # fmt: skip
"""Groups, rows of each (on average where they are ragged), columns, depth."""


def data_of(groups: int, rows: int, n: int, k: int, ragged: bool):
    sizes = torch.full((groups,), rows)
    if ragged:
        shares = torch.rand(groups) ** 2
        sizes = (shares / shares.sum() * groups * rows).int()
        sizes[-1] += groups * rows - int(sizes.sum())
    a = torch.randn(groups * rows, k, device="cuda").bfloat16()
    b = torch.randn(groups, n, k, device="cuda").bfloat16().mT
    return a, b, sizes.cumsum(0).int().cuda(), torch.full((groups * rows, n), math.nan, device="cuda").bfloat16()


def checked(a, b, ends, c) -> None:
    """Every element against float64."""
    start = 0
    for group, end in enumerate(ends.tolist()):
        left, right = a[start:end], b[group]
        reference = left.double() @ right.double()
        bound = reference.abs() * 2**-7.99 + (left.float().abs() @ right.float().abs()).double() * a.shape[1] * 2**-25
        assert bool(((c[start:end].double() - reference).abs() <= bound).all()), f"group {group} is wrong"
        start = end


def given_of(groups: int, rows: int, n: int, k: int) -> Problem:
    ragged = raggedness(2 * k)
    return Problem(rows, n, k, groups, 16, 2, "k", "k", False, 132, ragged=(ragged, ragged))


def favourites(groups: int, rows: int, n: int, k: int, most: int) -> list[Plan]:
    given = given_of(groups, rows, n, k)
    found: dict[object, Plan] = {}
    for plan in candidates_in_groups(given):
        found.setdefault(plan.tile, plan)
    return list(found.values())[:most]


def with_tile(plan: Plan, a, b, ends, c) -> None:
    (rows, k), (groups, _, n) = a.shape, b.shape
    table = groups <= MOST and has_room(plan.tile, TABLE_BYTES)
    many = boxes_in_groups(plan.tile, n, "k")
    given = given_of(groups, rows // groups, n, k)
    fetch = 128 if any(given.ragged) else 256
    form = Form("k", "k", "engine", grouped=True, edge="pairs", table=table, l2_fetch=fetch, boxes_y=many)
    hopper(
        a, b, c, None, None, None, None, None, rows, n, k, groups, k, 0, k, n * k, n, 0,
        blocks_in_groups(given, plan.tile, rows), plan.group, plan.tile, form, offsets=ends,
    )  # fmt: skip


def run(shape: tuple[int, int, int, int], ragged: bool, most: int, out) -> float:
    groups, rows, n, k = shape
    size = 2 * (groups * rows * (k + n) + groups * n * k)
    sets = max(2, min(8, -(-3 * L2 // size)))
    data = [data_of(*shape, ragged) for _ in range(sets)]
    calls = {
        "flydsl": lambda i: grouped_matmul(*data[i][:3], out=data[i][3]),
        "torch": lambda i: torch._grouped_mm(*data[i][:3]),
    }
    for plan in favourites(*shape, most):
        calls[name(plan)] = lambda i, plan=plan: with_tile(plan, *data[i])
    for which in calls:
        if which != "torch":
            data[0][3].fill_(math.nan)
            calls[which](0)
            checked(*data[0])
    times = timed(calls, 5, sets)
    flops = 2.0 * groups * rows * n * k
    for which, microseconds in times.items():
        row = {
            "shape": "x".join(map(str, shape)), "ragged": ragged, "contender": which, "us": microseconds,
            "tflops": flops / microseconds / 1e6, "ratio": times["torch"] / microseconds,
        }  # fmt: skip
        out.write(json.dumps(row) + "\n")
        print(f"{row['shape']:22} {'ragged' if ragged else 'equal ':6} {which:28} {microseconds:9.1f} us "
              f"{row['tflops']:7.0f} TFLOP/s  {row['ratio']:.2f} of torch's speed", flush=True)  # fmt: skip
    return times["torch"] / times["flydsl"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiles", type=int, default=0)
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    options = parser.parse_args()
    torch.manual_seed(0)
    ratios = []
    with (Path(options.out) / "grouped.jsonl").open("w") as out:
        for shape in SHAPES:
            for ragged in (False, True):
                ratios.append(run(shape, ragged, 0 if ragged else options.tiles, out))
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean {mean:.2f}, worst {min(ratios):.2f} of torch's speed")


if __name__ == "__main__":
    main()
