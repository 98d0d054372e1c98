"""Items moved to the threads before and after: through one slot per thread for its first and its last item."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, cast

from ....errors import DSLTypeError
from ....expr.control.control_flow import is_runtime
from ....expr.gpu import barrier
from ....expr.numeric import Int32, as_numeric
from ....expr.tensors.storage import Array
from .elements import Item, Items, as_item, filled, select
from .spec import BlockMeta, Collective, array, least, most, record

if TYPE_CHECKING:
    from ....expr.annotations import IntLike, ValueLike
    from ....expr.structs import StructValue


class BlockShuffleAlgorithm(Enum):
    """How items reach the neighbours.

    >>> fx.coop.BlockShuffleAlgorithm.SHARED_MEMORY.value
    'shared_memory'
    """

    SHARED_MEMORY = "shared_memory"
    """Through shared memory."""


def _ends(cls: BlockMeta) -> type[StructValue]:
    slots = Array[cls.dtype, cls.block_threads]
    return record(first=slots, last=slots)


class BlockShuffle(Collective):
    """Items from threads before or after: `S = fx.coop.BlockShuffle[fx.Int32, 128]`.

    `offset` and `rotate` move one item per thread by any distance, `up` and `down` shift the sequence of all items, n
    in each thread, by one. Every thread must call; a barrier belongs between two calls that use one storage.

    >>> def shifted():
    ...     S = fx.coop.BlockShuffle[fx.Int32, 8]
    ...     scratch = fx.SharedAllocator().allocate(S.SharedStorage).peek()
    ...     return S.rotate(fx.thread_idx.x, 3, storage=scratch)
    >>> flyc.evaluate(shifted, threads=8)
    [3, 4, 5, 6, 7, 0, 1, 2]
    """

    algorithms = {BlockShuffleAlgorithm.SHARED_MEMORY: _ends}

    @classmethod
    def offset(cls, value: ValueLike | object, distance: IntLike = 1, *, storage: object, fill: object = None) -> Items:
        """The item of the thread `distance` further; outside the block `fill`, or the thread's own."""
        slots, mine, rank = cls._published(value, storage)
        source = rank + Int32(as_numeric(distance))
        found = cast("Item", slots[most(least(source, cls.block_threads - 1), 0)])
        nothing = mine if fill is None else filled(cls.__name__, cls.dtype, fill)
        return select((source >= 0) & (source < cls.block_threads), found, nothing)

    @classmethod
    def rotate(cls, value: ValueLike | object, distance: IntLike = 1, *, storage: object) -> Items:
        """The item of the thread `distance` further, around the end of the block."""
        slots, _, rank = cls._published(value, storage)
        by = as_numeric(distance)
        if not is_runtime(by):
            by = int(cast("int", by.value)) % cls.block_threads
        else:
            left = Int32(by) % cls.block_threads
            by = (left < 0).select(left + cls.block_threads, left)
        source = rank + by
        return cast("Item", slots[(source < cls.block_threads).select(source, source - cls.block_threads)])

    @classmethod
    def _published(cls, value: object, storage: object) -> tuple[Array, Item, Int32]:
        """One item per thread, in shared memory."""
        held = cls.start(storage)
        items, form = cls.split(value)
        if not form.single:
            raise DSLTypeError(f"{cls.__name__} moves one item per thread this way; up and down take several")
        slots, rank = array(held, "first"), cls.thread_rank()
        slots[rank] = items[0]
        barrier()
        return slots, items[0], rank

    @classmethod
    def up(
        cls, value: ValueLike | object, *, storage: object, predecessor: object = None, return_suffix: bool = False
    ) -> Items | tuple[Items, Item]:
        """Each item from the place before; the first one is `predecessor`, or stays. With the last item if asked."""
        items, form = cls.split(value)
        before, _, last = cls.neighbours(items, storage)
        start = items[0] if predecessor is None else as_item(cls.__name__, cls.dtype, predecessor)
        made = form.join([select(cls.thread_rank() == 0, start, before), *items[:-1]])
        return (made, cast("Item", last[cls.block_threads - 1])) if return_suffix else made

    @classmethod
    def down(
        cls, value: ValueLike | object, *, storage: object, successor: object = None, return_prefix: bool = False
    ) -> Items | tuple[Items, Item]:
        """Each item from the place after; the last one is `successor`, or stays. With the first item if asked."""
        items, form = cls.split(value)
        _, after, _ = cls.neighbours(items, storage)
        end = items[-1] if successor is None else as_item(cls.__name__, cls.dtype, successor)
        made = form.join([*items[1:], select(cls.thread_rank() == cls.block_threads - 1, end, after)])
        return (made, cast("Item", array(cls.start(storage), "first")[0])) if return_prefix else made

    @classmethod
    def neighbours(cls, items: Sequence[Item], storage: object) -> tuple[Item, Item, Array]:
        """The last item of the thread before and the first of the one after, and the last items of all threads.

        Around the ends of the block: the first thread has the last one before it.
        """
        held, rank, threads = cls.start(storage), cls.thread_rank(), cls.block_threads
        first, last = array(held, "first"), array(held, "last")
        first[rank], last[rank] = items[0], items[-1]
        barrier()
        before = (rank == 0).select(Int32(threads - 1), rank - 1)
        after = (rank == threads - 1).select(Int32(0), rank + 1)
        return cast("Item", last[before]), cast("Item", first[after]), last
