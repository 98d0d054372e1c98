"""Scans over the lanes of a warp, or of equal segments of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....expr.gpu import lane_id, shuffle_idx, shuffle_up
from ....expr.numeric import Numeric
from ....ir.enums import ReductionOp
from .. import dpp
from ..operators import check_op, combine, identity
from .spec import check_scalar, check_width

if TYPE_CHECKING:
    from ....expr.annotations import ScalarLike, ScalarT


def _inclusive(x: ScalarT, op: ReductionOp, lanes: int, position: Numeric) -> ScalarT:
    """Each lane's value combined with those of the lanes before it."""
    in_registers = dpp.inclusive_scan(x, op, lanes, position)
    if in_registers is not None:
        return in_registers
    made = x
    offset = 1
    while offset < lanes:
        before = shuffle_up(made, offset, lanes)
        made = (position >= offset).select(combine(op, before, made), made)
        offset *= 2
    return made


def warp_scan_with_aggregate(
    value: ScalarT, op: ReductionOp, *, width: int | None = None, init: ScalarLike | None = None
) -> tuple[ScalarT, ScalarT, ScalarT]:
    """Inclusive scan, exclusive scan, and all values combined; the last leaves `init` out.

    >>> def sums():
    ...     return fx.coop.warp_scan_with_aggregate(fx.lane_id() + 1, fx.ReductionOp.ADD, width=4)
    >>> flyc.evaluate(sums, threads=4)
    [(1, 0, 10), (3, 1, 10), (6, 3, 10), (10, 6, 10)]
    """
    x, op, lanes = check_scalar(value), check_op(op), check_width(width)
    dtype = type(x)
    lane = lane_id()
    position = lane % lanes
    inclusive = _inclusive(x, op, lanes, position)
    start = identity(op, dtype) if init is None else dtype(init)
    shifted = dpp.one_before(inclusive, op, lanes, position) if lanes > 1 else None
    if shifted is None:
        before = shuffle_up(inclusive, 1, lanes) if lanes > 1 else inclusive
        exclusive = (position == 0).select(start, before if init is None else combine(op, start, before))
    else:
        exclusive = shifted if init is None else combine(op, start, shifted)
    aggregate = dpp.last_of_segment(inclusive, lanes) if lanes > 1 else inclusive
    if aggregate is None:
        aggregate = shuffle_idx(inclusive, lane - position + (lanes - 1), lanes)
    return inclusive if init is None else combine(op, start, inclusive), exclusive, aggregate


def warp_scan(
    value: ScalarT, op: ReductionOp, *, width: int | None = None, init: ScalarLike | None = None
) -> tuple[ScalarT, ScalarT]:
    """Inclusive and exclusive scan.

    >>> flyc.evaluate(lambda: fx.coop.warp_scan(fx.lane_id() + 1, fx.ReductionOp.ADD, width=4), threads=4)
    [(1, 0), (3, 1), (6, 3), (10, 6)]
    """
    return warp_scan_with_aggregate(value, op, width=width, init=init)[:2]


def warp_inclusive_scan(
    value: ScalarT, op: ReductionOp, *, width: int | None = None, init: ScalarLike | None = None
) -> ScalarT:
    """The values of the lanes up to this one combined, `init` in front.

    >>> flyc.evaluate(lambda: fx.coop.warp_inclusive_scan(fx.lane_id() + 1, fx.ReductionOp.ADD, width=4), threads=4)
    [1, 3, 6, 10]
    """
    x, op, lanes = check_scalar(value), check_op(op), check_width(width)
    made = _inclusive(x, op, lanes, lane_id() % lanes)
    return made if init is None else combine(op, type(x)(init), made)


def warp_exclusive_scan(
    value: ScalarT, op: ReductionOp, *, width: int | None = None, init: ScalarLike | None = None
) -> ScalarT:
    """The values of the lanes before this one combined; the first lane gets `init` or the identity.

    >>> flyc.evaluate(lambda: fx.coop.warp_exclusive_scan(fx.lane_id() + 1, fx.ReductionOp.ADD, width=4), threads=4)
    [0, 1, 3, 6]
    """
    return warp_scan(value, op, width=width, init=init)[1]
