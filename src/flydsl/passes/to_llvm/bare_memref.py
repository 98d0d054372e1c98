"""Memrefs of device code as bare pointers: those of a static shape in row-major order, which is what names memory of
the block."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import llvm as xllvm
from xdsl.dialects import memref as xmemref
from xdsl.dialects.builtin import MemRefType, NoneAttr, StringAttr, i8
from xdsl.ir import Attribute, Operation, Region, SSAValue

from ...dialects.upstream import llvm, memref
from ...ir.builder import i32, i32_list, i64, int_attr
from ...ir.emitter import append, insert_after
from ...ir.types import bit_width
from ...lowering.llvm_types import llvm_type, space_of
from ...lowering.rebuild import Handler
from ...lowering.rules.sink import refuse
from .llvm_conversion import LlvmConversion
from .llvm_declare import address_props

if TYPE_CHECKING:
    from collections.abc import Sequence


def _static(op: Operation, type_: MemRefType) -> tuple[int, ...]:
    shape = tuple(type_.get_shape())
    if any(n < 0 for n in shape) or not isinstance(cast(Attribute, type_.layout), NoneAttr):
        raise refuse(op, f"on {type_}: only memrefs of a static shape in row-major order are bare pointers")
    return shape


def _element(
    r: LlvmConversion, op: Operation, source: SSAValue, indices: Sequence[SSAValue]
) -> tuple[SSAValue, Attribute]:
    """Address and type of an element."""
    type_ = cast(MemRefType, source.type)
    shape = _static(op, type_)
    elem = llvm_type(type_.element_type)
    linear = r.number(0, i64)
    for i, (index, extent) in enumerate(zip(indices, shape, strict=True)):
        linear = r.make(xllvm.MulOp, (linear, r.number(extent, i64)), i64) if i else linear
        linear = r.make(xllvm.AddOp, (linear, r.ll(index)), i64) if i else r.ll(index)
    return address(r, r.ll(source), linear, elem), elem


def address(r: LlvmConversion, base: SSAValue, index: SSAValue, elem: Attribute) -> SSAValue:
    """Address of an element behind a pointer."""
    props = {"rawConstantIndices": i32_list((llvm.GEP_DYNAMIC,)), "elem_type": elem, "noWrapFlags": int_attr(0, i32)}
    return r.make(llvm.GEPOp, (base, index), base.type, props)


def _align(elem: Attribute) -> dict[str, Attribute]:
    return {"alignment": int_attr(max(bit_width(elem) // 8, 1), i64)}


def _load(r: LlvmConversion, op: xmemref.LoadOp) -> None:
    at, elem = _element(r, op, op.memref, op.indices)
    r.give(op.results[0], r.b.op1(llvm.LoadOp, (at,), elem, _align(elem)))


def _store(r: LlvmConversion, op: xmemref.StoreOp) -> None:
    at, elem = _element(r, op, op.memref, op.indices)
    r.b.opn(llvm.StoreOp, (r.ll(op.value), at), (), _align(elem))


def _get_global(r: LlvmConversion, op: Any) -> None:
    props: dict[str, Attribute] = {"global_name": op.properties["name"]}
    r.give(op.results[0], r.make(llvm.AddressOfOp, (), llvm_type(op.results[0].type), props))


def _view(r: LlvmConversion, op: Any) -> None:
    """Bytes of a memref as another one, from an offset on."""
    source, offset, *sizes = op.operands
    if sizes:
        raise refuse(op, "with dynamic sizes")
    _static(op, op.results[0].type)
    r.give(op.results[0], address(r, r.ll(source), r.ll(offset), i8))


def _pointer(r: LlvmConversion, op: Any) -> None:
    r.give(op.results[0], r.make(xllvm.PtrToIntOp, (r.ll(op.operands[0]),), i64))


def make_global(name: str, type_: MemRefType, linkage: str, props: dict[str, Attribute]) -> llvm.GlobalOp:
    """Uninitialised memory of a memref's size."""
    elem = llvm_type(type_.element_type)
    return llvm.GlobalOp.create(
        properties={
            "global_type": llvm.LLVMArrayType(prod(type_.get_shape()), elem),
            "sym_name": StringAttr(name),
            "linkage": xllvm.LinkageAttr(linkage),
            "addr_space": int_attr(space_of(type_), i32),
            **props,
        },
        regions=[Region()],
    )


def _global(r: LlvmConversion, op: memref.GlobalOp) -> None:
    if op.initial_value is not None and not isinstance(op.initial_value, llvm.UnitAttr):
        raise refuse(op, "with an initial value")
    type_ = cast(MemRefType, op.properties["type"])
    _static(op, type_)
    props = {"alignment": op.alignment} if op.alignment is not None else {}
    linkage = "external" if op.sym_visibility is None else "internal"
    append(r.b.block, make_global(op.sym_name.data, type_, linkage, cast(dict[str, Attribute], props)))


def attribution(r: LlvmConversion, kernel: str, index: int, type_: MemRefType) -> SSAValue:
    """Memory of the block a kernel asks for: a global of its own, put in front of the module."""
    name = f"__wg_{kernel}_{index}"
    insert_after(r.module_block, None, make_global(name, type_, "internal", {}))
    space = llvm.ptr(space_of(type_))
    return r.make(llvm.AddressOfOp, (), space, address_props(name))


HANDLERS = cast(
    dict[type[Operation], Handler],
    {
        xmemref.LoadOp: _load,
        xmemref.StoreOp: _store,
        memref.GlobalOp: _global,
        memref.ExtractAlignedPointerAsIndexOp: _pointer,
        **{op: _get_global for op in memref.MemRef.operations if op.name == "memref.get_global"},
        **{op: _view for op in memref.MemRef.operations if op.name == "memref.view"},
    },
)
"""Conversions of `memref`."""
