"""Passes that run as one: which neighbours of a pipeline the compiler takes together, where nobody looks between them.

What a group leaves is what its passes leave one after the other, byte for byte (a test compares them); it is only
faster, since there is no IR in between. A pass that is part of no group, or a place where somebody looks, ends a group
and may start another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..errors import DSLValueError
from .pipeline import PassSpec

FLY = (
    "fly-rewrite-func-signature",
    "fly-canonicalize",
    "fly-layout-lowering",
    "fly-int-swizzle-simplify",
    "canonicalize",
    "fly-convert-atom-call-to-ssa-form",
    "fly-promote-regmem-to-vectorssa",
)
"""Passes that `fly-to-llvm` does in one walk, together with the conversion behind them and its `canonicalize`."""
_CONVERSIONS = ("convert-fly-to-rocdl", "convert-fly-to-nvvm", "convert-fly-to-cpu")

TO_LLVM = frozenset(
    {
        "convert-scf-to-cf",
        "cse",
        "convert-gpu-to-rocdl",
        "convert-gpu-to-nvvm",
        "fly-rocdl-cluster-attr",
        "rocdl-attach-target",
        "nvvm-attach-target",
        "convert-cf-to-llvm",
        "gpu-to-llvm",
        "convert-vector-to-llvm",
        "convert-arith-to-llvm",
        "convert-math-to-llvm",
        "convert-func-to-llvm",
        "reconcile-unrealized-casts",
        "ensure-debug-info-scope-on-llvm-func",
    }
)
"""Passes that the writer of LLVM IR makes up for, which takes the upper dialects as they are."""

_AFTER = {
    "fly-canonicalize": "fly-rewrite-func-signature",
    "fly-layout-lowering": "fly-rewrite-func-signature",
    "fly-int-swizzle-simplify": "fly-layout-lowering",
    "fly-convert-atom-call-to-ssa-form": "fly-layout-lowering",
    "fly-promote-regmem-to-vectorssa": "fly-convert-atom-call-to-ssa-form",
    "convert-fly-to-rocdl": "fly-layout-lowering",
    "convert-fly-to-nvvm": "fly-layout-lowering",
    "convert-fly-to-cpu": "fly-layout-lowering",
}
"""Passes that cannot do without another before them when they start from a traced module."""
_GONE = {
    **dict.fromkeys(FLY[:4] + FLY[5:] + _CONVERSIONS, _CONVERSIONS),
    **dict.fromkeys(("convert-gpu-to-rocdl", "convert-gpu-to-nvvm"), ("convert-cf-to-llvm", "gpu-to-llvm")),
}
"""Passes that find nothing to do any more, or the wrong thing, once one of others has run."""


class Step(NamedTuple):
    """What runs at once: the passes from `first` to `last` of a pipeline."""

    first: int
    last: int
    spec: PassSpec


def plan(specs: Sequence[PassSpec], watched: Callable[[int], bool], start: int = 0) -> list[Step]:
    """The steps of a pipeline from a pass on; `watched(i)` is whether somebody looks right behind pass `i`."""
    steps: list[Step] = []
    at = start
    while at < len(specs):
        last = _fly_group(specs, at)
        if last is not None and not any(map(watched, range(at, last))):
            steps.append(Step(at, last, PassSpec("fly-to-llvm", {"convert": specs[last - 1].name})))
            at = last + 1
        else:
            steps.append(Step(at, at, specs[at]))
            at += 1
    return steps


def _fly_group(specs: Sequence[PassSpec], at: int) -> int | None:
    """The last pass of the fly group that starts at a pass, if one does."""
    end = at + len(FLY) + 2
    group = specs[at:end]
    if len(group) < len(FLY) + 2 or any(spec.options or spec.path for spec in group):
        return None
    *before, convert, last = [spec.name for spec in group]
    fits = tuple(before) == FLY and convert in _CONVERSIONS and last == "canonicalize"
    return end - 1 if fits else None


def upper_part(specs: Sequence[PassSpec]) -> int:
    """How many passes lead to the upper dialects, from where LLVM IR can be written; all, if the rest is more."""
    end = len(specs)
    while end and specs[end - 1].name in TO_LLVM:
        end -= 1
    rest = {spec.name for spec in specs[end:]}
    whole = "gpu-to-llvm" in rest and rest & {"convert-gpu-to-rocdl", "convert-gpu-to-nvvm"}
    converted = any(spec.name in _CONVERSIONS for spec in specs[:end])
    return end if whole and converted else len(specs)


def check_order(specs: Sequence[PassSpec], *, traced: bool = True) -> None:
    """Refuse a pipeline in which a pass cannot follow the one before it; before any of them runs.

    A module that is not `traced` may have been through any passes already.
    """
    ran: list[str] = []
    for spec in specs:
        name, before = spec.name, f"'{ran[-1]}'" if ran else "the traced module"
        needed = _AFTER.get(name) if traced else None
        if needed is not None and needed not in ran:
            raise DSLValueError(f"pass '{name}' cannot follow {before}: '{needed}' must run before it")
        over = next((other for other in _GONE.get(name, ()) if other in ran), None)
        if over is not None:
            raise DSLValueError(f"pass '{name}' cannot follow {before}: '{over}' has left nothing for it to work on")
        ran.append(name)


__all__ = ["Step", "check_order", "plan", "upper_part"]
