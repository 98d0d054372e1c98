"""Grouped matrix products on an NVIDIA GPU beside torch's `_grouped_mm`.

    python benchmarks/h200_grouped.py [--tiles N] [--out FOLDER]
    python benchmarks/h200_grouped.py --what "fp8 rows,fp8 blocks,f32"     # beside what there is for these

Groups of equal and of ragged sizes. Every result is compared with float64 first, element by element, in a poisoned
output. Times are medians of CUDA events around graph replays; contenders take turns, and rotate among as many sets of
matrices as L2 does not hold. `--tiles N` also times the model's next N favourites. One JSON object per measurement goes
to FOLDER/grouped.jsonl, those of --what to FOLDER/grouped-types.jsonl.

fp8 with scales of rows stands beside torch's `_scaled_grouped_mm`, or `_scaled_mm` group by group where torch has none;
with scales of blocks beside a kernel of Triton, and float32 beside cuBLAS without TF32, both group by group.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from itertools import product
from pathlib import Path
from typing import NamedTuple

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


class Typed(NamedTuple):
    """Operands of a type, with their scales and sizes on the host, and both with their scales in float64."""

    a: torch.Tensor
    b: torch.Tensor
    ends: torch.Tensor
    sizes: list[int]
    scales: dict[str, torch.Tensor]
    out: torch.Tensor

    def groups(self):
        """Rows and number of every group that has some."""
        start = 0
        for group, size in enumerate(self.sizes):
            if size:
                yield slice(start, start + size), group
            start += size


def typed(shape: tuple[int, int, int, int], ragged: bool, what: str) -> Typed:
    a, b, ends, out = data_of(*shape, ragged)
    (m, k), (groups, _, n) = a.shape, b.shape
    sizes = ends.diff(prepend=ends.new_zeros(1)).tolist()
    if what == "f32":
        return Typed(a.float(), b.float(), ends, sizes, {}, out.float())
    shapes = ((m,), (groups, n)) if what == "fp8 rows" else ((m, k // 128), (groups, -(-n // 128), k // 128))
    scale_a, scale_b = (torch.rand(*s, device="cuda") + 0.5 for s in shapes)
    scales = {"scale_a": scale_a, "scale_b": scale_b if what == "fp8 rows" else scale_b.mT}
    return Typed(a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn), ends, sizes, scales, out)


def ours(data: Typed) -> None:
    grouped_matmul(data.a, data.b, data.ends, out=data.out, out_dtype=data.out.dtype, **data.scales)


def library(data: Typed, what: str) -> None:
    """What else there is: one launch where torch has it, else group by group."""
    if what == "fp8 rows" and hasattr(torch, "_scaled_grouped_mm"):
        scales = data.scales["scale_a"], data.scales["scale_b"]
        torch._scaled_grouped_mm(data.a, data.b, *scales, offs=data.ends, out_dtype=data.out.dtype)
        return
    for rows, group in data.groups():
        a, b = data.a[rows], data.b[group]
        if what == "f32":
            torch.mm(a, b, out=data.out[rows])
            continue
        scale_a, scale_b = data.scales["scale_a"][rows], data.scales["scale_b"][group]
        if what == "fp8 rows":
            torch._scaled_mm(a, b, scale_a=scale_a[:, None], scale_b=scale_b[None], out_dtype=data.out.dtype)
        else:
            import triton_blocks

            triton_blocks.product(a, b.T, scale_a, scale_b)


def checked_typed(data: Typed, what: str) -> None:
    """Every element against float64, as the tests have it."""
    epsilon, kept = (2.0**-24, 0.0) if what == "f32" else (2.0**-8, 2.0**-13)
    n, k = data.out.shape[1], data.a.shape[1]
    for rows, group in data.groups():
        left, right = data.a[rows].double(), data.b[group].double()
        if what == "fp8 rows":
            left = left * data.scales["scale_a"][rows, None]
            right = right * data.scales["scale_b"][group][None]
        elif what == "fp8 blocks":
            left = left * data.scales["scale_a"][rows].repeat_interleave(128, 1)
            wide = data.scales["scale_b"][group].repeat_interleave(128, 0).repeat_interleave(128, 1)
            right = right * wide[:, :n]
        reference = left @ right
        bound = reference.abs() * epsilon * 1.01 + (left.abs() @ right.abs()) * (k * 2.0**-23 + kept)
        assert bool(((data.out[rows].double() - reference).abs() <= bound).all()), f"group {group} is wrong"


def run_typed(shape: tuple[int, int, int, int], ragged: bool, what: str, out) -> None:
    groups, rows, n, k = shape
    size = (4 if what == "f32" else 1) * (groups * rows * k + groups * n * k) + 2 * groups * rows * n
    sets = max(2, min(8, -(-3 * L2 // size)))
    data = [typed(shape, ragged, what) for _ in range(sets)]
    data[0].out.fill_(math.nan)
    ours(data[0])
    checked_typed(data[0], what)
    calls = {"flydsl": lambda i: ours(data[i])}
    try:
        library(data[0], what)
        calls["library"] = lambda i: library(data[i], what)
    except Exception as problem:  # noqa: BLE001 - what a library does not have is told, not fatal
        print(f"{what}: {str(problem)[:150]}")
    for which, microseconds in timed(calls, 5, sets).items():
        speed = 2.0 * groups * rows * n * k / microseconds / 1e6
        row = {"shape": "x".join(map(str, shape)), "ragged": ragged, "what": what, "contender": which}
        out.write(json.dumps({**row, "us": microseconds, "tflops": speed}) + "\n")
        print(f"{row['shape']:22} {'ragged' if ragged else 'equal ':6} {what:10} {which:8} {microseconds:9.1f} us "
              f"{speed:7.0f} TFLOP/s", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiles", type=int, default=0)
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--what", default="", help="fp8 rows, fp8 blocks, f32: comma-separated; instead of bf16")
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.what:
        torch.backends.cuda.matmul.allow_tf32 = False
        with (Path(options.out) / "grouped-types.jsonl").open("w") as out:
            for what, shape, ragged in product(options.what.split(","), SHAPES, (False, True)):
                if what != "fp8 blocks" or shape[3] % 128 == 0:
                    run_typed(shape, ragged, what, out)
                    out.flush()
        return
    ratios = []
    with (Path(options.out) / "grouped.jsonl").open("w") as out:
        for shape in SHAPES:
            for ragged in (False, True):
                ratios.append(run(shape, ragged, 0 if ragged else options.tiles, out))
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean {mean:.2f}, worst {min(ratios):.2f} of torch's speed")


if __name__ == "__main__":
    main()
