"""The attributes of `ir`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.dialects import builtin
from xdsl.ir import Attribute as XAttribute
from xdsl.ir.affine import AffineMap

from ..errors import DSLTypeError, MLIRError
from ..expr.emit.facade import Made, Stands, anywhere
from ..ir.readable import dense_array
from .attributes import parse_attribute
from .elements import elements_of_buffer, elements_of_list


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
        given: Mapping[str, XAttribute] = {} if value is None else value
        if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DSLTypeError(f"expected attributes by name, got {given!r}")
        return builtin.DictionaryAttr({name: _attribute(each) for name, each in sorted(given.items())})


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
    def get(
        array: object,
        signless: bool | XAttribute = True,
        type: XAttribute | None = None,
        shape: Sequence[int] | None = None,
    ) -> Made:
        """Of attributes and a vector or tensor type; or of an array, for which a type and a shape may be given."""
        if isinstance(signless, XAttribute):
            signless, type = True, signless
        if isinstance(array, list | tuple):
            return elements_of_list(cast("Sequence[object]", array), type)
        return elements_of_buffer(array, signless, type, shape)

    @staticmethod
    @anywhere
    def get_splat(shaped_type: XAttribute, element_attr: XAttribute) -> Made:
        """The same element everywhere."""
        return elements_of_list([element_attr], shaped_type)


class DenseIntElementsAttr(DenseElementsAttr):
    """One of integers."""

    @classmethod
    def _accepts(cls, x: object) -> bool:
        return isinstance(x, builtin.DenseIntOrFPElementsAttr) and not isinstance(
            cast("builtin.DenseIntOrFPElementsAttr[Any]", x).get_element_type(), builtin.AnyFloat
        )


class DenseFPElementsAttr(DenseElementsAttr):
    """One of floats."""

    @classmethod
    def _accepts(cls, x: object) -> bool:
        return isinstance(x, builtin.DenseIntOrFPElementsAttr) and isinstance(
            cast("builtin.DenseIntOrFPElementsAttr[Any]", x).get_element_type(), builtin.AnyFloat
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
        """The attribute; each number must fit."""
        return dense_array(elem, values)

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
    "DENSE_ARRAYS", "AffineMapAttr", "ArrayAttr", "Attribute", "BoolAttr", "DenseElementsAttr",
    "DenseFPElementsAttr", "DenseIntElementsAttr", "DictAttr",
    "FlatSymbolRefAttr", "FloatAttr", "IntegerAttr", "StridedLayoutAttr", "StringAttr", "SymbolRefAttr", "TypeAttr",
    "UnitAttr",
]  # fmt: skip
