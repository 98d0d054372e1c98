"""Builtin types by what passes ask of them: widths, and vectors made once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, cast

from xdsl.dialects import builtin
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FunctionType,
    IndexType,
    IntAttr,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute

from .emitter import make_attribute, make_data
from .identity import by_identity, by_identity_and_value
from .readable import readable

# Of values that users hold: they read the width as a number.
i1, i8, i16, i32, i64 = (readable(t) for t in (builtin.i1, builtin.i8, builtin.i16, builtin.i32, builtin.i64))
i128 = readable(IntegerType(128))
index = readable(IndexType())


def stored_bits(elem: Attribute) -> int:
    """Bits of memory that a tensor has for an element: a boolean has a byte."""
    bits = bit_width(elem)
    return 8 if bits == 1 else bits


def bit_width(elem: Attribute) -> int:
    """Width of a scalar element in bits."""
    # Exact classes: `isinstance` of another class asks `ABCMeta`, which takes longer than all the rest.
    kind = type(elem)
    if kind is IntegerType:
        return cast("IntegerType", elem).width.data
    if kind is IndexType:
        return 64
    if kind is VectorType:
        return _vector_bits(cast(VectorType, elem))
    bits = getattr(elem, "bitwidth", None)
    if bits is None:
        raise TypeError(f"{elem} has no width in bits")
    return int(bits)


@by_identity
def _vector_bits(type_: VectorType) -> int:
    return bit_width(type_.element_type) * math.prod(type_.get_shape())


def is_splat(attr: DenseIntOrFPElementsAttr[Any]) -> bool:
    """Whether every element of a constant has the same bits; xDSL compares numbers, and -0.0 equals 0.0."""
    data, count = attr.data.data, len(attr)
    return bool(count) and data == data[: len(data) // count] * count


_vectors: dict[tuple[Attribute, int], VectorType] = {}


@by_identity_and_value
def vector_type(elem: Attribute, count: int) -> VectorType:
    """Interned 1-D vector type."""
    found = _vectors.get((elem, count))
    if found is None:
        shape = make_data(ArrayAttr, (make_data(IntAttr, count),))
        values = (elem, shape, _FIXED_LENGTH)
        made = make_attribute(VectorType, ("element_type", "shape", "scalable_dims"), values)
        found = _vectors[elem, count] = readable(made)
    return found


_FIXED_LENGTH: ArrayAttr[Attribute] = cast("ArrayAttr[Attribute]", VectorType(IntegerType(1), [1]).scalable_dims)


def function_type(inputs: Iterable[Attribute], outputs: Iterable[Attribute]) -> FunctionType:
    """A function type, as `FunctionType.from_lists` makes it."""
    lists = (make_data(ArrayAttr, tuple(inputs)), make_data(ArrayAttr, tuple(outputs)))
    return make_attribute(FunctionType, ("inputs", "outputs"), lists)


@by_identity
def dense_ints(attr: Attribute | None) -> tuple[int, ...]:
    """The numbers of an `array<i32: ...>` or `array<i64: ...>`, whose unpacking takes longer than what is done with
    them."""
    return tuple(cast("DenseArrayBase[IntegerType]", attr).get_values())


@by_identity
def shape_of(type_: Attribute) -> tuple[int, ...]:
    """Extents of a vector; none for a scalar."""
    return tuple(type_.get_shape()) if isinstance(type_, VectorType) else ()
