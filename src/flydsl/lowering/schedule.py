"""Where pure ops stand in their block: right before what first needs them, operands first; what nobody needs goes.

What is built twice is shared at the place where it was built first, whether or not that one is needed. With the order
taken from what acts, two ways to build the same module leave the same text.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.ir import Block, Operation, OpResult, SSAValue

from ..ir.arith import ConstantOp
from ..ir.dead_code import MOVABLE, is_pure
from ..ir.emitter import relink


def schedule(root: Operation) -> None:
    """Order the blocks of an op and of everything in it."""
    for region in root.regions:
        for block in region.blocks:
            _order(block, len(region.blocks) == 1)


def _order(block: Block, single: bool) -> list[SSAValue]:
    """Order a block; give the values from outside it that it needs, in that order."""
    outside: list[SSAValue] = []
    order: list[Any] = []
    placed: set[int] = set()
    pure = is_pure

    def demand(values: Any) -> None:
        for value in values:
            if type(value) is not OpResult:
                if value.block is not block:
                    outside.append(value)
                continue
            op: Any = value.op
            if id(op) in placed:
                continue
            if op.parent is not block:
                outside.append(value)
                continue
            if op.regions or not (pure(type(op)) or op.attributes.pop(MOVABLE, None)):  # pyright: ignore[reportUnknownArgumentType]
                continue
            placed.add(id(op))
            if op._operands:
                demand(op._operands)
            order.append(op)

    op: Any = block.first_op
    while op is not None:
        kind = cast(type[Operation], type(op))  # pyright: ignore[reportUnknownArgumentType]
        if kind is ConstantOp:
            placed.add(id(op))
            order.append(op)
        elif op.regions:
            demand(op._operands)
            for region in op.regions:
                for inner in region.blocks:
                    demand(_order(inner, len(region.blocks) == 1))
            order.append(op)
        elif (not single or not (pure(kind) or MOVABLE in op.attributes)) and id(op) not in placed:
            op.attributes.pop(MOVABLE, None)
            placed.add(id(op))
            demand(op._operands)
            order.append(op)
        op = op._next_op
    relink(block, order)
    return outside


__all__ = ["schedule"]
