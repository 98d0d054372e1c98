"""A parser that remembers where each op was written. xDSL's own drops that, so errors about parsed IR had no place."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    ModuleOp,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Operation
from xdsl.parser import AttrParser, Parser
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind, StringLiteral

from .forms import FORMS
from .location_text import with_function


class Lexer(MLIRLexer):
    """xDSL's lexer, whose own pattern takes exponential time to find that a string is not closed.

    To xDSL, text with a letter beyond ASCII that is written in escapes, as its printer and MLIR's do, is bytes.
    """

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def _lex_string_literal(self, start_pos: int) -> Token[MLIRTokenKind]:
        found = super()._lex_string_literal(start_pos)
        if found.kind is MLIRTokenKind.BYTES_LIT:
            try:
                cast(StringLiteral, found.span).bytes_contents.decode()
            except UnicodeDecodeError:
                return found
            return Token(MLIRTokenKind.STRING_LIT, found.span)
        return found


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


class _Aliases(dict[str, Attribute]):
    """Aliases by name. MLIR writes those of locations at the end of a file: one that is not there yet is looked up."""

    def __init__(self, find: Callable[[str], Attribute | None]):
        super().__init__()
        self._find = find

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and self._late(name))

    def _late(self, name: str) -> bool:
        found = self._find(name)
        if found is not None:
            self[name] = found
        return found is not None


_ALIAS = re.compile(r"^(#[A-Za-z_][\w$.]*)[ \t]*=[ \t]*", re.MULTILINE)


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
        self._located = False
        self._text = text
        self._late: dict[str, int] | None = None
        self._early: set[str] = set()
        self.attribute_aliases = _Aliases(self._alias_further_on)

    def _alias_further_on(self, name: str) -> Attribute | None:
        """The alias of a name that is defined behind the place where it is used, or None."""
        at = self._defined_at().pop(name, None)
        if at is None:
            return None
        state = self._parser_state
        lexer, token = cast(Any, state.lexer), state.current_token
        position = lexer.pos
        self._early.add(name)
        lexer.pos = at
        state.current_token = lexer.lex()
        value = self.parse_attribute()
        lexer.pos, state.current_token = position, token
        return value

    def _parse_alias_def(self) -> None:
        name = self._current_token.text
        if name in self._early:
            self._early.remove(name)
            del self.attribute_aliases[name]
        self._defined_at().pop(name, None)
        super()._parse_alias_def()

    def _defined_at(self) -> dict[str, int]:
        """Where the aliases are defined that nobody has asked for yet."""
        if self._late is None:
            self._late = {found[1]: found.end() for found in _ALIAS.finditer(self._text)}
        return self._late

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

    def _parse_location(self) -> LocationAttr:
        """A location as MLIR writes it, one that has metadata or the name of its function included."""
        if not self.parse_optional_keyword("fused"):
            return with_function(super()._parse_location())
        metadata: Attribute = NoneAttr()
        if self.parse_optional_punctuation("<") is not None:
            metadata = self.parse_attribute()
            self.parse_punctuation(">")
        parts = self.parse_comma_separated_list(self.Delimiter.SQUARE, self._parse_location)
        return FusedLoc(ArrayAttr[Attribute](parts), metadata)

    def parse_optional_location(self) -> LocationAttr | None:
        found = super().parse_optional_location()
        self._located = found is not None
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
        # One that is written is kept, also where it says that nothing is known.
        if isinstance(op.location, UnknownLoc) and not self._located:
            line, column = self.position(start)
            op.location = FileLineColLoc(self._file, IntAttr(line), IntAttr(column))
        for region in op.regions:
            end = None if region.blocks.last is None else region.blocks.last.last_op
            if end is not None and isinstance(end.location, UnknownLoc):
                end.location = op.location  # a terminator that is not written is where the op is, as in MLIR
        return op
