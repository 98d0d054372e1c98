"""A matrix instruction that adds as the hardware does: aligned to the largest exponent, cut off, rounded.

All of it is exact in f64: a product of two operands has at most 22 bits, and a sum of what is left of them after the
cut fewer than 40. So aligning is a product with a power of two, and cutting off is `trunc`. Exponents are powers of two
themselves: the largest is found by comparing floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import f16, f32, f64, i16
from xdsl.dialects.math import TruncOp
from xdsl.ir import Attribute, SSAValue

from ...dialects.fly.atom_lowering import MmaSums
from ...dialects.fly.atoms import MmaOpType
from ...ir.builder import i32, i64
from ...ir.fold import FORMATS
from ...lowering.expand.small_floats import like
from .mma import Product

if TYPE_CHECKING:
    from .lanes import Emulation

_EXPONENT = 0x7FF << 52
_TWO_BIASES = 0x7FE << 52
_NAN_F32, _NAN_F16 = 0x7FFFFFFF, 0x7FFF
_OF_ZERO = 2.0**-500
_Pair = tuple[Callable[[SSAValue], SSAValue], Callable[[SSAValue], SSAValue]]


class AlignedProduct(Product):
    """One emulated instruction of a unit whose sums are known."""

    unrolls = False  # a kernel has many instructions, and the body is long: compiling it would take seconds more

    def __init__(self, low: Emulation, op: MmaOpType, rules: MmaSums):
        super().__init__(low, op, (True, True), False)
        self.rules = rules

    def key(self) -> tuple[object, ...]:
        return (*super().key(), self.rules)

    def decoded(self, value: SSAValue, operand: int) -> SSAValue:
        """An operand in f32, without the bits that the unit does not read."""
        b, done = self.b, super().decoded(value, operand)
        kept = self.rules.operand_fraction
        if kept is None:
            return done
        word = b.cast("bitcast", done, like(done.type, i32))
        cut = b.int_binary("andi", word, b.const(-(1 << (23 - kept)), word.type))
        # What is no number stays that, though its bits be low ones.
        return b.select(b.cmpf("uno", done, done), done, b.cast("bitcast", cut, done.type))

    def compute(
        self, a: SSAValue, b: SSAValue, c: Sequence[SSAValue], scales: tuple[int, SSAValue, SSAValue] | None
    ) -> list[SSAValue]:
        """This lane's values of D from the tiles."""
        assert scales is None
        runs, addends, row, column = self.start(c)
        build, at_a, at_b = self.b, self.cell_at(a, row), self.cell_at(b, column)
        count = min(self.rules.terms, self.k)
        last = self.rules.addend_last
        sums = [build.const(0.0, x.type) for x in addends] if last else addends
        results: list[SSAValue] = []
        for group in range(self.k // count):
            tops = [self._power(x, 2) for x in sums]
            powers = partial(self._power, of=0), partial(self._power, of=1)

            def largest(i: SSAValue, held: Sequence[SSAValue], at: int = group, of: _Pair = powers) -> list[SSAValue]:
                pairs = self.factors(self._k(at, i, count), at_a, at_b, of)
                return [self._larger(x, self._multiply(*pair)) for x, pair in zip(held, pairs, strict=True)]

            units = [self._unit(x) for x in self.loop(count, tops, largest)]

            def add(
                i: SSAValue, held: Sequence[SSAValue], at: int = group, by: Sequence[SSAValue] = units
            ) -> list[SSAValue]:
                pairs = self.factors(self._k(at, i, count), at_a, at_b, (self.widened, self.widened))
                return [
                    self._add(x, self._cut(self._multiply(self._multiply(*pair), unit)))
                    for x, unit, pair in zip(held, by, pairs, strict=True)
                ]

            cut = [self._cut(self._multiply(x, unit)) for x, unit in zip(sums, units, strict=True)]
            totals = self.loop(count, cut, add)
            results = [self._rounded(x, unit) for x, unit in zip(totals, units, strict=True)]
            sums = [self.widened(x) for x in results]
        if last:
            results = [self._with_addend(x, y) for x, y in zip(results, addends, strict=True)]
        made: list[SSAValue] = []
        for run, done in zip(runs, results, strict=True):
            made += [done] if run.length == 1 else [build.extract(done, i) for i in range(run.length)]
        return made

    def _k(self, group: int, i: SSAValue, count: int) -> SSAValue:
        """The k of the i-th product of a sum."""
        b, near = self.b, self.rules.neighbours
        if near is None:
            return b.addi(i, b.const(group * count, i64))
        run, within = (b.int_binary(name, i, b.const(near, i64)) for name in ("divui", "remui"))
        return b.addi(b.muli(run, b.const(near * (self.k // count), i64)), b.addi(within, b.const(group * near, i64)))

    def _with_addend(self, x: SSAValue, addend: SSAValue) -> SSAValue:
        b = self.b
        total = b.float_binary("addf", x, b.cast("truncf", addend, x.type))
        return self._no_number(b.cmpf("uno", total, total), total, i32, _NAN_F32)

    def _power(self, x: SSAValue, of: int) -> SSAValue:
        """The power of two of an operand in f64; what is below the normal numbers has the exponent of the least.

        A zero has one so small that its products have no say, and that times infinity is no zero.
        """
        b, wide, form = self.b, self.widened(x), FORMATS[str(self.op.elem_types[of])]
        least = form.tiny + form.mantissa_bits
        if of < 2 and self.rules.least is not None:
            least = self.rules.least
        word = b.cast("bitcast", wide, like(wide.type, i64))
        power = b.cast("bitcast", b.int_binary("andi", word, b.const(_EXPONENT, word.type)), wide.type)
        power = self._larger(power, b.const(2.0**least, wide.type))
        zero = b.cmpf("oeq", wide, b.const(0.0, wide.type))
        return b.select(zero, b.const(_OF_ZERO, wide.type), power)

    def _larger(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.select(self.b.cmpf("ogt", x, y), x, y)

    def _unit(self, top: SSAValue) -> SSAValue:
        """What to multiply with, to have integers in units of the last bit that is kept.

        With infinities and NaNs among the operands it is one: then sums are what they would be without alignment.
        """
        b = self.b
        word = b.cast("bitcast", top, like(top.type, i64))
        inverse = b.int_binary("subi", b.const(_TWO_BIASES, word.type), word)
        unit = self._multiply(b.cast("bitcast", inverse, top.type), b.const(2.0**self.rules.fraction, top.type))
        odd = b.cmpf("oeq", top, b.const(float("inf"), top.type))
        return b.select(odd, b.const(1.0, top.type), unit)

    def _cut(self, x: SSAValue) -> SSAValue:
        return self.b.pure(TruncOp, (x,), x.type, {})

    def _rounded(self, total: SSAValue, unit: SSAValue) -> SSAValue:
        """A sum in the accumulator's type; NaNs have all bits set but the sign."""
        b = self.b
        word = b.cast("bitcast", unit, like(unit.type, i64))
        back = b.cast("bitcast", b.int_binary("subi", b.const(_TWO_BIASES, word.type), word), unit.type)
        # A sum of zeros is positive.
        exact = self._add(self._multiply(total, back), b.const(0.0, total.type))
        nan = b.cmpf("uno", exact, exact)
        if self.acc == f16:
            return self._no_number(nan, b.cast("truncf", exact, like(exact.type, f16)), i16, _NAN_F16)
        near = b.cast("truncf", exact, like(exact.type, f32))
        bits = like(near.type, i32)
        word = b.cast("bitcast", near, bits)
        if not self.rules.nearest:
            # One step back where rounding went away from zero; what is too large is infinite all the same.
            made = self._magnitude(b.cast("extf", near, like(near.type, f64)))
            far = b.cmpf("ogt", made, self._magnitude(exact))
            finite = b.cmpf("olt", made, b.const(float("inf"), made.type))
            word = b.int_binary("subi", word, b.cast("extui", b.int_binary("andi", far, finite), bits))
        if self.rules.kept < 23:
            word = b.int_binary("andi", word, b.const(-(1 << (23 - self.rules.kept)), bits))
        return self._no_number(nan, b.cast("bitcast", word, near.type), i32, _NAN_F32)

    def _magnitude(self, x: SSAValue) -> SSAValue:
        b = self.b
        word = b.cast("bitcast", x, like(x.type, i64))
        return b.cast("bitcast", b.int_binary("andi", word, b.const(2**63 - 1, word.type)), x.type)

    def _no_number(self, nan: SSAValue, x: SSAValue, bits: Attribute, pattern: int) -> SSAValue:
        b = self.b
        return b.select(nan, b.cast("bitcast", b.const(pattern, like(x.type, bits)), x.type), x)
