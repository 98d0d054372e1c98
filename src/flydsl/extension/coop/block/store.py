"""A block writes its items to memory, each thread some."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, cast

from ....errors import DSLTypeError
from ....expr.control.control_flow import if_
from ....expr.numeric import Int32, Numeric, as_numeric
from ..memory import Indexable, packed_pointer, store_run
from .elements import Item, is_scalar_class
from .exchange import BlockExchange, BlockExchangeAlgorithm
from .load import exchange_of, exchanged, nothing
from .spec import Collective

if TYPE_CHECKING:
    from ....expr.annotations import IntLike, ValueLike


class BlockStoreAlgorithm(Enum):
    """Who writes what, and which items a thread brings.

    >>> [a.name for a in fx.coop.BlockStoreAlgorithm][:3]
    ['DIRECT', 'STRIPED', 'VECTORIZE']
    """

    DIRECT = "direct"
    """Each thread writes its neighbouring items. The default."""
    STRIPED = "striped"
    """Threads bring striped items; neighbouring threads write neighbouring items."""
    VECTORIZE = "vectorize"
    """Each thread writes its neighbouring items, several at a time."""
    TRANSPOSE = "transpose"
    """Items are handed through shared memory to threads that write them with their neighbours."""
    WARP_TRANSPOSE = "warp_transpose"
    """The same within each warp."""
    WARP_TRANSPOSE_TIMESLICED = "warp_transpose_timesliced"
    """The same with the shared memory of one warp."""


_S = BlockStoreAlgorithm
_ALL, _SLICES = BlockExchangeAlgorithm.SHARED_MEMORY, BlockExchangeAlgorithm.WARP_TIME_SLICING


class BlockStore(Collective):
    """A block's items to memory: `S = fx.coop.BlockStore[fx.Int32, 128, 4]`, `S(destination, items)`.

    Thread t brings the items from `4 * t`, but striped ones with `STRIPED`. The destination is what can be indexed: a
    tensor of one mode, a pointer, an array. With `valid_items` nothing behind them is written. Algorithms that
    transpose need a storage and every thread.

    >>> x = np.zeros(8, dtype="i4")
    >>> def put(x):
    ...     t = fx.thread_idx.x
    ...     fx.coop.BlockStore[fx.Int32, 4, 2](x, [t, t * 10], valid_items=7)
    >>> _ = flyc.evaluate(put, x, threads=4)
    >>> x.tolist()
    [0, 0, 1, 10, 2, 20, 3, 0]
    """

    sized_by = "items_per_thread"
    exchange_type = BlockExchange
    algorithms = {
        _S.DIRECT: nothing,
        _S.STRIPED: nothing,
        _S.VECTORIZE: nothing,
        _S.TRANSPOSE: exchanged(_ALL),
        _S.WARP_TRANSPOSE: exchanged(_ALL),
        _S.WARP_TRANSPOSE_TIMESLICED: exchanged(_SLICES),
    }

    @classmethod
    def run(
        cls, destination: object, value: ValueLike | object, *, storage: object = None, offset: IntLike = 0,
        valid_items: IntLike | None = None,
    ) -> None:  # fmt: skip
        """Write the items of a thread."""
        if not hasattr(type(destination), "__setitem__"):
            raise DSLTypeError(f"{cls.__name__}: the destination must be indexed by element, got {destination!r}")
        items, _ = cls.split(value, cls.items_per_thread)
        limit = None if valid_items is None else cls.count_up_to("valid_items", valid_items, 2**31 - 1)
        start, places = Int32(as_numeric(offset)), cls.blocked_places()
        if cls.algorithm is _S.VECTORIZE:
            cls._packed(destination, items, places, start, limit)
            return
        if cls.algorithm is _S.STRIPED:
            places = cls.striped_places()
        elif cls.algorithm is not _S.DIRECT:
            if storage is None:
                name = cls.__name__
                raise DSLTypeError(f"{name}: {cls.algorithm.name} needs storage=, of {name}.SharedStorage")
            exchange = exchange_of(cls, _SLICES if cls.algorithm is _S.WARP_TRANSPOSE_TIMESLICED else _ALL)
            if cls.algorithm is _S.TRANSPOSE:
                places, made = cls.striped_places(), exchange.blocked_to_striped(items, storage=storage)
            else:
                places, made = cls.warp_striped_places(), exchange.blocked_to_warp_striped(items, storage=storage)
            items = list(cast("Sequence[Item]", made))
        cls._each(cast("Indexable", destination), items, places, start, limit)

    @classmethod
    def _each(
        cls, memory: Indexable, items: Sequence[Item], places: Sequence[Int32], start: Int32, limit: int | Int32 | None
    ) -> None:
        """Item by item."""
        kind = getattr(memory, "dtype", None)
        for item, place in zip(items, places, strict=True):
            stored = kind(item) if is_scalar_class(kind) and isinstance(item, Numeric) else item

            def write(stored: object = stored, place: Int32 = place) -> None:
                memory[start + place] = stored

            if_(True if limit is None else place < limit, write, None, ())

    @classmethod
    def _packed(
        cls, memory: object, items: list[Item], places: list[Int32], start: Int32, limit: int | Int32 | None
    ) -> None:
        """Several at a time where the memory allows it, item by item at the end of what is valid."""
        pointer = packed_pointer(memory)

        def each() -> None:
            cls._each(cast("Indexable", memory), items, places, start, limit)

        if pointer is None or not is_scalar_class(cls.dtype):
            each()
            return

        def run() -> None:
            store_run(pointer, start + places[0], items)

        if_(True if limit is None else places[-1] < limit, run, each, ())
