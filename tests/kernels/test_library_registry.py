"""Every kernel of the library has a call, and one that has none is told by each test that goes through all kernels."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .library.calls import claimed_kernels, library_kernels

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

NEW = """
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def fresh_kernel(x: fx.Tensor):
    x[fx.thread_idx.x] = 0.0
"""
PLUGIN = f"""
import runpy, sys
import flydsl.kernels
flydsl.kernels.__path__.append({{folder!r}})
if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    sys.path.insert(0, {str(HERE)!r})
    runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""The library has one more folder: for pytest, and in front of a program."""
TESTS = ("schedules", "checked", "spills")
TOLD = "AssertionError: tests/kernels/library/calls has no call of fresh.fresh_kernel"


def test_every_kernel_of_the_library_has_a_call():
    kernels, claimed = set(library_kernels()), claimed_kernels()
    assert len(claimed) >= 80
    assert not kernels - claimed, "tests/kernels/library/calls has no call of these"
    assert not claimed - kernels, "kernels that there are none of"


def test_kernels_are_found_wherever_they_are_defined():
    """None is inside of a function, where nobody sees it."""
    folder = ROOT / "src" / "flydsl" / "kernels"
    written = {
        ".".join((*file.relative_to(folder).with_suffix("").parts, node.name))
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(x).partition("(")[0] in ("flyc.kernel", "kernel") for x in node.decorator_list)
    }
    assert written == set(library_kernels())


@pytest.fixture
def library_with_one_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT / "src")]))
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "fresh.py").write_text(NEW)
    (tmp_path / "one_more_kernel.py").write_text(PLUGIN.format(folder=str(folder)))
    return tmp_path


def test_each_kind_of_test_finds_a_new_kernel(library_with_one_more: Path):
    """Schedules, checked mode, streams, extents and spills."""
    files = [str(HERE / f"test_library_{name}.py") for name in TESTS]
    command = [sys.executable, "-m", "pytest", "-p", "one_more_kernel", "-p", "no:cacheprovider", "-q", "-k", "fresh"]
    done = subprocess.run([*command, *files], capture_output=True, text=True, cwd=ROOT)
    print(done.stdout[-6000:], done.stderr[-2000:])
    failed = {line.split("::")[1].partition("[")[0] for line in done.stdout.splitlines() if line.startswith("FAILED")}
    assert failed == {
        "test_clean_in_every_order",
        "test_nothing_to_report",
        "test_all_of_it_waits_for_its_stream",
        "test_extents_that_do_not_fit_never_lead_outside",
        "test_nothing_spills",
    }
    assert done.stdout.count(f"E       {TOLD}") == 5


def test_the_program_for_the_sanitizer_finds_a_new_kernel(library_with_one_more: Path):
    plugin, program = library_with_one_more / "one_more_kernel.py", HERE / "every_cuda_kernel.py"
    command = [sys.executable, plugin, program, "--device", "cpu", "fresh"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode != 0 and TOLD in done.stderr
