"""What xDSL's `vector` dialect lacks, with upstream's text form."""

from __future__ import annotations

import math
from functools import cache
from typing import ClassVar, cast

from xdsl.dialects import vector as xvector
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, StringAttr, VectorType, i64
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ...ir.op_text import type_after, write
from ...ir.types import dense_ints
from .keyword_attr import BracketedKeywordAttr


def _ints(attr: ArrayAttr[IntegerAttr]) -> list[int]:
    return [a.value.data for a in attr.data]


@cache
def _array(values: tuple[int, ...]) -> ArrayAttr[IntegerAttr]:
    return ArrayAttr([IntegerAttr(v, i64) for v in values])


def _print_lists(printer: Printer, op: IRDLOperation, names: tuple[str, ...]) -> None:
    lists = ", ".join(f"{n} = {_ints(cast('ArrayAttr[IntegerAttr]', op.properties[n]))}" for n in names)
    printer.print_string(f" {{{lists}}}")


def _parse_lists(parser: Parser, names: tuple[str, ...]) -> dict[str, Attribute]:
    attrs = parser.parse_optional_attr_dict()
    for name in names:
        numbers = attrs.get(name)
        if not isinstance(numbers, ArrayAttr) or not all(
            isinstance(n, IntegerAttr) for n in cast(ArrayAttr, numbers).data
        ):
            parser.raise_error(f"expected '{name}', a list of integers")
    return attrs


@irdl_op_definition
class ExtractStridedSliceOp(IRDLOperation):
    """Consecutive elements of a vector.

    `vector.extract_strided_slice %v {offsets = [2], sizes = [4], strides = [1]} : vector<8xf32> to vector<4xf32>`
    """

    name = "vector.extract_strided_slice"
    source = operand_def(VectorType)
    offsets = prop_def(ArrayAttr)
    sizes = prop_def(ArrayAttr)
    strides = prop_def(ArrayAttr)
    result = result_def(VectorType)
    traits = traits_def(Pure())

    @staticmethod
    def properties_for(offset: int, size: int) -> dict[str, Attribute]:
        """Properties of a contiguous 1-D slice."""
        return {"offsets": _array((offset,)), "sizes": _array((size,)), "strides": _array((1,))}

    @classmethod
    def parse(cls, parser: Parser) -> ExtractStridedSliceOp:
        source = parser.parse_unresolved_operand()
        props = _parse_lists(parser, ("offsets", "sizes", "strides"))
        from_type = type_after(parser, ":")
        to_type = type_after(parser, "to")
        operand = parser.resolve_operand(source, from_type)
        return cls.create(operands=[operand], result_types=[to_type], properties=props)

    def print(self, printer: Printer) -> None:
        write(printer, " ", self.source)
        _print_lists(printer, self, ("offsets", "sizes", "strides"))
        write(printer, " : ", self.source.type, " to ", self.result.type)


@irdl_op_definition
class InsertStridedSliceOp(IRDLOperation):
    """`vector.insert_strided_slice %s, %v {offsets = [2], strides = [1]} : vector<4xf32> into vector<8xf32>`."""

    name = "vector.insert_strided_slice"
    source = operand_def(VectorType)
    dest = operand_def(VectorType)
    offsets = prop_def(ArrayAttr)
    strides = prop_def(ArrayAttr)
    result = result_def(VectorType)
    traits = traits_def(Pure())

    @staticmethod
    def properties_for(offset: int) -> dict[str, Attribute]:
        """Properties of a contiguous 1-D slice."""
        return {"offsets": _array((offset,)), "strides": _array((1,))}

    @classmethod
    def parse(cls, parser: Parser) -> InsertStridedSliceOp:
        pos = parser.pos
        source = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        dest = parser.parse_unresolved_operand()
        props = _parse_lists(parser, ("offsets", "strides"))
        from_type = type_after(parser, ":")
        to_type = type_after(parser, "into")
        operands = parser.resolve_operands([source, dest], [from_type, to_type], pos)
        return cls.create(operands=operands, result_types=[to_type], properties=props)

    def print(self, printer: Printer) -> None:
        write(printer, " ", self.source, ", ", self.dest)
        _print_lists(printer, self, ("offsets", "strides"))
        write(printer, " : ", self.source.type, " into ", self.dest.type)


@irdl_op_definition
class FromElementsOp(IRDLOperation):
    """`vector.from_elements %a, %b : vector<2xf32>`."""

    name = "vector.from_elements"
    T: ClassVar = VarConstraint("T", AnyAttr())
    elements = var_operand_def(T)
    result = result_def(VectorType.constr(T))
    traits = traits_def(Pure())
    assembly_format = "$elements attr-dict `:` type($result)"


@irdl_op_definition
class ToElementsOp(IRDLOperation):
    """`%a, %b = vector.to_elements %v : vector<2xf32>`."""

    name = "vector.to_elements"
    source = operand_def(VectorType)
    elements = var_result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ToElementsOp:
        unresolved = parser.parse_unresolved_operand()
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = cast(VectorType, parser.parse_type())
        results = [type_.element_type] * math.prod(type_.get_shape())
        operand = parser.resolve_operand(unresolved, type_)
        return cls.create(operands=[operand], result_types=results, attributes=attrs)

    def print(self, printer: Printer) -> None:
        write(printer, " ", self.source, self.attributes, " : ", self.source.type)


@irdl_op_definition
class ShapeCastOp(IRDLOperation):
    """`vector.shape_cast %v : vector<8xf32> to vector<2x4xf32>`: the same elements in row-major order."""

    name = "vector.shape_cast"
    source = operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def verify_(self) -> None:
        a, b = (cast(VectorType, t) for t in (self.source.type, self.result.type))
        if a.element_type != b.element_type or math.prod(a.get_shape()) != math.prod(b.get_shape()):
            raise VerifyException("source and result do not hold the same elements")


@irdl_op_definition
class TransposeOp(IRDLOperation):
    """`vector.transpose %v, [1, 0] : vector<2x4xf32> to vector<4x2xf32>`."""

    name = "vector.transpose"
    source = operand_def(VectorType)
    permutation = prop_def(DenseArrayBase.constr(i64))
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$source `,` $permutation attr-dict `:` type($source) `to` type($result)"

    @staticmethod
    def properties_for(permutation: list[int]) -> dict[str, Attribute]:
        return {"permutation": DenseArrayBase.from_list(i64, permutation)}

    def verify_(self) -> None:
        dims = [int(i) for i in dense_ints(self.permutation)]
        a, b = (cast(VectorType, t).get_shape() for t in (self.source.type, self.result.type))
        if sorted(dims) != list(range(len(a))) or [a[i] for i in dims] != list(b):
            raise VerifyException(f"permutation {dims} does not take shape {list(a)} to {list(b)}")


@irdl_attr_definition
class PrintPunctuationAttr(BracketedKeywordAttr):
    """`#vector.punctuation<newline>`."""

    name = "vector.punctuation"
    choices = ("no_punctuation", "newline", "comma", "open", "close")


@irdl_op_definition
class PrintOp(IRDLOperation):
    """Output on the host: `vector.print %v : f32 punctuation <no_punctuation>`, `vector.print str "x"`."""

    name = "vector.print"
    source = opt_operand_def()
    stringLiteral = opt_prop_def(StringAttr)
    punctuation = prop_def(PrintPunctuationAttr, default_value=PrintPunctuationAttr("newline"))

    @classmethod
    def parse(cls, parser: Parser) -> PrintOp:
        unresolved = parser.parse_optional_unresolved_operand()
        operands: list[SSAValue] = []
        if unresolved is not None:
            parser.parse_punctuation(":")
            operands = [parser.resolve_operand(unresolved, parser.parse_type())]
        props: dict[str, Attribute] = {}
        while True:
            if parser.parse_optional_keyword("str") is not None:
                props["stringLiteral"] = StringAttr(parser.parse_str_literal())
            elif parser.parse_optional_keyword("punctuation") is not None:
                props["punctuation"] = PrintPunctuationAttr(PrintPunctuationAttr.parse_parameter(parser))
            else:
                break
        attrs = parser.parse_optional_attr_dict()
        return cls.create(operands=operands, properties=props, attributes=attrs)

    def print(self, printer: Printer) -> None:
        if self.source is not None:
            write(printer, " ", self.source, " : ", self.source.type)
        if self.stringLiteral is not None:
            write(printer, " str ", self.stringLiteral)
        if self.punctuation.data != "newline":
            printer.print_string(" punctuation ")
            self.punctuation.print_parameter(printer)
        printer.print_op_attributes(self.attributes)


Vector = Dialect(
    "vector",
    [
        *(op for op in xvector.Vector.operations if op.name != "vector.print"),
        ExtractStridedSliceOp,
        InsertStridedSliceOp,
        FromElementsOp,
        ToElementsOp,
        ShapeCastOp,
        TransposeOp,
        PrintOp,
    ],
    [*xvector.Vector.attributes, PrintPunctuationAttr],
)
