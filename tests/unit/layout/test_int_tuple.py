"""Tuple functions: language reference 6.4 and the structural rules of the dialect."""

import pytest

import flydsl.layout as fl
from flydsl.errors import LayoutError
from flydsl.layout import Basis, Dyn, parse_int_tuple
from flydsl.layout.int_tuple import replace_dynamic

P = parse_int_tuple
N = Dyn.get()


@pytest.mark.parametrize(
    "fn, args, result",
    [
        (fl.int_tuple_add, ("(1,2,9)", "(3,4)"), "(4,6,9)"),
        (fl.int_tuple_sub, ("(1,2)", "(3,4,5)"), "(-2,-2,5)"),
        (fl.int_tuple_mul, ("(2,(3,4))", "(5,(6,7))"), "(10,(18,28))"),
        (fl.int_tuple_div, ("(-7,9)", "(2,2)"), "(-3,4)"),
        (fl.int_tuple_mod, ("(-7,9)", "(2,2)"), "(-1,1)"),
        (fl.int_tuple_add, ("5E0E1", "3E1"), "((0,5),3)"),
        (fl.int_tuple_add, ("0", "3E1"), "3E1"),
        (fl.int_tuple_add, ("(1,2)", "3E1"), "(1,5)"),
        (fl.int_tuple_add, ("(1,2)", "0"), "(1,2)"),
        (fl.int_tuple_sub, ("0", "3E1"), "-3E1"),
        (fl.int_tuple_sub, ("(1,2)", "3E1"), "(1,-1)"),
        (fl.int_tuple_sub, ("0", "(1,(2))"), "(-1,(-2))"),
        (fl.int_tuple_product, ("(2,(3,4))",), "24"),
        (fl.int_tuple_product_each, ("(2,(3,4))",), "(2,12)"),
        (fl.int_tuple_product_like, ("((2,(3,4)),5)", "((1,1),1)"), "((2,12),5)"),
        (fl.ceil_div, ("(5,8)", "2"), "(3,8)"),
        (fl.ceil_div, ("(5,9)", "(2,4)"), "(3,3)"),
        (fl.ceil_div, ("24", "(2,5)"), "3"),
        (fl.ceil_div, ("(5,8,3)", "(2,4)"), "(3,2,3)"),
        (fl.ceil_div, ("((4,2),8)", "16"), "((1,1),4)"),
        (fl.shape_div, ("(4,8)", "2"), "(2,8)"),
        (fl.shape_div, ("(4,8)", "8"), "(1,4)"),
        (fl.shape_div, ("12", "(2,3)"), "2"),
        (fl.elem_less, ("(1,2)", "(2,3)"), "1"),
        (fl.elem_less, ("(1,2)", "(2,2)"), "0"),
        (fl.elem_less, ("(1,2,3)", "(9,9)"), "0"),
        (fl.elem_less, ("(1,2)", "(9,9,0)"), "1"),
        (fl.elem_less, ("(1,?)", "(2,?)"), "?"),
        (fl.elem_less, ("(5,?)", "(2,?)"), "0"),
        (fl.equal, ("(1,(2,3))", "(1,(2,3))"), "1"),
        (fl.equal, ("(1,(2,3))", "(1,2,3)"), "0"),
        (fl.equal, ("(1,?)", "(1,4)"), "?"),
        (fl.dice, ("(4,8,16)", "(*,3,*)"), "8"),
        (fl.slice, ("(4,8,16)", "(*,3,*)"), "(4,16)"),
        (fl.slice, ("((2,3),4,5)", "((1,*),*,0)"), "(3,4)"),
        (fl.slice, ("(4,((8)))", "(0,*)"), "8"),
        (fl.slice, ("(4,8)", "*"), "(4,8)"),
        (fl.zip_, ("((1,2),(3,4))",), "((1,3),(2,4))"),
        (fl.zip_, ("(1,(3,4))",), "(1,(3,4))"),
        (fl.zip2_by, ("((1,2),(3,4),5)", "(0,0)"), "((1,3),(2,4,5))"),
        (fl.zip2_by, ("((1,2))", "(0)"), "((1),(2))"),
        (fl.filter_zero, ("(0,1)", "((2,3),4)"), "((1,1),4)"),
        (fl.compact_col_major, ("(4,(2,?),3)",), "(1,(4,8),?{div=8})"),
        (fl.basis_like, ("(4,(2,8))",), "(1E0,(1E1E0,1E1E1))"),
        (fl.basis_like, ("4",), "1"),
        (fl.unflatten, ("(1,2,3)", "(0,(0,0))"), "(1,(2,3))"),
        (fl.flatten, ("(1,((2),3))",), "(1,2,3)"),
        (fl.unwrap, ("(((4)))",), "4"),
        (fl.size, ("(2,3)",), "6"),
        (fl.size, ("(4,?)",), "?{div=4}"),
    ],
)
def test_functions(fn, args, result):
    assert fn(*map(P, args)) == P(result)


def test_modes():
    t = (4, (8, 2), N)
    assert fl.take(t, 1, 2) == (8, 2)
    assert fl.take(t, 1) == ((8, 2), N)
    assert fl.select(t, [2, 0]) == (N, 4)
    assert fl.select(t, [1]) == (8, 2)
    assert fl.group(t, 0, 2) == ((4, (8, 2)), N)
    assert fl.group(t, 1, 1) == t
    assert fl.group(t, 1, 2) == (4, ((8, 2),), N)
    assert fl.group(5, 0, 1) == 5
    assert fl.expand(t, [1]) == (4, 8, 2, N)
    assert fl.expand(((4,),), [0]) == 4
    assert fl.append((4,), 1, n=3) == (4, 1, 1)
    assert fl.append((4, 8), 1, n=2) == (4, 8)
    assert fl.prepend((4, 8), 3) == (3, 4, 8)
    assert fl.prepend(4, 1, n=3) == (1, 1, 4)
    assert fl.get_(t, [1, 0]) == 8 and fl.get_(t, 2) is N and fl.get_(5, 0) == 5


def test_structure():
    assert (fl.rank(4), fl.rank((4,)), fl.rank((4, 8)), fl.depth(4), fl.depth((4,)), fl.depth((4, (8,)))) == (
        1,
        1,
        2,
        0,
        1,
        2,
    )
    assert fl.is_static((4, (None, Basis(2, (0,))))) and not fl.is_static((4, Basis(N, (0,))))
    t = (4, (Dyn.get(64), 2), Basis(Dyn.get(div=4), (0,)))
    assert list(fl.dynamic_leaves(t)) == [Dyn.get(64), Dyn.get(div=4)]
    assert replace_dynamic(t, [N, N]) == (4, (N, 2), Basis(N, (0,)))
    assert fl.has_none((1, (None,))) and not fl.has_none((1, (2,)))
    assert fl.congruent((1, (2, 3)), (N, (0, 0))) and not fl.congruent((1, (2, 3)), (1, 2))
    assert fl.weakly_congruent((1, 2), (1, (2, 3))) and not fl.weakly_congruent((1, (2, 3)), (1, 2))
    assert fl.map_leaves(lambda x: x + 1, (1, (2,))) == (2, (3,))
    assert fl.as_int_tuple([1, [2, None]]) == (1, (2, None))


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: fl.int_tuple_add(3, Basis(1, (0,))), LayoutError, "cannot add 3 and 1E0"),
        (lambda: fl.int_tuple_mul((1, 2), 3), LayoutError, "profile mismatch"),
        (lambda: fl.slice((4, 8), (1, 2)), LayoutError, "keeps nothing"),
        (lambda: fl.slice((4, 8), (None, 2, 3)), LayoutError, r"profile mismatch: slice of \(4,8\) with \(\*,2,3\)"),
        (lambda: fl.dice((4, 8), None), LayoutError, "keeps nothing"),
        (lambda: fl.take(4, 0, 1), LayoutError, "got the leaf 4"),
        (lambda: fl.take((4, 8), 1, 3), IndexError, "its rank is 2"),
        (lambda: fl.select((4, 8), [2]), IndexError, "mode 2 of"),
        (lambda: fl.get_(4, 1), IndexError, "its rank is 1"),
        (lambda: fl.append((4, 8), 1, n=1), LayoutError, "at least the rank 2"),
        (lambda: fl.shape_div((6, 2), 4), LayoutError, "divide one another"),
        (lambda: fl.zip2_by((1, 2, 3), 0), LayoutError, r"\(tile, rest\) pair"),
        (lambda: fl.zip_(((1, 2), 3)), LayoutError, "rank 2"),
        (lambda: fl.unflatten((1, 2), (0, (0, 0))), LayoutError, "profile mismatch"),
        (lambda: fl.unflatten((1, 2, 3), (0, 0)), LayoutError, "profile mismatch"),
        (lambda: fl.product_like((1, 2), (1, 1, 1)), LayoutError, "profile mismatch"),
        (lambda: fl.as_int_tuple(()), LayoutError, "at least one element"),
        (lambda: fl.as_int_tuple((1, 2.5)), TypeError, "got 2.5 of type float"),
        (lambda: fl.as_int_tuple(True), TypeError, "of type bool"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
