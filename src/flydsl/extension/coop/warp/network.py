"""A sorting network over the items of a logical warp, in registers.

Merging two sorted runs compares each item with its mirror image first and then at halved distances, always towards
lower numbers. So what sorts last may lie at the end from the start: the number of items need not be a power of two, and
items that do not count are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ....expr.numeric import Boolean, Int32
from ..elements import Element, select, shuffle
from .spec import place_in

Records = list[tuple[Element, ...]]
"""Of each item all that moves with it."""
Swap = Callable[[tuple[Element, ...], tuple[Element, ...], Callable[[], Int32]], Boolean]
"""Whether two items change places: that of the lower number, that of the higher, and what tells the higher number."""


def steps(size: int) -> Iterator[int]:
    """What numbers of items that are compared differ by, as a mask, one step after the other.

    >>> list(steps(8))
    [1, 3, 1, 7, 2, 1]
    """
    run = 1
    while run < size:
        yield 2 * run - 1
        distance = run // 2
        while distance:
            yield distance
            distance //= 2
        run *= 2


def sort(records: Records, lanes: int, striped: bool, swap: Swap) -> Records:
    """Items put in order; in striped order, or in blocked order, which takes a power of two of items."""
    made, padded = records, 1 << (len(records) - 1).bit_length()
    tile = _Tile(len(records), lanes, striped)
    for mask in steps(lanes * padded):
        lane_mask, slot_mask = (mask % lanes, mask // lanes) if striped else (mask // padded, mask % padded)
        made = tile.across(made, lane_mask, slot_mask, swap) if lane_mask else tile.within(made, slot_mask, swap)
    return made


class _Tile:
    """Where the items of a logical warp are."""

    def __init__(self, count: int, lanes: int, striped: bool):
        self.count, self.lanes, self.striped = count, lanes, striped
        self.place = place_in(lanes)

    def number(self, place: Int32, slot: int) -> Int32:
        """Number of an item of a lane."""
        return place + slot * self.lanes if self.striped else place * self.count + slot

    def within(self, held: Records, slot_mask: int, swap: Swap) -> Records:
        """Items of one lane compared."""
        made = list(held)
        for slot, mine in enumerate(held):
            partner = slot ^ slot_mask
            if slot < partner < self.count:
                other = held[partner]
                turn = swap(mine, other, lambda at=partner: self.number(self.place, at))
                made[slot], made[partner] = _chosen(turn, other, mine), _chosen(turn, mine, other)
        return made

    def across(self, held: Records, lane_mask: int, slot_mask: int, swap: Swap) -> Records:
        """Items of two lanes compared, in both."""
        made = list(held)
        upper = (self.place & (1 << lane_mask.bit_length() >> 1)) != 0
        for slot, mine in enumerate(held):
            partner = slot ^ slot_mask
            if partner >= self.count:
                continue
            other = tuple(shuffle(part, lane_mask, self.lanes, "xor") for part in held[partner])

            def theirs(at: int = partner) -> Int32:
                return self.number(self.place ^ lane_mask, at)

            def own(at: int = slot) -> Int32:
                return self.number(self.place, at)

            # Which of the two has the lower number is the same for all lanes where the slot counts for more.
            if self.striped and slot_mask:
                turn = swap(mine, other, theirs) if slot < partner else swap(other, mine, own)
            else:
                first, second = _chosen(upper, other, mine), _chosen(upper, mine, other)
                turn = swap(first, second, lambda own=own, theirs=theirs: upper.select(own(), theirs()))
            made[slot] = _chosen(turn, other, mine)
        return made


def _chosen(condition: Boolean, a: tuple[Element, ...], b: tuple[Element, ...]) -> tuple[Element, ...]:
    return tuple(select(condition, x, y) for x, y in zip(a, b, strict=True))
