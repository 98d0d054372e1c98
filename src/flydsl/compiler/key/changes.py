"""What a warm call is told of without looking: a count of changes that this package makes or sees itself."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flydsl.compiler.key.outside import OutsideReads


class Changes:
    """How often hints or options of functions were assigned in this process."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class _Recording(threading.local):
    """The record of what this thread reads while it traces."""

    current: OutsideReads | None = None


changes = Changes()
recording = _Recording()


@contextmanager
def unrecorded() -> Generator[None]:
    """A block whose reads from outside are our own."""
    before, recording.current = recording.current, None
    try:
        yield
    finally:
        recording.current = before
