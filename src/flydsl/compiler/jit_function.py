"""`@flyc.jit`: host functions that launch kernels, compiled once per signature and kept in memory and on disk."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import FunctionType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NamedTuple, ParamSpec, Self, TypeVar, overload

from .. import config
from ..errors import CacheWarning, DSLRuntimeError, DSLTypeError, DSLValueError
from ..expr.emit.trace import maybe_current
from ..expr.scalars.fastmath import effective as ambient_fastmath
from .build import overrides
from .build.collector import collector_off
from .build.pass_options import NAMES as PASS_NAMES
from .build.pass_options import requested as passes_requested
from .build.step_times import timed_step
from .cache import default_cache
from .call.arguments import adapt
from .call.repeat import repeat_of
from .call.warm import CallState, Slow, make_binder
from .diagnostics import leaving, user_frames_only
from .frontend.ast_rewriter import RewrittenFunction, rewrite_function
from .frontend.signature import Parameter, Signature, remember_locals
from .hints import ambient, merge
from .key.cache_key import digest
from .key.constant_keys import attributes_key, class_key, constexpr_key
from .key.dependencies import FunctionKey, changed_components, function_key, note_decorated
from .listeners import notify

if TYPE_CHECKING:
    from .backends.base import BaseBackend
    from .build.artifact import CompiledArtifact
    from .build.custom_passes import PassConfig
    from .call.dispatch import LoadedFunction


class BoundCall(NamedTuple):
    """The arguments of one call, adapted, with what they contribute to its key."""

    arguments: dict[str, Any]
    """By parameter: Python values of constexprs, adapters of run-time arguments."""
    adapted: dict[str, Any]
    """The adapters alone."""
    key: tuple[Any, ...]


class WantedCode(NamedTuple):
    """What decides the code of a call beside its arguments."""

    memory_key: tuple[Any, ...]
    function: FunctionKey
    hints: dict[str, Any]
    passes: PassConfig | None

    def key(self) -> str:
        """The key of the code on disk."""
        return digest(self.memory_key)


class CacheInfo(NamedTuple):
    """Counters of one jit function in this process."""

    hits: int
    misses: int
    currsize: int
    """Compiled signatures in memory."""
    disk_size: int | None
    """Bytes of the disk cache, None when it is off."""


if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P", default=...)
else:
    P = ParamSpec("P")
Q = ParamSpec("Q")
Owner = TypeVar("Owner")

_functions: weakref.WeakSet[JitFunction] = weakref.WeakSet()


def _renew_locks() -> None:
    """In a fork()ed child the thread that held a lock does not exist."""
    for function in list(_functions):
        function._lock = threading.RLock()  # pyright: ignore[reportPrivateUsage]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


class JitFunction(Generic[P]):
    """A host function: calling it traces, compiles, caches and launches.

    >>> @flyc.kernel
    ... def scale_kernel(x: fx.Tensor, by: fx.Float32):
    ...     x[fx.thread_idx.x] = x[fx.thread_idx.x] * by
    >>> @flyc.jit
    ... def scale(x: fx.Tensor, by: fx.Float32):
    ...     scale_kernel(x, by).launch(grid=1, block=4)
    >>> scale, scale.cache_info().misses
    (<jit scale>, 0)
    """

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
        remember_locals(function)
        self._owner: Any = None
        self._artifacts: dict[Any, CompiledArtifact] = {}
        self._loaded: dict[Any, LoadedFunction] = {}
        self._keys: dict[type | None, FunctionKey] = {}
        self._states: dict[Any, CallState] = {}
        self._repeat: Callable[..., bool] | None = None
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

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: JitFunction[Concatenate[Owner, Q]], instance: Owner, owner: type | None = None
    ) -> JitFunction[Q]: ...
    def __get__(self, instance: object, owner: type | None = None) -> object:
        if instance is None:
            return self
        bound = object.__new__(JitFunction)
        bound.__dict__.update(self.__dict__)
        bound._owner, bound._repeat = instance, None
        return bound

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        repeat = self._repeat
        if repeat is not None:
            try:
                if repeat(*args, **kwargs):
                    self._counts[0] += 1
                    return None
            except TypeError as error:
                # Arguments that do not fit the parameters: said below. From inside it would come after a launch.
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise
        try:
            return self._call(args, kwargs)
        except Exception as error:
            leaving(error)
            raise

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if self._owner is not None:
            args = (self._owner, *args)
        if maybe_current() is not None:
            return self.rewritten.function(*args, **kwargs)
        try:
            key, values = self.binder(*args, **kwargs)
            state = self._states.get(key)
            if state is not None and state.valid():
                self._counts[0] += 1
                if self._owner is None:
                    self._repeat = repeat_of(
                        state, lambda: self.bind(args, kwargs), self.signature, self.function_key()
                    )
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
                key.append(
                    (type(value).__module__, type(value).__qualname__, attributes_key(value, self._names_read()))
                )
            elif parameter.kind == "constexpr":
                _check_constexpr(parameter, value)
                arguments[name] = value
                key.append((name, type(value).__name__, constexpr_key(value)))
            elif parameter.kind == "type":
                if not isinstance(value, type):
                    raise DSLTypeError(f"parameter '{name}' expects a class, got {value!r}")
                arguments[name] = value
                key.append((name, class_key(value)))
            elif value is None and parameter.optional:
                arguments[name] = None
                key.append((name, None))
            else:
                argument = adapt(name, value, parameter.annotation)
                argument.check()
                arguments[name] = adapted[name] = argument
                key.append((name, argument.__cache_signature__()))
        return BoundCall(arguments, adapted, tuple(key))

    def bind_given(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> BoundCall:
        """`bind` for what a caller gives: the object of a method comes first by itself."""
        return self.bind(tuple(args) if self._owner is None else (self._owner, *args), kwargs or {})

    def _names_read(self) -> frozenset[str]:
        """Every name the code of a method mentions; what its object holds under other names it cannot read."""
        return (self._keys.get(self._owner.__class__) or self.function_key()).names()

    def add_hints(self, hints: Mapping[str, Any]) -> None:
        """Compile with these hints from now on."""
        with self._lock:
            self.compile_hints.update(hints)
            self._states.clear()
            self._repeat = None

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
        wanted = self.wanted(call, backend, hints)
        found = self._artifacts.get(wanted.memory_key)
        if found is not None:
            self._counts[0] += 1
            if config.runtime.mem_cache_entries:
                self._artifacts[wanted.memory_key] = self._artifacts.pop(wanted.memory_key, found)
            return found
        key = wanted.key()
        # The first thread of a signature compiles it, others wait for it; other signatures go on.
        with default_cache().thread_lock(key):
            found = self._artifacts.get(wanted.memory_key)
            if found is None:
                self._counts[1] += 1
                found, from_disk = self._find_or_compile(
                    key, wanted.function, call, backend, wanted.hints, wanted.passes
                )
                if "fallback" not in found.metadata.get("notes", {}):
                    self._artifacts[wanted.memory_key] = found
                    self._bound_memory()
                notify(found, from_disk)
        return found

    def wanted(self, call: BoundCall, backend: BaseBackend, hints: Mapping[str, Any] | None = None) -> WantedCode:
        """What decides the code of a call, with the key it is kept under."""
        merged = merge(self.compile_hints, hints or {}, ambient())
        passes = None
        if passes_requested(self._pass_options, merged):
            from .build.custom_passes import resolve

            passes = resolve(self._pass_options, merged)
            merged = {name: value for name, value in merged.items() if name not in PASS_NAMES}
        function = self.function_key()
        key = (
            None if passes is None else passes.fingerprint(),
            function.digest,
            call.key,
            backend.hash(),
            tuple(sorted((k, constexpr_key(v)) for k, v in merged.items())),
            str(ambient_fastmath()),
            config.cache_relevant_env(),
            overrides.fingerprint(),
        )
        return WantedCode(key, function, merged, passes)

    def _find_or_compile(
        self,
        key: str,
        function: FunctionKey,
        call: BoundCall,
        backend: BaseBackend,
        hints: Mapping[str, Any],
        passes: PassConfig | None = None,
    ) -> tuple[CompiledArtifact, bool]:
        """The artifact, and whether it came from disk."""
        cache = default_cache()
        dumping = config.debug.dump_ir or config.debug.dump_asm
        if dumping and config.runtime.run_only:
            raise DSLValueError("FLYDSL_DUMP_IR and FLYDSL_RUNTIME_RUN_ONLY contradict each other: a dump compiles")
        reads = cache.enabled and not config.compile.always and not dumping
        found = cache.get(key) if reads else None
        if found is not None:
            return self._with_texts(found, call, backend, hints, passes), True
        if config.runtime.run_only:
            raise self._run_only_miss(key, function)
        with cache.lock(key):
            found = cache.get(key) if reads else None
            if found is not None:
                return self._with_texts(found, call, backend, hints, passes), True
            # The collector's turn comes when all is done: IR is cyclic, and would be scanned again and again meanwhile.
            with collector_off():
                start = time.perf_counter()
                found = self.compile(key, function, call, backend, hints, passes)
                cache.count_compilation(time.perf_counter() - start)
                # Made without the passes that were asked for, or with one that cannot be told from another: not for
                # others.
                notes = found.metadata.get("notes", {})
                if "memory_only" in notes:
                    config.warn(f"{self.__qualname__} is not kept on disk: {notes['memory_only']}", CacheWarning)
                elif "fallback" not in notes and (passes is None or passes.cacheable):
                    with timed_step(self.__name__, "cache write"):
                        cache.put(key, found, overwrite=config.compile.always)
        return found, False

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
        from .build.driver import compile_traced
        from .frontend.error_notes import add_source_note

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
        from .call.placement import check_capture, check_places, launch_device

        runtime = get_device_runtime()
        ordinal = launch_device(call.adapted, runtime)
        if ordinal != runtime.current_device_id():
            with runtime.device(ordinal):
                return self.load(call, resolve_backend(None) if artifact is None else backend, artifact)
        check_places(call.adapted, runtime)
        artifact = artifact or self.artifact(call, backend)
        return self.load_here(artifact, backend, lambda: check_capture(call.adapted, runtime, self.__qualname__))

    def load_here(
        self, artifact: CompiledArtifact, backend: BaseBackend, before: Callable[[], None] | None = None
    ) -> LoadedFunction:
        """Code loaded on the current device; `before` is called first where it is not loaded yet."""
        from ..runtime.device_runtime import get_device_runtime
        from .call.dispatch import LoadedFunction

        runtime = get_device_runtime()
        where = (id(artifact), runtime.current_device_id(), id(runtime))
        loaded = self._loaded.get(where)
        if loaded is None:
            with self._lock:
                loaded = self._loaded.get(where)
                if loaded is None:
                    if before is not None:
                        before()
                    with timed_step(self.__name__, "module load"):
                        loaded = LoadedFunction(artifact, runtime, backend.loadable(artifact.sections))
                    self._loaded[where] = loaded
        return loaded

    def cache_info(self) -> CacheInfo:
        """Hits, misses and number of compiled signatures in this process, and the size of the disk cache."""
        from .cache import info

        cache = default_cache()
        size = info(cache).size if cache.enabled else None
        return CacheInfo(self._counts[0], self._counts[1], len(self._artifacts), size)

    def _bound_memory(self) -> None:
        """Forget the code used longest ago beyond FLYDSL_RUNTIME_MEM_CACHE_ENTRIES; it is unloaded once nobody has it.

        A repeated call is no use in this sense: what forgets must not cost it anything.
        """
        bound = config.runtime.mem_cache_entries
        if not bound:
            return
        with self._lock:
            while len(self._artifacts) > bound:
                old = self._artifacts.pop(next(iter(self._artifacts)))
                # In place: the function and its bound methods share these.
                for where in [where for where, loaded in self._loaded.items() if loaded.artifact is old]:
                    del self._loaded[where]
                for key in [key for key, state in self._states.items() if state.artifact() is old]:
                    del self._states[key]
                self._repeat = None

    def cache_stats(self) -> dict[str, int | float]:
        """What the disk cache did in this process, all functions together: hits, bytes, waits, seconds of compiling."""
        from .cache import totals

        return totals.as_dict()

    def invalidate(self) -> None:
        """Forget what this process has compiled; the disk cache stays."""
        with self._lock:
            self._artifacts.clear()
            self._loaded.clear()
            self._keys.clear()
            self._states.clear()
            self._repeat = None

    def __repr__(self) -> str:
        return f"<jit {self.__qualname__}>"


def invalidate_all() -> None:
    """Forget what this process has compiled of every jit function; the disk cache stays.

    >>> from flydsl.kernels.vector_add import vector_add
    >>> invalidate_all()
    >>> vector_add.cache_info().currsize
    0
    """
    for function in list(_functions):
        function.invalidate()


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


@overload
def jit(function: Callable[P, object], /) -> JitFunction[P]: ...


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
) -> Callable[[Callable[P, object]], JitFunction[P]]: ...


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

    >>> @flyc.kernel
    ... def scale_kernel(x: fx.Tensor, by: fx.Float32):
    ...     x[fx.thread_idx.x] = x[fx.thread_idx.x] * by
    >>> @flyc.jit
    ... def scale(x: fx.Tensor, by: fx.Float32):
    ...     scale_kernel(x, by).launch(grid=1, block=4)
    >>> x = np.arange(4, dtype="f4")
    >>> scale(x, 3.0)
    >>> x
    array([0., 3., 6., 9.], dtype=float32)
    """

    def decorate(fn: Callable[..., object]) -> JitFunction:
        if not isinstance(fn, FunctionType):
            raise DSLTypeError(f"@flyc.jit decorates a Python function, got {fn!r}")
        passes = {
            "llvm_pass_pipeline": llvm_pass_pipeline,
            "llvm_pass_plugins": llvm_pass_plugins,
            "llvm_codegen_passes": llvm_codegen_passes,
            "llvm_codegen_plugins": llvm_codegen_plugins,
            "ir_passes": ir_passes,
        }
        with user_frames_only():
            return JitFunction(fn, compile_hints=compile_hints, depends_on=depends_on, passes=passes)

    with user_frames_only():
        return decorate(function) if function is not None else decorate
