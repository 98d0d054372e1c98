"""`explore_schedules` and `replay_schedule`: a call on the cpu stack in every order of its warps and copies.

The work is done by `flydsl.cpu.schedules`; here the call is run again and again, with its arrays as they were.
"""

from __future__ import annotations

import hashlib
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol, cast
from weakref import WeakKeyDictionary

from ..cpu.code.races.seen import SEEN
from ..cpu.schedules.agents import session
from ..cpu.schedules.findings import ALWAYS_UNCOVERED, Finding, LookedAt, ScheduleReport, ScheduleRun, decode
from ..cpu.schedules.search import Probe, Recorder, Replay, Search
from ..errors import (
    DSLRuntimeError,
    DSLTypeError,
    DSLValueError,
    KernelCheckError,
    KernelDeadlockError,
    KernelScheduleError,
)
from ..runtime.device_runtime import get_device_runtime
from .active_backend import resolve_backend
from .hints import CompilationContext

_HINTS: Mapping[str, object] = {"cpu_check": True, "cpu_schedules": True, "opt_level": 1}
"""Most of the time goes into compiling and deciding, not into the kernel."""
_PROBES = 6
"""Schedules by drawn priorities that are tried first: most mistakes show there."""
_MOST_FINDINGS = 20


class _WithHints(Protocol):
    """A function decorated by `@flyc.jit`."""

    def with_hints(self, hints: Mapping[str, object]) -> _WithHints: ...
    def __call__(self, *args: object, **kwargs: object) -> object: ...


_twins: WeakKeyDictionary[_WithHints, _WithHints] = WeakKeyDictionary()
"""Functions compiled for exploring, by the function."""


class _Array(Protocol):
    def copy(self) -> _Array: ...
    def tobytes(self) -> bytes: ...
    def __setitem__(self, index: object, value: object, /) -> None: ...


class _Tensor(Protocol):
    def clone(self) -> _Tensor: ...
    def copy_(self, source: _Tensor, /) -> object: ...
    def detach(self) -> _Tensor: ...
    def contiguous(self) -> _Tensor: ...
    def flatten(self) -> _Tensor: ...
    def view(self, dtype: object, /) -> _Tensor: ...
    def numpy(self) -> _Array: ...


class _Kept:
    """The contents of an array before the call."""

    def __init__(self, array: object):
        self.array = array
        self.is_tensor = hasattr(array, "data_ptr")
        if self.is_tensor:
            self.saved: object = cast("_Tensor", array).detach().clone()
        else:
            self.saved = cast("_Array", array).copy()

    def restore(self) -> None:
        if self.is_tensor:
            cast("_Tensor", self.array).detach().copy_(cast("_Tensor", self.saved))
        else:
            cast("_Array", self.array)[...] = self.saved


def _digest(array: object) -> bytes:
    """What tells the contents of an array from others."""
    if hasattr(array, "data_ptr"):
        import torch

        flat = cast("_Tensor", array).detach().contiguous().flatten().view(torch.uint8)
        return hashlib.sha256(flat.numpy().tobytes()).digest()
    return hashlib.sha256(cast("_Array", array).tobytes()).digest()


def _place_of(array: object) -> tuple[int, int]:
    """First byte and the byte behind the last, where the array lies in a row."""
    nbytes = cast(int, getattr(array, "nbytes", 0))
    if hasattr(array, "data_ptr"):
        low = cast("Callable[[], int]", getattr(array, "data_ptr"))()  # noqa: B009
    else:
        interface = cast("Mapping[str, tuple[int, bool]]", getattr(array, "__array_interface__"))  # noqa: B009
        low = interface["data"][0]
    return low, low + nbytes


def _arrays(values: Iterator[object]) -> Iterator[object]:
    for value in values:
        if isinstance(value, Mapping):
            yield from _arrays(iter(cast("Mapping[object, object]", value).values()))
        elif isinstance(value, list | tuple):
            yield from _arrays(iter(cast("Sequence[object]", value)))
        elif hasattr(value, "__array_interface__") or hasattr(value, "data_ptr"):
            yield value


class RepeatedCall:
    """A call that can be made again: each time with its arrays as they were."""

    def __init__(self, fn: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]):
        if not callable(fn):
            raise DSLTypeError(f"expected a @flyc.jit function or another callable, got {fn!r}")
        backend = resolve_backend(None)
        if not backend.target.on_host:
            raise DSLValueError(
                f"schedules are explored on the cpu stack, and this call is for {backend.target.backend}: set "
                "FLYDSL_COMPILE_BACKEND=cpu, and FLYDSL_COMPILE_ARCH to the GPU to emulate"
            )
        self.fn, self.args, self.kwargs = fn, args, kwargs
        self.kept = [_Kept(a) for a in _arrays(iter((*args, *kwargs.values())))]
        self.places = [_place_of(kept.array) for kept in self.kept]
        self.first: list[bytes] | None = None
        self.first_schedule = ""

    def run(self, strategy: Recorder, compare: bool) -> None:
        """Once; what goes wrong becomes findings of the strategy."""
        if session.strategy is not None:
            raise DSLRuntimeError("schedules are explored one call at a time, and another one is under way")
        for kept in self.kept:
            kept.restore()
        strategy.begin()
        session.seen[:] = [0] * len(SEEN)
        session.strategy, session.error, session.arrays = strategy, None, self.places
        returned: object = None
        try:
            with _uninterrupted():
                returned = self._call()
                get_device_runtime().synchronize()
        except KernelDeadlockError as error:
            strategy.findings.append(("deadlock", _lines(error), strategy.schedule))
        except KernelCheckError as error:
            strategy.findings.append(("check", _lines(error), strategy.schedule))
        finally:
            session.strategy = None
        error, session.error = session.error, None
        if error is not None:
            raise error
        if compare and not strategy.findings and not strategy.abandoned:
            self._compare(strategy, returned)

    def _call(self) -> object:
        if hasattr(self.fn, "with_hints"):
            # Calls of its own that are made again are quick.
            fn = cast("_WithHints", self.fn)
            if fn not in _twins:
                _twins[fn] = fn.with_hints(_HINTS)
            return _twins[fn](*self.args, **self.kwargs)
        with CompilationContext.compile_hints(_HINTS):
            return self.fn(*self.args, **self.kwargs)

    def _compare(self, strategy: Recorder, returned: object) -> None:
        """The arrays among the arguments and those that the call gave, with those of the first run."""
        named = [(f"array argument {i}", kept.array) for i, kept in enumerate(self.kept)]
        named += [(f"array {i} of the result", array) for i, array in enumerate(_arrays(iter((returned,))))]
        digests = [_digest(array) for _, array in named]
        if self.first is None:
            self.first, self.first_schedule = digests, strategy.schedule
        elif digests != self.first:
            which = [name for (name, _), x, y in zip(named, digests, self.first, strict=False) if x != y]
            text = (
                f"the result depends on the order: {', '.join(which)} differ(s) from that of schedule "
                f"{self.first_schedule}"
            )
            strategy.findings.append(("order", text, strategy.schedule))


def _lines(error: BaseException) -> str:
    """The findings of checked mode, without its head line and without addresses, which no two runs share."""
    return "\n".join(line.strip() for line in str(error).splitlines()[1:]) or str(error)


@contextmanager
def _uninterrupted() -> Generator[None]:
    """Control-C comes after the run: it must not leave a launch while Python runs inside of it."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def one_thread() -> Generator[None]:
    """All blocks of a launch in one call."""
    from ..cpu.runtime.native import launcher

    native_launcher = launcher()
    before, native_launcher.serial_below = native_launcher.serial_below, 1 << 62
    try:
        yield
    finally:
        native_launcher.serial_below = before


class _Found:
    """Findings so far, each once."""

    def __init__(self) -> None:
        self.findings: dict[tuple[str, str], Finding] = {}
        self.notes: dict[str, None] = {}
        self.kernels: dict[str, None] = {}
        self.runs = self.operations = 0
        self.looked_at = LookedAt()

    def take(self, run: Recorder) -> None:
        self.runs += 1
        self.looked_at = self.looked_at.most(
            LookedAt(barriers=run.barriers, **dict(zip(SEEN, session.seen, strict=True)))
        )
        self.operations = max(self.operations, run.steps)
        self.kernels.update(dict.fromkeys(run.kernels))
        self.notes.update(dict.fromkeys(run.notes))
        for kind, text, schedule in run.findings:
            key = (kind, "" if kind == "order" else "\n".join(sorted(_place(line) for line in text.splitlines())))
            self.findings.setdefault(key, Finding(kind, text, schedule, run.timeline))


def _place(line: str) -> str:
    """What a line says, without threads and addresses."""
    return line.partition("; thread")[0].partition(" parity")[0]


def explore_schedules(
    fn: Callable[..., object],
    *args: object,
    budget_s: float = 30.0,
    stop_at_first: bool = True,
    compare_results: bool = True,
    **kwargs: object,
) -> ScheduleReport:
    """Make a call on the cpu stack in every order of its warps, blocks and asynchronous copies that may differ.

    Finds deadlocks, what checked mode finds in any of the orders, barriers that are misused, and results that depend
    on the order (`compare_results`; sums of floats by atomics do). The arrays among the arguments are as before at the
    end. After `budget_s` seconds, or with `stop_at_first` at the first finding, it ends; the report says how far it
    came.

    >>> @flyc.kernel
    ... def count_kernel(x: fx.Tensor):
    ...     fx.atomic_add(fx.get_iter(x), 1)
    >>> @flyc.jit
    ... def count(x: fx.Tensor):
    ...     count_kernel(x).launch(grid=2, block=32)
    >>> report = flyc.explore_schedules(count, np.zeros(1, np.int32))
    >>> bool(report), report.complete
    (True, True)
    """
    start = time.monotonic()
    call, found, search = RepeatedCall(fn, args, kwargs), _Found(), Search()
    complete = False
    with one_thread():
        try:
            # Where the first run leaves no choice that matters, it is all there is. Most mistakes show in the probes.
            runs: list[Recorder] = [search, *(Probe(seed) for seed in range(_PROBES))]
            while not complete:
                run = runs.pop(0) if runs else search
                call.run(run, compare_results)
                found.take(run)
                complete = run is search and not search.advance()
                if found.findings and (stop_at_first or len(found.findings) >= _MOST_FINDINGS):
                    break
                if time.monotonic() - start > budget_s:
                    break
        finally:
            for kept in call.kept:
                kept.restore()
    if found.looked_at.forgotten:
        found.notes["accesses that a table had no room for: use a smaller problem"] = None
    return ScheduleReport(
        tuple(found.findings.values()),
        found.runs,
        len(search.orders),
        found.operations,
        complete,
        search.left,
        time.monotonic() - start,
        (*found.notes, *ALWAYS_UNCOVERED),
        tuple(found.kernels),
        found.looked_at,
    )


def replay_schedule(
    fn: Callable[..., object], *args: object, schedule: str, compare_results: bool = True, **kwargs: object
) -> ScheduleRun:
    """Make a call in the order that a finding of `explore_schedules` names; the arrays keep what it gave.

    With `compare_results` the result is compared with that of the first order, so the call is made twice.

    >>> flyc.replay_schedule(lambda: None, schedule="s1:").findings
    ()
    """
    call = RepeatedCall(fn, args, kwargs)
    found = _Found()
    with one_thread():
        if compare_results:
            call.run(Recorder(), True)
        run = Replay(decode(schedule))
        call.run(run, compare_results)
    found.take(run)
    return ScheduleRun(tuple(found.findings.values()), run.timeline)


def explore_before(fn: _WithHints, args: tuple[object, ...], kwargs: Mapping[str, object], budget_s: float) -> None:
    """What FLYDSL_RUNTIME_CPU_SCHEDULES asks for: explore a call before it is made, and raise what is found."""
    if session.strategy is not None or not resolve_backend(None).target.on_host:
        return
    report = explore_schedules(fn, *args, budget_s=budget_s, **dict(kwargs))  # pyright: ignore[reportArgumentType]
    if report.findings:
        raise KernelScheduleError(f"{report!r}\n{report.findings[0].timeline}")
