"""The combining operations of reductions and scans: what they do to two values, and their identities."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...errors import DSLTypeError
from ...expr import arith
from ...expr.numeric import Boolean, Numeric
from ...expr.scalars.scalar_ops import make
from ...ir.enums import ReductionOp
from ...ir.fold import FORMATS

if TYPE_CHECKING:
    from ...expr.annotations import ScalarT


def check_op(op: object) -> ReductionOp:
    """A `ReductionOp`, or a TypeError."""
    if not isinstance(op, ReductionOp):
        raise DSLTypeError(f"op must be an fx.ReductionOp such as fx.ReductionOp.ADD, got {op!r}")
    return op


def combine(op: ReductionOp, a: ScalarT, b: ScalarT) -> ScalarT:
    """`a` and `b` combined, of their class."""
    return cast("ScalarT", _combined(op, a, b))


def _combined(op: ReductionOp, a: Numeric, b: Numeric) -> Numeric:
    if a.dtype is Boolean:
        if op is ReductionOp.MAX:
            return a | b
        if op is ReductionOp.MIN:
            return a & b
        raise DSLTypeError(f"Booleans cannot be combined with {op.name}; convert them with .to(fx.Int32) first")
    if op is ReductionOp.ADD:
        return a + b
    if op is ReductionOp.MUL:
        return a * b
    return arith.max(a, b) if op is ReductionOp.MAX else arith.min(a, b)


def identity(op: ReductionOp, dtype: type[ScalarT]) -> ScalarT:
    """What changes nothing when combined: 0, 1, the lowest value or -inf, the highest or +inf.

    >>> from flydsl.expr.numeric import Float32, Int8
    >>> identity(ReductionOp.MAX, Int8), identity(ReductionOp.MIN, Float32)
    (Int8(-128), Float32(inf))
    """
    if op is ReductionOp.ADD or op is ReductionOp.MUL:
        return dtype(0 if op is ReductionOp.ADD else 1)
    lowest = op is ReductionOp.MAX
    if dtype.is_float:
        if not has_infinity(dtype):
            raise DSLTypeError(f"{dtype} has no infinity to start a {op.name} from; convert with .to(fx.Float32) first")
        return dtype(float("-inf") if lowest else float("inf"))
    if dtype is Boolean:
        return make(dtype, not lowest)
    if dtype.signed:
        return dtype(-(1 << (dtype.width - 1)) if lowest else (1 << (dtype.width - 1)) - 1)
    return dtype(0 if lowest else (1 << dtype.width) - 1)


def has_infinity(dtype: type[Numeric]) -> bool:
    """Whether a float class has infinities."""
    return dtype.width >= 16 and dtype.ir_name in FORMATS
