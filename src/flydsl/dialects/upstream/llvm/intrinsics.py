"""`llvm.intr.*`: LLVM's target-independent intrinsics as ops, made from one table.

`llvm.intr.smax(%a, %b) : (i32, i32) -> i32`; some have the generic text form alone, as upstream's do:
`"llvm.intr.ctlz"(%x) <{is_zero_poison = false}> : (i32) -> i32`.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.llvm import FastMathAttr
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def, result_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ....ir.op_text import write
from ..op_text import parse_dict, parse_function_type, parse_operands, print_dict, print_function_type

_FLOAT_1 = (
    "fabs ceil floor trunc round roundeven rint nearbyint sqrt exp exp2 exp10 log log2 log10 sin cos tan asin acos "
    "atan sinh cosh tanh sincos"
).split()
_FLOAT_2 = "pow powi copysign atan2 maxnum minnum maximum minimum".split()
_FLOAT_3 = ["fma", "fmuladd"]
_INT_2 = "smax smin umax umin".split()
_REDUCE_INT = "add mul and or xor smax smin umax umin".split()
_REDUCE_FLOAT = "fmax fmin fmaximum fminimum".split()
_REDUCE_ORDERED = ["fadd", "fmul"]

ARITY: dict[str, int] = {
    **dict.fromkeys((*_FLOAT_1, "ctpop", "ctlz", "cttz", "abs", "is.fpclass", "bitreverse", "bswap"), 1),
    **dict.fromkeys((*_FLOAT_2, *_INT_2), 2),
    **dict.fromkeys(_FLOAT_3, 3),
    **dict.fromkeys((f"vector.reduce.{k}" for k in (*_REDUCE_INT, *_REDUCE_FLOAT)), 1),
    **dict.fromkeys((f"vector.reduce.{k}" for k in _REDUCE_ORDERED), 2),
}
"""Operands of each intrinsic."""

IMMEDIATE = {"ctlz": "is_zero_poison", "cttz": "is_zero_poison", "abs": "is_int_min_poison", "is.fpclass": "bit"}
"""Intrinsics whose last argument is a property."""

_PLAIN = {*_INT_2, "ctpop", "bitreverse", "bswap", *(f"vector.reduce.{k}" for k in _REDUCE_INT)}
"""Intrinsics on integers, which take no fast-math flags."""


class IntrinsicOp(IRDLOperation):
    """An intrinsic."""

    args = var_operand_def()
    res = result_def()

    def verify_(self) -> None:
        if len(self.args) != ARITY[self.key]:
            raise VerifyException(f"expected {ARITY[self.key]} operands, got {len(self.args)}")

    @property
    def key(self) -> str:
        """Its name in `llvm.`, without the types LLVM appends."""
        return self.name.removeprefix("llvm.intr.")


class _ListedOp(IntrinsicOp):
    """With the text form `llvm.intr.name(%a, %b) {fastmathFlags = ...} : (A, B) -> R`."""

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        parser.parse_punctuation("(")
        pos = parser.pos
        operands = parse_operands(parser)
        parser.parse_punctuation(")")
        props, attrs = parse_dict(parser, cls)
        parser.parse_punctuation(":")
        inputs, outputs = parse_function_type(parser)
        return cls.create(
            operands=parser.resolve_operands(operands, inputs, pos),
            result_types=outputs,
            properties=props,
            attributes=attrs,
        )

    def print(self, printer: Printer) -> None:
        write(printer, "(", self.args, ")")
        print_dict(printer, self)
        printer.print_string(" : ")
        print_function_type(printer, self.args, self.results)


def _define(key: str) -> type[IntrinsicOp]:
    body: dict[str, Any] = {
        "__doc__": f"LLVM's `llvm.{key}`.",
        "__module__": __name__,
        "name": f"llvm.intr.{key}",
        "traits": traits_def(Pure()),
    }
    unlisted = {*IMMEDIATE, *(f"vector.reduce.{k}" for k in (*_REDUCE_INT, *_REDUCE_ORDERED))}
    listed = key not in unlisted
    if key in IMMEDIATE:
        body[IMMEDIATE[key]] = prop_def(IntegerAttr)
    elif key not in _PLAIN:
        body["fastmathFlags"] = opt_prop_def(FastMathAttr)
    base: type[IntrinsicOp] = _ListedOp if listed else IntrinsicOp
    made = cast(type[IntrinsicOp], type(f"Intr_{key.replace('.', '_')}", (base,), body))
    return irdl_op_definition(made)


INTRINSIC_OPS: dict[str, type[IntrinsicOp]] = {key: _define(key) for key in ARITY}
"""The op of each intrinsic by its name in `llvm.`."""
