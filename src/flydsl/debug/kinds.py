"""Types of values by LLVM's spelling of them, and how the interpreter holds values of each.

| type | held as |
|---|---|
| `iN`, `ptr` | a Python int, `0 <= x < 2**N` |
| `half`, `float`, `double` | a numpy scalar |
| `bfloat` | a numpy float32 that bfloat16 can hold |
| `<N x T>` | a numpy array; of Python ints where numpy has no integers of the width, of bool for `i1` |
| structs and arrays | tuples |
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, cast

import numpy as np

from ..errors import DSLCompileError

Value: TypeAlias = Any
"""What the table above says; which of it, only the type of the value tells."""

NATIVE = (8, 16, 32, 64)
"""Widths of integers that numpy has."""
_FLOATS = {"half": ("f2", 16), "bfloat": ("f4", 16), "float": ("f4", 32), "double": ("f8", 64)}
_DIGITS = {"half": 11, "bfloat": 8, "float": 24, "double": 53}


@dataclass(frozen=True)
class Kind:
    """A type."""

    text: str
    bits: int
    """Of a scalar, or of an element of a vector; 0 for structs."""
    is_float: bool = False
    count: int = 0
    """Elements of a vector; 0 for anything else."""
    fields: tuple[Kind, ...] = ()
    packed: bool = False
    is_struct: bool = False

    @property
    def element(self) -> Kind:
        return kind(self.text.partition(" x ")[2].rstrip(">")) if self.count else self

    @property
    def mask(self) -> int:
        return (1 << self.bits) - 1

    @property
    def digits(self) -> int:
        """Bits of the fraction of a float, the leading one included."""
        return _DIGITS[self.element.text]

    @property
    def dtype(self) -> np.dtype[Value]:
        """What arrays of it hold."""
        if self.is_float:
            return np.dtype(_FLOATS[self.element.text][0])
        if self.bits == 1:
            return np.dtype(np.bool_)
        return np.dtype(f"u{self.bits // 8}") if self.bits in NATIVE else np.dtype(object)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without padding at the end."""
        if self.is_struct:
            return _layout(self)[1]
        return -(-self.bits * max(self.count, 1) // 8)

    @property
    def align(self) -> int:
        if self.is_struct:
            return 1 if self.packed else max((f.align for f in self.fields), default=1)
        return 1 << max(self.nbytes - 1, 0).bit_length()

    @property
    def stride(self) -> int:
        """Bytes from one to the next in an array."""
        return -(-self.nbytes // self.align) * self.align

    @property
    def raw(self) -> bool:
        """Whether an array of its numpy type has its bytes."""
        return self.bits in NATIVE and self.element.text != "bfloat"


def _split(text: str) -> list[str]:
    parts: list[str] = []
    depth = last = 0
    for i, c in enumerate(text):
        depth += (c in "<{[(") - (c in ">}])")
        if c == "," and depth == 0:
            parts.append(text[last:i])
            last = i + 1
    return [p.strip() for p in [*parts, text[last:]] if p.strip()]


@cache
def kind(text: str) -> Kind:
    """A type by its text.

    >>> kind("<4 x float>").nbytes, kind("{ i8, i32 }").nbytes, kind("<{ i8, i32 }>").nbytes
    (16, 8, 5)
    """
    if text.startswith("ptr"):
        return Kind(text, 64)
    if text in _FLOATS:
        return Kind(text, _FLOATS[text][1], True)
    if text.startswith("i") and text[1:].isdigit():
        return Kind(text, int(text[1:]))
    if text.startswith("<{") or text.startswith("{"):
        inner = text.removeprefix("<").removesuffix(">") if text.startswith("<") else text
        return Kind(text, 0, fields=tuple(map(kind, _split(inner[1:-1]))), packed=text[0] == "<", is_struct=True)
    if text.startswith("<"):
        count, _, elem = text[1:-1].partition(" x ")
        one = kind(elem)
        return Kind(text, one.bits, one.is_float, int(count))
    if text.startswith("["):
        count, _, elem = text[1:-1].partition(" x ")
        return Kind(text, 0, fields=(kind(elem),) * int(count), is_struct=True)
    raise DSLCompileError(f"the interpreter has no values of type {text}")


@cache
def _layout(k: Kind) -> tuple[tuple[int, ...], int]:
    """Where the fields of a struct start, and its bytes."""
    starts: list[int] = []
    end = 0
    for field in k.fields:
        if not k.packed:
            end = -(-end // field.align) * field.align
        starts.append(end)
        end += field.nbytes
    if not k.packed and k.fields:
        end = -(-end // k.align) * k.align
    return tuple(starts), end


def offsets(k: Kind) -> tuple[int, ...]:
    """Where the fields of a struct start."""
    return _layout(k)[0]


def zero(k: Kind) -> Value:
    """The value of all bits zero."""
    if k.is_struct:
        return tuple(map(zero, k.fields))
    if k.count:
        return np.zeros(k.count, k.dtype) if k.dtype != object else np.array([0] * k.count, object)
    return k.dtype.type(0) if k.is_float else 0


def to_bfloat(x: Value) -> Value:
    """Round float32 to what bfloat16 can hold, to the nearest even."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    quiet = (bits & 0xFFFF0000) | 0x400000
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    made = np.where(nan, quiet, rounded).astype(np.uint32).view(np.float32)
    return made if made.ndim else made[()]


# --- bits ---------------------------------------------------------------------------------------------------------


def to_int(k: Kind, x: Value) -> int:
    """The bits of a value, the first element lowest."""
    if k.count:
        one = k.element
        total = 0
        if k.raw or one.text == "bfloat":
            return int.from_bytes(to_bytes(k, x), "little")
        for i in range(k.count - 1, -1, -1):
            total = total << k.bits | int(x[i])
        return total
    if not k.is_float:
        return int(x)
    return int.from_bytes(to_bytes(k, x), "little")


def from_int(k: Kind, bits: int) -> Value:
    """The value of some bits."""
    if k.count and not k.is_float and k.bits not in NATIVE:
        made = [bits >> (i * k.bits) & k.mask for i in range(k.count)]
        return np.array(made, k.dtype)
    if not k.count and not k.is_float:
        return bits & k.mask
    return from_bytes(k, bits.to_bytes(k.nbytes, "little"))


def to_bytes(k: Kind, x: Value) -> bytes:
    """A value as it lies in memory."""
    if k.is_struct:
        out = bytearray(k.nbytes)
        for field, at, value in zip(k.fields, offsets(k), x, strict=True):
            out[at : at + field.nbytes] = to_bytes(field, value)
        return bytes(out)
    if k.is_float:
        array = np.asarray(x, k.dtype)
        if k.element.text == "bfloat":
            return (array.view(np.uint32) >> 16).astype(np.uint16).tobytes()
        return array.tobytes()
    if k.count and k.raw:
        return cast(bytes, x.tobytes())
    return to_int(k, x).to_bytes(k.nbytes, "little")


def from_bytes(k: Kind, data: bytes) -> Value:
    """The value that lies in memory as `data`."""
    if k.is_struct:
        return tuple(
            from_bytes(field, data[at : at + field.nbytes]) for field, at in zip(k.fields, offsets(k), strict=True)
        )
    if k.is_float:
        if k.element.text == "bfloat":
            found = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            found = np.frombuffer(data, k.dtype)
        return found.copy() if k.count else found[0]
    if k.count and k.raw:
        return np.frombuffer(data, k.dtype).copy()
    return from_int(k, int.from_bytes(data, "little"))


_UNPACK: dict[str, str] = {"i8": "<B", "i16": "<H", "i32": "<I", "i64": "<Q", "ptr": "<Q"}


def unpacker(k: Kind) -> Callable[[Value, int], tuple[Value, ...]] | None:
    """What reads a scalar integer from a buffer at a place, where `struct` can."""
    form = _UNPACK.get(k.text)
    return struct.Struct(form).unpack_from if form else None
