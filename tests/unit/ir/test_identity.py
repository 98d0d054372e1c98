"""Caches by identity: right also when ids are reused, and bounded."""

import gc
import weakref

import pytest

from flydsl.ir import identity
from flydsl.ir.identity import by_identity, by_identity_and_value


class Thing:
    def __init__(self, number: int):
        self.number = number

    def __hash__(self) -> int:
        raise AssertionError("hashing is what is to be avoided")


def test_one_result_per_object():
    calls: list[Thing] = []

    @by_identity
    def number(of: Thing) -> int:
        calls.append(of)
        return of.number

    a, b = Thing(1), Thing(1)
    assert [number(a), number(b), number(a), number(b)] == [1, 1, 1, 1]
    assert calls == [a, b]


def test_second_argument_counts_by_value():
    @by_identity_and_value
    def times(of: Thing, by: int) -> list[int]:
        return [of.number * by]

    a, b = Thing(2), Thing(5)
    assert [times(a, 3), times(a, 4), times(b, 3)] == [[6], [8], [15]]
    assert times(a, 300 + 1) is times(a, 301)


def test_ids_that_are_reused_give_the_new_objects_result():
    number = by_identity(lambda of: of.number)
    plus = by_identity_and_value(lambda of, more: of.number + more)
    for i in range(2000):  # without keeping the object, CPython gives the next one the same id
        assert number(Thing(i)) == i
        assert plus(Thing(i), 1) == i + 1


def test_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(identity, "LIMIT", 10)
    number = by_identity(lambda of: of.number)
    living: list[weakref.ref[Thing]] = []
    for i in range(100):
        thing = Thing(i)
        living.append(weakref.ref(thing))
        assert number(thing) == i
    del thing
    gc.collect()
    assert sum(ref() is not None for ref in living) <= 10


def test_a_failure_leaves_nothing_behind():
    tried: list[int] = []

    @by_identity
    def fails_once(of: Thing) -> int:
        tried.append(of.number)
        if len(tried) == 1:
            raise ValueError("not yet")
        return of.number

    a = Thing(7)
    with pytest.raises(ValueError, match="not yet"):
        fails_once(a)
    assert fails_once(a) == 7
