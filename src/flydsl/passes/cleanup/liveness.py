"""What nobody needs, seen through structured control flow: dead ops, results of ifs and loops that no one uses."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from ...dialects.upstream import scf
from ...ir.dead_code import is_pure


class Liveness:
    """One backward walk over a module."""

    def __init__(self, root: Operation):
        self.dead: set[int] = set()
        """Ids of ops without effect whose results are not used."""
        self.unused: dict[int, set[int]] = {}
        """By the id of an if or loop: results (and what is carried for them) that can go."""
        self._released: set[tuple[int, int]] = set()
        """Operands of terminators that go with those results."""
        for region in root.regions:
            for block in reversed(region.blocks):
                self._block(block)

    def used(self, value: SSAValue) -> bool:
        """Whether a live op uses a value."""
        use: Any = value.first_use
        while use is not None:
            user = id(use._operation)
            if user not in self.dead and (user, use._index) not in self._released:
                return True
            use = use._next_use
        return False

    def _block(self, block: Block) -> bool:
        """Whether a block does anything but compute values."""
        acts = False
        op: Any = block.last_op
        while op is not None:
            acts |= self._visit(op)
            op = op._prev_op
        return acts

    def _visit(self, op: Operation) -> bool:
        if op.regions:
            return self._structured(op)
        if is_pure(type(op)):
            if not any(self.used(r) for r in op.results):
                self.dead.add(id(op))
            return False
        return not op.has_trait(IsTerminator, value_if_unregistered=False) or bool(op.successors)

    def _structured(self, op: Operation) -> bool:
        unused = {i for i, result in enumerate(op.results) if not self.used(result)}
        if isinstance(op, scf.ForOp):
            unused = {i for i in unused if _only_carried(op, i)}
        elif not isinstance(op, scf.IfOp):
            unused = set[int]()
        if unused:
            self.unused[id(op)] = unused
            for region in op.regions:
                last = region.block.last_op if region.blocks else None
                self._released |= {(id(last), i) for i in unused}
        acts = False
        for region in reversed(op.regions):
            for block in reversed(region.blocks):
                acts |= self._block(block)
        known = isinstance(op, (scf.ForOp, scf.IfOp))
        if known and not acts and not any(self.used(r) for r in op.results):
            self.dead.add(id(op))
        return acts or not known


def _only_carried(op: scf.ForOp, i: int) -> bool:
    """Whether a loop uses a carried value for nothing but to carry it on."""
    last = op.body.block.last_op
    return all(use.operation is last and use.index == i for use in op.body.block.args[i + 1].uses)
