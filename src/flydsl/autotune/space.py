"""`Space`: many configurations by the values of their knobs, and ways to walk through them."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from ..errors import DSLTypeError, DSLValueError
from .candidate import Config


class Choice(Mapping[str, Any]):
    """One point of a space: `c["BM"]` or `c.BM`."""

    def __init__(self, values: dict[str, object]):
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            known = ", ".join(self.__dict__.get("_values", ()))
            raise AttributeError(f"the space has no knob {name!r}; it has {known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"({', '.join(f'{n}={v!r}' for n, v in self._values.items())})"


class Space:
    """Every combination of the knobs' values for which `where` holds.

    `num_warps`, `waves_per_eu` and `maxnreg` may be knobs as well. `where` is called with a point whose knobs are its
    attributes, and its keys.

    >>> from flydsl.autotune import Space
    >>> space = Space(BM=(64, 128), STAGES=range(2, 5), where=lambda c: c.BM * c.STAGES <= 256)
    >>> len(space), space.size
    (4, 6)
    >>> [str(config) for config in space][:2]
    ['BM=64, STAGES=2', 'BM=64, STAGES=3']
    """

    def __init__(self, *, where: Callable[[Choice], object] | None = None, **knobs: Iterable[object]):
        if not knobs:
            raise DSLValueError("Space: there is no knob; name at least one, as in Space(BLOCK=(64, 128))")
        if where is not None and not callable(where):
            raise DSLTypeError(f"Space: where is a function of a point, got {where!r}")
        self.where = where
        self.knobs: dict[str, tuple[object, ...]] = {}
        for name, values in knobs.items():
            if isinstance(values, str | bytes) or not isinstance(values, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise DSLTypeError(f"Space: the knob {name} has a sequence of values, got {values!r}")
            found = tuple(dict.fromkeys(values))
            if not found:
                raise DSLValueError(f"Space: the knob {name} has no value")
            self.knobs[name] = found

    @property
    def size(self) -> int:
        """Points of the whole box, before `where`."""
        return math.prod(len(values) for values in self.knobs.values())

    def point(self, at: int) -> dict[str, object]:
        """The point of a number below `size`; the last knob varies fastest."""
        values: dict[str, object] = {}
        for name, choices in reversed(self.knobs.items()):
            at, i = divmod(at, len(choices))
            values[name] = choices[i]
        return {name: values[name] for name in self.knobs}

    def allows(self, values: dict[str, object]) -> bool:
        """Whether `where` holds."""
        return self.where is None or bool(self.where(Choice(values)))

    def config(self, values: Mapping[str, object]) -> Config:
        """The configuration of a point."""
        return Config.from_dict(values)

    def has(self, config: Config) -> bool:
        """Whether a configuration is a point of the space."""
        values = config.to_dict()
        inside = values.keys() == self.knobs.keys() and all(v in self.knobs[n] for n, v in values.items())
        return inside and self.allows(values)

    def __iter__(self) -> Iterator[Config]:
        for at in range(self.size):
            values = self.point(at)
            if self.allows(values):
                yield self.config(values)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def sample(self, count: int, seed: int = 0, *, limit: int = 1_000_000) -> list[Config]:
        """`count` different points, the same for the same seed; fewer where there are no more.

        Points are drawn without walking through the box; where `where` refuses nearly all of them, the walk is made.
        """
        size = self.size
        if size <= max(4 * count, 4096):
            found = list(self)
            return found if len(found) <= count else random.Random(seed).sample(found, count)
        chance = random.Random(seed)
        seen: set[int] = set()
        made: list[Config] = []
        tries = 0
        while len(made) < count and tries < min(100 * count, size):
            tries += 1
            at = chance.randrange(size)
            if at in seen:
                continue
            seen.add(at)
            values = self.point(at)
            if self.allows(values):
                made.append(self.config(values))
        if len(made) < count and size <= limit:
            found = list(self)
            return found if len(found) <= count else chance.sample(found, count)
        return made

    def neighbours(self, config: Config) -> list[Config]:
        """Points that differ from one in a single knob, by one step of its values."""
        values = {name: config.to_dict().get(name) for name in self.knobs}
        found: list[Config] = []
        for name, choices in self.knobs.items():
            try:
                at = choices.index(values[name])
            except ValueError:
                continue
            for step in (at - 1, at + 1):
                if 0 <= step < len(choices):
                    other = {**values, name: choices[step]}
                    if self.allows(other):
                        found.append(self.config(other))
        return found

    def __repr__(self) -> str:
        where = ", where=..." if self.where is not None else ""
        return f"Space({', '.join(f'{n}={list(v)}' for n, v in self.knobs.items())}{where})"


def parse_space(text: str) -> Space:
    """A space as a command line has it: `BM=64,128 STAGES=2..5`; a range includes its end.

    >>> parse_space("BM=64,128 STAGES=2..4")
    Space(BM=[64, 128], STAGES=[2, 3, 4])
    """
    knobs: dict[str, Iterable[object]] = {}
    for word in text.split():
        name, equals, values = word.partition("=")
        if not equals or not name.isidentifier():
            raise DSLValueError(f"a knob is written NAME=VALUE,VALUE or NAME=FIRST..LAST, got {word!r}")
        knobs[name] = list(itertools.chain.from_iterable(_values(part, word) for part in values.split(",")))
    return Space(where=None, **knobs)


def _values(text: str, word: str) -> list[object]:
    low, dots, high = text.partition("..")
    if dots:
        try:
            return list(cast("Iterable[object]", range(int(low), int(high) + 1)))
        except ValueError:
            raise DSLValueError(f"a range is written FIRST..LAST with integers, got {word!r}") from None
    if text in ("true", "True", "false", "False"):
        return [text.lower() == "true"]
    for parse in (int, float):
        try:
            return [parse(text)]
        except ValueError:
            continue
    return [text]
