"""MLIR's memrefs in kernels: a static shape in row-major order, as a bare pointer.

Authors make them with the ops of `memref` and `vector`; the tensors of the language are no such memrefs.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import memref as xmemref
from xdsl.dialects import vector
from xdsl.dialects.builtin import MemRefType, NoneAttr, UnrealizedConversionCastOp, VectorType, i8, i64
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.upstream import llvm, memref
from ...dialects.upstream.llvm.values import AddrSpaceCastOp
from ...errors import DSLCompileError
from ...ir.builder import int_attr, operands_of
from ...ir.types import bit_width
from ...lowering.expand.small_floats import stored_type
from ...lowering.llvm_types import space_of
from ...lowering.rebuild import Handler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .convert_fly import FlyConversion


def pointer_type(type_: MemRefType) -> Attribute:
    """What a memref is after the conversion."""
    return llvm.ptr(space_of(type_))


def _static(op: Operation, type_: MemRefType) -> tuple[int, ...]:
    shape = tuple(type_.get_shape())
    if any(n < 0 for n in shape) or not isinstance(cast(Attribute, type_.layout), NoneAttr):
        raise DSLCompileError(f"'{op.name}' on {type_}: a memref of a kernel has a static shape in row-major order")
    return shape


def _place(r: FlyConversion, op: Operation, source: SSAValue, indices: Sequence[SSAValue]) -> SSAValue:
    """The address of an element."""
    b, type_ = r.b, cast(MemRefType, source.type)
    at = b.const(0, i64)
    for index, extent in zip(indices, _static(op, type_), strict=True):
        at = b.addi(b.muli(at, b.const(extent, i64)), b.cast("index_cast", r.val(index), i64))
    return r.step(r.val(source), stored_type(type_.element_type), at)


def _props(type_: Attribute) -> dict[str, Attribute]:
    """An access promises the alignment of an element."""
    elem = cast("VectorType[Attribute]", type_).element_type if isinstance(type_, VectorType) else type_
    return {"alignment": int_attr(max(bit_width(elem) // 8, 1), i64)}


def _load(r: FlyConversion, op: Operation) -> None:
    source, *indices = operands_of(op)
    type_ = op.results[0].type
    place = _place(r, op, source, indices)
    r.vm[op.results[0]] = r.b.op1(llvm.LoadOp, (place,), r.convert(type_), _props(type_))


def _store(r: FlyConversion, op: Operation) -> None:
    value, source, *indices = operands_of(op)
    r.b.opn(llvm.StoreOp, (r.val(value), _place(r, op, source, indices)), (), _props(value.type))


def _alloca(r: FlyConversion, op: Operation) -> None:
    if op.operands:
        raise DSLCompileError(f"'{op.name}' of a size that is known at run time: a kernel has no such memory")
    type_ = cast(MemRefType, op.results[0].type)
    elem = stored_type(type_.element_type)
    align: Any = op.properties.get("alignment")
    known = max(bit_width(elem) // 8, 1) if align is None else align.value.data
    _give(r, op, r.stack(elem, prod(_static(op, type_)), known))


def _give(r: FlyConversion, op: Operation, pointer: SSAValue) -> None:
    wanted = r.convert(op.results[0].type)
    r.vm[op.results[0]] = pointer if pointer.type == wanted else r.b.pure(AddrSpaceCastOp, (pointer,), wanted, {})


def _global(r: FlyConversion, op: Operation) -> None:
    """The place of a `memref.global`, which the conversion of the module gives memory."""
    _static(op, cast(MemRefType, op.results[0].type))
    pointer = r.b.pure(llvm.AddressOfOp, (), pointer_type(cast(MemRefType, op.results[0].type)),
                       {"global_name": op.properties["name"]})  # fmt: skip
    _give(r, op, pointer)


def _view(r: FlyConversion, op: Operation) -> None:
    """Bytes of a memref as another one, from an offset on."""
    source, offset, *sizes = operands_of(op)
    if sizes:
        raise DSLCompileError(f"'{op.name}' with sizes known at run time is not supported in kernels")
    _static(op, cast(MemRefType, op.results[0].type))
    _give(r, op, r.step(r.val(source), i8, r.b.cast("index_cast", r.val(offset), i64)))


def _forward(r: FlyConversion, op: Operation) -> None:
    (source,) = operands_of(op)
    type_: Attribute = op.results[0].type
    if not isinstance(type_, MemRefType):
        r.copy(op)
        return
    _static(op, cast(MemRefType, type_))
    _give(r, op, r.val(source))


def _number(r: FlyConversion, op: Operation) -> None:
    number = r.b.pure(llvm.PtrToIntOp, (r.val(operands_of(op)[0]),), i64, {})
    r.vm[op.results[0]] = r.b.cast("index_cast", number, op.results[0].type)


HANDLERS = cast(
    dict[type[Operation], Handler],
    {
        xmemref.LoadOp: _load,
        xmemref.StoreOp: _store,
        xmemref.AllocaOp: _alloca,
        xmemref.CastOp: _forward,
        xmemref.MemorySpaceCastOp: _forward,
        memref.ExtractAlignedPointerAsIndexOp: _number,
        vector.LoadOp: _load,
        vector.StoreOp: _store,
        UnrealizedConversionCastOp: _forward,
        **{op: _global for op in memref.MemRef.operations if op.name == "memref.get_global"},
        **{op: _view for op in memref.MemRef.operations if op.name == "memref.view"},
    },
)
"""Conversions of `memref`, and of `vector` where it accesses memory."""
