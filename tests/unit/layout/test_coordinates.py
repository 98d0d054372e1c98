"""crd2idx and its inverses: the tables of language reference 8.2."""

import pytest

import flydsl.layout as fl
from flydsl.errors import LayoutError
from flydsl.layout import Dyn, Swizzle, make_layout, parse_layout

A = parse_layout("(4,8):(1,4)")
B = parse_layout("(4,8):(8,1)")
C = parse_layout("((2,2),4):((1,2),4)")


@pytest.mark.parametrize(
    "layout, coord, index",
    [
        (A, (1, 2), 9),
        (A, 7, 7),
        (A, 40, 40),
        (B, (1, 2), 10),
        (B, 5, 9),
        (C, ((1, 1), 2), 11),
        (C, (3, 2), 11),
        (C, 7, 7),
        (fl.make_identity_layout((4, 8)), (2, 3), (2, 3)),
        (fl.make_identity_layout((4, 8)), (2, 0), (2, 0)),
        (fl.make_identity_layout((4, 8)), 13, (1, 3)),
        (fl.make_identity_layout((4, (2, 8))), (2, 13), (2, (1, 6))),
        (A, (None, 2), 8),
        (Swizzle(2, 2, 2), 44, 36),
    ],
)
def test_crd2idx(layout, coord, index):
    assert fl.crd2idx(coord, layout) == index


@pytest.mark.parametrize(
    "layout, index, hier, flat, one",
    [
        (A, 9, (1, 2), (1, 2), 9),
        (B, 5, (0, 5), (0, 5), 20),
        (B, 13, (1, 5), (1, 5), 21),
        (C, 3, ((1, 1), 0), (3, 0), 3),
        (C, 13, ((1, 0), 3), (1, 3), 13),
        (A, 40, (0, 2), (0, 2), 8),
        (make_layout(8, 2), 6, 3, 3, 3),
        (make_layout((4, 8), (0, 1)), 5, (0, 5), (0, 5), 20),
    ],
)
def test_idx2crd(layout, index, hier, flat, one):
    assert fl.idx2crd(index, layout) == layout.get_hier_coord(index) == hier
    assert fl.get_flat_coord(index, layout) == layout.get_flat_coord(index) == flat
    assert fl.get_1d_coord(index, layout) == layout.get_1d_coord(index) == one


def test_idx2crd_of_a_tuple_goes_mode_by_mode():
    assert fl.idx2crd((3, 8), C) == ((1, 1), 2)
    with pytest.raises(LayoutError, match="profile mismatch"):
        fl.idx2crd((3, 8, 1), C)


def test_crd2crd():
    assert fl.crd2crd((3, 5), (4, 8), ((2, 2), 8)) == ((1, 1), 5)
    assert fl.crd2crd(13, (4, 8), (4, 8)) == (1, 3)
    assert fl.crd2crd((1, 3), (4, 8), 32) == 13
    assert fl.colex2crd(fl.crd2colex(((1, 0), 3), C.shape), C.shape) == ((1, 0), 3)
    with pytest.raises(LayoutError, match="profile mismatch"):
        fl.crd2crd((1, 2), (4, 8), (4, 4, 2))


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: fl.crd2idx((1, 2, 3), A), ValueError, r"profile mismatch: the coordinate \(1,2,3\)"),
        (lambda: fl.crd2idx((1, (2, 3)), A), ValueError, "profile mismatch"),
        (lambda: fl.crd2idx((1,), make_layout(4, 1)), ValueError, "profile mismatch"),
        (lambda: fl.idx2crd(3, fl.make_identity_layout((4, 8))), LayoutError, "integer strides, got 1E0"),
        (lambda: fl.idx2crd(3, fl.make_composed_layout(Swizzle(1, 1, 1), A)), TypeError, "no stride"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_run_time_coordinates():
    n = Dyn.get(div=8)
    assert fl.crd2idx((n, 2), B) is Dyn.get(div=2)
    assert fl.crd2idx(n, make_layout((4, 1), (1, 0))) is Dyn.get(div=4)
