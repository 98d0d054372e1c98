"""What `functools.lru_cache` keeps: read without computing anything, under names that processes share."""

import fnmatch
import functools

import pytest

from flydsl.compiler.key import memos
from flydsl.compiler.key.walk import function_key

CALLS = [
    ((), {}), ((1,), {}), (("a",), {}), ((1.5,), {}), ((None,), {}), (((1, 2),), {}), ((1, 2), {"x": 3, "y": "s"}),
    ((), {"x": 1}), ((memos,), {"x": 2}), (({"a": 1}.keys, 7), {}),
]  # fmt: skip


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("maxsize", [None, 64, 3])
def test_each_result_is_found_by_its_arguments(maxsize, typed):
    @functools.lru_cache(maxsize=maxsize, typed=typed)
    def f(*args, **kwargs):
        return {"result": (args, kwargs)}

    memos.note(f)
    before = memos.Memos()
    for args, kwargs in CALLS:
        f(*args, **kwargs)
    assert list(before.given()) == [], "nothing was there, and nothing was given"
    kept = CALLS[-maxsize:] if maxsize == 3 else CALLS
    after = memos.Memos()
    assert list(after.given()) == []
    misses = f.cache_info().misses
    for args, kwargs in kept:
        f(*args, **kwargs)
    found = dict(after.given())
    assert len(found) == len(kept) and f.cache_info().misses == misses
    assert {name: memos.held_now(name) for name in found} == found
    f.cache_clear()
    assert {memos.held_now(name) for name in found} == {""}
    f(1)
    again = [held for name, held in found.items() if memos.held_now(name) == held]
    assert len(again) == (1 if maxsize != 3 else 0) and f.cache_info().misses == 1


def test_another_result_under_the_same_name_is_another():
    number = 3

    @functools.cache
    def f(a):
        return number + a

    memos.note(f)
    f(1), f(2)
    before = memos.Memos()
    f(1)
    one, two = list(before.given())
    assert one[1] != two[1] and one[0] != two[0]
    f.cache_clear()
    number = 90
    f(1)
    assert memos.held_now(one[0]) not in ("", one[1]) and memos.held_now(two[0]) == ""
    assert memos.held_now("no:such thing") == ""


def test_those_of_libraries_are_met():
    def uses() -> object:
        return fnmatch._compile_pattern("a*")  # pyright: ignore

    name = "fnmatch:_compile_pattern"
    function_key(uses)
    fnmatch._compile_pattern("a*")  # pyright: ignore
    before = memos.Memos()
    uses()
    assert [each.startswith(name) for each, _ in before.given()].count(True) >= 1


def test_results_that_cannot_be_pickled_count_by_their_class():
    @functools.cache
    def f():
        return lambda: 3

    memos.note(f)
    f()
    before = memos.Memos()
    f()
    ((name, held),) = before.given()
    f.cache_clear()
    f()
    assert memos.held_now(name) == held


def test_a_result_that_is_changed_in_place_is_another():
    @functools.lru_cache
    def f(a):
        return [a]

    memos.note(f)
    f(1)
    before = memos.Memos()
    f(1).append(2)
    ((name, held),) = before.given()
    assert memos.held_now(name) == held
    f(1).append(3)
    assert memos.held_now(name) not in ("", held)
