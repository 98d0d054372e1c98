"""Control-C ends a kernel on the cpu stack that never would, names its lines, and leaves the process in order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flydsl.cpu.runtime.interrupt_ir import SUPPORTED

PROGRAM = """
import os, signal, threading, time
import numpy as np
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def forever_kernel(x: fx.Tensor, go: fx.Int32, meet: fx.Constexpr[bool]):
    while go > 0:  # the loop
        if fx.const_expr(meet):
            fx.barrier()
        x[fx.thread_idx.x] = x[fx.thread_idx.x] + go

@flyc.jit
def forever(x: fx.Tensor, go: fx.Int32, meet: fx.Constexpr[bool], grid: fx.Int32):
    forever_kernel(x, go, meet).launch(grid=grid, block=64)

LINE = next(i for i, text in enumerate(open(__file__), 1) if "# the loop" in text)
x = np.zeros(64, "i4")
for meet in (False, True):
    for grid in (1, 400):
        forever(x, 0, meet, grid)
        for again in range(2):
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            start = time.monotonic()
            try:
                forever(x, 1, meet, grid)
            except KeyboardInterrupt as error:
                assert time.monotonic() - start < 1.3, time.monotonic() - start
                assert "forever_kernel" in str(error) and f"{__file__}:{LINE}" in str(error), error
            else:
                raise AssertionError("it ended by itself")

# The process goes on: other launches, and interrupts outside of kernels.
x[:] = 0
forever(x, 0, False, 4)
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt as error:
    assert str(error) == ""
else:
    raise AssertionError("no interrupt")

# A handler of the program's own is called.
seen = []
signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
flyc.compile(forever, x, 0, True, 1)
forever_again = flyc.jit(forever.__wrapped__)
forever_again(x, 0, False, 1)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    forever_again(x, 1, False, 1)
except RuntimeError as error:
    assert "interrupted" in str(error) and seen, (error, seen)
print("all well")
"""


@pytest.mark.skipif(not SUPPORTED, reason="kernels are interrupted on Linux for x86-64 with glibc")
def test_control_c_ends_kernels(tmp_path: Path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    run = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and "all well" in run.stdout, run.stderr
