"""Atomic ops of `llvm` that xDSL lacks, in the generic text form; orderings are words as LLVM writes them."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i1
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def


@irdl_op_definition
class CmpXchgOp(IRDLOperation):
    """Write `new` if memory holds `expected`; the old value, and whether it was written."""

    name = "llvm.cmpxchg"
    ptr = operand_def(LLVMPointerType)
    expected = operand_def()
    new = operand_def()
    success = prop_def(StringAttr)
    failure = prop_def(StringAttr)
    syncscope = opt_prop_def(StringAttr)
    weak = opt_prop_def(UnitAttr)
    alignment = opt_prop_def(IntegerAttr)
    old = result_def()
    written = result_def(i1)


@irdl_op_definition
class FenceOp(IRDLOperation):
    """Order memory accesses."""

    name = "llvm.fence"
    ordering = prop_def(StringAttr)
    syncscope = opt_prop_def(StringAttr)


LLVM_ATOMIC_OPS = [CmpXchgOp, FenceOp]
"""The ops of this file."""

__all__ = ["LLVM_ATOMIC_OPS", "CmpXchgOp", "FenceOp"]
