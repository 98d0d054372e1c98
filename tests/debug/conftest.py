"""What tests of the debugger share: the cpu stack, fresh numbers, a controller that follows a script."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from flydsl.debug.debugger import Command, Debugger, Stop
from flydsl.debug.session import Session
from flydsl.debug.variables import frames_of


@pytest.fixture(autouse=True)
def emulate(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """The cpu stack, which plays no GPU until `emulate("gfx942")` says so."""

    def choose(arch: str) -> None:
        monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
        monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)

    choose("native")
    return choose


@pytest.fixture
def rng() -> np.random.Generator:
    seed = np.random.SeedSequence().entropy
    print(f"seed {seed}")
    return np.random.default_rng(seed)


Answer = Callable[[Debugger, Stop], Command]


@dataclass
class Script:
    """A controller: an answer for each stop, in order; behind the last it continues."""

    answers: list[Answer]
    stops: list[Stop] = field(default_factory=list[Stop])
    places: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """Line, block and thread of each stop."""
    launches: int = 0

    def stopped(self, debugger: Debugger, stop: Stop) -> Command:
        self.stops.append(stop)
        thread = stop.thread
        self.places.append((frames_of(thread)[0].site.line, thread.block.number, thread.tid))
        at = len(self.stops) - 1
        return self.answers[at](debugger, stop) if at < len(self.answers) else Command("continue")

    def launched(self, debugger: Debugger) -> None:
        self.launches += 1

    def ended(self, debugger: Debugger) -> None:
        pass


@pytest.fixture
def debug() -> Iterator[Callable[..., tuple[Script, Debugger]]]:
    """`script, debugger = debug(run, prepare, answers)`: `run()` under a debugger that `prepare` was given."""

    def start(
        run: Callable[[], object], prepare: Callable[[Debugger], object], answers: list[Answer]
    ) -> tuple[Script, Debugger]:
        script = Script(answers)
        debugger = Debugger(script)
        prepare(debugger)
        with Session(debugger.run, wanted=debugger.wants).open():
            run()
        return script, debugger

    yield start
