"""`arith` in LLVM's instructions; an `index` has 64 bits."""

from __future__ import annotations

from math import prod
from typing import Any, TypeVar, cast

from xdsl.dialects import ub
from xdsl.dialects.builtin import IntegerType, VectorType, i1
from xdsl.ir import Attribute, Operation

from ...dialects.upstream.arith import Arith
from ...dialects.upstream.extra_math import RemFOp
from ...ir import arith
from ...ir.arith import ROUNDING_MODE
from ...ir.builder import CASTS, CMPF, CMPI, INT_BINARY, elem_of, operands_of
from ...ir.enums import RoundingMode
from ...ir.types import bit_width, vector_type
from .sink import Rule, Sink, refuse

T = TypeVar("T")

_INT = {
    "addi": "add", "subi": "sub", "muli": "mul", "andi": "and", "ori": "or", "xori": "xor", "shli": "shl",
    "shrsi": "ashr", "shrui": "lshr",
}  # fmt: skip
_DIVISION = {"divsi": "sdiv", "divui": "udiv", "remsi": "srem", "remui": "urem"}
_FLOAT = {
    arith.AddfOp: "fadd", arith.SubfOp: "fsub", arith.MulfOp: "fmul", arith.DivfOp: "fdiv", RemFOp: "frem",
}  # fmt: skip
_FLOAT_MINMAX = {
    arith.MaximumfOp: "maximum",
    arith.MinimumfOp: "minimum",
    arith.MaxnumfOp: "maxnum",
    arith.MinnumfOp: "minnum",
}
_CASTS = {
    "extsi": "sext", "extui": "zext", "trunci": "trunc", "extf": "fpext", "truncf": "fptrunc", "sitofp": "sitofp",
    "uitofp": "uitofp", "fptosi": "fptosi", "fptoui": "fptoui", "bitcast": "bitcast",
}  # fmt: skip
CMPI_WORDS = {i: p for p, i in CMPI.items()}
CMPF_WORDS = {i: p for p, i in CMPF.items()}


def _constant(s: Sink[T], op: Operation) -> None:
    (result,) = op.results
    s.give(result, s.constant(op.properties["value"], result.type))


def _poison(s: Sink[T], op: Operation) -> None:
    (result,) = op.results
    s.give(result, s.poison(result.type))


def _binary(word: str, flags: str = "") -> Rule:
    def flagged(s: Sink[T], op: Operation) -> None:
        a, b = operands_of(op)
        (result,) = op.results
        s.give(result, s.binary(word, a.type, s.value(a), s.value(b), op.properties.get(flags)))

    def plain(s: Sink[T], op: Operation) -> None:
        a, b = operands_of(op)
        (result,) = op.results
        s.give(result, s.binary(word, a.type, s.value(a), s.value(b)))

    return flagged if flags else plain


def _minmax(key: str) -> Rule:
    def rule(s: Sink[T], op: Operation) -> None:
        a, b = operands_of(op)
        t = a.type
        (result,) = op.results
        s.give(result, s.intr(key, t, (s.value(a), s.value(b)), (t, t), op.properties.get("fastmath")))

    return rule


def _division(word: str) -> Rule:
    def rule(s: Sink[T], op: Operation) -> None:
        a, _ = operands_of(op)
        (result,) = op.results
        s.give(result, s.binary(word, a.type, s.value(a), s.divisor(op, word[0] == "s")))

    return rule


def _rounded_division(s: Sink[T], op: Operation) -> None:
    """The truncated quotient, one less or more where the rest is not zero and the signs ask for it."""
    old, other = operands_of(op)
    unsigned, up = isinstance(op, arith.CeilDivUIOp), not isinstance(op, arith.FloorDivSIOp)
    t, x, y = old.type, s.value(old), s.divisor(op, not unsigned)
    kind = "u" if unsigned else "s"
    quotient = s.binary(f"{kind}div", t, x, y)
    rest = s.binary(f"{kind}rem", t, x, y)
    zero, flag = s.number(0, t), flag_type(t)
    step = s.icmp("ne", t, rest, zero)
    if not unsigned:
        sign = s.binary("xor", t, x, s.value(other))
        step = s.binary("and", flag, step, s.icmp("sge" if up else "slt", t, sign, zero))
    one = s.cast("zext" if up else "sext", step, flag, t)
    (result,) = op.results
    s.give(result, s.binary("add", t, quotient, one))


def flag_type(type_: Attribute) -> Attribute:
    """Type of a comparison of values of a type."""
    return i1 if elem_of(type_) is type_ else vector_type(i1, element_count(type_))


def element_count(type_: Attribute) -> int:
    """Elements of a vector of any shape."""
    return prod(cast(VectorType, type_).get_shape())


def _negf(s: Sink[T], op: Operation) -> None:
    (a,) = operands_of(op)
    (result,) = op.results
    s.give(result, s.fneg(a.type, s.value(a), op.properties.get("fastmath")))


def _cast(name: str) -> Rule:
    word = _CASTS[name]
    between_floats = name in ("extf", "truncf")

    def rule(s: Sink[T], op: Operation) -> None:
        (a,) = operands_of(op)
        (result,) = op.results
        if between_floats and min(bit_width(elem_of(t)) for t in (a.type, result.type)) < 16:
            raise refuse(op, f"from {a.type} to {result.type}")
        if op.properties:
            mode: Any = op.properties.get(ROUNDING_MODE)
            if mode is not None and mode.value.data != RoundingMode.to_nearest_even:
                raise refuse(op, f"that rounds {RoundingMode(mode.value.data).name}")
        s.give(result, s.cast(word, s.value(a), a.type, result.type))

    return rule


def _index_cast(s: Sink[T], op: Operation) -> None:
    (a,) = operands_of(op)
    (result,) = op.results
    have, want = bit_width(elem_of(a.type)), bit_width(elem_of(result.type))
    word = "trunc" if have > want else "zext" if op.name == "arith.index_castui" else "sext"
    s.give(result, s.value(a) if have == want else s.cast(word, s.value(a), a.type, result.type))


def _long_product(s: Sink[T], op: Operation) -> None:
    """Both halves of a product: those of the product of the widened factors."""
    a, b = operands_of(op)
    bits = bit_width(elem_of(a.type))
    narrow = a.type
    wide: Attribute = IntegerType(2 * bits)
    if isinstance(narrow, VectorType):
        wide = vector_type(wide, element_count(cast(Attribute, narrow)))
    extend = "sext" if op.name == "arith.mulsi_extended" else "zext"
    t = cast(Attribute, narrow)
    product = s.binary("mul", wide, s.cast(extend, s.value(a), t, wide), s.cast(extend, s.value(b), t, wide))
    low, high = op.results
    if s.used(low):
        s.give(low, s.cast("trunc", product, wide, t))
    if s.used(high):
        s.give(high, s.cast("trunc", s.binary("lshr", wide, product, _wide_number(s, bits, wide)), wide, t))


def _wide_number(s: Sink[T], value: int, type_: Attribute) -> T:
    """A number of any width: attributes hold vectors of up to 64 bits an element."""
    if elem_of(type_) is type_ or bit_width(elem_of(type_)) <= 64:
        return s.number(value, type_)
    first = s.with_element(type_, s.poison(type_), s.number(value, elem_of(type_)), 0)
    return s.shuffle(type_, first, None, [0] * element_count(type_))


def _sum_with_carry(s: Sink[T], op: Operation) -> None:
    a, b = operands_of(op)
    total = s.binary("add", a.type, s.value(a), s.value(b))
    result, carry = op.results
    s.give(result, total)
    if s.used(carry):
        s.give(carry, s.icmp("ult", a.type, total, s.value(a)))


def _cmpi(s: Sink[T], op: arith.CmpiOp) -> None:
    a, b = operands_of(op)
    (result,) = op.results
    s.give(result, s.icmp(CMPI_WORDS[op.predicate.value.data], a.type, s.value(a), s.value(b)))


def _cmpf(s: Sink[T], op: arith.CmpfOp) -> None:
    a, b = operands_of(op)
    word = CMPF_WORDS[op.predicate.value.data]
    (result,) = op.results
    s.give(result, s.fcmp(word, a.type, s.value(a), s.value(b), op.properties.get("fastmath")))


def _select(s: Sink[T], op: Operation) -> None:
    c, a, b = operands_of(op)
    flags = op.properties.get("fastmath")
    (result,) = op.results
    s.give(result, s.select(c.type, a.type, s.value(c), s.value(a), s.value(b), flags))


ARITH: dict[type[Operation], Rule] = {
    arith.ConstantOp: _constant,
    ub.PoisonOp: _poison,
    **{
        INT_BINARY[name]: _binary(word, "overflowFlags" if name in ("addi", "subi", "muli", "shli") else "")
        for name, word in _INT.items()
    },
    **{INT_BINARY[name]: _division(word) for name, word in _DIVISION.items()},
    **{INT_BINARY[f"{k}{sign}i"]: _minmax(f"{sign}{k}") for k in ("min", "max") for sign in "su"},
    arith.FloorDivSIOp: _rounded_division,
    arith.CeilDivSIOp: _rounded_division,
    arith.CeilDivUIOp: _rounded_division,
    **{cls: _binary(word, "fastmath") for cls, word in _FLOAT.items()},
    **{cls: _minmax(key) for cls, key in _FLOAT_MINMAX.items()},
    arith.NegfOp: _negf,
    arith.AddUIExtendedOp: _sum_with_carry,
    arith.MulSIExtendedOp: _long_product,
    arith.MulUIExtendedOp: _long_product,
    **{CASTS[name]: _cast(name) for name in _CASTS},
    arith.IndexCastOp: _index_cast,
    **{cls: _index_cast for cls in Arith.operations if cls.name == "arith.index_castui"},
    arith.CmpiOp: _cmpi,
    arith.CmpfOp: _cmpf,
    arith.SelectOp: _select,
}
"""The rule of each op of `arith`, and of `ub.poison`."""
