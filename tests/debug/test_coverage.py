"""Which lines and branches of kernels ran: counts that can be worked out by hand, and data that coverage.py reads."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from flydsl.debug.coverage import KernelCoverage, kernel_coverage
from flydsl.debug.program import run_program
from flydsl.expr.emit.line_coverage import PASSED
from flydsl.testing import kernel_coverage as offered

needs_coverage = pytest.mark.skipif(find_spec("coverage") is None, reason="needs the package coverage")

SCRIPT = """\
import sys

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx


@flyc.jit
def clamped(v: fx.Float32):
    if v > 100.0:  # helper
        v = v * 0.0  # too large
    return v + 1.0  # result


@flyc.kernel
def k(x: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x  # thread
    width = 4  # constant
    if i < n:  # test
        x[i] = clamped(x[i])  # inside
    else:
        x[0] = x[0] * 1.0  # outside
    if fx.const_expr(width > 4):  # static
        x[i] = 5.0  # never compiled
    if i < 3:  # few
        y = x[i] + 2.0  # one of few
        x[i] = y  # stored
    for _ in range(n):  # loop
        x[i] = x[i] + 1.0  # turn
    while i < n - 100:  # while
        i = i + 1  # step
    if i == 77:  # first
        x[1] = 9.0  # one
    elif i == 78:  # second
        x[2] = 9.0  # two
    if i >= 0:  # always
        x[i] = x[i] * 1.0  # everywhere
    if n > 0: x[i] = x[i] + 0.0  # one line


@flyc.jit
def f(x: fx.Tensor, n: fx.Int32):
    k(x, n).launch(grid=1, block=32)


for n in map(int, sys.argv[1:]):
    f(np.zeros(32, "f4"), n)
"""


def at(word: str) -> int:
    """The line with a remark."""
    return next(i for i, line in enumerate(SCRIPT.splitlines(), 1) if line.endswith(f"# {word}"))


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    path = tmp_path / "covered.py"
    path.write_text(SCRIPT)
    return path


def measured(script: Path, *arguments: str) -> KernelCoverage:
    with kernel_coverage() as found:
        assert run_program(script, arguments) == 0
    return found


def test_an_arm_that_never_runs_is_missing(script: Path):
    found = measured(script, "32")
    assert found.files == [str(script)]
    missing = {at(word) for word in ("too large", "outside", "step", "one", "two")}
    assert set(found.missing(str(script))) == missing
    runs = found.runs(str(script))
    for word, count in {"thread": 32, "constant": 32, "test": 32, "inside": 32, "result": 32, "few": 32}.items():
        assert runs[at(word)] == count, word
    assert runs[at("one of few")] == runs[at("stored")] == 3 and runs[at("turn")] == 32 * 32
    assert runs[at("second")] == 32 and runs[at("one line")] == 64, "the condition and what depends on it"
    assert at("never compiled") not in runs and at("static") in runs
    passed = found.passed(str(script))
    assert passed[at("helper")] == 32 and passed[at("few")] == 29 and passed[at("second")] == 32
    assert passed[at("always")] == 0
    branches = found.missing_branches(str(script))
    assert (at("always"), 0) in branches and (at("test"), at("outside")) in branches
    assert (at("few"), 0) not in branches and (at("loop"), at("turn")) not in branches
    text = found.text()
    assert f"line {at('outside')}: x[0] = x[0] * 1.0  # outside" in text
    assert f"line {at('always')} never passed by" in text


def test_runs_add_up_and_blocks_are_apart(script: Path):
    both = measured(script, "16", "0")
    missing = both.missing(str(script))
    assert at("outside") not in missing and at("too large") in missing
    assert both.runs(str(script))[at("inside")] == 16 and both.runs(str(script))[at("outside")] == 16 + 32
    assert measured(script, "16").runs(str(script))[at("thread")] == 32
    assert not any(measured(script).runs(str(script)).values()), "what ran before is not counted again"
    assert offered is kernel_coverage


def test_off_leaves_nothing_in_the_code(script: Path, monkeypatch: pytest.MonkeyPatch):
    from flydsl.compiler.listeners import compile_listener

    made: list[bytes] = []

    def keep(name: str, key: str, target: str, times: object, cache_hit: bool, artifact: object) -> None:
        made.append(artifact.sections["llvm"])  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]

    with compile_listener(keep):
        run_program(script, ["4"])
        measured(script, "4")
    assert [b"fly_line_counts" in text for text in made] == [False, True]


def test_others_do_not_follow_lines_while_a_kernel_is_traced(script: Path):
    seen: set[int] = set()

    def follow(frame: object, event: str, argument: object) -> object:
        code = frame.f_code  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
        if code.co_filename == str(script) and event == "line":  # pyright: ignore[reportUnknownMemberType]
            seen.add(frame.f_lineno)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
        return follow

    before = sys.gettrace()
    sys.settrace(follow)  # pyright: ignore[reportArgumentType]
    try:
        measured(script, "32")
        assert sys.gettrace() is follow
    finally:
        sys.settrace(before)
    assert at("outside") not in seen and at("thread") not in seen
    assert len(SCRIPT.splitlines()) in seen, "the script itself is followed"
    assert len(SCRIPT.splitlines()) - 4 in seen, "and so is the function that launches"


def test_coverage_reads_lines_and_branches(script: Path, tmp_path: Path):
    coverage = pytest.importorskip("coverage")
    found = measured(script, "32")
    file = found.write(tmp_path / "data")
    cov = coverage.Coverage(data_file=str(file), branch=True)
    cov.load()
    _, _, _, missing, _ = cov.analysis2(str(script))
    wanted = {at(w) for w in ("too large", "outside", "never compiled", "step", "one", "two")}
    kernel = range(at("helper"), at("one line") + 1)
    heads = {i for i, line in enumerate(SCRIPT.splitlines(), 1) if line.startswith(("def ", "@"))}
    assert {line for line in missing if line in kernel} - heads == wanted
    found_missing = cov._analyze(str(script)).missing_branch_arcs()  # pyright: ignore[reportPrivateUsage]
    assert at("outside") in found_missing[at("test")]
    assert found_missing[at("always")] == [at("one line")]
    assert at("few") not in found_missing and at("loop") not in found_missing
    lines = coverage.CoverageData(basename=str(found.write(tmp_path / "lines", branch=False)))
    lines.read()
    assert not lines.has_arcs() and set(lines.lines(str(script)) or ()) == {
        line for line, n in found.runs(str(script)).items() if n
    }


@needs_coverage
def test_a_process_writes_its_data_and_the_command_says_what_is_missing(script: Path, tmp_path: Path):
    variables = {
        **os.environ,
        "COVERAGE_CORE": "ctrace",
        "FLYDSL_CPU_COVERAGE": "1",
        "FLYDSL_CPU_COVERAGE_FILE": str(tmp_path / ".coverage.k"),
    }
    cover = [sys.executable, "-m", "coverage"]
    data = f"--data-file={tmp_path / '.coverage'}"
    run = ["run", data, "--branch", f"--include={script}", str(script), "32"]
    subprocess.run([*cover, *run], check=True, env=variables, cwd=tmp_path)
    (own,) = tmp_path.glob(".coverage.k.*")
    subprocess.run([*cover, "combine", data, "--append", str(own)], check=True, cwd=tmp_path)
    report = subprocess.run([*cover, "report", data, "-m"], check=True, capture_output=True, text=True, cwd=tmp_path)
    missing = [at(w) for w in ("too large", "outside", "never compiled", "step", "one", "two")]
    wanted = ", ".join([*map(str, missing), f"{at('always')}->{at('one line')}"])
    assert report.stdout.splitlines()[2].endswith(wanted), report.stdout
    command = [sys.executable, "-m", "flydsl", "coverage", "-o", str(tmp_path / "out"), str(script), "32"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "# outside" in done.stdout and (tmp_path / "out").is_file(), done.stderr
    done = subprocess.run([*command[:4], "--fail-under", "99", str(script), "32"], capture_output=True, text=True)
    assert done.returncode == 2


def test_files_that_are_gone_and_nothing_at_all():
    found = KernelCoverage({("nowhere.py", 3): 0, ("nowhere.py", 3 + PASSED): 2, ("nowhere.py", 4): 1})
    found.add({("nowhere.py", 4): 2})
    assert found.runs("nowhere.py") == {3: 0, 4: 3} and found.passed("nowhere.py") == {3: 2}
    assert found.missing("nowhere.py") == [3] and not found.missing_branches("nowhere.py")
    assert "50%  nowhere.py" in found.text()
    assert not KernelCoverage().files
