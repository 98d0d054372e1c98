"""Emission for `inline_asm`; needs xDSL."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.dialects.llvm import TailCallKind, TailCallKindAttr
from xdsl.ir import Attribute, SSAValue

from ...dialects.upstream import llvm
from ...ir.builder import i32_list, i64_list
from .trace import current

_NO_TAIL_CALL = TailCallKindAttr(TailCallKind.NONE)


def emit(
    text: str, constraints: str, operands: Sequence[SSAValue], types: Sequence[Attribute], side_effects: bool
) -> list[SSAValue]:
    """`llvm.inline_asm`: its results."""
    props: dict[str, Attribute] = {
        "asm_string": StringAttr(text),
        "constraints": StringAttr(constraints),
        "tail_call_kind": _NO_TAIL_CALL,
    }
    if side_effects:
        props["has_side_effects"] = UnitAttr()
    tracer = current()
    if len(types) < 2:
        return list(tracer.opn(llvm.InlineAsmOp, operands, types, props).results)
    packed = tracer.opn(llvm.InlineAsmOp, operands, (llvm.StructType((False, tuple(types))),), props).results[0]
    return [
        tracer.op1(llvm.ExtractValueOp, (packed,), type_, {"position": i64_list((i,))}) for i, type_ in enumerate(types)
    ]


def emit_intrinsic(name: str, operands: Sequence[SSAValue], type_: Attribute | None) -> SSAValue | None:
    """`llvm.call_intrinsic`: the result, or None."""
    props: dict[str, Attribute] = {"intrin": StringAttr(name), "operandSegmentSizes": i32_list((len(operands), 0))}
    op = current().opn(llvm.CallIntrinsicOp, operands, () if type_ is None else (type_,), props)
    return op.results[0] if op.results else None
