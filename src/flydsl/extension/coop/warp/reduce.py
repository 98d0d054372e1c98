"""Reductions over the lanes of a warp, or of equal segments of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....expr.gpu import shuffle_xor
from ....ir.enums import ReductionOp
from .. import dpp
from ..operators import check_op, combine
from .spec import check_scalar, check_width

if TYPE_CHECKING:
    from ....expr.annotations import ScalarT


def warp_reduce(value: ScalarT, op: ReductionOp, *, width: int | None = None) -> ScalarT:
    """All values of a segment combined, in all its lanes: `fx.coop.warp_reduce(x, fx.ReductionOp.ADD)`.

    >>> flyc.evaluate(lambda: fx.coop.warp_reduce(fx.lane_id() + 1, fx.ReductionOp.ADD, width=4), threads=4)
    [10, 10, 10, 10]
    """
    op, lanes = check_op(op), check_width(width)
    made = check_scalar(value)
    in_registers = dpp.warp_reduce(made, op, lanes)
    if in_registers is not None:
        return in_registers
    # Neighbours first: every way of reducing a warp adds in the same order, to the last bit.
    offset = 1
    while offset < lanes:
        made = combine(op, made, shuffle_xor(made, offset, lanes))
        offset *= 2
    return made
