"""The memory of launches that record, from before they run until somebody reads it."""

from __future__ import annotations

import atexit
import struct
import threading
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flydsl import config
from flydsl.errors import DSLValueError
from flydsl.runtime.ktrace import layout as L
from flydsl.runtime.ktrace.events import Shape, decode
from flydsl.runtime.ktrace.trace import LaunchTrace, Trace
from flydsl.runtime.side_buffers import SideLaunch, content, device_memory

if TYPE_CHECKING:
    from flydsl.runtime.objects import Buffer

_HIP_TICK = 10.0
"""Nanoseconds of a step of the steady clock of AMD GPUs, which runs at 100 MHz."""


_HELD = 4
"""How many times the memory of a launch may be held at once."""


class RecordedLaunch:
    """A launch and the memory it records into."""

    def __init__(self, launch: SideLaunch, wanted: range | None):
        self._launch = launch
        self._shape = _shape(launch, wanted)
        head = struct.pack(f"<{L.HEAD}q", self._shape.first, self._shape.blocks, *[0] * (L.HEAD - 2))
        self._buffer: Buffer | None = device_memory(launch, head, self._shape.nbytes)
        self._trace: LaunchTrace | None = None

    @property
    def address(self) -> int:
        assert self._buffer is not None
        return self._buffer.ptr

    @property
    def nbytes(self) -> int:
        """Memory it holds until it is read."""
        return 0 if self._buffer is None else self._shape.nbytes

    def launched(self) -> None:
        """The launch was made: whoever records now keeps it."""
        for recorder in tuple(_recorders) or (own_recorder(),):
            recorder.add(self)

    def read(self) -> LaunchTrace:
        """What it recorded; waits for it, and gives the memory back."""
        if self._buffer is not None:
            launch, shape = self._launch, self._shape
            found = decode(content(launch, self._buffer, 0, shape.nbytes), shape)
            self._buffer.free()
            self._buffer = None
            blocks = range(shape.first, shape.first + shape.blocks)
            about = (launch.function, launch.kernel, launch.grid, launch.block, blocks)
            self._trace = LaunchTrace(*about, *found, launch.runtime.kind)
        assert self._trace is not None
        return self._trace


def _shape(launch: SideLaunch, wanted: range | None) -> Shape:
    """As many blocks as there is memory for, of those that are wanted; one at least."""
    first, last = (0, launch.blocks) if wanted is None else (wanted.start, min(wanted.stop, launch.blocks))
    first = min(first, launch.blocks)
    tick = _HIP_TICK if launch.runtime.poses_as_cuda else 1.0
    one = Shape.of(launch.details, launch.threads, first, 1, tick)
    most = config.ktrace.buffer_bytes // (8 * one.units * one.region_words)
    return Shape.of(launch.details, launch.threads, first, max(min(last - first, max(most, 1)), 0), tick)


Blocks = range | tuple[int, int, int] | None
"""Blocks to record: by their numbers, one by its place, or all."""


class Recorder:
    """Keeps launches while it is open."""

    def __init__(self, blocks: Blocks = None):
        self.blocks = blocks
        self._launches: deque[RecordedLaunch] = deque()
        self._lock = threading.Lock()
        self.dropped = 0
        """Launches that were forgotten because there were too many."""

    def add(self, launch: RecordedLaunch) -> None:
        """Keep a launch; of too many, forget the oldest."""
        with self._lock:
            self._launches.append(launch)
            while len(self._launches) > config.ktrace.launches:
                self._launches.popleft()
                self.dropped += 1
            # Memory of many launches is read early: what it holds is smaller than it is.
            held = sum(each.nbytes for each in self._launches)
            for each in tuple(self._launches)[:-1]:
                if held <= _HELD * config.ktrace.buffer_bytes:
                    break
                held -= each.nbytes
                each.read()

    def open(self) -> None:
        """Keep the launches of all threads from now on."""
        _recorders.append(self)

    def close(self) -> None:
        """Keep no more."""
        if self in _recorders:
            _recorders.remove(self)

    def clear(self) -> None:
        """Forget what was kept."""
        with self._lock:
            self._launches.clear()
            self.dropped = 0

    def read(self) -> Trace:
        """What was kept so far; waits for the launches."""
        with self._lock:
            launches = list(self._launches)
        return Trace([launch.read() for launch in launches], self.dropped)


_recorders: list[Recorder] = []
"""Those that are open; where none is, the process's own keeps launches."""
_own: list[Recorder] = []
_lock = threading.Lock()


def own_recorder() -> Recorder:
    """The recorder of launches that no capture asked for: of a process that runs with FLYDSL_KTRACE."""
    with _lock:
        if not _own:
            _own.append(Recorder())
            atexit.register(_write_at_exit)
        return _own[0]


def _write_at_exit() -> None:
    path = config.ktrace.file
    if path is not None:
        own_recorder().read().write(path)


def open_buffer(launch: SideLaunch) -> RecordedLaunch:
    """The memory of a launch that records."""
    wanted = [r.blocks for r in _recorders] or [parse_blocks(config.ktrace.blocks)]
    return RecordedLaunch(launch, _wanted([_numbers(blocks, launch.grid) for blocks in wanted]))


def _wanted(each: Iterable[range | None]) -> range | None:
    """The blocks that all recorders want together."""
    found: range | None = range(0)
    for blocks in each:
        if blocks is None:
            return None
        found = blocks if not found else range(min(found.start, blocks.start), max(found.stop, blocks.stop))
    return found


def _numbers(blocks: Blocks, grid: tuple[int, int, int]) -> range | None:
    if blocks is None or isinstance(blocks, range):
        return blocks
    x, y, z = blocks
    if not all(at < size for at, size in zip(blocks, grid, strict=True)):
        return range(0)
    number = (z * grid[1] + y) * grid[0] + x
    return range(number, number + 1)


def parse_blocks(text: str) -> Blocks:
    """The blocks that a text names.

    >>> parse_blocks("4"), parse_blocks("2:5"), parse_blocks("1,0,0"), parse_blocks("")
    (range(0, 4), range(2, 5), (1, 0, 0), None)
    """
    words = text.replace(" ", "")
    try:
        if not words:
            return None
        if ":" in words:
            first, last = (int(word) for word in words.split(":"))
            return range(first, last)
        numbers = [int(word) for word in words.split(",")]
        if min(numbers) >= 0 and len(numbers) in (1, 3):
            return range(numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1], numbers[2])
    except ValueError:
        pass
    raise DSLValueError(f"blocks of a trace are `x,y,z`, `first:last` or a number, got {text!r}")
