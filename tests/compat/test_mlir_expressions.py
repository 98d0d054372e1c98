"""What expressions over MLIR's bindings give: as the table says, here and, where it is installed, under FlyDSL."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from . import mlir_expressions
from .mlir_expressions import agrees, evaluate, rows
from .test_programs import PEER, peer_environment


def wrong(results: dict[str, str]) -> list[str]:
    pairs = [(line, wanted, results[line]) for line, wanted in rows()]
    return [f"{line}\n  expected {wanted}\n  got      {got}" for line, wanted, got in pairs if not agrees(got, wanted)]


def test_each_expression_is_there_once():
    lines = [line for line, _ in rows()]
    assert len(set(lines)) == len(lines) > 400


def test_what_they_give():
    found = wrong({line: evaluate(line) for line, _ in rows()})
    assert not found, "\n".join(found)


@pytest.mark.skipif(not PEER, reason="PEER_FLYDSL_PYTHON does not name the Python of an environment with FlyDSL")
def test_flydsl_gives_the_same(tmp_path: Path):
    results = tmp_path / "results.json"
    script = Path(mlir_expressions.__file__)
    done = subprocess.run([PEER, script, results], env=peer_environment("gfx942"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = wrong(json.loads(results.read_text()))
    assert not found, "\n".join(found)


def test_a_wrong_text_is_found():
    assert not agrees("4", "5") and not agrees("raises TypeError Exception", "raises ValueError")
    assert agrees("raises TypeError Exception", "raises TypeError") and not agrees("raises TypeError", "TypeError")
