"""The logger `flydsl`: silent until FLYDSL_DEBUG_LOG_TO_CONSOLE or FLYDSL_DEBUG_LOG_TO_FILE asks for it.

Records do not reach the root logger, so a program's own logging set-up is never affected. The variables are looked at
whenever a function is decorated or compiled.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from .. import config

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_settings: tuple[str, Path | None, bool] | None = None
_ours: list[logging.Handler] = []


def logger() -> logging.Logger:
    """The package's logger, set up as the variables say now."""
    global _settings
    log = logging.getLogger("flydsl")
    debug = config.debug
    wanted = (debug.log_level, debug.log_to_file, debug.log_to_console)
    if wanted != _settings:
        _set_up(log, *wanted)
        _settings = wanted
    return log


def _set_up(log: logging.Logger, level: str, file: Path | None, console: bool) -> None:
    for old in _ours:
        log.removeHandler(old)
        old.close()
    _ours.clear()
    if console:
        _ours.append(_Console())
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        _ours.append(logging.FileHandler(file, encoding="utf-8", delay=True))
    if not _ours:
        _ours.append(logging.NullHandler())
    for handler in _ours:
        handler.setFormatter(logging.Formatter(_FORMAT))
        log.addHandler(handler)
    log.setLevel(level)
    log.propagate = False


class _Console(logging.StreamHandler):  # pyright: ignore[reportMissingTypeArgument]
    """Writes to what `sys.stderr` is when a record comes, not to what it was at the start."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def tell(message: str) -> None:
    """A message somebody asked for by a variable: to the log at INFO, and to the console where no log shows it."""
    log = logger()
    shown = any(not isinstance(handler, logging.NullHandler) for handler in log.handlers)
    if shown and log.isEnabledFor(logging.INFO):
        log.info(message)
    else:
        config.say(message + "\n")
