"""Reductions over the threads of a block: warps by shuffles, then warps among each other in shared memory."""

from __future__ import annotations

import functools
from enum import Enum
from typing import TYPE_CHECKING

from ....expr.gpu import barrier
from ....expr.structs import Struct
from ....expr.tensors.storage import Array
from ..operators import combine
from ..warp import warp_reduce
from .spec import BlockMeta, store_if, warp_slots

if TYPE_CHECKING:
    from ....expr.annotations import ValueLike
    from ....expr.numeric import Numeric
    from ....ir.enums import ReductionOp


class BlockReduceAlgorithm(Enum):
    """How a block reduces.

    >>> raking = fx.coop.BlockReduceAlgorithm.RAKING
    >>> flyc.evaluate(lambda: fx.coop.BlockReduce[fx.Int32, 64, raking].SharedStorage, threads=64)[0]
    Struct[slots: Array[Int32, 64], result: Array[Int32, 1]]
    """

    WARP_REDUCTIONS = "warp_reductions"
    """Each warp by shuffles; one slot of shared memory per warp."""
    RAKING = "raking"
    """One slot per thread; each lane of a warp folds a run of them."""
    RAKING_COMMUTATIVE_ONLY = "raking_commutative_only"


def thread_slots(cls: BlockMeta) -> type[Struct]:
    return Struct["slots" : Array[cls.dtype, cls.block_threads], "result" : Array[cls.dtype, 1]]


class BlockReduce(metaclass=BlockMeta):
    """All values of a block combined, in all its threads.

    `R = fx.coop.BlockReduce[fx.Float32, 256]`, `s = fx.SharedAllocator().allocate(R.SharedStorage).peek()`,
    `total = R(x, fx.ReductionOp.ADD, storage=s)`. Every thread must call; a barrier belongs between two calls that use
    one storage.

    >>> def total():
    ...     R = fx.coop.BlockReduce[fx.Int32, 64]
    ...     scratch = fx.SharedAllocator().allocate(R.SharedStorage).peek()
    ...     return R(fx.thread_idx.x, fx.ReductionOp.ADD, storage=scratch)
    >>> set(flyc.evaluate(total, threads=64))
    {2016}
    """

    dtype = block_size = algorithm = None
    algorithms = {BlockReduceAlgorithm.WARP_REDUCTIONS: warp_slots, BlockReduceAlgorithm.RAKING: thread_slots}

    @classmethod
    def run(cls, value: ValueLike, op: ReductionOp, *, storage: object) -> Numeric:
        """The reduction; a Vector is folded in its thread first."""
        held = cls.start(op, storage)
        mine = functools.reduce(functools.partial(combine, op), cls.items(value))
        if cls.algorithm is BlockReduceAlgorithm.RAKING:
            return cls.rake(mine, op, held.slots)
        mine = warp_reduce(mine, op, width=cls.width())
        if cls.num_warps == 1:
            return mine
        rank = cls.rank()
        store_if(rank % cls.warp_threads == 0, held.slots, rank // cls.warp_threads, mine)
        barrier()
        return functools.reduce(functools.partial(combine, op), [held.slots[w] for w in range(cls.num_warps)])

    @classmethod
    def rake(cls, mine: Numeric, op: ReductionOp, slots: Array) -> Numeric:
        """One slot per thread; every warp folds all of them, each lane a run of neighbours."""
        rank, lanes = cls.rank(), cls.width()
        slots[rank] = mine
        barrier()
        run = cls.block_threads // lanes
        first = rank % lanes * run
        folded = functools.reduce(functools.partial(combine, op), [slots[first + i] for i in range(run)])
        return warp_reduce(folded, op, width=lanes)
