"""Which lines and branches of kernels ran on the cpu stack, as an object and as data of coverage.py.

The counters are those of `expr/emit/line_coverage.py`. coverage.py is an optional package: only writing its files needs
it.
"""

from __future__ import annotations

import ast
import linecache
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from .. import config
from ..errors import DSLRuntimeError
from ..expr.emit.line_coverage import PASSED
from .program import environment

Counts = Mapping[tuple[str, int], int]
Arc = tuple[int, int]


class KernelCoverage:
    """How often the lines of kernels ran; those that never did are known as well."""

    def __init__(self, counts: Counts | None = None):
        self._counts: Counter[tuple[str, int]] = Counter(dict(counts or {}))

    def add(self, counts: Counts) -> None:
        """Add what was counted elsewhere."""
        for key, runs in counts.items():
            self._counts[key] += runs

    @property
    def files(self) -> list[str]:
        """Files with lines of kernels."""
        return sorted({file for file, _ in self._counts})

    def runs(self, file: str) -> dict[int, int]:
        """How often each line of a file ran."""
        return {line: n for (name, line), n in sorted(self._counts.items()) if name == file and line < PASSED}

    def passed(self, file: str) -> dict[int, int]:
        """How often each `if` without an `else` was passed by, its condition being false."""
        return {line - PASSED: n for (name, line), n in sorted(self._counts.items()) if name == file and line >= PASSED}

    def missing(self, file: str) -> list[int]:
        """Lines of kernels that never ran."""
        return [line for line, n in self.runs(file).items() if not n]

    def missing_branches(self, file: str) -> list[Arc]:
        """From and to lines of branches that were never taken, by kernels whose line before them ran."""
        branches = _branches(file)
        runs, passed = self.runs(file), self.passed(file)
        found: list[Arc] = []
        for line, (then, other) in sorted(branches.items()):
            if not runs.get(line):
                continue
            if then in runs and not runs[then]:
                found.append((line, then))
            if other is not None and other in runs and not runs[other]:
                found.append((line, other))
            if other is None and line in passed and not passed[line]:
                found.append((line, 0))
        return found

    def text(self) -> str:
        """A table: files, lines, and what is missing."""
        rows = [f"{'lines':>7} {'missing':>8} {'ran':>6}  file"]
        for file in self.files:
            runs, missing = self.runs(file), self.missing(file)
            share = 100 * (len(runs) - len(missing)) // max(len(runs), 1)
            rows.append(f"{len(runs):>7} {len(missing):>8} {share:>5}%  {file}")
            rows += [f"{'':25}line {line}: {linecache.getline(file, line).strip()}" for line in missing]
            for start, end in self.missing_branches(file):
                if end not in missing:
                    rows.append(f"{'':25}line {start} never {'to line ' + str(end) if end else 'passed by'}")
        return "\n".join(rows)

    __str__ = text

    def write(self, path: str | Path = ".coverage", *, branch: bool = True, suffix: bool = False) -> Path:
        """Write a data file of coverage.py, with branches or lines alone; `suffix` makes its name unique.

        `coverage report` and `coverage html` read it, `coverage combine` joins it with others of the same kind.
        """
        data = _coverage("coverage").CoverageData(basename=str(path), suffix=suffix)
        data.erase()
        if branch:
            data.add_arcs({file: self.arcs(file) for file in self.files})
        else:
            data.add_lines({file: [line for line, n in self.runs(file).items() if n] for file in self.files})
        data.write()
        return Path(data.data_filename())

    def arcs(self, file: str) -> set[Arc]:
        """What ran, as coverage.py tells it: pairs of lines that ran one after the other.

        Its own parser says which pairs there can be; of those that leave a branch only those count that were taken.
        """
        parser = _coverage("coverage.parser").PythonParser(filename=file)
        parser.parse_source()
        first: Any = parser.translate_lines
        known = self.runs(file)
        ran = {at for line, n in known.items() if n for at in first([line])}
        passed = {at for line, n in self.passed(file).items() if n for at in first([line])}
        asked = {at for line in self.passed(file) for at in first([line])}
        branches = _branches(file)
        inside = {at for line in known for at in first([line])}

        def taken(start: int, end: int) -> bool:
            if start > 0 and start not in ran or end > 0 and end not in ran:
                return False
            if start not in branches:
                return True
            then, other = branches[start]
            if end in first([then]) or then == start:
                return True  # of a branch on the line of its condition nobody can tell
            return start in passed if other is None and start in asked else True

        return {(a, b) for a, b in parser.arcs() if (a in inside or b in inside) and taken(a, b)}


def _branches(file: str) -> dict[int, tuple[int, int | None]]:
    """Line of each `if`, `while` and `for` of a file: the first line inside, and that of its `else`."""
    found: dict[int, tuple[int, int | None]] = {}
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.While | ast.For):
            found[node.lineno] = node.body[0].lineno, node.orelse[0].lineno if node.orelse else None
    return found


def _coverage(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise DSLRuntimeError(
            "writing data of coverage.py needs the package coverage: pip install flydsl[coverage]"
        ) from error


def taken_counts() -> Counts:
    """What kernels of this process counted since the last time."""
    from ..cpu.runtime import CpuDeviceRuntime
    from ..runtime.device_runtime import device_runtime_state, get_device_runtime

    if device_runtime_state() != "active":
        return {}
    runtime = get_device_runtime()
    if not isinstance(runtime, CpuDeviceRuntime):
        return {}
    runtime.synchronize()
    return runtime.take_line_counts()


_kept = KernelCoverage()
"""What was counted outside of all `kernel_coverage` blocks."""


@contextmanager
def kernel_coverage() -> Generator[KernelCoverage]:
    """Count the lines and branches of kernels that run inside, on the cpu stack; the counts are there at the end."""
    _kept.add(taken_counts())
    found = KernelCoverage()
    with environment(FLYDSL_CPU_COVERAGE="1"):
        try:
            yield found
        finally:
            found.add(taken_counts())


def write_at_exit() -> None:
    """Write what a process with FLYDSL_CPU_COVERAGE has counted."""
    if not config.cpu.coverage:
        return
    _kept.add(taken_counts())
    if _kept.files:
        _kept.write(config.cpu.coverage_file, suffix=True)
