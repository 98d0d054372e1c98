"""`compute-sanitizer` has nothing to say about any shipped kernel."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("every_cuda_kernel.py")


@pytest.mark.cuda
@pytest.mark.parametrize(
    ("tool", "without"), [("memcheck", []), ("racecheck", ["factors by lanes", "grouped_matmul of fp8"])]
)
def test_nothing_is_reported(tool: str, without: list[str]):
    """What racecheck cannot see is left to the explored schedules: see `HANDED_ON` of the program."""
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("no compute-sanitizer here")
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", sys.executable, str(PROGRAM)]
    command += [f"--without={word}" for word in without]
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout[-4000:], done.stderr[-2000:])
    assert done.returncode == 0 and "done" in done.stdout
    assert "ERROR SUMMARY: 0 errors" in done.stdout or "RACECHECK SUMMARY: 0 hazards" in done.stdout


WORDS = ["call: permute_tokens", "dequantize_weight", "vector_add", "all_gather-"]
"""Of every kind: calls with keywords, with weights in an object, of cases; and numbers."""


@pytest.mark.parametrize("words", [WORDS, pytest.param(["call:", "case:"], marks=pytest.mark.slow)])
def test_the_program_without_a_gpu(words: list[str]):
    """On the cpu stack nothing but the device differs."""
    done = subprocess.run([sys.executable, PROGRAM, "--device", "cpu", *words], capture_output=True, text=True)
    print(done.stdout[-4000:], done.stderr[-2000:])
    assert done.returncode == 0 and "done" in done.stdout
