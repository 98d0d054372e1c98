"""`fly profile --lines`: counts that can be worked out by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

SCRIPT = """\
import sys

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx


def halved(x):
    return x * 0.5  # helper


@flyc.kernel
def counted(a: fx.Tensor, n: fx.Int32, rounds: fx.Int32):
    i = fx.block_idx.x * 32 + fx.thread_idx.x  # thread
    inside = i < n  # test
    if inside:  # branch
        v = a[i]  # taken
        for _ in range(rounds):  # loop
            v = halved(v)  # round
        k = rounds - rounds
        while k < i:  # while
            k = k + 16  # step
        for u in fx.range_constexpr(3):
            v = v + a[u]  # unrolled
        a[i] = (v if i > 9 else v + 1.0) + (
            halved(v)  # inner
        )  # stored
    else:
        a[0] = a[0] * 1.0  # other
    shared = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 32]).peek()
    view = shared.view(fx.make_layout(32, 1))
    view[fx.thread_idx.x] = fx.Float32(i)  # write
    fx.barrier()  # barrier


@flyc.jit
def run(a: fx.Tensor, n: fx.Int32, rounds: fx.Int32):
    counted(a, n, rounds).launch(grid=fx.ceildiv(n, 32), block=32)


n, rounds = int(sys.argv[1]), int(sys.argv[2])
run(np.ones(n, np.float32), n, rounds)
"""


def profile(folder: Path, *arguments: str) -> tuple[dict[str, int], str]:
    """Counts by the comment at the end of each line."""
    (folder / "counted.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "flydsl.tools.fly", "profile", "--lines", "counted.py", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=dict(os.environ), timeout=300)
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = {}
    for line in done.stdout.splitlines():
        head, mark, name = line.rpartition("# ")
        runs = head.split()[0].replace(",", "") if mark else ""
        if mark and len(head.split()) > 1 and head.split()[1].isdigit():
            counts[name] = int(runs)
    return counts, done.stdout


def test_counts(tmp_path: Path):
    n, rounds = 75, 7
    threads = 96  # three blocks of 32
    counts, text = profile(tmp_path, str(n), str(rounds))
    steps = sum(-(-i // 16) for i in range(n))  # k = 0, 16, ... while below i
    assert counts == {
        "thread": threads,
        "test": threads,
        "branch": threads,
        "taken": n,
        "loop": n,
        "round": n * rounds,
        "helper": n * rounds + n,
        "while": n,
        "step": steps,
        "unrolled": 3 * n,
        "inner": n,
        "other": threads - n,
        "write": threads,
        "barrier": threads,
    }
    assert "counted.py" in text and "def counted" in text


def test_a_line_that_never_runs_counts_zero(tmp_path: Path):
    counts, _ = profile(tmp_path, "64", "0")
    assert counts["round"] == 0 and counts["other"] == 0 and counts["taken"] == 64


def test_nothing_is_counted_unless_asked_for(monkeypatch: pytest.MonkeyPatch):
    @flyc.kernel
    def kernel(a: fx.Tensor):
        a[fx.thread_idx.x] = 1.0

    @flyc.jit
    def function(a: fx.Tensor):
        kernel(a).launch(grid=1, block=4)

    a = np.zeros(4, np.float32)
    plain = flyc.compile(function, a, target="cpu:native").artifact
    assert "fly_line" not in plain.llvm_ir and "fly_cpu.count" not in plain.source_ir
    monkeypatch.setenv("FLYDSL_CPU_PROFILE", "1")
    counting = flyc.compile(function, a, target="cpu:native").artifact
    assert "atomicrmw add" in counting.llvm_ir and "fly_cpu.count" in counting.source_ir
    assert counting.key != plain.key
    gpu = flyc.compile(function, a, target="rocm:gfx942").artifact
    assert "fly_cpu.count" not in gpu.source_ir


def test_mistakes(tmp_path: Path):
    command = [sys.executable, "-m", "flydsl.tools.fly", "profile"]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120)

    (tmp_path / "none.py").write_text("print('hello')\n")
    assert "there is no file" in run("--lines", "absent.py").stderr
    done = run("--lines", "none.py")
    assert done.returncode == 1 and "ran no kernel" in done.stderr and done.stdout == "hello\n"
    assert run("none.py").returncode == 2
