"""What checked mode found: the table a kernel's code keeps (`cpu/code/check.py`), as lines of text."""

from __future__ import annotations

import ctypes
from typing import Any

SYMBOL = "fly_reports"
RECORDS = 32
MAX_RANK = 8
"""Modes of a tensor that are described: bits of an element, rank, extents, strides."""
AGENT_THREAD = 1024
"""Other threads from this number on are tensor copies."""
OTHER_RANKS = 1 << 16
"""And from this one on ranks, from 1."""
DEADLOCK = 1
"""Kind of a report of threads that wait for ever; the others are mistakes."""

_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_bool)


class _Record(ctypes.Structure):
    _fields_ = [  # noqa: RUF012
        ("text", ctypes.c_char_p),
        *((name, ctypes.c_int64) for name in ("kind", "address", "low", "high", "thread", "x", "y", "z", "tensor")),
        ("other", ctypes.c_int64),
        ("line", ctypes.c_char_p),
    ]


class _Table(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32), ("unused", ctypes.c_int32), ("records", _Record * RECORDS)]  # noqa: RUF012


def table(library: Any) -> int | None:
    """Address of a library's table; None where its kernels have nothing to report."""
    if SYMBOL not in library.symbols:
        return None
    return _PROTOTYPE(library.address(SYMBOL))(False)


def take(library: Any) -> tuple[list[str], bool]:
    """The reports of a library, which then has none, and whether all of them are deadlocks."""
    address = table(library)
    if address is None:
        return [], True
    found = _Table.from_address(address)
    records = [found.records[i] for i in range(min(found.count, RECORDS))]
    lines = [_line(record) for record in records]
    if found.count > RECORDS:
        lines.append(f"  and {found.count - RECORDS} more")
    stuck = all(record.kind == DEADLOCK for record in records)
    _PROTOTYPE(library.address(SYMBOL))(True)
    return lines, stuck


def _line(record: Any) -> str:
    text = f"  {record.text.decode(errors='replace')}; thread {record.thread} of block "
    text += f"({record.x}, {record.y}, {record.z})"
    if record.address:
        text += f", address {record.address:#x}"
    if record.high:
        past = record.address - record.low
        text += f", byte {past} of {record.high - record.low}"
    if record.tensor:
        text += f", {_place(record)}"
    if record.other:
        who = f"thread {record.other - 1}" if record.other <= AGENT_THREAD else "an asynchronous copy"
        if record.other > OTHER_RANKS:
            who = f"rank {record.other - OTHER_RANKS - 1}"
        line = (record.line or b"").decode(errors="replace")
        text += f"; the other access: {who}" + (f" at {line}" if line else "")
    return text


def _place(record: Any) -> str:
    """The element an address belongs to: the largest strides first, so that what is outside shows there."""
    bits, rank, *rest = (ctypes.c_int64 * (2 + 2 * MAX_RANK)).from_address(record.tensor)
    shape, strides = rest[:rank], rest[MAX_RANK : MAX_RANK + rank]
    left = (record.address - record.low) * 8 // bits
    index = [0] * rank
    for i in sorted(range(rank), key=lambda i: -strides[i]):
        if strides[i] and (shape[i] != 1 or rank == 1):
            index[i], left = divmod(left, strides[i])
    at = ", ".join(map(str, index))
    return f"index ({at}) of shape ({', '.join(map(str, shape))})"
