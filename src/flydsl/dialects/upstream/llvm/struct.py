"""`!llvm.struct`: literal structs, packed or not. xDSL's knows no packed ones."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute, Data, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer


@irdl_attr_definition
class StructType(Data[tuple[bool, tuple[Attribute, ...]]], TypeAttribute):
    """`!llvm.struct<packed (i32, i64)>`: literal structs, packed or not."""

    name = "llvm.struct"

    @property
    def packed(self) -> bool:
        return self.data[0]

    @property
    def fields(self) -> tuple[Attribute, ...]:
        return self.data[1]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[bool, tuple[Attribute, ...]]:
        parser.parse_punctuation("<")
        packed = parser.parse_optional_keyword("packed") is not None
        fields = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: cls.parse_field(parser))
        parser.parse_punctuation(">")
        return packed, tuple(fields)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<packed (" if self.packed else "<(")
        printer.print_list(self.fields, lambda t: self.print_field(printer, t))
        printer.print_string(")>")

    @classmethod
    def parse_field(cls, parser: AttrParser) -> Attribute:
        """A type inside a struct or function type, where those of this dialect may stand without their prefix."""
        if parser.parse_optional_keyword("struct") is not None:
            return cls(cls.parse_parameter(parser))
        return xllvm.parse_llvm_type(parser)

    @staticmethod
    def print_field(printer: Printer, type_: Attribute) -> None:
        """Types of this dialect stand inside a struct without their prefix."""
        if isinstance(type_, StructType):
            printer.print_string("struct")
            type_.print_parameter(printer)
        elif isinstance(type_, LLVMPointerType):
            printer.print_string("ptr")
            type_.print_parameters(printer)
        else:
            printer.print_attribute(type_)


_packed: dict[tuple[Attribute, ...], StructType] = {}


def packed_struct(fields: Sequence[Attribute]) -> StructType:
    """`!llvm.struct<packed (...)>`, interned."""
    key = tuple(fields)
    found = _packed.get(key)
    if found is None:
        found = _packed[key] = StructType((True, key))
    return found
