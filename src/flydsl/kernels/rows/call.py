"""From the arguments of an operation to a launch: what was decided for a call is kept for the next one like it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar, cast

from flydsl.config import environment_version
from flydsl.errors import DSLTypeError, DSLValueError

from ..matmul.arrays import array_key, environment_key
from .arrays import (
    Array,
    Given,
    HostArray,
    address,
    describe,
    is_torch,
    is_view,
    matrix,
    packed,
    type_of,
    vacant,
)
from .form import UNIT_BYTES

if TYPE_CHECKING:
    pass

T = TypeVar("T")

_decided: dict[object, object] = {}
_MOST = 4096


def arrays_only(op: str, **given: HostArray | None) -> None:
    """Refuse arguments that are no arrays; None was not given."""
    for name, x in given.items():
        if x is not None and not is_torch(x) and not hasattr(x, "__array_interface__"):
            raise DSLTypeError(f"{op}: {name} is a numpy array or a torch tensor, got {type(x).__name__}")


def dtype_of(x: HostArray) -> str:
    return type_of(x)


def recall(op: str, arrays: Mapping[str, HostArray | None], more: object, make: Callable[[], T]) -> T:
    """What `make` decides for arrays of these extents, strides, types and alignments."""
    key = (op, more, tuple(map(array_key, arrays.values())), *environment_key())
    found = _decided.get(key)
    if found is None:
        if len(_decided) >= _MOST:
            _decided.clear()
        found = _decided[key] = make()
    return cast(T, found)


def part_of(memory: Given, shape: tuple[int, ...], dtype: Given) -> Given:
    """An array of this shape and type at the beginning of what `repeated_scratch` gives."""
    return memory[: math.prod(shape) * dtype.itemsize].view(dtype).view(shape)


def rows_in_place(x: Given) -> bool:
    """Whether rows of a tensor are a view of it: itself, or what `rows_of` gives."""
    return x.stride()[-1] == 1 if x.ndim == 2 else x.is_contiguous()


def rows_of(x: Given, m: int, n: int) -> Given:
    """The rows of a tensor that has them in place, or None of none."""
    return x if x is None or x.ndim == 2 else x.view(m, n)


class Result:
    """An array that an operation gives: the caller's or a fresh one, and as a matrix of rows for the kernel.

    One that is `plain` is written as a whole, whatever its directions are: `plain` is then the array in one piece.
    """

    def __init__(self, op: str, name: str, like: HostArray, dtype: str, out: HostArray | None, *, plain: bool = False):
        if out is not None:
            _check(op, name, like, dtype, out)
        self.array: Given = vacant(like, like.shape, dtype) if out is None else out
        self.plain: Given = packed(self.array) if plain else self.array
        self.matrix = self.plain if plain else matrix(self.array)
        self._apart = not is_view(self.matrix, self.array)

    def done(self) -> Given:
        """The array, once the kernel was launched."""
        if self._apart:
            self.array[...] = self.matrix.reshape(*self.array.shape)
        return self.array


def _check(op: str, name: str, like: HostArray, dtype: str, out: HostArray) -> None:
    found = describe(op, name, out, (dtype,))
    if found.shape != tuple(like.shape):
        raise DSLValueError(f"{op}: {name} has the shape {list(like.shape)}, got {found}")
    reach = 1
    for stride, extent in sorted((s, e) for s, e in zip(found.strides, found.shape, strict=True) if e > 1):
        if stride < reach and 0 not in found.shape:
            raise DSLValueError(f"{op}: elements of {name} lie on top of each other, its strides are {found.strides}")
        reach = stride * (extent - 1) + reach


def check_apart(op: str, name: str, out: HostArray | None, **others: HostArray | None) -> None:
    """What is read may be what is written, element for element; it must not overlap otherwise."""
    if out is None or 0 in out.shape:
        return
    first, last = _extent(op, name, out)
    for other, x in others.items():
        if x is None or 0 in x.shape:
            continue
        begin, end = _extent(op, other, x)
        same = begin == first and tuple(x.shape) == tuple(out.shape) and _steps(x) == _steps(out)
        if begin < last and first < end and not same:
            raise DSLValueError(f"{op}: {name} overlaps {other}; give it memory of its own")


def _steps(x: HostArray) -> tuple[object, ...]:
    return (x.stride(), x.dtype) if is_torch(x) else (x.strides, x.dtype)


def _extent(op: str, name: str, x: HostArray) -> tuple[int, int]:
    size = x.element_size() if is_torch(x) else x.itemsize
    strides = x.stride() if is_torch(x) else tuple(s // size for s in x.strides)
    begin = address(x)
    return begin, begin + (1 + sum((e - 1) * s for e, s in zip(x.shape, strides, strict=True))) * size


ALL: tuple[str, ...] = (
    "float16", "bfloat16", "float32", "float64", "int8", "uint8", "float8_e4m3fn", "float8_e5m2", "int32", "int64",
)  # fmt: skip


def described(op: str, arrays: Mapping[str, HostArray | None]) -> dict[str, Array | None]:
    """All arrays in the words of `form_of`."""
    return {name: None if x is None else describe(op, name, x, ALL) for name, x in arrays.items()}


def has_clusters() -> bool:
    """Whether blocks that share a row can see each other's shared memory."""
    import flydsl.compiler as flyc

    target = flyc.get_backend().target
    return target.has("nvidia") and target.has("clusters")


def block_memory() -> int:
    """Shared memory that a block can have, 0 where rows are better kept elsewhere."""
    import flydsl.compiler as flyc

    target = flyc.get_backend().target
    return target.caps.shared_mem_per_block_optin or 0 if target.has("nvidia") else 0


def parks(table: Mapping[int, int]) -> Mapping[int, int] | None:
    """The table where units that wait in shared memory are known to be worth it."""
    import flydsl.compiler as flyc

    return table if flyc.get_backend().target.has("nvidia") else None


PIECE_BYTES = 4096
"""A row of an operation that goes by the element, where arrays can be cut as one likes."""
LONG_PIECES = 4
"""Pieces of a row that is better cut, even if it has whole units."""
WORTH_BYTES = 2**23
"""Of each array: these take longer than the launch of what is left."""


def in_pieces(rows: dict[str, HostArray]) -> list[dict[str, HostArray]]:
    """Matrices as rows of `PIECE_BYTES`, if each lies in one piece; else as they are. Each of the list is a launch.

    What is left of a last piece is a row of its own, where there is enough for a second launch to be worth it.
    """
    first = next(iter(rows.values()))
    m, n = first.shape
    size = first.element_size() if is_torch(first) else first.itemsize
    piece = PIECE_BYTES // size
    if n == piece or not all(_in_one_piece(x) for x in rows.values()):
        return [rows]
    bulk = m * n // piece * piece
    if bulk == m * n:
        return [{name: x.reshape(-1, piece) for name, x in rows.items()}]
    whole = n * size % UNIT_BYTES == 0 and n * size <= LONG_PIECES * PIECE_BYTES
    if whole or bulk * size < WORTH_BYTES:
        return [rows]
    flat: dict[str, Given] = {name: x.reshape(-1) for name, x in rows.items()}
    return [
        {name: x[:bulk].reshape(-1, piece) for name, x in flat.items()},
        {name: x[bulk:].reshape(1, -1) for name, x in flat.items()},
    ]


def _in_one_piece(x: HostArray) -> bool:
    """Whether the rows of a matrix follow each other without gaps."""
    size = 1 if is_torch(x) else x.itemsize
    return (x.stride() if is_torch(x) else x.strides) == (x.shape[1] * size, size)


def more_of(stream: object) -> dict[str, object]:
    """The stream as an argument, where one was given; otherwise it is the current one."""
    return {} if stream is None else {"stream": stream}


__all__ = [
    "ALL",
    "Result",
    "arrays_only",
    "block_memory",
    "check_apart",
    "described",
    "dtype_of",
    "environment_version",
    "has_clusters",
    "in_pieces",
    "more_of",
    "parks",
    "part_of",
    "recall",
    "rows_in_place",
    "rows_of",
]
