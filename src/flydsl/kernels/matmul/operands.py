"""What all ways to run a request share: operands as rows along K, where a result lies, and what a call takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from flydsl.target import GPUTarget

from .arrays import Array, HostArray
from .request import Request

UNIT = 16
"""Bytes the copy engine counts in: rows start at multiples of it."""

Extra: TypeAlias = "HostArray | None"
"""A bias or scale, where there is one."""


class Call(NamedTuple):
    """The arrays of a call, and its stream."""

    a: HostArray
    b: HostArray
    out: HostArray
    bias: Extra
    scale_a: Extra
    scale_b: Extra
    scale_out: Extra
    stream: object


Run: TypeAlias = "Callable[[Call], None]"
GroupsRun: TypeAlias = "Callable[[Call, HostArray], None]"
"""The same for groups of rows, with where these end."""


class Matrix(NamedTuple):
    """An operand as (rows, k): its rows are those of A, or columns of B; strides in elements."""

    rows: int
    step: int
    depth: int
    batch: int


def left(request: Request) -> Matrix:
    a = request.a
    return Matrix(request.m, a.strides[-2], a.strides[-1], a.strides[0] if len(a.shape) == 3 else 0)


def right(request: Request) -> Matrix:
    b = request.b
    return Matrix(request.n, b.strides[-1], b.strides[-2], b.strides[0] if len(b.shape) == 3 else 0)


class Target(NamedTuple):
    """Where a request runs."""

    target: GPUTarget
    processors: int

    @property
    def hopper(self) -> bool:
        return self.target.has("wgmma")

    @property
    def ampere(self) -> bool:
        return self.target.has("mma_sync")


def scale_form(scale: Array | None) -> str:
    return "" if scale is None else "one" if all(x == 1 for x in scale.shape) else "rows"


def result_form(request: Request, out: Array) -> tuple[bool, int, int, bool, bool] | None:
    """Whether C's columns are what lies in one piece; its strides; whether the engine, or pairs, can store it."""
    step, column = out.strides[-2:]
    batch = out.strides[0] if len(out.shape) == 3 and request.batches > 1 else 0
    rows, columns = request.m, request.n
    if column == 1 or columns == 1:
        flip = False
    elif step == 1 or (rows == 1 and not request.invariant):
        flip, step, rows, columns = True, column, columns, rows
    else:
        return None
    unit = UNIT // out.itemsize
    if rows == 1:
        step = -(-columns // unit) * unit
    if step <= 0 or batch < 0:
        return None
    engine = out.itemsize == 2 and out.address % UNIT == 0 and step % unit == 0 and batch % unit == 0
    pairs = out.address % (2 * out.itemsize) == 0 and step % 2 == 0 and batch % 2 == 0 and columns % 2 == 0
    return flip, step, batch, engine, pairs


__all__ = [
    "UNIT",
    "Call",
    "Extra",
    "GroupsRun",
    "Matrix",
    "Run",
    "Target",
    "left",
    "result_form",
    "right",
    "scale_form",
]
