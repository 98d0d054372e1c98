"""`Trace`: what launches recorded, as objects, text, pictures and files for Perfetto."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from flydsl.errors import DSLValueError
from flydsl.runtime.ktrace import perfetto, picture
from flydsl.runtime.ktrace.events import Dims, Event, Range


@dataclass(frozen=True)
class NameSummary:
    """All ranges of a name: how many, and how long in nanoseconds."""

    count: int
    total: float
    least: float
    mean: float
    most: float


@dataclass(frozen=True)
class LaunchTrace:
    """What one launch recorded."""

    function: str
    kernel: str
    grid: Dims
    block: Dims
    recorded: range
    """Numbers of the blocks that were recorded; for the others there was no room, or nobody asked."""
    events: Sequence[Event]
    """By time."""
    ranges: Sequence[Range]
    """By begin."""
    lost: int
    """Events there was no place for."""
    open: int
    """Ranges without an end, and ends without a range."""
    stack: str

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def duration(self) -> float:
        """Nanoseconds from the first event to the last."""
        return self.events[-1].time if self.events else 0.0

    def notes(self) -> list[str]:
        """What the trace does not show."""
        found: list[str] = []
        if self.lost:
            found.append(f"{self.lost} events lost: more than FLYDSL_KTRACE_EVENTS in a warp")
        if len(self.recorded) < self.blocks:
            found.append(f"{len(self.recorded)} of {self.blocks} blocks recorded, from block {self.recorded.start}")
        if self.open:
            found.append(f"{self.open} ranges without begin or end")
        return found


class Trace:
    """What launches recorded, in the order in which they were made."""

    def __init__(self, launches: Sequence[LaunchTrace], dropped: int = 0):
        self.launches = tuple(launches)
        self.dropped = dropped
        """Launches before these that were forgotten because there were too many."""

    @property
    def events(self) -> list[Event]:
        """Events of all launches; times begin at 0 in each."""
        return [event for launch in self.launches for event in launch.events]

    @property
    def ranges(self) -> list[Range]:
        """Ranges of all launches; times begin at 0 in each."""
        return [found for launch in self.launches for found in launch.ranges]

    @property
    def lost(self) -> int:
        """Events there was no place for."""
        return sum(launch.lost for launch in self.launches)

    def summary(self) -> dict[str, NameSummary]:
        """Each name's ranges in numbers."""
        found: defaultdict[str, list[float]] = defaultdict(list)
        for each in self.ranges:
            found[each.name].append(each.duration)
        return {n: NameSummary(len(ds), sum(ds), min(ds), fmean(ds), max(ds)) for n, ds in found.items()}

    def text(self) -> str:
        """The summary as a table, and what is not shown."""
        rows = self.summary()
        wide = max((len(name) for name in rows), default=5)
        lines = [f"{'range':<{wide}}  {'count':>7}  {'mean ns':>10}  {'least':>10}  {'most':>10}"]
        for name, row in sorted(rows.items(), key=lambda item: -item[1].total):
            lines.append(f"{name:<{wide}}  {row.count:>7}  {row.mean:>10.0f}  {row.least:>10.0f}  {row.most:>10.0f}")
        for launch in self.launches:
            lines += [f"{launch.kernel}: {note}" for note in launch.notes()]
        if self.dropped:
            lines.append(f"{self.dropped} launches before these were dropped (FLYDSL_KTRACE_LAUNCHES)")
        return "\n".join(lines)

    __str__ = text

    def __repr__(self) -> str:
        return f"<Trace of {len(self.launches)} launches, {len(self.events)} events>"

    def perfetto(self) -> bytes:
        """A file of Perfetto's own format: a track for each launch, SM and warp."""
        return perfetto.encode(self.launches)

    def chrome(self) -> dict[str, object]:
        """The JSON of Chrome's trace viewer, which Perfetto opens too."""
        return perfetto.chrome(self.launches)

    def svg(self, launch: int = 0, *, rows: int = picture.ROWS) -> str:
        """A picture of a launch: a row for each warp, time to the right."""
        if not self.launches:
            return picture.svg([], [], {}, rows)
        one = self.launches[launch]
        return picture.svg(one.events, one.ranges, picture.labels(one.grid), rows)

    def html(self, title: str = "trace") -> str:
        """A page with the picture of every launch."""
        parts = [
            (f"{each.kernel}, grid {each.grid}, block {each.block}, {each.stack}", self.svg(i), each.notes())
            for i, each in enumerate(self.launches)
        ]
        return picture.page(title, parts, self.text())

    _repr_svg_ = svg

    def write(self, path: str | Path) -> Path:
        """Write a file by its suffix: `.perfetto-trace` or `.pftrace`, `.json`, `.svg`, `.html`, `.txt`."""
        file = Path(path)
        writers = {
            ".perfetto-trace": self.perfetto,
            ".pftrace": self.perfetto,
            ".json": lambda: json.dumps(self.chrome()).encode(),
            ".svg": lambda: self.svg().encode(),
            ".html": lambda: self.html(file.stem).encode(),
            ".txt": lambda: (self.text() + "\n").encode(),
        }
        if file.suffix not in writers:
            raise DSLValueError(f"a trace is written to a file that ends in {', '.join(writers)}, got {file.name!r}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(writers[file.suffix]())
        return file
