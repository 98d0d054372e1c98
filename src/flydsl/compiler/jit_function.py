"""`@flyc.jit`: host functions that launch kernels, compiled once per signature and kept in memory and on disk.

A call is a line of steps, each in a folder of its own: bind (`call/bind.py`), key (`key/code_key.py`), the code of
that key from memory, from disk (`cache/lookup.py`) or traced (`frontend/trace_call.py`), built (`build/driver.py`) and
stored, load (`call/load.py`), call (`call/dispatch.py`). Repeated calls take a shorter way (`call/warm_calls.py`).
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from functools import cached_property
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NamedTuple, NoReturn, ParamSpec, Self, TypeVar, overload

from .. import config
from ..errors import DSLTypeError
from ..expr.control.control_flow import DebuggerWanted
from ..expr.emit.trace import maybe_current
from ..expr.meta import tracing_options
from ..expr.scalars.fastmath import ambient_flags, default_flags
from .active_backend import resolve_backend
from .build.collector import collector_off
from .cache import default_cache, lookup
from .call.bind import BoundCall, bind
from .call.load import LoadedCode, launch_place
from .call.placement import check_capture
from .call.warm import Served
from .call.warm_calls import WarmCalls
from .compile_call import Traces, compile_call
from .diagnostics import leaving, user_frames_only
from .frontend.ast_rewriter import RewrittenFunction, rewrite_function
from .frontend.signature import Signature, remember_locals
from .hints import HintTable, ambient
from .key.code_key import WantedCode, wanted_code
from .key.function_key import FunctionKey, Problem, warn_untracked
from .key.origin import note_decorated
from .key.walk import function_key
from .listeners import compiled_only, notify

if TYPE_CHECKING:
    from .backends.base import BaseBackend
    from .build.artifact import CompiledArtifact
    from .call.dispatch import LoadedFunction


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


def _in_context() -> bool:
    """Whether something around a call has a part in its code: a repeated call looks only that there is nothing."""
    flags = ambient_flags.get() is not None or default_flags.get() is not None
    return flags or bool(ambient()) or bool(tracing_options())


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
        func: FunctionType,
        compile_hints: Mapping[str, object] | None = None,
        *,
        depends_on: Iterable[object] = (),
        passes: Mapping[str, object] | None = None,
    ):
        self.__wrapped__ = func
        self._pass_options = {name: value for name, value in (passes or {}).items() if value is not None}
        self.__name__ = func.__name__
        self.__qualname__ = func.__qualname__
        self.__doc__ = func.__doc__
        self.__module__ = func.__module__
        self._hints = HintTable(compile_hints)
        self.depends_on = tuple(depends_on)
        self.rewritten = rewrite_function(func)
        note_decorated(func.__module__)
        remember_locals(func)
        self.owner: object | None = None
        """The object of a bound method, which is compiled in."""
        self._artifacts: dict[tuple[object, ...], CompiledArtifact] = {}
        self.code = LoadedCode()
        self._keys: dict[type | None, FunctionKey] = {}
        self._signatures: list[Signature] = []
        """The one that is current, shared with bound methods."""
        self._traces = Traces()
        self.repeat: Served | None = None
        """The warm call that served last. Where it says that it did not launch, the function is to be called."""
        self._counts = [0, 0]
        _functions.add(self)

    @property
    def func(self) -> FunctionType:
        """The function as its author wrote it."""
        return self.__wrapped__

    @property
    def __fly_function__(self) -> RewrittenFunction:
        """What the function was written as; read for the cache key."""
        return self.rewritten

    @property
    def __fly_options__(self) -> tuple[tuple[str, str], ...]:
        """Decorator options, for the cache keys of functions that call this one."""
        return tuple(sorted((k, repr(v)) for k, v in self.compile_hints.items()))

    @property
    def compile_hints(self) -> HintTable:
        """Hints of every compilation of it; what is assigned here counts from the next call on."""
        return self._hints

    @compile_hints.setter
    def compile_hints(self, hints: Mapping[str, object]) -> None:
        self._hints.clear()
        self._hints.update(hints)

    @property
    def signature(self) -> Signature:
        """Parameters, resolved at the first call, when all annotations can be."""
        known = self._signatures
        if not known or not known[0].is_current():
            known[:] = [Signature(self.__wrapped__)]
            self._forget_warm()
            self.__dict__.pop("warm", None)
        return known[0]

    @cached_property
    def warm(self) -> WarmCalls:
        """Calls of signatures that have come before."""
        return WarmCalls(self.signature, self._counts)

    def __reduce__(self) -> str | tuple[object, ...]:
        """By reference, as functions are: another process imports it, and compiles or loads for itself."""
        return self.__qualname__ if self.owner is None else (getattr, (self.owner, self.__name__))

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
        bound.owner, bound.repeat = instance, None
        return bound

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        if "torch._dynamo" in sys.modules and sys.modules["torch"].compiler.is_dynamo_compiling():
            # Dynamo traces this very code, and would go on through the whole compiler: it makes an ordinary call of it.
            return sys.modules["torch"].compiler.disable(self.__call__)(*args, **kwargs)
        repeat = self.repeat
        if repeat is not None:
            try:
                if repeat(*args, **kwargs):
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

    def _call(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        if self.owner is not None:
            args = (self.owner, *args)
        if maybe_current() is not None:
            return self.rewritten.function(*args, **kwargs)
        served = self.warm.serve(args, kwargs) if self.owner is None else None
        if served is None:
            try:
                self._cold_call(args, kwargs)
            except DebuggerWanted:
                # A name, not an import: the debugger stands above the compiler.
                import_module("flydsl.debug.attach").attach()
                self._cold_call(args, kwargs)
            return None
        self.repeat = served
        return None

    def _cold_call(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        """All the steps of a call."""
        explores = config.runtime.cpu_schedules
        if explores:
            from .schedules import explore_before

            explore_before(self, args, kwargs, explores)
        with collector_off():
            call = self.bind(args, kwargs)
            backend = resolve_backend(None)
            if config.compile.compile_only:
                compiled_only(self.artifact(call, backend), call)
                return
            with launch_place(call.adapted) as runtime:
                if runtime.device_count() > 1:
                    backend = resolve_backend(None)  # that of the device the call goes to
                wanted = self.wanted(call, backend)
                artifact = self.code_of(wanted, call, backend)
                loaded = self.load(artifact, backend, lambda: check_capture(call.adapted, runtime, self.__qualname__))
        loaded.call(list(call.adapted.values()))
        # A plugin may be edited at any time, so with passes of the user every call looks at them again.
        keeps = self.owner is None and not explores and not _in_context()
        if keeps and wanted.passes is None and wanted.kept:
            learned = self.warm.learn(wanted.memory_key, args, kwargs, call, loaded, wanted.function)
            self.repeat = learned or self.repeat

    # --- steps of a call ------------------------------------------------------------------------------------------

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> BoundCall:
        """Adapt the arguments of a call."""
        return bind(self.signature, args, kwargs, self.function_key, method=self.owner is not None)

    def bind_given(self, args: Sequence[object], kwargs: Mapping[str, object] | None = None) -> BoundCall:
        """`bind` for what a caller gives: the object of a method comes first by itself."""
        return self.bind(tuple(args) if self.owner is None else (self.owner, *args), kwargs or {})

    def function_key(self) -> FunctionKey:
        """What the function and everything it reaches contribute to the key; recomputed when that changed."""
        owner: type[object] | None = None if self.owner is None else type(self.owner)
        known = self._keys.get(owner)
        if known is None:
            known = self._keys[owner] = function_key(self, owner=owner, depends_on=self.depends_on)
        elif not known.check():
            known = self._keys[owner] = known.renewed()
        return known

    def wanted(self, call: BoundCall, backend: BaseBackend, hints: Mapping[str, object] | None = None) -> WantedCode:
        """What decides the code of a call, with the key it is kept under."""
        return wanted_code(self.function_key(), call.key, backend, self.compile_hints, hints or {}, self._pass_options)

    def artifact(
        self, call: BoundCall, backend: BaseBackend, hints: Mapping[str, object] | None = None
    ) -> CompiledArtifact:
        """The compiled code for a call: from memory, from disk, or compiled now."""
        return self.code_of(self.wanted(call, backend, hints), call, backend)

    def code_of(self, wanted: WantedCode, call: BoundCall, backend: BaseBackend) -> CompiledArtifact:
        """The same for a key."""
        problems = _problems(wanted, call)
        if problems:
            warn_untracked(problems, self.__qualname__)
            self._counts[1] += 1
            return self.compile(wanted.key, wanted, call, backend)
        found = self._artifacts.get(wanted.memory_key)
        if found is not None:
            self._counts[0] += 1
            if config.runtime.mem_cache_entries:
                self._artifacts[wanted.memory_key] = self._artifacts.pop(wanted.memory_key, found)
            return found
        key = wanted.key
        # The first thread of a signature compiles it, others wait for it; other signatures go on.
        with default_cache().thread_lock(key):
            found = self._artifacts.get(wanted.memory_key)
            if found is not None:
                return found
            self._counts[1] += 1
            found, from_disk, renewed = self._find_or_compile(wanted, call, backend)
            wanted.kept = renewed.kept
            if "fallback" not in found.metadata.get("notes", {}) and wanted.kept:
                self._artifacts[renewed.memory_key] = found
                self._bound_memory()
            notify(found, from_disk)
        return found

    def _find_or_compile(
        self, wanted: WantedCode, call: BoundCall, backend: BaseBackend
    ) -> tuple[CompiledArtifact, bool, WantedCode]:
        """The artifact, whether it came from disk, and its key with what its trace read from outside."""
        found, wanted = lookup.find_current(wanted)
        key = wanted.key
        if found is None and config.runtime.run_only:
            found = lookup.find_fitting(wanted, backend)
        if found is None and config.runtime.run_only:
            raise lookup.run_only_miss(key, self.__name__, self.__qualname__, wanted.function)
        if found is None:
            with default_cache().lock(key):
                if lookup.may_be_there(wanted.key):  # another process may have made it meanwhile
                    found, wanted = lookup.find_current(wanted)
                if found is None:
                    made = self._compile_and_store(wanted.key, wanted, call, backend)
                    return made, False, wanted.renewed()
        # What is around the call has a part in its code, also in texts that are asked for after it.
        around = copy_context()
        again = lambda: around.copy().run(self.compile, key, wanted.of(self.function_key()), call, backend)  # noqa: E731
        return lookup.with_texts(found, again), True, wanted

    def _compile_and_store(
        self, key: str, wanted: WantedCode, call: BoundCall, backend: BaseBackend
    ) -> CompiledArtifact:
        # The collector's turn comes when all is done: IR is cyclic, and would be scanned again and again meanwhile.
        with collector_off():
            start = time.perf_counter()
            made = self.compile(key, wanted, call, backend)
            default_cache().count_compilation(time.perf_counter() - start)
            for each in (wanted, wanted.before) if wanted.kept else ():
                if each is not None:
                    lookup.store(each.key, self.__name__, self.__qualname__, made, each.passes)
        return made

    def compile(self, key: str, wanted: WantedCode, call: BoundCall, backend: BaseBackend) -> CompiledArtifact:
        """Trace and build."""
        made = compile_call(self.__name__, self.rewritten.function, call, backend, wanted, key, self._traces)
        if not wanted.function.unchanged():
            # The trace itself has changed what it reads, a memo for example: for the next call that is a new state.
            self._keys.clear()
        return made

    def load(
        self, artifact: CompiledArtifact, backend: BaseBackend, before: Callable[[], None] | None = None
    ) -> LoadedFunction:
        """Code loaded on the current device; `before` is called first where it is not loaded yet."""
        return self.code.load(artifact, backend, self.__name__, before)

    # --- what is kept ---------------------------------------------------------------------------------------------

    def add_hints(self, hints: Mapping[str, object]) -> None:
        """Compile with these hints from now on."""
        with self.code.lock:
            self._hints.update(hints)
            self._forget_warm()

    def with_hints(self, hints: Mapping[str, object]) -> Self:
        """The same function with more compile hints, beside this one: each keeps its own code and repeated calls."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.__dict__.pop("warm", None)
        made._hints = HintTable({**self.compile_hints, **hints})
        made._artifacts, made._keys, made._counts = {}, {}, [0, 0]
        made.code, made.repeat = LoadedCode(), None
        _functions.add(made)
        return made

    def _forget_warm(self, loaded: LoadedFunction | None = None) -> None:
        self.repeat = None
        if "warm" in self.__dict__:
            self.warm.forget(loaded)

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
        with self.code.lock:
            while len(self._artifacts) > bound:
                old = self._artifacts.pop(next(iter(self._artifacts)))
                for loaded in self.code.forget(old):
                    self._forget_warm(loaded)

    def cache_stats(self) -> dict[str, int | float]:
        """What the disk cache did in this process, all functions together: hits, bytes, waits, seconds of compiling."""
        from .cache import totals

        return totals.as_dict()

    def invalidate(self) -> None:
        """Forget what this process has compiled; the disk cache stays."""
        with self.code.lock:
            self._artifacts.clear()
            self._traces.clear()
            self.code.clear()
            self._keys.clear()
            self._forget_warm()

    def __getitem__(self, grid: object) -> NoReturn:
        raise DSLTypeError(
            f"'{self.__qualname__}' takes no [...]: call it as a function; what it launches says its grid and block: "
            "kernel(...).launch(grid=..., block=...)"
        )

    def __repr__(self) -> str:
        return f"<jit {self.__qualname__}>"


def _problems(wanted: WantedCode, call: BoundCall) -> tuple[Problem, ...]:
    """What the code of a call reads and no key can hold."""
    return wanted.function.problems + call.problems


def invalidate_all() -> None:
    """Forget what this process has compiled of every jit function; the disk cache stays.

    >>> from flydsl.kernels.vector_add import vector_add
    >>> invalidate_all()
    >>> vector_add.cache_info().currsize
    0
    """
    for function in list(_functions):
        function.invalidate()


@overload
def jit(func: Callable[P, object], /) -> JitFunction[P]: ...


@overload
def jit(
    *,
    llvm_pass_pipeline: str | None = None,
    llvm_pass_plugins: object = None,
    llvm_codegen_passes: object = None,
    llvm_codegen_plugins: object = None,
    ir_passes: object = None,
    compile_hints: Mapping[str, object] | None = None,
    depends_on: Iterable[object] = (),
) -> Callable[[Callable[P, object]], JitFunction[P]]: ...


def jit(
    func: Callable[..., object] | None = None, *, llvm_pass_pipeline: str | None = None,
    llvm_pass_plugins: object = None, llvm_codegen_passes: object = None, llvm_codegen_plugins: object = None,
    ir_passes: object = None, compile_hints: Mapping[str, object] | None = None, depends_on: Iterable[object] = (),
) -> JitFunction | Callable[[Callable[..., object]], JitFunction]:  # fmt: skip
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
        return decorate(func) if func is not None else decorate


def __getattr__(name: str) -> object:
    """What FlyDSL's module of this name offers too."""
    where = {"compile": ".compiled_function", "CompiledFunction": ".compiled_function"}
    where |= {"CompileCallable": ".compiled_function", "MlirCompiler": ".mlir_compiler"}
    if name not in where:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(where[name], __package__), name)
