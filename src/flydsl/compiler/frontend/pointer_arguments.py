"""Pointers of kernels, where accesses are checked: as the tensors they were taken from, which have bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import Block, Operation, SSAValue

from ...dialects.fly.types import MemRefType, PointerType
from ...expr.emit.tracer import Tracer


class Taken(NamedTuple):
    """A kernel's argument, and what makes the pointer of it that the kernel has."""

    value: SSAValue
    steps: tuple[Operation, ...] = ()


def taken_from(pointer: SSAValue) -> Taken:
    """The tensor that a pointer is the start of, as other elements too; a pointer of which nothing is known stays.

    So does that of a view: what lies around it in its tensor is memory that a kernel may be meant to reach.
    """
    steps: list[Operation] = []
    value = pointer
    while isinstance(value.type, PointerType):
        op = value.owner
        if not isinstance(op, Operation) or op.name not in ("fly.get_iter", "fly.recast_iter"):
            return Taken(pointer)
        steps.append(op)
        value = op.operands[0]
    whole = isinstance(value.type, MemRefType) and isinstance(value.owner, Block)
    return Taken(value, tuple(reversed(steps))) if whole else Taken(pointer)


def kind_of(taken: Taken) -> tuple[object, ...]:
    """What of an argument shows in the kernel."""
    return taken.value.type, *(op.results[0].type for op in taken.steps)


def taken_again(tracer: Tracer, taken: Sequence[Taken], arguments: Sequence[SSAValue]) -> list[SSAValue]:
    """The values that a kernel works with, from its arguments; called where its body begins."""
    found: list[SSAValue] = []
    for one, value in zip(taken, arguments, strict=True):
        for op in one.steps:
            value = tracer.pure(type(op), (value, *op.operands[1:]), op.results[0].type, dict(op.properties))
        found.append(value)
    return found


__all__ = ["Taken", "kind_of", "taken_again", "taken_from"]
