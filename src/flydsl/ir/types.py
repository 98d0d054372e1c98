"""Builtin types by what passes ask of them: widths, and vectors made once."""

from __future__ import annotations

import math
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerType, VectorType
from xdsl.ir import Attribute


def bit_width(elem: Attribute) -> int:
    """Width of a scalar element in bits."""
    # Exact classes: `isinstance` of another class asks `ABCMeta`, which takes longer than all the rest.
    kind = type(elem)
    if kind is IntegerType:
        return cast(Any, elem).width.data
    if kind is IndexType:
        return 64
    if kind is VectorType:
        return bit_width(cast(VectorType, elem).element_type) * math.prod(cast(VectorType, elem).get_shape())
    bits = getattr(elem, "bitwidth", None)
    if bits is None:
        raise TypeError(f"{elem} has no width in bits")
    return int(bits)


_vectors: dict[tuple[Attribute, int], VectorType] = {}
_vectors_by_id: dict[tuple[int, int], tuple[VectorType, Attribute]] = {}
"""The same by the id of the element type, which is kept with it: hashing a type takes longer than all the rest."""


def vector_type(elem: Attribute, count: int) -> VectorType:
    """Interned 1-D vector type."""
    known = _vectors_by_id.get((id(elem), count))
    if known is None:
        found = _vectors.get((elem, count))
        if found is None:
            found = _vectors[elem, count] = VectorType(cast(Any, elem), [count])
        if len(_vectors_by_id) > 4096:
            _vectors_by_id.clear()
        known = _vectors_by_id[id(elem), count] = (found, elem)
    return known[0]


def dense_ints(attr: Attribute | None) -> list[int]:
    """The integers of a dense array attribute."""
    return list(cast("DenseArrayBase[IntegerType]", attr).get_values())
