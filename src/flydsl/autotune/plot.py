"""Pictures of measurements as SVG, without any other package."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")
_TEXT = 'font-family="sans-serif" font-size="12"'


def _number(value: float) -> str:
    return f"{value:.4g}"


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" {_TEXT}>'
    return "\n".join([head, f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>', *parts, "</svg>\n"])


def _label(x: float, y: float, text: str, anchor: str = "start", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def bars(rows: Sequence[tuple[str, float]], *, title: str, unit: str) -> str:
    """A bar for each row, in order."""
    longest = max([len(name) for name, _ in rows] or [0])
    left, wide = 20 + 7.0 * longest, 360.0
    top = max([value for _, value in rows] or [1.0]) or 1.0
    parts = [_label(10, 20, title, more=' font-weight="bold"')]
    for i, (name, value) in enumerate(rows):
        y = 36 + 20 * i
        parts.append(_label(left - 8, y + 12, name, "end"))
        parts.append(
            f'<rect x="{left:.1f}" y="{y}" width="{wide * value / top:.1f}" height="15" fill="{COLOURS[bool(i)]}"/>'
        )
        parts.append(_label(left + wide * value / top + 6, y + 12, f"{_number(value)} {unit}"))
    return _svg(left + wide + 110, 50 + 20 * len(rows), parts)


def ticks(low: float, high: float, logarithmic: bool) -> list[float]:
    """Round numbers from `low` to `high`.

    >>> ticks(0.0, 10.0, False)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    >>> ticks(1.0, 1000.0, True)
    [1.0, 10.0, 100.0, 1000.0]
    """
    if logarithmic:
        first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
        step = max(1, (last - first) // 6)
        return [10.0**i for i in range(first, last + 1, step)]
    span = high - low or abs(high) or 1.0
    step = 10.0 ** math.floor(math.log10(span / 4))
    step *= next(m for m in (1, 2, 5, 10) if span / (step * m) <= 6)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


class _Axis:
    def __init__(self, values: Sequence[float], start: float, end: float, logarithmic: bool, from_zero: bool):
        low, high = min(values), max(values)
        self.log = logarithmic and low > 0
        if from_zero and not self.log:
            low = min(low, 0.0)
        self.ticks = ticks(low, high, self.log)
        self.low, self.high = min(low, self.ticks[0]), max(high, self.ticks[-1])
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        scale = math.log10 if self.log else float
        span = scale(self.high) - scale(self.low) or 1.0
        return self.start + (self.end - self.start) * (scale(value) - scale(self.low)) / span


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str = "",
    x_label: str = "",
    y_label: str = "",
    log_x: bool = False,
    log_y: bool = False,
) -> str:
    """A line for each series of points; what is not a finite number is left out."""
    clean = {n: [(x, y) for x, y in s if math.isfinite(x) and math.isfinite(y)] for n, s in series.items()}
    points = [point for each in clean.values() for point in each]
    if not points:
        return _svg(640, 60, [_label(10, 30, f"{title}: there is nothing to draw")])
    left, right, top, bottom = 74.0, 560.0, 40.0, 360.0
    across = _Axis([x for x, _ in points], left, right, log_x, False)
    up = _Axis([y for _, y in points], bottom, top, log_y, True)
    parts = [_label(left, 22, title, more=' font-weight="bold"')]
    for value in across.ticks:
        x = across(value)
        parts.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="#ddd"/>')
        parts.append(_label(x, bottom + 16, _number(value), "middle"))
    for value in up.ticks:
        y = up(value)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(_label(left - 6, y + 4, _number(value), "end"))
    parts.append(_label((left + right) / 2, bottom + 36, x_label, "middle"))
    middle = (top + bottom) / 2
    parts.append(_label(16, middle, y_label, "middle", f' transform="rotate(-90 16 {middle:.1f})"'))
    for i, (name, own) in enumerate(clean.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in own)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="3" fill="{colour}"/>' for x, y in own]
        y = top + 8 + 18 * i
        parts.append(f'<rect x="{right + 14}" y="{y - 8}" width="12" height="12" fill="{colour}"/>')
        parts.append(_label(right + 32, y + 2, name))
    longest = max(len(name) for name in clean)
    return _svg(right + 50 + 7.5 * longest, bottom + 52, parts)
