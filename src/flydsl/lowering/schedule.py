"""Where pure ops stand in their block: right before what first needs them, operands first; what nobody needs goes.

What is built twice is shared at the place where it was built first, whether or not that one is needed. With the order
taken from what acts, two ways to build the same module leave the same text. Arithmetic of floats counts as acting: it
stays in the order it was written in, since moving it behind later loads keeps what it reads in registers for longer.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import Block, Operation, Region, SSAValue

from ..dialects.upstream import scf
from ..ir.arith import ConstantOp
from ..ir.dead_code import can_drop, is_pure
from ..ir.emitter import blocks_in, relink
from ..ir.values import OP_RESULTS

_STAYS: dict[type[Operation], bool] = {}


def stays(cls: type[Operation]) -> bool:
    """Whether ops of a class stay where they were written: arithmetic and functions of floats, and where lanes meet."""
    known = _STAYS.get(cls)
    if known is None:
        name = cls.name
        is_float = name.startswith("math.") or (name.startswith("arith.") and name.endswith("f"))
        known = _STAYS[cls] = is_float or not is_pure(cls)
    return known


def schedule(root: Operation) -> None:
    """Order the blocks of an op and of everything in it."""
    needed: set[int] = set()
    _mark_needed(root, needed)
    for region in root.regions:
        blocks = blocks_in(region)
        for block in blocks:
            _order(block, len(blocks) == 1, needed)


def _order(block: Block, single: bool, needed: set[int]) -> list[SSAValue]:
    """Order a block; give the values from outside it that it needs, in that order."""
    outside: list[SSAValue] = []
    order: list[Any] = []
    placed: set[int] = set()
    op: Any = block.first_op
    while op is not None:
        kind: type[Operation] = type(op)  # pyright: ignore[reportUnknownVariableType]
        if kind is ConstantOp:
            placed.add(id(op))
            order.append(op)
        elif op.regions:
            _demand(op._operands, block, placed, order, outside)
            for region in op.regions:
                blocks = blocks_in(region)
                for inner in blocks:
                    _demand(_order(inner, len(blocks) == 1, needed), block, placed, order, outside)
            if kind is scf.IfOp and not op.results:
                _drop_idle(op.regions[1])
            order.append(op)
        elif id(op) not in placed and (not single or not can_drop(kind) or (id(op) in needed and stays(kind))):
            placed.add(id(op))
            _demand(op._operands, block, placed, order, outside)
            order.append(op)
        op = op._next_op
    relink(block, order)
    return outside


def _drop_idle(otherwise: Region) -> None:
    """Drop the second branch of an if that gives nothing, where all it did was for nothing."""
    block = otherwise.first_block
    if block is not None and block.first_op is block.last_op:
        otherwise.detach_block(block)
        block.erase()


def _demand(values: Any, block: Block, placed: set[int], order: list[Any], outside: list[SSAValue]) -> None:
    """Place the pure ops of a block that give values, each behind what it needs; note what comes from outside."""
    for value in values:
        if type(value) not in OP_RESULTS:
            if value.block is not block:
                outside.append(value)
            continue
        op: Any = value.op
        if id(op) in placed:
            continue
        if op.parent is not block:
            outside.append(value)
            continue
        if op.regions or not is_pure(type(op)):  # pyright: ignore[reportUnknownArgumentType]
            continue
        placed.add(id(op))
        if op._operands:
            _demand(op._operands, block, placed, order, outside)
        order.append(op)


def _mark_needed(root: Any, needed: set[int]) -> None:
    """Add the ids of the ops in an op that something that acts needs; users stand behind what they use."""
    for region in root.regions:
        for block in reversed(blocks_in(region)):
            op: Any = block.last_op
            while op is not None:
                if op.regions:
                    _mark_needed(op, needed)
                if op.regions or id(op) in needed or not can_drop(type(op)):  # pyright: ignore[reportUnknownArgumentType]
                    for value in op._operands:
                        if type(value) in OP_RESULTS:
                            needed.add(id(value.op))
                op = op._prev_op
