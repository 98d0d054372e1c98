"""Size and alignment of LLVM types in memory, from their text; the same on every target of ours."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

_SCALARS = {"half": 2, "bfloat": 2, "float": 4, "double": 8}
_TOKEN = re.compile(r"\s*(ptr(?: addrspace\(\d+\))?|i\d+|[a-z]+|\d+|<\{|\}>|[<>{}\[\],])")


class TypeLayout(NamedTuple):
    """Bytes a type takes, and what its address is a multiple of."""

    size: int
    align: int


class Field(NamedTuple):
    """A type at its place in a sequence."""

    offset: int
    size: int
    align: int


def _aligned(value: int, align: int) -> int:
    return (value + align - 1) // align * align


@cache
def layout_of(text: str) -> TypeLayout:
    """The layout of one type.

    >>> layout_of("<{ i32, i64 }>")
    TypeLayout(size=12, align=1)
    >>> layout_of("{ i32, i64 }")
    TypeLayout(size=16, align=8)
    """
    tokens = _TOKEN.findall(text)
    layout, rest = _parse(tokens)
    if rest:
        raise ValueError(f"cannot read the LLVM type {text!r}")
    return layout


def sequence(texts: tuple[str, ...]) -> list[Field]:
    """Types one after the other, each at a multiple of its alignment: how kernel arguments lie in memory."""
    offset = 0
    found: list[Field] = []
    for text in texts:
        size, align = layout_of(text)
        offset = _aligned(offset, align)
        found.append(Field(offset, size, align))
        offset += size
    return found


def _parse(tokens: list[str]) -> tuple[TypeLayout, list[str]]:
    if not tokens:
        raise ValueError("an LLVM type ends too early")
    head, rest = tokens[0], tokens[1:]
    if head.startswith("ptr"):
        return TypeLayout(8, 8), rest
    if head in _SCALARS:
        return TypeLayout(_SCALARS[head], _SCALARS[head]), rest
    if head[0] == "i" and head[1:].isdigit():
        size = 1
        while size * 8 < int(head[1:]):
            size *= 2
        return TypeLayout(size, size), rest
    if head in ("<", "["):
        count, inner = int(rest[0]), rest[2:]
        layout, rest = _parse(inner)
        size = count * layout.size
        if head == "[":
            return TypeLayout(size, layout.align), rest[1:]
        power = 1
        while power < size:
            power *= 2
        return TypeLayout(power, power), rest[1:]
    if head in ("{", "<{"):
        return _struct(rest, packed=head == "<{")
    raise ValueError(f"cannot read an LLVM type at {' '.join(tokens)!r}")


def _struct(tokens: list[str], packed: bool) -> tuple[TypeLayout, list[str]]:
    end = "}>" if packed else "}"
    offset, largest = 0, 1
    while tokens and tokens[0] != end:
        layout, tokens = _parse(tokens)
        if not packed:
            offset = _aligned(offset, layout.align)
            largest = max(largest, layout.align)
        offset += layout.size
        if tokens and tokens[0] == ",":
            tokens = tokens[1:]
    return TypeLayout(_aligned(offset, largest), largest), tokens[1:]
