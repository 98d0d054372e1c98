"""Breakpoints, steps in both directions, watched memory, on a launch that is interpreted.

A run is the same every time, so a place in it is a number of steps: lines that have begun, over all threads. To go
back, the writes of the launch are undone to the start of a cluster of blocks, and the cluster runs again up to an
earlier step.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import numpy as np

from ..errors import DSLValueError, FlyDSLError
from ..expr.emit.line_marks import SITES, Site
from .machine import ClusterRun, Thread
from .memory import Memory, Now, Watch, Write
from .session import Launch, arguments_of, clusters_of
from .variables import Cell, evaluate, frames_of
from .writer import Kernel

Reason = Literal["breakpoint", "step", "data breakpoint", "exception", "pause", "entry"]
Move = Literal["continue", "over", "in", "out", "back", "reverse", "quit"]


@dataclass
class Breakpoint:
    """A place to stop at."""

    file: str
    line: int
    condition: str = ""
    """An expression over the variables and `thread`, `block`, `tx`, `bx`, `warp`, `lane`, ..."""
    every: int = 1
    """Stop at each so many hits."""
    hits: int = 0
    number: int = 0


class Stop(NamedTuple):
    """Why and where a launch stands."""

    reason: Reason
    thread: Thread
    text: str = ""
    breakpoint: int = 0


class Command(NamedTuple):
    """What to do next; `thread` is the one that steps, as its block and its number in it."""

    move: Move
    thread: tuple[int, int] | None = None


class Controller(Protocol):
    """Whoever decides: a person at a console, or a protocol."""

    def stopped(self, debugger: Debugger, stop: Stop) -> Command:
        """The launch stands; it goes on when this returns."""
        ...

    def launched(self, debugger: Debugger) -> None:
        """A launch begins."""
        ...

    def ended(self, debugger: Debugger) -> None:
        """A launch has ended."""
        ...


class Quit(BaseException):
    """The user has enough; no exception that programs catch, as Control-C is none."""


class _Rewind(Exception):
    def __init__(self, step: int, *, search: bool = False):
        super().__init__(step)
        self.step, self.search = step, search


@dataclass
class _Snapshot:
    """The state before a cluster: what has run and what was written."""

    step: int
    journal: int


@dataclass
class _Stepping:
    move: Move
    thread: Thread
    depth: int


@dataclass
class _State:
    """Of one launch."""

    launch: Launch
    memory: Memory
    run: ClusterRun
    history: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """Block, thread and mark of every step."""
    snapshots: list[_Snapshot] = field(default_factory=list[_Snapshot])
    hot: frozenset[int] = frozenset()
    """Marks with a breakpoint."""


def same_file(a: str, b: str) -> bool:
    """Whether two names are the same file, as far as names tell."""
    return a == b or Path(a).resolve() == Path(b).resolve()


class Debugger:
    """Runs launches under a controller; `run` is what a `Session` is given."""

    def __init__(self, controller: Controller):
        self.controller = controller
        self.breakpoints: list[Breakpoint] = []
        self.watches: list[Watch] = []
        self.stop_at_entry = False
        self._pause = threading.Event()
        self._state: _State | None = None
        self._step: _Stepping | None = None
        self._goal = 0
        self._search = False
        self._found = 0
        self._changed = True

    # --- what may be asked while a launch stands ------------------------------------------------------------------

    @property
    def state(self) -> _State:
        if self._state is None:
            raise DSLValueError("no kernel is running")
        return self._state

    @property
    def running(self) -> bool:
        """Whether a launch is under way."""
        return self._state is not None

    @property
    def threads(self) -> list[Thread]:
        """The threads of the blocks that run."""
        return [t for b in self.state.run.blocks for t in b.threads]

    @property
    def kernel(self) -> Kernel:
        return self.state.launch.kernel

    @property
    def steps(self) -> int:
        """How many lines have begun in this launch."""
        return self.state.memory.now.step

    def find(self, block: int, tid: int) -> Thread:
        """A thread by the numbers of its block and in it."""
        for thread in self.threads:
            if (thread.block.number, thread.tid) == (block, tid):
                return thread
        raise DSLValueError(f"no thread {tid} of block {block} is running")

    def writers(self, cell: Cell) -> list[tuple[Write, Site | None]]:
        """Who wrote a cell in this launch, the last one first."""
        marks = self.kernel.marks
        found = self.state.memory.last_writes(cell.address, cell.nbytes)
        return [(w, SITES[marks[w.site].site] if w.site >= 0 else None) for w in found]

    # --- what stops -----------------------------------------------------------------------------------------------

    def set_breakpoints(self, breakpoints: Sequence[Breakpoint]) -> None:
        for number, each in enumerate(breakpoints, 1):
            each.number = number
            if each.condition:
                compile(each.condition, "<condition>", "eval")
        self.breakpoints = list(breakpoints)
        self._changed = True

    def set_watches(self, watches: Sequence[Watch]) -> None:
        self.watches = list(watches)
        if self._state is not None:
            self._state.memory.watches = self.watches

    def wants(self, kernel: Kernel) -> bool:
        """Whether anything may stop in a kernel; one in which nothing can may run compiled."""
        if self.stop_at_entry or self.watches or self._pause.is_set():
            return True
        sites = [SITES[mark.site] for mark in kernel.marks]
        return any(
            site.stops or any(b.line == site.line and same_file(b.file, site.file) for b in self.breakpoints)
            for site in sites
        )

    def pause(self) -> None:
        """Stop at the next line."""
        self._pause.set()

    def lines_of(self, file: str) -> set[int]:
        """Lines of a file that kernels stop at, as far as they were traced."""
        return {site.line for site in SITES if same_file(site.file, file)}

    # --- running --------------------------------------------------------------------------------------------------

    def run(self, launch: Launch) -> None:
        """Run a launch to its end, with stops."""
        memory = Memory(Now())
        run = ClusterRun(launch.kernel, memory, launch.block, launch.shared)
        self._state = state = _State(launch, memory, run)
        memory.watches, memory.changed = self.watches, self._watched
        self._step, self._goal, self._search, self._changed = None, 0, False, True
        arguments = arguments_of(launch, memory.load)
        self.controller.launched(self)
        entry = self.stop_at_entry
        number, total = 0, clusters_of(launch)
        if entry:
            self._pause.set()
        try:
            with np.errstate(all="ignore"):
                while number < total:
                    state.snapshots[number:] = [_Snapshot(memory.now.step, len(memory.journal or ()))]
                    try:
                        run.run(number, launch.grid, arguments, self._line)
                        number += 1
                    except _Rewind as back:
                        number = self._rewind(back)
                    except FlyDSLError as error:
                        self._failed(error)
                        raise
        finally:
            self._state = None
            self.controller.ended(self)

    def _rewind(self, back: _Rewind) -> int:
        """Undo writes up to the cluster that a step is in; gives its number."""
        state = self.state
        number = max(i for i, s in enumerate(state.snapshots) if s.step < back.step or i == 0)
        if back.search:
            number = 0
        snapshot = state.snapshots[number]
        state.memory.undo(snapshot.journal)
        state.memory.now.step = snapshot.step
        del state.history[snapshot.step :]
        self._goal, self._search, self._found, self._step = back.step, back.search, 0, None
        state.memory.now.silent = True
        return number

    def _line(self, thread: Thread, mark: int) -> None:
        """A thread comes to a line: stop there, or not."""
        state = self.state
        state.history.append((thread.block.number, thread.tid, mark))
        if self._goal:
            self._replay(thread, mark)
            return
        if self._changed:
            self._heat(state)
        if mark not in state.hot and self._step is None and not self._pause.is_set():
            return
        stop = self._decide(thread, mark)
        if stop is not None:
            self._stop(stop)

    def _replay(self, thread: Thread, mark: int) -> None:
        state = self.state
        step = state.memory.now.step
        if self._changed:
            self._heat(state)
        if self._search and step < self._goal:
            if mark in state.hot and self._hit(thread, mark, count=False) is not None:
                self._found = step
            return
        if step < self._goal:
            return
        if self._search:
            raise _Rewind(max(self._found, 1))
        self._goal = 0
        state.memory.now.silent = False
        self._stop(Stop("step", thread, "" if step > 1 else "the first line of the launch"))

    def _heat(self, state: _State) -> None:
        wanted = [(b.file, b.line) for b in self.breakpoints]
        state.hot = frozenset(
            i
            for i, mark in enumerate(state.launch.kernel.marks)
            if SITES[mark.site].stops
            or any(line == SITES[mark.site].line and same_file(file, SITES[mark.site].file) for file, line in wanted)
        )
        self._changed = False

    def _decide(self, thread: Thread, mark: int) -> Stop | None:
        hit = self._hit(thread, mark, count=True) if mark in self.state.hot else None
        if hit is not None:
            return hit
        if self._pause.is_set():
            self._pause.clear()
            reason: Reason = "entry" if self.stop_at_entry and self.steps == 1 else "pause"
            return Stop(reason, thread)
        step = self._step
        if step is None:
            return None
        if step.thread.status == 0:
            return Stop("step", thread, "the thread that stepped has ended")
        if step.thread is not thread:
            return None
        depth = SITES[self.kernel.marks[mark].site].depth
        fits = {"in": True, "over": depth <= step.depth, "out": depth < step.depth}[step.move]
        return Stop("step", thread) if fits else None

    def _hit(self, thread: Thread, mark: int, *, count: bool) -> Stop | None:
        """The breakpoint at a mark whose condition holds."""
        site = SITES[self.kernel.marks[mark].site]
        if site.stops:
            return Stop("breakpoint", thread, "breakpoint()")
        for each in self.breakpoints:
            if each.line != site.line or not same_file(each.file, site.file):
                continue
            if each.condition:
                try:
                    holds = bool(evaluate(thread, frames_of(thread)[0], each.condition))
                except Exception as error:  # noqa: BLE001 - any mistake in the user's expression
                    text = f"condition {each.condition!r}: {type(error).__name__}: {error}"
                    return Stop("breakpoint", thread, text, each.number)
                if not holds:
                    continue
            if count:
                each.hits += 1
                if each.hits % each.every:
                    continue
            return Stop("breakpoint", thread, "", each.number)
        return None

    def _watched(self, watch: Watch, write: Write) -> None:
        if self._goal:
            self._found = write.step
            return
        thread = self.find(write.block, write.thread)
        before, after = write.before.hex(), write.after.hex()
        self._stop(Stop("data breakpoint", thread, f"{watch.label} was written: bytes {before} became {after}"))

    def _failed(self, error: FlyDSLError) -> None:
        now = self.state.memory.now
        if not self.threads:
            return
        thread = next((t for t in self.threads if (t.block.number, t.tid) == (now.block, now.thread)), self.threads[0])
        self._stop(Stop("exception", thread, str(error)))

    def _stop(self, stop: Stop) -> None:
        """Ask what to do, and prepare for it."""
        self._step = None
        command = self.controller.stopped(self, stop)
        if command.move == "quit":
            raise Quit
        if command.move == "continue":
            return
        thread = stop.thread if command.thread is None else self.find(*command.thread)
        if command.move == "reverse":
            raise _Rewind(self.steps, search=True)
        if command.move == "back":
            raise _Rewind(self._step_before(thread))
        depth = SITES[self.kernel.marks[thread.mark].site].depth if thread.mark >= 0 else 0
        self._step = _Stepping(command.move, thread, depth)

    def _step_before(self, thread: Thread) -> int:
        """The step at which a thread began the line before; the first of the launch if there is none."""
        history = self.state.history
        here = (thread.block.number, thread.tid)
        found = [i for i in range(len(history) - 1, -1, -1) if history[i][:2] == here]
        return found[1] + 1 if len(found) > 1 else 1
