"""`scripts/test --changed` finds tests for every file of the package."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("changed_tests", ROOT / "scripts" / "changed_tests.py")
assert _spec is not None and _spec.loader is not None
rule = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rule)


@pytest.mark.parametrize(
    ("path", "among"),
    [
        ("src/flydsl/layout/divide.py", "tests/unit/layout/test_divide.py"),
        ("src/flydsl/passes/fly/fly_layout_lowering.py", "tests/filecheck/passes/fly-layout-lowering.mlir"),
        ("src/flydsl/expr/printing.py", "tests/unit/expr"),
        ("tests/unit/layout/test_divide.py", "tests/unit/layout/test_divide.py"),
        ("tests/unit/expr/conftest.py", "tests/unit/expr"),
        ("docs/jit.md", "tests/unit/test_docs.py"),
    ],
)
def test_what_a_file_runs(path: str, among: str):
    found = rule.selected([path])
    assert among in found and all((ROOT / p).exists() for p in found)
    assert len(found) < 30, "a developer's loop takes seconds"


def test_every_module_has_tests():
    for file in (ROOT / "src" / "flydsl").glob("*/*.py"):
        assert rule.tests_of(str(file.relative_to(ROOT))), file


def test_what_has_changed(tmp_path: Path):
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path, check=True)

    git("init", "-q")
    for name in ("kept.py", "edited.py", "gone.py"):
        (tmp_path / name).write_text("1\n")
    git("add", ".")
    git("commit", "-qm", "first")
    (tmp_path / "edited.py").write_text("2\n")
    (tmp_path / "new.py").write_text("3\n")
    (tmp_path / "gone.py").unlink()
    assert rule.changed("HEAD", tmp_path) == ["edited.py", "new.py"]


def test_a_folder_stands_for_what_is_in_it():
    both = ["tests/unit/expr/conftest.py", "tests/unit/expr/test_printf.py"]
    assert rule.selected(both) == ["tests/unit/expr"]
