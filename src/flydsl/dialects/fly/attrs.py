"""Enum attributes of the `fly` dialect, printed as `#fly<mma_operand a>`."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, ClassVar

from xdsl.ir import Data, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ..enums import GemmTraversalOrder, MmaOperand


class _EnumAttr(Data[Any]):
    """A member of a Python enum, written in lower case."""

    enum: ClassVar[type[IntEnum]]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        words = {member.name.lower(): member for member in cls.enum}
        word = parser.parse_identifier()
        if word not in words:
            parser.raise_error(f"expected one of {', '.join(words)}, got '{word}'")
        return words[word]

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data.name.lower())


@irdl_attr_definition
class MmaOperandAttr(_EnumAttr, SpacedOpaqueSyntaxAttribute):
    """Which operand of an MMA."""

    name = "fly.mma_operand"
    enum = MmaOperand


@irdl_attr_definition
class GemmTraversalOrderAttr(_EnumAttr, SpacedOpaqueSyntaxAttribute):
    """Loop order of a gemm expansion."""

    name = "fly.gemm_traversal_order"
    enum = GemmTraversalOrder
