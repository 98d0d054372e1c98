"""`convert-math-to-llvm`: functions of `math` as LLVM's intrinsics.

Those no intrinsic stands for are expanded to `arith` before (`convert-fly-to-*`), since no target here has a library of
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects import llvm as xllvm
from xdsl.dialects import math
from xdsl.dialects.builtin import ModuleOp, i1
from xdsl.ir import Operation

from ...dialects.upstream.llvm.intrinsics import IMMEDIATE, INTRINSIC_OPS
from ...dialects.upstream.math import Math
from ...ir.builder import i32, int_attr, operands_of
from ...lowering.rebuild import Handler
from ..base import Pass
from .llvm_conversion import LlvmConversion, fast_flags

INTRINSICS = {
    "absf": "fabs", "ceil": "ceil", "floor": "floor", "trunc": "trunc", "round": "round", "roundeven": "roundeven",
    "sqrt": "sqrt", "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "log10": "log10", "sin": "sin",
    "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "atan2": "atan2", "powf": "pow", "fpowi": "powi", "copysign": "copysign", "fma": "fma",
    "ctpop": "ctpop", "ctlz": "ctlz", "cttz": "cttz", "absi": "abs",
}  # fmt: skip
"""Functions of `math` by the name of the intrinsic with the same meaning."""


def _intrinsic(key: str) -> Handler:
    cls = INTRINSIC_OPS[key]

    def handle(r: LlvmConversion, op: Operation) -> None:
        args = r.lls(operands_of(op))
        props: Any = {IMMEDIATE[key]: int_attr(0, i1)} if key in IMMEDIATE else fast_flags(op)
        r.give(op, r.make(cls, args, args[0].type, props))

    return handle


def _rsqrt(r: LlvmConversion, op: Operation) -> None:
    (x,) = r.lls(operands_of(op))
    flags = fast_flags(op)
    root = r.make(INTRINSIC_OPS["sqrt"], (x,), x.type, flags)
    r.give(op, r.make(xllvm.FDivOp, (r.b.number(1.0, x.type), root), x.type, flags))


def _minus_one(r: LlvmConversion, op: Operation) -> None:
    """`expm1`: the exponential less one."""
    (x,) = r.lls(operands_of(op))
    flags = fast_flags(op)
    power = r.make(INTRINSIC_OPS["exp"], (x,), x.type, flags)
    r.give(op, r.make(xllvm.FSubOp, (power, r.b.number(1.0, x.type)), x.type, flags))


def _plus_one(r: LlvmConversion, op: Operation) -> None:
    """`log1p`: the logarithm of one more."""
    (x,) = r.lls(operands_of(op))
    flags = fast_flags(op)
    more = r.make(xllvm.FAddOp, (r.b.number(1.0, x.type), x), x.type, flags)
    r.give(op, r.make(INTRINSIC_OPS["log"], (more,), x.type, flags))


def _classified(bits: int) -> Handler:
    """Whether a float is of one of the classes LLVM has a bit for."""

    def handle(r: LlvmConversion, op: Operation) -> None:
        (x,) = r.lls(operands_of(op))
        props = {"bit": int_attr(bits, i32)}
        r.give(op, r.make(INTRINSIC_OPS["is.fpclass"], (x,), op.results[0].type, props))

    return handle


CLASSES = {"isnan": 0x003, "isinf": 0x204, "isfinite": 0x1F8, "isnormal": 0x108}
"""Classes of floats by LLVM's bits."""
_SPECIAL: dict[str, Handler] = {
    "expm1": _minus_one,
    "log1p": _plus_one,
    **{name: _classified(bits) for name, bits in CLASSES.items()},
}

HANDLERS: dict[type[Operation], Handler] = {
    **{
        op: _intrinsic(INTRINSICS[op.name.removeprefix("math.")])
        for op in Math.operations
        if op.name.removeprefix("math.") in INTRINSICS
    },
    **{
        op: _SPECIAL[op.name.removeprefix("math.")]
        for op in Math.operations
        if op.name.removeprefix("math.") in _SPECIAL
    },
    math.RsqrtOp: _rsqrt,
}
"""Conversions of `math`."""


class _Conversion(LlvmConversion):
    handlers = HANDLERS


@dataclass(frozen=True)
class ConvertMathToLlvmPass(Pass):
    """Convert math to intrinsics of the llvm dialect."""

    name = "convert-math-to-llvm"

    def run(self, module: ModuleOp) -> ModuleOp:
        return _Conversion.rebuild(module)
