"""Attributes that are one word out of a fixed list, written `#gpu<dim x>`."""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import Data, SpacedOpaqueSyntaxAttribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer


class KeywordAttr(Data[str], SpacedOpaqueSyntaxAttribute):
    """A keyword out of a fixed list."""

    choices: ClassVar[tuple[str, ...]]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        start = parser.pos
        word = parser.parse_identifier()
        if word not in cls.choices:
            parser.raise_error(f"expected one of {', '.join(cls.choices)}, got '{word}'", start, start + len(word))
        return word

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data)


__all__ = ["KeywordAttr"]
