"""The frame of a command: trouble with its files, target or settings is one line on standard error and status 2."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from .. import config
from ..errors import ConfigError, TargetError

FAILED = 2
CLOSED = 141
"""What a shell reports of a program that wrote to a closed pipe."""


def failed(message: str, status: int = FAILED) -> int:
    """Say on standard error what went wrong; the exit status."""
    if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] - a process may be started without
        print(message, file=sys.stderr)
    return status


def _passes_through(error: BaseException, script: str | None) -> bool:
    """Whether an error was raised below the code of a script, whose author wants to see where."""
    place = error.__traceback__
    while place is not None:
        if script is not None and os.path.realpath(place.tb_frame.f_code.co_filename) == os.path.realpath(script):
            return True
        place = place.tb_next
    return False


def run_command(name: str, body: Callable[[], int], script: str | None = None) -> int:
    """Run a command and give its exit status; `script` is the file of the user's that it runs."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        return failed(f"{name}: standard output is closed")
    try:
        status = body()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Whoever read the output has seen enough, as with `fly cache list | head`: no reason to say anything. What is
        # still buffered goes nowhere, or the interpreter would complain of it when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED
    except (ConfigError, TargetError) as error:
        if config.debug.show_stacktrace:
            raise
        return failed(f"{name}: {' '.join(str(error).split())}")
    except OSError as error:
        if config.debug.show_stacktrace or _passes_through(error, script):
            raise
        where = f"{error.filename}: " if error.filename is not None else ""
        return failed(f"{name}: {where}{error.strerror or error}")


def size_text(count: int) -> str:
    """Bytes for people."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
