"""Items of a logical warp in another order: blocked, striped, or as ranks say; through shared memory or registers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, cast

from ....errors import DSLTypeError, DSLValueError
from ....expr.numeric import Int32, Numeric
from ....expr.structs import CompositeMeta, Struct
from ....expr.tensors.storage import Array
from ..elements import Element, as_items, from_items
from .spec import WarpMeta, place_in
from .sync import warp_sync
from .transpose import blocked_to_striped, striped_to_blocked

if TYPE_CHECKING:
    from ..elements import ElementType


class WarpExchangeAlgorithm(Enum):
    """How items go from lane to lane.

    >>> fx.coop.WarpExchangeAlgorithm.SHARED.value
    'shared'
    """

    SHUFFLE = "shuffle"
    """By shuffles; a lane holds as many items as there are lanes."""
    SHARED = "shared"
    """Through the storage of the logical warp."""
    Shuffle = SHUFFLE
    Shared = SHARED


class _Held(Protocol):
    @property
    def slots(self) -> Array: ...


class _ExchangeMeta(WarpMeta):
    def check(cls) -> None:
        if cls.algorithm is WarpExchangeAlgorithm.SHUFFLE and cls.items_per_thread != cls.lanes():
            raise DSLValueError(
                f"{cls.__name__}: SHUFFLE takes as many items as lanes, {cls.lanes()}; got {cls.items_per_thread}"
            )

    def storage_type(cls) -> CompositeMeta:
        if cls.algorithm is WarpExchangeAlgorithm.SHUFFLE:
            return super().storage_type()
        size = cls.lanes() * (cls.items_per_thread or 0)
        return cast("CompositeMeta", Struct["slots" : Array[cls.dtype, size]])


class WarpExchange(metaclass=_ExchangeMeta):
    """The items of a logical warp in another order: `fx.coop.WarpExchange[fx.Int32, 8, 2].blocked_to_striped(x, ...)`.

    In blocked order item i of lane l is number `l * items + i` of the tile, in striped order number `i * lanes + l`.
    With SHARED, the default, each logical warp has storage of its own, and `fx.barrier()` belongs between two uses.

    >>> def striped():
    ...     E = fx.coop.WarpExchange[fx.Int32, 4, 2]
    ...     scratch = fx.SharedAllocator().allocate(fx.Array[E.SharedStorage, 2]).peek()
    ...     n = fx.thread_idx.x * 2
    ...     return E.blocked_to_striped([n, n + 1], storage=scratch[fx.thread_idx.x // 4])
    >>> flyc.evaluate(striped, threads=8)
    [[0, 4], [1, 5], [2, 6], [3, 7], [8, 12], [9, 13], [10, 14], [11, 15]]
    """

    tiled = True
    algorithms = WarpExchangeAlgorithm
    algorithm = WarpExchangeAlgorithm.SHARED

    @classmethod
    def _items(cls, value: object, what: str, dtype: ElementType | None) -> list[Element]:
        cls.lanes()
        cls.check_items(value, what)
        return as_items(value, dtype, what)

    @classmethod
    def _slots(cls, storage: object) -> Array:
        if storage is None:
            raise DSLTypeError(
                f"{cls.__name__} goes through shared memory: give the storage of the logical warp, of "
                f"{cls.__name__}.SharedStorage"
            )
        return cast("_Held", cls.held(storage)).slots

    @classmethod
    def _through(cls, items: Sequence[Element], to: Sequence[Int32], at: Sequence[Int32], slots: Array) -> Any:
        for item, index in zip(items, to, strict=True):
            slots[index] = item
        warp_sync(cls.lanes())
        return from_items([slots[index] for index in at])

    @classmethod
    def _turn(cls, value: object, storage: object, to_striped: bool) -> Any:
        items, lanes, count = cls._items(value, "value", cls.dtype), cls.lanes(), cls.items_per_thread or 0
        if cls.algorithm is WarpExchangeAlgorithm.SHUFFLE:
            cls.start(storage)
            return from_items((blocked_to_striped if to_striped else striped_to_blocked)(items, lanes))
        slots = cls._slots(storage)
        if count == 1:
            return value
        place = place_in(lanes)
        blocked = [place * count + i for i in range(count)]
        striped = [place + i * lanes for i in range(count)]
        return cls._through(items, *((blocked, striped) if to_striped else (striped, blocked)), slots)

    @classmethod
    def blocked_to_striped(cls, value: object, *, storage: object = None) -> Any:
        """Items in blocked order, put in striped order."""
        return cls._turn(value, storage, True)

    @classmethod
    def striped_to_blocked(cls, value: object, *, storage: object = None) -> Any:
        """Items in striped order, put in blocked order."""
        return cls._turn(value, storage, False)

    @classmethod
    def scatter_to_striped(cls, value: object, ranks: object, *, storage: object = None) -> Any:
        """Items by their ranks, in striped order; the ranks of a logical warp are a permutation of 0 and up."""
        items, lanes = cls._items(value, "value", cls.dtype), cls.lanes()
        if cls.algorithm is WarpExchangeAlgorithm.SHUFFLE:
            raise DSLValueError(f"{cls.__name__}: scatter_to_striped goes through shared memory; use SHARED")
        numbers = [n for n in as_items(ranks, None, "ranks") if isinstance(n, Numeric) and n.is_integer]
        if len(numbers) != len(items):
            raise DSLTypeError(f"ranks must be {len(items)} integers, one for each item; got {ranks!r}")
        place = place_in(lanes)
        at = [place + i * lanes for i in range(len(items))]
        return cls._through(items, [Int32(n) for n in numbers], at, cls._slots(storage))
