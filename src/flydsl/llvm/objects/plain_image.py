"""Loading plain x86-64 objects into this process without LLVM: sections side by side, a handful of relocations.

What is no more than functions and their tables needs no JIT linker, and a process that only launches kernels none of
LLVM's 80 ms to load. Whatever is not plain (thread-local variables, constructors, other relocations, other machines)
is left to LLVM: `load` gives None.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Mapping

from .code_object import (
    ET_REL,
    SHF_ALLOC,
    SHF_WRITE,
    SHN_UNDEF,
    SHT_NOBITS,
    SHT_RELA,
    ElfFile,
    Relocation,
    Section,
    Symbol,
)

_EM_X86_64 = 62
_SHF_TLS = 0x400
_UNWINDING = 0x70000001
"""The type of `.eh_frame`: nobody unwinds through code that throws nothing."""
_PLAIN_TYPES = (1, SHT_NOBITS)
_ABSOLUTE, _RELATIVE, _CALL, _FAR = 1, 2, 4, 24
_BY_TABLE = (9, 41, 42)
"""Through a table of addresses, as it is or as code that a linker may shorten."""
_JUMP = b"\xff\x25\x02\x00\x00\x00\x00\x00"
"""jmp *2(%rip): to the address that stands eight bytes behind."""


class Image:
    """Code in memory of its own, which is given back once the image is closed or collected."""

    def __init__(self, memory: mmap.mmap, addresses: Mapping[str, int]):
        self._memory: mmap.mmap | None = memory
        self._addresses = dict(addresses)

    def __getitem__(self, name: str) -> int:
        return self._addresses[name]

    def close(self) -> None:
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()


def load(code: bytes, imports: Mapping[str, int]) -> Image | None:
    """A relocatable object in memory, its undefined names bound to `imports`; None where it is not plain."""
    if platform.machine() not in ("x86_64", "AMD64") or not sys.platform.startswith("linux") or code[:4] != b"\x7fELF":
        return None
    file = ElfFile(code)
    if file.type != ET_REL or file.machine != _EM_X86_64:
        return None
    loaded = [s for s in file.sections if s.flags & SHF_ALLOC and s.type != _UNWINDING and s.size]
    if any(s.type not in _PLAIN_TYPES or s.flags & _SHF_TLS for s in loaded):
        return None
    return _Loader(file, loaded, imports).load()


class _Loader:
    """Places for sections, then values for symbols, then relocations."""

    def __init__(self, file: ElfFile, loaded: list[Section], imports: Mapping[str, int]):
        self.file, self.imports, self.symbols, self.sections = file, imports, file.symbols(), loaded
        wanted = {section.index for section in loaded}
        self.relocations = {
            s.info: file.relocations(s) for s in file.sections if s.type == SHT_RELA and s.info in wanted
        }
        tabled = dict.fromkeys(
            each.symbol
            for found in self.relocations.values()
            for each in found
            if each.type in _BY_TABLE or self.symbols[each.symbol].shndx == SHN_UNDEF
        )
        self.places: dict[int, int] = {}
        self.size = 0
        for section in (s for s in loaded if not s.flags & SHF_WRITE):
            self._place(section)
        # For each symbol that is asked for by a table, or lies outside: a jump, and its address.
        self.size = -(-self.size // 16) * 16
        self.table = {symbol: self.size + 16 * i for i, symbol in enumerate(tabled)}
        self.size = self.code_size = -(-(self.size + 16 * len(tabled)) // mmap.PAGESIZE) * mmap.PAGESIZE
        for section in (s for s in loaded if s.flags & SHF_WRITE):
            self._place(section)

    def _place(self, section: Section) -> None:
        align = max(section.align, 1)
        self.places[section.index] = -(-self.size // align) * align
        self.size = self.places[section.index] + section.size

    def load(self) -> Image | None:
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        memory = mmap.mmap(-1, max(self.size, 1), private, mmap.PROT_READ | mmap.PROT_WRITE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for section in self.sections:
            at = self.places[section.index]
            memory[at : at + section.size] = self.file.content(section)
        for number, at in self.table.items():
            address = self._address(base, self.symbols[number])
            if address is None:
                return None
            memory[at : at + 16] = _JUMP + struct.pack("<Q", address)
        for index, found in self.relocations.items():
            for each in found:
                at = self.places[index] + each.offset
                made = self._value(base, at, each)
                if made is None:
                    return None
                memory[at : at + len(made)] = made
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        if protect(base, self.code_size, mmap.PROT_READ | mmap.PROT_EXEC):
            return None  # a system that lets nobody make code
        return Image(
            memory, {s.name: base + self.places[s.shndx] + s.value for s in self.symbols if s.shndx in self.places}
        )

    def _address(self, base: int, symbol: Symbol) -> int | None:
        """Where a symbol is; None where that is not known."""
        if symbol.shndx == SHN_UNDEF:
            return self.imports.get(symbol.name)
        return base + self.places[symbol.shndx] + symbol.value if symbol.shndx in self.places else None

    def _value(self, base: int, at: int, each: Relocation) -> bytes | None:
        """The bytes of a relocation at an offset; None where it is of no known kind, or does not reach."""
        symbol = self.symbols[each.symbol]
        address = self._address(base, symbol)
        if address is None:
            return None
        if each.type == _ABSOLUTE:
            return struct.pack("<Q", address + each.addend & (1 << 64) - 1)
        if each.type in _BY_TABLE:
            address = base + self.table[each.symbol] + 8
        elif symbol.shndx == SHN_UNDEF and each.type == _CALL:
            address = base + self.table[each.symbol]
        elif each.type not in (_RELATIVE, _CALL, _FAR):
            return None
        far = address + each.addend - (base + at)
        if each.type == _FAR:
            return struct.pack("<q", far)
        return struct.pack("<i", far) if -(1 << 31) <= far < 1 << 31 else None
