"""A parser that remembers where each op was written. xDSL's own drops that, so errors about parsed IR had no place."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import Operation
from xdsl.parser import AttrParser, Parser
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from .forms import FORMS


class Lexer(MLIRLexer):
    """xDSL's lexer, whose own pattern takes exponential time to find that a string is not closed."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


class _Written:
    """What the parser asks of a class of ops, by a form of ours."""

    def __init__(self, parse: Callable[[Parser], Operation], dialect_name: Callable[[], str]):
        self.parse, self.dialect_name = parse, dialect_name


class _Element(AttrParser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
    """An element of a dense attribute. xDSL reads the bits of an infinity, written as MLIR writes them, as a number."""

    def to_type(self, parser: AttrParser, type: Any) -> Any:
        if isinstance(type, AnyFloat) and isinstance(self.value, int) and self.span.text[:2] in ("0x", "0X"):
            (value,) = type.unpack(self.value.to_bytes(type.size, "little"), 1)
            return value
        return super().to_type(parser, type)


class LocatedParser(Parser):
    """Stamps every op without a written location with `file:line:column` of its name.

    Nothing is read before `parse_module`, so every mistake in the text is a `ParseError` of that.
    """

    def __init__(self, context: Context, text: str, name: str, first_line: int = 1):
        super().__init__(context, "", name)
        self._lexer = Lexer(Input(text, name))
        self._file = StringAttr(name)
        self._line_starts = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]
        self._first_line = first_line
        self._starts: list[int] = []

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both from 1."""
        line = bisect_right(self._line_starts, offset)
        return self._first_line + line - 1, offset - self._line_starts[line - 1] + 1

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """The ops of the text, none for an empty one."""
        try:
            self._parser_state.lexer = self._lexer
            self._parser_state.current_token = self._lexer.lex()
            if self._current_token.kind is MLIRTokenKind.EOF:
                return ModuleOp([])
            return super().parse_module(allow_implicit_module)
        except ParseError:
            raise
        except Exception as error:
            # Attributes and types refuse what they are made of without knowing where it was written.
            raise ParseError(self._current_token.span, str(error).strip() or "this cannot be parsed") from error

    def _parse_tensor_literal_element(self) -> _Element:
        found = super()._parse_tensor_literal_element()
        return _Element(found.is_negative, found.value, found.span)

    def parse_optional_argument(self, expect_type: bool = True) -> Any:
        """An argument of a block or function; what `--mlir-print-debuginfo` writes behind it is passed over."""
        found: object = super().parse_optional_argument(expect_type)
        if found is not None and expect_type:
            self.parse_optional_location()
        return found

    def _get_op_by_name(self, name: str) -> type[Operation]:
        """The class of an op, or the form it is written in where xDSL does not know that."""
        found = super()._get_op_by_name(name)
        form = FORMS.get(found.name)
        if form is None or form.parse is None or self._current_token.kind is not form.parsed:
            return found
        return cast("type[Operation]", _Written(form.parse, found.dialect_name))

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
