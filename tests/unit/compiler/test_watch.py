"""Words of memory that tell whether what code depends on has changed: they notice what a comparison notices."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.call import watch as watches
from flydsl.compiler.call.watch import Watch
from flydsl.dict_version import version_of

FACTOR = 3
TABLE = {"a": 1}
HELPERS = SimpleNamespace(bias=2)


class Shape:
    height = 4

    @staticmethod
    def area() -> int:
        return Shape.height * 2


def scaled(x: Any, by: int = 2) -> Any:
    return x * by


def outer(step: int) -> Any:
    def inner(x: Any) -> Any:
        return x + step

    return inner


shifted = outer(5)


@flyc.kernel
def kernel(x: fx.Tensor):
    at = fx.thread_idx.x
    x[at] = shifted(scaled(x[at])) * FACTOR + TABLE["a"] + Shape.area()


@flyc.jit
def function(x: fx.Tensor):
    kernel(x).launch(grid=1, block=4)


@pytest.fixture
def watch() -> Watch:
    return Watch.of_function(function.function_key())


def native(watch: Watch) -> bool:
    return watch._same is not None  # pyright: ignore[reportPrivateUsage]


def _other(x: Any, by: int = 2) -> Any:
    return x - by


def test_changes_are_noticed(watch: Watch, monkeypatch: pytest.MonkeyPatch):
    assert watch.holds() and watch.holds()
    assert native(watch) == (version_of({}) is not None)
    changes: list[tuple[Any, str, object]] = [
        (scaled, "__code__", _other.__code__),
        (scaled, "__defaults__", (7,)),
        (Shape, "height", 5),
        (Shape, "__name__", "Form"),
        (scaled, "__kwdefaults__", {"by": 3}),
        (Shape, "area", staticmethod(lambda: 1)),
        (globals(), "FACTOR", 4),
        (TABLE, "a", 2),
        (shifted.__closure__[0], "cell_contents", 6),
    ]
    for place, name, value in changes:
        fresh = Watch.of_function(function.function_key())
        assert fresh.holds()
        before = (
            place[name] if isinstance(place, dict) else getattr(place, "__dict__", {}).get(name, getattr(place, name))
        )
        _set(place, name, value)
        try:
            assert not fresh.holds(), name
            assert not fresh.holds(), name
        finally:
            _set(place, name, before)
        assert fresh.holds(), name


def _set(place: Any, name: str, value: object) -> None:
    if isinstance(place, dict):
        place[name] = value
    else:
        setattr(place, name, value)


def test_other_names_of_a_module_change_nothing(watch: Watch, monkeypatch: pytest.MonkeyPatch):
    for i in range(5):
        monkeypatch.setitem(globals(), f"unrelated_{i}", i)
        assert watch.holds()
    assert native(watch) == (version_of({}) is not None)
    monkeypatch.setattr(watches, "_MOST_RENEWALS", 0)
    monkeypatch.setitem(globals(), "one_more", 1)
    assert watch.holds() and not native(watch) and watch.holds()


def test_left_to_the_comparison_where_python_does_not_count(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watches, "version_of", lambda _: None)
    watch = Watch.of_function(function.function_key())
    assert not native(watch) and watch.holds()
    monkeypatch.setattr(Shape, "height", 9)
    assert not watch.holds()
