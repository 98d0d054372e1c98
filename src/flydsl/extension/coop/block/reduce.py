"""Reductions over the threads of a block: warps by shuffles, then warps among each other in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, cast

from ....errors import DSLTypeError
from ....expr.atomics import atomic_add
from ....expr.control.control_flow import if_
from ....expr.gpu import barrier
from ....expr.numeric import Int32
from ....expr.tensors.storage import Array
from .. import warp as warp_functions
from .combining import Operator, fold_warp, operator_of
from .elements import Item, select
from .spec import BlockMeta, Collective, array, record, store_if

if TYPE_CHECKING:
    from ....expr.annotations import IntLike, ValueLike
    from ....expr.numeric import Boolean
    from ....expr.structs import StructValue
    from ....ir.enums import ReductionOp

    Live = Callable[[Int32], Boolean] | None


class BlockReduceAlgorithm(Enum):
    """How a block reduces.

    >>> raking = fx.coop.BlockReduceAlgorithm.RAKING
    >>> flyc.evaluate(lambda: fx.coop.BlockReduce[fx.Int32, 64, raking].SharedStorage, threads=64)[0]
    Struct[slots: Array[Int32, 64], result: Array[Int32, 1]]
    """

    RAKING = "raking"
    """One slot per thread; each lane of a warp folds a run of neighbours."""
    RAKING_COMMUTATIVE_ONLY = "raking_commutative_only"
    """One slot per thread; each lane folds every warp's slot of that lane. The operator must be commutative."""
    WARP_REDUCTIONS = "warp_reductions"
    """Each warp by shuffles; one slot of shared memory per warp. The default."""
    WARP_REDUCTIONS_NONDETERMINISTIC = "warp_reductions_nondeterministic"
    """The same, with slots in the order in which warps arrive. The operator must be commutative."""


_COMMUTATIVE = (BlockReduceAlgorithm.RAKING_COMMUTATIVE_ONLY, BlockReduceAlgorithm.WARP_REDUCTIONS_NONDETERMINISTIC)


def _warp_slots(cls: BlockMeta) -> type[StructValue]:
    return record(slots=Array[cls.dtype, cls.num_warps])


def _ticket_slots(cls: BlockMeta) -> type[StructValue]:
    return record(slots=Array[cls.dtype, cls.num_warps], tickets=Array[Int32, 1])


def _thread_slots(cls: BlockMeta) -> type[StructValue]:
    return record(slots=Array[cls.dtype, cls.block_threads], result=Array[cls.dtype, 1])


class BlockReduce(Collective):
    """All items of a block combined, in all its threads.

    `R = fx.coop.BlockReduce[fx.Float32, 256]`, `s = fx.SharedAllocator().allocate(R.SharedStorage).peek()`,
    `total = R(x, fx.ReductionOp.ADD, storage=s)`. Every thread must call; a barrier belongs between two calls that use
    one storage. A thread brings one item or several, which come before those of the next thread. The operator is a
    `ReductionOp` or an associative function of two items.

    >>> def total():
    ...     R = fx.coop.BlockReduce[fx.Int32, 64]
    ...     scratch = fx.SharedAllocator().allocate(R.SharedStorage).peek()
    ...     return R(fx.thread_idx.x, fx.ReductionOp.ADD, storage=scratch)
    >>> set(flyc.evaluate(total, threads=64))
    {2016}
    """

    algorithms = {
        BlockReduceAlgorithm.WARP_REDUCTIONS: _warp_slots,
        BlockReduceAlgorithm.WARP_REDUCTIONS_NONDETERMINISTIC: _ticket_slots,
        BlockReduceAlgorithm.RAKING: _thread_slots,
        BlockReduceAlgorithm.RAKING_COMMUTATIVE_ONLY: _thread_slots,
    }
    warp_ops = warp_functions

    @classmethod
    def run(
        cls,
        value: ValueLike | object,
        op: ReductionOp | Callable[..., object],
        *,
        storage: object,
        valid_items: IntLike | None = None,
        identity: object = None,
    ) -> Item:
        """The reduction. `valid_items` threads, the first ones, have an item; of no items it is the identity."""
        operator = operator_of(cls.__name__, cls.dtype, op, identity)
        if cls.algorithm in _COMMUTATIVE and not operator.commutative:
            raise DSLTypeError(
                f"{cls.__name__}: {cls.algorithm.name} combines in any order; a function says that it allows this with "
                "an attribute commutative = True"
            )
        held = cls.start(storage)
        items, form = cls.split(value, widen=True)
        mine, rank = operator.fold(items), cls.thread_rank()
        live: Live = None
        if valid_items is not None:
            if form.count > 1:
                raise DSLTypeError(f"{cls.__name__}: valid_items counts threads that bring one item, not {form.count}")
            valid = cls.count_up_to("valid_items", valid_items, cls.block_threads)
            neutral = operator.identity
            if neutral is None:
                live = lambda position: position < valid  # noqa: E731
            else:
                mine = select(rank < valid, mine, neutral)
        if cls.algorithm in (BlockReduceAlgorithm.RAKING, BlockReduceAlgorithm.RAKING_COMMUTATIVE_ONLY):
            return cls.rake(mine, operator, rank, array(held, "slots"), live)
        return cls.by_warps(mine, operator, rank, held, live)

    @classmethod
    def by_warps(cls, mine: Item, op: Operator, rank: Int32, held: StructValue, live: Live) -> Item:
        """Each warp by shuffles, then one slot per warp."""
        lanes, slots = cls.warp_threads, array(held, "slots")
        lane, warp = rank % lanes, rank // lanes
        first = rank - lane
        mine = fold_warp(mine, op, lanes, lane, None if live is None else (lambda at: live(first + at)))
        if cls.num_warps == 1:
            return mine
        if cls.algorithm is BlockReduceAlgorithm.WARP_REDUCTIONS_NONDETERMINISTIC and live is None:
            cls.take_ticket(mine, rank, slots, array(held, "tickets"))
        else:
            store_if(lane == 0, slots, warp, mine)
        barrier()
        total = cast("Item", slots[0])
        for w in range(1, cls.num_warps):
            made = op(total, cast("Item", slots[w]))
            total = made if live is None else select(live(Int32(w * lanes)), made, total)
        return total

    @classmethod
    def take_ticket(cls, mine: Item, rank: Int32, slots: Array, tickets: Array) -> None:
        """The first lane of a warp writes the slot that is next."""
        store_if(rank == 0, tickets, Int32(0), Int32(0))
        barrier()

        def write() -> None:
            slots[Int32(atomic_add(tickets.ptr, Int32(1)))] = mine

        if_(rank % cls.warp_threads == 0, write, None, ())

    @classmethod
    def rake(cls, mine: Item, op: Operator, rank: Int32, slots: Array, live: Live) -> Item:
        """One slot per thread; every warp folds all of them, each lane some."""
        lanes = cls.warp_threads
        slots[rank] = mine
        barrier()
        run, lane = cls.block_threads // lanes, rank % lanes
        strided = cls.algorithm is BlockReduceAlgorithm.RAKING_COMMUTATIVE_ONLY
        places = [lane + i * lanes if strided else lane * run + i for i in range(run)]
        total = cast("Item", slots[places[0]])
        for place in places[1:]:
            made = op(total, cast("Item", slots[place]))
            total = made if live is None else select(live(place), made, total)
        per_lane = 1 if strided else run
        return fold_warp(total, op, lanes, lane, None if live is None else (lambda at: live(at * per_lane)))
