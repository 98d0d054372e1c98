"""Accumulators of `wgmma`: nobody may touch them before a wait has ended their products.

To the compiler a product is there when its instruction is issued, so the values that are used next also have to pass
through the wait, or their uses may move in front of it. Where a wait ends products and does not name the accumulators
that are used behind it, it gets them; a use that no wait precedes is refused at its line.

Each accumulator is followed through the structured code of a kernel, as the tensor the product was given. Of two
branches, and of a loop that runs once or more often, the one counts that has waited longest, so that what is refused is
wrong whichever way a thread goes; but in a loop each iteration has to be right. Pieces of a fragment that were cut
separately are taken for different ones, and instructions of `wgmma` that the author wrote as text for waits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, NoReturn, cast

from xdsl.ir import Operation

from ...dialects.fly.atoms import MmaAtomType, TiledMmaType
from ...dialects.fly.types import is_register
from ...errors import DSLRuntimeError
from ...ir.emitter import operands_of
from ...ir.locations import source_chain
from ..build.ir_errors import place
from .stores import WRITTEN

if TYPE_CHECKING:
    from xdsl.dialects.builtin import IntegerAttr, IntegerType
    from xdsl.ir import Attribute, Block, SSAValue

_WAIT = "fly_nvgpu.wgmma_wait"
_PRODUCTS = frozenset({"fly.gemm", "fly.mma_atom_call"})
"""Operands: atom, D, A, B, C."""
_ACCESSES = frozenset({*WRITTEN, "fly.ptr.load", "fly.memref.load", "fly.memref.load_vec", "fly.load"})
_FRESH = frozenset({"fly.memref.alloca", "fly.make_fragment_like", "fly.mma.make_fragment"})
"""Ops whose registers are their own, whatever they take the shape from."""
_LOOPS = frozenset({"scf.for", "scf.while"})
_CALL = "fly_nvgpu.call"
_RAW = {"llvm.inline_asm": "asm_string", "llvm.call_intrinsic": "intrin"}
"""Ops that are text, and which property that is."""
_RELEVANT = frozenset({*_PRODUCTS, *_ACCESSES, *_RAW, _WAIT, _CALL})
_ITERATIONS = 2
_OPEN = -1


@dataclass(frozen=True)
class _Products:
    """What is known of the products in one accumulator."""

    age: int = _OPEN
    """Groups that were closed behind them; -1 while their own is open."""
    ended: bool = False
    waits: tuple[Operation, ...] = ()
    """Waits that ended them and did not name the accumulator; before that, the last that did not end them."""

    def later(self, other: _Products) -> _Products:
        """Of two paths the one that has waited longer, with the waits of both."""
        if self.ended and other.ended:
            return replace(self, waits=tuple(dict.fromkeys((*self.waits, *other.waits))))
        return max(self, other, key=lambda p: (p.ended, p.age))


_State = dict["SSAValue", _Products]
"""Accumulators whose products have not come through a wait."""


def settle_products(kernel: Block) -> None:
    """Name in waits the accumulators that are used behind them; refuse uses in front of all waits."""
    _Walk().block(kernel, {})


class _Walk:
    def __init__(self) -> None:
        self.views: dict[SSAValue, tuple[SSAValue, ...]] = {}
        self.blocks: dict[Block, list[Operation]] = {}

    def block(self, block: Block, state: _State) -> _State:
        """What holds behind a block; its waits are completed and its mistakes told on the way."""
        for op in self.relevant(block):
            if op.regions:
                state = self.structured(op, state)
            elif op.name in _PRODUCTS:
                state = self.product(op, state)
            elif op.name == _CALL:
                if _text(op, "kind") == "wgmma.commit":
                    state = _closed(state)
            elif op.name == _WAIT:
                state = self.wait(op, state)
            elif op.name in _RAW:
                if "wgmma" in _text(op, _RAW[op.name]):
                    state = {}  # waits of the author's own
            elif state:
                for value in operands_of(op):
                    self.use(op, value, state)
        return state

    def relevant(self, block: Block) -> list[Operation]:
        """The ops of a block that matter here: blocks of loops are walked several times."""
        known = self.blocks.get(block)
        if known is None:
            known = [op for op in block.ops if op.regions or op.name in _RELEVANT]
            self.blocks[block] = known
        return known

    def structured(self, op: Operation, state: _State) -> _State:
        blocks = [region.block for region in op.regions if region.blocks]
        if op.name not in _LOOPS:
            ends = [self.block(block, state) for block in blocks]
            if len(ends) < len(op.regions) or len(ends) == 1:
                ends.append(state)
            return reduce(_branches, ends)
        left: list[_State] = []
        for _ in range(_ITERATIONS):  # the first, and what follows others
            for block in blocks:
                state = self.block(block, state)
            # `scf.while` is left behind its first block, `scf.for` has one only.
            left.append(state if len(blocks) == 1 else self.block(blocks[0], state))
        return reduce(_branches, left)

    def product(self, op: Operation, state: _State) -> _State:
        atom, d, *rest = operands_of(op)
        products = _atom(atom.type).op.asynchronous
        if state:
            for value in rest if products else operands_of(op):
                if value is not d or not products:
                    self.use(op, value, state)
        return {**state, d: _Products()} if products else state

    def wait(self, op: Operation, state: _State) -> _State:
        if any(p.age == _OPEN and not p.ended for p in state.values()):
            state = _closed(state)  # as the compiler does in front of a wait
        pending, named = _pending(op), operands_of(op)
        after: _State = {}
        for value, products in state.items():
            if products.ended or products.age >= pending:
                if not any(self.overlap(value, name) for name in named):
                    after[value] = products if products.ended else replace(products, ended=True, waits=(op,))
            else:
                after[value] = replace(products, waits=(op,))
        return after

    def use(self, op: Operation, value: SSAValue, state: _State) -> None:
        """Complete the waits in front of a use; without any it is a mistake."""
        if not is_register(value.type):
            return
        for accumulator, products in list(state.items()):
            if not self.overlap(accumulator, value):
                continue
            if not products.ended:
                _refuse(op, products)
            for wait in products.waits:
                if accumulator not in operands_of(wait) and _reaches(accumulator, wait):
                    wait.operands = [*operands_of(wait), accumulator]

    def overlap(self, one: SSAValue, other: SSAValue) -> bool:
        """Whether one of two tensors of registers is a part of the other."""
        return one is other or one in self.origins(other) or other in self.origins(one)

    def origins(self, value: SSAValue) -> tuple[SSAValue, ...]:
        """The tensors a view was cut from."""
        known = self.views.get(value)
        if known is None:
            owner = value.owner
            known = ()
            if isinstance(owner, Operation) and owner.name not in _FRESH and not owner.regions:
                above = [v for v in operands_of(owner) if is_register(v.type)]
                known = tuple(x for v in above for x in (v, *self.origins(v)))
            self.views[value] = known
        return known


def _atom(kind: Attribute) -> MmaAtomType:
    return kind.data.atom if isinstance(kind, TiledMmaType) else cast(MmaAtomType, kind)


def _text(op: Operation, name: str) -> str:
    return cast("str", getattr(op.properties.get(name), "data", ""))


def _pending(wait: Operation) -> int:
    return cast("IntegerAttr[IntegerType]", wait.properties["pending"]).value.data


def _closed(state: _State) -> _State:
    return {value: p if p.ended else replace(p, age=p.age + 1) for value, p in state.items()}


def _branches(one: _State, other: _State) -> _State:
    """Behind two branches: products that have not ended in both, and those whose waits may still have to name them."""
    made: _State = {}
    for value in one.keys() | other.keys():
        here, there = one.get(value), other.get(value)
        if here is not None and there is not None:
            made[value] = here.later(there)
        else:
            some = here or there
            if some is not None and some.ended:
                made[value] = some
    return made


def _reaches(value: SSAValue, op: Operation) -> bool:
    """Whether a value is known at an op: it was made in a block around it."""
    home = value.owner.parent if isinstance(value.owner, Operation) else value.owner
    block = op.parent
    while block is not None and block is not home:
        above = block.parent_op()
        block = None if above is None else above.parent
    return block is not None


def _refuse(op: Operation, products: _Products) -> NoReturn:
    error = DSLRuntimeError(
        f"accumulators of wgmma are used while their products are under way: {_why(products)}. Call "
        "fx.nvgpu.wgmma_wait(0, acc) in front of this line, with the accumulators it uses"
    )
    place(error, op.location)
    raise error


def _why(products: _Products) -> str:
    if not products.waits:
        return "no wgmma_wait stands in between"
    wait = products.waits[-1]
    chain = source_chain(wait.location)
    where = f" in line {chain[-1].line}" if chain else ""
    behind = "it is the youngest" if products.age == 0 else f"{products.age} were committed behind it"
    return f"wgmma_wait({_pending(wait)}){where} leaves their group running, as {behind}"
