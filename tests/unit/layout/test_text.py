"""The text grammar: exact printing, free whitespace, rejected inputs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flydsl.errors import LayoutError
from flydsl.layout import (
    Basis,
    ComposedLayout,
    CoordSwizzle,
    Dyn,
    Layout,
    Swizzle,
    Tile,
    format_int_tuple,
    format_layout,
    format_tile,
    map_leaves,
    parse_any_layout,
    parse_composed,
    parse_coord_swizzle,
    parse_int_tuple,
    parse_layout,
    parse_swizzle,
    parse_tile,
)


@pytest.mark.parametrize(
    "text, value",
    [
        ("4", 4),
        ("-4", -4),
        ("*", None),
        ("(4)", (4,)),
        ("?", Dyn.get()),
        ("?{i64}", Dyn.get(64)),
        ("?{div=8}", Dyn.get(div=8)),
        ("?{i64 div=8}", Dyn.get(64, 8)),
        ("1E0", Basis(1, (0,))),
        ("?{div=4}E1E0", Basis(Dyn.get(div=4), (1, 0))),
        ("(4,(*,?),2E0E1)", (4, (None, Dyn.get()), Basis(2, (0, 1)))),
    ],
)
def test_int_tuple(text, value):
    assert parse_int_tuple(text) == value and format_int_tuple(value) == text


def test_input_that_prints_differently():
    assert parse_int_tuple(" ( 4 , ? { i32 } ) ") == (4, Dyn.get())
    assert format_int_tuple(parse_int_tuple("*E0")) == "0E0"
    assert parse_tile("[ 4 | * ]") == Tile((4, None))
    assert str(parse_coord_swizzle("CS< 2,0,[0],3,[1,0] >")) == "CS<2,0,[0],3,[1, 0]>"


@pytest.mark.parametrize(
    "text",
    [
        "(4,8):(1,4)",
        "?:?{i64 div=4}",
        "S<3,4,3> o 0 o (8,8):(8,1)",
        "S<1,2,3> o 0 o (8,8):(8,1) o 4 o 64:1",
        "S<1,2,3> o 0 o [(8,8):(8,1) o 4 o 64:1]",
        "CS<2,0,[0],3,[1, 0]> o (0,(0)) o (4,(8,2)):(1E0,(1E1E0,1E1E1))",
        "CS<2,0,[],3,[1]> o (0,0) o (4,8):(1E0,1E1)",
        "(4,8):(8,1) o ? o (2,4):(1,2)",
    ],
)
def test_layouts_round_trip(text):
    assert format_layout(parse_any_layout(text)) == text


def test_nesting_of_composed():
    C = parse_composed("S<1,2,3> o 0 o (8,8):(8,1) o 4 o 64:1")
    assert type(C.inner) is ComposedLayout and C.offset == 4 and C.outer == Layout(64, 1)
    assert C.inner == ComposedLayout(Swizzle(1, 2, 3), 0, Layout((8, 8), (8, 1)))


@pytest.mark.parametrize("text", ["4", "*", "(2,2):(1,2)", "[4]", "[4|*|(2,4):(1,8)|[8|2]]", "[4:2|[*|2]]"])
def test_tiles_round_trip(text):
    assert format_tile(parse_tile(text)) == text


def test_swizzles_round_trip():
    assert parse_swizzle("S<3,4,3>") == Swizzle(3, 4, 3)
    assert parse_coord_swizzle("CS<2,0,[0],3,[1, 0]>") == CoordSwizzle(2, 0, (0,), 3, (1, 0))


@pytest.mark.parametrize(
    "parse, text, message",
    [
        (parse_int_tuple, "()", r"expected a leaf \('\*', '\?' or an integer\) or '\(' at column 1"),
        (parse_int_tuple, "(4,8", r"expected '\)' at column 4, got 'the end'"),
        (parse_int_tuple, "4 E0", "expected the end at column 2"),
        (parse_int_tuple, "?{div 4}", "expected '='"),
        (parse_int_tuple, "?{div=0}", "at least 1"),
        (parse_int_tuple, "2147483648", "32-bit integer"),
        (parse_layout, "(4,8)", "expected ':'"),
        (parse_layout, "(4,8):4", "same nesting"),
        (parse_any_layout, "S<3,4,3>", "bare swizzle"),
        (parse_composed, "4:1", "expected a composed layout"),
        (parse_composed, "S<3,4,3> o 0 (8):(1)", "expected 'o'"),
        (parse_composed, "S<3,4,3> o 0 o [S<3,4,3>]", "as outer part"),
        (parse_swizzle, "T<3,4,3>", "expected 'S'"),
        (parse_coord_swizzle, "S<3,4,3>", "expected 'CS'"),
        (parse_tile, "[1E0]", "tile element"),
        (parse_tile, "[?]", "tile element"),
        (parse_tile, "[4:1E0]", "basis"),
    ],
)
def test_errors(parse, text, message):
    with pytest.raises(LayoutError, match=message):
        parse(text)


def trees(leaf):
    return st.recursive(leaf, lambda t: st.lists(t, min_size=1, max_size=3).map(tuple), max_leaves=6)


dyns = st.builds(Dyn.get, st.sampled_from([32, 64]), st.integers(1, 64))
ints = st.integers(-(2**31), 2**31 - 1)
paths = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple)
QUICK = settings(deadline=None, derandomize=True, database=None)
any_leaf = st.none() | ints | dyns | st.builds(Basis, ints | dyns, paths)


@QUICK
@given(trees(any_leaf))
def test_any_tuple_round_trips(t):
    assert parse_int_tuple(format_int_tuple(t)) == t


@QUICK
@given(trees(st.integers(1, 99) | dyns))
def test_any_layout_round_trips(shape):
    layout = Layout(shape, map_leaves(lambda _: 7, shape))
    assert parse_layout(str(layout)) == layout
    composed = ComposedLayout(Swizzle(1, 2, 3), 5, layout)
    assert parse_any_layout(str(composed)) == composed
