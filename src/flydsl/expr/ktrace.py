"""`fx.ktrace`: ranges and marks in a kernel, which each warp records with their times.

With tracing off, which is how a process starts, they leave nothing: no code, no argument, no part of a key. It is on
inside `with fx.ktrace.capture() as trace:`, in a process with FLYDSL_KTRACE=1, and under `fly trace script.py`.
"""

from __future__ import annotations

import builtins
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from .. import config
from ..errors import DSLRuntimeError, DSLTypeError, DSLValueError
from ..runtime.ktrace.layout import MARK as KIND_MARK
from ..runtime.ktrace.layout import RANGE_POP as KIND_RANGE_POP
from ..runtime.ktrace.layout import RANGE_PUSH as KIND_RANGE_PUSH
from ..runtime.ktrace.layout import RANGE_START as KIND_RANGE_START
from ..runtime.ktrace.layout import RANGE_STOP as KIND_RANGE_STOP
from .emit.trace import maybe_current
from .meta import tracing_context, tracing_option

if TYPE_CHECKING:
    from ..runtime.ktrace.recorder import Recorder
    from ..runtime.ktrace.trace import LaunchTrace, NameSummary, Trace
    from .annotations import ScalarLike
    from .emit.ktrace_ir import KernelTrace

_OPTION = "ktrace"
_LEAST = 4


def tracing_enabled() -> bool:
    """Whether events of kernels that are compiled now are recorded.

    >>> fx.ktrace.tracing_enabled()
    False
    >>> with fx.ktrace.capture():
    ...     fx.ktrace.tracing_enabled()
    True
    """
    return tracing_option(_OPTION) is not None or config.ktrace.enable


def events_kept() -> int:
    """Events that are kept of a warp."""
    asked = tracing_option(_OPTION)
    return config.ktrace.events if asked is None else cast(int, asked)


# --- in a kernel ----------------------------------------------------------------------------------------------------


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


# --- around calls ---------------------------------------------------------------------------------------------------


class Capture:
    """Launches that record: `with fx.ktrace.capture() as trace:`, then `trace.read()`."""

    def __init__(
        self,
        kernel: str = "kernel",
        *,
        blocks: int | builtins.range | None = None,
        out_dir: str | Path | None = None,
        events: int | None = None,
    ):
        self.kernel = kernel
        self._out = Path("." if out_dir is None else out_dir)
        self._events = config.ktrace.events if events is None else _count("events", events, _LEAST)
        self._blocks = _blocks(blocks)
        self._option: Any = None
        self._made: Recorder | None = None

    @property
    def _recorder(self) -> Recorder:
        from ..runtime.ktrace.recorder import Recorder

        if self._made is None:
            self._made = Recorder(self._blocks)
        return self._made

    def __enter__(self) -> Self:
        if self._option is not None:
            raise DSLRuntimeError("this capture is open already; make another one")
        self._option = tracing_context(ktrace=self._events)
        self._option.__enter__()
        self._recorder.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        option, self._option = self._option, None
        option.__exit__(kind, error, trace)
        try:
            if kind is None:
                _finish_queued()
        finally:
            self._recorder.close()

    def read(self) -> Trace:
        """What the launches so far recorded; waits for them."""
        return self._recorder.read()

    def launches(self) -> Sequence[LaunchTrace]:
        """Each launch for itself, in order."""
        return self.read().launches

    def summary(self) -> dict[str, NameSummary]:
        """Each name's ranges in numbers."""
        return self.read().summary()

    def export(self) -> str | None:
        """Write all launches into one file for Perfetto; its path, or None where nothing was recorded."""
        found = self.read()
        return str(found.write(self._out / f"{self.kernel}.perfetto-trace")) if found.launches else None

    def export_launches(self, names: Sequence[str] | None = None) -> list[str]:
        """Write a file for each launch, by `names` or numbered; their paths."""
        from ..runtime.ktrace.trace import Trace

        found = self.read().launches
        chosen = [f"{self.kernel}-{i}" for i, _ in enumerate(found)] if names is None else list(names)
        if len(chosen) != len(found):
            raise DSLValueError(f"there are {len(found)} launches and {len(chosen)} names for their files")
        return [
            str(Trace([one]).write(self._out / f"{name}.perfetto-trace"))
            for name, one in zip(chosen, found, strict=True)
        ]

    def clear(self) -> None:
        """Forget the launches so far."""
        self._recorder.clear()

    def __iter__(self) -> Iterator[LaunchTrace]:
        return iter(self.launches())


def capture(
    kernel: str = "kernel",
    *,
    blocks: int | builtins.range | None = None,
    out_dir: str | Path | None = None,
    events: int | None = None,
) -> Capture:
    """Record the launches of a block of code, of all threads of the process: kernels are compiled with their events.

    `kernel` names files that are exported to `out_dir`; `blocks` records the first so many blocks of a grid, or those
    of a `range`; `events` is how many are kept of a warp (default: FLYDSL_KTRACE_EVENTS).

    >>> with fx.ktrace.capture(events=16) as trace:
    ...     flyc.evaluate(lambda: fx.ktrace.mark("only"))
    >>> len(trace.read().events)
    1
    """
    return Capture(kernel, blocks=blocks, out_dir=out_dir, events=events)


def _finish_queued() -> None:
    """On the cpu stack a launch on a stream is made later: what was queued inside a capture belongs to it."""
    from ..runtime.device_runtime import device_runtime_state, get_device_runtime

    if device_runtime_state() == "active":
        runtime = get_device_runtime()
        if runtime.pageable_host:
            runtime.synchronize()


def _own() -> Recorder:
    from ..runtime.ktrace.recorder import own_recorder

    return own_recorder()


def collect(kernel: str = "kernel", out_dir: str | Path | None = None) -> str | None:
    """Write what a process with FLYDSL_KTRACE=1 recorded so far, and forget it; the file, or None."""
    found = _own().read()
    _own().clear()
    if not found.launches:
        return None
    return str(found.write(Path("." if out_dir is None else out_dir) / f"{kernel}.perfetto-trace"))


def recorded() -> Trace:
    """What a process with FLYDSL_KTRACE=1 recorded so far."""
    return _own().read()


def summary() -> dict[str, NameSummary] | None:
    """What a process with FLYDSL_KTRACE=1 recorded so far, each name's ranges in numbers; None without any."""
    found = recorded()
    return found.summary() if found.launches else None


def _count(what: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise DSLValueError(f"fx.ktrace.capture: {what} is a number of at least {least}, got {value!r}")
    return value


def _blocks(wanted: object) -> builtins.range | None:
    """The blocks to record; None are all."""
    if wanted is None:
        return None
    if isinstance(wanted, builtins.range):
        if wanted.step != 1 or wanted.start < 0:
            raise DSLValueError(f"fx.ktrace.capture: blocks is a number or a range of neighbours, got {wanted!r}")
        return wanted
    return builtins.range(_count("blocks", wanted, 1))


__all__ = [
    "KIND_MARK",
    "KIND_RANGE_POP",
    "KIND_RANGE_PUSH",
    "KIND_RANGE_START",
    "KIND_RANGE_STOP",
    "Capture",
    "RangeToken",
    "capture",
    "collect",
    "inactive_token",
    "mark",
    "range",
    "range_pop",
    "range_push",
    "range_start",
    "range_stop",
    "recorded",
    "summary",
    "tracing_enabled",
]
