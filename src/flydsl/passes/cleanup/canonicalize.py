"""`canonicalize`: fold constants, share equal pure ops, drop dead ones, simplify structured control flow, in one walk.

Folds of single ops are in `folds.py`, what is not needed is found by `liveness.py` beforehand. Here are ifs and loops:
known conditions and trip counts, adjacent ifs on one condition, results and carried values nobody uses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import vector as xvector
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.ir import Block, Operation, Region, SSAValue

from ...dialects.upstream import llvm, scf, vector
from ...ir import arith
from ...ir.arith import ROUNDING_MODE
from ...ir.builder import CASTS, FLOAT_BINARY, INT_BINARY, operands_of
from ...ir.types import bit_width
from ...lowering.rebuild import CMPI_NAMES, Handler, Rebuilder, remove_dead
from ..base import Pass
from . import folds
from .liveness import Liveness


class Canonicalizer(Rebuilder):
    """The walk."""

    def __init__(self) -> None:
        super().__init__()
        self.live: Liveness | None = None
        self.dropped: dict[int, set[int]] = {}
        """By the id of an if or loop: results that go, so that its terminators leave their operands out."""
        self.captured: dict[int, list[SSAValue]] = {}
        """Operands of terminators whose block is built into another: noted instead of emitted."""

    def mark(self, module: ModuleOp) -> set[int]:
        self.live = Liveness(module)
        self.dropped = self.live.unused
        return self.live.dead

    def inline(self, block: Block, every: bool = False) -> list[SSAValue | None]:
        """Build the ops of a block into the current one; give what its terminator hands on.

        With `every`, values that are dropped have their place too, as None where they were not even computed.
        """
        last = block.last_op
        assert last is not None
        self.captured[id(last)] = []
        self.walk(block)
        given = self.captured.pop(id(last))
        return [self.vm.get(v) for v in operands_of(last)] if every else list(given)

    def without(self, op: Operation, values: Sequence[Any]) -> list[Any]:
        """Results (or what stands for them) that stay."""
        gone = self.dropped.get(id(op), ())
        return [v for i, v in enumerate(values) if i not in gone]


def _if(r: Canonicalizer, op: scf.IfOp) -> None:
    cond = r.val(operands_of(op)[0])
    known = r.b.const_of.get(cond)
    if known is not None:
        region = op.regions[0 if known else 1]
        if region.blocks:
            r.vm.update(zip(r.without(op, op.results), r.inline(region.block), strict=True))
        return
    chain = _adjacent(r, op, cond)
    if len(chain) > 1:
        _drop_inner(r, chain)
    results = [x for one in chain for x in r.without(one, one.results)]
    regions = [_branch(r, chain, side, bool(results)) for side in (0, 1)]
    new = r.b.with_regions(scf.IfOp, (cond,), [x.type for x in results], regions, {**op.properties}, {**op.attributes})
    r.vm.update(zip(results, new.results, strict=True))


def _adjacent(r: Canonicalizer, op: scf.IfOp, cond: SSAValue) -> list[scf.IfOp]:
    """The ifs right behind one on the same condition; they are taken out of the walk."""
    chain = [op]
    following = op.next_op
    while following is not None:
        if id(following) not in r.dead:
            if not isinstance(following, scf.IfOp) or r.vm.get(operands_of(following)[0]) is not cond:
                break
            chain.append(following)
        following = following.next_op
    r.dead.update(id(one) for one in chain[1:])
    return chain


def _drop_inner(r: Canonicalizer, chain: list[scf.IfOp]) -> None:
    """Results that only the later ifs of a chain use are not results of the whole."""
    members = {id(one) for one in chain}
    for one in chain:
        for i, result in enumerate(one.results):
            if all(_inside(use.operation, one.parent, members) for use in result.uses):
                r.dropped.setdefault(id(one), set()).add(i)


def _inside(op: Operation, block: Block | None, members: set[int]) -> bool:
    """Whether an op stands inside one of the members, which are ops of `block`."""
    at: Operation | None = op
    while at is not None and at.parent is not block:
        at = at.parent_op()
    return at is not None and at is not op and id(at) in members


def _branch(r: Canonicalizer, chain: list[scf.IfOp], side: int, always: bool) -> Region:
    """One branch of several ifs as one; within it the earlier ones' results are what that branch gave."""
    if not always and not any(one.regions[side].blocks for one in chain):
        return Region()
    block = Block()
    handed: list[SSAValue] = []
    with r.b.region(block):
        for one in chain:
            region = one.regions[side]
            if region.blocks:
                given = r.inline(region.block, every=True)
                r.vm.update(zip(one.results, given, strict=True))
                handed += r.without(one, given)
        r.b.opn(scf.YieldOp, handed, ())
    return Region(block)


def _yield(r: Canonicalizer, op: Operation) -> None:
    parent = op.parent_op()
    values = operands_of(op) if parent is None else r.without(parent, operands_of(op))
    new = r.vals(values)
    if id(op) in r.captured:
        r.captured[id(op)] = new
    else:
        r.b.opn(type(op), new, (), dict(op.properties))


def _for(r: Canonicalizer, op: scf.ForOp) -> None:
    low, high, step, *inits = operands_of(op)
    block = op.body.block
    start, *carried = block.args
    bounds: list[int | float | None] = [r.b.const_of.get(r.val(v)) for v in (low, high, step)]
    if "unsignedCmp" in op.properties:
        mask = (1 << bit_width(start.type)) - 1
        bounds = [None if v is None else int(v) & mask for v in bounds]
    trips = _trips(bounds)
    if trips == 0:
        r.vm.update(zip(r.without(op, op.results), r.vals(r.without(op, inits)), strict=True))
        return
    last = block.last_op
    assert last is not None
    # What the loop hands on unchanged is not carried.
    gone = set(r.dropped.get(id(op), ()))
    gone |= {i for i, v in enumerate(operands_of(last)) if v is carried[i]}
    r.dropped[id(op)] = gone
    for i in gone:
        value = r.vm.get(inits[i])
        if value is not None:
            r.vm[carried[i]] = r.vm[op.results[i]] = r.val(inits[i])
    if trips == 1:
        r.vm[start] = r.val(low)
        r.vm.update(zip(r.without(op, carried), r.vals(r.without(op, inits)), strict=True))
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


def _trips(bounds: list[int | float | None]) -> int | None:
    """How often a loop runs, where that is known."""
    low, high, step = bounds
    if low is None or high is None:
        return None
    if low >= high:
        return 0
    if step is None or step <= 0:
        return None
    return -(-(int(high) - int(low)) // int(step))


def _int_binary(name: str) -> Handler:
    def handle(r: Canonicalizer, op: Operation) -> None:
        a, b = operands_of(op)
        r.vm[op.results[0]] = folds.int_binary(r.b, name, r.val(a), r.val(b))

    return cast(Handler, handle)


def _float_binary(name: str) -> Handler:
    def handle(r: Canonicalizer, op: Operation) -> None:
        a, b = operands_of(op)
        r.vm[op.results[0]] = folds.float_binary(r.b, name, r.val(a), r.val(b), dict(op.properties))

    return cast(Handler, handle)


def _cast(name: str) -> Handler:
    def handle(r: Canonicalizer, op: Operation) -> None:
        if ROUNDING_MODE in op.properties:
            r.copy(op)
            return
        (a,) = operands_of(op)
        r.vm[op.results[0]] = folds.cast_value(r.b, name, r.val(a), op.results[0].type)

    return cast(Handler, handle)


def _bitcast(r: Canonicalizer, op: Operation) -> None:
    (a,) = operands_of(op)
    r.vm[op.results[0]] = folds.bitcast(r.b, type(op), r.val(a), op.results[0].type)


def _cmpi(r: Canonicalizer, op: arith.CmpiOp) -> None:
    a, b = operands_of(op)
    r.vm[op.results[0]] = folds.cmpi(r.b, CMPI_NAMES[op.predicate.value.data], r.val(a), r.val(b))


def _select(r: Canonicalizer, op: arith.SelectOp) -> None:
    r.vm[op.results[0]] = folds.select(r.b, *r.vals(operands_of(op)))


def _negf(r: Canonicalizer, op: arith.NegfOp) -> None:
    x = r.val(operands_of(op)[0])
    if isinstance(x.owner, arith.NegfOp):
        r.vm[op.results[0]] = operands_of(x.owner)[0]
    else:
        r.copy(op)


def _extract_value(r: Canonicalizer, op: llvm.ExtractValueOp) -> None:
    at = tuple(int(i) for i in cast(Any, op.position).get_values())
    container = r.val(operands_of(op)[0])
    r.vm[op.results[0]] = folds.extract_value(r.b, container, at, op.results[0].type)


def _gep(r: Canonicalizer, op: Operation) -> None:
    r.vm[op.results[0]] = folds.element_pointer(r.b, op, r.vals(operands_of(op)))


def _flat(op: Operation) -> bool:
    """Whether an op on vectors deals in one dimension only."""
    types: list[Any] = [v.type for v in (*operands_of(op), *op.results)]
    return all(len(cast(Any, t).get_shape()) == 1 for t in types if isinstance(t, VectorType))


def _on_flat(fold: Callable[[Canonicalizer, Operation], SSAValue | None]) -> Handler:
    """A fold for 1-D vectors; others, and what it leaves, are copied."""

    def handle(r: Canonicalizer, op: Operation) -> None:
        found = fold(r, op) if _flat(op) else None
        if found is None:
            r.copy(op)
        else:
            r.vm[op.results[0]] = found

    return cast(Handler, handle)


def _static(op: Operation, name: str) -> int | None:
    values = [int(i) for i in cast(Any, op.properties[name]).get_values()]
    return values[0] if len(values) == 1 and values[0] >= 0 else None


def _extract(r: Canonicalizer, op: Operation) -> SSAValue | None:
    at = _static(op, "static_position")
    v, *index = r.vals(operands_of(op))
    if index:
        known = r.b.const_of.get(index[0])
        at = None if known is None else int(known)
    count = cast(VectorType, v.type).get_shape()[0]
    return None if at is None or not 0 <= at < count else folds.extract(r.b, v, at)


def _insert(r: Canonicalizer, op: Operation) -> SSAValue | None:
    x, v, *index = r.vals(operands_of(op))
    known = r.b.const_of.get(index[0]) if index else None
    count = cast(VectorType, v.type).get_shape()[0]
    return r.b.insert(x, v, int(known)) if known is not None and 0 <= known < count else None


def _slice_at(op: Operation) -> int | None:
    offsets, strides = (cast(Any, op.properties[name]).data for name in ("offsets", "strides"))
    return offsets[0].value.data if len(offsets) == 1 and strides[0].value.data == 1 else None


def _extract_slice(r: Canonicalizer, op: Operation) -> SSAValue | None:
    at = _slice_at(op)
    count = cast(VectorType, op.results[0].type).get_shape()[0]
    return None if at is None else folds.extract_slice(r.b, r.val(operands_of(op)[0]), at, count)


def _insert_slice(r: Canonicalizer, op: Operation) -> SSAValue | None:
    at = _slice_at(op)
    part, v = r.vals(operands_of(op))
    return None if at is None else folds.insert_slice(r.b, part, v, at)


def _from_elements(r: Canonicalizer, op: Operation) -> SSAValue | None:
    return folds.from_elements(r.b, r.vals(operands_of(op)), op.results[0].type)


def _shape_cast(r: Canonicalizer, op: Operation) -> None:
    r.vm[op.results[0]] = folds.shape_cast(r.b, r.val(operands_of(op)[0]), op.results[0].type)


def _transpose(r: Canonicalizer, op: vector.TransposeOp) -> None:
    order = [int(i) for i in cast(Any, op.permutation).get_values()]
    if order == list(range(len(order))):
        r.vm[op.results[0]] = r.val(operands_of(op)[0])
    else:
        r.copy(op)


def _broadcast(r: Canonicalizer, op: Operation) -> None:
    x = r.val(operands_of(op)[0])
    known = r.b.const_of.get(x)
    if x.type == op.results[0].type:
        r.vm[op.results[0]] = x
    elif known is not None:
        r.vm[op.results[0]] = r.b.const(known, op.results[0].type)
    else:
        r.copy(op)


def _shuffle(r: Canonicalizer, op: xvector.ShuffleOp) -> SSAValue | None:
    mask = [int(i) for i in cast(Any, op.properties["mask"]).get_values()]
    x, y = r.vals(operands_of(op))
    count = cast(VectorType, x.type).get_shape()[0]
    if x.type == op.results[0].type and mask == list(range(count)):
        return x
    if y.type == op.results[0].type and mask == list(range(count, count + len(mask))):
        return y
    return None


Canonicalizer.handlers = cast(
    dict[type[Operation], Handler],
    {
        scf.IfOp: _if,
        scf.ForOp: _for,
        scf.YieldOp: _yield,
        arith.CmpiOp: _cmpi,
        arith.SelectOp: _select,
        arith.NegfOp: _negf,
        arith.BitcastOp: _bitcast,
        xvector.BitcastOp: _bitcast,
        llvm.ExtractValueOp: _extract_value,
        llvm.GEPOp: _gep,
        xvector.ExtractOp: _on_flat(_extract),
        xvector.InsertOp: _on_flat(_insert),
        xvector.BroadcastOp: _broadcast,
        xvector.ShuffleOp: _on_flat(cast(Any, _shuffle)),
        vector.ExtractStridedSliceOp: _on_flat(_extract_slice),
        vector.InsertStridedSliceOp: _on_flat(_insert_slice),
        vector.FromElementsOp: _on_flat(_from_elements),
        vector.ShapeCastOp: _shape_cast,
        vector.TransposeOp: _transpose,
        **{cls: _int_binary(name) for name, cls in INT_BINARY.items()},
        **{cls: _float_binary(name) for name, cls in FLOAT_BINARY.items()},
        **{cls: _cast(name) for name, cls in CASTS.items() if name != "bitcast"},
    },
)


@dataclass(frozen=True)
class CanonicalizePass(Pass):
    """Fold, share and remove in one walk."""

    name = "canonicalize"

    def run(self, module: ModuleOp) -> ModuleOp:
        return remove_dead(Canonicalizer.rebuild(module))
