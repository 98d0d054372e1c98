"""The dialect `memref`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, IntegerType, MemRefType, StridedLayoutAttr
from xdsl.ir import Attribute

from ...errors import DSLTypeError
from ...expr.emit.facade import Made
from ...ir.arith import ConstantOp
from ...ir.readable import strides_and_offset
from ..build import class_of
from ..operations import OpView
from ..signature import by_op
from ..values import unwrap
from .generated import module


def _split(values: Sequence[object], what: str) -> tuple[list[object], list[int]]:
    """Values that are known at run time, and numbers with DYNAMIC_INDEX in the places of these."""
    dynamic: list[object] = []
    static: list[int] = []
    for value in values:
        if not isinstance(value, int):
            raw = unwrap(value, f"'memref.subview': {what}")
            if not isinstance(raw.owner, ConstantOp) or not isinstance(raw.owner.value, IntegerAttr):
                dynamic.append(raw)
                static.append(DYNAMIC_INDEX)
                continue
            value = cast("IntegerAttr[IntegerType]", raw.owner.value).value.data
        static.append(int(value))
    return dynamic, static


def _times(a: int, b: int) -> int:
    return 0 if a == 0 or b == 0 else DYNAMIC_INDEX if DYNAMIC_INDEX in (a, b) else a * b


def _plus(a: int, b: int) -> int:
    return DYNAMIC_INDEX if DYNAMIC_INDEX in (a, b) else a + b


def _seen(source: MemRefType[Attribute], offsets: list[int], sizes: list[int], strides: list[int]) -> Attribute:
    """The type of a part of a memref."""
    steps, start = strides_and_offset(source)
    for offset, step in zip(offsets, steps, strict=True):
        start = _plus(start, _times(offset, step))
    steps = [_times(stride, step) for stride, step in zip(strides, steps, strict=True)]
    plain = MemRefType(source.element_type, sizes, memory_space=source.memory_space)
    if (steps, start) == strides_and_offset(plain):
        return plain
    known = [None if n == DYNAMIC_INDEX else n for n in (start, *steps)]
    layout = StridedLayoutAttr(known[1:], known[0])
    return MemRefType(source.element_type, sizes, layout, source.memory_space)


def _memref_of(type_: Attribute) -> MemRefType[Attribute]:
    if not isinstance(type_, MemRefType):
        raise DSLTypeError(f"'memref.subview': expected a memref, got a value of type {type_}")
    return cast("MemRefType[Attribute]", type_)


def subview(
    source: object,
    offsets: Sequence[object],
    sizes: Sequence[object],
    strides: Sequence[object],
    *,
    result_type: Attribute | None = None,
    loc: object = None,
    ip: object = None,
) -> Made:
    """`memref.subview`: numbers and values in three lists, an entry for each dimension."""
    raw = unwrap(source, "'memref.subview': source")
    source_type = _memref_of(raw.type)
    parts = [_split(each, what) for each, what in ((offsets, "offsets"), (sizes, "sizes"), (strides, "strides"))]
    numbers = [static for _, static in parts]
    rank = source_type.get_num_dims()
    if any(len(each) != rank for each in numbers):
        raise DSLTypeError(
            f"'memref.subview': expected {rank} offsets, sizes and strides for {source_type}, got "
            f"{', '.join(str(len(each)) for each in numbers)}"
        )
    build = cast("Callable[..., OpView]", class_of(by_op("memref")["memref.subview"]))
    made = build(
        result_type or _seen(source_type, *numbers), raw, *(dynamic for dynamic, _ in parts), *numbers, loc=loc, ip=ip
    )
    return made.result


__getattr__, __dir__ = module("memref", globals())

__all__ = ["subview"]
