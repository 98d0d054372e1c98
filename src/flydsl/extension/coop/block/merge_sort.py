"""A stable sort of the items of a block by any order: each thread sorts its own, then runs of them are merged."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, cast

from ....errors import DSLTypeError
from ....expr.control.control_flow import truth
from ....expr.gpu import barrier
from ....expr.numeric import Boolean, Int32, Numeric
from ....expr.tensors.storage import Array
from .elements import Form, Item, Items, filled, is_scalar_class, select, split
from .spec import BlockMeta, Collective, array, least, loop, most, record

if TYPE_CHECKING:
    from ....expr.annotations import IntLike, ValueLike
    from ....expr.structs import StructValue

    Order = Callable[[Item, Item], Boolean]
    CompareOp = Callable[..., object] | None


class BlockMergeSortAlgorithm(Enum):
    """How a block sorts by comparing.

    >>> fx.coop.BlockMergeSortAlgorithm.MERGE.value
    'merge'
    """

    MERGE = "merge"
    """Runs of twice the length in each round, in shared memory."""


def tiles(cls: BlockMeta) -> type[StructValue]:
    """All keys, and what goes with them."""
    keys = Array[cls.dtype, cls.tile_items]
    if cls.value_dtype is None:
        return record(keys=keys)
    return record(keys=keys, values=Array[cls.value_dtype, cls.tile_items])


def split_pairs(cls: BlockMeta, keys: object, values: object) -> tuple[list[Item], list[Item], Form, Form]:
    """Keys and what goes with them, checked; no values where there are none."""
    found, form = cls.split(keys, cls.items_per_thread)
    if values is None:
        return found, [], form, form
    if cls.value_dtype is None:
        raise DSLTypeError(
            f"{cls.__name__} sorts keys alone; specialize it with (class of keys, class of values) to sort pairs"
        )
    carried, carried_form = split(cls.__name__, cls.value_dtype, values, cls.items_per_thread)
    return found, carried, form, carried_form


class BlockMergeSort(Collective):
    """A stable sort by any order: `M = fx.coop.BlockMergeSort[fx.Int32, 128, 4]`, `sorted = M(keys, storage=s)`.

    `BlockMergeSort[(fx.Int32, fx.Float32), 128, 4]` carries a value with each key. Thread t brings and gets the items
    from `4 * t`. `compare_op(a, b)` says whether a comes before b, by default `a < b`; `descending` turns it around.
    With `valid_items` the rest stays behind them as it is, or becomes `oob_default` with values of zero. Every thread
    must call; a barrier belongs between two calls that use one storage.

    >>> def turned():
    ...     M = fx.coop.BlockMergeSort[fx.Int32, 8, 1]
    ...     scratch = fx.SharedAllocator().allocate(M.SharedStorage).peek()
    ...     return M(fx.thread_idx.x * 5 % 8, storage=scratch, descending=True)
    >>> flyc.evaluate(turned, threads=8)
    [7, 6, 5, 4, 3, 2, 1, 0]
    """

    sized_by = "items_per_thread"
    pairs = "the values"
    algorithms = {BlockMergeSortAlgorithm.MERGE: tiles}

    @classmethod
    def run(
        cls, keys: ValueLike | object, values: object = None, *, storage: object, descending: bool = False,
        compare_op: CompareOp = None, valid_items: IntLike | None = None, oob_default: object = None,
    ) -> Items | tuple[Items, Items]:  # fmt: skip
        """Sorted keys, with their values if there are any."""
        held = cls.start(storage)
        mine, carried, form, carried_form = split_pairs(cls, keys, values)
        valid = None if valid_items is None else cls.count_up_to("valid_items", valid_items, cls.tile_items)
        if valid is not None and oob_default is not None:
            inside = [place < valid for place in cls.blocked_places()]
            fill = filled(cls.__name__, cls.dtype, oob_default)
            mine = [select(here, key, fill) for here, key in zip(inside, mine, strict=True)]
            if cls.value_dtype is not None and carried:
                zero = filled(cls.__name__, cls.value_dtype, 0)
                carried = [select(here, item, zero) for here, item in zip(inside, carried, strict=True)]
        arrays = [array(held, "keys"), *([array(held, "values")] if carried else [])]
        made = _Sort(cls, order_of(cls, compare_op, descending), valid, arrays).sort([mine, carried][: len(arrays)])
        first = form.join(made[0])
        return (first, carried_form.join(made[1])) if carried else first

    @classmethod
    def sort(
        cls, keys: ValueLike | object, values: object = None, *, storage: object, descending: bool = False,
        compare_op: CompareOp = None, valid_items: IntLike | None = None, oob_default: object = None,
    ) -> Items | tuple[Items, Items]:  # fmt: skip
        """The same as a call of the class."""
        cls.check_specialized()
        return cls.run(
            keys, values, storage=storage, descending=descending, compare_op=compare_op, valid_items=valid_items,
            oob_default=oob_default,
        )  # fmt: skip

    @classmethod
    def stable_sort(
        cls, keys: ValueLike | object, values: object = None, *, storage: object, descending: bool = False,
        compare_op: CompareOp = None, valid_items: IntLike | None = None, oob_default: object = None,
    ) -> Items | tuple[Items, Items]:  # fmt: skip
        """The same: every sort here is stable."""
        return cls.sort(
            keys, values, storage=storage, descending=descending, compare_op=compare_op, valid_items=valid_items,
            oob_default=oob_default,
        )  # fmt: skip


def order_of(cls: BlockMeta, compare_op: CompareOp, descending: bool) -> Order:
    """Whether one key comes before another."""
    if compare_op is None and not is_scalar_class(cls.dtype):
        raise DSLTypeError(f"{cls.__name__}: keys of {cls.dtype} have no order of their own; pass compare_op=")
    if compare_op is not None and not callable(compare_op):
        raise DSLTypeError(f"{cls.__name__}: compare_op must be a function of two keys, got {compare_op!r}")

    def before(a: Item, b: Item) -> Boolean:
        if descending:
            a, b = b, a
        if compare_op is None:
            return Boolean(cast("Numeric", a) < cast("Numeric", b))
        return Boolean(truth(compare_op(a, b)))

    return before


class _Sort:
    """One sort: the order, how many items count, and the shared memory of each column."""

    def __init__(self, cls: BlockMeta, before: Order, valid: int | Int32 | None, arrays: list[Array]):
        self.cls, self.before, self.valid, self.arrays = cls, before, valid, arrays
        self.items = cls.items_per_thread
        self.limit: int | Int32 = cls.tile_items if valid is None else valid
        self.first = cls.thread_rank() * self.items

    def sort(self, columns: list[list[Item]]) -> list[list[Item]]:
        """Columns of the thread's items, sorted by the first one over the block."""
        self.sort_own(columns)
        rounds = (self.cls.block_threads - 1).bit_length()
        if not rounds:
            return columns
        flat = loop(rounds, [item for column in columns for item in column], self.merge_round, unroll=1)
        return [flat[i : i + self.items] for i in range(0, len(flat), self.items)]

    def sort_own(self, columns: list[list[Item]]) -> None:
        """By exchanging neighbours, which is stable."""
        keys = columns[0]
        for step in range(self.items):
            for i in range(step % 2, self.items - 1, 2):
                swap = self.before(keys[i + 1], keys[i])
                if self.valid is not None:
                    swap = swap & (self.first + (i + 1) < self.valid)
                for column in columns:
                    a, b = column[i], column[i + 1]
                    column[i], column[i + 1] = select(swap, b, a), select(swap, a, b)

    def merge_round(self, number: Int32, flat: list[Item]) -> list[Item]:
        """Two runs of neighbours become one: each thread finds where its part begins in both, and merges it."""
        columns = [flat[i : i + self.items] for i in range(0, len(flat), self.items)]
        for slots, column in zip(self.arrays, columns, strict=True):
            for i, item in enumerate(column):
                slots[self.first + i] = item
        barrier()
        width = Int32(self.items) << number
        start = self.cls.thread_rank() >> (number + 1)
        start = least((start << (number + 1)) * self.items, self.limit)
        middle = least(start + width, self.limit)
        end = least(middle + width, self.limit)
        ahead = least(self.first, self.limit) - start
        taken = self.split_point(number, start, middle, end, ahead)
        sources = self.merged(start + taken, middle + ahead - taken, middle, end)
        made: list[Item] = []
        for slots, column in zip(self.arrays, columns, strict=True):
            for i, (source, own) in enumerate(zip(sources, column, strict=True)):
                found = cast("Item", slots[source])
                made.append(found if self.valid is None else select(self.first + i < self.limit, found, own))
        barrier()
        return made

    def key(self, at: Int32) -> Item:
        """A key of shared memory; a place behind the last one reads that."""
        return cast("Item", self.arrays[0][most(least(at, self.cls.tile_items - 1), 0)])

    def split_point(self, number: Int32, start: Int32, middle: Int32, end: Int32, ahead: Int32) -> Int32:
        """How many of the first `ahead` merged items come from the first run: the merge path, halved until found."""
        low, high = most(ahead - (end - middle), 0), least(ahead, middle - start)

        def halve(_: Int32, state: list[Item]) -> list[Item]:
            low, high = cast("list[Int32]", state)
            at = (low + high) >> 1
            later = self.before(self.key(middle + ahead - 1 - at), self.key(start + at))
            open_ = low < high
            return [(open_ & ~later).select(at + 1, low), (open_ & later).select(at, high)]

        # The first run has `items << number` items: so many halvings, and one for what is left.
        return cast("Int32", loop(number + (self.items.bit_length() + 1), [low, high], halve, unroll=1)[0])

    def merged(self, a: Int32, b: Int32, middle: Int32, end: Int32) -> list[Int32]:
        """Where the next items come from, with `a` and `b` next in the two runs."""
        first, second = self.key(a), self.key(b)
        sources: list[Int32] = []
        for i in range(self.items):
            right = (b < end) & ((a >= middle) | self.before(second, first))
            source = right.select(b, a)
            sources.append(least(source, self.cls.tile_items - 1))
            a, b = right.select(a, a + 1), right.select(b + 1, b)
            if i + 1 < self.items:
                following = self.key(source + 1)
                first, second = select(right, first, following), select(right, following, second)
        return sources
