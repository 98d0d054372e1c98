"""Scans over the threads of a block: warps by shuffles, then warps among each other in shared memory."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ....errors import DSLTypeError
from ....expr.gpu import barrier
from ....expr.vector import Vector
from ..operators import combine, identity
from ..warp import warp_scan_with_aggregate
from .spec import BlockMeta, store_if, warp_slots

if TYPE_CHECKING:
    from ....expr.annotations import ScalarLike, Value, ValueLike
    from ....expr.numeric import Numeric
    from ....expr.tensors.storage import Array
    from ....ir.enums import ReductionOp


class BlockScanAlgorithm(Enum):
    """How a block scans.

    >>> fx.coop.BlockScanAlgorithm.WARP_SCANS.value
    'warp_scans'
    """

    WARP_SCANS = "warp_scans"
    """Each warp by shuffles; one slot of shared memory per warp."""
    RAKING = "raking"
    RAKING_MEMOIZE = "raking_memoize"


class BlockScan(metaclass=BlockMeta):
    """The values of a block combined up to each thread, or up to each item when threads bring Vectors.

    `S = fx.coop.BlockScan[fx.Int32, 128]`, `y = S.inclusive(x, fx.ReductionOp.ADD, storage=s)`. A Vector of n lanes
    stands for n neighbouring items: thread t holds items t*n up to t*n+n-1.

    >>> def running():
    ...     S = fx.coop.BlockScan[fx.Int32, 64]
    ...     scratch = fx.SharedAllocator().allocate(S.SharedStorage).peek()
    ...     return S.inclusive(fx.thread_idx.x, fx.ReductionOp.ADD, storage=scratch)
    >>> flyc.evaluate(running, threads=64)[:6]
    [0, 1, 3, 6, 10, 15]
    """

    dtype = block_size = algorithm = None
    algorithms = {BlockScanAlgorithm.WARP_SCANS: warp_slots}

    @classmethod
    def inclusive(cls, value: ValueLike, op: ReductionOp, *, storage: object, init: ScalarLike | None = None) -> Value:
        """Items up to this one."""
        return cls.scan(value, op, storage, init, True)[0]

    @classmethod
    def exclusive(cls, value: ValueLike, op: ReductionOp, *, storage: object, init: ScalarLike | None = None) -> Value:
        """Items before this one; the first gets `init` or the identity."""
        return cls.scan(value, op, storage, init, False)[0]

    @classmethod
    def inclusive_with_aggregate(
        cls, value: ValueLike, op: ReductionOp, *, storage: object, init: ScalarLike | None = None
    ) -> tuple[Value, Numeric]:
        """The inclusive scan, and all items combined without `init`."""
        return cls.scan(value, op, storage, init, True)

    @classmethod
    def exclusive_with_aggregate(
        cls, value: ValueLike, op: ReductionOp, *, storage: object, init: ScalarLike | None = None
    ) -> tuple[Value, Numeric]:
        """The exclusive scan, and all items combined without `init`."""
        return cls.scan(value, op, storage, init, False)

    @classmethod
    def scan(
        cls, value: ValueLike, op: ReductionOp, storage: object, init: ScalarLike | None, inclusive: bool
    ) -> tuple[Value, Numeric]:
        """Both results of every form."""
        if cls.dtype is None:
            raise DSLTypeError(f"{cls.__name__} has no element class and block size: specialize first")
        held = cls.start(op, storage)
        local: list[Numeric] = []
        for item in cls.items(value):
            local.append(combine(op, local[-1], item) if local else item)
        _, before, total = warp_scan_with_aggregate(local[-1], op, width=cls.width())
        if cls.num_warps > 1:
            before, total = cls.across_warps(before, total, op, held.slots)
        if init is not None:
            before = combine(op, cls.dtype(init), before)
        if inclusive:
            items = [combine(op, before, item) for item in local]
        else:
            items = [before, *(combine(op, before, item) for item in local[:-1])]
        if isinstance(value, Vector):
            return Vector.from_elements(items, cls.dtype).reshape(value.shape), total
        return items[0], total

    @classmethod
    def across_warps(cls, before: Numeric, total: Numeric, op: ReductionOp, slots: Array) -> tuple[Numeric, Numeric]:
        """What comes before a thread in the whole block, and the block's total."""
        rank = cls.rank()
        warp = rank // cls.warp_threads
        store_if(rank % cls.warp_threads == 0, slots, warp, total)
        barrier()
        prefix, everything = identity(op, cls.dtype), slots[0]
        for w in range(1, cls.num_warps):
            prefix = (warp >= w).select(everything, prefix)
            everything = combine(op, everything, slots[w])
        return combine(op, prefix, before), everything
