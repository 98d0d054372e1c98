"""Items of a block handed to other threads through shared memory: blocked, striped, warp-striped, by rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, cast

from ....expr.control.control_flow import if_
from ....expr.gpu import barrier
from ....expr.numeric import Boolean, Int32
from ....expr.tensors.storage import Array
from .elements import Form, Item, Items, filled, numbers, select
from .spec import BlockMeta, Collective, array, least, loop, most, record

if TYPE_CHECKING:
    from ....expr.annotations import ValueLike
    from ....expr.structs import StructValue

    Places = Callable[[], list[Int32]]


class BlockExchangeAlgorithm(Enum):
    """How much of the items is in shared memory at a time.

    >>> fx.coop.BlockExchangeAlgorithm.WARP_TIME_SLICING.value
    'warp_time_slicing'
    """

    SHARED_MEMORY = "shared_memory"
    """All of them. The default."""
    WARP_TIME_SLICING = "warp_time_slicing"
    """As many as one warp holds, one warp's after the other."""


_BANKS = 32


def padding(items: int) -> int:
    """After how many slots one is left empty: threads that go in steps of a power of two meet in the same banks.

    >>> padding(8), padding(3)
    (32, 0)
    """
    return _BANKS if items > 4 and not items & (items - 1) else 0


def _padded(count: int, items: int) -> int:
    every = padding(items)
    return count + ((count - 1) // every if every else 0)


def _tile(cls: BlockMeta) -> type[StructValue]:
    return record(slots=Array[cls.dtype, _padded(cls.tile_items, cls.items_per_thread)])


def _window(cls: BlockMeta) -> type[StructValue]:
    return record(slots=Array[cls.dtype, _padded(cls.warp_threads * cls.items_per_thread, cls.items_per_thread)])


class BlockExchange(Collective):
    """Other threads get the items: `E = fx.coop.BlockExchange[fx.Int32, 128, 4]` for four items per thread.

    Blocked, thread t has the items from `4 * t`; striped, `t`, `t + 128`, ...; warp-striped, stripes of the warp within
    the items of the warp. Or each item says its place. Every thread must call; a barrier belongs between two calls that
    use one storage.

    >>> def striped():
    ...     E = fx.coop.BlockExchange[fx.Int32, 4, 2]
    ...     scratch = fx.SharedAllocator().allocate(E.SharedStorage).peek()
    ...     made = E.blocked_to_striped([2 * fx.thread_idx.x, 2 * fx.thread_idx.x + 1], storage=scratch)
    ...     return made[0], made[1]
    >>> flyc.evaluate(striped, threads=4)
    [(0, 4), (1, 5), (2, 6), (3, 7)]
    """

    sized_by = "items_per_thread"
    algorithms = {BlockExchangeAlgorithm.SHARED_MEMORY: _tile, BlockExchangeAlgorithm.WARP_TIME_SLICING: _window}

    @classmethod
    def blocked_to_striped(cls, value: ValueLike | object, *, storage: object) -> Items:
        """Items `t * n + i` become items `t + i * threads`."""
        return cls.move(value, cls.blocked_places, cls.striped_places, storage)

    @classmethod
    def striped_to_blocked(cls, value: ValueLike | object, *, storage: object) -> Items:
        """Items `t + i * threads` become items `t * n + i`."""
        return cls.move(value, cls.striped_places, cls.blocked_places, storage)

    @classmethod
    def blocked_to_warp_striped(cls, value: ValueLike | object, *, storage: object) -> Items:
        """Items `t * n + i` become stripes of the warp."""
        return cls.move(value, cls.blocked_places, cls.warp_striped_places, storage)

    @classmethod
    def warp_striped_to_blocked(cls, value: ValueLike | object, *, storage: object) -> Items:
        """Stripes of the warp become items `t * n + i`."""
        return cls.move(value, cls.warp_striped_places, cls.blocked_places, storage)

    @classmethod
    def scatter_to_blocked(cls, value: ValueLike | object, ranks: object, *, storage: object) -> Items:
        """Each item goes to the place `ranks` says, all of which differ; items `t * n + i` come back."""
        return cls._scatter(value, ranks, None, storage, cls.blocked_places, None)

    @classmethod
    def scatter_to_striped(cls, value: ValueLike | object, ranks: object, *, storage: object) -> Items:
        """The same; items `t + i * threads` come back."""
        return cls._scatter(value, ranks, None, storage, cls.striped_places, None)

    @classmethod
    def scatter_to_striped_guarded(
        cls, value: ValueLike | object, ranks: object, *, storage: object, default: object = 0
    ) -> Items:
        """The same without items whose place lies outside; places nobody goes to hold `default`."""
        return cls._scatter(value, ranks, None, storage, cls.striped_places, default)

    @classmethod
    def scatter_to_striped_flagged(
        cls, value: ValueLike | object, ranks: object, is_valid: object, *, storage: object, default: object = 0
    ) -> Items:
        """The same without items whose flag is zero."""
        return cls._scatter(value, ranks, is_valid, storage, cls.striped_places, default)

    # --- moving ---------------------------------------------------------------------------------------------------

    @classmethod
    def move(cls, value: object, here: Places, there: Places, storage: object) -> Items:
        """Items from one arrangement to another."""
        held = cls.start(storage)
        items, form = cls.split(value, cls.items_per_thread)
        return cls._moved(items, form, here(), None, there(), held, None)

    @classmethod
    def _scatter(
        cls, value: object, ranks: object, flags: object, storage: object, there: Places, default: object
    ) -> Items:
        held = cls.start(storage)
        items, form = cls.split(value, cls.items_per_thread)
        places = cast("list[Int32]", numbers(cls.__name__, "ranks", ranks, Int32, form.count))
        goes: list[Boolean] | None = None
        if default is not None:
            goes = [(place >= 0) & (place < cls.tile_items) for place in places]
            if flags is not None:
                said = numbers(cls.__name__, "is_valid", flags, Boolean, form.count)
                goes = [inside & Boolean(flag) for inside, flag in zip(goes, said, strict=True)]
        fill = None if default is None else filled(cls.__name__, cls.dtype, default)
        return cls._moved(items, form, places, goes, there(), held, fill)

    @classmethod
    def _moved(
        cls, items: list[Item], form: Form, places: Sequence[Int32], goes: list[Boolean] | None,
        sources: Sequence[Int32], held: StructValue, fill: Item | None,
    ) -> Items:  # fmt: skip
        """Items to their places, and those of the wanted places back."""
        slots = array(held, "slots")
        if cls.algorithm is BlockExchangeAlgorithm.SHARED_MEMORY or cls.num_warps == 1:
            cls._fill(slots, cls.tile_items, fill)
            cls._write(slots, items, places, goes)
            barrier()
            return form.join([cast("Item", slots[cls._slot(at)]) for at in sources])
        size = cls.warp_threads * cls.items_per_thread

        def window(w: Int32, found: list[Item]) -> list[Item]:
            first = w * size
            cls._fill(slots, size, fill)
            inside = [(at >= first) & (at < first + size) for at in places]
            if goes is not None:
                inside = [a & b for a, b in zip(inside, goes, strict=True)]
            cls._write(slots, items, [at - first for at in places], inside)
            barrier()
            made: list[Item] = []
            for at, had in zip(sources, found, strict=True):
                local = at - first
                here = (local >= 0) & (local < size)
                made.append(select(here, cast("Item", slots[cls._slot(most(least(local, size - 1), 0))]), had))
            barrier()
            return made

        return form.join(loop(cls.num_warps, items, window))

    @classmethod
    def _slot(cls, place: Int32) -> Int32:
        every = padding(cls.items_per_thread)
        return place + place // every if every else place

    @classmethod
    def _fill(cls, slots: Array, size: int, fill: Item | None) -> None:
        """All places hold what those are to hold that nobody goes to."""
        if fill is None:
            return
        rank, threads = cls.thread_rank(), cls.block_threads
        for i in range(0, size, threads):
            cls._write(slots, [fill], [rank + i], None if i + threads <= size else [rank + i < size])
        barrier()

    @classmethod
    def _write(
        cls, slots: Array, items: Sequence[Item], places: Sequence[Int32], goes: Sequence[Boolean] | None
    ) -> None:
        for i, (item, place) in enumerate(zip(items, places, strict=True)):

            def write(item: Item = item, place: Int32 = place) -> None:
                slots[cls._slot(place)] = item

            if_(True if goes is None else goes[i], write, None, ())
