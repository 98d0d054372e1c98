"""A traced function gives what Python gives for the same numbers, or is refused where Python would decide."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import DSLRuntimeError, DSLTypeError

NUMBERS = ((3, 5, 2), (7, 1, 4), (0, 0, 0), (-4, 6, 3), (5, -5, 1))

# --- comprehensions -------------------------------------------------------------------------------------------------


def a_choice(x: Any, y: Any, n: Any):
    return [q if q > x else x for q in (1, y, n)]


def a_choice_in_a_generator(x: Any, y: Any, n: Any):
    return sum(q if q > x else -q for q in (1, y, n))


def logic(x: Any, y: Any, n: Any):
    return [1 if (q > x and q < y) or not q > n else 0 for q in (1, 2, n)]


def a_chain_of_comparisons(x: Any, y: Any, n: Any):
    return [1 if 0 < q < x else 0 for q in (1, y, n)]


def values_of_a_dict(x: Any, y: Any, n: Any):
    found = {k: (y if x > k else n) for k in range(3)}
    return found[0], found[1], found[2]


def one_in_another(x: Any, y: Any, n: Any):
    return [[a + b if a > b else a - b for a in (x, y)][1] for b in (n, 1)]


def a_function_inside(x: Any, y: Any, n: Any):
    return [(lambda z, w=(x if x > n else n): z if z > w else w)(q) for q in (1, y, n)]


def inside_of_regions(x: Any, y: Any, n: Any):
    v = 0
    for i in range(n):
        if x > i:
            v += sum(q if q > i else i for q in (x, y, n))
    return v


def an_iterable_that_is_chosen(x: Any, y: Any, n: Any):
    return [q for q in ((x, y) if n > 1 else (y, x))]


def an_iterable_chosen_by_logic(x: Any, y: Any, n: Any):
    return [q for q in ((x, y) if 0 < x < 9 > y and (n > 1 or not x > 3) and n != 7 else (y, x)) if q is not None]


def text(x: Any, y: Any, n: Any):
    return len(f"{1 if x is None else 23}{[q if q else 'none' for q in (1, 0)]!r}"), x


def known_conditions(x: Any, y: Any, n: Any):
    z = 0
    found = [(z := q) if q > 1 else x for q in range(5) if 0 < q < 4 and q != 2]
    return found, [q for q in (x, None, y) if q is not None][1], z


# --- what calls in operands change ----------------------------------------------------------------------------------


def arms_that_change_variables(x: Any, y: Any, n: Any):
    kept, last = [0, 0], 0

    def keep(i: int, value: Any):
        nonlocal last
        kept[i], last = value, value
        return value

    chosen = keep(0, x) if x > 2 else keep(1, y)
    return chosen, *kept, last, [keep(1, q) if q > n else 0 for q in (1, x, 4)][1], last


def operands_that_change_variables(x: Any, y: Any, n: Any):
    count = 0

    def more(by: Any):
        nonlocal count
        count += by
        return count > 2

    first = 1 if (x > 2 and more(1) and more(y)) else 2
    second = 1 if (x > 4 or not more(2) or (y and more(4))) else 2
    while n > 0 and not more(1):
        n -= 1
    return first, second, count, n, 1 if (0 and more(8)) or more(16) else 2


def operands_that_assign(x: Any, y: Any, n: Any):
    v, w, found = 0, y, 0
    if x > 2 and (v := y + 1) > 2 and (v := v + n) > 5:
        found = v
    if x > 4 or (w := n * 2) > 3:
        found += w
    if y > 2 and (new := x + 1) > 2:
        found += new
    if n > 2 and (new := y + 1) > 2:
        found += new
    return v, w, found


def a_function_of_the_function_around(x: Any, y: Any, n: Any):
    count = 0

    def step():
        nonlocal count
        count = 5

    def inner(q: Any):
        if q > 2:
            step()
        return q

    return inner(x), count


# --- tables ---------------------------------------------------------------------------------------------------------


def what_was_remembered(x: Any, y: Any, n: Any):
    found: dict[Any, Any] = {}
    for q in (x, y, x):
        if q not in found:
            found[q] = q + n
    return found[x] + found[y]


def keys_that_are_known(x: Any, y: Any, n: Any):
    table = {"x": x, 3: y}
    return (table["x"] if "x" in table and 3 in table else n), 4 in {3, 5}, "y" not in table


# --- classes --------------------------------------------------------------------------------------------------------


def an_unsigned_number_and_an_index(x: Any, y: Any, n: Any):
    first = fx.Uint64(n)
    for i in range(n):
        if first > fx.Index(2):
            first = first + fx.Index(i)
    return fx.Int32(first if first < fx.Index(9) else first % fx.Index(9))


def tables_of_other_classes(x: Any, y: Any, n: Any):
    sums, order = collections.defaultdict(int), collections.OrderedDict(a=y, b=x)
    sums["a"] = y
    for _ in range(n):
        sums["a"] += x
        order["b"] += len({1, 2}.union((3,)))
    return sums["a"], order["b"], list(order) == ["a", "b"], {"u": x, 3: y}.get("u", 1), {}.get(x, 5)


WORK = [
    tables_of_other_classes,
    a_choice, a_choice_in_a_generator, logic, a_chain_of_comparisons, values_of_a_dict, one_in_another,
    a_function_inside, inside_of_regions, an_iterable_that_is_chosen, an_iterable_chosen_by_logic, text,
    known_conditions, what_was_remembered, keys_that_are_known, an_unsigned_number_and_an_index,
    arms_that_change_variables, operands_that_change_variables, operands_that_assign, a_function_of_the_function_around,
]  # fmt: skip


@pytest.mark.parametrize("function", WORK)
def test_it_gives_what_python_gives(function: Callable[..., Any]):
    for numbers in NUMBERS:
        expected = function(*numbers)
        made = flyc.evaluate(function, *numbers)
        assert (list(made) if isinstance(expected, list) else made) == expected, numbers


# --- what Python would decide ---------------------------------------------------------------------------------------


def a_filter(x: Any, y: Any):
    return len([q for q in (1, y) if q > x])  # choose their values, as in \[a if cond else b for


def a_filter_with_logic(x: Any, y: Any):
    return sum(q for q in (1, y) if q > x and q < 7)  # decides while tracing which items it has


def an_arm_that_assigns(x: Any, y: Any):
    return [(z := q) if q > x else y for q in (1, 2)], z  # cannot evaluate dynamic Boolean


def a_set_of_numbers(x: Any, y: Any):
    return y if x in {3, 5} else x  # compare with each: \(x == a\) \| \(x == b\)


def a_dict_of_numbers(x: Any, y: Any):
    return y if x not in {3: 1}.keys() else x  # compare with each


def a_number_in_a_set(x: Any, y: Any):
    return y if 3 in {x, y} else x  # equals a key is known at run time only


def a_number_that_is_looked_up(x: Any, y: Any):
    return {3: y}.get(x, 5)  # pick with cond.select


REFUSED = [
    a_number_that_is_looked_up,
    a_filter, a_filter_with_logic, an_arm_that_assigns, a_set_of_numbers, a_dict_of_numbers,
    a_number_in_a_set,
]  # fmt: skip


@pytest.mark.parametrize("function", REFUSED)
def test_it_is_refused_at_its_line(function: Callable[..., Any]):
    first = function.__code__.co_firstlineno
    lines = Path(__file__).read_text().split("\n")
    line = next(n for n in range(first, len(lines)) if "  # " in lines[n - 1])
    with pytest.raises(DSLRuntimeError) as caught:
        flyc.evaluate(function, 3, 5)
    notes = "\n".join(caught.value.__notes__)
    words = lines[line - 1].partition("  # ")[2]
    assert re.search(words, f"{caught.value}\n{notes}")
    assert f'test_as_python.py", line {line}\n' in notes and "^" in notes


def a_refusal_that_is_caught(x: Any, y: Any):
    kept: list[int] = []
    try:
        if x > 2:
            kept.append(1)
    except Exception:  # noqa: BLE001
        kept = [2]
    return len(kept) + y


def a_raise_that_is_caught(x: Any, y: Any):
    try:
        for _ in range(x):
            raise ValueError
    except ValueError:
        return y
    return x


def a_set_that_grows(x: Any, y: Any):
    seen = {1}
    if x > 2:
        seen.add(2)
    return len(seen) + y


def a_queue_that_grows(x: Any, y: Any):
    waiting = collections.deque([x])
    for _ in range(y):
        waiting.append(y)
    return waiting[0]


@pytest.mark.parametrize("function", [a_set_that_grows, a_queue_that_grows])
def test_containers_that_are_not_carried_must_not_change(function: Callable[..., Any]):
    with pytest.raises(DSLTypeError, match="a method changed this (set|deque) of Python values"):
        flyc.evaluate(function, 3, 5)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (a_refusal_that_is_caught, "a method changed this list"),
        (a_raise_that_is_caught, "this ValueError left a run-time region and was caught"),
    ],
)
def test_what_leaves_a_region_is_not_to_be_caught(function: Callable[..., Any], words: str):
    with pytest.raises((DSLTypeError, DSLRuntimeError), match=words):
        flyc.evaluate(function, 3, 5)
