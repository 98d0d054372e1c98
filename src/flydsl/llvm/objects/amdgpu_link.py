"""The built-in linker: one relocatable AMDGPU object to the shared object the HSA loader takes.

It follows `ld.lld -shared` in layout, symbol order and tables, so that outputs compare byte for byte outside the
comment section (merged constants aside: they are kept as they come). What it does not know it refuses, by name.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from flydsl.errors import LinkError
from flydsl.llvm.objects import code_object as elf
from flydsl.llvm.objects.code_object import ElfFile, Relocation, Section, Symbol

_PAGE = 0x1000
_EHDR_SIZE, _PHDR_SIZE, _SHDR_SIZE = 64, 56, 64

_SHT_HASH, _SHT_DYNAMIC, _SHT_GNU_HASH, _SHT_LLVM_ADDRSIG = 5, 6, 0x6FFFFFF6, 0x6FFF4C03
_SHF_MERGE, _SHF_STRINGS, _SHF_TLS, _SHF_COMPRESSED, _SHF_EXCLUDE = 0x10, 0x20, 0x400, 0x800, 0x80000000
_SHF_INFO_LINK, _SHF_GROUP = 0x40, 0x200
_PT_LOAD, _PT_DYNAMIC, _PT_NOTE, _PT_PHDR, _PT_GNU_STACK, _PT_GNU_RELRO = 1, 2, 4, 6, 0x6474E551, 0x6474E552
_R, _RX, _RW = 4, 5, 6
_SHN_AMDGPU_LDS = 0xFF00
_STV_HIDDEN = 2

_RELOCATIONS = {
    0: "R_AMDGPU_NONE",
    1: "R_AMDGPU_ABS32_LO",
    2: "R_AMDGPU_ABS32_HI",
    3: "R_AMDGPU_ABS64",
    4: "R_AMDGPU_REL32",
    5: "R_AMDGPU_REL64",
    6: "R_AMDGPU_ABS32",
    7: "R_AMDGPU_GOTPCREL",
    8: "R_AMDGPU_GOTPCREL32_LO",
    9: "R_AMDGPU_GOTPCREL32_HI",
    10: "R_AMDGPU_REL32_LO",
    11: "R_AMDGPU_REL32_HI",
    13: "R_AMDGPU_RELATIVE64",
    14: "R_AMDGPU_REL16",
}
_NONE, _ABS32_LO, _ABS32_HI, _ABS64, _REL32, _REL64, _ABS32 = range(7)
_GOTPCREL, _GOTPCREL_LO, _GOTPCREL_HI, _REL32_LO, _REL32_HI, _RELATIVE64 = 7, 8, 9, 10, 11, 13
_ABSOLUTE = (_ABS32_LO, _ABS32_HI, _ABS64, _ABS32)
_RELATIVE = (_REL32, _REL64, _REL32_LO, _REL32_HI)
_GOT = (_GOTPCREL, _GOTPCREL_LO, _GOTPCREL_HI)
_EIGHT_BYTES = (_ABS64, _REL64)
_HIGH_HALF = (_ABS32_HI, _GOTPCREL_HI, _REL32_HI)

# lld gathers `.rodata.cst16` into `.rodata` and so on.
_OUTPUT_PREFIXES = (".data.rel.ro", ".data", ".rodata", ".bss.rel.ro", ".bss", ".text")
_RELRO_NAMES = (".data.rel.ro", ".bss.rel.ro", ".got", ".dynamic", ".relro_padding")
_UNSUPPORTED_NAMES = (".init_array", ".fini_array", ".preinit_array", ".ctors", ".dtors", ".eh_frame")


def _refuse(what: str) -> LinkError:
    return LinkError(
        f"the built-in linker cannot link this object: {what}. Use ld.lld 19 or newer: install it or set "
        "FLYDSL_COMPILE_LLD"
    )


def _align(value: int, to: int) -> int:
    return (value + to - 1) // to * to if to > 1 else value


@dataclass(slots=True)
class _Out:
    """One section of the output."""

    name: str
    type: int
    flags: int
    align: int = 1
    entsize: int = 0
    link: str = ""
    info: int = 0
    data: bytearray = field(default_factory=bytearray)
    size: int = 0
    addr: int = 0
    offset: int = 0
    index: int = 0

    @property
    def nobits(self) -> bool:
        return self.type == elf.SHT_NOBITS

    @property
    def relro(self) -> bool:
        return self.name in _RELRO_NAMES

    def rank(self) -> tuple[int, ...]:
        """Sort key of lld: notes and tables, read-only data, code, RELRO data, other data; space without bytes last."""
        if not self.flags & elf.SHF_ALLOC:
            return (5,)
        if self.flags & elf.SHF_WRITE:
            return (3 if self.relro else 4, self.nobits)
        if self.flags & elf.SHF_EXECINSTR:
            return (2,)
        return (0, self.type == elf.SHT_PROGBITS)

    @property
    def segment(self) -> tuple[int, bool]:
        """Sections of equal value share a PT_LOAD."""
        flags = _RW if self.flags & elf.SHF_WRITE else _RX if self.flags & elf.SHF_EXECINSTR else _R
        return flags, self.relro


@dataclass(frozen=True, slots=True)
class _Fixup:
    """A relocation whose place is known as output section plus offset."""

    place: _Out
    offset: int
    reloc: Relocation
    symbol: Symbol


_LARGEST_FILE = 1 << 32
"""Far beyond any code object: a larger result means that a section header was misread."""


class _Linker:
    def __init__(self, obj: bytes):
        self.elf = ElfFile(obj)
        self._check_header()
        self.outs: dict[str, _Out] = {}
        self.pieces: dict[int, tuple[_Out, int]] = {}
        """Input section index -> output section and offset in it."""
        self.symbols = self.elf.symbols()
        self._gather_sections()
        self.exported = self._check_symbols()
        self.fixups = self._gather_fixups()
        self.got: dict[int, int] = {}
        """Symbol index -> offset of its slot in .got."""
        self.dynamic_relocs: list[_Fixup] = []
        self._plan_relocations()

    # --- reading and refusing

    def _check_header(self) -> None:
        e = self.elf
        if e.machine != elf.EM_AMDGPU or e.os_abi != elf.ELFOSABI_AMDGPU_HSA:
            raise LinkError(f"cannot link: not an AMDGPU HSA object (machine {e.machine}, OS/ABI {e.os_abi})")
        if e.type != elf.ET_REL:
            raise LinkError(f"cannot link: not a relocatable object (type {e.type})")

    def _gather_sections(self) -> None:
        skipped = (0, elf.SHT_SYMTAB, elf.SHT_STRTAB, elf.SHT_RELA, elf.SHT_GROUP, _SHT_LLVM_ADDRSIG)
        for s in self.elf.sections:
            if s.type in skipped or s.flags & _SHF_EXCLUDE or s.name == ".note.GNU-stack":
                continue
            self._check_section(s)
            name = next((p for p in _OUTPUT_PREFIXES if s.name == p or s.name.startswith(p + ".")), s.name)
            out = self.outs.get(name)
            flags = s.flags & ~(_SHF_INFO_LINK | _SHF_GROUP)
            if out is None:
                out = self.outs[name] = _Out(name, s.type, flags, entsize=s.entsize)
            else:
                if out.type != s.type:
                    out.type = elf.SHT_PROGBITS
                if out.entsize != s.entsize:
                    out.entsize = 0
                out.flags |= flags
            out.align = max(out.align, s.align)
            start = _align(out.size, s.align)
            out.size = start + s.size
            self.pieces[s.index] = out, start
        for index, (out, start) in self.pieces.items():
            if not out.nobits:
                section = self.elf.sections[index]
                out.data.extend(bytes(start - len(out.data)))
                out.data.extend(self.elf.content(section))

    def _check_section(self, s: Section) -> None:
        if s.flags & _SHF_COMPRESSED:
            raise _refuse(f"section {s.name} is compressed")
        if not s.flags & elf.SHF_ALLOC:
            return
        if s.type not in (elf.SHT_PROGBITS, elf.SHT_NOTE, elf.SHT_NOBITS):
            raise _refuse(f"section {s.name} has type {s.type:#x}")
        if any(s.name == n or s.name.startswith(n + ".") for n in _UNSUPPORTED_NAMES):
            raise _refuse(f"section {s.name} is not supported")
        if s.flags & _SHF_TLS:
            raise _refuse(f"section {s.name} is thread-local")
        if s.flags & elf.SHF_WRITE and s.flags & elf.SHF_EXECINSTR:
            raise _refuse(f"section {s.name} is both writable and executable")
        if s.align > _PAGE:
            raise _refuse(f"section {s.name} wants an alignment of {s.align} bytes")

    def _check_symbols(self) -> list[Symbol]:
        """The symbols to export, in the order of the object."""
        exported: list[Symbol] = []
        for symbol in self.symbols[1:]:
            shndx = symbol.shndx
            if shndx == _SHN_AMDGPU_LDS:
                raise _refuse(f"symbol {symbol.name} is in LDS allocated by the linker")
            if shndx == elf.SHN_UNDEF:
                raise LinkError(f"cannot link: symbol {symbol.name} is undefined")
            if shndx >= elf.SHN_LORESERVE and shndx != elf.SHN_ABS:
                raise _refuse(f"symbol {symbol.name} has the special section index {shndx:#x}")
            if symbol.type > 4:
                raise _refuse(f"symbol {symbol.name} has type {symbol.type}")
            if symbol.binding != elf.STB_LOCAL and symbol.visibility in (0, 3):
                if shndx != elf.SHN_ABS and shndx not in self.pieces:
                    raise _refuse(f"symbol {symbol.name} is in section {self.elf.sections[shndx].name}")
                exported.append(symbol)
        return exported

    def _gather_fixups(self) -> list[_Fixup]:
        out: list[_Fixup] = []
        for s in self.elf.sections:
            if s.type not in (elf.SHT_RELA, 9) or s.info not in self.pieces:  # 9: relocations without addends
                continue
            if s.type == 9:
                raise _refuse(f"section {s.name} has relocations without addends")
            place, start = self.pieces[s.info]
            for reloc in self.elf.relocations(s):
                if reloc.type != _NONE:
                    out.append(_Fixup(place, start + reloc.offset, reloc, self.symbols[reloc.symbol]))
        return out

    @staticmethod
    def _preemptible(symbol: Symbol) -> bool:
        return symbol.binding != elf.STB_LOCAL and symbol.visibility == 0

    def _plan_relocations(self) -> None:
        wanting_got: set[int] = set()
        for fix in self.fixups:
            kind, symbol = fix.reloc.type, fix.symbol
            name = _RELOCATIONS.get(kind, f"type {kind}")
            shown = f"relocation {name} against {symbol.name or 'a section'} in {fix.place.name}"
            if kind not in (*_ABSOLUTE, *_RELATIVE, *_GOT):
                raise _refuse(f"{shown} is not supported")
            if fix.offset + (8 if kind in _EIGHT_BYTES else 4) > fix.place.size or fix.place.nobits:
                raise _refuse(f"{shown} lies outside the section's bytes")
            if symbol.shndx != elf.SHN_ABS and symbol.shndx not in self.pieces:
                raise _refuse(f"{shown} points into a section that is not linked")
            alloc = fix.place.flags & elf.SHF_ALLOC
            constant = symbol.shndx == elf.SHN_ABS and not self._preemptible(symbol)
            if not alloc:
                if kind not in (_ABS32, _ABS64):
                    raise _refuse(f"{shown} is not supported there")
            elif kind in _GOT:
                wanting_got.add(symbol.index)
            elif kind in _RELATIVE:
                if self._preemptible(symbol):
                    raise _refuse(f"{shown}, which another module may replace")
                if symbol.shndx == elf.SHN_ABS:
                    raise _refuse(f"{shown}, which does not move with the code")
            elif not constant:
                if kind != _ABS64:
                    raise _refuse(f"{shown} would need a 32-bit load address")
                if not fix.place.flags & elf.SHF_WRITE:
                    raise _refuse(f"{shown} would change read-only memory at load time")
                self.dynamic_relocs.append(fix)
        # lld hands out slots to global symbols first, then to local ones.
        ordered = sorted(wanting_got, key=lambda i: (self.symbols[i].binding == elf.STB_LOCAL, i))
        self.got = {index: 8 * n for n, index in enumerate(ordered)}

    # --- layout

    def _address(self, symbol: Symbol) -> int:
        if symbol.shndx == elf.SHN_ABS:
            return symbol.value
        out, start = self.pieces[symbol.shndx]
        return out.addr + start + symbol.value

    def _add(self, out: _Out) -> _Out:
        self.outs[out.name] = out
        return out

    def link(self) -> bytes:
        alloc, write = elf.SHF_ALLOC, elf.SHF_ALLOC | elf.SHF_WRITE
        strings = b"\0" + b"".join(s.name.encode() + b"\0" for s in self.exported)
        order, gnu_hash = _gnu_hash(self.exported)
        got_relocs = len(self.got)
        rela_count = len(self.dynamic_relocs) + got_relocs
        relative = sum(not self._preemptible(f.symbol) for f in self.dynamic_relocs)
        relative += sum(not self._preemptible(self.symbols[i]) for i in self.got)
        tags = self._dynamic_tags(rela_count, relative, len(strings))

        count = len(order) + 1
        self._add(_Out(".dynsym", elf.SHT_DYNSYM, alloc, 8, 24, ".dynstr", 1, size=24 * count))
        self._add(_Out(".gnu.hash", _SHT_GNU_HASH, alloc, 8, 0, ".dynsym", data=bytearray(gnu_hash)))
        self._add(_Out(".hash", _SHT_HASH, alloc, 4, 4, ".dynsym", data=bytearray(_sysv_hash(order))))
        self._add(_Out(".dynstr", elf.SHT_STRTAB, alloc, data=bytearray(strings)))
        if rela_count:
            self._add(_Out(".rela.dyn", elf.SHT_RELA, alloc, 8, 24, ".dynsym", size=24 * rela_count))
        self._add(_Out(".dynamic", _SHT_DYNAMIC, write, 8, 16, ".dynstr", size=16 * len(tags)))
        if self.got:
            self._add(_Out(".got", elf.SHT_PROGBITS, write, 8, data=bytearray(8 * len(self.got))))
        self._add(_Out(".relro_padding", elf.SHT_NOBITS, write))
        comment = self.outs.pop(".comment", None)
        comment_data = b"Linker: flydsl\0" + (comment.data if comment else b"")
        flags = _SHF_MERGE | _SHF_STRINGS
        self._add(_Out(".comment", elf.SHT_PROGBITS, flags, 1, 1, data=bytearray(comment_data)))
        for out in self.outs.values():
            out.size = max(out.size, len(out.data))

        outs = sorted(self.outs.values(), key=_Out.rank)
        for i, out in enumerate(outs, 1):
            out.index = i
        end = self._assign(outs)
        headers = self._program_headers(outs)

        rela = self._relocate()
        self._fill(".dynsym", b"".join([bytes(24), *(self._symbol(s, _string_at(strings, s.name)) for s in order)]))
        if rela_count:
            ranks = {s.index: i for i, s in enumerate(order, 1)}
            rows = sorted((kind != _RELATIVE64, ranks.get(sym, 0), at, kind, add) for at, kind, sym, add in rela)
            table = b"".join(struct.pack("<QQq", at, sym << 32 | kind, add) for _, sym, at, kind, add in rows)
            self._fill(".rela.dyn", table)
        self._fill(".dynamic", b"".join(struct.pack("<QQ", tag, self._tag_value(value)) for tag, value in tags))
        return self._write(outs, headers, end)

    def _fill(self, name: str, data: bytes) -> None:
        self.outs[name].data[:] = data

    def _dynamic_tags(self, relas: int, relative: int, strings: int) -> list[tuple[int, int | str]]:
        """Dynamic tags in lld's order; a string stands for the address of that section."""
        tags: list[tuple[int, int | str]] = []
        if relas:
            tags += [(7, ".rela.dyn"), (8, 24 * relas), (9, 24)]
            if relative:
                tags.append((0x6FFFFFF9, relative))
        tags += [(6, ".dynsym"), (11, 24), (5, ".dynstr"), (10, strings)]
        return [*tags, (0x6FFFFEF5, ".gnu.hash"), (4, ".hash"), (0, 0)]

    def _tag_value(self, value: int | str) -> int:
        return self.outs[value].addr if isinstance(value, str) else value

    def _header_count(self, outs: list[_Out]) -> int:
        loads = len({o.segment for o in outs if o.flags & elf.SHF_ALLOC})
        return loads + len(_note_runs(outs)) + 4

    def _assign(self, outs: list[_Out]) -> int:
        """Addresses and file offsets; returns the end of the file so far."""
        dot = offset = _EHDR_SIZE + _PHDR_SIZE * self._header_count(outs)
        previous: tuple[int, bool] | None = None
        for out in outs:
            if not out.flags & elf.SHF_ALLOC:
                out.offset = offset = _align(offset, out.align)
                offset += out.size
                continue
            first = previous is not None and out.segment != previous
            previous = out.segment
            if first:
                # The next page at the same place within it: no padding in the file, no page with two protections.
                dot = _align(dot, _PAGE) + dot % _PAGE
            out.addr = dot = _align(dot, out.align)
            if out.name == ".relro_padding":
                # Fills up the last protected page; lld places what follows as if it were not there.
                out.size = -dot % _PAGE
                out.offset = offset
                continue
            if out.nobits:
                out.offset = offset
            else:
                out.offset = offset = offset + (out.addr - offset) % _PAGE
                offset += out.size
            dot += out.size
        return offset

    def _program_headers(self, outs: list[_Out]) -> bytes:
        rows: list[tuple[int, int, int, int, int, int, int]] = []

        def cover(kind: int, flags: int, part: list[_Out], align: int) -> None:
            start = part[0]
            stored = [o for o in part if not o.nobits]
            filesz = stored[-1].offset + stored[-1].size - start.offset if stored else 0
            memsz = part[-1].addr + part[-1].size - start.addr
            rows.append((kind, flags, start.offset, start.addr, filesz, memsz, align))

        size = _PHDR_SIZE * self._header_count(outs)
        rows.append((_PT_PHDR, _R, _EHDR_SIZE, _EHDR_SIZE, size, size, 8))
        parts: dict[tuple[int, bool], list[_Out]] = {}
        for out in outs:
            if out.flags & elf.SHF_ALLOC:
                parts.setdefault(out.segment, []).append(out)
        for (flags, _), part in parts.items():
            if flags == _R:  # The first segment also holds the headers.
                end = part[-1].offset + part[-1].size
                rows.append((_PT_LOAD, _R, 0, 0, end, end, _PAGE))
            else:
                cover(_PT_LOAD, flags, part, _PAGE)
        cover(_PT_DYNAMIC, _RW, [self.outs[".dynamic"]], 8)
        cover(_PT_GNU_RELRO, _R, parts[_RW, True], 1)
        rows.append((_PT_GNU_STACK, _RW, 0, 0, 0, 0, 0))
        for run in _note_runs(outs):
            cover(_PT_NOTE, _R, run, run[0].align)
        return b"".join(struct.pack("<IIQQQQQQ", k, f, o, a, a, fs, ms, al) for k, f, o, a, fs, ms, al in rows)

    # --- contents

    def _relocate(self) -> list[tuple[int, int, int, int]]:
        """Apply what is known now; returns what is left to the loader as (place, type, symbol index, addend)."""
        left: list[tuple[int, int, int, int]] = []

        def leave(place: int, symbol: Symbol, addend: int) -> None:
            if self._preemptible(symbol):
                left.append((place, _ABS64, symbol.index, addend))
            else:
                left.append((place, _RELATIVE64, 0, self._address(symbol) + addend))

        if self.got:
            got = self.outs[".got"]
            for index, slot in self.got.items():
                leave(got.addr + slot, self.symbols[index], 0)
        dynamic = {id(fix) for fix in self.dynamic_relocs}
        for fix in self.fixups:
            kind, place = fix.reloc.type, fix.place.addr + fix.offset
            if id(fix) in dynamic:
                leave(place, fix.symbol, fix.reloc.addend)
                continue
            if kind in _GOT:
                value = self.outs[".got"].addr + self.got[fix.symbol.index] + fix.reloc.addend - place
            else:
                value = self._address(fix.symbol) + fix.reloc.addend
                if kind in _RELATIVE:
                    value -= place
            self._store(fix, kind, value)
        return left

    def _store(self, fix: _Fixup, kind: int, value: int) -> None:
        if kind in _EIGHT_BYTES:
            struct.pack_into("<Q", fix.place.data, fix.offset, value & 0xFFFFFFFFFFFFFFFF)
            return
        if kind in (_REL32, _ABS32, _GOTPCREL) and not -(2**31) <= value < 2**32:
            raise _refuse(f"relocation {_RELOCATIONS[kind]} in {fix.place.name} does not fit 32 bits")
        struct.pack_into("<I", fix.place.data, fix.offset, (value >> 32 if kind in _HIGH_HALF else value) & 0xFFFFFFFF)

    def _symbol(self, symbol: Symbol, name: int, info: int | None = None) -> bytes:
        absolute = symbol.shndx == elf.SHN_ABS
        shndx = elf.SHN_ABS if absolute else self.pieces[symbol.shndx][0].index
        other_info = symbol.info if info is None else info
        return struct.pack("<IBBHQQ", name, other_info, symbol.other, shndx, self._address(symbol), symbol.size)

    def _symbol_table(self) -> tuple[bytes, int, bytes]:
        """`.symtab`, the number of local symbols in it, and `.strtab`."""
        names = bytearray(b"\0")
        local: list[bytes] = [bytes(24)]
        hidden: list[bytes] = []
        shared: list[bytes] = []
        for symbol in self.symbols[1:]:
            if symbol.type == elf.STT_SECTION or (symbol.shndx != elf.SHN_ABS and symbol.shndx not in self.pieces):
                continue
            if symbol.binding == elf.STB_LOCAL and symbol.name.startswith(".L") and self._in_merged(symbol):
                continue
            at = len(names)
            names += symbol.name.encode() + b"\0"
            if symbol.binding == elf.STB_LOCAL:
                local.append(self._symbol(symbol, at))
            elif symbol.visibility in (0, 3):
                shared.append(self._symbol(symbol, at))
            else:
                hidden.append(self._symbol(symbol, at, symbol.type))
        dynamic = self.outs[".dynamic"]
        row = struct.pack("<IBBHQQ", len(names), 0, _STV_HIDDEN, dynamic.index, dynamic.addr, 0)
        names += b"_DYNAMIC\0"
        local = [*local, *hidden, row]
        return b"".join(local + shared), len(local), bytes(names)

    def _in_merged(self, symbol: Symbol) -> bool:
        return symbol.shndx != elf.SHN_ABS and bool(self.elf.sections[symbol.shndx].flags & _SHF_MERGE)

    def _write(self, outs: list[_Out], headers: bytes, end: int) -> bytes:
        table, local, names = self._symbol_table()
        symtab = _Out(".symtab", elf.SHT_SYMTAB, 0, 8, 24, ".strtab", local, bytearray(table))
        shstrtab = _Out(".shstrtab", elf.SHT_STRTAB, 0)
        strtab = _Out(".strtab", elf.SHT_STRTAB, 0, data=bytearray(names))
        outs = [*outs, symtab, shstrtab, strtab]
        names_of_sections = b"\0" + b"".join(o.name.encode() + b"\0" for o in outs)
        shstrtab.data[:] = names_of_sections
        for index, out in enumerate(outs[-3:], len(outs) - 2):
            out.index = index
            out.size = len(out.data)
            out.offset = end = _align(end, out.align)
            end += out.size
        table_at = _align(end, 8)
        if table_at > _LARGEST_FILE:
            raise LinkError(f"the linked code object would take {table_at} bytes; the object file is damaged")
        image = bytearray(table_at)
        ident = self.elf.data[:16]
        image[:_EHDR_SIZE] = struct.pack(
            "<16sHHIQQQIHHHHHH", ident, elf.ET_DYN, elf.EM_AMDGPU, 1, 0, _EHDR_SIZE, table_at, self.elf.flags,
            _EHDR_SIZE, _PHDR_SIZE, len(headers) // _PHDR_SIZE, _SHDR_SIZE, len(outs) + 1, shstrtab.index,
        )  # fmt: skip
        image[_EHDR_SIZE : _EHDR_SIZE + len(headers)] = headers
        indices = {o.name: o.index for o in outs}
        rows = [bytes(_SHDR_SIZE)]
        for out in outs:
            if not out.nobits:
                image[out.offset : out.offset + out.size] = out.data
            name, link = _string_at(names_of_sections, out.name), indices.get(out.link, 0)
            rows.append(
                struct.pack("<IIQQQQIIQQ", name, out.type, out.flags, out.addr, out.offset, out.size, link, out.info,
                            out.align, out.entsize)
            )  # fmt: skip
        return bytes(image) + b"".join(rows)


def _string_at(table: bytes, name: str) -> int:
    return table.index(b"\0" + name.encode() + b"\0") + 1


def _note_runs(outs: list[_Out]) -> list[list[_Out]]:
    """Notes of one alignment that follow each other share a PT_NOTE."""
    runs: list[list[_Out]] = []
    previous: _Out | None = None
    for out in outs:
        note = out.type == elf.SHT_NOTE and out.flags & elf.SHF_ALLOC
        if note and previous is not None and runs and runs[-1][-1] is previous and previous.align == out.align:
            runs[-1].append(out)
        elif note:
            runs.append([out])
        previous = out
    return runs


def _gnu_hash(symbols: list[Symbol]) -> tuple[list[Symbol], bytes]:
    """The order `.dynsym` must have and the `.gnu.hash` table for it."""
    buckets = max(len(symbols) // 4, 1)
    words = 1 << (len(symbols) * 12 // 64).bit_length() if symbols else 1
    hashes: dict[int, int] = {}
    for symbol in symbols:
        h = 5381
        for byte in symbol.name.encode():
            h = (h * 33 + byte) & 0xFFFFFFFF
        hashes[symbol.index] = h
    order = sorted(symbols, key=lambda s: hashes[s.index] % buckets)
    bloom = [0] * words
    heads = [0] * buckets
    chain: list[int] = []
    for i, symbol in enumerate(order):
        h = hashes[symbol.index]
        bloom[h // 64 & (words - 1)] |= 1 << h % 64 | 1 << (h >> 26) % 64
        bucket = h % buckets
        heads[bucket] = heads[bucket] or i + 1
        last = i + 1 == len(order) or hashes[order[i + 1].index] % buckets != bucket
        chain.append(h & ~1 | last)
    head = struct.pack("<IIII", buckets, 1, words, 26)
    return order, head + struct.pack(f"<{words}Q{buckets + len(chain)}I", *bloom, *heads, *chain)


def _sysv_hash(order: list[Symbol]) -> bytes:
    """The `.hash` table of a `.dynsym` with these symbols after the null symbol."""
    count = len(order) + 1
    heads, chain = [0] * count, [0] * count
    for i, symbol in enumerate(order, 1):
        h = 0
        for byte in symbol.name.encode():
            h = (h << 4) + byte
            high = h & 0xF0000000
            h = (h ^ high >> 24) & ~high & 0xFFFFFFFF
        chain[i], heads[h % count] = heads[h % count], i
    return struct.pack(f"<{2 + 2 * count}I", count, count, *heads, *chain)


def _open(obj: bytes) -> _Linker:
    try:
        return _Linker(obj)
    except elf.CodeObjectError as error:
        raise LinkError(f"cannot link: {error}") from error
    except elf.DAMAGE as error:
        raise LinkError(f"cannot link: damaged object file: {error}") from error


def can_link_internally(obj: bytes) -> bool:
    """Whether `link` takes this object; nothing is laid out to find out."""
    return try_link(obj) is not None


def try_link(obj: bytes) -> Callable[[], bytes] | None:
    """What links an object, if it can be linked here; nothing is laid out before."""
    try:
        return _open(obj).link
    except LinkError:
        return None


def link(obj: bytes) -> bytes:
    """Link one relocatable AMDGPU object into a shared object; what is not supported raises `LinkError`."""
    return _open(obj).link()
