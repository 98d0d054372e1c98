"""The place of each key of a block when it is sorted by some of its bits, without moving it.

Lanes of a warp with the same digit find each other by votes, so each warp needs one counter per digit. The counters of
the warps are added up per digit and the digits scanned over the block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, cast

from ....errors import DSLTypeError, DSLValueError
from ....expr.gpu import barrier
from ....expr.numeric import Int32, Numeric, Uint32, as_numeric
from ....expr.tensors.storage import Array
from ....expr.vector import Vector
from .counting import Counting, Ranked, counters
from .elements import Item, Items, is_scalar_class
from .radix_keys import check_bits, check_radix_bits, digit_at, raw_word, word_class
from .scan import BlockScan
from .spec import BlockMeta, Collective, array, loop, part, record

if TYPE_CHECKING:
    from ....expr.annotations import ValueLike
    from ....expr.structs import StructValue


class BlockRadixRankAlgorithm(Enum):
    """Which items a thread brings, and when counts are known.

    >>> fx.coop.BlockRadixRankAlgorithm.EARLY_COUNTS.name
    'MATCH_EARLY_COUNTS_ANY'
    """

    BASIC = "basic"
    """Thread t brings neighbouring keys. The default."""
    MEMOIZE = "memoize"
    """The same: the counters of a warp leave nothing to keep in registers."""
    MATCH = "match"
    """Keys are warp-striped; a callback gets the counts after the ranks are known within warps."""
    MATCH_EARLY_COUNTS_ANY = "match_early_counts_any"
    """Keys are warp-striped; they are counted first, for a callback that gets the counts early."""
    MATCH_EARLY_COUNTS_ATOMIC_OR = "match_early_counts_atomic_or"
    """The same: lanes find each other by votes here too."""
    EARLY_COUNTS = "match_early_counts_any"


_R = BlockRadixRankAlgorithm
_BLOCKED = (_R.BASIC, _R.MEMOIZE)
_EARLY = (_R.MATCH_EARLY_COUNTS_ANY, _R.MATCH_EARLY_COUNTS_ATOMIC_OR)


def _word_class(cls: BlockMeta) -> type[Numeric]:
    """What digits are taken from: the bits of integer keys, or the digit that a function gives."""
    if is_scalar_class(cls.dtype) and not cls.dtype.is_float and cls.dtype.width > 32:
        return word_class(cls.__name__, cls.dtype)
    return Uint32


def _storage(cls: BlockMeta) -> type[StructValue]:
    bits = cast("type[BlockRadixRank]", cls).configured_radix_bits
    return record(
        counting=counters(cls, bits), words=Array[_word_class(cls), cls.tile_items],
        order=Array[Int32, cls.tile_items],
    )  # fmt: skip


class BlockRadixRank(Collective):
    """The rank of each key by its bits: `R = fx.coop.BlockRadixRank[fx.Uint32, 128, 4]`, `r = R(keys, storage=s)`.

    Ranks are those of a stable sort by bits `begin_bit` up to `end_bit` of integer keys, taken as unsigned, or by the
    digit that `digit_extractor` gives of any key. `BlockRadixRank.with_radix_bits(4)[...]` has counters for digits of
    four bits instead of eight; wider ranges take several passes. `count_callback` gets the counts of the thread's
    digits, and `with_prefix` gives the number of keys before each of these, too. Every thread must call; a barrier
    belongs between two calls that use one storage.

    >>> def ranks():
    ...     R = fx.coop.BlockRadixRank.with_radix_bits(2)[fx.Int32, 8, 1]
    ...     scratch = fx.SharedAllocator().allocate(R.SharedStorage).peek()
    ...     return R(fx.thread_idx.x, storage=scratch, end_bit=1)
    >>> flyc.evaluate(ranks, threads=8)
    [0, 4, 1, 5, 2, 6, 3, 7]
    """

    sized_by = "items_per_thread"
    algorithms = dict.fromkeys(BlockRadixRankAlgorithm, _storage)
    configured_radix_bits: ClassVar[int] = 8
    """Bits of the digits that there are counters for."""
    scan_type = BlockScan

    @classmethod
    def with_radix_bits(cls, radix_bits: int) -> type[BlockRadixRank]:
        """The same for other digits, before it is specialized: memory grows with two to the power of their bits."""
        if cls.is_specialized:
            raise DSLTypeError(f"{cls.__name__} is specialized already: BlockRadixRank.with_radix_bits(...)[...]")
        bits = check_radix_bits(cls.__name__, radix_bits, 30)
        return type(cls)(cls.__name__, (cls,), {"__doc__": cls.__doc__, "configured_radix_bits": bits})

    @classmethod
    def run(
        cls, keys: ValueLike | object, *, storage: object, descending: bool = False, begin_bit: int = 0,
        end_bit: int | None = None, digit_extractor: Callable[..., object] | None = None,
        radix_bits: int | None = None, count_callback: Callable[..., object] | None = None, with_prefix: bool = False,
    ) -> Items | tuple[Items, Items]:  # fmt: skip
        """The ranks, with the number of keys before the thread's digits if asked."""
        held = cls.start(storage)
        items, form = cls.split(keys, cls.items_per_thread)
        first, last, bits = cls._passes(begin_bit, end_bit, digit_extractor, radix_bits)
        if count_callback is not None and cls.algorithm in _BLOCKED:
            raise DSLValueError(f"{cls.__name__}: {cls.algorithm.name} has no count_callback; take a MATCH algorithm")
        if (with_prefix or count_callback is not None) and last - first > bits:
            raise DSLValueError(
                f"{cls.__name__}: counts are those of one pass, of at most {bits} bits; got {last - first}: use "
                "BlockRadixRank.with_radix_bits(...)"
            )
        if digit_extractor is None:
            words = [raw_word(cls.__name__, cast("Numeric", item)) for item in items]
        else:
            words = [Uint32(as_numeric(digit_extractor(item))) for item in items]
            first, last = 0, last - first
        counting = Counting(cls, part(held, "counting"), min(bits, max(last - first, 1)), descending)
        digits = _Digits(first, last, bits)
        if digits.passes == 1 and cls.algorithm not in _BLOCKED:
            told = None if count_callback is None else _told(count_callback)
            found = counting.ranks([digits(word, 0) for word in words], told, cls.algorithm in _EARLY)
        else:
            found = cls._sorted(words, digits, counting, held)
        made = form.join(found.ranks, Int32)
        return (made, Vector.from_elements(found.offsets, Int32)) if with_prefix else made

    @classmethod
    def rank(
        cls, keys: ValueLike | object, *, storage: object, descending: bool = False, begin_bit: int = 0,
        end_bit: int | None = None, digit_extractor: Callable[..., object] | None = None,
        radix_bits: int | None = None, count_callback: Callable[..., object] | None = None, with_prefix: bool = False,
    ) -> Items | tuple[Items, Items]:  # fmt: skip
        """The same as a call of the class."""
        cls.check_specialized()
        return cls.run(
            keys, storage=storage, descending=descending, begin_bit=begin_bit, end_bit=end_bit,
            digit_extractor=digit_extractor, radix_bits=radix_bits, count_callback=count_callback,
            with_prefix=with_prefix,
        )  # fmt: skip

    @classmethod
    def _passes(cls, begin: object, end: object, extractor: object, radix_bits: object) -> tuple[int, int, int]:
        """The range of bits, and how many of them a pass takes."""
        most = cls.configured_radix_bits
        if radix_bits is not None:
            check_radix_bits(cls.__name__, radix_bits, 30)
            if cast("int", radix_bits) > most:
                raise DSLValueError(
                    f"{cls.__name__}: there are counters for digits of {most} bits, got radix_bits={radix_bits}; use "
                    "BlockRadixRank.with_radix_bits(...)"
                )
        if extractor is not None:
            if radix_bits is None:
                raise DSLValueError(f"{cls.__name__}: digit_extractor needs radix_bits=, the bits of its digits")
            bits = cast("int", radix_bits)
            first, last = check_bits(cls.__name__, begin, cast("int", begin) + bits if end is None else end, 2**31)
            if last - first != bits:
                raise DSLValueError(f"{cls.__name__}: a digit of {bits} bits is not bits {first} to {last}")
            return first, last, bits
        if not is_scalar_class(cls.dtype) or cls.dtype.is_float:
            raise DSLTypeError(
                f"{cls.__name__}: ranks go by the bits of integers; keys of {cls.dtype} need a digit_extractor"
            )
        if end is None and radix_bits is not None:
            end = min(cast("int", begin) + cast("int", radix_bits), cls.dtype.width)
        first, last = check_bits(cls.__name__, begin, end, cls.dtype.width)
        return first, last, most if radix_bits is None else cast("int", radix_bits)

    @classmethod
    def _sorted(cls, words: Sequence[Numeric], digits: _Digits, counting: Counting, held: StructValue) -> Ranked:
        """Ranks by several passes, or of keys that are not warp-striped: passes work on warp-striped places."""
        kept, order = array(held, "words"), array(held, "order")
        own = cls.blocked_places() if cls.algorithm in _BLOCKED else cls.warp_striped_places()
        places = cls.warp_striped_places()
        kind = _word_class(cls)
        for place, word in zip(own, words, strict=True):
            kept[place] = kind(word)
            order[place] = place
        barrier()

        def one(number: Int32 | int) -> Ranked:
            origins = [cast("Int32", order[place]) for place in places]
            found = counting.ranks([digits(cast("Numeric", kept[origin]), number) for origin in origins])
            for rank, origin in zip(found.ranks, origins, strict=True):
                order[cast("Int32", rank)] = origin
            barrier()
            return found

        def again(number: Int32, state: list[Item]) -> list[Item]:
            one(number)
            return state

        found = one(0) if digits.passes == 1 else Ranked([], [])
        if digits.passes > 1:
            loop(digits.passes, [Int32(0)], again, unroll=1)
        # The order says which key comes at a place; ranks say at which place a key comes.
        origins = [cast("Int32", order[place]) for place in places]
        barrier()
        for place, origin in zip(places, origins, strict=True):
            order[origin] = place
        barrier()
        return Ranked([cast("Item", order[place]) for place in own], found.offsets)


class _Digits:
    """The digits of the passes over a range of bits."""

    def __init__(self, first: int, last: int, bits: int):
        self.first, self.last, self.bits = first, last, bits
        self.passes = max(-(-(last - first) // bits), 1)

    def __call__(self, word: Numeric, number: Int32 | int) -> Int32:
        """The digit of a pass."""
        done = number * self.bits
        return digit_at(word, self.first + done, self.bits, self.last - self.first - done)


def _told(callback: Callable[..., object]) -> Callable[[list[Int32]], object]:
    return lambda counts: callback(Vector.from_elements(counts, Int32))
