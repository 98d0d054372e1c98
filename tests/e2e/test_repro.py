"""A dump says everything: its stages, run one after the other, and `repro.sh` give the same code under every option."""

from __future__ import annotations

import importlib
import importlib.util
import json
import random
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.backends import backend_for_target, parse_target
from flydsl.compiler.build import driver
from flydsl.compiler.build.overrides import parse_module
from flydsl.dialects.upstream.gpu.binary import BinaryOp
from flydsl.ir import locations
from flydsl.passes.to_llvm.gpu_module_to_binary import GpuModuleToBinaryPass
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
    assert f"'--pass-pipeline=builtin.module({','.join(fragments)})'" in (folder / "repro.sh").read_text()
    stages = [path.read_text() for path in sorted(folder.glob("*.mlir"))]
    specs = driver.specs_of(fragments)
    assert len(stages) == len(specs) + 1 and '"again_kernel@' in stages[0]
    for spec, before, after in zip(specs, stages[:-1], stages[1:], strict=True):
        module = spec.make().run(parse_module(before, "stage"))
        assert driver.print_located(module) == after, spec.name
    upstream = shutil.which("mlir-opt-22")
    if upstream is not None and target.startswith("cuda"):
        # The last one is of the llvm dialect alone, but for host code; its lines are written as MLIR does.
        done = subprocess.run([upstream, sorted(folder.glob("*.mlir"))[-2]], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:1000]
    (written,) = folder.glob("*_llvm_ir.ll")
    assert backend.device_ir(driver.split(parse_module(stages[-1], "stage"))[0]) == written.read_text()


@flyc.kernel(name="again")
def telling_kernel(a: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x
    if i < n:
        fx.printf("{}: {:.3f}", i, a[i])
        a[i] = scaled(a[i])
    fx.printf("{} is done", i)


@flyc.jit
def telling(a: fx.Tensor, n: fx.Int32, stream: fx.Stream = fx.Stream(None)):
    telling_kernel(a, n).launch(grid=1, block=64, stream=stream)


def example(name: str) -> tuple[Any, Any]:
    path = Path(__file__).resolve().parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"repro_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.compile_args()


ARGUMENTS = (np.zeros(64, np.float32), 5)
AMD = {"waves_per_eu": (1, 2), "maxnreg": 96, "noalias": True, "opt_level": 3, "fast_fp_math": True}
NVIDIA = {"maxnreg": 96, "noalias": True, "opt_level": 3, "debug_info": True}
FROM_ORIGIN = [
    ("telling", "rocm:gfx942", {}),
    ("telling", "rocm:gfx1201", {**AMD, "debug_info": True}),
    ("telling", "cuda:sm_80", NVIDIA),
    ("telling", "cpu:native", {"cpu_check": True, "opt_level": 1}),
    ("again", "rocm:gfx942", AMD),
    ("again", "cuda:sm_90", NVIDIA),
    ("again", "cpu:gfx942", {"cpu_check": True, "cpu_check_buffers": True}),
    ("tiled_mma", "rocm:gfx950", {}),
    ("tiled_mma", "rocm:gfx1250", AMD),
    ("tiled_mma", "cuda:sm_90a", {}),
    ("tiled_copy", "rocm:gfx1201", {}),
    ("predicated_add", "cpu:gfx942", {}),
    ("vector_add", "cpu:native", {}),
]


@pytest.mark.parametrize(
    ("name", "target", "hints"), FROM_ORIGIN, ids=lambda value: "" if isinstance(value, dict) else None
)
def test_fly_opt_from_the_traced_ir(
    name: str, target: str, hints: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The first stage says what it was traced for, and `repro.sh` the passes: the rest is `fly-opt`, a process."""
    function, args = {"telling": (telling, ARGUMENTS), "again": (again, ARGUMENTS)}.get(name) or example(name)
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path))
    flyc.invalidate_all()
    flyc.compile[hints](function, *args, target=target)
    monkeypatch.delenv("FLYDSL_DUMP_IR")
    (folder,) = tmp_path.iterdir()
    *_, last = stages = sorted(folder.glob("*.mlir"))
    assert any(stage.name == "01_fly_expand_prints.mlir" for stage in stages) == (
        name == "telling" and "rocm" in target
    )
    (command,) = (line for line in (folder / "repro.sh").read_text().splitlines() if line.startswith("# fly-opt "))
    words = [sys.executable, "-m", "flydsl.tools.fly_opt", *shlex.split(command)[2:]]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[:2000]
    assert done.stdout == last.read_text()
    module = parse_module(done.stdout, "last")
    (written,) = folder.glob("*_llvm_ir.ll")
    assert backend_for_target(parse_target(target)).device_ir(driver.split(module)[0]) == written.read_text()
    if not target.startswith("cpu"):
        # The compiler makes the code itself; the pass that stands for it makes the same.
        (binary,) = (op for op in GpuModuleToBinaryPass().run(module).ops if isinstance(op, BinaryOp))
        (made,) = binary.objects.data
        (code,) = folder.glob("*_binary.*")
        assert made.data.content == code.read_bytes()


class TestWhatAModuleSays:
    """Target and hints of a file count; others are refused."""

    @pytest.fixture
    def origin(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        hints = {"waves_per_eu": (1, 2), "opt_level": 3, "noalias": True}
        return dumped("rocm:gfx950", hints, tmp_path / "first", monkeypatch) / "00_origin.mlir"

    def test_nothing_else_is_needed(self, origin: Path, tmp_path: Path, capsys: Any):
        text = origin.read_text()
        assert 'fly.target = "rocm:gfx950:w64"' in text
        assert "fly.hints = {noalias = true, opt_level = 3 : i64, waves_per_eu = [1 : i64, 2 : i64]}" in text
        made = compile_again(origin, None, None, "again", tmp_path / "second")
        capsys.readouterr()
        assert compare(origin.parent, made) == 0, capsys.readouterr().out

    @pytest.mark.parametrize(
        ("target", "hints", "message"),
        [
            ("rocm:gfx942", None, "traced for rocm:gfx950:w64, not for rocm:gfx942:w64"),
            (None, {"opt_level": 2}, r'traced with the hints .*, not with \{"opt_level": 2\}'),
        ],
    )
    def test_others_are_refused(self, target: Any, hints: Any, message: str, origin: Path, tmp_path: Path):
        with pytest.raises(flyc.DSLCompileError, match=message):
            compile_again(origin, target, hints, "again", tmp_path / "second")

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ('"rocm:gfx950:w64"', '"rocm"', "fly.target of a device module: target 'rocm' names no architecture"),
            (
                '"rocm:gfx950:w64"',
                "3 : i64",
                "fly.target of a device module: expected a text such as 'rocm:gfx942'",
            ),
            ("opt_level = 3 : i64", "opt_level = i32", "fly.hints of a device module holds numbers, texts and lists"),
            ("fly.hints = {", "fly.hints = [], fly.others = {", "fly.hints of a device module is a dictionary"),
        ],
    )
    def test_mistakes(self, old: str, new: str, message: str, origin: Path, tmp_path: Path):
        text = origin.read_text()
        assert old in text
        origin.write_text(text.replace(old, new))
        with pytest.raises(flyc.DSLCompileError, match=message):
            compile_again(origin, None, None, "again", tmp_path / "second")

    def test_one_that_does_not_say(self, origin: Path, tmp_path: Path):
        origin.write_text(re.sub(r"gpu.module @kernels .* \{\n", "gpu.module @kernels {\n", origin.read_text()))
        with pytest.raises(flyc.DSLCompileError, match="does not say what it was traced for: give it with --target"):
            compile_again(origin, None, None, "again", tmp_path / "second")
        assert compile_again(origin, "rocm:gfx950", {"opt_level": 3}, "again", tmp_path / "second").is_dir()


HOOKS = """
import flydsl.compiler as flyc
from xdsl.dialects.builtin import FloatAttr

@flyc.ir_pass(stage="fly:after:fly-layout-lowering", name="repro-doubles")
def doubles(module, *, factor: int = 2):
    for op in module.walk():
        value = op.properties.get("value") if op.name == "arith.constant" else None
        if isinstance(value, FloatAttr) and value.value.data == 2.0:
            op.properties["value"] = FloatAttr(2.0 * factor, value.type)

@flyc.ir_pass(stage="fly:start", name="repro-looks")
def looks(module):
    pass
"""


class TestRepro:
    """`repro.sh` as it is, in a process of its own, with what only this program knew of."""

    def again(self, script: Path, *words: str) -> None:
        done = subprocess.run([script, *words], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr[-2000:]
        assert {line.split()[0] for line in done.stdout.splitlines()} == {"same"}

    @pytest.mark.parametrize("target", ["rocm:gfx942", "cpu:native"])
    def test_passes_of_the_user(self, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        (tmp_path / "repro_hooks.py").write_text(HOOKS)
        monkeypatch.syspath_prepend(tmp_path)
        hooks = importlib.import_module("repro_hooks")
        try:
            folder = dumped(
                target, {"ir_passes": [hooks.looks, "repro-doubles{factor=4}"]}, tmp_path / "d", monkeypatch
            )
        finally:
            del sys.modules["repro_hooks"]
        (stage,) = folder.glob("*repro_doubles*")
        assert "8.000000e+00" in stage.read_text()
        monkeypatch.undo()
        self.again(folder / "repro.sh")

    def test_passes_switched_off(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("FLYDSL_COMPILE_LLVM_PASS_PIPELINE", "default<O0>")
        folder = dumped("rocm:gfx942", {"llvm_pass_pipeline": ""}, tmp_path, monkeypatch)
        monkeypatch.undo()
        self.again(folder / "repro.sh")

    @pytest.mark.parametrize(
        ("ending", "old", "new"),
        [
            ("_fly_layout_lowering.mlir", "2.000000e+00", "5.000000e+00"),
            ("_llvm_ir.ll", "0x4000000000000000", "0x4014000000000000"),
        ],
    )
    def test_overrides(self, ending: str, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        first = dumped("rocm:gfx942", {}, tmp_path / "first", monkeypatch)
        (stage,) = first.glob(f"*{ending}")
        (tmp_path / "edits" / "again").mkdir(parents=True)
        edit = tmp_path / "edits" / "again" / stage.name
        edit.write_text(stage.read_text().replace(old, new))
        assert edit.read_text() != stage.read_text()
        monkeypatch.setenv("FLYDSL_COMPILE_OVERRIDE_DIR", str(tmp_path / "edits"))
        folder = dumped("rocm:gfx942", {}, tmp_path / "second", monkeypatch)
        (code,) = folder.glob("*_binary.hsaco")
        assert code.read_bytes() != (first / code.name).read_bytes()
        monkeypatch.undo()
        shutil.rmtree(tmp_path / "edits")
        self.again(folder / "repro.sh")


def test_lines_are_in_dumps_that_need_them_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = dumped("rocm:gfx942", {}, tmp_path, monkeypatch)
    assert "loc(" not in (folder / "00_origin.mlir").read_text()
