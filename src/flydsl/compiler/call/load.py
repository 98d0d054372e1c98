"""The third step of a call: which device it goes to, and its code loaded there."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..build.step_times import timed_step
from .placement import check_places, launch_device

if TYPE_CHECKING:
    from ...runtime.base import DeviceRuntime
    from ..backends.base import BaseBackend
    from ..build.artifact import CompiledArtifact
    from .arguments import Arguments
    from .dispatch import LoadedFunction


@contextmanager
def launch_place(arguments: Arguments) -> Generator[DeviceRuntime]:
    """A block in which the device that a call with these arguments goes to is the current one."""
    from ...runtime.device_runtime import get_device_runtime

    runtime = get_device_runtime()
    ordinal = launch_device(arguments, runtime)
    if ordinal == runtime.current_device_id():
        check_places(arguments, runtime)
        yield runtime
        return
    with runtime.device(ordinal):
        check_places(arguments, runtime)
        yield runtime


def _renew_locks() -> None:
    """In a fork()ed child the thread that held a lock does not exist."""
    for code in list(_all):
        code.lock = threading.RLock()


_all: weakref.WeakSet[LoadedCode] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


class LoadedCode:
    """What one function has loaded, by artifact, device and runtime."""

    def __init__(self) -> None:
        self._loaded: dict[tuple[int, int, int], LoadedFunction] = {}
        self.lock = threading.RLock()
        _all.add(self)

    def load(
        self, artifact: CompiledArtifact, backend: BaseBackend, name: str, before: Callable[[], None] | None = None
    ) -> LoadedFunction:
        """An artifact loaded on the current device; `before` is called first where it is not loaded yet."""
        from ...runtime.device_runtime import get_device_runtime
        from .dispatch import LoadedFunction

        runtime = get_device_runtime()
        where = (id(artifact), runtime.current_device_id(), id(runtime))
        loaded = self._loaded.get(where)
        if loaded is None:
            with self.lock:
                loaded = self._loaded.get(where)
                if loaded is None:
                    if before is not None:
                        before()
                    with timed_step(name, "module load"):
                        loaded = LoadedFunction(artifact, runtime, backend.loadable(artifact.sections))
                    self._loaded[where] = loaded
        return loaded

    def forget(self, artifact: CompiledArtifact) -> list[LoadedFunction]:
        """Drop an artifact wherever it is loaded; it is unloaded once nobody has it."""
        gone = [where for where, loaded in self._loaded.items() if loaded.artifact is artifact]
        return [self._loaded.pop(where) for where in gone]

    def clear(self) -> None:
        """Drop all."""
        self._loaded.clear()
