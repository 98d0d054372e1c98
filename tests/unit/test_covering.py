"""The cases that run by default have every value that a test is run with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.covering import chosen

values = st.dictionaries(st.sampled_from("abc"), st.integers(0, 4), min_size=1)


@given(st.lists(values, max_size=40))
def test_every_value_is_there_and_no_case_for_nothing(cases: list[dict[str, int]]):
    found = chosen(cases)
    pairs = {pair for case in cases for pair in case.items()}
    assert {pair for i in found for pair in cases[i].items()} == pairs
    assert len(found) <= len(pairs)


def test_a_product_needs_as_many_cases_as_its_longest_side():
    cases = [{"arch": a, "dtype": b} for a in range(5) for b in range(3)]
    assert len(chosen(cases)) == 5
    assert chosen(cases) == chosen(cases)


@pytest.mark.covering
@pytest.mark.parametrize("letter", "abc")
@pytest.mark.parametrize(("number", "twice"), [(1, 2), (2, 4), (3, 6), (4, 8)])
def test_marks(letter: str, number: int, twice: int, request: pytest.FixtureRequest):
    """Of twelve cases four are not slow: those given together are one value."""
    chosen_ones = [
        item for item in request.session.items if item.nodeid.startswith(request.node.nodeid.partition("[")[0])
    ]
    quick = [item for item in chosen_ones if not item.get_closest_marker("slow")]
    assert twice == 2 * number and len(quick) <= 4
    if len(chosen_ones) == 12:
        assert {item.callspec.params["letter"] for item in quick} == set("abc") and len(quick) == 4
