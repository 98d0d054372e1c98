"""Ops of rocdl that a file names reach the instructions they stand for: LLVM's names end in types of operands."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

from flydsl.dialects.upstream.gpu import ModuleOp
from flydsl.ir.registry import make_context
from flydsl.llvm import binding, codegen
from flydsl.llvm.text import abi_amdgpu

BUFFERS = """
    %r = rocdl.make.buffer.rsrc %p, %h, %l, %n : <1> to <8>
    %x = rocdl.raw.ptr.buffer.load %r, %n, %n, 0 : vector<4xf32>
    rocdl.raw.ptr.buffer.store %x, %r, %n, %n, 0 : vector<4xf32>
    %y = rocdl.raw.ptr.buffer.atomic.smax %n, %r, %n, %n, 0 : i32
    %z = rocdl.raw.ptr.buffer.atomic.cmpswap %y, %n, %r, %n, %n, 0 : i32
    rocdl.raw.ptr.buffer.store %z, %r, %n, %n, 0 : i32
"""
PRODUCTS = """
    %r = rocdl.make.buffer.rsrc %p, %h, %l, %n : <1> to <8>
    %a = rocdl.raw.ptr.buffer.load %r, %n, %n, 0 : vector<4xi32>
    %b = rocdl.raw.ptr.buffer.load %r, %n, %n, 16 : vector<4xi32>
    %i = arith.constant dense<0> : vector<8xi32>
    %w = rocdl.wmma.i32.16x16x16.iu8 %a, %b, %i {clamp = false, signA = true, signB = false} : SHAPES
    %e = vector.extract_strided_slice %w {offsets = [4], sizes = [4], strides = [1]} : vector<8xi32> to vector<4xi32>
    rocdl.raw.ptr.buffer.store %e, %r, %n, %n, 0 : vector<4xi32>
""".replace("SHAPES", "(vector<4xi32>, vector<4xi32>, vector<8xi32>) -> vector<8xi32>")


@pytest.mark.parametrize(
    ("arch", "body", "words"),
    [
        ("gfx942", BUFFERS, ("buffer_load_dwordx4", "buffer_store_dwordx4", "atomic_smax", "atomic_cmpswap")),
        ("gfx1100", PRODUCTS, ("v_wmma_i32_16x16x16_iu8", "neg_lo:[1,0,0]")),
    ],
)
def test_instructions(arch: str, body: str, words: tuple[str, ...]):
    kernel = f"gpu.func @k(%p: !llvm.ptr<1>, %h: i16, %l: i64, %n: i32) kernel {{{body}    gpu.return\n  }}"
    module = Parser(make_context(), f"gpu.module @kernels {{\n  {kernel}\n}}\n").parse_module()
    device = next(op for op in module.ops if isinstance(op, ModuleOp))
    text = abi_amdgpu.device_module(device, binding.data_layout(abi_amdgpu.TRIPLE, arch))
    asm = codegen.compile_device(text, codegen.DeviceTarget.amdgpu(arch), 2).asm
    for word in words:
        assert word in asm
