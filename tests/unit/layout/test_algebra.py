"""The tables of language reference 8.1 and 8.3 to 8.6, and the errors of those functions."""

import pytest

import flydsl.layout as fl
from flydsl.errors import LayoutError
from flydsl.layout import Dyn, Layout, parse_any_layout, parse_int_tuple, parse_layout, parse_tile

P = parse_layout


def operand(text):
    return parse_tile(text) if text.startswith("[") else parse_any_layout(text)


def test_sizes():
    L = P("(4,8):(1,5)")
    assert (fl.size(L), fl.cosize(L), fl.coshape(L), fl.coprofile(L)) == (32, 39, 39, 0)
    assert fl.cosize(P("(4,8):(8,1)")) == 32 and fl.cosize(P("(4,8):(0,0)")) == 1
    identity = fl.make_identity_layout((4, 8))
    assert (fl.coshape(identity), fl.coprofile(identity), fl.cosize(identity)) == ((4, 8), (0, 0), 32)
    assert fl.coprofile(P("(2,3):(1E1E0,1E0)")) == (0, (0,))
    assert fl.coshape(P("8:3E1")) == (1, 22) and fl.coprofile(P("8:3E1")) == (0, 0)
    assert fl.size((4, Dyn.get())) is Dyn.get(div=4) and fl.size(7) == 7
    composed = parse_any_layout("S<3,0,3> o 0 o (8,8):(8,1)")
    assert (fl.size(composed), fl.cosize(composed)) == (64, 64)
    with pytest.raises(LayoutError, match="either all integers or all basis"):
        fl.coprofile(P("(4,8):(1,1E1)"))
    with pytest.raises(LayoutError, match="cannot add"):
        fl.coshape(P("(4,8):(1,1E1)"))


@pytest.mark.parametrize(
    "given, pattern, result",
    [
        ("(2,(1,6)):(1,(6,2))", None, "12:1"),
        ("(2,2,2):(1,2,8)", None, "(4,2):(1,8)"),
        ("(2,4):(4,1)", None, "(2,4):(4,1)"),
        ("(4,8):(0,0)", None, "32:0"),
        ("((2,2),(2,2)):((1,2),(4,8))", (1, 1), "(4,4):(1,4)"),
        ("(2,(1,6)):(1,(6,2))", (1, 1), "(2,6):(1,2)"),
        ("(4,?):(1,4)", None, "(4,?):(1,4)"),
        ("((2,2),(2,2),(2,1)):((1,2),(4,8),(3,4))", (1, (1, 1)), "(4,(2,2),(2,1)):(1,(4,8),(3,4))"),
        # Basis strides merge within one component only.
        ("(4,8):(1E0,4E1)", None, "(4,8):(1E0,4E1)"),
        ("(4,8):(1E0,4E0)", None, "32:1E0"),
        ("S<3,0,3> o 0 o (8,8):(1,8)", None, "S<3,0,3> o 0 o 64:1"),
    ],
)
def test_coalesce(given, pattern, result):
    assert str(fl.coalesce(parse_any_layout(given), pattern)) == result


@pytest.mark.parametrize(
    "a, b, result",
    [
        ("20:2", "(5,4):(4,1)", "(5,4):(8,2)"),
        ("(6,2):(8,2)", "(4,3):(3,1)", "((2,2),3):((24,2),8)"),
        ("(10,2):(16,4)", "(5,4):(1,5)", "(5,(2,2)):(16,(80,4))"),
        ("(4,3):(3,1)", "24:1", "(4,6):(3,1)"),
        ("8:1", "16:1", "16:1"),
        ("4:1", "1:3", "1:0"),
        ("(4,1):(1,5)", "8:1", "(4,2):(1,5)"),
        ("(12,(4,8)):(59,(13,1))", "[3:4|8:2]", "(3,(2,4)):(236,(26,1))"),
        ("(12,(4,8)):(59,(13,1))", "[3|8]", "(3,(4,2)):(59,(13,1))"),
        ("(12,32):(32,1)", "[*|8]", "(12,8):(32,1)"),
        ("(8,16):(1E0,1E1)", "(4,2):(1,4)", "(4,2):(1E0,4E0)"),
        ("(4,?):(1,4)", "8:1", "(4,2):(1,4)"),
        ("(4,8):(8,1)", "(2,3):(1E1,2E0)", "(2,3):(1,16)"),
        ("(4,(2,8)):(100,(8,1))", "(2,4):(1E1,1E0)", "(2,4):(8,100)"),
        ("(4,8):(8,1)", "3:2E1", "3:2"),
        ("(4,8):(8,1)", "(3,2):(0E1,1E0)", "(3,2):(0,8)"),
        ("12:3", "(2,2):(-1,0)", "(2,2):(-3,0)"),
        ("(8,4):(1,8)", "[4]", "(4,4):(1,8)"),
        ("S<3,0,3> o 0 o (8,8):(8,1)", "[4|2]", "S<3,0,3> o 0 o (4,2):(8,1)"),
    ],
)
def test_composition(a, b, result):
    assert str(fl.composition(operand(a), operand(b))) == result


@pytest.mark.parametrize(
    "given, n, result",
    [
        ("4:1", 24, "6:4"),
        ("6:4", 24, "4:1"),
        ("(4,6):(1,4)", 24, "1:0"),
        ("4:2", 24, "(2,3):(1,8)"),
        ("(2,4):(1,6)", 24, "3:2"),
        ("(2,2):(1,6)", 24, "(3,2):(2,12)"),
        ("(3,2):(2,1)", 12, "2:6"),
        ("4:1", 10, "3:4"),
        ("3:0", 12, "12:1"),
        ("3:0", 1, "1:1"),
        ("(2,4):(1,4)", None, "2:2"),
        ("(4,3):(1,0)", 8, "2:4"),
        ("4:1", (24,), "6:4"),
    ],
)
def test_complement(given, n, result):
    assert str(fl.complement(P(given), n)) == result


@pytest.mark.parametrize(
    "given, right, left",
    [
        ("(4,8):(1,4)", "32:1", "32:1"),
        ("(4,8):(8,1)", "(8,4):(4,1)", "(8,4):(4,1)"),
        ("(4,8):(1,5)", "4:1", "(5,8):(1,4)"),
        ("8:2", "1:0", "(2,8):(0,1)"),
        ("(4,4):(0,1)", "4:4", "4:4"),
        ("((2,2),4):((1,8),2)", "(2,4,2):(1,4,2)", "(2,4,2):(1,4,2)"),
        ("(2,4):(1,4)", "2:1", "(4,4):(1,2)"),
        ("4:0", "1:0", "1:0"),
    ],
)
def test_inverses(given, right, left):
    assert str(fl.right_inverse(P(given))) == right
    assert str(fl.left_inverse(P(given))) == left


def test_right_inverse_skips_what_does_not_continue():
    assert str(fl.right_inverse(P("(2,4,2):(4,1,2)"))) == "(4,2):(2,1)"
    assert str(fl.right_inverse(P("(4,?):(1,4)"))) == "4:1"


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda: fl.complement(P("(2,2):(1,1)"), 8),
            ValueError,
            r"of \(2,2\):\(1,1\): expected an injective",
        ),
        (lambda: fl.complement(P("(4,2):(1,2)"), 8), ValueError, "overlaps"),
        (lambda: fl.complement(P("4:-1"), 8), ValueError, "positive strides"),
        (lambda: fl.complement(P("(4,2):(1,?)"), 8), LayoutError, "static integer strides"),
        (lambda: fl.complement(P("(4,2):(1E0,1E1)"), 8), LayoutError, "static integer strides"),
        (lambda: fl.complement(P("4:1"), (2, 4)), LayoutError, r"one integer as codomain size, got \(2,4\)"),
        (lambda: fl.composition(P("4:1"), (2, 2)), TypeError, "expected Tile or Layout"),
        (lambda: fl.composition(P("4:1"), 2), TypeError, "wrap it with make_tile"),
        (lambda: fl.composition(P("4:1"), parse_any_layout("4:1 o 0 o 4:1")), TypeError, "make_composed_layout"),
        (lambda: fl.composition(3, P("4:1")), TypeError, "expected a Layout or ComposedLayout, got 3"),
        (lambda: fl.composition(P("(4,3):(3,1)"), P("2:6")), LayoutError, "stride 6 must be smaller than the extent 4"),
        (lambda: fl.composition(P("(4,3):(3,1)"), P("6:1")), LayoutError, "extent 6 must be a multiple of 4"),
        (lambda: fl.composition(P("(5,2):(3,1)"), P("6:2")), LayoutError, "stride 2 must divide the extent 5"),
        (lambda: fl.composition(P("(4,3):(3,1)"), P("2:-1")), LayoutError, "negative stride -1"),
        (lambda: fl.composition(P("(4,3):(3,1)"), parse_tile("[2|2|2]")), LayoutError, r"\[2\|2\|2\] has 3 modes"),
        (lambda: fl.composition(P("(4,3):(3,1)"), P("2:1E2")), LayoutError, "more modes than the layout"),
        (lambda: fl.composition(P("(4,3):(3,1)"), P("(2,2):(1,1E0)")), LayoutError, "either all integers"),
        (lambda: fl.coalesce(P("(4,3):(3,1)"), (1, 1, 1)), LayoutError, "more modes than the layout"),
        (lambda: fl.right_inverse(P("4:1E0")), LayoutError, "integer strides, got the basis 1E0"),
        (lambda: fl.left_inverse(P("(2,2):(1,1)")), LayoutError, "expected an injective layout"),
        (lambda: fl.left_inverse(P("(2,2,2):(1,3,7)")), LayoutError, "multiples of one another"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_composed_layouts_keep_their_nesting():
    C = parse_any_layout("S<3,0,3> o 5 o (8,8):(8,1)")
    for fn in (fl.right_inverse, fl.left_inverse, fl.complement, fl.coalesce):
        out = fn(C)
        assert (out.inner, out.offset) == (C.inner, 5) and out.outer == fn(C.outer)
    assert parse_int_tuple("5") == C.offset and isinstance(C.outer, Layout)
