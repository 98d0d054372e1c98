"""Results are remembered for static and typed layouts, never for those that carry run-time values."""

import flydsl.layout as fl
from flydsl.layout import Basis, Dyn, Layout, Swizzle, Tile, ValueLeaf
from flydsl.layout.memo import carries_values, memo


class Count:
    def __init__(self):
        self.calls = 0

    def combine(self, op, a, b, width, div):
        self.calls += 1
        return ValueLeaf(None, self, width, div)


def test_same_result_object():
    A = Layout((8, Dyn.get()), (Dyn.get(64), 1))
    assert fl.zipped_divide(A, (4, 4)) is fl.zipped_divide(Layout((8, Dyn.get()), (Dyn.get(64), 1)), (4, 4))
    fl.clear_memos()
    assert fl.zipped_divide(A, (4, 4)) == fl.zipped_divide(A, (4, 4))


def test_values_are_computed_again():
    ops = Count()
    A = Layout((8, ValueLeaf(None, ops)), (1, 8))
    fl.zipped_divide(A, (4, 4))
    first = ops.calls
    assert first > 0
    fl.zipped_divide(A, (4, 4))
    assert ops.calls == 2 * first


def test_carries_values():
    x = ValueLeaf(None, Count())
    assert carries_values(x) and carries_values(Basis(x, (0,))) and carries_values((1, (x,)))
    assert carries_values(Layout(x, 1)) and carries_values(fl.make_composed_layout(Swizzle(1, 1, 1), x, Layout(4, 1)))
    assert not any(
        map(carries_values, [1, None, Dyn.get(), (1, Dyn.get()), Layout(4, 1), Tile((4,)), Swizzle(1, 1, 1)])
    )


def test_limit_and_keywords():
    calls = []

    @memo
    def double(x, by=2):
        calls.append(x)
        return x * by

    assert [double(3), double(3), double(3, by=3)] == [6, 6, 9] and calls == [3, 3]
