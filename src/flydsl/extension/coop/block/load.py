"""A block reads its items from memory, each thread some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, cast

from ....errors import DSLTypeError
from ....expr.control.control_flow import if_expr
from ....expr.numeric import Int32, as_numeric
from ....expr.structs import Empty
from ..memory import Indexable, load_run, packed_pointer
from .elements import Form, Item, Items, converted, filled, is_scalar_class
from .exchange import BlockExchange, BlockExchangeAlgorithm
from .spec import BlockMeta, Collective

if TYPE_CHECKING:
    from ....expr.annotations import IntLike
    from ....expr.numeric import Boolean
    from ....expr.structs import StructValue


class BlockLoadAlgorithm(Enum):
    """Who reads what, and which items a thread ends up with.

    >>> [a.name for a in fx.coop.BlockLoadAlgorithm][:3]
    ['DIRECT', 'STRIPED', 'VECTORIZE']
    """

    DIRECT = "direct"
    """Each thread reads its neighbouring items. The default."""
    STRIPED = "striped"
    """Neighbouring threads read neighbouring items, and keep them so."""
    VECTORIZE = "vectorize"
    """Each thread reads its neighbouring items, several at a time."""
    TRANSPOSE = "transpose"
    """Neighbouring threads read neighbouring items, which are handed to their threads through shared memory."""
    WARP_TRANSPOSE = "warp_transpose"
    """The same within each warp."""
    WARP_TRANSPOSE_TIMESLICED = "warp_transpose_timesliced"
    """The same with the shared memory of one warp."""


def nothing(cls: BlockMeta) -> type[StructValue]:
    """No shared memory."""
    return cast("type[StructValue]", Empty)


def exchanged(algorithm: BlockExchangeAlgorithm) -> Callable[[BlockMeta], type[StructValue]]:
    """The shared memory of an exchange."""

    def storage(cls: BlockMeta) -> type[StructValue]:
        return exchange_of(cls, algorithm).SharedStorage

    return storage


def exchange_of(cls: BlockMeta, algorithm: BlockExchangeAlgorithm) -> type[BlockExchange]:
    """The exchange that hands items to their threads."""
    return BlockExchange[cls.dtype, cls.block_size, cls.items_per_thread, algorithm]


_L = BlockLoadAlgorithm
_ALL, _SLICES = BlockExchangeAlgorithm.SHARED_MEMORY, BlockExchangeAlgorithm.WARP_TIME_SLICING


class BlockLoad(Collective):
    """A block's items from memory: `L = fx.coop.BlockLoad[fx.Int32, 128, 4]`, `items = L(source)`.

    Thread t gets the items from `4 * t`, but striped ones with `STRIPED`. The source is what can be indexed: a tensor
    of one mode, a pointer, an array. With `valid_items` nothing behind them is read; those items are `default`.
    Algorithms that transpose need a storage and every thread.

    >>> def two(x):
    ...     items = fx.coop.BlockLoad[fx.Int32, 4, 2](x, valid_items=7, default=-1)
    ...     return items[0], items[1]
    >>> flyc.evaluate(two, np.arange(8, dtype="i4"), threads=4)
    [(0, 1), (2, 3), (4, 5), (6, -1)]
    """

    sized_by = "items_per_thread"
    exchange_type = BlockExchange
    algorithms = {
        _L.DIRECT: nothing,
        _L.STRIPED: nothing,
        _L.VECTORIZE: nothing,
        _L.TRANSPOSE: exchanged(_ALL),
        _L.WARP_TRANSPOSE: exchanged(_ALL),
        _L.WARP_TRANSPOSE_TIMESLICED: exchanged(_SLICES),
    }

    @classmethod
    def run(
        cls, source: object, *, storage: object = None, offset: IntLike = 0, valid_items: IntLike | None = None,
        default: object = 0,
    ) -> Items:  # fmt: skip
        """The items of a thread."""
        if not hasattr(type(source), "__getitem__"):
            raise DSLTypeError(f"{cls.__name__}: the source must be indexed by element, got {source!r}")
        limit = None if valid_items is None else cls.count_up_to("valid_items", valid_items, 2**31 - 1)
        start = Int32(as_numeric(offset))
        fill = filled(cls.__name__, cls.dtype, default)
        form = Form(cls.__name__, cls.dtype, cls.items_per_thread, single=False)
        read = _Reading(cls, cast("Indexable", source), start, limit, fill)
        if cls.algorithm is _L.DIRECT:
            return form.join(read.each(cls.blocked_places()))
        if cls.algorithm is _L.STRIPED:
            return form.join(read.each(cls.striped_places()))
        if cls.algorithm is _L.VECTORIZE:
            return form.join(read.packed(cls.blocked_places()))
        if storage is None:
            raise DSLTypeError(f"{cls.__name__}: {cls.algorithm.name} needs storage=, of {cls.__name__}.SharedStorage")
        exchange = exchange_of(cls, _SLICES if cls.algorithm is _L.WARP_TRANSPOSE_TIMESLICED else _ALL)
        if cls.algorithm is _L.TRANSPOSE:
            return exchange.striped_to_blocked(read.each(cls.striped_places()), storage=storage)
        return exchange.warp_striped_to_blocked(read.each(cls.warp_striped_places()), storage=storage)


class _Reading:
    """One thread's reads."""

    def __init__(self, cls: BlockMeta, source: Indexable, start: Int32, limit: int | Int32 | None, fill: Item):
        self.cls, self.source, self.start, self.limit, self.fill = cls, source, start, limit, fill

    def each(self, places: Sequence[Int32]) -> list[Item]:
        """Item by item."""
        return [self.one(place) for place in places]

    def one(self, place: Int32) -> Item:
        def read() -> Item:
            found = cast("Item", self.source[self.start + place])
            return converted(self.cls.__name__, found, self.cls.dtype)

        if self.limit is None:
            return read()
        return cast("Item", if_expr(place < self.limit, read, lambda: self.fill))

    def packed(self, places: Sequence[Int32]) -> list[Item]:
        """Several at a time where the memory allows it, item by item at the end of what is valid."""
        pointer = packed_pointer(self.source)
        if pointer is None or not is_scalar_class(self.cls.dtype):
            return self.each(places)
        dtype = self.cls.dtype

        def run() -> list[Item]:
            return load_run(pointer, self.start + places[0], len(places), dtype)

        if self.limit is None:
            return run()
        whole: Boolean = places[-1] < self.limit
        return list(cast("Sequence[Item]", if_expr(whole, run, lambda: self.each(places))))
