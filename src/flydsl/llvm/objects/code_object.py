"""Reading ELF64 files and the metadata of AMD code objects, relocatable or linked."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from flydsl.errors import FlyDSLError

EM_AMDGPU = 224
ELFOSABI_AMDGPU_HSA = 64
ET_REL, ET_DYN = 1, 3
SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_NOTE, SHT_NOBITS = 1, 2, 3, 4, 7, 8
SHT_DYNSYM, SHT_GROUP = 11, 17
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4
SHN_UNDEF, SHN_ABS, SHN_COMMON, SHN_LORESERVE = 0, 0xFFF1, 0xFFF2, 0xFF00
STB_LOCAL, STB_GLOBAL = 0, 1
STT_FUNC, STT_SECTION = 2, 3
NT_AMDGPU_METADATA = 32
KERNEL_DESCRIPTOR_SIZE = 64

_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_SHDR = struct.Struct("<IIQQQQIIQQ")
_PHDR = struct.Struct("<IIQQQQQQ")
_SYM = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")


DAMAGE = (struct.error, IndexError, OverflowError, UnicodeDecodeError)
"""What reading tables of a damaged file raises."""


class CodeObjectError(FlyDSLError, ValueError):
    """A binary is not what it should be."""


# Not frozen, though nobody changes them: that takes three times as long to make, and a link makes dozens.
@dataclass(slots=True, unsafe_hash=True)
class Section:
    index: int
    name: str
    type: int
    flags: int
    addr: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entsize: int


@dataclass(slots=True, unsafe_hash=True)
class Segment:
    type: int
    flags: int
    offset: int
    vaddr: int
    filesz: int
    memsz: int
    align: int


@dataclass(slots=True, unsafe_hash=True)
class Symbol:
    index: int
    name: str
    value: int
    size: int
    info: int
    other: int
    shndx: int

    @property
    def type(self) -> int:
        return self.info & 15

    @property
    def binding(self) -> int:
        return self.info >> 4

    @property
    def visibility(self) -> int:
        return self.other & 3


@dataclass(slots=True, unsafe_hash=True)
class Relocation:
    offset: int
    type: int
    symbol: int
    addend: int


class ElfFile:
    """A little-endian ELF64 file held in memory; sections and segments are read at once, tables on request."""

    def __init__(self, data: bytes):
        self.data = data
        if len(data) < _EHDR.size or data[:4] != b"\x7fELF":
            raise CodeObjectError("not an ELF file")
        if data[4:6] != b"\x02\x01":
            raise CodeObjectError("not a little-endian ELF64 file")
        try:
            self._read()
        except (*DAMAGE, ValueError) as error:
            raise CodeObjectError(f"damaged ELF file: {error}") from error

    def _read(self) -> None:
        head = _EHDR.unpack_from(self.data)
        self.os_abi, self.abi_version = self.data[7], self.data[8]
        self.type, self.machine, self.flags = head[1], head[2], head[7]
        phoff, shoff, phnum, shnum, shstrndx = head[5], head[6], head[10], head[12], head[13]
        self.segments: list[Segment] = []
        for i in range(phnum):
            kind, flags, offset, vaddr, _, filesz, memsz, align = _PHDR.unpack_from(self.data, phoff + i * _PHDR.size)
            self.segments.append(Segment(kind, flags, offset, vaddr, filesz, memsz, align))
        raw = [_SHDR.unpack_from(self.data, shoff + i * _SHDR.size) for i in range(shnum)]
        names = self.data[raw[shstrndx][4] :] if raw else b""
        self.sections = [
            Section(i, names[name : names.index(b"\0", name)].decode(), *fields)
            for i, (name, *fields) in enumerate(raw)
        ]
        for section in self.sections:
            if section.type != SHT_NOBITS and section.offset + section.size > len(self.data):
                raise CodeObjectError(f"section {section.name} reaches past the end of the file")

    def section(self, name: str) -> Section | None:
        """The first section of that name."""
        return next((s for s in self.sections if s.name == name), None)

    def content(self, section: Section) -> bytes:
        if section.type == SHT_NOBITS:
            return bytes(section.size)
        return self.data[section.offset : section.offset + section.size]

    def symbols(self, table_type: int = SHT_SYMTAB) -> list[Symbol]:
        """Symbols of `.symtab` (or `.dynsym`), the null symbol included; empty when there is no such table."""
        table = next((s for s in self.sections if s.type == table_type), None)
        if table is None:
            return []
        strings = self.sections[table.link]
        if strings.type == SHT_NOBITS:
            raise CodeObjectError(f"the names of symbols lie in section {strings.name}, which has no content")
        names = self.content(strings)
        out: list[Symbol] = []
        for i, (name, info, other, shndx, value, size) in enumerate(_SYM.iter_unpack(self.content(table))):
            end = names.find(b"\0", name)
            out.append(Symbol(i, names[name:end].decode(), value, size, info, other, shndx))
        return out

    def relocations(self, section: Section) -> list[Relocation]:
        """Entries of a RELA section."""
        return [
            Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend)
            for offset, info, addend in _RELA.iter_unpack(self.content(section))
        ]

    def notes(self) -> list[tuple[str, int, bytes]]:
        """Owner, type and payload of every note."""
        out: list[tuple[str, int, bytes]] = []
        for section in self.sections:
            if section.type != SHT_NOTE:
                continue
            data, pos = self.content(section), 0
            while pos + 12 <= len(data):
                name_size, size, kind = struct.unpack_from("<III", data, pos)
                start = pos + 12 + (name_size + 3) // 4 * 4
                owner = data[pos + 12 : pos + 12 + name_size].rstrip(b"\0").decode()
                out.append((owner, kind, data[start : start + size]))
                pos = start + (size + 3) // 4 * 4
        return out


# --- MessagePack --------------------------------------------------------------------------------------

MsgValue = None | bool | int | float | str | bytes | list["MsgValue"] | dict[str, "MsgValue"]

_SCALARS = {tag: ">" + form for tag, form in zip(range(0xCA, 0xD4), "fdBHIQbhiq", strict=True)}
# Formats of the length that follows the tag: binary, string, array, map.
_LENGTHS = {tag: ">" + form for tag, form in zip((*range(0xC4, 0xC7), *range(0xD9, 0xE0)), "BHIBHIHIHI", strict=True)}


def decode_msgpack(data: bytes) -> MsgValue:
    """Decode one MessagePack value: all of the format but extension types."""
    try:
        value, end = _decode(data, 0)
    except DAMAGE as error:
        raise CodeObjectError(f"damaged metadata: {error}") from error
    if end != len(data):
        raise CodeObjectError(f"damaged metadata: {len(data) - end} bytes after its end")
    return value


def _decode(data: bytes, pos: int) -> tuple[MsgValue, int]:
    tag = data[pos]
    pos += 1
    if 0xA0 <= tag <= 0xBF and pos + tag - 0xA0 <= len(data):  # a short string, as most values are
        end = pos + tag - 0xA0
        return data[pos:end].decode(), end
    if tag <= 0x7F:
        return tag, pos
    if tag >= 0xE0:
        return tag - 256, pos
    if tag in (0xC0, 0xC2, 0xC3):
        return (None if tag == 0xC0 else tag == 0xC3), pos
    if tag in _SCALARS:
        form = _SCALARS[tag]
        return struct.unpack_from(form, data, pos)[0], pos + struct.calcsize(form)
    if tag <= 0xBF:  # The short forms hold their length in the tag.
        kind, count = tag & 0xF0 if tag < 0xA0 else 0xA0, tag & (0x0F if tag < 0xA0 else 0x1F)
    elif tag in _LENGTHS:
        form = _LENGTHS[tag]
        count = cast(int, struct.unpack_from(form, data, pos)[0])
        pos += struct.calcsize(form)
        kind = 0xC4 if tag <= 0xC6 else 0xA0 if tag <= 0xDB else 0x90 if tag <= 0xDD else 0x80
    else:
        raise CodeObjectError(f"damaged metadata: unexpected tag {tag:#x}")
    if kind in (0xA0, 0xC4):
        raw = data[pos : pos + count]
        if len(raw) != count:
            raise CodeObjectError("damaged metadata: it ends inside a string")
        return (raw if kind == 0xC4 else raw.decode()), pos + count
    if kind == 0x90:
        items: list[MsgValue] = []
        for _ in range(count):
            item, pos = _decode(data, pos)
            items.append(item)
        return items, pos
    fields: dict[str, MsgValue] = {}
    for _ in range(count):
        key, pos = _decode(data, pos)
        fields[str(key)], pos = _decode(data, pos)
    return fields, pos


# --- code objects -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ArgInfo:
    name: str
    offset: int
    size: int
    value_kind: str
    address_space: str | None = None

    @property
    def hidden(self) -> bool:
        """Whether the runtime fills it in, not the caller."""
        return self.value_kind.startswith("hidden_")


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """What the code generator recorded of one kernel; sizes in bytes."""

    name: str
    symbol: str
    kernarg_size: int
    kernarg_align: int
    args: tuple[ArgInfo, ...]
    vgpr: int
    agpr: int
    sgpr: int
    lds: int
    scratch: int
    vgpr_spill: int
    sgpr_spill: int
    wavefront_size: int
    max_flat_workgroup_size: int
    reqd_workgroup_size: tuple[int, ...] | None
    uses_dynamic_stack: bool
    code_size: int


@dataclass(frozen=True, slots=True)
class CodeObject:
    kernels: tuple[KernelInfo, ...]
    target_id: str
    """Such as `amdgcn-amd-amdhsa--gfx942`."""
    version: tuple[int, ...]
    linked: bool
    abi_version: int
    flags: int

    def kernel(self, name: str) -> KernelInfo:
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        raise KeyError(f"no kernel {name!r}; there are: {', '.join(k.name for k in self.kernels)}")


def _map(value: MsgValue, what: str) -> dict[str, MsgValue]:
    if not isinstance(value, dict):
        raise CodeObjectError(f"damaged metadata: {what} is not a map")
    return value


def _list(value: MsgValue) -> Sequence[MsgValue]:
    return value if isinstance(value, list) else ()


def _int(fields: dict[str, MsgValue], key: str, default: int = 0) -> int:
    value = fields.get(key, default)
    if not isinstance(value, int):
        raise CodeObjectError(f"damaged metadata: {key} is {value!r}, not a number")
    return value


def _ints(value: MsgValue) -> tuple[int, ...]:
    return tuple(item for item in _list(value) if isinstance(item, int))


def _arg(value: MsgValue) -> ArgInfo:
    fields = _map(value, "a kernel argument")
    space = fields.get(".address_space")
    return ArgInfo(
        str(fields.get(".name", "")),
        _int(fields, ".offset"),
        _int(fields, ".size"),
        str(fields.get(".value_kind", "")),
        None if space is None else str(space),
    )


def _kernel(fields: dict[str, MsgValue], code_size: int) -> KernelInfo:
    return KernelInfo(
        name=str(fields.get(".name", "")),
        symbol=str(fields.get(".symbol", "")),
        kernarg_size=_int(fields, ".kernarg_segment_size"),
        kernarg_align=_int(fields, ".kernarg_segment_align", 8),
        args=tuple(_arg(arg) for arg in _list(fields.get(".args"))),
        vgpr=_int(fields, ".vgpr_count"),
        agpr=_int(fields, ".agpr_count"),
        sgpr=_int(fields, ".sgpr_count"),
        lds=_int(fields, ".group_segment_fixed_size"),
        scratch=_int(fields, ".private_segment_fixed_size"),
        vgpr_spill=_int(fields, ".vgpr_spill_count"),
        sgpr_spill=_int(fields, ".sgpr_spill_count"),
        wavefront_size=_int(fields, ".wavefront_size"),
        max_flat_workgroup_size=_int(fields, ".max_flat_workgroup_size"),
        reqd_workgroup_size=_ints(fields.get(".reqd_workgroup_size")) or None,
        uses_dynamic_stack=bool(fields.get(".uses_dynamic_stack", False)),
        code_size=code_size,
    )


def _check_descriptor(elf: ElfFile, symbols: dict[str, Symbol], name: str) -> None:
    symbol = symbols.get(name)
    if symbol is None or symbol.shndx == SHN_UNDEF:
        raise CodeObjectError(f"kernel descriptor {name} is not defined")
    if symbol.size != KERNEL_DESCRIPTOR_SIZE:
        raise CodeObjectError(f"kernel descriptor {name} has {symbol.size} bytes, not {KERNEL_DESCRIPTOR_SIZE}")
    where = elf.sections[symbol.shndx].name if symbol.shndx < len(elf.sections) else f"section {symbol.shndx}"
    if not where.startswith(".rodata"):
        raise CodeObjectError(f"kernel descriptor {name} is in {where}, not in .rodata")


def read_code_object(data: bytes) -> CodeObject:
    """Read and check an AMD code object, relocatable or linked."""
    try:
        return _read_code_object(ElfFile(data))
    except DAMAGE as error:
        raise CodeObjectError(f"damaged code object: {error}") from error


def _read_code_object(elf: ElfFile) -> CodeObject:
    if elf.machine != EM_AMDGPU:
        raise CodeObjectError(f"not an AMDGPU file: machine {elf.machine}")
    if elf.os_abi != ELFOSABI_AMDGPU_HSA:
        raise CodeObjectError(f"not an HSA code object: OS/ABI {elf.os_abi}")
    if elf.type not in (ET_REL, ET_DYN):
        raise CodeObjectError(f"not a relocatable or shared object: type {elf.type}")
    payloads = [p for owner, kind, p in elf.notes() if owner == "AMDGPU" and kind == NT_AMDGPU_METADATA]
    if len(payloads) != 1:
        raise CodeObjectError(f"expected one AMDGPU metadata note, found {len(payloads)}")
    meta = _map(decode_msgpack(payloads[0]), "the metadata")
    # A stripped shared object has only the dynamic table, which holds all that is needed here.
    symbols = {s.name: s for s in elf.symbols() or elf.symbols(SHT_DYNSYM)}
    kernels: list[KernelInfo] = []
    for entry in _list(meta.get("amdhsa.kernels")):
        fields = _map(entry, "a kernel")
        name = str(fields.get(".name", ""))
        function = symbols.get(name)
        if function is None or function.type != STT_FUNC or function.shndx == SHN_UNDEF:
            raise CodeObjectError(f"kernel {name} has no code")
        _check_descriptor(elf, symbols, str(fields.get(".symbol", "")))
        kernels.append(_kernel(fields, function.size))
    return CodeObject(
        tuple(kernels),
        str(meta.get("amdhsa.target", "")),
        _ints(meta.get("amdhsa.version")),
        elf.type == ET_DYN,
        elf.abi_version,
        elf.flags,
    )
