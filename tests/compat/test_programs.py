"""Programs in FlyDSL's style: they compile for AMD GPUs, and what they compute on the cpu stack that emulates these is
right. Where FlyDSL is installed (`FLYDSL_PEER_PYTHON` names its Python) it compiles the same files, to as many
instructions.

A program is built for one of its architectures, in turn; `EVERY_PROGRAM=1` builds it for all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import torch

import flydsl.compiler as flyc
from flydsl.testing import assert_close

from .programs import ALL, PROGRAMS, Program, instructions

PEER = os.environ.get("FLYDSL_PEER_PYTHON", "")
EVERY = bool(os.environ.get("EVERY_PROGRAM"))
MORE = 0.03
"""The share of instructions by which ours and FlyDSL's may differ."""


def builds() -> list[tuple[Program, str]]:
    """Each program with one of its architectures, so that all of them have their turn; or with all."""
    chosen: list[tuple[Program, str]] = []
    for i, program in enumerate(PROGRAMS.values()):
        archs = program.archs if EVERY else (program.archs[i % len(program.archs)],)
        chosen += [(program, arch) for arch in archs]
    return chosen


BUILDS = [pytest.param(program, arch, id=f"{program.name}-{arch}") for program, arch in builds()]


def assembly(program: Program, arch: str) -> str:
    artifact = flyc.compile(program.launch, *program.data().args, target=f"rocm:{arch}").artifact
    return artifact.asm


@pytest.mark.parametrize(("program", "arch"), BUILDS)
def test_numbers_and_code(program: Program, arch: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)
    call = program.data()
    (program.run or program.launch)(*call.args)
    for i, (got, want) in enumerate(call.results):
        assert_close(
            got, want, rtol=call.rtol, atol=call.atol, terms=call.terms, magnitude=call.magnitude, what=f"result {i}"
        )
    found = Counter(instructions(assembly(program, arch)))
    assert found["s_endpgm"] >= 1 and found.total() > 3


def test_the_corpus_is_large_and_every_architecture_has_its_part():
    assert len(PROGRAMS) >= 60
    for arch in ALL:
        assert sum(arch in program.archs for program in PROGRAMS.values()) >= 20, arch


@pytest.mark.skipif(not PEER, reason="FLYDSL_PEER_PYTHON does not name the Python of an environment with FlyDSL")
@pytest.mark.parametrize("arch", ALL)
def test_flydsl_compiles_the_same_files(arch: str, tmp_path: Path, record_property):
    results = tmp_path / "results.jsonl"
    linker = tmp_path / "rocm" / "llvm" / "bin" / "ld.lld"
    linker.parent.mkdir(parents=True)
    linker.symlink_to(Path(os.environ.get("FLYDSL_COMPILE_LLD", "/usr/bin/ld.lld-22")))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("FLYDSL_", "PYTHON"))}
    environment |= {"ARCH": arch, "ROCM_PATH": str(tmp_path / "rocm")}
    script = Path(__file__).with_name("under_flydsl.py")
    done = subprocess.run([PEER, script, results], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    failed = {line["name"]: line["error"] for line in lines if "error" in line}
    assert not failed, "\n".join(f"{name}:\n{text}" for name, text in failed.items())
    apart: dict[str, str] = {}
    worst = 0.0
    for line in lines:
        program = PROGRAMS[line["name"]]
        if program.counts:
            continue
        ours, theirs = len(instructions(assembly(program, arch))), len(line["instructions"])
        share = ours / theirs - 1
        worst = max(worst, share)
        if share > MORE:
            apart[program.name] = f"{ours} instructions, FlyDSL {theirs}"
    record_property("worst", worst)
    assert not apart, f"more than {MORE:.0%}: {apart}"


def test_random_data_is_fresh():
    first, second = (PROGRAMS["basics.axpy_odd_size"].data().args[0] for _ in range(2))
    assert not torch.equal(first, second)
