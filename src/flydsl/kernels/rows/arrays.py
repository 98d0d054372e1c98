"""Arguments of operations on rows: numpy and torch arrays in the same words, as matrices of rows."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias

from flydsl.errors import DSLTypeError, DSLValueError

from ..matmul import arrays
from ..matmul.arrays import (
    Array,
    HostArray,
    TorchArray,
    address,
    is_strided,
    is_torch,
    memory_of,
    packed,
    type_name,
)

FLOATS = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
"""Types of rows, with their bytes; float64 is summed in float64, all others in float32."""
INDICES = ("int32", "int64")

Given: TypeAlias = Any
"""A result: an array of the library that the arguments are of, which type checkers cannot tell."""


_named = cache(type_name)
_written = cache(str)


def type_of(x: HostArray) -> str:
    """The name of an array's element type."""
    return _named(x.dtype)


def describe(op: str, name: str, x: HostArray, types: Sequence[str] = tuple(FLOATS)) -> Array:
    """An argument; anything but an array of these types is refused."""
    if is_torch(x):
        if not is_strided(x):
            raise DSLTypeError(f"{op}: {name} has strides, got a tensor in the layout {x.layout}")
        found = Array(tuple(x.shape), tuple(x.stride()), type_of(x), _written(x.device), memory_of(x))
    elif hasattr(x, "__array_interface__"):
        size = x.dtype.itemsize
        found = Array(
            tuple(x.shape), tuple(s // size for s in x.strides), type_of(x), "cpu", address(x)
        )  # fmt: skip
        if any(s % size for s in x.strides):
            raise DSLTypeError(f"{op}: {name} has strides of {x.strides} bytes, no multiples of its elements'")
    else:
        raise DSLTypeError(f"{op}: {name} is a numpy array or a torch tensor, got {type(x).__name__}")
    if found.dtype not in types:
        raise DSLTypeError(f"{op}: {name} has elements of {', '.join(types)}, got {found.dtype}")
    if not is_torch(x) and min(found.strides, default=0) < 0:
        raise DSLValueError(f"{op}: {name} has a negative stride, {found.strides}; pass a contiguous copy")
    return found


def same_place(op: str, arrays: Mapping[str, Array | None]) -> None:
    """All arrays are on one device."""
    given = [(name, x) for name, x in arrays.items() if x is not None]
    first, place = given[0]
    for name, x in given[1:]:
        if x.device != place.device:
            raise DSLValueError(f"{op}: {first} is on {place.device} and {name} on {x.device}")


def shaped(op: str, name: str, x: Array, shape: Sequence[int], like: str) -> None:
    """An array has the shape that another one asks for."""
    if x.shape != tuple(shape):
        raise DSLValueError(f"{op}: {name} has the shape {list(shape)}, as {like} tells, got {x}")


def matrix(x: HostArray) -> HostArray:
    """An array as a matrix of rows that are in one piece; a copy if its strides leave no other way."""
    if x.ndim != 2:
        x = x.reshape(-1, x.shape[-1]) if x.shape[-1] else x.reshape(0, 0)
    return x if _step(x) == 1 or 0 in x.shape else packed(x)


def vector(x: HostArray) -> HostArray:
    """An array as a vector in one piece."""
    if x.ndim != 1:
        x = x.reshape(-1)
    return x if _step(x) == 1 or 0 in x.shape else packed(x)


def _step(x: HostArray) -> int:
    """Elements from one to the next in the last direction."""
    return x.stride()[-1] if is_torch(x) else x.strides[-1] // x.itemsize


def stretches(count: int, *lines: Given) -> list[tuple[Any, ...]]:
    """Lines that have so many elements, or as many for each of these, in parts: counts of at most what an extent has
    room for, with their lines."""
    if 0 < count <= arrays.LONGEST:
        return [(count, *lines)]
    ends = [*range(0, count, arrays.LONGEST), count]
    return [
        (last - first, *(x[first * x.shape[0] // count : last * x.shape[0] // count] for x in lines))
        for first, last in pairwise(ends)
    ]


def is_view(made: HostArray, x: HostArray) -> bool:
    """Whether `matrix` found the same memory."""
    return 0 in x.shape or address(made) == address(x)


def vacant(like: HostArray, shape: Sequence[int], dtype: str) -> HostArray:
    """A fresh array where `like` is."""
    if is_torch(like):
        torch = sys.modules["torch"]
        return torch.empty(tuple(shape), dtype=getattr(torch, dtype), device=like.device)
    import numpy as np

    if dtype == "bfloat16" or dtype.startswith("float8"):
        raise DSLTypeError(f"numpy has no {dtype}; give torch tensors")
    return np.empty(tuple(shape), dtype)


def zeros(like: HostArray, shape: Sequence[int], dtype: str) -> HostArray:
    """The same, of zeros."""
    made: Given = vacant(like, shape, dtype)
    made[...] = 0
    return made


__all__ = [
    "FLOATS", "INDICES", "Array", "Given", "HostArray", "TorchArray", "address", "describe", "is_torch", "is_view",
    "matrix", "packed", "same_place", "shaped", "stretches", "type_name", "type_of", "vacant", "vector", "zeros",
]  # fmt: skip
