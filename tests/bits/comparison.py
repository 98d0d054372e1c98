"""Two results of a program, element by element: the same bits, both no number, or so many values apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .draw import FORMATS
from .program import Array, Bits, Call
from .runner import Result


class Difference(NamedTuple):
    """Of one row of an output."""

    row: str
    format: str
    elements: int
    nans: int
    """Elements that are no numbers on both sides, with other bits."""
    numbers: int
    """Elements that differ otherwise."""
    ulp: float
    """The largest distance, counted in values of the format; infinite where one side has no number."""
    example: str


def _is_nan(bits: NDArray[np.uint64], name: str) -> NDArray[np.bool_]:
    f = FORMATS[name]
    if not f.is_float:
        return np.zeros(bits.shape, bool)
    magnitude = bits & np.uint64((1 << (f.width - 1)) - 1)
    top = (((1 << f.exponent) - 1) << f.fraction) if f.infinities else (1 << (f.width - 1)) - 2
    return magnitude > np.uint64(top)


def _position(bits: NDArray[np.uint64], name: str) -> NDArray[np.float64]:
    """Where a value stands in the order of all values of its format."""
    f = FORMATS[name]
    if not f.is_float and not f.signed:
        return bits.astype(np.float64)
    sign = bits >> np.uint64(f.width - 1)
    magnitude = (bits & np.uint64((1 << (f.width - 1)) - 1)).astype(np.float64)
    if f.is_float:
        return np.where(sign == 1, -magnitude, magnitude)
    return magnitude - sign.astype(np.float64) * 2.0 ** (f.width - 1)


def _as_words(bits: Bits, name: str) -> NDArray[np.uint64]:
    width = FORMATS[name].width
    unsigned = np.ascontiguousarray(bits).view(f"u{bits.itemsize}").astype(np.uint64)
    return unsigned & np.uint64((1 << width) - 1)


def compare_row(row: str, name: str, one: Bits, other: Bits) -> Difference:
    """Two arrays of bits of one format."""
    x, y = _as_words(one, name).ravel(), _as_words(other, name).ravel()
    differs = x != y
    nan_x, nan_y = _is_nan(x, name), _is_nan(y, name)
    payload = differs & nan_x & nan_y
    numbers = differs & ~payload
    ulp, example = 0.0, ""
    if numbers.any():
        apart = np.abs(_position(x, name) - _position(y, name))
        apart[nan_x != nan_y] = np.inf
        apart[~numbers] = 0
        at = int(np.argmax(apart))
        ulp, digits = float(apart[at]), FORMATS[name].width // 4
        example = f"[{at}] {int(x[at]):0{digits}x} {int(y[at]):0{digits}x}"
    return Difference(row, name, x.size, int(payload.sum()), int(numbers.sum()), ulp, example)


def compare(call: Call, one: Result, other: Result) -> Iterator[Difference]:
    """All rows of all outputs."""
    outputs: list[Array] = [array for array in call.arrays if array.output]
    for array, x, y in zip(outputs, one.outputs, other.outputs, strict=True):
        if x.shape != y.shape or x.shape != array.bits.shape:
            raise ValueError(f"outputs of shapes {x.shape} and {y.shape} do not belong together")
        if not array.names:
            yield compare_row("", array.format, x, y)
            continue
        for i, row in enumerate(array.names):
            yield compare_row(row, array.formats[i] if array.formats else array.format, x[i], y[i])


__all__ = ["Difference", "compare", "compare_row"]
