"""Powers with integer exponents, which no target has: `math.ipowi` and `math.fpowi`, in the conversions.

A power of an integer is a loop of squarings, in the exponent's binary digits; one known at compile time is the products
themselves. A float to an integer power is `powf` with the exponent as an exact double.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import math as xmath
from xdsl.dialects.builtin import Float64Type, IntegerAttr, VectorType, f64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialects.upstream import scf
from ...dialects.upstream.vector import FromElementsOp
from ...ir import arith
from ...ir.builder import Builder, elem_of, operands_of
from ..rebuild import Handler
from .expand_math import IN_F64, Calculator
from .small_floats import like

if TYPE_CHECKING:
    from ...lowering.rebuild import Rebuilder

EXACT_CHAIN = 4
"""Largest power of a float that is products of its own type: each costs half a unit in the last place."""


def _constant(value: SSAValue) -> int | None:
    """The number an integer constant stands for."""
    if isinstance(value.owner, arith.ConstantOp):
        attr = value.owner.properties["value"]
        if isinstance(attr, IntegerAttr):
            return cast(Any, attr).value.data
    return None


def _lanes(b: Builder, operands: list[SSAValue], type_: Attribute, one: Any) -> SSAValue:
    """A function of scalars on each element of vectors."""
    if not isinstance(type_, VectorType):
        return one(*operands)
    count = type_.get_shape()[0]
    found = [one(*(b.extract(v, i) for v in operands)) for i in range(count)]
    return b.pure(FromElementsOp, found, cast(Attribute, type_), {})


# --- integers -----------------------------------------------------------------------------------------------------


def _known_power(b: Builder, base: SSAValue, exponent: int) -> SSAValue:
    result: SSAValue | None = None
    square = base
    while exponent:
        if exponent & 1:
            result = square if result is None else b.int_binary("muli", result, square)
        exponent >>= 1
        if exponent:
            square = b.int_binary("muli", square, square)
    return b.const(1, base.type) if result is None else result


def _loop(b: Builder, base: SSAValue, exponent: SSAValue) -> SSAValue:
    """The power by a loop over the exponent's bits, from the lowest; negative exponents take none of them."""
    type_ = base.type
    zero, one = b.const(0, type_), b.const(1, type_)
    types = [type_, type_, type_]
    before, after = Block(arg_types=types), Block(arg_types=types)
    with b.region(before):
        more = b.cmpi("sgt", before.args[1], zero)
        b.opn(scf.ConditionOp, [more, *before.args], ())
    with b.region(after):
        square, left, result = after.args
        times = b.select(b.cmpi("ne", b.int_binary("andi", left, one), zero), square, one)
        product = b.int_binary("muli", result, times)
        b.opn(scf.YieldOp, (b.int_binary("muli", square, square), b.int_binary("shrui", left, one), product), ())
    made = b.with_regions(scf.WhileOp, (base, exponent, one), types, [Region(before), Region(after)])
    return made.results[2]


def _integer_power(b: Builder, base: SSAValue, exponent: SSAValue) -> SSAValue:
    """A negative power is 0, but for bases 1 and -1."""
    power = _loop(b, base, exponent)
    type_ = base.type
    zero, one, minus = (b.const(n, type_) for n in (0, 1, -1))
    odd = b.cmpi("ne", b.int_binary("andi", exponent, one), zero)
    of_minus_one = b.select(odd, minus, one)
    inverse = b.select(b.cmpi("eq", base, one), one, b.select(b.cmpi("eq", base, minus), of_minus_one, zero))
    return b.select(b.cmpi("slt", exponent, zero), inverse, power)


def _ipowi(r: Rebuilder, op: Operation) -> None:
    base, exponent = r.vals(operands_of(op))
    known = _constant(exponent)
    if known is not None and known >= 0:
        r.vm[op.results[0]] = _known_power(r.b, base, known)
        return
    r.vm[op.results[0]] = _lanes(r.b, [base, exponent], base.type, partial(_integer_power, r.b))


# --- floats -------------------------------------------------------------------------------------------------------


def _fpowi(r: Any, op: Operation) -> None:
    b: Builder = r.b
    base, exponent = r.vals(operands_of(op))
    type_ = base.type
    known = _constant(exponent)
    if known is not None and 0 < known <= EXACT_CHAIN:
        result = base
        for digit in f"{known:b}"[1:]:
            result = b.float_binary("mulf", result, result)
            if digit == "1":
                result = b.float_binary("mulf", result, base)
        r.vm[op.results[0]] = result
        return
    double = like(type_, f64)
    power = b.cast("sitofp", exponent, double)
    wide = isinstance(elem_of(type_), Float64Type)
    x = base if wide else b.cast("extf", base, double)
    if wide and r.native_math.double:
        found = b.pure(xmath.PowFOp, (x, power), double, {})
    else:
        found = IN_F64[xmath.PowFOp](Calculator(b, double), x, power, wide)
    r.vm[op.results[0]] = found if wide else b.cast("truncf", found, type_)


HANDLERS = cast(dict[type[Operation], Handler], {xmath.IPowIOp: _ipowi, xmath.FPowIOp: _fpowi})
