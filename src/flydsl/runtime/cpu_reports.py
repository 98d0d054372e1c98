"""What checked mode found: the table a kernel's code keeps (`llvm/cpu_check.py`), as lines of text."""

from __future__ import annotations

import ctypes
from typing import Any

SYMBOL = "fly_reports"
RECORDS = 32

_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_bool)


class _Record(ctypes.Structure):
    _fields_ = [  # noqa: RUF012
        ("text", ctypes.c_char_p),
        *((name, ctypes.c_int64) for name in ("address", "low", "high", "thread", "x", "y", "z")),
    ]


class _Table(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32), ("records", _Record * RECORDS)]  # noqa: RUF012


def table(library: Any) -> int | None:
    """Address of a library's table; None where it was not compiled for checked mode."""
    if SYMBOL not in library.symbols:
        return None
    return _PROTOTYPE(library.address(SYMBOL))(False)


def take(library: Any) -> list[str]:
    """The reports of a library, which then has none."""
    address = table(library)
    if address is None:
        return []
    found = _Table.from_address(address)
    lines = [_line(found.records[i]) for i in range(min(found.count, RECORDS))]
    if found.count > RECORDS:
        lines.append(f"  and {found.count - RECORDS} more")
    _PROTOTYPE(library.address(SYMBOL))(True)
    return lines


def _line(record: Any) -> str:
    text = f"  {record.text.decode(errors='replace')}; thread {record.thread} of block "
    text += f"({record.x}, {record.y}, {record.z})"
    if record.high:
        past = record.address - record.low
        text += f", byte {past} of {record.high - record.low}"
    return text


__all__ = ["SYMBOL", "table", "take"]
