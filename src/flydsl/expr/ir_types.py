"""IR type objects with `.get(...)`, for `fx.static` and low-level calls."""

from __future__ import annotations

from typing import Any

from .. import layout as L
from ..dialects.enums import AddressSpace
from ..dialects.fly import types as fly_types
from .algebra_values import AlgebraValue


def _data(x: Any) -> Any:
    if isinstance(x, AlgebraValue):
        return x.data
    return getattr(x, "data", x)


class SwizzleType:
    """`SwizzleType.get(mask, base, shift)`."""

    @staticmethod
    def get(mask: int, base: int, shift: int) -> Any:
        """The IR type."""
        return fly_types.type_of(L.Swizzle(mask, base, shift))


class CoordSwizzleType:
    """`CoordSwizzleType.get(mask, base_row, mode_row, base_col, mode_col)`."""

    @staticmethod
    def get(mask: int, base_row: int, mode_row: Any, base_col: int, mode_col: Any) -> Any:
        """The IR type."""
        return fly_types.type_of(L.CoordSwizzle(mask, base_row, tuple(mode_row), base_col, tuple(mode_col)))


class IntTupleType:
    """`IntTupleType.get((4, (8, 2)))`."""

    @staticmethod
    def get(tree: Any) -> Any:
        """The IR type."""
        return fly_types.int_tuple_type(_data(tree))


class LayoutType:
    """`LayoutType.get(shape, stride)`."""

    @staticmethod
    def get(shape: Any, stride: Any) -> Any:
        """The IR type."""
        return fly_types.layout_type(L.Layout(_data(shape), _data(stride)))


class TileType:
    """`TileType.get([8, 64])`."""

    @staticmethod
    def get(modes: Any) -> Any:
        """The IR type."""
        return fly_types.type_of(L.Tile(tuple(_data(m) for m in modes)))


class ComposedLayoutType:
    """`ComposedLayoutType.get(inner, offset, outer)`."""

    @staticmethod
    def get(inner: Any, offset: Any, outer: Any) -> Any:
        """The IR type."""
        return fly_types.layout_type(L.ComposedLayout(_data(inner), _data(offset), _data(outer)))


class PointerType:
    """`PointerType.get(elem_ir_type, address_space, alignment)`."""

    @staticmethod
    def get(elem: Any, address_space: AddressSpace = AddressSpace.Global, alignment: int | None = None) -> Any:
        """The IR type."""
        return fly_types.ptr_type(elem, address_space, alignment)
