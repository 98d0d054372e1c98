"""`Autotuner`: a function whose configuration is found by searching, once, and remembered."""

from __future__ import annotations

import inspect
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from .. import config as settings
from ..compiler.hints import ambient_hints
from ..compiler.jit_function import JitFunction
from ..errors import CacheWarning, DSLRuntimeError, DSLTypeError, DSLValueError
from ..expr.emit.trace import maybe_current
from . import artifacts
from .arrays import CallArray, clear, find_arrays, sketch
from .candidate import Config, Hook, candidates_digest, check_configs
from .key import DeviceIdentity, TuningKey, code_digest, declared, device_identity, tuning_key
from .report import Report
from .runner import Bench, Launcher, Policy, Validate, bind_partial, check_knobs
from .search import Budget, Progress, Select, current_defaults, expand, prune
from .searching import config_of, refuse_where_impossible, search_call
from .space import Space
from .winners import WinnerFile

if TYPE_CHECKING:
    from .bench import Method

Strategy = Literal["auto", "exhaustive", "sample", "optuna"]
STRATEGIES = ("auto", "exhaustive", "sample", "optuna")
Default = Callable[..., Config]
REMEMBERED = 4096
"""Kinds of calls whose decision is kept at hand; all of them can be decided again from the winners."""


class Decision(NamedTuple):
    """A configuration for calls of a kind, ready to be called."""

    config: Config
    source: str
    function: Callable[..., object]
    hints: dict[str, object]
    extra: dict[str, object]
    """Arguments that the configuration adds."""
    file: tuple[Path, tuple[int, int, int]] | None = None
    """The artifact it came from, and what that was like."""

    def still_holds(self) -> bool:
        """Whether the artifact is the one that was read."""
        return self.file is None or _stamp(self.file[0]) == self.file[1]


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        info = os.stat(path)
    except OSError:
        return 0, 0, 0
    return info.st_ino, info.st_size, info.st_mtime_ns


class Autotuner:
    """Wraps a jit function; the first call of a kind searches, later ones use what it found. See `autotune`.

    A plain function that prepares arguments and launches can be tuned as well. `report()` tells what the last search
    did, `prepare(...)` searches without the call, `resolve_config(...)` tells which configuration a call would take.

    >>> from flydsl.autotune import Autotuner, Config
    >>> tuned = Autotuner(lambda n, B: n // B, [Config(B=2), Config(B=4)], ["n"], default=lambda n: Config(B=4))
    >>> tuned(12), tuned.resolve_config(12)
    (3, Config(B=4))
    """

    def __init__(
        self, fn: Callable[..., object], configs: object, key: Sequence[str] | None = None, warmup: int = 5,
        rep: int = 25, prune_configs_by: object = None, reset_to_zero: Sequence[str] | None = None,
        restore_value: Sequence[str] | None = None, pre_hook: Hook | None = None, post_hook: Hook | None = None,
        do_bench_fn: Bench | None = None, default: Default | None = None, artifact_name: str | None = None,
        validate_hook: Validate | None = None, select_config: Select | None = None, *, check: bool = True,
        method: Method = "auto", budget: object = None, timeout: float | None = None, strategy: Strategy = "auto",
        seed: int = 0, shipped: str | None = None,
    ):  # fmt: skip
        if not callable(fn) or isinstance(fn, type):
            raise DSLTypeError(f"autotune wraps a @flyc.jit function, got {fn!r}")
        if strategy not in STRATEGIES:
            raise DSLValueError(f"strategy is one of {', '.join(STRATEGIES)}, got {strategy!r}")
        self.fn = fn
        self.launcher = Launcher(fn)
        for option, function in (("default", default), ("pre_hook", pre_hook), ("post_hook", post_hook),
                                 ("do_bench", do_bench_fn), ("validate_hook", validate_hook),
                                 ("select_config", select_config)):  # fmt: skip
            if function is not None and not callable(function):
                raise DSLTypeError(f"{option} is a function, got {function!r}")
        self.key = self._names("key", key)
        self._keyed = frozenset(self.key)
        self.configs: Space | Callable[..., object] | list[Config]
        if isinstance(configs, Space):
            check_knobs(fn, [configs.config(configs.point(0))])
            self.configs = configs
        elif callable(configs):
            self.configs = configs
        else:
            listed = check_configs(configs, "configs")
            check_knobs(fn, listed)
            self.configs = listed
        self.policy = Policy(
            warmup, rep, self._names("reset_to_zero", reset_to_zero), self._names("restore_value", restore_value),
            pre_hook, post_hook, do_bench_fn, validate_hook, check, method,
        )  # fmt: skip
        self.prune_configs_by = prune_configs_by
        self.default = default
        self.artifact_name = None if artifact_name is None else artifacts.check_name(artifact_name)
        self.select_config = select_config
        self.budget = Budget.parse(budget)
        self.timeout = timeout
        self.strategy: Strategy = strategy
        self.seed = seed
        self.shipped = shipped
        self.progress: Progress | None = None
        """Called with the report and each candidate that is done."""
        self.__wrapped__ = fn
        self.__name__ = str(getattr(fn, "__name__", "function"))
        self.__qualname__ = str(getattr(fn, "__qualname__", self.__name__))
        self.__module__ = str(getattr(fn, "__module__", ""))
        self.__doc__ = fn.__doc__
        self.winners = WinnerFile(self.__module__, self.__qualname__)
        self._known: dict[tuple[object, ...], Decision] = {}
        self._searched: dict[str, Config] = {}
        """Winners of searches of this process, by key."""
        self.last: Report | None = None
        """What the last search did."""
        self._lock = threading.RLock()
        parameters = self.launcher.parameters.values()
        self._order = tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
        self._simple = all(p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)
        self._defaults = {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}

    def _names(self, option: str, given: Sequence[str] | None) -> tuple[str, ...]:
        if isinstance(given, str):
            raise DSLTypeError(f"{option} is a list of names, got the text {given!r}")
        for name in given or ():
            if name not in self.launcher.parameters:
                known = ", ".join(self.launcher.parameters)
                raise DSLValueError(f"{option}: there is no parameter '{name}'; the parameters are {known}")
        return tuple(given or ())

    # -- calls -----------------------------------------------------------------------------------------

    def __call__(self, *args: object, **kwargs: object) -> Any:
        torch = sys.modules.get("torch")
        if torch is not None and torch.compiler.is_compiling():
            # Dynamo traces this very code: it is told to leave the rest alone and make an ordinary call of it.
            return torch.compiler.disable(self._call)(args, kwargs)
        return self._call(args, kwargs)

    def _call(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        named = self._named(args, kwargs)
        decision = self._decide(args, kwargs, named)
        if self.policy.reset_to_zero:
            arrays = find_arrays(named)
            for name in self.policy.reset_to_zero:
                clear(_array(arrays, named, name))
        if decision.config.pre_hook is not None:
            decision.config.pre_hook({**named, **decision.extra})
        if not decision.hints:
            return decision.function(*args, **kwargs, **decision.extra)
        return self.launcher.launch(decision.config, args, kwargs)

    def prepare(self, *args: object, **kwargs: object) -> Config:
        """Search now, where a call would; compile the winner. The arrays hold afterwards what they held before."""
        named = self._named(args, kwargs)
        decision = self._decide(args, kwargs, named)
        if not settings.runtime.run_only:
            self.launcher.artifact(decision.config, args, kwargs)
        return decision.config

    def resolve_config(self, *args: object, **kwargs: object) -> Config:
        """The configuration a call with these arguments takes; searches where a call would."""
        named = self._named(args, kwargs)
        return self._decide(args, kwargs, named).config

    def report(self) -> Report:
        """What the last search did; `print` shows a table, `.svg()` draws it."""
        return self.last or Report(f"{self.__module__}:{self.__qualname__}", notes=["nothing was searched yet"])

    def __get__(self, instance: object, owner: type | None = None) -> Autotuner:
        if instance is None:
            return self
        raise DSLTypeError(
            f"{self.__qualname__}: methods cannot be tuned; tune a function that takes the object's data"
        )

    def __repr__(self) -> str:
        return f"<autotuned {self.__qualname__}>"

    # -- what counts of a call -------------------------------------------------------------------------

    def _named(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Arguments by name, defaults included."""
        if self._simple and len(args) <= len(self._order) and all(name in self.launcher.parameters for name in kwargs):
            named = dict(zip(self._order, args, strict=False))
            if named.keys().isdisjoint(kwargs):
                named.update(kwargs)
                for name, value in self._defaults.items():
                    named.setdefault(name, value)
                return named
        return bind_partial(self.launcher, args, kwargs)

    def _quick_key(
        self, count: int, kwargs: Mapping[str, object], named: Mapping[str, object]
    ) -> tuple[object, ...] | None:
        """Equal for calls that take the same configuration; None where that cannot be told cheaply."""
        function = self.fn
        keyed = self._keyed
        parts: list[object] = [
            settings.environment_version(),
            function.function_key().digest if isinstance(function, JitFunction) else "",
            ambient_hints.get(),
            count,
            *kwargs,
        ]
        for name, value in named.items():
            part = sketch(value, name in keyed)
            if part is None:
                return None
            parts.append(part)
        return tuple(parts)

    def _decide(self, args: tuple[object, ...], kwargs: Mapping[str, object], named: dict[str, object]) -> Decision:
        quick = self._quick_key(len(args), kwargs, named)
        known = None if quick is None else self._known.get(quick)
        if known is not None and known.still_holds():
            return known
        if maybe_current() is not None:
            raise DSLRuntimeError(
                f"{self.__qualname__} is called while another function is traced, where there is nothing to measure; "
                f"call {self.__qualname__}.fn with a configuration of your choice"
            )
        for name in self.key:
            if name not in named:
                raise DSLTypeError(f"{self.__qualname__}: the argument '{name}' of the key is missing")
        with self._lock:
            known = None if quick is None else self._known.get(quick)  # another thread may have searched
            if known is None or not known.still_holds():
                known = self._find(args, kwargs, named, find_arrays(named), settings.autotune.force)
                if quick is not None:
                    if len(self._known) >= REMEMBERED:
                        self._known.clear()
                    self._known[quick] = known
        return known

    # -- the order of decisions ------------------------------------------------------------------------

    def _find(
        self,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        named: dict[str, object],
        arrays: list[CallArray],
        force: bool,
    ) -> Decision:
        given = current_defaults().budget
        budget = Budget(
            given.seconds or self.budget.seconds or float(settings.autotune.budget_s),
            given.candidates or self.budget.candidates,
        )
        configs, sampled = self._candidates(args, kwargs, named, budget)
        device = device_identity()
        text = self._space_text() if sampled else candidates_digest(configs)
        key = tuning_key(self.fn, self.key, named, arrays, text, device)
        explicit = self._explicit(args, kwargs)
        artifact = self._artifact_place(key, device, force)
        searched = self._searched.get(key.digest)
        if searched is not None:
            return self._decision(searched, "winners")
        if not force:
            found = self._remembered(key, configs, artifact, explicit, args, kwargs, named, arrays)
            if found is not None:
                return found
        if settings.compile.compile_only:
            from .ranking import best_by_model

            return self._decision(best_by_model(self.launcher, configs, args, kwargs), "model")
        refuse_where_impossible(self.__qualname__, named, arrays)
        # In one fleet one machine, and on it one process, searches a key; others take what it found.
        with self.winners.searching(key):
            if not force:
                found = self._from_winners(key, configs)
                if found is not None:
                    return found
            winner = search_call(self, key, configs, sampled, budget, (args, kwargs), device)
        self._searched[key.digest] = winner
        if artifact is not None and force:
            artifacts.emit(artifact[0], artifact[1], winner)
        return self._decision(winner, "search")

    def _remembered(
        self,
        key: TuningKey,
        configs: Sequence[Config],
        artifact: tuple[Path, dict[str, object]] | None,
        explicit: frozenset[str],
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        named: Mapping[str, object],
        arrays: Sequence[CallArray],
    ) -> Decision | None:
        """A winner that was found before, an artifact, one that ships, or the default."""
        found = self._from_winners(key, configs)
        if found is not None:
            return found
        if artifact is not None:
            path, who = artifact
            stamp = _stamp(path)
            loaded = artifacts.load(path, who, frozenset(self.launcher.parameters), explicit | set(self.key))
            if loaded is not None:
                return self._decision(loaded, "artifact")._replace(file=(path, stamp))
        if self.shipped is not None:
            from .shipped import lookup

            config = lookup(self.shipped, declared(self.key, named, arrays), device_identity())
            if config is not None:
                return self._decision(config, "shipped")
        if self.default is not None:
            return self._decision(self.default_config(args, kwargs), "default")
        return None

    def _from_winners(self, key: TuningKey, configs: Sequence[Config]) -> Decision | None:
        """What this machine found, or another of the fleet."""
        found = self.winners.get(key)
        if found is None and settings.runtime.cache_remote:
            from .fleet import fetch

            entry = fetch(key)
            theirs = None if entry is None else config_of(entry)
            if entry is not None and theirs is not None:
                found = theirs, entry
                if self.is_candidate(theirs, configs):
                    self.winners.put(key, entry)
        if found is None:
            return None
        if not self.is_candidate(found[0], configs):
            settings.warn(
                f"the winner {found[0]} that is kept for {self.__qualname__} is ignored: it is none of its candidates",
                CacheWarning,
            )
            return None
        return self._decision(found[0], "winners")

    def _space_text(self) -> str:
        """A space that is only sampled, for the key: its knobs and its condition."""
        where = self.configs.where if isinstance(self.configs, Space) else None
        return f"{self.configs!r} {'' if where is None else code_digest(where)}"

    def is_candidate(self, config: Config, configs: Sequence[Config]) -> bool:
        """Whether the search could have found it: files and stores may hold anything."""
        if isinstance(self.configs, Space):
            return self.configs.has(config)
        return config in configs

    def _decision(self, config: Config, source: str) -> Decision:
        check_knobs(self.fn, [config])
        function, hints = self.launcher.function_of(config)
        return Decision(config, source, function, hints, self.launcher.kwargs_of(config))

    def default_config(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Config:
        """What `default` says of a call."""
        assert self.default is not None
        found = cast(object, self.default(*args, **kwargs))
        if not isinstance(found, Config):
            raise DSLTypeError(f"default gives a Config, it gave {found!r}")
        return found

    def _explicit(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> frozenset[str]:
        """The parameters that the caller gives."""
        return frozenset((*self._order[: len(args)], *kwargs))

    def _candidates(
        self, args: tuple[object, ...], kwargs: Mapping[str, object], named: dict[str, object], budget: Budget
    ) -> tuple[list[Config], bool]:
        source: object = self.configs
        if not isinstance(self.configs, Space | list):
            source = self.configs(*args, **kwargs)
        default = self.default_config(args, kwargs) if self.default is not None else None
        if isinstance(source, Space) and self.strategy == "exhaustive":
            source = check_configs(list(source), repr(source))
        configs, sampled = expand(source, budget, self.seed, default)
        check_knobs(self.fn, configs)
        configs = prune(configs, self.prune_configs_by, named)
        explicit = self._explicit(args, kwargs)
        for config in configs:
            both = explicit & self.launcher.kwargs_of(config).keys()
            if both:
                raise DSLValueError(
                    f"{self.__qualname__}: the call gives {', '.join(sorted(both))}, which the tuner chooses; "
                    f"leave it out, or call {self.__qualname__}.fn"
                )
        return configs, sampled

    def _artifact_place(
        self, key: TuningKey, device: DeviceIdentity | None, force: bool
    ) -> tuple[Path, dict[str, object]] | None:
        """File and identity of the artifact of a call, where artifacts are in use."""
        folder = settings.autotune.config_dir
        if self.artifact_name is None or folder is None:
            return None
        if device is None or not device.name or not device.arch or not device.compute_units:
            if force:
                raise DSLValueError(
                    f"{self.__qualname__}: a configuration is to be written for this device, but its name, "
                    f"architecture or number of compute units is not known: {device}"
                )
            return None
        who = artifacts.identity(self.artifact_name, cast("dict[str, object]", key.parts["declared"]), device)
        return artifacts.path_of(folder, self.artifact_name, who), who


def _array(arrays: Sequence[CallArray], named: Mapping[str, object], name: str) -> CallArray:
    value = named.get(name)
    for array in arrays:
        if array.name == name or array.owner is value:
            return array
    raise DSLTypeError(f"reset_to_zero: '{name}' is no array in this call, it is {value!r}")
