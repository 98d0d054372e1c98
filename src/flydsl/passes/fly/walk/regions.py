"""Loops and ifs of a walk: what they carry are the carriers of values (`bind`, `pack`) and the registers they change.

Both are what parts of a walk make of them: by itself a value is its own carrier and no register is a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ....dialects.upstream import scf
from ....ir.builder import operands_of
from ....lowering import atom_state
from ....lowering.atom_state import ATOM_TYPES
from ....lowering.lanes import Lanes
from ....lowering.rebuild import Handler
from .memory import Memory
from .register_values import Carried, Exit, RegisterValues, Root, is_idle


class Regions(Memory):
    """The base of a walk."""

    def __init__(self) -> None:
        super().__init__()
        self.registers_now: RegisterValues | None = None
        """The registers of the function under way that are values."""
        self.has_twins = False
        """Whether functions have equal ops: what loops and ifs carry is emitted when all else is there."""
        self.captured: dict[int, list[SSAValue]] = {}
        """What the terminators of blocks that are built into another hand on."""
        self.carry: list[Sequence[Root]] = []
        """Registers that the terminators of the enclosing regions hand on."""

    def boundary_types(self, types: Sequence[Attribute]) -> list[Attribute]:
        """Types of the carriers of values, in order."""
        return [self.convert(t) for t in types]

    def bind(self, old: Sequence[SSAValue], new: Sequence[SSAValue]) -> None:
        """Give each old value what it is here, from its carriers."""
        for value, part in zip(old, new, strict=True):
            self.vm[value] = self.plain(value.type, part)

    def plain(self, type_: Attribute, value: SSAValue) -> object:
        """A value that is its own carrier; an atom is taken apart."""
        return atom_state.from_struct(self.b, value, type_) if type(type_) in ATOM_TYPES else value

    def pack_all(self, old: Sequence[SSAValue]) -> list[SSAValue]:
        """Carriers of several values in order."""
        return self.vals(old)

    def argument_types(self, block: Block) -> list[Attribute]:
        return self.boundary_types([a.type for a in block.args])

    def enter(self, old: Block, new: Block) -> None:
        self.bind(old.args, new.args)

    def result_carriers(self, op: Operation) -> list[Attribute]:
        """Types of the carriers of an op's results."""
        return self.boundary_types([x.type for x in op.results])

    def handed_on(self) -> list[SSAValue]:
        """What the registers hold that the region under way hands on."""
        return [self.values[root].value(self.b) for root in self.carry[-1]] if self.carry else []

    @property
    def values(self) -> dict[Root, Lanes]:
        """What the registers hold."""
        assert self.registers_now is not None
        return self.registers_now.now

    def inline(self, block: Block) -> list[SSAValue]:
        """Build the ops of a block into the current one; give the carriers of what its terminator hands on."""
        last = cast(Operation, block.last_op)
        self.captured[id(last)] = []
        self.walk(block)
        return self.captured.pop(id(last))


def _terminator(r: Regions, op: Operation) -> None:
    given = r.pack_all(operands_of(op))
    if id(op) in r.captured:
        r.captured[id(op)] = given
        return
    r.b.opn(type(op), [*given, *r.handed_on()], (), dict(op.properties))


def _condition(r: Regions, op: Operation) -> None:
    cond, *rest = operands_of(op)
    given = [r.val(cond), *r.pack_all(rest)]
    r.b.opn(scf.ConditionOp, [*given, *r.handed_on()], ())


def for_loop(r: Regions, op: scf.ForOp) -> None:
    b, registers, operands = r.b, r.registers_now, operands_of(op)
    bounds, inits = r.vals(operands[:3]), r.pack_all(operands[3:])
    old = op.body.block
    roots = [] if registers is None else registers.stored(op)
    new = Block(arg_types=[*r.argument_types(old), *(root.type for root in roots)])
    count = len(new.args) - len(roots)
    started = [r.values[root] for root in roots]
    before = b.numbered() if roots else {}
    inside: dict[object, SSAValue] = {}
    r.carry.append(())
    with b.region(new):
        r.bind(old.args, new.args[:count])
        for root, value in zip(roots, new.args[count:], strict=True):
            r.values[root] = Lanes.of(value, new)
        r.walk(old)
        if roots:
            inside = b.numbered()
    r.carry.pop()
    ended = [r.values[root] for root in roots]
    types = [*r.result_carriers(op), *(root.type for root in roots)]
    loop = b.with_regions(scf.ForOp, [*bounds, *inits], types, [Region(new)], dict(op.properties), dict(op.attributes))
    r.bind(op.results, loop.results[: len(types) - len(roots)])
    if roots and registers is not None:
        registers.carry(Carried(loop, roots, [Exit(new, ended, inside)], started, before))


def if_else(r: Regions, op: scf.IfOp) -> None:
    b, registers = r.b, r.registers_now
    cond = r.val(operands_of(op)[0])
    roots = [] if registers is None else registers.stored(op)
    started = {root: r.values[root] for root in roots}
    regions: list[Region] = []
    exits: list[Exit] = []
    r.carry.append(())
    for region in op.regions:
        if region.first_block is None and not roots:
            regions.append(Region())
            continue
        new = Block()
        with b.region(new):
            if region.first_block is not None:
                r.walk(region.block)
            else:
                b.opn(scf.YieldOp, (), ())
            if roots:
                exits.append(Exit(new, [r.values[root] for root in roots], b.numbered()))
        for root, lanes in started.items():
            r.values[root] = lanes
        made = Region(new)
        # The first branch is there however little it does.
        idle = bool(regions) and not roots and not op.results and is_idle(made)
        regions.append(Region() if idle else made)
    r.carry.pop()
    own = r.result_carriers(op)
    types = [*own, *(root.type for root in roots)]
    new_if = b.with_regions(scf.IfOp, (cond,), types, regions, dict(op.properties), dict(op.attributes))
    r.bind(op.results, new_if.results[: len(own)])
    if roots and registers is not None:
        registers.carry(Carried(new_if, roots, exits))


def _while(r: Regions, op: scf.WhileOp) -> None:
    b, registers = r.b, r.registers_now
    roots = [] if registers is None else registers.stored(op)
    inits = [*r.pack_all(operands_of(op)), *(r.values[root].value(b) for root in roots)]
    started = {root: r.values[root] for root in roots}
    regions: list[Region] = []
    idle = set(roots)
    r.carry.append(roots)
    for region in op.regions:
        old = region.block
        new = Block(arg_types=[*r.argument_types(old), *(root.type for root in roots)])
        count = len(new.args) - len(roots)
        with b.region(new):
            r.bind(old.args, new.args[:count])
            given = [Lanes.of(value, new) for value in new.args[count:]]
            r.values.update(zip(roots, given, strict=True))
            r.walk(old)
        idle -= {root for root, lanes in zip(roots, given, strict=True) if r.values[root] is not lanes}
        regions.append(Region(new))
    r.carry.pop()
    # Stores in branches that are never taken are gone before registers become values, but counted here.
    if idle:
        r.missed = True
    if roots:
        r.values.update(started)
    types = [*r.result_carriers(op), *(root.type for root in roots)]
    made = b.with_regions(scf.WhileOp, inits, types, regions, dict(op.properties), dict(op.attributes))
    _finish(r, op, made, roots)


def _finish(r: Regions, op: Operation, made: Operation, roots: Sequence[Root]) -> None:
    """Bind the results of a rebuilt op; the last ones are what the roots hold now."""
    count = len(made.results) - len(roots)
    r.bind(op.results, made.results[:count])
    for root, value in zip(roots, made.results[count:], strict=True):
        r.values[root] = Lanes.of(value, r.b.block)


Regions.handlers = cast(
    dict[type[Operation], Handler],
    {
        scf.ForOp: for_loop,
        scf.IfOp: if_else,
        scf.WhileOp: _while,
        scf.YieldOp: _terminator,
        scf.ConditionOp: _condition,
    },
)
