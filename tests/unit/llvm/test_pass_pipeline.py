"""Pipelines as text, what runs in process and that it equals `opt`, specs of machine passes, points, MIR, errors."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from flydsl.errors import CodegenPassError, PassPipelineError, PluginLoadError, ToolNotFoundError
from flydsl.llvm import binding, codegen, external, mir, pass_pipeline, tools
from flydsl.llvm.codegen import DeviceTarget

IR = """
define float @sum(ptr %p, i32 %n) nounwind {
entry:
  %acc = alloca float
  store float 0.0, ptr %acc
  br label %head
head:
  %i = phi i32 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i32 %i, %n
  br i1 %more, label %body, label %out
body:
  %q = getelementptr float, ptr %p, i32 %i
  %v = load float, ptr %q
  %old = load float, ptr %acc
  %w = fmul float %v, %v
  %new = fadd float %old, %w
  %dead = fmul float %new, 2.0
  store float %new, ptr %acc
  %next = add i32 %i, 1
  br label %head
out:
  %r = load float, ptr %acc
  ret float %r
}
define i32 @pick(i32 %a, i32 %b) nounwind {
  %c = call i32 @max(i32 %a, i32 %b)
  %d = add i32 %c, 0
  %e = mul i32 %d, 8
  ret i32 %e
}
define internal i32 @max(i32 %a, i32 %b) alwaysinline nounwind {
  %x = icmp sgt i32 %a, %b
  br i1 %x, label %yes, label %no
yes:
  ret i32 %a
no:
  ret i32 %b
}
"""
TARGETS = {
    "gfx942": DeviceTarget.amdgpu("gfx942"),
    "sm_90a": DeviceTarget.nvptx("sm_90a", "+ptx83"),
    "x86": DeviceTarget("x86_64-unknown-linux-gnu", "x86-64-v3", reloc="pic"),
}
PIPELINES = (
    *(f"default<O{level}>" for level in range(4)),
    "sroa,instcombine,simplifycfg",
    "function(sroa,instcombine),always-inline,globaldce",
    "module(always-inline,function(newgvn,dse,adce)),default<O1>,instcombine",
    "always-inline,sroa,loop-simplify,lcssa,loop-rotate,loop-unroll,instcombine,sccp,reassociate,sink",
)


# --- text ---------------------------------------------------------------------------------------------------------


def test_text_round_trip():
    text = "default<O3>,my-pass,function<eager-inv>(sroa<modify-cfg>,loop(a,b)),cgscc(inline<only-mandatory>)"
    assert ",".join(map(str, pass_pipeline.parse(text))) == text
    names = [p.name for e in pass_pipeline.parse(text) for p in e.passes()]
    assert names == ["default", "my-pass", "sroa", "a", "b", "inline"]


@pytest.mark.parametrize(
    ("text", "what", "column"),
    [
        ("", "a pass name is expected", 0),
        ("a,,b", "a pass name is expected", 2),
        ("a(b", "'\\(' is never closed", 1),
        ("a)", "'\\)' closes nothing", 1),
        ("default<O2", "'<' is never closed", 7),
        ("a b", "',' is expected", 2),
    ],
)
def test_mistakes_in_text_are_shown_where_they_are(text: str, what: str, column: int):
    with pytest.raises(PassPipelineError, match=what) as caught:
        pass_pipeline.parse(text)
    assert str(caught.value).splitlines()[-1] == f"  {' ' * column}^"


@pytest.mark.parametrize(
    ("text", "outside"),
    [
        ("default<O2>,dce", []),
        ("function(instcombine),globaldce", []),
        ("default<O2>,mine", ["mine"]),
        ("default<Oz>", ["default<Oz>"]),
        ("sroa<modify-cfg>", ["sroa<modify-cfg>"]),
        ("loop(loop-rotate)", ["loop(...)"]),
        ("function<eager-inv>(dce,mine,mine)", ["function<eager-inv>(...)", "mine"]),
    ],
)
def test_what_runs_in_process(text: str, outside: list[str]):
    assert pass_pipeline.not_in_process(pass_pipeline.parse(text)) == outside


def canonical(text: str) -> str:
    """Without what differs between a module in memory and one read from text, and between two 22.1.x."""
    text = re.sub(r'\s*; preds = .*| ?"target-(?:cpu|features)"="[^"]*"|mustprogress ', "", text).replace("{  }", "{ }")
    return "\n".join(line for line in text.splitlines() if not line.startswith(("; ModuleID", "source_filename")))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("pipeline", [*PIPELINES, *pass_pipeline.IN_PROCESS])
def test_in_process_equals_opt(pipeline: str, target: str, tmp_path: Path):
    if tools.try_find_tool("opt") is None:
        pytest.skip(f"opt of LLVM {tools.LLVM_MAJOR} is not installed")
    machine = TARGETS[target]
    private = target == "gfx942"
    ir = IR.replace("ptr %acc", "ptr addrspace(5) %acc").replace("alloca float", "alloca float, addrspace(5)")
    module = codegen.load_module(ir if private else IR, machine)
    text = str(module)
    pass_pipeline.run(module, machine.machine(2), pass_pipeline.parse(pipeline))
    theirs = binding.parse(external.run_opt(text, pipeline, [], machine, tmp_path))
    assert canonical(str(module)) == canonical(str(theirs))


# --- specs, points, commands ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "argument"),
    [
        ("mine", "--inject=pre-emit2:mine"),
        ("post-ra:mine", "--inject=post-ra:mine"),
        ("before=postmisched:mine", "--before=postmisched:mine"),
        ("after=virtregrewriter#2:mine", "--after=virtregrewriter#2:mine"),
        ("replace=machine-cp#1:mine", "--replace=machine-cp#1:mine"),
        ("disable=machine-sink", "--disable=machine-sink"),
    ],
)
def test_machine_pass_specs(spec: str, argument: str):
    parsed = external.parse_codegen_pass(spec)
    assert parsed.argument == argument
    assert external.parse_codegen_pass(str(parsed)) == parsed


@pytest.mark.parametrize("spec", ["", "post-ra:", ":mine", "beside=x:y", "before=:y", "before=x", "disable=x:y"])
def test_bad_machine_pass_specs(spec: str):
    with pytest.raises(CodegenPassError, match="cannot be read"):
        external.parse_codegen_pass(spec)


def test_unknown_point():
    with pytest.raises(CodegenPassError, match="unknown point 'postra'.*post-ra"):
        external.parse_codegen_pass("postra:mine")


def test_command_lines():
    target = DeviceTarget.amdgpu("gfx942", "+sramecc")
    pipeline = 'default<O2>,my-pass<a b; "c">'
    opt = external.opt_arguments(pipeline, [Path("/p/a.so"), Path("/p/b.so")], target, "in.ll", "out.ll")
    assert opt == [
        "-S",
        "--load-pass-plugin=/p/a.so",
        "--load-pass-plugin=/p/b.so",
        f"--passes={pipeline}",
        "-mtriple=amdgcn-amd-amdhsa",
        "-mcpu=gfx942",
        "-mattr=+sramecc",
        "in.ll",
        "-o",
        "out.ll",
    ]
    passes = [external.parse_codegen_pass("pre-emit:x"), external.parse_codegen_pass("before=a#2:y")]
    llc = external.fly_llc_arguments(passes, [Path("/p/m.so")], TARGETS["x86"], 3, "obj", "in.ll", "out.o")
    assert llc == [
        "-O3",
        "-mtriple=x86_64-unknown-linux-gnu",
        "-mcpu=x86-64-v3",
        "-relocation-model=pic",
        "--emit=obj",
        "--plugin=/p/m.so",
        "--inject=pre-emit:x",
        "--before=a#2:y",
        "in.ll",
        "-o",
        "out.o",
    ]


def test_points_that_do_not_exist():
    assert mir.anchor("pre-sched2", codegen.NVPTX_TRIPLE, 2) is None
    with pytest.raises(CodegenPassError, match="pre-ra-sched.*does not exist.*O0; nearest: pre-ra, post-ra"):
        mir.require_anchor("pre-ra-sched", codegen.NVPTX_TRIPLE, 0)
    with pytest.raises(CodegenPassError, match="unknown point"):
        mir.anchor("nowhere", codegen.AMDGPU_TRIPLE, 2)


def test_stock_llc_can_only_add_after():
    target = TARGETS["gfx942"]
    specs = [external.parse_codegen_pass(s) for s in ("pre-emit:a", "after=machine-cse:b")]
    assert external.injector_anchors(specs, target, 2) == [("xray-instrumentation", "a"), ("machine-cse", "b")]
    for spec in ("post-ra:a", "before=x:a", "after=greedy#2:a", "disable=x"):
        with pytest.raises(CodegenPassError, match="needs fly-llc"):
            external.injector_anchors([external.parse_codegen_pass(spec)], target, 2)


# --- what went wrong ----------------------------------------------------------------------------------------------


def failed(stderr: str, status: int = 1) -> tools.ToolRunError:
    error = tools.ToolRunError(f"opt failed with status {status}\ncommand: opt\nstderr:\n{stderr}")
    error.returncode, error.stderr = status, stderr
    return error


CRASH = 'PLEASE submit a bug report\nStack dump:\n1.\tRunning pass "my-pass" on module "in.ll"\n'


@pytest.mark.parametrize(
    ("stderr", "status", "kind", "text"),
    [
        ("opt: unknown pass name 'mine'\n", 1, PassPipelineError, "unknown pass 'mine'"),
        ("Could not load library 'x.so': x.so: cannot open shared object file", 1, PluginLoadError, "cannot be loaded"),
        ("Failed to load passes from 'x.so'. Request ignored.\nWrong API version on plugin 'x.so'. Got version 42, "
         "supported version is 2.", 1, PluginLoadError, "built for another LLVM"),
        (CRASH, -6, PassPipelineError, "pass 'my-pass' crashed"),
        ("something else\n", 1, PassPipelineError, "the pipeline 'p' failed"),
    ],
)  # fmt: skip
def test_failures_of_opt(stderr: str, status: int, kind: type, text: str):
    error = external.classify_opt(failed(stderr, status), "p")
    assert type(error) is kind and text in str(error)
    assert "command: opt" in str(error) and stderr.strip() in str(error)


@pytest.mark.parametrize(
    ("status", "kind", "text"),
    [
        (2, PluginLoadError, "a codegen plugin cannot be loaded: because"),
        (5, CodegenPassError, "unknown machine pass: because"),
        (7, CodegenPassError, "this pipeline has no such place: because"),
        (9, CodegenPassError, "a machine pass broke a function: because"),
        (-11, CodegenPassError, "a pass crashed"),
    ],
)
def test_failures_of_fly_llc(status: int, kind: type, text: str):
    error = external.classify_codegen(failed("fly-llc: error: because\n", status))
    assert type(error) is kind and str(error).startswith(text)


def fake_tool(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'LLVM version 22.1.8'; exit 0; fi\n{script}\n")
    path.chmod(0o755)
    return path


def test_the_message_has_all_there_is_to_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tool = fake_tool(tmp_path / "opt", "echo \"opt: unknown pass name 'zap'\" >&2; exit 1")
    monkeypatch.setenv("FLYDSL_COMPILE_OPT", str(tool))
    with pytest.raises(PassPipelineError) as caught:
        external.run_opt(IR, "zap", [], TARGETS["x86"], tmp_path)
    text = str(caught.value)
    for part in (
        "unknown pass 'zap'",
        str(tool),
        "22.1.8",
        "--passes=zap",
        f"directory: {tmp_path}",
        "status 1",
        "stderr",
    ):
        assert part in text


def test_a_missing_plugin_is_named_before_any_tool_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_OPT", str(tmp_path / "no-opt"))
    with pytest.raises(PluginLoadError, match="gone.so does not exist"):
        external.run_opt(IR, "x", [tmp_path / "gone.so"], TARGETS["x86"], tmp_path)


def test_a_missing_fly_llc_says_how_to_build_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tools, "_LLVM_PREFIXES", (str(tmp_path),))
    with pytest.raises(ToolNotFoundError, match="fly build-llc") as caught:
        external.find_fly_llc()
    assert ".flydsl/bin/fly-llc" in str(caught.value)


def test_libraries_of_a_tool():
    opt = tools.try_find_tool("opt")
    if opt is None:
        pytest.skip(f"opt of LLVM {tools.LLVM_MAJOR} is not installed")
    found = external.libraries_of(opt.path)
    linked = "libLLVM" in subprocess.run(["ldd", str(opt.path)], capture_output=True, text=True).stdout
    assert bool(found) is linked and all(path.is_file() for path in found)


# --- MIR ----------------------------------------------------------------------------------------------------------

MIR = """--- |
  define void @f() {
    ret void
  }
...
---
name:            f
alignment:       1
body:             |
  bb.0.entry:
    successors: %bb.1(0x80000000)
    liveins: $sgpr2

    renamable $vgpr0 = nofpexcept V_ADD_F32_e32 killed $vgpr4, killed $vgpr2, implicit $mode, debug-location !5
    BUNDLE implicit-def $sgpr2 {
      renamable $sgpr2 = S_LOAD_DWORD_IMM renamable $sgpr0_sgpr1, 44, 0 :: (load (s32) from %ir.a, addrspace 4)
    }

  bb.1.exit:
    ; predecessors: %bb.0

    S_ENDPGM 0
...
"""


def test_mir_view():
    module = mir.MirModule(MIR)
    assert str(module) == MIR
    (function,) = module.functions
    assert function.name == "f" and [len(b.instructions) for b in function.blocks] == [4, 1]
    add = function.blocks[0].instructions[0]
    assert (add.opcode, add.defs, add.flags) == ("V_ADD_F32_e32", ("renamable $vgpr0",), ("nofpexcept",))
    assert add.operands == ("killed $vgpr4", "killed $vgpr2", "implicit $mode")
    assert add.debug_location == "!5"
    load = function.blocks[0].instructions[2]
    assert load.opcode == "S_LOAD_DWORD_IMM" and load.operands == ("renamable $sgpr0_sgpr1", "44", "0")
    function.blocks[1].insert(0, "S_NOP 0")
    add.text = add.text.replace("V_ADD", "V_SUB")
    assert str(module) == MIR.replace("    S_ENDPGM", "    S_NOP 0\n    S_ENDPGM").replace("V_ADD", "V_SUB")
    assert [i.opcode for i in function.instructions()].count("S_NOP") == 1
