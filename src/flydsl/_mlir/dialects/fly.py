"""The dialect `fly`, with its types."""

from __future__ import annotations

from ...expr.emit.ir_types import (
    ComposedLayoutType,
    CoordSwizzleType,
    IntTupleType,
    LayoutType,
    PointerType,
    SwizzleType,
    TileType,
)
from .generated import module

__getattr__, __dir__ = module("fly", globals())

__all__ = [
    "ComposedLayoutType",
    "CoordSwizzleType",
    "IntTupleType",
    "LayoutType",
    "PointerType",
    "SwizzleType",
    "TileType",
]
