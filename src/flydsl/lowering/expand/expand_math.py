"""Functions of `math` that a target's instructions lack, as arithmetic. Nothing is linked.

Exponentials, logarithms and `rsqrt` of f32 are done in f32, the last steps in two parts. The other functions of f32 are
evaluated in f64, where plain formulas are exact to well below half an f32 ulp, and rounded once; f16 and bf16 go
through f32. Functions of f64 use the same formulas with longer series. The cpu stack has the C library for powers of
f64; everything else is the same arithmetic on all targets, bit for bit where their f32 and f64 are IEEE's.

With the fast-math flag `afn` what the hardware approximates stays, as an intrinsic; with `fast`, which has all flags,
in the form that takes numbers below the normal range for zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import factorial, log2, pi, prod
from typing import Any, NamedTuple, cast

from xdsl.dialects import math as xmath
from xdsl.dialects import vector
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, VectorType, f32, f64, i1
from xdsl.ir import Block, Operation, Region, SSAValue

from ...dialects.upstream import scf
from ...dialects.upstream.extra_math import ErfcOp
from ...dialects.upstream.vector import FromElementsOp, ShapeCastOp
from ...ir.builder import Builder, elem_of, operands_of
from ..rebuild import Handler
from . import error_functions
from .calculator import Calculator
from .small_floats import like

_OR = vector.CombiningKindAttr(vector.CombiningKindFlag.OR)
_LN2 = 0.6931471805599453
_LOG2E = 1.4426950408889634
_TWO_OVER_PI_TEXT = (
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921cfe1d"
    "eb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980fef2f118b"
    "5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b"
    "6bab"
)
_TWO_OVER_PI = tuple(int(_TWO_OVER_PI_TEXT[i : i + 8], 16) for i in range(0, len(_TWO_OVER_PI_TEXT), 8))
"""2 / pi as a binary fraction, 32 bits a word: as many as the largest f64 needs."""

# Minimax polynomials, highest power first.
_EXP = (0.0013926926614021907, 0.008363773874405574, 0.04166655011030512, 0.16666573381900845, 0.5)
"""(e^r - 1 - r) / r^2 for |r| <= ln 2 / 2."""
_EXP2 = (
    1.5297323760701075e-05, 0.0001546144469856913, 0.001333350238616277, 0.009618056678524637, 0.055504108839096185,
    0.24022650922288757, 0.6931471805599453,
)  # fmt: skip
"""(2^r - 1) / r for |r| <= 1/2."""
_LOG = (
    0.06971611471451178, -0.11479733846637635, 0.1168541992348674, -0.12425687331451106, 0.1424905764569748,
    -0.16667802319501254, 0.200007157488921, -0.24999996957950882, 0.33333331180030046,
)  # fmt: skip
"""(log(1 + f) - f + f^2 / 2) / f^3 for sqrt(1/2) <= 1 + f <= sqrt(2)."""


# --- f32 ----------------------------------------------------------------------------------------------------------


def _exp_f32(c: Calculator, x: SSAValue) -> SSAValue:
    y = c.clamp(x, -104.0, 89.0)
    n = c.round(c.mul(y, _LOG2E))
    # ln 2 in two parts: the product with the first is exact.
    high = c.fma(n, -0.693359375, y)
    low = c.mul(n, 2.12194440e-4)
    r = c.add(high, low)
    total, rest = c.sum_of(c.const(1.0), high)
    small = c.fma(c.mul(r, r), c.polynomial(r, _EXP), c.add(low, rest))
    result = c.scaled(c.add(total, small), c.to_int(n))
    return c.where(c.test("uno", x, x), x, result)


def _exp2_f32(c: Calculator, x: SSAValue) -> SSAValue:
    y = c.clamp(x, -151.0, 129.0)
    n = c.round(y)
    r = c.sub(y, n)
    result = c.scaled(c.fma(r, c.polynomial(r, _EXP2), 1.0), c.to_int(n))
    return c.where(c.test("uno", x, x), x, result)


def _log_special(c: Calculator, x: SSAValue, result: SSAValue) -> SSAValue:
    inf = float("inf")
    result = c.where(c.test("oeq", x, inf), inf, result)
    result = c.where(c.test("oeq", x, 0.0), -inf, result)
    return c.where(c.test("uge", x, 0.0), c.where(c.test("uno", x, x), x, result), float("nan"))


def _in_base(
    c: Calculator,
    x: SSAValue,
    f: SSAValue,
    y: SSAValue,
    e: SSAValue,
    unit: tuple[float, float],
    two: tuple[float, float],
    more: SSAValue | None = None,
) -> SSAValue:
    """unit (f + y) + two e, where f is the largest of the small parts; two[0] has few bits."""
    if unit[0] == 1.0:
        high, small = f, y
    else:
        high = c.mul(f, unit[0])
        # What the product lost.
        small = c.fma(f, unit[1], c.fma(f, unit[0], c.neg(high)))
        small = c.fma(y, unit[0], small)
    if more is not None:
        small = c.add(small, more)
    whole = e if two[0] == 1.0 else c.mul(e, two[0])
    if two[1]:
        small = c.fma(e, two[1], small)
    total, rest = c.sum_of(whole, high)
    return _log_special(c, x, c.add(total, c.add(rest, small)))


def _logarithm_f32(c: Calculator, x: SSAValue, unit: tuple[float, float], two: tuple[float, float]) -> SSAValue:
    """log x in a base, by 1 / log(base) and log 2 in that base, both in two parts."""
    m, e = c.split(x)
    f = c.sub(m, 1.0)
    z = c.mul(f, f)
    # log m = f + y
    y = c.fma(z, -0.5, c.mul(c.mul(z, f), c.polynomial(f, _LOG)))
    return _in_base(c, x, f, y, e, unit, two)


def _log_f32(c: Calculator, x: SSAValue) -> SSAValue:
    return _logarithm_f32(c, x, (1.0, 0.0), (0.693359375, -2.1219444005469057e-4))


def _log2_f32(c: Calculator, x: SSAValue) -> SSAValue:
    return _logarithm_f32(c, x, (1.4426950216293335, 1.9259629911266175e-08), (1.0, 0.0))


def _log10_f32(c: Calculator, x: SSAValue) -> SSAValue:
    unit = (0.4342944920063019, -1.0103050052231683e-08)
    return _logarithm_f32(c, x, unit, (0.301025390625, 4.605038981195214e-06))


def _rsqrt(c: Calculator, x: SSAValue, full: bool = True) -> SSAValue:
    """One step of Newton's method on 1 / sqrt(x), its residue in two parts; the same for all types."""
    y = c.div(1.0, c.sqrt(x))
    square = c.mul(x, y)
    lost = c.fma(x, y, c.neg(square))
    residue = c.sub(c.fma(c.neg(square), y, 1.0), c.mul(lost, y))
    better = c.fma(c.mul(y, 0.5), residue, y)
    # 0, infinity and what is not a number have no residue.
    return c.where(c.test("ogt", square, 0.0), better, y)


# --- f64, short series for results that are rounded to f32 ----------------------------------------------------------


def _reduced(c: Calculator, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """x as n ln 2 + high + low: n, and the rest in two parts."""
    n = c.round(c.mul(x, _LOG2E))
    return n, c.fma(n, -0.6931471803691238, x), c.mul(n, -1.9082149292705877e-10)


def _exp_rest(c: Calculator, high: SSAValue, low: SSAValue, full: bool) -> SSAValue:
    """e^(high + low) - 1 - high."""
    r = c.add(high, low)
    series = c.polynomial(r, [1.0 / factorial(k) for k in range(13 if full else 9, 1, -1)])
    return c.fma(c.mul(r, r), series, low)


def _exp(c: Calculator, x: SSAValue, full: bool, halvings: int = 0) -> SSAValue:
    """e^x / 2^halvings."""
    n, high, low = _reduced(c, c.clamp(x, -746.0, 711.0))
    total, rest = c.sum_of(c.const(1.0), high)
    p = c.add(total, c.add(rest, _exp_rest(c, high, low, full)))
    exponent = c.to_int(n)
    if halvings:
        exponent = c.int_op("subi", exponent, halvings)
    return c.where(c.test("uno", x, x), x, c.scaled(p, exponent))


def _expm1(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    n, high, low = _reduced(c, c.clamp(x, -50.0, 50.0))
    p = c.add(high, _exp_rest(c, high, low, full))
    power = c.power_of_two(c.to_int(n))
    near = c.fma(p, power, c.sub(power, 1.0))
    value = c.where(c.test("ogt", x, 50.0), _exp(c, x, full), near)
    # Zero keeps its sign, and the clamp loses what is not a number.
    return c.where(c.test("one", x, 0.0), value, x)


def _logarithm(
    c: Calculator,
    x: SSAValue,
    full: bool,
    unit: tuple[float, float] = (1.0, 0.0),
    two: tuple[float, float] = (0.6931471803691238, 1.9082149292705877e-10),
    more: SSAValue | None = None,
) -> SSAValue:
    """log x in a base, by 1 / log(base) and log 2 in that base, both in two parts, and something small to be added."""
    m, e = c.split(x)
    f = c.sub(m, 1.0)
    half = c.mul(c.mul(f, f), 0.5)
    s = c.div(f, c.add(f, 2.0))
    z = c.mul(s, s)
    series = c.mul(z, c.polynomial(z, [2.0 / (2 * k + 1) for k in range(10 if full else 7, 0, -1)]))
    # log m = f + y
    y = c.sub(c.mul(s, c.add(half, series)), half)
    return _in_base(c, x, f, y, e, unit, two, more)


def _log(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    return _logarithm(c, x, full)


def _log1p(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    u = c.add(x, 1.0)
    # What the sum lost, by the larger of the two.
    lost = c.where(c.test("ogt", x, 1.0), c.sub(1.0, c.sub(u, x)), c.sub(x, c.sub(u, 1.0)))
    value = _logarithm(c, u, full, more=c.div(lost, u))
    return c.where(c.test("une", x, 0.0), value, x)


def _log10(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    unit, two = (0.4342944819032518, 1.098319650216765e-17), (0.30102999566383914, 1.4205023227266099e-13)
    return _logarithm(c, x, full, unit, two)


def _log2_f64(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    return _logarithm(c, x, full, (1.4426950408889634, 2.0355273740931033e-17), (1.0, 0.0))


def _exp2_f64(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    y = c.clamp(x, -1080.0, 1025.0)
    n = c.round(y)
    fraction = c.sub(y, n)
    high = c.mul(fraction, _LN2)
    low = c.fma(fraction, 2.3190468138462996e-17, c.fma(fraction, _LN2, c.neg(high)))
    total, rest = c.sum_of(c.const(1.0), high)
    p = c.add(total, c.add(rest, _exp_rest(c, high, low, full)))
    return c.where(c.test("uno", x, x), x, c.scaled(p, c.to_int(n)))


def _small(c: Calculator, x: SSAValue, value: SSAValue) -> SSAValue:
    """The value with the sign of x; where x is zero or not a number, that."""
    return c.where(c.test("one", x, 0.0), c.sign_of(value, x), x)


def _sinh(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    a = c.abs(x)
    t = _expm1(c, c.clamp(a, 0.0, 40.0), full)
    near = c.mul(c.add(t, c.div(t, c.add(t, 1.0))), 0.5)
    return _small(c, x, c.where(c.test("ogt", a, 40.0), _exp(c, a, full, 1), near))


def _cosh(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    half = _exp(c, c.abs(x), full, 1)
    return c.add(half, c.div(0.25, half))


def _tanh(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    t = _expm1(c, c.mul(c.clamp(c.abs(x), 0.0, 22.0), 2.0), full)
    return _small(c, x, c.div(t, c.add(t, 2.0)))


def _asinh(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    a = c.abs(x)
    huge = c.test("ogt", a, 2.0**30)
    y = c.where(huge, 1.0, a)
    square = c.mul(y, y)
    near = _log1p(c, c.add(y, c.div(square, c.add(c.sqrt(c.add(square, 1.0)), 1.0))), full)
    return _small(c, x, c.where(huge, c.add(_log(c, a, full), _LN2), near))


def _acosh(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    huge = c.test("ogt", x, 2.0**30)
    d = c.where(huge, 1.0, c.sub(x, 1.0))
    near = _log1p(c, c.add(d, c.sqrt(c.mul(d, c.add(d, 2.0)))), full)
    value = c.where(huge, c.add(_log(c, x, full), _LN2), near)
    return c.where(c.test("olt", x, 1.0), float("nan"), value)


def _atanh(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    a = c.abs(x)
    return _small(c, x, c.mul(_log1p(c, c.div(c.mul(a, 2.0), c.sub(1.0, a)), full), 0.5))


def _atan_positive(c: Calculator, a: SSAValue, full: bool) -> SSAValue:
    """atan of a >= 0, also of infinity."""
    inverse = c.test("ogt", a, 1.0)
    t = c.where(inverse, c.div(1.0, a), a)
    turn = c.test("ogt", t, 0.4142135623730951)
    u = c.where(turn, c.div(c.sub(t, 1.0), c.add(t, 1.0)), t)
    z = c.mul(u, u)
    terms = 21 if full else 14
    series = c.polynomial(z, [(-1.0) ** k / (2 * k + 1) for k in range(terms, 0, -1)])
    angle = c.fma(c.mul(u, z), series, u)
    angle = c.add(angle, c.where(turn, pi / 4, 0.0))
    return c.where(inverse, c.sub(pi / 2, angle), angle)


def _atan(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    return c.where(c.test("uno", x, x), x, c.sign_of(_atan_positive(c, c.abs(x), full), x))


def _root_of_rest(c: Calculator, x: SSAValue) -> SSAValue:
    """sqrt(1 - x^2)."""
    return c.sqrt(c.mul(c.sub(1.0, x), c.add(1.0, x)))


def _asin(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    return _atan(c, c.div(x, _root_of_rest(c, x)), full)


def _acos(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    angle = _atan_positive(c, c.div(_root_of_rest(c, x), c.abs(x)), full)
    bent = c.where(c.test("olt", x, 0.0), c.sub(pi, angle), angle)
    return c.where(c.test("ule", c.abs(x), 1.0), bent, float("nan"))


def _atan2(c: Calculator, y: SSAValue, x: SSAValue, full: bool) -> SSAValue:
    a, b = c.abs(y), c.abs(x)
    both = c.b.int_binary("andi", c.test("oeq", a, float("inf")), c.test("oeq", b, float("inf")))
    none = c.b.int_binary("andi", c.test("oeq", a, 0.0), c.test("oeq", b, 0.0))
    ratio = c.where(both, 1.0, c.where(none, 0.0, c.div(a, b)))
    angle = _atan_positive(c, ratio, full)
    left = c.b.cmpi("slt", c.as_int(x), c.int_const(0))
    angle = c.where(left, c.sub(pi, angle), angle)
    nan = c.test("uno", x, y)
    return c.where(nan, c.add(x, y), c.sign_of(angle, y))


def _quadrant(c: Calculator, x: SSAValue, full: bool) -> tuple[SSAValue, SSAValue]:
    """x as r + n pi / 2 with |r| <= pi / 4; n as an i64."""
    inside = c.clamp(x, -(2.0**30), 2.0**30)
    n = c.round(c.mul(inside, 2.0 / pi))
    r = c.fma(n, -1.5707963267948966, inside)
    r = c.fma(n, -6.123233995736766e-17, r)
    k = c.to_int(n)
    b = c.b
    flag = c.test("ogt", c.abs(x), 2.0**30)
    anywhere = flag
    if isinstance(flag.type, VectorType):
        anywhere = b.pure(vector.ReductionOp, (flag,), i1, {"kind": _OR})
    yes, no = Block(), Block()
    with b.region(yes):
        far_r, far_k = _farthest_quadrant(c, x) if full else _far_quadrant(c, x)
        b.opn(scf.YieldOp, (c.where(flag, far_r, r), b.select(flag, far_k, k)), ())
    with b.region(no):
        b.opn(scf.YieldOp, (r, k), ())
    op = b.with_regions(scf.IfOp, (anywhere,), (c.type, c.bits), [Region(yes), Region(no)])
    return op.results[0], op.results[1]


def _far_quadrant(c: Calculator, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The same for an f32 of any size, held in f64: 24 bits times 96 bits of 2 / pi, whole turns left out."""
    word = c.as_int(c.abs(x))
    mantissa = c.int_op("shrui", c.int_op("andi", word, (1 << 52) - 1), 29)
    mantissa = c.int_op("ori", mantissa, 1 << 23)
    # x = mantissa * 2^e; bits of 2 / pi before e - 2 only make multiples of four.
    skip = c.int_op("subi", c.int_op("shrui", word, 52), 1023 + 23 + 2)
    skip = c.int_op("minsi", c.int_op("maxsi", skip, 0), 102)
    index, shift = c.int_op("shrui", skip, 5), c.int_op("andi", skip, 31)
    words: list[SSAValue] = []
    for i in range(4):
        chosen = c.int_const(_TWO_OVER_PI[i])
        for k in range(1, 4):
            there = c.b.cmpi("eq", index, c.int_const(k))
            chosen = c.b.select(there, c.int_const(_TWO_OVER_PI[i + k]), chosen)
        words.append(chosen)
    parts: list[SSAValue] = []
    for i in range(3):
        pair = c.int_op("ori", c.int_op("shli", words[i], 32), words[i + 1])
        moved = c.int_op("shrui", c.int_op("shli", pair, shift), 32)
        parts.append(c.int_op("muli", moved, mantissa))
    high = c.int_op("addi", c.int_op("shli", parts[0], 32), parts[1])
    high = c.int_op("addi", high, c.int_op("shrui", parts[2], 32))
    n = c.int_op("shrui", c.int_op("addi", high, 1 << 61), 62)
    rest = c.int_op("subi", high, c.int_op("shli", n, 62))
    r = c.mul(c.b.cast("sitofp", rest, c.type), 3.4061215800865545e-19)
    negative = c.test("olt", x, 0.0)
    return c.where(negative, c.neg(r), r), c.b.select(negative, c.int_op("subi", c.int_const(0), n), n)


def _farthest_quadrant(c: Calculator, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The same for any f64: 53 bits times 192 bits of 2 / pi, whole turns left out.

    An f64 may be as close as 2^-61 to a multiple of pi / 2: so many bits are there to be lost.
    """
    word = c.as_int(c.abs(x))
    mantissa = c.int_op("ori", c.int_op("andi", word, (1 << 52) - 1), 1 << 52)
    # x = mantissa * 2^e; bits of 2 / pi before e - 2 only make multiples of four. Two words of zeros stand in front.
    skip = c.int_op("subi", c.int_op("shrui", word, 52), 1023 + 52 + 2 - 64)
    skip = c.int_op("minsi", c.int_op("maxsi", skip, 0), 971 - 2 + 64)
    index, shift = c.int_op("shrui", skip, 5), c.int_op("andi", skip, 31)
    words = [c.int_const(w) for w in (0, 0, *_TWO_OVER_PI)]
    for step in (32, 16, 8, 4, 2, 1):
        moved = c.b.cmpi("ne", c.int_op("andi", index, step), c.int_const(0))
        words = [
            c.b.select(moved, words[min(i + step, len(words) - 1)], words[i]) for i in range(min(len(words), 6 + step))
        ]
    window: list[SSAValue] = []
    for i in range(6):
        pair = c.int_op("ori", c.int_op("shli", words[i], 32), words[i + 1])
        window.append(c.int_op("shrui", c.int_op("shli", pair, shift), 32))
    low, high = c.int_op("andi", mantissa, 0xFFFFFFFF), c.int_op("shrui", mantissa, 32)
    limbs: list[SSAValue] = []
    carry = c.int_const(0)
    for i in range(5, -1, -1):
        # What falls into this limb: low halves of its own products, high halves of the one behind.
        total = c.int_op("addi", carry, c.int_op("andi", c.int_op("muli", low, window[i]), 0xFFFFFFFF))
        if i < 5:
            total = c.int_op("addi", total, c.int_op("shrui", c.int_op("muli", low, window[i + 1]), 32))
            total = c.int_op("addi", total, c.int_op("andi", c.int_op("muli", high, window[i + 1]), 0xFFFFFFFF))
        if i < 4:
            total = c.int_op("addi", total, c.int_op("shrui", c.int_op("muli", high, window[i + 2]), 32))
        limbs.insert(0, c.int_op("andi", total, 0xFFFFFFFF))
        carry = c.int_op("shrui", total, 32)
    first = c.int_op("ori", c.int_op("shli", limbs[0], 32), limbs[1])
    n = c.int_op("shrui", c.int_op("addi", first, 1 << 61), 62)
    rest = c.int_op("subi", first, c.int_op("shli", n, 62))
    second = c.int_op("ori", c.int_op("shli", limbs[2], 31), c.int_op("shrui", limbs[3], 1))
    turns = c.fma(c.b.cast("sitofp", second, c.type), 2.0**-125, c.mul(c.b.cast("sitofp", rest, c.type), 2.0**-62))
    r = c.mul(turns, pi / 2)
    negative = c.test("olt", x, 0.0)
    return c.where(negative, c.neg(r), r), c.b.select(negative, c.int_op("subi", c.int_const(0), n), n)


def _sin_series(c: Calculator, r: SSAValue, full: bool) -> SSAValue:
    z = c.mul(r, r)
    terms = [(-1.0) ** k / factorial(2 * k + 1) for k in range(8 if full else 5, 0, -1)]
    return c.fma(c.mul(r, z), c.polynomial(z, terms), r)


def _cos_series(c: Calculator, r: SSAValue, full: bool) -> SSAValue:
    z = c.mul(r, r)
    return c.polynomial(z, [(-1.0) ** k / factorial(2 * k) for k in range(9 if full else 6, -1, -1)])


def _turned(c: Calculator, x: SSAValue, full: bool, ahead: int) -> SSAValue:
    """sin(x + ahead pi / 2)."""
    r, n = _quadrant(c, x, full)
    n = c.int_op("addi", n, ahead)
    odd = c.b.cmpi("ne", c.int_op("andi", n, 1), c.int_const(0))
    value = c.where(odd, _cos_series(c, r, full), _sin_series(c, r, full))
    minus = c.b.cmpi("ne", c.int_op("andi", n, 2), c.int_const(0))
    value = c.where(minus, c.neg(value), value)
    return c.where(c.test("olt", c.abs(x), float("inf")), value, float("nan"))


def _sin(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    return c.where(c.test("oeq", x, 0.0), x, _turned(c, x, full, 0))


def _cos(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    return _turned(c, x, full, 1)


def _tan(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    r, n = _quadrant(c, x, full)
    s, k = _sin_series(c, r, full), _cos_series(c, r, full)
    odd = c.b.cmpi("ne", c.int_op("andi", n, 1), c.int_const(0))
    value = c.div(c.where(odd, c.neg(k), s), c.where(odd, s, k))
    value = c.where(c.test("olt", c.abs(x), float("inf")), value, float("nan"))
    return c.where(c.test("oeq", x, 0.0), x, value)


def _cbrt(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    tiny = c.test("olt", c.abs(x), 2.0**-1000)
    a = c.where(tiny, c.mul(c.abs(x), 2.0**90), c.abs(x))
    y = _exp(c, c.mul(_log(c, a, full), 1.0 / 3.0), full)
    if full:  # One step of Newton's method, its residue in two parts.
        square = c.mul(y, y)
        lost = c.fma(y, y, c.neg(square))
        residue = c.fma(lost, y, c.fma(square, y, c.neg(a)))
        y = c.sub(y, c.div(residue, c.mul(square, 3.0)))
    y = c.where(tiny, c.mul(y, 2.0**-30), y)
    keep = c.b.int_binary("ori", c.test("oeq", x, 0.0), c.test("ueq", c.abs(x), float("inf")))
    return c.where(keep, x, c.sign_of(y, x))


def _erf(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    return error_functions.erf(c, x, full, _exp)


def _erfc(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    return error_functions.erfc(c, x, full, _exp)


def _pow(c: Calculator, x: SSAValue, y: SSAValue, full: bool) -> SSAValue:
    inf = float("inf")
    a = c.abs(x)
    result = _exp(c, c.mul(y, _log(c, a, full)), full)
    whole = c.test("oeq", c.call(xmath.FloorOp, y), y)
    half = c.mul(y, 0.5)
    odd = c.b.int_binary("andi", whole, c.test("one", c.call(xmath.FloorOp, half), half))
    odd = c.b.int_binary("andi", odd, c.test("olt", c.abs(y), 2.0**53))
    negative = c.b.cmpi("slt", c.as_int(x), c.int_const(0))
    # 0 and infinity to any power: which of the two the result is depends on the sign of y.
    up = c.test("ogt", y, 0.0)
    result = c.where(c.test("oeq", a, 0.0), c.where(up, 0.0, inf), result)
    result = c.where(c.test("oeq", a, inf), c.where(up, inf, 0.0), result)
    grows = c.b.cmpi("eq", c.test("ogt", a, 1.0), up)
    at_infinity = c.where(c.test("oeq", a, 1.0), 1.0, c.where(grows, inf, 0.0))
    result = c.where(c.test("oeq", c.abs(y), inf), at_infinity, result)
    bad = c.b.int_binary("andi", c.test("olt", x, 0.0), c.b.int_binary("xori", whole, c.b.const(1, whole.type)))
    bad = c.b.int_binary("andi", bad, c.test("olt", a, inf))
    result = c.where(bad, float("nan"), result)
    result = c.where(c.b.int_binary("andi", negative, odd), c.neg(result), result)
    result = c.where(c.test("uno", x, y), float("nan"), result)
    one = c.b.int_binary("ori", c.test("oeq", x, 1.0), c.test("oeq", y, 0.0))
    return c.where(one, 1.0, result)


# --- ops ----------------------------------------------------------------------------------------------------------

Narrow = Callable[[Calculator, SSAValue], SSAValue]
IN_F32: dict[type[Operation], Narrow] = {
    xmath.ExpOp: _exp_f32,
    xmath.Exp2Op: _exp2_f32,
    xmath.LogOp: _log_f32,
    xmath.Log2Op: _log2_f32,
    xmath.Log10Op: _log10_f32,
    xmath.RsqrtOp: _rsqrt,
}
IN_F64: dict[type[Operation], Callable[..., SSAValue]] = {
    xmath.ExpOp: _exp,
    xmath.Exp2Op: _exp2_f64,
    xmath.LogOp: _log,
    xmath.Log2Op: _log2_f64,
    xmath.Log10Op: _log10,
    xmath.Log1pOp: _log1p,
    xmath.ExpM1Op: _expm1,
    xmath.PowFOp: _pow,
    xmath.SinOp: _sin,
    xmath.CosOp: _cos,
    xmath.TanOp: _tan,
    xmath.AsinOp: _asin,
    xmath.AcosOp: _acos,
    xmath.AtanOp: _atan,
    xmath.Atan2Op: _atan2,
    xmath.SinhOp: _sinh,
    xmath.CoshOp: _cosh,
    xmath.TanhOp: _tanh,
    xmath.AsinhOp: _asinh,
    xmath.AcoshOp: _acosh,
    xmath.AtanhOp: _atanh,
    xmath.ErfOp: _erf,
    ErfcOp: _erfc,
    xmath.CbrtOp: _cbrt,
    xmath.RsqrtOp: _rsqrt,
}


class NativeMath(NamedTuple):
    """What a target does itself of the functions that are expanded elsewhere."""

    single: frozenset[type[Operation]] = frozenset()
    """Functions LLVM has good code for, in f32 and narrower."""
    fast_single: frozenset[type[Operation]] = frozenset()
    """The same where `fast` allows more."""
    double: frozenset[type[Operation]] = frozenset()
    """Functions of f64 that are left to a library."""
    approximations: Mapping[type[Operation], tuple[str, float, float]] = {}
    """Instructions for `fast` f32: intrinsic, factor of the argument, factor of the result."""


_EXPONENTIALS: frozenset[type[Operation]] = frozenset(
    (xmath.ExpOp, xmath.Exp2Op, xmath.LogOp, xmath.Log2Op, xmath.Log10Op)
)
_ON_AMD: frozenset[type[Operation]] = frozenset((xmath.ExpOp, xmath.Exp2Op, xmath.Log2Op))
"""What LLVM makes of the instructions is good to a unit in the last place; its other logarithms are not."""
_APPROXIMATIONS: dict[type[Operation], tuple[str, float, float]] = {
    xmath.ExpOp: ("llvm.nvvm.ex2.approx.f", _LOG2E, 1.0),
    xmath.Exp2Op: ("llvm.nvvm.ex2.approx.f", 1.0, 1.0),
    xmath.LogOp: ("llvm.nvvm.lg2.approx.f", 1.0, _LN2),
    xmath.Log2Op: ("llvm.nvvm.lg2.approx.f", 1.0, 1.0),
    xmath.Log10Op: ("llvm.nvvm.lg2.approx.f", 1.0, 1.0 / log2(10.0)),
    xmath.SinOp: ("llvm.nvvm.sin.approx.f", 1.0, 1.0),
    xmath.CosOp: ("llvm.nvvm.cos.approx.f", 1.0, 1.0),
}
_ON_AMD_FAST: dict[type[Operation], tuple[str, float, float]] = {xmath.Exp2Op: ("llvm.amdgcn.exp2.f32", 1.0, 1.0)}
"""LLVM would add code for results that are denormal."""
AMD_MATH = NativeMath(_ON_AMD, _EXPONENTIALS | {xmath.SinOp, xmath.CosOp}, approximations=_ON_AMD_FAST)
NVIDIA_MATH = NativeMath(approximations=_APPROXIMATIONS)
HOST_MATH = NativeMath(double=frozenset((xmath.PowFOp,)))


def _has_flag(op: Operation, *names: str) -> bool:
    attr: Any = op.properties.get("fastmath")
    return attr is not None and any(getattr(f, "value", f) in names for f in attr.data)


def _is_fast(op: Operation) -> bool:
    return _has_flag(op, "afn", "fast")


def _flushes(op: Operation) -> bool:
    """Whether denormal numbers may be zeros: all flags are there, which `fast` stands for."""
    attr: Any = op.properties.get("fastmath")
    return attr is not None and (len(attr.data) >= 7 or _has_flag(op, "fast"))


def expand(b: Builder, cls: type[Operation], args: Sequence[SSAValue]) -> SSAValue:
    """A function of f16, bf16, f32 or f64 values, scalars or vectors, as arithmetic."""
    type_ = args[0].type
    elem = elem_of(type_)
    if isinstance(elem, Float64Type):
        return IN_F64[cls](Calculator(b, type_), *args, True)
    single = like(type_, f32)
    if isinstance(elem, (Float16Type, BFloat16Type)):
        return b.cast("truncf", expand(b, cls, [b.cast("extf", x, single) for x in args]), type_)
    narrow = IN_F32.get(cls)
    if narrow is not None:
        return narrow(Calculator(b, type_), args[0])
    double = like(type_, f64)
    wide = IN_F64[cls](Calculator(b, double), *(b.cast("extf", x, double) for x in args), False)
    return b.cast("truncf", wide, type_)


def _approximation(r: Any, name: str, x: SSAValue) -> SSAValue:
    """What the hardware computes, of a scalar or of each element of a vector."""
    type_: Any = x.type
    if not isinstance(type_, VectorType):
        return r.intrinsic(name, f32, [x])
    count = prod(type_.get_shape())
    flat = VectorType(f32, [count])
    line = x if type_ == flat else r.b.pure(ShapeCastOp, (x,), flat, {})
    found = [r.intrinsic(name, f32, [r.b.extract(line, i)]) for i in range(count)]
    made = r.b.pure(FromElementsOp, found, flat, {})
    return made if type_ == flat else r.b.pure(ShapeCastOp, (made,), type_, {})


def _handle(r: Any, op: Operation) -> None:
    cls = type(op)
    args = r.vals(operands_of(op))
    result = op.results[0]
    elem = elem_of(result.type)
    single = isinstance(elem, Float32Type)
    fast = _is_fast(op) and not isinstance(elem, Float64Type)
    native: NativeMath = r.native_math
    wide = isinstance(elem, Float64Type)
    if cls is xmath.RsqrtOp and fast:
        # As a division by a root, for which GPUs have an instruction.
        r.copy(op)
    elif fast and single and cls in native.approximations:
        name, before, after = native.approximations[cls]
        if _flushes(op):
            name = name.replace(".approx.", ".approx.ftz.")
        c = Calculator(r.b, result.type)
        x = args[0] if before == 1.0 else c.mul(args[0], before)
        y = _approximation(r, name, x)
        r.vm[result] = y if after == 1.0 else c.mul(y, after)
    elif cls in (native.double if wide else native.fast_single if fast else native.single):
        r.copy(op)
    elif not isinstance(elem, (Float16Type, BFloat16Type, Float32Type, Float64Type)):
        r.copy(op)
    else:
        r.vm[result] = expand(r.b, cls, args)


HANDLERS = cast(dict[type[Operation], Handler], dict.fromkeys(IN_F64, _handle))
