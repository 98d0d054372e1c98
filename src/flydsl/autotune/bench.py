"""Measuring how long a function takes: only the function, on the device where it works, with its cache emptied.

On a GPU an event pair on the launch stream is around each run. The writes that empty the last-level cache are
queued before the first event, as many as keep the GPU busy while the host submits what is timed, so that no wait for
the host is counted. On the cpu stack the monotonic clock is read around the run and the wait for its end.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, cast, overload

from ..errors import DSLTypeError, DSLValueError, NotSupportedError

if TYPE_CHECKING:
    from ..runtime.base import DeviceRuntime

Method = Literal["auto", "events", "graph", "wall"]
METHODS = ("auto", "events", "graph", "wall")
TOTAL_MS = 100.0
"""Milliseconds that the timed runs of one measurement take together, about."""
FEWEST = 3
"""Runs that are timed at least, unless fewer are asked for."""
SPARE = 1.5
"""How much longer than the host's launch the device is kept busy before what is timed."""
EVENTS_MS = 0.01
"""What the host needs for the two events, about."""
MOST_FLUSHES = 256
"""Flushes before one run at most: who needs more does other work on the host than launching."""

Run = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one function in milliseconds.

    >>> timing = Timing((1.0, 2.0, 4.0), "wall")
    >>> timing.median, timing.quantile(0.75)
    (2.0, 3.0)
    """

    times: tuple[float, ...]
    method: str

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    def quantile(self, share: float) -> float:
        """Between the two nearest times, as numpy does it."""
        ordered = sorted(self.times)
        at = share * (len(ordered) - 1)
        low = int(at)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (at - low)

    @property
    def low(self) -> float:
        """The 20th percentile."""
        return self.quantile(0.2)

    @property
    def high(self) -> float:
        """The 80th percentile."""
        return self.quantile(0.8)


class _TorchCuda(Protocol):
    def is_initialized(self) -> bool: ...
    def current_stream(self) -> _TorchStream: ...


class _TorchStream(Protocol):
    cuda_stream: int


def launch_stream(runtime: DeviceRuntime, stream: object = None) -> int:
    """The handle of the stream that work goes to: the one given, that of a `with` block, torch's, the default."""
    from ..runtime.objects import Stream, current_stream

    if isinstance(stream, Stream):
        return stream.handle
    if isinstance(stream, int):
        return stream
    handle = getattr(stream, "cuda_stream", getattr(stream, "ptr", None))
    if isinstance(handle, int):
        return handle
    own = current_stream()
    if own is not None:
        return own.handle
    torch = cast(object, sys.modules.get("torch"))
    cuda = cast("_TorchCuda | None", getattr(torch, "cuda", None))
    if cuda is not None and not runtime.pageable_host and cuda.is_initialized():
        return cuda.current_stream().cuda_stream
    return 0


def _repetitions(estimate_ms: float, rep: int) -> int:
    return max(min(FEWEST, rep), min(rep, int(TOTAL_MS / max(estimate_ms, 1e-6))))


def measure(
    run: Run,
    *,
    warmup: int = 5,
    rep: int = 25,
    before: Run | None = None,
    method: Method = "auto",
    flush: bool = True,
    stream: object = None,
) -> Timing:
    """Times of `run`; `before` is called before each run and not timed."""
    if rep < 1 or warmup < 0:
        raise DSLValueError(f"rep is at least 1 and warmup at least 0, got rep={rep}, warmup={warmup}")
    if method not in METHODS:
        raise DSLValueError(f"method is one of {', '.join(METHODS)}, got {method!r}")
    from ..runtime.device_runtime import get_device_runtime

    runtime = get_device_runtime()
    if method == "auto":
        timing = not runtime.pageable_host and runtime.device(runtime.current_device_id()).capabilities.event_timing
        method = "events" if timing else "wall"
    if method == "wall":
        return _wall(runtime, run, warmup, rep, before)
    if runtime.pageable_host:
        raise NotSupportedError(runtime.kind, f"timing by {method}")
    if method == "graph":
        return _graph(runtime, run, warmup, rep, before, flush)
    return _events(runtime, run, warmup, rep, before, flush, launch_stream(runtime, stream))


def _wall(runtime: DeviceRuntime, run: Run, warmup: int, rep: int, before: Run | None) -> Timing:
    def once() -> float:
        if before is not None:
            before()
        runtime.synchronize()
        start = time.perf_counter_ns()
        run()
        runtime.synchronize()
        return (time.perf_counter_ns() - start) * 1e-6

    first = once()
    # Long functions are not repeated just to be warm.
    rounds = min(max(warmup - 1, 0), int(TOTAL_MS / max(first, 1e-6)))
    estimate = min([first, *(once() for _ in range(rounds))])
    return Timing(tuple(once() for _ in range(_repetitions(estimate, rep))), "wall")


def _timed(
    runtime: DeviceRuntime, run: Run, before: Run | None, flush: Run, handle: int
) -> Callable[[int], list[float]]:
    """Runs `run` so many times, each between two events; gives the milliseconds of each."""
    from ..runtime.objects import Event

    def times(count: int) -> list[float]:
        pairs = [(Event(), Event()) for _ in range(count)]
        for start, end in pairs:
            if before is not None:
                before()
                runtime.synchronize()  # what it did may be on another stream
            flush()
            start.record(handle)
            run()
            end.record(handle)
        runtime.stream_synchronize(handle)
        found = [start.elapsed_ms(end) for start, end in pairs]
        for pair in pairs:
            for event in pair:
                event.close()
        return found

    return times


def _flusher(runtime: DeviceRuntime, handle: int, wanted: bool) -> tuple[Run, object]:
    """What empties the last-level cache, and the memory it writes to."""
    size = runtime.device(runtime.current_device_id()).capabilities.l2_bytes or 0
    if not wanted or not size:
        return (lambda: None), None
    buffer = runtime.alloc(2 * size)
    return (lambda: runtime.memset(buffer.ptr, 0, 2 * size, stream=handle)), buffer


def _events(
    runtime: DeviceRuntime, run: Run, warmup: int, rep: int, before: Run | None, flush: bool, handle: int
) -> Timing:
    empty, held = _flusher(runtime, handle, flush)
    times = _timed(runtime, run, before, empty, handle)
    times(1)  # compiles, loads, allocates
    estimate = min(times(2))
    if held is not None:
        empty = _long_enough(runtime, run, before, empty, handle)
        times = _timed(runtime, run, before, empty, handle)
    if warmup > 3:
        times(min(warmup - 3, max(int(TOTAL_MS / max(estimate, 1e-6)), 1)))
    found = Timing(tuple(times(_repetitions(estimate, rep))), "events")
    del held
    return found


def _long_enough(runtime: DeviceRuntime, run: Run, before: Run | None, flush: Run, handle: int) -> Run:
    """Flushes as often as the host needs to launch `run`: a device that has run out of work would time the host."""
    flushing = min(_timed(runtime, flush, None, flush, handle)(3))
    host: list[float] = []
    for _ in range(3):
        if before is not None:
            before()
            runtime.synchronize()
        start = time.perf_counter_ns()
        run()
        host.append((time.perf_counter_ns() - start) * 1e-6)
        runtime.stream_synchronize(handle)
    often = min(math.ceil((min(host) * SPARE + EVENTS_MS) / max(flushing, 1e-3)), MOST_FLUSHES)

    def flushes() -> None:
        for _ in range(often):
            flush()

    return flushes


def _graph(runtime: DeviceRuntime, run: Run, warmup: int, rep: int, before: Run | None, flush: bool) -> Timing:
    """The same for a graph of one run: what the host does per launch is not in it."""
    from ..runtime.objects import Stream

    if before is not None:
        before()
    run()  # outside of the capture: it may compile and load
    runtime.synchronize()
    with Stream() as stream:
        runtime.graph_begin_capture(stream.handle)
        try:
            run()
        finally:
            graph = runtime.graph_end_capture(stream.handle)
        ready = runtime.graph_instantiate(graph)
        launch = lambda: runtime.graph_launch(ready, stream.handle)  # noqa: E731
        found = _events(runtime, launch, warmup, rep, before, flush, stream.handle)
    return Timing(found.times, "graph")


@overload
def do_bench(
    fn: Run,
    warmup: int = 5,
    rep: int = 25,
    quantiles: None = None,
    *,
    before: Run | None = None,
    method: Method = "auto",
    flush: bool = True,
    stream: object = None,
) -> float: ...


@overload
def do_bench(
    fn: Run,
    warmup: int = 5,
    rep: int = 25,
    *,
    quantiles: Sequence[float],
    before: Run | None = None,
    method: Method = "auto",
    flush: bool = True,
    stream: object = None,
) -> list[float]: ...


def do_bench(
    fn: Run,
    warmup: int = 5,
    rep: int = 25,
    quantiles: Sequence[float] | None = None,
    *,
    before: Run | None = None,
    method: Method = "auto",
    flush: bool = True,
    stream: object = None,
) -> float | list[float]:
    """The median milliseconds of `fn()`, or the `quantiles` asked for.

    At most `warmup` runs come first and at most `rep` are timed, fewer where `fn` is long: about 100 ms in all.
    `before` runs before each and is not timed. `method`: `events` between two events of the launch stream, `graph` for
    a replayed graph (`fn` then launches to the current stream), `wall` for the host's clock; `auto` is `events` on a
    GPU, else `wall`. `flush` empties the last-level cache before each run, on a GPU.

    >>> from flydsl.autotune import do_bench
    >>> import time
    >>> 1.0 < do_bench(lambda: time.sleep(0.002), warmup=1, rep=3) < 1000
    True
    """
    if not callable(fn):
        raise DSLTypeError(f"do_bench times a function without arguments, got {fn!r}")
    timing = measure(fn, warmup=warmup, rep=rep, before=before, method=method, flush=flush, stream=stream)
    if quantiles is None:
        return timing.median
    for share in quantiles:
        if not 0 <= share <= 1:
            raise DSLValueError(f"a quantile lies between 0 and 1, got {share!r}")
    return [timing.quantile(share) for share in quantiles]
