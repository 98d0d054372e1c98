"""Passes of the user in whole compilations: pipelines and plugins of `opt`, Python passes at every stage, errors."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.build import user_passes
from flydsl.errors import (
    CodegenPassError,
    DSLCompileError,
    PassFallbackWarning,
    PassPipelineError,
    PluginLoadError,
    ToolNotFoundError,
    ToolVersionError,
)
from flydsl.llvm import tools

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("rocm:gfx942", "cuda:sm_90a", "cpu:native")
SUB = "always-inline,example-add-to-sub,default<O2>"


@pytest.fixture(autouse=True)
def cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    known = dict(user_passes._registry)
    yield
    user_passes._registry.clear()
    user_passes._registry.update(known)
    user_passes._enabled.clear()


@flyc.kernel
def axpy_kernel(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor):
    i = fx.thread_idx.x
    out[i] = x[i] * 3.0 + y[i]


def make(**options: Any) -> Any:
    @flyc.jit(**options)
    def axpy(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        axpy_kernel(x, y, out).launch(grid=1, block=64, stream=stream)

    return axpy


X = np.arange(64, dtype=np.float32)
Y = np.ones(64, dtype=np.float32)


def run(function: Any) -> np.ndarray:
    out = np.full(64, np.nan, np.float32)
    function(X, Y, out)
    return out


def artifact(target: str, **options: Any) -> Any:
    return flyc.compile(make(**options), X, Y, Y, target=target).artifact


def example(name: str) -> Any:
    path = ROOT / "examples" / "custom_passes" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- pipelines ----------------------------------------------------------------------------------------------------


def test_a_pipeline_in_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """No LLVM anywhere: passes of llvmlite still run."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "_LLVM_PREFIXES", ())
    np.testing.assert_array_equal(run(make(llvm_pass_pipeline="always-inline,sroa,instcombine")), 3 * X + Y)
    with pytest.raises(ToolNotFoundError, match="needs opt, because gvn cannot run in process"):
        run(make(llvm_pass_pipeline="default<O2>,gvn"))


@pytest.mark.parametrize("target", TARGETS)
def test_opt_and_in_process_give_the_same_code(
    target: str, opt: tools.Tool, monkeypatch: pytest.MonkeyPatch, disassemble: Callable[..., list[str]], tmp_path: Path
):
    pipeline = "default<O2>,function(instcombine,dce)"
    inside = artifact(target, llvm_pass_pipeline=pipeline)
    assert inside.metadata["notes"]["middle_end"] == "in process"
    monkeypatch.setenv("FLYDSL_COMPILE_OPT", str(opt.path))
    outside = artifact(target, llvm_pass_pipeline=pipeline)
    assert str(opt.path) in outside.metadata["notes"]["middle_end"]
    if "o" in inside.sections:
        assert disassemble(inside.sections["o"], tmp_path) == disassemble(outside.sections["o"], tmp_path)
    else:
        assert inside.sections["ptx"] == outside.sections["ptx"]


def test_the_pipeline_replaces_the_default_one():
    """Without any optimisation the cpu kernel calls its thread function; code generation keeps its level (P-10)."""
    plain = artifact("cpu:native", llvm_pass_pipeline="verify").text("llvm_opt")
    assert "call void @axpy_kernel_0.thread" in plain.replace('"', "")
    assert "call void" not in artifact("cpu:native").text("llvm_opt")


@pytest.mark.parametrize("target", TARGETS)
def test_a_plugin_changes_the_code(target: str, opt: tools.Tool, ir_plugin: Path):
    assert "fsub" not in artifact(target).text("llvm_opt")
    changed = artifact(target, llvm_pass_pipeline=SUB, llvm_pass_plugins=[ir_plugin])
    assert "fsub" in changed.text("llvm_opt")
    if target.startswith("rocm"):
        assert [k["name"] for k in changed.metadata["kernels"]] == ["axpy_kernel_0"]


def test_a_plugin_changes_the_result_and_without_it_the_call_fails(opt: tools.Tool, ir_plugin: Path):
    np.testing.assert_array_equal(run(make(llvm_pass_pipeline=SUB, llvm_pass_plugins=[ir_plugin])), 3 * X - Y)
    with pytest.raises(PassPipelineError, match="unknown pass 'example-add-to-sub'"):
        run(make(llvm_pass_pipeline=SUB))


def test_hints_and_environment(opt: tools.Tool, ir_plugin: Path, monkeypatch: pytest.MonkeyPatch):
    function = make()
    np.testing.assert_array_equal(run(function), 3 * X + Y)
    monkeypatch.setenv("FLYDSL_COMPILE_LLVM_PASS_PIPELINE", SUB)
    monkeypatch.setenv("FLYDSL_COMPILE_LLVM_PASS_PLUGINS", str(ir_plugin))
    np.testing.assert_array_equal(run(function), 3 * X - Y)
    np.testing.assert_array_equal(run(make(llvm_pass_pipeline="")), 3 * X + Y)
    with flyc.CompilationContext.compile_hints({"llvm_pass_pipeline": "default<O1>"}):
        np.testing.assert_array_equal(run(function), 3 * X + Y)
    monkeypatch.delenv("FLYDSL_COMPILE_LLVM_PASS_PIPELINE")
    monkeypatch.delenv("FLYDSL_COMPILE_LLVM_PASS_PLUGINS")
    np.testing.assert_array_equal(run(function), 3 * X + Y)
    compiled = flyc.compile[{"llvm_pass_pipeline": SUB, "llvm_pass_plugins": [ir_plugin]}](function, X, Y, Y)
    out = np.empty_like(X)
    compiled(X, Y, out)
    np.testing.assert_array_equal(out, 3 * X - Y)


def test_an_edited_plugin_recompiles(
    opt: tools.Tool, ir_plugin: Path, build_plugin: Callable[[Path], Path], tmp_path: Path
):
    source = tmp_path / "edited.cpp"
    text = (ROOT / "examples/custom_passes/ir_plugin.cpp").read_text()
    source.write_text(text.replace("CreateFSub(", "CreateFMul("))
    plugin = tmp_path / "plugin.so"
    shutil.copy(ir_plugin, plugin)
    function = make(llvm_pass_pipeline=SUB, llvm_pass_plugins=[plugin])
    np.testing.assert_array_equal(run(function), 3 * X - Y)
    np.testing.assert_array_equal(run(function), 3 * X - Y)
    assert function.cache_info().misses == 1
    shutil.copy(build_plugin(source), plugin)
    np.testing.assert_array_equal(run(function), 3 * X * Y)
    assert function.cache_info().misses == 2


def test_a_plugin_prints_the_thread_ids(opt: tools.Tool, ir_plugin: Path):
    """On the cpu stack a block of 64 prints 0 to 63; without the plugin nothing."""
    script = ROOT / "examples/custom_passes/thread_print.py"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "FLYDSL_CPU_THREADS": "1"}
    for arguments, expected in (([str(ir_plugin)], list(range(64))), ([], [])):
        done = subprocess.run([sys.executable, str(script), *arguments], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        ids = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("thread ")]
        assert sorted(ids) == expected


def test_the_example_of_python_passes_runs():
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    script = ROOT / "examples/custom_passes/python_passes.py"
    done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "cpu axpy_kernel_0:" in done.stdout and "axpy:" in done.stdout


# --- LLVM's programs without any pass (P-8b) --------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_an_external_code_generator_gives_the_same_code(
    target: str,
    opt: tools.Tool,
    llc: tools.Tool,
    disassemble: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    inside = artifact(target)
    monkeypatch.setenv("FLYDSL_COMPILE_CODEGEN", "external")
    outside = artifact(target)
    assert str(opt.path) in outside.metadata["notes"]["middle_end"]
    if "o" in inside.sections:
        assert disassemble(inside.sections["o"], tmp_path) == disassemble(outside.sections["o"], tmp_path)
    else:
        # llc adds comments.
        plain, commented = (re.sub(r"\s*//.*", "", a.sections["ptx"].decode()).split() for a in (inside, outside))
        assert plain == commented
    if target == "cpu:native":
        np.testing.assert_array_equal(run(make()), 3 * X + Y)


def test_a_prefix_switches_to_its_tools(opt: tools.Tool, llc: tools.Tool, monkeypatch: pytest.MonkeyPatch):
    prefix = opt.path.resolve().parent.parent
    monkeypatch.setenv("FLYDSL_COMPILE_LLVM_DIR", str(prefix))
    assert str(prefix / "bin" / "opt") in artifact("rocm:gfx942").metadata["notes"]["middle_end"]
    monkeypatch.setenv("FLYDSL_COMPILE_CODEGEN", "internal")
    assert "middle_end" not in artifact("rocm:gfx942").metadata["notes"]


def test_options_of_llvm(opt: tools.Tool, llc: tools.Tool):
    hints = {"llvm_options": {"amdgpu-waitcnt-forcezero": True}}
    plain, forced = artifact("rocm:gfx942").text("asm"), artifact("rocm:gfx942", compile_hints=hints).text("asm")
    assert forced.count("s_waitcnt") > plain.count("s_waitcnt")
    with pytest.raises(RuntimeError, match="Unknown LLVM option 'no-such-option'"):
        artifact("rocm:gfx942", compile_hints={"llvm_options": {"no-such-option": 3}})


# --- what goes wrong ----------------------------------------------------------------------------------------------


def test_unknown_pass_leaves_nothing_behind(opt: tools.Tool):
    function = make(llvm_pass_pipeline="default<O2>,no-such-pass")
    for _ in range(2):
        with pytest.raises(PassPipelineError) as caught:
            run(function)
    text = str(caught.value)
    for part in (
        "unknown pass 'no-such-pass'",
        str(opt.path),
        "--passes=default<O2>,no-such-pass",
        "status 1",
        "stderr",
    ):
        assert part in text
    assert function.cache_info().currsize == 0


def test_plugins_that_cannot_be_loaded(opt: tools.Tool, wrong_api: Path, tmp_path: Path):
    with pytest.raises(PluginLoadError, match="built for another LLVM"):
        run(make(llvm_pass_pipeline="dce", llvm_pass_plugins=[wrong_api]))
    text = tmp_path / "text.so"
    text.write_text("no library")
    with pytest.raises(PluginLoadError, match="cannot be loaded"):
        run(make(llvm_pass_pipeline="dce", llvm_pass_plugins=[text]))
    with pytest.raises(PluginLoadError, match="gone.so does not exist"):
        run(make(llvm_pass_pipeline="dce", llvm_pass_plugins=[tmp_path / "gone.so"]))


@pytest.mark.parametrize("target", TARGETS)
def test_a_kernel_must_not_get_lost(target: str, opt: tools.Tool, broken_ir: Path):
    for name, text in (("drop", "kernel axpy_kernel_0 is gone"), ("rename", r"is gone \(new: renamed\)")):
        with pytest.raises(PassPipelineError, match=text):
            artifact(target, llvm_pass_pipeline=f"broken-{name}-kernel", llvm_pass_plugins=[broken_ir])


def test_a_crash_names_the_pass(opt: tools.Tool, broken_ir: Path):
    with pytest.raises(PassPipelineError, match="crashed") as caught:
        run(make(llvm_pass_pipeline="broken-crash", llvm_pass_plugins=[broken_ir]))
    assert "SIG" in str(caught.value) or "bug report" in str(caught.value)


def test_another_version_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    tool = tmp_path / "opt"
    tool.write_text("#!/bin/sh\necho 'LLVM version 19.1.0'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("FLYDSL_COMPILE_OPT", str(tool))
    with pytest.raises(ToolVersionError, match=r"19\.1\.0, but LLVM 22"):
        run(make(llvm_pass_pipeline="dce"))


def test_fallback_only_when_asked_for_and_never_kept(opt: tools.Tool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_LLVM_FALLBACK", "warn")
    function = make(llvm_pass_pipeline="no-such-pass")
    for _ in range(2):
        with pytest.warns(PassFallbackWarning, match="no-such-pass"):
            np.testing.assert_array_equal(run(function), 3 * X + Y)
    assert function.cache_info().currsize == 0
    monkeypatch.delenv("FLYDSL_COMPILE_LLVM_FALLBACK")
    with pytest.raises(PassPipelineError):
        run(function)


# --- passes in Python ---------------------------------------------------------------------------------------------


def test_every_stage_is_reached():
    seen: list[str] = []
    stages = ["fly:start", "fly:before:fly-canonicalize", "fly:after:fly-canonicalize", "fly:after:canonicalize#2"]
    stages += ["llvm-dialect", "fly:end", "llvm-pre-opt", "llvm-post-opt"]
    passes = []
    for stage in stages:

        def note(value: Any, context: Any) -> None:
            seen.append(context.stage)

        passes.append(flyc.ir_pass(stage=stage, name=f"note-{len(passes)}")(note))
    artifact("cuda:sm_90a", ir_passes=passes)
    assert [s for s in seen if s != "fly:after:canonicalize#2"] == [s for s in stages if "#2" not in s]
    assert "fly:after:canonicalize#2" in seen


@pytest.mark.parametrize("target", TARGETS)
def test_products_become_fmas(target: str):
    passes = example("python_passes")
    text = artifact(target, ir_passes=[passes.mul_add_to_fma]).text("llvm")
    assert "llvm.fma" in text and "fmul" not in text and "fadd" not in text
    np.testing.assert_array_equal(run(make(ir_passes=[passes.mul_add_to_fma])), 3 * X + Y)


def test_loads_are_counted(capsys: pytest.CaptureFixture[str]):
    passes = example("python_passes")
    artifact("rocm:gfx942", ir_passes=["count-loads"])
    assert capsys.readouterr().out == "rocm axpy_kernel_0: 2 loads\n"
    with pytest.raises(flyc.PassError, match="has 2 loads, allowed are 1") as caught:
        artifact("rocm:gfx942", ir_passes=[passes.count_loads.with_parameters(most=1)])
    assert "count-loads{most=1}" in "".join(caught.value.__notes__)


def test_llvm_text_can_be_changed():
    @flyc.ir_pass(stage="llvm-pre-opt")
    def text_pass(module):
        return module.text.replace("fadd", "fsub")

    @flyc.ir_pass(stage="llvm-post-opt", name="module-pass")
    def module_pass(module):
        module.text = module.text.replace("fsub", "fadd")

    np.testing.assert_array_equal(run(make(ir_passes=[text_pass])), 3 * X - Y)
    np.testing.assert_array_equal(run(make(ir_passes=[text_pass, module_pass])), 3 * X + Y)


@pytest.mark.parametrize(("target", "nop"), [("rocm:gfx942", "s_nop"), ("cpu:native", "nop")])
def test_machine_code_can_be_changed(
    target: str, nop: str, llc: tools.Tool, disassemble: Callable[..., list[str]], tmp_path: Path
):
    passes = example("python_passes")

    def nops(obj: bytes) -> int:
        code = disassemble(obj, tmp_path)
        end = code.index("s_endpgm") if "s_endpgm" in code else len(code)  # Padding follows.
        return sum(line.split()[0] == nop for line in code[:end])

    changed = artifact(target, ir_passes=[passes.nop_at_entry])
    assert nops(changed.sections["o"]) == nops(artifact(target).sections["o"]) + 1
    assert nop in changed.text("asm")


def test_machine_code_runs_after_a_change(llc: tools.Tool):
    np.testing.assert_array_equal(run(make(ir_passes=[example("python_passes").nop_at_entry])), 3 * X + Y)


@pytest.mark.parametrize("point", user_passes.POINTS)
@pytest.mark.parametrize("target", TARGETS)
def test_python_passes_at_every_point(point: str, target: str, llc: tools.Tool):
    """What comes out is what went in: the cut itself changes nothing."""
    seen: list[str] = []

    @flyc.ir_pass(stage=f"mir:{point}", name="look")
    def look(module):
        seen.extend(function.name for function in module.functions)

    if (target, point) == ("cuda:sm_90a", "pre-sched2"):
        with pytest.raises(CodegenPassError, match="does not exist.*nearest"):
            artifact(target, ir_passes=[look])
        return
    made = artifact(target, ir_passes=[look])
    assert any("axpy_kernel_0" in name for name in seen)
    assert len(made.binary()) > 0


def test_broken_machine_code_is_refused(llc: tools.Tool):
    @flyc.ir_pass(stage="mir:post-ra")
    def nonsense(module):
        module.functions[0].blocks[0].insert(0, "NO_SUCH_OPCODE 0")

    with pytest.raises(CodegenPassError, match="MIR after Python pass 'nonsense' at mir:post-ra"):
        artifact("rocm:gfx942", ir_passes=[nonsense])


@pytest.mark.parametrize("target", TARGETS)
def test_assembly_can_be_changed(target: str):
    if target != "cuda:sm_90a" and tools.try_find_tool("llvm-mc") is None:
        pytest.skip(f"llvm-mc of LLVM {tools.LLVM_MAJOR} is not installed")

    @flyc.ir_pass(stage="asm", backends=["cpu", "rocm"], name="asm-add")
    def asm_add(text):
        return text.replace("v_fmac_f32", "v_fmac_f32").replace("# %bb.0:", "# %bb.0:\n\tnop")

    @flyc.ir_pass(stage="asm", backends=["cuda"], name="asm-ptx")
    def asm_ptx(text):
        return text + "// changed\n"

    made = artifact(target, ir_passes=[asm_add, asm_ptx])
    assert ("// changed" in made.text("asm")) is target.startswith("cuda")
    if target == "cpu:native":
        np.testing.assert_array_equal(run(make(ir_passes=[asm_add])), 3 * X + Y)


def test_an_op_is_blamed_at_its_line():
    @flyc.ir_pass(stage="fly:start")
    def no_products(module):
        for op in module.walk():
            if isinstance(op, arith.MulfOp):
                raise flyc.PassError("products are not allowed", op=op)

    with pytest.raises(flyc.PassError) as caught:
        artifact("cpu:native", ir_passes=[no_products])
    text = str(caught.value)
    assert "products are not allowed" in text and "out[i] = x[i] * 3.0 + y[i]" in text and __file__ in text
    assert any("Python pass 'no-products' at stage fly:start" in note for note in caught.value.__notes__)


def test_a_mistake_in_a_pass_is_shown_at_its_line():
    @flyc.ir_pass(stage="llvm-pre-opt")
    def careless(module):
        return module.no_such_thing

    with pytest.raises(AttributeError) as caught:
        artifact("cpu:native", ir_passes=[careless])
    notes = "\n".join(caught.value.__notes__)
    assert "Python pass 'careless' at stage llvm-pre-opt" in notes and "return module.no_such_thing" in notes


def test_broken_results_name_the_pass_and_show_a_diff():
    @flyc.ir_pass(stage="llvm-post-opt")
    def breaks_text(module):
        return module.text.replace("ret void", "ret i32 %nothing")

    with pytest.raises(DSLCompileError, match="broken after Python pass 'breaks-text'") as caught:
        artifact("cpu:native", ir_passes=[breaks_text])
    assert "+  ret i32 %nothing" in str(caught.value)

    @flyc.ir_pass(stage="fly:start")
    def breaks_module(module):
        for op in module.walk():
            if isinstance(op, arith.MulfOp):
                op.operands = [op.lhs]
                return

    with pytest.raises(DSLCompileError, match="does not verify after Python pass 'breaks-module'"):
        artifact("cpu:native", ir_passes=[breaks_module])

    @flyc.ir_pass(stage="llvm-pre-opt")
    def returns_number(module):
        return 3

    with pytest.raises(DSLCompileError, match="must return text.*got int"):
        artifact("cpu:native", ir_passes=[returns_number])


def test_enabled_passes_reach_calls_already_warm():
    @flyc.ir_pass(stage="llvm-pre-opt")
    def subtract(module):
        return module.text.replace("fadd", "fsub")

    function = make()
    for _ in range(3):
        np.testing.assert_array_equal(run(function), 3 * X + Y)
    flyc.enable_pass(subtract)
    np.testing.assert_array_equal(run(function), 3 * X - Y)
    flyc.disable_pass("subtract")
    np.testing.assert_array_equal(run(function), 3 * X + Y)


def test_dumps_number_python_passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, opt: tools.Tool):
    @flyc.ir_pass(stage="fly:after:fly-canonicalize")
    def dumped(module): ...

    monkeypatch.setenv("FLYDSL_DUMP_IR", "1")
    monkeypatch.setenv("FLYDSL_DUMP_DIR", str(tmp_path))
    monkeypatch.setenv("FLYDSL_COMPILE_OPT", str(opt.path))
    artifact("rocm:gfx942", ir_passes=[dumped], llvm_pass_pipeline="default<O1>")
    names = [path.name for path in (tmp_path / "axpy_kernel_0").iterdir()]
    assert any(name.endswith("_dumped.mlir") for name in names)
    assert (tmp_path / "axpy_kernel_0" / "passes" / "llvm_in.ll").is_file()
