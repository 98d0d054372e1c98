"""Kernels that are in no file: `python -c`, standard input, Python's prompt."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """\
import numpy as np, flydsl.compiler as flyc, flydsl.expr as fx
@flyc.kernel
def fill_kernel(x: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x
    if i < n:
        x[i] = 2.0

@flyc.jit
def fill(x: fx.Tensor, n: fx.Int32):
    fill_kernel(x, n).launch(grid=1, block=4)

x = np.zeros(4, np.float32)
fill(x, 3)
print(x.tolist(), 40 + 2)
"""
EXPECTED = "[2.0, 2.0, 2.0, 0.0] 42"


def run(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60, **options)  # pyright: ignore


def test_a_program_given_as_an_argument():
    done = run("-c", PROGRAM)
    assert done.stdout.strip() == EXPECTED, done.stderr
    wrong = run("-c", PROGRAM.replace("x[i] = 2.0", "x[i] = math.pi"))
    assert "x[i] = math.pi" in wrong.stderr and "name 'math' is not defined" in wrong.stderr


def test_a_program_on_standard_input(tmp_path: Path):
    script = tmp_path / "program.txt"
    script.write_text(PROGRAM)
    with script.open() as file:
        done = run("-", stdin=file)
    assert done.stdout.strip() == EXPECTED, done.stderr


def test_what_cannot_be_had_says_what_to_do():
    done = run("-", input=PROGRAM)
    assert done.returncode == 1 and "write it to a file and run that" in done.stderr
    done = run("-c", f"exec({PROGRAM!r})")
    assert done.returncode == 1 and "linecache.cache[filename]" in done.stderr


@pytest.mark.skipif(sys.version_info >= (3, 13) or sys.platform == "win32", reason="the prompt before Python 3.13")
def test_the_prompt():
    pytest.importorskip("readline")
    import pty

    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "dumb"
        os.execv(sys.executable, [sys.executable, "-q"])
    shown = ""
    try:
        deadline = time.monotonic() + 60
        lines = [*PROGRAM.splitlines(), "exit()"]
        while time.monotonic() < deadline:
            ready, _, _ = select.select([terminal], [], [], 0.2)
            if ready:
                try:
                    shown += os.read(terminal, 65536).decode(errors="replace")
                except OSError:  # the other side is closed
                    break
            # One line for each prompt, or the lines of the program would be lost in between.
            elif lines and shown.rstrip().endswith((">>>", "...")):
                os.write(terminal, lines.pop(0).encode() + b"\n")
    finally:
        os.close(terminal)
        os.waitpid(child, 0)
    assert EXPECTED in shown, shown
