"""Which modules LLVM's SLP vectoriser is run on: those where it may find something, judged by what it does find."""

from __future__ import annotations

import random
import re

import pytest

from flydsl.llvm.codegen import DeviceTarget, emit_assembly, load_module, optimize
from flydsl.llvm.packing import may_pack

FLOATS = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
INTEGERS = ("i8", "i16", "i32", "i64")
TARGETS = ("gfx90a", "gfx950", "gfx1100", "gfx1201", "gfx1250", "sm_80", "sm_100a")


def operations() -> list[tuple[str, str, str]]:
    """Operation, what it takes and what it gives."""
    found: list[tuple[str, str, str]] = []
    for name, short in FLOATS.items():
        texts = [f"fadd {name} %x, %y", f"fmul contract nsz {name} %x, %y", f"fneg {name} %x"]
        texts += [f"call {name} @llvm.fma.{short}({name} %x, {name} %y, {name} %x)"]
        texts += [f"tail call nnan {name} @llvm.maxnum.{short}({name} %x, {name} %y)"]
        found += [(text, name, name) for text in texts]
        found += [(f"fptosi {name} %x to i32", name, "i32"), (f"sitofp i32 %x to {name}", "i32", name)]
    for name in INTEGERS:
        texts = [f"{op} {name} %x, %y" for op in ("add nuw", "mul", "xor", "lshr", "or disjoint")]
        texts += [f"call {name} @llvm.smax.{name}({name} %x, {name} %y)"]
        texts += [f"call range({name} 0, 9) {name} @llvm.ctpop.{name}({name} %x)"]
        texts += [f"select i1 %c, {name} %x, {name} %y"]
        found += [(text, name, name) for text in texts]
    found += [(f"fptrunc float %x to {name}", "float", name) for name in ("half", "bfloat")]
    found += [(f"fpext {name} %x to float", name, "float") for name in ("half", "bfloat")]
    found += [("trunc i32 %x to i8", "i32", "i8"), ("zext i8 %x to i32", "i8", "i32")]
    return found


def program(cpu: str, operation: str, given: str, made: str, count: int = 8) -> str:
    """`count` of an operation on neighbours in memory, other ones in each thread."""
    head, thread = (
        ("amdgpu_kernel", "amdgcn.workitem.id") if cpu.startswith("gfx") else ("ptx_kernel", "nvvm.read.ptx.sreg.tid")
    )
    lines = [f"define {head} void @k(ptr addrspace(1) align 16 %p, ptr addrspace(1) align 16 %q, i1 %c, {given} %y) {{"]
    lines += [
        f"  %t = call i32 @llvm.{thread}.x()",
        f"  %own = getelementptr <{count} x {given}>, ptr addrspace(1) %p, i32 %t",
    ]
    for i in range(count):
        lines += [f"  %p{i} = getelementptr {given}, ptr addrspace(1) %own, i32 {i}"]
        lines += [f"  %x{i} = load {given}, ptr addrspace(1) %p{i}"]
        lines += [f"  %z{i} = " + operation.replace("%x", f"%x{i}")]
    for i in range(count):
        lines += [f"  %q{i} = getelementptr {made}, ptr addrspace(1) %q, i32 {i}"]
        lines += [f"  store {made} %z{i}, ptr addrspace(1) %q{i}"]
    return "\n".join([*lines, "  ret void", "}", ""])


def target(cpu: str) -> DeviceTarget:
    return DeviceTarget.amdgpu(cpu) if cpu.startswith("gfx") else DeviceTarget.nvptx(cpu)


def size(text: str, cpu: str, slp: bool) -> int:
    """Instructions of the code, waits and all: it differs by one or two for no gain."""
    made, where = load_module(text, target(cpu)), target(cpu)
    optimize(made, where.machine(2), 2, slp_vectorize=slp)
    asm = emit_assembly(made, where.machine(2))
    return len(re.findall(r"^\t(?![./;}])", asm.replace("{", ""), re.MULTILINE))


@pytest.mark.parametrize("cpu", TARGETS)
def test_what_it_makes_smaller_is_seen(cpu: str):
    for operation, given, made in random.sample(operations(), 24):
        text = program(cpu, operation, given, made)
        assert may_pack(text, cpu) or size(text, cpu, True) > 0.9 * size(text, cpu, False), (operation, cpu)


def test_one_operation_is_packed_with_nothing():
    assert may_pack(program("gfx942", "fadd float %x, %y", "float", "float", 2), "gfx942")
    assert not may_pack(program("gfx942", "fadd float %x, %y", "float", "float", 1), "gfx942")


@pytest.mark.parametrize("operation", ["fadd <2 x half> %x, %y", "call <2 x half> @llvm.fabs.v2f16(<2 x half> %x)"])
def test_vectors_are_packed_already(operation: str):
    assert not may_pack(program("gfx942", operation, "<2 x half>", "<2 x half>"), "gfx942")


def test_an_architecture_that_nobody_knows_may_have_any_instruction():
    assert may_pack(program("gfx9999", "fadd float %x, %y", "float", "float"), "gfx9999")
