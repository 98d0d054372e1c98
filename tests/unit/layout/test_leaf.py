"""Leaves: printing, interning, arithmetic on types, basis rules."""

import pickle

import pytest

from flydsl.errors import DSLTypeError, LayoutError
from flydsl.layout import Basis, Dyn, E, Swizzle, ValueLeaf, basis_to_tuple
from flydsl.layout import leaf as lf

D = Dyn.get


def test_dyn_is_interned_and_prints():
    assert Dyn.get(width=32, div=1) is Dyn.get() is Dyn() is Dyn(32, 1)
    assert [str(D()), str(D(64)), str(D(div=8)), str(D(64, 8))] == ["?", "?{i64}", "?{div=8}", "?{i64 div=8}"]
    assert pickle.loads(pickle.dumps(D(64, 8))) is D(64, 8)
    with pytest.raises(AttributeError):
        D().div = 3
    with pytest.raises(LayoutError, match="32 or 64 bits"):
        D(16)
    with pytest.raises(LayoutError, match="at least 1"):
        D(32, 0)


@pytest.mark.parametrize(
    "fn, a, b, result",
    [
        (lf.leaf_add, D(div=6), D(64, 4), D(64, 2)),
        (lf.leaf_add, 0, D(div=6), D(div=6)),
        (lf.leaf_add, D(div=6), None, D(div=6)),
        (lf.leaf_add, D(div=6), 4, D(div=2)),
        (lf.leaf_sub, 0, D(div=6), D(div=6)),
        (lf.leaf_sub, D(div=6), 0, D(div=6)),
        (lf.leaf_sub, 9, D(div=6), D(div=3)),
        (lf.leaf_sub, None, 5, -5),
        (lf.leaf_mul, D(div=6), 4, D(div=24)),
        (lf.leaf_mul, D(div=6), -4, D(div=24)),
        (lf.leaf_mul, D(64), 0, 0),
        (lf.leaf_mul, 1, D(64, 2), D(64, 2)),
        (lf.leaf_div, -7, 2, -3),
        (lf.leaf_div, 0, D(), 0),
        (lf.leaf_div, D(div=8), 1, D()),
        (lf.leaf_mod, -7, 2, -1),
        (lf.leaf_mod, D(div=8), 12, D(div=4)),
        (lf.leaf_mod, D(div=8), 1, 0),
        (lf.leaf_mod, 0, D(), 0),
        (lf.leaf_min, 3, 5, 3),
        (lf.leaf_min, D(div=8), 12, D(div=4)),
        (lf.leaf_min, 0, D(div=8), D(div=8)),
        (lf.leaf_max, 3, 5, 5),
        (lf.leaf_max, D(64, 8), 12, D(64, 4)),
        (lf.leaf_max, None, -3, 0),
        (lf.leaf_safe_div, 12, 4, 3),
        (lf.leaf_safe_div, 0, D(), 0),
        (lf.leaf_safe_div, D(div=8), 4, D()),
        (lf.leaf_safe_div, Basis(12, (1,)), 4, Basis(3, (1,))),
        (lf.leaf_ceil_div, 11, 3, 4),
        (lf.leaf_ceil_div, 1, D(), 1),
        (lf.leaf_ceil_div, 0, D(), 0),
        (lf.leaf_ceil_div, D(div=8), 4, D()),
        (lf.leaf_ceil_div, Basis(7, (1,)), 4, Basis(2, (1,))),
        (lf.leaf_shape_div, 3, 6, 1),
        (lf.leaf_shape_div, 12, 4, 3),
        (lf.leaf_shape_div, 1, D(), 1),
        (lf.leaf_lt, 3, 5, 1),
        (lf.leaf_le, 5, 5, 1),
        (lf.leaf_gt, 3, 5, 0),
        (lf.leaf_ge, 3, D(64), D()),
        (lf.leaf_eq, Basis(2, (0,)), Basis(2, (0,)), 1),
        (lf.leaf_eq, Basis(2, (0,)), Basis(2, (1,)), 0),
        (lf.leaf_eq, 2, Basis(2, (1,)), 0),
        (lf.leaf_ne, 2, Basis(2, (1,)), 1),
        (lf.leaf_ne, Basis(D(), (1,)), Basis(2, (1,)), D()),
        (lf.leaf_and, 0, D(), 0),
        (lf.leaf_and, 1, D(64), D()),
        (lf.leaf_and, 2, 3, 1),
        (lf.leaf_or, 0, D(), D()),
        (lf.leaf_or, 7, D(), 1),
        (lf.leaf_or, 0, 0, 0),
        (lf.leaf_mul, 3, Basis(2, (1, 0)), Basis(6, (1, 0))),
        (lf.leaf_mul, Basis(2, (1,)), D(div=3), Basis(D(div=6), (1,))),
        (lf.leaf_mul, 0, Basis(2, (1,)), Basis(0, (1,))),
    ],
)
def test_leaf_arithmetic(fn, a, b, result):
    assert fn(a, b) == result and type(fn(a, b)) is type(result)


def test_not_and_swizzle():
    assert [lf.leaf_not(0), lf.leaf_not(5), lf.leaf_not(D(64))] == [1, 0, D()]
    assert lf.leaf_swizzle(44, Swizzle(2, 2, 2)) == 36
    assert lf.leaf_swizzle(D(64, 24), Swizzle(2, 2, 2)) is D(64, 4)
    assert lf.leaf_swizzle(D(div=24), Swizzle(0, 2, 2)) is D(div=24)
    assert Swizzle(1, 1, 2)(8) == 10


@pytest.mark.parametrize(
    "fn, a, b, message",
    [
        (lf.leaf_div, 5, 0, "static 0"),
        (lf.leaf_div, D(), 0, "static 0"),
        (lf.leaf_mod, D(), 0, "static 0"),
        (lf.leaf_safe_div, 7, 2, "expected a multiple of 2, got 7"),
        (lf.leaf_safe_div, D(div=6), 4, "known divisor 6"),
        (lf.leaf_shape_div, 6, 4, "6 and 4 to divide one another"),
        (lf.leaf_mul, Basis(1, (0,)), Basis(1, (1,)), "cannot multiply the basis leaves 1E0 and 1E1"),
        (lf.leaf_mod, Basis(1, (0,)), 2, "basis leaf 1E0"),
        (lf.leaf_add, "x", 2, "of type str"),
        (lf.leaf_add, True, 2, "of type bool"),
    ],
)
def test_leaf_errors(fn, a, b, message):
    with pytest.raises((LayoutError, DSLTypeError), match=message):
        fn(a, b)


def test_basis():
    assert repr(Basis(2, [0])) == "2E0" and repr(E(0, 1)) == "1E0E1" and E() == 1
    assert Basis(2, (0,)) * 3 == 3 * Basis(2, (0,)) == Basis(6, [0])
    assert hash(Basis(2, (0,))) == hash(Basis(2, (0,))) and Basis(2, (0,)) != Basis(2, (1,)) and Basis(2, (0,)) != 2
    assert basis_to_tuple(Basis(5, (0, 1))) == ((0, 5),) and basis_to_tuple(Basis(3, (1,))) == (0, 3)
    assert pickle.loads(pickle.dumps(Basis(2, (0, 1)))) == Basis(2, (0, 1))
    for modes in ((), (-1,), ("a",)):
        with pytest.raises(ValueError, match="Basis"):
            Basis(1, modes)
    with pytest.raises(TypeError, match="non-negative"):
        E(-1)
    with pytest.raises(TypeError, match="coefficient"):
        Basis(1.5, (0,))


def test_value_leaf_is_compared_by_identity():
    a, b = ValueLeaf("x", None, 64, 8), ValueLeaf("x", None, 64, 8)
    assert a != b and a == a and a.type_leaf is D(64, 8) and str(a) == "?{i64 div=8}"
    with pytest.raises(DSLTypeError, match="pickled"):
        pickle.dumps(a)
