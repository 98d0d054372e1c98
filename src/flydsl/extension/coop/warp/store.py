"""Storing a tile of each logical warp."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ....expr.control.control_flow import if_
from ....expr.numeric import Int32, as_numeric
from ..elements import as_items, check_count, is_before
from ..memory import check_memory, packed_pointer, store_item, store_run
from .spec import WarpMeta, place_in
from .transpose import blocked_to_striped

if TYPE_CHECKING:
    from ....expr.annotations import IntLike


class WarpStoreAlgorithm(Enum):
    """How a logical warp writes its tile, and in which order its lanes hold it.

    >>> fx.coop.WarpStoreAlgorithm.VECTORIZE.value
    'vectorize'
    """

    DIRECT = "direct"
    """Blocked; each lane writes its items one by one."""
    STRIPED = "striped"
    """Striped; the lanes write neighbours at once."""
    VECTORIZE = "vectorize"
    """Blocked; each lane writes its items packed, where they lie side by side."""
    TRANSPOSE = "transpose"
    """Blocked; put in order by shuffles, and written as STRIPED."""
    Direct = DIRECT
    Striped = STRIPED
    Vectorize = VECTORIZE
    Transpose = TRANSPOSE


class WarpStore(metaclass=WarpMeta):
    """A tile of each logical warp to memory: `fx.coop.WarpStore[fx.Int32, 8, 2].store(x, items, offset=tile * 16)`.

    >>> def write(x):
    ...     n = fx.lane_id() * 2
    ...     fx.coop.WarpStore[fx.Int32, 4, 2].store(x, [n, n + 1], valid_items=5)
    >>> x = np.full(8, -1, "i4")
    >>> flyc.evaluate(write, x, threads=4) and x.tolist()
    [0, 1, 2, 3, 4, -1, -1, -1]
    """

    tiled = True
    algorithms = WarpStoreAlgorithm
    algorithm = WarpStoreAlgorithm.DIRECT

    @classmethod
    def store(
        cls, destination: object, value: object, *, offset: IntLike = 0, valid_items: IntLike | None = None,
        storage: object = None,
    ) -> None:  # fmt: skip
        """The tile that begins at element `offset`; of its items the first `valid_items` are written."""
        lanes, count = cls.start(storage), cls.items_per_thread or 0
        place = check_memory("destination", destination)
        cls.check_items(value, "value")
        items = as_items(value, cls.dtype, "value")
        valid = check_count("valid_items", valid_items, lanes * count)
        base, lane = Int32(as_numeric(offset)), place_in(lanes)
        blocked = cls.algorithm in (WarpStoreAlgorithm.DIRECT, WarpStoreAlgorithm.VECTORIZE)
        numbers = [lane * count + i if blocked else lane + i * lanes for i in range(count)]
        held = blocked_to_striped(items, lanes) if cls.algorithm is WarpStoreAlgorithm.TRANSPOSE else items

        def one_by_one() -> None:
            for n, item in zip(numbers, held, strict=True):
                store_item(place, base + n, item, None if valid is None else is_before(n, valid))

        pointer = packed_pointer(destination) if cls.algorithm is WarpStoreAlgorithm.VECTORIZE else None
        if pointer is None:
            one_by_one()
        elif valid is None:
            store_run(pointer, base + numbers[0], held)
        else:
            if_(is_before(numbers[-1], valid), lambda: store_run(pointer, base + numbers[0], held), one_by_one, ())
