"""Register storage as values within one walk: what `fly-promote-regmem-to-vectorssa` makes of it, as it is met.

Each allocation is a `Root`; its vector under way (`Lanes`) changes with every store. A loop carries the roots it
stores to, an if gives them as results. Which those are is asked of the ops inside before they are walked; whether
somebody needs what they give is known at the end of the function (`Carried`). A root whose address is used in a
way that cannot be followed stays in memory: the walk of the function starts again with that known.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue

from ....dialects.fly.forms import groups_of
from ....dialects.fly.ops import OPS
from ....dialects.fly.types import is_register
from ....ir.builder import operands_of
from ....ir.dead_code import is_pure
from ....ir.emitter import blocks_in
from ....lowering.folding import FoldingBuilder
from ....lowering.lanes import Lanes


class Root:
    """One allocation that is a value; stands where a pointer has its base."""

    __slots__ = ("old", "order", "type")

    def __init__(self, old: SSAValue, order: int, type_: Attribute):
        self.old = old
        self.order = order
        self.type = type_


class KeepInMemory(Exception):
    """A root turned out to need an address."""

    def __init__(self, root: Root):
        super().__init__()
        self.root = root


_ALLOCATIONS = tuple(OPS[name] for name in ("memref.alloca", "make_fragment_like", "mma.make_fragment", "make_ptr"))


def _destination(op: Operation) -> Sequence[SSAValue]:
    return (operands_of(op)[2],)


def _product(op: Operation) -> Sequence[SSAValue]:
    _, d, *_ = groups_of(cast(Any, op))
    return d


def _second(op: Operation) -> Sequence[SSAValue]:
    return (operands_of(op)[1],)


_STORES: dict[type[Operation], Callable[[Operation], Sequence[SSAValue]]] = {
    OPS["copy"]: _destination,
    OPS["copy_atom_call"]: _destination,
    OPS["gemm"]: _product,
    OPS["mma_atom_call"]: _product,
    OPS["memref.store"]: _second,
    OPS["memref.store_vec"]: _second,
    OPS["ptr.store"]: _second,
}
"""By class of op: tensors it stores to."""


class Exit(NamedTuple):
    """The end of a region: what roots hold there."""

    block: Block
    holds: Sequence[Lanes]
    numbered: dict[object, SSAValue]
    """What is numbered at the end of the block."""


class Carried(NamedTuple):
    """Roots that a loop carries or an if gives, before it is known which of them anybody needs."""

    op: Operation
    roots: Sequence[Root]
    exits: Sequence[Exit]
    inits: Sequence[Lanes] = ()
    """What a loop starts from."""
    numbered: dict[object, SSAValue] = {}
    """What is numbered in front of the loop."""


class RegisterValues:
    """The roots of one function and what they hold."""

    def __init__(self, b: FoldingBuilder, kept: set[SSAValue], dead: set[int]):
        self._b = b
        self._kept = kept
        self._dead = dead
        self._roots: dict[SSAValue, Root] = {}
        self._sources: dict[SSAValue, SSAValue | None] = {}
        self.now: dict[Root, Lanes] = {}
        """What each root holds."""
        self._carried: list[Carried] = []
        self._moved: dict[SSAValue, SSAValue] = {}
        """Results of loops that were made anew."""
        self._late: list[Operation] = []
        """Ops that were emitted when the function was built."""

    def allocate(self, old: SSAValue, type_: Attribute) -> Root | None:
        """A new root, blank; None for one that stays in memory."""
        if old in self._kept:
            return None
        root = self._roots[old] = Root(old, len(self._roots), type_)
        self.now[root] = Lanes.blank(type_, self._b.block)
        return root

    # --- what is accessed -----------------------------------------------------------------------------------------

    def source(self, value: SSAValue) -> SSAValue | None:
        """The allocation behind a tensor or pointer of the module before; None where it is not to be seen."""
        if value in self._sources:
            return self._sources[value]
        found: SSAValue | None = None
        if isinstance(value, OpResult):
            if isinstance(value.op, _ALLOCATIONS):
                found = value
            elif not value.op.regions:
                inner = next((v for v in operands_of(value.op) if is_register(v.type)), None)
                found = None if inner is None else self.source(inner)
        self._sources[value] = found
        return found

    def stored(self, op: Operation) -> list[Root]:
        """Roots from outside that an op with regions stores to, as allocated."""
        found: set[Root] = set()
        self._scan(op, found)
        return sorted(found, key=lambda root: root.order)

    def _scan(self, op: Operation, found: set[Root]) -> None:
        dead = self._dead
        for region in op.regions:
            for block in blocks_in(region):
                inner: Any = block.first_op
                while inner is not None:
                    if inner.regions:
                        self._scan(inner, found)
                    else:
                        stores = _STORES.get(type(inner))  # pyright: ignore[reportUnknownArgumentType]
                        if stores is not None and id(inner) not in dead:
                            for value in stores(inner):
                                root = self._root(value)
                                if root is not None:
                                    found.add(root)
                    inner = inner._next_op

    def _root(self, value: SSAValue) -> Root | None:
        if not is_register(value.type):
            return None
        source = self.source(value)
        return None if source is None else self._roots.get(source)

    # --- loops ----------------------------------------------------------------------------------------------------

    def carry(self, carried: Carried) -> None:
        """Note a loop or an if; its new operands are filled in by `settle`."""
        self._carried.append(carried)
        for root, result in zip(carried.roots, _results(carried), strict=True):
            self.now[root] = Lanes.of(result, self._b.block)

    def settle(self) -> bool:
        """At the end of a function: loops carry and ifs give the roots somebody needs.

        Gives whether that made ops of which there are equal ones: what was built behind them could not know.
        """
        needed = self._needed()
        for carried in self._carried:
            self._finish(carried, needed)
        return any(map(_has_twin, self._late))

    def _needed(self) -> set[SSAValue]:
        """Results for roots that are needed."""
        pairs: dict[SSAValue, tuple[Carried, int]] = {}
        for carried in self._carried:
            for i, result in enumerate(_results(carried)):
                pairs[result] = (carried, i)
            for i, argument in enumerate(_arguments(carried)):
                pairs[argument] = (carried, i)
        held = {
            value
            for carried in self._carried
            for lanes in (*carried.inits, *(each for end in carried.exits for each in end.holds))
            for value in lanes.values()
        }
        todo = [value for value in pairs if _is_used(value, held)]
        found: set[SSAValue] = set()
        while todo:
            carried, i = pairs[todo.pop()]
            result = _results(carried)[i]
            if result in found:
                continue
            found.add(result)
            for lanes in (*carried.inits[i : i + 1], *(end.holds[i] for end in carried.exits)):
                todo += [value for value in lanes.values() if value in pairs]
        return found

    def _current(self, lanes: Lanes, home: Block) -> Lanes:
        """The same with the results of loops as they are now."""
        moved = self._moved
        base = None if lanes.base is None else moved.get(lanes.base, lanes.base)
        parts = {at: part._replace(value=moved.get(part.value, part.value)) for at, part in lanes.parts.items()}
        return Lanes(lanes.type, base, parts, home)

    def _emitted(self, lanes: Lanes, anchor: Operation, numbered: dict[object, SSAValue]) -> SSAValue:
        """What a root holds as an IR value, in the block that knows its parts, in front of an op in there."""
        b = self._b
        b.loc = anchor.location
        while anchor.parent is not lanes.home:
            around = anchor.parent_op()
            if around is None:
                break
            anchor = around
        home = lanes.home
        last = home.last_op
        with b.resumed(home, numbered):
            value = self._current(lanes, home).value(b)
        op = home.first_op if last is None else last.next_op
        while op is not None:
            following = op.next_op
            op.detach()
            home.insert_op_before(op, anchor)
            self._late.append(op)
            op = following
        return value

    def _finish(self, carried: Carried, needed: set[SSAValue]) -> None:
        op, results, arguments = carried.op, _results(carried), _arguments(carried)
        live = [i for i, result in enumerate(results) if result in needed]
        inits = [self._emitted(carried.inits[i], op, carried.numbered) for i in live] if carried.inits else []
        for end in carried.exits:
            last = cast(Operation, end.block.last_op)
            last.operands = [*last.operands, *(self._emitted(end.holds[i], last, end.numbered) for i in live)]
        count = len(op.results) - len(results)
        if len(live) == len(results):
            op.operands = [*op.operands, *inits]
            return
        for i in range(len(results)):
            if i not in live:
                _drop_users(results[i])
        for i in reversed([i for i in range(len(arguments)) if i not in live]):
            _drop_users(arguments[i])
            carried.exits[0].block.erase_arg(cast(BlockArgument, arguments[i]))
        keep = [*range(count), *(count + i for i in live)]
        regions = [op.detach_region(0) for _ in list(op.regions)]
        made = type(op).create(
            operands=[*op.operands, *inits],
            result_types=[op.results[i].type for i in keep],
            properties=dict(op.properties),
            attributes=dict(op.attributes),
            regions=regions,
            location=op.location,
        )
        assert op.parent is not None
        op.parent.insert_op_before(made, op)
        for i, value in zip(keep, made.results, strict=True):
            self._moved[op.results[i]] = value
            op.results[i].replace_all_uses_with(value)
        op.detach()
        op.erase()


def _drop_users(value: SSAValue) -> None:
    """Erase the dead ops that take a value nobody needs."""
    for op in {id(use.operation): use.operation for use in value.uses}.values():
        op.detach()
        op.erase()


def _has_twin(op: Operation) -> bool:
    """Whether another op does the same."""
    mine = operands_of(op)
    if not mine:
        return False
    use: Any = mine[0].first_use
    while use is not None:
        other = cast(Operation, use._operation)
        if other is not op and type(other) is type(op) and other.properties == op.properties:
            theirs = operands_of(other)
            if len(theirs) == len(mine) and all(map(operator.is_, mine, theirs)):
                return True
        use = use._next_use
    return False


def is_idle(region: Region) -> bool:
    """Whether a branch does nothing."""
    return region.first_block is None or region.block.first_op is region.block.last_op


def _arguments(carried: Carried) -> Sequence[SSAValue]:
    return carried.exits[0].block.args[-len(carried.roots) :] if carried.inits else ()


def _results(carried: Carried) -> Sequence[SSAValue]:
    return carried.op.results[-len(carried.roots) :]


def _is_used(value: SSAValue, held: set[SSAValue]) -> bool:
    """Whether an op that is not dead itself uses a value; what registers hold may yet be used."""
    use: Any = value.first_use
    while use is not None:
        user = cast(Operation, use._operation)
        if not is_pure(type(user)) or any(x.first_use is not None or x in held for x in user.results):
            return True
        use = use._next_use
    return False
