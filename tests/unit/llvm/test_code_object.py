"""Reading metadata back."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flydsl.llvm import codegen
from flydsl.llvm.objects import amdgpu_link
from flydsl.llvm.objects.code_object import ArgInfo, CodeObjectError, ElfFile, decode_msgpack, read_code_object


def compile_object(ir: str, arch: str = "gfx942") -> bytes:
    return codegen.compile_device(ir, codegen.DeviceTarget.amdgpu(arch)).object


@pytest.mark.parametrize(("arch", "wave"), [("gfx942", 64), ("gfx950", 64), ("gfx1100", 32), ("gfx1201", 32)])
def test_kernel(simple_ir: str, arch: str, wave: int):
    obj = compile_object(simple_ir, arch)
    info = read_code_object(obj)
    assert info.target_id == f"amdgcn-amd-amdhsa--{arch}" and info.version == (1, 2) and not info.linked
    (kernel,) = info.kernels
    assert kernel is info.kernel("rotate")
    assert (kernel.name, kernel.symbol) == ("rotate", "rotate.kd")
    assert (kernel.lds, kernel.scratch, kernel.wavefront_size, kernel.max_flat_workgroup_size) == (1024, 0, wave, 256)
    assert kernel.vgpr > 0 and kernel.sgpr > 0 and kernel.vgpr_spill == kernel.sgpr_spill == 0
    assert kernel.args[:2] == (
        ArgInfo("a", 0, 8, "global_buffer", "global"),
        ArgInfo("s", 8, 16, "by_value"),
    )
    assert kernel.kernarg_size >= 24 and kernel.reqd_workgroup_size is None
    assert 0 < kernel.code_size <= next(s.size for s in ElfFile(obj).sections if s.name == ".text")
    linked = read_code_object(amdgpu_link.link(obj))
    assert linked.linked and linked.kernels == info.kernels


def test_hidden_arguments():
    ir = """define amdgpu_kernel void @k(ptr addrspace(1) %a) {
  %p = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %v = load i32, ptr addrspace(4) %p
  store i32 %v, ptr addrspace(1) %a
  ret void
}
declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 600}
"""
    (kernel,) = read_code_object(compile_object(ir)).kernels
    assert [a.hidden for a in kernel.args][:2] == [False, True]
    assert kernel.args[1].value_kind == "hidden_block_count_x"


def test_required_workgroup_size_and_spills():
    ir = """define amdgpu_kernel void @k(ptr addrspace(1) %a) !reqd_work_group_size !1 {
  %v = load volatile <64 x i32>, ptr addrspace(1) %a
  %w = load volatile <64 x i32>, ptr addrspace(1) %a
  %x = load volatile <64 x i32>, ptr addrspace(1) %a
  %y = load volatile <64 x i32>, ptr addrspace(1) %a
  store volatile <64 x i32> %v, ptr addrspace(1) %a
  store volatile <64 x i32> %w, ptr addrspace(1) %a
  store volatile <64 x i32> %x, ptr addrspace(1) %a
  store volatile <64 x i32> %y, ptr addrspace(1) %a
  ret void
}
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 600}
!1 = !{i32 1024, i32 1, i32 1}
"""
    (kernel,) = read_code_object(compile_object(ir)).kernels
    assert kernel.reqd_workgroup_size == (1024, 1, 1) and kernel.max_flat_workgroup_size == 1024
    assert kernel.vgpr_spill > 0 and kernel.scratch > 0


def test_unknown_kernel(simple_ir: str):
    with pytest.raises(KeyError, match="there are: rotate"):
        read_code_object(compile_object(simple_ir)).kernel("turn")


def patched(obj: bytes, symbol: str, at: int, form: str, value: int) -> bytes:
    file = ElfFile(obj)
    table = file.section(".symtab")
    assert table is not None
    index = next(s.index for s in file.symbols() if s.name == symbol)
    out = bytearray(obj)
    struct.pack_into(form, out, table.offset + 24 * index + at, value)
    return bytes(out)


def test_checks(simple_ir: str):
    obj = compile_object(simple_ir)
    text = ElfFile(obj).section(".text")
    assert text is not None
    cases = [
        (b"", "not an ELF"),
        (b"\x7fELF\x01\x01" + bytes(58), "ELF64"),
        (patched(obj, "rotate.kd", 16, "<Q", 32), "32 bytes, not 64"),
        (patched(obj, "rotate.kd", 6, "<H", text.index), "in .text, not in .rodata"),
        (patched(obj, "rotate.kd", 6, "<H", 0), "not defined"),
        (patched(obj, "rotate", 6, "<H", 0), "has no code"),
        (obj[:18] + b"\x3e\x00" + obj[20:], "not an AMDGPU file"),
        (obj[:7] + b"\x00" + obj[8:], "not an HSA"),
    ]
    for data, message in cases:
        with pytest.raises(CodeObjectError, match=message):
            read_code_object(data)


def encode(value: object) -> bytes:
    """MessagePack in its longest forms, the short ones being covered by real objects."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return b"\xd3" + struct.pack(">q", value) if value < 0 else b"\xcf" + struct.pack(">Q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        raw = value.encode()
        return b"\xdb" + struct.pack(">I", len(raw)) + raw
    if isinstance(value, bytes):
        return b"\xc6" + struct.pack(">I", len(value)) + value
    if isinstance(value, list):
        return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(encode, value))
    assert isinstance(value, dict)
    return b"\xdf" + struct.pack(">I", len(value)) + b"".join(encode(k) + encode(v) for k, v in value.items())


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(VALUES)
def test_msgpack_round_trip(value: object):
    assert decode_msgpack(encode(value)) == value


@given(st.binary(max_size=40))
def test_msgpack_never_crashes(data: bytes):
    try:
        decode_msgpack(data)
    except CodeObjectError:
        pass


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x07", 7),
        (b"\xff", -1),
        (b"\xcc\xc8", 200),
        (b"\xd0\x80", -128),
        (b"\xcd\x01\x00", 256),
        (b"\xd1\xff\x00", -256),
        (b"\xce\x00\x01\x00\x00", 65536),
        (b"\xa3abc", "abc"),
        (b"\xd9\x03abc", "abc"),
        (b"\xda\x00\x03abc", "abc"),
        (b"\x92\x01\x02", [1, 2]),
        (b"\xdc\x00\x01\x05", [5]),
        (b"\x81\xa1a\xc3", {"a": True}),
        (b"\xde\x00\x01\xa1a\xc2", {"a": False}),
        (b"\xc4\x01z", b"z"),
        (b"\xca\x3f\x80\x00\x00", 1.0),
    ],
)
def test_msgpack_forms(data: bytes, value: object):
    assert decode_msgpack(data) == value


@pytest.mark.parametrize("data", [b"", b"\xa3ab", b"\xc1", b"\x01\x02", b"\xd4\x00\x00"])
def test_msgpack_damage(data: bytes):
    with pytest.raises(CodeObjectError, match="damaged metadata"):
        decode_msgpack(data)
