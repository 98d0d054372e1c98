"""Values and instructions by themselves, against integers of Python and the folds of the compiler."""

from __future__ import annotations

import mmap
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flydsl.debug.atomics import update
from flydsl.debug.formats import printed
from flydsl.debug.kinds import from_bytes, from_int, kind, offsets, to_bytes, to_int
from flydsl.debug.memory import Memory, Now, Watch
from flydsl.debug.operations import conversion, guarded, integer, intrinsic, signed
from flydsl.errors import DSLCompileError, KernelCheckError
from flydsl.ir import fold

WORDS = {
    "add": "addi", "sub": "subi", "mul": "muli", "and": "andi", "or": "ori", "xor": "xori", "shl": "shli",
    "lshr": "shrui", "ashr": "shrsi", "udiv": "divui", "urem": "remui", "sdiv": "divsi", "srem": "remsi",
    "smin": "minsi", "smax": "maxsi", "umin": "minui", "umax": "maxui",
}  # fmt: skip


@given(st.sampled_from(sorted(WORDS)), st.sampled_from([1, 4, 8, 16, 24, 32, 64, 128]), st.integers(), st.integers())
def test_integers_do_what_folding_does(word: str, width: int, a: int, b: int):
    mask = (1 << width) - 1
    a, b = a & mask, b & mask
    # Where folding sees nothing defined, the machine may do anything but fail.
    x, y = (a, b) if word[0] == "u" or word == "lshr" else (fold.signed(a, width), fold.signed(b, width))
    wanted = fold.fold_int(WORDS[word], x, y if word not in ("shl", "lshr", "ashr") else b, width)
    divides = word in ("udiv", "urem", "sdiv", "srem")
    divisor = guarded(kind(f"i{width}"), word[0] == "s")(a, b) if divides else b
    found = integer(word, kind(f"i{width}"))(a, divisor)
    assert 0 <= found <= mask
    if wanted is not None and width > 1 and not (divides and divisor != b):
        assert found == wanted & mask
    if width in (8, 16, 32, 64):
        k = kind(f"<2 x i{width}>")
        both = integer(word, k)(np.array([a, a], k.dtype), np.array([divisor, divisor], k.dtype))
        assert both.tolist() == [found, found]


KINDS = ["i1", "i8", "i24", "i64", "half", "float", "double", "bfloat", "<8 x i1>", "<4 x i6>", "<3 x i16>",
         "<4 x bfloat>", "<2 x double>", "{ i8, i32 }", "<{ i8, <2 x half>, <{ i64 }> }>", "[3 x i16]"]  # fmt: skip


@given(st.sampled_from(KINDS), st.binary(min_size=24, max_size=24))
def test_values_keep_their_bits_in_memory(text: str, data: bytes):
    k = kind(text)
    given_bytes = data[: k.nbytes]
    value = from_bytes(k, given_bytes)
    again = to_bytes(k, value)
    assert len(again) == k.nbytes
    if not k.is_struct:
        spare = (1 << (k.bits * max(k.count, 1))) - 1
        assert int.from_bytes(again, "little") == int.from_bytes(given_bytes, "little") & spare
        assert to_bytes(k, from_int(k, to_int(k, value))) == again
    assert to_bytes(k, from_bytes(k, again)) == again


def test_structs_lie_as_in_c():
    plain, packed = kind("{ i8, i32, i16 }"), kind("<{ i8, i32 }>")
    assert offsets(plain) == (0, 4, 8) and plain.nbytes == 12
    assert offsets(packed) == (0, 1) and packed.nbytes == 5


@given(st.floats(width=32), st.floats(width=32), st.floats(width=32))
def test_conversions_round_once(a: float, b: float, c: float):
    exact = float(a) * (1 + 2.0**-30) + float(b)
    if np.isfinite(exact):
        with np.errstate(all="ignore"):
            found = conversion("fptrunc", kind("double"), kind("bfloat"))(np.float64(exact))
        bits = struct.unpack("<I", struct.pack("<f", float(found)))[0]
        assert bits & 0xFFFF == 0
        assert float(found) == fold.round_float(exact, "bf16") or (found == 0 == fold.round_float(exact, "bf16"))
    with np.errstate(all="ignore"):
        fused = intrinsic("fma", [kind("float")] * 3)(np.float32(a), np.float32(b), np.float32(c))
        wide = np.float64(a) * np.float64(b) + np.float64(c)
        if np.isfinite(wide) and wide and abs(wide) < 3e38:
            assert abs(np.float64(fused) - wide) <= max(abs(wide) * 2.0**-24 * 1.01, 1e-45)


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_to_floats_round_to_nearest_even(x: int):
    found = conversion("sitofp", kind("i64"), kind("float"))(x & (2**64 - 1))
    assert found == np.float32(np.int64(x))
    assert conversion("sitofp", kind("i64"), kind("double"))(x & (2**64 - 1)) == float(x)


def test_what_does_not_fit_an_integer_is_what_the_machine_gives():
    to = conversion("fptosi", kind("float"), kind("i32"))
    assert [signed(to(np.float32(x)), 32) for x in (-1.9, 2.9, np.nan, 3e9)] == [-1, 2, -(2**31), -(2**31)]


def test_minimum_and_maximum_know_nan_and_signed_zeros():
    pair = [kind("float")] * 2
    nan, zero, minus = np.float32("nan"), np.float32(0.0), np.float32(-0.0)
    assert intrinsic("minnum", pair)(nan, zero) == 0 and np.isnan(intrinsic("minimum", pair)(zero, nan))
    assert np.signbit(intrinsic("minimum", pair)(zero, minus))
    assert not np.signbit(intrinsic("maximum", pair)(minus, zero))


def test_atomics():
    i32 = kind("i32")
    assert update("uinc_wrap", i32)(3, 3) == 0 and update("udec_wrap", i32)(0, 7) == 7
    assert update("max", i32)(2**32 - 1, 1) == 1 and update("umax", i32)(2**32 - 1, 1) == 2**32 - 1
    with pytest.raises(DSLCompileError, match="atomic operation frob"):
        update("frob", i32)


def test_what_is_not_known_is_refused():
    with pytest.raises(DSLCompileError, match="no values of type token"):
        kind("token")
    with pytest.raises(DSLCompileError, match=r"intrinsic llvm\.frob"):
        intrinsic("frob", [kind("float")])


def test_memory_is_undone_and_knows_who_wrote_it():
    cells = np.arange(8, dtype=np.int32)
    address, i32 = int(cells.ctypes.data), kind("i32")
    memory = Memory(Now())
    changes: list[tuple[str, int]] = []
    memory.watches = [Watch(address + 8, 4, "cells[2]")]
    memory.changed = lambda watch, write: changes.append((watch.label, write.thread))
    for thread, (at, value) in enumerate([(2, 2), (2, 7), (3, 9), (2, 7), (1, 5)]):
        memory.now.thread = thread
        memory.store(i32, value, address + 4 * at)
    assert changes == [("cells[2]", 1)], "only what changes is told"
    assert [w.thread for w in memory.last_writes(address + 8, 4)] == [3, 1, 0]
    assert memory.load(kind("<2 x i32>"), address + 8).tolist() == [7, 9]
    done = list(memory.journal or ())
    memory.undo(0)
    assert cells.tolist() == list(range(8)) and not memory.journal
    memory.redo(done)
    assert cells.tolist() == [0, 5, 7, 9, 4, 5, 6, 7] and len(changes) == 1


def test_memory_that_is_not_there_or_cannot_be_written():
    memory = Memory(Now())
    with pytest.raises(KernelCheckError, match="8 bytes at 0x10, where this process has no memory"):
        memory.read(16, 8)
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ) as page:
        view = np.frombuffer(page, np.uint8)
        assert memory.read(int(view.ctypes.data), 4) == bytes(4)
        with pytest.raises(KernelCheckError, match="can only be read"):
            memory.write(int(view.ctypes.data), b"1234")
        del view


def test_formats_of_c():
    kinds = [kind("i32"), kind("i1"), kind("i64"), kind("double"), kind("ptr")]
    assert printed("%d %d %5lu|%-8.3g|%p%%", kinds, (2**32 - 5, 1, 42, 0.12345, 255)) == "-5 1    42|0.123   |0xff%"
