"""Sorting the items of a logical warp in blocked order; equal keys stay in theirs.

A number goes with each key, its place before: of two equal keys that with the lower number comes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ....expr.control.control_flow import if_expr
from ....expr.numeric import Boolean, Int32
from ..elements import Element, ElementType, IsLess, check_count, from_items, is_before, select
from .bitonic_sort import SortMeta, before, check_sort
from .network import sort
from .spec import check_width, place_in
from .transpose import striped_to_blocked

if TYPE_CHECKING:
    from ....expr.annotations import IntLike


def warp_merge_sort(
    keys: object, values: object = None, *, width: int | None = None, compare_op: IsLess,
    valid_items: IntLike | None = None, _dtype: ElementType | None = None, _value_dtype: ElementType | None = None,
) -> Any:  # fmt: skip
    """The keys of a logical warp in order, and the payloads with them: a lane holds a run of neighbouring items.

    `compare_op(a, b)` says whether a key comes before another. Equal keys keep their order. With `valid_items` the
    first so many are sorted, and what comes after them is unspecified.

    >>> def ordered():
    ...     n = fx.lane_id()
    ...     key = [n % 2, n % 2]
    ...     return fx.coop.warp_merge_sort(key, [2 * n, 2 * n + 1], width=4, compare_op=lambda a, b: a < b)
    >>> flyc.evaluate(ordered, threads=4)
    [([0, 0], [0, 1]), ([0, 0], [4, 5]), ([1, 1], [2, 3]), ([1, 1], [6, 7])]
    """
    lanes = check_width(width)
    found, payloads = check_sort(keys, values, compare_op, _dtype, _value_dtype)
    count = len(found)
    valid = check_count("valid_items", valid_items, lanes * count)

    def swap(a: tuple[Element, ...], b: tuple[Element, ...], _: object) -> Boolean:
        at, bt = cast("Int32", a[1]), cast("Int32", b[1])

        def decide() -> Boolean:
            # One comparison: the later one asks whether it comes before, the earlier one whether it does not.
            early = at < bt
            return before(compare_op, select(early, b[0], a[0]), select(early, a[0], b[0])) ^ ~early

        if valid is None:
            return decide()
        counts = is_before(bt, valid)
        return if_expr(is_before(at, valid) & counts, decide, lambda: counts)

    first = place_in(lanes) * count
    extra = [()] * count if payloads is None else [(value,) for value in payloads]
    records = [(key, first + i, *more) for i, (key, more) in enumerate(zip(found, extra, strict=True))]
    striped = bool(count & (count - 1))
    made = sort(list(records), lanes, striped, swap)
    parts = [[record[k] for record in made] for k in ((0,) if payloads is None else (0, 2))]
    if striped:
        parts = [striped_to_blocked(part, lanes) for part in parts]
    results = [from_items(part) for part in parts]
    return results[0] if payloads is None else tuple(results)


class WarpMergeSort(metaclass=SortMeta):
    """Stable sorts of logical warps, in blocked order: `fx.coop.WarpMergeSort[fx.Int32, 8, 2].sort(keys, ...)`.

    >>> def ordered():
    ...     n = 10 - fx.lane_id()
    ...     return fx.coop.WarpMergeSort[fx.Int32, 4, 1].sort([n], compare_op=lambda a, b: a < b)
    >>> flyc.evaluate(ordered, threads=4)
    [[7], [8], [9], [10]]
    """

    tiled = True
    pairs = True

    @classmethod
    def sort(
        cls, keys: object, values: object = None, *, compare_op: IsLess, valid_items: IntLike | None = None,
        storage: object = None,
    ) -> Any:  # fmt: skip
        """The keys in order, and the payloads with them."""
        return warp_merge_sort(
            keys, values, width=cls.check_sort(keys, values, storage), compare_op=compare_op, valid_items=valid_items,
            _dtype=cls.dtype, _value_dtype=cls.value_dtype,
        )  # fmt: skip
