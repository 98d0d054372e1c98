"""Items of a logical warp from blocked to striped order and back, in registers.

Item i of lane l is number l * items + i of the tile in blocked order, and number i * lanes + l in striped order. Going
from one to the other rotates the bits of the number: each bit of the item trades places with one of the lane, which
takes one shuffle for every two items, and then the lanes are put in order. Where the number of items is no power of
two, every item is looked up.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....expr.gpu import lane_id
from ....expr.numeric import Int32
from ..elements import Element, select, shuffle
from .spec import place_in


def blocked_to_striped(items: Sequence[Element], lanes: int) -> list[Element]:
    """Items in blocked order, put in striped order."""
    return _turned(items, lanes, True)


def striped_to_blocked(items: Sequence[Element], lanes: int) -> list[Element]:
    """Items in striped order, put in blocked order."""
    return _turned(items, lanes, False)


def _turned(items: Sequence[Element], lanes: int, to_striped: bool) -> list[Element]:
    count = len(items)
    if count == 1 or lanes == 1:
        return list(items)
    if count & (count - 1):
        return _looked_up(items, lanes, to_striped)
    item_bits, lane_bits = count.bit_length() - 1, lanes.bit_length() - 1
    swaps = min(item_bits, lane_bits)
    pairs = [(k, lane_bits - swaps + k) for k in range(swaps)]
    place = place_in(lanes)
    # More items than lanes: the items that a lane holds then are put in order, which costs nothing.
    order = [(s % lanes) * (count // lanes) + s // lanes for s in range(count)] if count > lanes else list(range(count))
    held = list(items)
    if to_striped:
        for bit, lane_bit in pairs:
            held = _swapped(held, bit, lane_bit, lanes, place)
        if count < lanes:
            held = _rotated(held, lanes, item_bits)
        made = list(held)
        for at, to in enumerate(order):
            made[to] = held[at]
        return made
    held = [held[to] for to in order]
    if count < lanes:
        held = _rotated(held, lanes, lane_bits - item_bits)
    for bit, lane_bit in pairs:
        held = _swapped(held, bit, lane_bit, lanes, place)
    return held


def _swapped(items: list[Element], bit: int, lane_bit: int, lanes: int, place: Int32) -> list[Element]:
    """A bit of the number of the item and one of the lane traded."""
    made, upper = list(items), (place & (1 << lane_bit)) != 0
    for low in range(len(items)):
        high = low | 1 << bit
        if low == high:
            continue
        a, b = items[low], items[high]
        other = shuffle(select(upper, a, b), 1 << lane_bit, lanes, "xor")
        made[low], made[high] = select(upper, other, a), select(upper, b, other)
    return made


def _rotated(items: list[Element], lanes: int, by: int) -> list[Element]:
    """The bits of the lane rotated to the left: what lane l has goes to the lane with that number."""
    bits, lane = lanes.bit_length() - 1, lane_id()
    place = lane % lanes
    source = lane - place + ((place >> by) | ((place & ((1 << by) - 1)) << (bits - by)))
    return [shuffle(item, source, lanes, "idx") for item in items]


def _looked_up(items: Sequence[Element], lanes: int, to_striped: bool) -> list[Element]:
    place, count = place_in(lanes), len(items)
    numbers = [place + i * lanes if to_striped else place * count + i for i in range(count)]
    return [gather(items, number, lanes, to_striped) for number in numbers]


def gather(items: Sequence[Element], number: Int32, lanes: int, blocked: bool) -> Element:
    """The item with a number of the tile, which each lane chooses."""
    lane, count = lane_id(), len(items)
    source, slot = (number // count, number % count) if blocked else (number % lanes, number // lanes)
    found = [shuffle(item, lane - lane % lanes + source, lanes, "idx") for item in items]
    made = found[0]
    for i in range(1, count):
        made = select(slot == i, found[i], made)
    return made
