"""Products of float32 by FMA for `h200_matmul.py --f32`: the model's favourites, each callable by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flydsl.compiler as flyc
from flydsl.kernels.matmul.arrays import Array, describe
from flydsl.kernels.matmul.operands import Call, Target
from flydsl.kernels.matmul.request import Request, check
from flydsl.kernels.matmul.simt.calls import problem_of, run_plan
from flydsl.kernels.matmul.simt.plan import RATES, Plan, candidates


def operands(case: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """(m, k) and (k, n) of what lies in memory as the case says."""
    return a if case.a_major == "k" else a.T, b.T if case.b_major == "k" else b


def request_of(case: Any) -> tuple[Request, Array]:
    """The product as the entry point sees it: no array is needed for that, only where it would lie."""
    m, n, k = case.m, case.n, case.k
    strides_a, strides_b = (k, 1) if case.a_major == "k" else (1, m), (1, k) if case.b_major == "k" else (n, 1)
    a, b = (Array(s, t, "float32", "cuda:0", 0) for s, t in (((m, k), strides_a), ((k, n), strides_b)))
    return check(a, b, None, None, None, None, None, "f32"), Array((m, n), (n, 1), "float32", "cuda:0", 0)


def chosen(case: Any, processors: int) -> list[Plan]:
    """The model's favourites; of plans that it cannot tell apart by their tile and slices, the first."""
    request, out = request_of(case)
    target = Target(flyc.get_backend().target, processors)
    found, seen = [], set()
    ranked = candidates(problem_of(request, out, target))
    for plan in ranked:
        # Neighbouring numbers of slices say little about tiles.
        key = plan.tile, (plan.slices + 1).bit_length()
        if key not in seen and plan.clocks < 2.0 * ranked[0].clocks:
            seen.add(key)
            found.append(plan)
    return found


_runs: dict[object, Callable[[Call], None]] = {}


def call(case: Any, plan: Plan, a: Any, b: Any, c: Any) -> None:
    """`a` and `b` as they lie in memory."""
    a, b = operands(case, a, b)
    key = case, plan.tile, plan.slices
    if key not in _runs:
        request, out = request_of(case)
        target = Target(flyc.get_backend().target, processors_of(a))
        assert describe("a", a).strides == request.a.strides and describe("b", b).strides == request.b.strides
        _runs[key] = run_plan(request, out, target, problem_of(request, out, target), plan)
    _runs[key](Call(a, b, c, None, None, None, None, None))


def processors_of(a: Any) -> int:
    import torch

    return torch.cuda.get_device_properties(a.device).multi_processor_count


def name(plan: Plan) -> str:
    t = plan.tile
    words = [f"{t.m}x{t.n}", f"t{t.rows}x{t.columns}", f"w{t.high}x{t.wide}", f"st{t.stages}", f"f{t.fits}"]
    return " ".join([*words, *([f"s{plan.slices}"] if plan.slices > 1 else [])])


def numbers(plan: Plan) -> dict[str, Any]:
    """What a line of results has of it."""
    return {
        "tile": plan.tile._asdict(), "slices": plan.slices, "group": plan.group,
        "model": plan.clocks / RATES.clock * 1e6,
    }  # fmt: skip


__all__ = ["call", "chosen", "name", "numbers"]
