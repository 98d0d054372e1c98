"""Which cases of a parametrised test run by default: every value of every parameter, not every combination."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

import pytest

MARK = "covering"


def some_of(values: Iterable[object], count: int) -> list[object]:
    """The values of a parameter, of which only the first few run by default; the rest is more of the same."""
    return [*rows_of([(value,) for value in values], count)]


def rows_of(values: Iterable[tuple[object, ...]], count: int) -> list[object]:
    """The same for parameters that are given together."""
    return [pytest.param(*row, marks=[pytest.mark.slow] * (i >= count)) for i, row in enumerate(values)]


def chosen(cases: Sequence[Mapping[str, Hashable]]) -> set[int]:
    """Numbers of cases that have every value of each parameter between them.

    The one with most values that are new comes next, of equals the one whose values are the rarest so far, then the
    first, so the choice is the same in every run.
    """
    missing = {pair for case in cases for pair in case.items()}
    used: Counter[tuple[str, Hashable]] = Counter()
    found: set[int] = set()
    while missing:

        def gain(number: int) -> tuple[int, int]:
            pairs = cases[number].items()
            return len(missing.intersection(pairs)), -sum(used[pair] for pair in pairs)  # noqa: B023

        best = max(range(len(cases)), key=gain)
        missing.difference_update(cases[best].items())
        used.update(cases[best].items())
        found.add(best)
    return found


def _value(value: object) -> Hashable:
    """What tells a value of a parameter from others."""
    if isinstance(value, tuple):
        return tuple(map(_value, value))
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value


def _values(item: pytest.Function) -> dict[str, Hashable]:
    """Values of a case; parameters given together are one, unless the mark names them."""
    apart: set[str] = {name for mark in item.iter_markers(MARK) for name in mark.args}
    params = dict(item.callspec.params)
    found: dict[str, Hashable] = {name: _value(params.pop(name)) for name in apart}
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0]
        together = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        together = [name for name in together if name in params]
        if together:
            found[",".join(together)] = tuple(_value(params.pop(name)) for name in together)
    return found | {name: _value(value) for name, value in params.items()}


def mark_the_rest(items: Iterable[pytest.Item], devices: Iterable[str]) -> None:
    """Mark cases of tests with the mark as slow, but for a covering choice; those on a device are left alone."""
    tests: dict[str, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker(MARK):
            if not any(item.get_closest_marker(device) for device in devices):
                tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        keep = chosen([_values(case) for case in cases])
        for number, case in enumerate(cases):
            if number not in keep:
                case.add_marker(pytest.mark.slow)
