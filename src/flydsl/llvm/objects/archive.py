"""Static libraries: object files in one `ar` archive with the index of symbols that linkers ask for."""

from __future__ import annotations

from collections.abc import Mapping

from flydsl.llvm.objects.code_object import SHN_UNDEF, STB_LOCAL, ElfFile

MAGIC = b"!<arch>\n"


def _member(name: bytes, content: bytes) -> bytes:
    """A header without time, owner or mode, so that equal content makes equal files."""
    head = name.ljust(16) + b"0".ljust(12) + b"0".ljust(6) + b"0".ljust(6) + b"644".ljust(8)
    return head + str(len(content)).encode().ljust(10) + b"`\n" + content + b"\n" * (len(content) % 2)


def write_archive(objects: Mapping[str, bytes]) -> bytes:
    """An archive of ELF objects by name (at most 15 characters)."""
    symbols: list[tuple[bytes, int]] = []
    for number, content in enumerate(objects.values()):
        found = ElfFile(content).symbols()[1:]
        symbols += [(s.name.encode(), number) for s in found if s.binding != STB_LOCAL and s.shndx != SHN_UNDEF]
    index_size = 4 + 4 * len(symbols) + sum(len(name) + 1 for name, _ in symbols)
    index_size += index_size % 2
    offsets: list[int] = []
    position = len(MAGIC) + 60 + index_size
    members: list[bytes] = []
    for name, content in objects.items():
        if len(name) > 15:
            raise ValueError(f"the name of a member has at most 15 characters, got {name!r}")
        offsets.append(position)
        members.append(_member(name.encode() + b"/", content))
        position += len(members[-1])
    index = len(symbols).to_bytes(4, "big") + b"".join(offsets[n].to_bytes(4, "big") for _, n in symbols)
    index += b"".join(name + b"\0" for name, _ in symbols)
    index = index.ljust(index_size, b"\0")
    return MAGIC + _member(b"/", index) + b"".join(members)
