"""`convert-scf-to-cf`: loops and conditionals as blocks and branches.

Works in place. The ops of a block are taken from its end, so that each op moves to a new block at most once per level
of nesting; what is inside a structured op is lowered before the op itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import cf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, VectorType, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialects.upstream import scf
from ...dialects.upstream.llvm.attrs import LOOP_ATTRIBUTE
from ...errors import DSLCompileError
from ...ir import arith
from ...lowering.rebuild import failure_at
from ..base import Pass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import DenseArrayBase, IntegerType


def _lower_region(region: Region) -> None:
    for block in list(region.blocks):
        op = block.last_op
        while op is not None:
            before = op.prev_op
            if op.name in _UNKNOWN:
                raise failure_at(op, f"failed to legalize operation '{op.name}' that was explicitly marked illegal")
            for inner in op.regions:
                _lower_region(inner)
            lower = _LOWERINGS.get(type(op))
            if lower is not None:
                lower(op)
            op = before


def _cut(op: Operation) -> tuple[Block, Block]:
    """The block an op ends now, and the one with what followed it; the op is left without a place."""
    block = cast(Block, op.parent)
    following = op.next_op
    if following is None:
        raise DSLCompileError(f"'{op.name}' has no op behind it")
    after = block.split_before(following)
    return block, after


def _move(region: Region, before: Block) -> list[Block]:
    """Put the blocks of a region in front of a block of another."""
    blocks = list(region.blocks)
    region.move_blocks_before(before)
    return blocks


def _drop(op: Operation) -> None:
    op.detach()
    op.erase()


def _end(block: Block, kind: type[Operation]) -> tuple[Operation, tuple[SSAValue, ...]]:
    """The terminator of a lowered region, taken out, and what it passes on."""
    last = block.last_op
    if not isinstance(last, kind):
        found = "nothing" if last is None else f"'{last.name}'"
        raise DSLCompileError(f"expected '{kind.name}' at the end of a region, got {found}")
    values = tuple(last.operands)
    return last, values


def _jump(block: Block, target: Block, values: Sequence[SSAValue], like: Operation) -> cf.BranchOp:
    made = cf.BranchOp(target, *values)
    made.location = like.location
    block.add_op(made)
    return made


def _choose(block: Block, cond: SSAValue, then: Any, otherwise: Any, like: Operation) -> None:
    made = cf.ConditionalBranchOp(cond, then[0], then[1], otherwise[0], otherwise[1])
    made.location = like.location
    block.add_op(made)


def _replace(results: Sequence[SSAValue], values: Sequence[SSAValue]) -> None:
    for old, new in zip(results, values, strict=True):
        old.replace_all_uses_with(new)


def _annotation(op: Operation) -> dict[str, Attribute]:
    """What the author asks of a loop."""
    given = op.attributes.get(LOOP_ATTRIBUTE)
    return {} if given is None else {LOOP_ATTRIBUTE: given}


def _for(op: scf.ForOp) -> None:
    block, after = _cut(op)
    region = cast(Region, block.parent)
    body = op.body.blocks[0]
    head = Block(arg_types=[a.type for a in body.args])
    region.insert_block_before(head, after)
    blocks = _move(op.body, after)
    for old, new in zip(body.args, head.args, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    for argument in reversed(body.args):
        body.erase_arg(argument)
    _jump(block, head, (op.lb, *op.iter_args), op)
    predicate = "ult" if "unsignedCmp" in op.properties or "unsignedCmp" in op.attributes else "slt"
    more = arith.CmpiOp(head.args[0], op.ub, predicate)
    more.location = op.location
    head.add_op(more)
    _choose(head, more.result, (body, ()), (after, ()), op)
    last, values = _end(blocks[-1], scf.YieldOp)
    step = arith.AddiOp(head.args[0], op.step)
    step.location = op.location
    cast(Block, last.parent).insert_op_before(step, last)
    _jump(blocks[-1], head, (step.result, *values), op).attributes = _annotation(op)
    _drop(last)
    _replace(op.results, head.args[1:])
    _drop(op)


def _if(op: scf.IfOp) -> None:
    block, after = _cut(op)
    for result in op.results:
        argument = after.insert_arg(result.type, len(after.args))
        argument.name_hint = result.name_hint
        result.replace_all_uses_with(argument)
    targets: list[Block] = []
    for region in (op.true_region, op.false_region):
        if region.blocks.first is None:
            targets.append(after)
            continue
        blocks = _move(region, after)
        targets.append(blocks[0])
        last, values = _end(blocks[-1], scf.YieldOp)
        _jump(blocks[-1], after, values, op)
        _drop(last)
    _choose(block, op.cond, (targets[0], ()), (targets[1], ()), op)
    _drop(op)


def _while(op: scf.WhileOp) -> None:
    block, after = _cut(op)
    before_blocks = _move(op.before_region, after)
    body_blocks = _move(op.after_region, after)
    _jump(block, before_blocks[0], tuple(op.arguments), op)
    condition, (cond, *passed) = _end(before_blocks[-1], scf.ConditionOp)
    _choose(before_blocks[-1], cond, (body_blocks[0], passed), (after, ()), op)
    _drop(condition)
    last, values = _end(body_blocks[-1], scf.YieldOp)
    _jump(body_blocks[-1], before_blocks[0], values, op).attributes = _annotation(op)
    _drop(last)
    _replace(op.results, passed)
    _drop(op)


def _execute_region(op: scf.ExecuteRegionOp) -> None:
    block, after = _cut(op)
    for result in op.results:
        result.replace_all_uses_with(after.insert_arg(result.type, len(after.args)))
    blocks = _move(op.region, after)
    _jump(block, blocks[0], (), op)
    for inner in blocks:
        last = inner.last_op
        if isinstance(last, scf.YieldOp):
            _jump(inner, after, tuple(last.operands), last)
            _drop(last)
    _drop(op)


def _index_switch(op: scf.IndexSwitchOp) -> None:
    block, after = _cut(op)
    for result in op.results:
        result.replace_all_uses_with(after.insert_arg(result.type, len(after.args)))
    targets: list[Block] = []
    for region in (op.default_region, *op.case_regions):
        blocks = _move(region, after)
        targets.append(blocks[0])
        last, values = _end(blocks[-1], scf.YieldOp)
        _jump(blocks[-1], after, values, last)
        _drop(last)
    flag = arith.IndexCastOp(op.arg, i32)
    numbers = [int(n) for n in cast("DenseArrayBase[IntegerType]", op.cases).get_values()]
    default, *cases = targets
    if numbers:
        values = DenseIntOrFPElementsAttr.from_list(VectorType(i32, [len(numbers)]), numbers)
        switch: Operation = cf.SwitchOp(flag.result, default, [], cast(Any, values), cases, [[] for _ in cases])
    else:
        switch = cf.BranchOp(default)
    for made in (flag, switch):
        made.location = op.location
        block.add_op(made)
    _drop(op)


_LOWERINGS = cast(
    dict[type[Operation], Callable[[object], None]],
    {
        scf.ForOp: _for,
        scf.IfOp: _if,
        scf.WhileOp: _while,
        scf.ExecuteRegionOp: _execute_region,
        scf.IndexSwitchOp: _index_switch,
    },
)
_UNKNOWN = {"scf.parallel", "scf.forall", "scf.reduce", "scf.in_parallel"}


@dataclass(frozen=True)
class ConvertScfToCfPass(Pass):
    """Turn loops and conditionals into blocks and branches."""

    name = "convert-scf-to-cf"

    def run(self, module: ModuleOp) -> ModuleOp:
        _lower_region(module.body)
        return module
