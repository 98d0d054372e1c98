"""Digits counted by warps: how many keys of a block come before each, in a stable order.

Lanes of a warp with the same digit find each other by votes, so that each warp needs one counter per digit and one lane
adds to it for all of them. The counters of the warps are added up per digit and the digits scanned over the block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ....expr.atomics import atomic_add
from ....expr.control.control_flow import if_expr
from ....expr.gpu import ballot, barrier, shuffle_idx
from ....expr.math import ctpop, cttz
from ....expr.numeric import Int32, Numeric, Uint32, Uint64
from ....expr.structs import StructValue
from ....expr.tensors.storage import Array
from ....expr.vector import Vector
from ....ir.enums import ReductionOp
from .scan import BlockScan
from .spec import BlockMeta, array, loop, part, record, store_if

if TYPE_CHECKING:
    from ....expr.structs import StructValue
    from .elements import Item


def counters(cls: BlockMeta, bits: int) -> type[StructValue]:
    """Shared memory to count digits of so many bits."""
    return record(
        counts=Array[Int32, cls.num_warps << bits], offsets=Array[Int32, 1 << bits], scan=_scan(cls).SharedStorage
    )


def _scan(cls: BlockMeta) -> type[BlockScan]:
    return BlockScan[Int32, cls.block_size]


@dataclass(frozen=True)
class Ranked:
    """Ranks of a thread's keys, and how many keys come before the digits that the thread counts."""

    ranks: list[Item]
    offsets: list[Int32]


class Counting:
    """Counts of the digits of a block's warp-striped keys."""

    def __init__(self, cls: BlockMeta, held: StructValue, bits: int, descending: bool):
        self.cls, self.bits, self.descending = cls, bits, descending
        self.bins = 1 << bits
        self.counts, self.offsets = array(held, "counts"), array(held, "offsets")
        self.scan, self.scan_storage = _scan(cls), part(held, "scan")

    def ranks(
        self, digits: Sequence[Int32], told: Callable[[list[Int32]], object] | None = None, early: bool = False
    ) -> Ranked:
        """The ranks of the keys; `told` gets the counts, before the ranks within warps are known if `early`."""
        rank, lanes = self.cls.thread_rank(), self.cls.warp_threads
        mine, lane = rank // lanes * self.bins, rank % lanes
        self.clear(rank)
        if early:
            for digit in digits:
                atomic_add(self.counts.ptr + (mine + digit), Int32(1))
            barrier()
            offsets = self.add_up(rank, told)
            bases = [cast("Int32", self.counts[mine + digit]) for digit in digits]
            barrier()
            self.clear(rank)
            places = [self.place(digit, mine, lane) for digit in digits]
        else:
            places = [self.place(digit, mine, lane) for digit in digits]
            barrier()
            offsets = self.add_up(rank, told)
            bases = [cast("Int32", self.counts[mine + digit]) for digit in digits]
        made: list[Item] = []
        for digit, base, place in zip(digits, bases, places, strict=True):
            made.append(cast("Int32", self.offsets[digit]) + base + place)
        return Ranked(made, offsets)

    def clear(self, rank: Int32) -> None:
        """All counters are zero."""
        size, threads = self.cls.num_warps * self.bins, self.cls.block_threads
        whole, rest = divmod(size, threads)

        def some(i: Int32, state: list[Item]) -> list[Item]:
            self.counts[rank + i * threads] = Int32(0)
            return state

        if whole:
            loop(whole, [Int32(0)], some)
        if rest:
            store_if(rank < rest, self.counts, rank + whole * threads, Int32(0))
        barrier()

    def place(self, digit: Int32, mine: Int32, lane: Int32) -> Int32:
        """How many keys with this digit the warp has had before: in its earlier items, and in the lanes before."""
        peers = self.peers(digit)
        kind = type(peers)
        before = Int32(ctpop(peers & ((kind(1) << kind(lane)) - kind(1))))

        def add() -> Int32:
            return Int32(atomic_add(self.counts.ptr + (mine + digit), Int32(ctpop(peers))))

        first = Int32(if_expr(before == 0, add, lambda: Int32(0)))
        return shuffle_idx(first, Int32(cttz(peers)), self.cls.warp_threads) + before

    def peers(self, digit: Int32) -> Numeric:
        """A bit for each lane of the warp that has the same digit."""
        lanes = self.cls.warp_threads
        kind = Uint64 if lanes > 32 else Uint32
        found: Numeric = kind((1 << lanes) - 1)
        for bit in range(self.bits):
            on = (digit >> bit & 1) != 0
            votes = kind(ballot(on))
            found = found & on.select(votes, ~votes)
        return found

    def add_up(self, rank: Int32, told: Callable[[list[Int32]], object] | None) -> list[Int32]:
        """Counters become the number of keys of the digit in warps before, offsets those of digits before."""
        threads, warps, bins = self.cls.block_threads, self.cls.num_warps, self.bins
        many = -(-bins // threads)
        mine = [rank * many + i for i in range(many)]
        padded = many * threads != bins

        def total(bin_: Int32) -> Int32:
            def warp(w: Int32, state: list[Item]) -> list[Item]:
                at = w * bins + bin_
                here = cast("Int32", self.counts[at])
                self.counts[at] = state[0]
                return [cast("Int32", state[0]) + here]

            return cast("Int32", loop(warps, [Int32(0)], warp)[0])

        def counted(bin_: Int32) -> Int32:
            return Int32(if_expr(bin_ < bins, lambda: total(bin_), lambda: Int32(0))) if padded else total(bin_)

        counts = [counted(bin_) for bin_ in mine]
        if told is not None:
            told(counts)
        before = self.scan.exclusive(Vector.from_elements(counts, Int32), ReductionOp.ADD, storage=self.scan_storage)
        offsets = [cast("Int32", item) for item in cast("Vector", before)]
        if self.descending:
            keys = self.cls.tile_items
            offsets = [keys - offset - count for offset, count in zip(offsets, counts, strict=True)]
        for bin_, offset in zip(mine, offsets, strict=True):
            if padded:
                store_if(bin_ < bins, self.offsets, bin_, offset)
            else:
                self.offsets[bin_] = offset
        barrier()
        return offsets
