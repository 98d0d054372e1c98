"""Mode surgery on tuples and layouts alike: each function acts on a tuple, or on shape and stride of a layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, overload

from flydsl.errors import DSLTypeError
from flydsl.layout import int_tuple as it
from flydsl.layout import tuple_modes as tm
from flydsl.layout.layout import ComposedLayout, L, Layout, linear_layout
from flydsl.layout.leaf import IntTuple
from flydsl.layout.tile import Tile

Modes: TypeAlias = IntTuple | Layout | ComposedLayout


def _apply(t: Modes, fn: Callable[[IntTuple], IntTuple]) -> Modes:
    if type(t) is Layout or type(t) is ComposedLayout:
        return t.map_modes(fn)
    return fn(it.as_int_tuple(t))


def rank(x: IntTuple | Layout | ComposedLayout | Tile) -> int:
    """Number of top modes; a leaf has 1.

    >>> rank((4, (8, 2))), rank(7), rank(Layout((4, 8), (1, 4)))
    (2, 1, 2)
    """
    return x.rank if isinstance(x, (Layout, ComposedLayout, Tile)) else it.rank(x)


def depth(x: IntTuple | Layout | ComposedLayout) -> int:
    """Nesting of tuples; a leaf has 0.

    >>> depth((4, (8, 2))), depth(Layout(4, 1))
    (2, 0)
    """
    return x.depth if isinstance(x, (Layout, ComposedLayout)) else it.depth(x)


@overload
def get_(t: L, mode: int | Sequence[int]) -> L: ...
@overload
def get_(t: IntTuple, mode: int | Sequence[int]) -> IntTuple: ...
def get_(t: Modes, mode: int | Sequence[int]) -> Modes:
    """The sub-tree or sub-layout at an index or a path.

    >>> get_(Layout(((2, 3), 4), ((1, 2), 6)), [0, 1])
    Layout(3:2)
    """
    return _apply(t, lambda x: it.get_(x, mode))


@overload
def take(t: L, begin: int, end: int = -1) -> L: ...
@overload
def take(t: IntTuple, begin: int, end: int = -1) -> IntTuple: ...
def take(t: Modes, begin: int, end: int = -1) -> Modes:
    """Modes `[begin, end)`, a single one unwrapped; `end=-1` means the rank.

    >>> take(Layout(((2, 3), 4, 5), ((1, 2), 6, 24)), 1, 3)
    Layout((4,5):(6,24))
    """
    return _apply(t, lambda x: tm.take(x, begin, end))


@overload
def select(t: L, indices: int | Sequence[int]) -> L: ...
@overload
def select(t: IntTuple, indices: int | Sequence[int]) -> IntTuple: ...
def select(t: Modes, indices: int | Sequence[int]) -> Modes:
    """Chosen modes in order; a single index is unwrapped.

    >>> select(Layout(((2, 3), 4, 5), ((1, 2), 6, 24)), [2, 0])
    Layout((5,(2,3)):(24,(1,2)))
    """
    return _apply(t, lambda x: tm.select(x, indices))


@overload
def group(t: L, begin: int, end: int = -1) -> L: ...
@overload
def group(t: IntTuple, begin: int, end: int = -1) -> IntTuple: ...
def group(t: Modes, begin: int, end: int = -1) -> Modes:
    """Modes `[begin, end)` wrapped in one.

    >>> group(Layout(((2, 3), 4, 5), ((1, 2), 6, 24)), 1, 3)
    Layout(((2,3),(4,5)):((1,2),(6,24)))
    """
    return _apply(t, lambda x: tm.group(x, begin, end))


@overload
def expand(t: L, modes: Sequence[int]) -> L: ...
@overload
def expand(t: IntTuple, modes: Sequence[int]) -> IntTuple: ...
def expand(t: Modes, modes: Sequence[int]) -> Modes:
    """The given modes, where tuples, spliced in place.

    >>> expand(Layout((4, (8, 2)), (1, (4, 32))), [1])
    Layout((4,8,2):(1,4,32))
    """
    return _apply(t, lambda x: tm.expand(x, modes))


def _extend(t: Modes, element: Modes, n: int | None, what: str, fn: Callable[..., IntTuple]) -> Modes:
    if type(t) is Layout or type(t) is ComposedLayout:
        if type(element) is not Layout:
            raise DSLTypeError(f"{what}: expected a Layout as element of a layout, got {element!r}")
        plain = linear_layout(t)
        out = Layout(fn(plain.shape, element.shape, n=n), fn(plain.stride, element.stride, n=n))
        return t.with_linear(out) if type(t) is ComposedLayout else out
    if isinstance(element, (Layout, ComposedLayout)):
        raise DSLTypeError(f"{what}: tuple and elem must be the same category, got {t!r} and {element!r}")
    return fn(it.as_int_tuple(t), it.as_int_tuple(element), n=n)


@overload
def append(t: L, element: Layout, *, n: int | None = None) -> L: ...
@overload
def append(t: IntTuple, element: IntTuple, *, n: int | None = None) -> IntTuple: ...
def append(t: Modes, element: Modes, *, n: int | None = None) -> Modes:
    """`element` added once at the end, or until the rank is `n`.

    >>> append(Layout(4, 1), Layout(2, 8)), append((4,), 1, n=3)
    (Layout((4,2):(1,8)), (4, 1, 1))
    """
    return _extend(t, element, n, "append", tm.append)


@overload
def prepend(t: L, element: Layout, *, n: int | None = None) -> L: ...
@overload
def prepend(t: IntTuple, element: IntTuple, *, n: int | None = None) -> IntTuple: ...
def prepend(t: Modes, element: Modes, *, n: int | None = None) -> Modes:
    """`element` added once at the front, or until the rank is `n`.

    >>> prepend(Layout(4, 1), Layout(2, 8)), prepend((4, 8), 3)
    (Layout((2,4):(8,1)), (3, 4, 8))
    """
    return _extend(t, element, n, "prepend", tm.prepend)


@overload
def slice_(t: L, coord: IntTuple) -> L: ...
@overload
def slice_(t: IntTuple, coord: IntTuple) -> IntTuple: ...
def slice_(t: Modes, coord: IntTuple) -> Modes:
    """What stands under empty leaves of `coord`. A composed layout adds the index of the rest to its offset, a plain
    one drops it.

    >>> slice_(Layout(((2, 3), 4, 5), ((1, 2), 6, 24)), ((1, None), None, 0)), slice_((4, 8, 16), (None, 3, None))
    (Layout((3,4):(2,6)), (4, 16))
    """
    c = it.as_int_tuple(coord)
    return t.slice(c) if type(t) is Layout or type(t) is ComposedLayout else tm.slice_(it.as_int_tuple(t), c)


@overload
def dice(t: L, coord: IntTuple) -> L: ...
@overload
def dice(t: IntTuple, coord: IntTuple) -> IntTuple: ...
def dice(t: Modes, coord: IntTuple) -> Modes:
    """What stands under non-empty leaves of `coord`.

    >>> dice(Layout((4, 8), (1, 4)), (None, 3)), dice((4, 8, 16), (None, 3, None))
    (Layout(8:4), 8)
    """
    c = it.as_int_tuple(coord)
    return _apply(t, lambda x: tm.dice(x, c))
