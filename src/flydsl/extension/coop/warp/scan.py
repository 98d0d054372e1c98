"""Scans over the lanes of a warp, or of equal parts of it, by shuffles; and a lane's element for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from ....errors import DSLTypeError, DSLValueError
from ....expr.gpu import lane_id
from ....expr.numeric import Int32, as_numeric
from ....expr.structs import StructValue
from ....expr.vector import Vector
from ..elements import (
    E,
    Element,
    ElementType,
    as_element,
    as_items,
    convert,
    from_items,
    is_before,
    is_items,
    select,
    shuffle,
    type_of,
)
from ..operators import Operator, check_operator, combine, identity_of
from .reduce import check_single, combined_if, prepared
from .spec import WarpMeta, check_width, place_in

if TYPE_CHECKING:
    from ....expr.annotations import IntLike, ScalarLike

    Count = IntLike | None
    Start = ScalarLike | Vector | StructValue | None

T = TypeVar("T")


class Moves:
    """How elements come from lane to lane: by shuffles."""

    def inclusive(self, x: E, op: Operator, lanes: int, place: Int32) -> E:
        """Each lane's element combined with those of the lanes before it."""
        made, offset = x, 1
        while offset < lanes:
            before = shuffle(made, offset, lanes, "up")
            made = select(place >= offset, combine(op, before, made), made)
            offset *= 2
        return made

    def before(self, x: E, op: Operator, lanes: int, place: Int32) -> E:
        """What the lane before has; the identity in the first, where there is one."""
        moved = shuffle(x, 1, lanes, "up") if lanes > 1 else x
        nothing = identity_of(op, x)
        return moved if nothing is None else select(place == 0, nothing, moved)

    def last(self, x: E, lanes: int) -> E:
        """What the last lane has, in all of them."""
        return from_lane(x, lanes - 1, lanes) if lanes > 1 else x


SHUFFLES = Moves()


def from_lane(x: E, source: int | Int32, lanes: int) -> E:
    """What a lane of the logical warp has."""
    lane = lane_id()
    return shuffle(x, lane - lane % lanes + source, lanes, "idx")


def _inclusive_valid(x: E, op: Operator, lanes: int, place: Int32, valid: int | Int32) -> E:
    """The same of the first `valid` lanes; `op` is never given another element."""
    made, offset = x, 1
    while offset < lanes:
        before, now = shuffle(made, offset, lanes, "up"), made
        counts = (place >= offset) & is_before(place, valid)
        made = combined_if(counts, op, before, now, now)
        offset *= 2
    return made


def _seeded(op: Operator, start: E, x: E, place: Int32, valid: int | Int32 | None) -> E:
    if valid is None:
        return combine(op, start, x)
    return combined_if(is_before(place, valid), op, start, x, x)


class Scan:
    """A scan of one element of each lane, or of the items of the lanes in a row."""

    def __init__(self, moves: Moves, value: object, op: Operator, width: object, init: object, valid_items: object,
                 dtype: ElementType | None):  # fmt: skip
        self.moves, self.op, self.lanes = moves, check_operator(op), check_width(width)
        self.place = place_in(self.lanes)
        self.many = is_items(value, dtype)
        self.items: list[Element] = []
        """The items of the lane, each combined with those before it in the lane."""
        for item in as_items(value, dtype, "value") if self.many else ():
            self.items.append(combine(self.op, self.items[-1], item) if self.items else item)
        check_single(value, dtype, valid_items)
        if self.many:
            x, self.valid = self.items[-1], None
        else:
            x, self.valid = prepared(value, self.op, self.lanes, valid_items, dtype)
        if init is not None and is_items(init, type_of(x)):
            raise DSLTypeError(f"init must be one {type_of(x)}, got {init!r}")
        self.start = None if init is None else convert(init, type_of(x), "init")
        if self.valid is None:
            self.raw = moves.inclusive(x, self.op, self.lanes, self.place)
        else:
            self.raw = _inclusive_valid(x, self.op, self.lanes, self.place, self.valid)
        self.prefix: Element | None = None

    def _before(self) -> Element:
        """What all lanes before this one bring, after the start; in the first the start, or the identity."""
        if self.prefix is None:
            moved = self.moves.before(self.raw, self.op, self.lanes, self.place)
            if self.start is not None:
                # Of the first lane there is none before; without an identity it must not be combined.
                known = identity_of(self.op, moved) is not None
                made = _seeded(self.op, self.start, moved, self.place, self.valid)
                moved = made if known else select(self.place == 0, self.start, made)
            self.prefix = moved
        return self.prefix

    def inclusive(self) -> Any:
        """Up to this one."""
        if self.many:
            return from_items([self._after(item) for item in self.items])
        return self.raw if self.start is None else _seeded(self.op, self.start, self.raw, self.place, self.valid)

    def exclusive(self) -> Any:
        """Before this one."""
        if self.many:
            return from_items([self._before(), *(self._after(item) for item in self.items[:-1])])
        return self._before()

    def _after(self, item: Element) -> Element:
        """An item with all that comes before its lane."""
        before = self._before()
        made = combine(self.op, before, item)
        if self.start is not None or identity_of(self.op, item) is not None:
            return made
        return select(self.place == 0, item, made)

    def aggregate(self) -> Any:
        """All of them, without the start."""
        if self.valid is None:
            return self.moves.last(self.raw, self.lanes)
        valid = self.valid
        last = max(valid - 1, 0) if isinstance(valid, int) else (valid > 0).select(valid - 1, Int32(0))
        return from_lane(self.raw, last, self.lanes)


def warp_scan_with_aggregate(
    value: T, op: Operator, *, width: int | None = None, init: Start = None, valid_items: Count = None,
    _dtype: ElementType | None = None,
) -> tuple[T, T, Any]:  # fmt: skip
    """Inclusive scan, exclusive scan, and all elements combined, by shuffles."""
    made = Scan(SHUFFLES, value, op, width, init, valid_items, _dtype)
    return made.inclusive(), made.exclusive(), made.aggregate()


def warp_scan(
    value: T, op: Operator, *, width: int | None = None, init: Start = None, valid_items: Count = None,
    _dtype: ElementType | None = None,
) -> tuple[T, T]:  # fmt: skip
    """Inclusive and exclusive scan, by shuffles."""
    made = Scan(SHUFFLES, value, op, width, init, valid_items, _dtype)
    return made.inclusive(), made.exclusive()


def warp_inclusive_scan(
    value: T, op: Operator, *, width: int | None = None, init: Start = None, valid_items: Count = None,
    _dtype: ElementType | None = None,
) -> T:  # fmt: skip
    """The elements of the lanes up to this one combined, by shuffles."""
    return Scan(SHUFFLES, value, op, width, init, valid_items, _dtype).inclusive()


def warp_exclusive_scan(
    value: T, op: Operator, *, width: int | None = None, init: Start = None, valid_items: Count = None,
    _dtype: ElementType | None = None,
) -> T:  # fmt: skip
    """The elements of the lanes before this one combined, by shuffles."""
    return Scan(SHUFFLES, value, op, width, init, valid_items, _dtype).exclusive()


def warp_broadcast(value: T, source_lane: IntLike, *, width: int | None = None, _dtype: ElementType | None = None) -> T:
    """What lane `source_lane` of the logical warp has; each lane may ask for another.

    >>> flyc.evaluate(lambda: fx.coop.warp_broadcast(fx.lane_id(), 1, width=2), threads=4)
    [1, 1, 3, 3]
    """
    lanes, source = check_width(width), as_numeric(source_lane)
    if not source.is_integer:
        raise DSLTypeError(f"source_lane must be an integer, got {source_lane!r}")
    if source.is_static() and not 0 <= int(source) < lanes:
        raise DSLValueError(f"source_lane must be from 0 to {lanes - 1}, got {int(source)}")
    if isinstance(value, (list, tuple)):
        items = as_items(cast("object", value), _dtype, "value")
        return cast("T", from_items([from_lane(item, Int32(source), lanes) for item in items]))
    whole = type_of(value) if isinstance(value, Vector) and is_items(value, _dtype) else _dtype
    return cast("T", from_lane(as_element(value, whole, "value"), Int32(source), lanes))


class WarpScan(metaclass=WarpMeta):
    """Scans of logical warps of a width, by shuffles."""

    moves: Moves = SHUFFLES

    @classmethod
    def _scan(cls, value: object, op: Operator, init: Start, valid_items: Count, storage: object) -> Scan:
        return Scan(cls.moves, value, op, cls.start(storage), init, valid_items, cls.dtype)

    @classmethod
    def inclusive_scan(
        cls, value: object, op: Operator, *, init: Start = None, valid_items: Count = None, storage: object = None
    ) -> Any:
        """Up to this lane."""
        return cls._scan(value, op, init, valid_items, storage).inclusive()

    @classmethod
    def exclusive_scan(
        cls, value: object, op: Operator, *, init: Start = None, valid_items: Count = None, storage: object = None
    ) -> Any:
        """Before this lane."""
        return cls._scan(value, op, init, valid_items, storage).exclusive()

    @classmethod
    def scan(
        cls, value: object, op: Operator, *, init: Start = None, valid_items: Count = None, storage: object = None
    ) -> tuple[Any, Any]:
        """Both."""
        made = cls._scan(value, op, init, valid_items, storage)
        return made.inclusive(), made.exclusive()

    @classmethod
    def scan_with_aggregate(
        cls, value: object, op: Operator, *, init: Start = None, valid_items: Count = None, storage: object = None
    ) -> tuple[Any, Any, Any]:
        """Both, and all elements combined without `init`."""
        made = cls._scan(value, op, init, valid_items, storage)
        return made.inclusive(), made.exclusive(), made.aggregate()

    @classmethod
    def broadcast(cls, value: object, source_lane: IntLike, *, storage: object = None) -> Any:
        """What a lane of the logical warp has."""
        return warp_broadcast(value, source_lane, width=cls.start(storage), _dtype=cls.dtype)
