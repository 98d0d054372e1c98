"""`convert-cf-to-llvm`: branches of `cf` as branches of `llvm`; arguments of blocks get the types of `llvm`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import cf
from xdsl.dialects import llvm as xllvm
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region

from ...dialects.upstream import gpu
from ...dialects.upstream.llvm.attrs import LOOP_ATTRIBUTE, LoopAnnotationAttr
from ...dialects.upstream.llvm.branches import BrOp, CondBrOp, SwitchOp
from ...dialects.upstream.llvm.function import CallOp
from ...ir.emitter import append
from ...lowering.rebuild import Handler, failure_at
from ..base import Pass
from .llvm_conversion import LlvmConversion
from .llvm_declare import declare


def _annotation(op: Operation) -> dict[str, Attribute]:
    found = op.attributes.get(LOOP_ATTRIBUTE)
    return {"loop_annotation": found} if isinstance(found, LoopAnnotationAttr) else {}


def _branch(r: LlvmConversion, op: cf.BranchOp) -> None:
    target = r.blocks[op.successors[0]]
    r.branch(BrOp, r.passed(target, op.operands), [target], _annotation(op))


def _conditional(r: LlvmConversion, op: cf.ConditionalBranchOp) -> None:
    then, otherwise = (r.blocks[s] for s in op.successors)
    yes, no = r.passed(then, op.then_arguments), r.passed(otherwise, op.else_arguments)
    props = {"operandSegmentSizes": CondBrOp.segments(len(yes), len(no)), **_annotation(op)}
    r.branch(CondBrOp, [r.ll(op.cond), *yes, *no], [then, otherwise], props)


def _switch(r: LlvmConversion, op: cf.SwitchOp) -> None:
    default = r.blocks[op.default_block]
    values: object = op.case_values
    numbers = [int(n) for n in values.get_values()] if values is not None else []
    cases: list[Any] = []
    for number, block, operands in zip(numbers, op.case_blocks, op.case_operand, strict=True):
        target = r.blocks[block]
        cases.append((number, target, r.passed(target, operands)))
    made = SwitchOp.make(r.ll(op.flag), (default, r.passed(default, op.default_operands)), cases)
    append(r.b.block, made)


def _split_asserts(module: ModuleOp) -> None:
    """Assertions as branches: host code leaves the process where one does not hold."""
    for op in [op for op in module.walk() if isinstance(op, cf.AssertOp)]:
        if _in_device(op):
            raise failure_at(op, f"failed to legalize operation '{op.name}' in device code")
        block = cast(Block, op.parent)
        region = cast(Region, block.parent)
        rest = block.split_before(cast(Operation, op.next_op))
        call = CallOp.create(properties=CallOp.properties_for("abort", 0))
        failed = Block([call, xllvm.UnreachableOp.create()])
        region.add_block(failed)
        block.add_op(cf.ConditionalBranchOp(op.arg, rest, [], failed, []))
        op.detach()
        op.erase()
        declare(module.body.block, "abort", (), None)


def _in_device(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, gpu.ModuleOp):
        parent = parent.parent_op()
    return parent is not None


HANDLERS = cast(
    dict[type[Operation], Handler], {cf.BranchOp: _branch, cf.ConditionalBranchOp: _conditional, cf.SwitchOp: _switch}
)
"""Conversions of `cf`."""


class _Conversion(LlvmConversion):
    handlers = HANDLERS
    converts_blocks = True


@dataclass(frozen=True)
class ConvertCfToLlvmPass(Pass):
    """Convert branches and block arguments to the llvm dialect."""

    name = "convert-cf-to-llvm"
    needs = "no `scf` (`convert-scf-to-cf`)"

    def run(self, module: ModuleOp) -> ModuleOp:
        _split_asserts(module)
        return _Conversion.rebuild(module)
