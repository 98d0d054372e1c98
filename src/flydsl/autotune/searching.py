"""The search of one call of a tuned function, from the lease of its key to the winner that is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from .. import config as settings
from ..errors import CaptureError, DSLRuntimeError
from .arrays import CallArray
from .candidate import Config
from .candidates import compile_stage, open_isolation, ready, widen
from .fleet import lease, publish
from .key import DeviceIdentity, TuningKey
from .listeners import TuneEvent, notify
from .report import Report
from .runner import Runner
from .search import Budget, Search, current_defaults
from .space import Space
from .winners import make_entry

if TYPE_CHECKING:
    from .tuner import Autotuner

Call = tuple[Sequence[object], Mapping[str, object]]
"""Positional and keyword arguments."""


def refuse_where_impossible(name: str, named: Mapping[str, object], arrays: Sequence[CallArray]) -> None:
    """Raise, before anything is touched, where a search must not be made."""
    if settings.runtime.run_only:
        raise DSLRuntimeError(
            f"{name} has no winner for these arguments, and FLYDSL_RUNTIME_RUN_ONLY forbids the search, which "
            f"compiles; call {name}.prepare(...) before"
        )
    from ..compiler.call.placement import unspecified_stream
    from ..expr.gpu import Stream
    from ..runtime.device_runtime import get_device_runtime

    runtime = get_device_runtime()
    active = runtime.capture_active()
    if runtime.pageable_host and not active:
        return
    handles = [v.handle for v in named.values() if isinstance(v, Stream) and v.handle is not None]
    handle = handles[0] if handles else unspecified_stream([a.owner for a in arrays], runtime)
    if active or (handle not in (0, 1) and runtime.stream_is_capturing(handle)):
        raise CaptureError(
            f"{name} has no winner for these arguments, and its stream is being captured; call {name}.prepare(...) "
            "before the capture starts",
            stream=handle,
        )


def search_call(
    tuner: Autotuner,
    key: TuningKey,
    configs: list[Config],
    sampled: bool,
    budget: Budget,
    call: Call,
    device: DeviceIdentity | None,
) -> Config:
    """The winner among candidates for a call; told, kept and published."""
    name = f"{tuner.__module__}:{tuner.__qualname__}"
    report = Report(name, key.digest, "" if device is None else f"{device.name} ({device.arch})")
    tuner.last = report
    with lease(key) as elsewhere:
        theirs = None if elsewhere is None else config_of(elsewhere)
        if elsewhere is not None and theirs is not None and tuner.is_candidate(theirs, configs):
            # Another machine was at it, and has finished.
            report.winner, report.source = theirs, "winners"
            tuner.winners.put(key, elsewhere)
            return theirs
        winner = _searched(tuner, report, configs, sampled, budget, call)
        complete = all(trial.status != "left out" for trial in report.trials)
        timings = cast("list[dict[str, object]]", report.to_dict()["trials"])
        entry = make_entry(key, winner, timings, complete=complete)
        if entry is None:
            report.notes.append("the winner is kept in memory only: it has a pre_hook, or values that JSON has not")
        else:
            tuner.winners.put(key, entry)
            publish(key, entry)
    if settings.autotune.print:
        print(report.table())  # noqa: T201 - this is what the variable asks for
    timed = {trial.config: trial.ms for trial in report.timed}
    notify(TuneEvent(name, key.digest, timed, winner, report.seconds, report))
    return winner


def _searched(
    tuner: Autotuner, report: Report, configs: list[Config], sampled: bool, budget: Budget, call: Call
) -> Config:
    given = current_defaults()
    chosen = tuner.timeout if given.timeout is None else given.timeout
    timeout = float(settings.autotune.timeout_s) if chosen is None else chosen
    runner = Runner(tuner.launcher, tuner.policy, *call)
    isolation = open_isolation(tuner, runner, report, timeout)
    try:
        search = Search(
            runner,
            report,
            budget,
            isolation=isolation,
            reference=tuner.default_config(*call) if tuner.default is not None else None,
            select=tuner.select_config,
            progress=given.progress or tuner.progress,
            ready=ready,
        )
        space = tuner.configs if isinstance(tuner.configs, Space) else None
        if space is not None and tuner.strategy == "optuna":
            from .optuna_search import run_study

            return run_study(search, space, tuner.seed)
        winner = search.run(configs, lambda trials: compile_stage(tuner, runner, report, trials, search.clock))
        return widen(search, space) if space is not None and sampled else winner
    finally:
        if isolation is not None:
            isolation.close()


def config_of(entry: Mapping[str, object]) -> Config | None:
    """The configuration of an entry of another machine; None where it is none."""
    try:
        return Config.from_dict(cast("dict[str, object]", entry["config"]))
    except (KeyError, TypeError, ValueError):
        return None
