"""Atomic updates of bfloat16 on the CPU.

LLVM's loop of compare-and-swap takes what is in memory through a conversion, which changes the bits of some NaNs and,
with AVX512-BF16, makes zeros of subnormal numbers: the comparison then fails for ever. Here bits are compared as they
are, and the sum is rounded to the nearest even in integers.
"""

from __future__ import annotations

from collections.abc import Callable

from ...llvm.text.routine import Routine, Value

WORDS = ("fadd", "fsub", "fmax", "fmin")
NAN = 0x7FFF
"""The bits that a result has which is no number."""


PAIR = "<2 x i16>"


def name_of(word: str) -> str:
    """The routine of an operation of `atomicrmw`: (place, bits) to the value that was there."""
    return f"fly_bf16_{word}"


def pair_of(word: str) -> str:
    """The routine of two neighbours, each updated by itself as GPUs do: (place, bits of both) to what was there."""
    return f"fly_bf16x2_{word}"


def updating(word: str) -> Callable[[bool], Routine]:
    """The routine of one operation."""

    def write(checked: bool) -> Routine:
        r = Routine(name_of(word), "i16", "ptr at, i16 by")
        held = r.variable("i16", r.atomic_load("i16", r["at"]))
        done = r.variable("i64", 0)
        with r.again(lambda: done.get().is_(0)):
            old = held.get()
            new = _rounded(r, _combined(r, word, _wide(r, old), _wide(r, r["by"])))
            swap = f"cmpxchg ptr {r['at'].name}, i16 {old.name}, i16 {new.name} seq_cst seq_cst"
            pair = r.assign("{ i16, i1 }", swap)
            held.set(r.assign("i16", f"extractvalue {{ i16, i1 }} {pair.name}, 0"))
            done.set(r.assign("i1", f"extractvalue {{ i16, i1 }} {pair.name}, 1").to("i64"))
        r.give(held.get())
        return r

    return write


def updating_pairs(word: str) -> Callable[[bool], Routine]:
    """The routine of two of them."""

    def write(checked: bool) -> Routine:
        r = Routine(pair_of(word), PAIR, "ptr at, i32 by")
        low = r.value_of(name_of(word), "i16", r["at"], r["by"].to("i16"))
        high = r.value_of(name_of(word), "i16", r.at(r["at"], 2), (r["by"] >> 16).to("i16"))
        both = low.to("i32") | (high.to("i32") << 16)
        r.give(r.assign(PAIR, f"bitcast i32 {both.name} to {PAIR}"))
        return r

    return write


def _wide(r: Routine, bits: Value) -> Value:
    return r.assign("float", f"bitcast i32 {(bits.to('i32') << 16).name} to float")


def _combined(r: Routine, word: str, x: Value, y: Value) -> Value:
    if word in ("fadd", "fsub"):
        return r.assign("float", f"{word} float {x.name}, {y.name}")
    function = {"fmax": "llvm.maxnum.f32", "fmin": "llvm.minnum.f32"}[word]
    return r.value_of(function, "float", x, y, external=True)


def _rounded(r: Routine, x: Value) -> Value:
    bits = r.assign("i32", f"bitcast float {x.name} to i32")
    near = (bits + ((bits >> 16) & 1) + 0x7FFF) >> 16
    nan = r.assign("i1", f"fcmp uno float {x.name}, {x.name}")
    return r.choose(nan, r.number(NAN, "i32"), near).to("i16")


def update(r: Routine, word: str, at: Value, value: Value) -> None:
    """In another routine: `atomicrmw` of a value, whose result is not wanted; floats that are i16 are bf16."""
    if value.type != "i16" or word not in WORDS:
        width = {"half": 2, "float": 4, "double": 8}.get(value.type) or int(value.type[1:]) // 8
        r.line(f"atomicrmw {word} ptr {at.name}, {value.type} {value.name} monotonic, align {width}")
        return
    r.call(name_of(word), "i16", at, value)
