"""What loads, stores and atomics have in common, whatever memory they are for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import IsaError
from ..memory import Bytes
from ..operands import Operand
from ..wave import Wave
from . import floats

Lanes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Form:
    """How many bytes a lane moves, and how less than a register is put into one."""

    size: int
    signed: bool = False
    half: str = ""
    """`low` or `high`: only this half of the register is touched."""


_FORMS = {
    **{"dword": Form(4), "dwordx2": Form(8), "dwordx3": Form(12), "dwordx4": Form(16)},
    **{"b32": Form(4), "b64": Form(8), "b96": Form(12), "b128": Form(16)},
    **{"ubyte": Form(1), "sbyte": Form(1, True), "ushort": Form(2), "sshort": Form(2, True)},
    **{"u8": Form(1), "i8": Form(1, True), "u16": Form(2), "i16": Form(2, True)},
    **{"byte": Form(1), "short": Form(2), "b8": Form(1), "b16": Form(2)},
    **{"short_d16": Form(2, half="low"), "short_d16_hi": Form(2, half="high")},
    **{"ubyte_d16": Form(1, half="low"), "ubyte_d16_hi": Form(1, half="high")},
    **{"sbyte_d16": Form(1, True, "low"), "sbyte_d16_hi": Form(1, True, "high")},
    **{"byte_d16_hi": Form(1, half="high")},
    **{"d16_b16": Form(2, half="low"), "d16_hi_b16": Form(2, half="high"), "d16_hi_b8": Form(1, half="high")},
    **{"d16_u8": Form(1, half="low"), "d16_hi_u8": Form(1, half="high")},
    **{"d16_i8": Form(1, True, "low"), "d16_hi_i8": Form(1, True, "high")},
    **{"u8_d16": Form(1, half="low"), "u8_d16_hi": Form(1, half="high"), "u16_d16": Form(2, half="low")},
    **{"i8_d16": Form(1, True, "low"), "i8_d16_hi": Form(1, True, "high"), "u16_d16_hi": Form(2, half="high")},
    **{"b8_d16_hi": Form(1, half="high"), "b16_d16_hi": Form(2, half="high")},
    **{"u8_d16_u16": Form(1, half="low")},
}
FORMS: dict[str, Form] = _FORMS


def put(w: Wave, operand: Operand, form: Form, data: Bytes, lanes: Lanes) -> None:
    """Bytes that came for lanes into registers."""
    i = operand.index
    if form.size >= 4:
        words = data.view(np.uint32)
        for at in range(form.size // 4):
            w.v[i + at][lanes] = words[:, at]
        return
    dtype: Any = {(1, False): np.uint8, (1, True): np.int8, (2, False): np.uint16, (2, True): np.int16}[
        form.size, form.signed
    ]
    number = np.ascontiguousarray(data).view(dtype)[:, 0]
    half = form.half or {"l": "low", "h": "high"}.get(operand.half, "")
    if half:
        w.v[i].view(np.uint16)[int(half == "high") :: 2][lanes] = number.astype(np.int64).astype(np.uint16)
    else:
        w.v[i][lanes] = number.astype(np.int64).astype(np.uint32)


def take(w: Wave, operand: Operand, form: Form, lanes: Lanes) -> Bytes:
    """Bytes of lanes from registers."""
    i = operand.index
    if form.size >= 4:
        rows = w.v[i : i + form.size // 4][:, lanes].T
        return np.ascontiguousarray(rows).view(np.uint8)
    word = w.v[i][lanes]
    if form.half == "high" or operand.half == "h":
        word = word >> np.uint32(16)
    return np.ascontiguousarray(word.view(np.uint8).reshape(-1, 4)[:, : form.size])


def check_inside(offsets: Lanes, size: int, limit: int, what: str) -> None:
    if len(offsets) and (int(offsets.min()) < 0 or int(offsets.max()) + size > limit):
        bad = next(int(o) for o in offsets if o < 0 or o + size > limit)
        raise IsaError(f"{what}: {size} bytes at {bad} of {limit}")


def lds_read(w: Wave, offsets: Lanes, size: int, what: str) -> Bytes:
    lds = w.block.lds
    check_inside(offsets, size, len(lds), f"{what} reads past shared memory")
    return lds[offsets[:, None] + np.arange(size)]


def lds_write(w: Wave, offsets: Lanes, data: Bytes, what: str) -> None:
    lds = w.block.lds
    check_inside(offsets, data.shape[1], len(lds), f"{what} writes past shared memory")
    lds[offsets[:, None] + np.arange(data.shape[1])] = data


# --- atomics ----------------------------------------------------------------------------------------------------------

Change = Callable[[Any, Any], Any]


def _wrap_up(old: Any, x: Any) -> Any:
    return old.dtype.type(0) if old >= x else old + old.dtype.type(1)


def _wrap_down(old: Any, x: Any) -> Any:
    return x if old == 0 or old > x else old - old.dtype.type(1)


_CHANGES: dict[str, Change] = {
    "add": lambda old, x: old + x,
    "sub": lambda old, x: old - x,
    "and": lambda old, x: old & x,
    "or": lambda old, x: old | x,
    "xor": lambda old, x: old ^ x,
    "swap": lambda old, x: x,
    "min": floats.fmin,
    "max": floats.fmax,
    "min_num": floats.fmin,
    "max_num": floats.fmax,
    "pk_add": lambda old, x: old + x,
    "inc": _wrap_up,
    "dec": _wrap_down,
}


@dataclass(frozen=True, slots=True)
class Atomic:
    """What an atomic instruction does to a place: on numbers of `dtype`, `count` of them."""

    change: str
    dtype: Any
    count: int = 1
    bf16: bool = False

    @property
    def size(self) -> int:
        return 4 if self.bf16 else np.dtype(self.dtype).itemsize * self.count

    @property
    def compares(self) -> bool:
        return self.change == "cmpswap"

    def apply(self, old: Bytes, data: Bytes) -> Bytes:
        """The new bytes of a place."""
        if self.compares:
            new, expected = data[: self.size], data[self.size :]
            return new if np.array_equal(old, expected) else old
        if self.bf16:
            from .floats import bf16_to_f32, f32_to_bf16

            total = bf16_to_f32(old.view(np.uint16)) + bf16_to_f32(data.view(np.uint16))
            return f32_to_bf16(total).view(np.uint8)
        before, x = old.view(self.dtype), data.view(self.dtype)
        out = np.array([_CHANGES[self.change](a, b) for a, b in zip(before, x, strict=True)], self.dtype)
        return out.view(np.uint8)


_SUFFIX = {"u32": np.uint32, "i32": np.int32, "b32": np.uint32, "u64": np.uint64, "i64": np.int64, "b64": np.uint64}
_SUFFIX |= {"f32": np.float32, "f64": np.float64, "rtn_u32": np.uint32}


def atomic(name: str) -> Atomic:
    """From the words behind `atomic_`, in the spelling of any family."""
    if name.startswith("pk_add"):
        return Atomic("pk_add", np.float16, 2, bf16=name.endswith("bf16"))
    wide = name.endswith("_x2")
    name = name.removesuffix("_x2")
    match = re.fullmatch(r"(\w+?)_([uifb](?:32|64))", name)
    if match:
        return Atomic(match[1], _SUFFIX[match[2]])
    sign = ""
    if name in ("smin", "smax", "umin", "umax"):
        sign, name = name[0], name[1:]
    kind = ("i" if sign == "s" else "u") + ("64" if wide else "32")
    if name not in _CHANGES and name != "cmpswap":
        raise IsaError(f"the atomic {name}")
    return Atomic(name, _SUFFIX[kind])
