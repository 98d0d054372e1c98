"""The search: candidates are cut, compiled, run, compared and timed; a mishap costs one, and a line in the report."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, cast

from ..errors import DeviceLostError, DSLRuntimeError, DSLTypeError, DSLValueError, FlyDSLError
from .bench import Timing
from .candidate import Config, check_configs
from .report import Report, Trial
from .runner import Runner, WrongResult
from .space import Space

CLOSE = 0.03
"""Candidates this near to the best are measured once more."""
LARGE = 256
"""Points of a space beyond which it is sampled, not walked through."""

Select = Callable[[list[tuple[Config, float]]], tuple[Config, float]]
"""Chooses among what was measured."""
Progress = Callable[[Report, Trial], None]
PerfModel = Callable[..., float]


class Elsewhere(Protocol):
    """Where candidates are timed, if not here."""

    reference: Config | None

    def time(self, config: Config, *, compare: bool) -> Timing: ...
    def expect(self, configs: Sequence[Config]) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Budget:
    """What a search may cost: seconds, candidates, or neither."""

    seconds: float = 0.0
    candidates: int = 0

    @classmethod
    def parse(cls, value: object) -> Budget:
        """`30.0` and `"30s"` are seconds, `"50"` and `50` candidates, `"30s,50"` both.

        >>> Budget.parse("1.5s,20")
        Budget(seconds=1.5, candidates=20)
        """
        if value is None:
            return cls()
        if isinstance(value, Budget):
            return value
        seconds, candidates = 0.0, 0
        try:
            if isinstance(value, bool):
                raise ValueError
            if isinstance(value, int):
                candidates = value
            elif isinstance(value, float):
                seconds = value
            else:
                for word in str(value).split(","):
                    if word.strip().endswith("s"):
                        seconds = float(word.strip()[:-1])
                    else:
                        candidates = int(word)
        except ValueError:
            seconds = -1.0
        if seconds < 0 or candidates < 0 or not math.isfinite(seconds):
            raise DSLValueError(f'a budget is candidates (50) or seconds ("30s"), or both ("30s,50"); got {value!r}')
        return cls(seconds, candidates)


@dataclass(frozen=True)
class Defaults:
    """What a command says of the searches inside it; it comes before what functions say of themselves."""

    budget: Budget = Budget()
    timeout: float | None = None
    progress: Progress | None = None


_NONE = Defaults()
_defaults: ContextVar[Defaults] = ContextVar("flydsl_search_defaults", default=_NONE)


def current_defaults() -> Defaults:
    """The defaults of the block around."""
    return _defaults.get()


@contextmanager
def search_defaults(
    *, budget: Budget | None = None, timeout: float | None = None, progress: Progress | None = None
) -> Generator[None]:
    """Searches inside the block are made so."""
    token = _defaults.set(Defaults(budget or Budget(), timeout, progress))
    try:
        yield
    finally:
        _defaults.reset(token)


class Clock:
    """How much of a budget is left."""

    def __init__(self, budget: Budget):
        self.budget = budget
        self.start = time.monotonic()
        self.done = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.start

    def spent(self) -> str:
        """Why the search ends here; empty while it goes on."""
        if self.budget.seconds and self.seconds >= self.budget.seconds:
            return f"the budget of {self.budget.seconds:g} s was spent"
        if self.budget.candidates and self.done >= self.budget.candidates:
            return f"the budget of {self.budget.candidates} candidates was spent"
        return ""


# --- which candidates ---------------------------------------------------------------------------------------------


def prune(configs: list[Config], how: object, named: dict[str, object]) -> list[Config]:
    """`(configs, named_args) -> configs`, or a mapping: `early_config_prune`, `perf_model`, `top_k` (T-9)."""
    if how is None:
        return configs
    if not isinstance(how, Mapping):
        if not callable(how):
            raise DSLTypeError(f"prune_configs_by is a function or a mapping, got {how!r}")
        return _pruned(how(configs, named), "prune_configs_by")
    steps = cast("Mapping[str, object]", how)
    unknown = steps.keys() - {"early_config_prune", "perf_model", "top_k"}
    if unknown:
        raise DSLValueError(
            f"prune_configs_by has early_config_prune, perf_model and top_k, got {', '.join(sorted(unknown))}"
        )
    early = steps.get("early_config_prune")
    if early is not None:
        configs = _pruned(cast("Callable[..., object]", early)(configs, named), "early_config_prune")
    model, top = steps.get("perf_model"), steps.get("top_k")
    if model is not None:
        predict = cast(PerfModel, model)
        configs = sorted(configs, key=lambda c: predict(**{**named, **c.all_kwargs()}))
        configs = configs[: how_many(top, len(configs))]
    elif top is not None:
        raise DSLValueError("prune_configs_by: top_k needs a perf_model to rank by")
    return configs


def how_many(top: object, count: int) -> int:
    """`top_k` as a number: an int, or a share of at most 1; one is kept at least."""
    if top is None:
        return count
    if isinstance(top, bool) or not isinstance(top, int | float) or top <= 0 or (isinstance(top, float) and top > 1):
        raise DSLValueError(f"top_k is a positive int, or a share of at most 1.0; got {top!r}")
    return max(1, int(count * top) if isinstance(top, float) else min(top, count))


def _pruned(found: object, by: str) -> list[Config]:
    configs = list(cast("Iterable[Config]", found or ()))
    if not configs:
        raise DSLRuntimeError(f"{by} left no configuration to choose from")
    return check_configs(configs, by)


def cut_by_resources(trials: Sequence[Trial], resources: Mapping[int, Mapping[str, Mapping[str, object]]]) -> None:
    """Cut what needs more than the device has, and what spills where something else does not."""
    from .limits import excess, spills

    spilling: list[tuple[Trial, int]] = []
    for i, trial in enumerate(trials):
        if trial.status != "left out" or i not in resources:
            continue
        reason = excess(resources[i])
        if reason:
            trial.status, trial.reason = "cut", reason
        elif count := spills(resources[i]):
            spilling.append((trial, count))
    alive = [t for t in trials if t.status == "left out"]
    if len(spilling) < len(alive):
        for trial, count in spilling:
            trial.status, trial.reason = "cut", f"it spills {count} registers, and others do not"


# --- running ------------------------------------------------------------------------------------------------------


def attempt(trial: Trial, work: Callable[[], Timing]) -> None:
    """Time a candidate; what it raises is a reason in the report, unless the device is gone."""
    try:
        trial.timing = work()
        trial.status = "ok"
    except DeviceLostError:
        raise
    except WrongResult as error:
        trial.status, trial.reason = "wrong", str(error)
    except Exception as error:  # noqa: BLE001 - whatever a candidate raises costs this candidate alone
        trial.status, trial.reason = "failed", _reason(error)


def _reason(error: Exception) -> str:
    text = str(error).strip() or "no message"
    return text if isinstance(error, FlyDSLError) else f"{type(error).__name__}: {text}"


class Search:
    """One search of one call."""

    def __init__(
        self,
        runner: Runner,
        report: Report,
        budget: Budget,
        *,
        isolation: Elsewhere | None = None,
        reference: Config | None = None,
        select: Select | None = None,
        progress: Progress | None = None,
        ready: Callable[[Runner, Trial], None] | None = None,
    ):
        self.ready = ready
        """Compiles a candidate whose turn has come, or cuts it."""
        self.runner = runner
        self.report = report
        self.clock = Clock(budget)
        self.isolation = isolation
        self.reference = reference
        self.select = select
        self.progress = progress

    def run(self, configs: Iterator[Config] | Sequence[Config], compiled: Callable[[list[Trial]], None]) -> Config:
        """Go through candidates in their order; `compiled` compiles a batch of them and cuts what it can."""
        report = self.report
        trials = [Trial(config) for config in configs]
        report.trials.extend(trials)
        self.runner.keep_arrays()
        try:
            compiled(trials)
            self.set_reference()
            if self.isolation is not None:
                self.isolation.expect([trial.config for trial in trials if trial.status == "left out"])
            for trial in trials:
                if trial.status != "left out":
                    self._told(trial)
                    continue
                reason = self.clock.spent()
                if reason and report.timed:
                    trial.reason = reason
                    continue
                self.clock.done += 1
                self.try_out(trial)
                self._told(trial)
            self._repeat_close()
        finally:
            self.runner.restore_all()
            report.notes.extend(n for n in self.runner.notes if n not in report.notes)
            report.seconds = self.clock.seconds
        report.winner = self.choose()
        return report.winner

    def try_out(self, trial: Trial) -> None:
        """Make a candidate ready, then time it."""
        if self.ready is not None:
            self.ready(self.runner, trial)
        if trial.status == "left out":
            attempt(trial, lambda: self.measure(trial.config))

    def _told(self, trial: Trial) -> None:
        if self.progress is not None:
            self.progress(self.report, trial)

    def set_reference(self) -> None:
        """The results of the default configuration are the right ones; those of the first that runs, if it does not."""
        if self.reference is None or not self.runner.policy.check:
            return
        if self.isolation is not None:
            self.isolation.reference = self.reference
            return
        try:
            self.runner.set_reference(self.reference)
        except DeviceLostError:
            raise
        except Exception as error:  # noqa: BLE001 - the default configuration is a candidate like the others
            self.report.notes.append(f"the default configuration {self.reference} does not run: {_reason(error)}")

    def measure(self, config: Config, *, compare: bool = True) -> Timing:
        if self.isolation is not None:
            return self.isolation.time(config, compare=compare)
        if compare:
            self.runner.compare(config)
        self.runner.restore_all()
        return self.runner.time(config)

    def _repeat_close(self) -> None:
        """Measure the best ones again, and put both measurements together."""
        timed = self.report.timed
        if not timed or self.runner.policy.do_bench is not None:
            return
        close = [t for t in timed if t.ms <= timed[0].ms * (1 + CLOSE)]
        if len(close) < 2:
            return
        for trial in close:
            if self.clock.budget.seconds and self.clock.spent():
                return
            first = trial.timing
            attempt(trial, lambda trial=trial: self.measure(trial.config, compare=False))
            if trial.status == "ok" and trial.timing is not None and first is not None:
                trial.timing = Timing((*first.times, *trial.timing.times), first.method)

    def choose(self) -> Config:
        timed = self.report.timed
        if not timed:
            reasons = "\n".join(f"  {t.config}: {t.status}, {t.reason}" for t in self.report.trials)
            raise DSLRuntimeError(f"{self.report.function}: no candidate can be used\n{reasons}")
        if self.select is None:
            return timed[0].config
        pairs = [(t.config, t.ms) for t in timed]
        found = cast(object, self.select(pairs))
        config = cast("tuple[object, ...]", found)[0] if isinstance(found, tuple) else found
        if not isinstance(config, Config) or config not in {c for c, _ in pairs}:
            raise DSLValueError(f"select_config gives one of the measured pairs (config, time), got {found!r}")
        return config


def expand(configs: object, budget: Budget, seed: int, default: Config | None) -> tuple[list[Config], bool]:
    """The candidates of a sequence or a space; whether a large space was sampled."""
    if not isinstance(configs, Space):
        return check_configs(configs, "configs"), False
    most = budget.candidates or LARGE
    if configs.size > LARGE:
        found = configs.sample(max(most, 1), seed)
        sampled = True
    else:
        found, sampled = list(configs), False
    if default is not None and default not in found and sampled:
        found.insert(0, default)
    if not found:
        raise DSLValueError(f"{configs!r}: no point of the space fulfils its condition")
    return found, sampled
