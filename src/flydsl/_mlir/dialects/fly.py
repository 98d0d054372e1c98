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
from ...expr.emit.memory_types import (
    BasisType,
    CoordTensorType,
    CopyAtomType,
    CopyOpUniversalAtomicType,
    CopyOpUniversalCopyType,
    MemRefType,
    MmaAtomType,
    MmaOpUniversalFMAType,
    TiledCopyType,
    TiledMmaType,
)
from .generated import module

__getattr__, __dir__ = module("fly", globals())

__all__ = [
    "BasisType", "ComposedLayoutType", "CoordSwizzleType", "CoordTensorType", "CopyAtomType",
    "CopyOpUniversalAtomicType", "CopyOpUniversalCopyType", "IntTupleType", "LayoutType", "MemRefType", "MmaAtomType",
    "MmaOpUniversalFMAType", "PointerType", "SwizzleType", "TileType", "TiledCopyType", "TiledMmaType",
]  # fmt: skip
