"""Memory by real addresses of this process: every access must lie inside something that was handed over."""

from __future__ import annotations

import bisect
import ctypes
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .errors import IsaError

Bytes = NDArray[np.uint8]
Addresses = NDArray[np.uint64]


@dataclass(slots=True)
class Region:
    start: int
    end: int
    name: str
    writable: bool
    data: Bytes = field(repr=False)
    owner: object = field(repr=False, default=None)


def bytes_at(address: int, size: int) -> Bytes:
    """Memory of this process as an array."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


class Memory:
    """What a device can reach."""

    def __init__(self) -> None:
        self._regions: list[Region] = []
        self._starts: list[int] = []

    def add(self, start: int, size: int, name: str, *, writable: bool = True, owner: object = None) -> None:
        """Hand over a range; ranges that overlap become one."""
        if size <= 0:
            return
        end = start + size
        met = [r for r in self._regions if r.start < end and start < r.end]
        if any(r.start <= start and end <= r.end and r.writable == writable for r in met):
            return
        for region in met:
            start, end = min(start, region.start), max(end, region.end)
            writable = writable or region.writable
            name = region.name if region.name == name else f"{region.name} and {name}"
            owner = (owner, region.owner)
            self._regions.remove(region)
        self._regions.append(Region(start, end, name, writable, bytes_at(start, end - start), owner))
        self._regions.sort(key=lambda region: region.start)
        self._starts = [region.start for region in self._regions]

    def remove(self, start: int) -> None:
        self._regions = [region for region in self._regions if region.start != start]
        self._starts = [region.start for region in self._regions]

    def region(self, address: int, size: int, what: str) -> Region:
        """The range that holds all of an access."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at >= 0 and address + size <= self._regions[at].end:
            return self._regions[at]
        near = min(self._regions, key=lambda r: max(r.start - address, address - r.end), default=None)
        place = "" if near is None else f"; the nearest is {near.name}, {near.start:#x} to {near.end:#x}"
        raise IsaError(f"{what} of {size} bytes at {address:#x} is in no memory of this launch{place}")

    def _parts(self, addresses: Addresses, size: int, what: str) -> list[tuple[Region, NDArray[np.bool_] | None]]:
        low, high = int(addresses.min()), int(addresses.max())
        first = self.region(low, size, what)
        if high + size <= first.end:
            return [(first, None)]
        left = np.ones(len(addresses), np.bool_)
        parts: list[tuple[Region, NDArray[np.bool_] | None]] = []
        while left.any():
            region = self.region(int(addresses[left][0]), size, what)
            here = left & (addresses >= region.start) & (addresses + np.uint64(size) <= region.end)
            parts.append((region, here))
            left &= ~here
        return parts

    def read(self, addresses: Addresses, size: int, what: str) -> Bytes:
        """`size` bytes at each address."""
        out = np.empty((len(addresses), size), np.uint8)
        if not len(addresses):
            return out
        span = np.arange(size, dtype=np.int64)
        for region, here in self._parts(addresses, size, what):
            chosen = addresses if here is None else addresses[here]
            offsets = (chosen - np.uint64(region.start)).astype(np.int64)
            found = region.data[offsets[:, None] + span]
            if here is None:
                return found
            out[here] = found
        return out

    def write(self, addresses: Addresses, data: Bytes, what: str) -> None:
        """Rows of bytes to each address; of two lanes that write one place the last wins."""
        if not len(addresses):
            return
        size = data.shape[1]
        span = np.arange(size, dtype=np.int64)
        for region, here in self._parts(addresses, size, what):
            if not region.writable:
                raise IsaError(f"{what} writes {region.name}, which is read-only")
            chosen = addresses if here is None else addresses[here]
            offsets = (chosen - np.uint64(region.start)).astype(np.int64)
            region.data[offsets[:, None] + span] = data if here is None else data[here]
