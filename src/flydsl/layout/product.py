"""The products: copies of a layout arranged by another."""

from __future__ import annotations

from flydsl.errors import DSLTypeError, LayoutError
from flydsl.layout.algebra import complement_in, compose, cosize, rebuild
from flydsl.layout.int_tuple import as_int_tuple, ceil_div, format_int_tuple, product, product_each, rank, wrap
from flydsl.layout.layout import L, Layout, canon_stride, linear_layout
from flydsl.layout.leaf import IntTuple, leaf_mul
from flydsl.layout.make import make_ordered_layout
from flydsl.layout.memo import memo
from flydsl.layout.tuple_modes import append, expand, zip_


def _expect_layout(what: str, b: object) -> Layout:
    if type(b) is not Layout:
        raise DSLTypeError(f"{what}: expected a Layout as second argument, got {b!r}; wrap it with make_layout")
    return b


def logical_product(a: L, b: Layout) -> L:
    """`(A, composition(complement(A, size(A) * cosize(B)), B))`: mode 1 enumerates disjoint copies of A.

    >>> logical_product(Layout((2, 2), (4, 1)), Layout(6, 1))
    Layout(((2,2),(2,3)):((4,1),(2,8)))
    """
    return rebuild(a, product_in(linear_layout(a), _expect_layout("logical_product", b)))


def zipped_product(a: L, b: Layout) -> L:
    """The logical product as two modes, `(A, copies)`.

    >>> zipped_product(Layout((3, 2), (1, 3)), Layout((5, 4), (4, 1)))
    Layout(((3,2),(5,4)):((1,3),(24,6)))
    """
    return rebuild(a, product_in(linear_layout(a), _expect_layout("zipped_product", b)))


def tiled_product(a: L, b: Layout) -> L:
    """The logical product with the copies spliced: `(A, copies_0, ...)`.

    >>> tiled_product(Layout((2, 2), (4, 1)), Layout(6, 1))
    Layout(((2,2),2,3):((4,1),2,8))
    """
    plain = product_in(linear_layout(a), _expect_layout("tiled_product", b))
    return rebuild(a, plain.map_modes(lambda t: expand(t, (1,))))


def flat_product(a: L, b: Layout) -> L:
    """The logical product with both sides spliced.

    >>> flat_product(Layout((2, 2), (4, 1)), Layout(6, 1))
    Layout((2,2,2,3):(4,1,2,8))
    """
    plain = product_in(linear_layout(a), _expect_layout("flat_product", b))
    return rebuild(a, plain.map_modes(lambda t: expand(t, (0, 1))))


def blocked_product(a: L, b: Layout) -> L:
    """The logical product with mode i = `(a_i, b_i)`: blocks of A side by side.

    >>> blocked_product(Layout((2, 5), (5, 1)), Layout((3, 4), (1, 3)))
    Layout(((2,3),(5,4)):((5,10),(1,30)))
    """
    return rebuild(a, _mode_product(linear_layout(a), _expect_layout("blocked_product", b), False))


def raked_product(a: L, b: Layout) -> L:
    """The logical product with mode i = `(b_i, a_i)`: elements of A spread out.

    >>> raked_product(Layout((2, 5), (5, 1)), Layout((3, 4), (1, 3)))
    Layout(((3,2),(4,5)):((10,5),(30,1)))
    """
    return rebuild(a, _mode_product(linear_layout(a), _expect_layout("raked_product", b), True))


@memo
def product_in(a: Layout, b: Layout) -> Layout:
    """`logical_product` of plain layouts."""
    rest = complement_in(a, leaf_mul(product(a.shape), cosize(b)))
    copies = compose(rest, b)
    return Layout(*canon_stride((a.shape, copies.shape), (a.stride, copies.stride)))


@memo
def _mode_product(a: Layout, b: Layout, raked: bool) -> Layout:
    n = max(a.rank, b.rank)
    out = product_in(pad(a, n), pad(b, n))

    def regroup(t: IntTuple) -> IntTuple:
        pair = wrap(t)
        ordered = (pair[1], pair[0]) if raked else (pair[0], pair[1])
        # One mode each: the pair itself is the only mode, already unwrapped.
        return ordered if n == 1 else zip_(ordered)

    return out.map_modes(regroup)


def pad(layout: Layout, n: int) -> Layout:
    """`1:0` modes appended up to rank n."""
    if layout.rank == n:
        return layout
    return Layout(append(layout.shape, 1, n=n), append(layout.stride, 0, n=n))


def tile_to_shape(block: L, trg_shape: object, ord_shape: object) -> L:
    """Copies of `block` that fill `trg_shape`, arranged in the given order of modes.

    >>> tile_to_shape(Layout((2, 2), (2, 1)), (8, 4), (1, 0))
    Layout(((2,4),(2,2)):((2,8),(1,4)))
    """
    target = as_int_tuple(trg_shape)
    plain = linear_layout(block)
    if plain.rank > rank(target):
        raise LayoutError(
            f"tile_to_shape: the block {plain} has more modes than the target {format_int_tuple(target)}; "
            "give one target extent per mode"
        )
    padded = pad(plain, rank(target))
    copies = ceil_div(product_each(target), product_each(padded.shape))
    return rebuild(block, _mode_product(padded, make_ordered_layout(copies, ord_shape), False))
