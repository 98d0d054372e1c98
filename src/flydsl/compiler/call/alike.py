"""Whether tensors are like others, by one native look at all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .fields import library_of
from .native_reader import NativeArray, Reader, can_read, make_reader, reads_natively
from .plan import Check

ALIGNMENT = 16
"""Bytes: of addresses, what they are beyond a multiple of these counts."""


class Likeness(NamedTuple):
    """`read(table, 0, *tensors)` says whether tensors are like those that it was made of, None like None."""

    read: Reader
    table: int
    kept: object
    """What must live as long as the table is used; it is none of the tensors."""


def likeness(tensors: Sequence[object]) -> Likeness | None:
    """The look at tensors like these: class, type, place, extents, strides and alignment. None if it cannot be had."""
    entries = [_entry(x) for x in tensors]
    found = [entry for entry in entries if entry is not None]
    return Likeness(*make_reader(found)) if len(found) == len(entries) else None


def _entry(x: object) -> NativeArray | None:
    if x is None:
        return NativeArray(None, (), ())
    if library_of(x) != "torch" or not can_read(x) or not reads_natively("torch", "dtype", x):
        return None
    rank: int = getattr(x, "ndim")  # noqa: B009 - its class is not known here
    address: int = getattr(x, "data_ptr")()  # noqa: B009
    # Whether it is negated lazily is asked where it is read.
    checks = [Check(field) for field in ("class", "dtype", "device", "rank", "missing")]
    checks += [Check(field, mode=mode) for field in ("extent", "stride") for mode in range(rank)]
    checks.append(Check("pointer", "bits", address % ALIGNMENT, ALIGNMENT - 1))
    return NativeArray(x, checks, ())


__all__ = ["Likeness", "likeness"]
