"""The part of `canonicalize`: everything is folded as it is built, swizzles of kernels too; known ifs and loops are no
ifs and loops. What takes a look ahead, a result that nobody uses because of what was folded say, is told (`is_whole`).
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ....dialects.upstream import gpu, scf
from ....ir.arith import ConstantOp
from ....ir.builder import operands_of
from ....ir.values import OP_RESULTS
from ....lowering.rebuild import Handler
from ....lowering.schedule import schedule, stays
from ...cleanup.canonicalize import is_unsettled, trip_count
from ...cleanup.liveness import WithoutUnused
from .regions import Regions, for_loop, if_else


class Folding(Regions):
    """Folds while building."""

    folds = True
    missed: bool
    is_whole = True
    """Whether what was built is what the passes leave: nothing is for nothing, or there twice, or would have folded."""

    def __init__(self) -> None:
        super().__init__()
        self.expansions: list[tuple[Any, list[Operation]]] = []
        """What arithmetic was expanded to, and the ops of it that stay where they are written."""

    def run(self, module: ModuleOp) -> ModuleOp:
        made = super().run(WithoutUnused.rebuild(module) if is_unsettled(module) else module)
        # What is expanded behind a conversion for nothing may have taken it for its own, which then stands too early.
        taken = any(op.results[0].first_use is not None for op in self.b.bypassed)
        # A register that nobody reads leaves arithmetic behind, which is no user of anything: it goes first.
        schedule(made)
        # What turned out to be for nothing may have been expanded to what others share, which then stands too early.
        early = any(
            type(value) in OP_RESULTS and value.op.parent is None and any(op.parent is not None for op in ops)
            for value, ops in self.expansions
        )
        self.is_whole = not (taken or early or self.missed or self.has_twins or is_unsettled(made))
        return made

    def function(self, op: Any, cls: type[Operation]) -> None:
        self.b.in_kernel = cls is gpu.FuncOp
        super().function(op, cls)
        self.b.in_kernel = False


def _for(r: Folding, op: scf.ForOp) -> None:
    operands = operands_of(op)
    bounds = r.vals(operands[:3])
    trips = trip_count(r.b, bounds, op)
    if trips == 0:
        r.bind(op.results, r.pack_all(operands[3:]))
    elif trips == 1:
        r.bind(op.body.block.args, [bounds[0], *r.pack_all(operands[3:])])
        r.bind(op.results, r.inline(op.body.block))
    else:
        for_loop(r, op)


def _if(r: Folding, op: scf.IfOp) -> None:
    known = r.b.const_of.get(r.val(operands_of(op)[0]))
    if known is None:
        if_else(r, op)
        return
    region = op.regions[0 if known else 1]
    if region.blocks:
        r.bind(op.results, r.inline(region.block))


def watched(table: dict[type[Operation], Handler]) -> dict[type[Operation], Handler]:
    """Handlers of which those that expand arithmetic tell what they make."""
    return {
        cls: _watched(handler) if cls.name.startswith(("arith.", "math.")) and cls is not ConstantOp else handler
        for cls, handler in table.items()
    }


def _watched(handler: Handler) -> Handler:
    def handle(r: Folding, op: Operation) -> None:
        block: Any = r.b.block
        before = block.last_op
        handler(r, op)
        made: list[Operation] = []
        new: Any = block.first_op if before is None else before._next_op
        while new is not None:
            if stays(cast(type[Operation], type(new))):
                made.append(new)
            new = new._next_op
        if made:
            r.expansions.append((r.vm[op.results[0]], made))

    return handle


Folding.handlers = cast(dict[type[Operation], Handler], {scf.ForOp: _for, scf.IfOp: _if})
