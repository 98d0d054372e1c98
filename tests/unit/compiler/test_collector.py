"""The collector beside compilations: off meanwhile, and done with what they load."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from flydsl.compiler.build.collector import collector_off


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    frozen = gc.get_freeze_count()
    gc.enable()
    gc.unfreeze()  # what tests/conftest.py has frozen: it is old then, and not looked at
    gc.collect(1)
    yield
    gc.enable()
    if frozen:
        gc.freeze()


def _is_in(generation: int, what: object) -> bool:
    return any(each is what for each in gc.get_objects(generation))


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """What an import does to the table of modules."""
    return lambda: monkeypatch.setitem(sys.modules, "a_module_of_this_test", ModuleType("a_module_of_this_test"))


def test_objects_of_modules_become_old(load: Callable[[], None]):
    with collector_off():
        assert not gc.isenabled()
        load()
        kept = [[i] for i in range(40_000)]
    assert gc.isenabled() and _is_in(2, kept[0]) and _is_in(2, kept[-1])


def test_many_objects_without_modules_are_left_alone():
    with collector_off():
        kept = [[i] for i in range(40_000)]
    assert gc.isenabled() and not _is_in(2, kept[0])


def test_what_a_program_has_frozen_stays_so(load: Callable[[], None]):
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with collector_off():
            load()
            kept = [[i] for i in range(100)]
        assert gc.isenabled() and gc.get_freeze_count() == frozen and not _is_in(2, kept[0])
    finally:
        gc.unfreeze()


def test_they_are_not_looked_at(load: Callable[[], None]):
    looks: list[int] = []
    watch = lambda phase, info: looks.append(info["generation"])  # noqa: E731
    gc.callbacks.append(watch)
    try:
        with collector_off():
            load()
            kept = [[i] for i in range(40_000)]
        assert len(kept) == 40_000 and not looks
    finally:
        gc.callbacks.remove(watch)


def test_who_does_without_the_collector_keeps_doing_so(load: Callable[[], None]):
    gc.disable()
    with collector_off():
        load()
        kept = [[i] for i in range(40_000)]
    assert not gc.isenabled() and _is_in(0, kept[0])
