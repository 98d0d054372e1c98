"""In which order `gemm` takes its steps."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flydsl.layout as L
from flydsl.dialects.fly.traversal import steps
from flydsl.errors import LayoutError
from flydsl.ir.enums import GemmTraversalOrder

extents = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))


@given(extents, st.sampled_from(list(GemmTraversalOrder)))
def test_every_step_once(shape: tuple[int, int, int], order: GemmTraversalOrder):
    """The first letter of an order turns fastest; a serpentine goes on from where it is, one step at a time."""
    found = list(steps(shape, order))
    assert sorted(found) == sorted(product(*map(range, shape)))
    letters, _, serpentine = order.name.partition("_")
    if serpentine:
        for before, after in zip(found, found[1:], strict=False):
            assert sum(abs(a - b) for a, b in zip(before, after, strict=True)) == 1
    else:
        places = ["MNK".index(letter) for letter in reversed(letters)]
        assert found == sorted(found, key=lambda at: [at[place] for place in places])
    slowest = "MNK".index(letters[2])
    assert [at[slowest] for at in found] == sorted(at[slowest] for at in found)


@given(extents, st.permutations([0, 1, 2]))
def test_a_layout_gives_the_order(shape: tuple[int, int, int], order: list[int]):
    """Its coordinates in turn, m fastest, name the steps: those of the shape, m fastest, too."""
    strides, step = [0, 0, 0], 1
    for mode in order:
        strides[mode], step = step, step * shape[mode]
    layout = L.Layout(shape, tuple(strides))
    numbers = [m + shape[0] * (n + shape[1] * k) for m, n, k in steps(shape, layout=layout)]
    colex = [(m, n, k) for k, n, m in product(range(shape[2]), range(shape[1]), range(shape[0]))]
    assert numbers == [sum(a * b for a, b in zip(at, strides, strict=True)) for at in colex]
    assert sorted(numbers) == list(range(step))


@pytest.mark.parametrize("layout", [L.Layout(12, 1), L.Layout(24, 2), L.Layout((4, 6), (6, 0)), L.Layout(25, 1)])
def test_layouts_of_other_steps(layout: L.Layout):
    assert len(list(steps((2, 3, 4), layout=L.Layout(24, 1)))) == 24
    with pytest.raises(LayoutError, match="must have size and cosize 24"):
        steps((2, 3, 4), layout=layout)
