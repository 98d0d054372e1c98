"""What `atomicrmw` writes, from what was there and what came."""

from __future__ import annotations

from ..errors import DSLCompileError
from .kinds import Kind, Value, to_bfloat
from .operations import INT_WORDS, Function, integer, intrinsic, two

_NAMES = {"max": "smax", "min": "smin"}


def update(word: str, k: Kind) -> Function:
    """The operation of an atomic by its name in LLVM."""
    if word == "xchg":
        return two(lambda old, new: new)
    if word == "nand":
        return two(lambda old, new: ~(old & new) & k.mask)
    if word == "uinc_wrap":
        return two(lambda old, new: 0 if old >= new else old + 1)
    if word == "udec_wrap":
        return two(lambda old, new: new if old == 0 or old > new else old - 1)
    if word in ("fadd", "fsub"):
        sign = 1 if word == "fadd" else -1

        def total(old: Value, new: Value) -> Value:
            made = old + new if sign > 0 else old - new
            return to_bfloat(made) if k.element.text == "bfloat" else made

        return total
    if word in ("fmax", "fmin"):
        return intrinsic(f"{word[1:]}num", (k, k))
    name = _NAMES.get(word, word)
    if name not in INT_WORDS:
        raise DSLCompileError(f"the interpreter does not know the atomic operation {word}")
    return integer(name, k)
