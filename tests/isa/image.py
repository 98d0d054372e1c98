"""A code object as a driver loads it, and the kernel descriptor as the hardware reads it."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from flydsl.llvm.objects.code_object import ElfFile, KernelInfo, read_code_object

from .audit import check_file
from .errors import IsaError
from .memory import Memory
from .text import Instruction, disassemble

PT_LOAD, SHT_RELA, SHT_DYNSYM = 1, 4, 11
R_ABS64, R_RELATIVE64 = 3, 13


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The 64 bytes under the symbol `NAME.kd`; see "Kernel Descriptor" in LLVM's guide to AMDGPU."""

    lds: int
    scratch: int
    kernarg: int
    entry: int
    """Where the code begins, from the descriptor."""
    rsrc3: int
    rsrc1: int
    rsrc2: int
    properties: int
    preload: int

    @staticmethod
    def read(raw: bytes) -> Descriptor:
        lds, scratch, kernarg, zero, entry = struct.unpack_from("<IIIIq", raw)
        rsrc3, rsrc1, rsrc2, properties, preload = struct.unpack_from("<IIIHH", raw, 44)
        if zero or any(raw[24:44]) or any(raw[60:64]):
            raise IsaError("reserved bytes of the kernel descriptor are not zero")
        return Descriptor(lds, scratch, kernarg, entry, rsrc3, rsrc1, rsrc2, properties, preload)

    @property
    def wave32(self) -> bool:
        return bool(self.properties >> 10 & 1)

    @property
    def user_sgprs(self) -> int:
        return self.rsrc2 >> 1 & 31

    def vgprs(self, family: str) -> int:
        """Registers of a lane that are there, vector and accumulation together."""
        granule = 16 if family == "gfx1250" else 8 if self.wave32 or family == "gfx9" else 4
        return ((self.rsrc1 & 63) + 1) * granule

    @property
    def accumulators(self) -> int:
        """Where accumulation registers begin, in families that have them."""
        return ((self.rsrc3 & 63) + 1) * 4


class Image:
    """A code object in memory that the device can reach."""

    def __init__(self, code_object: bytes, memory: Memory):
        self.memory = memory
        elf = ElfFile(code_object)
        self.info = read_code_object(code_object)
        self.arch = self.info.target_id.rpartition("--")[2].partition(":")[0]
        check_file(elf, self.arch)
        loads = [segment for segment in elf.segments if segment.type == PT_LOAD]
        size = max(segment.vaddr + segment.memsz for segment in loads)
        # The loader aligns images to pages, and code counts on that.
        self._room = np.zeros(size + 8192, np.uint8)
        self.base = (self._room.ctypes.data + 4095) // 4096 * 4096
        shift = self.base - self._room.ctypes.data
        for segment in loads:
            content = np.frombuffer(elf.data, np.uint8)[segment.offset : segment.offset + segment.filesz]
            self._room[shift + segment.vaddr : shift + segment.vaddr + segment.filesz] = content
            writable = bool(segment.flags & 2)
            memory.add(self.base + segment.vaddr, segment.memsz, "the code object", writable=writable, owner=self._room)
        self._symbols = {symbol.name: symbol.value for symbol in elf.symbols(SHT_DYNSYM)}
        for section in elf.sections:
            if section.type == SHT_RELA and section.flags & 2:
                self._relocate(elf, elf.relocations(section), shift)
        self.instructions: dict[int, Instruction] = disassemble(code_object)
        self.globals = {s.name: (self.base + s.value, s.size) for s in elf.symbols(SHT_DYNSYM) if s.type == 1}

    def _relocate(self, elf: ElfFile, relocations: object, shift: int) -> None:
        symbols = elf.symbols(SHT_DYNSYM)
        for entry in relocations if isinstance(relocations, list) else ():
            if entry.type == R_RELATIVE64:
                value = self.base + entry.addend
            elif entry.type == R_ABS64:
                value = self.base + symbols[entry.symbol].value + entry.addend
            else:
                raise IsaError(f"relocation of type {entry.type}")
            at = shift + entry.offset
            self._room[at : at + 8] = np.frombuffer(struct.pack("<Q", value), np.uint8)

    def kernel(self, name: str) -> KernelInfo:
        return self.info.kernel(name)

    def descriptor(self, info: KernelInfo) -> tuple[int, Descriptor]:
        """Its address in the file's terms, and what it says."""
        at = self._symbols[info.symbol]
        start = self.base - self._room.ctypes.data + at
        return at, Descriptor.read(self._room[start : start + 64].tobytes())

    def close(self) -> None:
        for start in [self.base, *(self.base + segment for segment in self._symbols.values())]:
            self.memory.remove(start)
