"""Assembly that reaches memory: every width and space, offsets, signs, bounds, atomics; the rest is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLCompileError
from flydsl.expr import rocdl

from .test_assembly import launcher

WORDS = {"dword": 1, "dwordx2": 2, "dwordx3": 3, "dwordx4": 4}
T = np.arange(64)


def vector(words: int) -> Any:
    return fx.Int32 if words == 1 else fx.Vector.make_type(words, fx.Int32)


def ints(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.integers(-(2**31), 2**31, count).astype(np.int32)


@pytest.mark.parametrize("space", ["global", "flat", "saddr", "buffer", "ds"])
def test_widths(space: str, emulate: Any, rng: np.random.Generator) -> None:
    """What is loaded with an offset is stored with none, in each width; shared memory holds a copy first."""
    emulate("gfx942")
    a, out = ints(rng, 64 * 17), np.full(64 * 16, 7, np.int32)

    def body(x: Any, _: Any, target: Any) -> None:
        t = fx.thread_idx.x
        lds = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 64 * 17, 16]).peek()
        shared = fx.Int32(fx.ptrtoint(lds.ptr))
        for i in fx.range_constexpr(17):
            lds[t + 64 * i] = x[t + 64 * i]
        fx.barrier()
        start = 0
        for name, words in WORDS.items():
            at = start + t * words
            source, place = (fx.to_llvm_ptr(fx.get_iter(y) + at) for y in (x, target))
            kind = vector(words)
            if space == "ds":
                bits = 32 * words
                v = fx.inline_asm(kind, [shared + at * 4], f"ds_read_b{bits} $0, $1 offset:16", "=v,v")
                fx.inline_asm(None, [shared + at * 4, v], f"ds_write_b{bits} $0, $1", "v,v")
                v = fx.inline_asm(kind, [shared + at * 4], f"ds_read_b{bits} $0, $1", "=v,v")
                fx.inline_asm(None, [place, v], f"global_store_{name} $0, $1, off", "v,v")
                fx.barrier()
            elif space == "buffer":
                rsrc, back = (rocdl.get_buffer_rsrc(fx.get_iter(rocdl.make_buffer_tensor(y))) for y in (x, target))
                load = f"buffer_load_{name} $0, $1, $2, 0 offen offset:16"
                v = fx.inline_asm(kind, [at * 4, words_of(rsrc)], load, "=v,v,s")
                fx.inline_asm(None, [v, at * 4, words_of(back)], f"buffer_store_{name} $0, $1, $2, 0 offen", "v,v,s")
            elif space == "saddr":
                base = fx.to_llvm_ptr(fx.get_iter(x))
                v = fx.inline_asm(kind, [at * 4, base], f"global_load_{name} $0, $1, $2 offset:16", "=v,v,s")
                fx.inline_asm(None, [place, v], f"global_store_{name} $0, $1, off", "v,v")
            else:
                off = ", off" if space == "global" else ""
                v = fx.inline_asm(kind, [source], f"{space}_load_{name} $0, $1{off} offset:16 sc0", "=v,v")
                fx.inline_asm(None, [place, v], f"{space}_store_{name} $0, $1{off}", "v,v")
            start += 64 * words

    launcher(body)(a, a, out)
    if space == "ds":
        # Each width moves by four words within shared memory, over what the one before left alone.
        np.testing.assert_array_equal(out[:64], a[4:68])
        return
    np.testing.assert_array_equal(out[: 64 * 10], a[4 : 64 * 10 + 4])
    assert (out[64 * 10 :] == 7).all()


def words_of(rsrc: Any) -> Any:
    from flydsl._mlir import ir
    from flydsl._mlir.dialects import llvm

    number = llvm.PtrToIntOp(ir.IntegerType.get_signless(128), rsrc).result
    return llvm.BitcastOp(ir.VectorType.get([4], ir.IntegerType.get_signless(32)), number).result


def test_bytes_and_halves(emulate: Any, rng: np.random.Generator) -> None:
    emulate("gfx942")
    a, out = ints(rng, 64), np.zeros(5 * 64, np.int32)

    def body(x: Any, _: Any, target: Any) -> None:
        t = fx.thread_idx.x
        source = fx.to_llvm_ptr(fx.get_iter(x) + t)
        for n, name in enumerate(("ubyte", "sbyte", "ushort", "sshort")):
            by = 1 if "byte" in name else 2
            text = f"global_load_{name} $0, $1, off offset:{by}\ns_waitcnt vmcnt(0)"
            target[n * 64 + t] = fx.inline_asm(fx.Int32, [source], text, "=v,v")
        place = fx.to_llvm_ptr(fx.get_iter(target) + 4 * 64 + t)
        text = "global_store_byte $0, $1, off\nglobal_store_short $0, $1, off offset:2"
        fx.inline_asm(None, [place, x[t]], text, "v,v")

    launcher(body)(a, a, out)
    got = out.reshape(5, 64)
    np.testing.assert_array_equal(got[0], a.view(np.uint8)[1::4])
    np.testing.assert_array_equal(got[1], a.view(np.int8)[1::4])
    np.testing.assert_array_equal(got[2], a.view(np.uint16)[1::2])
    np.testing.assert_array_equal(got[3], a.view(np.int16)[1::2])
    np.testing.assert_array_equal(got[4], (a & 0xFF) | (a << 16))


def test_atomics_give_what_was_there(emulate: Any, rng: np.random.Generator) -> None:
    emulate("gfx942")
    a, out = rng.integers(-100, 100, 64).astype(np.int32), np.zeros(64 + 4, np.int32)

    def body(x: Any, _: Any, target: Any) -> None:
        t = fx.thread_idx.x
        total, low, high = (fx.to_llvm_ptr(fx.get_iter(target) + 64 + i) for i in range(3))
        old = fx.inline_asm(fx.Int32, [total, x[t]], "global_atomic_add $0, $1, $2, off sc0", "=v,v,v")
        target[t] = old
        fx.inline_asm(None, [low, x[t]], "global_atomic_smin $0, $1, off", "v,v")
        fx.inline_asm(None, [high, x[t]], "global_atomic_smax $0, $1, off", "v,v")

    launcher(body)(a, a, out)
    assert out[64:67].tolist() == [a.sum(), min(a.min(), 0), max(a.max(), 0)]
    # One after the other: what a thread found and its number is what the next one found, or what is left.
    found, left = out[:64].tolist(), (out[:64] + a).tolist()
    assert sorted([*found, int(a.sum())]) == sorted([0, *left])


def test_pairs_are_added(emulate: Any, rng: np.random.Generator) -> None:
    emulate("gfx950")
    a = rng.integers(-4, 5, (64, 2)).astype(np.float16)
    out = np.zeros((8, 2), np.float16)

    def body(x: Any, _: Any, target: Any) -> None:
        t = fx.thread_idx.x
        place = fx.to_llvm_ptr(fx.get_iter(target) + t % 8)
        fx.inline_asm(None, [place, x[t]], "global_atomic_pk_add_f16 $0, $1, off", "v,v")

    words, target = a.reshape(-1).view(np.int32), out.reshape(-1).view(np.int32)
    launcher(body)(words, words, target)
    np.testing.assert_array_equal(out, a.reshape(8, 8, 2).sum(0))


def test_a_buffer_ends(emulate: Any, rng: np.random.Generator) -> None:
    """Beyond the records nothing is read and nothing written, whatever the offset."""
    emulate("gfx942")
    whole = np.arange(1, 129, dtype=np.int32)
    out = np.full(64, 9, np.int32)

    def body(x: Any, _: Any, target: Any) -> None:
        t = fx.thread_idx.x
        rsrc = words_of(rocdl.get_buffer_rsrc(fx.get_iter(rocdl.make_buffer_tensor(x, max_size=False))))
        target[t] = fx.inline_asm(fx.Int32, [t * 4, rsrc], "buffer_load_dword $0, $1, $2, 0 offen", "=v,v,s")
        fx.inline_asm(None, [t, t * 4, rsrc], "buffer_store_dword $0, $1, $2, 0 offen", "v,v,s")

    part = whole[:40]
    launcher(body)(part, part, out)
    np.testing.assert_array_equal(out, np.where(T < 40, T + 1, 0))
    np.testing.assert_array_equal(whole[40:], np.arange(41, 129))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("buffer_load_dword $0, $1, $1, 0 offen lds", "lds"),
        ("buffer_load_dword $0, $1, $1, 0 idxen", "idxen"),
        ("s_mov_b32 m0, $1\nv_mov_b32 $0, $1", "m0"),
        ("ds_read2_b32 $0, $1 offset0:0 offset1:1", "ds_read2_b32"),
        ("global_load_dword $0, $1, off", "64|address"),
        ("global_load_lds_dword $1, off", "global_load_lds_dword"),
        ("image_load $0, $1, $1", "image_load"),
        ("v_mfma_f32_4x4x4_16b_f16 $0, $1, $1, $1", "v_mfma"),
    ],
)
def test_refused(text: str, name: str, emulate: Any) -> None:
    emulate("gfx942")

    def body(x: Any, _: Any, target: Any) -> None:
        t = fx.thread_idx.x
        target[t] = fx.inline_asm(fx.Int32, [x[t]], text, "=v,v")

    a = np.zeros(64, np.int32)
    with pytest.raises(DSLCompileError, match=rf"does not emulate.*({name})") as caught:
        launcher(body)(a, a, a)
    assert "test_assembly_memory.py" in str(caught.value)


def test_an_address_out_of_a_tensor_is_reported(emulate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In checked mode a wild access ends the launch, not the process."""
    emulate("gfx942")
    monkeypatch.setenv("FLYDSL_CPU_CHECK", "1")

    def body(x: Any, _: Any, target: Any) -> None:
        t = fx.thread_idx.x
        wild = fx.to_llvm_ptr(fx.get_iter(x) + (t + 1) * 100000)
        target[t] = fx.inline_asm(fx.Int32, [wild], "global_load_dword $0, $1, off", "=v,v")

    a = np.zeros(64, np.int32)
    with pytest.raises(Exception, match="out of|outside|beyond|not within"):
        launcher(body)(a, a, a.copy())


def test_the_same_lines_reach_the_assembler() -> None:
    """The instructions of the table are AMD's: the real assembler takes them."""

    def body(x: Any, _: Any, target: Any) -> None:
        t = fx.thread_idx.x
        place = fx.to_llvm_ptr(fx.get_iter(x) + t)
        v = fx.inline_asm(fx.Int32, [place], "global_load_sbyte $0, $1, off offset:4\ns_waitcnt vmcnt(0)", "=v,v")
        fx.inline_asm(None, [place, v], "global_atomic_add $0, $1, off", "v,v,~{memory}")
        target[t] = v

    a = np.zeros(64, np.int32)
    asm = flyc.compile(launcher(body), a, a, a, target="rocm:gfx942").artifact.asm
    assert "global_load_sbyte" in asm and "global_atomic_add" in asm
