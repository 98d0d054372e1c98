"""Upstream's `arith` ops. xDSL's serve where they are upstream's; its casts, comparisons and select take scalars alone,
so these are subclasses here that take vectors too. They also carry what xDSL drops: the rounding mode of `arith.truncf`
and the fast-math flags of both float casts.

Import `arith` from here, never from xDSL (a test looks): tables of passes are keyed by class.
"""

from __future__ import annotations

from typing import ClassVar, Final, Self

from xdsl.dialects import arith as xarith
from xdsl.dialects.arith import (
    AddfOp,
    AddiOp,
    AddUIExtendedOp,
    AndIOp,
    BitcastOp,
    CeilDivSIOp,
    CeilDivUIOp,
    ConstantOp,
    DivfOp,
    DivSIOp,
    DivUIOp,
    FastMathFlagsAttr,
    FloorDivSIOp,
    MaximumfOp,
    MaxnumfOp,
    MaxSIOp,
    MaxUIOp,
    MinimumfOp,
    MinnumfOp,
    MinSIOp,
    MinUIOp,
    MulfOp,
    MuliOp,
    MulSIExtendedOp,
    MulUIExtendedOp,
    NegfOp,
    OrIOp,
    RemSIOp,
    RemUIOp,
    ShLIOp,
    ShRSIOp,
    ShRUIOp,
    SubfOp,
    SubiOp,
    XOrIOp,
)
from xdsl.dialects.builtin import AnyFloatConstr, IndexType, IntegerAttr, IntegerType, VectorType, i1, i32
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AnyAttr,
    AnyOf,
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .enums import RoundingMode
from .op_text import type_after, write

ROUNDING_MODE: Final = "roundingmode"
"""Property of `arith.truncf`: an i32, the value of a `RoundingMode`."""

_INT: Final = AnyOf.get(base(IntegerType), VectorType.constr(base(IntegerType)))
_INDEX: Final = AnyOf.get(_INT, base(IndexType), VectorType.constr(base(IndexType)))
_FLOAT: Final = AnyOf.get(AnyFloatConstr, VectorType.constr(AnyFloatConstr))
_MODES: Final = {mode.name: mode for mode in RoundingMode}


def _element(type_: Attribute) -> Attribute:
    return type_.element_type if isinstance(type_, VectorType) else type_  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]


def _lanes(type_: Attribute) -> tuple[int, ...] | None:
    return type_.get_shape() if isinstance(type_, VectorType) else None


def _bits(type_: Attribute) -> int:
    width = getattr(_element(type_), "bitwidth", None)
    assert isinstance(width, int), type_
    return width


def _parse_fastmath(parser: Parser) -> FastMathFlagsAttr:
    return FastMathFlagsAttr(tuple(FastMathFlagsAttr.parse_parameter(parser)))


def _check_shapes(op: IRDLOperation) -> None:
    """All operands and results have one shape."""
    shapes = [_lanes(v.type) for v in (*op.operands, *op.results)]
    if any(s != shapes[0] for s in shapes):
        raise VerifyException(f"'{op.name}' op operands and results must have the same shape")


class _Cast(IRDLOperation):
    """`%b = arith.truncf %a toward_zero fastmath<nnan> : f32 to bf16`, the last two for float casts alone."""

    assembly_format = None
    ROUNDED: ClassVar[bool] = False
    RELAXED: ClassVar[bool] = False
    WIDENS: ClassVar[int] = 0
    """1 where the result has more bits than the operand, -1 where it has fewer; 0: either."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        pos = parser.pos
        x = parser.parse_unresolved_operand()
        props: dict[str, Attribute] = {}
        if cls.ROUNDED and (word := parser.parse_optional_identifier()) is not None:
            if word == "fastmath":
                props[word] = _parse_fastmath(parser)
            elif word in _MODES:
                props[ROUNDING_MODE] = IntegerAttr(int(_MODES[word]), i32)
            else:
                parser.raise_error(f"expected one of {', '.join(_MODES)}")
        if cls.RELAXED and "fastmath" not in props and parser.parse_optional_keyword("fastmath"):
            props["fastmath"] = _parse_fastmath(parser)
        attributes = parser.parse_optional_attr_dict()
        from_type = type_after(parser, ":")
        to_type = type_after(parser, "to")
        operands = parser.resolve_operands([x], [from_type], pos)
        return cls.create(operands=operands, result_types=[to_type], properties=props, attributes=attributes)

    def print(self, printer: Printer) -> None:
        write(printer, " ", self.operands[0])
        mode = self.properties.get(ROUNDING_MODE)
        if isinstance(mode, IntegerAttr):
            printer.print_string(f" {RoundingMode(mode.value.data).name}")
        flags = self.properties.get("fastmath")
        if isinstance(flags, FastMathFlagsAttr) and flags.data:
            printer.print_string(" fastmath")
            flags.print_parameter(printer)
        write(printer, self.attributes, " : ", self.operands[0].type, " to ", self.results[0].type)

    def verify_(self) -> None:
        _check_shapes(self)
        if self.WIDENS and (_bits(self.results[0].type) - _bits(self.operands[0].type)) * self.WIDENS <= 0:
            word = "larger" if self.WIDENS > 0 else "smaller"
            raise VerifyException(f"'{self.name}' op result bit width must be {word} than the operand's")


@irdl_op_definition
class ExtSIOp(_Cast, xarith.ExtSIOp):
    name = "arith.extsi"
    WIDENS: ClassVar = 1
    input = operand_def(_INT)
    result = result_def(_INT)
    traits = traits_def(Pure())


@irdl_op_definition
class ExtUIOp(_Cast, xarith.ExtUIOp):
    name = "arith.extui"
    WIDENS: ClassVar = 1
    input = operand_def(_INT)
    result = result_def(_INT)


@irdl_op_definition
class TruncIOp(_Cast, xarith.TruncIOp):
    name = "arith.trunci"
    WIDENS: ClassVar = -1
    input = operand_def(_INT)
    result = result_def(_INT)


@irdl_op_definition
class SIToFPOp(_Cast, xarith.SIToFPOp):
    name = "arith.sitofp"
    input = operand_def(_INT)
    result = result_def(_FLOAT)


@irdl_op_definition
class UIToFPOp(_Cast, xarith.UIToFPOp):
    name = "arith.uitofp"
    input = operand_def(_INT)
    result = result_def(_FLOAT)


@irdl_op_definition
class FPToSIOp(_Cast, xarith.FPToSIOp):
    name = "arith.fptosi"
    input = operand_def(_FLOAT)
    result = result_def(_INT)


@irdl_op_definition
class FPToUIOp(_Cast, xarith.FPToUIOp):
    name = "arith.fptoui"
    input = operand_def(_FLOAT)
    result = result_def(_INT)


@irdl_op_definition
class IndexCastOp(_Cast, xarith.IndexCastOp):
    name = "arith.index_cast"
    input = operand_def(_INDEX)
    result = result_def(_INDEX)

    def verify_(self) -> None:
        _check_shapes(self)
        if isinstance(_element(self.input.type), IndexType) == isinstance(_element(self.result.type), IndexType):
            raise VerifyException(f"'{self.name}' op converts between index and an integer")


@irdl_op_definition
class ExtFOp(_Cast, xarith.ExtFOp):
    name = "arith.extf"
    WIDENS: ClassVar = 1
    RELAXED: ClassVar = True
    input = operand_def(_FLOAT)
    result = result_def(_FLOAT)
    fastmath = opt_prop_def(FastMathFlagsAttr)


@irdl_op_definition
class TruncFOp(_Cast, xarith.TruncFOp):
    name = "arith.truncf"
    WIDENS: ClassVar = -1
    RELAXED: ClassVar = True
    ROUNDED: ClassVar = True
    input = operand_def(_FLOAT)
    result = result_def(_FLOAT)
    fastmath = opt_prop_def(FastMathFlagsAttr)
    rounding_mode = opt_prop_def(IntegerAttr, prop_name=ROUNDING_MODE)


class _Comparison(IRDLOperation):
    """`%b = arith.cmpf olt, %x, %y fastmath<nnan> : vector<4xf32>`."""

    PREDICATES: ClassVar[list[str]]
    RELAXED: ClassVar[bool] = False

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        predicate = parser.parse_identifier()
        if predicate not in cls.PREDICATES:
            parser.raise_error(f"expected one of {', '.join(cls.PREDICATES)}")
        parser.parse_punctuation(",")
        pos = parser.pos
        a = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        b = parser.parse_unresolved_operand()
        props: dict[str, Attribute] = {"predicate": IntegerAttr(cls.PREDICATES.index(predicate), 64)}
        if cls.RELAXED:
            given = parser.parse_optional_keyword("fastmath") is not None
            props["fastmath"] = _parse_fastmath(parser) if given else FastMathFlagsAttr("none")
        attributes = parser.parse_optional_attr_dict()
        type_ = type_after(parser, ":")
        shape = _lanes(type_)
        result = i1 if shape is None else VectorType(i1, shape)
        operands = parser.resolve_operands([a, b], [type_, type_], pos)
        return cls.create(operands=operands, result_types=[result], properties=props, attributes=attributes)

    def verify_(self) -> None:
        _check_shapes(self)


@irdl_op_definition
class CmpiOp(_Comparison, xarith.CmpiOp):
    name = "arith.cmpi"
    PREDICATES: ClassVar = xarith.CMPI_COMPARISON_OPERATIONS
    predicate = prop_def(IntegerAttr)
    lhs = operand_def(_INDEX)
    rhs = operand_def(_INDEX)
    result = result_def(_INT)


@irdl_op_definition
class CmpfOp(_Comparison, xarith.CmpfOp):
    name = "arith.cmpf"
    PREDICATES: ClassVar = xarith.CMPF_COMPARISON_OPERATIONS
    RELAXED: ClassVar = True
    predicate = prop_def(IntegerAttr)
    lhs = operand_def(_FLOAT)
    rhs = operand_def(_FLOAT)
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))
    result = result_def(_INT)


@irdl_op_definition
class SelectOp(xarith.SelectOp):
    """A condition of one bit, or of one bit per lane: `%r = arith.select %c, %x, %y : vector<4xi1>, vector<4xf32>`."""

    name = "arith.select"
    assembly_format = None
    _T: ClassVar = VarConstraint("_T", AnyAttr())
    cond = operand_def(_INT)
    lhs = operand_def(_T)
    rhs = operand_def(_T)
    result = result_def(_T)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        pos = parser.pos
        unresolved = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_unresolved_operand)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
        cond: Attribute = types[0] if len(types) == 2 else i1
        operands = parser.resolve_operands(unresolved, [cond, types[-1], types[-1]], pos)
        return cls.create(operands=operands, result_types=[types[-1]], attributes=attributes)

    def print(self, printer: Printer) -> None:
        write(printer, " ", self.operands, self.attributes, " : ")
        if self.operands[0].type != i1:
            write(printer, self.operands[0].type, ", ")
        printer.print_attribute(self.results[0].type)

    def verify_(self) -> None:
        cond = self.cond.type
        if _element(cond) != i1 or (cond != i1 and _lanes(cond) != _lanes(self.result.type)):
            raise VerifyException("'arith.select' op condition must be i1, or a vector of i1 shaped like the result")


WIDENED: Final[dict[type[Operation], type[Operation]]] = {
    own.__bases__[-1]: own
    for own in (
        ExtSIOp, ExtUIOp, TruncIOp, SIToFPOp, UIToFPOp, FPToSIOp, FPToUIOp, IndexCastOp, ExtFOp, TruncFOp, CmpiOp,
        CmpfOp, SelectOp,
    )
}  # fmt: skip
"""xDSL's class to the one here."""

__all__ = [
    "ROUNDING_MODE", "WIDENED", "AddUIExtendedOp", "AddfOp", "AddiOp", "AndIOp", "BitcastOp", "CeilDivSIOp",
    "CeilDivUIOp", "CmpfOp", "CmpiOp", "ConstantOp", "DivSIOp", "DivUIOp", "DivfOp", "ExtFOp", "ExtSIOp", "ExtUIOp",
    "FPToSIOp", "FPToUIOp", "FastMathFlagsAttr", "FloorDivSIOp", "IndexCastOp", "MaxSIOp", "MaxUIOp", "MaximumfOp",
    "MaxnumfOp", "MinSIOp", "MinUIOp", "MinimumfOp", "MinnumfOp", "MulSIExtendedOp", "MulUIExtendedOp", "MulfOp",
    "MuliOp", "NegfOp", "OrIOp", "RemSIOp", "RemUIOp", "SIToFPOp", "SelectOp", "ShLIOp", "ShRSIOp", "ShRUIOp", "SubfOp",
    "SubiOp", "TruncFOp", "TruncIOp", "UIToFPOp", "XOrIOp",
]  # fmt: skip
