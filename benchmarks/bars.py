"""Measurements as bars in an SVG file, without any library.

    python benchmarks/bars.py results.jsonl results.svg

Each line is a JSON object with `what`, `who`, `value` and `unit`. There is a group of bars per `what`; bars of one unit
have one scale, and longer is more.
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path

COLOURS = {"flydsl": "#c0392b", "triton": "#7f8c8d", "torch": "#2c7fb8", "cublas": "#2c7fb8", "copy": "#bdc3c7"}
OTHER = "#d9a441"
LEFT, WIDTH, BAR, GAP = 250, 760, 14, 12


def svg(rows: list[dict], title: str) -> str:
    """The drawing."""
    groups: dict[str, list[dict]] = {}
    for row in rows:
        groups.setdefault(row["what"], []).append(row)
    largest: dict[str, float] = {}
    for row in rows:
        largest[row["unit"]] = max(largest.get(row["unit"], 0.0), row["value"])
    lines: list[str] = []
    y = 40
    for what, members in groups.items():
        middle = y + len(members) * BAR / 2 + 4
        place = f'x="{LEFT - 10}" y="{middle:.0f}" text-anchor="end" font-weight="bold"'
        lines.append(f"<text {place}>{escape(what)}</text>")
        for row in members:
            length = row["value"] / largest[row["unit"]] * (WIDTH - LEFT - 190)
            colour = COLOURS.get(row["who"], OTHER)
            lines.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 2}" fill="{colour}"/>')
            text = f"{row['who']} {row['value']:.4g} {row['unit']}"
            lines.append(f'<text x="{LEFT + length + 6:.1f}" y="{y + BAR - 4}">{escape(text)}</text>')
            y += BAR
        y += GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" '
        'font-family="sans-serif" font-size="11">'
    )
    body = "\n".join(lines)
    ground = '<rect width="100%" height="100%" fill="white"/>'
    return f'{head}\n{ground}\n<text x="20" y="22" font-size="14">{escape(title)}</text>\n{body}\n</svg>\n'


def title_of(rows: list[dict]) -> str:
    """What was measured on."""
    first = rows[0]
    return ", ".join(str(first[key]) for key in ("device", "date") if key in first)


if __name__ == "__main__":
    found = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines() if line.strip()]
    Path(sys.argv[2]).write_text(svg(found, title_of(found)))
