"""`sort`, `argsort` and `sort_by_key` along any axis, stable."""

from __future__ import annotations

from collections.abc import Sequence

from flydsl.errors import DSLValueError

from ..rows.arrays import Given, HostArray, describe, packed, same_place, type_of, vacant
from ..rows.call import ALL, more_of
from ..scalars import flag
from .sort_kernels import MOST_TILE, gather_rows, merge_runs, sort_tiles
from .view import axis_of, back, described, last

TYPES = tuple(name for name in ALL if not name.startswith("float8"))
LONGEST = 2**30


def argsort(x: HostArray, *, axis: int = -1, descending: bool = False, stream: object = None) -> Given:
    """The int64 numbers of the elements along an axis in ascending order; equal ones stay in theirs.

    A NaN is behind all numbers, in front of them if `descending`, as in torch; both zeros are the same.

    >>> argsort(np.array([3, 1, 2, 1], "i4")), argsort(np.array([3, 1, 2, 1], "i4"), descending=True)
    (array([1, 3, 2, 0]), array([0, 2, 1, 3]))
    """
    order, at = _order("argsort", x, axis, descending, stream)
    return _placed(order, x, at)


def sort(x: HostArray, *, axis: int = -1, descending: bool = False, stream: object = None) -> tuple[Given, Given]:
    """The elements along an axis in ascending order, and their int64 numbers; see `argsort`.

    >>> sort(np.array([[3.0, 1.0], [2.0, 4.0]], "f4"), axis=0)
    (array([[2., 1.],
           [3., 4.]], dtype=float32), array([[1, 0],
           [0, 1]]))
    """
    order, at = _order("sort", x, axis, descending, stream)
    return _placed(_picked(x, order, at, stream), x, at), _placed(order, x, at)


def sort_by_key(
    keys: HostArray, *values: HostArray, axis: int = -1, descending: bool = False, stream: object = None
) -> tuple[Given, ...]:
    """`keys` in ascending order along an axis, and other arrays of their shape in the same order; see `argsort`.

    >>> sort_by_key(np.array([2, 1], "i4"), np.array([10.0, 20.0], "f4"))
    (array([1, 2], dtype=int32), array([20., 10.], dtype=float32))
    """
    op = "sort_by_key"
    order, at = _order(op, keys, axis, descending, stream)
    for i, v in enumerate(values):
        check_values(i, described(op, f"values[{i}]", v, ALL), keys.shape)
    return tuple(_placed(_picked(v, order, at, stream), v, at) for v in (keys, *values))


def _rows(x: HostArray, at: int) -> Given:
    turned: Given = packed(last(x, (at,)))
    n = x.shape[at]
    return turned.reshape(-1, n) if n else turned.reshape(0, 0)


def _placed(rows: Given, x: HostArray, at: int) -> Given:
    shape = tuple(x.shape)
    return back(rows.reshape(*shape[:at], *shape[at + 1 :], shape[at]), at)


def _picked(x: HostArray, order: Given, at: int, stream: object) -> Given:
    rows = _rows(x, at)
    made: Given = vacant(x, tuple(rows.shape), type_of(x))
    if 0 not in rows.shape:
        gather_rows(rows, order, made, *rows.shape, **more_of(stream))
    return made


def _order(op: str, x: HostArray, axis: int, descending: bool, stream: object) -> tuple[Given, int]:
    """The order of each row, as a matrix of rows, and the axis."""
    at, descending = check_sort(op, x, axis), flag(op, "descending", descending)
    rows = _rows(x, at)
    m, n = rows.shape
    order: Given = vacant(x, (m, n), "int64")
    if not m or not n:
        return order, at
    tile = min(max(1 << (n - 1).bit_length(), 2), MOST_TILE)
    tiles, more = -(-n // tile), more_of(stream)
    if tiles == 1:
        sort_tiles(rows, None, order, m, n, 1, tile, descending, **more)
        return order, at
    keys, other_keys = (vacant(x, (m, n), "int64") for _ in range(2))
    numbers, other = (vacant(x, (m, n), "int32") for _ in range(2))
    sort_tiles(rows, keys, numbers, m, n, tiles, tile, descending, **more)
    run = tile
    while 2 * run < n:
        merge_runs(keys, numbers, other_keys, other, m, n, run, **more)
        keys, other_keys, numbers, other = other_keys, keys, other, numbers
        run *= 2
    merge_runs(keys, numbers, None, order, m, n, run, **more)
    return order, at


def check_sort(op: str, x: HostArray, axis: int) -> int:
    """What is refused, by extents and types alone; the axis, counted from the front."""
    shape = described(op, "x" if op != "sort_by_key" else "keys", x, TYPES)
    if not shape:
        raise DSLValueError(f"{op}: there is at least one axis, got a single element")
    at = axis_of(op, axis, shape)
    if shape[at] > LONGEST:
        raise DSLValueError(f"{op}: an axis has at most {LONGEST} elements, got {shape[at]}")
    return at


def check_values(number: int, shape: Sequence[int], keys: Sequence[int]) -> None:
    """What goes with keys has a value for each."""
    if tuple(shape) != tuple(keys):
        raise DSLValueError(f"sort_by_key: values[{number}] has the shape of keys, {list(keys)}, got {list(shape)}")


def in_order(x: HostArray, order: HostArray, *, axis: int = -1, stream: object = None) -> Given:
    """The elements of `x` along an axis by the numbers that `argsort` gave for an array of its shape."""
    op = "in_order"
    at = check_in_order(op, x, order, axis)
    return _placed(_picked(x, _rows(order, at), at, stream), x, at)


def check_in_order(op: str, x: HostArray, order: HostArray, axis: int) -> int:
    """What is refused, by extents and types alone; the axis, counted from the front."""
    shape, numbers = described(op, "x", x, ALL), described(op, "order", order, ("int64",))
    if numbers != shape or not shape:
        raise DSLValueError(f"{op}: order has the shape of x, {list(shape)}, and an axis, got {list(numbers)}")
    same_place(op, {"x": describe(op, "x", x, ALL), "order": describe(op, "order", order, ("int64",))})
    return axis_of(op, axis, shape)


__all__ = ["argsort", "check_in_order", "check_sort", "check_values", "in_order", "sort", "sort_by_key"]
