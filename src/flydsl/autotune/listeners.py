"""Callbacks told of every search of the process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ..errors import DSLTypeError

if TYPE_CHECKING:
    from .candidate import Config
    from .report import Report

_logger = logging.getLogger("flydsl.autotune")


class TuneEvent(NamedTuple):
    """What a search came to.

    >>> TuneEvent._fields
    ('function', 'key', 'timings', 'winner', 'duration', 'report')
    """

    function: str
    """`module:qualname`."""
    key: str
    timings: dict[Config, float]
    """Median milliseconds of every candidate that ran."""
    winner: Config
    duration: float
    """Seconds."""
    report: Report


TuneCallback = Callable[[TuneEvent], object]
_listeners: tuple[TuneListener, ...] = ()


class TuneListener:
    """A registered callback; leaving a `with` block, or `remove()`, ends it."""

    def __init__(self, callback: TuneCallback):
        self.callback = callback

    def remove(self) -> None:
        """Stop calling it."""
        global _listeners
        _listeners = tuple(each for each in _listeners if each is not self)

    def __enter__(self) -> TuneListener:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def tune_listener(callback: TuneCallback) -> TuneListener:
    """Call `callback(event)` after each search, with a `TuneEvent`. What it raises is logged; the call goes on.

    >>> from flydsl.autotune import tune_listener
    >>> with tune_listener(lambda event: print(event.winner)):
    ...     pass
    """
    global _listeners
    if not callable(callback):
        raise DSLTypeError(f"tune_listener takes a function, got {callback!r}")
    made = TuneListener(callback)
    _listeners = (*_listeners, made)
    return made


def notify(event: TuneEvent) -> None:
    """Tell every listener."""
    for listener in _listeners:
        try:
            listener.callback(event)
        except Exception:
            _logger.exception("a listener of searches failed for %s", event.function)
