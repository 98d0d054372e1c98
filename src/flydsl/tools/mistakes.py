"""Where in the user's files an exception comes from, as plain data for pages and editors."""

from __future__ import annotations

import itertools
import linecache
import os
import sys
import sysconfig
import traceback
from types import CodeType, TracebackType
from typing import TypedDict

from flydsl.errors import DSLCompileError, FlyDSLError, SourceFrame


class Mistake(TypedDict):
    """One message at a span of a line; lines from 1, columns from 0. Line 0: it has no place in a file."""

    file: str
    line: int
    column: int
    end: int
    message: str


_TRACEBACK = "DSL Traceback"
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY = tuple(
    {os.path.realpath(path) + os.sep for name in ("stdlib", "platstdlib") if (path := sysconfig.get_path(name))}
)


def is_users(filename: str) -> bool:
    """Whether a file is neither ours nor of an installed package nor of Python."""
    real = os.path.realpath(filename)
    if filename.startswith("<") or real.startswith(_OWN):
        return False
    return not real.startswith(_LIBRARY) and f"{os.sep}site-packages{os.sep}" not in real


def mistakes_of(error: BaseException, script: str) -> list[Mistake]:
    """What to show of an exception that ended a script; at least one entry."""
    if isinstance(error, DSLCompileError) and any(record.chain for record in error.diagnostics):
        return [_at(record.chain[-1], record.message) for record in error.diagnostics if record.chain]
    message = _message(error)
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        start = max((error.offset or 1) - 1, 0)
        end = (error.end_offset or 0) - 1 if error.end_lineno == error.lineno else 0
        return [_mistake(error.filename, error.lineno, start, max(end, start + 1), message)]
    frame = _innermost(error)
    return [_at(frame, message)] if frame is not None else [_mistake(script, 0, 0, 0, message)]


def _message(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    # The traceback of the kernel is where the message is shown.
    notes = [note for note in _notes(error) if not note.startswith(_TRACEBACK)]
    text = text.split(f"\n{_TRACEBACK}")[0].strip()
    name = "" if isinstance(error, FlyDSLError) else f"{type(error).__name__}: "
    return "\n".join([f"{name}{text}" if text else type(error).__name__, *notes])


def _notes(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


def came_from_tracing(error: BaseException) -> bool:
    """Whether an exception was raised while the code of a kernel or of a jit function was traced."""
    return isinstance(error, FlyDSLError) or any(note.startswith(_TRACEBACK) for note in _notes(error))


def _at(frame: SourceFrame, message: str) -> Mistake:
    return _mistake(frame.filename, frame.line, frame.col, max(frame.end_col, frame.col + 1), message)


def _mistake(file: str, line: int, column: int, end: int, message: str) -> Mistake:
    return {"file": file, "line": line, "column": column, "end": end, "message": message}


def _innermost(error: BaseException) -> SourceFrame | None:
    """The last place of the user's that the error came through."""
    found: SourceFrame | None = None
    place: TracebackType | None = error.__traceback__
    while place is not None:
        code = place.tb_frame.f_code
        if is_users(code.co_filename) and os.path.isfile(code.co_filename):
            found = _span(code, place)
        place = place.tb_next
    return found


def _span(code: CodeType, place: TracebackType) -> SourceFrame:
    positions = next(itertools.islice(code.co_positions(), place.tb_lasti // 2, None), None)
    if positions is not None and positions[0] == place.tb_lineno:
        _, last, start, end = positions
        if last == place.tb_lineno and start is not None and end is not None:
            data = linecache.getline(code.co_filename, place.tb_lineno).encode()  # positions count bytes
            start, end = (len(data[:at].decode(errors="replace")) for at in (start, end))
            return SourceFrame(code.co_filename, place.tb_lineno, start, end)
    return SourceFrame(code.co_filename, place.tb_lineno)


def user_files(script: str) -> list[str]:
    """The script and the files of the user's that it imported, for watching."""
    found = {os.path.abspath(script): None}
    for module in list(sys.modules.values()):
        name = getattr(module, "__file__", None)
        if isinstance(name, str) and is_users(name) and os.path.isfile(name):
            found[os.path.abspath(name)] = None
    return list(found)


def text_of(error: BaseException) -> str:
    """An exception as Python prints it, without our own frames where the user's are enough."""
    if isinstance(error, FlyDSLError):
        return "\n".join([str(error), *getattr(error, "__notes__", ())])
    return "".join(traceback.format_exception(error))
