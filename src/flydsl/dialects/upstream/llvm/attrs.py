"""Attributes of `llvm` that xDSL lacks: hints on loops, ranges of values."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import IntegerAttr, IntegerType, i1, i32
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ....ir.op_text import write

LOOP_ATTRIBUTE = "llvm.loop_annotation"
"""What is asked of a loop: an attribute of the loop, then of the branch that closes it."""
_UNROLL_FIELDS = ("disable", "count", "runtimeDisable", "full", "followupUnrolled", "followupRemainder", "followupAll")


@irdl_attr_definition
class LoopUnrollAttr(Data[tuple[tuple[str, Attribute], ...]]):
    """`#llvm.loop_unroll<full = true>`, `#llvm.loop_unroll<count = 4 : i32>`."""

    name = "llvm.loop_unroll"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, Attribute], ...]:
        def field() -> tuple[str, Attribute]:
            word = parser.parse_identifier()
            if word not in _UNROLL_FIELDS:
                parser.raise_error(f"expected one of {', '.join(_UNROLL_FIELDS)}, got '{word}'")
            parser.parse_punctuation("=")
            return word, parser.parse_attribute()

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, field))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<")

        def field(pair: tuple[str, Attribute]) -> None:
            write(printer, f"{pair[0]} = ", pair[1])

        printer.print_list(self.data, field)
        printer.print_string(">")


@irdl_attr_definition
class LoopAnnotationAttr(Data[LoopUnrollAttr]):
    """`#llvm.loop_annotation<unroll = <full = true>>`: what is asked of a loop, on its back edge."""

    name = "llvm.loop_annotation"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> LoopUnrollAttr:
        parser.parse_punctuation("<")
        parser.parse_keyword("unroll")
        parser.parse_punctuation("=")
        given = parser.parse_optional_attribute()
        if given is None:
            given = LoopUnrollAttr(LoopUnrollAttr.parse_parameter(parser))
        parser.parse_punctuation(">")
        if not isinstance(given, LoopUnrollAttr):
            parser.raise_error(f"expected #llvm.loop_unroll, got {given}")
        return given

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<unroll = ")
        self.data.print_parameter(printer)
        printer.print_string(">")


def unroll_annotation(count: int | None) -> LoopAnnotationAttr:
    """Unroll a loop `count` times, or completely."""
    if count is None:
        return LoopAnnotationAttr(LoopUnrollAttr((("full", IntegerAttr(1, i1)),)))
    return LoopAnnotationAttr(LoopUnrollAttr((("count", IntegerAttr(count, i32)),)))


@irdl_attr_definition
class ConstantRangeAttr(Data[tuple[int, int, int]]):
    """`#llvm.constant_range<i32, 0, 64>`: width, first value, end."""

    name = "llvm.constant_range"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[int, int, int]:
        parser.parse_punctuation("<")
        type_: Any = parser.parse_type()
        if not isinstance(type_, IntegerType):
            parser.raise_error(f"expected an integer type, got {type_}")
        parser.parse_punctuation(",")
        low = parser.parse_integer()
        parser.parse_punctuation(",")
        high = parser.parse_integer()
        parser.parse_punctuation(">")
        return cast(int, cast(Any, type_).width.data), low, high

    def print_parameter(self, printer: Printer) -> None:
        width, low, high = self.data
        printer.print_string(f"<i{width}, {low}, {high}>")


LLVM_ATTRS = [LoopUnrollAttr, LoopAnnotationAttr, ConstantRangeAttr]
"""The attributes of this file."""
