"""Warp collectives of the `gpu` dialect as text for each target, from IR."""

from __future__ import annotations

import re

import pytest
from xdsl.parser import Parser

from flydsl.cpu.code import abi as abi_cpu
from flydsl.dialects.upstream.gpu import ModuleOp
from flydsl.ir.registry import make_context
from flydsl.llvm import binding, codegen
from flydsl.llvm.text import abi_amdgpu, abi_nvptx

BODY = """
    %t = gpu.thread_id x
    %i = arith.index_cast %t : index to i32
    %v = arith.muli %i, %n : i32
    %d = arith.sitofp %v : i32 to f64
    %c = arith.cmpi slt, %v, %n : i32
    %w = arith.constant 32 : i32
    %o = arith.constant 3 : i32
    %a, %ok = gpu.shuffle xor %v, %o, %w : i32
    %b, %ok2 = gpu.shuffle up %d, %v, %w : f64
    %m = "gpu.ballot"(%c) : (i1) -> i64
    %any = "gpu.vote"(%c) <{mode = "any"}> : (i1) -> i1
    %all = "gpu.vote"(%c) <{mode = "all"}> : (i1) -> i1
    %f = "gpu.subgroup_broadcast"(%a) : (i32) -> i32
    %g = "gpu.subgroup_broadcast"(%d, %o) : (f64, i32) -> f64
    %s = llvm.mlir.addressof @__shared_alloc_0 : !llvm.ptr<SPACE>
    "llvm.store"(%f, %s) <{alignment = 4 : i64}> : (i32, !llvm.ptr<SPACE>) -> ()
    gpu.barrier
    %r = "llvm.load"(%s) <{alignment = 4 : i64, ordering = 0 : i64}> : (!llvm.ptr<SPACE>) -> i32
"""
RESULTS = {"a": "i32", "b": "f64", "m": "i64", "any": "i1", "all": "i1", "g": "f64", "r": "i32"}


def kernel() -> str:
    """All collectives, each result stored to a place of its own."""
    lines: list[str] = []
    for k, (name, type_) in enumerate(RESULTS.items()):
        props = f"elem_type = !llvm.array<{k + 9} x i64>, rawConstantIndices = array<i32: -2147483648>"
        lines += [
            f'    %at{k} = "llvm.getelementptr"(%p, %i) <{{{props}, noWrapFlags = 0 : i32}}>'
            " : (!llvm.ptr<GLOBAL>, i32) -> !llvm.ptr<GLOBAL>",
            f'    "llvm.store"(%{name}, %at{k}) <{{alignment = 1 : i64}}> : ({type_}, !llvm.ptr<GLOBAL>) -> ()',
        ]
    attributes = "{addr_space = SPACE : i32, alignment = 16 : i64} : !llvm.array<64 x i8>"
    return (
        f"gpu.module @kernels {{\n  llvm.mlir.global external @__shared_alloc_0() {attributes}\n"
        "  gpu.func @k(%p: !llvm.ptr<GLOBAL>, %n: i32) kernel attributes {known_block_size = array<i32: 256, 1, 1>} {"
        + BODY
        + "\n".join(lines)
        + "\n    gpu.return\n  }\n}\n"
    )


def device(shared: int, space: int) -> ModuleOp:
    text = kernel().replace("SPACE", str(shared)).replace("GLOBAL", str(space))
    module = Parser(make_context(), text).parse_module()
    return next(op for op in module.ops if isinstance(op, ModuleOp))


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_amdgpu(arch: str):
    text = abi_amdgpu.device_module(device(3, 1), binding.data_layout(abi_amdgpu.TRIPLE, arch))
    assert "@__shared_alloc_0 = internal addrspace(3) global [64 x i8] poison, align 16" in text
    asm = codegen.compile_device(text, codegen.DeviceTarget.amdgpu(arch), 2).asm
    for word in ("ds_swizzle_b32", "ds_bpermute_b32", "v_readfirstlane_b32", "v_readlane_b32"):
        assert word in asm
    ballots = dict(re.findall(r"(%\w+) = call i64 @llvm.amdgcn.ballot.i64\(i1 ([%\w]+)\)", text))
    # A wave need not be whole: what all lanes are is a ballot, too.
    ((all_,),) = [(name,) for name, of in ballots.items() if of == "true"]
    compared = re.findall(r"icmp (eq|ne) i64 (%\w+), ([%\w]+)", text)
    assert sorted((how, against if against == "0" else "all") for how, _, against in compared) == [
        ("eq", "all"),
        ("ne", "0"),
    ]
    assert {against for _, _, against in compared} == {"0", all_} and {at for _, at, _ in compared} <= set(ballots)


def test_nvptx():
    text = abi_nvptx.device_module(device(3, 1), binding.data_layout(abi_nvptx.TRIPLE))
    asm = codegen.compile_device(text, codegen.DeviceTarget.nvptx("sm_90"), 2).asm
    for word in ("shfl.sync.bfly.b32", "vote.sync.ballot.b32", "vote.sync.any", "vote.sync.all", ".shared .align 16"):
        assert word in asm
    ((votes,),) = [(name,) for name in re.findall(r"(%\w+) = call i32 @llvm.nvvm.vote.ballot.sync\(", text)]
    assert f"zext i32 {votes} to i64" in text  # lane 31 is no sign


@pytest.mark.parametrize("warp", [32, 64])
@pytest.mark.parametrize("known", [True, False])
def test_cpu(warp: int, known: bool):
    """A block whose size is known runs in phases, another one as coroutines."""
    triple = binding.host_triple()
    module = device(0, 0)
    if not known:
        for op in module.walk():
            op.properties.pop("known_block_size", None)
    text = abi_cpu.device_module(module, triple, binding.data_layout(triple), warp)
    assert ("presplitcoroutine" in text) is not known
    assert text.count("define internal i64 @fly_drain") == (0 if known else 1)
    assert codegen.compile_device(text, codegen.DeviceTarget.host(), 2).object
