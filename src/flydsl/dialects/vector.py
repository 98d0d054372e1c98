"""What xDSL's `vector` dialect lacks, with upstream's text form."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects import vector as xvector
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, VectorType, i64
from xdsl.ir import Attribute, Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure


def _ints(attr: ArrayAttr[Any]) -> list[int]:
    return [a.value.data for a in attr.data]


def _array(values: list[int]) -> ArrayAttr[Any]:
    return ArrayAttr([IntegerAttr(v, i64) for v in values])


def _print_lists(printer: Printer, op: IRDLOperation, names: tuple[str, ...]) -> None:
    lists = ", ".join(f"{n} = {_ints(cast(Any, op.properties[n]))}" for n in names)
    printer.print_string(f" {{{lists}}}")


def _parse_lists(parser: Parser, names: tuple[str, ...]) -> dict[str, Attribute]:
    attrs = parser.parse_optional_attr_dict()
    for name in names:
        if name not in attrs:
            parser.raise_error(f"expected '{name}'")
    return attrs


@irdl_op_definition
class ExtractStridedSliceOp(IRDLOperation):
    """`vector.extract_strided_slice %v {offsets = [2], sizes = [4], strides = [1]} : vector<8xf32> to
    vector<4xf32>`.
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
        return {"offsets": _array([offset]), "sizes": _array([size]), "strides": _array([1])}

    @classmethod
    def parse(cls, parser: Parser) -> ExtractStridedSliceOp:
        source = parser.parse_unresolved_operand()
        props = _parse_lists(parser, ("offsets", "sizes", "strides"))
        parser.parse_punctuation(":")
        from_type = parser.parse_type()
        parser.parse_keyword("to")
        to_type = parser.parse_type()
        operand = parser.resolve_operand(source, from_type)
        return cast(ExtractStridedSliceOp, cls.create(operands=[operand], result_types=[to_type], properties=props))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.source)
        _print_lists(printer, self, ("offsets", "sizes", "strides"))
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" to ")
        printer.print_attribute(self.result.type)


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
        return {"offsets": _array([offset]), "strides": _array([1])}

    @classmethod
    def parse(cls, parser: Parser) -> InsertStridedSliceOp:
        pos = parser.pos
        source = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        dest = parser.parse_unresolved_operand()
        props = _parse_lists(parser, ("offsets", "strides"))
        parser.parse_punctuation(":")
        from_type = parser.parse_type()
        parser.parse_keyword("into")
        to_type = parser.parse_type()
        operands = parser.resolve_operands([source, dest], [from_type, to_type], pos)
        return cast(InsertStridedSliceOp, cls.create(operands=operands, result_types=[to_type], properties=props))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.source)
        printer.print_string(", ")
        printer.print_operand(self.dest)
        _print_lists(printer, self, ("offsets", "strides"))
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" into ")
        printer.print_attribute(self.dest.type)


@irdl_op_definition
class FromElementsOp(IRDLOperation):
    """`vector.from_elements %a, %b : vector<2xf32>`."""

    name = "vector.from_elements"
    elements = var_operand_def()
    result = result_def(VectorType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> FromElementsOp:
        pos = parser.pos
        unresolved = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_unresolved_operand)
        attrs = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        elem = cast(Attribute, cast(Any, type_).element_type)
        operands = parser.resolve_operands(unresolved, [elem] * len(unresolved), pos)
        return cast(FromElementsOp, cls.create(operands=operands, result_types=[type_], attributes=attrs))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.elements, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


Vector = Dialect(
    "vector",
    [*xvector.Vector.operations, ExtractStridedSliceOp, InsertStridedSliceOp, FromElementsOp],
    [*xvector.Vector.attributes],
)
