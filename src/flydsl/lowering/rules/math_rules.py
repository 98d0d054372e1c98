"""`math` as intrinsics every target of LLVM knows; a target lists those it has code for.

The others are expanded to `arith` before (`expand_math.py`), since no GPU here has a library of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from xdsl.dialects import math
from xdsl.ir import Operation

from ...dialects.upstream.extra_math import ErfcOp
from ...dialects.upstream.math import Math
from ...ir.builder import operands_of
from .sink import Rule, Sink, refused

T = TypeVar("T")

INTRINSICS = {
    "absf": "fabs", "ceil": "ceil", "floor": "floor", "trunc": "trunc", "round": "round", "roundeven": "roundeven",
    "sqrt": "sqrt", "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "log10": "log10", "sin": "sin",
    "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "atan2": "atan2", "powf": "pow", "copysign": "copysign", "fma": "fma",
}  # fmt: skip
"""Functions of `math` by the intrinsic with the same meaning."""
SIMPLE_MATH = frozenset({"absf", "ceil", "floor", "trunc", "round", "roundeven", "sqrt", "copysign", "fma"})
"""Those every GPU has."""
_INTEGERS = {"ctpop": None, "ctlz": 0, "cttz": 0, "absi": 0}
"""Functions on integers, and the last argument of their intrinsic."""
_CLASSES = {"isnan": 0x003, "isinf": 0x204, "isfinite": 0x1F8, "isnormal": 0x108}
"""Classes of floats by LLVM's bits."""


def _intrinsic(key: str) -> Rule:
    def rule(s: Sink[T], op: Operation) -> None:
        args = operands_of(op)
        t = args[0].type
        types = [a.type for a in args]
        (result,) = op.results
        s.give(result, s.intr(key, t, [s.value(a) for a in args], types, op.properties.get("fastmath")))

    return rule


def _integer(key: str, immediate: int | None) -> Rule:
    def rule(s: Sink[T], op: Operation) -> None:
        (x,) = operands_of(op)
        (result,) = op.results
        s.give(result, s.intr(key, x.type, (s.value(x),), (x.type,), None, immediate))

    return rule


def _classified(bits: int) -> Rule:
    def rule(s: Sink[T], op: Operation) -> None:
        (x,) = operands_of(op)
        (result,) = op.results
        s.give(result, s.intr("is.fpclass", result.type, (s.value(x),), (x.type,), None, bits))

    return rule


def _rsqrt(s: Sink[T], op: Operation) -> None:
    (x,) = operands_of(op)
    t, flags = x.type, op.properties.get("fastmath")
    root = s.intr("sqrt", t, (s.value(x),), (t,), flags)
    (result,) = op.results
    s.give(result, s.binary("fdiv", t, s.number(1.0, t), root, flags))


def _expm1(s: Sink[T], op: Operation) -> None:
    (x,) = operands_of(op)
    t, flags = x.type, op.properties.get("fastmath")
    power = s.intr("exp", t, (s.value(x),), (t,), flags)
    (result,) = op.results
    s.give(result, s.binary("fsub", t, power, s.number(1.0, t), flags))


def _log1p(s: Sink[T], op: Operation) -> None:
    (x,) = operands_of(op)
    t, flags = x.type, op.properties.get("fastmath")
    more = s.binary("fadd", t, s.number(1.0, t), s.value(x), flags)
    (result,) = op.results
    s.give(result, s.intr("log", t, (more,), (t,), flags))


_EVERYWHERE: dict[str, Rule] = {
    **{name: _integer("abs" if name == "absi" else name, last) for name, last in _INTEGERS.items()},
    **{name: _classified(bits) for name, bits in _CLASSES.items()},
    "rsqrt": _rsqrt,
}
_ELSEWHERE: dict[str, Rule] = {
    **{name: _intrinsic(key) for name, key in INTRINSICS.items()},
    "fpowi": _intrinsic("powi"),
    "expm1": _expm1,
    "log1p": _log1p,
}


def _classes() -> list[tuple[str, type[Operation]]]:
    found = {*Math.operations, *math.Math.operations, ErfcOp}
    return sorted(((op.name.removeprefix("math."), op) for op in found), key=lambda pair: pair[0])


def math_rules(native: Iterable[str]) -> dict[type[Operation], Rule]:
    """The rules of a target with code for the functions named; all others of `math` are refused."""
    known = {**{name: _ELSEWHERE[name] for name in native}, **_EVERYWHERE}
    return {op: known.get(name, refused) for name, op in _classes()}


MATH: dict[type[Operation], Rule] = {
    op: {**_ELSEWHERE, **_EVERYWHERE}[name] for name, op in _classes() if name in _ELSEWHERE or name in _EVERYWHERE
}
"""The rule of each function of `math` that intrinsics can say, whatever the target has code for."""
