"""The notebooks of `examples/notebooks`, executed: by a real kernel where there is one, else cell by cell."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
KERNEL = all(importlib.util.find_spec(name) is not None for name in ("nbclient", "nbformat", "ipykernel"))
SHOWN = {
    "layouts": ["svg"] * 5 + ["html"] * 4,
    "idea_to_assembly": ["", "", "html", "html", "html", ""],
    "prove_it": ["", "", "", "html", "", "html"],
}
"""What each code cell shows."""


def test_there_are_three():
    assert {path.stem for path in NOTEBOOKS} == set(SHOWN)


def execute(path: Path, folder: Path, *options: str) -> list[dict[str, str]]:
    runner = Path(__file__).parent / "notebook_runner.py"
    env = {**os.environ, "FLYDSL_COMPILE_BACKEND": "cpu", "FLYDSL_RUNTIME_CACHE_DIR": str(folder / "cache")}
    env |= {"IPYTHONDIR": str(folder / "ipython"), "JUPYTER_RUNTIME_DIR": str(folder / "jupyter")}
    command = [sys.executable, str(runner), str(path), *options]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=folder, timeout=200)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs_and_shows_pictures(path: Path, tmp_path: Path):
    assert not any(cell.get("outputs") for cell in json.loads(path.read_text(encoding="utf-8"))["cells"])
    results = execute(path, tmp_path, *(["--kernel"] if KERNEL else []))
    found = ["html" if "text/html" in r else "svg" if "image/svg+xml" in r else "" for r in results]
    assert found == SHOWN[path.stem]
    text = json.dumps(results)
    if path.stem == "idea_to_assembly":
        assert "v_mul_f32" in text and "ld.global" in text
        # The assembly stands under the lines of the cell that defines the kernel.
        assert text.count("y[i] = a * x[i] + y[i]") >= 3
    if path.stem == "prove_it":
        assert "deadlock" in text and "BLOCK=256" in text and text.count("<circle") >= 4


def test_kernels_of_cells_run_without_a_kernel(tmp_path: Path):
    """The way that stands in for IPython gives the same as it does."""
    if not KERNEL:
        pytest.skip("nbclient and ipykernel are not installed: the notebooks above ran that way")
    (one,) = [path for path in NOTEBOOKS if path.stem == "layouts"]
    assert [sorted(r) for r in execute(one, tmp_path)] == [sorted(r) for r in execute(one, tmp_path, "--kernel")]
