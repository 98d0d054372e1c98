"""Ops of `math` and `arith` that are others in disguise, in the conversions: tests of floats, clamps, sine and cosine
at once, unsigned casts of indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from xdsl.dialects import math as xmath
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IndexType
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.upstream.arith import IndexCastUIOp
from ...dialects.upstream.float_tests import ClampFOp, IsFiniteOp, IsInfOp, IsNaNOp, IsNormalOp, SincosOp
from ...errors import DSLCompileError
from ...ir import arith
from ...ir.builder import Builder, elem_of, i64, operands_of
from ...ir.types import bit_width
from ..rebuild import Handler, Rebuilder
from .small_floats import like

_SMALLEST_NORMAL = {
    Float16Type(): 2.0**-14,
    BFloat16Type(): 2.0**-126,
    Float32Type(): 2.0**-126,
    Float64Type(): 2.0**-1022,
}
"""By type."""


def _magnitude(b: Builder, x: SSAValue) -> SSAValue:
    return b.pure(xmath.AbsFOp, (x,), x.type, {})


def _nan(b: Builder, x: SSAValue) -> SSAValue:
    return b.cmpf("uno", x, x)


def _infinite(b: Builder, x: SSAValue) -> SSAValue:
    return b.cmpf("oeq", _magnitude(b, x), b.const(float("inf"), x.type))


def _finite(b: Builder, x: SSAValue) -> SSAValue:
    return b.cmpf("olt", _magnitude(b, x), b.const(float("inf"), x.type))


def _normal(b: Builder, x: SSAValue) -> SSAValue:
    smallest = _SMALLEST_NORMAL.get(cast(Any, elem_of(x.type)))
    if smallest is None:
        raise DSLCompileError(f"math.isnormal of {x.type}: there is none")
    large = b.cmpf("oge", _magnitude(b, x), b.const(smallest, x.type))
    return b.int_binary("andi", large, _finite(b, x))


def _test(meaning: Callable[[Builder, SSAValue], SSAValue]) -> Handler:
    def handle(r: Rebuilder, op: Operation) -> None:
        r.vm[op.results[0]] = meaning(r.b, r.val(operands_of(op)[0]))

    return handle


def _clamp(r: Rebuilder, op: ClampFOp) -> None:
    value, low, high = r.vals(operands_of(op))
    flags: dict[str, Attribute] = {"fastmath": op.fastmath}
    top = r.b.pure(arith.MinimumfOp, (value, high), value.type, dict(flags))
    r.vm[op.result] = r.b.pure(arith.MaximumfOp, (top, low), value.type, flags)


def _sincos(r: Rebuilder, op: SincosOp) -> None:
    for cls, result in ((xmath.SinOp, op.sin), (xmath.CosOp, op.cos)):
        single = cls.create(operands=[op.operand], result_types=[result.type], properties={"fastmath": op.fastmath})
        handler = r.table().get(cls)
        r.copy(single) if handler is None else handler(r, single)
        r.vm[result] = r.vm.pop(single.results[0])
        single.erase()


def _index_castui(r: Rebuilder, op: IndexCastUIOp) -> None:
    value, type_ = r.val(op.input), op.result.type
    if isinstance(elem_of(type_), IndexType) and bit_width(elem_of(value.type)) < 64:
        value = r.b.cast("extui", value, like(value.type, i64))
    r.vm[op.result] = r.b.cast("index_cast", value, type_)


HANDLERS = cast(
    dict[type[Operation], Handler],
    {
        IsNaNOp: _test(_nan),
        IsInfOp: _test(_infinite),
        IsFiniteOp: _test(_finite),
        IsNormalOp: _test(_normal),
        ClampFOp: _clamp,
        SincosOp: _sincos,
        IndexCastUIOp: _index_castui,
    },
)
"""Handlers for every conversion."""
