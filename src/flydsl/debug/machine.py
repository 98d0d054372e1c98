"""Blocks and their threads: who runs when.

The order is the cpu stack's (`cpu/code/block.py`): the threads of a block in turn, each until it waits; collectives of
a unit as soon as nobody in it runs; barriers when nobody can go on otherwise; the blocks of a cluster in turns. It is
the same every time, so a place in a run is a number of steps.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import GeneratorType

from ..cpu.code.block import (
    BARRIER,
    BLOCK_IDS,
    CLUSTER,
    EXCHANGE,
    MAX_THREADS,
    POLL,
    PROGRESS,
    RANK,
    SHARED,
    SITE_MASK,
    WAIT,
)
from ..cpu.code.clusters import BLOCKS, EXPECTED, EXTENTS, STATES, STRIDE
from ..errors import KernelDeadlockError
from .kinds import Value, kind
from .memory import Memory, Room, clear
from .routines import Routines
from .shadow import Checker
from .writer import Kernel

POLL_LIMIT = 4096
"""Rounds in which threads only look at memory before they are given up."""
RECORD = 64
_I32, _I64 = kind("i32"), kind("i64")

OnLine = Callable[["Thread", int], None]
"""Is told that a thread comes to a mark; may raise to leave the run."""


class Thread:
    """A thread of a block."""

    def __init__(self, block: BlockRun, tid: int):
        self.block, self.tid = block, tid
        nx, ny, _ = block.size
        self.ids = (tid % nx, tid // nx % ny, tid // (nx * ny))
        self.status = 1
        """What it waits for, as the scheduler says it; 0 when it has ended."""
        self.mark = -1
        """Where it is: the last line it began, as a number of a mark."""
        self.code: GeneratorType[int, None, None]
        self.rooms: dict[int, tuple[int, int]] = {}
        """Address and bytes of its registers in memory, by the number of the allocation."""

    def room(self, key: int, nbytes: int, align: int) -> int:
        """Memory for registers that are indexed at run time."""
        if key not in self.rooms:
            self.rooms[key] = (self.block.take(nbytes, align), nbytes)
        return self.rooms[key][0]

    def value(self, name: str) -> Value:
        """A value of the code by its name; the thread stands at a mark."""
        if name.lstrip("-").isdigit():
            return int(name)
        frame = self.code.gi_frame
        if frame is None:
            return None  # the thread has ended, and its values are gone
        found = frame.f_locals
        return found[name] if name in found else self.block.kernel.constants.get(name)


class BlockRun:
    """A block that runs. What its code calls is here."""

    def __init__(self, kernel: Kernel, memory: Memory, routines: Routines, room: Room, size: Sequence[int]):
        self.kernel, self.memory, self._routines, self._room = kernel, memory, routines, room
        self.size = tuple(size)
        self.count = size[0] * size[1] * size[2]
        self.unit, self.slot = kernel.how.unit, kernel.how.slot
        units = -(-self.count // self.unit)
        self._half = units * self.unit * self.slot
        self._state_bytes = EXCHANGE + 2 * self._half
        self.state = room.take(self._state_bytes)
        self.ids: tuple[int, ...] = (0, 0, 0)
        self.grid: tuple[int, ...] = (1, 1, 1)
        self.number = 0
        """Of the block in the grid, x fastest."""
        self.shared = 0
        self.checker: Checker | None = None
        """Whoever looks at floats, in kernels that have shadows."""
        self.threads: list[Thread] = []
        self._registers: list[tuple[int, int]] = []
        self._used = 0

    def start(self, ids: tuple[int, int, int], grid: tuple[int, int, int], rank: int, shared: int, record: int) -> None:
        """Forget what was before and stand at the beginning."""
        self.ids, self.grid, self.shared = ids, grid, shared
        self.number = ids[0] + grid[0] * (ids[1] + grid[1] * ids[2])
        clear(self.state, self._state_bytes)
        put = self._put
        put(self.state + CLUSTER, record)
        put(self.state + RANK, rank)
        put(self.state + SHARED, shared)
        for i, x in enumerate(ids):
            put(self.state + BLOCK_IDS + 8 * i, x)
        first = self.state + EXCHANGE
        starts = range(first, first + self._half, self.unit * self.slot) if self._half else ()
        self._deposit = list(starts)
        self._shown = [at + self._half for at in starts]
        self._left: dict[int, Value] = {}
        self._visible: dict[int, Value] = {}
        self._took = bytearray(max(self.count, MAX_THREADS))
        self._used = 0

    def _put(self, address: int, value: int) -> None:
        """Write to the block's own records, which no journal keeps."""
        journal, self.memory.journal = self.memory.journal, None
        self.memory.store(_I64, value, address)
        self.memory.journal = journal

    def take(self, nbytes: int, align: int) -> int:
        """Memory of a thread; the same at every run of the block."""
        while self._used < len(self._registers):
            address, size = self._registers[self._used]
            self._used += 1
            if size == nbytes:
                clear(address, nbytes)
                return address
        made = self._room.take(max(nbytes, 1), align)
        self._registers.append((made, nbytes))
        self._used += 1
        return made

    # --- what code calls ------------------------------------------------------------------------------------------

    def call(self, name: str, tid: int, *args: Value) -> Value:
        """A routine."""
        return self._routines.call(name, self.state, tid, *args)

    def touch(self) -> None:
        """An atomic update of memory: whoever polls may go on."""
        self.progress += 1

    def print(self, text: str) -> None:
        if not self.memory.now.silent:
            sys.stdout.write(text)
            sys.stdout.flush()

    def leave(self, tid: int, value: Value) -> None:
        """A value for the warp."""
        self._left[tid] = value

    def shown(self, tid: int, lane: int) -> Value:
        """What a lane of the warp left before the warp met."""
        at = (tid & -self.kernel.warp) + int(lane)
        return self._visible.get(at, self._visible[tid])

    def _lanes(self, tid: int) -> range:
        first = tid & -self.kernel.warp
        return range(first, min(first + self.kernel.warp, self.count))

    def ballot(self, tid: int, wanted: bool = True) -> int:
        """A bit for each lane that came and said so."""
        first = tid & -self.kernel.warp
        return sum(1 << (t - first) for t in self._lanes(tid) if self._took[t] and bool(self._visible[t]) == wanted)

    def first(self, tid: int) -> int:
        """The first lane that came."""
        return next(t for t in self._lanes(tid) if self._took[t]) - (tid & -self.kernel.warp)

    def region(self, writes: bool, tid: int, group: int) -> int:
        """Where a group's data is: to write, or to read."""
        start = (self._deposit if writes else self._shown)[tid // self.unit]
        inside = tid & (self.unit - 1) & -group
        return start + inside * self.slot

    # --- turns ----------------------------------------------------------------------------------------------------

    @property
    def progress(self) -> int:
        return self.memory.load(_I64, self.state + PROGRESS)

    @progress.setter
    def progress(self, value: int) -> None:
        self._put(self.state + PROGRESS, value)

    def begin(self, arguments: Sequence[Value], on_line: OnLine) -> None:
        """Start every thread and run the first stretch of each."""
        self._on_line = on_line
        self.threads = [Thread(self, tid) for tid in range(self.count)]
        for thread in self.threads:
            thread.code = self.kernel.thread(self.memory, self, thread, *arguments)
        for begin in range(0, self.count, self.unit):
            end = min(begin + self.unit, self.count)
            for tid in range(begin, end):
                self.resume(self.threads[tid])
            self._drain(begin, end, False)

    def resume(self, thread: Thread) -> None:
        """Run a thread until it waits or ends."""
        now = self.memory.now
        now.block, now.thread, now.site = self.number, thread.tid, thread.mark
        on_line = self._on_line
        for event in thread.code:
            if event < 0:
                thread.status = -event
                return
            thread.mark = now.site = event
            now.step += 1
            on_line(thread, event)
        thread.status = 0
        if self.kernel.how.cluster is not None:
            self.call("fly_cluster_leave", thread.tid)

    def _drain(self, begin: int, end: int, force: bool) -> int:
        """Run the collectives of a unit until none of its threads waits at one."""
        count = 0
        while True:
            statuses = [t.status for t in self.threads[begin:end]]
            sites = [s for s in statuses if 0 < s < BARRIER]
            if not sites or (any(s >= WAIT for s in statuses) and not force):
                return count
            low = min(sites)
            u = begin // self.unit
            goes = [t for t in self.threads[begin:end] if t.status == low]
            if self.slot:
                self._swap(u, begin, end, low, any(s != low for s in sites))
            for t in self.threads[begin:end]:
                self._took[t.tid] = t.status == low
            for t in goes:
                if t.tid in self._left:
                    self._visible[t.tid] = self._left[t.tid]
            for t in goes:
                self.resume(t)
            count += 1

    def _swap(self, u: int, begin: int, end: int, low: int, behind: bool) -> None:
        """What was written is read now; threads that wait elsewhere take along what they wrote."""
        old, new = self._deposit[u], self._shown[u]
        self._deposit[u], self._shown[u] = new, old
        if not behind:
            return
        for t in self.threads[begin:end]:
            if t.status != low:
                at = (t.tid - begin) * self.slot
                self.memory.write(new + at, self.memory.read(old + at, self.slot))

    def turn(self) -> int:
        """Go on until every thread has ended (0), or those that wait for memory achieve nothing (1; 2 if they poll)."""
        while True:
            before = self.progress
            statuses = [t.status for t in self.threads]
            most = max(statuses)
            if most == 0:
                return 0
            least = WAIT if most >= WAIT else 1
            if most < WAIT:
                self.progress = before + 1
            for begin in range(0, self.count, self.unit):
                end = min(begin + self.unit, self.count)
                for thread in self.threads[begin:end]:
                    if thread.status >= least:
                        self.resume(thread)
                self._drain(begin, end, False)
            if self.progress == before:
                return 2 if most >= POLL else 1

    def force(self) -> int:
        """Let collectives run although threads of their units wait for memory."""
        return sum(
            self._drain(begin, min(begin + self.unit, self.count), True) for begin in range(0, self.count, self.unit)
        )

    def stuck(self) -> dict[int, Thread]:
        """The first thread at each place where threads wait in vain."""
        found: dict[int, Thread] = {}
        for thread in self.threads:
            if thread.status >= WAIT:
                found.setdefault(thread.status & SITE_MASK, thread)
        return found


class ClusterRun:
    """The blocks that run together: a cluster, or a single block."""

    def __init__(self, kernel: Kernel, memory: Memory, size: Sequence[int], dynamic: int):
        self.kernel, self.memory = kernel, memory
        self.room = Room()
        routines = Routines(memory)
        x, y, z = kernel.how.cluster or (1, 1, 1)
        self.extents = (x, y, z)
        self.blocks = [BlockRun(kernel, memory, routines, self.room, size) for _ in range(x * y * z)]
        self.bytes = -(-max(kernel.shared.reserved + dynamic, 16) // 1024) * 1024
        self.shared = self.room.take(self.bytes * len(self.blocks), 1024)
        self.record = self.room.take(RECORD)
        self.states = self.room.take(8 * len(self.blocks))

    def run(self, number: int, grid: tuple[int, int, int], arguments: Sequence[Value], on_line: OnLine) -> None:
        """Run a cluster of the grid to its end."""
        self._start(number, grid)
        for block in self.blocks:
            block.begin(arguments, on_line)
        idle = 0
        while True:
            before = [b.progress for b in self.blocks]
            codes = [b.turn() for b in self.blocks]
            if not any(codes):
                return
            moved = [b.progress for b in self.blocks] != before
            if not moved:
                moved = any([b.force() for b in self.blocks])
            idle = 0 if moved else idle + 1
            if idle > (POLL_LIMIT if 2 in codes else 0):
                self._deadlock()

    def _start(self, number: int, grid: tuple[int, int, int]) -> None:
        clear(self.shared, self.bytes * len(self.blocks))
        clear(self.record, RECORD)
        put = self.blocks[0]._put  # pyright: ignore[reportPrivateUsage]
        size = self.blocks[0].count * len(self.blocks)
        put(self.record + EXPECTED, size)
        put(self.record + STRIDE, self.bytes)
        put(self.record + STATES, self.states)
        put(self.record + BLOCKS, len(self.blocks))
        put(self.record + EXTENTS, self.extents[0] | self.extents[1] << 32)
        put(self.record + EXTENTS + 8, self.extents[2])
        cx, cy, cz = self.extents
        across, along = grid[0] // cx, grid[1] // cy
        at = (number % across, number // across % along, number // (across * along))
        for rank, block in enumerate(self.blocks):
            inside = (rank % cx, rank // cx % cy, rank // (cx * cy))
            x, y, z = (a * c + i for a, c, i in zip(at, (cx, cy, cz), inside, strict=True))
            put(self.states + 8 * rank, block.state)
            block.start((x, y, z), grid, rank, self.shared + rank * self.bytes, self.record)

    def _deadlock(self) -> None:
        lines: list[str] = []
        for block in self.blocks:
            for site, thread in block.stuck().items():
                text = self.kernel.sites.get(site, "a wait never ends")
                lines.append(f"{text}: thread {thread.ids}, block {block.ids}")
        raise KernelDeadlockError(
            f"deadlock in kernel {self.kernel.name}: all threads wait and none can change what is waited for:\n"
            + "\n".join(lines),
            kernel=self.kernel.name,
        )
