"""`flyc.compile` and what it gives: a jit function for one signature."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import config
from ..errors import DSLRuntimeError, DSLTypeError
from ..target.compatibility import runs_on
from .active_backend import resolve_backend
from .build.collector import collector_off
from .call.bind import BoundCall
from .call.load import launch_place
from .call.placement import check_capture
from .call.prepared import PreparedLaunch
from .call.warm import Served
from .call.warm_calls import WarmCalls
from .diagnostics import user_frames_only
from .jit_function import JitFunction

if TYPE_CHECKING:
    from .backends.base import BaseBackend
    from .build.artifact import CompiledArtifact
    from .call.dispatch import LoadedFunction


class CompiledFunction:
    """A jit function compiled for one signature; call it with arguments of that signature.

    >>> @flyc.kernel
    ... def scale_kernel(x: fx.Tensor, by: fx.Float32):
    ...     x[fx.thread_idx.x] = x[fx.thread_idx.x] * by
    >>> @flyc.jit
    ... def scale(x: fx.Tensor, by: fx.Float32):
    ...     scale_kernel(x, by).launch(grid=1, block=4)
    >>> x = np.arange(4, dtype="f4")
    >>> compiled = flyc.compile(scale, x, 2.0)
    >>> compiled(x, 10.0)
    >>> x
    array([ 0., 10., 20., 30.], dtype=float32)
    """

    def __init__(self, function: JitFunction, call: BoundCall, artifact: CompiledArtifact, backend: BaseBackend):
        self._function = function
        self._key = call.key
        self.artifact = artifact
        self._backend = backend
        self._warm = WarmCalls(function.signature)
        self._repeat: Served | None = None

    def __call__(self, *args: object) -> None:
        repeat = self._repeat
        if repeat is not None:
            try:
                if repeat(*args):
                    return
            except TypeError as error:
                # Arguments that do not fit the parameters: said below. From inside it would come after a launch.
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise
        served = self._warm.serve(args, {}) if self._function.owner is None else None
        if served is not None:
            self._repeat = served
            return
        with user_frames_only():
            self._cold_call(args)

    def _cold_call(self, args: tuple[object, ...]) -> None:
        function = self._function
        call = self._bind(args)
        active = resolve_backend(None)
        made_for = self._backend.target
        if not runs_on(made_for, active.target, assembled="cubin" in self.artifact.sections):
            raise DSLTypeError(
                f"{function.__qualname__} was compiled for {made_for.key()}, "
                f"but this process runs {active.target.key()}"
            )
        if config.compile.compile_only:
            raise DSLRuntimeError("compile-only mode: the compiled function has an artifact but cannot be called")
        loaded = self._load(call)
        loaded.call(list(call.adapted.values()))
        if function.owner is None:
            self._repeat = self._warm.learn(call.key, args, {}, call, loaded, None) or self._repeat

    def _bind(self, args: tuple[object, ...]) -> BoundCall:
        call = self._function.bind_given(args)
        if call.key != self._key:
            raise DSLTypeError(
                f"{self._function.__qualname__} was compiled for another signature: expected {self._key}, "
                f"got {call.key}"
            )
        return call

    def _load(self, call: BoundCall) -> LoadedFunction:
        function = self._function
        with launch_place(call.adapted) as runtime:
            before = partial(check_capture, call.adapted, runtime, function.__qualname__)
            return function.load(self.artifact, self._backend, before)

    def prepare(self, *args: object, stream: object = None) -> PreparedLaunch:
        """Check and marshal these arguments once; `launch()` then repeats the call at next to no cost."""
        function = self._function
        call = self._bind(args)
        method = function.owner is not None
        return PreparedLaunch(self._load(call), call, function.signature, stream, method=method)

    def __repr__(self) -> str:
        return f"<compiled {self._function.__qualname__} for {self._backend.target.key()}>"


class _Compile:
    """`flyc.compile(fn, *args, target=None)` and `flyc.compile[hints](fn, *args)`.

    >>> @flyc.kernel
    ... def scale_kernel(x: fx.Tensor, by: fx.Float32):
    ...     x[fx.thread_idx.x] = x[fx.thread_idx.x] * by
    >>> @flyc.jit
    ... def scale(x: fx.Tensor, by: fx.Float32):
    ...     scale_kernel(x, by).launch(grid=1, block=4)
    >>> x = np.arange(4, dtype="f4")
    >>> flyc.compile(scale, x, 2.0).artifact.target.backend
    'cpu'
    >>> flyc.compile[{"maxnreg": 64}](scale, x, 2.0, target="cuda:sm_90").artifact.metadata["hints"]
    {'maxnreg': 64}
    """

    def __init__(self, hints: Mapping[str, object] | None = None):
        self._hints = dict(hints or {})

    def __getitem__(self, hints: Mapping[str, object]) -> _Compile:
        if not isinstance(hints, dict):
            raise DSLTypeError(f"flyc.compile[...] takes a dict of hints, got {hints!r}")
        return _Compile({**self._hints, **hints})

    def __call__(
        self, fn: JitFunction, /, *args: object, target: str | None = None, run_first: bool = False
    ) -> CompiledFunction:
        """Compile `fn` for arguments like these, without running it (`run_first=True` runs it once)."""
        with user_frames_only():
            return self._compile(fn, args, target, run_first)

    def _compile(self, fn: object, args: tuple[object, ...], target: str | None, run_first: bool) -> Any:
        if not isinstance(fn, JitFunction):
            raise DSLTypeError(f"flyc.compile expects a @flyc.jit function, got {fn!r}")
        if not args and self._hints and target is None:
            fn.add_hints(self._hints)
            return fn
        call = fn.bind_given(args)
        backend = resolve_backend(target)
        with collector_off():
            compiled = CompiledFunction(fn, call, fn.artifact(call, backend, self._hints), backend)
        if run_first:
            compiled(*args)
        return compiled


compile = _Compile()
