"""Streams and events of the cpu stack: a queue with one worker thread, and marks with time stamps."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from flydsl.errors import FlyRuntimeError, InvalidHandleError, LaunchError, RuntimeStateError


class Mark:
    """One recording of an event."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.stamp_ns = 0
        self.error: BaseException | None = None

    def set(self, error: BaseException | None = None) -> None:
        self.error = error
        self.stamp_ns = time.perf_counter_ns()
        self.reached.set()


class EventState:
    """An event: whether it times, and its latest recording."""

    def __init__(self, timing: bool):
        self.timing = timing
        self.mark: Mark | None = None


class TaskQueue:
    """A stream: tasks in order on one thread, which starts with the first task."""

    def __init__(self, handle: int, blocking: bool):
        self.handle = handle
        self.blocking = blocking
        """Whether work on the default stream waits for this one."""
        self.reset()

    def reset(self) -> None:
        """A clean state: at creation, and in a fork()ed child, where the worker does not exist."""
        self._changed = threading.Condition()
        self._tasks: deque[Callable[[], object]] = deque()
        self._busy = False
        self._closed = False
        self._worker: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def idle(self) -> bool:
        return not self._tasks and not self._busy

    @property
    def error(self) -> BaseException | None:
        """The first failure nobody has been told of."""
        return self._error

    def on_worker(self) -> bool:
        return threading.current_thread() is self._worker

    def submit(self, task: Callable[[], object]) -> None:
        with self._changed:
            if self._closed:
                raise InvalidHandleError("this stream has been closed", stream=self.handle)
            self._tasks.append(task)
            if self._worker is None:
                self._worker = threading.Thread(target=self._run, name=f"flydsl-stream-{self.handle}", daemon=True)
                self._worker.start()
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._tasks:
                    if self._closed:
                        return
                    self._changed.wait()
                self._busy = True
                task = self._tasks.popleft()
            error: BaseException | None = None
            try:
                task()
            except BaseException as failure:  # noqa: BLE001 - handed to whoever synchronises
                error = failure
            del task
            with self._changed:
                self._busy = False
                self._error = self._error or error
                self._changed.notify_all()

    def wait(self) -> None:
        """Wait until the queue is empty."""
        if self.on_worker():
            raise RuntimeStateError("a task on a stream cannot wait for that stream", stream=self.handle)
        with self._changed:
            while not self.idle:
                self._changed.wait()

    def synchronize(self) -> None:
        """Wait, then raise what went wrong since the last time."""
        self.wait()
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise as_launch_error(error, self.handle)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def as_launch_error(error: BaseException, stream: int) -> FlyRuntimeError:
    """What to raise for a failure of queued work."""
    if isinstance(error, FlyRuntimeError):
        return error
    wrapped = LaunchError(f"work on a stream failed: {type(error).__name__}: {error}", stream=stream)
    wrapped.__cause__ = error
    return wrapped
