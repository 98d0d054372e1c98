"""Reading the memory of a trace: laws of the decoder on memory that a model of the recording code has written."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flydsl.runtime.ktrace import layout as L
from flydsl.runtime.ktrace.events import Shape, decode
from flydsl.runtime.ktrace.perfetto import GAP
from flydsl.runtime.ktrace.trace import LaunchTrace, Trace

NAMES = ("load", "mma", "store")


class Memory:
    """What a launch writes, as `expr/ktrace/emit.py` does it."""

    def __init__(self, shape: Shape):
        self.shape = shape
        self.words = [0] * (shape.nbytes // 8)
        self.counts: dict[tuple[int, int], int] = {}

    def record(
        self, block: int, unit: int, tag: int, time: int, *, lane: int = 0, sm: int = 0, payload: int = 0
    ) -> None:
        shape = self.shape
        region = L.HEAD + (block * shape.units + unit) * shape.region_words
        if shape.host:
            place, words = self.words[region + L.LOST], L.HOST_RECORD
            self.words[region + L.LOST] += 1
            if place >= shape.events:
                return
            fields = [0, time, tag | lane << 56, payload, self.words[L.ORDER], 0]
            self.words[L.ORDER] += 1
        else:
            words, extra = L.RECORD, L.sparse_places(shape.events)
            place = self.counts.get((block, unit), 0)
            if lane:
                place = shape.events + self.words[region + L.SPARSE]
                self.words[region + L.SPARSE] += 1
            else:
                self.counts[block, unit] = place + 1
            if place >= (shape.events + extra if lane else shape.events):
                if not lane:
                    self.words[region + L.LOST] = place + 1 - shape.events
                return
            fields = [time // 32 * 32, 2 * time + 1000 * sm, tag | sm << 32 | lane << 56, payload]
        at = region + L.REGION_HEAD + place * words
        self.words[at : at + words] = fields

    def data(self) -> bytes:
        return struct.pack(f"<{len(self.words)}Q", *(w & (1 << 64) - 1 for w in self.words))


def shape_of(host: bool, events: int = 8, threads: int = 70, blocks: int = 2) -> Shape:
    return Shape(NAMES, events, host, 32, threads, 5, blocks)


MARKS = st.lists(
    st.tuples(
        st.integers(0, 1), st.integers(0, 2), st.integers(0, 2), st.sampled_from([0, 0, 0, 7]), st.integers(-9, 9)
    ),
    max_size=40,
)


@given(MARKS)
def test_marks_come_back_in_order_and_lost_ones_are_counted(marks: list[tuple[int, int, int, int, int]]):
    shape = shape_of(False)
    memory = Memory(shape)
    for step, (block, warp, name, lane, payload) in enumerate(marks):
        tag = L.tag_of(name, L.MARK, L.INTEGER)
        memory.record(block, warp, tag, 1000 + 32 * step, lane=lane, sm=block, payload=payload)
    found = decode(memory.data(), shape)
    assert len(found.events) + found.lost == len(marks)
    assert not found.ranges
    wanted = [(5 + b, w, NAMES[n], lane, p) for b, w, n, lane, p in marks]
    got = [(e.block, e.warp, e.name, e.lane, int(e.payload or 0)) for e in found.events]
    if not found.lost:
        assert sorted(got) == sorted(wanted)
    # Each warp's own events are a part of its own in the same order.
    for warp in {(5 + b, w) for b, w, *_ in marks}:
        mine = iter([x for x in wanted if x[:2] == warp])
        assert all(x in mine for x in got if x[:2] == warp)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=4), st.booleans())
def test_nested_ranges_pair_up(names: list[int], host: bool):
    shape = shape_of(host, events=64)
    memory = Memory(shape)
    steps = [(n, L.RANGE_PUSH) for n in names] + [(n, L.RANGE_POP) for n in reversed(names)]
    for i, (name, kind) in enumerate(steps):
        for lane in range(3) if host else (0,):
            memory.record(1, lane, L.tag_of(name, kind, L.NOTHING), 100 * i + lane, lane=lane)
    found = decode(memory.data(), shape)
    assert found.open == 0 and not found.lost
    assert [r.name for r in sorted(found.ranges, key=lambda r: r.depth)] == [NAMES[n] for n in names]
    assert all(r.lane == 0 and r.block == 6 and r.warp == 0 for r in found.ranges)
    outer = min(found.ranges, key=lambda r: r.depth)
    assert all(outer.begin <= r.begin <= r.end <= outer.end for r in found.ranges)


def test_lanes_of_the_cpu_stack_are_one_warp():
    shape = shape_of(True, events=16)
    memory = Memory(shape)
    for lane in range(32):
        for _ in range(1 if lane < 4 else 3):  # some lanes go round a loop more often
            memory.record(0, lane, L.tag_of(0, L.MARK, L.NOTHING), lane, lane=lane)
        if lane == 9:
            memory.record(0, lane, L.tag_of(2, L.MARK, L.NOTHING), lane, lane=lane)
    found = decode(memory.data(), shape).events
    assert sorted((e.name, e.lane) for e in found) == [("load", 0), ("load", 4), ("load", 4), ("store", 9)]


def test_times_follow_the_fine_clock_of_each_sm():
    shape = shape_of(False, events=64, blocks=1)
    memory = Memory(shape)
    for i in range(60):
        memory.record(0, i % 3, L.tag_of(0, L.MARK, L.NOTHING), 10_000 + 7 * i, sm=i % 2)
    times = [e.time for e in decode(memory.data(), shape).events]
    # The steady clock of the model moves in steps of 32 ns; the events are 7 ns apart.
    assert all(abs(b - a - 7) < 25 for a, b in zip(times, times[1:], strict=False))
    same = sorted(e.time for e in decode(memory.data(), shape).events if e.sm == 0)
    assert all(abs(b - a - 14) < 2 for a, b in zip(same, same[1:], strict=False))


def test_an_end_without_a_range_is_counted():
    shape = shape_of(False)
    memory = Memory(shape)
    memory.record(0, 0, L.tag_of(0, L.RANGE_POP, L.NOTHING), 1)
    memory.record(0, 0, L.tag_of(1, L.RANGE_PUSH, L.NOTHING), 2)
    assert decode(memory.data(), shape).open == 2


def test_payloads_keep_their_kind():
    shape = shape_of(False)
    memory = Memory(shape)
    (bits,) = struct.unpack("<q", struct.pack("<d", -2.5))
    memory.record(0, 0, L.tag_of(0, L.MARK, L.FLOAT), 1, payload=bits)
    memory.record(0, 0, L.tag_of(0, L.MARK, L.INTEGER), 2, payload=-3)
    memory.record(0, 0, L.tag_of(0, L.MARK, L.NOTHING), 3)
    assert [e.payload for e in decode(memory.data(), shape).events] == [-2.5, -3, None]


# --- files ----------------------------------------------------------------------------------------------------------


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Fields of a protobuf message."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = 8 if key & 7 == 1 else varint()
            yield key >> 3, data[at : at + size]
            at += size


def traced() -> Trace:
    shape = shape_of(False, events=16)
    memory = Memory(shape)
    for block in range(2):
        for warp in range(2):
            for i, (name, kind) in enumerate(
                [(0, L.RANGE_PUSH), (1, L.RANGE_PUSH), (1, L.RANGE_POP), (0, L.RANGE_POP)]
            ):
                memory.record(block, warp, L.tag_of(name, kind, L.INTEGER), 5000 + 640 * i, sm=3 + block, payload=i)
            memory.record(block, warp, L.tag_of(2, L.MARK, L.NOTHING), 9000, sm=3 + block)
    found = decode(memory.data(), shape)
    launch = LaunchTrace("f", "k_0", (4, 2, 1), (70, 1, 1), range(5, 7), found.events, found.ranges, 0, 0, "cuda")
    return Trace([launch, launch])


def test_perfetto_files_have_a_track_per_launch_sm_and_warp():
    tracks: dict[int, tuple[str, int]] = {}
    open_: dict[int, list[str]] = {}
    last = 0
    instants = 0
    for field, packet in fields(traced().perfetto()):
        assert field == 1 and isinstance(packet, bytes)
        parts = dict(fields(packet))
        if 60 in parts:
            about = dict(fields(parts[60]))  # pyright: ignore[reportArgumentType]
            tracks[about[1]] = about[2].decode(), about.get(5, 0)  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]
            continue
        event = dict(fields(parts[11]))  # pyright: ignore[reportArgumentType]
        time = parts[8]
        assert isinstance(time, int) and time >= last >= 0
        last = time
        stack = open_.setdefault(event[11], [])  # pyright: ignore[reportArgumentType]
        if event[9] == 1:
            stack.append(event[23].decode())  # pyright: ignore[reportAttributeAccessIssue]
        elif event[9] == 2:
            stack.pop()
        else:
            instants += 1
    assert all(not stack for stack in open_.values()) and instants == 8
    names = [name for name, _ in tracks.values()]
    assert [n for n in names if n.startswith("k_0")] == ["k_0 #0", "k_0 #1"]
    assert names.count("SM 3") == 2 and names.count("block (1,1,0) warp 1") == 2
    assert all(parent == 0 or parent in tracks for _, parent in tracks.values())
    assert last > 2 * GAP


def test_the_perfetto_package_reads_the_same():
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    read = protos.Trace()
    read.ParseFromString(traced().perfetto())
    named = {p.track_descriptor.uuid: p.track_descriptor.name for p in read.packet if p.HasField("track_descriptor")}
    events = [p.track_event for p in read.packet if p.HasField("track_event")]
    kinds = [protos.TrackEvent.Type.Name(e.type) for e in events]
    assert kinds.count("TYPE_SLICE_BEGIN") == kinds.count("TYPE_SLICE_END") == 16 and kinds.count("TYPE_INSTANT") == 8
    assert {named[e.track_uuid] for e in events} == {f"block ({b},1,0) warp {w}" for b in (1, 2) for w in (0, 1)}
    assert {e.debug_annotations[0].int_value for e in events if e.name == "mma"} == {2}


def test_other_forms_of_a_trace(tmp_path):
    trace = traced()
    events = json.loads(trace.write(tmp_path / "t.json").read_text())["traceEvents"]
    assert sum(e["ph"] == "X" for e in events) == 16 and sum(e["ph"] == "i" for e in events) == 8
    page = trace.write(tmp_path / "t.html").read_text()
    assert page.count("<svg") == 2 and "b(1,1,0) w0" in page and "load" in page
    assert "store" in trace.svg() and trace.svg(rows=1).count("more warps") == 1
    rows = trace.summary()
    assert rows["load"].count == 8 and rows["load"].mean > rows["mma"].mean > 0
    assert "2 of 8 blocks recorded, from block 5" in trace.text()
