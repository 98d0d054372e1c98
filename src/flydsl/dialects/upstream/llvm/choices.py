"""`llvm.fcmp` and `llvm.select` on vectors too, with their fast-math flags in the text, both of which xDSL's lack."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS
from xdsl.dialects.builtin import IntegerAttr, VectorType, i1, i64
from xdsl.dialects.llvm import FastMathAttr
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ....ir.op_text import type_after, write
from ..op_text import parse_dict, print_dict

_PREDICATES = CMPF_COMPARISON_OPERATIONS


def _flag_type(type_: Attribute) -> Attribute:
    return VectorType(i1, type_.get_shape()) if isinstance(type_, VectorType) else i1


@irdl_op_definition
class FCmpOp(IRDLOperation):
    """`llvm.fcmp "olt" %a, %b {fastmathFlags = #llvm.fastmath<nnan>} : vector<4xf32>`."""

    name = "llvm.fcmp"
    lhs = operand_def()
    rhs = operand_def()
    predicate = prop_def(IntegerAttr)
    fastmathFlags = opt_prop_def(FastMathAttr)
    res = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if self.lhs.type != self.rhs.type or self.res.type != _flag_type(self.lhs.type):
            raise VerifyException("expected operands of one type, and an i1 or a vector of i1 of that shape")

    @classmethod
    def parse(cls, parser: Parser) -> FCmpOp:
        start = parser.pos
        word = parser.parse_str_literal()
        if word not in _PREDICATES:
            parser.raise_error(f"expected one of {', '.join(_PREDICATES)}, got '{word}'", start, parser.pos)
        a = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        b = parser.parse_unresolved_operand()
        props, attrs = parse_dict(parser, cls)
        type_ = type_after(parser, ":")
        return cls.create(
            operands=parser.resolve_operands([a, b], [type_, type_], start),
            result_types=[_flag_type(type_)],
            properties={"predicate": IntegerAttr(_PREDICATES.index(word), i64), **props},
            attributes=attrs,
        )

    def print(self, printer: Printer) -> None:
        number: Any = self.predicate.value.data
        write(printer, f' "{_PREDICATES[number]}" ', (self.lhs, self.rhs))
        print_dict(printer, self, ("predicate",))
        write(printer, " : ", self.lhs.type)


@irdl_op_definition
class SelectOp(IRDLOperation):
    """`llvm.select %c, %a, %b : vector<4xi1>, vector<4xf32>`."""

    name = "llvm.select"
    cond = operand_def()
    lhs = operand_def()
    rhs = operand_def()
    fastmathFlags = opt_prop_def(FastMathAttr)
    res = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if not self.lhs.type == self.rhs.type == self.res.type:
            raise VerifyException("expected both values and the result to have one type")
        if self.cond.type not in (i1, _flag_type(self.lhs.type)):
            raise VerifyException(f"expected an i1 or a vector of i1 as condition, got {self.cond.type}")

    @classmethod
    def parse(cls, parser: Parser) -> SelectOp:
        pos = parser.pos
        operands = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_unresolved_operand)
        props, attrs = parse_dict(parser, cls)
        cond = type_after(parser, ":")
        type_ = type_after(parser, ",")
        return cls.create(
            operands=parser.resolve_operands(operands, [cond, type_, type_], pos),
            result_types=[type_],
            properties=props,
            attributes=attrs,
        )

    def print(self, printer: Printer) -> None:
        write(printer, " ", (self.cond, self.lhs, self.rhs))
        print_dict(printer, self)
        write(printer, " : ", self.cond.type, ", ", self.res.type)


LLVM_CHOICE_OPS: list[type[Operation]] = [FCmpOp, SelectOp]
"""The ops of this file."""
