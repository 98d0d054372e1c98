"""How often the lines of kernels ran, read from the counters their code keeps (`cpu/code/lines.py`)."""

from __future__ import annotations

import ctypes
from collections import Counter
from typing import Any

SYMBOL = "fly_lines"

_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_void_p)


class _Place(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("line", ctypes.c_int64)]  # noqa: RUF012


class _Table(ctypes.Structure):
    _fields_ = [  # noqa: RUF012
        ("count", ctypes.c_int64),
        ("runs", ctypes.POINTER(ctypes.c_int64)),
        ("places", ctypes.POINTER(_Place)),
    ]


Lines = Counter[tuple[str, int]]


def take(library: Any, into: Lines) -> None:
    """Move the counts of a library into a table of file and line; one that was not compiled to count has none."""
    if SYMBOL not in library.symbols:
        return
    table = _Table.from_address(_PROTOTYPE(library.address(SYMBOL))())
    for i in range(table.count):
        place = table.places[i]
        # A line that never ran is known as well.
        into[place.file.decode(errors="replace"), place.line] += table.runs[i]
        table.runs[i] = 0
