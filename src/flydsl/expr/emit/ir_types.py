"""IR type objects with `.get(...)`, for `fx.static` and low-level calls."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, SupportsIndex, cast

from xdsl.ir import Attribute

from ... import layout as L
from ...dialects.fly import types as fly_types
from ...errors import DSLTypeError
from ...ir.enums import AddressSpace
from ..aliases import also_called
from ..tensors.algebra_values import AlgebraValue
from .facade import Stands


def _data(x: object) -> Any:
    if isinstance(x, AlgebraValue):
        return x.data
    return getattr(x, "data", x)


class SwizzleType(Stands, of=fly_types.SwizzleType):
    """`SwizzleType.get(mask, base, shift)`.

    >>> fx.static(fx.SwizzleType.get(3, 0, 3))
    Swizzle<S<3,0,3>>
    """

    @staticmethod
    def get(mask: int, base: int, shift: int) -> Attribute:
        """The IR type."""
        return fly_types.type_of(L.Swizzle(mask, base, shift))


class CoordSwizzleType(Stands, of=fly_types.CoordSwizzleType):
    """`CoordSwizzleType.get(mask, base_row, mode_row, base_col, mode_col)`.

    >>> fx.static(fx.CoordSwizzleType.get(2, 0, [0], 1, [1]))
    CoordSwizzle<CS<2,0,[0],1,[1]>>
    """

    @staticmethod
    def get(mask: int, base_row: int, mode_row: Iterable[int], base_col: int, mode_col: Iterable[int]) -> Attribute:
        """The IR type."""
        return fly_types.type_of(L.CoordSwizzle(mask, base_row, tuple(mode_row), base_col, tuple(mode_col)))


class IntTupleType(Stands, of=fly_types.IntTupleType):
    """`IntTupleType.get((4, (8, 2)))`.

    >>> fx.static(fx.IntTupleType.get((4, (2, 3))))
    IntTuple<(4,(2,3))>
    """

    @staticmethod
    @also_called(tree="int_or_tuple")
    def get(int_or_tuple: object) -> fly_types.IntTupleType:
        """The IR type."""
        return fly_types.int_tuple_type(_data(int_or_tuple))


class LayoutType(Stands, of=fly_types.LayoutType):
    """`LayoutType.get(shape, stride)`.

    >>> fx.static(fx.LayoutType.get((4, 8), (8, 1)))
    Layout<(4,8):(8,1)>
    """

    @staticmethod
    def get(shape: object, stride: object) -> Attribute:
        """The IR type."""
        return fly_types.layout_type(L.Layout(_data(shape), _data(stride)))


class TileType(Stands, of=fly_types.TileType):
    """`TileType.get([8, 64])`.

    >>> fx.static(fx.TileType.get([4, 8]))
    Tile<[4|8]>
    """

    @staticmethod
    def get(modes: Iterable[object]) -> Attribute:
        """The IR type."""
        return fly_types.type_of(L.Tile(tuple(_data(m) for m in modes)))


class ComposedLayoutType(Stands, of=fly_types.ComposedLayoutType):
    """`ComposedLayoutType.get(inner, offset, outer)`.

    >>> inner = fx.SwizzleType.get(3, 0, 3)
    >>> fx.static(fx.ComposedLayoutType.get(inner, fx.IntTupleType.get(0), fx.LayoutType.get((8, 8), (8, 1))))
    ComposedLayout<S<3,0,3> o 0 o (8,8):(8,1)>
    """

    @staticmethod
    def get(inner: object, offset: object, outer: object) -> Attribute:
        """The IR type."""
        return fly_types.layout_type(L.ComposedLayout(_data(inner), _data(offset), _data(outer)))


def space_of(space: object) -> fly_types.Space:
    """An address space given as such, as its number, or as what a target calls its own: `fx.rocdl.BufferDesc`."""
    if space is None:
        return AddressSpace.Global
    found = getattr(space, "attr", space)
    if isinstance(found, fly_types.AddressSpaceAttr):
        return found.data
    if isinstance(found, Attribute):
        return found
    try:
        return AddressSpace(operator.index(cast(SupportsIndex, found)))
    except (TypeError, ValueError):
        names = ", ".join(f"{s.name} ({s.value})" for s in AddressSpace)
        raise DSLTypeError(f"expected an fx.AddressSpace, {names}, or one of the target, got {space!r}") from None


def element_of(elem: object) -> Attribute:
    """The IR type of elements given as a scalar class or as an IR type."""
    found = getattr(elem, "ir_type", elem)
    if not isinstance(found, Attribute):
        raise DSLTypeError(f"expected a scalar class or an IR type of elements, got {elem!r}")
    return found


class PointerType(Stands, of=fly_types.PointerType):
    """`PointerType.get(elem_ty, address_space, alignment)`.

    >>> str(fx.PointerType.get(fx.T.f32, fx.AddressSpace.Shared, 16))
    '!fly.ptr<f32, shared, align<16>>'
    >>> made = fx.PointerType.get(elem_ty=fx.T.f16, address_space=1, alignment=8)
    >>> made.alignment, made.address_space.name
    (8, 'Global')
    """

    @staticmethod
    @also_called(elem="elem_ty")
    def get(elem_ty: object, address_space: object = None, alignment: int | None = None) -> fly_types.PointerType:
        """The IR type."""
        return fly_types.ptr_type(element_of(elem_ty), space_of(address_space), alignment)
