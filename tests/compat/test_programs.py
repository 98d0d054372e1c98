"""Programs in FlyDSL's style: they compile for AMD GPUs, and what they compute on the cpu stack that emulates these is
right. Where FlyDSL is installed (`PEER_FLYDSL_PYTHON` names its Python) it compiles the same files, to as many
instructions.

A program is built for one of its architectures, in turn; `EVERY_PROGRAM=1` builds it for all of them.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import NotRequired, TypedDict

import pytest
import torch

import flydsl.compiler as flyc
from flydsl.llvm import tools
from flydsl.llvm.codegen import DeviceTarget, compile_device
from flydsl.testing import assert_close

from .programs import ALL, PROGRAMS, Program, instructions

PEER = os.environ.get("PEER_FLYDSL_PYTHON", "")
EVERY = bool(os.environ.get("EVERY_PROGRAM"))
MORE = 0.03
"""The share of instructions that we may have more than FlyDSL."""


class Line(TypedDict):
    """What `under_flydsl.py` says of a program."""

    name: str
    arch: str
    instructions: list[str]
    llvm: list[str]
    error: NotRequired[str]


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


@pytest.mark.covering("program", "arch")
@pytest.mark.parametrize(("program", "arch"), BUILDS)
def test_numbers_and_code(program: Program, arch: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    monkeypatch.setenv("FLYDSL_COMPILE_ARCH", arch)
    with pytest.warns(match=program.warns) if program.warns else nullcontext():
        call = program.data()
        (program.run or program.launch)(*call.args)
    for i, (got, want) in enumerate(call.results):
        assert_close(
            got, want, rtol=call.rtol, atol=call.atol, terms=call.terms, magnitude=call.magnitude, what=f"result {i}"
        )
    if program.rocm:
        return
    with pytest.warns(match=program.warns) if program.warns else nullcontext():
        found = Counter(instructions(assembly(program, arch)))
    assert found["s_endpgm"] >= 1 and found.total() > 3


def test_the_corpus_is_large_and_every_architecture_has_its_part():
    assert len(PROGRAMS) >= 60
    for arch in ALL:
        assert sum(arch in program.archs for program in PROGRAMS.values()) >= 20, arch


def of_this_llvm(text: str) -> str:
    """FlyDSL's LLVM is newer: the bits of a float are written another way, and infinity by name."""

    def double(found: re.Match[str]) -> str:
        bits = bytes.fromhex(found[1])
        (number,) = struct.unpack({2: ">e", 4: ">f", 8: ">d"}[len(bits)], bits)
        return f"0x{struct.pack('>d', number).hex().upper()}"

    text = re.sub(r"\bf0x([0-9A-F]+)", double, text)
    return re.sub(r"(?<=[ ,(])([-+]?)inf\b", lambda m: "0xFFF" + "0" * 13 if m[1] == "-" else "0x7FF" + "0" * 13, text)


def counts(line: Line, arch: str) -> tuple[int, int]:
    """How many instructions ours are, and what FlyDSL's LLVM IR gives.

    The same LLVM compiles both, so that what is compared is the two compilers: the newer one unrolls loops that this
    one leaves. Only WMMA and the tensor data mover have other operands there, and are counted as they came.
    """
    ours = len(instructions(assembly(PROGRAMS[line["name"]], arch)))
    if any(name in text for text in line["llvm"] for name in ("llvm.amdgcn.wmma", "llvm.amdgcn.tensor")):
        return ours, len(line["instructions"])
    target = DeviceTarget.amdgpu(arch)
    return ours, sum(len(instructions(compile_device(of_this_llvm(text), target, 2).asm)) for text in line["llvm"])


def peer_environment(arch: str, folder: Path | None = None) -> dict[str, str]:
    """Variables for FlyDSL's process; with a folder, where it finds its linker."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("FLYDSL_", "PYTHON"))}
    environment["ARCH"] = arch
    if folder is not None:
        found = tools.try_find_tool("ld.lld")
        if found is None:
            pytest.skip("FlyDSL links with ld.lld, and there is none")
        linker = folder / "rocm" / "llvm" / "bin" / "ld.lld"
        linker.parent.mkdir(parents=True)
        linker.symlink_to(found.path)
        environment["ROCM_PATH"] = str(folder / "rocm")
    return environment


@pytest.mark.skipif(not PEER, reason="PEER_FLYDSL_PYTHON does not name the Python of an environment with FlyDSL")
@pytest.mark.filterwarnings("ignore::flydsl.errors.PortabilityWarning")
@pytest.mark.parametrize("arch", ALL)
def test_flydsl_compiles_the_same_files(arch: str, tmp_path: Path, record_property):
    results = tmp_path / "results.jsonl"
    environment = peer_environment(arch, tmp_path)
    script = Path(__file__).with_name("under_flydsl.py")
    done = subprocess.run([PEER, script, results], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    lines: list[Line] = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    failed = {line["name"]: line["error"] for line in lines if "error" in line}
    assert not failed, "\n".join(f"{name}:\n{text}" for name, text in failed.items())
    shares: dict[str, float] = {}
    for line in lines:
        if not PROGRAMS[line["name"]].counts:
            ours, theirs = counts(line, arch)
            shares[line["name"]] = ours / theirs - 1
    worst = max(shares, key=lambda name: shares[name])
    record_property("worst", f"{worst}: {shares[worst]:+.1%}")
    print(f"{arch}: {len(lines)} programs, the most more than FlyDSL's has {worst}, {shares[worst]:+.1%}")
    apart = {name: f"{share:+.1%}" for name, share in shares.items() if share > MORE}
    assert not apart, f"more than {MORE:.0%} more instructions than FlyDSL: {apart}"


def test_random_data_is_fresh():
    first, second = (PROGRAMS["basics.axpy_odd_size"].data().args[0] for _ in range(2))
    assert not torch.equal(first, second)
