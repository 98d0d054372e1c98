"""The combining operations of reductions and scans: what they do to two elements, and their identities.

An operation is a `ReductionOp`, or any associative function of two elements that gives a third.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ...errors import DSLTypeError
from ...expr import arith
from ...expr.numeric import Boolean, Numeric
from ...expr.scalars.scalar_ops import make
from ...expr.structs import StructValue
from ...ir.enums import ReductionOp
from ...ir.fold import FORMATS
from .elements import E, Element, convert, type_of

if TYPE_CHECKING:
    from ...expr.annotations import ScalarT

Operator: TypeAlias = ReductionOp | Callable[[Any, Any], Any]


def check_operator(op: object) -> Operator:
    """A `ReductionOp` or a function of two elements, or a TypeError."""
    if isinstance(op, ReductionOp) or callable(op):
        return op
    raise DSLTypeError(
        f"op must be an fx.ReductionOp such as fx.ReductionOp.ADD, or a function of two elements; got {op!r}"
    )


def combine(op: Operator, a: E, b: E) -> E:
    """`a` and `b` combined, of their class; `a` comes first."""
    if isinstance(op, ReductionOp):
        return cast("E", _combined(op, a, b))
    return cast("E", convert(op(a, b), type_of(a), "what op gives"))


def _combined(op: ReductionOp, a: Element, b: Element) -> Element:
    if isinstance(a, StructValue) or isinstance(b, StructValue):
        raise DSLTypeError(f"{op.name} combines numbers; for {type(a)} give a function of two of them as op")
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


def identity_of(op: Operator, element: E) -> E | None:
    """What changes nothing when combined with an element, if that is known."""
    if not isinstance(op, ReductionOp) or isinstance(element, StructValue):
        return None
    dtype = element.dtype
    if op in (ReductionOp.MAX, ReductionOp.MIN) and dtype.is_float and not has_infinity(dtype):
        return None
    return cast("E", convert(identity(op, dtype), type_of(element), "the identity"))


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
