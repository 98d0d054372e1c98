"""The products, tile_to_shape and recast: language reference 8.8, 8.9, 8.11."""

import pytest

import flydsl.layout as fl
from flydsl.errors import LayoutError
from flydsl.layout import Layout, downcast, parse_any_layout, parse_layout, upcast

P = parse_layout


@pytest.mark.parametrize(
    "a, b, logical, blocked, raked",
    [
        ("8:1", "4:1", "(8,4):(1,8)", "(8,4):(1,8)", "(4,8):(8,1)"),
        (
            "(2,2):(4,1)",
            "6:1",
            "((2,2),(2,3)):((4,1),(2,8))",
            "((2,(2,3)),(2,1)):((4,(2,8)),(1,0))",
            "(((2,3),2),(1,2)):(((2,8),4),(0,1))",
        ),
        (
            "(2,5):(5,1)",
            "(3,4):(1,3)",
            "((2,5),(3,4)):((5,1),(10,30))",
            "((2,3),(5,4)):((5,10),(1,30))",
            "((3,2),(4,5)):((10,5),(30,1))",
        ),
        (
            "(3,6):(6,1)",
            "(4,5):(1,4)",
            "((3,6),(4,5)):((6,1),(18,72))",
            "((3,4),(6,5)):((6,18),(1,72))",
            "((4,3),(5,6)):((18,6),(72,1))",
        ),
        (
            "(4,1):(1,1)",
            "(1,8):(1,1)",
            "((4,1),(1,8)):((1,0),(0,4))",
            "((4,1),(1,8)):((1,0),(0,4))",
            "((1,4),(8,1)):((0,1),(4,0))",
        ),
        ("((2,2)):((1,2))", "4:1", "((2,2),4):((1,2),4)", "((2,2),4):((1,2),4)", "(4,(2,2)):(4,(1,2))"),
    ],
)
def test_table(a, b, logical, blocked, raked):
    assert str(fl.logical_product(P(a), P(b))) == logical == str(fl.zipped_product(P(a), P(b)))
    assert str(fl.blocked_product(P(a), P(b))) == blocked
    assert str(fl.raked_product(P(a), P(b))) == raked


def test_tiled_and_flat():
    assert str(fl.tiled_product(P("(2,2):(4,1)"), P("6:1"))) == "((2,2),2,3):((4,1),2,8)"
    assert str(fl.flat_product(P("(2,2):(4,1)"), P("6:1"))) == "(2,2,2,3):(4,1,2,8)"
    composed = parse_any_layout("S<1,2,3> o 0 o (2,2):(4,1)")
    assert str(fl.flat_product(composed, P("6:1"))) == "S<1,2,3> o 0 o (2,2,2,3):(4,1,2,8)"


@pytest.mark.parametrize(
    "block, target, order, result",
    [
        ("(2,2):(2,1)", (8, 4), (0, 1), "((2,4),(2,2)):((2,4),(1,16))"),
        ("(2,2):(2,1)", (8, 4), (1, 0), "((2,4),(2,2)):((2,8),(1,4))"),
        ("(8,8):(8,1)", (16, 16, 2), (1, 0, 2), "((8,2),(8,2),(1,2)):((8,128),(1,64),(0,256))"),
        ("S<2,3,3> o 0 o (2,2):(2,1)", (8, 4), (1, 0), "S<2,3,3> o 0 o ((2,4),(2,2)):((2,8),(1,4))"),
    ],
)
def test_tile_to_shape(block, target, order, result):
    assert str(fl.tile_to_shape(parse_any_layout(block), target, order)) == result


@pytest.mark.parametrize(
    "given, old, new, result",
    [
        ("(8,4):(1,8)", 16, 8, "(16,4):(1,16)"),
        ("(8,4):(1,8)", 16, 32, "(4,4):(1,4)"),
        ("(4,8):(8,1)", 32, 16, "(4,16):(16,1)"),
        ("(4,8):(8,1)", 8, 32, "(4,2):(2,1)"),
        ("(4,24):(24,1)", 8, 6, "(4,32):(32,1)"),
        ("(1,128):(1,1)", 1, 32, "(1,4):(1,1)"),
        ("S<3,3,3> o 0 o (8,64):(64,1)", 16, 8, "S<3,4,3> o 0 o (8,128):(128,1)"),
        ("(4,8):(-8,-1)", 8, 32, "(4,2):(-2,-1)"),
        ("(4,8):(0,1)", 8, 32, "(4,2):(0,1)"),
        ("(?,8):(?{i64 div=8},1)", 8, 32, "(?,2):(?{i64},1)"),
        ("(?,8):(?{i64 div=8},1)", 32, 8, "(?,32):(?{i64 div=32},1)"),
        ("(4,8):(8E0,1E1)", 8, 32, "(4,2):(2E0,1E1)"),
        ("(4,8):(8,1)", 16, 16, "(4,8):(8,1)"),
        ("CS<2,2,[0],3,[1]> o (4,8) o (4,8):(4E0,4E1)", 8, 16, "CS<2,1,[0],2,[1]> o (2,4) o (4,8):(2E0,2E1)"),
        ("4:4 o 8 o (4,8):(8,1)", 8, 16, "4:2 o 4 o (4,4):(4,1)"),
    ],
)
def test_recast(given, old, new, result):
    assert str(fl.recast_layout(parse_any_layout(given), old, new)) == result


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: fl.logical_product(P("4:1"), 4), TypeError, "expected a Layout as second argument, got 4"),
        (lambda: fl.blocked_product(P("4:1"), (2, 2)), TypeError, "wrap it with make_layout"),
        (lambda: fl.logical_product(P("(2,2):(1,1)"), P("2:1")), ValueError, "injective"),
        (lambda: fl.tile_to_shape(P("(2,2):(2,1)"), 8, 0), LayoutError, "more modes than the target"),
        (lambda: upcast(P("4:6"), 4), LayoutError, "recast of the mode 4:6"),
        (lambda: upcast(P("4:?{div=2}"), 4), LayoutError, "known divisor 2"),
        (lambda: upcast(parse_any_layout("S<1,1,1> o 0 o 4:4"), 4), LayoutError, "base must be at least 2"),
        (lambda: upcast(parse_any_layout("CS<1,4,[0],1,[1]> o 0 o 4:4"), 4), LayoutError, "base must be at least 2"),
        (lambda: upcast(parse_any_layout("CS<1,1,[0],4,[1]> o 0 o 4:4"), 4), LayoutError, "base must be at least 2"),
        (lambda: upcast(parse_any_layout("S<1,4,1> o 0 o 4:3"), 3), LayoutError, "power of two"),
        (lambda: upcast(parse_any_layout("S<1,4,1> o 2 o 4:4"), 4), LayoutError, "multiple of 4, got 2"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_down_then_up_is_the_identity_on_unit_stride():
    assert upcast(downcast(Layout((4, 8), (8, 1)), 4), 4) == Layout((4, 8), (8, 1))
