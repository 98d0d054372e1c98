"""The source of a decorated function, and errors that point into it.

The text is read once, when the function is decorated. It is parsed at its own indentation (under an `if 1:`), so line
and column numbers are those of the user's file and text inside multi-line strings is not touched.
"""

from __future__ import annotations
import __future__

import ast
import functools
import inspect
import linecache
import os
import time
import tokenize
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, NoReturn, TypeVar

from ....errors import RejectedSyntaxError, SourceUnavailableError
from ....expr.emit.trace import maybe_current
from ...key.cache_key import encode
from ...key.names import code_record
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


R = TypeVar("R")

FUTURE = functools.reduce(int.__or__, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names))
"""Flags of code objects that tell which `from __future__` imports their file has."""
_texts: dict[str, list[list[str]]] = {}
"""Lines of each file as they were read, those first that a function was found in last."""
_MOST_TEXTS = 4


def read_source(fn: FunctionType) -> FunctionSource:
    """Find and parse the definition of a function.

    A file may be edited after it was imported, and the function is what was imported. Where the file was written while
    this process ran, the definition is that one whose code the function has, in the text of now or in an earlier one.
    """
    code = fn.__code__
    if code.co_name == "<lambda>":
        raise SourceUnavailableError(
            f"a lambda cannot be traced on its own ({code.co_filename}:{code.co_firstlineno}): its source cannot be "
            "told apart from the statement around it; write it as a def"
        )
    # `inspect.getsourcelines` first looks for the module in all there are, thousands beside torch; linecache needs the
    # file's name alone, and knows names such as "<generated>", on which inspect gives up.
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, fn.__globals__)
    known = _texts.setdefault(code.co_filename, [])
    if not any(lines is text or lines == text for text in known):
        known.insert(1, lines)
        del known[_MOST_TEXTS:]
    if len(known) == 1 and not _written_meanwhile(code.co_filename):
        return _definition(fn, lines, code.co_firstlineno)
    for text in known:
        first = _place_of(code, text)
        if first:
            if text is not known[0]:
                known.remove(text)
                known.insert(0, text)
            return _definition(fn, text, first)
    if maybe_current() is not None:  # a definition inside a function that was rewritten: from the text that it is of
        return _definition(fn, known[0], code.co_firstlineno)
    found = _definition(fn, lines, code.co_firstlineno)  # what is wrong there may be told more exactly
    if _compiled_otherwise(fn):
        return found
    raise _stale(fn, "the lines found there give other code")


def _compiled_otherwise(fn: FunctionType) -> bool:
    """Whether something else than Python's own import has made the code, as pytest does of tests: it has no equal."""
    loader: object = fn.__globals__.get("__loader__")
    return loader is not None and type(loader).__module__.partition(".")[0] not in (
        "importlib",
        "_frozen_importlib_external",
    )


def _place_of(code: CodeType, lines: list[str]) -> int:
    """The line at which a text has the definition that gives a code, the nearest one; 0 if there is none."""
    wanted = encode(code_record(code, positions=False))
    found = [
        each.co_firstlineno
        for each in _codes_of("".join(lines), code.co_filename, code.co_flags & FUTURE)
        if each.co_qualname == code.co_qualname and encode(code_record(each, positions=False)) == wanted
    ]
    return min(found, key=lambda line: abs(line - code.co_firstlineno), default=0)


@functools.lru_cache(maxsize=4)
def _codes_of(text: str, path: str, flags: int) -> list[CodeType]:
    """The code of a text and all code inside it, as a whole and statement by statement.

    Notebooks and servers run statements one by one; Python calls what is imported in the same unit in another way.
    """

    def compiled() -> list[CodeType]:
        lines = [f"{line}\n" for line in text.split("\n")]
        units = [text, *(_alone(lines, statement) for statement in _statements(ast.parse(text, path).body))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python has shown them
            return [compile(unit, path, "exec", flags, dont_inherit=True) for unit in units]

    try:
        found = _with_whole_stack(compiled)
    except (SyntaxError, ValueError):
        return []
    for code in found:
        found += [each for each in code.co_consts if isinstance(each, CodeType)]
    return found


def _with_whole_stack(work: Callable[[], R]) -> R:
    """What `work` gives, if need be in a thread of its own.

    How deep Python's compiler may go is what the calls around it leave: fewer here, maybe, than where it was imported.
    """
    try:
        return work()
    except RecursionError:
        from concurrent.futures import ThreadPoolExecutor  # which imports of this package leave out

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(work).result()


def _statements(body: list[ast.stmt]) -> Generator[ast.stmt]:
    """Statements that may be run by themselves, those under a condition among them."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If):
            yield from _statements(statement.body)


def _alone(lines: list[str], statement: ast.stmt) -> str:
    """The text of a statement at its place, without what is around it.

    It is compiled from text, as Python did: of a syntax tree the compiler takes less depth.
    """
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    first = min((node.lineno for node in decorators), default=statement.lineno)
    return _at_place("".join(lines[first - 1 : statement.end_lineno]), first)


def _at_place(text: str, first: int) -> str:
    """Text at any indentation, such that it begins at a line. Empty lines in front cost nothing to parse."""
    return "\n" * (first - 2) + f"if 1:\n{text}" if text[:1] in (" ", "\t") else "\n" * (first - 1) + text


def _written_meanwhile(path: str) -> bool:
    """Whether a file was written or put in its place since this process began."""
    try:
        about = os.stat(path)
    except OSError:
        return False
    return max(about.st_mtime, about.st_ctime) >= _began()


@functools.cache
def _began() -> float:
    """When this process began; where the system does not say, when this module was imported."""
    try:
        with open("/proc/self/stat") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        with open("/proc/uptime") as file:
            up = float(file.read().split()[0])
        return time.time() - up + ticks / os.sysconf("SC_CLK_TCK") - 0.1  # clocks of files are coarse
    except (OSError, ValueError, IndexError, AttributeError):
        return _imported


_imported = time.time()


def _definition(fn: FunctionType, lines: list[str], first: int) -> FunctionSource:
    """The definition of a function that begins at one of the lines of its file."""
    code = fn.__code__
    text = "".join(_block(fn, lines, first))
    if not text.strip():  # an empty file is one empty line from Python 3.13 on
        raise _stale(fn, "there are no lines")
    try:
        node = _with_whole_stack(lambda: parse_definition(text, first))
    except SyntaxError as error:
        raise _stale(fn, f"the lines found there do not parse ({error.msg})") from error
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name != code.co_name:
        raise _stale(fn, f"the lines found there do not define '{code.co_name}'")
    if len(node.args.posonlyargs) + len(node.args.args) != code.co_argcount:
        raise _stale(fn, "the parameters found there are others")
    return FunctionSource(code.co_filename, first, text, node)


def parse_definition(text: str, first_line: int = 2) -> Any:
    """The statement in a piece of source, at any indentation, with line numbers that start at `first_line`."""
    node = ast.parse(_at_place(text, first_line)).body[0]
    return node.body[0] if text[:1] in (" ", "\t") and isinstance(node, ast.If) else node


def _block(fn: FunctionType, lines: list[str], first: int) -> list[str]:
    """The lines of a definition, of those of its file."""
    code = fn.__code__
    if len(lines) >= first:
        try:
            return inspect.getblock(lines[first - 1 :])
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
