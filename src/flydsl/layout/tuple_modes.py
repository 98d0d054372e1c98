"""Selecting, grouping and zipping the modes of integer tuples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from flydsl.errors import LayoutError
from flydsl.layout.int_tuple import LayoutIndexError, at, format_int_tuple, profile_mismatch, rank, unwrap, wrap
from flydsl.layout.leaf import IntTuple


def _range(t: IntTuple, begin: int, end: int) -> tuple[int, int]:
    stop = rank(t) if end == -1 else end
    if not 0 <= begin <= stop <= rank(t):
        raise LayoutIndexError(f"modes [{begin},{end}) of {format_int_tuple(t)} do not exist; its rank is {rank(t)}")
    return begin, stop


def take(t: IntTuple, begin: int, end: int = -1) -> IntTuple:
    """Modes `[begin, end)`, a single one unwrapped; `end=-1` means the rank.

    >>> take((4, (8, 2), 5), 1, 2), take((4, (8, 2), 5), 1)
    ((8, 2), ((8, 2), 5))
    """
    if not isinstance(t, tuple):
        raise LayoutError(f"take: expected a tuple, got the leaf {format_int_tuple(t)}; use the leaf itself")
    begin, end = _range(t, begin, end)
    if begin == end:
        raise LayoutError(f"take: modes [{begin},{end}) of {format_int_tuple(t)} are empty; take at least one mode")
    return t[begin] if end == begin + 1 else t[begin:end]


def select(t: IntTuple, indices: int | Sequence[int]) -> IntTuple:
    """Chosen modes in order; a single index is unwrapped.

    >>> select((4, (8, 2), 5), [2, 0])
    (5, 4)
    """
    chosen = (indices,) if type(indices) is int else tuple(cast("Sequence[int]", indices))
    if not chosen:
        raise LayoutError(f"select: no mode of {format_int_tuple(t)} chosen; give at least one index")
    return at(t, chosen[0]) if len(chosen) == 1 else tuple([at(t, i) for i in chosen])


def group(t: IntTuple, begin: int, end: int = -1) -> IntTuple:
    """Modes `[begin, end)` wrapped in one.

    >>> group((4, (8, 2), 5), 0, 2)
    ((4, (8, 2)), 5)
    """
    if not isinstance(t, tuple):
        return t
    begin, end = _range(t, begin, end)
    return t if begin == end else (*t[:begin], t[begin:end], *t[end:])


def expand(t: IntTuple, modes: Sequence[int]) -> IntTuple:
    """The given modes, where tuples, spliced in place; a single remaining element is unwrapped.

    >>> expand(((1, 2), (3, 4)), [1])
    ((1, 2), 3, 4)
    """
    if not isinstance(t, tuple):
        return t
    out: list[IntTuple] = []
    for i, child in enumerate(t):
        if i in modes and isinstance(child, tuple):
            out.extend(child)
        else:
            out.append(child)
    return out[0] if len(out) == 1 else tuple(out)


def _padding(what: str, t: IntTuple, n: int | None) -> int:
    if n is None:
        return 1
    if n < rank(t):
        raise LayoutError(f"{what}: expected n of at least the rank {rank(t)} of {format_int_tuple(t)}, got {n}")
    return n - rank(t)


def append(t: IntTuple, element: IntTuple, *, n: int | None = None) -> IntTuple:
    """`element` added once at the end, or until the rank is `n`.

    >>> append((4,), 1, n=3), append(4, 8)
    ((4, 1, 1), (4, 8))
    """
    count = _padding("append", t, n)
    return (*wrap(t), *(element,) * count) if count else t


def prepend(t: IntTuple, element: IntTuple, *, n: int | None = None) -> IntTuple:
    """`element` added once at the front, or until the rank is `n`.

    >>> prepend((4, 8), 3)
    (3, 4, 8)
    """
    count = _padding("prepend", t, n)
    return (*(element,) * count, *wrap(t)) if count else t


def slice_(t: IntTuple, coord: IntTuple) -> IntTuple:
    """What stands under empty leaves of `coord`, in one flat tuple; a single survivor is unwrapped.

    >>> slice_((4, 8, 16), (None, 3, None)), slice_(((2, 3), 4, 5), ((1, None), None, 0))
    ((4, 16), (3, 4))
    """
    if coord is None:
        return t
    return _collect("slice", t, coord, keep_none=True)


def dice(t: IntTuple, coord: IntTuple) -> IntTuple:
    """What stands under non-empty leaves of `coord`: the complement of `slice`.

    >>> dice((4, 8, 16), (None, 3, None))
    8
    """
    return t if coord is not None and not isinstance(coord, tuple) else _collect("dice", t, coord, keep_none=False)


def _collect(what: str, t: IntTuple, coord: IntTuple, *, keep_none: bool) -> IntTuple:
    out: list[IntTuple] = []
    if not _collected(t, coord, keep_none, out):
        raise profile_mismatch(what, t, coord)
    if not out:
        wanted = "an empty leaf (None)" if keep_none else "a leaf that is not None"
        raise LayoutError(f"{what} of {format_int_tuple(t)} by {format_int_tuple(coord)} keeps nothing; give {wanted}")
    return unwrap(tuple(out))


def _collected(t: IntTuple, coord: IntTuple, keep_none: bool, out: list[IntTuple]) -> bool:
    """Whether `coord` has the profile of `t`; what it keeps is added to `out`."""
    if not isinstance(coord, tuple):
        if (coord is None) == keep_none:
            out.append(t)
        return True
    if not isinstance(t, tuple) or len(t) != len(coord):
        return False
    for child, under in zip(t, coord, strict=True):
        if not _collected(child, under, keep_none, out):
            return False
    return True


def zip_(t: IntTuple) -> IntTuple:
    """The two top levels transposed, by the rank of the first child; unchanged if that is a leaf.

    >>> zip_(((1, 2), (3, 4)))
    ((1, 3), (2, 4))
    """
    if not isinstance(t, tuple) or not isinstance(t[0], tuple):
        return t
    columns: list[IntTuple] = []
    for i in range(len(t[0])):
        column: list[IntTuple] = []
        for child in t:
            if not isinstance(child, tuple) or i >= len(child):
                raise LayoutError(f"zip of {format_int_tuple(t)}: expected every mode to have rank {len(t[0])}")
            column.append(child[i])
        columns.append(tuple(column))
    return tuple(columns)


def zip2_by(t: IntTuple, guide: IntTuple) -> IntTuple:
    """Pairs gathered as `(firsts, seconds)` along the guide's tree; modes past the guide join the seconds.

    >>> zip2_by(((1, 2), (3, 4), 5), (0, 0))
    ((1, 3), (2, 4, 5))
    """
    if not isinstance(guide, tuple):
        if not isinstance(t, tuple) or len(t) != 2:
            raise LayoutError(
                f"expected a (tile, rest) pair, got {format_int_tuple(t)}; give a tile mode that divides it"
            )
        return t
    if not isinstance(t, tuple) or len(t) < len(guide):
        raise profile_mismatch("zip2_by", t, guide)
    pairs = [wrap(zip2_by(child, under)) for child, under in zip(t, guide, strict=False)]
    return tuple([p[0] for p in pairs]), (*[p[1] for p in pairs], *t[len(guide) :])
