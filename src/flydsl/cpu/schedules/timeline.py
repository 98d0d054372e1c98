"""What happened in a schedule, per warp: as text, and as a page of HTML with a picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple


class Entry(NamedTuple):
    """A step of a schedule."""

    lane: str
    """Warp or copy: `b0.w1`."""
    text: str
    place: str
    stuck: bool = False
    """Whether it is where the lane waits for ever, or was found wrong."""


_ROW, _WIDTH, _TOP = 22, 250, 40


class Timeline(Sequence[Entry]):
    """The steps of a schedule in order."""

    def __init__(self, entries: Sequence[Entry]):
        self.entries = tuple(entries)

    def __getitem__(self, index: int) -> Entry:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.entries[index]

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def lanes(self) -> list[str]:
        """Warps in order."""
        return sorted({_warp(e.lane) for e in self.entries}, key=_key)

    def text(self) -> str:
        """A line per step: number, warp, operation, source line; `!` marks what is wrong."""
        if not self.entries:
            return "(no operation that others can see)"
        wide = max(len(e.lane) for e in self.entries)
        what = max(len(e.text) for e in self.entries)
        return "\n".join(
            f"{i:4}{'!' if e.stuck else ' '} {e.lane:<{wide}}  {e.text:<{what}}  {e.place}"
            for i, e in enumerate(self.entries)
        )

    def __str__(self) -> str:
        return self.text()

    def svg(self) -> str:
        """A picture: a column per warp, time downwards, copies in the column of the warp that issued them."""
        lanes = self.lanes
        column = max([_WIDTH, *(7 * len(e.text) + 24 for e in self.entries)])
        width, height = column * max(len(lanes), 1) + 40, _TOP + _ROW * len(self.entries) + 20
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="monospace" '
            'font-size="11">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
        ]
        for i, lane in enumerate(lanes):
            x = 40 + i * column
            parts.append(f'<text x="{x}" y="20" font-weight="bold">{escape(lane)}</text>')
            parts.append(f'<line x1="{x - 6}" y1="28" x2="{x - 6}" y2="{height - 10}" stroke="#bbb"/>')
        for i, e in enumerate(self.entries):
            x, y = 40 + lanes.index(_warp(e.lane)) * column, _TOP + i * _ROW
            color = "#c62828" if e.stuck else "#6a1b9a" if ".c" in e.lane else "#1565c0"
            file, _, line = e.place.rpartition(":")
            short = f"{file.rpartition('/')[2]}:{line}"
            parts.append(f'<circle cx="{x - 6}" cy="{y + 6}" r="4" fill="{color}"/>')
            parts.append(
                f'<text x="{x + 4}" y="{y + 10}" fill="{color}">{escape(e.text)}<title>{escape(e.place)}</title></text>'
            )
            parts.append(f'<text x="2" y="{y + 10}" fill="#999">{i}</text>')
            parts.append(f'<text x="{x + 4}" y="{y + 19}" fill="#999" font-size="8">{escape(short)}</text>')
        return "\n".join([*parts, "</svg>"])

    def html(self, title: str = "schedule") -> str:
        """A page with the picture and the text."""
        return (
            f"<!doctype html><meta charset='utf-8'><title>{escape(title)}</title><h1>{escape(title)}</h1>\n"
            f"{self.svg()}\n<pre>{escape(self.text())}</pre>\n"
        )


def _warp(lane: str) -> str:
    return ".".join(lane.split(".")[:2])


def _key(lane: str) -> tuple[int, ...]:
    return tuple(int(part[1:]) for part in lane.split("."))
