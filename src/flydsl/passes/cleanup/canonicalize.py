"""`canonicalize`: fold constants, share equal pure ops, drop dead ones, simplify structured control flow, in one walk.

Folds of single ops are those of `FoldingBuilder`, what is not needed is found by `liveness.py` beforehand. Here are ifs
and loops: known conditions and trip counts, values handed on unchanged, results and carried values nobody uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import vector as xvector
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, VectorType
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue
from xdsl.traits import IsTerminator

from ...dialects.upstream import gpu, scf, vector
from ...ir import arith
from ...ir.builder import operands_of
from ...ir.dead_code import is_pure
from ...ir.emitter import blocks_in, ops_in
from ...ir.types import bit_width, dense_ints
from ...ir.values import SSA_CLASSES
from ...lowering.folding import FoldingBuilder, slice_start
from ...lowering.lanes import Lanes, lanes_in
from ...lowering.rebuild import Handler, Rebuilder
from ...lowering.schedule import schedule
from ..base import TARGET_ATTRIBUTE, Form, Part, Pass
from .liveness import Liveness

if TYPE_CHECKING:
    pass


class Canonicalizer(Rebuilder):
    """The walk."""

    folds = True
    b: FoldingBuilder

    def __init__(self) -> None:
        super().__init__()
        self.dropped: dict[int, set[int]] = {}
        """By the id of an if or loop: results that go, so that its terminators leave their operands out."""
        self.captured: dict[int, list[Any]] = {}
        """What terminators hand on whose block is built into another, or is not finished: noted, not emitted."""
        self._origins: dict[SSAValue, SSAValue] = {}

    def make_builder(self) -> FoldingBuilder:
        return FoldingBuilder()

    def val(self, old: SSAValue) -> SSAValue:
        found = self.vm[old]
        return found if type(found) in SSA_CLASSES else found.value(self.b)

    def new(self, given: Any) -> SSAValue:
        """What the map holds for a value, as an IR value."""
        return given if type(given) in SSA_CLASSES else given.value(self.b)

    def function(self, op: Any, cls: type[Operation]) -> None:
        self.b.in_kernel = cls is gpu.FuncOp
        super().function(op, cls)
        self.b.in_kernel = False

    def mark(self, module: ModuleOp) -> set[int]:
        live = Liveness(module)
        self.dropped = live.unused
        return live.dead

    def inline(self, block: Block) -> list[Any]:
        """Build the ops of a block into the current one; give what its terminator hands on."""
        last = block.last_op
        assert last is not None
        self.captured[id(last)] = []
        self.walk(block)
        return self.captured.pop(id(last))

    def without(self, op: Operation, values: Sequence[object]) -> list[Any]:
        """Results (or what stands for them) that stay."""
        gone = self.dropped.get(id(op), ())
        return [v for i, v in enumerate(values) if i not in gone]

    def origin(self, value: SSAValue) -> SSAValue:
        """The value that loops and ifs around hand on unchanged as this one."""
        found = self._origins.get(value)
        if found is None:
            found = self._origins[value] = self._handed_on(value)
        return found

    def _handed_on(self, value: SSAValue) -> SSAValue:
        if not isinstance(value, OpResult) or not isinstance(value.op, (scf.ForOp, scf.IfOp)):
            return value
        op, i = value.op, value.index
        given = [
            self.origin(operands_of(region.block.last_op)[i])
            for region in op.regions
            if region.blocks and region.block.last_op is not None
        ]
        if isinstance(op, scf.ForOp):
            return self.origin(operands_of(op)[3 + i]) if given[0] is op.body.block.args[1 + i] else value
        return given[0] if len(given) == 2 and given[0] is given[1] else value


def _if(r: Canonicalizer, op: scf.IfOp) -> None:
    cond = r.val(operands_of(op)[0])
    known = r.b.const_of.get(cond)
    if known is not None:
        region = op.regions[0 if known else 1]
        if region.blocks:
            r.vm.update(zip(r.without(op, op.results), r.inline(region.block), strict=True))
        return
    for i, result in enumerate(op.results):
        # What both branches hand on from outside is no result.
        source = r.origin(result)
        if source is not result and source in r.vm:
            r.vm[result] = r.vm[source]
            r.dropped.setdefault(id(op), set()).add(i)
    results = r.without(op, op.results)
    then, otherwise = op.regions
    # The first branch is there however little it does; without results the second need not be.
    regions = [_branch(r, then, True), _branch(r, otherwise, bool(results))]
    new = r.b.with_regions(scf.IfOp, (cond,), [x.type for x in results], regions, {**op.properties}, {**op.attributes})
    r.vm.update(zip(results, new.results, strict=True))


def _branch(r: Canonicalizer, old: Region, always: bool) -> Region:
    if not old.blocks:
        return Region()
    block = Block()
    with r.b.region(block):
        handed = r.inline(old.block)
        r.b.opn(scf.YieldOp, [r.new(v) for v in handed], ())
    return Region(block) if always or block.first_op is not block.last_op else Region()


def _yield(r: Canonicalizer, op: Operation) -> None:
    parent = op.parent_op()
    values = operands_of(op) if parent is None else r.without(parent, operands_of(op))
    if id(op) in r.captured:
        r.captured[id(op)] = [r.vm[v] for v in values]
    else:
        r.b.opn(type(op), r.vals(values), (), dict(op.properties))


def _for(r: Canonicalizer, op: scf.ForOp) -> None:
    low, high, step, *inits = operands_of(op)
    block = op.body.block
    start, *carried = block.args
    trips = trip_count(r.b, r.vals((low, high, step)), op)
    if trips == 0:
        r.vm.update(zip(r.without(op, op.results), map(r.vm.get, r.without(op, inits)), strict=True))
        return
    last = block.last_op
    assert last is not None
    # What the loop hands on unchanged is not carried.
    gone = set(r.dropped.get(id(op), ()))
    gone |= {i for i, v in enumerate(operands_of(last)) if r.origin(v) is carried[i]}
    r.dropped[id(op)] = gone
    for i in gone:
        value = r.vm.get(inits[i])
        if value is not None:
            r.vm[carried[i]] = r.vm[op.results[i]] = value
    if trips == 1:
        r.vm[start] = r.val(low)
        r.vm.update(zip(r.without(op, carried), map(r.vm.get, r.without(op, inits)), strict=True))
        r.vm.update(zip(r.without(op, op.results), r.inline(block), strict=True))
        return
    kept = r.without(op, carried)
    new = Block(arg_types=[start.type, *(a.type for a in kept)])
    operands = r.vals([low, high, step, *r.without(op, inits)])
    with r.b.region(new):
        for old, arg in zip([start, *kept], new.args, strict=True):
            r.vm[old] = arg
            if old.name_hint is not None:
                arg.name_hint = old.name_hint
        r.walk(block)
    results = r.without(op, op.results)
    types = [x.type for x in results]
    loop = r.b.with_regions(scf.ForOp, operands, types, [Region(new)], {**op.properties}, {**op.attributes})
    r.vm.update(zip(results, loop.results, strict=True))


def trip_count(b: FoldingBuilder, bounds: Sequence[SSAValue], op: scf.ForOp) -> int | None:
    """How often a loop runs, where that is known."""
    low, high, step = (b.const_of.get(v) for v in bounds)
    if low is None or high is None:
        return None
    if "unsignedCmp" in op.properties:
        mask = (1 << bit_width(bounds[0].type)) - 1
        low, high, step = int(low) & mask, int(high) & mask, None if step is None else int(step) & mask
    if low >= high:
        return 0
    if step is None or step <= 0:
        return None
    return -(-(int(high) - int(low)) // int(step))


def is_unsettled(module: ModuleOp) -> bool:
    """Whether an if or loop is left that goes, or gives something that nobody takes or that is known otherwise."""
    todo = list(module.regions)
    while todo:
        for block in blocks_in(todo.pop()):
            op: Any = block.first_op
            while op is not None:
                if op.regions:
                    if (type(op) is scf.ForOp and _loop_unsettled(op)) or (type(op) is scf.IfOp and _if_unsettled(op)):
                        return True
                    todo += op.regions
                op = op._next_op  # pyright: ignore[reportPrivateUsage]
    return False


def _loop_unsettled(op: Operation) -> bool:
    (block,) = op.regions[0].blocks
    given = operands_of(cast(Operation, block.last_op))
    if any(value is argument for value, argument in zip(given, block.args[1:], strict=True)):
        return True
    gone = [i for i, x in enumerate(op.results) if x.first_use is None]
    if any(not _reaches(block.args[1 + i]) for i in gone):
        return True
    low, high, step = (_constant(v) for v in operands_of(op)[:3])
    if low is not None and high is not None and (low >= high or (step is not None and step > 0 and high - low <= step)):
        return True
    return len(gone) == len(op.results) and not _acts(op)


def _if_unsettled(op: Operation) -> bool:
    if any(x.first_use is None for x in op.results) or _constant(operands_of(op)[0]) is not None:
        return True
    if not op.results:
        return not _acts(op)
    given = [operands_of(cast(Operation, region.block.last_op)) for region in op.regions]
    return any(a is b for a, b in zip(*given, strict=True))


def _constant(value: SSAValue) -> int | None:
    """The number an integer constant stands for."""
    owner = value.owner
    attr: Any = owner.properties["value"] if isinstance(owner, arith.ConstantOp) else None
    return attr.value.data if isinstance(attr, IntegerAttr) else None


def _size(module: ModuleOp) -> int:
    """How much there is that can still go."""
    return sum(1 + len(op.results) for op in module.walk())


def _reaches(value: SSAValue) -> bool:
    """Whether something that acts depends on a value."""
    seen = {value}
    todo = [value]
    while todo:
        for use in todo.pop().uses:
            user = use.operation
            if user.regions and not isinstance(user, (scf.ForOp, scf.IfOp)):
                return True
            found: list[SSAValue] = []
            if isinstance(user, scf.ForOp) and use.index >= 3:
                found = [user.results[use.index - 3], user.body.block.args[use.index - 2]]
            elif isinstance(user, scf.YieldOp):
                around = user.parent_op()
                if not isinstance(around, (scf.ForOp, scf.IfOp)):
                    return True
                found = [around.results[use.index]]
                if isinstance(around, scf.ForOp):
                    found.append(around.body.block.args[use.index + 1])
            elif user.regions or not is_pure(type(user)):
                return True
            else:
                found = list(user.results)
            todo += [x for x in found if x not in seen]
            seen.update(found)
    return False


def _acts(op: Operation) -> bool:
    return any(
        not inner.regions and not is_pure(type(inner)) and not inner.has_trait(IsTerminator)
        for region in op.regions
        for block in region.blocks
        for inner in ops_in(block)
    )


def _put(r: Canonicalizer, op: Operation) -> None:
    """An insert: noted, and emitted when somebody needs the whole vector."""
    value, into, *index = operands_of(op)
    at = _place(r, op, index)
    if at is None:
        r.copy(op)
        return
    known: Any = r.vm[into]
    before = known if type(known) is Lanes else Lanes.of(known, r.b.block)
    r.vm[op.results[0]] = before.put(r.b, r.val(value), at)


def _get(r: Canonicalizer, op: Operation) -> None:
    """An extract: found among what was put in."""
    source, *index = operands_of(op)
    known: Any = r.vm[source]
    at = _place(r, op, index) if type(known) is Lanes else None
    if at is None:
        r.copy(op)
    elif type(op.results[0].type) is VectorType:
        r.vm[op.results[0]] = known.slice(r.b, at, lanes_in(op.results[0].type))
    else:
        r.vm[op.results[0]] = known.element(r.b, at)


def _place(r: Canonicalizer, op: Operation, index: Sequence[SSAValue]) -> int | None:
    """Where an insert or extract of 1-D vectors goes, if that is known."""
    types: list[object] = [v.type for v in (*operands_of(op), *op.results)]
    if any(len(t.shape.data) != 1 for t in types if type(t) is VectorType):
        return None
    if "offsets" in op.properties:
        return slice_start(op.properties)
    if sum(type(t) is VectorType for t in types) != (1 if isinstance(op, xvector.ExtractOp) else 2):
        return None
    (at,) = dense_ints(op.properties["static_position"])
    if index:
        found = r.b.const_of.get(r.val(index[0]))
        at = -1 if found is None else int(found)
    whole: Any = types[1] if isinstance(op, xvector.InsertOp) else types[0]
    return at if 0 <= at < lanes_in(whole) else None


Canonicalizer.handlers = cast(
    dict[type[Operation], Handler],
    {
        scf.IfOp: _if,
        scf.ForOp: _for,
        scf.YieldOp: _yield,
        xvector.InsertOp: _put,
        vector.InsertStridedSliceOp: _put,
        xvector.ExtractOp: _get,
        vector.ExtractStridedSliceOp: _get,
    },
)


@dataclass(frozen=True)
class CanonicalizePass(Pass):
    """Fold, share and remove in one walk."""

    name = "canonicalize"
    part = Part({Form.SIMPLE: Form.FOLDED, Form.CONVERTED: Form.SETTLED}, "fly.walk.folding:Folding", cleans=True)

    def run(self, module: ModuleOp) -> ModuleOp:
        before, size = 0, 1
        while size != before:
            # What is folded settles conditions, and takes the last user of something a loop carries.
            module = Canonicalizer.rebuild(module)
            before, size = size, _size(module) if is_unsettled(module) else size
        if not any(type(op) is gpu.ModuleOp and TARGET_ATTRIBUTE in op.attributes for op in module.ops):
            # What will be converted stays where it was written: what it becomes belongs there, and part of that is not
            # moved, as arithmetic of floats in conversions to integers.
            schedule(module)
        return module
