"""IR as lines of text, each with the source line its op comes from."""

from __future__ import annotations

import re

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from flydsl.ir.locations import frames_of
from flydsl.ir.printer import IRPrinter
from flydsl.llvm.text.source_lines import SourceLine

Lines = list[tuple[str, SourceLine | None]]

_MARK = re.compile(r" ?\x01(\d+)\x02")


class _MarkingPrinter(IRPrinter):
    """Prints a number for each location: written out, file names would be most of the text."""

    def __init__(self) -> None:
        super().__init__(debuginfo=True)
        self.found: dict[Attribute, int] = {}

    def location(self, location: Attribute) -> str:
        return f"\x01{self.found.setdefault(location, len(self.found))}\x02"


def ir_lines(module: ModuleOp) -> Lines:
    """A module as printed without locations; the mark on a line is that of its op."""
    printer = _MarkingPrinter()
    printer.print_op(module)
    places = [_line(location) for location in printer.found]
    lines: Lines = []
    for line in printer.text().split("\n"):
        marks = _MARK.findall(line)
        lines.append((_MARK.sub("", line), places[int(marks[-1])]) if marks else (line, None))
    return lines


def _line(location: Attribute) -> SourceLine | None:
    frames = frames_of(location)
    return SourceLine(frames[-1].filename.data, frames[-1].line.data) if frames else None
