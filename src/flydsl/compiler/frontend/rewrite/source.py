"""The source of a decorated function, and errors that point into it.

The text is read once, when the function is decorated. It is parsed at its own indentation (under an `if 1:`), so line
and column numbers are those of the user's file and text inside multi-line strings is not touched.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import tokenize
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NoReturn

from ....errors import RejectedSyntaxError, SourceUnavailableError
from .typed_in import how_to, typed_in


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """What was read at decoration."""

    filename: str
    first_line: int
    """Line of the first decorator, or of the `def`."""
    text: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    """The parsed definition, with positions of the user's file."""


class NotImplementedSyntaxError(RejectedSyntaxError, NotImplementedError):
    """A construct that could be traced but is not."""


_filename: ContextVar[str] = ContextVar("flydsl_rewrite_filename", default="<unknown>")


@contextmanager
def rewriting(filename: str) -> Generator[None]:
    """The file that `reject` speaks of."""
    token = _filename.set(filename)
    try:
        yield
    finally:
        _filename.reset(token)


def filename() -> str:
    """The file of the function being rewritten."""
    return _filename.get()


def reject(node: ast.AST, reason: str, remedy: str, error: type[RejectedSyntaxError] = RejectedSyntaxError) -> NoReturn:
    """Refuse a construct of the function being rewritten."""
    line: int = getattr(node, "lineno", 1)
    end: tuple[int, int] = getattr(node, "end_lineno", None) or line, getattr(node, "end_col_offset", None) or 0
    raise error(f"{reason}; {remedy}", _filename.get(), line, getattr(node, "col_offset", 0), *end)


def read_source(fn: FunctionType) -> FunctionSource:
    """Find and parse the definition of a function."""
    code = fn.__code__
    if code.co_name == "<lambda>":
        raise SourceUnavailableError(
            f"a lambda cannot be traced on its own ({code.co_filename}:{code.co_firstlineno}): its source cannot be "
            "told apart from the statement around it; write it as a def"
        )
    text, first = "".join(_source_lines(fn)), code.co_firstlineno
    try:
        node = parse_definition(text, first)
    except SyntaxError as error:
        raise _stale(fn, f"the lines found there do not parse ({error.msg})") from error
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name != code.co_name:
        raise _stale(fn, f"the lines found there do not define '{code.co_name}'")
    if len(node.args.posonlyargs) + len(node.args.args) != code.co_argcount:
        raise _stale(fn, "the parameters found there are others")
    return FunctionSource(code.co_filename, first, text, node)


def parse_definition(text: str, first_line: int = 2) -> Any:
    """The statement in a piece of source, at any indentation, with line numbers that start at `first_line`."""
    indented = text[:1] in (" ", "\t")
    # Empty lines in front cost nothing to parse; ast.increment_lineno would visit every node.
    above = "\n" * (first_line - 2) + "if 1:\n" if indented else "\n" * (first_line - 1)
    node = ast.parse(above + text).body[0]
    return node.body[0] if indented and isinstance(node, ast.If) else node


def _source_lines(fn: FunctionType) -> list[str]:
    code = fn.__code__
    # `inspect.getsourcelines` first looks for the module in all there are, thousands beside torch; linecache needs the
    # file's name alone, and knows names such as "<generated>", on which inspect gives up.
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, fn.__globals__)
    if len(lines) >= code.co_firstlineno:
        try:
            return inspect.getblock(lines[code.co_firstlineno - 1 :])
        except (SyntaxError, tokenize.TokenError) as error:
            raise _stale(fn, f"the lines found there do not parse ({error.args[0]})") from error
    try:
        return inspect.getsourcelines(code)[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        pass
    lines = typed_in(fn) or []
    if len(lines) >= code.co_firstlineno:
        return inspect.getblock(lines[code.co_firstlineno - 1 :])
    raise SourceUnavailableError(
        f"the source of '{fn.__qualname__}' cannot be found (it claims to come from {code.co_filename}, line "
        f"{code.co_firstlineno}), and control flow can only be traced from source. {how_to(code.co_filename)}"
    )


def _stale(fn: FunctionType, why: str) -> SourceUnavailableError:
    code = fn.__code__
    next_step = "The file has probably been edited since; reload the module or restart Python"
    if code.co_filename == "<stdin>":
        next_step = how_to(code.co_filename)
    return SourceUnavailableError(
        f"the source of '{fn.__qualname__}' at {code.co_filename}, line {code.co_firstlineno}, is not what was "
        f"imported: {why}. {next_step}"
    )
