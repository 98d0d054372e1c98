"""The types of `ir`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import builtin
from xdsl.ir import Attribute, TypeAttribute

from ..errors import MLIRError
from ..expr.emit.facade import Made, Stands, anywhere
from ..ir.readable import readable
from .attributes import parse_type


def _extents(shape: Sequence[object], kind: str, least: int = 0) -> list[int]:
    """The extents of a type; one that is known at run time is DYNAMIC_INDEX, but for vectors."""
    found = [int(cast(int, n)) for n in shape]
    wrong = [n for n in found if n < least and (n != builtin.DYNAMIC_INDEX or least)]
    if wrong:
        raise MLIRError(f"the extents of a {kind} type must be at least {least}, got {wrong[0]} in {found}")
    return found


class Type(Stands, of=TypeAttribute):
    """Any type."""

    @staticmethod
    @anywhere
    def parse(asm: str) -> Made:
        """The type of a text."""
        return parse_type(asm)


class IntegerType(Stands, of=builtin.IntegerType):
    """`i32`, `si8`, `ui16`."""

    @staticmethod
    @anywhere
    def get_signless(width: int) -> Made:
        """`i32`."""
        return builtin.IntegerType(width)

    @staticmethod
    @anywhere
    def get_signed(width: int) -> Made:
        """`si32`."""
        return builtin.IntegerType(width, builtin.Signedness.SIGNED)

    @staticmethod
    @anywhere
    def get_unsigned(width: int) -> Made:
        """`ui32`."""
        return builtin.IntegerType(width, builtin.Signedness.UNSIGNED)

    get = get_signless


class IndexType(Stands, of=builtin.IndexType):
    """`index`."""

    @staticmethod
    @anywhere
    def get() -> Made:
        return builtin.IndexType()


class NoneType(Stands, of=builtin.NoneType):
    """`none`."""

    @staticmethod
    @anywhere
    def get() -> Made:
        return builtin.NoneType()


class FloatType(Stands, of=cast("tuple[type, ...]", builtin.AnyFloat.__args__)):  # pyright: ignore
    """Any type of floats."""


_FLOATS = {
    "BF16Type": "bf16", "F16Type": "f16", "F32Type": "f32", "F64Type": "f64", "FloatTF32Type": "tf32",
    "Float4E2M1FNType": "f4E2M1FN", "Float6E2M3FNType": "f6E2M3FN", "Float6E3M2FNType": "f6E3M2FN",
    "Float8E3M4Type": "f8E3M4", "Float8E4M3Type": "f8E4M3", "Float8E4M3FNType": "f8E4M3FN",
    "Float8E4M3FNUZType": "f8E4M3FNUZ", "Float8E4M3B11FNUZType": "f8E4M3B11FNUZ", "Float8E5M2Type": "f8E5M2",
    "Float8E5M2FNUZType": "f8E5M2FNUZ", "Float8E8M0FNUType": "f8E8M0FNU",
}  # fmt: skip
"""The classes of floats by the texts of their types."""


def _float(name: str, text: str) -> type[Stands]:
    type_ = readable(parse_type(text))
    get = staticmethod(anywhere(lambda: type_))
    return cast(
        "type[Stands]",
        type(Stands)(name, (Stands,), {"stands_for": (type(type_),), "get": get, "__doc__": f"`{text}`."}),
    )


FLOATS = {name: _float(name, text) for name, text in _FLOATS.items()}
"""A class for each type of floats."""


class ShapedType(Stands, of=(builtin.VectorType, builtin.MemRefType, builtin.TensorType)):
    """Vectors, memrefs and tensors."""

    @staticmethod
    def get_dynamic_size() -> int:
        """What stands in a shape for an extent known at run time."""
        return builtin.DYNAMIC_INDEX

    @staticmethod
    def get_dynamic_stride_or_offset() -> int:
        """What stands in a layout for a number known at run time."""
        return builtin.DYNAMIC_INDEX

    @staticmethod
    def is_dynamic_size(dim_size: int) -> bool:
        """Whether a number of a shape stands for one known at run time."""
        return dim_size == builtin.DYNAMIC_INDEX

    is_dynamic_stride_or_offset = is_dynamic_size


class VectorType(ShapedType, of=builtin.VectorType):
    """`vector<4xf32>`."""

    @staticmethod
    @anywhere
    def get(
        shape: Sequence[int], element_type: Attribute, scalable: object = None, scalable_dims: object = None
    ) -> Made:
        elem = getattr(element_type, "ir_type", element_type)
        if scalable or scalable_dims:
            return parse_type("vector<" + "x".join(f"[{n}]" for n in shape) + f"x{elem}>")
        return builtin.VectorType(elem, _extents(shape, "vector", 1))


class RankedTensorType(ShapedType, of=builtin.TensorType):
    """`tensor<4x?xf32>`."""

    @staticmethod
    @anywhere
    def get(shape: Sequence[int], element_type: Attribute, encoding: Attribute | None = None) -> Made:
        return builtin.TensorType(element_type, _extents(shape, "tensor"), *([] if encoding is None else [encoding]))


class MemRefType(ShapedType, of=builtin.MemRefType):
    """`memref<4xf32, 3>`."""

    @staticmethod
    @anywhere
    def get(
        shape: Sequence[int],
        element_type: Attribute,
        layout: Attribute | None = None,
        memory_space: Attribute | None = None,
    ) -> Made:
        given = {k: v for k, v in (("layout", layout), ("memory_space", memory_space)) if v is not None}
        return builtin.MemRefType(element_type, _extents(shape, "memref"), **cast("dict[str, builtin.NoneAttr]", given))


class FunctionType(Stands, of=builtin.FunctionType):
    """`(i32) -> f32`."""

    @staticmethod
    @anywhere
    def get(inputs: Sequence[Attribute], results: Sequence[Attribute]) -> Made:
        return builtin.FunctionType.from_lists(list(inputs), list(results))


class TupleType(Stands, of=builtin.TupleType):
    """`tuple<i32, f32>`."""

    @staticmethod
    @anywhere
    def get_tuple(elements: Sequence[Attribute]) -> Made:
        return builtin.TupleType(tuple(cast(TypeAttribute, e) for e in elements))


class ComplexType(Stands, of=builtin.ComplexType):
    """`complex<f32>`."""

    @staticmethod
    @anywhere
    def get(element_type: Attribute) -> Made:
        return builtin.ComplexType(cast(builtin.Float32Type, element_type))


__all__ = [
    "FLOATS", "ComplexType", "FloatType", "FunctionType", "IndexType", "IntegerType", "MemRefType", "NoneType",
    "RankedTensorType", "ShapedType", "TupleType", "Type", "VectorType",
]  # fmt: skip
