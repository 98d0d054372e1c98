"""Checks of floats: the first NaN, infinities, overflow in conversions, cancellation, and how large errors are by line.

A kernel is interpreted with a shadow in double precision beside every float (`shadow.py`). What the formats of the
kernel lose against it is its error; where digits vanish in a difference, that is cancellation.
"""

from __future__ import annotations

import linecache
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from .kinds import Kind, Value
from .machine import ClusterRun, OnLine, Thread
from .memory import Memory, Now
from .session import Launch, Session, arguments_of, clusters_of
from .shadow import Place, ShadowWriter, wide

Trouble = Literal["nan", "infinity", "overflow in a conversion", "cancellation"]
_QUIET = 0x7FF8000000000000
_SUMS = ("fadd", "fsub", "fma", "fmuladd")


@dataclass
class Finding:
    """Something wrong with floats at a line: the first time it happened, and how often."""

    trouble: Trouble
    place: Place
    kernel: str
    thread: tuple[int, ...]
    block: tuple[int, ...]
    operands: tuple[float, ...]
    result: float
    exact: float
    """What double precision gives."""
    count: int = 1

    def __str__(self) -> str:
        p = self.place
        operands = ", ".join(f"{x:.9g}" for x in self.operands)
        text = (
            f"{p.file}:{p.line}: {self.trouble}: {p.word} of {operands} gave {self.result:.9g} in {p.kind.element.text}"
        )
        if self.trouble == "cancellation":
            text += f", {self.exact:.9g} in double precision"
        again = f", {self.count} times" if self.count > 1 else ""
        return f"{text}; thread {self.thread}, block {self.block} of {self.kernel}{again}"


@dataclass
class LineError:
    """How far the results of a line are from those in double precision."""

    operations: int = 0
    ulps: float = 0.0
    """The largest error in units of the last place of the result."""
    relative: float = 0.0
    """The largest error as a share of the result in double precision."""


@dataclass
class Report:
    """What checks found; findings are in the order in which they happened first."""

    findings: list[Finding] = field(default_factory=list[Finding])
    lines: dict[tuple[str, int], LineError] = field(default_factory=dict[tuple[str, int], LineError])
    launches: int = 0

    def first(self, trouble: Trouble) -> Finding | None:
        """The first of a kind."""
        return next((f for f in self.findings if f.trouble == trouble), None)

    def listing(self) -> str:
        """Findings, then a table of errors by line."""
        out = [str(f) for f in self.findings] or ["no NaN, infinity, overflow or cancellation was made"]
        for file in dict.fromkeys(name for name, _ in sorted(self.lines)):
            out += ["", file, f"{'operations':>10}  {'ulps':>10}  {'relative':>9}  line"]
            for (name, line), error in sorted(self.lines.items()):
                if name == file:
                    text = linecache.getline(file, line).rstrip()
                    row = f"{error.operations:>10,}  {error.ulps:>10.3g}  {error.relative:>9.2g}  {line:4d}  {text}"
                    out.append(row)
        return "\n".join(out)


class FloatChecker:
    """Looks at the operations of one launch."""

    def __init__(self, report: Report, kernel: str, each: bool = False):
        self.report, self.kernel = report, kernel
        self._each = each
        """Whether every thread has findings of its own."""
        self._memory: dict[int, tuple[float, float]] = {}
        self._known: dict[tuple[object, ...], Finding] = {}

    # --- memory ---------------------------------------------------------------------------------------------------

    def stored(self, k: Kind, address: int, value: Value, shadow: Value) -> None:
        if not k.count:
            self._memory[address] = (value, shadow)
            return
        step = k.bits // 8
        for i in range(k.count):
            self._memory[address + i * step] = (value[i], shadow[i])

    def loaded(self, k: Kind, address: int, value: Value) -> Value:
        if not k.count:
            return self._shadow(address, value)
        step = k.bits // 8
        return np.array([self._shadow(address + i * step, value[i]) for i in range(k.count)], np.float64)

    def _shadow(self, address: int, value: Value) -> Value:
        held = self._memory.get(address)
        if held is not None and (held[0] == value or (held[0] != held[0] and value != value)):
            return held[1]
        return np.float64(value)  # it was there before, or somebody else wrote it

    def shadow_at(self, address: int) -> Value:
        """The shadow of the float at an address, if a kernel stored one."""
        held = self._memory.get(address)
        return None if held is None else held[1]

    # --- results --------------------------------------------------------------------------------------------------

    def made(
        self,
        thread: Thread,
        place: Place,
        value: Value,
        shadow: Value,
        operands: tuple[Value, ...],
        shadows: tuple[Value, ...],
    ) -> Value:
        line = self.report.lines.get((place.file, place.line))
        if line is None:
            line = self.report.lines[place.file, place.line] = LineError()
        if not np.ndim(value):
            line.operations += 1
            return self._one(thread, place, line, value, shadow, operands)
        count = np.size(value)
        line.operations += count
        # Most vectors are in order; only the others are looked at element by element.
        if self._calm(place, line, value, shadow, operands):
            return shadow
        made = np.array(shadow, np.float64)
        for i in range(count):
            parts = tuple(x[i] if np.ndim(x) else x for x in operands)
            made[i] = self._one(thread, place, line, value[i], made[i], parts)
        return made

    def _calm(self, place: Place, line: LineError, value: Value, shadow: Value, operands: tuple[Value, ...]) -> bool:
        exact = wide(value)
        if not (np.isfinite(exact).all() and np.isfinite(shadow).all()):
            return False
        off = np.abs(exact - shadow)
        if not off.any():
            return True
        if place.word in _SUMS and (off > np.abs(shadow) * 2.0 ** -(place.kind.digits // 2)).any():
            return False
        worst = int(off.argmax())
        self._measure(place, line, float(off[worst]), float(np.abs(shadow)[worst]) or float(off[worst]))
        return True

    def _one(
        self, thread: Thread, place: Place, line: LineError, value: Value, shadow: Value, operands: Value
    ) -> Value:
        result, exact = float(value), float(shadow)
        if result != result:
            if not any(x != x for x in operands):
                found = self._find("nan", thread, place, result, exact, operands)
                return _marked(found)
            return shadow
        if np.isinf(result):
            if not any(np.isinf(x) for x in operands):
                narrowing = place.word == "fptrunc"
                self._find(
                    "overflow in a conversion" if narrowing else "infinity", thread, place, result, exact, operands
                )
            # From here on the infinity is what is computed with: its error is told once.
            return np.float64(result)
        if not np.isfinite(exact):
            return np.float64(result)
        off = abs(result - exact)
        if off:
            lost = 2.0 ** (place.kind.digits // 2)
            largest = max((abs(float(x)) for x in operands), default=0.0)
            if place.word in _SUMS and off * lost > abs(exact) and largest > lost * abs(result):
                self._find("cancellation", thread, place, result, exact, operands)
            self._measure(place, line, off, abs(exact) or off)
        return shadow

    def _measure(self, place: Place, line: LineError, off: float, size: float) -> None:
        exponent = int(np.frexp(size)[1]) - place.kind.digits
        line.ulps = max(line.ulps, off / 2.0 ** max(exponent, -1074))
        line.relative = max(line.relative, off / size)

    def _find(
        self, trouble: Trouble, thread: Thread, place: Place, result: float, exact: float, operands: tuple[Value, ...]
    ) -> int:
        """Note it; gives its number."""
        key = (trouble, place.file, place.line, *((thread.block.number, thread.tid) if self._each else ()))
        known = self._known.get(key)
        if known is not None:
            known.count += 1
            return self.report.findings.index(known)
        numbers = tuple(float(x) for x in operands if np.ndim(x) == 0)
        made = Finding(trouble, place, self.kernel, thread.ids, tuple(thread.block.ids), numbers, result, exact)
        self._known[key] = made
        self.report.findings.append(made)
        return len(self.report.findings) - 1


def _marked(number: int) -> Value:
    """A NaN that says which finding made it."""
    return np.uint64(_QUIET | (number + 1)).view(np.float64)


def origin(shadow: Value) -> int | None:
    """The number of the finding that made a NaN."""
    number = int(np.float64(shadow).view(np.uint64)) & ((1 << 51) - 1)
    return number - 1 if np.isnan(shadow) and number else None


def run_checked(
    launch: Launch,
    report: Report,
    memory: Memory,
    on_line: OnLine = lambda thread, mark: None,
    until: type[Exception] | tuple[()] = (),
    *,
    each: bool = False,
) -> tuple[FloatChecker, ClusterRun]:
    """Run a launch, whose kernel has shadows, to its end, or until `on_line` raises `until`."""
    run = ClusterRun(launch.kernel, memory, launch.block, launch.shared)
    checker = FloatChecker(report, launch.kernel.name, each)
    for block in run.blocks:
        block.checker = checker
    arguments = arguments_of(launch, memory.load)
    report.launches += 1
    try:
        with np.errstate(all="ignore"):
            for number in range(clusters_of(launch)):
                run.run(number, launch.grid, arguments, on_line)
    except until:
        pass
    return checker, run


@contextmanager
def checking() -> Generator[Report]:
    """A block in which launches of the cpu stack are interpreted with checks of floats; gives what they found."""
    report = Report()

    def run(launch: Launch) -> None:
        run_checked(launch, report, Memory(Now(), journal=False))

    with Session(run, writer=ShadowWriter).open():
        yield report
