"""`cse`: equal pure ops become one where the first dominates the others; so do reads with no write in between.

Works in place and on control-flow graphs. A table of what is known follows the dominator tree: entries made in a block
are taken out again when its subtree is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.traits import IsolatedFromAbove, IsTerminator

from ...dialects.upstream import llvm
from ...ir.builder import operands_of
from ...ir.dead_code import is_pure
from ...lowering.dominance import DominatorTree
from ...lowering.rebuild import remove_dead
from ..base import Pass

_READS = (llvm.LoadOp, memref.LoadOp, vector.LoadOp)


def _plain(op: Operation) -> bool:
    """Whether a read may be shared: neither volatile nor atomic."""
    ordering: Any = op.properties.get("ordering")
    return "volatile_" not in op.properties and (ordering is None or not ordering.value.data)


class _Numbering:
    def __init__(self) -> None:
        self.known: dict[Any, Operation] = {}
        self.writes = 0
        """Counts everything that may write; a read is only equal to one with the same count."""

    def region(self, region: Region) -> None:
        entry = region.blocks.first
        if entry is None:
            return
        if entry is region.blocks.last:
            mark = len(self.known)
            self.block(entry)
            self.forget(mark)
            return
        tree = DominatorTree(region)
        stack: list[tuple[Block | None, int]] = [(entry, 0)]
        while stack:
            block, mark = stack.pop()
            if block is None:
                self.forget(mark)
                continue
            stack.append((None, len(self.known)))
            self.writes += 1
            self.block(block)
            stack += [(child, 0) for child in reversed(tree.children[block])]

    def forget(self, mark: int) -> None:
        while len(self.known) > mark:
            self.known.popitem()

    def block(self, block: Block) -> None:
        op = block.first_op
        while op is not None:
            following = op.next_op
            if op.regions:
                self.nested(op)
            elif is_pure(type(op)):
                self.share(op, 0)
            elif isinstance(op, _READS) and _plain(op):
                self.share(op, self.writes)
            elif not op.has_trait(IsTerminator, value_if_unregistered=False):
                self.writes += 1
            op = following

    def nested(self, op: Operation) -> None:
        """What is inside may run any number of times, so reads are not shared across its edges."""
        if op.has_trait(IsolatedFromAbove, value_if_unregistered=False):
            inner = _Numbering()
            for region in op.regions:
                inner.region(region)
            return
        for region in op.regions:
            self.writes += 1
            self.region(region)
        self.writes += 1

    def share(self, op: Operation, writes: int) -> None:
        key = (
            type(op),
            writes,
            *map(id, operands_of(op)),
            None,
            *(r.type for r in op.results),
            *op.properties.items(),
            None,
            *op.attributes.items(),
        )
        first = self.known.setdefault(key, op)
        if first is not op:
            for old, new in zip(op.results, first.results, strict=True):
                old.replace_all_uses_with(new)
            op.detach()
            op.erase()


@dataclass(frozen=True)
class CsePass(Pass):
    """Make equal pure ops one, and drop dead ones."""

    name = "cse"

    def run(self, module: ModuleOp) -> ModuleOp:
        # What is dead must not come back to life as the first of its equals.
        remove_dead(module)
        _Numbering().nested(module)
        return remove_dead(module)
