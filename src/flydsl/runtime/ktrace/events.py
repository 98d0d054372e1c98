"""From the memory of a launch to events and ranges with times."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple, cast

from flydsl.runtime.ktrace import layout as L

Dims = tuple[int, int, int]
_KINDS = {L.MARK: "mark", L.RANGE_PUSH: "begin", L.RANGE_POP: "end", L.RANGE_START: "begin", L.RANGE_STOP: "end"}


class Event(NamedTuple):
    """What a warp recorded."""

    name: str
    kind: str
    """`mark`, `begin` or `end`."""
    time: float
    """Nanoseconds since the first event of the launch."""
    block: int
    """Number of the block, x fastest."""
    warp: int
    """Number of the warp in its block."""
    lane: int
    """The lane that wrote it: the first that was there."""
    sm: int
    """Number of the SM or compute unit; 0 on the cpu stack."""
    cycles: int
    """The clock of that SM; on the cpu stack the number of the event in its launch."""
    payload: int | float | None
    number: int
    """Of its name in the kernel: ranges of one name that were started by tokens have several."""


class Range(NamedTuple):
    """A stretch of time of a warp."""

    name: str
    begin: float
    """Nanoseconds since the first event of the launch."""
    end: float
    block: int
    warp: int
    lane: int
    sm: int
    payload: int | float | None
    depth: int
    """How many ranges of the warp are around it."""

    @property
    def duration(self) -> float:
        """Nanoseconds."""
        return self.end - self.begin


@dataclass(frozen=True)
class Shape:
    """What of a launch decides where its events lie."""

    names: tuple[str, ...]
    events: int
    host: bool
    warp_size: int
    threads: int
    """Of a block."""
    first: int
    """Block that is recorded first."""
    blocks: int
    """Blocks that are recorded."""
    tick: float = 1.0
    """Nanoseconds of a step of the steady clock."""

    @staticmethod
    def of(details: Mapping[str, object], threads: int, first: int, blocks: int, tick: float = 1.0) -> Shape:
        """From what a kernel declares."""
        names = tuple(cast("list[str]", details["names"]))
        numbers = (cast(int, details["events"]), bool(details["host"]), cast(int, details["warp_size"]))
        return Shape(names, *numbers, threads, first, blocks, tick)

    @property
    def units(self) -> int:
        """Regions of a block: its warps, on the cpu stack its threads."""
        return self.threads if self.host else -(-self.threads // self.warp_size)

    @property
    def region_words(self) -> int:
        return L.region_words(self.events, self.host)

    @property
    def nbytes(self) -> int:
        """Of the whole memory."""
        return 8 * (L.HEAD + self.blocks * self.units * self.region_words)


class Decoded(NamedTuple):
    """What the memory of a launch holds."""

    events: list[Event]
    """By time."""
    ranges: list[Range]
    """By begin."""
    lost: int
    """Events there was no place for."""
    open: int
    """Ranges without an end, and ends without a range."""


def decode(data: bytes, shape: Shape) -> Decoded:
    """Read the memory of a launch."""
    raw: list[Event] = []
    lost = 0
    words = memoryview(data).cast("Q")
    for index in range(shape.blocks * shape.units):
        found, missing = _region(words, shape, index)
        raw += found
        lost += missing
    timed = _timed(raw, shape)
    per_warp: defaultdict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in sorted(timed, key=lambda e: (e.time, e.cycles)):
        per_warp[event.block, event.warp].append(event)
    events: list[Event] = []
    ranges: list[Range] = []
    still = 0
    for warp in per_warp.values():
        kept, made, left = _merged(warp) if shape.host else (warp, *_paired(warp))
        events += kept
        ranges += made
        still += left
    events.sort(key=lambda e: (e.time, e.cycles))
    ranges.sort(key=lambda r: (r.begin, r.block, r.warp, r.depth))
    return Decoded(events, ranges, lost, still)


def _region(words: Sequence[int], shape: Shape, index: int) -> tuple[list[Event], int]:
    """Events of a unit, and how many it has lost."""
    block, unit = divmod(index, shape.units)
    start = L.HEAD + index * shape.region_words
    head, sparse = words[start], words[start + 1]
    start += L.REGION_HEAD
    if shape.host:
        return _records(words, shape, start, min(head, shape.events), block, unit), max(head - shape.events, 0)
    extra = L.sparse_places(shape.events)
    # Lane 0 writes one place after the other, so the first that is empty ends its events.
    found = _records(words, shape, start, shape.events, block, unit)
    found += _records(words, shape, start + L.RECORD * shape.events, min(sparse, extra), block, unit)
    return found, head + max(sparse - extra, 0)


def _records(words: Sequence[int], shape: Shape, start: int, most: int, block: int, unit: int) -> list[Event]:
    """Events from a place on, up to one that was never written."""
    size = L.HOST_RECORD if shape.host else L.RECORD
    warp = unit // shape.warp_size if shape.host else unit
    found: list[Event] = []
    for at in range(start, start + size * most, size):
        tag = words[at + 2]
        if not tag & 0x80000000:
            break
        number, kind, form = L.parts_of(tag & 0xFFFFFFFF)
        payload = words[at + 3]
        value: int | float | None = None
        if form == L.INTEGER:
            value = payload - (payload >> 63 << 64)
        elif form == L.FLOAT:
            (value,) = struct.unpack("<d", struct.pack("<Q", payload))
        time, cycles = words[at] * shape.tick, words[at + 1]
        if shape.host:
            time, cycles = words[at] * 1e9 + words[at + 1], words[at + 4]
        where, lane = tag >> 32 & 0xFFFFFF, tag >> 56
        found.append(
            Event(
                shape.names[number], _KINDS[kind], time, shape.first + block, warp, lane, where, cycles, value, number
            )
        )
    return found


def _timed(raw: Sequence[Event], shape: Shape) -> Iterator[Event]:
    """The same with times that begin at 0.

    The steady clock of a GPU is the same everywhere and moves in large steps; the cycles of an SM are fine and its own.
    So each SM's cycles are laid over the steady clock: one rate for all, an offset for each.
    """
    if shape.host:
        if raw and not any(e.time for e in raw):
            raw = [e._replace(time=float(e.cycles)) for e in raw]
        start = min((e.time for e in raw), default=0.0)
        return (e._replace(time=e.time - start) for e in raw)
    by_sm: defaultdict[int, list[Event]] = defaultdict(list)
    for event in raw:
        by_sm[event.sm].append(event)
    spans = [(max(es, key=lambda e: e.cycles), min(es, key=lambda e: e.cycles)) for es in by_sm.values()]
    steady = sum(last.time - first.time for last, first in spans)
    cycles = sum(last.cycles - first.cycles for last, first in spans)
    placed: list[Event] = []
    for events in by_sm.values():
        if steady <= 0 or cycles <= 0:
            placed += events
            continue
        rate = steady / cycles
        offset = median(e.time - e.cycles * rate for e in events)
        placed += [e._replace(time=e.cycles * rate + offset) for e in events]
    start = min((e.time for e in placed), default=0.0)
    return (e._replace(time=e.time - start) for e in placed)


def _paired(events: Sequence[Event]) -> tuple[list[Range], int]:
    """Ranges of events in order: an end belongs to the last range of its name that is open."""
    open_: list[tuple[Event, int]] = []
    ranges: list[Range] = []
    stray = 0
    for event in events:
        if event.kind == "begin":
            open_.append((event, len(open_)))
        elif event.kind == "end":
            at = next((i for i in reversed(range(len(open_))) if open_[i][0].number == event.number), None)
            if at is None:
                stray += 1
                continue
            begin, depth = open_.pop(at)
            payload = begin.payload if event.payload is None else event.payload
            ranges.append(Range(begin.name, begin.time, event.time, *begin[3:7], payload, depth))
    return ranges, stray + len(open_)


def _merged(events: Sequence[Event]) -> tuple[list[Event], list[Range], int]:
    """A warp of the cpu stack, whose lanes record each for itself, as a warp of a GPU records: once.

    Of what several lanes recorded as their n-th of a name, that of the first lane stays.
    """
    lanes: defaultdict[int, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda e: e.cycles):
        lanes[event.lane].append(event)
    kept: dict[tuple[int, str, int], Event] = {}
    made: dict[tuple[str, int], Range] = {}
    left = 0
    for lane in sorted(lanes):
        counts: defaultdict[tuple[int, str], int] = defaultdict(int)
        for event in lanes[lane]:
            what = (event.number, event.kind)
            kept.setdefault((*what, counts[what]), event)
            counts[what] += 1
        ranges, stray = _paired(lanes[lane])
        left = max(left, stray)
        seen: defaultdict[str, int] = defaultdict(int)
        for found in ranges:
            made.setdefault((found.name, seen[found.name]), found)
            seen[found.name] += 1
    return list(kept.values()), list(made.values()), left
