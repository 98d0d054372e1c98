"""What a trace reads from outside, and options it is traced under: the code is always that of what was read."""

from __future__ import annotations

import builtins
import os
import subprocess
import warnings
from pathlib import Path
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
