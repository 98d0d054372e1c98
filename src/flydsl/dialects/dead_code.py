"""Which ops are pure, and which of them nobody needs. Ops are marked, not erased: the next walk skips them."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith, llvm, vector
from xdsl.ir import Block, Operation
from xdsl.traits import IsTerminator, Pure

# xDSL gives these no trait, though they have no effect.
_KNOWN_PURE = {arith.ExtSIOp, vector.ReductionOp, vector.BitcastOp, llvm.GEPOp}

_pure: dict[type[Operation], bool] = {}


def is_pure(cls: type[Operation]) -> bool:
    """Whether ops of a class can be dropped or shared; filled from traits once per class."""
    known = _pure.get(cls)
    if known is None:
        known = _pure[cls] = cls in _KNOWN_PURE or (cls.has_trait(Pure()) and not cls.has_trait(IsTerminator))
    return known


def mark_dead(root: Operation) -> set[int]:
    """Ids of the pure ops no live op uses."""
    dead: set[int] = set()

    def visit(block: Block) -> None:
        op: Any = block.last_op
        while op is not None:
            for region in op.regions:
                for inner in reversed(region.blocks):
                    visit(inner)
            if not op.regions and is_pure(type(op)):  # pyright: ignore[reportUnknownArgumentType]
                for result in op.results:
                    use = result.first_use
                    while use is not None and id(use._operation) in dead:
                        use = use._next_use
                    if use is not None:
                        break
                else:
                    dead.add(id(op))
            op = op._prev_op

    for region in root.regions:
        for block in reversed(region.blocks):
            visit(block)
    return dead
