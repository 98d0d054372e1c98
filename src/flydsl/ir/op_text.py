"""The text of an op, piece by piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from xdsl.ir import Attribute, SSAValue
from xdsl.parser import AttrParser
from xdsl.printer import Printer

Piece = str | SSAValue | Attribute


def write(printer: Printer, *pieces: Piece | Sequence[Piece] | Mapping[str, Attribute]) -> None:
    """Print text, operands and attributes in a row; several with commas, and a mapping as the dictionary of an op."""
    for piece in pieces:
        if isinstance(piece, str):
            printer.print_string(piece)
        elif isinstance(piece, SSAValue):
            printer.print_operand(piece)
        elif isinstance(piece, Attribute):
            printer.print_attribute(piece)
        elif isinstance(piece, Mapping):
            printer.print_op_attributes(piece)
        else:
            printer.print_list(piece, lambda each: write(printer, each))


def type_after(parser: AttrParser, mark: Literal[":", ",", "(", "->", "to", "into"]) -> Attribute:
    """Read a type behind a mark or a word: `: T`, `to T`."""
    if mark == "to" or mark == "into":
        parser.parse_keyword(mark)
    else:
        parser.parse_punctuation(mark)
    return parser.parse_type()
