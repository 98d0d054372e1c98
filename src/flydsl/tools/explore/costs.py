"""What the cost model says of the launches of a call, as data for the page: time, occupancy, and line by line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from flydsl.autotune.model.by_line import lines_of
from flydsl.autotune.model.predict import Prediction, predict
from flydsl.errors import DSLValueError, FlyDSLError
from flydsl.llvm.text.source_lines import SourceLine
from flydsl.target.machines import machine_for
from flydsl.tools.explore.page import Data

if TYPE_CHECKING:
    from collections.abc import Callable

    from flydsl.compiler.build.artifact import CompiledArtifact
    from flydsl.compiler.call.bind import BoundCall

MOST = 16
"""Launches of one signature that are shown."""


class Costs:
    """Predictions by artifact, gathered while a script runs."""

    def __init__(self) -> None:
        self.found: dict[str, list[Prediction]] = {}
        self.unknown: dict[str, str] = {}

    def watch(self, artifact: CompiledArtifact, call: BoundCall) -> None:
        """Predict one call; a watcher for `watching_calls`."""
        known = self.found.setdefault(artifact.key, [])
        if artifact.key in self.unknown or len(known) >= MOST:
            return
        try:
            machine = machine_for(artifact.target)
        except DSLValueError as error:
            self.unknown[artifact.key] = f"no prediction: {error}"
            return
        try:
            known += predict(artifact, list(call.adapted.values()), machine)
        except (FlyDSLError, LookupError, ArithmeticError) as error:
            self.unknown[artifact.key] = f"the call could not be followed: {error}"

    def data(self, artifact: CompiledArtifact, number: Callable[[SourceLine | None], int]) -> Data:
        """The costs of an artifact; `number` numbers source lines."""
        launches = [_launch(each, number) for each in self.found.get(artifact.key, [])[:MOST]]
        return {"launches": launches, "why": self.unknown.get(artifact.key, "")}


def _launch(found: Prediction, number: Callable[[SourceLine | None], int]) -> Data:
    machine = found.machine
    warps = -(-found.launch.threads // machine.warp)
    total = found.work.total
    lines: list[Data] = []
    for cost in lines_of(found):
        file, line = cost.line
        if not file or not (file.startswith("<") or os.path.exists(file)):
            continue
        lines.append(
            {
                "source": number(SourceLine(file, line)),
                "limiter": cost.limiter,
                "clocks": cost.clocks,
                "share": cost.share,
                "accesses": [
                    {"text": str(a), "space": a.space, "factor": a.factor, "times": a.times, "known": a.known}
                    for a in cost.accesses
                ],
            }
        )
    return {
        "kernel": found.kernel,
        "device": machine.name,
        "us": found.us,
        "limiter": found.limiter,
        "parts": sorted(found.parts.items(), key=lambda part: -part[1]),
        "grid": found.launch.grid,
        "block": found.launch.block,
        "resident": found.resident,
        "resident_by": found.resident_by,
        "occupancy": min(found.resident * warps / machine.max_warps, 1.0),
        "waves": found.waves,
        "asked": total.asked * found.launch.blocks,
        "moved": total.moved * found.launch.blocks,
        "conflicts": total.shared / total.shared_ideal if total.shared_ideal else None,
        "hints": found.hints,
        "lines": lines,
    }
