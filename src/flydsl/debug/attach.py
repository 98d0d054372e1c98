"""The debugger in a program that was not started by it: what `breakpoint()` in a kernel does on the cpu stack."""

from __future__ import annotations

import atexit
import sys
from contextlib import ExitStack
from pathlib import Path

from .console import Console
from .session import Session

_opened: list[Console] = []


def attach() -> Console:
    """Interpret kernels from now on that can stop, with a console; once per process."""
    if not _opened:
        console = Console(str(Path(sys.argv[0]).resolve()))
        stack = ExitStack()
        stack.enter_context(Session(console.debugger.run, wanted=console.debugger.wants).open())
        atexit.register(stack.close)
        _opened.append(console)
    return _opened[0]
