"""`convert-arith-to-llvm`: ops of `arith` as ops of `llvm`; `index` is 64 bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    VectorType,
    i1,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from ...dialects.upstream.arith import Arith
from ...dialects.upstream.extra_math import RemFOp
from ...dialects.upstream.llvm.intrinsics import INTRINSIC_OPS
from ...dialects.upstream.llvm.values import FPToSIOp, FPToUIOp, UIToFPOp
from ...ir import arith
from ...ir.arith import ROUNDING_MODE
from ...ir.builder import CASTS, INT_BINARY, elem_of, int_attr, operands_of
from ...ir.enums import RoundingMode
from ...ir.types import bit_width, vector_type
from ...lowering.rebuild import Handler
from ..base import Pass
from .llvm_conversion import LlvmConversion, fast_flags, llvm_type, refuse

_INT: dict[str, type[Operation]] = {
    "addi": xllvm.AddOp,
    "subi": xllvm.SubOp,
    "muli": xllvm.MulOp,
    "divsi": xllvm.SDivOp,
    "divui": xllvm.UDivOp,
    "remsi": xllvm.SRemOp,
    "remui": xllvm.URemOp,
    "andi": xllvm.AndOp,
    "ori": xllvm.OrOp,
    "xori": xllvm.XOrOp,
    "shli": xllvm.ShlOp,
    "shrsi": xllvm.AShrOp,
    "shrui": xllvm.LShrOp,
    **{f"{k}{s}i": INTRINSIC_OPS[f"{s}{k}"] for k in ("min", "max") for s in "su"},
}
_FLOAT: dict[type[Operation], type[Operation]] = {
    arith.AddfOp: xllvm.FAddOp,
    arith.SubfOp: xllvm.FSubOp,
    arith.MulfOp: xllvm.FMulOp,
    arith.DivfOp: xllvm.FDivOp,
    RemFOp: xllvm.FRemOp,
    arith.MaximumfOp: INTRINSIC_OPS["maximum"],
    arith.MinimumfOp: INTRINSIC_OPS["minimum"],
    arith.MaxnumfOp: INTRINSIC_OPS["maxnum"],
    arith.MinnumfOp: INTRINSIC_OPS["minnum"],
}
_CAST: dict[str, type[Operation]] = {
    "extsi": xllvm.SExtOp,
    "extui": xllvm.ZExtOp,
    "trunci": xllvm.TruncOp,
    "extf": xllvm.FPExtOp,
    "truncf": xllvm.FPTruncOp,
    "sitofp": xllvm.SIToFPOp,
    "uitofp": UIToFPOp,
    "fptosi": FPToSIOp,
    "fptoui": FPToUIOp,
    "bitcast": xllvm.BitcastOp,
}
_OVERFLOW = {"nsw": 1, "nuw": 2}


def _constant(r: LlvmConversion, op: arith.ConstantOp) -> None:
    value: Any = op.properties["value"]
    result = op.results[0]
    type_ = llvm_type(result.type)
    if type_ != result.type:
        elem = elem_of(type_)
        if isinstance(value, IntegerAttr):
            value = int_attr(cast(Any, value).value.data, cast(Any, type_))
        elif isinstance(value, DenseIntOrFPElementsAttr) and elem_of(result.type) == elem:
            value = DenseIntOrFPElementsAttr(cast(Any, type_), value.data)
        elif isinstance(value, DenseIntOrFPElementsAttr) and isinstance(elem, IntegerType):
            value = DenseIntOrFPElementsAttr.from_list(cast(Any, type_), list(cast(Any, value).get_values()))
        else:
            raise refuse(op, f"of type {result.type}")
    elif not isinstance(value, IntegerAttr | FloatAttr | DenseIntOrFPElementsAttr):
        raise refuse(op, f"with value {value}")
    r.give(op, r.b.constant(cast(Attribute, value), type_))


def _overflow(op: Operation) -> dict[str, Attribute]:
    given: Any = op.properties.get("overflowFlags")
    if given is None or not given.data:
        return {}
    return {"overflowFlags": int_attr(sum(_OVERFLOW[str(getattr(f, "value", f))] for f in given.data), i32)}


def _int_binary(cls: type[Operation], flagged: bool) -> Handler:
    def handle(r: LlvmConversion, op: Operation) -> None:
        a, b = r.lls(operands_of(op))
        r.give(op, r.make(cls, (a, b), a.type, _overflow(op) if flagged else {}))

    return handle


def _rounded_division(r: LlvmConversion, op: Operation) -> None:
    """The truncated quotient, one less or more where the rest is not zero and the signs ask for it."""
    a, b = r.lls(operands_of(op))
    t = a.type
    unsigned, up = isinstance(op, arith.CeilDivUIOp), not isinstance(op, arith.FloorDivSIOp)
    quotient = r.make(xllvm.UDivOp if unsigned else xllvm.SDivOp, (a, b), t)
    rest = r.make(xllvm.URemOp if unsigned else xllvm.SRemOp, (a, b), t)
    zero = r.int(0, t)
    step = icmp(r, "ne", rest, zero)
    if not unsigned:
        sign = icmp(r, "sge" if up else "slt", r.make(xllvm.XOrOp, (a, b), t), zero)
        step = r.make(xllvm.AndOp, (step, sign), step.type)
    one = r.make(xllvm.ZExtOp if up else xllvm.SExtOp, (step,), t)
    r.give(op, r.make(xllvm.AddOp, (quotient, one), t))


_PREDICATES = {
    p: int_attr(i, IntegerType(64))
    for i, p in enumerate(("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"))
}


def flag_type(type_: Attribute) -> Attribute:
    """Type of a comparison of values of a type."""
    return vector_type(i1, type_.get_shape()[0]) if isinstance(type_, VectorType) else i1


def icmp(r: LlvmConversion, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
    """An integer comparison."""
    return r.make(xllvm.ICmpOp, (a, b), flag_type(a.type), {"predicate": _PREDICATES[predicate]})


def _float_binary(r: LlvmConversion, op: Operation) -> None:
    a, b = r.lls(operands_of(op))
    r.give(op, r.make(_FLOAT[type(op)], (a, b), a.type, fast_flags(op)))


def _negf(r: LlvmConversion, op: Operation) -> None:
    (a,) = r.lls(operands_of(op))
    r.give(op, r.make(xllvm.FNegOp, (a,), a.type, fast_flags(op)))


def _cast(name: str) -> Handler:
    cls = _CAST[name]

    def handle(r: LlvmConversion, op: Operation) -> None:
        (old,) = operands_of(op)
        result = op.results[0].type
        if name in ("extf", "truncf") and min(bit_width(elem_of(t)) for t in (old.type, result)) < 16:
            raise refuse(op, f"from {old.type} to {result}")
        mode: Any = op.properties.get(ROUNDING_MODE)
        if mode is not None and mode.value.data != RoundingMode.to_nearest_even:
            raise refuse(op, f"that rounds {RoundingMode(mode.value.data).name}")
        a, type_ = r.ll(old), llvm_type(result)
        r.give(op, a if a.type == type_ else r.make(cls, (a,), type_))

    return handle


def _index_cast(r: LlvmConversion, op: Operation) -> None:
    (old,) = operands_of(op)
    a, type_ = r.ll(old), llvm_type(op.results[0].type)
    have, want = bit_width(elem_of(a.type)), bit_width(elem_of(type_))
    wider = xllvm.ZExtOp if op.name == "arith.index_castui" else xllvm.SExtOp
    r.give(op, a if have == want else r.make(xllvm.TruncOp if have > want else wider, (a,), type_))


def _long_product(r: LlvmConversion, op: Operation) -> None:
    """Both halves of a product: those of the product of the widened factors."""
    a, b = r.lls(operands_of(op))
    bits = bit_width(elem_of(a.type))
    narrow = a.type
    wide: Attribute = IntegerType(2 * bits)
    if isinstance(narrow, VectorType):
        wide = VectorType(IntegerType(2 * bits), narrow.get_shape())
    extend = xllvm.SExtOp if op.name == "arith.mulsi_extended" else xllvm.ZExtOp
    product = r.make(xllvm.MulOp, (r.make(extend, (a,), wide), r.make(extend, (b,), wide)), wide)
    high = r.make(xllvm.LShrOp, (product, r.int(bits, wide)), wide)
    for result, half in zip(op.results, (product, high), strict=True):
        r.vm[result] = r.make(xllvm.TruncOp, (half,), cast(Attribute, narrow))


def _sum_with_carry(r: LlvmConversion, op: Operation) -> None:
    a, b = r.lls(operands_of(op))
    total = r.make(xllvm.AddOp, (a, b), a.type)
    r.vm[op.results[0]], r.vm[op.results[1]] = total, icmp(r, "ult", total, a)


def _cmpi(r: LlvmConversion, op: arith.CmpiOp) -> None:
    a, b = r.lls(operands_of(op))
    r.give(op, r.make(xllvm.ICmpOp, (a, b), flag_type(a.type), {"predicate": op.predicate}))


def _cmpf(r: LlvmConversion, op: arith.CmpfOp) -> None:
    a, b = r.lls(operands_of(op))
    r.give(op, r.make(xllvm.FCmpOp, (a, b), flag_type(a.type), {"predicate": op.predicate, **fast_flags(op)}))


def _select(r: LlvmConversion, op: Operation) -> None:
    c, a, b = r.lls(operands_of(op))
    r.give(op, r.make(xllvm.SelectOp, (c, a, b), a.type, fast_flags(op)))


HANDLERS: dict[type[Operation], Handler] = {
    arith.ConstantOp: cast(Handler, _constant),
    **{
        INT_BINARY[name]: _int_binary(cls, name in ("addi", "subi", "muli", "shli"))
        for name, cls in _INT.items()
        if name in INT_BINARY
    },
    arith.FloorDivSIOp: _rounded_division,
    arith.CeilDivSIOp: _rounded_division,
    arith.CeilDivUIOp: _rounded_division,
    **dict.fromkeys(_FLOAT, _float_binary),
    arith.NegfOp: _negf,
    arith.AddUIExtendedOp: _sum_with_carry,
    arith.MulSIExtendedOp: _long_product,
    arith.MulUIExtendedOp: _long_product,
    **{CASTS[name]: _cast(name) for name in _CAST},
    arith.IndexCastOp: _index_cast,
    **{cls: _index_cast for cls in Arith.operations if cls.name == "arith.index_castui"},
    arith.CmpiOp: cast(Handler, _cmpi),
    arith.CmpfOp: cast(Handler, _cmpf),
    arith.SelectOp: _select,
}
"""Conversions of `arith`."""


class _Conversion(LlvmConversion):
    handlers = HANDLERS


@dataclass(frozen=True)
class ConvertArithToLlvmPass(Pass):
    """Convert arith to the llvm dialect."""

    name = "convert-arith-to-llvm"

    def run(self, module: ModuleOp) -> ModuleOp:
        return _Conversion.rebuild(module)
