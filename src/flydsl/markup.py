"""Small pieces of HTML for notebooks. Colours follow the page around them, so that dark themes stay dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_MONO = "font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px"
_CELL = "text-align:left;padding:2px 12px 2px 0;vertical-align:top;background:none"


def heading(text: str, more: str = "") -> str:
    """A bold line, and words behind it."""
    return f"<div><b>{escape(text)}</b> {escape(more)}</div>"


def code(text: str, tall: int = 420) -> str:
    """A block of text that scrolls where it is longer than `tall` pixels."""
    return f'<pre style="{_MONO};line-height:1.4;max-height:{tall}px;overflow:auto;margin:4px 0">{escape(text)}</pre>'


def folded(title: str, body: str, *, is_open: bool = False) -> str:
    """A part that opens at a click; `body` is HTML."""
    return f"<details{' open' if is_open else ''}><summary>{escape(title)}</summary>{body}</details>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of texts.

    >>> table(["a"], [["<1>"]]).count("&lt;1&gt;")
    1
    """
    cells = "".join(f'<th style="{_CELL}">{escape(str(each))}</th>' for each in head)
    lines = [f"<tr>{cells}</tr>"]
    for row in rows:
        cells = "".join(f'<td style="{_CELL};{_MONO}">{escape(str(each))}</td>' for each in row)
        lines.append(f"<tr>{cells}</tr>")
    return f'<table style="border-collapse:collapse">{"".join(lines)}</table>'


def figures(pictures: Iterable[tuple[str, str]]) -> str:
    """Pictures (SVG) with their titles, beside each other while there is room."""
    style = "margin:0;padding:8px;background:#fff;color:#222;border:1px solid #8884;border-radius:6px;overflow:auto"
    parts = [
        f'<figure style="{style}"><figcaption style="font-size:12px">{escape(title)}</figcaption>{svg}</figure>'
        for title, svg in pictures
    ]
    return f'<div style="display:flex;flex-wrap:wrap;gap:12px;margin:4px 0">{"".join(parts)}</div>'


__all__ = ["code", "figures", "folded", "heading", "table"]
