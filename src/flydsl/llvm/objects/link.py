"""Linking an AMD object into a loadable code object, with `ld.lld` or with the built-in linker."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal

from flydsl.errors import LinkError
from flydsl.llvm import tools
from flydsl.llvm.objects import amdgpu_link
from flydsl.llvm.objects.amdgpu_link import can_link_internally

__all__ = ["LinkError", "Linker", "can_link_internally", "link_hsaco", "link_with_lld"]

Linker = Literal["auto", "lld", "internal"]


def link_with_lld(obj: bytes, tool: tools.Tool | None = None) -> tuple[bytes, str]:
    """Link with `ld.lld -shared`; the code object and which linker made it."""
    tool = tool or tools.find_tool("ld.lld")
    with tempfile.TemporaryDirectory(prefix="flydsl-link-") as folder:
        Path(folder, "kernel.o").write_bytes(obj)
        tools.run_tool(tool, ["-shared", "kernel.o", "-o", "kernel.hsaco"], cwd=folder, error=LinkError)
        return Path(folder, "kernel.hsaco").read_bytes(), f"{tool.path} ({tool.version_text})"


def link_hsaco(obj: bytes, *, linker: Linker = "auto") -> tuple[bytes, str]:
    """A loadable code object and how it was made.

    `auto` takes the built-in linker for what it can link, since starting `ld.lld` costs more than compiling a small
    kernel and the result is the same to the loader. Anything else, and everything when FLYDSL_COMPILE_LLD names one,
    goes to `ld.lld`. The other two insist.
    """
    if linker not in ("auto", "lld", "internal"):
        raise LinkError(f"linker must be auto, lld or internal, got {linker!r}")
    if linker == "lld":
        return link_with_lld(obj)
    if linker == "auto" and (tools.setting("FLYDSL_COMPILE_LLD") or not can_link_internally(obj)):
        return link_with_lld(obj)
    return amdgpu_link.link(obj), "internal"
