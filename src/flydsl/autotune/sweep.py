"""Sweeps over sizes, public as `flydsl.testing`: implementations on the same arguments, compared, timed, drawn."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from ..errors import DSLTypeError, DSLValueError
from .bench import Method, Timing, measure
from .plot import lines

Implementation = Callable[..., object]


@dataclass(frozen=True)
class Row:
    """One implementation at one size."""

    size: object
    name: str
    timing: Timing | None
    value: float
    """Milliseconds, or what `metric` makes of them; NaN where it failed."""
    error: str = ""


@dataclass
class Sweep:
    """What `bench` measured."""

    title: str
    unit: str
    rows: list[Row] = field(default_factory=list[Row])

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(row.name for row in self.rows))

    @property
    def sizes(self) -> list[object]:
        return list(dict.fromkeys(row.size for row in self.rows))

    def value(self, size: object, name: str) -> float:
        """The number of one cell."""
        for row in self.rows:
            if row.size == size and row.name == name:
                return row.value
        raise DSLValueError(f"there is no {name!r} at {size!r}")

    def table(self) -> str:
        """Sizes down, implementations across; failures below."""
        head = ["size", *(f"{name} [{self.unit}]" for name in self.names)]
        body = [[_text(size), *(f"{self.value(size, name):.4g}" for name in self.names)] for size in self.sizes]
        widths = [max(len(row[i]) for row in [head, *body]) for i in range(len(head))]
        out = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *body]]
        out += [f"{row.name} at {_text(row.size)}: {row.error}" for row in self.rows if row.error]
        return "\n".join(out)

    __str__ = table

    def to_dict(self) -> dict[str, object]:
        """The sweep as plain data."""
        rows: list[dict[str, object]] = []
        for row in self.rows:
            entry: dict[str, object] = {"size": _text(row.size), "name": row.name}
            if row.timing is not None:
                entry.update(ms=row.timing.median, low=row.timing.low, high=row.timing.high, value=row.value)
            if row.error:
                entry["error"] = row.error
            rows.append(entry)
        return {"title": self.title, "unit": self.unit, "rows": rows}

    def svg(self, *, log_x: bool | None = None, log_y: bool = False) -> str:
        """The sweep as a picture: a line for each implementation."""
        numbers = [_number(size) for size in self.sizes]
        plain = all(x is not None for x in numbers)
        across = {
            size: cast(float, x) if plain else float(i)
            for i, (size, x) in enumerate(zip(self.sizes, numbers, strict=True))
        }
        wide = plain and min(across.values()) > 0 and max(across.values()) / min(across.values()) > 20
        series = {n: [(across[row.size], row.value) for row in self.rows if row.name == n] for n in self.names}
        label = "size" if plain else "size: " + ", ".join(_text(size) for size in self.sizes)
        return lines(
            series,
            title=self.title,
            x_label=label,
            y_label=self.unit,
            log_x=wide if log_x is None else log_x,
            log_y=log_y,
        )


def _text(size: object) -> str:
    return "x".join(map(str, cast("Sequence[object]", size))) if isinstance(size, tuple | list) else str(size)


def _several(size: object) -> Sequence[object]:
    """What `make` is called with."""
    return cast("Sequence[object]", size) if isinstance(size, tuple) else (size,)


def _number(size: object) -> float | None:
    if isinstance(size, tuple | list):
        items = cast("Sequence[object]", size)
        return math.prod(cast(float, n) for n in items) if all(isinstance(n, int | float) for n in items) else None
    return float(size) if isinstance(size, int | float) else None


def bench(
    implementations: Mapping[str, Implementation],
    sizes: Iterable[object],
    make: Callable[..., Sequence[object]],
    *,
    metric: Callable[[object, float], float] | None = None,
    unit: str = "ms",
    title: str = "",
    check: Callable[[Sequence[object], str], object] | None = None,
    warmup: int = 5,
    rep: int = 25,
    method: Method = "auto",
) -> Sweep:
    """Time each implementation at each size, on arguments that `make(size)` makes anew for it.

    A size is what `make` takes; a tuple is passed as its arguments. `metric(size, ms)` turns milliseconds into what is
    shown (GB/s, TFLOPS), `unit` names it. `check(arguments, name)` is called after the first run and raises where the
    result is wrong. An implementation that fails at a size is a row with its error; the others go on.

    >>> from flydsl.testing import bench
    >>> sweep = bench({"numpy": lambda x: x.sum()}, [10, 1000], lambda n: (np.ones(n),), rep=1)
    >>> sweep.names, sweep.sizes
    (['numpy'], [10, 1000])
    """
    if not implementations:
        raise DSLValueError("bench: there is nothing to compare; give at least one implementation by name")
    for name, function in implementations.items():
        if not callable(function):
            raise DSLTypeError(f"bench: {name!r} is a function, got {function!r}")
    sweep = Sweep(title, unit)
    for size in sizes:
        for name, function in implementations.items():
            sweep.rows.append(_row(size, name, function, make, metric, check, warmup, rep, method))
    if not sweep.rows:
        raise DSLValueError("bench: there is no size")
    return sweep


def _row(
    size: object,
    name: str,
    function: Implementation,
    make: Callable[..., Sequence[object]],
    metric: Callable[[object, float], float] | None,
    check: Callable[[Sequence[object], str], object] | None,
    warmup: int,
    rep: int,
    method: Method,
) -> Row:
    try:
        args = tuple(make(*_several(size)))
        if check is not None:
            function(*args)
            check(args, name)
        timing = measure(lambda: function(*args), warmup=warmup, rep=rep, method=method)
        return Row(size, name, timing, timing.median if metric is None else float(metric(size, timing.median)))
    except Exception as error:  # noqa: BLE001 - one implementation's trouble is not the others'
        reason = (str(error).strip().splitlines() or [""])[0]
        return Row(size, name, None, float("nan"), f"{type(error).__name__}: {reason}")


def plot(sweep: Sweep, path: str | Path, *, log_x: bool | None = None, log_y: bool = False) -> Path:
    """Draw a sweep into an SVG file, or write its numbers where the name ends in `.json`."""
    file = Path(path)
    if file.suffix not in (".svg", ".json"):
        raise DSLValueError(f"plot writes .svg or .json, got {file.name!r}")
    text = json.dumps(sweep.to_dict(), indent=1) if file.suffix == ".json" else sweep.svg(log_x=log_x, log_y=log_y)
    file.write_text(text)
    return file
