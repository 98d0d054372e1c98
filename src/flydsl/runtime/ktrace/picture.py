"""A launch as a picture: a row for each warp, time to the right; in the style of the schedules' timelines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flydsl.runtime.ktrace.events import Dims, Event, Range

ROWS = 64
"""Warps a picture shows."""
_HEIGHT, _LEFT, _WIDTH, _TOP = 20, 150, 1000, 46
_COLORS = ("#1565c0", "#2e7d32", "#ef6c00", "#6a1b9a", "#00838f", "#ad1457", "#4e342e", "#546e7a", "#9e9d24", "#283593")
Label = Callable[[int, int], str]


def labels(grid: Dims) -> Label:
    """What rows are called."""
    x, y, _ = grid

    def label(block: int, warp: int) -> str:
        return f"b({block % x},{block // x % y},{block // (x * y)}) w{warp}"

    return label


def svg(events: Sequence[Event], ranges: Sequence[Range], label: Label | dict[str, str], rows: int = ROWS) -> str:
    """The picture; warps beyond `rows` are left out, and said to be."""
    warps = sorted({(e.block, e.warp) for e in events})
    shown = warps[:rows]
    names = list(dict.fromkeys([r.name for r in ranges] + [e.name for e in events if e.kind == "mark"]))
    color = {name: _COLORS[i % len(_COLORS)] for i, name in enumerate(names)}
    most = max((e.time for e in events), default=0.0) or 1.0
    row = {warp: i for i, warp in enumerate(shown)}
    width, height = _LEFT + _WIDTH + 20, _TOP + _HEIGHT * len(shown) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *_legend(color),
    ]
    for (block, warp), i in row.items():
        y = _TOP + i * _HEIGHT
        name = label(block, warp) if callable(label) else f"b{block} w{warp}"
        parts.append(f'<text x="6" y="{y + 13}">{escape(name)}</text>')
        parts.append(f'<line x1="{_LEFT}" y1="{y + 18}" x2="{_LEFT + _WIDTH}" y2="{y + 18}" stroke="#ddd"/>')
    for r in sorted(ranges, key=lambda r: r.depth):
        i = row.get((r.block, r.warp))
        if i is None:
            continue
        x, w = _LEFT + _WIDTH * r.begin / most, max(_WIDTH * r.duration / most, 0.5)
        y, inset = _TOP + i * _HEIGHT + 3, min(r.depth, 3) * 3
        title = f"{r.name}: {r.begin:.0f} to {r.end:.0f} ns ({r.duration:.0f} ns)"
        title += "" if r.payload is None else f", {r.payload}"
        parts.append(
            f'<rect x="{x:.2f}" y="{y + inset}" width="{w:.2f}" height="{14 - inset}" fill="{color[r.name]}" '
            f'fill-opacity="0.8"><title>{escape(title)}</title></rect>'
        )
    for e in events:
        i = row.get((e.block, e.warp))
        if e.kind != "mark" or i is None:
            continue
        x, y = _LEFT + _WIDTH * e.time / most, _TOP + i * _HEIGHT
        title = f"{e.name} at {e.time:.0f} ns" + ("" if e.payload is None else f", {e.payload}")
        parts.append(
            f'<circle cx="{x:.2f}" cy="{y + 10}" r="3" fill="{color[e.name]}"><title>{escape(title)}</title></circle>'
        )
    bottom = _TOP + _HEIGHT * len(shown) + 14
    unit, scale = ("µs", 1000) if most >= 20_000 else ("ns", 1)
    for i in range(5):
        x, anchor = _LEFT + _WIDTH * i // 4, ("start", "middle", "middle", "middle", "end")[i]
        number = f"{most * i / 4 / scale:.0f} {unit}"
        parts.append(f'<text x="{x}" y="{bottom}" fill="#999" text-anchor="{anchor}">{number}</text>')
    if len(warps) > len(shown):
        parts.append(f'<text x="6" y="{bottom + 12}" fill="#c62828">{len(warps) - len(shown)} more warps</text>')
    return "\n".join([*parts, "</svg>"])


def _legend(color: dict[str, str]) -> list[str]:
    parts: list[str] = []
    x = 6
    for name, shade in color.items():
        parts.append(f'<rect x="{x}" y="10" width="10" height="10" fill="{shade}"/>')
        parts.append(f'<text x="{x + 14}" y="19">{escape(name)}</text>')
        x += 28 + 7 * len(name)
    return parts


def page(title: str, parts: Sequence[tuple[str, str, Sequence[str]]], text: str) -> str:
    """A page with pictures, each with its title and notes, and the summary."""
    body = "\n".join(
        f"<h2>{escape(head)}</h2>\n{drawn}\n" + "".join(f"<p>{escape(note)}</p>\n" for note in notes)
        for head, drawn, notes in parts
    )
    return (
        f"<!doctype html><meta charset='utf-8'><title>{escape(title)}</title><h1>{escape(title)}</h1>\n"
        f"{body}\n<pre>{escape(text)}</pre>\n"
    )
