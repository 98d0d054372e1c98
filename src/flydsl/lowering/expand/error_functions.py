"""erf and erfc as arithmetic in f64: in full, and shorter for results that are rounded to f32."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, pi

from xdsl.ir import SSAValue

from .calculator import Calculator

Exp = Callable[[Calculator, SSAValue, bool], SSAValue]
"""e^x, in full or not."""

_ERF = (
    -3.7010294586574444e-07, 1.4772294580793014e-05, -0.0002705288648368565, 0.003005900854901217,
    -0.022570404305909713, 0.12067628821848363, -0.4714421524351998, 1.359203096403098, -2.8911664131013683,
    4.51981370624311, -5.232560637167075, 4.680913562326651, -3.325593454594531, 1.2656683595865046,
    0.7970935327228355, 0.039915535863274176,
)  # fmt: skip
"""erf(x) for 1 <= x <= 4."""
_ERFC = (
    -2.7404253787846753e-05, -2.5277036995752028e-05, 0.00015815154519536895, 0.00021199130521758094,
    -0.00045721838143344224, -0.0014572503695865862, 0.0012717108964516162, 0.008722660905895626,
    -0.008034036199546542, -0.05422000062532991, 0.1640512805381081, -0.16603039762377822, -0.09276382658923465,
    1.2769783815525437,
)  # fmt: skip
"""(1 + 2x) e^(x^2) erfc(x) in q = (x - 2) / (x + 2) for 1 <= x <= 10.3."""
_ERFC_FULL = (
    -1.257424761820283e-07, 4.781277350903474e-07, 7.597485942115617e-08, -1.434048322398863e-06,
    -8.038986944911103e-07, 1.973753237037724e-06, 5.178558835924309e-06, 3.503114269311132e-06,
    -1.3444649836971552e-05, -3.6366856073846974e-05, -1.527267219998645e-06, 0.0001510294017561455,
    0.00020637061644618014, -0.0004543397560743274, -0.0014568143311395202, 0.0012713388931497867,
    0.008722653899952741, -0.008034015079612083, -0.0542200009928017, 0.16405128003338965, -0.16603039761528016,
    -0.0927638265857457, 1.2769783815525286,
)  # fmt: skip
"""The same for 1/2 <= x <= 28, to 1e-16."""
_NEAR = (0.5, 1.0)
"""Up to where erfc is 1 - erf, in full and not."""


def _near(c: Calculator, x: SSAValue, full: bool) -> SSAValue:
    """erf by its series, for |x| <= 1: x + x p(x^2), of which the second part is small."""
    scale = 2.0 / pi**0.5
    z = c.mul(x, x)
    terms = [scale * (-1.0) ** k / (factorial(k) * (2 * k + 1)) for k in range(22 if full else 13, 0, -1)]
    # 2 / sqrt(pi) - 1, whose digits the difference would lose.
    return c.fma(x, c.polynomial(z, [*terms, 0.12837916709551256]), x)


def _far(c: Calculator, a: SSAValue, full: bool, exp: Exp) -> SSAValue:
    """erfc for a >= 1, in full for a >= 1/2."""
    y = c.clamp(a, _NEAR[not full], 28.0)
    q = c.div(c.sub(y, 2.0), c.add(y, 2.0))
    ratio = c.div(c.polynomial(q, _ERFC_FULL if full else _ERFC), c.fma(y, 2.0, 1.0))
    square = c.mul(y, y)
    power = exp(c, c.neg(square), full)
    if not full:
        return c.mul(ratio, power)
    # What the square lost counts as much as its last digits.
    lost = c.fma(y, y, c.neg(square))
    return c.mul(c.fma(c.neg(lost), ratio, ratio), power)


def erf(c: Calculator, x: SSAValue, full: bool, exp: Exp) -> SSAValue:
    """The error function."""
    a = c.abs(x)
    far = c.sub(1.0, _far(c, a, full, exp)) if full else c.polynomial(c.clamp(a, 1.0, 4.0), _ERF)
    if not full:
        far = c.where(c.test("oge", a, 4.0), 1.0, far)
    value = c.where(c.test("ole", a, 1.0), _near(c, c.clamp(x, -1.0, 1.0), full), c.sign_of(far, x))
    # Zero keeps its sign.
    return c.where(c.test("une", x, 0.0), c.where(c.test("uno", x, x), x, value), x)


def erfc(c: Calculator, x: SSAValue, full: bool, exp: Exp) -> SSAValue:
    """1 - erf."""
    a = c.abs(x)
    far = _far(c, a, full, exp)
    far = c.where(c.test("olt", x, 0.0), c.sub(2.0, far), far)
    near = c.sub(1.0, _near(c, c.clamp(x, -1.0, 1.0), full))
    value = c.where(c.test("ole", a, _NEAR[not full]), near, far)
    return c.where(c.test("uno", x, x), x, value)
