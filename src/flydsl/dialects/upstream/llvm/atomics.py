"""Atomic ops of `llvm` that xDSL lacks, in upstream's text form."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i1
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer

from ....ir.op_text import type_after, write
from ..op_text import parse_dict, print_dict
from .memory import ORDERING_WORDS, parse_ordering, parse_scope, print_scope
from .struct import StructType


def cmpxchg_type(value: Attribute) -> StructType:
    """What a compare-and-swap gives: the old value, and whether it was replaced."""
    return StructType((False, (value, i1)))


@irdl_op_definition
class CmpXchgOp(IRDLOperation):
    """`llvm.cmpxchg weak %p, %cmp, %new syncscope("agent") acq_rel monotonic : !llvm.ptr<1>, i32`."""

    name = "llvm.cmpxchg"
    ptr = operand_def(LLVMPointerType)
    cmp = operand_def()
    val = operand_def()
    success_ordering = prop_def(IntegerAttr)
    failure_ordering = prop_def(IntegerAttr)
    syncscope = opt_prop_def(StringAttr)
    alignment = opt_prop_def(IntegerAttr)
    weak = opt_prop_def(UnitAttr)
    volatile_ = opt_prop_def(UnitAttr)
    res = result_def(StructType)

    @classmethod
    def parse(cls, parser: Parser) -> CmpXchgOp:
        props: dict[str, Attribute] = {}
        for word, name in (("weak", "weak"), ("volatile", "volatile_")):
            if parser.parse_optional_keyword(word) is not None:
                props[name] = UnitAttr()
        pos = parser.pos
        operands = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parse_scope(parser, props)
        props["success_ordering"] = parse_ordering(parser)
        props["failure_ordering"] = parse_ordering(parser)
        more, attrs = parse_dict(parser, cls)
        where = type_after(parser, ":")
        type_ = type_after(parser, ",")
        return cls.create(
            operands=parser.resolve_operands(operands, [where, type_, type_], pos),
            result_types=[cmpxchg_type(type_)],
            properties={**props, **more},
            attributes=attrs,
        )

    def print(self, printer: Printer) -> None:
        write(
            printer,
            " weak" if self.weak is not None else "",
            " volatile " if self.volatile_ is not None else " ",
            self.operands,
        )
        print_scope(printer, self.syncscope)
        for ordering in (self.success_ordering, self.failure_ordering):
            printer.print_string(f" {ORDERING_WORDS[ordering.value.data]}")
        print_dict(printer, self, ("weak", "volatile_", "syncscope", "success_ordering", "failure_ordering"))
        write(printer, " : ", self.ptr.type, ", ", self.val.type)


@irdl_op_definition
class FenceOp(IRDLOperation):
    """`llvm.fence syncscope("workgroup") release`: order memory accesses."""

    name = "llvm.fence"
    ordering = prop_def(IntegerAttr)
    syncscope = opt_prop_def(StringAttr)

    @classmethod
    def parse(cls, parser: Parser) -> FenceOp:
        props: dict[str, Attribute] = {}
        parse_scope(parser, props)
        props["ordering"] = parse_ordering(parser)
        return cls.create(properties=props, attributes=parser.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        print_scope(printer, self.syncscope)
        write(printer, f" {ORDERING_WORDS[self.ordering.value.data]}", self.attributes)


LLVM_ATOMIC_OPS = [CmpXchgOp, FenceOp]
"""The ops of this file."""
