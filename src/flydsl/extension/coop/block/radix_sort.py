"""A stable sort of the items of a block by the bits of their keys, a digit at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, cast

from ....expr.gpu import barrier
from ....expr.numeric import Int32, Numeric
from ....expr.tensors.storage import Array
from .counting import Counting, counters
from .elements import Item, Items
from .merge_sort import split_pairs, tiles
from .radix_keys import Decomposed, check_bits, check_radix_bits, digit_at
from .scan import BlockScan
from .spec import BlockMeta, Collective, array, loop, part, record

if TYPE_CHECKING:
    from ....expr.annotations import ValueLike
    from ....expr.structs import StructValue


class BlockRadixSortAlgorithm(Enum):
    """How many bits a pass sorts by, unless `radix_bits` says so.

    >>> fx.coop.BlockRadixSortAlgorithm.RADIX_DIGIT.value
    'radix_digit'
    """

    RADIX_SCAN = "radix_scan"
    """One. The default."""
    RADIX_DIGIT = "radix_digit"
    """Four."""


_BITS = {BlockRadixSortAlgorithm.RADIX_SCAN: 1, BlockRadixSortAlgorithm.RADIX_DIGIT: 4}
_MOST = 6
"""Bits of the widest digit that there are counters for: wider ones are sorted by in several passes."""


def _storage(cls: BlockMeta) -> type[StructValue]:
    fields = {field.name: field.type for field in tiles(cls).__fields__}
    return record(**{**fields, "counting": counters(cls, _MOST)})


class BlockRadixSort(Collective):
    """A stable sort by bits: `R = fx.coop.BlockRadixSort[fx.Float32, 128, 4]`, `sorted = R(keys, storage=s)`.

    `BlockRadixSort[(fx.Int32, fx.Float32), 128, 4]` carries a value with each key. Thread t brings and gets the items
    from `4 * t`, or gets striped ones. Signed integers and floats come in their order, -0.0 as 0.0 and NaNs by their
    bits. `begin_bit` and `end_bit` leave bits out. A `decomposer` gives the numbers to sort by, the most significant
    first; bits count from the last one's. Every thread must call; a barrier belongs between two calls that use one
    storage.

    >>> def up():
    ...     R = fx.coop.BlockRadixSort[fx.Float32, 8, 1]
    ...     scratch = fx.SharedAllocator().allocate(R.SharedStorage).peek()
    ...     return R(1.5 - fx.Float32(fx.thread_idx.x), storage=scratch)
    >>> flyc.evaluate(up, threads=8)
    [-5.5, -4.5, -3.5, -2.5, -1.5, -0.5, 0.5, 1.5]
    """

    sized_by = "items_per_thread"
    pairs = "the values"
    scan_type = BlockScan
    algorithms = dict.fromkeys(BlockRadixSortAlgorithm, _storage)

    @classmethod
    def run(
        cls, keys: ValueLike | object, values: object = None, *, storage: object, descending: bool = False,
        begin_bit: int = 0, end_bit: int | None = None, decomposer: Callable[..., object] | None = None,
        radix_bits: int | None = None, blocked_to_striped: bool = False,
    ) -> Items | tuple[Items, Items]:  # fmt: skip
        """Sorted keys, with their values if there are any."""
        held = cls.start(storage)
        mine, carried, form, carried_form = split_pairs(cls, keys, values)
        words = Decomposed(cls, decomposer)
        widths = words.widths(mine[0])
        first, last = check_bits(cls.__name__, begin_bit, end_bit, sum(widths))
        bits = _BITS[cast("BlockRadixSortAlgorithm", cls.algorithm)]
        if radix_bits is not None:
            bits = min(check_radix_bits(cls.__name__, radix_bits, 30), _MOST)
        columns = [(array(held, "keys"), mine), *([(array(held, "values"), carried)] if carried else [])]
        for slots, items in columns:
            for place, item in zip(cls.blocked_places(), items, strict=True):
                slots[place] = item
        barrier()
        slots = [slots for slots, _ in columns]
        places = cls.warp_striped_places()
        for field, low, high in _fields(widths, first, last):
            # A digit lies in one field: how bits are dealt out to passes changes nothing.
            sort = _Passes(lambda key, field=field: words(key)[field], low, high, bits, slots, places)
            sort.run(Counting(cls, part(held, "counting"), sort.bits, descending))
        there = cls.striped_places() if blocked_to_striped else cls.blocked_places()
        made = [[cast("Item", line[place]) for place in there] for line in slots]
        return (form.join(made[0]), carried_form.join(made[1])) if carried else form.join(made[0])

    @classmethod
    def sort_blocked_to_striped(
        cls, keys: ValueLike | object, values: object = None, *, storage: object, descending: bool = False,
        begin_bit: int = 0, end_bit: int | None = None, decomposer: Callable[..., object] | None = None,
        radix_bits: int | None = None,
    ) -> Items | tuple[Items, Items]:  # fmt: skip
        """The same, with striped results."""
        cls.check_specialized()
        return cls.run(
            keys, values, storage=storage, descending=descending, begin_bit=begin_bit, end_bit=end_bit,
            decomposer=decomposer, radix_bits=radix_bits, blocked_to_striped=True,
        )  # fmt: skip


def _fields(widths: list[int], first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """The fields that a range of bits touches, the least significant first: number, first bit and end within it.

    >>> list(_fields([8, 32], 4, 36))
    [(1, 4, 32), (0, 0, 4)]
    """
    start = 0
    for field in reversed(range(len(widths))):
        low, high = max(first - start, 0), min(last - start, widths[field])
        if low < high:
            yield field, low, high
        start += widths[field]


@dataclass(frozen=True)
class _Passes:
    """The passes over some bits of one field: keys and values stay in shared memory."""

    word: Callable[[Item], Numeric]
    low: int
    high: int
    most: int
    """Bits of a digit."""
    slots: list[Array]
    places: list[Int32]

    @property
    def bits(self) -> int:
        """Bits of a digit where there are so many."""
        return min(self.most, self.high - self.low)

    def run(self, counting: Counting) -> None:
        """All passes."""

        def again(number: Int32, state: list[Item]) -> list[Item]:
            self.one(number, counting)
            return state

        passes = -(-(self.high - self.low) // self.bits)
        if passes == 1:
            self.one(0, counting)
        else:
            loop(passes, [Int32(0)], again, unroll=1)

    def one(self, number: Int32 | int, counting: Counting) -> None:
        """One pass."""
        done = number * self.bits
        found = [[cast("Item", line[place]) for place in self.places] for line in self.slots]
        left = self.high - self.low - done
        digits = [digit_at(self.word(key), self.low + done, self.bits, left) for key in found[0]]
        ranks = counting.ranks(digits).ranks
        for line, items in zip(self.slots, found, strict=True):
            for rank, item in zip(ranks, items, strict=True):
                line[cast("Int32", rank)] = item
        barrier()
