"""Documentation that runs: the Python blocks of the README and of docs/ are executed, and paths they name exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(p for p in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
_BLOCK = re.compile(r"^```(python|pycon)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall(page.read_text()) if kind == language]


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: str(p.relative_to(ROOT)))
def test_python_blocks_run(page: Path, tmp_path: Path):
    """All blocks of a page in one file and one process, as a reader would type them."""
    script = tmp_path / "page.py"
    script.write_text("\n\n".join(blocks(page, "python")))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "pycon")], ids=lambda p: str(p.relative_to(ROOT)))
def test_sessions(page: Path):
    """Interactive sessions give what they show."""
    import doctest

    names: dict[str, object] = {}
    for i, text in enumerate(blocks(page, "pycon")):
        test = doctest.DocTestParser().get_doctest(text, names, f"{page.name}[{i}]", str(page), 0)
        failures, _ = doctest.DocTestRunner(verbose=False).run(test, clear_globs=False)
        names = test.globs
        assert not failures


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_exist(page: Path):
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in _LINK.findall(text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which does not exist"


def test_examples_run(tmp_path: Path):
    """Every example script runs as its first lines say."""
    for script in sorted((ROOT / "examples").glob("*.py")):
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, f"{script.name}: {done.stderr}"


@pytest.mark.parametrize("arch", ["sm_90a", "gfx942"])
def test_steps_of_attention_run(arch: str, tmp_path: Path):
    """Every step of chapter 10 compares its result with float64."""
    command = [sys.executable, str(ROOT / "examples" / "attention_steps"), "--arch", arch, "--heads", "1"]
    if arch != "sm_90a":
        command += ["--steps", "exp2"]
    quick = {**os.environ, "FLYDSL_COMPILE_OPT_LEVEL": "0"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=quick)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": right") == (7 if arch == "sm_90a" else 1)
