"""A dump says everything: its stages, run one after the other, and `repro.sh` give the same code under every option."""

from __future__ import annotations

import json
import random
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.backends import backend_for_target, parse_target
from flydsl.compiler.build import driver
from flydsl.compiler.build.overrides import parse_module
from flydsl.ir import locations
from flydsl.tools.recompile import compare, compile_again


def scaled(x: Any) -> Any:
    """A function of its own for debug information."""
    return fx.exp(x) * 2.0


@flyc.kernel(name="again")
def again_kernel(a: fx.Tensor, n: fx.Int32):
    i, s = fx.thread_idx.x, fx.Float32(0.0)
    shared = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64]).peek()
    for k in range(n):
        if k % 3 == 1:
            s = s + a[i]
        else:
            while s > 8.0:
                s = s * 0.5
    shared[i] = s
    fx.barrier()
    if i < n:
        a[i] = scaled(shared[63 - i])


@flyc.jit
def again(a: fx.Tensor, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    if n > 3:
        again_kernel(a, n).launch(grid=(n + 63) // 64, block=64, stream=stream)


TARGETS = ["rocm:gfx942", "rocm:gfx1100", "cuda:sm_80", "cpu:native", "cpu:gfx942"]
OPTIONS: dict[str, list[Any]] = {
    "debug_info": [True, False],
    "opt_level": [0, 1, 3],
    "waves_per_eu": [2, (1, 2)],
    "noalias": [True],
    "fast_fp_math": [True],
    "unsafe_fp_math": [True],
    "llvm_pass_pipeline": ["default<O1>", "default<O2>,instcombine"],
}
VARIABLES = {"FLYDSL_CPU_CHECK": ["1"], "FLYDSL_DEBUG_ENABLE_DEBUG_INFO": ["1"], "FLYDSL_COMPILE_OPT_LEVEL": ["1", "3"]}


def dumped(target: str, hints: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a dump; where the program's lines belong to is forgotten."""
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(folder))
    flyc.invalidate_all()
    flyc.compile[hints](again, np.zeros(64, np.float32), 5, target=target)
    monkeypatch.delenv("FLYDSL_DUMP_IR")
    monkeypatch.setattr(locations, "_origins", {})
    monkeypatch.setattr(locations, "_unread", [])
    return folder / "again"


def arguments(script: str) -> dict[str, str]:
    """The options of the command in a `repro.sh`."""
    words = shlex.split(script.splitlines()[-1])
    return {word: words[i + 1] for i, word in enumerate(words) if word.startswith("--")}


@pytest.mark.parametrize("target", TARGETS)
def test_every_stage_again(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any):
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    print(f"seed {seed}")
    stack = target.split(":")[0]
    names = [name for name in OPTIONS if stack == "rocm" or name not in ("waves_per_eu", "unsafe_fp_math", "noalias")]
    hints = {name: rng.choice(OPTIONS[name]) for name in rng.sample(names, 2)}
    for name in rng.sample(list(VARIABLES), 1 if stack != "cpu" else 2):
        monkeypatch.setenv(name, rng.choice(VARIABLES[name]))
    said = f"with {hints}, seed {seed}"
    folder = dumped(target, hints, tmp_path / "first", monkeypatch)
    given = arguments((folder / "repro.sh").read_text())
    assert given["--name"] == "again" and given["--target"].startswith(target), said
    made = compile_again(
        folder / "00_origin.mlir",
        given["--target"],
        json.loads(given.get("--hints", "{}")),
        "again",
        tmp_path / "second",
    )
    capsys.readouterr()
    assert compare(folder, made) == 0, f"{said}\n{capsys.readouterr().out}"


@pytest.mark.parametrize(
    ("target", "variable"),
    [
        ("rocm:gfx942", "FLYDSL_DEBUG_ENABLE_DEBUG_INFO"),
        ("cuda:sm_80", "FLYDSL_DEBUG_ENABLE_DEBUG_INFO"),
        ("cpu:native", "FLYDSL_CPU_CHECK"),
    ],
)
def test_stages_one_after_the_other(target: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each file read, one pass run, printed: the next file; and from the last, the LLVM IR."""
    monkeypatch.setenv(variable, "1")
    folder = dumped(target, {}, tmp_path, monkeypatch)
    backend = backend_for_target(parse_target(target))
    fragments, _ = backend.external_binary_pipeline_fragments(compile_hints={})
    stages = [path.read_text() for path in sorted(folder.glob("*.mlir"))]
    specs = driver.specs_of(fragments)
    assert len(stages) == len(specs) + 1 and '"again_kernel@' in stages[0]
    for spec, before, after in zip(specs[1:], stages[1:], stages[2:], strict=False):
        module = spec.make().run(parse_module(before, "stage"))
        assert driver.print_located(module) == after, spec.name
    upstream = shutil.which("mlir-opt-22")
    if upstream is not None and target.startswith("cuda"):
        # The last one is of the llvm dialect alone, but for host code; its lines are written as MLIR does.
        done = subprocess.run([upstream, sorted(folder.glob("*.mlir"))[-2]], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:1000]
    (written,) = folder.glob("*_llvm_ir.ll")
    assert backend.device_ir(driver.split(parse_module(stages[-1], "stage"))[0]) == written.read_text()


def test_lines_are_in_dumps_that_need_them_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = dumped("rocm:gfx942", {}, tmp_path, monkeypatch)
    assert "loc(" not in (folder / "00_origin.mlir").read_text()
