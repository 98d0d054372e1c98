"""The fuzzing command: it runs, counts its inputs, and a batch that ends badly is a finding."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz import subjects
from tests.fuzz.__main__ import worker

ROOT = Path(__file__).resolve().parents[2]


def test_a_short_run():
    command = [sys.executable, "-m", "tests.fuzz", "1", "layouts", "arguments"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # A second is time for one batch of each on a slow machine, for more on a fast one.
    assert re.search(r"inputs: layouts [1-9]\d*00, arguments [1-9]\d*0$", done.stdout, re.MULTILINE), done.stdout
    assert "findings: 0" in done.stdout


def test_what_ends_badly_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    count, found = worker("nothing of the kind", 3)
    assert count == 0 and "ended with 1" in found[0] and "seed 3" in found[0]


def test_a_wrong_answer_is_told(monkeypatch: pytest.MonkeyPatch):
    """The check of layouts fails where one does not read as it prints."""
    readings = iter(range(10**6))
    monkeypatch.setattr(subjects.text, "parse_layout", lambda given: next(readings))
    assert "which reads as" in (subjects.layouts(random.Random(1)) or "")


def test_texts_change():
    rng = random.Random(2)
    assert len({subjects.changed_text(rng, "(4,2):(1,4)") for _ in range(50)}) > 40
