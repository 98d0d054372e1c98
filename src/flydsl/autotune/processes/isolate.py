"""Candidates in processes of their own: compiled there in parallel, timed there one by one with a time limit.

A child that hangs, aborts or faults costs the candidate it was at, and is replaced. The caller's arrays stay untouched:
a child works on copies.
"""

from __future__ import annotations

import pickle
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from ...errors import DeviceLostError, DSLCompileError, DSLRuntimeError
from ...llvm.worker_process import Frame, WorkerDied, WorkerProcess, WorkerTimeout
from ..bench import Timing
from ..candidate import Config
from ..runner import WrongResult
from .images import CallImage, FunctionPlace, Unsendable, code_place, image_of, place_of

MODULE = "flydsl.autotune.processes.worker"
START_S = 300.0
"""Seconds a child may take to start: it imports what the function is made of."""
RECYCLE = 64
"""Candidates a child compiles; LLVM keeps some memory of each."""


def pack_config(config: Config) -> bytes:
    """A configuration for another process of ours."""
    try:
        return pickle.dumps(config)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise Unsendable(f"{config!r} cannot be sent: {error}") from None


class Child:
    """A worker that knows one call."""

    def __init__(self, place: FunctionPlace, image: CallImage, env: Mapping[str, str] | None = None):
        self.process = WorkerProcess(MODULE, env)
        request = {"do": "open", "module": place.module, "qualname": place.qualname, "file": place.file}
        self.ask(request, [image.payload, *image.blobs], START_S)

    def ask(self, request: dict[str, Any], blobs: Sequence[bytes], timeout: float) -> dict[str, Any]:
        """The answer; its error is raised."""
        return self.ask_all(request, blobs, timeout)[0]

    def ask_all(self, request: dict[str, Any], blobs: Sequence[bytes], timeout: float) -> Frame:
        """The same with the byte strings that came along."""
        try:
            reply, data = self.process.ask(request, blobs, timeout=timeout)
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
        return reply, data

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

    def __init__(self, place: FunctionPlace, image: CallImage, timeout: float, env: Mapping[str, str] | None = None):
        self.place = place
        self.image = image
        self.env = env
        self.timeout = timeout
        self.reference: Config | None = None
        self._child: Child | None = None

    @classmethod
    def of_call(cls, owner: object, call: tuple[object, ...], named: Mapping[str, object], timeout: float) -> Self:
        """For a call of this process; raises `Unsendable` where it cannot be made elsewhere."""
        return cls(place_of(owner), image_of(call, named, data=True), timeout)

    def time(self, config: Config, *, compare: bool) -> Timing:
        """Times of a candidate; raises what became of it instead."""
        data = pack_config(config)
        child = self.running()
        try:
            reply = child.ask({"do": "time", "compare": compare}, [data], self.timeout)
        except ChildLost:
            self._child = None
            raise
        if compare and self.reference is None:
            self.reference = config  # the first that ran; a child that replaces this one runs it again
        return Timing(tuple(reply["times"]), reply["method"])

    def expect(self, configs: Sequence[Config]) -> None:
        """One child times one candidate at a time: there is nothing to start early."""

    def running(self) -> Child:
        """A child that knows the call, and the right results."""
        if self._child is not None and self._child.alive:
            return self._child
        self._child = Child(self.place, self.image, self.env)
        if self.reference is not None:
            try:
                self._child.ask({"do": "reference"}, [pack_config(self.reference)], self.timeout)
            except (ChildLost, CandidateFailed):
                # It cannot be what others are held against; the first that runs is, from now on.
                self.reference = None
                if not self._child.alive:
                    self._child = Child(self.place, self.image, self.env)
        return self._child

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
    place = code_place(owner)
    image = image_of(call, named, data=False)
    packed = [pack_config(config) for config in configs]
    pending: queue.SimpleQueue[int] = queue.SimpleQueue()
    for i in range(len(configs)):
        pending.put(i)
    results: dict[int, dict[str, Any]] = {}
    failures: list[BaseException] = []

    def work() -> None:
        child: Child | None = None
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
                        child = Child(place, image, {"FLYDSL_COMPILE_ONLY": "1"})
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
