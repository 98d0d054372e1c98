"""Emission for `fx.rocdl`; needs xDSL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import StringAttr, i16, i32
from xdsl.ir import Attribute, SSAValue

from ...dialects import llvm
from ...dialects.builder import i32_list, int_attr
from ...dialects.fly.ops import OPS
from ...dialects.fly.types import ptr_type
from ...dialects.fly_rocdl.buffer import BUFFER
from ...dialects.fly_rocdl.ops import BufferLoadOp, BufferStoreOp, GetBufferRsrcOp
from ..numeric import Int64
from ..tensor import Pointer
from ..trace import current


def buffer_pointer(p: Pointer, size: Int64, flags: int) -> Pointer:
    """`fly.make_ptr` into buffer memory: base, stride, size in bytes, flags."""
    tracer, data = current(), p.type.data
    operands = [p.value, tracer.const(0, i16), size.ir_value(), tracer.const(flags, i32)]
    type_ = ptr_type(data.elem, BUFFER, data.align, data.swizzle)
    return Pointer(tracer.op1(OPS["make_ptr"], operands, type_, {}), p.declared_dtype)


def descriptor(p: Pointer) -> SSAValue:
    """`fly_rocdl.get_buffer_rsrc`."""
    return current().pure(GetBufferRsrcOp, (p.value,), llvm.ptr(8), {})


def _cache(cache: int) -> dict[str, Attribute]:
    return {"cache": int_attr(cache)} if cache else {}


def buffer_load(p: Pointer, type_: Attribute, soffset: SSAValue, cache: int) -> SSAValue:
    """`fly_rocdl.buffer_load`."""
    return current().op1(BufferLoadOp, (p.value, soffset), type_, _cache(cache))


def buffer_store(value: SSAValue, p: Pointer, soffset: SSAValue, cache: int) -> None:
    """`fly_rocdl.buffer_store`."""
    current().opn(BufferStoreOp, (value, p.value, soffset), (), _cache(cache))


def intrinsic(name: str, type_: Attribute | None, operands: Sequence[SSAValue]) -> Any:
    """`llvm.call_intrinsic`: the result, or None."""
    props: dict[str, Attribute] = {
        "intrin": StringAttr(name),
        "operandSegmentSizes": i32_list((len(operands), 0)),
    }
    op = current().opn(llvm.CallIntrinsicOp, operands, () if type_ is None else (type_,), props)
    return op.results[0] if op.results else None


def constant(value: int, type_: Any) -> SSAValue:
    """An integer constant of the function being traced."""
    return current().const(value, type_)
