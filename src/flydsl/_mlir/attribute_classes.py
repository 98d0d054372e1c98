"""The attributes of `ir`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.dialects import builtin
from xdsl.ir import Attribute as XAttribute
from xdsl.ir.affine import AffineMap

from ..errors import DSLTypeError, MLIRError
from ..expr.emit.facade import Made, Stands, anywhere
from .attributes import parse_attribute


class Attribute(Stands, of=XAttribute):
    """Any attribute."""

    @staticmethod
    @anywhere
    def parse(asm: str) -> Made:
        """The attribute of a text."""
        return parse_attribute(asm)


def _attribute(x: object) -> XAttribute:
    if not isinstance(x, XAttribute):
        raise DSLTypeError(f"expected an attribute, got {x!r}")
    return x


class IntegerAttr(Stands, of=builtin.IntegerAttr):
    """`4 : i32`."""

    @staticmethod
    @anywhere
    def get(type: XAttribute, value: int) -> Made:
        """The attribute; a number that does not fit keeps its lower bits."""
        if isinstance(value, float):
            raise DSLTypeError(f"expected an integer for {type}, got {value!r}")
        if not isinstance(type, builtin.IntegerType | builtin.IndexType):
            raise MLIRError(f"an integer cannot be of type {type}")
        return builtin.IntegerAttr(int(value), cast(builtin.IntegerType, type), truncate_bits=True)


class BoolAttr(Stands, of=builtin.IntegerAttr):
    """`true`."""

    @classmethod
    def _accepts(cls, x: object) -> bool:
        return (
            isinstance(x, builtin.IntegerAttr)
            and cast("builtin.IntegerAttr[builtin.IntegerType]", x).type == builtin.i1
        )

    @staticmethod
    @anywhere
    def get(value: bool) -> Made:
        """The attribute."""
        return builtin.IntegerAttr(int(value), builtin.i1)


class FloatAttr(Stands, of=builtin.FloatAttr):
    """`1.5 : f32`."""

    @staticmethod
    @anywhere
    def get(type: XAttribute, value: float) -> Made:
        """The attribute."""
        if not isinstance(type, builtin.AnyFloat):
            raise MLIRError(f"a float cannot be of type {type}")
        return builtin.FloatAttr(float(value), cast(builtin.Float32Type, type))

    @staticmethod
    @anywhere
    def get_f32(value: float) -> Made:
        """Of 32 bits."""
        return builtin.FloatAttr(value, builtin.f32)

    @staticmethod
    @anywhere
    def get_f64(value: float) -> Made:
        """Of 64 bits."""
        return builtin.FloatAttr(value, builtin.f64)


class StringAttr(Stands, of=builtin.StringAttr):
    """`"text"`."""

    @staticmethod
    @anywhere
    def get(value: str | bytes) -> Made:
        """The attribute."""
        return builtin.StringAttr(value if isinstance(value, str) else value.decode())


class TypeAttr(Stands, of=XAttribute):
    """A type where an attribute is asked for: the type itself."""

    @staticmethod
    @anywhere
    def get(value: XAttribute) -> Made:
        return value


class UnitAttr(Stands, of=builtin.UnitAttr):
    """`unit`."""

    @staticmethod
    @anywhere
    def get() -> Made:
        """The attribute."""
        return builtin.UnitAttr()


class ArrayAttr(Stands, of=builtin.ArrayAttr):
    """`[1 : i32, "text"]`."""

    @staticmethod
    @anywhere
    def get(attributes: Sequence[XAttribute]) -> Made:
        return builtin.ArrayAttr([_attribute(each) for each in attributes])


class DictAttr(Stands, of=builtin.DictionaryAttr):
    """`{name = 1 : i32}`."""

    @staticmethod
    @anywhere
    def get(value: Mapping[str, XAttribute] | None = None) -> Made:
        """The attribute."""
        return builtin.DictionaryAttr({name: _attribute(each) for name, each in sorted((value or {}).items())})


class FlatSymbolRefAttr(Stands, of=builtin.SymbolRefAttr):
    """`@name`."""

    @classmethod
    def _accepts(cls, x: object) -> bool:
        return isinstance(x, builtin.SymbolRefAttr) and not x.nested_references.data

    @staticmethod
    @anywhere
    def get(value: str) -> Made:
        """The attribute."""
        return builtin.SymbolRefAttr(value)


class SymbolRefAttr(Stands, of=builtin.SymbolRefAttr):
    """`@module::@name`."""

    @staticmethod
    @anywhere
    def get(symbols: Sequence[str]) -> Made:
        """The attribute."""
        return builtin.SymbolRefAttr(symbols[0], list(symbols[1:]))


class DenseElementsAttr(Stands, of=builtin.DenseIntOrFPElementsAttr):
    """`dense<[1, 2]> : vector<2xi32>`."""

    @staticmethod
    @anywhere
    def get(array: Sequence[int] | Sequence[float] | Sequence[XAttribute], type: XAttribute | None = None) -> Made:
        """Of numbers or attributes, for a vector or tensor type."""
        items = [getattr(getattr(x, "value", x), "data", getattr(x, "value", x)) for x in array]
        if type is None:
            held = [x for x in array if isinstance(x, XAttribute)]
            elem = cast("builtin.IntegerAttr[builtin.IntegerType]", held[0]).type if held else builtin.i64
            type = builtin.VectorType(elem, [len(items)])
        return builtin.DenseIntOrFPElementsAttr.from_list(
            cast("builtin.VectorType[builtin.IntegerType]", type), cast("list[int]", items)
        )

    @staticmethod
    @anywhere
    def get_splat(shaped_type: XAttribute, element_attr: XAttribute) -> Made:
        """The same element everywhere."""
        value = cast("builtin.IntegerAttr[builtin.IntegerType]", element_attr).value.data
        return builtin.DenseIntOrFPElementsAttr.from_list(
            cast("builtin.VectorType[builtin.IntegerType]", shaped_type), [value]
        )


class StridedLayoutAttr(Stands, of=builtin.StridedLayoutAttr):
    """`strided<[4, 1], offset: 2>`."""

    @staticmethod
    @anywhere
    def get(offset: int, strides: Sequence[int]) -> Made:
        """The attribute; negative numbers stand for what is known at run time."""
        return builtin.StridedLayoutAttr(
            [None if s == builtin.DYNAMIC_INDEX else s for s in strides],
            None if offset == builtin.DYNAMIC_INDEX else offset,
        )

    @staticmethod
    @anywhere
    def get_fully_dynamic(rank: int) -> Made:
        """All of it known at run time."""
        return builtin.StridedLayoutAttr([None] * rank, None)


class AffineMapAttr(Stands, of=builtin.AffineMapAttr):
    """`affine_map<(d0) -> (d0)>`."""

    @staticmethod
    @anywhere
    def get(affine_map: AffineMap) -> Made:
        """The attribute."""
        return builtin.AffineMapAttr(affine_map)


def _dense_array(name: str, elem: XAttribute) -> type[Stands]:
    def get(values: Sequence[int]) -> Made:
        """The attribute."""
        return builtin.DenseArrayBase.from_list(cast(builtin.IntegerType, elem), list(values))

    def accepts(x: object) -> bool:
        return isinstance(x, builtin.DenseArrayBase) and cast("builtin.DenseArrayBase[Any]", x).elt_type == elem

    body = {
        "_accepts": staticmethod(accepts),
        "get": staticmethod(anywhere(get)),
        "__doc__": f"`array<{elem}: ...>`.",
    }
    return cast("type[Stands]", type(Stands)(name, (Stands,), body))


DENSE_ARRAYS = {
    f"Dense{name}ArrayAttr": _dense_array(f"Dense{name}ArrayAttr", elem)
    for name, elem in (
        ("Bool", builtin.i1),
        ("I8", builtin.i8),
        ("I16", builtin.i16),
        ("I32", builtin.i32),
        ("I64", builtin.i64),
        ("F32", builtin.f32),
        ("F64", builtin.f64),
    )
}
"""A class for each kind of dense array."""

__all__ = [
    "DENSE_ARRAYS", "AffineMapAttr", "ArrayAttr", "Attribute", "BoolAttr", "DenseElementsAttr", "DictAttr",
    "FlatSymbolRefAttr", "FloatAttr", "IntegerAttr", "StridedLayoutAttr", "StringAttr", "SymbolRefAttr", "TypeAttr",
    "UnitAttr",
]  # fmt: skip
