"""The schedules of a call of the library (`tests/kernels/library/calls`)."""

from __future__ import annotations

import flydsl.compiler as flyc
from flydsl.cpu.schedules.findings import ScheduleReport

from ..library.calls import Call


def explore(call: Call, budget_s: float) -> tuple[ScheduleReport, list[str]]:
    """What is found, and the kernels of the call that did not run."""
    function, *arguments = call.make()
    report = flyc.explore_schedules(function, *arguments, budget_s=budget_s)
    ran = {name.rpartition("_")[0] for name in report.kernels}
    return report, [name for name in call.kernels.split() if name.rpartition(".")[2] not in ran]


__all__ = ["explore"]
