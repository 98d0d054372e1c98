"""`flyc.compile` and what it gives: a jit function for one signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .. import config
from ..errors import DSLRuntimeError, DSLTypeError
from .build.collector import collector_off
from .call.prepared import PreparedLaunch
from .call.repeat import repeat_of
from .call.warm import CallState, Slow
from .diagnostics import user_frames_only
from .jit_function import BoundCall, JitFunction, resolve_backend

if TYPE_CHECKING:
    from .backends.base import BaseBackend
    from .build.artifact import CompiledArtifact


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
        self._state: CallState | None = None
        self._warm_key: Any = None
        self._repeat: Callable[..., bool] | None = None

    def __call__(self, *args: Any) -> None:
        repeat = self._repeat
        if repeat is not None:
            try:
                if repeat(*args):
                    return
            except TypeError as error:
                # Arguments that do not fit the parameters: said below. From inside it would come after a launch.
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise
        function = self._function
        state = self._state
        key: Any = None
        if function._owner is None:  # pyright: ignore[reportPrivateUsage]
            try:
                key, values = function.binder(*args)
                if state is not None and key == self._warm_key and state.same_settings():
                    self._repeat = repeat_of(state, lambda: function.bind_given(args), function.signature, None)
                    state.run(values)
                    return
            except (Slow, TypeError):
                key = None
        with user_frames_only():
            self._cold_call(key, args)

    def _cold_call(self, key: Any, args: tuple[Any, ...]) -> None:
        function = self._function
        call = function.bind_given(args)
        if call.key != self._key:
            raise DSLTypeError(
                f"{function.__qualname__} was compiled for another signature: expected {self._key}, got {call.key}"
            )
        active = resolve_backend(None)
        if active.target != self._backend.target:
            raise DSLTypeError(
                f"{function.__qualname__} was compiled for {self._backend.target.key()}, "
                f"but this process runs {active.target.key()}"
            )
        if config.compile.compile_only:
            raise DSLRuntimeError("compile-only mode: the compiled function has an artifact but cannot be called")
        loaded = function.load(call, self._backend, self.artifact)
        loaded.call(list(call.adapted.values()))
        if key is not None:
            try:
                state = CallState(call, loaded, function.function_key())
                self._state, self._warm_key = state, key
            except Slow:
                self._state = None

    def prepare(self, *args: Any, stream: Any = None) -> PreparedLaunch:
        """Check and marshal these arguments once; `launch()` then repeats the call at next to no cost."""
        function = self._function
        call = function.bind_given(args)
        if call.key != self._key:
            raise DSLTypeError(f"{function.__qualname__} was compiled for another signature: expected {self._key}")
        loaded = function.load(call, self._backend, self.artifact)
        method = function._owner is not None  # pyright: ignore[reportPrivateUsage]
        return PreparedLaunch(loaded, call, function.signature, stream, method=method)

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

    def __init__(self, hints: Mapping[str, Any] | None = None):
        self._hints = dict(hints or {})

    def __getitem__(self, hints: Mapping[str, Any]) -> _Compile:
        if not isinstance(hints, dict):
            raise DSLTypeError(f"flyc.compile[...] takes a dict of hints, got {hints!r}")
        return _Compile({**self._hints, **hints})

    def __call__(
        self, fn: JitFunction, /, *args: object, target: str | None = None, run_first: bool = False
    ) -> CompiledFunction:
        """Compile `fn` for arguments like these, without running it (`run_first=True` runs it once)."""
        with user_frames_only():
            return self._compile(fn, args, target, run_first)

    def _compile(self, fn: object, args: tuple[Any, ...], target: str | None, run_first: bool) -> Any:
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
