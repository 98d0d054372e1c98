"""Reductions over the lanes of a warp, or of equal parts of it, by shuffles."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from ....errors import DSLTypeError
from ....expr.control.control_flow import if_expr
from ....expr.gpu import shuffle_down
from ....expr.numeric import Boolean, Int32, as_numeric
from ....ir.enums import ReductionOp
from ..elements import E, Element, ElementType, as_element, as_items, check_count, is_before, is_items, select, shuffle
from ..operators import Operator, check_operator, combine, identity_of
from .spec import WarpMeta, check_width, place_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from ....expr.annotations import IntLike, ScalarT

    Count = IntLike | None

T = TypeVar("T")


def folded(value: object, op: Operator, dtype: ElementType | None) -> Element:
    """What a lane brings: its element, or its items combined in order."""
    if not is_items(value, dtype):
        return as_element(value, dtype, "value")
    return functools.reduce(functools.partial(combine, op), as_items(value, dtype, "value"))


def in_order(op: Operator, mine: E, other: E, offset: int, place: Int32) -> E:
    """Two neighbouring groups of `offset` lanes combined, in both: the one of the lower lanes comes first."""
    if isinstance(op, ReductionOp):
        return combine(op, mine, other)
    upper = (place & offset) != 0
    return combine(op, select(upper, other, mine), select(upper, mine, other))


def reduced(x: E, op: Operator, lanes: int) -> E:
    """All elements of a logical warp combined, in all its lanes."""
    # Neighbours first: every way of reducing a warp adds in the same order, to the last bit.
    made, offset = x, 1
    while offset < lanes:
        made = in_order(op, made, shuffle(made, offset, lanes, "xor"), offset, place_in(lanes))
        offset *= 2
    return made


def reduced_valid(x: E, op: Operator, lanes: int, valid: int | Int32) -> E:
    """The elements of the first `valid` lanes combined, in all lanes; `op` is never given another one."""
    place = place_in(lanes)
    made, offset = x, 1
    while offset < lanes:
        other = shuffle(made, offset, lanes, "xor")
        upper = (place & offset) != 0
        first, second = select(upper, other, made), select(upper, made, other)
        start = place - place % (2 * offset)
        made = combined_if(is_before(start + offset, valid), op, first, second, first)
        offset *= 2
    return made


def combined_if(condition: Boolean, op: Operator, a: E, b: E, otherwise: E) -> E:
    """Two elements combined where that is wanted; elsewhere `op` is not called."""
    return cast("E", if_expr(condition, lambda: combine(op, a, b), lambda: otherwise))


def check_single(value: object, dtype: ElementType | None, valid_items: object) -> None:
    """Refuse a number of valid lanes for lanes that bring several items."""
    if valid_items is not None and is_items(value, dtype):
        raise DSLTypeError("valid_items counts lanes that bring one element each; combine the items of a lane first")


Ready = tuple[Element, int | Int32 | None]


def prepared(value: object, op: Operator, lanes: int, valid_items: object, dtype: ElementType | None) -> Ready:
    """What a lane brings, and the number of valid lanes where that still matters: neutral elements need no guard."""
    check_single(value, dtype, valid_items)
    valid = check_count("valid_items", valid_items, lanes)
    x = folded(value, op, dtype)
    nothing = None if valid is None else identity_of(op, x)
    if valid is None or nothing is None:
        return x, valid
    return select(is_before(place_in(lanes), valid), x, nothing), None


@overload
def warp_reduce(
    value: ScalarT, op: Operator, *, width: int | None = None, valid_items: Count = None, _dtype: None = None
) -> ScalarT: ...
@overload
def warp_reduce(
    value: object, op: Operator, *, width: int | None = None, valid_items: Count = None,
    _dtype: ElementType | None = None,
) -> Any: ...  # fmt: skip
def warp_reduce(
    value: object, op: Operator, *, width: int | None = None, valid_items: Count = None,
    _dtype: ElementType | None = None,
) -> object:  # fmt: skip
    """All elements of a logical warp combined, in all its lanes, by shuffles."""
    op, lanes = check_operator(op), check_width(width)
    x, valid = prepared(value, op, lanes, valid_items, _dtype)
    return reduced(x, op, lanes) if valid is None else reduced_valid(x, op, lanes, valid)


def _flag(what: str, flag: object) -> Boolean:
    number = as_numeric(flag)
    if number.is_float:
        raise DSLTypeError(f"{what} must be a Boolean or an integer, got {flag!r}")
    return number if isinstance(number, Boolean) else number != 0


def _to_heads(x: E, last: Boolean, op: Operator, lanes: int) -> E:
    """The elements from each lane up to the next one that is the last of its segment, combined."""
    made, ended, offset = x, last, 1
    while offset < lanes:
        made = select(ended, made, combine(op, made, shuffle(made, offset, lanes, "down")))
        ended = ended | shuffle_down(ended, offset, lanes)
        offset *= 2
    return made


def warp_head_segmented_reduce(
    value: T, head_flag: IntLike | bool, op: Operator, *, width: int | None = None, _dtype: ElementType | None = None
) -> T:
    """The elements of each segment combined, in its first lane; segments start where `head_flag` is set, and at lane 0.

    What the other lanes get is unspecified.

    >>> def sums():
    ...     start = fx.lane_id() % 4 == 0
    ...     return fx.coop.warp_head_segmented_reduce(fx.lane_id(), start, fx.ReductionOp.ADD, width=8)
    >>> flyc.evaluate(sums, threads=8)[::4]
    [6, 22]
    """
    op, lanes = check_operator(op), check_width(width)
    x, head = folded(value, op, _dtype), _flag("head_flag", head_flag)
    last = (place_in(lanes) == lanes - 1) | shuffle_down(head, 1, lanes)
    return cast("T", _to_heads(x, last, op, lanes))


def warp_tail_segmented_reduce(
    value: T, tail_flag: IntLike | bool, op: Operator, *, width: int | None = None, _dtype: ElementType | None = None
) -> T:
    """The elements of each segment combined, in its first lane; segments end where `tail_flag` is set, and at the last.

    >>> def largest():
    ...     end = fx.lane_id() == 4
    ...     return fx.coop.warp_tail_segmented_reduce(fx.lane_id(), end, fx.ReductionOp.MAX, width=8)
    >>> made = flyc.evaluate(largest, threads=8)
    >>> made[0], made[5]
    (4, 7)
    """
    op, lanes = check_operator(op), check_width(width)
    x, tail = folded(value, op, _dtype), _flag("tail_flag", tail_flag)
    return cast("T", _to_heads(x, (place_in(lanes) == lanes - 1) | tail, op, lanes))


class WarpReduce(metaclass=WarpMeta):
    """Reductions of logical warps of a width, by shuffles."""

    function: Callable[..., Any] = staticmethod(warp_reduce)

    @classmethod
    def reduce(cls, value: object, op: Operator, *, valid_items: Count = None, storage: object = None) -> Any:
        """All elements combined, in all lanes."""
        lanes = cls.start(storage)
        return cls.function(value, op, width=lanes, valid_items=valid_items, _dtype=cls.dtype)

    @classmethod
    def head_segmented_reduce(
        cls, value: object, head_flag: IntLike | bool, op: Operator, *, storage: object = None
    ) -> Any:
        """The elements of each segment combined, in the lane that starts it."""
        return warp_head_segmented_reduce(value, head_flag, op, width=cls.start(storage), _dtype=cls.dtype)

    @classmethod
    def tail_segmented_reduce(
        cls, value: object, tail_flag: IntLike | bool, op: Operator, *, storage: object = None
    ) -> Any:
        """The elements of each segment combined, in its first lane; a flag says where one ends."""
        return warp_tail_segmented_reduce(value, tail_flag, op, width=cls.start(storage), _dtype=cls.dtype)
