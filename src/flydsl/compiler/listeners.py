"""Callbacks told of every compilation and launch of the process, for build systems, profilers and tests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .. import config
from ..errors import DSLTypeError

if TYPE_CHECKING:
    from .build.artifact import CompiledArtifact
    from .call.bind import BoundCall

Callback = Callable[[str, str, str, Mapping[str, object], bool, "CompiledArtifact"], object]

_listeners: tuple[Listener, ...] = ()
_logger = logging.getLogger("flydsl")


class Listener:
    """A registered callback; leaving a `with` block, or `remove()`, ends it."""

    def __init__(self, callback: Callback):
        self.callback = callback

    def remove(self) -> None:
        """Stop calling it."""
        global _listeners
        _listeners = tuple(each for each in _listeners if each is not self)

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def compile_listener(callback: Callback) -> Listener:
    """Call `callback(name, key, target, times, cache_hit, artifact)` whenever a jit function gets code it had not yet.

    `times` are seconds per stage, `cache_hit` says that the code came from disk. What a callback raises is logged; the
    compilation goes on.

    ::

        with flyc.compile_listener(lambda name, key, target, times, cache_hit, artifact: print(name, target)):
            add(a, b, c, n)

    >>> @flyc.kernel
    ... def scale_kernel(x: fx.Tensor, by: fx.Float32):
    ...     x[fx.thread_idx.x] = x[fx.thread_idx.x] * by
    >>> @flyc.jit
    ... def scale(x: fx.Tensor, by: fx.Float32):
    ...     scale_kernel(x, by).launch(grid=1, block=4)
    >>> seen = []
    >>> with flyc.compile_listener(lambda name, key, target, times, hit, artifact: seen.append(name)):
    ...     _ = flyc.compile(scale, np.zeros(4, "f4"), 2.0, target="cuda:sm_80")
    >>> seen
    ['scale']
    """
    global _listeners
    if not callable(callback):
        raise DSLTypeError(f"flyc.compile_listener takes a function, got {callback!r}")
    made = Listener(callback)
    _listeners = (*_listeners, made)
    return made


def notify(artifact: CompiledArtifact, cache_hit: bool) -> None:
    """Tell every listener."""
    for listener in _listeners:
        about: Mapping[str, object] = artifact.metadata
        times: Mapping[str, object] = {} if cache_hit else about.get("times", {})
        try:
            listener.callback(about["name"], artifact.key, about["target"], times, cache_hit, artifact)
        except Exception:
            _logger.exception("a compile listener failed for %s", about["name"])


# --- calls that only compile ----------------------------------------------------------------------------------------

CallWatcher = Callable[["CompiledArtifact", "BoundCall"], object]
_watchers: tuple[CallWatcher, ...] = ()


@contextmanager
def watching_calls(watcher: CallWatcher) -> Generator[None]:
    """Call `watcher(artifact, call)` for each call of compile-only mode inside the block."""
    global _watchers
    _watchers = (*_watchers, watcher)
    try:
        yield
    finally:
        _watchers = tuple(each for each in _watchers if each is not watcher)


def compiled_only(artifact: CompiledArtifact, call: BoundCall) -> None:
    """A call ended with its code."""
    for watcher in _watchers:
        watcher(artifact, call)


# --- launches -------------------------------------------------------------------------------------------------------


class LaunchHooks:
    """Two functions called around every launch; leaving a `with` block, or `remove()`, ends it."""

    def __init__(self, enter: LaunchCallback | None, exit: LaunchCallback | None):
        self.enter = enter
        self.exit = exit

    def remove(self) -> None:
        """Stop calling them."""
        global launch_hooks_set
        launch_hooks_set = tuple(each for each in launch_hooks_set if each is not self)
        config.settings_changed()

    def __enter__(self) -> LaunchHooks:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


LaunchCallback = Callable[["CompiledArtifact"], object]
launch_hooks_set: tuple[LaunchHooks, ...] = ()
"""Hooks in force. While there are any, calls take the slower path, so that without any nothing has to look."""


def launch_hooks(enter: LaunchCallback | None = None, exit: LaunchCallback | None = None) -> LaunchHooks:
    """Call `enter(artifact)` before and `exit(artifact)` after each launch of jit and compiled functions.

    What they raise is logged; the launch goes on. A `PreparedLaunch` made before is not seen: it exists to do nothing
    but the launch.

    >>> from flydsl.kernels.vector_add import vector_add
    >>> x, seen = np.zeros(4, "f4"), []
    >>> with flyc.launch_hooks(enter=lambda artifact: seen.append(artifact.name)):
    ...     vector_add(x, x, x)
    >>> seen
    ['vector_add']
    """
    global launch_hooks_set
    for hook in (enter, exit):
        if hook is not None and not callable(hook):
            raise DSLTypeError(f"flyc.launch_hooks takes functions, got {hook!r}")
    made = LaunchHooks(enter, exit)
    launch_hooks_set = (*launch_hooks_set, made)
    config.settings_changed()
    return made


def call_hooks(which: str, artifact: CompiledArtifact) -> None:
    """Call the hooks of one side of a launch."""
    for hooks in launch_hooks_set:
        hook: LaunchCallback | None = getattr(hooks, which)
        try:
            if hook is not None:
                hook(artifact)
        except Exception:
            _logger.exception("a launch hook failed for %s", artifact.name)
