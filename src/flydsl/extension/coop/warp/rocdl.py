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
    made = Scan(REGISTERS, value, op, width, init, valid_items, _dtype)
    return made.inclusive(), made.exclusive(), made.aggregate()


def warp_scan(
    value: T, op: Operator, *, width: int | None = None, init: Start = None, valid_items: Count = None,
    _dtype: ElementType | None = None,
) -> tuple[T, T]:  # fmt: skip
    made = Scan(REGISTERS, value, op, width, init, valid_items, _dtype)
    return made.inclusive(), made.exclusive()


def warp_inclusive_scan(
    value: T, op: Operator, *, width: int | None = None, init: Start = None, valid_items: Count = None,
    _dtype: ElementType | None = None,
) -> T:  # fmt: skip
    return Scan(REGISTERS, value, op, width, init, valid_items, _dtype).inclusive()


def warp_exclusive_scan(
    value: T, op: Operator, *, width: int | None = None, init: Start = None, valid_items: Count = None,
    _dtype: ElementType | None = None,
) -> T:  # fmt: skip
    return Scan(REGISTERS, value, op, width, init, valid_items, _dtype).exclusive()


# The same contract as the functions by shuffles: the words and examples are theirs.
for _own, _portable in (
    (warp_reduce, reduce.warp_reduce),
    (warp_scan_with_aggregate, scan.warp_scan_with_aggregate),
    (warp_scan, scan.warp_scan),
    (warp_inclusive_scan, scan.warp_inclusive_scan),
    (warp_exclusive_scan, scan.warp_exclusive_scan),
):
    _own.__doc__ = _portable.__doc__


class WarpReduce(reduce.WarpReduce):
    __doc__ = reduce.WarpReduce.__doc__
    function: Callable[..., Any] = staticmethod(warp_reduce)


class WarpScan(scan.WarpScan):
    __doc__ = scan.WarpScan.__doc__
    moves = REGISTERS


__all__ = ["warp_exclusive_scan", "warp_inclusive_scan", "warp_reduce", "warp_scan", "warp_scan_with_aggregate"]
