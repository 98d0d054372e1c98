"""Running one call with different configurations: launching, putting arrays back, comparing what comes out, timing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from ..compiler.active_backend import resolve_backend
from ..compiler.hints import CompilationContext, ambient
from ..compiler.jit_function import JitFunction
from ..errors import DSLTypeError, DSLValueError, OutOfMemoryError
from .arrays import CallArray, Restore, clear, contents, difference, find_arrays, keep
from .bench import Method, Timing, measure
from .candidate import Config, Hook

if TYPE_CHECKING:
    from ..compiler.build.artifact import CompiledArtifact

Bench = Callable[..., object]
"""A user's `do_bench(fn, warmup=, rep=)`: milliseconds, or a sequence whose first is the median."""
Validate = Callable[[dict[str, object]], AbstractContextManager[object]]
"""Around one untimed run of a candidate; raising rejects it."""

THREADS = "num_threads"
"""The parameter that stands for `num_warps` where a function counts threads."""


class WrongResult(Exception):
    """A candidate ran and gave other numbers than the reference."""


@dataclass(frozen=True)
class Policy:
    """How candidates are run."""

    warmup: int = 5
    rep: int = 25
    reset_to_zero: Sequence[str] = ()
    restore_value: Sequence[str] = ()
    pre_hook: Hook | None = None
    post_hook: Hook | None = None
    do_bench: Bench | None = None
    validate_hook: Validate | None = None
    check: bool = True
    """Whether results are compared with those of the reference."""
    method: Method = "auto"


def parameters_of(fn: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """The parameters of what is tuned."""
    return dict(inspect.signature(fn.__wrapped__ if isinstance(fn, JitFunction) else fn).parameters)


def check_knobs(fn: Callable[..., object], configs: Sequence[Config]) -> None:
    """Every candidate gives parameters that the function has."""
    parameters = parameters_of(fn)
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for config in configs:
        for name in config.all_kwargs():
            if name == "num_warps" and name not in parameters and THREADS in parameters:
                continue
            if name not in parameters:
                own = getattr(fn, "__qualname__", "the function")
                raise DSLValueError(
                    f"{config!r} gives '{name}', but the parameters of {own} are {', '.join(parameters)}"
                )


@dataclass
class Launcher:
    """Calls a function with configurations; variants by compile hints are kept."""

    fn: Callable[..., object]
    variants: dict[tuple[tuple[str, object], ...], JitFunction] = field(
        default_factory=dict[tuple[tuple[str, object], ...], JitFunction]
    )

    def __post_init__(self) -> None:
        self.parameters = parameters_of(self.fn)

    def kwargs_of(self, config: Config) -> dict[str, object]:
        """What a configuration adds to the arguments."""
        found = config.all_kwargs()
        if "num_warps" in found and "num_warps" not in self.parameters and THREADS in self.parameters:
            warps = cast(int, found.pop("num_warps"))
            found[THREADS] = warps * resolve_backend(None).target.warp_size
        return found

    def function_of(self, config: Config) -> tuple[Callable[..., object], dict[str, object]]:
        """What to call, and the hints to call it under."""
        hints = config.compiler_opts()
        if not hints or not isinstance(self.fn, JitFunction) or ambient():
            return self.fn, hints
        key = tuple(sorted(hints.items()))
        made = self.variants.get(key)
        if made is None:
            made = self.variants[key] = self.fn.with_hints(hints)
        return made, {}

    def launch(self, config: Config, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """One call."""
        function, hints = self.function_of(config)
        with CompilationContext.compile_hints(hints) if hints else nullcontext():
            return function(*args, **kwargs, **self.kwargs_of(config))

    def artifact(self, config: Config, args: Sequence[object], kwargs: Mapping[str, object]) -> CompiledArtifact | None:
        """The compiled code of a configuration, without running it; None for what is no jit function."""
        function, hints = self.function_of(config)
        if not isinstance(function, JitFunction):
            return None
        with CompilationContext.compile_hints(hints) if hints else nullcontext():
            call = function.bind_given(args, {**kwargs, **self.kwargs_of(config)})
            return function.artifact(call, resolve_backend(None))


class Runner:
    """One call and its arrays."""

    def __init__(self, launcher: Launcher, policy: Policy, args: Sequence[object], kwargs: Mapping[str, object]):
        self.launcher = launcher
        self.policy = policy
        self.args = tuple(args)
        self.kwargs = dict(kwargs)
        self.named = bind_partial(launcher, args, kwargs)
        self.arrays = find_arrays(self.named)
        self.notes: list[str] = []
        self._kept: dict[str, Restore] = {}
        self._reference: dict[str, object] | None = None

    # -- arrays ----------------------------------------------------------------------------------------

    def array(self, name: str, option: str) -> CallArray:
        """The array argument of a name."""
        value = self.named.get(name)
        for array in self.arrays:
            if array.name == name or array.owner is value:
                return array
        raise DSLTypeError(f"{option}: '{name}' is no array in this call, it is {value!r}")

    def keep_arrays(self) -> None:
        """Keep what every array holds, so that the search leaves no trace in the caller's data."""
        for name in self.policy.reset_to_zero:
            self.array(name, "reset_to_zero")
        wanted = {self.array(name, "restore_value").name for name in self.policy.restore_value}
        for array in self.arrays:
            if not array.writable:
                continue
            try:
                self._kept[array.name] = keep(array)
            except (MemoryError, OutOfMemoryError, RuntimeError) as error:
                # torch's own out-of-memory error is a RuntimeError.
                if array.name in wanted or not _is_memory(error):
                    raise
                self.notes.append(
                    f"there is no memory for a copy of '{array.name}': what candidates write to it stays until the "
                    "real call, and candidates are not compared by it"
                )

    def restore_all(self) -> None:
        """Everything as the caller gave it."""
        for restore in self._kept.values():
            restore()

    def reset(self) -> None:
        """Zero what is declared to start from zero."""
        for name in self.policy.reset_to_zero:
            clear(self.array(name, "reset_to_zero"))

    # -- running ---------------------------------------------------------------------------------------

    def arguments_with(self, config: Config) -> dict[str, object]:
        """The arguments by name, those of the configuration included: what hooks get."""
        return {**self.named, **self.launcher.kwargs_of(config)}

    def launch(self, config: Config) -> object:
        """The call alone."""
        return self.launcher.launch(config, self.args, self.kwargs)

    def _before(self, config: Config) -> None:
        policy = self.policy
        for name in policy.restore_value:
            self._kept[self.array(name, "restore_value").name]()
        self.reset()
        if config.pre_hook is not None:
            config.pre_hook(self.arguments_with(config))
        if policy.pre_hook is not None:
            policy.pre_hook(self.arguments_with(config))

    def _after(self, config: Config) -> None:
        if self.policy.post_hook is not None:
            self.policy.post_hook(self.arguments_with(config))

    def _whole(self, config: Config) -> object:
        """A run with everything around it."""
        self._before(config)
        result = self.launch(config)
        self._after(config)
        return result

    def results(self, config: Config) -> dict[str, object]:
        """What the arrays hold after one run from the caller's data."""
        self.restore_all()
        validate = self.policy.validate_hook
        if validate is None:
            self._whole(config)
        else:
            self._before(config)
            with validate(self.arguments_with(config)):
                self.launch(config)
            self._after(config)
        self.synchronize()
        if not self.policy.check:
            return {}
        return {array.name: contents(array) for array in self.arrays if array.name in self._kept}

    def synchronize(self) -> None:
        """Wait for what was launched: where it failed, it says so here."""
        from ..runtime.device_runtime import get_device_runtime

        get_device_runtime().synchronize()

    def set_reference(self, config: Config) -> None:
        """Take the results of a configuration for the right ones."""
        self._reference = self.results(config)

    def compare(self, config: Config) -> None:
        """One run: `WrongResult` where it differs from the reference; where there is none, it is the reference."""
        got = self.results(config)
        if self._reference is None:
            self._reference = got
            return
        for array in self.arrays:
            if array.name in got and array.name in self._reference:
                found = difference(array, self._reference[array.name], got[array.name])
                if found is not None:
                    raise WrongResult(found)

    def time(self, config: Config) -> Timing:
        """Times of a configuration, after one run that is compared."""
        policy = self.policy
        custom = policy.do_bench
        if custom is not None:
            accepts = _keywords(custom)
            extra = {"before": lambda: self._before(config)} if "before" in accepts else {}
            run = (lambda: self.launch(config)) if extra else (lambda: self._whole(config))
            words = {"warmup": policy.warmup, "rep": policy.rep, **extra}
            allowed = words if "**" in accepts else {n: v for n, v in words.items() if n in accepts}
            return _as_timing(custom(run, **allowed))
        around = policy.restore_value or policy.reset_to_zero or policy.pre_hook or config.pre_hook or policy.post_hook

        ran = False

        def before() -> None:
            nonlocal ran
            if ran:
                self._after(config)  # of the run before, outside of what is timed
            ran = True
            self._before(config)

        timing = measure(
            lambda: self.launch(config),
            warmup=policy.warmup,
            rep=policy.rep,
            before=before if around else None,
            method=policy.method,
            stream=self._stream(),
        )
        if ran:
            self._after(config)
        return timing

    def _stream(self) -> object:
        """The stream the call goes to: its argument, or the one that a launch finds for its arrays."""
        from ..compiler.call.placement import unspecified_stream
        from ..expr.gpu import Stream
        from ..runtime.device_runtime import get_device_runtime

        for value in self.named.values():
            if isinstance(value, Stream) and value.raw is not None:
                return value.raw
        runtime = get_device_runtime()
        return None if runtime.pageable_host else unspecified_stream([a.owner for a in self.arrays], runtime)


def bind_partial(launcher: Launcher, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
    """Arguments by name, defaults filled in; those a configuration gives may be missing."""
    fn = launcher.fn
    signature = inspect.signature(fn.__wrapped__ if isinstance(fn, JitFunction) else fn)
    try:
        bound = signature.bind_partial(*args, **kwargs)
    except TypeError as error:
        raise DSLTypeError(f"{getattr(fn, '__qualname__', fn)}{signature}: {error}") from None
    bound.apply_defaults()
    return dict(bound.arguments)


def _keywords(function: Callable[..., object]) -> set[str]:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {"**"}
    return {"**" if p.kind is p.VAR_KEYWORD else name for name, p in parameters.items()}


def _as_timing(found: object) -> Timing:
    if isinstance(found, Timing):
        return found
    if isinstance(found, int | float):
        return Timing((float(found),), "custom")
    if isinstance(found, Sequence) and found and not isinstance(found, str):
        return Timing((float(cast("Sequence[float]", found)[0]),), "custom")
    raise DSLTypeError(f"do_bench gives milliseconds, or a sequence that starts with the median; it gave {found!r}")


def _is_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError | OutOfMemoryError) or "out of memory" in str(error).lower()
