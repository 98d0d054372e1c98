"""`fly-promote-regmem-to-vectorssa`: register storage becomes vectors that loops and ifs carry.

Each `fly.make_ptr` in the register space is one vector value that changes with every store. Storage whose address is
reinterpreted or depends on a run-time offset stays in memory, and so does what an atom call or an op of a target takes
as a tensor: the elements of those do not lie one behind the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ... import layout as L
from ...dialects.fly.infer import python_value, storage_type
from ...dialects.fly.ops import OPS, FlyOp
from ...dialects.fly.semantics import object_of
from ...dialects.fly.types import PointerType, is_register
from ...dialects.upstream import gpu, scf
from ...errors import DSLCompileError
from ...ir.builder import operands_of
from ...ir.types import vector_type
from ...lowering.rebuild import Handler, Rebuilder, failure_at, remove_dead
from ...lowering.value_operands import read, write
from ..base import Form, Part, Pass

if TYPE_CHECKING:
    from xdsl.dialects.builtin import DictionaryAttr

    from ...layout import IntTuple

_LOAD, _STORE = OPS["ptr.load"], OPS["ptr.store"]
_CALLS = tuple(OPS[name] for name in ("copy_atom_call", "mma_atom_call", "copy_atom_call_ssa", "mma_atom_call_ssa"))
_TARGETS = ("fly_rocdl.", "fly_nvgpu.")


class Storage:
    """The register storage of one function: who allocates it, who points where, what each region touches."""

    def __init__(self, function: gpu.FuncOp, dead: set[int]):
        self._dead = dead
        self.sizes: dict[SSAValue, int] = {}
        """Number of elements by allocation."""
        self._order: dict[SSAValue, int] = {}
        self.place: dict[SSAValue, tuple[SSAValue, int]] = {}
        """Allocation and static offset of a pointer."""
        self.kept: set[SSAValue] = set()
        """Allocations that stay in memory."""
        self.stored: dict[Operation, dict[SSAValue, None]] = {}
        """Allocations that something inside an op with regions stores to."""
        self._views: dict[SSAValue, SSAValue] = {}
        """Allocation of a tensor."""
        self._left: list[tuple[SSAValue | None, Operation, str]] = []
        for region in function.regions:
            for block in region.blocks:
                self._block(block, [])
        self._settle()

    def _settle(self) -> None:
        """Uses that cannot be promoted are an error, unless memory is needed anyway."""
        if not self.kept and self._left:
            _, op, message = self._left[0]
            raise failure_at(op, message)
        self.kept |= {root for root, _, _ in self._left if root is not None}

    def _block(self, block: Block, around: list[Operation]) -> None:
        if around and any(is_register(a.type) for a in block.args):
            message = "register block arguments remain after rmem SSA promotion"
            self._left.append((None, around[-1], message))
        for op in block.ops:
            if id(op) in self._dead:
                continue
            self._visit(op, around)
            if op.regions:
                self.stored[op] = {}
                for region in op.regions:
                    for inner in region.blocks:
                        self._block(inner, [*around, op])

    def _visit(self, op: Operation, around: list[Operation]) -> None:
        operands = operands_of(op)
        if isinstance(op, OPS["make_ptr"]) and is_register(op.results[0].type):
            size = _alloc_size(op)
            if size:
                root = op.results[0]
                self._order[root] = len(self.sizes)
                self.sizes[root], self.place[root] = size, (root, 0)
                return
        if isinstance(op, OPS["add_offset"]) and operands[0] in self.place:
            root, at = self.place[operands[0]]
            by: IntTuple = L.unwrap(object_of(operands[1].type))
            self.place[op.results[0]] = (root, at + by if type(by) is int else 0)
            if type(by) is not int:
                self.kept.add(root)
            return
        if isinstance(op, (_LOAD, _STORE)) and operands[-1] in self.place:
            root = self.place[operands[-1]][0]
            if isinstance(op, _STORE):
                for outer in around:
                    self.stored[outer][root] = None
            if not (isinstance(op, _STORE) and operands[0] in self.place):
                return
        if isinstance(op, OPS["make_view"]) and operands[0] in self.place:
            self._views[op.results[0]] = self.place[operands[0]][0]
            return
        for value in operands:
            if value in self._views:
                if isinstance(op, _CALLS) or op.name.startswith(_TARGETS):
                    self.kept.add(self._views[value])
                else:
                    message = "register operand/result remain after rmem SSA promotion"
                    self._left.append((self._views[value], op, message))
            if value in self.place:
                root = self.place[value][0]
                if isinstance(op, (OPS["recast_iter"], OPS["to_llvm_ptr"])):
                    self.kept.add(root)
                else:
                    self._left.append((root, op, "register operand/result remain after rmem SSA promotion"))

    def promoted(self, pointer: SSAValue) -> tuple[SSAValue, int] | None:
        """Allocation and offset of a pointer to storage that becomes a value."""
        found = self.place.get(pointer)
        return None if found is None or found[0] in self.kept else found

    def carried(self, op: Operation) -> list[SSAValue]:
        """Promoted allocations from outside that an op stores to, in order of allocation; what it reads is there."""
        inside = [root for root in self.stored.get(op, {}) if root not in self.kept and not _within(root, op)]
        return sorted(inside, key=self._order.__getitem__)


def _alloc_size(op: Operation) -> int:
    attrs = op.properties.get("dictAttrs")
    size = None if attrs is None else cast("DictionaryAttr", attrs).data.get("allocSize")
    return 0 if size is None else python_value(size)


def _within(value: SSAValue, op: Operation) -> bool:
    parent: Operation | None = cast(Operation, value.owner)
    while parent is not None:
        if parent is op:
            return True
        parent = parent.parent_op()
    return False


class _Promote(Rebuilder):
    def __init__(self) -> None:
        super().__init__()
        self.storage: Storage | None = None
        self.state: dict[SSAValue, SSAValue] = {}
        """The current value of each promoted allocation."""
        self.carry: list[list[SSAValue]] = []
        """Allocations the terminators of the enclosing regions hand on."""

    def function(self, op: Any, cls: type[Operation]) -> None:
        single = op.body.blocks.first is op.body.blocks.last
        self.storage = Storage(op, self.dead) if cls is gpu.FuncOp and single else None
        self.state = {}
        super().function(op, cls)
        self.storage = None

    def copy(self, op: Operation) -> None:
        storage = self.storage
        if storage is not None:
            if op.regions and storage.carried(op):
                raise DSLCompileError("unsupported region op with register values during rmem SSA")
            if op.results and storage.promoted(op.results[0]) is not None:
                return
        super().copy(op)

    def carried_block(self, old: Block, roots: Sequence[SSAValue]) -> Block:
        """Rebuild a block whose last arguments are the values of `roots`."""
        kinds = [self.state[root].type for root in roots]
        new = Block(arg_types=[*(a.type for a in old.args), *kinds])
        outer = {root: self.state[root] for root in roots}
        with self.b.region(new):
            for a, b in zip(old.args, new.args, strict=False):
                self.vm[a] = b
            self.state.update(zip(roots, new.args[len(old.args) :], strict=True))
            self.walk(old)
        self.state.update(outer)
        return new

    def plain_block(self, old: Block | None, roots: Sequence[SSAValue]) -> Block:
        """Rebuild a branch of an if; a missing one hands on what came in."""
        new = Block()
        outer = {root: self.state[root] for root in roots}
        with self.b.region(new):
            if old is None:
                self.b.opn(scf.YieldOp, [self.state[root] for root in roots], ())
            else:
                self.walk(old)
        self.state.update(outer)
        return new

    def finish(self, op: Operation, new: Operation, roots: Sequence[SSAValue]) -> None:
        """Map results; the last ones are the new values of `roots`."""
        count = len(op.results)
        for old, fresh in zip(op.results, new.results, strict=False):
            self.vm[old] = fresh
        self.state.update(zip(roots, new.results[count:], strict=True))


def _roots(r: _Promote, op: Operation) -> list[SSAValue]:
    return [] if r.storage is None else r.storage.carried(op)


def _types(r: _Promote, op: Operation, roots: Sequence[SSAValue]) -> list[Attribute]:
    return [*(x.type for x in op.results), *(r.state[root].type for root in roots)]


def _for(r: _Promote, op: scf.ForOp) -> None:
    roots = _roots(r, op)
    operands = [*r.vals(operands_of(op)), *(r.state[root] for root in roots)]
    types = _types(r, op, roots)
    r.carry.append(roots)
    body = r.carried_block(op.body.block, roots)
    r.carry.pop()
    r.finish(
        op, r.b.with_regions(scf.ForOp, operands, types, [Region(body)], {**op.properties}, {**op.attributes}), roots
    )


def _while(r: _Promote, op: scf.WhileOp) -> None:
    roots = _roots(r, op)
    operands = [*r.vals(operands_of(op)), *(r.state[root] for root in roots)]
    types = _types(r, op, roots)
    r.carry.append(roots)
    regions = [Region(r.carried_block(region.block, roots)) for region in op.regions]
    r.carry.pop()
    r.finish(op, r.b.with_regions(scf.WhileOp, operands, types, regions, {**op.properties}, {**op.attributes}), roots)


def _if(r: _Promote, op: scf.IfOp) -> None:
    roots = _roots(r, op)
    types = _types(r, op, roots)
    r.carry.append(roots)
    regions = [
        Region(r.plain_block(region.blocks.first, roots)) if region.blocks or roots else Region()
        for region in op.regions
    ]
    r.carry.pop()
    new = r.b.with_regions(scf.IfOp, r.vals(operands_of(op)), types, regions, {**op.properties}, {**op.attributes})
    r.finish(op, new, roots)


def _terminator(r: _Promote, op: Operation) -> None:
    extra = [r.state[root] for root in r.carry[-1]] if r.carry else []
    r.b.opn(type(op), [*r.vals(operands_of(op)), *extra], (), dict(op.properties))


def _make_ptr(r: _Promote, op: FlyOp) -> None:
    root = op.results[0]
    if r.storage is None or r.storage.promoted(root) is None:
        Rebuilder.copy(r, op)
        return
    elem = storage_type(cast(PointerType, root.type).data.elem)
    r.state[root] = r.b.poison(vector_type(elem, r.storage.sizes[root]))


def _store(r: _Promote, op: FlyOp) -> None:
    value, pointer = operands_of(op)
    place = None if r.storage is None else r.storage.promoted(pointer)
    if place is None:
        Rebuilder.copy(r, op)
        return
    root, at = place
    r.state[root] = write(r.b, r.val(value), r.state[root], at)


def _load(r: _Promote, op: FlyOp) -> None:
    (pointer,) = operands_of(op)
    place = None if r.storage is None else r.storage.promoted(pointer)
    if place is None:
        Rebuilder.copy(r, op)
        return
    root, at = place
    r.vm[op.results[0]] = read(r.b, r.state[root], at, op.results[0].type, spelled=True)


_Promote.handlers = cast(
    dict[type[Operation], Handler],
    {
        OPS["make_ptr"]: _make_ptr,
        _LOAD: _load,
        _STORE: _store,
        scf.ForOp: _for,
        scf.WhileOp: _while,
        scf.IfOp: _if,
        scf.YieldOp: _terminator,
        scf.ConditionOp: _terminator,
    },
)


@dataclass(frozen=True)
class FlyPromoteRegmemToVectorSsaPass(Pass):
    """Turn register storage into vectors carried by loops and ifs."""

    name = "fly-promote-regmem-to-vectorssa"
    needs = "registers only loaded and stored (`fly-convert-atom-call-to-ssa-form`)"
    part = Part({Form.CALLED: Form.PROMOTED}, "fly.walk.registers:Registers")

    def run(self, module: ModuleOp) -> ModuleOp:
        return remove_dead(_Promote.rebuild(module))
