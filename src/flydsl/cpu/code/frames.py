"""Which values of a coroutine should be kept in its frame.

LLVM computes what is cheap again after a suspension instead of keeping it, and takes whole chains of float operations
for cheap. Values named here are frozen where they are defined, which ends such a chain.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from xdsl.dialects import ub
from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Block, Operation, SSAValue

from ...dialects.upstream import llvm, scf
from ...ir import arith
from ...ir.builder import elem_of


def kept_values(function: Operation, sync_ops: tuple[type[Operation], ...]) -> set[SSAValue]:
    """Float values defined before a synchronization point and used after it."""
    position: dict[Operation, int] = {}
    last: dict[Operation, int] = {}
    suspensions: list[int] = []

    def number(block: Block) -> None:
        for op in block.ops:
            position[op] = len(position)
            if isinstance(op, sync_ops):
                suspensions.append(position[op])
            for region in op.regions:
                for inner in region.blocks:
                    number(inner)
            last[op] = len(position) - 1

    for region in function.regions:
        for block in region.blocks:
            number(block)

    def used_until(value: SSAValue, home: Block) -> int:
        end = -1
        use: Any = value.first_use
        while use is not None:
            op: Operation | None = use.operation
            at = position[use.operation]
            while op is not None and op.parent_block() is not home:
                op = op.parent_op()
                # A loop around the use, but not around the definition, comes by again.
                if isinstance(op, scf.ForOp | scf.WhileOp) and op.parent_block() is not None:
                    at = max(at, last[op])
            end = max(end, at)
            use = use._next_use
        return end

    kept: set[SSAValue] = set()
    for op, at in position.items():
        home = op.parent_block()
        if home is None or isinstance(op, llvm.LoadOp | arith.ConstantOp | ub.PoisonOp) or op.regions:
            continue
        for value in op.results:
            if isinstance(elem_of(value.type), IntegerType | IndexType | llvm.LLVMPointerType):
                continue
            end = used_until(value, home)
            i = bisect_right(suspensions, at)
            if i < len(suspensions) and suspensions[i] <= end:
                kept.add(value)
    return kept
