"""Tensors of the language where an op of `memref` or `vector` wants a memref: those that lie in rows, one behind the
other."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import IntegerAttr, MemRefType, UnrealizedConversionCastOp, i64
from xdsl.ir import SSAValue

from ..dialects.fly.ops import OPS
from ..dialects.upstream import llvm
from ..errors import DSLTypeError
from ..expr.emit.ir import LLVM_SPACES
from ..expr.emit.trace import current
from ..expr.tensor import Tensor
from ..ir.enums import AddressSpace


def _modes(tree: object) -> tuple[object, ...]:
    return cast("tuple[object, ...]", tree) if isinstance(tree, tuple) else (tree,)


def as_memref(tensor: Tensor, what: str) -> SSAValue:
    """The memory of a tensor as a value of MLIR's type."""
    shape, stride = _modes(tensor.layout.shape.unpack()), _modes(tensor.layout.stride.unpack())
    rows, step = True, 1
    for extent, by in zip(reversed(shape), reversed(stride), strict=True):
        rows = rows and isinstance(extent, int) and by == step
        step *= extent if isinstance(extent, int) else 1
    space = LLVM_SPACES.get(cast(AddressSpace, tensor.address_space))
    if not rows or space is None:
        raise DSLTypeError(
            f"{what} must be a memref: a tensor that lies in rows, with extents known at compile time, got {tensor!r} "
            f"with the layout {tensor.layout}"
        )
    elem = tensor.element_type.ir_type
    place = IntegerAttr(space, i64)
    type_ = MemRefType(elem, cast("tuple[int, ...]", shape), memory_space=place)
    tracer = current()
    pointer = tracer.pure(OPS["extract_aligned_pointer_as_index"], (tensor.ir_value(),), llvm.ptr(space), {})
    return tracer.op1(UnrealizedConversionCastOp, (pointer,), type_, {})


__all__ = ["as_memref"]
