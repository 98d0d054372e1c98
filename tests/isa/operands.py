"""Operands of an instruction: functions that read them from a wave as numbers of a type, and that write them."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import IsaError
from .wave import EXEC, M0, NULL, SCALAR, TTMP, VCC, Mask, Wave

Array = NDArray[Any]
Read = Callable[[Wave], Array]
Write = Callable[[Wave, Array, Mask], None]

DTYPES: dict[str, Any] = {
    **{"u32": np.uint32, "i32": np.int32, "f32": np.float32, "u64": np.uint64, "i64": np.int64, "f64": np.float64},
    **{"u16": np.uint16, "i16": np.int16, "f16": np.float16, "bf16": np.uint16, "u8": np.uint8},
}
WIDTH = {"u32": 32, "i32": 32, "f32": 32, "u64": 64, "i64": 64, "f64": 64, "u16": 16, "i16": 16, "f16": 16, "bf16": 16}

_SPECIAL = {
    **{"vcc": (VCC, 2), "vcc_lo": (VCC, 1), "vcc_hi": (VCC + 1, 1), "exec": (EXEC, 2), "exec_lo": (EXEC, 1)},
    **{"exec_hi": (EXEC + 1, 1), "m0": (M0, 1), "null": (NULL, 1), "flat_scratch": (102, 2), "xnack_mask": (104, 2)},
    **{"flat_scratch_lo": (102, 1), "flat_scratch_hi": (103, 1)},
}
_REGISTER = re.compile(r"^(v|s|a|ttmp)(?:(\d+)|\[(\d+):(\d+)\])(\.[lh])?$")


@dataclass(frozen=True, slots=True)
class Operand:
    """`kind` is v (vector, accumulation registers included), s (scalar), or c (a constant, whose text is kept)."""

    kind: str
    index: int = 0
    count: int = 1
    half: str = ""
    text: str = ""
    neg: bool = False
    abs: bool = False
    sext: bool = False

    @property
    def registers(self) -> tuple[int, ...]:
        if self.kind == "c":
            return ()
        base = self.index + (SCALAR if self.kind == "s" else 0)
        return tuple(range(base, base + self.count))


def parse_operand(text: str, accumulators: int) -> Operand:
    """What an operand names; accumulation registers lie behind `accumulators` vector registers."""
    neg = absolute = sext = False
    if text.startswith("sext(") and text.endswith(")"):
        text, sext = text[5:-1], True
    if text.startswith("neg(") and text.endswith(")"):
        text, neg = text[4:-1], True
    if text.startswith("-") and not re.match(r"^-[\d.]", text):
        text, neg = text[1:], True
    if text.startswith("|") and text.endswith("|"):
        text, absolute = text[1:-1], True
    if text.startswith("abs(") and text.endswith(")"):
        text, absolute = text[4:-1], True
    if text in _SPECIAL:
        index, count = _SPECIAL[text]
        return Operand("s", index, count, text=text, neg=neg, abs=absolute)
    match = _REGISTER.match(text)
    if match is None:
        return Operand("c", text=text, neg=neg, abs=absolute)
    first = int(match[2] or match[3])
    count = 1 if match[2] else int(match[4]) - first + 1
    kind, half = match[1], (match[5] or "").removeprefix(".")
    if kind == "a":
        first += accumulators
    if kind == "ttmp":
        first += TTMP
    return Operand("v" if kind in "va" else "s", first, count, half, text, neg, absolute, sext)


# --- constants ----------------------------------------------------------------------------------------------------

_INV_2PI = {"f32": 0x3E22F983, "f64": 0x3FC45F306DC9C882, "f16": 0x3118}


def constant_bits(text: str, kind: str) -> int:
    """The bits of a constant operand that a source of a type gets."""
    width = WIDTH[kind]
    if text.startswith("lit64("):
        return int(text[6:-1], 0) & (1 << 64) - 1
    if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", text):
        value = int(text, 0)
        if kind == "f64" and text.startswith("0x") and value < 1 << 32:
            return value << 32  # a literal of one word holds the upper half
        if kind in ("u64", "i64") and text.startswith("0x"):
            return value if kind == "u64" or value < 1 << 31 else value | 0xFFFFFFFF << 32
        return value & (1 << width) - 1
    value = float(text)
    if abs(value) == 0.15915494 or text.startswith("0.159154943"):
        return _INV_2PI["f16" if width == 16 else "f64" if width == 64 else "f32"]
    if kind == "bf16":
        return struct.unpack("<I", struct.pack("<f", value))[0] >> 16
    form = {16: "<e", 32: "<f", 64: "<d"}[width]
    return int.from_bytes(struct.pack(form, value), "little")


def _constant(text: str, kind: str) -> Array:
    bits = constant_bits(text, kind)
    return np.frombuffer(bits.to_bytes(WIDTH[kind] // 8, "little"), DTYPES[kind])[0]


# --- reading ------------------------------------------------------------------------------------------------------


def _signed(read: Read, operand: Operand, kind: str) -> Read:
    if not (operand.neg or operand.abs):
        return read
    if kind == "bf16":
        clear = np.uint16(0x7FFF if operand.abs else 0xFFFF)
        flip = np.uint16(0x8000 if operand.neg else 0)
        return lambda w: (read(w) & clear) ^ flip
    if kind[0] != "f":
        # Modifiers on plain words change the sign bit of a float.
        width = WIDTH[kind]
        sign = 1 << width - 1
        one = DTYPES[kind]
        keep, turn = one(sign - 1 if operand.abs else (1 << width) - 1), one(sign if operand.neg else 0)
        return lambda w: (read(w) & keep) ^ turn
    if operand.neg and operand.abs:
        return lambda w: -np.abs(read(w))
    return (lambda w: -read(w)) if operand.neg else (lambda w: np.abs(read(w)))


def reader(operand: Operand, kind: str, high: bool = False) -> Read:
    """A source as numbers of a type, one per lane, or one for all lanes. `high` takes the upper 16 bits."""
    return _signed(_plain_reader(operand, kind, high or operand.half == "h"), operand, kind)


def _plain_reader(operand: Operand, kind: str, high: bool) -> Read:
    i = operand.index
    if operand.kind == "c":
        if operand.text in ("src_scc", "scc"):
            return lambda w: np.uint32(w.scc)  # pyright: ignore[reportReturnType]
        if operand.text in ("src_vccz", "src_execz"):
            raise IsaError(f"operand {operand.text}")
        if operand.text.startswith("src_"):
            return _aperture(operand.text, kind)
        value = _constant(operand.text, kind)
        if high:
            value = _constant("0", kind) if not operand.text.startswith("0x") else _upper(operand.text, kind)
        return lambda w: value
    vector = operand.kind == "v"
    if kind == "u32":
        return (lambda w: w.v[i]) if vector else (lambda w: w.s[i])
    if kind == "i32":
        return (lambda w: w.vi[i]) if vector else (lambda w: w.si[i])
    if kind == "f32":
        return (lambda w: w.vf[i]) if vector else (lambda w: w.sf[i])
    dtype = DTYPES[kind]
    if WIDTH[kind] == 16:
        half = int(high)
        if vector:
            return lambda w: w.v[i].view(dtype)[half::2]
        return lambda w: w.s[i : i + 1].view(dtype)[half]
    if i == NULL and not vector:
        return lambda w: dtype(0)
    if operand.count == 1:
        # A wave of 32 lanes names a mask by one register.
        return (lambda w: w.v[i].astype(dtype)) if vector else (lambda w: dtype(w.s[i]))
    if vector:
        return lambda w: np.ascontiguousarray(w.v[i : i + 2].T).view(dtype)[:, 0]
    if i % 2:
        return lambda w: w.s[i : i + 2].copy().view(dtype)[0]
    return lambda w: w.s[i : i + 2].view(dtype)[0]


def _upper(text: str, kind: str) -> Array:
    return np.frombuffer((int(text, 0) >> 16 & 0xFFFF).to_bytes(2, "little"), DTYPES[kind])[0]


SHARED_APERTURE, PRIVATE_APERTURE = 0x5A000000, 0x5B000000
"""Upper halves of generic addresses that mean shared and private memory."""


def _aperture(text: str, kind: str) -> Read:
    base = {"src_shared_base": SHARED_APERTURE, "src_private_base": PRIVATE_APERTURE}.get(text)
    if base is None:
        raise IsaError(f"operand {text}")
    value = np.uint64(base << 32) if kind in ("u64", "i64") else np.uint32(base)
    return lambda w: value  # pyright: ignore[reportReturnType]


# --- writing ------------------------------------------------------------------------------------------------------


def writer(operand: Operand, kind: str, *, high: bool = False, clears: bool = False) -> Write:
    """Write numbers of a type to a vector register, in the lanes of a mask.

    `clears`: a number of 16 bits clears the upper half of its register.
    """
    if operand.kind == "s":
        return _scalar_writer(operand, kind)
    if operand.kind != "v":
        raise IsaError(f"cannot write {operand.text}")
    i = operand.index
    high = high or operand.half == "h"
    if kind == "f32":
        return lambda w, x, mask: np.copyto(w.vf[i], x, where=mask, casting="same_kind")
    if kind in ("u32", "i32"):

        def words(w: Wave, x: Array, mask: Mask) -> None:
            np.copyto(w.v[i], x, where=mask, casting="unsafe")

        return words
    dtype = DTYPES[kind]
    if WIDTH[kind] == 16:
        if clears and not operand.half:

            def whole(w: Wave, x: Array, mask: Mask) -> None:
                np.copyto(w.v[i], np.asarray(x, dtype).view(np.uint16), where=mask)

            return whole

        def half(w: Wave, x: Array, mask: Mask) -> None:
            np.copyto(w.v[i].view(dtype)[int(high) :: 2], x, where=mask, casting="unsafe")

        return half

    def pair(w: Wave, x: Array, mask: Mask) -> None:
        raw = np.broadcast_to(np.asarray(x, dtype), (w.lanes,)).copy().view(np.uint32)
        np.copyto(w.v[i], raw[0::2], where=mask)
        np.copyto(w.v[i + 1], raw[1::2], where=mask)

    return pair


def _scalar_writer(operand: Operand, kind: str) -> Write:
    """For `v_readfirstlane` and the like: the first lane's number."""
    write = write_scalar(operand, 64 if WIDTH[kind] == 64 else 32)
    return lambda w, x, mask: write(w, int(np.asarray(x).ravel()[0]))


def read_scalar(operand: Operand, bits: int = 32, *, signed: bool = False) -> Callable[[Wave], int]:
    """A scalar source as an unsigned number; `signed`: a literal is one where it fills 64 bits."""
    i = operand.index
    if operand.kind == "c":
        if operand.text in ("src_scc", "scc"):
            return lambda w: w.scc
        if operand.text.startswith("src_"):
            read = _aperture(operand.text, "u64" if bits == 64 else "u32")
            return lambda w: int(read(w))
        value = constant_bits(operand.text, ("i64" if signed else "u64") if bits == 64 else "u32")
        return lambda w: value
    if operand.kind != "s":
        raise IsaError(f"a scalar instruction reads {operand.text}")
    if i == NULL:
        return lambda w: 0
    if bits == 64:
        return lambda w: int(w.s[i]) | int(w.s[i + 1]) << 32
    return lambda w: int(w.s[i])


def write_scalar(operand: Operand, bits: int = 32) -> Callable[[Wave, int], None]:
    """A scalar destination."""
    i = operand.index
    if operand.kind != "s":
        raise IsaError(f"a scalar instruction writes {operand.text}")
    if i == NULL:
        return lambda w, x: None
    if i in (EXEC, EXEC + 1):
        if bits == 64:
            return lambda w, x: w.set_exec(x)
        if i == EXEC:
            return lambda w, x: w.set_exec(w.exec() & ~0xFFFFFFFF | x & 0xFFFFFFFF)
        return lambda w, x: w.set_exec(w.exec() & 0xFFFFFFFF | (x & 0xFFFFFFFF) << 32)
    if bits == 64:

        def both(w: Wave, x: int) -> None:
            w.s[i] = x & 0xFFFFFFFF
            w.s[i + 1] = x >> 32 & 0xFFFFFFFF

        return both

    def one(w: Wave, x: int) -> None:
        w.s[i] = x & 0xFFFFFFFF

    return one
