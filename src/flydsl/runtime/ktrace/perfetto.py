"""Traces for Perfetto: its protobuf messages, written by hand, and the JSON of Chrome's trace viewer.

Of `perfetto.protos.Trace` few fields are needed, so no package is: a packet is a time, and a track's description or an
event on it. Launches follow each other with a gap, since each has a time of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from flydsl.runtime.ktrace.events import Event, Range
    from flydsl.runtime.ktrace.trace import LaunchTrace

GAP = 1000.0
"""Nanoseconds between launches."""
# Numbers of fields: of Trace, TracePacket, TrackDescriptor, TrackEvent, DebugAnnotation.
_PACKET = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _DESCRIPTOR = 8, 10, 11, 60
_UUID, _TRACK_NAME, _PARENT = 1, 2, 5
_TYPE, _TRACK, _CATEGORY, _EVENT_NAME, _ANNOTATION = 9, 11, 22, 23, 4
_ANNOTATION_NAME, _ANNOTATION_INT, _ANNOTATION_DOUBLE = 10, 4, 5
_BEGIN, _END, _INSTANT = 1, 2, 3
_VARINT, _FIXED64, _BYTES = 0, 1, 2


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _blob(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | _BYTES) + _varint(len(data)) + data


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | _FIXED64) + struct.pack("<d", value)


class _Step(NamedTuple):
    """An event on a track."""

    time: float
    order: int
    """Among events of one time: ends, inner ones first, then begins, outer ones first."""
    track: tuple[int, ...]
    kind: int
    name: str
    payload: int | float | None


def encode(launches: Sequence[LaunchTrace]) -> bytes:
    """`perfetto.protos.Trace`: a track for each launch, below it one for each SM, below that one for each warp."""
    packets: list[bytes] = []
    start = GAP
    tracks: dict[tuple[int, ...], int] = {}
    for i, launch in enumerate(launches):
        steps = sorted(_steps(i, launch), key=lambda s: (s.time, s.order))
        for step in steps:
            for depth in range(1, len(step.track) + 1):
                packets += _described(step.track[:depth], launch, tracks)
            packets.append(_event(step, start, tracks[step.track]))
        start += launch.duration + GAP
    return b"".join(_blob(_PACKET, packet) for packet in packets)


def _described(track: tuple[int, ...], launch: LaunchTrace, tracks: dict[tuple[int, ...], int]) -> Iterator[bytes]:
    """The description of a track, at its first use."""
    if track in tracks:
        return
    tracks[track] = len(tracks) + 1
    fields = _number(_UUID, tracks[track]) + _blob(_TRACK_NAME, _track_name(track, launch))
    if len(track) > 1:
        fields += _number(_PARENT, tracks[track[:-1]])
    yield _blob(_DESCRIPTOR, fields)


def _track_name(track: tuple[int, ...], launch: LaunchTrace) -> str:
    if len(track) == 1:
        return f"{launch.kernel} #{track[0]}"
    if len(track) == 2:
        return f"SM {track[1]}"
    block, warp = track[2] >> 16, track[2] & 0xFFFF
    return f"block {_place(block, launch)} warp {warp}"


def _place(block: int, launch: LaunchTrace) -> str:
    x, y, _ = launch.grid
    return f"({block % x},{block // x % y},{block // (x * y)})"


def _track_of(launch: int, of: Event | Range) -> tuple[int, ...]:
    return launch, of.sm, of.block << 16 | of.warp


def _steps(number: int, launch: LaunchTrace) -> Iterator[_Step]:
    for found in launch.ranges:
        track = _track_of(number, found)
        # What begins and ends at one time must do so in this order.
        last = found.end if found.end > found.begin else found.begin + 0.5
        yield _Step(found.begin, found.depth + 1, track, _BEGIN, found.name, found.payload)
        yield _Step(last, -found.depth, track, _END, found.name, None)
    for event in launch.events:
        if event.kind == "mark":
            yield _Step(event.time, 1 << 20, _track_of(number, event), _INSTANT, event.name, event.payload)


def _event(step: _Step, start: float, track: int) -> bytes:
    fields = _number(_TYPE, step.kind) + _number(_TRACK, track)
    if step.kind != _END:
        fields += _blob(_CATEGORY, "kernel") + _blob(_EVENT_NAME, step.name)
        if step.payload is not None:
            value = (
                _double(_ANNOTATION_DOUBLE, step.payload)
                if isinstance(step.payload, float)
                else _number(_ANNOTATION_INT, step.payload)
            )
            fields += _blob(_ANNOTATION, _blob(_ANNOTATION_NAME, "payload") + value)
    time = round(start + step.time)
    return _number(_TIMESTAMP, time) + _number(_SEQUENCE, 1) + _blob(_TRACK_EVENT, fields)


def chrome(launches: Sequence[LaunchTrace]) -> dict[str, object]:
    """The JSON of Chrome's trace viewer: a process for each launch and SM, a thread for each warp; microseconds."""
    out: list[dict[str, object]] = []
    processes: dict[tuple[int, int], int] = {}
    threads: set[tuple[int, int]] = set()
    start = 0.0
    for i, launch in enumerate(launches):
        for of in (*launch.ranges, *(e for e in launch.events if e.kind == "mark")):
            process = processes.setdefault((i, of.sm), len(processes) + 1)
            thread = of.block << 8 | of.warp
            if (process, thread) not in threads:
                threads.add((process, thread))
                names = (("process_name", f"{launch.kernel} #{i} SM {of.sm}"),)
                names += (("thread_name", f"block {_place(of.block, launch)} warp {of.warp}"),)
                for name, text in names:
                    out.append({"ph": "M", "name": name, "pid": process, "tid": thread, "args": {"name": text}})
            args: dict[str, object] = {"lane": of.lane}
            if of.payload is not None:
                args["payload"] = of.payload
            begin = getattr(of, "begin", None)
            at = getattr(of, "time", 0.0) if begin is None else begin
            entry: dict[str, object] = {"name": of.name, "cat": "kernel", "pid": process, "tid": thread, "args": args}
            entry["ts"] = (start + at) / 1000
            entry |= {"ph": "i", "s": "t"} if begin is None else {"ph": "X", "dur": getattr(of, "duration", 0.0) / 1000}
            out.append(entry)
        start += launch.duration + GAP
    return {"traceEvents": out, "displayTimeUnit": "ns"}
