"""Linking an AMD object into a loadable code object, with `ld.lld` or with the built-in linker."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal

from flydsl.errors import LinkError
from flydsl.llvm import tools
from flydsl.llvm.objects import amdgpu_link
from flydsl.llvm.objects import code_object as elf

Linker = Literal["auto", "lld", "internal"]


_WEAK = 2
_FUNCTION = 2


def undefined_symbols(obj: bytes) -> dict[str, list[str]]:
    """Symbols that an object uses and does not define, each with the functions that use it; weak ones do not count."""
    try:
        file = elf.ElfFile(obj)
        symbols = file.symbols()
        missing = {i for i, s in enumerate(symbols) if s.shndx == elf.SHN_UNDEF and s.name and s.binding != _WEAK}
        found: dict[str, list[str]] = {symbols[i].name: [] for i in sorted(missing)}
        for section in file.sections if missing else ():
            if section.type != elf.SHT_RELA:
                continue
            inside = [s for s in symbols if s.shndx == section.info and s.type == _FUNCTION]
            for reloc in file.relocations(section):
                if reloc.symbol in missing:
                    users = found[symbols[reloc.symbol].name]
                    users += [
                        s.name for s in inside if s.value <= reloc.offset < s.value + s.size and s.name not in users
                    ]
    except elf.CodeObjectError as error:
        raise LinkError(f"cannot link: {error}") from error
    except elf.DAMAGE as error:
        raise LinkError(f"cannot link: damaged object file: {error}") from error
    return found


def check_defined(obj: bytes) -> None:
    """Refuse an object with undefined symbols: no loader resolves them, and linkers of shared objects let them be."""
    lines = [
        f"'{name}'" + (f", used by {', '.join(users)}" if users else "")
        for name, users in undefined_symbols(obj).items()
    ]
    if lines:
        raise LinkError(
            f"undefined symbol {'; '.join(lines)}: nothing that is linked defines it. It comes from inline assembly, "
            "from LLVM's own functions or from a pass; name the library that defines it with link_extern"
        )


def link_with_lld(obj: bytes) -> tuple[bytes, str]:
    """Link with `ld.lld -shared`; the code object and which linker made it."""
    check_defined(obj)
    tool = tools.find_tool("ld.lld")
    with tempfile.TemporaryDirectory(prefix="flydsl-link-") as folder:
        Path(folder, "kernel.o").write_bytes(obj)
        tools.run_tool(
            tool, ["-shared", "--no-undefined", "kernel.o", "-o", "kernel.hsaco"], cwd=folder, error=LinkError
        )
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
    if linker == "auto":
        link = None if tools.setting("FLYDSL_COMPILE_LLD") else amdgpu_link.try_link(obj)
        return link_with_lld(obj) if link is None else (link(), "internal")
    check_defined(obj)
    return amdgpu_link.link(obj), "internal"
