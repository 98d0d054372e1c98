"""A parser that remembers where each op was written. xDSL's own drops that, so errors about parsed IR had no place."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr, UnknownLoc
from xdsl.ir import Operation
from xdsl.parser import Parser


class LocatedParser(Parser):
    """Stamps every op without a written location with `file:line:column` of its name."""

    def __init__(self, context: Context, text: str, name: str, first_line: int = 1):
        super().__init__(context, text, name)
        self._file = StringAttr(name)
        self._line_starts = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]
        self._first_line = first_line
        self._starts: list[int] = []

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both from 1."""
        line = bisect_right(self._line_starts, offset)
        return self._first_line + line - 1, offset - self._line_starts[line - 1] + 1

    def _parse_op_result_list(self) -> Any:
        found = super()._parse_op_result_list()
        self._starts.append(self._current_token.span.start)
        return found

    def parse_operation(self) -> Operation:
        op = super().parse_operation()
        start = self._starts.pop()
        if isinstance(op.location, UnknownLoc):
            line, column = self.position(start)
            op.location = FileLineColLoc(self._file, IntAttr(line), IntAttr(column))
        return op
