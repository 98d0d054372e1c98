"""Arithmetic on float values of one type, as functions of `math` are written out with it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import math as xmath
from xdsl.dialects.builtin import f64
from xdsl.ir import Attribute, Operation, SSAValue

from ...ir.builder import Builder, elem_of, i32, i64
from .small_floats import like


class Calculator:
    """Arithmetic on values of one float type, scalar or vector."""

    def __init__(self, b: Builder, type_: Attribute):
        self.b, self.type = b, type_
        self.wide = elem_of(type_) == f64
        self.bits = like(type_, i64 if self.wide else i32)

    def const(self, value: float) -> SSAValue:
        return self.b.const(value, self.type)

    def _value(self, x: SSAValue | float) -> SSAValue:
        return x if isinstance(x, SSAValue) else self.const(x)

    def add(self, x: SSAValue | float, y: SSAValue | float) -> SSAValue:
        return self.b.float_binary("addf", self._value(x), self._value(y))

    def sub(self, x: SSAValue | float, y: SSAValue | float) -> SSAValue:
        return self.b.float_binary("subf", self._value(x), self._value(y))

    def mul(self, x: SSAValue | float, y: SSAValue | float) -> SSAValue:
        return self.b.float_binary("mulf", self._value(x), self._value(y))

    def div(self, x: SSAValue | float, y: SSAValue | float) -> SSAValue:
        return self.b.float_binary("divf", self._value(x), self._value(y))

    def fma(self, x: SSAValue | float, y: SSAValue | float, z: SSAValue | float) -> SSAValue:
        return self.b.pure(xmath.FmaOp, tuple(self._value(v) for v in (x, y, z)), self.type, {})

    def call(self, op: type[Operation], *args: SSAValue) -> SSAValue:
        return self.b.pure(op, args, self.type, {})

    def abs(self, x: SSAValue) -> SSAValue:
        return self.call(xmath.AbsFOp, x)

    def sign_of(self, x: SSAValue, sign: SSAValue) -> SSAValue:
        return self.call(xmath.CopySignOp, x, sign)

    def round(self, x: SSAValue) -> SSAValue:
        return self.call(xmath.RoundEvenOp, x)

    def sqrt(self, x: SSAValue) -> SSAValue:
        return self.call(xmath.SqrtOp, x)

    def neg(self, x: SSAValue) -> SSAValue:
        return self.b.negf(x)

    def test(self, predicate: str, x: SSAValue, y: SSAValue | float) -> SSAValue:
        return self.b.cmpf(predicate, x, self._value(y))

    def where(self, flag: SSAValue, x: SSAValue | float, y: SSAValue | float) -> SSAValue:
        """`x` where the flag holds, else `y`."""
        return self.b.select(flag, self._value(x), self._value(y))

    def clamp(self, x: SSAValue, low: float, high: float) -> SSAValue:
        """Within bounds; NaN becomes the lower one."""
        y = self.b.float_binary("maxnumf", x, self.const(low))
        return self.b.float_binary("minnumf", y, self.const(high))

    def polynomial(self, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
        """Horner's scheme, highest power first."""
        total = self.const(coefficients[0])
        for c in coefficients[1:]:
            total = self.fma(total, x, c)
        return total

    # --- bits -----------------------------------------------------------------------------------------------------

    def int_const(self, value: int) -> SSAValue:
        return self.b.const(value, self.bits)

    def int_op(self, name: str, x: SSAValue, y: SSAValue | int) -> SSAValue:
        return self.b.int_binary(name, x, y if isinstance(y, SSAValue) else self.int_const(y))

    def as_int(self, x: SSAValue) -> SSAValue:
        return self.b.cast("bitcast", x, self.bits)

    def as_float(self, x: SSAValue) -> SSAValue:
        return self.b.cast("bitcast", x, self.type)

    @property
    def _mantissa(self) -> int:
        return 52 if self.wide else 23

    @property
    def _bias(self) -> int:
        return 1023 if self.wide else 127

    def sum_of(self, x: SSAValue, y: SSAValue) -> tuple[SSAValue, SSAValue]:
        """x + y rounded and what that leaves out; |x| >= |y|, or x is 0."""
        total = self.add(x, y)
        return total, self.sub(y, self.sub(total, x))

    def power_of_two(self, n: SSAValue) -> SSAValue:
        """2^n of integers in the normal range."""
        return self.as_float(self.int_op("shli", self.int_op("addi", n, self._bias), self._mantissa))

    def scaled(self, x: SSAValue, n: SSAValue) -> SSAValue:
        """x * 2^n in two steps, so that results below the normal range are rounded once."""
        half = self.int_op("shrsi", n, 1)
        return self.mul(self.mul(x, self.power_of_two(half)), self.power_of_two(self.int_op("subi", n, half)))

    def to_int(self, x: SSAValue) -> SSAValue:
        return self.b.cast("fptosi", x, self.bits)

    def split(self, x: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Positive x as m * 2^e with sqrt(1/2) <= m < sqrt(2); e as a float."""
        shift = 54.0 if self.wide else 25.0
        tiny = self.test("olt", x, 2.0 ** (1 - self._bias))
        y = self.where(tiny, self.mul(x, 2.0**shift), x)
        word = self.as_int(y)
        root = self.as_int(self.const(0.5**0.5))
        # The distance to sqrt(1/2), in whole exponents.
        e = self.int_op("shrsi", self.int_op("subi", word, root), self._mantissa)
        m = self.as_float(self.int_op("subi", word, self.int_op("shli", e, self._mantissa)))
        exponent = self.b.cast("sitofp", e, self.type)
        return m, self.sub(exponent, self.where(tiny, shift, 0.0))
