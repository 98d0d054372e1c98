"""The largest or smallest items of a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, cast

from ....errors import DSLTypeError, DSLValueError
from ....expr.atomics import atomic_add
from ....expr.control.control_flow import if_, if_expr
from ....expr.gpu import barrier
from ....expr.numeric import Boolean, Int32, Numeric
from ....expr.tensors.storage import Array
from ....expr.vector import Vector
from ....ir.enums import ReductionOp
from .elements import Item, Items, is_scalar_class
from .merge_sort import BlockMergeSort, split_pairs, tiles
from .radix_keys import digit_at, ordered_word
from .scan import BlockScan
from .spec import BlockMeta, Collective, array, loop, part, record, store_if

if TYPE_CHECKING:
    from ....expr.annotations import IntLike, ValueLike
    from ....expr.structs import StructValue


class BlockTopKAlgorithm(Enum):
    """How a block selects.

    >>> fx.coop.BlockTopKAlgorithm.AIR.value
    'air'
    """

    MERGE = "merge"
    """All items are sorted; those selected are sorted too. The default."""
    AIR = "air"
    """The last key that belongs is found digit by digit; those selected stay in their order."""


_BITS = 4
"""Of the digits that a threshold is found by."""


def _refining(cls: BlockMeta) -> type[StructValue]:
    fields = {field.name: field.type for field in tiles(cls).__fields__}
    fields |= {"counts": Array[Int32, 1 << _BITS], "found": Array[Int32, 2], "scan": _scan(cls).SharedStorage}
    return record(**fields)


def _scan(cls: BlockMeta) -> type[BlockScan]:
    return BlockScan[Int32, cls.block_size]


class BlockTopK(Collective):
    """The k largest or smallest items: `T = fx.coop.BlockTopK[fx.Int32, 128, 4]`, `keys, valid = T(x, 10, storage=s)`.

    They come first, thread t getting the items from `4 * t`, and `valid` marks them; all else that comes back says
    nothing. Of equal keys the first ones are selected. `BlockTopK[(fx.Float32, fx.Int32), 128, 4]` carries a value with
    each key, and `keys, values, valid` come back. `num_valid` says how many items count at all. Every thread must call;
    a barrier belongs between two calls that use one storage.

    >>> def three():
    ...     T = fx.coop.BlockTopK[fx.Int32, 8, 1]
    ...     scratch = fx.SharedAllocator().allocate(T.SharedStorage).peek()
    ...     key, valid = T.max_keys(fx.thread_idx.x * 5 % 8, 3, storage=scratch)
    ...     return valid.select(key, -1)
    >>> flyc.evaluate(three, threads=8)
    [7, 6, 5, -1, -1, -1, -1, -1]
    """

    sized_by = "items_per_thread"
    pairs = "the values"
    scan_type = BlockScan
    algorithms = {BlockTopKAlgorithm.MERGE: tiles, BlockTopKAlgorithm.AIR: _refining}

    @classmethod
    def run(
        cls, keys: ValueLike | object, k: IntLike, values: object = None, *, storage: object, largest: bool = True,
        num_valid: IntLike | None = None, compare_op: Callable[..., object] | None = None,
    ) -> tuple[Items, ...]:  # fmt: skip
        """The selected keys, with their values if there are any, and which places hold them."""
        held = cls.start(storage)
        count = cls.count_up_to("k", k, cls.tile_items)
        valid = None if num_valid is None else cls.count_up_to("num_valid", num_valid, cls.tile_items)
        if isinstance(count, int) and isinstance(valid, int) and count > valid:
            raise DSLValueError(f"{cls.__name__}: k must be from 0 to num_valid, got {count} of {valid}")
        mine, carried, form, carried_form = split_pairs(cls, keys, values)
        if cls.algorithm is BlockTopKAlgorithm.MERGE:
            sort = BlockMergeSort[cls.dtype if cls.value_dtype is None else (cls.dtype, cls.value_dtype),
                                  cls.block_size, cls.items_per_thread]  # fmt: skip
            made = sort(keys, values, storage=held, descending=largest, compare_op=compare_op, valid_items=num_valid)
            columns: tuple[Items, ...] = cast("tuple[Items, ...]", made) if carried else (cast("Items", made),)
        else:
            if compare_op is not None:
                raise DSLTypeError(f"{cls.__name__}: AIR goes by the order of numbers; MERGE takes a compare_op")
            if not is_scalar_class(cls.dtype):
                raise DSLTypeError(f"{cls.__name__}: AIR selects scalars, got keys of {cls.dtype}")
            found = _Selection(cls, held, count, valid, largest).select([mine, *([carried] if carried else [])])
            columns = tuple(f.join(c) for f, c in zip((form, carried_form), found, strict=False))
        flags: list[Item] = [place < count for place in cls.blocked_places()]
        return (*columns, form.join(flags, Boolean))

    @classmethod
    def max_keys(
        cls, keys: ValueLike | object, k: IntLike, num_valid: IntLike | None = None, *, storage: object
    ) -> tuple[Items, ...]:
        """The largest keys."""
        return cls._named(keys, k, None, num_valid, storage, True)

    @classmethod
    def min_keys(
        cls, keys: ValueLike | object, k: IntLike, num_valid: IntLike | None = None, *, storage: object
    ) -> tuple[Items, ...]:
        """The smallest keys."""
        return cls._named(keys, k, None, num_valid, storage, False)

    @classmethod
    def max_pairs(
        cls, keys: ValueLike | object, values: object, k: IntLike, num_valid: IntLike | None = None, *, storage: object
    ) -> tuple[Items, ...]:
        """The largest keys with their values."""
        return cls._named(keys, k, values, num_valid, storage, True)

    @classmethod
    def min_pairs(
        cls, keys: ValueLike | object, values: object, k: IntLike, num_valid: IntLike | None = None, *, storage: object
    ) -> tuple[Items, ...]:
        """The smallest keys with their values."""
        return cls._named(keys, k, values, num_valid, storage, False)

    @classmethod
    def _named(
        cls, keys: object, k: IntLike, values: object, num_valid: IntLike | None, storage: object, largest: bool
    ) -> tuple[Items, ...]:
        cls.check_specialized()
        return cls.run(keys, k, values, storage=storage, largest=largest, num_valid=num_valid)


class _Selection:
    """A selection by threshold: digits of the k-th key, the most significant first."""

    def __init__(self, cls: BlockMeta, held: StructValue, count: int | Int32, valid: int | Int32 | None, largest: bool):
        self.cls, self.held, self.count, self.valid, self.largest = cls, held, count, valid, largest
        self.rank = cls.thread_rank()
        self.scan = _scan(cls)

    def select(self, columns: list[list[Item]]) -> list[list[Item]]:
        """The selected items of columns first, in their order."""
        cls, places = self.cls, self.cls.blocked_places()
        words = [ordered_word(cls.__name__, cast("Numeric", key)) for key in columns[0]]
        there = [None if self.valid is None else place < self.valid for place in places]
        threshold, equal = self.threshold(words, there)
        first = [word > threshold if self.largest else word < threshold for word in words]
        below = [_and(test, on) for test, on in zip(first, there, strict=True)]
        ties = [_and(word == threshold, on) for word, on in zip(words, there, strict=True)]
        before = self.counted(ties)
        chosen = [low | (tie & (nth < equal)) for low, tie, nth in zip(below, ties, before, strict=True)]
        targets = self.counted(chosen)
        arrays = [array(self.held, name) for name in ("keys", "values")[: len(columns)]]
        for slots, column in zip(arrays, columns, strict=True):
            for item, target, goes in zip(column, targets, chosen, strict=True):
                store_if(goes, slots, target, item)
        barrier()
        made: list[list[Item]] = []
        for slots, column in zip(arrays, columns, strict=True):
            line: list[Item] = []
            for place, own in zip(places, column, strict=True):

                def read(slots: Array = slots, place: Int32 = place) -> Item:
                    return cast("Item", slots[place])

                def keep(own: Item = own) -> Item:
                    return own

                line.append(cast("Item", if_expr(place < self.count, read, keep)))
            made.append(line)
        return made

    def counted(self, flags: Sequence[Boolean]) -> list[Int32]:
        """How many flags of the block come before each."""
        ones = Vector.from_elements([flag.select(Int32(1), Int32(0)) for flag in flags], Int32)
        before = self.scan.exclusive(ones, ReductionOp.ADD, storage=part(self.held, "scan"))
        barrier()
        return [cast("Int32", item) for item in cast("Vector", before)]

    def threshold(self, words: list[Numeric], there: Sequence[Boolean | None]) -> tuple[Numeric, Int32]:
        """The word of the k-th key, and how many of those that equal it are among the first k."""
        kind = type(words[0])
        passes = -(-kind.width // _BITS)

        def turned(digit: Int32) -> Int32:
            return (1 << _BITS) - 1 - digit if self.largest else digit

        def refine(number: Int32, state: list[Item]) -> list[Item]:
            prefix, left = cast("Numeric", state[0]), cast("Int32", state[1])
            shift = kind.width - (number + 1) * _BITS
            known = [(word >> kind(shift)) >> kind(_BITS) for word in words]
            goal = (prefix >> kind(shift)) >> kind(_BITS)
            digits = [turned(digit_at(word, shift, _BITS, _BITS)) for word in words]
            tests = [_and(word == goal, on) for word, on in zip(known, there, strict=True)]
            digit, before = self.digit_of(digits, tests, left)
            return [prefix | (kind(turned(digit)) << kind(shift)), left - before]

        state = loop(passes, [kind(0), Int32(self.count)], refine, unroll=1)
        return cast("Numeric", state[0]), cast("Int32", state[1])

    def digit_of(self, digits: Sequence[Int32], tests: Sequence[Boolean], left: Int32) -> tuple[Int32, Int32]:
        """The digit of the `left`-th key among those that pass, and how many of these have a smaller one."""
        counts, found, bins = array(self.held, "counts"), array(self.held, "found"), 1 << _BITS
        threads = self.cls.block_threads
        many = -(-bins // threads)
        mine = [self.rank * many + i for i in range(many)]
        for bin_ in mine:
            store_if(bin_ < bins, counts, bin_, Int32(0))
        for i in range(2):
            store_if(self.rank == 0, found, Int32(i), Int32(0))
        barrier()
        for digit, test in zip(digits, tests, strict=True):

            def add(digit: Int32 = digit) -> None:
                atomic_add(counts.ptr + digit, Int32(1))

            if_(test, add, None, ())
        barrier()
        own: list[Int32] = []
        for bin_ in mine:

            def read(bin_: Int32 = bin_) -> Int32:
                return cast("Int32", counts[bin_])

            own.append(Int32(if_expr(bin_ < bins, read, lambda: Int32(0))))
        before = self.scan.exclusive(Vector.from_elements(own, Int32), ReductionOp.ADD, storage=part(self.held, "scan"))
        for bin_, count, smaller in zip(mine, own, cast("Vector", before), strict=True):
            here = (cast("Int32", smaller) < left) & (left <= cast("Int32", smaller) + count)

            def tell(bin_: Int32 = bin_, smaller: Numeric = smaller) -> None:
                found[0], found[1] = bin_, smaller

            if_(here, tell, None, ())
        barrier()
        digit, smaller = cast("Int32", found[0]), cast("Int32", found[1])
        barrier()
        return digit, smaller


def _and(test: Boolean, on: Boolean | None) -> Boolean:
    return test if on is None else test & on
