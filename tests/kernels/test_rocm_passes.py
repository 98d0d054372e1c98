"""AMD atoms through the passes one by one, from the printed IR: the same as the one walk the driver takes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from xdsl.parser import Parser

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.backends.base import common_passes
from flydsl.dialects.upstream import gpu
from flydsl.ir.registry import make_context
from flydsl.llvm import binding
from flydsl.llvm.text import abi_amdgpu
from flydsl.passes.pipeline import parse_pipeline

from .rocm_tiles import arguments, make_tile, tile
from .test_rocm_buffers import access, dma, ops
from .test_rocm_scaled import tdm, trans

PIPELINE = ",".join(common_passes("convert-fly-to-rocdl"))


def intrinsics(text: str) -> list[str]:
    return sorted(re.findall(r"call \S+ .*@(llvm\.amdgcn\.[\w.]+)\(|call void @(llvm\.amdgcn\.[\w.]+)\(", text))


def examples():
    x, y, z, _ = make_tile(32, 32, 32, "Float16", "Float16", "Float32", np.random.default_rng(0))
    yield "mfma", tile, (*arguments(x, y, z), "MFMA", (16, 16, 16, fx.Float16, fx.Float32), (2, 1, 1)), "gfx942"
    yield "wmma", tile, (*arguments(x, y, z), "WMMA", (16, 16, 16, fx.Float16, fx.Float32), (2, 1, 1)), "gfx1201"
    s, d = (flyc.from_dlpack(np.zeros(n, np.float32)) for n in (100, 128))
    yield "buffers", access, (s, d, 7), "gfx942"
    yield "buffer_ops", ops, (s, d, 7), "gfx1100"
    numbers = [flyc.from_dlpack(np.zeros(512, np.int32)) for _ in range(2)]
    yield "into_shared", dma, (*numbers, "BufferCopyLDS32b", 1), "gfx942"
    yield "async", dma, (*numbers, "GlobalLoadAsyncLDS128b", 4), "gfx950"
    yield "transposed", trans, (*numbers, 16, 64, fx.Float16), "gfx950"
    halves = [flyc.from_dlpack(np.zeros(32 * 64, np.float16)) for _ in range(2)]
    yield "mover", tdm, (*halves, 3, 1), "gfx1250"


@pytest.mark.parametrize(("name", "function", "args", "arch"), list(examples()), ids=lambda x: str(x)[:10])
def test_pass_by_pass(name: str, function, args, arch: str):
    artifact = flyc.compile(function, *args, target=f"rocm:{arch}").artifact
    module = Parser(make_context(), artifact.source_ir).parse_module()
    for p in parse_pipeline(PIPELINE):
        module = p.run(module)
        module.verify()
    device = next(op for op in module.ops if isinstance(op, gpu.ModuleOp))
    text = abi_amdgpu.device_module(device, binding.data_layout(abi_amdgpu.TRIPLE, arch))
    assert intrinsics(text) == intrinsics(artifact.llvm_ir)
