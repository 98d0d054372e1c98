"""What ranks of this process did with symmetric memory, for checked mode: the table that `cpu/code/ranks.py` keeps."""

from __future__ import annotations

import ctypes
import mmap
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .runtime.native import Symbols

RANKS = 64
"""Ranks that are followed."""
ACTIVE, LOCK, COUNT, CLOCKS = 0, 8, 16, 24
RANGES = CLOCKS + 4 * RANKS * RANKS
RANGE = 48
"""Of each array: first byte, byte behind the last; who wrote and who read each byte, what was handed on at each word;
how many words that was."""
LOW, HIGH, WRITTEN, READ, PLACES, MADE = range(0, RANGE, 8)
SYMBOL = "fly_join_ranks"
MOST = 64
"""Arrays that are watched at a time."""
MOST_BYTES = 1 << 30
"""Of an array with all its ranks; larger ones are not watched, as each byte takes ten."""

_INSTALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


class _Range(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("low", "high", "written", "read", "places", "made")]  # noqa: RUF012


class _Table(ctypes.Structure):
    _fields_ = [  # noqa: RUF012
        ("active", ctypes.c_int64),
        ("lock", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("clocks", ctypes.c_uint32 * RANKS * RANKS),
        ("ranges", _Range * MOST),
    ]


assert _Table.ranges.offset == RANGES and ctypes.sizeof(_Range) == RANGE
_table = _Table()
_shadows: dict[int, list[mmap.mmap]] = {}
_size = [0]
"""Ranks of the largest world that is there."""
_changes = threading.Lock()


def install(library: Symbols, rank: int) -> None:
    """Tell checked code where the table is, and whose code it is."""
    if rank < RANKS and SYMBOL in library.symbols:
        _INSTALL(library.address(SYMBOL))(ctypes.addressof(_table), rank)


def begin(size: int) -> None:
    """A world of threads begins: nobody knows of anybody."""
    _size[0] = max(_size[0], min(size, RANKS))
    if not _table.active:
        _table.lock = 0
        ctypes.memset(_table.clocks, 0, ctypes.sizeof(_table.clocks))
        for rank in range(RANKS):
            _table.clocks[rank][rank] = 1
        _table.active = 1


def end() -> None:
    """No world is left."""
    _table.active = _size[0] = 0


def meet() -> None:
    """All ranks are at one place of the host's program: each knows all that was done before."""
    if not _table.active:
        return
    ranks = range(_size[0])
    most = [max(_table.clocks[rank][other] for rank in ranks) for other in ranks]
    for rank in ranks:
        for other in ranks:
            _table.clocks[rank][other] = most[other] + int(rank == other)


def watch(low: int, nbytes: int) -> None:
    """Follow what is done with an array."""
    with _changes:
        if _table.count == MOST or nbytes > MOST_BYTES:
            return
        # Pages of it exist once they are touched.
        made = _shadows[low] = [mmap.mmap(-1, n) for n in (4 * nbytes, 4 * nbytes, 2 * nbytes)]
        addresses = [ctypes.addressof(ctypes.c_char.from_buffer(each)) for each in made]
        _table.ranges[_table.count] = _Range(low, low + nbytes, *addresses, 0)
        _table.count += 1


def forget(low: int) -> None:
    """An array is gone."""
    with _changes:
        shadows = _shadows.pop(low, None)
        if shadows is None:
            return
        for i in range(_table.count):
            if _table.ranges[i].low == low:
                if _table.ranges[i].made:
                    _free_places(shadows[2])
                _table.ranges[i] = _Range.from_buffer_copy(_table.ranges[_table.count - 1])
                _table.count -= 1
                return


def _free_places(places: mmap.mmap) -> None:
    """Checked code has made them by `calloc`."""
    libc = ctypes.CDLL(None)
    libc.free.argtypes = (ctypes.c_void_p,)
    with memoryview(places) as whole, whole.cast("Q") as words:
        for address in filter(None, words):
            libc.free(address)
