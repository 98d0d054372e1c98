"""What the interpreter tells of changes and reads: an audit hook, added when the first key is made.

Assignments to the code, the defaults or the class of anything are counted, so that a warm call asks one number instead
of every function. Files that are opened while a thread traces go to its record.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flydsl.compiler.key.outside import OutsideReads


class Changes:
    """How often the code, defaults, class or bases of something were assigned in this process."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class _Recording(threading.local):
    """The record of what this thread reads while it traces."""

    current: OutsideReads | None = None


changes = Changes()
recording = _Recording()
_WATCHED = frozenset(("__code__", "__defaults__", "__kwdefaults__", "__class__", "__bases__"))
_installed: list[bool] = []


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event == "sys._getframe":  # by far the most frequent: tracing asks where it is
        return
    if event == "object.__setattr__" or event == "object.__delattr__":
        if arguments[1] in _WATCHED:
            changes.count += 1
    elif recording.current is not None:
        recording.current.heard(event, arguments)


def listen() -> None:
    """Be told of changes from now on; the interpreter knows no way back."""
    if not _installed:
        _installed.append(True)
        sys.addaudithook(_hook)
