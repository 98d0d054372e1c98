"""Memory of this process as kernels see it, with a journal: what was written, by whom, and what was there before.

The journal undoes a kernel's writes, which is how the debugger steps back, and answers who wrote a cell. Every access
is checked against what this process has mapped, so that a wrong address is an error with a line and not the end of the
process.
"""

from __future__ import annotations

import bisect
import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import KernelCheckError
from .kinds import NATIVE, Kind, Value, from_bytes, to_bytes, unpacker

_SPACE = (ctypes.c_ubyte * ((1 << 47) - 1)).from_address(0)
"""All addresses of the process; nothing is read before somebody indexes it."""
_VIEW = memoryview(_SPACE).cast("B")


class Write(NamedTuple):
    """An entry of the journal."""

    address: int
    before: bytes
    after: bytes
    step: int
    """Lines that had run in the launch, over all threads."""
    block: int
    thread: int
    site: int
    """The line that was running, as an index of the kernel's sites; -1 before the first."""


class Now:
    """Who runs at the moment; whoever schedules threads keeps it."""

    __slots__ = ("block", "silent", "site", "step", "thread")

    def __init__(self) -> None:
        self.step, self.block, self.thread, self.site = 0, -1, -1, -1
        self.silent = False
        """Whether the run repeats what was printed before."""


class Watch(NamedTuple):
    """Bytes whose change is to be told."""

    address: int
    nbytes: int
    label: str


class _Ranges:
    """Addresses, as ranges in rising order; the one that was asked for last is found at once."""

    __slots__ = ("_ends", "_high", "_low", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._low, self._high = 1, 0

    def add(self, low: int, high: int) -> None:
        if self._ends and self._ends[-1] == low:
            self._ends[-1] = high
        else:
            self._starts.append(low)
            self._ends.append(high)

    def hold(self, address: int, nbytes: int) -> bool:
        """Whether all of some bytes are in one of the ranges."""
        if self._low <= address and address + nbytes <= self._high:
            return True
        i = bisect.bisect_right(self._starts, address) - 1
        if i < 0 or address + nbytes > self._ends[i]:
            return False
        self._low, self._high = self._starts[i], self._ends[i]
        return True


class Memory:
    """Reads and writes of kernels."""

    def __init__(self, now: Now, *, journal: bool = True):
        self.now = now
        self.journal: list[Write] | None = [] if journal else None
        self.watches: list[Watch] = []
        self.changed: Callable[[Watch, Write], None] | None = None
        """Is told of writes that change what is watched."""
        self._readable, self._writable = _Ranges(), _Ranges()

    # --- what may be touched --------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        maps = Path("/proc/self/maps")
        self._readable, self._writable = _Ranges(), _Ranges()
        if not maps.exists():
            # Nobody can say: everything but the first page.
            for ranges in (self._readable, self._writable):
                ranges.add(4096, len(_SPACE))
            return
        for line in maps.read_text().splitlines():
            span, flags = line.split(" ", 2)[:2]
            low, high = (int(x, 16) for x in span.split("-"))
            if flags[0] == "r" and high <= len(_SPACE):
                self._readable.add(low, high)
                if flags[1] == "w":
                    self._writable.add(low, high)

    def check(self, address: int, nbytes: int) -> None:
        """Refuse to read bytes that this process does not have."""
        if not self._readable.hold(address, nbytes):
            self._refresh()
            if not self._readable.hold(address, nbytes):
                raise KernelCheckError(f"access of {nbytes} bytes at {address:#x}, where this process has no memory")

    def check_write(self, address: int, nbytes: int) -> None:
        """Refuse to write bytes that it may not write."""
        if not self._writable.hold(address, nbytes):
            self.check(address, nbytes)
            self._refresh()
            if not self._writable.hold(address, nbytes):
                raise KernelCheckError(f"write of {nbytes} bytes at {address:#x}, where memory can only be read")

    # --- bytes ----------------------------------------------------------------------------------------------------

    def read(self, address: int, nbytes: int) -> bytes:
        self.check(address, nbytes)
        return bytes(_VIEW[address : address + nbytes])

    def write(self, address: int, data: bytes) -> None:
        nbytes = len(data)
        self.check_write(address, nbytes)
        if self.journal is not None:
            now = self.now
            before = bytes(_VIEW[address : address + nbytes])
            entry = Write(address, before, data, now.step, now.block, now.thread, now.site)
            self.journal.append(entry)
            _VIEW[address : address + nbytes] = data
            if self.watches and self.changed is not None:
                self._tell(entry)
            return
        _VIEW[address : address + nbytes] = data

    def _tell(self, entry: Write) -> None:
        assert self.changed is not None
        for watch in self.watches:
            low = max(watch.address, entry.address)
            high = min(watch.address + watch.nbytes, entry.address + len(entry.after))
            part = slice(low - entry.address, high - entry.address)
            if low < high and entry.before[part] != entry.after[part]:
                self.changed(watch, entry)

    def undo(self, length: int) -> None:
        """Take back the writes since the journal had so many entries."""
        assert self.journal is not None
        for entry in reversed(self.journal[length:]):
            _VIEW[entry.address : entry.address + len(entry.before)] = entry.before
        del self.journal[length:]

    def redo(self, entries: list[Write]) -> None:
        """Bring back writes that were taken back."""
        for entry in entries:
            _VIEW[entry.address : entry.address + len(entry.after)] = entry.after
        self.journal = entries

    def last_writes(self, address: int, nbytes: int = 1) -> list[Write]:
        """Who wrote these bytes, the last writer first."""
        return [
            e
            for e in reversed(self.journal or ())
            if e.address < address + nbytes and address < e.address + len(e.after)
        ]

    # --- values ---------------------------------------------------------------------------------------------------

    def load(self, k: Kind, address: int) -> Value:
        return from_bytes(k, self.read(address, k.nbytes))

    def store(self, k: Kind, value: Value, address: int) -> None:
        self.write(address, to_bytes(k, value))

    def loader(self, k: Kind) -> Callable[[int], Value]:
        """What loads values of a type."""
        nbytes, check = k.nbytes, self.check
        unpack = unpacker(k) if sys.byteorder == "little" else None
        if unpack is not None:

            def load_int(address: int) -> int:
                check(address, nbytes)
                return unpack(_SPACE, address)[0]

            return load_int
        if k.raw and not k.is_struct:
            dtype, count = k.dtype, max(k.count, 1)
            view = np.frombuffer

            def load_array(address: int) -> Value:
                check(address, nbytes)
                return view(_VIEW, dtype, count, address).copy()

            def load_float(address: int) -> Value:
                check(address, nbytes)
                return view(_VIEW, dtype, 1, address)[0]

            return load_array if k.count else load_float
        return lambda address: self.load(k, address)

    def storer(self, k: Kind) -> Callable[[Value, int], None]:
        """What stores values of a type."""
        write = self.write
        if k.count and k.raw:
            return lambda value, address: write(address, value.tobytes())
        if not k.is_float and not k.is_struct and k.bits in NATIVE and not k.count:
            nbytes = k.nbytes
            return lambda value, address: write(address, int(value).to_bytes(nbytes, "little"))
        return lambda value, address: write(address, to_bytes(k, value))


class Room:
    """Memory for a launch that stays where it is: shared memory, registers, the state of blocks."""

    def __init__(self) -> None:
        self._kept: list[Value] = []

    def take(self, nbytes: int, align: int = 64) -> int:
        """Address of so many zeros."""
        made = np.zeros(nbytes + align, np.uint8)
        self._kept.append(made)
        start = int(made.ctypes.data)
        return -(-start // align) * align


def clear(address: int, nbytes: int) -> None:
    """Set memory of our own to zero, outside of any journal."""
    ctypes.memset(address, 0, nbytes)
