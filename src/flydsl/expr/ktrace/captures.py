"""Captures: launches whose kernels record, and what they recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from ... import config
from ...errors import DSLRuntimeError, DSLValueError
from ..meta import tracing_context

if TYPE_CHECKING:
    from ...runtime.ktrace.recorder import Blocks, Recorder
    from ...runtime.ktrace.trace import LaunchTrace, NameSummary, Trace

_LEAST = 4


class Capture:
    """Launches that record: `with fx.ktrace.capture() as trace:`, then `trace.read()`."""

    def __init__(
        self,
        kernel: str = "kernel",
        *,
        blocks: int | range | tuple[int, int, int] | str | None = None,
        out_dir: str | Path | None = None,
        events: int | None = None,
    ):
        self.kernel = kernel
        self._out = _folder(out_dir)
        self._events = config.ktrace.events if events is None else _count("events", events, _LEAST)
        self._blocks = _blocks(blocks)
        self._option: Any = None
        self._made: Recorder | None = None

    @property
    def _recorder(self) -> Recorder:
        from ...runtime.ktrace.recorder import Recorder

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
        from ...runtime.ktrace.trace import Trace

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
    blocks: int | range | tuple[int, int, int] | str | None = None,
    out_dir: str | Path | None = None,
    events: int | None = None,
) -> Capture:
    """Record the launches of a block of code, of all threads of the process: kernels are compiled with their events.

    `kernel` names files that are exported to `out_dir` (default: FLYDSL_KTRACE_DUMP_DIR); `blocks` records the first so
    many blocks of a grid, those of a `range`, or one by its place `(x, y, z)`; `events` is how many are kept of a warp
    (default: FLYDSL_KTRACE_EVENTS).

    >>> with fx.ktrace.capture(events=16) as trace:
    ...     flyc.evaluate(lambda: fx.ktrace.mark("only"))
    >>> len(trace.read().events)
    1
    """
    return Capture(kernel, blocks=blocks, out_dir=out_dir, events=events)


def _finish_queued() -> None:
    """On the cpu stack a launch on a stream is made later: what was queued inside a capture belongs to it."""
    from ...runtime.device_runtime import device_runtime_state, get_device_runtime

    if device_runtime_state() == "active":
        runtime = get_device_runtime()
        if runtime.pageable_host:
            runtime.synchronize()


def _own() -> Recorder:
    from ...runtime.ktrace.recorder import own_recorder

    return own_recorder()


def collect(kernel: str = "kernel", out_dir: str | Path | None = None) -> str | None:
    """Write what a process with FLYDSL_KTRACE=1 recorded so far, and forget it; the file, or None."""
    found = _own().read()
    _own().clear()
    if not found.launches:
        return None
    return str(found.write(_folder(out_dir) / f"{kernel}.perfetto-trace"))


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


def _folder(given: str | Path | None) -> Path:
    return Path(given) if given is not None else config.ktrace.dump_dir or Path(".")


def _blocks(wanted: object) -> Blocks:
    """The blocks to record; None are all."""
    from ...runtime.ktrace.recorder import parse_blocks

    if wanted is None or isinstance(wanted, str):
        return parse_blocks(config.ktrace.blocks if wanted is None else wanted)
    if isinstance(wanted, tuple):
        return parse_blocks(",".join(map(str, cast("tuple[object, ...]", wanted))))
    if isinstance(wanted, range):
        if wanted.step != 1 or wanted.start < 0:
            raise DSLValueError(f"fx.ktrace.capture: blocks is a number or a range of neighbours, got {wanted!r}")
        return wanted
    return range(_count("blocks", wanted, 1))
