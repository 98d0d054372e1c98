"""Where accesses are checked: pointers of kernels as the tensors they were taken from, and what maps are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from xdsl.ir import Block, Operation, SSAValue

from ...dialects.fly.types import MemRefType, PointerType
from ...dialects.fly_nvgpu.tma import TensorMapType
from ...expr.arith import max as arith_max
from ...expr.arith import min as arith_min
from ...expr.emit.tracer import Tracer
from ...expr.numeric import Int64
from ...expr.tensor import Tensor
from ...ir.types import stored_bits
from ...layout import Layout


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


def is_map(value: SSAValue) -> bool:
    """Whether a value describes a tensor to the copy engine."""
    return isinstance(value.type, TensorMapType)


def bytes_from(tracer: Tracer, pointer: SSAValue) -> SSAValue | None:
    """Bytes that the jit function's tensor has which begins where a pointer points; None if there is none.

    A view of a tensor's pointer is what a map is usually made from: its extents say what the map has, not the tensor.
    """
    value = pointer
    while value.owner is not tracer.entry:
        op = value.owner
        if not isinstance(op, Operation) or op.name not in ("fly.get_iter", "fly.recast_iter", "fly.make_view"):
            return None
        value = op.operands[0]
    if not isinstance(value.type, MemRefType) or type(value.type.data.layout) is not Layout:
        return None
    tensor = Tensor(value)
    last, count = Int64(0), Int64(1)
    for extent, stride in zip(_leaves(tensor.shape.unpack()), _leaves(tensor.stride.unpack()), strict=True):
        # What a negative stride reaches lies in front of the pointer.
        last = last + arith_max((Int64(extent) - 1) * Int64(stride), 0)
        count = arith_min(count, Int64(extent))
    return (((last + 1) * count * stored_bits(value.type.data.elem) + 7) // 8).ir_value()


def _leaves(tree: object) -> Iterator[object]:
    if isinstance(tree, tuple | list):
        for part in cast("Sequence[object]", tree):
            yield from _leaves(part)
    else:
        yield tree


__all__ = ["Taken", "bytes_from", "is_map", "kind_of", "taken_again", "taken_from"]
