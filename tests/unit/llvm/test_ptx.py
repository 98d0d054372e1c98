"""PTX headers, ptxas and its log."""

from __future__ import annotations

import pytest

from flydsl.llvm.codegen import DeviceTarget, compile_device
from flydsl.llvm.objects import ptx

KERNELS = """
@tile = internal addrspace(3) global [256 x float] poison, align 16
define ptx_kernel void @first(ptr addrspace(1) %a) "nvvm.reqntid"="256" {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr float, ptr addrspace(1) %a, i32 %t
  %l = getelementptr float, ptr addrspace(3) @tile, i32 %t
  %v = load float, ptr addrspace(1) %p
  store float %v, ptr addrspace(3) %l
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %x = xor i32 %t, 1
  %m = getelementptr float, ptr addrspace(3) @tile, i32 %x
  %w = load float, ptr addrspace(3) %m
  store float %w, ptr addrspace(1) %p
  ret void
}
define ptx_kernel void @second(ptr addrspace(1) %a, i32 %k) {
  store i32 %k, ptr addrspace(1) %a
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
"""

LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'big' for 'sm_90a'
ptxas info    : Function properties for big
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 168 registers, used 2 barriers, 1024 bytes smem, 532 bytes cmem[0]
ptxas info    : Compiling entry function 'small' for 'sm_90a'
ptxas info    : Function properties for small
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, 0 bytes smem
"""


@pytest.fixture(scope="module")
def text() -> str:
    return compile_device(KERNELS, DeviceTarget.nvptx("sm_90a")).asm


def test_header_and_kernels(text: str):
    assert ptx.ptx_kernels(text) == ["first", "second"]
    assert ptx.ptx_header(text) == ptx.PtxHeader("8.6", "sm_90a", 64)
    assert ptx.ptx_kernels("// .entry no(\n/* .entry nor\n */ .visible .entry yes$1(") == ["yes$1"]
    with pytest.raises(ptx.PtxasError, match="not PTX"):
        ptx.ptx_header("hello")


def test_log():
    usage = ptx.parse_log(LOG)
    assert usage == {
        "big": ptx.KernelUsage(168, 16, 8, 12, 1024, 2),
        "small": ptx.KernelUsage(registers=8),
    }
    assert ptx.parse_log("") == {}


def test_assemble(text: str, need_tool):
    need_tool("ptxas")
    cubin, log = ptx.assemble(text, "sm_90a")
    assert cubin[:4] == b"\x7fELF"
    usage = ptx.parse_log(log)
    assert set(usage) == {"first", "second"}
    assert usage["first"].shared == 1024 and usage["first"].registers > 0 and usage["first"].barriers == 1
    assert ptx.assemble(text)[0] == cubin, "the target in the text is the default"


def test_error_holds_the_log(text: str, need_tool):
    need_tool("ptxas")
    with pytest.raises(ptx.PtxasError) as caught:
        ptx.assemble(text.replace("ret;", "rett;"), "sm_90a")
    assert "for sm_90a" in str(caught.value) and "rett" in str(caught.value)
