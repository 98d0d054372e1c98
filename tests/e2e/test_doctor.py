"""`fly doctor`: what it tells, and its exit status."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flydsl.tools import doctor


def run(**env: str) -> subprocess.CompletedProcess[str]:
    base = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.run(
        [sys.executable, "-m", "flydsl.tools.fly", "doctor"],
        env={**base, **env},
        capture_output=True,
        text=True,
        timeout=180,
    )


def test_cpu_works_everywhere(tmp_path: Path):
    done = run(FLYDSL_COMPILE_BACKEND="cpu", FLYDSL_RUNTIME_CACHE_DIR=str(tmp_path / "here"), FLYDSL_COMPILE_ARHC="x")
    text = done.stdout
    assert done.returncode == 0, text + done.stderr
    for part in (
        r"^flydsl +\d", r"^llvmlite +\d", r"^stacks \(active: cpu\)", r"^  cpu +usable, active", r"^  cuda ",
        r"^  rocm ",
        r"device 0: .*native.* free of ", r"target cpu:native:w32", r"smoke test: ok", r"^the active stack works",
        rf"^cache +{re.escape(str(tmp_path / 'here'))} .*entries", r"^tools", r"^  ptxas ",
        r"FLYDSL_COMPILE_BACKEND = cpu  \[default: auto\]", r"FLYDSL_COMPILE_ARHC: unknown, has no effect",
    ):  # fmt: skip
        assert re.search(part, text, re.MULTILINE), (part, text)


def test_an_active_stack_that_does_not_work_is_a_failure(tmp_path: Path):
    missing = tmp_path / "libcuda.so.1"
    done = run(FLYDSL_COMPILE_BACKEND="cuda", FLYDSL_CUDA_LIBRARY=str(missing), FLYDSL_COMPILE_ARCH="sm_90")
    assert done.returncode == 1, done.stdout
    assert re.search(r"^  cuda +not usable, active", done.stdout, re.MULTILINE)
    assert f"{missing}: " in done.stdout, "the candidate and why it failed"
    assert "FLYDSL_CUDA_LIBRARY=/path/libcuda.so.1" in done.stdout, "how to get it"
    assert re.search(r"^  cpu +usable  \(builtin\)", done.stdout, re.MULTILINE), "the others are examined all the same"


def test_tools_are_used_and_not_only_found(tmp_path: Path):
    """One that answers when asked for its version, and fails at work, is told from one that works."""
    broken = tmp_path / "ptxas"
    broken.write_text(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'Cuda compilation tools, release 13.0, V13.0.88'; exit 0; fi\n"
        "echo 'the license has expired' >&2; exit 3\n"
    )
    broken.chmod(0o755)
    done = run(FLYDSL_COMPILE_BACKEND="cpu", FLYDSL_COMPILE_PTXAS=str(broken))
    assert re.search(r"^  ptxas .*release 13.0.*: does not work: the license has expired$", done.stdout, re.MULTILINE)
    for name in ("opt", "llc", "llvm-mc", "ld.lld", "llvm-objdump"):
        (line,) = re.findall(rf"^  {re.escape(name)} .*$", done.stdout, re.MULTILINE)
        assert line.endswith((": works", "not found")) or "not tried" in line, line


def test_unknown_backend():
    done = run(FLYDSL_COMPILE_BACKEND="nothing")
    assert done.returncode == 1 and "Unknown compile backend 'nothing'; there are: cpu, cuda, rocm" in done.stdout


def test_a_setting_that_cannot_be_used():
    done = run(FLYDSL_COMPILE_OPT_LEVEL="9")
    assert done.returncode == 1 and "FLYDSL_COMPILE_OPT_LEVEL='9' cannot be used" in done.stdout


def test_mismatching_settings_show_up():
    done = run(FLYDSL_COMPILE_BACKEND="cpu", FLYDSL_RUNTIME_KIND="rocm")
    assert done.returncode == 1 and "requires device runtime kind 'cpu'" in done.stdout


def test_a_stack_that_crashes_or_hangs_is_reported(monkeypatch: pytest.MonkeyPatch):
    def start(name: str, active: bool) -> subprocess.Popen[str]:
        code = "import os; os.abort()" if name == "crash" else "import time; time.sleep(60)"
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True)

    monkeypatch.setattr(doctor, "_start", start)
    crash, hang = doctor.examine(["crash", "hang"], timeout=2)
    assert "status -6" in crash.error and "no answer within 2 s" in hang.error and not hang.usable
