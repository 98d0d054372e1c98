"""Laws of the algebra, checked by brute force over every coordinate of small layouts."""

import random
from itertools import product as cartesian

from hypothesis import assume, given, settings
from hypothesis import strategies as st

import flydsl.layout as fl
from flydsl.errors import LayoutError
from flydsl.layout import Layout, make_layout, map_leaves

QUICK = settings(max_examples=90, deadline=None, derandomize=True, database=None)


def trees(leaf, max_leaves=4):
    return st.recursive(leaf, lambda t: st.lists(t, min_size=1, max_size=3).map(tuple), max_leaves=max_leaves)


ANY, POWERS = (1, 2, 3, 4, 6, 8), (1, 2, 4, 8)
small_strides = st.integers(0, 30)


def shapes(extents=ANY, limit=256):
    return trees(st.sampled_from(extents)).filter(lambda t: fl.size(t) <= limit)


@st.composite
def layouts(draw, extents=ANY):
    shape = draw(shapes(extents))
    return Layout(shape, map_leaves(lambda _: draw(small_strides), shape))


@st.composite
def compact_layouts(draw, extents=ANY, limit=256):
    """Compact, with leaves in any order of strides."""
    shape = draw(shapes(extents, limit))
    flat = fl.flatten(shape)
    order = draw(st.permutations(range(len(flat))))
    return Layout(shape, fl.unflatten(fl.make_ordered_layout(flat, tuple(order)).stride, shape))


@st.composite
def injective_layouts(draw, extents=ANY, gaps=(1, 1, 2, 3), limit=256):
    """Each stride a multiple of what the faster leaves reach, in any order of leaves."""
    shape = draw(shapes(extents, limit))
    flat = fl.flatten(shape)
    strides = [0] * len(flat)
    reach = 1
    for i in draw(st.permutations(range(len(flat)))):
        strides[i] = reach * draw(st.sampled_from(gaps))
        reach = strides[i] * flat[i]
    return Layout(shape, fl.unflatten(tuple(strides), shape))


def image(layout):
    return [layout.crd2idx(i) for i in range(fl.size(layout))]


@QUICK
@given(layouts())
def test_coalesce_preserves_the_function(L):
    out = fl.coalesce(L)
    assert out.depth <= 1 and out.rank <= max(L.rank, len(fl.flatten(L.shape)))
    assert image(out) == image(L) and fl.coalesce(out) == out


@QUICK
@given(layouts())
def test_coalesce_by_mode_preserves_each_mode(L):
    assume(not L.is_leaf)
    out = fl.coalesce(L, (1,) * L.rank)
    assert out.rank == L.rank and all(image(out[i]) == image(L[i]) for i in range(L.rank))


@QUICK
@given(layouts(), st.integers(1, 12), st.integers(0, 12))
def test_composition_with_one_mode_is_function_composition(A, extent, stride):
    B = Layout(extent, stride)
    try:
        R = fl.composition(A, B)
    except LayoutError:
        assume(False)
    assert image(R) == [A.crd2idx(B.crd2idx(i)) for i in range(extent)]


# Composition distributes over the modes of B, which asks that their indices do not carry into each other within a
# mode of A; powers of two never do.
@QUICK
@given(layouts(POWERS), injective_layouts(POWERS, gaps=(1, 1, 2)))
def test_composition_is_function_composition(A, B):
    R = fl.composition(A, B)
    assert fl.rank(R.shape) == fl.rank(fl.unwrap(B.shape)) or B.rank == 1
    assert image(R) == [A.crd2idx(B.crd2idx(i)) for i in range(fl.size(B))]


@QUICK
@given(compact_layouts(), st.data())
def test_composition_with_a_tile_goes_mode_by_mode(A, data):
    assume(not A.is_leaf and A.rank > 1)
    tile = tuple(data.draw(st.none() | st.just(fl.size(A[i]))) for i in range(A.rank))
    R = fl.composition(A, fl.make_tile(*tile))
    assert image(R) == image(A)


@QUICK
@given(injective_layouts(), st.integers(1, 4))
def test_complement_is_disjoint_ordered_and_complete(L, factor):
    bound = fl.cosize(L) * factor
    C = fl.complement(L, bound)
    indices = image(C)
    assert indices == sorted(set(indices)) and indices[0] == 0
    assert set(indices) & set(image(L)) == {0}
    sums = {a + b for a in image(L) for b in indices}
    assert len(sums) == len(set(image(L))) * len(indices) and set(range(bound)) <= sums


@QUICK
@given(layouts())
def test_complement_never_overlaps(L):
    try:
        C = fl.complement(L)
    except LayoutError:
        # Only refused when a mode of larger stride starts inside the reach of a smaller one.
        modes = sorted(
            (d, s) for s, d in zip(fl.flatten(L.shape), fl.flatten(L.stride), strict=True) if d != 0 and s != 1
        )
        assert any(d * s > e for (d, s), (e, _) in zip(modes, modes[1:], strict=False))
        return
    assert set(image(C)) & set(image(L)) == {0}


@QUICK
@given(layouts())
def test_right_inverse(L):
    R = fl.right_inverse(L)
    assert [L.crd2idx(R.crd2idx(i)) for i in range(fl.size(R))] == list(range(fl.size(R)))


@QUICK
@given(injective_layouts())
def test_left_inverse(L):
    R = fl.left_inverse(L)
    assert [R.crd2idx(L.crd2idx(i)) for i in range(fl.size(L))] == list(range(fl.size(L)))


@QUICK
@given(compact_layouts())
def test_inverses_of_a_compact_layout_agree(L):
    assert fl.right_inverse(L) == fl.left_inverse(L)
    assert fl.size(fl.right_inverse(L)) == fl.size(L) == fl.cosize(L)
    assert [L.crd2idx(L.get_hier_coord(i)) for i in range(fl.size(L))] == list(range(fl.size(L)))
    assert [fl.get_1d_coord(L.crd2idx(i), L) for i in range(fl.size(L))] == list(range(fl.size(L)))


@QUICK
@given(shapes())
def test_colex_round_trip(shape):
    for i in range(fl.size(shape)):
        coord = fl.colex2crd(i, shape)
        assert fl.crd2colex(coord, shape) == i and fl.congruent(coord, shape)
        assert make_layout(shape).crd2idx(coord) == i
        assert fl.get_flat_coord(i, make_layout(shape)) == (
            coord if fl.is_leaf(shape) else tuple(fl.crd2colex(c, s) for c, s in zip(coord, shape, strict=True))
        )


@QUICK
@given(layouts(), st.data())
def test_divides_by_a_tile_keep_every_element(A, data):
    A = A if not A.is_leaf else Layout((A.shape,), (A.stride,))
    sizes = [fl.size(A[i]) for i in range(A.rank)]
    tile = tuple(data.draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0])) for n in sizes)
    try:
        zipped = fl.zipped_divide(A, tile)
    except LayoutError:
        assume(False)
    assert fl.size(zipped[0]) == fl.size(tile)
    for fn in (fl.logical_divide, fl.zipped_divide, fl.tiled_divide, fl.flat_divide):
        assert sorted(image(fn(A, tile))) == sorted(image(A))
    # Tile number j starts where the coordinate j * tile does.
    for j in cartesian(*[range(n // t) for n, t in zip(sizes, tile, strict=True)]):
        assert zipped(0, j) == A.crd2idx(tuple(x * t for x, t in zip(j, tile, strict=True)))


@QUICK
@given(layouts(POWERS), injective_layouts(POWERS, gaps=(1, 1, 2)))
def test_divide_by_a_layout(A, B):
    D = fl.logical_divide(A, B)
    C = fl.complement(B, fl.size(A))
    for i, b in enumerate(image(B)):
        for j, c in enumerate(image(C)):
            assert D(i, j) == A.crd2idx(b + c)


@QUICK
@given(injective_layouts(POWERS, gaps=(1, 2), limit=32), compact_layouts(POWERS, limit=16))
def test_products_are_disjoint_copies(A, B):
    P = fl.logical_product(A, B)
    assert image(P[0]) == image(A) and fl.size(P[1]) == fl.size(B)
    assert len(set(image(P))) == fl.size(A) * fl.size(B)
    for fn in (fl.zipped_product, fl.tiled_product, fl.flat_product, fl.blocked_product, fl.raked_product):
        assert sorted(image(fn(A, B))) == sorted(image(P))
    for i in range(fl.size(B)):
        base = P(0, i)
        assert [P(k, i) - base for k in range(fl.size(A))] == image(A)


@QUICK
@given(injective_layouts(POWERS, gaps=(1, 2), limit=32), compact_layouts(POWERS, limit=16))
def test_blocked_and_raked_products_pair_the_modes(A, B):
    blocked, raked = fl.blocked_product(A, B), fl.raked_product(A, B)
    assert blocked.rank == raked.rank or 1 in (A.rank, B.rank)
    assert sorted(image(blocked)) == sorted(image(raked))


def random_tree(rng, extents, depth=2):
    if depth == 0 or rng.random() < 0.45:
        return rng.choice(extents)
    return tuple(random_tree(rng, extents, depth - 1) for _ in range(rng.randint(1, 3)))


def random_layout(rng, extents, strides):
    shape = random_tree(rng, extents)
    return Layout(shape, map_leaves(lambda _: rng.choice(strides), shape))


def random_right_hand_side(rng, extents):
    if extents is ANY:
        return Layout(rng.randint(1, 12), rng.randint(0, 12))
    shape = random_tree(rng, extents)
    flat = fl.flatten(shape)
    order = tuple(rng.sample(range(len(flat)), len(flat)))
    return Layout(shape, fl.unflatten(fl.make_ordered_layout(flat, order).stride, shape))


def test_ten_thousand_random_layouts():
    rng = random.Random(2024)
    composed = inverted = complemented = 0
    for _ in range(10_000):
        extents = rng.choice((ANY, POWERS))
        A = random_layout(rng, extents, (0, 1, 2, 3, 4, 6, 8, 16, 24))
        n = fl.size(A)
        C = fl.coalesce(A)
        samples = range(n) if n <= 32 else rng.sample(range(n), 32)
        assert all(C.crd2idx(i) == A.crd2idx(i) for i in samples)
        R = fl.right_inverse(A)
        assert all(A.crd2idx(R.crd2idx(i)) == i for i in range(min(fl.size(R), 32)))
        inverted += fl.size(R) > 1
        try:
            M = fl.complement(A)
        except LayoutError:
            pass
        else:
            complemented += 1
            assert not {A.crd2idx(i) for i in samples} & {M.crd2idx(i) for i in range(1, min(fl.size(M), 32))}
        try:
            B = random_right_hand_side(rng, extents)
            P = fl.composition(A, B)
        except LayoutError:
            continue
        composed += 1
        size = fl.size(B)
        for i in range(size) if size <= 32 else rng.sample(range(size), 32):
            assert P.crd2idx(i) == A.crd2idx(B.crd2idx(i)), (A, B, P)
    # The draw is not vacuous.
    assert composed > 3_000 and inverted > 1_500 and complemented > 1_500
