"""Locations as text, with the function that each is in: `loc("f@12"("kernel.py":14:8))`, for MLIR a named location.

Debug information is made of functions, too; a module that is printed with this and read again gives the same code.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    LocationAttr,
    NameLoc,
    NoneAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute

from .locations import function_of, note_function

_FUNCTION = re.compile(r"(.*)@(\d+)", re.DOTALL)


def location_text(location: Attribute, other: Callable[[Attribute], str]) -> str:
    """A location without `loc(...)`; `other` writes those that a traced program does not have."""
    if isinstance(location, CallSiteLoc):
        return f"callsite({location_text(location.callee, other)} at {location_text(location.caller, other)})"
    if isinstance(location, NameLoc):
        inner = "" if isinstance(location.location, UnknownLoc) else f"({location_text(location.location, other)})"
        return _quoted(location.desc.data) + inner
    if isinstance(location, FusedLoc):
        metadata = "" if isinstance(location.metadata, NoneAttr) else f"<{other(location.metadata)}>"
        parts = cast("ArrayAttr[Attribute]", location.locations).data
        return f"fused{metadata}[{', '.join(location_text(each, other) for each in parts)}]"
    if not isinstance(location, FileLineColLoc):
        return other(location)
    function = function_of(location)
    name = "" if function is None else f"{_quoted(f'{function.name}@{function.first_line}')}("
    place = f"{_quoted(location.filename.data)}:{location.line.data}:{location.column.data}"
    return f"{name}{place}{')' if name else ''}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def with_function(location: LocationAttr) -> LocationAttr:
    """A location that was read, without the name of its function, which is noted."""
    if isinstance(location, NameLoc) and isinstance(location.location, FileLineColLoc):
        found = _FUNCTION.fullmatch(location.desc.data)
        if found is not None:
            note_function(location.location, found[1], int(found[2]))
            return location.location
    return location
