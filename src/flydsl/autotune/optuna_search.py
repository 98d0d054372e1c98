"""Large spaces searched with Optuna's sampler (TPE), where it is installed."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Protocol, cast

from ..errors import DSLRuntimeError, MissingPackageError
from .candidate import Config
from .report import Trial
from .search import LARGE, Search
from .space import Space


class _Trial(Protocol):
    def suggest_categorical(self, name: str, choices: Sequence[object]) -> object: ...


class _Study(Protocol):
    def ask(self) -> _Trial: ...
    def tell(self, trial: _Trial, values: float | None = None, *, state: object = None) -> object: ...


class _Samplers(Protocol):
    def TPESampler(self, *, seed: int) -> object: ...


class _States(Protocol):
    FAIL: object


class _Trials(Protocol):
    TrialState: _States


class _Logging(Protocol):
    WARNING: int

    def set_verbosity(self, level: int) -> None: ...


class _Optuna(Protocol):
    samplers: _Samplers
    trial: _Trials
    logging: _Logging

    def create_study(self, *, direction: str, sampler: object) -> _Study: ...


def _package() -> _Optuna:
    try:
        return cast(_Optuna, importlib.import_module("optuna"))
    except ImportError:
        raise MissingPackageError("searches by Optuna", "optuna", "tune") from None


def run_study(search: Search, space: Space, seed: int) -> Config:
    """Ask for points, measure them, tell what came out, until the budget is spent or points repeat."""
    optuna = _package()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="minimize", sampler=optuna.samplers.TPESampler(seed=seed))
    report = search.report
    known: dict[Config, Trial] = {}
    search.runner.keep_arrays()
    search.set_reference()
    repeated, most = 0, search.clock.budget.candidates or LARGE
    try:
        while len(known) < most and repeated < 50 and not (search.clock.spent() and report.timed):
            asked = study.ask()
            # A choice is asked for by its place: any value can stand there.
            values = {
                name: choices[cast(int, asked.suggest_categorical(name, range(len(choices))))]
                for name, choices in space.knobs.items()
            }
            if not space.allows(values):
                repeated += 1
                study.tell(asked, state=optuna.trial.TrialState.FAIL)
                continue
            config = space.config(values)
            trial = known.get(config)
            if trial is None:
                repeated = 0
                trial = known[config] = Trial(config)
                report.trials.append(trial)
                search.clock.done += 1
                search.try_out(trial)
            else:
                repeated += 1
            if trial.status == "ok":
                study.tell(asked, trial.ms)
            else:
                study.tell(asked, state=optuna.trial.TrialState.FAIL)
    finally:
        search.runner.restore_all()
        report.seconds = search.clock.seconds
    if not known:
        raise DSLRuntimeError(f"{space!r}: no point that was drawn fulfils the condition of the space")
    report.winner = search.choose()
    return report.winner
