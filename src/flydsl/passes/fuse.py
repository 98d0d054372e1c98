"""Passes that run as one: which neighbours of a pipeline the compiler takes together, where nobody looks between them.

What a group leaves is what its passes leave one after the other, byte for byte (a test compares them); it is only
faster, since there is no IR in between. A pass that is part of no group, or a place where somebody looks, ends a group
and may start another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from .order import CONVERSIONS, FLY, LOWERINGS, RECONCILE
from .pipeline import PassSpec

TO_LLVM = LOWERINGS | {
    "cse",
    "rocdl-attach-target",
    "nvvm-attach-target",
    RECONCILE,
}
"""Passes that the writer of LLVM IR makes up for, which takes the upper dialects as they are."""
_ON_MODULE = {
    "convert-scf-to-cf",
    "convert-cf-to-llvm",
    "gpu-to-llvm",
    "convert-vector-to-llvm",
    "convert-arith-to-llvm",
    "convert-func-to-llvm",
    RECONCILE,
}
"""Those that must be among them, on host and device code: the writer converts everything."""
_LINES = "ensure-debug-info-scope-on-llvm-func"
_KINDS = {"convert-gpu-to-rocdl": "LineTablesOnly", "convert-gpu-to-nvvm": "DebugDirectivesOnly"}
"""Of the line tables that the writer makes."""


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
    fits = tuple(before) == FLY and convert in CONVERSIONS and last == "canonicalize"
    return end - 1 if fits else None


def upper_part(specs: Sequence[PassSpec]) -> int:
    """How many passes lead to the upper dialects, where kernels are still functions of `gpu`."""
    return next((i for i, spec in enumerate(specs) if spec.name in LOWERINGS), len(specs))


def made_up_for(rest: Sequence[PassSpec], *, debug_info: bool = False) -> bool:
    """Whether the writer of LLVM IR makes up for the passes behind the upper part: does what they do, no more, no less.

    It converts everything, and writes line tables of modules that ask for debug information.
    """
    names = [spec.name for spec in rest if spec.name != _LINES]
    if not names:
        return not rest
    on_module = {spec.name for spec in rest if not spec.path}
    last = max(i for i, name in enumerate(names) if name in LOWERINGS or name == RECONCILE)
    whole = TO_LLVM.issuperset(names) and on_module >= _ON_MODULE and names[last] == RECONCILE
    lines = [spec for spec in rest if spec.name == _LINES]
    written = [PassSpec(_LINES, {"emission-kind": kind}) for name, kind in _KINDS.items() if name in names]
    return whole and lines == (written if debug_info else [])


__all__ = ["Step", "made_up_for", "plan", "upper_part"]
