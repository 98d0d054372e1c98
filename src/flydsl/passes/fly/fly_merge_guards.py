"""`fly-merge-guards`: what is read under the same condition in several places, with nothing done in between, is read in
one.

A copy with a predicate reads each element behind a branch of its own, and the next copy under the same predicate asks
again. A branch costs an AMD GPU a change of its mask and LLVM a pass over all registers for each block. The earlier
read goes to the later one: the addresses of both are known there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...dialects.upstream import llvm, scf
from ...ir.builder import elem_of, operands_of
from ...ir.dead_code import is_pure
from ...ir.emitter import blocks_in, ops_in
from ...ir.identity import by_identity
from ..base import Pass


def _blocks(module: ModuleOp) -> Iterator[tuple[Block, list[scf.IfOp]]]:
    """Blocks with several reading branches under one condition, and these branches; inner blocks first."""
    todo, found = list(module.regions), list[tuple[Block, list[scf.IfOp]]]()
    while todo:
        for block in blocks_in(todo.pop()):
            branches: list[scf.IfOp] = []
            op: Any = block.first_op
            while op is not None:
                if op.regions:
                    if type(op) is scf.IfOp and op.results:
                        branches.append(op)
                    todo += op.regions
                op = op._next_op  # pyright: ignore[reportPrivateUsage]
            if len(branches) > 1 and len({operands_of(op)[0] for op in branches}) < len(branches):
                found.append((block, branches))
    yield from reversed(found)


def _is_read(op: Operation) -> bool:
    """Whether an op reads memory and does nothing else, at any time between two writes."""
    if type(op) is not llvm.LoadOp or "volatile_" in op.properties:
        return False
    ordering: Any = op.properties.get("ordering")
    return ordering is None or not ordering.value.data


def _only_reads(op: scf.IfOp) -> bool:
    """Whether the branches of an op have no effect."""
    for region in op.regions:
        for inner in ops_in(region.block):
            if not (_is_read(inner) or is_pure(type(inner)) or type(inner) is scf.YieldOp):
                return False
    return not op.attributes


@by_identity
def _is_float(type_: Attribute) -> bool:
    return isinstance(elem_of(type_), AnyFloat)


def _hides_latency(op: Operation) -> bool:
    """Whether an op is work that goes on while memory answers: then a read stays in front of it."""
    return any(_is_float(x.type) for x in op.results)


def _is_used_by(results: Sequence[SSAValue], block: Block, passed: set[int]) -> bool:
    """Whether ops of a block, or what is inside them, use a result; the ops are given by their ids."""
    for use in (use for x in results for use in x.uses):
        user: Any = use.operation
        while user.parent is not block:
            user = user.parent_op()
        if id(user) in passed:
            return True
    return False


def _merge_in(block: Block, branches: Sequence[scf.IfOp]) -> None:
    ready: dict[SSAValue, scf.IfOp] = {}
    """By condition: the last branch that may still go further down."""
    passed: set[int] = set()
    op: Any = branches[0]
    while True:
        after = op._next_op  # pyright: ignore[reportPrivateUsage]
        passed.add(id(op))
        last = op is branches[-1]
        if type(op) is scf.IfOp and op.results and _only_reads(op):
            condition = operands_of(op)[0]
            earlier = ready.get(condition)
            if earlier is not None and not _is_used_by(earlier.results, block, passed):
                op = _merged(earlier, op)
                passed.add(id(op))
            ready[condition] = op
        elif not (is_pure(cast("type[Operation]", type(op))) or _is_read(op)) or _hides_latency(op):
            ready.clear()
        if last:
            return
        op = after


def _merged(earlier: scf.IfOp, later: scf.IfOp) -> scf.IfOp:
    """Both branches in one, at the place of the later."""
    for mine, theirs in zip(earlier.regions, later.regions, strict=True):
        body = theirs.block
        first, end = cast(Operation, body.first_op), cast(Operation, body.last_op)
        *moved, mine_end = mine.block.ops
        for op in moved:
            op.detach()
            body.insert_op_before(op, first)
        end.operands = [*operands_of(mine_end), *operands_of(end)]
    results = (*earlier.results, *later.results)
    made = scf.IfOp.create(
        operands=[operands_of(later)[0]],
        result_types=[x.type for x in results],
        regions=[later.detach_region(region) for region in (*later.regions,)],
        properties=dict(later.properties),
        location=later.location,
    )
    cast(Block, later.parent).insert_op_after(made, later)
    for old, new in zip(results, made.results, strict=True):
        old.replace_all_uses_with(new)
    for op in (earlier, later):
        op.detach()
        op.erase()
    return made


@dataclass(frozen=True)
class FlyMergeGuardsPass(Pass):
    """Read in one branch what is read under one condition."""

    name = "fly-merge-guards"
    needs = "memory as `llvm` (`convert-fly-to-*`), branches as `scf`"

    def run(self, module: ModuleOp) -> ModuleOp:
        for block, branches in _blocks(module):
            _merge_in(block, branches)
        return module
