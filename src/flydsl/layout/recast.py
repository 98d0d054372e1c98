"""The same bits seen as elements of another width."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import cast

from flydsl.errors import LayoutError
from flydsl.layout.int_tuple import map_leaves
from flydsl.layout.layout import AnyLayout, ComposedLayout, CoordSwizzle, L, Layout, Swizzle
from flydsl.layout.leaf import Basis, Dyn, IntTuple, Leaf, leaf_ceil_div, leaf_mul, leaf_safe_div
from flydsl.layout.memo import memo


def recast_layout(layout: L, old_type_bits: int, new_type_bits: int) -> L:
    """The layout in units of `new_type_bits` of data laid out in units of `old_type_bits`.

    >>> recast_layout(Layout((8, 4), (1, 8)), 16, 32), recast_layout(Layout((4, 24), (24, 1)), 8, 6)
    (Layout((4,4):(1,4)), Layout((4,32):(32,1)))
    """
    old, new = int(old_type_bits), int(new_type_bits)
    if old <= 0 or new <= 0 or old == new:
        return layout
    common = gcd(old, new)
    up, down = new // common, old // common
    out: AnyLayout = layout
    if up != 1:
        out = upcast(out, up)
    if down != 1:
        out = downcast(out, down)
    return cast("L", out)


def upcast(layout: AnyLayout, n: int) -> AnyLayout:
    """Elements `n` times as wide.

    >>> upcast(Layout((4, 8), (8, 1)), 4)
    Layout((4,2):(2,1))
    """
    return _recast(layout, n, True)


def downcast(layout: AnyLayout, n: int) -> AnyLayout:
    """Elements `n` times as narrow.

    >>> downcast(Layout((4, 8), (8, 1)), 2)
    Layout((4,16):(16,1))
    """
    return _recast(layout, n, False)


@memo
def _recast(layout: AnyLayout, n: int, up: bool) -> AnyLayout:
    if type(layout) is Layout:
        return Layout(*_walk(_upcast_leaf if up else _downcast_leaf, layout.shape, layout.stride, n))
    assert type(layout) is ComposedLayout
    by: Callable[[Leaf, Leaf], Leaf] = leaf_safe_div if up else leaf_mul
    offset = map_leaves(lambda leaf: by(leaf, n), layout.offset)
    return ComposedLayout(_recast_inner(layout.inner, n, up), offset, _recast(layout.outer, n, up))


def _walk(
    fn: Callable[[Leaf, Leaf, int], tuple[Leaf, Leaf]], shape: IntTuple, stride: IntTuple, n: int
) -> tuple[IntTuple, IntTuple]:
    if isinstance(shape, tuple) and isinstance(stride, tuple):
        pairs = [_walk(fn, s, d, n) for s, d in zip(shape, stride, strict=True)]
        return tuple([p[0] for p in pairs]), tuple([p[1] for p in pairs])
    assert not isinstance(shape, tuple) and not isinstance(stride, tuple)
    return fn(shape, stride, n)


def _upcast_leaf(s: Leaf, d: Leaf, n: int) -> tuple[Leaf, Leaf]:
    step = d.value if type(d) is Basis else d
    if not step:
        return s, d
    if isinstance(step, Dyn):
        return s, leaf_safe_div(d, n)
    size = abs(step)
    if size % n != 0 and n % size != 0:
        raise LayoutError(
            f"recast of the mode {s}:{d}: expected its stride and the factor {n} to divide one another; "
            "choose a width that fits the stride"
        )
    wide = max(size // n, 1)
    value = wide if step > 0 else -wide
    return leaf_ceil_div(s, max(n // size, 1)), Basis(value, d.modes) if type(d) is Basis else value


def _downcast_leaf(s: Leaf, d: Leaf, n: int) -> tuple[Leaf, Leaf]:
    step = d.value if type(d) is Basis else d
    if type(step) is int and abs(step) == 1:
        return leaf_mul(s, n), d
    return s, leaf_mul(d, n)


def _recast_inner(inner: Swizzle | CoordSwizzle | AnyLayout, n: int, up: bool) -> Swizzle | CoordSwizzle | AnyLayout:
    if type(inner) is Layout or type(inner) is ComposedLayout:
        return _recast(inner, n, up)
    if n & (n - 1):
        raise LayoutError(f"recast of {inner} by {n}: expected a power of two, since a swizzle moves whole bits")
    shift = -(n.bit_length() - 1) if up else n.bit_length() - 1
    bases = (inner.base,) if type(inner) is Swizzle else (inner.base_row, inner.base_col)
    if min(bases) + shift < 0:
        raise LayoutError(f"recast of {inner} by {n}: its base must be at least {-shift}; use a swizzle of larger base")
    if type(inner) is Swizzle:
        return Swizzle(inner.mask, inner.base + shift, inner.shift)
    return CoordSwizzle(inner.mask, inner.base_row + shift, inner.mode_row, inner.base_col + shift, inner.mode_col)
