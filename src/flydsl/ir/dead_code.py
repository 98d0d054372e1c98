"""Which ops are pure, and which of them nobody needs. Ops are marked, not erased: the next walk skips them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Block, Operation
from xdsl.traits import IsTerminator, Pure

from .emitter import blocks_in

PURE_CALL = "fly.pure"
"""Attribute of a `func.call` whose result depends on its operands alone."""

# xDSL gives these no trait, though they have no effect. (A division by zero may be dropped or shared, only not moved.)
_KNOWN_PURE: set[str] = set(
    """
    arith.extsi arith.divui arith.divsi arith.ceildivui arith.remui
    vector.bitcast vector.create_mask vector.reduction vector.shuffle
    llvm.add llvm.sub llvm.mul llvm.sdiv llvm.udiv llvm.srem llvm.urem llvm.and llvm.or llvm.xor llvm.shl llvm.lshr
    llvm.ashr llvm.icmp llvm.trunc llvm.sext llvm.zext llvm.fpext llvm.fptrunc llvm.sitofp llvm.bitcast llvm.ptrtoint
    llvm.inttoptr llvm.getelementptr llvm.mlir.constant llvm.mlir.undef llvm.mlir.zero llvm.mlir.addressof
    llvm.insertelement llvm.shufflevector llvm.intr.fabs builtin.unrealized_conversion_cast
    """.split()
)

_UNREAD = ("gpu.shuffle", "gpu.ballot", "gpu.vote", "gpu.subgroup_broadcast")
"""Ops that must not be shared or moved, since lanes meet there, but that nobody misses whose results are unread."""

_pure: dict[type[Operation], bool] = {}
_dropped: dict[type[Operation], bool] = {}


def is_pure(cls: type[Operation]) -> bool:
    """Whether ops of a class can be dropped or shared; filled from traits once per class."""
    known = _pure.get(cls)
    if known is None:
        known = _pure[cls] = cls.name in _KNOWN_PURE or (
            cls.has_trait(Pure())
            and not cls.has_trait(IsTerminator)
            # Instructions are where they were put, whether they are ops of the dialect or calls of intrinsics.
            and not cls.name.startswith("rocdl.")
        )
    return known


def can_drop(cls: type[Operation]) -> bool:
    """Whether ops of a class can be left out where nothing reads their results."""
    known = _dropped.get(cls)
    if known is None:
        known = _dropped[cls] = is_pure(cls) or cls.name in _UNREAD
    return known


def unread_stores(function: Operation) -> set[int]:
    """Ids of the stores to stack memory of a function that nothing reads: its address is only stored through."""
    found: set[int] = set()
    body = function.regions[0]
    op: Any = body.blocks[0].first_op if body.blocks else None
    while op is not None:
        if op.name == "llvm.alloca":
            stores = _only_stores(op.results[0])
            if stores is not None:
                found.update(stores)
        op = op._next_op
    return found


def _only_stores(address: Any) -> list[int] | None:
    """Ids of the users of an address and of what is computed from it, if all of them store there."""
    stores: list[int] = []
    todo = [address]
    while todo:
        use = todo.pop().first_use
        while use is not None:
            user = use._operation
            if user.name == "llvm.store" and use._index == 1:
                stores.append(id(user))
            elif user.name == "llvm.getelementptr":
                todo.append(user.results[0])
            else:
                return None
            use = use._next_use
    return stores


def is_used(result: Any, dead: set[int]) -> bool:
    """Whether an op that is not dead reads a value."""
    use = result.first_use
    while use is not None and id(use._operation) in dead:
        use = use._next_use
    return use is not None


def mark_dead(
    root: Operation, released: Callable[[Operation], bool] | None = None, dead: set[int] | None = None
) -> set[int]:
    """Ids of the pure ops no live op uses, added to `dead`, ops that are known to be.

    An op that is `released` does not count as a user of its operands.
    """
    dead = set() if dead is None else dead
    gone: set[int] = set()
    """Released ops: alive, but no user of anything."""

    for region in root.regions:
        for block in reversed(blocks_in(region)):
            _mark_dead_in(block, released, dead, gone)
    return dead


def _mark_dead_in(block: Block, released: Callable[[Operation], bool] | None, dead: set[int], gone: set[int]) -> None:
    op: Any = block.last_op
    while op is not None:
        for region in op.regions:
            for inner in reversed(blocks_in(region)):
                _mark_dead_in(inner, released, dead, gone)
        if not op.regions and can_drop(type(op)):  # pyright: ignore[reportUnknownArgumentType]
            for result in op.results:
                use = result.first_use
                while use is not None and (id(use._operation) in dead or id(use._operation) in gone):
                    use = use._next_use
                if use is not None:
                    break
            else:
                dead.add(id(op))
        if released is not None and id(op) not in dead and released(op):
            gone.add(id(op))
        op = op._prev_op
