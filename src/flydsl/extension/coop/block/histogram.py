"""How often each bin occurs among the items of a block, counted in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, cast

from ....errors import DSLTypeError
from ....expr.atomics import atomic_add
from ....expr.control.control_flow import if_
from ....expr.gpu import barrier
from ....expr.numeric import Int32, Numeric
from ....expr.tensors.storage import Array
from .elements import ItemType, is_scalar_class
from .radix_sort import BlockRadixSort, BlockRadixSortAlgorithm
from .spec import BlockMeta, Collective, array, least, most, part, record, store_if

if TYPE_CHECKING:
    from ....expr.annotations import ValueLike
    from ....expr.structs import StructValue


class BlockHistogramAlgorithm(Enum):
    """How a block counts.

    >>> fx.coop.BlockHistogramAlgorithm.SORT.value
    'sort'
    """

    ATOMIC = "atomic"
    """An atomic addition for each item. The default."""
    SORT = "sort"
    """Items are sorted, one of each thread at a time, and runs of equal ones are counted."""


def _counts(cls: BlockMeta) -> type[StructValue]:
    return record(counts=Array[_counter(cls), cls.items_per_thread])


def _sorting(cls: BlockMeta) -> type[StructValue]:
    bins = cls.items_per_thread
    return record(counts=Array[_counter(cls), bins], starts=Array[Int32, bins], sort=_sort(cls).SharedStorage)


def _counter(cls: BlockMeta) -> type[Numeric]:
    return cast("type[Numeric]", Int32 if cls.value_dtype is None else cls.value_dtype)


def _sort(cls: BlockMeta) -> type[BlockRadixSort]:
    return BlockRadixSort[Int32, cls.block_size, 1, BlockRadixSortAlgorithm.RADIX_DIGIT]


class BlockHistogram(Collective):
    """Counts of bins in shared memory: `H = fx.coop.BlockHistogram[fx.Int32, 128, 16]` for 16 bins.

    `counts = H(items, storage=s)` clears the bins and counts; `init` and `composite` do one of these each. Items become
    Int32; those outside of the bins do not count. `BlockHistogram[(fx.Uint8, fx.Uint32), 128, 16]` counts in Uint32.
    Every thread must call.

    >>> def evens():
    ...     H = fx.coop.BlockHistogram[fx.Int32, 8, 2]
    ...     scratch = fx.SharedAllocator().allocate(H.SharedStorage).peek()
    ...     counts = H(fx.thread_idx.x // 5, storage=scratch)
    ...     return counts[0], counts[1]
    >>> flyc.evaluate(evens, threads=8)[0]
    (5, 3)
    """

    sized_by = "bins"
    pairs = "the counters"
    bins = cast("int", None)
    algorithms = {BlockHistogramAlgorithm.ATOMIC: _counts, BlockHistogramAlgorithm.SORT: _sorting}

    @classmethod
    def run(cls, value: ValueLike | object, *, storage: object) -> Array:
        """The counts of these items."""
        cls.init(storage=storage)
        return cls.composite(value, storage=storage)

    @classmethod
    def init(cls, *, storage: object) -> None:
        """All bins are zero."""
        counts, rank, threads = array(cls._started(storage), "counts"), cls.thread_rank(), cls.block_threads
        zero = _counter(cls)(0)
        for first in range(0, cls.bins, threads):
            if first + threads <= cls.bins:
                counts[rank + first] = zero
            else:
                store_if(rank + first < cls.bins, counts, rank + first, zero)
        barrier()

    @classmethod
    def composite(cls, value: ValueLike | object, *, storage: object) -> Array:
        """Items counted on top of what is there."""
        held = cls._started(storage)
        items, _ = cls.split(value)
        bins = [Int32(cast("Numeric", item)) for item in items]
        counts = array(held, "counts")
        if cls.algorithm is BlockHistogramAlgorithm.ATOMIC:
            cls._add(counts, bins)
        else:
            for bin_ in bins:
                cls._count_runs(held, counts, bin_)
        barrier()
        return counts

    @classmethod
    def _started(cls, storage: object) -> StructValue:
        held = cls.start(storage)
        kinds: Sequence[ItemType] = (cls.dtype, _counter(cls))
        for kind in kinds:
            if not is_scalar_class(kind):
                raise DSLTypeError(f"{cls.__name__}: items and counters are scalars, got {kind}")
        return held

    @classmethod
    def _add(cls, counts: Array, bins: Sequence[Int32]) -> None:
        one = _counter(cls)(1)
        for bin_ in bins:

            def add(bin_: Int32 = bin_) -> None:
                atomic_add(counts.ptr + bin_, one)

            if_((bin_ >= 0) & (bin_ < cls.bins), add, None, ())

    @classmethod
    def _count_runs(cls, held: StructValue, counts: Array, bin_: Int32) -> None:
        """One item of each thread: sorted, the ends of a run of equal ones tell how many they are."""
        inside = (bin_ >= 0) & (bin_ < cls.bins)
        sort, starts = _sort(cls), array(held, "starts")
        bits = cls.bins.bit_length()
        key = inside.select(bin_, Int32(cls.bins))
        key = cast("Int32", sort(key, storage=part(held, "sort"), end_bit=bits))
        line, rank, last = array(held, "sort", "keys"), cls.thread_rank(), cls.block_threads - 1
        counted = key < cls.bins
        begins = (rank == 0) | (cast("Int32", line[most(rank - 1, 0)]) != key)
        ends = (rank == last) | (cast("Int32", line[least(rank + 1, last)]) != key)
        store_if(counted & begins, starts, key, rank)
        barrier()

        def add() -> None:
            run = rank + 1 - cast("Int32", starts[key])
            counts[key] = cast("Numeric", counts[key]) + _counter(cls)(run)

        if_(counted & ends, add, None, ())
        barrier()
