"""Choosing a linker."""

from __future__ import annotations

import pytest

from flydsl.llvm import codegen, tools
from flydsl.llvm.objects import link


@pytest.fixture
def obj(simple_ir: str) -> bytes:
    return codegen.compile_device(simple_ir, codegen.DeviceTarget.amdgpu("gfx942")).object


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path):
    """A machine with no LLVM."""
    monkeypatch.setattr(tools, "_LLVM_PREFIXES", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    for name in ("FLYDSL_COMPILE_LLVM_DIR", "FLYDSL_COMPILE_LLD"):
        monkeypatch.delenv(name, raising=False)


def test_auto_without_lld_is_internal(obj: bytes, no_tools: None):
    data, how = link.link_hsaco(obj)
    assert how == "internal" and data[:4] == b"\x7fELF"


def test_lld_without_lld(obj: bytes, no_tools: None):
    with pytest.raises(tools.ToolNotFoundError, match="no usable ld.lld"):
        link.link_hsaco(obj, linker="lld")


def test_auto_is_internal_where_it_can_be(obj: bytes, need_tool):
    need_tool("ld.lld")
    assert link.link_hsaco(obj)[1] == "internal"


def test_auto_takes_the_lld_that_was_named(obj: bytes, need_tool, monkeypatch: pytest.MonkeyPatch):
    tool = need_tool("ld.lld")
    monkeypatch.setenv("FLYDSL_COMPILE_LLD", str(tool.path))
    assert str(tool.path) in link.link_hsaco(obj)[1]


def test_auto_takes_lld_for_what_is_beyond_the_internal_one(obj: bytes, need_tool, monkeypatch: pytest.MonkeyPatch):
    tool = need_tool("ld.lld")
    monkeypatch.setattr(link.amdgpu_link, "try_link", lambda obj: None)
    assert str(tool.path) in link.link_hsaco(obj)[1]


def test_lld_error_has_command_and_output(need_tool, obj: bytes):
    need_tool("ld.lld")
    with pytest.raises(link.LinkError, match="not an ELF file"):
        link.link_hsaco(b"not an object", linker="lld")
    machine = bytearray(obj)
    machine[18:20] = (62).to_bytes(2, "little")  # e_machine: x86-64, which the flags of an AMD object do not go with
    with pytest.raises(link.LinkError) as caught:
        link.link_hsaco(bytes(machine), linker="lld")
    text = str(caught.value)
    assert "-shared" in text and "kernel.o" in text and "status 1" in text and "stderr" in text


def test_unknown_linker(obj: bytes):
    with pytest.raises(link.LinkError, match="auto, lld or internal"):
        link.link_hsaco(obj, linker="gold")  # pyright: ignore[reportArgumentType]


def test_named_lld_that_is_missing_is_an_error(obj: bytes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FLYDSL_COMPILE_LLD", "/nowhere/ld.lld")
    with pytest.raises(tools.ToolNotFoundError, match="no such file"):
        link.link_hsaco(obj)
