"""Locks of the disk cache: of a key among threads, of a file among processes.

The system frees the lock of a file when its holder dies. A forked child closes what its parent holds, and unlocks
nothing.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from flydsl.compiler.cache.files import open_lock, same_file, unlink
from flydsl.compiler.cache.stats import guard

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


@dataclass(slots=True)
class KeyLock:
    """The lock of one key, and who uses it."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    users: int = 0
    held: bool | None = None
    """Whether the owning thread has the file lock too; None: nobody is inside."""


key_locks: dict[tuple[str, str], KeyLock] = {}
VANISHED_LIMIT = 1000
"""Times a lock file may be removed by others between its opening and its locking before the lock is given up."""
held: set[int] = set()
"""Descriptors of the file locks this process holds."""


def _after_fork() -> None:
    key_locks.clear()
    for handle in held:
        # The lock belongs to the parent as well: closing leaves it alone, unlocking would not.
        try:
            os.close(handle)
        except OSError:
            continue
    held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def thread_lock(name: tuple[str, str]) -> Generator[KeyLock]:
    """Hold the lock of this name; locks nobody holds or waits for are not kept."""
    with guard:
        entry = key_locks.setdefault(name, KeyLock())
        entry.users += 1
    try:
        with entry.lock:
            yield entry
    finally:
        with guard:
            entry.users -= 1
            if not entry.users and key_locks.get(name) is entry:
                del key_locks[name]


def acquire(path: Path, folder: int, timeout: float, waiting: Callable[[], None]) -> int | None:
    """A descriptor that holds the lock of a file, None when the time is over; `waiting` is called if it is not free.

    `folder` is the open folder of the file.
    """
    started = time.monotonic()
    pause = 0.001
    vanished = 0
    while True:
        handle = open_lock(path, folder)
        done = False
        try:
            try:
                _lock(handle)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EINTR):
                    raise
            else:
                # The holder before us removes the file: then our lock is on a file nobody else will find.
                done = same_file(path, handle)
                if done:
                    with guard:
                        held.add(handle)
                    return handle
                vanished += 1
                if vanished < VANISHED_LIMIT:
                    continue
                raise OSError(errno.EAGAIN, "lock files vanish as soon as they are made")
        finally:
            if not done:
                _close(handle)
        waited = time.monotonic() - started
        if waited >= timeout:
            return None
        if pause == 0.001:
            waiting()
        time.sleep(min(pause, max(timeout - waited, 0.001)))
        pause = min(pause * 1.5, 0.05)


def release(handle: int, path: Path, *, remove: bool) -> None:
    """Free a lock; with `remove` its file goes first, so that nobody takes it for a lock in use."""
    with guard:
        held.discard(handle)
    if remove:
        unlink(path)
    try:
        _unlock(handle)
    except OSError:  # closing frees it as well, once no child that was forked meanwhile has it
        pass
    _close(handle)


def _lock(handle: int) -> None:
    """Take the lock of an open file, or raise `OSError` at once where someone else has it."""
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    import msvcrt

    getattr(msvcrt, "locking")(handle, getattr(msvcrt, "LK_NBLCK"), 1)  # noqa: B009  (not in the stubs of other systems)


def _unlock(handle: int) -> None:
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_UN)
        return
    import msvcrt

    getattr(msvcrt, "locking")(handle, getattr(msvcrt, "LK_UNLCK"), 1)  # noqa: B009


def _close(handle: int) -> None:
    try:
        os.close(handle)
    except OSError:  # the descriptor is free all the same
        return
