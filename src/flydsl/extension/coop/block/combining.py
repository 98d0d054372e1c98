"""Operators of reductions and scans, and what they do to the lanes of a warp.

An operator is a `ReductionOp` or a function of two items that is associative. Functions need no identity: which lanes
hold something is known from their position.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ....errors import DSLTypeError
from ....ir.enums import ReductionOp
from ..operators import combine, has_infinity, identity
from ..warp import warp_reduce, warp_scan_with_aggregate
from .elements import Item, ItemType, as_item, from_lane, is_scalar_class, select, widened

if TYPE_CHECKING:
    from ....expr.numeric import Boolean, Int32, Numeric


@dataclass(frozen=True)
class Operator:
    """An operator on items of one class."""

    owner: str
    dtype: ItemType
    op: ReductionOp | Callable[[Item, Item], object]
    neutral: object

    def __call__(self, a: Item, b: Item) -> Item:
        """Two items combined, the left one first."""
        if isinstance(self.op, ReductionOp):
            return combine(self.op, cast("Numeric", a), cast("Numeric", b))
        return widened(self.owner, self.dtype, self.op(a, b))

    def fold(self, items: Sequence[Item]) -> Item:
        """All items combined, from the left."""
        return functools.reduce(self, items)

    @property
    def identity(self) -> Item | None:
        """What changes nothing; None where nobody said what that is."""
        if self.neutral is not None:
            value = cast("Callable[[object], object]", self.neutral)(self.dtype) if callable(self.neutral) else None
            return as_item(self.owner, self.dtype, self.neutral if value is None else value)
        if not isinstance(self.op, ReductionOp) or not is_scalar_class(self.dtype):
            return None
        bounded = self.op in (ReductionOp.MAX, ReductionOp.MIN)
        if bounded and self.dtype.is_float and not has_infinity(self.dtype):
            return None
        return identity(self.op, self.dtype)

    @property
    def commutative(self) -> bool:
        """Whether the order of the operands does not matter."""
        return isinstance(self.op, ReductionOp) or bool(getattr(self.op, "commutative", False))


def operator_of(owner: str, dtype: ItemType, op: object, neutral: object = None) -> Operator:
    """An operator, checked; `neutral` is the identity or a function that gives it for a class."""
    if isinstance(op, ReductionOp):
        if not is_scalar_class(dtype):
            raise DSLTypeError(f"{owner}: {op.name} combines scalars; items of {dtype} need a function of two items")
    elif not callable(op):
        raise DSLTypeError(
            f"{owner}: op must be an fx.ReductionOp such as fx.ReductionOp.ADD or a function of two items, got {op!r}"
        )
    if neutral is None and not isinstance(op, ReductionOp):
        neutral = getattr(op, "identity", None)
    return Operator(owner, dtype, cast("ReductionOp | Callable[[Item, Item], object]", op), neutral)


def fold_warp(
    mine: Item, op: Operator, lanes: int, lane: Int32, live: Callable[[Int32], Boolean] | None = None
) -> Item:
    """The items of all lanes combined in their order, in all lanes.

    `live` tells of a lane whether it has an item; those that do come first.
    """
    if isinstance(op.op, ReductionOp) and live is None:
        return warp_reduce(cast("Numeric", mine), op.op, width=lanes)
    offset = 1
    while offset < lanes:
        other = from_lane(mine, offset, lanes, "xor")
        upper = (lane & offset) != 0
        left, right = select(upper, other, mine), select(upper, mine, other)
        mine = op(left, right)
        if live is not None:
            mine = select(live(lane - lane % (2 * offset) + offset), mine, left)
        offset *= 2
    return mine


def scan_warp(mine: Item, op: Operator, lanes: int, lane: Int32) -> tuple[Item, Item]:
    """The items before a lane combined, which says nothing in the first one, and those of all lanes."""
    if isinstance(op.op, ReductionOp) and op.identity is not None:
        return warp_scan_with_aggregate(cast("Numeric", mine), op.op, width=lanes)[1:]
    made, offset = mine, 1
    while offset < lanes:
        before = from_lane(made, offset, lanes, "up")
        made = select(lane >= offset, op(before, made), made)
        offset *= 2
    if lanes == 1:
        return made, made
    return from_lane(made, 1, lanes, "up"), from_lane(made, lanes - 1, lanes, "idx")
