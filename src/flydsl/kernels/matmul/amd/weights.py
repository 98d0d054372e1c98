"""Weights laid out beforehand for AMD's matrix instructions: moved once, multiplied often."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from flydsl.errors import DSLTypeError, DSLValueError

from ..arrays import TYPES, Array, HostArray, describe, is_torch
from .kernel import GROUP_BYTES, UNIT_BYTES

ArrayT = TypeVar("ArrayT", bound="HostArray")
Held = TypeVar("Held", bound="HostArray", covariant=True)

HIGH, LINE = 16, 128
"""Columns of W, and bytes of K, that are filled up with zeros."""


@dataclass(frozen=True, slots=True)
class PreshuffledWeight(Generic[Held]):
    """A matrix (K, N) in the order in which lanes of AMD's GPUs take it. `preshuffle_weight` makes one; `matmul` takes
    it for its second argument."""

    data: Held
    """(N, K), both rounded up: see `shuffled`."""
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        data = describe("data", self.data, "PreshuffledWeight")
        wanted = padded_shape(*self.shape, data.itemsize)
        if data.shape != wanted:
            raise DSLValueError(f"PreshuffledWeight: data of {self!r} has the shape {wanted}, got {data.shape}")

    def __repr__(self) -> str:
        k, n = self.shape
        return f"PreshuffledWeight({k} x {n}, {describe('data', self.data).dtype})"


def padded_shape(k: int, n: int, itemsize: int) -> tuple[int, int]:
    """Rows and elements of a row: whole tiles of the instruction."""
    unit = LINE // itemsize
    return -(-n // HIGH) * HIGH, -(-k // unit) * unit


def preshuffle_weight(w: ArrayT) -> PreshuffledWeight[ArrayT]:
    """A matrix (K, N) of any strides, numpy or torch, for products on AMD GPUs.

    What a lane multiplies lies in 16 bytes and what a wave multiplies in one piece, so that it goes from memory into
    registers, past shared memory. Elsewhere `matmul` puts it back in order first.

    >>> preshuffle_weight(np.ones((40, 20), "f4"))
    PreshuffledWeight(40 x 20, float32)
    """
    array = describe("w", w, "preshuffle_weight")
    if len(array.shape) != 2:
        raise DSLValueError(f"preshuffle_weight: w has 2 dimensions, K and N, got {array}")
    if array.dtype in ("int32", "int64"):
        known = (name for name in TYPES if name not in ("int32", "int64"))
        raise DSLTypeError(f"preshuffle_weight: w is {', '.join(known)}, got {array.dtype}")
    k, n = array.shape
    rows, depth = padded_shape(k, n, array.itemsize)
    if is_torch(w):
        torch = sys.modules["torch"]
        padded = torch.zeros((rows, depth), dtype=w.dtype, device=w.device)
    else:
        import numpy as np

        padded = np.zeros((rows, depth), w.dtype)
    rows_of: Any = w.T
    padded[:n, :k] = rows_of
    return PreshuffledWeight(cast("ArrayT", shuffled(padded)), (k, n))


def shuffled(w: ArrayT) -> ArrayT:
    """Rows (N, K), N a multiple of 16 and K one of 64 bytes, in the order of the instruction: same shape and type.

    Each 16 rows are cut into blocks of 64 bytes of K; in a block, the 16 bytes of the 16 rows that the lanes of a wave
    load together follow each other: `(N/16, K/64 B, 4, 16, 16 B)`.
    """
    return _moved(w, False)


def in_order(w: ArrayT) -> ArrayT:
    """What `shuffled` was given."""
    return _moved(w, True)


def _moved(w: ArrayT, back: bool) -> ArrayT:
    n, k = (int(extent) for extent in w.shape)
    unit, group = UNIT_BYTES // w.dtype.itemsize, GROUP_BYTES // w.dtype.itemsize
    shape = (n // 16, k // group, 4, 16, unit) if back else (n // 16, 16, k // group, 4, unit)
    order = (0, 3, 1, 2, 4) if back else (0, 2, 3, 1, 4)
    blocks: HostArray = w.reshape(*shape)
    moved = blocks.permute(order).contiguous() if is_torch(blocks) else blocks.transpose(order).copy()
    return cast("ArrayT", moved.reshape(n, k))


def matrix_of(data: HostArray, shape: tuple[int, int]) -> HostArray:
    """The matrix (K, N) that the data of weights stands for."""
    k, n = shape
    return in_order(data)[:n, :k].T  # pyright: ignore[reportIndexIssue, reportUnknownMemberType, reportUnknownVariableType]


def as_matrix(w: PreshuffledWeight[HostArray]) -> Array:
    """How `matrix_of` will lie; whole units are 16-byte aligned."""
    data = describe("b", w.data)
    return Array(w.shape, (1, data.shape[1]), data.dtype, data.device, 0)


__all__ = ["PreshuffledWeight", "as_matrix", "in_order", "matrix_of", "preshuffle_weight", "shuffled"]
