"""fly-llc: equal to llc when idle, machine passes at every point, editing of the pipeline, reports, exit codes."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import CodegenPassError, PluginLoadError, ToolNotFoundError
from flydsl.llvm import codegen, external, mir, tools
from flydsl.tools import build_llc, fly

BODY = """
define {kernel} void @k(ptr addrspace(1) %a, ptr addrspace(1) %b, i32 %n) {{
entry:
  %more = icmp sgt i32 %n, 0
  br i1 %more, label %loop, label %out
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr float, ptr addrspace(1) %a, i32 %i
  %q = getelementptr float, ptr addrspace(1) %b, i32 %i
  %x = load float, ptr addrspace(1) %p
  %y = load float, ptr addrspace(1) %q
  %m = fmul float %x, 3.0
  %s = fadd float %m, %y
  %t = fmul float %y, %y
  %u = fsub float %s, %t
  store float %u, ptr addrspace(1) %q
  %next = add i32 %i, 1
  %again = icmp slt i32 %next, %n
  br i1 %again, label %loop, label %out
out:
  ret void
}}
"""
CASES = {
    "gfx942": (codegen.AMDGPU_TRIPLE, "gfx942", "amdgpu_kernel"),
    "gfx950": (codegen.AMDGPU_TRIPLE, "gfx950", "amdgpu_kernel"),
    "sm_90": (codegen.NVPTX_TRIPLE, "sm_90", "ptx_kernel"),
    "x86-64": ("x86_64-unknown-linux-gnu", "x86-64-v3", ""),
}
NOP = {"gfx942": "s_nop", "gfx950": "s_nop", "sm_90": "// fly nop", "x86-64": "nop"}
SLED = 4


@pytest.fixture(autouse=True)
def cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FLYDSL_COMPILE_BACKEND", "cpu")
    yield


@pytest.fixture
def tool(built_fly_llc: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs fly-llc on the small kernel for a target."""

    def run(case: str, *args: str, ok: bool = True, level: int = 2) -> subprocess.CompletedProcess[str]:
        triple, cpu, kernel = CASES[case]
        source = tmp_path / "k.ll"
        source.write_text(f'target triple = "{triple}"\n' + BODY.format(kernel=kernel))
        command = [str(built_fly_llc), f"--mcpu={cpu}", f"-O{level}", *args, str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert not ok or done.returncode == 0, done.stderr
        return done

    return run


def assembly(tool: Any, case: str, *args: str, level: int = 2) -> str:
    return tool(case, "--emit=asm", *args, "-o", "-", level=level).stdout


# --- idle ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("case", CASES)
def test_identical_to_llc_when_idle(case: str, level: int, tool: Any, llc: tools.Tool, tmp_path: Path):
    for kind in ("asm",) if case == "sm_90" else ("asm", "obj"):
        ours, theirs = tmp_path / f"ours.{kind}", tmp_path / f"theirs.{kind}"
        tool(case, f"--emit={kind}", "-o", str(ours), level=level)
        args = [f"-mcpu={CASES[case][1]}", f"-O{level}", f"-filetype={kind}", str(tmp_path / "k.ll"), "-o", str(theirs)]
        subprocess.run([str(llc.path), *args], check=True)
        assert ours.read_bytes() == theirs.read_bytes()


def test_version(built_fly_llc: Path):
    text = subprocess.run([str(built_fly_llc), "--version"], capture_output=True, text=True, check=True).stdout
    assert "fly-llc" in text and f"LLVM version {tools.LLVM_MAJOR}." in text and "library: " in text


def test_mir_and_back(tool: Any, built_fly_llc: Path, tmp_path: Path):
    """--emit=mir is what the printer gets; code generation cut with LLVM's own options goes on in fly-llc."""
    assert "body:" in tool("gfx942", "--emit=mir", "-o", "-").stdout
    cut, whole = tmp_path / "cut.mir", assembly(tool, "gfx942")
    tool("gfx942", "--llvm-arg=stop-before=postmisched", "--emit=asm", "-o", str(cut))
    rest = [
        str(built_fly_llc),
        "--mcpu=gfx942",
        "--llvm-arg=-start-before=postmisched",
        "--emit=asm",
        str(cut),
        "-o",
        "-",
    ]
    assert subprocess.run(rest, capture_output=True, text=True, check=True).stdout == whole


# --- points -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", (0, 1, 2, 3))
@pytest.mark.parametrize("case", CASES)
def test_points_are_those_of_the_python_side(case: str, level: int, built_fly_llc: Path):
    triple, cpu, _ = CASES[case]
    flags = [f"--mtriple={triple}", f"--mcpu={cpu}", f"-O{codegen.code_level(triple, level)}"]
    command = [str(built_fly_llc), *flags, "--list-points"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    table = {line.split()[0]: " ".join(line.split()[1:3]) for line in lines}
    assert tuple(table) == mir.POINTS
    for point, where in table.items():
        anchor = mir.anchor(point, triple, level)
        if point == "pre-emit2":
            assert where == "before <assembly" and anchor is not None
        else:
            assert where.startswith("-") if anchor is None else where == str(anchor)


@pytest.mark.parametrize("point", mir.POINTS)
@pytest.mark.parametrize("case", CASES)
def test_a_sled_of_no_ops_at_every_point(case: str, point: str, tool: Any, machine_plugin: Path):
    args = (f"--plugin={machine_plugin}", f"--inject={point}:example-nop-sled")
    if mir.anchor(point, CASES[case][0], 2) is None:
        done = tool(case, *args, "--emit=null", ok=False)
        assert done.returncode == 7 and "nearest: post-ra, pre-emit" in done.stderr
        return
    nops = sum(NOP[case] in line for line in assembly(tool, case).splitlines())
    assert sum(NOP[case] in line for line in assembly(tool, case, *args).splitlines()) == nops + SLED


@pytest.mark.parametrize("point", [p for p in mir.POINTS if p != "pre-ra-sched"])
def test_points_without_optimisation(point: str, tool: Any, machine_plugin: Path):
    args = (f"--plugin={machine_plugin}", f"--inject={point}:example-nop-sled")
    assert assembly(tool, "gfx942", *args, level=0).count("s_nop 0") >= SLED


@pytest.mark.parametrize("case", ["gfx942", "x86-64"])
def test_reordering_keeps_the_instructions(
    case: str, tool: Any, machine_plugin: Path, disassemble: Callable[..., list[str]], tmp_path: Path
):
    def code(*args: str) -> list[str]:
        tool(case, *args, "--emit=obj", "-o", str(tmp_path / "out.o"))
        return disassemble((tmp_path / "out.o").read_bytes(), tmp_path)

    before = code()
    after = code(f"--plugin={machine_plugin}", "--inject=pre-emit2:example-reorder")
    plain = [line for line in before if not line.startswith(("j", "s_cbranch", "s_branch"))]
    assert before != after
    moved = Counter(line for line in after if not line.startswith(("j", "s_cbranch", "s_branch")))
    assert Counter(plain) == moved


# --- editing ------------------------------------------------------------------------------------------------------


def passes(tool: Any, *args: str, case: str = "gfx942") -> list[str]:
    lines = tool(case, "--list-passes", "--emit=null", *args).stdout.splitlines()
    return [("*" if line.startswith("*") else "") + line[2:].split()[0] for line in lines]


def test_before_after_and_instances(tool: Any, machine_plugin: Path):
    plugin = f"--plugin={machine_plugin}"
    stock = passes(tool)
    assert stock.count("virtregrewriter") == 1 and "virtregrewriter#3" in stock
    found = passes(tool, plugin, "--before=virtregrewriter#2:example-reorder", "--after=machine-cse#1:example-nop-sled")
    at = found.index("*example-reorder")
    assert found[at + 1] == "virtregrewriter#2"
    assert found[found.index("*example-nop-sled") - 1] == "machine-cse"
    assert [name for name in found if not name.startswith("*")] == stock


def test_order_at_one_place_is_that_of_the_command_line(tool: Any, machine_plugin: Path):
    args = (f"--plugin={machine_plugin}", "--inject=post-ra:example-reorder,example-nop-sled")
    found = passes(tool, *args, "--before=removeredundantdebugvalues:example-reorder")
    at = found.index("removeredundantdebugvalues")
    assert found[at - 3 : at] == ["*example-reorder", "*example-nop-sled", "*example-reorder"]


def test_replace_and_disable(tool: Any, machine_plugin: Path):
    found = passes(
        tool, f"--plugin={machine_plugin}", "--replace=machine-sink:example-nop-sled", "--disable=machine-cp"
    )
    assert "machine-sink" not in found and "*example-nop-sled" in found and "machine-cp" not in found
    assert "machine-cp#2" not in found
    one = passes(tool, "--disable=machine-cp#2")
    assert "machine-cp" in one and "machine-cp#2" not in one


def test_report(tool: Any, machine_plugin: Path, tmp_path: Path):
    args = (f"--plugin={machine_plugin}", "--inject=pre-emit:example-nop-sled", "--inject=pre-emit:example-reorder")
    done = tool("gfx942", *args, "--report=json", "-o", str(tmp_path / "out.o"))
    report = json.loads(done.stdout)
    assert [(p["pass"], p["changed"]) for p in report["injected"]][0] == ("example-nop-sled", True)
    assert [p["pass"] for p in report["order"] if p["injected"]] == ["example-nop-sled", "example-reorder"]
    (function,) = report["functions"]
    assert function["name"] == "k" and function["instructions"] > 10 and function["physical_registers"] > 0
    assert function["spill_slots"] == 0


def test_print_injected(tool: Any, machine_plugin: Path):
    args = (f"--plugin={machine_plugin}", "--inject=pre-emit:example-nop-sled", "--print-injected", "--emit=null")
    text = tool("gfx942", *args).stderr
    before, after = text.split("# after injected pass example-nop-sled")
    assert "# before injected pass" in before and before.count("S_NOP") + SLED == after.count("S_NOP")


# --- exit codes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "status", "text"),
    [
        (["--no-such-option"], 1, "Unknown command line argument"),
        (["--inject=post-ra"], 1, "must be <point>:<pass>"),
        (["--before=a#0:b"], 1, "number from 1"),
        (["--plugin=/no/such.so"], 2, "does not exist"),
        (["--mtriple=nonsense-none-none"], 4, ""),
        (["--inject=post-ra:nothing"], 5, "unknown pass 'nothing'"),
        (["--inject=nowhere:machine-cse"], 6, "unknown point 'nowhere'; there are: after-isel"),
        (["--before=nothing:machine-cse"], 7, "'nothing' is not in this pipeline"),
        (["--before=virtregrewriter:machine-cse"], 7, "occurs 3 times"),
        (["--before=virtregrewriter#9:machine-cse"], 7, "there is no #9"),
    ],
)
def test_exit_codes(args: list[str], status: int, text: str, tool: Any):
    done = tool("gfx942", *args, "--emit=null", ok=False)
    assert done.returncode == status and text in done.stderr


def test_more_exit_codes(tool: Any, built_fly_llc: Path, tmp_path: Path):
    bad = tmp_path / "bad.ll"
    bad.write_text("no IR")
    run = [str(built_fly_llc), "--emit=null"]
    assert subprocess.run([*run, str(bad)], capture_output=True).returncode == 3
    assert subprocess.run([*run, str(tmp_path / "gone.ll")], capture_output=True).returncode == 10
    assert tool("sm_90", "--emit=obj", "-o", str(tmp_path / "x.o"), ok=False).returncode == 8
    assert tool("gfx942", "-o", str(tmp_path / "no" / "folder" / "x.o"), ok=False).returncode == 10
    assert not (tmp_path / "x.o").exists()


def test_the_verifier_names_the_pass(tool: Any, broken_machine: Path):
    args = (f"--plugin={broken_machine}", "--inject=post-ra:broken-unsound", "--emit=null")
    done = tool("gfx942", *args, ok=False)
    assert done.returncode == 9 and "pass 'broken-unsound'" in done.stderr and "Bad machine code" in done.stderr
    assert tool("gfx942", *args, "--no-verify-injected", ok=False).returncode != 9


# --- from the language --------------------------------------------------------------------------------------------


@flyc.kernel
def axpy_kernel(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor):
    i = fx.thread_idx.x
    out[i] = x[i] * 3.0 + y[i] * y[i]


def make(**options: Any) -> Any:
    @flyc.jit(**options)
    def axpy(x: fx.Tensor, y: fx.Tensor, out: fx.Tensor, stream: fx.Stream = fx.Stream(None)):
        axpy_kernel(x, y, out).launch(grid=1, block=64, stream=stream)

    return axpy


X = np.arange(64, dtype=np.float32)


def run(function: Any) -> np.ndarray:
    out = np.full(64, np.nan, np.float32)
    function(X, X, out)
    return out


def artifact(target: str, **options: Any) -> Any:
    return flyc.compile(make(**options), X, X, X, target=target).artifact


@pytest.mark.parametrize("name", ["example-nop-sled", "example-reorder"])
@pytest.mark.parametrize("point", mir.POINTS)
def test_results_on_the_cpu_stay(point: str, name: str, fly_llc: Path, machine_plugin: Path):
    function = make(llvm_codegen_passes=[f"{point}:{name}"], llvm_codegen_plugins=[machine_plugin])
    np.testing.assert_allclose(run(function), 3 * X + X * X, rtol=1e-6)


@pytest.mark.parametrize(("target", "nop"), [("rocm:gfx942", "s_nop 0"), ("cuda:sm_90a", "// fly nop"), ("cpu", "nop")])
def test_a_machine_pass_of_a_jit_function(target: str, nop: str, fly_llc: Path, machine_plugin: Path):
    options = {"llvm_codegen_passes": {"pre-emit": ["example-nop-sled"]}, "llvm_codegen_plugins": [machine_plugin]}
    made = artifact("cpu:native" if target == "cpu" else target, **options)
    assert made.text("asm").count(nop) >= SLED
    if target.startswith("rocm"):
        assert [k["name"] for k in made.metadata["kernels"]] == ["axpy_kernel_0"]
        assert made.metadata["kernels"][0]["kernarg_size"] == artifact(target).metadata["kernels"][0]["kernarg_size"]


@pytest.mark.parametrize("target", ["rocm:gfx942", "cuda:sm_90a", "cpu:native"])
def test_a_pipeline_before_machine_passes(target: str, fly_llc: Path, machine_plugin: Path, ir_plugin: Path):
    """The chain: opt with a plugin, then fly-llc with another."""
    options = {
        "llvm_pass_pipeline": "always-inline,example-add-to-sub,default<O2>",
        "llvm_pass_plugins": [ir_plugin],
        "llvm_codegen_passes": ["pre-emit:example-nop-sled"],
        "llvm_codegen_plugins": [machine_plugin],
    }
    made = artifact(target, **options)
    assert "fsub" in made.text("llvm_opt") and "nop" in made.text("asm")
    if target == "cpu:native":
        np.testing.assert_allclose(run(make(**options)), 3 * X - X * X, rtol=1e-6)


def test_errors_of_machine_passes(fly_llc: Path, machine_plugin: Path, broken_machine: Path, tmp_path: Path):
    def failing(spec: str, plugin: Path = machine_plugin) -> Any:
        return make(llvm_codegen_passes=[spec], llvm_codegen_plugins=[plugin])

    with pytest.raises(CodegenPassError, match="unknown machine pass: unknown pass 'nothing'") as caught:
        run(failing("post-ra:nothing"))
    assert str(fly_llc) in str(caught.value) and "--inject=post-ra:nothing" in str(caught.value)
    with pytest.raises(CodegenPassError, match="no such place.*'nothing' is not in this pipeline"):
        run(failing("before=nothing:example-reorder"))
    with pytest.raises(CodegenPassError, match="broke a function.*'broken-unsound'"):
        run(failing("post-ra:broken-unsound", broken_machine))
    with pytest.raises(CodegenPassError, match="pass 'Crash on purpose' crashed"):
        run(failing("post-ra:broken-crash-machine", broken_machine))
    text = tmp_path / "text.so"
    text.write_text("no library")
    with pytest.raises(PluginLoadError, match="cannot be loaded"):
        run(failing("post-ra:x", text))
    with pytest.raises(CodegenPassError, match="pre-sched2.*nearest"):
        artifact(
            "cuda:sm_90a", llvm_codegen_passes=["pre-sched2:example-reorder"], llvm_codegen_plugins=[machine_plugin]
        )


def test_without_fly_llc_the_call_fails(monkeypatch: pytest.MonkeyPatch, machine_plugin: Path, tmp_path: Path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("FLYDSL_COMPILE_FLY_LLC", raising=False)
    with pytest.raises(ToolNotFoundError, match="fly build-llc"):
        run(make(llvm_codegen_passes=["post-ra:example-reorder"], llvm_codegen_plugins=[machine_plugin]))


def test_stock_llc_with_the_injector(
    built_fly_llc: Path, llc: tools.Tool, machine_plugin: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FLYDSL_COMPILE_FLY_LLC", "llc")
    monkeypatch.setattr(tools, "fly_llc_folders", lambda: (built_fly_llc.parent, built_fly_llc.parent))
    options = {"llvm_codegen_plugins": [machine_plugin]}
    made = artifact("rocm:gfx942", llvm_codegen_passes=["pre-emit:example-nop-sled"], **options)
    assert made.text("asm").count("s_nop 0") >= SLED
    function = make(llvm_codegen_passes=["after=machine-cse:example-nop-sled"], **options)
    np.testing.assert_allclose(run(function), 3 * X + X * X, rtol=1e-6)
    with pytest.raises(CodegenPassError, match="needs fly-llc"):
        artifact("rocm:gfx942", llvm_codegen_passes=["post-ra:example-nop-sled"], **options)
    with pytest.raises(CodegenPassError, match="did not run"):
        artifact("cuda:sm_90a", llvm_codegen_passes=["after=machine-cp:example-nop-sled"], **options)


def test_python_and_plugin_machine_passes_together_are_refused(fly_llc: Path, llc: tools.Tool, machine_plugin: Path):
    @flyc.ir_pass(stage="mir:pre-emit", name="look-too")
    def look_too(module): ...

    options = {"llvm_codegen_passes": ["post-ra:example-reorder"], "llvm_codegen_plugins": [machine_plugin]}
    with pytest.raises(NotImplementedError, match="in one compilation"):
        artifact("rocm:gfx942", ir_passes=[look_too], **options)


def test_changing_the_tool_changes_the_key(built_fly_llc: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    from flydsl.compiler.build.custom_passes import resolve

    found: set[str] = set()
    other = tmp_path / "fly-llc"
    other.write_bytes(built_fly_llc.read_bytes() + b"\0")
    other.chmod(0o755)
    for path in (built_fly_llc, other):
        monkeypatch.setenv("FLYDSL_COMPILE_FLY_LLC", str(path))
        config = resolve({"llvm_codegen_passes": ["x"]}, None)
        assert config is not None
        found.add(config.fingerprint())
    assert len(found) == 2
    assert external.libraries_of(built_fly_llc)


# --- building -----------------------------------------------------------------------------------------------------


def test_build_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    assert fly.main(["build-llc", "--llvm-dir", str(tmp_path), "-o", str(tmp_path / "bin")]) == 1
    assert "llvm-22-dev" in capsys.readouterr().err
    old = tmp_path / "bin" / "llvm-config"
    old.parent.mkdir(exist_ok=True)
    old.write_text("#!/bin/sh\necho 19.1.7\n")
    old.chmod(0o755)
    assert fly.main(["build-llc", "--llvm-dir", str(tmp_path), "-o", str(tmp_path / "bin")]) == 1
    assert "version 19.1.7, but 22 is needed" in capsys.readouterr().err
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(ToolNotFoundError, match=r"C\+\+17 compiler"):
        build_llc.find_compiler()


def test_a_failed_build_prints_its_commands(
    toolchain: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    compiler = tmp_path / "cxx"
    compiler.write_text("#!/bin/sh\necho cannot compile today >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(Exception, match="cannot compile today") as caught:
        build_llc.build(tmp_path / "bin", use_cmake=False)
    assert str(compiler) in str(caught.value) and "main.cpp" in str(caught.value)
    assert not (tmp_path / "bin" / "fly-llc").exists()


def test_the_template_builds(build_plugin: Callable[[Path], Path], tool: Any):
    plugin = build_plugin(Path(__file__).resolve().parents[2] / "tools/fly-llc/template/my_pass.cpp")
    assert assembly(tool, "gfx942", f"--plugin={plugin}", "--inject=pre-emit:my-pass") == assembly(tool, "gfx942")
