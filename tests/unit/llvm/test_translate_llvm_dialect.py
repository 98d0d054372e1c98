"""The llvm, rocdl and nvvm dialects as LLVM IR: every op of the text files, read and verified by LLVM."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from flydsl.dialects.upstream import gpu
from flydsl.errors import DSLCompileError
from flydsl.ir.parser import LocatedParser
from flydsl.ir.registry import make_context
from flydsl.llvm import binding
from flydsl.llvm.text import abi_amdgpu, abi_nvptx, function_text
from flydsl.passes.pipeline import parse_pipeline

DIALECTS = Path(__file__).resolve().parents[2] / "filecheck" / "dialects"
FILES = {
    "llvm": DIALECTS / "upstream" / "llvm.mlir",
    "rocdl": DIALECTS / "upstream" / "rocdl.mlir",
    "newer": DIALECTS / "rocdl" / "newer.mlir",
    "nvvm": DIALECTS / "upstream" / "nvvm.mlir",
    "constrained": DIALECTS / "llvm" / "constrained.mlir",
}
UNKNOWN = ("load.async.lds", "asyncmark", "tensor.", "cluster.", "is.fpclass", "wave.id", "getreg")
"""Instructions that LLVM 22 lacks, or has with other operands: the text is right for a newer one."""


def module_of(text: str, *passes: str) -> gpu.ModuleOp:
    """A device module with the functions of a text."""
    body = re.sub(r"//.*", "", text)
    parsed = LocatedParser(make_context(), f"gpu.module @m {{\n{body}\n}}", "test.mlir").parse_module()
    for p in parse_pipeline(",".join(passes)):
        parsed = p.run(parsed)
    (module,) = (op for op in parsed.ops if isinstance(op, gpu.ModuleOp))
    return module


def kept(text: str, words: tuple[str, ...]) -> str:
    """The text without lines that say any of these words."""
    return "\n".join(line for line in text.splitlines() if not any(word in line for word in words))


def amd(module: gpu.ModuleOp) -> str:
    return abi_amdgpu.device_module(module, binding.data_layout(abi_amdgpu.TRIPLE, "gfx942"))


def nvidia(module: gpu.ModuleOp) -> str:
    return abi_nvptx.device_module(module, binding.data_layout(abi_nvptx.TRIPLE))


@pytest.fixture
def everything(monkeypatch):
    """Ops whose results nobody uses are written too."""
    monkeypatch.setattr(function_text, "mark_dead", lambda op, **options: set())


@pytest.mark.parametrize("name", FILES)
def test_llvm_accepts_every_op(name, everything):
    opt = shutil.which("opt-22")
    if opt is None:
        pytest.skip("opt-22 is not installed")
    module = module_of(kept(FILES[name].read_text(), UNKNOWN))
    ir = nvidia(module) if name == "nvvm" else amd(module)
    done = subprocess.run([opt, "-passes=verify", "-disable-output"], input=ir, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", FILES)
def test_every_op_has_a_translation(name, everything):
    module = module_of(FILES[name].read_text())
    ir = nvidia(module) if name == "nvvm" else amd(module)
    assert len(set(re.findall(r"call [^@]*@(llvm\.[\w.]+)\(", ir))) >= 8


def function(body: str, attributes: str = "") -> str:
    head = f"llvm.func @f(%p: !llvm.ptr<1>, %q: !llvm.ptr, %i: i32, %x: f32, %c: i1, %d: f64){attributes}"
    return f"{head} {{\n{body}\nllvm.return\n}}"


LINES = {
    "llvm.store %x, %p {alignment = 4 : i64, nontemporal} : f32, !llvm.ptr<1>": (
        "store float %a3, ptr addrspace(1) %a0, align 4, !nontemporal"
    ),
    '%0 = llvm.load %p atomic syncscope("agent") acquire {alignment = 4 : i64} : !llvm.ptr<1> -> i32\n'
    "llvm.store %0, %p : i32, !llvm.ptr<1>": (
        'load atomic i32, ptr addrspace(1) %a0 syncscope("agent") acquire, align 4'
    ),
    "%0 = llvm.fadd %x, %x {fastmathFlags = #llvm.fastmath<nnan, contract>} : f32\n"
    "llvm.store %0, %p : f32, !llvm.ptr<1>": "fadd contract nnan float %a3, %a3",
    "%0 = llvm.add %i, %i overflow<nsw> : i32\nllvm.store %0, %p : i32, !llvm.ptr<1>": "add nsw i32 %a2, %a2",
    "%0 = llvm.getelementptr inbounds|nuw %p[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32\n"
    "llvm.store %x, %0 : f32, !llvm.ptr<1>": "getelementptr inbounds nuw float, ptr addrspace(1) %a0, i32 %a2",
    "%0 = llvm.intr.experimental.constrained.fptrunc %d towardzero ignore : f64 to f32\n"
    "llvm.store %0, %p : f32, !llvm.ptr<1>": (
        "call float @llvm.experimental.constrained.fptrunc.f32.f64("
        'double %a5, metadata !"round.towardzero", metadata !"fpexcept.ignore") strictfp'
    ),
    "%0 = llvm.intr.experimental.constrained.fcmp olt %x, %x strict : f32\nllvm.store %0, %p : i1, !llvm.ptr<1>": (
        "call i1 @llvm.experimental.constrained.fcmp.f32("
        'float %a3, float %a3, metadata !"olt", metadata !"fpexcept.strict") strictfp'
    ),
    'llvm.fence syncscope("workgroup") release': 'fence syncscope("workgroup") release',
    "%0 = rocdl.workitem.id.x range <i32, 0, 64> : i32\nllvm.store %0, %p : i32, !llvm.ptr<1>": (
        "call range(i32 0, 64) i32 @llvm.amdgcn.workitem.id.x()"
    ),
    "rocdl.sched.group.barrier mfma_wmma, 2, 0": ("call void @llvm.amdgcn.sched.group.barrier(i32 8, i32 2, i32 0)"),
    "%0 = llvm.cmpxchg weak %p, %i, %i acq_rel monotonic : !llvm.ptr<1>, i32": (
        "cmpxchg weak ptr addrspace(1) %a0, i32 %a2, i32 %a2 acq_rel monotonic"
    ),
}


@pytest.mark.parametrize("line", LINES)
def test_line(line):
    assert LINES[line] in amd(module_of(function(line)))


def test_kernel_attributes():
    attributes = (
        " attributes {rocdl.kernel, rocdl.reqd_work_group_size = array<i32: 64, 2, 1>, rocdl.waves_per_eu = 2 : i32, "
        'passthrough = [["amdgpu-cluster-dims", "2,1,1"]]}'
    )
    ir = amd(module_of(function("", attributes)))
    assert "define protected amdgpu_kernel void @f(ptr addrspace(1) %a0" in ir
    assert '"amdgpu-flat-work-group-size"="128,128"' in ir
    assert '"amdgpu-waves-per-eu"="2"' in ir and '"amdgpu-cluster-dims"="2,1,1"' in ir
    ir = nvidia(module_of(function("", " attributes {nvvm.kernel, nvvm.reqntid = array<i32: 64, 1, 1>}")))
    assert "define ptx_kernel void @f(" in ir and '"nvvm.reqntid"="64,1,1"' in ir


def test_sizes_come_from_the_implicit_arguments():
    body = "%0 = rocdl.workgroup.dim.x : i64\nllvm.store %0, %p : i64, !llvm.ptr<1>"
    ir = amd(module_of(function(body, " attributes {rocdl.kernel}")))
    assert "llvm.amdgcn.implicitarg.ptr" in ir and '"amdgpu-no-implicitarg-ptr"' not in ir


def test_debug_locations_when_asked():
    """With a scope every instruction has its line; without one the text has no metadata of that kind."""
    text = function("llvm.store %x, %p : f32, !llvm.ptr<1>")
    assert "!dbg" not in amd(module_of(text))
    ir = amd(module_of(text, "ensure-debug-info-scope-on-llvm-func"))
    (line,) = (line for line in ir.splitlines() if "store float" in line)
    number = re.search(r"!dbg !(\d+)", line)
    assert number is not None
    location = re.search(rf"^!{number[1]} = (.*)$", ir, re.MULTILINE)
    assert location is not None and "!DILocation(line: 3," in location[1]
    assert "!DISubprogram(" in ir and "emissionKind: LineTablesOnly" in ir
    opt = shutil.which("opt-22")
    if opt is not None:
        subprocess.run([opt, "-passes=verify", "-disable-output"], input=ir, text=True, check=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func @k() {\nfunc.return\n}", "'func.func' is not of the llvm dialect"),
        (
            "llvm.func @f(%i: i32, %p: !llvm.ptr) {\n%0 = arith.addi %i, %i : i32\n"
            "llvm.store %0, %p : i32, !llvm.ptr\nllvm.return\n}",
            "'arith.addi' is not of the llvm dialect",
        ),
        ("llvm.func @f(%p: !llvm.ptr {llvm.sideways}) {\nllvm.return\n}", "argument attribute 'llvm.sideways'"),
    ],
)
def test_what_cannot_be_translated(text, message):
    with pytest.raises(DSLCompileError, match=message):
        amd(module_of(text))
