"""Caches in front of memory that no one keeps up to date.

A line that a load has brought stays, until an instruction drops it: what other blocks write meanwhile is not seen.
Loads of a wider scope go past the cache. Stores go through it, and change what it holds.
"""

from __future__ import annotations

import numpy as np

from .memory import Addresses, Bytes, bytes_at

LINE = 64


class Cache:
    """The lines that one unit has, and their old content where another unit has written since."""

    def __init__(self) -> None:
        self.lines: set[int] = set()
        self.stale: dict[int, Bytes] = {}

    def drop(self) -> None:
        self.lines.clear()
        self.stale.clear()

    def forget(self, lines: set[int]) -> None:
        """Lines that the unit has changed in memory, past its cache."""
        self.lines -= lines
        for line in lines & self.stale.keys():
            del self.stale[line]


def lines_of(addresses: Addresses, size: int) -> set[int]:
    first = addresses // np.uint64(LINE)
    last = (addresses + np.uint64(size - 1)) // np.uint64(LINE)
    found = set(first.tolist())
    return found if size == 1 else found | set(last.tolist())


def before_write(caches: list[Cache], own: Cache | None, addresses: Addresses, data: Bytes) -> None:
    """Keep what other units go on to see, and change what the writer's own cache holds."""
    lines = lines_of(addresses, data.shape[1])
    for cache in caches:
        if cache is own:
            continue
        for line in lines & cache.lines:
            if line not in cache.stale:
                cache.stale[line] = bytes_at(line * LINE, LINE).copy()
    if own is not None and not own.stale.keys().isdisjoint(lines):
        for address, row in zip(addresses.tolist(), data, strict=True):
            for at, byte in enumerate(row):
                kept = own.stale.get((address + at) // LINE)
                if kept is not None:
                    kept[(address + at) % LINE] = byte


def after_read(cache: Cache, addresses: Addresses, data: Bytes) -> Bytes:
    """What a load through a cache brings, where memory has `data`."""
    lines = lines_of(addresses, data.shape[1])
    if not cache.stale.keys().isdisjoint(lines):
        data = data.copy()
        for row, address in enumerate(addresses.tolist()):
            for at in range(data.shape[1]):
                kept = cache.stale.get((address + at) // LINE)
                if kept is not None:
                    data[row, at] = kept[(address + at) % LINE]
    cache.lines |= lines
    return data
