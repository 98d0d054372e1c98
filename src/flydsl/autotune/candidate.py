"""`Config`: one way to compile and launch a kernel."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Self, cast

from ..errors import DSLTypeError, DSLValueError

Hook = Callable[[dict[str, object]], object]
"""Called with the arguments of a run by parameter name."""


class Config:
    """Values of tunable parameters, and options of the compiler.

    Keyword arguments are passed to the function; `num_warps` too, as `num_warps` or, where the function has no such
    parameter, as `num_threads` in threads. `waves_per_eu` and `maxnreg` are compile hints. `pre_hook` is called with
    the arguments by name before each run.

    >>> from flydsl.autotune import Config
    >>> c = Config(BLOCK=128, num_warps=4, maxnreg=64)
    >>> c.all_kwargs(), c.compiler_opts()
    ({'BLOCK': 128, 'num_warps': 4}, {'maxnreg': 64})
    >>> Config.from_dict(c.to_dict()) == c
    True
    """

    def __init__(
        self,
        *,
        num_warps: int | None = None,
        waves_per_eu: int | tuple[int, int] | None = None,
        maxnreg: int | None = None,
        pre_hook: Hook | None = None,
        **kwargs: object,
    ):
        for name, value in (("num_warps", num_warps), ("maxnreg", maxnreg)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise DSLTypeError(f"Config: {name} is a positive integer, got {value!r}")
        if pre_hook is not None and not callable(pre_hook):
            raise DSLTypeError(f"Config: pre_hook is a function of the arguments by name, got {pre_hook!r}")
        self.kwargs = kwargs
        self.num_warps = num_warps
        self.waves_per_eu = waves_per_eu
        self.maxnreg = maxnreg
        self.pre_hook = pre_hook

    def all_kwargs(self) -> dict[str, object]:
        """What the function is called with."""
        own = {} if self.num_warps is None else {"num_warps": self.num_warps}
        return {**self.kwargs, **own}

    def compiler_opts(self) -> dict[str, object]:
        """Compile hints."""
        found = {"waves_per_eu": self.waves_per_eu, "maxnreg": self.maxnreg}
        return {name: value for name, value in found.items() if value is not None}

    def to_dict(self) -> dict[str, object]:
        """Everything but the hook, as one flat mapping."""
        return {**self.all_kwargs(), **self.compiler_opts()}

    @classmethod
    def from_dict(cls, d: Mapping[str, object]) -> Self:
        """What `to_dict` gave."""
        if not isinstance(d, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DSLTypeError(f"Config.from_dict takes a mapping, got {d!r}")
        return cls(**{str(name): value for name, value in d.items()})  # pyright: ignore[reportArgumentType]

    def identity(self) -> tuple[object, ...]:
        """What two equal configurations share."""
        return (tuple(sorted((n, repr(v)) for n, v in self.to_dict().items())), self.pre_hook)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.identity() == other.identity()

    def __hash__(self) -> int:
        return hash(self.identity())

    def __repr__(self) -> str:
        hook = ", pre_hook=..." if self.pre_hook is not None else ""
        return f"Config({', '.join(f'{n}={v!r}' for n, v in self.to_dict().items())}{hook})"

    def __str__(self) -> str:
        return ", ".join(f"{n}={v}" for n, v in self.to_dict().items()) or "(no options)"


def plain_values(config: Config) -> dict[str, object] | None:
    """A configuration as JSON has it, or None where that would not give the same values back."""
    values = config.to_dict()
    try:
        text = json.dumps(values, allow_nan=False)
    except (TypeError, ValueError):
        return None
    return values if json.loads(text) == values else None


def candidates_digest(configs: Iterable[Config]) -> str:
    """A digest of a list of candidates; their order does not count."""
    texts = sorted(repr(sorted((n, repr(v)) for n, v in config.to_dict().items())) for config in configs)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def check_configs(found: object, source: str) -> list[Config]:
    """A list of distinct candidates, or an error that says what there is instead."""
    if isinstance(found, Config):
        found = [found]
    if not isinstance(found, Iterable) or isinstance(found, str | bytes | Mapping):
        raise DSLTypeError(f"{source}: expected a sequence of Config, got {found!r}")
    unique: dict[Config, None] = {}
    for each in cast("Iterable[object]", found):
        if not isinstance(each, Config):
            raise DSLTypeError(f"{source}: expected Config, got {each!r}")
        unique[each] = None
    if not unique:
        raise DSLValueError(f"{source}: there is no configuration to choose from; give at least one Config")
    return list(unique)
