"""`fx.ktrace`: marks and ranges of time in a kernel.

Nothing here records: there is no recorder on any target, `tracing_enabled()` is False, and kernels that contain these
calls compile to the same code as kernels without them. Arguments are checked all the same. IR that holds such events
(`fly_ktrace`) loses them in `convert-fly-ktrace-to-rocdl`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from ..errors import DSLTypeError
from .numeric import scalar_or_none

if TYPE_CHECKING:
    from .annotations import IntLike


KIND_MARK, KIND_RANGE_PUSH, KIND_RANGE_POP, KIND_RANGE_START, KIND_RANGE_STOP = 0, 1, 2, 3, 4
"""Kinds of events."""


@dataclass(frozen=True, slots=True)
class RangeToken:
    """Stands for a range from `range_start` to `range_stop`; those of one name are equal, begun or not.

    >>> fx.ktrace.range_start("load") == fx.ktrace.inactive_token("load")
    True
    """

    event_name: str


def tracing_enabled() -> bool:
    """Whether events are recorded: never.

    >>> fx.ktrace.tracing_enabled()
    False
    """
    return False


def mark(event_name: str, payload: IntLike | None = None) -> None:
    """A point in time; the payload is a number that goes with it.

    >>> def example(n):
    ...     fx.ktrace.mark("begin", n)
    ...     return n + 1
    >>> flyc.evaluate(example, 4)
    5
    """
    _check("mark", event_name, payload)


def range_push(event_name: str, payload: IntLike | None = None) -> None:
    """Begin a range inside the ranges that are open.

    >>> fx.ktrace.range_push("copy")
    >>> fx.ktrace.range_pop()
    """
    _check("range_push", event_name, payload)


def range_pop() -> None:
    """End the innermost open range.

    >>> fx.ktrace.range_push("copy")
    >>> fx.ktrace.range_pop()
    """


def range_start(event_name: str, payload: IntLike | None = None) -> RangeToken:
    """Begin a range that may end anywhere, by its token.

    >>> token = fx.ktrace.range_start("load")
    >>> fx.ktrace.range_stop(token)
    """
    _check("range_start", event_name, payload)
    return RangeToken(event_name)


def range_stop(token: RangeToken, payload: IntLike | None = None) -> None:
    """End the range of a token.

    >>> fx.ktrace.range_stop(fx.ktrace.range_start("load"), 3)
    """
    if not isinstance(token, RangeToken):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"range_stop takes what range_start returned, got {token!r}")
    _check("range_stop", token.event_name, payload)


def inactive_token(event_name: str) -> RangeToken:
    """The token of a range nobody began: stopping it does nothing.

    >>> fx.ktrace.range_stop(fx.ktrace.inactive_token("load"))
    """
    _check("inactive_token", event_name, None)
    return RangeToken(event_name)


@contextmanager
def range(event_name: str, payload: IntLike | None = None) -> Generator[None]:
    """A range around a block of statements.

    >>> def example(n):
    ...     with fx.ktrace.range("twice"):
    ...         return n * 2
    >>> flyc.evaluate(example, 4)
    8
    """
    range_push(event_name, payload)
    yield
    range_pop()


def collect(kernel: str = "kernel", out_dir: str | PathLike[str] | None = None) -> str | None:
    """Where the trace of a kernel was written: None, for there is none.

    >>> fx.ktrace.collect() is None
    True
    """
    return None


def summary() -> dict[str, object] | None:
    """Times by event: None, for nothing was recorded.

    >>> fx.ktrace.summary() is None
    True
    """
    return None


def _check(what: str, event_name: object, payload: object) -> None:
    if not isinstance(event_name, str):
        raise DSLTypeError(f"the event of {what} is a string, got {event_name!r}")
    if payload is not None and scalar_or_none(payload) is None:
        raise DSLTypeError(f"the payload of {what} is a number, got {payload!r}")


__all__ = [
    "KIND_MARK",
    "KIND_RANGE_POP",
    "KIND_RANGE_PUSH",
    "KIND_RANGE_START",
    "KIND_RANGE_STOP",
    "RangeToken",
    "collect",
    "inactive_token",
    "mark",
    "range",
    "range_pop",
    "range_push",
    "range_start",
    "range_stop",
    "summary",
    "tracing_enabled",
]
