"""Files of IR between FlyDSL and this compiler: each reads what the other wrote, at several stages, and goes on from
there. Needs an installed FlyDSL (`PEER_FLYDSL_PYTHON`); a part of the corpus, in turn of its architectures."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import flydsl.compiler as flyc
from flydsl.ir.parser import LocatedParser
from flydsl.ir.registry import make_context
from flydsl.passes import pass_class
from flydsl.passes.verifier import failures

from .passes_under_flydsl import PASSES
from .programs import PROGRAMS, Program
from .test_programs import PEER, peer_environment

OURS = {"00": 0, "02": 2, "03": 4, "05": 6, "07": 8}
"""Number of a file of ours, and the first pass that is still to be run on it."""
EXPANDED = "03_fly_rocdl_expand_ops.mlir"
"""From here on the atoms of tiled copies have the state of ours: FlyDSL keeps theirs in other fields."""
THEIRS = {"00": 0, "04": 4, "08": 8}
REST = ["convert-scf-to-cf", "cse", "convert-gpu-to-rocdl"]
OWN_OPS = re.compile(
    r"custom op 'fly(_rocdl)?\.(load|store|atomic_rmw|atomic_cas|fence|buffer_load|buffer_store)' is unknown"
)
"""Ops of ours that FlyDSL has not: accesses and fences with qualifiers, and of buffers by instruction."""
ARCHS = ("gfx942", "gfx1250")

pytestmark = pytest.mark.skipif(not PEER, reason="PEER_FLYDSL_PYTHON does not name an environment with FlyDSL")


def programs(arch: str) -> list[Program]:
    fit = [p for p in PROGRAMS.values() if arch in p.archs and not (p.flydsl or p.rocm)]
    return fit if os.environ.get("EVERY_PROGRAM") else fit[::6]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("arch", ARCHS)
def test_flydsl_goes_on_with_our_files(arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    for program in programs(arch):
        monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path / program.name))
        flyc.compile(program.launch, *program.data().args, target=f"rocm:{arch}")
    files = [
        f"{path}:{OURS[path.name[:2]]}"
        for path in sorted(tmp_path.rglob("*.mlir"))
        if path.name[:2] in OURS and (path.name[:2] < "03" or not path.with_name(EXPANDED).exists())
    ]
    results = tmp_path / "results.jsonl"
    script = Path(__file__).with_name("passes_under_flydsl.py")
    done = subprocess.run([PEER, script, results, *files], env=peer_environment(arch), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    assert len(found) == len(files) > 20
    wrong = [f"{path}: {text}" for path, text in found if text and not OWN_OPS.search(text)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("arch", ARCHS)
def test_we_go_on_with_flydsls_files(arch: str, tmp_path: Path):
    script = Path(__file__).with_name("under_flydsl.py")
    results = tmp_path / "results.jsonl"
    environment = peer_environment(arch, tmp_path) | {"KEEP_DUMPS": str(tmp_path / "dumps")}
    names = [program.name for program in programs(arch)]
    done = subprocess.run([PEER, script, results, *names], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    files = [path for path in sorted((tmp_path / "dumps").rglob("*.mlir")) if path.name[:2] in THEIRS]
    assert len(files) > 20
    context = make_context()
    wrong: list[str] = []
    for path in files:
        text = path.read_text(encoding="utf-8")
        if path.name[:2] != "00" and "cdna5.tensor_" in text:
            continue  # atoms of tiled copies that are expanded: see EXPANDED
        module = LocatedParser(context, text, str(path)).parse_module()
        for name in [*PASSES, *REST][THEIRS[path.name[:2]] :]:
            module = pass_class(name)().run(module)
        wrong += [f"{path}: {failure.message}" for failure in failures(module)]
    assert not wrong, "\n".join(wrong)
