"""Several reductions at once: each lane brings an element for each, and the results are spread over the lanes.

A step brings two lanes together that each hold elements of n reductions: one goes on with half of them, the other with
the rest. So n reductions take n - 1 shuffles until each lane has one, not n times those of a single one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ....errors import DSLTypeError, DSLValueError
from ....expr.gpu import num_warp_threads
from ....expr.numeric import Int32
from ..elements import Element, ElementType, as_items, from_items, is_items, select, shuffle
from ..operators import Operator, check_operator, combine
from .reduce import in_order
from .spec import WarpMeta, check_width, place_in


def _spread(batches: Sequence[Element], op: Operator, lanes: int, within: int, place: Int32) -> Element:
    """Up to `lanes` elements of each lane reduced: lane i gets the i-th; what those beyond get is unspecified."""
    held: list[Element] = list(batches)
    offset = 1
    while offset < lanes:
        upper = (place & offset) != 0
        if len(held) == 1:
            held = [in_order(op, held[0], shuffle(held[0], offset, within, "xor"), offset, place)]
        else:
            if len(held) % 2:
                held.append(held[-1])
            # The lane whose bit is clear goes on with the even ones.
            pairs = [(held[i], held[i + 1]) for i in range(0, len(held), 2)]
            held = []
            for even, odd in pairs:
                mine, theirs = select(upper, odd, even), select(upper, even, odd)
                other = shuffle(theirs, offset, within, "xor")
                held.append(combine(op, select(upper, other, mine), select(upper, mine, other)))
        offset *= 2
    return held[0]


def _batched(
    value: object,
    op: Operator,
    width: object,
    sync_physical_warp: object,
    dtype: ElementType | None,
    striped: bool | None,
) -> Any:
    """All forms: one element of a lane where `striped` is None, else a list of them."""
    op, lanes = check_operator(op), check_width(width)
    if not isinstance(sync_physical_warp, bool):
        raise DSLTypeError(f"sync_physical_warp must be True or False, got {sync_physical_warp!r}")
    if not is_items(value, dtype):
        raise DSLTypeError(f"value must be a list with an element of each reduction; for one write [x], got {value!r}")
    none = isinstance(value, (list, tuple)) and not value
    items = [] if none else as_items(cast("object", value), dtype, "value")
    within = num_warp_threads() if sync_physical_warp else lanes
    place = place_in(lanes)
    if striped is None:
        if not 1 <= len(items) <= lanes:
            raise DSLValueError(
                f"one result a lane needs 1 to {lanes} reductions, got {len(items)}; spread more of them with "
                "warp_reduce_batched_to_striped or warp_reduce_batched_to_blocked"
            )
        return _spread(items, op, lanes, within, place)
    slots = -(-len(items) // lanes)
    chosen = [items[j * lanes : (j + 1) * lanes] if striped else items[j::slots] for j in range(slots)]
    return from_items([_spread(batches, op, lanes, within, place) for batches in chosen])


def warp_reduce_batched(
    value: object, op: Operator, *, width: int | None = None, sync_physical_warp: bool = False,
    _dtype: ElementType | None = None,
) -> Any:  # fmt: skip
    """Several reductions: item i of all lanes combined, in lane i of the logical warp; at most one for each lane.

    With `sync_physical_warp` the shuffles are those of the whole warp, all of whose lanes take part then.

    >>> def sums():
    ...     x = fx.lane_id() + 1
    ...     return fx.coop.warp_reduce_batched([x, x * 10], fx.ReductionOp.ADD, width=4)
    >>> flyc.evaluate(sums, threads=4)[:2]
    [10, 100]
    """
    return _batched(value, op, width, sync_physical_warp, _dtype, None)


def warp_reduce_batched_to_blocked(
    value: object, op: Operator, *, width: int | None = None, sync_physical_warp: bool = False,
    _dtype: ElementType | None = None,
) -> Any:  # fmt: skip
    """Any number of reductions; lane i gets a run of n of them, from the i*n-th on.

    >>> def sums():
    ...     x = fx.lane_id() + 1
    ...     return fx.coop.warp_reduce_batched_to_blocked([x, x * 10, x * 100, -x], fx.ReductionOp.ADD, width=2)
    >>> flyc.evaluate(sums, threads=2)
    [[3, 30], [300, -3]]
    """
    return _batched(value, op, width, sync_physical_warp, _dtype, False)


def warp_reduce_batched_to_striped(
    value: object, op: Operator, *, width: int | None = None, sync_physical_warp: bool = False,
    _dtype: ElementType | None = None,
) -> Any:  # fmt: skip
    """Any number of reductions; lane i gets every `width`-th one, from the i-th on.

    >>> def sums():
    ...     x = fx.lane_id() + 1
    ...     return fx.coop.warp_reduce_batched_to_striped([x, x * 10, x * 100, -x], fx.ReductionOp.ADD, width=2)
    >>> flyc.evaluate(sums, threads=2)
    [[3, 300], [30, -3]]
    """
    return _batched(value, op, width, sync_physical_warp, _dtype, True)


class WarpReduceBatched(metaclass=WarpMeta):
    """Several reductions at once: `fx.coop.WarpReduceBatched[fx.Int32, 8, 2].reduce([x, y], fx.ReductionOp.ADD)`.

    >>> def sums():
    ...     x = fx.lane_id() + 1
    ...     return fx.coop.WarpReduceBatched[fx.Int32, 4, 2].reduce([x, -x], fx.ReductionOp.ADD)
    >>> flyc.evaluate(sums, threads=4)[:2]
    [10, -10]
    """

    tiled = True
    fewest_items = 0

    @classmethod
    def _run(cls, value: object, op: Operator, sync: bool, storage: object, striped: bool | None) -> Any:
        lanes = cls.start(storage)
        cls.check_items(value, "value")
        return _batched(value, op, lanes, sync, cls.dtype, striped)

    @classmethod
    def reduce(cls, value: object, op: Operator, *, sync_physical_warp: bool = False, storage: object = None) -> Any:
        """Reduction i, in lane i."""
        return cls._run(value, op, sync_physical_warp, storage, None)

    @classmethod
    def reduce_to_blocked(
        cls, value: object, op: Operator, *, sync_physical_warp: bool = False, storage: object = None
    ) -> Any:
        """A run of reductions in each lane."""
        return cls._run(value, op, sync_physical_warp, storage, False)

    @classmethod
    def reduce_to_striped(
        cls, value: object, op: Operator, *, sync_physical_warp: bool = False, storage: object = None
    ) -> Any:
        """Every `width`-th reduction in each lane."""
        return cls._run(value, op, sync_physical_warp, storage, True)
