"""Ops of `llvm` on values that xDSL lacks: conversions, `poison`, `freeze`, `extractelement`; upstream's text forms."""

from __future__ import annotations

from typing import ClassVar, cast

from xdsl.dialects.builtin import VectorType
from xdsl.irdl import AnyAttr, IRDLOperation, VarConstraint, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ....ir.op_text import type_after, write


class _CastOp(IRDLOperation):
    """`llvm.fptosi %x : f32 to i32`."""

    arg = operand_def()
    res = result_def()
    traits = traits_def(Pure())
    assembly_format = "$arg attr-dict `:` type($arg) `to` type($res)"


@irdl_op_definition
class FPToSIOp(_CastOp):
    """Float to signed integer, toward zero."""

    name = "llvm.fptosi"


@irdl_op_definition
class FPToUIOp(_CastOp):
    """Float to unsigned integer, toward zero."""

    name = "llvm.fptoui"


@irdl_op_definition
class UIToFPOp(_CastOp):
    """Unsigned integer to float."""

    name = "llvm.uitofp"


@irdl_op_definition
class AddrSpaceCastOp(_CastOp):
    """The same address seen in another address space."""

    name = "llvm.addrspacecast"


@irdl_op_definition
class PoisonOp(IRDLOperation):
    """`llvm.mlir.poison : f32`: a value nobody may look at."""

    name = "llvm.mlir.poison"
    res = result_def()
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($res)"


@irdl_op_definition
class FreezeOp(IRDLOperation):
    """`llvm.freeze %x : i32`: `%x`, or some fixed value if that is poison."""

    name = "llvm.freeze"
    T: ClassVar = VarConstraint("T", AnyAttr())
    val = operand_def(T)
    res = result_def(T)
    assembly_format = "$val attr-dict `:` type($val)"


@irdl_op_definition
class ExtractElementOp(IRDLOperation):
    """`llvm.extractelement %v[%i : i32] : vector<4xf32>`."""

    name = "llvm.extractelement"
    vector = operand_def(VectorType)
    position = operand_def()
    res = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if self.res.type != cast(VectorType, self.vector.type).element_type:
            raise VerifyException("failed to verify that result type matches vector element type")

    @classmethod
    def parse(cls, parser: Parser) -> ExtractElementOp:
        whole = parser.parse_unresolved_operand()
        parser.parse_punctuation("[")
        at = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        index = parser.resolve_operand(at, parser.parse_type())
        parser.parse_punctuation("]")
        attrs = parser.parse_optional_attr_dict()
        type_ = type_after(parser, ":")
        return cls.create(
            operands=[parser.resolve_operand(whole, type_), index],
            result_types=[cast(VectorType, type_).element_type],
            attributes=attrs,
        )

    def print(self, printer: Printer) -> None:
        write(
            printer,
            " ",
            self.vector,
            "[",
            self.position,
            " : ",
            self.position.type,
            "]",
            self.attributes,
            " : ",
            self.vector.type,
        )


LLVM_VALUE_OPS = [FPToSIOp, FPToUIOp, UIToFPOp, AddrSpaceCastOp, PoisonOp, FreezeOp, ExtractElementOp]
"""The ops of this file."""
