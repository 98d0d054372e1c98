"""Scans over the threads of a block: warps by shuffles, then warps among each other in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, cast

from ....errors import DSLTypeError, DSLValueError
from ....expr.control.control_flow import if_
from ....expr.gpu import barrier
from ....expr.numeric import Int32
from ....expr.tensors.storage import Array
from ....ir.enums import ReductionOp
from .. import warp as warp_functions
from .combining import Operator, operator_of, scan_warp
from .elements import Item, Items, as_item, select, widened
from .spec import BlockMeta, Collective, array, record, store_if

if TYPE_CHECKING:
    from ....expr.annotations import IntLike, ValueLike
    from ....expr.structs import StructValue

    Op = ReductionOp | Callable[..., object]
    Callback = Callable[..., object] | None


class BlockScanAlgorithm(Enum):
    """How a block scans.

    >>> fx.coop.BlockScanAlgorithm.WARP_SCANS.value
    'warp_scans'
    """

    RAKING = "raking"
    """One slot per thread; each lane of the first warp scans a run of them, which it reads twice."""
    RAKING_MEMOIZE = "raking_memoize"
    """The same, with the run kept in registers."""
    WARP_SCANS = "warp_scans"
    """Each warp by shuffles; one slot of shared memory per warp. The default."""


def _warp_slots(cls: BlockMeta) -> type[StructValue]:
    return record(slots=Array[cls.dtype, cls.num_warps], seed=Array[cls.dtype, 1])


def _thread_slots(cls: BlockMeta) -> type[StructValue]:
    return record(slots=Array[cls.dtype, cls.block_threads], seed=Array[cls.dtype, 2])


class BlockScan(Collective):
    """The items of a block combined up to each of them.

    `S = fx.coop.BlockScan[fx.Int32, 128]`, `y = S.inclusive(x, fx.ReductionOp.ADD, storage=s)`. A thread brings one
    item, or n neighbouring ones: thread t holds items t*n up to t*n+n-1. The operator is a `ReductionOp` or an
    associative function of two items. `init` stands before all items; `prefix_callback` gets all items combined and
    gives that instead, in the first warp, where the first lane's answer counts. `valid_items` threads, the first ones,
    have an item; then there must be an identity.

    >>> def running():
    ...     S = fx.coop.BlockScan[fx.Int32, 64]
    ...     scratch = fx.SharedAllocator().allocate(S.SharedStorage).peek()
    ...     return S.inclusive(fx.thread_idx.x, fx.ReductionOp.ADD, storage=scratch)
    >>> flyc.evaluate(running, threads=64)[:6]
    [0, 1, 3, 6, 10, 15]
    """

    algorithms = {
        BlockScanAlgorithm.WARP_SCANS: _warp_slots,
        BlockScanAlgorithm.RAKING: _thread_slots,
        BlockScanAlgorithm.RAKING_MEMOIZE: _thread_slots,
    }
    warp_ops = warp_functions

    @classmethod
    def inclusive(
        cls, value: ValueLike | object, op: Op, *, storage: object, init: object = None, identity: object = None,
        valid_items: IntLike | None = None, prefix_callback: Callback = None,
    ) -> Items:  # fmt: skip
        """Items up to this one."""
        return cls.scan(value, op, storage, init, identity, valid_items, prefix_callback, True)[0]

    @classmethod
    def exclusive(
        cls, value: ValueLike | object, op: Op, *, storage: object, init: object = None, identity: object = None,
        valid_items: IntLike | None = None, prefix_callback: Callback = None,
    ) -> Items:  # fmt: skip
        """Items before this one; the first gets `init` or the identity, and anything where there is neither."""
        return cls.scan(value, op, storage, init, identity, valid_items, prefix_callback, False)[0]

    @classmethod
    def inclusive_with_aggregate(
        cls, value: ValueLike | object, op: Op, *, storage: object, init: object = None, identity: object = None,
        valid_items: IntLike | None = None, prefix_callback: Callback = None,
    ) -> tuple[Items, Item]:  # fmt: skip
        """The inclusive scan, and all items combined without what stands before them."""
        return cls.scan(value, op, storage, init, identity, valid_items, prefix_callback, True)

    @classmethod
    def exclusive_with_aggregate(
        cls, value: ValueLike | object, op: Op, *, storage: object, init: object = None, identity: object = None,
        valid_items: IntLike | None = None, prefix_callback: Callback = None,
    ) -> tuple[Items, Item]:  # fmt: skip
        """The exclusive scan, and all items combined without what stands before them."""
        return cls.scan(value, op, storage, init, identity, valid_items, prefix_callback, False)

    @classmethod
    def scan(
        cls, value: object, op: object, storage: object, init: object, neutral: object, valid_items: object,
        callback: Callback, inclusive: bool,
    ) -> tuple[Items, Item]:  # fmt: skip
        """Both results of every form."""
        cls.check_specialized()
        operator = operator_of(cls.__name__, cls.dtype, op, neutral)
        if init is not None and callback is not None:
            raise DSLValueError(f"{cls.__name__}: init and prefix_callback both say what stands before the items")
        held = cls.start(storage)
        items, form = cls.split(value, widen=True)
        rank = cls.thread_rank()
        if valid_items is not None:
            items = [cls.masked(items, operator, rank, valid_items)]
        local: list[Item] = []
        for item in items:
            local.append(operator(local[-1], item) if local else item)
        scan_threads = cls.by_warps if cls.algorithm is BlockScanAlgorithm.WARP_SCANS else cls.rake
        before, total = scan_threads(local[-1], operator, rank, held)
        seed = None if init is None else widened(cls.__name__, cls.dtype, init)
        if callback is not None:
            seed = cls.called_back(callback, total, rank, array(held, "seed"))
        return form.join(cls.finished(local, before, seed, operator, rank, inclusive)), total

    @classmethod
    def masked(cls, items: list[Item], op: Operator, rank: Int32, valid_items: object) -> Item:
        """The item of a thread, or the identity where it has none."""
        if len(items) > 1:
            raise DSLTypeError(f"{cls.__name__}: valid_items counts threads that bring one item, not {len(items)}")
        nothing = op.identity
        if nothing is None:
            raise DSLTypeError(f"{cls.__name__}: valid_items needs to know what changes nothing: pass identity=")
        return select(rank < cls.count_up_to("valid_items", valid_items, cls.block_threads), items[0], nothing)

    @classmethod
    def finished(
        cls, local: list[Item], before: Item, seed: Item | None, op: Operator, rank: Int32, inclusive: bool
    ) -> list[Item]:
        """The items of a thread, from its own scan and what comes before it, which says nothing in the first thread."""
        start = op.identity if seed is None else seed
        known = isinstance(op.op, ReductionOp) and op.identity is not None
        if known:  # then what comes before the first thread is the identity
            before = before if seed is None else op(seed, before)
        elif start is not None:
            before = select(rank == 0, start, before if seed is None else op(seed, before))
        combined = [op(before, item) for item in (local if inclusive else local[:-1])]
        if not known and seed is None:
            combined = [select(rank == 0, item, made) for item, made in zip(local, combined, strict=False)]
        return combined if inclusive else [before, *combined]

    @classmethod
    def by_warps(cls, mine: Item, op: Operator, rank: Int32, held: StructValue) -> tuple[Item, Item]:
        """What comes before a thread, and everything: warps by shuffles, then one slot per warp."""
        lanes, slots = cls.warp_threads, array(held, "slots")
        lane, warp = rank % lanes, rank // lanes
        before, total = scan_warp(mine, op, lanes, lane)
        if cls.num_warps == 1:
            return before, total
        store_if(lane == 0, slots, warp, total)
        barrier()
        everything = cast("Item", slots[0])
        known = isinstance(op.op, ReductionOp) and op.identity is not None
        prefix = op.identity if known else everything
        assert prefix is not None
        for w in range(1, cls.num_warps):
            prefix = select(warp >= w, everything, prefix)
            everything = op(everything, cast("Item", slots[w]))
        if known:
            return op(prefix, before), everything
        # The first lane of a warp has none of its own warp before it, the first warp none of others.
        joined = select(lane == 0, prefix, op(prefix, before))
        return select(warp == 0, before, joined), everything

    @classmethod
    def rake(cls, mine: Item, op: Operator, rank: Int32, held: StructValue) -> tuple[Item, Item]:
        """The same with one slot per thread: lanes of the first warp scan a run each and write what comes before."""
        lanes, slots, seed = cls.warp_threads, array(held, "slots"), array(held, "seed")
        run = cls.block_threads // lanes
        slots[rank] = mine
        barrier()

        def raking() -> None:
            places = [rank * run + i for i in range(run)]
            kept = [cast("Item", slots[place]) for place in places]
            before, total = scan_warp(op.fold(kept), op, lanes, rank)
            if cls.algorithm is BlockScanAlgorithm.RAKING:
                kept = [cast("Item", slots[place]) for place in places]
            known = isinstance(op.op, ReductionOp) and op.identity is not None
            for i, place in enumerate(places):
                slots[place] = before
                if i + 1 < run:
                    joined = op(before, kept[i])
                    before = joined if known or i else select(rank == 0, kept[i], joined)
            store_if(rank == 0, seed, Int32(1), total)

        if_(rank < lanes, raking, None, ())
        barrier()
        return cast("Item", slots[rank]), cast("Item", seed[1])

    @classmethod
    def called_back(cls, callback: Callable[..., object], total: Item, rank: Int32, seed: Array) -> Item:
        """What a callback says comes before all items, from the first lane to all threads."""

        def call() -> None:
            answer = as_item(cls.__name__, cls.dtype, callback(total))
            store_if(rank == 0, seed, Int32(0), answer)

        if_(rank < cls.warp_threads, call, None, ())
        barrier()
        return cast("Item", seed[0])
