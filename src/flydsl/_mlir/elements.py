"""Constants of many numbers: `dense<...>` of a list of attributes or of an array's memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import builtin
from xdsl.ir import Attribute

from ..errors import DSLTypeError, MLIRError

_FORMATS: dict[str, tuple[str, int]] = {
    "?": ("bool", 1), "b": ("signed", 8), "h": ("signed", 16), "i": ("signed", 32), "l": ("signed", 64),
    "q": ("signed", 64), "B": ("unsigned", 8), "H": ("unsigned", 16), "I": ("unsigned", 32), "L": ("unsigned", 64),
    "Q": ("unsigned", 64), "e": ("float", 16), "f": ("float", 32), "d": ("float", 64),
}  # fmt: skip
"""Kinds and bits of Python's formats of numbers in memory."""
_FLOATS: dict[int, Attribute] = {16: builtin.f16, 32: builtin.f32, 64: builtin.f64}


def _shaped(type_: Attribute | None) -> Any:
    if isinstance(type_, builtin.VectorType | builtin.TensorType | builtin.MemRefType):
        return cast(Attribute, type_)
    raise MLIRError(f"a dense constant needs the type of a vector or a tensor, got {type_}")


def _made(type_: Any, values: Sequence[Any]) -> Attribute:
    """One element of several stands for all."""
    count = math.prod(type_.get_shape())
    if len(values) not in (1, count):
        raise MLIRError(f"a dense constant of {type_} takes {count} elements, or one for all, got {len(values)}")
    return builtin.DenseIntOrFPElementsAttr.from_list(type_, values)


def elements_of_list(items: Sequence[object], type_: Attribute | None) -> Attribute:
    """Of attributes, all of one type; or of numbers."""
    constants = (builtin.IntegerAttr, builtin.FloatAttr)
    kinds: list[Attribute] = [cast(Any, x).type for x in items if isinstance(x, constants)]
    if type_ is None:
        if not items:
            raise MLIRError("the type of a dense constant without elements must be given: type=")
        type_ = builtin.TensorType(kinds[0] if kinds else builtin.i64, [len(items)])
    shaped = _shaped(type_)
    wrong = [kind for kind in kinds if kind != shaped.element_type]
    if wrong:
        raise MLIRError(f"the elements of {type_} must be of type {shaped.element_type}, got one of type {wrong[0]}")
    numbers: list[Any] = [cast(Any, x).value.data if isinstance(x, constants) else x for x in items]
    unknown = [x for x in numbers if not isinstance(x, int | float)]
    if unknown:
        raise DSLTypeError(f"the elements of a dense constant are attributes or numbers, got {unknown[0]!r}")
    return _made(shaped, numbers)


def elements_of_buffer(
    array: object, signless: bool, type_: Attribute | None, shape: Sequence[int] | None
) -> Attribute:
    """Of an array's memory, whose elements are of a type of their own unless one is given that reads them anew."""
    try:
        held = memoryview(cast(bytes, array))
    except TypeError:
        raise DSLTypeError(f"a dense constant is made of a list of attributes or of an array, got {array!r}") from None
    if not held.c_contiguous:
        raise MLIRError("a dense constant is made of an array whose elements lie in one piece; copy it first")
    kind, bits = _FORMATS.get(held.format.lstrip("@=<"), ("", 0))
    if not kind:
        raise MLIRError(
            f"an array of the format {held.format!r} cannot be a dense constant: booleans, integers and floats of 16, "
            "32 and 64 bits can"
        )
    extents = list(held.shape or ()) if shape is None else [int(n) for n in shape]
    if type_ is None:
        type_ = _element_type(kind, bits, signless)
    if not isinstance(type_, builtin.VectorType | builtin.TensorType | builtin.MemRefType):
        type_ = builtin.TensorType(type_, extents)
    shaped = _shaped(cast(Attribute, type_))
    elem = shaped.element_type
    if kind == "bool" and elem == builtin.i1:
        return _made(shaped, [int(x) for x in held.tobytes()])
    size = elem.compile_time_size
    if size * 8 != bits:
        raise MLIRError(f"an array of elements of {bits} bits cannot be a dense constant of {elem}")
    return _made(shaped, elem.unpack(held.tobytes(), held.nbytes // size))


def _element_type(kind: str, bits: int, signless: bool) -> Attribute:
    if kind == "float":
        return _FLOATS[bits]
    if kind == "bool" or signless:
        return builtin.IntegerType(bits)
    sign = builtin.Signedness.UNSIGNED if kind == "unsigned" else builtin.Signedness.SIGNED
    return builtin.IntegerType(bits, sign)


__all__ = ["elements_of_buffer", "elements_of_list"]
