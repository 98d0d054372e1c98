"""Scalar ops of upstream that xDSL lacks: `arith.remf` and `math.erfc`, with upstream's text form.

Importing this module also makes xDSL's `arith` casts, comparisons and select take vectors, as upstream's do, and gives
`arith.truncf` its rounding mode and both float casts their fast-math flags.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import (
    AnyFloat,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
    i1,
    i32,
)
from xdsl.dialects.math import FloatingPointLikeUnaryMathOperation
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AnyOf,
    IRDLOperation,
    OperandDef,
    OptPropertyDef,
    ResultDef,
    base,
    irdl_op_definition,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure, SameOperandsAndResultType
from xdsl.utils.exceptions import VerifyException

from ...ir.enums import RoundingMode


@irdl_op_definition
class RemFOp(arith.FloatingPointLikeBinaryOperation):
    """Float remainder with the sign of the dividend: `%r = arith.remf %a, %b : f32`."""

    name = "arith.remf"
    traits = traits_def(Pure())


@irdl_op_definition
class ErfcOp(FloatingPointLikeUnaryMathOperation):
    """Complementary error function: `%r = math.erfc %x : f32`."""

    name = "math.erfc"
    traits = traits_def(Pure(), SameOperandsAndResultType())


# --- xDSL's arith ops on vectors ------------------------------------------------------------------------------------

Check = Callable[[Any], None]


def _element(type_: Attribute) -> Any:
    return type_.element_type if isinstance(type_, VectorType) else type_  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]


def _lanes(type_: Attribute) -> Any:
    return type_.get_shape() if isinstance(type_, VectorType) else None


def _like(constraint: Any) -> Any:
    """A scalar constraint, or vectors of what it allows."""
    return AnyOf.get(constraint, VectorType.constr(constraint))


_FLOAT: Any = AnyOf.get(*[base(t) for t in cast(Any, AnyFloat).__args__])
_INT: Any = base(IntegerType)
_INDEX: Any = _INT | base(IndexType)


def _widen(cls: type[IRDLOperation], operands: Any, results: Any, check: Check | None = None) -> None:
    """Let an op of xDSL's take vectors too; all its operands and results must have one shape."""
    definition: Any = cls.get_irdl_definition()
    definition.operands = [(name, OperandDef(_like(operands))) for name, _ in definition.operands]
    definition.results = [(name, ResultDef(_like(results))) for name, _ in definition.results]

    def verify_(self: Any) -> None:
        definition.verify(self)
        shapes = [_lanes(v.type) for v in (*self.operands, *self.results)]
        if any(s != shapes[0] for s in shapes):
            raise VerifyException(f"'{cls.name}' op operands and results must have the same shape")
        if check is not None:
            check(self)

    cls.verify_ = verify_


def _check_wider(sign: int) -> Check:
    def check(op: Any) -> None:
        before, after = (_element(v.type).bitwidth for v in (op.operands[0], op.results[0]))
        if (after - before) * sign <= 0:
            word = "larger" if sign > 0 else "smaller"
            raise VerifyException(f"'{op.name}' op result bit width must be {word} than the operand's")

    return check


def _check_index(op: Any) -> None:
    if isinstance(_element(op.operands[0].type), IndexType) == isinstance(_element(op.results[0].type), IndexType):
        raise VerifyException(f"'{op.name}' op converts between index and an integer")


def _parse_comparison(names: list[str]) -> Any:
    def parse(cls: Any, parser: Parser) -> Operation:
        predicate = parser.parse_identifier()
        if predicate not in names:
            parser.raise_error(f"expected one of {', '.join(names)}")
        parser.parse_punctuation(",")
        pos = parser.pos
        a = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        b = parser.parse_unresolved_operand()
        props: dict[str, Attribute] = {"predicate": IntegerAttr(names.index(predicate), 64)}
        if parser.parse_optional_keyword("fastmath"):
            props["fastmath"] = FastMathFlagsAttr(cast(Any, FastMathFlagsAttr.parse_parameter(parser)))
        elif cls is arith.CmpfOp:
            props["fastmath"] = FastMathFlagsAttr("none")
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        shape = _lanes(type_)
        result = i1 if shape is None else VectorType(i1, shape)
        operands = parser.resolve_operands([a, b], [type_, type_], pos)
        return cls.create(operands=operands, result_types=[result], properties=props, attributes=attributes)

    return classmethod(cast(Any, parse))


_MODES = {mode.name: mode for mode in RoundingMode}
ROUNDING_MODE = "roundingmode"
"""Property of `arith.truncf`: an i32, the value of a `RoundingMode`."""


def _parse_float_cast(cls: Any, parser: Parser) -> Operation:
    pos = parser.pos
    x = parser.parse_unresolved_operand()
    props: dict[str, Attribute] = {}
    if cls is arith.TruncFOp:
        word = parser.parse_optional_identifier()
        if word == "fastmath":
            props["fastmath"] = FastMathFlagsAttr(cast(Any, FastMathFlagsAttr.parse_parameter(parser)))
        elif word is not None:
            if word not in _MODES:
                parser.raise_error(f"expected one of {', '.join(_MODES)}")
            props[ROUNDING_MODE] = IntegerAttr(int(_MODES[word]), i32)
    if "fastmath" not in props and parser.parse_optional_keyword("fastmath"):
        props["fastmath"] = FastMathFlagsAttr(cast(Any, FastMathFlagsAttr.parse_parameter(parser)))
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    from_type = parser.parse_type()
    parser.parse_keyword("to")
    to_type = parser.parse_type()
    (operand,) = parser.resolve_operands([x], [from_type], pos)
    return cls.create(operands=[operand], result_types=[to_type], properties=props, attributes=attributes)


def _print_float_cast(self: Any, printer: Printer) -> None:
    printer.print_string(" ")
    printer.print_operand(self.operands[0])
    mode = self.properties.get(ROUNDING_MODE)
    if mode is not None:
        printer.print_string(f" {RoundingMode(mode.value.data).name}")
    flags = self.properties.get("fastmath")
    if flags is not None and flags.data:
        printer.print_string(" fastmath")
        flags.print_parameter(printer)
    printer.print_op_attributes(self.attributes)
    printer.print_string(" : ")
    printer.print_attribute(self.operands[0].type)
    printer.print_string(" to ")
    printer.print_attribute(self.results[0].type)


def _parse_select(cls: Any, parser: Parser) -> Operation:
    pos = parser.pos
    unresolved = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_unresolved_operand)
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
    cond: Attribute = types[0] if len(types) == 2 else i1
    operands = parser.resolve_operands(unresolved, [cond, types[-1], types[-1]], pos)
    return cls.create(operands=operands, result_types=[types[-1]], attributes=attributes)


def _print_select(self: Any, printer: Printer) -> None:
    printer.print_string(" ")
    printer.print_list(self.operands, printer.print_operand)
    printer.print_op_attributes(self.attributes)
    printer.print_string(" : ")
    if self.operands[0].type != i1:
        printer.print_attribute(self.operands[0].type)
        printer.print_string(", ")
    printer.print_attribute(self.results[0].type)


def _widen_select() -> None:
    """A condition of one bit, or of one bit per lane."""
    definition: Any = arith.SelectOp.get_irdl_definition()
    definition.operands = [("cond", OperandDef(_like(_INT))), *definition.operands[1:]]

    def verify_(self: Any) -> None:
        definition.verify(self)
        cond = self.operands[0].type
        if _element(cond) != i1 or (cond != i1 and _lanes(cond) != _lanes(self.results[0].type)):
            raise VerifyException("'arith.select' op condition must be i1, or a vector of i1 shaped like the result")

    select: Any = arith.SelectOp
    select.verify_ = verify_
    select.parse = classmethod(cast(Any, _parse_select))
    select.print = _print_select


def _widen_float_cast(cls: Any, sign: int) -> None:
    _widen(cls, _FLOAT, _FLOAT, _check_wider(sign))
    properties = cls.get_irdl_definition().properties
    properties["fastmath"] = OptPropertyDef(base(FastMathFlagsAttr))
    if sign < 0:
        properties[ROUNDING_MODE] = OptPropertyDef(base(IntegerAttr))
    cls.parse = classmethod(cast(Any, _parse_float_cast))
    cls.print = _print_float_cast


def _allow_vectors() -> None:
    """Once per process: xDSL 0.74 limits these ops to scalars; upstream does not."""
    _widen(arith.ExtSIOp, _INT, _INT, _check_wider(1))
    _widen(arith.ExtUIOp, _INT, _INT, _check_wider(1))
    _widen(arith.TruncIOp, _INT, _INT, _check_wider(-1))
    _widen(arith.SIToFPOp, _INT, _FLOAT)
    _widen(arith.UIToFPOp, _INT, _FLOAT)
    _widen(arith.FPToSIOp, _FLOAT, _INT)
    _widen(arith.FPToUIOp, _FLOAT, _INT)
    _widen(arith.IndexCastOp, _INDEX, _INDEX, _check_index)
    _widen(arith.CmpiOp, _INDEX, _INT)
    _widen(arith.CmpfOp, _FLOAT, _INT)
    arith.CmpiOp.parse = _parse_comparison(arith.CMPI_COMPARISON_OPERATIONS)
    arith.CmpfOp.parse = _parse_comparison(arith.CMPF_COMPARISON_OPERATIONS)
    _widen_float_cast(arith.ExtFOp, 1)
    _widen_float_cast(arith.TruncFOp, -1)
    _widen_select()


_allow_vectors()

__all__ = ["ROUNDING_MODE", "ErfcOp", "RemFOp"]
