"""A lock for short sections that a forked child does not inherit held."""

from __future__ import annotations

import os
import threading


class Guard:
    """A lock, renewed in a forked child, where the thread that held it does not exist. For the life of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _renew(self) -> None:
        self._lock = threading.Lock()
