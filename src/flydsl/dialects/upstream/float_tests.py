"""Ops of upstream's `math` that xDSL lacks, with upstream's text form: what kind of float a value is, and two more.

%a = math.isnan %x : f32            math.isinf, math.isfinite, math.isnormal
%b = math.clampf %x to [%low, %high] : f32
%s, %c = math.sincos %x : f32
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import VectorType, i1
from xdsl.dialects.math import floatingPointLike
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, VarConstraint, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure, SameOperandsAndResultType
from xdsl.utils.exceptions import VerifyException

from ...ir.op_text import type_after, write


def parse_flags(parser: Parser) -> dict[str, Attribute]:
    """`fastmath<fast>`, or nothing."""
    if parser.parse_optional_keyword("fastmath") is None:
        return {"fastmath": FastMathFlagsAttr("none")}
    return {"fastmath": FastMathFlagsAttr(cast(Any, FastMathFlagsAttr.parse_parameter(parser)))}


def print_flags(printer: Printer, flags: FastMathFlagsAttr) -> None:
    """The same, left out where it says nothing."""
    if flags.data:
        printer.print_string(" fastmath")
        flags.print_parameter(printer)


def flag_type(type_: Attribute) -> Attribute:
    """i1, or a vector of i1 shaped like a vector."""
    return VectorType(i1, cast(Any, type_).get_shape()) if isinstance(type_, VectorType) else i1


class FloatTestOp(IRDLOperation):
    """Base of the ops that ask what a float is."""

    operand = operand_def(floatingPointLike)
    result = result_def()
    traits = traits_def(Pure())
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))

    def verify_(self) -> None:
        if self.result.type != flag_type(self.operand.type):
            raise VerifyException(
                f"'{self.name}' op gives '{flag_type(self.operand.type)}' for '{self.operand.type}', "
                f"not '{self.result.type}'"
            )

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        unresolved = parser.parse_unresolved_operand()
        props = parse_flags(parser)
        attrs = parser.parse_optional_attr_dict()
        type_ = type_after(parser, ":")
        operands = [parser.resolve_operand(unresolved, type_)]
        return cls.create(operands=operands, result_types=[flag_type(type_)], properties=props, attributes=attrs)

    def print(self, printer: Printer) -> None:
        write(printer, " ", self.operand)
        print_flags(printer, self.fastmath)
        write(printer, self.attributes, " : ", self.operand.type)


@irdl_op_definition
class IsNaNOp(FloatTestOp):
    """Whether a float is not a number."""

    name = "math.isnan"


@irdl_op_definition
class IsInfOp(FloatTestOp):
    """Whether a float is infinite."""

    name = "math.isinf"


@irdl_op_definition
class IsFiniteOp(FloatTestOp):
    """Whether a float is a number and not infinite."""

    name = "math.isfinite"


@irdl_op_definition
class IsNormalOp(FloatTestOp):
    """Whether a float is neither zero, subnormal, infinite nor no number."""

    name = "math.isnormal"


@irdl_op_definition
class ClampFOp(IRDLOperation):
    """A float kept between two others."""

    name = "math.clampf"
    T: ClassVar = VarConstraint("T", floatingPointLike)
    value = operand_def(T)
    min = operand_def(T)
    max = operand_def(T)
    result = result_def(T)
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))
    traits = traits_def(Pure(), SameOperandsAndResultType())
    assembly_format = "$value `to` ` ` `[` $min `,` $max `]` (`fastmath` `` $fastmath^)? attr-dict `:` type($result)"


@irdl_op_definition
class SincosOp(IRDLOperation):
    """Sine and cosine at once."""

    name = "math.sincos"
    T: ClassVar = VarConstraint("T", floatingPointLike)
    operand = operand_def(T)
    sin = result_def(T)
    cos = result_def(T)
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))
    traits = traits_def(Pure())
    assembly_format = "$operand (`fastmath` `` $fastmath^)? attr-dict `:` type($operand)"


FLOAT_TEST_OPS = [IsNaNOp, IsInfOp, IsFiniteOp, IsNormalOp, ClampFOp, SincosOp]
"""The ops of this file."""
