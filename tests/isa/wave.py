"""The state of a wave and of a block, and memory instructions that are under way."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .caches import Cache, after_read, before_write, lines_of
from .errors import IsaError
from .memory import Addresses, Bytes, Memory

Words = NDArray[np.uint32]
Mask = NDArray[np.bool_]

VCC, TTMP, M0, NULL, EXEC = 106, 108, 124, 125, 126
"""Places of special registers in the scalar file."""
SCALAR = 1024
"""Scalar registers are numbered from here where vector registers are numbered too."""
EARLY = 0.25
"""How many memory instructions take effect at once; the others wait until a counter says that they have."""

KINDS = {
    "gfx9": {"load": "vmcnt", "store": "vmcnt", "ds": "lgkmcnt", "smem": "lgkmcnt"},
    "gfx11": {"load": "vmcnt", "store": "vscnt", "ds": "lgkmcnt", "smem": "lgkmcnt"},
    "gfx12": {"load": "loadcnt", "store": "storecnt", "ds": "dscnt", "smem": "kmcnt"},
}
"""Family -> kind of instruction -> the counter that counts it."""


@dataclass(eq=False, slots=True)
class Event:
    """A memory instruction that was issued: it acts on memory once, then its registers get what it brought."""

    kind: str
    text: str
    act: Callable[[], Bytes | None]
    land: Callable[[Bytes], None] | None = None
    registers: tuple[int, ...] = ()
    low: int = 0
    high: int = 0
    """The range of addresses it touches."""
    counters: set[str] = field(default_factory=set[str])
    acted: bool = False
    data: Bytes | None = None


@dataclass(eq=False)
class Cluster:
    """Blocks that start together and can meet."""

    count: int
    blocks: list[Block] = field(default_factory=list["Block"])
    """By their number in the cluster."""
    come: set[Block] = field(default_factory=set["Block"])
    meetings: int = 0
    """How often all have come."""

    def signal(self, block: Block) -> None:
        if block in self.come:
            raise IsaError("a block signals its cluster twice")
        self.come.add(block)
        if len(self.come) == self.count:
            self.come.clear()
            self.meetings += 1


@dataclass(eq=False)
class Block:
    """What waves of a block share."""

    index: tuple[int, int, int]
    lds: Bytes
    waves: list[Wave] = field(default_factory=list["Wave"])
    caches: list[Cache] = field(default_factory=lambda: [Cache()])
    """One for each unit that the block's waves may run on."""
    scalars: Cache = field(default_factory=Cache)
    everyone: list[Cache] = field(default_factory=list[Cache])
    """Those of all blocks of the launch."""
    cluster: Cluster = field(default_factory=lambda: Cluster(1))


class Wave:
    """Registers, program counter, and what is under way."""

    def __init__(self, family: str, lanes: int, vgprs: int, block: Block, memory: Memory, rng: random.Random):
        self.family, self.lanes, self.block, self.memory, self.rng = family, lanes, block, memory, rng
        seed = np.random.default_rng(rng.getrandbits(32))
        # Registers hold anything at the start; most of these words are NaN as numbers.
        self.v: Words = seed.integers(0x7FC00000, 0x80000000, (vgprs, lanes), np.uint32)
        self.vf: NDArray[np.float32] = self.v.view(np.float32)
        self.vi: NDArray[np.int32] = self.v.view(np.int32)
        self.s: Words = seed.integers(0, 1 << 32, 128, np.uint32)
        self.s[NULL] = 0
        self.sf: NDArray[np.float32] = self.s.view(np.float32)
        self.si: NDArray[np.int32] = self.s.view(np.int32)
        self.scc = 0
        self.pc = 0
        self.number = 0
        self.base = 0
        self.scratch: Bytes = np.zeros((lanes, 0), np.uint8)
        self.state = "ready"
        self.mode = 0
        self.place_in_cluster = 0
        """A hardware register: from bit 21 on the number of the block in its cluster, from bit 6 whether it has one."""
        self.executed = 0
        self.signalled = False
        self.met = 0
        """How many meetings of the cluster the wave has waited for."""
        self.pending: dict[int, Event] = {}
        self.queues: dict[str, list[Event]] = {}
        self._order: list[Event] = []
        self.mask: Mask = np.ones(lanes, np.bool_)
        self.full = True
        self.set_exec((1 << lanes) - 1)

    # -- masks -----------------------------------------------------------------------------------------

    def set_exec(self, value: int) -> None:
        if self.lanes == 64:
            self.s[EXEC + 1] = value >> 32
        self.s[EXEC] = value & 0xFFFFFFFF
        self.mask = self.bits(value)
        self.full = bool(self.mask.all())

    def exec(self) -> int:
        low = int(self.s[EXEC])
        return low | int(self.s[EXEC + 1]) << 32 if self.lanes == 64 else low

    def bits(self, value: int) -> Mask:
        """A mask of lanes from a number."""
        raw = np.frombuffer((value & (1 << self.lanes) - 1).to_bytes(self.lanes // 8, "little"), np.uint8)
        return np.unpackbits(raw, bitorder="little").view(np.bool_)

    @staticmethod
    def number_of(mask: Mask) -> int:
        """The number whose bits are a mask of lanes."""
        return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")

    # -- memory through the caches ---------------------------------------------------------------------

    @property
    def cache(self) -> Cache:
        return self.block.caches[self.number % len(self.block.caches)]

    def read(self, addresses: Addresses, size: int, what: str, cache: Cache | None) -> Bytes:
        """What a load sees; through no cache, that is memory."""
        data = self.memory.read(addresses, size, what)
        return data if cache is None or not len(addresses) else after_read(cache, addresses, data)

    def write(self, addresses: Addresses, data: Bytes, what: str, *, atomic: bool = False) -> None:
        if len(addresses):
            before_write(self.block.everyone, None if atomic else self.cache, addresses, data)
            if atomic:
                self.cache.forget(lines_of(addresses, data.shape[1]))
        self.memory.write(addresses, data, what)

    # -- memory instructions under way -----------------------------------------------------------------

    def counter(self, kind: str) -> str:
        return KINDS[self.family][kind]

    def issue(self, event: Event, *counters: str) -> None:
        """Take up a memory instruction."""
        event.counters = {*counters} or {self.counter(event.kind)}
        for name in event.counters:
            self.queues.setdefault(name, []).append(event)
        self._order.append(event)
        for register in event.registers:
            before = self.pending.get(register)
            # Results of one kind come in order, so the later one stays.
            if before is not None and (before.kind != event.kind or before.kind not in ("load", "ds")):
                raise IsaError(f"{event.text} writes a register that {before.text!r} has yet to write")
            self.pending[register] = event
        if self.rng.random() < EARLY:
            self._act(event)

    def _act(self, event: Event) -> None:
        if event.acted:
            return
        for earlier in list(self._order):
            if earlier is event:
                break
            if earlier.acted or (earlier.kind == "ds") != (event.kind == "ds") or earlier.kind == "smem":
                continue
            together = bool(earlier.counters & event.counters)
            if together or (earlier.low < event.high and event.low < earlier.high):
                self._act(earlier)
        event.acted = True
        event.data = event.act()
        if event.land is None:
            self._order.remove(event)

    def _complete(self, event: Event) -> None:
        self._act(event)
        if event.land is not None:
            assert event.data is not None
            event.land(event.data)
        if event in self._order:
            self._order.remove(event)
        for register in event.registers:
            if self.pending.get(register) is event:
                del self.pending[register]

    def wait(self, counter: str, left: int) -> None:
        """Complete what a wait for `left` outstanding instructions guarantees, and no more."""
        queue = self.queues.get(counter)
        if not queue or len(queue) <= left:
            return
        loose = [event for event in queue if event.kind == "smem" or len(event.counters) > 1 or event.kind == "flat"]
        if left == 0:
            done = list(queue)
        else:
            # What returns in any order may be all that has returned.
            ordered = [event for event in queue if event not in loose]
            done = ordered[: max(0, len(queue) - left - len(loose))]
        for event in done:
            queue.remove(event)
            event.counters.discard(counter)
            if not event.counters:
                self._complete(event)

    def finish(self) -> None:
        """Everything comes to its end when the wave does."""
        for counter in list(self.queues):
            self.wait(counter, 0)

    def check(self, registers: frozenset[int], text: str) -> None:
        """Refuse the use of registers that are still to be written."""
        if registers.isdisjoint(self.pending):
            return
        which = min(registers & self.pending.keys())
        name = f"s{which - SCALAR}" if which >= SCALAR else f"v{which}"
        raise IsaError(f"{text!r} uses {name} before {self.pending[which].text!r} was waited for")
