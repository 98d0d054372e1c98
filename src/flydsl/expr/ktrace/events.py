"""Ranges and marks: what a kernel calls. With tracing off they leave nothing."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...errors import DSLRuntimeError, DSLTypeError, DSLValueError
from ...runtime.ktrace.layout import MARK as KIND_MARK
from ...runtime.ktrace.layout import RANGE_POP as KIND_RANGE_POP
from ...runtime.ktrace.layout import RANGE_PUSH as KIND_RANGE_PUSH
from ...runtime.ktrace.layout import RANGE_START as KIND_RANGE_START
from ...runtime.ktrace.layout import RANGE_STOP as KIND_RANGE_STOP
from ..emit.trace import maybe_current
from .switch import tracing_enabled

if TYPE_CHECKING:
    from ..annotations import ScalarLike
    from .emit import KernelTrace


class RangeToken:
    """A range that was started; `range_stop` ends it."""

    def __init__(self, event_name: str, number: int | None = None):
        self.event_name = event_name
        self.number = number
        """Which of the kernel's tokens it is; None for one that records nothing."""

    def __repr__(self) -> str:
        return f"RangeToken({self.event_name!r})"


def _recording(event_name: str) -> KernelTrace | None:
    """The kernel's recording code, if events are recorded."""
    if not isinstance(event_name, str) or not event_name:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"an event of a trace has a name, got {event_name!r}")
    if not tracing_enabled():
        return None
    tracer = maybe_current()
    frame: Any = tracer.functions[-1] if tracer is not None and tracer.functions else None
    if not getattr(frame, "is_kernel", False):
        raise DSLRuntimeError(
            f"the event {event_name!r} of a trace can only be recorded inside a @flyc.kernel function"
        )
    return frame.ktrace


def mark(event_name: str, payload: ScalarLike | None = None) -> None:
    """A point in time of the warp; `payload` is a number to show with it.

    >>> def kernel(n):
    ...     fx.ktrace.mark("here", n)
    ...     return n + 1
    >>> with fx.ktrace.capture() as trace:
    ...     flyc.evaluate(kernel, 4)
    5
    >>> [(e.name, e.kind, e.payload) for e in trace.read().events]
    [('here', 'mark', 4)]
    """
    made = _recording(event_name)
    if made is not None:
        made.event(event_name, KIND_MARK, payload)


@contextmanager
def range(event_name: str, payload: ScalarLike | None = None) -> Generator[None]:
    """What runs inside is a range of the warp.

    >>> def kernel(n):
    ...     with fx.ktrace.range("twice"):
    ...         return n * 2
    >>> with fx.ktrace.capture() as trace:
    ...     flyc.evaluate(kernel, 4)
    8
    >>> [r.name for r in trace.read().ranges]
    ['twice']
    """
    made = _recording(event_name)
    if made is not None:
        made.event(event_name, KIND_RANGE_PUSH, payload)
    yield
    if made is not None:
        made.event(event_name, KIND_RANGE_POP, None)


def range_push(event_name: str, payload: ScalarLike | None = None) -> None:
    """Begin a range; `range_pop` ends the one that was begun last.

    >>> def kernel(n):
    ...     fx.ktrace.range_push("outer")
    ...     fx.ktrace.range_push("inner", n)
    ...     fx.ktrace.range_pop()
    ...     fx.ktrace.range_pop()
    ...     return n
    >>> with fx.ktrace.capture() as trace:
    ...     flyc.evaluate(kernel, 4)
    4
    >>> [(r.name, r.depth, r.payload) for r in trace.read().ranges]
    [('outer', 0, None), ('inner', 1, 4)]
    """
    made = _recording(event_name)
    if made is not None:
        made.pushed.append(event_name)
        made.event(event_name, KIND_RANGE_PUSH, payload)


def range_pop() -> None:
    """End the range that was begun last by `range_push`."""
    made = _recording("range_pop")
    if made is None:
        return
    if not made.pushed:
        raise DSLValueError("fx.ktrace.range_pop() ends a range that fx.ktrace.range_push(...) began; there is none")
    made.event(made.pushed.pop(), KIND_RANGE_POP, None)


def range_start(event_name: str, payload: ScalarLike | None = None) -> RangeToken:
    """Begin a range that ends wherever its token is given to `range_stop`; such ranges may overlap.

    >>> def kernel(n):
    ...     first = fx.ktrace.range_start("first")
    ...     second = fx.ktrace.range_start("second")
    ...     fx.ktrace.range_stop(first)
    ...     fx.ktrace.range_stop(second, n)
    ...     return n
    >>> with fx.ktrace.capture() as trace:
    ...     flyc.evaluate(kernel, 4)
    4
    >>> [(r.name, r.payload) for r in trace.read().ranges]
    [('first', None), ('second', 4)]
    """
    made = _recording(event_name)
    if made is None:
        return RangeToken(event_name)
    made.tokens += 1
    made.event(event_name, KIND_RANGE_START, payload, made.tokens)
    return RangeToken(event_name, made.tokens)


def range_stop(token: RangeToken, payload: ScalarLike | None = None) -> None:
    """End the range of a token."""
    if not isinstance(token, RangeToken):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DSLTypeError(f"fx.ktrace.range_stop takes what fx.ktrace.range_start gave, got {token!r}")
    made = _recording(token.event_name)
    if made is not None and token.number is not None:
        made.event(token.event_name, KIND_RANGE_STOP, payload, token.number)


def inactive_token(event_name: str) -> RangeToken:
    """A token of no range: ending it records nothing.

    >>> fx.ktrace.inactive_token("load")
    RangeToken('load')
    """
    return RangeToken(event_name)


__all__ = [
    "KIND_MARK", "KIND_RANGE_POP", "KIND_RANGE_PUSH", "KIND_RANGE_START", "KIND_RANGE_STOP", "RangeToken",
    "inactive_token", "mark", "range", "range_pop", "range_push", "range_start", "range_stop",
]  # fmt: skip
