"""The built-in linker against ld.lld, and against what the loader needs."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flydsl.llvm import codegen, tools
from flydsl.llvm.objects import amdgpu_link, link
from flydsl.llvm.objects.code_object import (
    ET_DYN,
    SHT_DYNSYM,
    SHT_NOBITS,
    SHT_SYMTAB,
    CodeObjectError,
    ElfFile,
    Symbol,
    read_code_object,
)

DAMAGED = codegen.compile_device(
    """target triple = "amdgcn-amd-amdhsa"
@x = addrspace(1) global i32 1
define amdgpu_kernel void @k() {
  store i32 2, ptr addrspace(1) @x
  ret void
}""",
    codegen.DeviceTarget.amdgpu("gfx942"),
).object
ARCHS = ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"]
PT_LOAD, PT_DYNAMIC = 1, 2


def compile_object(ir: str, arch: str = "gfx942") -> bytes:
    return codegen.compile_device(ir, codegen.DeviceTarget.amdgpu(arch)).object


# --- a loader in miniature ---


def load(data: bytes) -> bytearray:
    """Memory image at base 0 with the dynamic relocations applied."""
    file = ElfFile(data)
    loads = [s for s in file.segments if s.type == PT_LOAD]
    image = bytearray(max(s.vaddr + s.memsz for s in loads))
    for s in loads:
        image[s.vaddr : s.vaddr + s.filesz] = data[s.offset : s.offset + s.filesz]
    tags = dynamic(file)
    symbols = {i: s for i, s in enumerate(file.symbols(SHT_DYNSYM))}
    for at in range(tags.get(7, 0), tags.get(7, 0) + tags.get(8, 0), 24):
        place, info, addend = struct.unpack_from("<QQq", image, at)
        kind, symbol = info & 0xFFFFFFFF, info >> 32
        assert kind in (3, 13)
        value = addend if kind == 13 else symbols[symbol].value + addend
        struct.pack_into("<Q", image, place, value)
    return image


def dynamic(file: ElfFile) -> dict[int, int]:
    segment = next(s for s in file.segments if s.type == PT_DYNAMIC)
    data = file.data[segment.offset : segment.offset + segment.filesz]
    return dict(struct.iter_unpack("<QQ", data))


def gnu_lookup(image: bytearray, tags: dict[int, int], name: str) -> int | None:
    """Index in .dynsym found the way a loader does with DT_GNU_HASH."""
    at = tags[0x6FFFFEF5]
    buckets, first, words, shift = struct.unpack_from("<IIII", image, at)
    h = 5381
    for byte in name.encode():
        h = (h * 33 + byte) & 0xFFFFFFFF
    (word,) = struct.unpack_from("<Q", image, at + 16 + 8 * (h // 64 % words))
    if not (word >> h % 64 & word >> (h >> shift) % 64 & 1):
        return None
    heads = at + 16 + 8 * words
    (index,) = struct.unpack_from("<I", image, heads + 4 * (h % buckets))
    while index:
        (value,) = struct.unpack_from("<I", image, heads + 4 * buckets + 4 * (index - first))
        if value | 1 == h | 1 and dynamic_name(image, tags, index) == name:
            return index
        index = 0 if value & 1 else index + 1
    return None


def sysv_lookup(image: bytearray, tags: dict[int, int], name: str) -> int | None:
    at = tags[4]
    buckets, count = struct.unpack_from("<II", image, at)
    h = 0
    for byte in name.encode():
        h = (h << 4) + byte
        high = h & 0xF0000000
        h = (h ^ (high >> 24)) & ~high
    (index,) = struct.unpack_from("<I", image, at + 8 + 4 * (h % buckets))
    while index:
        assert index < count
        if dynamic_name(image, tags, index) == name:
            return index
        (index,) = struct.unpack_from("<I", image, at + 8 + 4 * (buckets + index))
    return None


def dynamic_name(image: bytearray, tags: dict[int, int], index: int) -> str:
    (name,) = struct.unpack_from("<I", image, tags[6] + 24 * index)
    start = tags[5] + name
    return image[start : image.index(0, start)].decode()


def entry_of(image: bytearray, descriptor: int) -> int:
    """Address of a kernel's code from its descriptor."""
    return descriptor + struct.unpack_from("<q", image, descriptor + 16)[0]


def exported(file: ElfFile) -> dict[str, Symbol]:
    return {s.name: s for s in file.symbols(SHT_DYNSYM)[1:]}


# --- laws of the built-in linker's output ---


@pytest.mark.parametrize("arch", ARCHS)
def test_output_is_loadable(amdgpu_ir: str, arch: str):
    obj = compile_object(amdgpu_ir, arch)
    assert amdgpu_link.can_link_internally(obj)
    data = amdgpu_link.link(obj)
    file = ElfFile(data)
    assert (file.type, file.os_abi, file.abi_version) == (ET_DYN, 64, ElfFile(obj).abi_version)
    assert file.flags == ElfFile(obj).flags

    info = read_code_object(data)
    assert info.linked and info.kernels == read_code_object(obj).kernels
    assert info.target_id.endswith(arch)

    loads = [s for s in file.segments if s.type == PT_LOAD]
    for s in loads:
        assert s.align == 0x1000 and s.offset % s.align == s.vaddr % s.align
    pages = [set(range(s.vaddr // 0x1000, -(-(s.vaddr + s.memsz) // 0x1000))) for s in loads]
    assert sum(map(len, pages)) == len(set().union(*pages)), "two segments share a page"
    for section in file.sections:
        if section.flags & 2 and section.size:
            assert any(s.vaddr <= section.addr and section.addr + section.size <= s.vaddr + s.memsz for s in loads)
            assert section.addr % max(section.align, 1) == 0
            if section.type != SHT_NOBITS:
                assert section.offset % 0x1000 == section.addr % 0x1000

    image, tags, table = load(data), dynamic(file), exported(file)
    for i, name in enumerate(table, 1):
        assert gnu_lookup(image, tags, name) == i
        assert sysv_lookup(image, tags, name) == i
    assert gnu_lookup(image, tags, "absent") is None and sysv_lookup(image, tags, "absent") is None
    for kernel in info.kernels:
        assert entry_of(image, table[kernel.symbol].value) == table[kernel.name].value


def test_addresses_arrive(addresses_ir: str):
    """The table of pointers holds, once loaded, the addresses of the two variables."""
    data = amdgpu_link.link(compile_object(addresses_ir))
    image, file = load(data), ElfFile(data)
    symbols = {s.name: s for s in file.symbols()}
    pair = symbols["pair"].value
    assert struct.unpack_from("<QQ", image, pair) == (symbols["p"].value, symbols["h"].value)
    assert struct.unpack_from("<I", image, symbols["p"].value) == (42,)
    assert struct.unpack_from("<I", image, symbols["h"].value) == (43,)
    assert "h" not in exported(file) and "p" in exported(file)


def test_deterministic(amdgpu_ir: str):
    obj = compile_object(amdgpu_ir)
    assert amdgpu_link.link(obj) == amdgpu_link.link(obj)


# --- against ld.lld ---


def without_comment(file: ElfFile) -> list[tuple[object, ...]]:
    """Sections with all their bytes; offsets only of what is loaded, since the comments differ in length."""
    return [
        (s.name, s.type, s.flags, s.addr, s.offset if s.flags & 2 else 0, s.size, s.link, s.info, s.align, s.entsize,
         file.content(s))
        for s in file.sections
        if s.name != ".comment"
    ]  # fmt: skip


@pytest.mark.parametrize("arch", ARCHS)
def test_same_as_lld(amdgpu_ir: str, arch: str, need_tool):
    need_tool("ld.lld")
    obj = compile_object(amdgpu_ir, arch)
    ours, how = link.link_hsaco(obj, linker="internal")
    assert how == "internal"
    theirs, how = link.link_hsaco(obj, linker="lld")
    assert "ld.lld" in how
    a, b = ElfFile(ours), ElfFile(theirs)
    assert a.segments == b.segments
    assert list(dynamic(a).items()) == list(dynamic(b).items())
    assert a.symbols(SHT_DYNSYM) == b.symbols(SHT_DYNSYM)
    assert a.symbols() == b.symbols()
    assert a.notes() == b.notes()
    assert without_comment(a) == without_comment(b)
    end = max(s.offset + s.filesz for s in a.segments)
    assert ours[64:end] == theirs[64:end], "everything the loader reads"


def test_same_as_lld_with_line_tables(debug_ir: str, need_tool):
    need_tool("ld.lld")
    obj = compile_object(debug_ir)
    assert ElfFile(obj).section(".debug_line") is not None
    a, b = ElfFile(amdgpu_link.link(obj)), ElfFile(link.link_with_lld(obj)[0])
    assert a.segments == b.segments
    assert [s.name for s in a.sections] == [s.name for s in b.sections]
    differing = [s.name for s, t in zip(a.sections, b.sections, strict=True) if a.content(s) != b.content(t)]
    # lld sorts the strings by hash; whatever counts offsets into them follows.
    assert set(differing) <= {".comment", ".debug_str", ".debug_str_offsets", ".debug_names"}


def test_line_tables_name_the_source(debug_ir: str, tmp_path, need_tool):
    path = tmp_path / "kernel.hsaco"
    path.write_bytes(amdgpu_link.link(compile_object(debug_ir)))
    done = tools.run_tool(need_tool("llvm-objdump"), ["-d", "-l", str(path)])
    assert "/src/kernel.py:7" in done.stdout and "/src/kernel.py:9" in done.stdout


def test_mergeable_constants(constants_ir: str, need_tool):
    """lld orders and merges constants by hash; each table must still be what the source says."""
    need_tool("ld.lld")
    obj = compile_object(constants_ir)
    for data in (amdgpu_link.link(obj), link.link_with_lld(obj)[0]):
        image = load(data)
        symbols = {s.name: s for s in ElfFile(data).symbols()}
        for name, first in (("a", 1), ("b", 2), ("c", 9)):
            assert struct.unpack_from("<4I", image, symbols[name].value) == (first, 3, 5, 7)
    a, b = ElfFile(amdgpu_link.link(obj)), ElfFile(link.link_with_lld(obj)[0])
    assert [(s.type, s.flags, s.align) for s in a.segments] == [(s.type, s.flags, s.align) for s in b.segments]


def test_llvm_tools_accept_the_output(amdgpu_ir: str, tmp_path, need_tool):
    readelf, objdump = need_tool("llvm-readelf"), need_tool("llvm-objdump")
    path = tmp_path / "kernel.hsaco"
    path.write_bytes(amdgpu_link.link(compile_object(amdgpu_ir)))
    done = tools.run_tool(readelf, ["--all", str(path)])
    assert "warning" not in done.stderr and "amdhsa.kernels" in done.stdout
    done = tools.run_tool(objdump, ["-d", str(path)])
    assert "warning" not in done.stderr and "s_endpgm" in done.stdout


# --- refusals ---


def patch_relocation(obj: bytes, section: str, kind: int) -> bytes:
    """The object with the first relocation of a section changed to another type."""
    found = ElfFile(obj).section(section)
    assert found is not None
    out = bytearray(obj)
    struct.pack_into("<I", out, found.offset + 8, kind)
    return bytes(out)


def patch_symbol(obj: bytes, name: str, *, shndx: int | None = None, info: int | None = None) -> bytes:
    file = ElfFile(obj)
    table = file.section(".symtab")
    assert table is not None
    symbol = next(s for s in file.symbols() if s.name == name)
    out = bytearray(obj)
    at = table.offset + 24 * symbol.index
    if shndx is not None:
        struct.pack_into("<H", out, at + 6, shndx)
    if info is not None:
        out[at + 4] = info
    return bytes(out)


def refused(obj: bytes) -> str:
    assert not amdgpu_link.can_link_internally(obj)
    with pytest.raises(link.LinkError) as caught:
        amdgpu_link.link(obj)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [(14, "R_AMDGPU_REL16"), (99, "type 99"), (3, "R_AMDGPU_ABS64"), (6, "R_AMDGPU_ABS32"), (1, "R_AMDGPU_ABS32_LO")],
)
def test_refused_relocations(simple_ir: str, kind: int, text: str):
    message = refused(patch_relocation(compile_object(simple_ir), ".rela.rodata", kind))
    assert text in message and "rotate" in message and ".rodata" in message and "ld.lld" in message


def test_relative_relocation_against_replaceable_symbol(globals_ir: str):
    message = refused(patch_relocation(compile_object(globals_ir), ".rela.data", 5))
    assert "R_AMDGPU_REL64" in message and "counter" in message


def test_refused_symbols(globals_ir: str):
    obj = compile_object(globals_ir)
    assert "LDS" in refused(patch_symbol(obj, "counter", shndx=0xFF00))
    assert "counter is undefined" in refused(patch_symbol(obj, "counter", shndx=0))
    assert "0xfff2" in refused(patch_symbol(obj, "counter", shndx=0xFFF2))
    assert "type 10" in refused(patch_symbol(obj, "read", info=0x1A))


def test_undefined_function():
    ir = """target triple = "amdgcn-amd-amdhsa"
declare void @elsewhere(i32)
define amdgpu_kernel void @k(i32 %x) {
  call void @elsewhere(i32 %x)
  ret void
}"""
    assert "elsewhere is undefined" in refused(compile_object(ir))


def test_refused_section():
    ir = """target triple = "amdgcn-amd-amdhsa"
@llvm.global_ctors = appending addrspace(1) global [1 x { i32, ptr, ptr }] [
  { i32, ptr, ptr } { i32 1, ptr @f, ptr null }]
@state = internal addrspace(1) global i32 0
define internal void @f() {
  store volatile i32 1, ptr addrspace(1) @state
  ret void
}"""
    assert ".ctors" in refused(compile_object(ir))


def test_not_an_object(simple_ir: str):
    linked = amdgpu_link.link(compile_object(simple_ir))
    assert "not a relocatable object" in refused(linked)
    assert "not an ELF file" in refused(b"nonsense")
    host = codegen.compile_device("define void @f() {\n  ret void\n}", codegen.DeviceTarget.host()).object
    assert "not an AMDGPU HSA object" in refused(host)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4))
def test_changed_bytes_never_escape_as_other_errors(changes: list[tuple[float, int]]):
    out = bytearray(DAMAGED)
    for where, value in changes:
        out[int(where * len(out))] = value
    for read in (amdgpu_link.link, read_code_object):
        try:
            read(bytes(out))
        except (link.LinkError, CodeObjectError):
            continue


FIELDS = ((4, "I"), (8, "Q"), (16, "Q"), (24, "Q"), (32, "Q"), (40, "I"), (44, "I"), (48, "Q"), (56, "Q"))
"""Where the fields of a section's entry lie: type, flags, address, offset, size, link, info, alignment, entry size."""


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, DAMAGED[60] - 1),
    st.sampled_from(FIELDS),
    st.sampled_from((0, 1, SHT_NOBITS, 1 << 31, 1 << 40, 1 << 62, (1 << 64) - 1)),
    st.booleans(),
)
@example(0, (0, "I"), 0, True)
def test_fields_of_any_size_never_escape_as_other_errors(index: int, field: tuple[int, str], value: int, far: bool):
    """Sections and tables that no file or memory has room for."""
    out = bytearray(DAMAGED)
    at, form = field
    place = struct.unpack_from("<Q", out, 40)[0] + 64 * index + at
    struct.pack_into(f"<{form}", out, place, value & (1 << 8 * struct.calcsize(form)) - 1)
    if far:
        out[47] = 0x80  # the highest byte of where the table of sections is
    for read in (amdgpu_link.link, read_code_object):
        try:
            read(bytes(out))
        except (link.LinkError, CodeObjectError):
            continue


def test_names_without_content():
    """A table of names in a section of 2^62 bytes that the file does not hold."""
    file, out = ElfFile(DAMAGED), bytearray(DAMAGED)
    names = file.sections[next(s for s in file.sections if s.type == SHT_SYMTAB).link]
    at = struct.unpack_from("<Q", out, 40)[0] + 64 * names.index
    struct.pack_into("<I", out, at + 4, SHT_NOBITS)
    struct.pack_into("<Q", out, at + 32, 1 << 62)
    assert "names of symbols lie in section .strtab, which has no content" in refused(bytes(out))


def test_damaged_objects_never_escape_as_other_errors(globals_ir: str):
    """Cutting the object short anywhere gives LinkError or a result, never another exception."""
    obj = compile_object(globals_ir)
    for size in range(0, len(obj), 97):
        try:
            amdgpu_link.link(obj[:size])
        except link.LinkError:
            continue


@pytest.mark.parametrize("linker", ["auto", "internal", "lld"])
def test_undefined_symbols_are_named_with_their_users(linker: link.Linker):
    """Whichever linker is asked: `ld.lld -shared` alone would make a code object that no loader takes."""
    ir = """
    target triple = "amdgcn-amd-amdhsa"
    declare void @elsewhere()
    declare void @nowhere()
    define amdgpu_kernel void @first() { call void @elsewhere() ret void }
    define amdgpu_kernel void @second() { call void @elsewhere() call void @nowhere() ret void }
    """
    obj = compile_object(ir)
    assert link.undefined_symbols(obj) == {"elsewhere": ["first", "second"], "nowhere": ["second"]}
    with pytest.raises(link.LinkError, match="'elsewhere', used by first, second; 'nowhere', used by second"):
        link.link_hsaco(obj, linker=linker)
