"""Optimising and emitting."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from flydsl.errors import DSLCompileError
from flydsl.llvm import binding, codegen, tools
from flydsl.llvm.codegen import DeviceTarget, compile_device

INLINE_ASM = """target triple = "amdgcn-amd-amdhsa"
define amdgpu_kernel void @k(ptr addrspace(1) %a) {
  call void asm sideeffect "TEXT", ""()
  store i32 1, ptr addrspace(1) %a
  ret void
}
"""

SAXPY = """
define void @saxpy(ptr noalias %x, ptr noalias %y, float %a, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %px = getelementptr inbounds float, ptr %x, i64 %i
  %py = getelementptr inbounds float, ptr %y, i64 %i
  %vx = load float, ptr %px
  %vy = load float, ptr %py
  %m = fmul float %vx, %a
  %s = fadd float %m, %vy
  store float %s, ptr %py
  %next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""

FOUR_ADDS = (
    "define void @f(ptr noalias %a, ptr noalias %b) {\n"
    + "".join(
        f"""  %p{i} = getelementptr float, ptr %a, i64 {i}
  %q{i} = getelementptr float, ptr %b, i64 {i}
  %x{i} = load float, ptr %p{i}
  %y{i} = load float, ptr %q{i}
  %s{i} = fadd float %x{i}, %y{i}
  store float %s{i}, ptr %p{i}
"""
        for i in range(4)
    )
    + "  ret void\n}\n"
)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_object_and_assembly_from_one_compile(simple_ir: str, level: int):
    """Emitting twice from one module would abort the process; this must not."""
    code = compile_device(simple_ir, DeviceTarget.amdgpu("gfx942"), level)
    first = code.object
    assert first[:4] == b"\x7fELF"
    assert "s_endpgm" in code.asm and "rotate" in code.asm
    assert "define protected amdgpu_kernel void @rotate" in code.optimized_ir
    assert code.object is first
    assert set(code.times) == {"parse", "optimize", "emit"} and all(t > 0 for t in code.times.values())


def test_compiling_is_deterministic(amdgpu_ir: str):
    target = DeviceTarget.amdgpu("gfx950")
    assert compile_device(amdgpu_ir, target).object == compile_device(amdgpu_ir, target).object


def test_want_asm(simple_ir: str):
    code = compile_device(simple_ir, DeviceTarget.amdgpu("gfx1100"), want_asm=True)
    assert code._asm is not None and "s_endpgm" in code._asm  # pyright: ignore[reportPrivateUsage]


def test_already_optimized_ir_is_left_alone():
    ir = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 0\n  ret i32 %y\n}\n"
    assert "add i32 %x, 0" in compile_device(ir, DeviceTarget.host(), 2, optimized=True).optimized_ir
    assert "add i32 %x, 0" not in compile_device(ir, DeviceTarget.host(), 2).optimized_ir


def test_triple_and_layout_are_filled_in():
    ir = "define amdgpu_kernel void @k() {\n  ret void\n}\n"
    code = compile_device(ir, DeviceTarget.amdgpu("gfx942"))
    assert 'target triple = "amdgcn-amd-amdhsa"' in code.optimized_ir and "-p3:32:32-" in code.optimized_ir


def test_ir_of_another_target():
    with pytest.raises(DSLCompileError, match="nvptx64.*amdgcn"):
        compile_device('target triple = "nvptx64-nvidia-cuda"\n', DeviceTarget.amdgpu("gfx942"))


@pytest.mark.parametrize("level", [-1, 4])
def test_bad_level(level: int):
    with pytest.raises(DSLCompileError, match="0, 1, 2 or 3"):
        compile_device("", DeviceTarget.host(), level)


@pytest.mark.parametrize("op", ["udiv urem", "sdiv srem"])
def test_quotient_and_remainder_of_small_integers_without_optimisations(op: str):
    """What LLVM's code generator for AMD GPUs cannot do at its own level 0: it ends the process."""
    div, rem = op.split()
    ir = f"""
define amdgpu_kernel void @k(ptr addrspace(1) %p, ptr addrspace(1) %q) {{
  %a = load i16, ptr addrspace(1) %p
  %b = load i16, ptr addrspace(1) %q
  %d = {div} i16 %a, %b
  %r = {rem} i16 %a, %b
  store i16 %d, ptr addrspace(1) %p
  store i16 %r, ptr addrspace(1) %q
  ret void
}}
"""
    code = compile_device(ir, DeviceTarget.amdgpu("gfx942"), 0)
    assert code.object and "s_endpgm" in code.asm


def test_alwaysinline_is_inlined_at_every_level():
    ir = """define internal i32 @twice(i32 %x) alwaysinline {
  %y = add i32 %x, %x
  ret i32 %y
}
define i32 @f(i32 %x) {
  %y = call i32 @twice(i32 %x)
  ret i32 %y
}
"""
    for level in range(4):
        assert "call" not in compile_device(ir, DeviceTarget.host(), level).optimized_ir


def packed(asm: str) -> bool:
    return re.search(r"v?(fmadd\d+|mul|add)ps", asm) is not None


@pytest.mark.skipif(not binding.host_triple().startswith("x86_64"), reason="looks for x86 instructions")
@pytest.mark.parametrize("ir", [SAXPY, FOUR_ADDS], ids=["loop", "straight"])
def test_vectorisation_of_host_code(ir: str):
    host = DeviceTarget.host()
    assert packed(compile_device(ir, host, 2).asm) and packed(compile_device(ir, host, 3).asm)
    assert not packed(compile_device(ir, host, 1).asm)
    assert not packed(compile_device(ir, replace(host, loop_vectorize=False, slp_vectorize=False), 2).asm)


def test_ptx():
    ir = """define ptx_kernel void @k(ptr addrspace(1) %a) {
  store i32 7, ptr addrspace(1) %a
  ret void
}
"""
    code = compile_device(ir, DeviceTarget.nvptx("sm_90a"))
    assert ".target sm_90a" in code.asm and ".version 8.6" in code.asm and ".entry k(" in code.asm
    with pytest.raises(DSLCompileError, match="PTX"):
        _ = code.object


def test_empty_inline_assembly_needs_no_tool():
    assert compile_device(INLINE_ASM.replace("TEXT", ""), DeviceTarget.amdgpu("gfx942")).object


def test_inline_assembly_goes_to_llc(need_tool):
    need_tool("llc")
    code = compile_device(INLINE_ASM.replace("TEXT", "s_nop 7"), DeviceTarget.amdgpu("gfx942"))
    assert bytes.fromhex("070080bf") in code.object and "s_nop 7" in code.asm


def test_inline_assembly_without_llc(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tools, "try_find_tool", lambda name: None)
    with pytest.raises(DSLCompileError, match="s_nop 7.*FLYDSL_COMPILE_LLC"):
        compile_device(INLINE_ASM.replace("TEXT", "s_nop 7"), DeviceTarget.amdgpu("gfx942"))


def test_bad_assembly_shows_llc_output(need_tool):
    need_tool("llc")
    with pytest.raises(tools.ToolRunError, match="not_an_instruction"):
        compile_device(INLINE_ASM.replace("TEXT", "not_an_instruction"), DeviceTarget.amdgpu("gfx942"))


def test_threads(simple_ir: str):
    target = DeviceTarget.amdgpu("gfx942")
    expected = compile_device(simple_ir, target).object
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: compile_device(simple_ir, target).object, range(12))) == {expected}


def test_inline_asm_detection():
    assert codegen.inline_asm("no assembly here") is None
    assert codegen.inline_asm('call void asm sideeffect alignstack "a b", "=v"()') == "a b"
    assert codegen.inline_asm('%x = call i32 asm "v_mov", "=v"()') == "v_mov"
    assert codegen.inline_asm('call void asm sideeffect "", "~{memory}"()') is None
