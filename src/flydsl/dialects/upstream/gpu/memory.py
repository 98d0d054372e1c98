"""`#gpu.address_space`: which memory a memref is in."""

from __future__ import annotations

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

SPACES = ("global", "workgroup", "private", "constant")


@irdl_attr_definition
class AddressSpaceAttr(Data[str]):
    """`#gpu.address_space<workgroup>`."""

    name = "gpu.address_space"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        parser.parse_punctuation("<")
        word = parser.parse_identifier()
        if word not in SPACES:
            parser.raise_error(f"expected one of {', '.join(SPACES)}, got '{word}'")
        parser.parse_punctuation(">")
        return word

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


__all__ = ["AddressSpaceAttr"]
