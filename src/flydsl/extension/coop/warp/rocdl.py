"""Reductions and scans of AMD's waves in registers, and by shuffles on other targets and for other elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from ....expr.numeric import Numeric
from ....ir.enums import ReductionOp
from .. import dpp
from ..elements import E, ElementType
from ..operators import Operator, check_operator
from . import reduce, scan
from .reduce import prepared, reduced, reduced_valid
from .scan import Moves, Scan
from .spec import check_width

if TYPE_CHECKING:
    from collections.abc import Callable

    from ....expr.annotations import ScalarT
    from ....expr.numeric import Int32
    from .reduce import Count
    from .scan import Start

T = TypeVar("T")


class RegisterMoves(Moves):
    """From lane to lane by DPP, where there is such an instruction."""

    def inclusive(self, x: E, op: Operator, lanes: int, place: Int32) -> E:
        made = None
        if isinstance(x, Numeric) and isinstance(op, ReductionOp):
            made = dpp.inclusive_scan(x, op, lanes, place)
        return super().inclusive(x, op, lanes, place) if made is None else cast("E", made)

    def before(self, x: E, op: Operator, lanes: int, place: Int32) -> E:
        made = None
        if lanes > 1 and isinstance(x, Numeric) and isinstance(op, ReductionOp):
            made = dpp.one_before(x, op, lanes, place)
        return super().before(x, op, lanes, place) if made is None else cast("E", made)

    def last(self, x: E, lanes: int) -> E:
        made = dpp.last_of_segment(x, lanes) if lanes > 1 and isinstance(x, Numeric) else None
        return super().last(x, lanes) if made is None else cast("E", made)


REGISTERS = RegisterMoves()


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
    """All elements of a logical warp combined, in all its lanes: `fx.coop.warp_reduce(x, fx.ReductionOp.ADD)`.

    `op` may be an associative function of two elements, which come in the order of their lanes. A lane's items are
    combined first. With `valid_items` only so many lanes of each logical warp count; without any the result is
    unspecified.

    >>> flyc.evaluate(lambda: fx.coop.warp_reduce(fx.lane_id() + 1, fx.ReductionOp.ADD, width=4), threads=4)
    [10, 10, 10, 10]
    """
    op, lanes = check_operator(op), check_width(width)
    x, valid = prepared(value, op, lanes, valid_items, _dtype)
    if valid is not None:
        return reduced_valid(x, op, lanes, valid)
    made = dpp.warp_reduce(x, op, lanes) if isinstance(x, Numeric) and isinstance(op, ReductionOp) else None
    return reduced(x, op, lanes) if made is None else made


def warp_scan_with_aggregate(
    value: T, op: Operator, *, width: int | None = None, init: Start = None, valid_items: Count = None,
    _dtype: ElementType | None = None,
) -> tuple[T, T, Any]:  # fmt: skip
    """Inclusive scan, exclusive scan, and all elements combined; the last leaves `init` out.

    `op` may be an associative function of two elements, which come in the order of their lanes. A lane may bring items,
    which follow those of the lanes before it. With `valid_items` so many lanes of each logical warp count, and what
    the others get is unspecified; so is what the first lane has before it, without `init` and for a function.

    >>> def sums():
    ...     return fx.coop.warp_scan_with_aggregate(fx.lane_id() + 1, fx.ReductionOp.ADD, width=4)
    >>> flyc.evaluate(sums, threads=4)
    [(1, 0, 10), (3, 1, 10), (6, 3, 10), (10, 6, 10)]
    """
    made = Scan(REGISTERS, value, op, width, init, valid_items, _dtype)
    return made.inclusive(), made.exclusive(), made.aggregate()


def warp_scan(
    value: T, op: Operator, *, width: int | None = None, init: Start = None, valid_items: Count = None,
    _dtype: ElementType | None = None,
) -> tuple[T, T]:  # fmt: skip
    """Inclusive and exclusive scan.

    >>> flyc.evaluate(lambda: fx.coop.warp_scan(fx.lane_id() + 1, fx.ReductionOp.ADD, width=4), threads=4)
    [(1, 0), (3, 1), (6, 3), (10, 6)]
    """
    made = Scan(REGISTERS, value, op, width, init, valid_items, _dtype)
    return made.inclusive(), made.exclusive()


def warp_inclusive_scan(
    value: T, op: Operator, *, width: int | None = None, init: Start = None, valid_items: Count = None,
    _dtype: ElementType | None = None,
) -> T:  # fmt: skip
    """The elements of the lanes up to this one combined, `init` in front.

    >>> flyc.evaluate(lambda: fx.coop.warp_inclusive_scan(fx.lane_id() + 1, fx.ReductionOp.ADD, width=4), threads=4)
    [1, 3, 6, 10]
    """
    return Scan(REGISTERS, value, op, width, init, valid_items, _dtype).inclusive()


def warp_exclusive_scan(
    value: T, op: Operator, *, width: int | None = None, init: Start = None, valid_items: Count = None,
    _dtype: ElementType | None = None,
) -> T:  # fmt: skip
    """The elements of the lanes before this one combined; the first lane gets `init` or the identity.

    >>> flyc.evaluate(lambda: fx.coop.warp_exclusive_scan(fx.lane_id() + 1, fx.ReductionOp.ADD, width=4), threads=4)
    [0, 1, 3, 6]
    """
    return Scan(REGISTERS, value, op, width, init, valid_items, _dtype).exclusive()


class WarpReduce(reduce.WarpReduce):
    """Reductions of logical warps of a width: `fx.coop.WarpReduce[fx.Int32, 8].reduce(x, fx.ReductionOp.ADD)`.

    >>> flyc.evaluate(lambda: fx.coop.WarpReduce[fx.Int32, 2].reduce(fx.lane_id(), fx.ReductionOp.MAX), threads=4)
    [1, 1, 3, 3]
    """

    function: Callable[..., Any] = staticmethod(warp_reduce)


class WarpScan(scan.WarpScan):
    """Scans of logical warps of a width: `fx.coop.WarpScan[fx.Int32, 8].inclusive_scan(x, fx.ReductionOp.ADD)`.

    >>> def running():
    ...     return fx.coop.WarpScan[fx.Int32, 2].inclusive_scan(fx.lane_id(), fx.ReductionOp.ADD)
    >>> flyc.evaluate(running, threads=4)
    [0, 1, 2, 5]
    """

    moves = REGISTERS
