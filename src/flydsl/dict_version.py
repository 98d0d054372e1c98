"""A number that changes whenever a dict does.

CPython counts changes of dicts (PEP 509) in a field that no function reads, and later versions drop. So whether it is
there is tried on a dict of our own.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

_TAG_AT = 3 * ctypes.sizeof(ctypes.c_void_p)
"""Behind the reference count, the class and the number of entries."""


def version_of(mapping: dict[object, object]) -> ctypes.c_uint64 | None:
    """The counter, read by its `value` as long as the dict lives; None where this Python keeps none."""
    return _tag(mapping) if sys.implementation.name == "cpython" and _counts() else None


def _tag(mapping: dict[Any, Any]) -> ctypes.c_uint64:
    return ctypes.c_uint64.from_address(id(mapping) + _TAG_AT)


@cache
def _counts() -> bool:
    """Whether every way to change a dict changes the field, and reading does not."""
    probe: dict[bytes, bytes] = {b"a": b"1"}
    tag = _tag(probe)
    changes = (
        lambda: probe.__setitem__(b"a", b"2"),
        lambda: probe.__setitem__(b"b", b"3"),
        lambda: probe.pop(b"b"),
        lambda: probe.update({b"c": b"4", b"a": b"5"}),
        lambda: probe.__delitem__(b"c"),
        lambda: probe.setdefault(b"d", b"6"),
        lambda: probe.clear(),
    )
    for change in changes:
        before = tag.value
        probe.get(b"a")
        dict(probe)
        if tag.value != before:
            return False
        change()
        if tag.value == before:
            return False
    return True
