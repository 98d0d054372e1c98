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


TOGETHER = 12
QUICK = {"FLYDSL_DEBUG_ENABLE_VERIFIER": "0"}
"""The IR of what pages show is verified where it is tested."""


def together(page: Path) -> str:
    """Pages of one folder share a process, a few at a time: its start costs more than most of them do."""
    folder = str(page.parent.relative_to(ROOT))
    number = [p for p in PAGES if p.parent == page.parent and blocks(p, "python")].index(page)
    return f"{folder} {number // TOGETHER}"


GROUPS: dict[str, list[Path]] = {}
for _page in PAGES:
    if blocks(_page, "python"):
        GROUPS.setdefault(together(_page), []).append(_page)

_RUN = """
import os, runpy, sys
scripts = sys.argv[1:]
for script in scripts:
    before = dict(os.environ)
    print("page", script, file=sys.stderr)
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")
    os.environ.clear()
    os.environ.update(before)
"""


@pytest.mark.parametrize("group", GROUPS)
def test_python_blocks_run(group: str, tmp_path: Path):
    """All blocks of a page in one file, as a reader would type them."""
    scripts = []
    for page in GROUPS[group]:
        script = tmp_path / f"page_{page.stem.replace('-', '_')}.py"
        script.write_text("\n\n".join(blocks(page, "python")))
        scripts.append(str(script))
    words = scripts if len(scripts) == 1 else ["-c", _RUN, *scripts]
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **QUICK}
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
    """Every example script runs as its first lines say, one after the other."""
    scripts = [str(script) for script in sorted((ROOT / "examples").glob("*.py"))]
    command, quick = [sys.executable, "-c", _RUN, *scripts], {**os.environ, **QUICK}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=quick)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arch", ["sm_90a", "gfx942"])
def test_steps_of_attention_run(arch: str, tmp_path: Path):
    """Every step of chapter 10 compares its result with float64."""
    command = [sys.executable, str(ROOT / "examples" / "attention_steps"), "--arch", arch, "--heads", "1"]
    if arch != "sm_90a":
        command += ["--steps", "exp2"]
    quick = {**os.environ, **QUICK, "FLYDSL_COMPILE_OPT_LEVEL": "0"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=quick)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": right") == (7 if arch == "sm_90a" else 1)
