"""Functions on integer tuples: nested Python tuples whose leaves are those of `leaf`.

`4` is a leaf (rank 1, depth 0) and differs from the one-element tuple `(4,)` (rank 1, depth 1).
Everything here works on tuples only; `modes` offers the structural ones on layouts too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import SupportsIndex, cast

from flydsl.errors import DSLTypeError, LayoutError
from flydsl.layout.leaf import (
    Basis,
    Dyn,
    IntTuple,
    Leaf,
    basis_to_tuple,
    leaf_add,
    leaf_and,
    leaf_ceil_div,
    leaf_div,
    leaf_eq,
    leaf_lt,
    leaf_mod,
    leaf_mul,
    leaf_shape_div,
    leaf_sub,
)

STATIC, TYPED, VALUED = 0, 1, 2


class LayoutIndexError(LayoutError, IndexError):
    """A mode index past the rank.

    >>> issubclass(LayoutIndexError, IndexError)
    True
    """


# --- Construction, printing and structure ---------------------------------------------------------------------


def as_int_tuple(x: object) -> IntTuple:
    """`x` checked and with lists turned into tuples, integer-like leaves into ints.

    >>> as_int_tuple([4, (2, None)])
    (4, (2, None))
    """
    if type(x) is int or x is None or isinstance(x, (Dyn, Basis)):
        return x
    if isinstance(x, (tuple, list)):
        children = cast("Sequence[object]", x)
        if not children:
            raise LayoutError("an integer tuple needs at least one element, got ()")
        return tuple([as_int_tuple(child) for child in children])
    if not isinstance(x, bool) and isinstance(x, SupportsIndex):
        return operator.index(x)
    came = f"{x!r} of type {type(x).__name__}"
    raise DSLTypeError(f"expected an int, None, Basis, run-time leaf or a (nested) tuple of those, got {came}")


def format_int_tuple(t: IntTuple) -> str:
    """The text of a tuple: no spaces, `*` for the empty leaf.

    >>> format_int_tuple((4, (None, Dyn.get(64, 8)), (2,)))
    '(4,(*,?{i64 div=8}),(2))'
    """
    if isinstance(t, tuple):
        return f"({','.join([format_int_tuple(child) for child in t])})"
    return "*" if t is None else str(t)


def kind_of(t: IntTuple) -> int:
    """`STATIC`, `TYPED` (has run-time leaves) or `VALUED` (some of them carry values)."""
    kind = type(t)
    if kind is int or t is None:
        return STATIC
    if isinstance(t, tuple):
        found = STATIC
        for child in t:
            if type(child) is not int:
                found = max(found, kind_of(child))
        return found
    if type(t) is Basis:
        return kind_of(t.value)
    assert isinstance(t, Dyn)
    return TYPED if t.ops is None else VALUED


def is_static(t: IntTuple) -> bool:
    """No run-time leaf.

    >>> is_static((4, (8, 2))), is_static((4, Dyn.get()))
    (True, False)
    """
    return kind_of(t) == STATIC


def is_leaf(t: IntTuple) -> bool:
    """Not a tuple.

    >>> is_leaf(4), is_leaf((4,))
    (True, False)
    """
    return not isinstance(t, tuple)


def rank(t: IntTuple) -> int:
    """Number of top modes; a leaf has 1."""
    return len(t) if isinstance(t, tuple) else 1


def depth(t: IntTuple) -> int:
    """Nesting of tuples; a leaf has 0."""
    return 1 + max(map(depth, t)) if isinstance(t, tuple) else 0


def leaves(t: IntTuple) -> Iterator[Leaf]:
    """All leaves, depth first.

    >>> list(leaves((4, (8, 2))))
    [4, 8, 2]
    """
    if isinstance(t, tuple):
        for child in t:
            yield from leaves(child)
    else:
        yield t


def dynamic_leaves(t: IntTuple) -> Iterator[Dyn]:
    """The run-time numbers, depth first; a basis contributes its coefficient.

    >>> list(dynamic_leaves((4, (Dyn.get(), 2), Basis(Dyn.get(div=4), (0,)))))
    [?, ?{div=4}]
    """
    for leaf in leaves(t):
        number = leaf.value if type(leaf) is Basis else leaf
        if isinstance(number, Dyn):
            yield number


def map_leaves(fn: Callable[[Leaf], IntTuple], t: IntTuple) -> IntTuple:
    """`t` with every leaf replaced.

    >>> map_leaves(lambda x: x * 2, (4, (8, 2)))
    (8, (16, 4))
    """
    return tuple([map_leaves(fn, child) for child in t]) if isinstance(t, tuple) else fn(t)


def replace_dynamic(t: IntTuple, values: Iterable[Dyn]) -> IntTuple:
    """`t` with its run-time numbers replaced in depth-first order: how types become values and back.

    >>> replace_dynamic((4, Dyn.get()), [Dyn.get(64, 8)])
    (4, ?{i64 div=8})
    """
    supply = iter(values)

    def replace(leaf: Leaf) -> IntTuple:
        if type(leaf) is Basis:
            return Basis(next(supply), leaf.modes) if isinstance(leaf.value, Dyn) else leaf
        return next(supply) if isinstance(leaf, Dyn) else leaf

    return map_leaves(replace, t) if kind_of(t) else t


def type_tuple(t: IntTuple) -> IntTuple:
    """The type reading of a tuple: run-time values forgotten, widths and divisors kept.

    >>> type_tuple((4, Dyn.get(64)))
    (4, ?{i64})
    """
    return replace_dynamic(t, (Dyn.get(leaf.width, leaf.div) for leaf in dynamic_leaves(t)))


def has_none(t: IntTuple) -> bool:
    """Some leaf is empty.

    >>> has_none((4, (None, 2)))
    True
    """
    return any(map(has_none, t)) if isinstance(t, tuple) else t is None


def congruent(a: IntTuple, b: IntTuple) -> bool:
    """Same tree, leaves against leaves.

    >>> congruent((4, (8, 2)), (1, (2, 3))), congruent((4, 8), (1, (2, 3)))
    (True, False)
    """
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(congruent, a, b))
    return not isinstance(b, tuple)


def weakly_congruent(coord: IntTuple, target: IntTuple) -> bool:
    """Wherever `coord` has a tuple, `target` has one of the same rank; a leaf of `coord` matches anything.

    >>> weakly_congruent((1, 5), (4, (8, 2))), weakly_congruent((1, (2, 3)), (4, 8))
    (True, False)
    """
    if isinstance(coord, tuple):
        return isinstance(target, tuple) and len(coord) == len(target) and all(map(weakly_congruent, coord, target))
    return True


def flatten(t: IntTuple) -> tuple[Leaf, ...]:
    """Leaves in depth-first order.

    >>> flatten((1, (2, (3,)))), flatten(7)
    ((1, 2, 3), (7,))
    """
    if not isinstance(t, tuple):
        return (t,)
    out: list[Leaf] = []
    _flatten_into(t, out)
    return tuple(out)


def _flatten_into(t: tuple[IntTuple, ...], out: list[Leaf]) -> None:
    for child in t:
        if isinstance(child, tuple):
            _flatten_into(child, out)
        else:
            out.append(child)


def unflatten(flat: IntTuple, profile: IntTuple) -> IntTuple:
    """The inverse of `flatten` for a given tree; each leaf of the profile takes one child of `flat`.

    >>> unflatten((1, 2, 3), (0, (0, 0)))
    (1, (2, 3))
    """
    items = flat if isinstance(flat, tuple) else (flat,)
    supply = iter(items)
    try:
        out = map_leaves(lambda _: next(supply), profile)
    except (StopIteration, RuntimeError):
        raise profile_mismatch("unflatten", flat, profile) from None
    if next(supply, supply) is not supply:
        raise profile_mismatch("unflatten", flat, profile)
    return out


def profile_mismatch(what: str, a: IntTuple, b: IntTuple) -> LayoutError:
    """Two trees that should have matched."""
    return LayoutError(
        f"profile mismatch: {what} of {format_int_tuple(a)} with {format_int_tuple(b)}; "
        "give both the same nesting (None stands for a whole mode)"
    )


def wrap(t: IntTuple) -> tuple[IntTuple, ...]:
    """A leaf as a one-element tuple; a tuple unchanged.

    >>> wrap(4), wrap((4, 8))
    ((4,), (4, 8))
    """
    return t if isinstance(t, tuple) else (t,)


def unwrap(t: IntTuple) -> IntTuple:
    """All one-element levels removed.

    >>> unwrap(((4,),))
    4
    """
    while isinstance(t, tuple) and len(t) == 1:
        t = t[0]
    return t


def at(t: IntTuple, i: int) -> IntTuple:
    """Child `i`; a leaf is its own child 0."""
    if isinstance(t, tuple):
        if 0 <= i < len(t):
            return t[i]
    elif i == 0:
        return t
    raise LayoutIndexError(f"mode {i} of {format_int_tuple(t)} does not exist; its rank is {rank(t)}")


def get_(t: IntTuple, mode: int | Sequence[int]) -> IntTuple:
    """The sub-tree at an index or a path."""
    if type(mode) is int:
        return at(t, mode)
    for i in cast("Sequence[int]", mode):
        t = at(t, i)
    return t


# --- Arithmetic -----------------------------------------------------------------------------------------------


def int_tuple_add(a: IntTuple, b: IntTuple) -> IntTuple:
    """Element-wise sum. A static 0 is the identity against anything, a basis counts as the tuple it stands for.

    >>> int_tuple_add((1, 2, 9), (3, 4)), int_tuple_add(Basis(4, [0]), Basis(5, [1]))
    ((4, 6, 9), (4, 5))
    """
    if type(a) is int and type(b) is int:
        return a + b
    if not a:
        return 0 if b is None else b
    if not b:
        return a
    a, b = _spread(a, b)
    return _elementwise(leaf_add, int_tuple_add, "add", a, b)


def int_tuple_sub(a: IntTuple, b: IntTuple) -> IntTuple:
    """Element-wise difference; a basis counts as the tuple it stands for.

    >>> int_tuple_sub((5, 6), (3, 4))
    (2, 2)
    """
    if type(a) is int and type(b) is int:
        return a - b
    if not b:
        return 0 if a is None else a
    if not a and type(b) is Basis:
        value = leaf_sub(0, b.value)
        assert type(value) is int or isinstance(value, Dyn)
        return Basis(value, b.modes)
    if not a and isinstance(b, tuple):
        return map_leaves(lambda leaf: int_tuple_sub(0, leaf), b)
    a, b = _spread(a, b)
    return _elementwise(leaf_sub, int_tuple_sub, "sub", a, b)


def int_tuple_mul(a: IntTuple, b: IntTuple) -> IntTuple:
    """Element-wise product; the surplus modes of the longer side are copied.

    >>> int_tuple_mul((2, (3, 4)), (5, (6, 7)))
    (10, (18, 28))
    """
    return _elementwise(leaf_mul, int_tuple_mul, "mul", a, b)


def int_tuple_div(a: IntTuple, b: IntTuple) -> IntTuple:
    """Element-wise quotient, truncated toward zero.

    >>> int_tuple_div((-7, 9), (2, 2))
    (-3, 4)
    """
    return _elementwise(leaf_div, int_tuple_div, "div", a, b)


def int_tuple_mod(a: IntTuple, b: IntTuple) -> IntTuple:
    """Element-wise remainder with the sign of the dividend.

    >>> int_tuple_mod((7, -9), (2, 4))
    (1, -1)
    """
    return _elementwise(leaf_mod, int_tuple_mod, "mod", a, b)


def _spread(a: IntTuple, b: IntTuple) -> tuple[IntTuple, IntTuple]:
    """Two summands as numbers or tuples; a non-zero number never meets a basis or a tuple."""
    x = basis_to_tuple(a) if type(a) is Basis else a
    y = basis_to_tuple(b) if type(b) is Basis else b
    if (isinstance(x, tuple)) != (isinstance(y, tuple)):
        raise LayoutError(
            f"cannot add {format_int_tuple(a)} and {format_int_tuple(b)}: expected two integers or two coordinates; "
            "only 0 may be added to a coordinate"
        )
    return x, y


def _elementwise(
    leaf_fn: Callable[[Leaf, Leaf], Leaf],
    tuple_fn: Callable[[IntTuple, IntTuple], IntTuple],
    what: str,
    a: IntTuple,
    b: IntTuple,
) -> IntTuple:
    if isinstance(a, tuple) and isinstance(b, tuple):
        n = min(len(a), len(b))
        return (*map(tuple_fn, a[:n], b[:n]), *a[n:], *b[n:])
    if isinstance(a, tuple) or isinstance(b, tuple):
        raise profile_mismatch(what, a, b)
    return leaf_fn(a, b)


def product(t: IntTuple) -> Leaf:
    """Product of all leaves, folded from the left.

    >>> product((2, (3, 4)))
    24
    """
    if not isinstance(t, tuple):
        return t
    out = product(t[0])
    for child in t[1:]:
        out = leaf_mul(out, product(child))
    return out


def product_each(t: IntTuple) -> IntTuple:
    """Product per top mode.

    >>> product_each((2, (3, 4)))
    (2, 12)
    """
    return tuple([product(child) for child in t]) if isinstance(t, tuple) else t


def product_like(t: IntTuple, guide: IntTuple) -> IntTuple:
    """Products down to the guide's tree.

    >>> product_like(((3, 5), (2, 7)), (1, (1, 1)))
    (15, (2, 7))
    """
    if not isinstance(guide, tuple):
        return product(t)
    if not isinstance(t, tuple) or len(t) != len(guide):
        raise profile_mismatch("product_like", t, guide)
    return tuple(map(product_like, t, guide))


def ceil_div(a: IntTuple, b: IntTuple) -> IntTuple:
    """Rounded-up quotient: a leaf by a tuple divides by its product; a tuple by a leaf uses the divisor up from the
    left; two tuples go mode by mode, the tail of `a` kept.

    >>> ceil_div((5, 8), 2), ceil_div((5, 9), (2, 4))
    ((3, 8), (3, 3))
    """
    return _tuple_div(leaf_ceil_div, a, b)


def shape_div(a: IntTuple, b: IntTuple) -> IntTuple:
    """As `ceil_div`, where of two static leaves one must divide the other.

    >>> shape_div((4, 8), 8), shape_div(12, (2, 3))
    ((1, 4), 2)
    """
    return _tuple_div(leaf_shape_div, a, b)


def _tuple_div(div: Callable[[Leaf, Leaf], Leaf], a: IntTuple, b: IntTuple) -> IntTuple:
    if not isinstance(a, tuple):
        return div(a, product(b) if isinstance(b, tuple) else b)
    if isinstance(b, tuple):
        n = min(len(a), len(b))
        return (*[_tuple_div(div, x, y) for x, y in zip(a[:n], b[:n], strict=True)], *a[n:])
    out: list[IntTuple] = []
    rest: Leaf = b
    for i, child in enumerate(a):
        out.append(_tuple_div(div, child, rest))
        if i + 1 < len(a):
            rest = div(rest, product(child))
    return tuple(out)


def elem_less(a: IntTuple, b: IntTuple) -> Leaf:
    """1 if every paired leaf of `a` is smaller, else 0; 0 if `a` has more modes.

    >>> elem_less((1, 2), (2, 3)), elem_less((1, 3), (2, 3)), elem_less((1, 2, 3), (9, 9))
    (1, 0, 0)
    """
    if not isinstance(a, tuple) and not isinstance(b, tuple):
        return leaf_lt(a, b)
    xs, ys = wrap(a), wrap(b)
    if len(xs) > len(ys):
        return 0
    out = elem_less(xs[0], ys[0])
    for x, y in zip(xs[1:], ys[1:], strict=False):
        out = leaf_and(out, elem_less(x, y))
    return out


def equal(a: IntTuple, b: IntTuple) -> Leaf:
    """1 if structure and leaves agree, else 0.

    >>> equal((1, (2,)), (1, (2,))), equal((1, 2), (1, (2,)))
    (1, 0)
    """
    if not congruent(a, b):
        return 0
    if not isinstance(a, tuple) or not isinstance(b, tuple):
        return leaf_eq(cast("Leaf", a), cast("Leaf", b))
    out = equal(a[0], b[0])
    for x, y in zip(a[1:], b[1:], strict=True):
        out = leaf_and(out, equal(x, y))
    return out


# --- Strides --------------------------------------------------------------------------------------------------


def filter_zero(guide: IntTuple, t: IntTuple) -> IntTuple:
    """`t` with every leaf under a static 0 of the guide turned into 1.

    >>> filter_zero((0, 1), ((2, 3), 4))
    ((1, 1), 4)
    """
    if isinstance(guide, tuple):
        if not isinstance(t, tuple) or len(t) != len(guide):
            raise profile_mismatch("filter_zero", guide, t)
        return tuple(map(filter_zero, guide, t))
    return t if guide else map_leaves(lambda _: 1, t)


def compact_col_major(shape: IntTuple, start: Leaf = 1) -> IntTuple:
    """Strides of the compact layout whose first leaf is fastest.

    >>> compact_col_major((4, (2, 3)))
    (1, (4, 8))
    """
    return _compact(shape, start, need_next=False)[0]


def _compact(shape: IntTuple, current: Leaf, *, need_next: bool) -> tuple[IntTuple, Leaf]:
    if not isinstance(shape, tuple):
        return current, leaf_mul(current, shape) if need_next else current
    out: list[IntTuple] = []
    last = len(shape) - 1
    for i, child in enumerate(shape):
        stride, current = _compact(child, current, need_next=need_next or i < last)
        out.append(stride)
    return tuple(out), current


def basis_like(shape: IntTuple) -> IntTuple:
    """A unit basis per leaf, at its path; a bare leaf gives 1.

    >>> basis_like((4, (2, 8)))
    (1E0, (1E1E0, 1E1E1))
    """

    def walk(t: IntTuple, path: tuple[int, ...]) -> IntTuple:
        if isinstance(t, tuple):
            return tuple([walk(child, (*path, i)) for i, child in enumerate(t)])
        return Basis(1, path) if path else 1

    return walk(shape, ())


def static_leaf_int(t: IntTuple) -> int:
    """The value of a static plain leaf, `LayoutError` otherwise.

    >>> static_leaf_int(4)
    4
    """
    x = unwrap(t)
    if type(x) is int:
        return x
    raise LayoutError(f"expected one static integer, got {format_int_tuple(t)}")
