"""The `fly` dialect: its ops, types and attributes in one object for an xDSL context."""

from __future__ import annotations

from xdsl.ir import Dialect

from . import atoms, types
from .atomic_ops import ATOMIC_OPS
from .attrs import ATTRS
from .ops import OPS

Fly = Dialect(
    "fly",
    [*OPS.values(), *ATOMIC_OPS],
    [
        types.IntTupleType,
        types.BasisType,
        types.LayoutType,
        types.SwizzleType,
        types.CoordSwizzleType,
        types.ComposedLayoutType,
        types.TileType,
        types.PointerType,
        types.MemRefType,
        types.CoordTensorType,
        atoms.UniversalCopyType,
        atoms.UniversalAtomicType,
        atoms.UniversalFmaType,
        atoms.CopyAtomType,
        atoms.MmaAtomType,
        atoms.TiledCopyType,
        atoms.TiledMmaType,
        *ATTRS,
    ],
)
