"""Registers beyond 255: text whose bits lead elsewhere is seen, and such code is made again with fewer registers."""

from __future__ import annotations

import pytest

from flydsl.llvm import codegen, far_registers
from flydsl.llvm.objects.code_object import read_code_object
from flydsl.llvm.worker import answer

GFX1250 = codegen.DeviceTarget.amdgpu("gfx1250")
COUNT = 280

RIGHT = """
kernel:
	s_set_vgpr_msb 64                       ;  msbs: dst=1 src0=0 src1=0 src2=0
	v_mad_u32 v14 /*v270*/, v234, s28, v203
	s_set_vgpr_msb 0x4000
	v_dual_add_nc_u32 v242, 64, v182 :: v_dual_add_nc_u32 v238, s66, v184
	v_add_co_u32 v1, vcc_lo, v2, v3
	v_cmp_lt_f32_e32 vcc_lo, v1, v2
	s_set_vgpr_msb 1
	v_wmma_f32_16x16x32_bf16 v[124:131], v[4:11] /*v[260:267]*/, v[26:33], v[124:131]
	v_add_co_u32 v1, s[2:3], v2 /*v258*/, v3
	v_readlane_b32 s4, v2 /*v258*/, 3
	s_set_vgpr_msb 0x104
	global_store_b128 v[0:1], v[0:3] /*v[256:259]*/, off
	s_set_vgpr_msb 0x400
	s_barrier_signal -1
"""
WRONG = {
    "a result": "\ts_set_vgpr_msb 64\n\tv_dual_mov_b32 v2 /*v258*/, 0 :: v_dual_add_nc_u32 v238, s66, v184\n",
    "a factor": "\ts_set_vgpr_msb 4\n\tv_fma_f32 v1, v2 /*v258*/, v3 /*v259*/, v4\n",
    "none": "\tv_mov_b32_e32 v1 /*v257*/, v1\n",
    "behind a label": "\ts_set_vgpr_msb 64\n.LBB0_1:\n\tv_mov_b32_e32 v1 /*v257*/, v1\n",
    "an address": "\ts_set_vgpr_msb 5\n\tglobal_load_b32 v1 /*v769*/, v[2:3] /*v[258:259]*/, off\n",
}


def test_what_is_right():
    assert far_registers.misplaced(RIGHT) is None


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong(name: str):
    found = far_registers.misplaced(RIGHT + WRONG[name])
    assert found is not None and found == WRONG[name].splitlines()[-1].strip()


def test_limits():
    text = (
        "define void @f() {\ndefine protected amdgpu_kernel void @k(<{ i32 }> %a0) #0 !reqd_work_group_size !1 {\n"
        'attributes #0 = { "amdgpu-num-vgpr"="300" }\nattributes #1 = { "amdgpu-num-vgpr"="64" }\n'
    )
    first, kernel, *groups = far_registers.limited(text, 272).splitlines()
    assert first == "define void @f() {"
    assert kernel.endswith('%a0) #0 "amdgpu-num-vgpr"="272" !reqd_work_group_size !1 {')
    assert [group.split('"')[3] for group in groups] == ["272", "64"]
    assert [far_registers.fewer(count) for count in (300, 296, 264, 257)] == [296, 288, 256, 256]


def kernel() -> str:
    """All of so many numbers are there at once."""
    lines = ["define amdgpu_kernel void @k(ptr addrspace(1) %a) #0 {"]
    lines += [f"  %p{i} = getelementptr i32, ptr addrspace(1) %a, i32 {i}" for i in range(COUNT)]
    lines += [f"  %v{i} = load volatile i32, ptr addrspace(1) %p{i}" for i in range(COUNT)]
    lines += [f"  store volatile i32 %v{i}, ptr addrspace(1) %p{i}" for i in range(COUNT)]
    return "\n".join([*lines, "  ret void", "}", 'attributes #0 = { "amdgpu-flat-work-group-size"="64,64" }'])


def registers(made: bytes) -> int:
    return read_code_object(made).kernels[0].vgpr


def test_code_is_made_again(monkeypatch: pytest.MonkeyPatch):
    """With fewer registers each time, and the text is that of the code; a worker's is, too."""
    plain = codegen.compile_device(kernel(), GFX1250)
    assert registers(plain.object) > COUNT and far_registers.misplaced(plain.asm) is None

    def some(asm: str) -> str | None:
        return "" if int(asm.partition(".vgpr_count:")[2].split()[0]) > COUNT - 10 else None

    monkeypatch.setattr(far_registers, "misplaced", some)
    again = codegen.compile_device(kernel(), GFX1250)
    assert far_registers.NEAR < registers(again.object) <= COUNT - 10
    assert f".vgpr_count:     {registers(again.object)}\n" in again.asm
    fields = {"triple": GFX1250.triple, "cpu": GFX1250.cpu}
    request = {"do": "assembly", "bitcode": False, "target": fields, "level": 2, "optimized": False}
    assert answer(request, [kernel().encode()])[1][0].decode() == again.asm


def test_few_registers_are_not_looked_at(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(far_registers, "misplaced", lambda asm: pytest.fail("looked at"))
    few = "define amdgpu_kernel void @k(ptr addrspace(1) %a) {\n  store i32 1, ptr addrspace(1) %a\n  ret void\n}"
    codegen.compile_device(few, GFX1250)
    codegen.compile_device(kernel(), codegen.DeviceTarget.amdgpu("gfx942"))
