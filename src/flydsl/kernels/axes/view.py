"""An array as (outer, n, inner), with the axis in the middle."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import flydsl.expr as fx
from flydsl.errors import DSLValueError

from ..rows.arrays import FLOATS, INDICES, Given, HostArray, describe, is_torch, packed
from ..rows.call import arrays_only
from ..scalars import whole, wholes

TYPES = (*FLOATS, *INDICES)
OPS = {"sum": fx.ReductionOp.ADD, "prod": fx.ReductionOp.MUL, "max": fx.ReductionOp.MAX, "min": fx.ReductionOp.MIN}
FEW = 32
"""Fewer elements than these side by side are better turned: their axis is moved to the end."""


class Along(NamedTuple):
    """An array in one piece whose axis is the middle one, or (`inner` is 1) the last one."""

    array: Given
    outer: int
    n: int
    inner: int


def described(op: str, name: str, x: HostArray, types: Sequence[str] = TYPES) -> tuple[int, ...]:
    """The shape of an argument that is an array of such a type."""
    arrays_only(op, **{name: x})
    return describe(op, name, x, types).shape


def axis_of(op: str, axis: object, shape: Sequence[int], name: str = "axis") -> int:
    """An axis counted from the front."""
    axis = whole(op, name, axis)
    if not -len(shape) <= axis < len(shape):
        raise DSLValueError(f"{op}: {name} is one of {len(shape)}, from {-len(shape)} to {len(shape) - 1}, got {axis}")
    return axis % len(shape)


def axes_of(op: str, given: Iterable[object], shape: Sequence[int]) -> list[int]:
    """Several axes in their order, counted from the front."""
    numbers = wholes(op, "axis", given)
    axes = sorted({axis_of(op, a, shape) for a in numbers})
    if len(axes) != len(numbers):
        raise DSLValueError(f"{op}: each axis is named once, got {tuple(numbers)}")
    return axes


def last(x: HostArray, axes: Sequence[int]) -> Given:
    """The array with these axes at the end, in their order."""
    array: Given = x
    order = (*(i for i in range(x.ndim) if i not in axes), *axes)
    if order == tuple(range(x.ndim)):
        return array
    return array.permute(order) if is_torch(x) else array.transpose(order)


def back(made: Given, axis: int) -> Given:
    """An array whose last axis belongs elsewhere."""
    order = list(range(made.ndim - 1))
    order.insert(axis, made.ndim - 1)
    return made.permute(tuple(order)) if is_torch(made) else made.transpose(order)


def along(x: HostArray, axes: Sequence[int]) -> Along:
    """The axes, which are next to each other, as one in the middle; moved to the end where few elements lie behind."""
    first, end = axes[0], axes[-1] + 1
    shape = tuple(x.shape)
    outer, n, inner = (math.prod(part) for part in (shape[:first], shape[first:end], shape[end:]))
    if inner < FEW:
        turned: Given = packed(last(x, axes))
        return Along(turned.reshape(outer * inner, n), outer * inner, n, 1)
    flat: Given = packed(x)
    return Along(flat.reshape(outer, n, inner), outer, n, inner)


def wide_of(dtype: type[fx.Numeric]) -> type[fx.Numeric]:
    """What elements are combined in: 16-bit floats in float32, others as they are."""
    return fx.Float32 if dtype.is_float and dtype.width < 32 else dtype


__all__ = ["OPS", "TYPES", "Along", "along", "axes_of", "axis_of", "back", "described", "last", "wide_of"]
