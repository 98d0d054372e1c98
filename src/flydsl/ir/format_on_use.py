"""Assembly formats of xDSL's ops, read when an op is first printed or parsed.

xDSL reads the format of an op where its class is defined: a fifth of what importing its dialects takes, while a
compilation neither prints nor parses any of them.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl.irdl import IRDLOperation, OpDef
    from xdsl.irdl.declarative_assembly_format import FormatProgram
    from xdsl.parser import Parser
    from xdsl.printer import Printer


class FormatOnUse:
    """The two methods that xDSL calls of a format's program."""

    def __init__(self, text: str, op: OpDef):
        self._text, self._op = text, op
        self._program: FormatProgram | None = None

    def _made(self) -> FormatProgram:
        if self._program is None:
            from xdsl.irdl.declarative_assembly_format_parser import FormatParser

            self._program = FormatParser(self._text, self._op).parse_format()
        return self._program

    def parse(self, parser: Parser, op_type: type[Any]) -> IRDLOperation:
        return self._made().parse(parser, op_type)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        self._made().print(printer, op)


_later: ContextVar[bool] = ContextVar("flydsl_formats_on_use", default=False)


@cache
def _install() -> None:
    """Let xDSL ask here what becomes of a format; outside of `formats_on_use` nothing changes."""
    from xdsl.irdl.declarative_assembly_format import FormatProgram

    at_once = FormatProgram.from_str

    def from_str(text: str, op: OpDef) -> FormatProgram | FormatOnUse:
        return FormatOnUse(text, op) if _later.get() else at_once(text, op)

    FormatProgram.from_str = staticmethod(from_str)  # pyright: ignore[reportAttributeAccessIssue]


@contextmanager
def formats_on_use() -> Generator[None]:
    """Classes of ops that are defined inside read their formats later: for imports of dialects known to be right."""
    _install()
    token = _later.set(True)
    try:
        yield
    finally:
        _later.reset(token)
