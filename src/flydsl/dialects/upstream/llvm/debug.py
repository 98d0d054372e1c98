"""Debug information of `llvm` as attributes, as much as line tables need: files, compile units, functions.

A function has its `#llvm.di_subprogram` in its location: `loc(fused<#llvm.di_subprogram<...>>["kernel.py":3:1])`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

EMISSIONS = ("None", "Full", "LineTablesOnly", "DebugDirectivesOnly")
"""How much is emitted for a compile unit."""


@irdl_attr_definition
class FileAttr(Data[tuple[str, str]]):
    """`#llvm.di_file<"kernel.py" in "/home/me">`."""

    name = "llvm.di_file"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str, str]:
        parser.parse_punctuation("<")
        name = parser.parse_str_literal()
        parser.parse_keyword("in")
        folder = parser.parse_str_literal()
        parser.parse_punctuation(">")
        return name, folder

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<")
        printer.print_string_literal(self.data[0])
        printer.print_string(" in ")
        printer.print_string_literal(self.data[1])
        printer.print_string(">")


class Distinct(str):
    """`distinct[3]<>`: what makes two equal nodes different."""


class Word(str):
    """A word without quotes."""


Field = tuple[str, Any]


class _FieldsAttr(Data[tuple[Field, ...]]):
    """`#llvm.di_x<key = value, ...>`; a value is an attribute, a number, a text, a word or `distinct[n]<>`."""

    NAMES: ClassVar[tuple[str, ...]]

    def field(self, name: str, default: Any = None) -> Any:
        return dict(self.data).get(name, default)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Field, ...]:
        def one() -> Field:
            name = parser.parse_identifier()
            if name not in cls.NAMES:
                parser.raise_error(f"expected one of {', '.join(cls.NAMES)}, got '{name}'")
            parser.parse_punctuation("=")
            word = parser.parse_optional_identifier()
            if word == "distinct":
                parser.parse_punctuation("[")
                number = parser.parse_integer()
                parser.parse_punctuation("]")
                parser.parse_punctuation("<")
                parser.parse_punctuation(">")
                return name, Distinct(number)
            if word is not None:
                return name, Word(word)
            text = parser.parse_optional_str_literal()
            if text is not None:
                return name, text
            number = parser.parse_optional_integer()
            return name, parser.parse_attribute() if number is None else number

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, one))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<")

        def one(pair: Field) -> None:
            name, value = pair
            printer.print_string(f"{name} = ")
            if isinstance(value, Attribute):
                printer.print_attribute(value)
            elif isinstance(value, Distinct):
                printer.print_string(f"distinct[{value}]<>")
            elif isinstance(value, str) and not isinstance(value, Word):
                printer.print_string_literal(value)
            else:
                printer.print_string(str(value))

        printer.print_list(self.data, one)
        printer.print_string(">")


@irdl_attr_definition
class CompileUnitAttr(_FieldsAttr):
    """`#llvm.di_compile_unit<id = distinct[0]<>, ..., emissionKind = LineTablesOnly>`."""

    name = "llvm.di_compile_unit"
    NAMES = ("id", "sourceLanguage", "file", "producer", "isOptimized", "emissionKind", "nameTableKind")


@irdl_attr_definition
class SubroutineTypeAttr(_FieldsAttr):
    """`#llvm.di_subroutine_type<callingConvention = DW_CC_normal>`."""

    name = "llvm.di_subroutine_type"
    NAMES = ("callingConvention", "types")


@irdl_attr_definition
class SubprogramAttr(_FieldsAttr):
    """`#llvm.di_subprogram<id = distinct[1]<>, compileUnit = ..., name = "kernel", ...>`."""

    name = "llvm.di_subprogram"
    NAMES = (
        "recId", "isRecSelf", "id", "compileUnit", "scope", "name", "linkageName", "file", "line", "scopeLine",
        "subprogramFlags", "type",
    )  # fmt: skip

    @property
    def emission(self) -> str:
        """How much is emitted for the unit the function is in."""
        unit = self.field("compileUnit")
        return str(unit.field("emissionKind", "Full")) if isinstance(unit, CompileUnitAttr) else "None"


LLVM_DEBUG_ATTRS = [FileAttr, CompileUnitAttr, SubroutineTypeAttr, SubprogramAttr]
"""The attributes of this file."""
