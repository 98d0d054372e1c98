"""`@flyc.jit`: host functions that launch kernels, compiled once per signature."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from types import FunctionType
from typing import TYPE_CHECKING, Any, overload

from .. import config
from ..errors import DSLTypeError, SourceFrame
from ..expr.trace import maybe_current
from .arguments import adapt
from .ast_rewriter import RewrittenFunction, rewrite_function
from .signature import Parameter, Signature

if TYPE_CHECKING:
    from .artifact import CompiledArtifact
    from .backends.base import BaseBackend
    from .dispatch import LoadedFunction


class BoundCall:
    """The arguments of one call, adapted, with what identifies its compiled code."""

    __slots__ = ("adapted", "arguments", "key")

    def __init__(self, arguments: dict[str, Any], adapted: dict[str, Any], key: tuple[Any, ...]):
        self.arguments = arguments
        self.adapted = adapted
        self.key = key


class JitFunction:
    """A host function: calling it traces, compiles, caches and launches."""

    def __init__(self, function: FunctionType, *, compile_hints: Mapping[str, Any] | None = None, owner: Any = None):
        self.__wrapped__ = function
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.compile_hints = dict(compile_hints or {})
        self.rewritten = rewrite_function(function)
        self._owner = owner
        self._artifacts: dict[Any, CompiledArtifact] = {}
        self._loaded: dict[Any, LoadedFunction] = {}
        self._lock = threading.RLock()
        self._hits = self._misses = 0

    @property
    def __fly_function__(self) -> RewrittenFunction:
        """What the function was written as; read for the cache key."""
        return self.rewritten

    @cached_property
    def signature(self) -> Signature:
        """Parameters, resolved at the first call, when all annotations can be."""
        return Signature(self.__wrapped__)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        bound = object.__new__(JitFunction)
        bound.__dict__.update(self.__dict__)
        bound._owner = instance
        return bound

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._owner is not None:
            args = (self._owner, *args)
        if maybe_current() is not None:
            return self.rewritten.function(*args, **kwargs)
        call = self.bind(args, kwargs)
        backend = _resolve_backend(None)
        if config.compile.compile_only:
            self.artifact(call, backend)
            return None
        self.load(call, backend).call([a for a in call.adapted.values()])
        return None

    # --- steps of a call ------------------------------------------------------------------------------------------

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> BoundCall:
        """Adapt the arguments of a call."""
        given = self.signature.bind(args, kwargs)
        arguments: dict[str, Any] = {}
        adapted: dict[str, Any] = {}
        key: list[Any] = []
        for i, (name, parameter) in enumerate(self.signature.parameters.items()):
            value = given[name]
            if i == 0 and self._owner is not None:
                arguments[name] = value
                key.append((type(value).__module__, type(value).__qualname__, _attributes_of(value)))
            elif parameter.kind == "constexpr":
                _check_constexpr(parameter, value)
                arguments[name] = value
                key.append((name, type(value).__name__, _constexpr_key(value)))
            elif parameter.kind == "type":
                if not isinstance(value, type):
                    raise DSLTypeError(f"parameter '{name}' expects a class, got {value!r}")
                arguments[name] = value
                key.append((name, value.__module__, value.__qualname__))
            else:
                argument = adapt(name, value, parameter.annotation)
                argument.check()
                arguments[name] = adapted[name] = argument
                key.append((name, argument.__cache_signature__()))
        return BoundCall(arguments, adapted, tuple(key))

    def artifact(
        self, call: BoundCall, backend: BaseBackend, hints: Mapping[str, Any] | None = None
    ) -> CompiledArtifact:
        """The compiled code for a call: from memory, or compiled now."""
        merged = {**self.compile_hints, **(hints or {})}
        key = (call.key, backend.hash(), tuple(sorted((k, repr(v)) for k, v in merged.items())))
        found = self._artifacts.get(key)
        if found is not None:
            self._hits += 1
            return found
        with self._lock:
            found = self._artifacts.get(key)
            if found is None:
                self._misses += 1
                found = self._artifacts[key] = self.compile(call, backend, merged)
        return found

    def compile(self, call: BoundCall, backend: BaseBackend, hints: Mapping[str, Any]) -> CompiledArtifact:
        """Trace and compile; a mistake in user code is shown at its line."""
        from .driver import compile_traced

        try:
            return compile_traced(self.__name__, self.rewritten.function, call.arguments, backend, hints=hints)
        except Exception as error:
            add_source_note(error)
            raise

    def load(self, call: BoundCall, backend: BaseBackend) -> LoadedFunction:
        """The compiled code for a call, loaded on the active device."""
        from ..runtime.device_runtime import get_device_runtime
        from .dispatch import LoadedFunction, check_devices

        kind = backend.runtime_kind or backend.name
        check_devices(call.adapted, kind)
        artifact = self.artifact(call, backend)
        loaded = self._loaded.get(id(artifact))
        if loaded is None:
            with self._lock:
                loaded = self._loaded.get(id(artifact))
                if loaded is None:
                    runtime = get_device_runtime()
                    loaded = LoadedFunction(artifact, runtime, backend.loadable(artifact.sections))
                    self._loaded[id(artifact)] = loaded
        return loaded

    def cache_info(self) -> tuple[int, int, int]:
        """Hits, misses and number of compiled signatures in this process."""
        return self._hits, self._misses, len(self._artifacts)

    def __repr__(self) -> str:
        return f"<jit {self.__qualname__}>"


def _resolve_backend(target: str | None) -> BaseBackend:
    from .backends import get_backend

    if target is None:
        from ..runtime.device_runtime import ensure_compile_runtime_pairing_from_env

        backend = get_backend()
        ensure_compile_runtime_pairing_from_env(backend.name)
        return backend
    from ..target import GPUTarget

    parsed = GPUTarget.parse(target)
    return get_backend(
        parsed.backend, arch=":".join((parsed.arch, *parsed.features)) if parsed.features else parsed.arch
    )


def _check_constexpr(parameter: Parameter, value: Any) -> None:
    check = getattr(parameter.annotation, "check", None)
    if check is not None:
        check(parameter.name, value)


def _constexpr_key(value: Any) -> Any:
    """A compile-time value as part of a key: 1, True and 1.0 are different, lambdas count by their code."""
    if isinstance(value, tuple):
        return tuple((type(v).__name__, _constexpr_key(v)) for v in value)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    if isinstance(value, FunctionType):
        code = value.__code__
        return (code.co_code, code.co_consts, code.co_varnames)
    if isinstance(value, float):
        return value.hex()
    return value


def _attributes_of(owner: Any) -> Any:
    """Hashable attributes of a method's object, which a traced method may read."""
    state = getattr(owner, "__dict__", None)
    if not state:
        return ()
    found: list[Any] = []
    for name, value in sorted(state.items()):
        try:
            hash(value)
        except TypeError:
            continue
        found.append((name, type(value).__name__, value))
    return tuple(found)


def add_source_note(error: BaseException) -> None:
    """Say in the error itself which line of the user's code it comes from."""
    from ..dialects.locations import is_user_code, traceback_location

    if getattr(error, "__fly_noted__", False):
        return
    frame: SourceFrame | None = None
    tb = error.__traceback__
    while tb is not None:
        if is_user_code(tb.tb_frame.f_code):
            frame = traceback_location(tb)
        tb = tb.tb_next
    if frame is not None and "site-packages" not in frame.filename:
        error.add_note("DSL Traceback (most recent operation last):\n" + frame.render())
        error.__fly_noted__ = True  # pyright: ignore[reportAttributeAccessIssue]


@overload
def jit(function: Callable[..., Any], /) -> JitFunction: ...


@overload
def jit(*, compile_hints: Mapping[str, Any] | None = None) -> Callable[[Callable[..., Any]], JitFunction]: ...


def jit(function: Callable[..., Any] | None = None, /, *, compile_hints: Mapping[str, Any] | None = None) -> Any:
    """Decorate a host function that launches kernels."""

    def decorate(fn: Callable[..., Any]) -> JitFunction:
        if not isinstance(fn, FunctionType):
            raise DSLTypeError(f"@flyc.jit decorates a Python function, got {fn!r}")
        return JitFunction(fn, compile_hints=compile_hints)

    return decorate(function) if function is not None else decorate


class CompiledFunction:
    """A jit function compiled for one signature; call it with arguments of that signature."""

    def __init__(self, function: JitFunction, call: BoundCall, artifact: CompiledArtifact, backend: BaseBackend):
        self._function = function
        self._key = call.key
        self.artifact = artifact
        self._backend = backend

    def __call__(self, *args: Any) -> None:
        if self._function._owner is not None:  # pyright: ignore[reportPrivateUsage]
            args = (self._function._owner, *args)  # pyright: ignore[reportPrivateUsage]
        call = self._function.bind(args, {})
        if call.key != self._key:
            raise DSLTypeError(
                f"{self._function.__qualname__} was compiled for another signature: "
                f"expected {self._key}, got {call.key}"
            )
        active = _resolve_backend(None)
        if active.target != self._backend.target:
            raise DSLTypeError(
                f"{self._function.__qualname__} was compiled for {self._backend.target.key()}, "
                f"but this process runs {active.target.key()}"
            )
        self._function.load(call, self._backend).call(list(call.adapted.values()))

    def __repr__(self) -> str:
        return f"<compiled {self._function.__qualname__} for {self._backend.target.key()}>"


class _Compile:
    """`flyc.compile(fn, *args, target=None)` and `flyc.compile[hints](fn, *args)`."""

    def __init__(self, hints: Mapping[str, Any] | None = None):
        self._hints = dict(hints or {})

    def __getitem__(self, hints: Any) -> _Compile:
        if not isinstance(hints, dict):
            raise DSLTypeError(f"flyc.compile[...] takes a dict of hints, got {hints!r}")
        return _Compile({**self._hints, **hints})

    def __call__(self, fn: Any, /, *args: Any, target: str | None = None) -> Any:
        """Compile `fn` for arguments like these, without running it."""
        if not isinstance(fn, JitFunction):
            raise DSLTypeError(f"flyc.compile expects a @flyc.jit function, got {fn!r}")
        if not args and self._hints and target is None:
            fn.compile_hints.update(self._hints)
            return fn
        if fn._owner is not None:  # pyright: ignore[reportPrivateUsage]
            args = (fn._owner, *args)  # pyright: ignore[reportPrivateUsage]
        call = fn.bind(args, {})
        backend = _resolve_backend(target)
        return CompiledFunction(fn, call, fn.artifact(call, backend, self._hints), backend)


compile = _Compile()
