"""Builtin types by what passes ask of them: widths, and vectors made once."""

from __future__ import annotations

import math
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerType, VectorType
from xdsl.ir import Attribute

from .identity import by_identity, by_identity_and_value


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


_vectors: dict[tuple[Attribute, int], VectorType] = {}


@by_identity_and_value
def vector_type(elem: Attribute, count: int) -> VectorType:
    """Interned 1-D vector type."""
    found = _vectors.get((elem, count))
    if found is None:
        found = _vectors[elem, count] = VectorType(elem, [count])
    return found


def dense_ints(attr: Attribute | None) -> list[int]:
    """The integers of a dense array attribute."""
    return list(cast("DenseArrayBase[IntegerType]", attr).get_values())
