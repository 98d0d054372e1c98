"""Sorting the items of a logical warp in striped order, by a network of comparisons; equal keys may change places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....errors import DSLTypeError, DSLValueError
from ....expr.control.control_flow import if_expr
from ....expr.numeric import Boolean, Int32, as_numeric
from ..elements import Element, ElementType, IsLess, as_items, check_count, from_items, is_before, is_items
from .network import sort
from .spec import WarpMeta, check_width

if TYPE_CHECKING:
    from collections.abc import Callable

    from ....expr.annotations import IntLike


def check_sort(
    keys: object, values: object, compare_op: object, dtype: ElementType | None, value_dtype: ElementType | None
) -> tuple[list[Element], list[Element] | None]:
    """Keys and payloads as items; a TypeError where they are none."""
    if not callable(compare_op):
        raise DSLTypeError(f"compare_op must be a function of two keys, as in lambda a, b: a < b; got {compare_op!r}")
    for what, given, cls in (("keys", keys, dtype), ("values", values, value_dtype)):
        if given is not None and not is_items(given, cls):
            raise DSLTypeError(f"{what} must be a list of items; for one write [x], got {given!r}")
    found = as_items(keys, dtype, "keys")
    payloads = None if values is None else as_items(values, value_dtype, "values")
    if payloads is not None and len(payloads) != len(found):
        raise DSLValueError(f"values must be as many as keys, {len(found)}; got {len(payloads)}")
    return found, payloads


def before(compare_op: IsLess, a: Element, b: Element) -> Boolean:
    """Whether a key comes before another."""
    return Boolean(as_numeric(compare_op(a, b)))


def warp_bitonic_sort(
    keys: object, values: object = None, *, width: int | None = None, compare_op: IsLess,
    valid_items: IntLike | None = None, _dtype: ElementType | None = None, _value_dtype: ElementType | None = None,
) -> Any:  # fmt: skip
    """The keys of a logical warp in order, and the payloads with them: item i of lane l is number `i * width + l`.

    `compare_op(a, b)` says whether a key comes before another. Equal keys may change places. With `valid_items` the
    first so many are sorted, and what comes after them is unspecified.

    >>> def ordered():
    ...     n = 7 - fx.lane_id()
    ...     return fx.coop.warp_bitonic_sort([n, n - 4], width=4, compare_op=lambda a, b: a < b)
    >>> flyc.evaluate(ordered, threads=4)
    [[0, 4], [1, 5], [2, 6], [3, 7]]
    """
    lanes = check_width(width)
    found, payloads = check_sort(keys, values, compare_op, _dtype, _value_dtype)
    valid = check_count("valid_items", valid_items, lanes * len(found))

    def swap(a: tuple[Element, ...], b: tuple[Element, ...], high: Callable[[], Int32]) -> Boolean:
        if valid is None:
            return before(compare_op, b[0], a[0])
        # The invalid ones lie behind the valid ones, and stay there.
        return if_expr(is_before(high(), valid), lambda: before(compare_op, b[0], a[0]), lambda: Boolean(False))

    records = [(key,) for key in found] if payloads is None else list(zip(found, payloads, strict=True))
    made = sort(list(records), lanes, True, swap)
    if payloads is None:
        return from_items([record[0] for record in made])
    return from_items([record[0] for record in made]), from_items([record[1] for record in made])


class SortMeta(WarpMeta):
    """A sort for one class of keys, and of payloads."""

    def check_sort(cls, keys: object, values: object, storage: object) -> int:
        """Checks of a call; gives the lanes."""
        lanes = cls.start(storage)
        if (values is None) != (cls.value_dtype is None):
            wanted = "payloads" if cls.value_dtype is not None else "no payloads"
            raise DSLTypeError(f"{cls.__name__} takes {wanted}: keys with payloads are of (key class, payload class)")
        cls.check_items(keys, "keys")
        return lanes


class WarpBitonicSort(metaclass=SortMeta):
    """Sorts of logical warps of a width, in striped order: `fx.coop.WarpBitonicSort[fx.Int32, 8, 2].sort(keys, ...)`.

    >>> def ordered():
    ...     n = fx.lane_id()
    ...     return fx.coop.WarpBitonicSort[fx.Int32, 4, 1].sort([n], compare_op=lambda a, b: a > b)
    >>> flyc.evaluate(ordered, threads=4)
    [[3], [2], [1], [0]]
    """

    tiled = True
    pairs = True

    @classmethod
    def sort(
        cls, keys: object, values: object = None, *, compare_op: IsLess, valid_items: IntLike | None = None,
        storage: object = None,
    ) -> Any:  # fmt: skip
        """The keys in order, and the payloads with them."""
        return warp_bitonic_sort(
            keys, values, width=cls.check_sort(keys, values, storage), compare_op=compare_op, valid_items=valid_items,
            _dtype=cls.dtype, _value_dtype=cls.value_dtype,
        )  # fmt: skip
