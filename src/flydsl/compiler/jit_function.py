"""`@flyc.jit`: host functions that launch kernels, compiled once per signature and kept in memory and on disk."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from .. import config
from ..errors import DSLRuntimeError, DSLTypeError, DSLValueError
from ..expr.fastmath import effective as ambient_fastmath
from ..expr.gpu import Stream
from ..expr.trace import maybe_current
from .arguments import adapt
from .ast_rewriter import RewrittenFunction, rewrite_function
from .cache import default_cache
from .cache_key import digest
from .collector import collector_off
from .dependencies import FunctionKey, changed_components, function_key, note_decorated
from .hints import ambient, merge
from .pass_options import NAMES as PASS_NAMES
from .pass_options import requested as passes_requested
from .signature import Parameter, Signature
from .warm import CallState, Slow, make_binder

if TYPE_CHECKING:
    from .artifact import CompiledArtifact
    from .backends.base import BaseBackend
    from .custom_passes import PassConfig
    from .dispatch import LoadedFunction


class BoundCall(NamedTuple):
    """The arguments of one call, adapted, with what they contribute to its key."""

    arguments: dict[str, Any]
    """By parameter: Python values of constexprs, adapters of run-time arguments."""
    adapted: dict[str, Any]
    """The adapters alone."""
    key: tuple[Any, ...]


class CacheInfo(NamedTuple):
    """Counters of one jit function in this process."""

    hits: int
    misses: int
    currsize: int
    """Compiled signatures in memory."""
    disk_size: int | None
    """Bytes of the disk cache, None when it is off."""


_functions: weakref.WeakSet[JitFunction] = weakref.WeakSet()


def _renew_locks() -> None:
    """In a fork()ed child the thread that held a lock does not exist."""
    for function in list(_functions):
        function._lock = threading.RLock()  # pyright: ignore[reportPrivateUsage]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


class JitFunction:
    """A host function: calling it traces, compiles, caches and launches."""

    def __init__(
        self,
        function: FunctionType,
        *,
        compile_hints: Mapping[str, Any] | None = None,
        depends_on: Iterable[object] = (),
        passes: Mapping[str, Any] | None = None,
    ):
        self.__wrapped__ = function
        self._pass_options = {name: value for name, value in (passes or {}).items() if value is not None}
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.compile_hints = dict(compile_hints or {})
        self.depends_on = tuple(depends_on)
        self.rewritten = rewrite_function(function)
        note_decorated(function.__module__)
        self._owner: Any = None
        self._artifacts: dict[Any, CompiledArtifact] = {}
        self._loaded: dict[Any, LoadedFunction] = {}
        self._keys: dict[type | None, FunctionKey] = {}
        self._states: dict[Any, CallState] = {}
        self._lock = threading.RLock()
        self._counts = [0, 0]
        _functions.add(self)

    @property
    def __fly_function__(self) -> RewrittenFunction:
        """What the function was written as; read for the cache key."""
        return self.rewritten

    @property
    def __fly_options__(self) -> Any:
        """Decorator options, for the cache keys of functions that call this one."""
        return tuple(sorted((k, repr(v)) for k, v in self.compile_hints.items()))

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
        try:
            key, values = self.binder(*args, **kwargs)
            state = self._states.get(key)
            if state is not None and state.valid():
                self._counts[0] += 1
                return state.run(values)
        except (Slow, TypeError):
            # Not for the warm path, or a mistake: the slower path does it or says what is wrong.
            key = None
        self._cold_call(key, args, kwargs)
        return None

    @cached_property
    def binder(self) -> Any:
        """Generated function from the arguments of a call to its warm key."""
        return make_binder(self.signature)

    def _cold_call(self, key: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        call = self.bind(args, kwargs)
        backend = resolve_backend(None)
        if config.compile.compile_only:
            self.artifact(call, backend)
            return
        loaded = self.load(call, backend)
        loaded.call(list(call.adapted.values()))
        # A plugin may be edited at any time, so with passes of the user every call looks at them again.
        if key is not None and self._owner is None and not ambient() and not self._has_passes():
            try:
                self._states[key] = CallState(call, loaded, self.function_key())
            except Slow:
                self._states.pop(key, None)

    def _has_passes(self) -> bool:
        return passes_requested(self._pass_options, self.compile_hints)

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

    def function_key(self) -> FunctionKey:
        """What the function and everything it reaches contribute to the key; recomputed when that changed."""
        owner: type[Any] | None = None if self._owner is None else type(self._owner)  # pyright: ignore[reportUnknownVariableType]
        known = self._keys.get(owner)
        if known is None or not known.check():
            known = self._keys[owner] = function_key(self, owner=owner, depends_on=self.depends_on)
        return known

    def artifact(
        self, call: BoundCall, backend: BaseBackend, hints: Mapping[str, Any] | None = None
    ) -> CompiledArtifact:
        """The compiled code for a call: from memory, from disk, or compiled now."""
        merged = merge(self.compile_hints, hints or {}, ambient())
        passes = None
        if passes_requested(self._pass_options, merged):
            from .custom_passes import resolve

            passes = resolve(self._pass_options, merged)
            merged = {name: value for name, value in merged.items() if name not in PASS_NAMES}
        function = self.function_key()
        key = (
            None if passes is None else passes.fingerprint(),
            function.digest,
            call.key,
            backend.hash(),
            tuple(sorted((k, repr(v)) for k, v in merged.items())),
            str(ambient_fastmath()),
            config.cache_relevant_env(),
        )
        found = self._artifacts.get(key)
        if found is not None:
            self._counts[0] += 1
            return found
        with self._lock:
            found = self._artifacts.get(key)
            if found is None:
                self._counts[1] += 1
                found = self._find_or_compile(digest(key), function, call, backend, merged, passes)
                if "fallback" not in found.metadata.get("notes", {}):
                    self._artifacts[key] = found
        return found

    def _find_or_compile(
        self,
        key: str,
        function: FunctionKey,
        call: BoundCall,
        backend: BaseBackend,
        hints: Mapping[str, Any],
        passes: PassConfig | None = None,
    ) -> CompiledArtifact:
        cache = default_cache()
        dumping = config.debug.dump_ir or config.debug.dump_asm
        if dumping and config.runtime.run_only:
            raise DSLValueError("FLYDSL_DUMP_IR and FLYDSL_RUNTIME_RUN_ONLY contradict each other: a dump compiles")
        reads = cache.enabled and not config.compile.always and not dumping
        found = cache.get(key) if reads else None
        if found is not None:
            return self._with_texts(found, call, backend, hints, passes)
        if config.runtime.run_only:
            raise self._run_only_miss(key, function)
        with cache.lock(key):
            found = cache.get(key) if reads else None
            if found is not None:
                return self._with_texts(found, call, backend, hints, passes)
            # The collector's turn comes when all is done: IR is cyclic, and would be scanned again and again meanwhile.
            with collector_off():
                found = self.compile(key, function, call, backend, hints, passes)
                # Made without the passes that were asked for, or with one that cannot be told from another: not for
                # others.
                if "fallback" not in found.metadata.get("notes", {}) and (passes is None or passes.cacheable):
                    cache.put(key, found, overwrite=config.compile.always)
        return found

    def _with_texts(
        self,
        artifact: CompiledArtifact,
        call: BoundCall,
        backend: BaseBackend,
        hints: Mapping[str, Any],
        passes: PassConfig | None = None,
    ) -> CompiledArtifact:
        """An artifact from disk holds what is needed to run it; texts for people are made again when asked for."""

        def again(section: str) -> Callable[[], str]:
            def make() -> str:
                return self.compile(artifact.key, self.function_key(), call, backend, hints, passes).text(section)

            return make

        return artifact.with_lazy(fly=again("fly"), asm=again("asm"), llvm_opt=again("llvm_opt"))

    def _run_only_miss(self, key: str, function: FunctionKey) -> DSLRuntimeError:
        """Why a process that must not compile has nothing to run."""
        from .cache import entries

        cache = default_cache()
        nearest = ""
        for entry in entries(function=self.__name__):
            theirs = cache.get(entry.key)
            if theirs is not None:
                changed = changed_components(function.components, theirs.metadata.get("components", ()))
                parts = ", ".join(f"{name} ({kind})" for name, kind in changed) or "the arguments, target or settings"
                nearest = f"; the nearest entry {entry.key[:12]} differs in {parts}"
                break
        return DSLRuntimeError(
            f"{self.__qualname__} is not in the cache, and FLYDSL_RUNTIME_RUN_ONLY forbids compiling it: "
            f"function key {function.digest[:12]}, key {key[:12]}, cache {cache.root}{nearest}"
        )

    def compile(
        self,
        key: str,
        function: FunctionKey,
        call: BoundCall,
        backend: BaseBackend,
        hints: Mapping[str, Any],
        passes: PassConfig | None = None,
    ) -> CompiledArtifact:
        """Trace and compile; a mistake in user code is shown at its line."""
        from .driver import compile_traced
        from .error_notes import add_source_note

        try:
            return compile_traced(
                self.__name__,
                self.rewritten.function,
                call.arguments,
                backend,
                hints=hints,
                key=key,
                components=[list(c) for c in function.components],
                signature=[[name, repr(a)] for name, a in call.adapted.items()],
                custom=passes,
            )
        except Exception as error:
            add_source_note(error)
            raise

    def load(self, call: BoundCall, backend: BaseBackend, artifact: CompiledArtifact | None = None) -> LoadedFunction:
        """The compiled code for a call, loaded on the device it is to run on."""
        from ..runtime.device_runtime import get_device_runtime
        from .dispatch import LoadedFunction
        from .placement import check_capture, check_places, launch_device

        runtime = get_device_runtime()
        ordinal = launch_device(call.adapted, runtime)
        if ordinal != runtime.current_device_id():
            with runtime.device(ordinal):
                return self.load(call, resolve_backend(None) if artifact is None else backend, artifact)
        check_places(call.adapted, runtime)
        artifact = artifact or self.artifact(call, backend)
        where = (id(artifact), runtime.current_device_id(), id(runtime))
        loaded = self._loaded.get(where)
        if loaded is None:
            with self._lock:
                loaded = self._loaded.get(where)
                if loaded is None:
                    check_capture(call.adapted, runtime, self.__qualname__)
                    loaded = LoadedFunction(artifact, runtime, backend.loadable(artifact.sections))
                    self._loaded[where] = loaded
        return loaded

    def cache_info(self) -> CacheInfo:
        """Hits, misses and number of compiled signatures in this process, and the size of the disk cache."""
        from .cache import info

        cache = default_cache()
        size = info(cache).size if cache.enabled else None
        return CacheInfo(self._counts[0], self._counts[1], len(self._artifacts), size)

    def invalidate(self) -> None:
        """Forget what this process has compiled; the disk cache stays."""
        with self._lock:
            self._artifacts.clear()
            self._loaded.clear()
            self._keys.clear()
            self._states.clear()

    def __repr__(self) -> str:
        return f"<jit {self.__qualname__}>"


def resolve_backend(target: str | None) -> BaseBackend:
    """The backend of an explicit target, else the active one, checked against the device runtime."""
    from .backends import backend_for_target, get_backend, parse_target

    if target is not None:
        return backend_for_target(parse_target(target))
    from ..runtime.device_runtime import ensure_compile_runtime_pairing_from_env

    backend = get_backend()
    ensure_compile_runtime_pairing_from_env(backend.name)
    return backend


def _check_constexpr(parameter: Parameter, value: Any) -> None:
    check = getattr(parameter.annotation, "check", None)
    if check is not None:
        check(parameter.name, value)


def _constexpr_key(value: Any) -> Any:
    """A compile-time value as part of a key: 1, True and 1.0 are different, a function counts with all it reaches."""
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return tuple((type(v).__name__, _constexpr_key(v)) for v in items)
    if isinstance(value, FunctionType):
        return function_key(value, environment=False).digest
    if isinstance(value, float):
        return value.hex()
    if value is None or isinstance(value, (bool, int, str, bytes)):
        return value
    if isinstance(value, type):
        return (value.__module__, value.__qualname__)
    return digest(value)


def _attributes_of(owner: Any) -> Any:
    """Plain attributes of a method's object, which a traced method may read."""
    state: dict[str, Any] = getattr(owner, "__dict__", {})
    plain = (bool, int, float, str, bytes, type(None))
    return tuple((k, type(v).__name__, repr(v)) for k, v in sorted(state.items()) if isinstance(v, plain))


@overload
def jit(function: Callable[..., Any], /) -> JitFunction: ...


@overload
def jit(
    *,
    llvm_pass_pipeline: str | None = None,
    llvm_pass_plugins: Any = None,
    llvm_codegen_passes: Any = None,
    llvm_codegen_plugins: Any = None,
    ir_passes: Any = None,
    compile_hints: Mapping[str, Any] | None = None,
    depends_on: Iterable[object] = (),
) -> Callable[[Callable[..., Any]], JitFunction]: ...


def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    llvm_pass_pipeline: str | None = None,
    llvm_pass_plugins: Any = None,
    llvm_codegen_passes: Any = None,
    llvm_codegen_plugins: Any = None,
    ir_passes: Any = None,
    compile_hints: Mapping[str, Any] | None = None,
    depends_on: Iterable[object] = (),
) -> Any:
    """Decorate a host function that launches kernels.

    The first five bring passes of your own into its compilation (docs/custom-passes.md).

    `compile_hints` apply to every compilation of it; `depends_on` names functions, classes or modules whose source
    counts for the cache key though they are not the author's own.
    """

    def decorate(fn: Callable[..., Any]) -> JitFunction:
        if not isinstance(fn, FunctionType):
            raise DSLTypeError(f"@flyc.jit decorates a Python function, got {fn!r}")
        passes = {
            "llvm_pass_pipeline": llvm_pass_pipeline,
            "llvm_pass_plugins": llvm_pass_plugins,
            "llvm_codegen_passes": llvm_codegen_passes,
            "llvm_codegen_plugins": llvm_codegen_plugins,
            "ir_passes": ir_passes,
        }
        return JitFunction(fn, compile_hints=compile_hints, depends_on=depends_on, passes=passes)

    return decorate(function) if function is not None else decorate


class CompiledFunction:
    """A jit function compiled for one signature; call it with arguments of that signature."""

    def __init__(self, function: JitFunction, call: BoundCall, artifact: CompiledArtifact, backend: BaseBackend):
        self._function = function
        self._key = call.key
        self.artifact = artifact
        self._backend = backend
        self._state: CallState | None = None
        self._warm_key: Any = None

    def __call__(self, *args: Any) -> None:
        function = self._function
        state = self._state
        key: Any = None
        if function._owner is None:  # pyright: ignore[reportPrivateUsage]
            try:
                key, values = function.binder(*args)
                if state is not None and key == self._warm_key:
                    state.run(values)
                    return
            except (Slow, TypeError):
                key = None
        owner = function._owner  # pyright: ignore[reportPrivateUsage]
        call = function.bind(args if owner is None else (owner, *args), {})
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
                self._state, self._warm_key = CallState(call, loaded, function.function_key()), key
            except Slow:
                self._state = None

    def prepare(self, *args: Any, stream: Any = None) -> PreparedLaunch:
        """Check and marshal these arguments once; `launch()` then repeats the call at next to no cost."""
        function = self._function
        owner = function._owner  # pyright: ignore[reportPrivateUsage]
        call = function.bind(args if owner is None else (owner, *args), {})
        if call.key != self._key:
            raise DSLTypeError(f"{function.__qualname__} was compiled for another signature: expected {self._key}")
        loaded = function.load(call, self._backend, self.artifact)
        return PreparedLaunch(loaded, list(call.adapted.values()), stream)

    def __repr__(self) -> str:
        return f"<compiled {self._function.__qualname__} for {self._backend.target.key()}>"


class PreparedLaunch:
    """A call with its arguments in place: `launch()` replays it."""

    def __init__(self, loaded: LoadedFunction, arguments: list[Any], stream: Any):
        from .arguments import StreamArgument

        self._loaded = loaded
        if stream is not None:
            given = adapt("stream", stream, Stream)
            if not any(isinstance(a, StreamArgument) for a in arguments):
                arguments = [*arguments, given]
            arguments = [given if isinstance(a, StreamArgument) else a for a in arguments]
        self._arguments = arguments
        self._packed = loaded.pack(arguments)
        self._address = self._packed.address
        self._native = loaded.native
        self._queued = loaded.is_queued(self._packed)

    def launch(self) -> None:
        """Run the prepared call."""
        if self._queued or not self._loaded.runtime.alive:
            self._loaded.run(self._packed)
            return
        status = self._native(self._address)
        if status:
            self._loaded.fail(status, list(self._packed.record))


class _Compile:
    """`flyc.compile(fn, *args, target=None)` and `flyc.compile[hints](fn, *args)`."""

    def __init__(self, hints: Mapping[str, Any] | None = None):
        self._hints = dict(hints or {})

    def __getitem__(self, hints: Any) -> _Compile:
        if not isinstance(hints, dict):
            raise DSLTypeError(f"flyc.compile[...] takes a dict of hints, got {hints!r}")
        return _Compile({**self._hints, **hints})

    def __call__(self, fn: Any, /, *args: Any, target: str | None = None, run_first: bool = False) -> Any:
        """Compile `fn` for arguments like these, without running it (`run_first=True` runs it once)."""
        if not isinstance(fn, JitFunction):
            raise DSLTypeError(f"flyc.compile expects a @flyc.jit function, got {fn!r}")
        if not args and self._hints and target is None:
            fn.compile_hints.update(self._hints)
            return fn
        owner = fn._owner  # pyright: ignore[reportPrivateUsage]
        call = fn.bind(args if owner is None else (owner, *args), {})
        backend = resolve_backend(target)
        compiled = CompiledFunction(fn, call, fn.artifact(call, backend, self._hints), backend)
        if run_first:
            compiled(*args)
        return compiled


compile = _Compile()
