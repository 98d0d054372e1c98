"""Getting candidates ready: compiling them, cutting what cannot be launched, ordering them, and finding more."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import config as settings
from ..compiler.jit_function import JitFunction
from .candidate import Config
from .limits import uses_of
from .processes.cluster import ClusterTiming, current_cluster
from .processes.images import Unsendable
from .processes.isolate import START_S, Isolation, compile_in_processes
from .ranking import order_by_model, predicted_ms
from .report import Report, Trial
from .runner import Runner
from .search import Clock, Elsewhere, Search, cut_by_resources
from .space import Space

if TYPE_CHECKING:
    from .tuner import Autotuner

WORTH = 6
"""Candidates that are worth starting processes for."""


def open_isolation(tuner: Autotuner, runner: Runner, report: Report, timeout: float) -> Elsewhere | None:
    """Where candidates are to be timed in a process of their own, or on a cluster: its keeper."""
    cluster = current_cluster()
    if timeout <= 0 and cluster is None:
        return None
    try:
        call = (runner.args, runner.kwargs)
        if cluster is not None:
            return ClusterTiming(cluster, tuner, call, runner.named, timeout or START_S)
        return Isolation.of_call(tuner, call, runner.named, timeout)
    except Unsendable as error:
        report.notes.append(f"candidates are timed in this process, without a time limit: {error}")
        return None


def compile_stage(tuner: Autotuner, runner: Runner, report: Report, trials: list[Trial], clock: Clock) -> None:
    """Compile candidates, in parallel where that pays; order them, and cut those that cannot be launched."""
    if not isinstance(tuner.fn, JitFunction):
        return
    resources: dict[int, Any] = {}
    jobs = settings.autotune.jobs
    if current_cluster() is not None or (jobs > 1 and len(trials) >= WORTH and settings.runtime.enable_cache):
        resources = _in_parallel(tuner, runner, report, trials, clock, jobs)
    if not clock.budget.seconds:
        for i, trial in enumerate(trials):
            if trial.status == "left out" and i not in resources:
                _compile_here(runner, trial, i, resources, predict=len(trials) >= WORTH)
    cut_by_resources(trials, resources)
    order_by_model(trials)


def _compile_here(runner: Runner, trial: Trial, i: int, resources: dict[int, Any], *, predict: bool) -> None:
    start = time.perf_counter()
    try:
        artifact = runner.launcher.artifact(trial.config, runner.args, runner.kwargs)
    except Exception as error:  # noqa: BLE001 - whatever a candidate raises costs this candidate alone
        trial.status, trial.reason = "failed", f"it does not compile: {error}"
        return
    trial.compile_s = time.perf_counter() - start
    if artifact is not None:
        resources[i] = uses_of(artifact)
        if predict:
            trial.predicted = predicted_ms(runner.launcher, trial.config, runner.args, runner.kwargs)


def ready(runner: Runner, trial: Trial) -> None:
    """Compile a candidate whose turn has come, and cut it where it cannot be launched."""
    if isinstance(runner.launcher.fn, JitFunction) and not trial.compile_s:
        resources: dict[int, Any] = {}
        _compile_here(runner, trial, 0, resources, predict=False)
        cut_by_resources([trial], resources)


def _in_parallel(
    tuner: Autotuner, runner: Runner, report: Report, trials: Sequence[Trial], clock: Clock, jobs: int
) -> dict[int, Any]:
    half = clock.budget.seconds / 2
    enough = lambda: bool(half) and clock.seconds > half  # noqa: E731
    call, configs = (runner.args, runner.kwargs), [trial.config for trial in trials]
    cluster, limit = current_cluster(), settings.compile.llvm_timeout
    try:
        if cluster is not None:
            made = cluster.compile(tuner, call, runner.named, configs, limit, enough)
        else:
            made = compile_in_processes(tuner, call, runner.named, configs, jobs, limit, enough)
    except Unsendable as error:
        report.notes.append(f"candidates are compiled in this process, one after the other: {error}")
        return {}
    for i, reply in made.items():
        if "error" in reply:
            trials[i].status, trials[i].reason = "failed", f"it does not compile: {reply['error']}"
        else:
            trials[i].compile_s, trials[i].predicted = reply["seconds"], reply["predicted"]
    return {i: reply["resources"] for i, reply in made.items() if "resources" in reply}


def widen(search: Search, space: Space) -> Config:
    """From the best point of a sample, go to better neighbours as long as there are any and the budget lasts."""
    report = search.report
    tried = {trial.config for trial in report.trials}
    search.runner.keep_arrays()
    try:
        while True:
            best = report.timed[0]
            fresh = [config for config in space.neighbours(best.config) if config not in tried]
            for config in fresh:
                if search.clock.spent():
                    break
                tried.add(config)
                trial = Trial(config)
                report.trials.append(trial)
                search.clock.done += 1
                search.try_out(trial)
            if not fresh or report.timed[0] is best or search.clock.spent():
                break
    finally:
        search.runner.restore_all()
        report.seconds = search.clock.seconds
    report.winner = search.choose()
    return report.winner
