"""What a trace reads from outside, and options it is traced under: the code is always that of what was read."""

from __future__ import annotations

import builtins
import linecache
import os
import runpy
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.key.outside import outside_reads
from flydsl.errors import UntrackedGlobalWarning
from flydsl.expr.meta import tracing_context, tracing_option


def kernel_of(value):
    @flyc.kernel
    def store_kernel(x: fx.Tensor):
        x[0] = value()

    @flyc.jit
    def store(x: fx.Tensor):
        store_kernel(x).launch(grid=1, block=1)

    def call() -> int:
        x = np.zeros(1, np.int32)
        store(x)
        return int(x[0])

    call.store = store  # type: ignore[attr-defined]
    return call


def test_options_of_a_trace_are_part_of_the_key():
    call = kernel_of(lambda: tracing_option("unroll", 1))
    for _ in range(3):
        for unroll in (4, 8):
            with tracing_context(unroll=unroll):
                assert call() == unroll
        assert call() == 1


@pytest.mark.parametrize("name", ["number.txt", "number.py", "number.so"])
def test_a_file_counts_whatever_it_is_called(name: str, tmp_path: Path):
    path = tmp_path / name
    path.write_text("1")

    def value() -> int:
        with open(file=path) as file:
            return int(file.read())

    call = kernel_of(value)
    assert [call(), call()] == [1, 1]
    path.write_text("2")
    assert [call(), call()] == [2, 2]


def _number(path: Path, how: Callable[..., Any] = Path.open) -> int:
    with how(path, "r+") as file:
        return int(file.read())


def _link(path: Path, target: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


QUESTIONS = {
    "Path.exists": (lambda p: p.exists(), lambda p: None, lambda p: p.write_text("1")),
    "Path.is_file": (lambda p: p.is_file(), lambda p: p.mkdir(), lambda p: (p.rmdir(), p.write_text("1"))),
    "Path.is_dir": (lambda p: p.is_dir(), lambda p: None, lambda p: p.mkdir()),
    "Path.stat": (lambda p: p.stat().st_size, lambda p: p.write_text("1"), lambda p: p.write_text("123")),
    "Path.resolve": (lambda p: len(str(p.resolve())), lambda p: _link(p, "/a"), lambda p: _link(p, "/abc")),
    "Path.readlink": (lambda p: len(str(p.readlink())), lambda p: _link(p, "/a"), lambda p: _link(p, "/abc")),
    "os.path.exists": (lambda p: os.path.exists(p), lambda p: None, lambda p: p.write_text("1")),
    "os.path.islink": (lambda p: os.path.islink(p), lambda p: p.write_text("1"), lambda p: _link(p, "/a")),
    "os.path.getsize": (lambda p: os.path.getsize(p), lambda p: p.write_text("1"), lambda p: p.write_text("123")),
    "os.path.getmtime": (
        lambda p: int(os.path.getmtime(p)),
        lambda p: (p.write_text("1"), os.utime(p, (5, 5))),
        lambda p: os.utime(p, (9, 9)),
    ),
    "os.access": (lambda p: os.access(p, os.R_OK), lambda p: None, lambda p: p.write_text("1")),
    "entries": (
        lambda p: sum(entry.stat().st_size for entry in os.scandir(p)),
        lambda p: (p.mkdir(), (p / "in").write_text("1")),
        lambda p: (p / "in").write_text("123"),
    ),
    "read and write": (_number, lambda p: p.write_text("1"), lambda p: p.write_text("3")),
    "numpy.loadtxt": (lambda p: int(np.loadtxt(p)), lambda p: p.write_text("1"), lambda p: p.write_text("3")),
    "linecache": (
        lambda p: (linecache.clearcache(), int(linecache.getline(str(p), 1)))[1],
        lambda p: p.write_text("1"),
        lambda p: p.write_text("3"),
    ),
    "runpy": (
        lambda p: runpy.run_path(str(p))["n"],
        lambda p: p.write_text("n = 1"),
        lambda p: p.write_text("n = 3"),
    ),
    "os.environb": (
        lambda p: int(os.environb[b"OUTSIDE_NUMBER"]),
        lambda p: os.environ.update(OUTSIDE_NUMBER="1"),
        lambda p: os.environ.update(OUTSIDE_NUMBER="3"),
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_is_asked_about_a_path_counts(name: str, tmp_path: Path):
    ask, before, after = QUESTIONS[name]
    path = tmp_path / "asked"
    before(path)
    call = kernel_of(lambda: int(ask(path)))
    first = int(ask(path))
    assert [call(), call(), call()] == [first] * 3
    after(path)
    assert int(ask(path)) != first
    assert [call(), call(), call()] == [int(ask(path))] * 3


def test_what_is_asked_about_a_path_hits_while_it_answers_the_same(tmp_path: Path):
    path = tmp_path / "there"
    path.write_text("1")
    call = kernel_of(lambda: int(path.exists()))
    assert [call() for _ in range(3)] == [1] * 3
    path.write_text("34")
    assert call() == 1 and call.store.cache_info().misses == 1  # type: ignore[attr-defined]


def test_the_folder_of_the_process_counts_for_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for i in (1, 2):
        (tmp_path / str(i)).mkdir()
        (tmp_path / str(i) / "number").write_text(str(i))
    monkeypatch.chdir(tmp_path / "1")
    calls = [kernel_of(lambda: int(Path("number").read_text())), kernel_of(lambda: int(Path.cwd().name))]
    for _ in range(2):
        for i in (1, 2):
            monkeypatch.chdir(tmp_path / str(i))
            assert [call() for call in calls for _ in range(3)] == [i] * 6


READ = open


@pytest.mark.filterwarnings("ignore:.*is traced at every call")
def test_a_reader_under_another_name_is_asked_each_time(tmp_path: Path):
    """The names are replaced while something is traced, not the functions."""
    path = tmp_path / "number"
    path.write_text("1")
    call = kernel_of(lambda: _number(path, READ))
    assert [call(), call()] == [1, 1]
    path.write_text("2")
    assert [call(), call()] == [2, 2]


def test_a_file_that_changes_during_the_trace_counts_as_it_was_read(tmp_path: Path):
    path = tmp_path / "number.txt"
    path.write_text("1")

    def value() -> int:
        found = int(path.read_text())
        if found == 1:
            os.replace(_written(tmp_path / "other", "2"), path)
        return found

    call = kernel_of(value)
    assert call() == 1
    assert [call(), call()] == [2, 2]


def _written(path: Path, text: str) -> Path:
    with path.open("w") as file:
        file.write(text)
    return path


def test_devices_and_answers_are_asked_each_time():
    def value() -> int:
        with open("/dev/urandom", "rb") as file:
            return file.read(2)[0] * 0 + 5

    call = kernel_of(value)
    with pytest.warns(UntrackedGlobalWarning, match="/dev/urandom is called while .* is traced and may answer"):
        assert [call(), call()] == [5, 5]
    call = kernel_of(lambda: int(subprocess.run(["echo", "3"], capture_output=True, check=True).stdout))
    with pytest.warns(UntrackedGlobalWarning, match=r"subprocess.Popen.__init__ is called while"):
        assert [call(), call()] == [3, 3]


def test_what_others_replace_meanwhile_stays_theirs():
    before = builtins.open
    with outside_reads():
        patched = mock.patch("builtins.open")
        patched.start()
    assert builtins.open is not before
    theirs = builtins.open
    assert isinstance(theirs, mock.MagicMock)
    builtins.open = before
    with outside_reads() as reads, warnings.catch_warnings():
        os.close(os.open(path=os.devnull, flags=os.O_RDONLY))
        assert builtins.open is not before
    assert builtins.open is before and not any(kind == "environment" for kind, _ in reads.found)


def test_flags_around_a_call_do_not_outlive_it():
    """What was called twice under flags is learned for nobody else."""

    @flyc.kernel
    def sum_kernel(x: fx.Tensor):
        x[0] = (x[0] + x[1]) - x[1]

    @flyc.jit
    def sums(x: fx.Tensor):
        sum_kernel(x).launch(grid=1, block=1)

    def call() -> float:
        x = np.array([1.0, 2.0**30], np.float32)
        sums(x)
        return float(x[0])

    for _ in range(3):
        with fx.fastmath("fast"):
            assert call() == 1.0
            assert call() == 1.0
        assert call() == 0.0
