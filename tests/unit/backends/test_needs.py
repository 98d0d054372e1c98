"""What code asks of NVIDIA's assembler beyond its architecture: declared where it is made, carried to the code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.target import needs

X = np.zeros(128, "f4")


@flyc.kernel
def fewer_kernel(x: fx.Tensor):
    fx.nvgpu.setmaxnreg(24, increase=False)
    x[fx.thread_idx.x] = x[fx.thread_idx.x] + 1


@flyc.jit
def fewer(x: fx.Tensor):
    fewer_kernel(x).launch(grid=1, block=128)


@flyc.kernel
def written_kernel(x: fx.Tensor, text: fx.Constexpr):
    fx.inline_asm(None, [], text, "", has_side_effects=True)
    x[fx.thread_idx.x] = x[fx.thread_idx.x] + 1


@flyc.jit
def written(x: fx.Tensor, text: fx.Constexpr):
    written_kernel(x, text).launch(grid=1, block=128)


def compiled(function: Any, *args: Any, dumped: bool = False) -> tuple[str, str, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
        if dumped:
            patch.setenv("FLYDSL_DEBUG_PRINT_AFTER", "no-such-pass")
        function.invalidate()
        artifact = flyc.compile(function, *args, target="cuda:sm_90").artifact
    return artifact.metadata["chip"], artifact.asm, artifact.text("llvm")


@pytest.mark.parametrize("dumped", [False, True])
def test_a_feature_brings_its_need(dumped: bool):
    chip, asm, ir = compiled(fewer, X, dumped=dumped)
    assert chip == "sm_90a" and ".target sm_90a" in asm
    assert needs.read(ir) == {needs.ARCH_SPECIFIC}


def test_assembly_of_the_user_is_asked_itself():
    chip, asm, _ = compiled(written, X, "wgmma.fence.sync.aligned;")
    assert chip == "sm_90a" and ".target sm_90a" in asm
    # Words in comments of other lines, names and texts of the module do not count, only what is assembled.
    chip, asm, ir = compiled(written, X, "bar.warp.sync 0xffffffff;")
    assert chip == "sm_90" and not needs.read(ir)


def test_needs_survive_llvm():
    from flydsl.llvm import binding

    text = "\n".join(["define void @f() {", "  ret void", "}", *needs.lines(["ptx84", needs.ARCH_SPECIFIC]), ""])
    assert needs.read(str(binding.parse(text))) == {"ptx84", needs.ARCH_SPECIFIC}
    assert needs.ptx_version(needs.read(text)) == 84 and needs.ptx_version(()) == 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("llvm.nvvm.mma.m16n8k32.row.col.f32.e4m3.e5m2.f32", {"ptx84"}),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {$0}, {$1};", {"ptx84"}),
        ("llvm.nvvm.mma.m16n8k16.row.col.f32.bf16", set[str]()),
        ("mma.sync.aligned.kind::mxf4.block_scale.m16n8k64", {needs.ARCH_SPECIFIC}),
        ("tcgen05.commit;", {needs.ARCH_SPECIFIC}),
    ],
)
def test_what_instructions_need(text: str, found: set[str]):
    assert needs.of_code(text) == found
