"""Objects of plain functions in memory without LLVM: as the JIT linker places them, or not at all."""

from __future__ import annotations

import ctypes
import platform
import sys

import pytest

from flydsl.llvm import binding, host_jit
from flydsl.llvm.objects import plain_image
from flydsl.llvm.objects.code_object import ElfFile

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or not sys.platform.startswith("linux"), reason="for x86-64 Linux alone"
)

PROGRAM = """
declare i64 @outside(i64)
@table = internal constant [4 x i64] [i64 3, i64 5, i64 7, i64 11]
@ways = internal constant [2 x ptr] [ptr @twice, ptr @outside]
@count = global i64 40
@where = global ptr @count
define internal i64 @twice(i64 %x) noinline { %r = add i64 %x, %x ret i64 %r }
define i64 @look(i64 %i) {
  %p = getelementptr i64, ptr @table, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}
define i64 @go(i64 %i, i64 %x) {
  %p = getelementptr ptr, ptr @ways, i64 %i
  %f = load ptr, ptr %p
  %v = call i64 %f(i64 %x)
  %w = call i64 @outside(i64 %v)
  ret i64 %w
}
define i64 @next() {
  %p = load ptr, ptr @where
  %v = load i64, ptr %p
  %w = add i64 %v, 1
  store i64 %w, ptr %p
  ret i64 %w
}
"""
NUMBERS = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
PAIRS = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
NOTHING = ctypes.CFUNCTYPE(ctypes.c_int64)
outside = NUMBERS(lambda x: 1000 + x)
IMPORTS = {"outside": ctypes.cast(outside, ctypes.c_void_p).value or 0}


def compiled(text: str = PROGRAM) -> bytes:
    return host_jit.compile_portable(text, ("add_sroa_pass",))


@pytest.mark.parametrize("plain", [True, False])
def test_tables_pointers_variables_and_calls_out(plain: bool, monkeypatch: pytest.MonkeyPatch):
    code = compiled()
    if plain:
        monkeypatch.setattr(binding, "link_jit_library", None)
    library = host_jit.load_object(code, exports=["look", "go", "next", "count"], imports=IMPORTS, plain=plain)
    assert [NUMBERS(library.address("look"))(i) for i in range(4)] == [3, 5, 7, 11]
    go = PAIRS(library.address("go"))
    assert go(0, 21) == 1042 and go(1, 5) == 2005
    following = NOTHING(library.address("next"))
    assert [following() for _ in range(3)] == [41, 42, 43]
    assert ctypes.c_int64.from_address(library.address("count")).value == 43
    library.close()
    assert library.closed


def test_every_copy_has_its_own_variables():
    code = compiled()
    first, second = (host_jit.load_object(code, imports=IMPORTS, plain=True) for _ in range(2))
    for library in (first, second, first):
        NOTHING(library.address("next"))()
    assert [NOTHING(library.address("next"))() for library in (first, second)] == [43, 42]


def test_what_is_not_plain_is_left_alone():
    code = compiled()
    assert plain_image.load(code, IMPORTS) is not None
    assert plain_image.load(code, {}) is None
    assert plain_image.load(code[:18] + (183).to_bytes(2, "little") + code[20:], IMPORTS) is None  # another machine
    assert plain_image.load(b"MZ" + code, IMPORTS) is None
    threads = compiled("@t = thread_local global i64 1\ndefine ptr @f() { ret ptr @t }")
    assert plain_image.load(threads, {}) is None
    # A relocation of a kind that nobody here knows.
    file = ElfFile(code)
    table = file.section(".rela.text")
    assert table is not None
    at = table.offset + 8
    assert plain_image.load(code[:at] + (35).to_bytes(4, "little") + code[at + 4 :], IMPORTS) is None
