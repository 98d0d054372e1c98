"""Classes and constructors: language reference chapter 7."""

import pickle

import pytest

import flydsl.layout as fl
from flydsl.errors import LayoutError
from flydsl.layout import (
    Basis,
    ComposedLayout,
    CoordSwizzle,
    Dyn,
    Layout,
    Swizzle,
    Tile,
    make_layout,
    make_tile,
    parse_any_layout,
    parse_layout,
)

N = Dyn.get()


def test_layout_surface():
    L = make_layout((4, (2, N)), (1, (4, 8)))
    assert (L.rank, L.depth, L.is_leaf, L.is_static, L.is_static_shape, L.is_static_stride) == (
        2,
        2,
        False,
        False,
        False,
        True,
    )
    assert str(L) == "(4,(2,?)):(1,(4,8))" and repr(L) == "Layout((4,(2,?)):(1,(4,8)))"
    assert L[1] == Layout((2, N), (4, 8)) and L[[1, 0]] == Layout(2, 4) and L[1, 0] == Layout(2, 4)
    assert str(make_layout((4,), (1,))) == "(4):(1)"
    assert make_layout(4, 1)[0] == make_layout(4, 1)
    with pytest.raises(IndexError):
        L[2]
    with pytest.raises(AttributeError, match="immutable"):
        L.shape = 4
    assert L == Layout((4, (2, N)), (1, (4, 8))) and hash(L) == hash(Layout((4, (2, N)), (1, (4, 8))))
    assert L != Layout((4, (2, N)), (1, (4, 9))) and L != 3
    assert pickle.loads(pickle.dumps(L)) == L


def test_call():
    A = make_layout((4, 8), (1, 4))
    assert A(1, 2) == A((1, 2)) == 9 and A(7) == 7
    assert make_layout(8, 2)(3) == 6
    assert make_layout((8,), (2,))(3) == make_layout((8,), (2,))((3,)) == 6
    assert make_layout(((4, 8),), ((1, 4),))((1, 2)) == 9
    assert A(None, 2) == Layout(4, 1) and A(None) == A and A((None, 2)) == Layout(4, 1)
    for coord in [(1, 2, 3), ((1, 2), 3), ((1, 2, 3),)]:
        with pytest.raises(ValueError, match="profile mismatch"):
            A(*coord)
    assert A.get_hier_coord(9) == (1, 2) and A.get_flat_coord(9) == (1, 2) and A.get_1d_coord(9) == 9


@pytest.mark.parametrize(
    "shape, order, result",
    [
        ((4, 8), (1, 0), "(4,8):(8,1)"),
        ((4, 8, 2), (1, 0, 2), "(4,8,2):(8,1,32)"),
        ((2, (3, 4)), (1, 0), "(2,(3,4)):(12,(1,3))"),
        ((2, (3, 4)), (1, (2, 0)), "(2,(3,4)):(4,(8,1))"),
        ((2, 3, 4), (0, 0, 1), "(2,3,4):(1,1,6)"),
        ((N, 8), (1, 0), "(?,8):(8,1)"),
        ((2, (3, 4)), 0, "(2,(3,4)):(1,(2,6))"),
        ((2, 3, 4), (N, 5, N), "(2,3,4):(3,1,6)"),
    ],
)
def test_ordered_layout(shape, order, result):
    assert str(fl.make_ordered_layout(shape, order)) == result


def test_constructors():
    assert str(fl.make_identity_layout((4, 8))) == "(4,8):(1E0,1E1)"
    assert str(fl.make_identity_layout((4, (2, 8)))) == "(4,(2,8)):(1E0,(1E1E0,1E1E1))"
    assert str(fl.make_identity_layout(8)) == "8:1"
    assert str(fl.make_layout_like(parse_layout("(2,2,2):(4,1,100)"))) == "(2,2,2):(2,1,4)"
    assert str(fl.make_layout_like(parse_layout("(4,8):(0,1)"))) == "(4,8):(1,1)"
    assert str(make_layout([4, [2, 3]])) == "(4,(2,3)):(1,(4,8))"


@pytest.mark.parametrize(
    "given, result",
    [
        ("((4,2),2,3):((1,4),480,8)", "((4,2),2,3):((1,4),24,8)"),
        ("(4,2,3):(1,?,8)", "(4,2,3):(1,12,4)"),
        ("(4,8):(8,1)", "(4,8):(1,4)"),
        ("(4):(8)", "(4):(1)"),
        ("4:8", "4:1"),
        ("(1,2,2):(0,8,1)", "(1,2,2):(0,2,1)"),
        ("((2,6),5):((0,1),100)", "((2,6),5):((1,2),12)"),
    ],
)
def test_fragment_layout(given, result):
    assert str(fl.make_fragment_layout_like(parse_layout(given))) == result


def test_swizzles():
    assert (Swizzle(3, 0, 3)(19), Swizzle(1, 1, 2)(8), Swizzle(0, 4, 3)(255)) == (17, 10, 255)
    assert str(Swizzle(3, 4, 3)) == "S<3,4,3>" and Swizzle(3, 4, 3) == Swizzle(3, 4, 3) != Swizzle(3, 4, 4)
    cs = CoordSwizzle(2, 0, (0,), 3, (1, 0))
    assert str(cs) == "CS<2,0,[0],3,[1, 0]>" and hash(cs) == hash(CoordSwizzle(2, 0, [0], 3, [1, 0]))
    assert cs((3, (0, 7))) == (3, (24, 7))
    assert pickle.loads(pickle.dumps((cs, Swizzle(1, 2, 3)))) == (cs, Swizzle(1, 2, 3))
    for numbers in ((-3, 4, 3), (3, -4, 3), (3, 4, -3)):
        with pytest.raises(LayoutError, match="non-negative shifts"):
            Swizzle(*numbers)
    for mask, row, col in ((-1, 0, 3), (2, -1, 3), (2, 0, -1)):
        with pytest.raises(LayoutError, match="non-negative shifts"):
            CoordSwizzle(mask, row, (0,), col, (1,))
    with pytest.raises(LayoutError, match="non-negative shifts"):
        CoordSwizzle(2, 0, (-1,), 3, (1,))
    for row, col in (((0, 0), (1,)), ((0,), (1, 0)), ((0, 0, 0), (1, 0))):  # A number is its own first mode.
        assert CoordSwizzle(2, 0, row, 1, col)((3, 0)) == CoordSwizzle(2, 0, (0,), 1, (1,))((3, 0)) == (3, 6)
    with pytest.raises(LayoutError, match="profile mismatch"):
        CoordSwizzle(2, 0, (0, 1), 1, (1,))((3, 0))
    with pytest.raises(LayoutError, match="profile mismatch"):
        cs((3,))
    with pytest.raises(LayoutError, match="takes one integer"):
        Swizzle(3, 4, 3).crd2idx((1, 2))


def test_composed():
    C = fl.make_composed_layout(Swizzle(3, 0, 3), make_layout((8, 8), (8, 1)))
    assert C(2, 3) == C((2, 3)) == 17
    assert str(C(2, None)) == "S<3,0,3> o 16 o 8:1"
    assert str(fl.zipped_divide(C, (4, 4))) == "S<3,0,3> o 0 o ((4,4),(2,2)):((8,1),(32,4))"
    assert fl.make_composed_layout(Swizzle(3, 0, 3), 16, make_layout((8, 8), (8, 1)))(1, 1) == 26
    two = fl.make_composed_layout(make_layout((4, 8), (8, 1)), make_layout((2, 4), (1, 2)))
    assert two(1, 3) == 25 and str(two) == "(4,8):(8,1) o 0 o (2,4):(1,2)"
    assert (C.rank, C.depth, C.shape, C.is_leaf, C.is_static) == (2, 1, (8, 8), False, True)
    assert C.is_static_inner and C.is_static_offset and C.is_static_outer
    assert C[1] == fl.make_composed_layout(Swizzle(3, 0, 3), make_layout(8, 1))
    with pytest.raises(TypeError, match="no stride"):
        C.stride  # noqa: B018
    with pytest.raises(TypeError, match="plain layout"):
        C.get_flat_coord(3)
    with pytest.raises(ValueError, match="profile mismatch"):
        C(1, 2, 3)
    assert pickle.loads(pickle.dumps(C)) == C and hash(C) == hash(pickle.loads(pickle.dumps(C)))
    identity = fl.make_composed_layout(CoordSwizzle(2, 0, (0,), 1, (1,)), fl.make_identity_layout((4, 8)))
    assert identity.offset == (0, 0) and identity(3, 0) == (3, 6)


def test_equality_is_by_every_part():
    plain = make_layout((8, 8), (8, 1))
    families = [
        [plain, make_layout((8, 4), (8, 1)), make_layout((8, 8), (1, 8))],
        [Swizzle(3, 0, 3), Swizzle(2, 0, 3), Swizzle(3, 1, 3), Swizzle(3, 0, 4)],
        [
            CoordSwizzle(2, 0, (0,), 1, (1,)), CoordSwizzle(3, 0, (0,), 1, (1,)), CoordSwizzle(2, 1, (0,), 1, (1,)),
            CoordSwizzle(2, 0, (2,), 1, (1,)), CoordSwizzle(2, 0, (0,), 2, (1,)), CoordSwizzle(2, 0, (0,), 1, (2,)),
        ],
        [
            ComposedLayout(Swizzle(3, 0, 3), 0, plain), ComposedLayout(Swizzle(3, 0, 3), 8, plain),
            ComposedLayout(Swizzle(2, 0, 3), 0, plain), ComposedLayout(Swizzle(3, 0, 3), 0, Layout(64, 1)),
        ],
        [Basis(1, (0,)), Basis(2, (0,)), Basis(1, (1,)), Basis(1, (0, 0))],
        [make_tile(4, 8), make_tile(4, 4), make_tile(4), make_tile(4, plain)],
    ]  # fmt: skip
    for i, family in enumerate(families):
        for j, one in enumerate(family):
            for k, other in enumerate(family):
                same = one if j == k else other
                copy = pickle.loads(pickle.dumps(same))
                for each in (same, copy):
                    assert (one == each) is (j == k) and (one != each) is (j != k)
            assert all(one != other for m, family in enumerate(families) if m != i for other in family)
            assert hash(one) == hash(pickle.loads(pickle.dumps(one)))


def test_nested_composed_keeps_its_levels():
    C = parse_any_layout("S<1,2,3> o 0 o [(8,8):(8,1) o 4 o 64:1]")
    assert str(fl.logical_divide(C, Layout(8, 1))) == "S<1,2,3> o 0 o [(8,8):(8,1) o 4 o (8,8):(1,8)]"
    assert str(fl.append(C, Layout(2, 64))) == "S<1,2,3> o 0 o [(8,8):(8,1) o 4 o (64,2):(1,64)]"
    sliced = fl.slice(parse_any_layout("S<1,2,3> o 0 o [(8,8):(8,1) o 4 o (8,8):(1,8)]"), (None, 2))
    assert str(sliced) == "S<1,2,3> o 0 o [(8,8):(8,1) o 20 o 8:1]"
    for i in range(8):
        assert sliced(i) == parse_any_layout("S<1,2,3> o 0 o [(8,8):(8,1) o 4 o (8,8):(1,8)]")(i, 2)


def test_surgery_on_layouts():
    L = parse_layout("((2,3),4,5):((1,2),6,24)")
    assert str(fl.slice(L, (None, 2, None))) == "((2,3),5):((1,2),24)"
    assert str(fl.slice(L, ((1, None), None, 0))) == "(3,4):(2,6)"
    assert str(fl.select(L, [2, 0])) == "(5,(2,3)):(24,(1,2))"
    assert str(fl.group(L, 1, 3)) == "((2,3),(4,5)):((1,2),(6,24))"
    assert str(fl.take(L, 1, 3)) == "(4,5):(6,24)"
    assert str(fl.get_(L, [0, 1])) == "3:2"
    assert str(fl.append(Layout(4, 1), Layout(2, 8))) == "(4,2):(1,8)"
    assert str(fl.prepend(Layout(4, 1), Layout(1, 0), n=3)) == "(1,1,4):(0,0,1)"
    assert str(fl.dice(L, (None, 2, None))) == "4:6"
    with pytest.raises(TypeError, match="expected a Layout as element"):
        fl.append(L, 4)
    with pytest.raises(TypeError, match="same category"):
        fl.append((4, 8), Layout(1, 0))


def test_tile():
    t = make_tile(4, None, make_layout((2, 4), (1, 8)), (8, 2))
    assert str(t) == "[4|*|(2,4):(1,8)|[8|2]]" and repr(t) == f"Tile({t})" and t.rank == 4 and not t.is_leaf
    assert t.unpack() == (4, None, make_layout((2, 4), (1, 8)), (8, 2))
    assert str(Tile.leaf(4)) == "4" and Tile.leaf(4).unpack() == 4 and Tile.leaf(4) != make_tile(4)
    assert str(make_tile(4)) == "[4]" and str(Tile.leaf(None)) == "*"
    assert hash(t) == hash(Tile(t.unpack())) and t == Tile(t.unpack())
    assert pickle.loads(pickle.dumps((t, Tile.leaf(4)))) == (t, Tile.leaf(4))


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: make_layout(4, (1,)), LayoutError, r"same nesting, got 4 and \(1\)"),
        (lambda: make_tile(N), ValueError, "must be static"),
        (lambda: make_tile(Layout(N, 1)), ValueError, "must be static"),
        (lambda: make_tile(Layout(4, Basis(1, (0,)))), ValueError, "basis"),
        (lambda: make_tile(0), ValueError, "at least 1"),
        (lambda: make_tile(), ValueError, "at least one mode"),
        (lambda: make_tile("4"), TypeError, "of type str"),
        (lambda: fl.make_ordered_layout((4, 8), (0, (1, 2))), LayoutError, "coarser than the shape"),
        (lambda: fl.make_fragment_layout_like(Layout((4, N), (1, 4))), LayoutError, "expected static shape layout"),
        (lambda: fl.make_composed_layout(3, Layout(4, 1)), TypeError, "inner must be"),
        (lambda: fl.make_composed_layout(Swizzle(1, 1, 1), 3), TypeError, "outer must be"),
        (
            lambda: ComposedLayout(Swizzle(1, 1, 1), 0, Layout(4, 1)).__setattr__("offset", 1),
            AttributeError,
            "immutable",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
