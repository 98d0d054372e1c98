"""The divides: every row of language reference 8.7."""

import pytest

import flydsl.layout as fl
from flydsl.errors import LayoutError
from flydsl.layout import Dyn, Layout, parse_any_layout, parse_layout, parse_tile

P = parse_layout


def operand(text):
    return parse_tile(text) if text.startswith("[") else P(text)


@pytest.mark.parametrize(
    "a, b, logical, zipped, tiled, flat",
    [
        ("16:1", "4:1", *["(4,4):(1,4)"] * 4),
        (
            "(4,2,3):(2,1,8)",
            "4:2",
            "((2,2),(2,3)):((4,1),(2,8))",
            "((2,2),(2,3)):((4,1),(2,8))",
            "((2,2),2,3):((4,1),2,8)",
            "(2,2,2,3):(4,1,2,8)",
        ),
        ("(4,8):(1,4)", "(2,4):(1,2)", *["((2,4),4):((1,2),8)"] * 3, "(2,4,4):(1,2,8)"),
        (
            "(8,16):(16,1)",
            "[4|8]",
            "((4,2),(8,2)):((16,64),(1,8))",
            "((4,8),(2,2)):((16,1),(64,8))",
            "((4,8),2,2):((16,1),64,8)",
            "(4,8,2,2):(16,1,64,8)",
        ),
        ("(8,16):(16,1)", "[4|16]", "((4,2),(16,1)):((16,64),(1,0))", "((4,16),(2,1)):((16,1),(64,0))", None, None),
        (
            "(8,16,4):(64,4,1)",
            "[4|8]",
            None,
            "((4,8),(2,2,4)):((64,4),(256,32,1))",
            None,
            "(4,8,2,2,4):(64,4,256,32,1)",
        ),
        (
            "(9,(4,8)):(59,(13,1))",
            "[3:3|(2,4):(1,8)]",
            "((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))",
            "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))",
            None,
            "(3,(2,4),3,(2,2)):(177,(13,2),59,(26,1))",
        ),
        (
            "(8,(4,8)):(32,(8,1))",
            "[4|[2|4]]",
            None,
            "((4,(2,4)),(2,(2,2))):((32,(8,1)),(128,(16,4)))",
            None,
            None,
        ),
        ("(?,64):(64,1)", "[4|8]", None, "((4,8),(?,8)):((64,1),(256,8))", None, None),
        ("10:1", "4:1", "(4,3):(1,4)", None, None, None),
        ("12:1", "3:4", "(3,4):(4,1)", None, None, None),
        ("?:1", "4:1", "(4,?):(1,4)", None, None, None),
        # One-element tiles follow 0.4: they divide mode 0.
        ("(8,16):(16,1)", "[4]", "((4,2),16):((16,64),1)", "((4),(2,16)):((16),(64,1))", None, None),
        ("16:1", "[4]", "((4,4)):((1,4))", "((4),(4)):((1),(4))", None, None),
        ("(12,10):(10,1)", "[*|5]", "(12,(5,2)):(10,(1,5))", None, None, None),
    ],
)
def test_table(a, b, logical, zipped, tiled, flat):
    results = [logical, zipped, tiled, flat]
    functions = [fl.logical_divide, fl.zipped_divide, fl.tiled_divide, fl.flat_divide]
    for fn, expected in zip(functions, results, strict=True):
        if expected is not None:
            assert str(fn(operand(a), operand(b))) == expected


def test_tiler_arguments():
    A = P("(8,16):(16,1)")
    assert fl.zipped_divide(A, (4, 8)) == fl.zipped_divide(A, [4, 8]) == fl.zipped_divide(A, fl.make_tile(4, 8))
    assert fl.zipped_divide(A, (Layout(4, 2), 8)) == fl.zipped_divide(A, fl.make_tile(Layout(4, 2), 8))
    assert str(fl.logical_divide(A, 4)) == "(4,(2,16)):(16,(64,1))"
    assert str(fl.zipped_divide(P("(16,8):(8,1)"), 4)) == "(4,(4,8)):(8,(32,1))"


@pytest.mark.parametrize("fn", [fl.zipped_divide, fl.tiled_divide, fl.flat_divide])
def test_none_mode_is_refused(fn):
    for tiler in [(None, 4), (4, (2, None)), fl.Tile.leaf(None)]:
        with pytest.raises(ValueError, match="None tile mode"):
            fn(P("(8,(4,8)):(32,(8,1))"), tiler)


def test_errors():
    with pytest.raises(LayoutError, match=r"the tile \[2\|2\|2\] has 3 modes, the layout \(8,16\):\(16,1\) only 2"):
        fl.logical_divide(P("(8,16):(16,1)"), (2, 2, 2))
    with pytest.raises(ValueError, match="must be static"):
        fl.zipped_divide(P("(8,16):(16,1)"), (Dyn.get(), 2))
    with pytest.raises(TypeError, match="composed layout"):
        fl.zipped_divide(P("16:1"), parse_any_layout("4:1 o 0 o 4:1"))
