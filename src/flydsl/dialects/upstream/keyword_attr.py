"""Attributes that are one word out of a fixed list, written `#gpu<dim x>` or `#gpu.address_space<workgroup>`."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from xdsl.ir import Data, SpacedOpaqueSyntaxAttribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer


def parse_word(parser: AttrParser, choices: Collection[str]) -> str:
    """One of some words."""
    start = parser.pos
    word = parser.parse_identifier()
    if word not in choices:
        parser.raise_error(f"expected one of {', '.join(choices)}, got '{word}'", start, start + len(word))
    return word


class KeywordAttr(Data[str], SpacedOpaqueSyntaxAttribute):
    """A keyword out of a fixed list."""

    choices: ClassVar[tuple[str, ...]]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        return parse_word(parser, cls.choices)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data)


class BracketedKeywordAttr(Data[str]):
    """A keyword out of a fixed list, in angle brackets."""

    choices: ClassVar[tuple[str, ...]]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parse_word(parser, cls.choices)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")
