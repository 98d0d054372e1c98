"""IR type objects of tensors, atoms and tiled operations, each with `.get(...)`; see `ir_types` for layouts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xdsl.ir import Attribute

from ... import layout as L
from ...dialects.fly import atoms
from ...dialects.fly import types as fly_types
from ...errors import DSLTypeError
from ...ir.enums import AtomicOp, SyncScope
from ..aliases import also_called
from ..tensors.algebra_values import AlgebraValue
from ..tensors.layout_functions import as_tile
from .facade import Stands
from .ir_types import element_of, space_of


def _data(x: object) -> Any:
    """The algebra object behind a value, an IR type, or itself."""
    return x.data if isinstance(x, AlgebraValue) else getattr(x, "data", x)


def _ir_type(x: object) -> Any:
    """The IR type behind a scalar class, a copy or MMA operation, an atom, or itself."""
    for name in ("ir_type", "type"):
        found = getattr(x, name, None)
        if found is not None:
            return found
    return x


class BasisType(Stands, of=fly_types.BasisType):
    """`BasisType.get(value, modes)`.

    >>> fx.BasisType.get(2, [0])
    BasisType(data=2E0)
    """

    @staticmethod
    def get(value: int, modes: Iterable[int]) -> Attribute:
        """The IR type."""
        return fly_types.intern(fly_types.BasisType, L.Basis(value, tuple(modes)))


class MemRefType(Stands, of=fly_types.MemRefType):
    """`MemRefType.get(elem_ty, layout, address_space, alignment)`; layout and space may change places.

    >>> str(fx.MemRefType.get(fx.T.f32, fx.make_layout((4, 8), (8, 1)), fx.AddressSpace.Register))
    '!fly.memref<f32, register, (4,8):(8,1)>'
    """

    @staticmethod
    @also_called(elem="elem_ty")
    def get(
        elem_ty: object, layout: object, address_space: object = None, alignment: int | None = None
    ) -> fly_types.MemRefType:
        """The IR type."""
        if not isinstance(_data(layout), (L.Layout, L.ComposedLayout)):
            layout, address_space = address_space, layout
        shape = _data(layout)
        if not isinstance(shape, (L.Layout, L.ComposedLayout)):
            raise DSLTypeError(f"MemRefType.get expects a layout or its type, got {layout!r}")
        return fly_types.memref_type(element_of(elem_ty), space_of(address_space), shape, alignment)


class CoordTensorType(Stands, of=fly_types.CoordTensorType):
    """`CoordTensorType.get(base, layout)`.

    >>> str(fx.CoordTensorType.get((0, 0), fx.make_identity_layout((4, 8))))
    '!fly.coord_tensor<(0,0), (4,8):(1E0,1E1)>'
    """

    @staticmethod
    def get(base: object, layout: object) -> Attribute:
        """The IR type."""
        return fly_types.coord_tensor_type(_data(base), _data(layout))


class CopyAtomType(Stands, of=atoms.CopyAtomType):
    """`CopyAtomType.get(copy_op_type, val_bits)`.

    >>> str(fx.CopyAtomType.get(fx.CopyOpUniversalCopyType.get(128), 32))
    '!fly.copy_atom<!fly.universal_copy<128>, 32>'
    """

    @staticmethod
    @also_called(op="copy_op")
    def get(copy_op: object, val_bits: int) -> Attribute:
        """The IR type."""
        return atoms.copy_atom_type(_ir_type(copy_op), val_bits)


class MmaAtomType(Stands, of=atoms.MmaAtomType):
    """`MmaAtomType.get(mma_op_type)`.

    >>> str(fx.MmaAtomType.get(fx.MmaOpUniversalFMAType.get(fx.T.f32)))
    '!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>'
    """

    @staticmethod
    @also_called(op="mma_op")
    def get(mma_op: object) -> Attribute:
        """The IR type."""
        return atoms.mma_atom_type(_ir_type(mma_op))


class TiledCopyType(Stands, of=atoms.TiledCopyType):
    """`TiledCopyType.get(copy_atom_type, layout_tv, tile_mn)`.

    >>> atom = fx.CopyAtomType.get(fx.CopyOpUniversalCopyType.get(32), 32)
    >>> str(fx.TiledCopyType.get(atom, fx.make_layout((4, 1), (1, 1)), fx.make_tile(4, 1)))
    '!fly.tiled_copy<!fly.copy_atom<!fly.universal_copy<32>, 32>, !fly.layout<(4,1):(1,1)>, !fly.tile<[4|1]>>'
    """

    @staticmethod
    def get(atom: object, layout_tv: object, tile_mn: object) -> Attribute:
        """The IR type."""
        return atoms.tiled_copy_type(_ir_type(atom), _data(layout_tv), _data(as_tile(tile_mn)))


class TiledMmaType(Stands, of=atoms.TiledMmaType):
    """`TiledMmaType.get(mma_atom_type, atom_layout, permutation=None)`.

    >>> atom = fx.MmaAtomType.get(fx.MmaOpUniversalFMAType.get(fx.T.f32))
    >>> str(fx.TiledMmaType.get(atom, fx.make_layout((2, 2, 1), (1, 2, 0))))
    '!fly.tiled_mma<!fly.mma_atom<!fly.universal_fma<1x1x1, (f32, f32) -> f32>>, !fly.layout<(2,2,1):(1,2,0)>>'
    """

    @staticmethod
    def get(atom: object, atom_layout: object, permutation: object = None) -> Attribute:
        """The IR type."""
        tile = None if permutation is None else _data(as_tile(permutation))
        return atoms.tiled_mma_type(_ir_type(atom), _data(atom_layout), tile)


class CopyOpUniversalCopyType(Stands, of=atoms.UniversalCopyType):
    """`CopyOpUniversalCopyType.get(bits)`.

    >>> str(fx.CopyOpUniversalCopyType.get(64))
    '!fly.universal_copy<64>'
    """

    @staticmethod
    @also_called(bits="bitSize")
    def get(bitSize: int) -> Attribute:
        """The IR type."""
        return atoms.UniversalCopyType(bitSize)


class CopyOpUniversalAtomicType(Stands, of=atoms.UniversalAtomicType):
    """`CopyOpUniversalAtomicType.get(op, val_type, syncscope)`.

    >>> str(fx.CopyOpUniversalAtomicType.get(fx.AtomicOp.Add, fx.T.f32))
    '!fly.universal_atomic<add, f32>'
    """

    @staticmethod
    @also_called(op="atomic_op")
    def get(atomic_op: AtomicOp | int, val_type: object, syncscope: SyncScope | str = SyncScope.System) -> Attribute:
        """The IR type."""
        return atoms.UniversalAtomicType((AtomicOp(atomic_op), _ir_type(val_type), str(syncscope)))


class MmaOpUniversalFMAType(Stands, of=atoms.UniversalFmaType):
    """`MmaOpUniversalFMAType.get(elem)`.

    >>> str(fx.MmaOpUniversalFMAType.get(fx.T.f32))
    '!fly.universal_fma<1x1x1, (f32, f32) -> f32>'
    """

    @staticmethod
    @also_called(elem="elem_ty")
    def get(elem_ty: object) -> Attribute:
        """The IR type."""
        return atoms.UniversalFmaType(_ir_type(elem_ty))
