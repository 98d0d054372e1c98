"""What a failed compilation raises, and how it is shown: the user's frames, not the compiler's.

FLYDSL_DEBUG_SHOW_STACKTRACE=1 leaves every traceback as it is.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import sys
import traceback
from types import TracebackType
from typing import Any

from .. import config
from ..errors import DiagRecord, DSLCompileError, FlyDSLError, SourceFrame
from ..ir.user_code import is_user_code

RULE = "-" * 40
_PASSED_THROUGH = (ast.__file__, contextlib.__file__, functools.__file__)
USERS_MISTAKE = "__fly_users_mistake__"
"""Attribute of an error that came up inside, of something that the user gave."""
_LIBRARIES = ("/xdsl/", "/llvmlite/")


def _shown(tb: TracebackType) -> bool:
    """Whether a frame tells the user something."""
    code = tb.tb_frame.f_code
    if not is_user_code(code) or code.co_filename in _PASSED_THROUGH:
        return False
    return not any(name in code.co_filename for name in _LIBRARIES)


def user_traceback(tb: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this package; None where no frame is left."""
    entries: list[TracebackType] = []
    while tb is not None:
        entries.append(tb)
        tb = tb.tb_next
    made: TracebackType | None = None
    for entry in reversed(entries):
        if _shown(entry):
            made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made


def _is_users(error: BaseException) -> bool:
    """Whether an error is for the user: raised on purpose, or made by the user's own code. The rest is our mistake."""
    if isinstance(error, FlyDSLError) or getattr(error, USERS_MISTAKE, False):
        return True
    tb = error.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return tb is not None and _shown(tb)


def filter_traceback(error: BaseException) -> None:
    """Leave the user's frames in an error and in those that caused it."""
    seen: set[int] = set()
    part: BaseException | None = error
    while part is not None and id(part) not in seen:
        seen.add(id(part))
        if _is_users(part):
            part.__traceback__ = user_traceback(part.__traceback__)
        part = part.__cause__ or (None if part.__suppress_context__ else part.__context__)


class user_frames_only:
    """A block whose errors leave with the user's frames alone: what stands at the doors of the compiler."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            leaving(error)


def leaving(error: BaseException) -> None:
    """Prepare an error for the user who is about to see it; raise it again with a bare `raise`."""
    if config.debug.show_stacktrace:
        return
    if isinstance(error, DSLCompileError):
        install_excepthook()
    if _is_users(error):
        filter_traceback(error)


_installed: list[Any] = []


def install_excepthook() -> None:
    """Show compile errors that end the program as the user's frames, a rule and the error; others as before."""
    if not _installed:
        _installed.append(sys.excepthook)
        sys.excepthook = _hook


def _hook(kind: type[BaseException], error: BaseException, tb: TracebackType | None) -> None:
    if not isinstance(error, DSLCompileError) or config.debug.show_stacktrace:
        _installed[0](kind, error, tb)
        return
    lines = ["Traceback (most recent call last):\n", *traceback.format_tb(user_traceback(tb)), RULE + "\n"]
    lines += traceback.TracebackException(kind, error, None).format_exception_only()
    cause = error.__cause__
    if cause is not None:
        lines += ["caused by ", *traceback.TracebackException(type(cause), cause, None).format_exception_only()]
    sys.stderr.write("".join(lines))


__all__ = [
    "DSLCompileError", "DiagRecord", "SourceFrame", "filter_traceback", "install_excepthook", "leaving",
    "user_frames_only", "user_traceback",
]  # fmt: skip
