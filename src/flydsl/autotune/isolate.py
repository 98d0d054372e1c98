"""Candidates in processes of their own: compiled there in parallel, timed there one by one with a time limit.

A child that hangs, aborts or faults costs the candidate it was at, and is replaced. The caller's arrays stay untouched:
a child works on copies.
"""

from __future__ import annotations

import pickle
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import DeviceLostError, DSLCompileError, DSLRuntimeError
from ..llvm.worker_process import WorkerDied, WorkerProcess, WorkerTimeout
from .bench import Timing
from .candidate import Config
from .images import CallImage, FunctionPlace, Unsendable, image_of, place_of
from .runner import WrongResult

MODULE = "flydsl.autotune.worker"
START_S = 300.0
"""Seconds a child may take to start: it imports what the function is made of."""
RECYCLE = 64
"""Candidates a child compiles; LLVM keeps some memory of each."""


def _send(config: Config) -> bytes:
    try:
        return pickle.dumps(config)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise Unsendable(f"{config!r} cannot be sent: {error}") from None


class _Child:
    """A worker that knows one call."""

    def __init__(self, place: FunctionPlace, image: CallImage, env: Mapping[str, str] | None = None):
        self.process = WorkerProcess(MODULE, env)
        request = {"do": "open", "module": place.module, "qualname": place.qualname, "file": place.file}
        self.ask(request, [image.payload, *image.blobs], START_S)

    def ask(self, request: dict[str, Any], blobs: Sequence[bytes], timeout: float) -> dict[str, Any]:
        """The answer; its error is raised."""
        try:
            reply, _ = self.process.ask(request, blobs, timeout=timeout)
        except WorkerDied as death:
            said = death.output.strip().splitlines()
            raise ChildLost(f"the process {death.how()}{': ' + said[-1] if said else ''}") from None
        except WorkerTimeout:
            raise ChildLost(f"it did not end within {timeout:g} s") from None
        if "error" in reply:
            if reply["error"] == "WrongResult":
                raise WrongResult(str(reply["message"]))
            if reply["error"] == DeviceLostError.__name__:
                # The child is gone with its context, the parent's device is not.
                self.close()
                raise ChildLost(f"the device was lost: {reply['message']}")
            raise CandidateFailed(str(reply["text"]))
        return reply

    @property
    def alive(self) -> bool:
        return self.process.alive

    def close(self) -> None:
        self.process.close()


class ChildLost(DSLRuntimeError):
    """A candidate took its process down."""


class CandidateFailed(DSLRuntimeError):
    """What a candidate raised in its process."""


class Isolation:
    """Times candidates in a child."""

    def __init__(self, owner: object, call: tuple[object, ...], named: Mapping[str, object], timeout: float):
        self.place = place_of(owner)
        self.image = image_of(call, named, data=True)
        self.timeout = timeout
        self.reference: Config | None = None
        self._child: _Child | None = None

    def time(self, config: Config, *, compare: bool) -> Timing:
        """Times of a candidate; raises what became of it instead."""
        data = _send(config)
        if self._child is None or not self._child.alive:
            self._child = None
            child = _Child(self.place, self.image)
            self._child = child
            if self.reference is not None:
                self._refer(child, self.reference)
        try:
            reply = self._child.ask({"do": "time", "compare": compare}, [data], self.timeout)
        except ChildLost:
            self._child = None
            raise
        if compare and self.reference is None:
            self.reference = config  # the first that ran; a child that replaces this one runs it again
        return Timing(tuple(reply["times"]), reply["method"])

    def _refer(self, child: _Child, reference: Config) -> None:
        try:
            child.ask({"do": "reference"}, [_send(reference)], self.timeout)
        except ChildLost:
            self.reference, self._child = None, None
            raise ChildLost(f"the reference configuration {reference} takes its process down") from None
        except CandidateFailed:
            self.reference = None

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None


def compile_in_processes(
    owner: object,
    call: tuple[object, ...],
    named: Mapping[str, object],
    configs: Sequence[Config],
    jobs: int,
    timeout: float,
    enough: Callable[[], bool] = lambda: False,
) -> dict[int, dict[str, Any]]:
    """Compile candidates into the disk cache, several at once; by number: `resources` and `seconds`, or `error`.

    Those that `enough` ends early are missing. Raises `Unsendable` where the call cannot be made elsewhere.
    """
    place = place_of(owner)
    image = image_of(call, named, data=False)
    packed = [_send(config) for config in configs]
    pending: queue.SimpleQueue[int] = queue.SimpleQueue()
    for i in range(len(configs)):
        pending.put(i)
    results: dict[int, dict[str, Any]] = {}
    failures: list[BaseException] = []

    def work() -> None:
        child: _Child | None = None
        try:
            while not enough() and not failures:
                try:
                    i = pending.get_nowait()
                except queue.Empty:
                    return
                try:
                    if child is None or child.process.served > RECYCLE:
                        if child is not None:
                            child.close()
                        child = _Child(place, image, {"FLYDSL_COMPILE_ONLY": "1"})
                    results[i] = child.ask({"do": "compile"}, [packed[i]], timeout)
                except ChildLost as error:
                    results[i], child = {"error": str(error)}, None
                except (CandidateFailed, DSLCompileError) as error:
                    results[i] = {"error": str(error)}
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            failures.append(error)
        finally:
            if child is not None:
                child.close()

    threads = [threading.Thread(target=work, name=f"flydsl-tune-{i}") for i in range(max(1, min(jobs, len(configs))))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results
