"""Passes that run as one: which neighbours of a pipeline the compiler takes together, where nobody looks between them.

Each pass says what it brings to a walk it shares (`Part`): from which form of a module to which it leads, and the class
with its handlers. Neighbours whose forms follow one another to the last are a group, and its walk is composed of their
classes (`fly_to_llvm.py`). What a group leaves is what its passes leave one after the other, byte for byte (a test
compares them); it is only faster, since there is no IR in between. A pass that is part of no group, or a place where
somebody looks, ends a group, and another may start behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from . import pass_class
from .base import Form, Part
from .order import CONVERTS, LOWERINGS
from .pipeline import PassSpec

_WRITTEN = {"scf", "cf", "launches", "vector", "arith", "func", "casts"}
"""What the writer of LLVM IR takes as it is, in host and device code, and leaves nothing of."""
_UNSEEN = {"cse", "rocdl-attach-target", "nvvm-attach-target"}
"""Passes that make no difference to what it writes."""
_LINES = "ensure-debug-info-scope-on-llvm-func"
_KINDS = {"convert-gpu-to-rocdl": "LineTablesOnly", "convert-gpu-to-nvvm": "DebugDirectivesOnly"}
"""Of the line tables that the writer makes."""


class Step(NamedTuple):
    """What runs at once: the passes from `first` to `last` of a pipeline."""

    first: int
    last: int
    spec: PassSpec


def one_by_one(specs: Sequence[PassSpec], start: int = 0) -> list[Step]:
    """The steps of a pipeline from a pass on, each a pass."""
    return [Step(i, i, specs[i]) for i in range(start, len(specs))]


def plan(specs: Sequence[PassSpec], watched: Callable[[int], bool]) -> list[Step]:
    """The steps of a pipeline on a traced module; `watched(i)` is whether somebody looks right behind pass `i`."""
    steps: list[Step] = []
    form: Form | None = Form.TRACED
    at = 0
    while at < len(specs):
        last = None if watched(at) else group_end(specs, at, form)
        if last is None or any(map(watched, range(at, last))):
            steps.append(Step(at, at, specs[at]))
            form = behind(specs[at], form)
            at += 1
        else:
            names = "+".join([spec.name for spec in specs[at : last + 1]])
            steps.append(Step(at, last, PassSpec("fly-to-llvm", {"passes": names})))
            form = Form.SETTLED
            at = last + 1
    return steps


def group_end(specs: Sequence[PassSpec], at: int, form: Form | None) -> int | None:
    """The last pass of the walk that starts at a pass, on a module of a form, if one does."""
    first = part_of(specs[at])
    if first is None or not first.opens:
        return None
    for last in range(at, len(specs)):
        part = part_of(specs[last])
        form = None if part is None or form is None else part.forms.get(form)
        if form is None:
            return None
        if form is Form.SETTLED:
            return last
    return None


def behind(spec: PassSpec, form: Form | None) -> Form | None:
    """The form of a module behind a pass; None where there is no saying."""
    part = pass_class(spec.name).part
    if part is None or form is None:
        return form
    if form in part.forms:
        return None if spec.path else part.forms[form]
    return form if part.cleans else None


def part_of(spec: PassSpec) -> Part | None:
    """What a pass does in a shared walk; one with options, or on a part of the module, does nothing there."""
    return None if spec.options or spec.path else pass_class(spec.name).part


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
    everywhere = {CONVERTS.get(spec.name) for spec in rest if not spec.path}
    converted = [CONVERTS[name] for name in names if name in CONVERTS]
    known = all(name in CONVERTS or name in _UNSEEN for name in names)
    whole = known and everywhere >= _WRITTEN and converted[-1] == "casts"
    lines = [spec for spec in rest if spec.name == _LINES]
    written = [PassSpec(_LINES, {"emission-kind": kind}) for name, kind in _KINDS.items() if name in names]
    return whole and lines == (written if debug_info else [])
