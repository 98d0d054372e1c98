"""Loading a tile for each logical warp."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from ....errors import DSLValueError
from ....expr.control.control_flow import if_expr
from ....expr.numeric import Int32, as_numeric
from ..elements import Element, check_count, convert, from_items, is_before
from ..memory import check_memory, load_item, load_run, packed_pointer
from .spec import WarpMeta, place_in
from .transpose import striped_to_blocked

if TYPE_CHECKING:
    from ....expr.annotations import IntLike


class WarpLoadAlgorithm(Enum):
    """How a logical warp reads its tile, and in which order its lanes hold it.

    >>> fx.coop.WarpLoadAlgorithm.TRANSPOSE.value
    'transpose'
    """

    DIRECT = "direct"
    """Blocked; each lane reads its items one by one."""
    STRIPED = "striped"
    """Striped; the lanes read neighbours at once."""
    VECTORIZE = "vectorize"
    """Blocked; each lane reads its items packed, where they lie side by side."""
    TRANSPOSE = "transpose"
    """Blocked; read as STRIPED, and put in order by shuffles."""
    Direct = DIRECT
    Striped = STRIPED
    Vectorize = VECTORIZE
    Transpose = TRANSPOSE


class WarpLoad(metaclass=WarpMeta):
    """A tile of each logical warp from memory: `fx.coop.WarpLoad[fx.Int32, 8, 2].load(x, offset=tile * 16)`.

    >>> def read(x):
    ...     L = fx.coop.WarpLoad[fx.Int32, 4, 2]
    ...     return L.load(x, valid_items=5, default=-1)
    >>> flyc.evaluate(read, np.arange(10, 18, dtype="i4"), threads=4)
    [[10, 11], [12, 13], [14, -1], [-1, -1]]
    """

    tiled = True
    algorithms = WarpLoadAlgorithm
    algorithm = WarpLoadAlgorithm.DIRECT

    @classmethod
    def load(
        cls, source: object, *, offset: IntLike = 0, valid_items: IntLike | None = None, default: object = None,
        storage: object = None,
    ) -> Any:  # fmt: skip
        """The tile that begins at element `offset`; of its items `valid_items` are read, and the rest is `default`."""
        lanes, count = cls.start(storage), cls.items_per_thread or 0
        dtype = cls.dtype
        assert dtype is not None
        place = check_memory("source", source)
        if default is not None and valid_items is None:
            raise DSLValueError(f"{cls.__name__}: default is for items that are not valid; give valid_items")
        valid = check_count("valid_items", valid_items, lanes * count)
        missing = convert(0 if default is None else default, dtype, "default")
        base, lane = Int32(as_numeric(offset)), place_in(lanes)
        blocked = cls.algorithm in (WarpLoadAlgorithm.DIRECT, WarpLoadAlgorithm.VECTORIZE)
        numbers = [lane * count + i if blocked else lane + i * lanes for i in range(count)]

        def one_by_one() -> list[Element]:
            checks = [None if valid is None else is_before(n, valid) for n in numbers]
            return [load_item(place, base + n, dtype, known, missing) for n, known in zip(numbers, checks, strict=True)]

        pointer = packed_pointer(source) if cls.algorithm is WarpLoadAlgorithm.VECTORIZE else None
        if pointer is None:
            items = one_by_one()
        elif valid is None:
            items = load_run(pointer, base + numbers[0], count, dtype)
        else:
            whole = is_before(numbers[-1], valid)
            items = if_expr(whole, lambda: load_run(pointer, base + numbers[0], count, dtype), one_by_one)
        if cls.algorithm is WarpLoadAlgorithm.TRANSPOSE:
            items = striped_to_blocked(items, lanes)
        return from_items(items)
