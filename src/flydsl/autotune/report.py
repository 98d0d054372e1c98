"""What a search did, candidate by candidate: as a table, as JSON, as a picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .bench import Timing
from .candidate import Config

Status = Literal["ok", "failed", "wrong", "cut", "left out"]


@dataclass(slots=True)
class Trial:
    """What became of one candidate.

    >>> Trial(Config(BLOCK=64), "ok", timing=Timing((0.5,), "wall")).ms
    0.5
    """

    config: Config
    status: Status = "left out"
    """`ok`: timed. `failed`: it did not compile or run. `wrong`: it ran and gave other numbers. `cut`: what is known of
    it without running excludes it. `left out`: the budget was spent."""
    reason: str = ""
    timing: Timing | None = None
    predicted: float | None = None
    """Milliseconds by the model."""
    compile_s: float = 0.0

    @property
    def ms(self) -> float:
        """The median, or infinity."""
        return self.timing.median if self.timing is not None and self.status == "ok" else float("inf")


@dataclass(slots=True)
class Report:
    """A search: its candidates, its winner, what else there is to say.

    >>> print(Report("scale", trials=[Trial(Config(BLOCK=2048), "cut", "2048 threads a block")]))
    scale: 1 candidates (1 cut) in 0.00 s
              cut  BLOCK=2048: 2048 threads a block
    """

    function: str
    key: str = ""
    device: str = ""
    trials: list[Trial] = field(default_factory=list[Trial])
    winner: Config | None = None
    seconds: float = 0.0
    source: str = "search"
    """Where the winner came from: `search`, `winners`, `artifact`, `shipped` or `default`."""
    notes: list[str] = field(default_factory=list[str])

    @property
    def timed(self) -> list[Trial]:
        """Candidates that ran, the fastest first."""
        return sorted((t for t in self.trials if t.status == "ok"), key=lambda t: t.ms)

    def counts(self) -> dict[str, int]:
        """How many candidates have each status."""
        found: dict[str, int] = {}
        for trial in self.trials:
            found[trial.status] = found.get(trial.status, 0) + 1
        return found

    def table(self) -> str:
        """The report as text."""
        head = f"{self.function} on {self.device}" if self.device else self.function
        counts = ", ".join(f"{n} {status}" for status, n in self.counts().items())
        lines = [f"{head}: {len(self.trials)} candidates ({counts or 'none'}) in {self.seconds:.2f} s"]
        timed = self.timed
        best = timed[0].ms if timed else 0.0
        for trial in timed:
            timing = trial.timing
            assert timing is not None
            mark = "*" if trial.config == self.winner else " "
            model = f"  model {trial.predicted:.4g} ms" if trial.predicted is not None else ""
            spread = f"[{timing.low:.4g}, {timing.high:.4g}]"
            lines.append(f" {mark} {timing.median:10.4f} ms  {trial.ms / best:5.2f}x  {spread}  {trial.config}{model}")
        for trial in self.trials:
            if trial.status != "ok":
                reason = (trial.reason.strip().splitlines() or [""])[0]
                lines.append(f"   {trial.status:>10}  {trial.config}: {reason}")
        if self.winner is not None:
            lines.append(f"winner ({self.source}): {self.winner}")
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    __str__ = table

    def to_dict(self) -> dict[str, object]:
        """The report as plain data."""
        trials: list[dict[str, object]] = []
        for trial in self.trials:
            entry: dict[str, object] = {"config": str(trial.config), "status": trial.status}
            if trial.reason:
                entry["reason"] = trial.reason
            if trial.timing is not None:
                timing = trial.timing
                entry.update(ms=timing.median, low=timing.low, high=timing.high, runs=len(timing.times))
            if trial.predicted is not None:
                entry["predicted_ms"] = trial.predicted
            trials.append(entry)
        return {
            "function": self.function,
            "key": self.key,
            "device": self.device,
            "winner": None if self.winner is None else str(self.winner),
            "source": self.source,
            "seconds": self.seconds,
            "notes": list(self.notes),
            "trials": trials,
        }

    def svg(self) -> str:
        """The report as a picture: a bar for each candidate that ran, the fastest first."""
        from .plot import bars

        rows = [(str(trial.config), trial.ms) for trial in self.timed]
        return bars(rows, title=self.function, unit="ms")

    def _repr_html_(self) -> str:
        from ..markup import code, figures, folded

        picture = figures([(f"winner ({self.source}): {self.winner}", self.svg())]) if self.timed else ""
        return picture + folded("every candidate", code(self.table()), is_open=not picture)
