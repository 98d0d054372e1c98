"""What nobody needs, seen through structured control flow: dead ops, results of ifs and loops that no one uses."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.traits import IsTerminator

from ...dialects.upstream import scf
from ...ir.builder import operands_of
from ...ir.dead_code import is_pure
from ...ir.values import OP_RESULTS
from ...lowering.rebuild import Handler, Rebuilder

_IFS_AND_LOOPS = frozenset((scf.ForOp, scf.IfOp))


class Liveness:
    """What is needed, found from the ops that act: they are needed, and what an op that is needed takes is, too.

    Of a loop, a carried value is needed inside or behind the loop or not at all; of an if, a result.
    """

    def __init__(self, root: Operation):
        self.dead: set[int] = set()
        """Ids of ops without effect whose results are not used."""
        self.unused: dict[int, set[int]] = {}
        """By the id of an if or loop: results (and what is carried for them) that can go."""
        self._live: set[int] = set()
        """Ids of ops that are needed."""
        self._kept: set[tuple[int, int]] = set()
        """Results of ifs and loops that are needed."""
        self._todo: list[SSAValue] = []
        self._optional: list[Operation] = []
        """Ops that go unless they are needed."""
        for region in root.regions:
            for block in region.blocks:
                self._block(block, [])
        while self._todo:
            self._need(self._todo.pop())
        for op in self._optional:
            if id(op) not in self._live:
                self.dead.add(id(op))
            elif type(op) in _IFS_AND_LOOPS:
                gone = {i for i in range(len(op.results)) if (id(op), i) not in self._kept}
                if gone:
                    self.unused[id(op)] = gone

    def _block(self, block: Block, around: list[Operation]) -> None:
        op = block.first_op
        while op is not None:
            if op.regions:
                known = type(op) in _IFS_AND_LOOPS
                if known:
                    self._optional.append(op)
                else:
                    self._acts(op, around)
                for region in op.regions:
                    for inner in region.blocks:
                        self._block(inner, [*around, op] if known else [])
            elif is_pure(type(op)):
                self._optional.append(op)
            elif not op.has_trait(IsTerminator, value_if_unregistered=False) or op.successors:
                self._acts(op, around)
            elif type(op.parent_op()) not in _IFS_AND_LOOPS:
                self._acts(op, [])
            op = op.next_op

    def _acts(self, op: Operation, around: list[Operation]) -> None:
        self._todo += operands_of(op)
        for outer in around:
            self._enter(outer)

    def _enter(self, op: Operation) -> None:
        """An if or loop is needed: its condition or bounds are."""
        if id(op) not in self._live:
            self._live.add(id(op))
            self._todo += operands_of(op)[: 3 if isinstance(op, scf.ForOp) else 1]

    def _need(self, value: SSAValue) -> None:
        if type(value) in OP_RESULTS:
            op = cast(Operation, value.owner)
            if type(op) in _IFS_AND_LOOPS:
                self._keep(op, cast(OpResult, value).index)
            elif not op.regions and id(op) not in self._live:
                self._live.add(id(op))
                if is_pure(type(op)):
                    self._todo += operands_of(op)
        elif isinstance(value, BlockArgument) and value.index:
            loop = value.block.parent_op()
            if isinstance(loop, scf.ForOp):
                self._keep(loop, value.index - 1)

    def _keep(self, op: Operation, i: int) -> None:
        if (id(op), i) in self._kept:
            return
        self._kept.add((id(op), i))
        at: Operation | None = op
        while at is not None and type(at) in _IFS_AND_LOOPS:
            self._enter(at)
            at = at.parent_op()
        if isinstance(op, scf.ForOp):
            self._todo.append(operands_of(op)[3 + i])
        for region in op.regions:
            last = region.block.last_op if region.blocks else None
            if last is not None:
                self._todo.append(operands_of(last)[i])


class WithoutUnused(Rebuilder):
    """A copy of a module without what nobody needs; all else stays as it is, where it is."""

    def __init__(self) -> None:
        super().__init__()
        self.unused: dict[int, set[int]] = {}

    def mark(self, module: ModuleOp) -> set[int]:
        live = Liveness(module)
        self.unused = live.unused
        return live.dead

    def kept(self, op: Operation) -> list[int]:
        """Results of an if or loop that stay."""
        gone = self.unused.get(id(op), ())
        return [i for i in range(len(op.results)) if i not in gone]


def _region(r: WithoutUnused, old: Region, new: Block) -> Region:
    if not old.blocks:
        return Region()
    with r.b.region(new):
        r.walk(old.block)
    return Region(new)


def _if(r: WithoutUnused, op: scf.IfOp) -> None:
    results = [op.results[i] for i in r.kept(op)]
    condition = r.vals(operands_of(op))
    regions = [_region(r, region, Block()) for region in op.regions]
    types = [x.type for x in results]
    made = r.b.with_regions(scf.IfOp, condition, types, regions, dict(op.properties), dict(op.attributes))
    r.vm.update(zip(results, made.results, strict=True))


def _for(r: WithoutUnused, op: scf.ForOp) -> None:
    kept, operands, old = r.kept(op), operands_of(op), op.body.block
    given = r.vals([*operands[:3], *(operands[3 + i] for i in kept)])
    arguments = [old.args[0], *(old.args[1 + i] for i in kept)]
    new = Block(arg_types=[x.type for x in arguments])
    r.vm.update(zip(arguments, new.args, strict=True))
    regions = [_region(r, op.body, new)]
    types = [op.results[i].type for i in kept]
    made = r.b.with_regions(scf.ForOp, given, types, regions, dict(op.properties), dict(op.attributes))
    r.vm.update(zip([op.results[i] for i in kept], made.results, strict=True))


def _yield(r: WithoutUnused, op: scf.YieldOp) -> None:
    parent, values = op.parent_op(), operands_of(op)
    if isinstance(parent, (scf.ForOp, scf.IfOp)):
        values = [values[i] for i in r.kept(parent)]
    r.b.opn(scf.YieldOp, r.vals(values), (), dict(op.properties))


WithoutUnused.handlers = cast("dict[type[Operation], Handler]", {scf.IfOp: _if, scf.ForOp: _for, scf.YieldOp: _yield})
