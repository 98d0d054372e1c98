"""Pages that scripts make from the code or from results are current."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("script", ["benchmarks/plots.py", "scripts/api_pages.py"])
def test_made_files_are_current(script: str):
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, f"run python {script}\n{done.stdout}{done.stderr}"
