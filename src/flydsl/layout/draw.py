"""Pictures of layouts as SVG: which offset each coordinate maps to, or which thread holds each element.

A layout of rank 2 (or 1) is drawn as a grid, rows down and columns across, with the offset in each cell. A thread-value
layout is drawn on the tile it covers: colour and `T.V` say which value of which thread an element is.
"""

from __future__ import annotations

from html import escape
from typing import cast

from flydsl.errors import LayoutError
from flydsl.layout.algebra import size
from flydsl.layout.coordinates import crd2idx
from flydsl.layout.layout import AnyLayout, Layout
from flydsl.layout.leaf import IntTuple

CELL = 34
MARGIN = 26
MAX_CELLS = 16384
_COLOURS = (
    "#cfe8ff", "#ffe2c6", "#d8f3d0", "#f7cfd8", "#e4d6f7", "#fff4b8", "#cdeff0", "#f0d9c0",
    "#d9dfe8", "#f9d5ef", "#e6f0b8", "#c9d6ff", "#ffd0b5", "#bfe8d5", "#ead3d3", "#dcd0ec",
)  # fmt: skip


def _grid(layout: AnyLayout) -> tuple[int, int]:
    if not layout.is_static_shape:
        raise LayoutError(f"only layouts with a static shape can be drawn, got {layout}")
    if layout.rank > 2:
        raise LayoutError(f"a picture has two dimensions: group the modes of {layout} first")
    whole = cast(int, size(layout))
    rows = whole if layout.rank == 1 else cast(int, size(layout[0]))
    columns = 1 if layout.rank == 1 else cast(int, size(layout[1]))
    if layout.rank == 1:
        rows, columns = 1, whole
    if rows * columns > MAX_CELLS:
        raise LayoutError(f"{layout} has {rows * columns} cells, too many to draw; slice it first")
    return rows, columns


def _svg(rows: int, columns: int, cells: list[tuple[int, int, str, str]], title: str) -> str:
    """The picture; a cell is row, column, text and colour."""
    width, height = max(MARGIN + columns * CELL, MARGIN + 8 * len(title)) + 8, MARGIN * 2 + rows * CELL + 8
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="11" text-anchor="middle" '
        'style="background:#fff">',
        f'<text x="{MARGIN}" y="14" text-anchor="start" font-size="13">{escape(title)}</text>',
    ]
    top = MARGIN * 2
    for c in range(columns):
        out.append(f'<text x="{MARGIN + c * CELL + CELL / 2}" y="{top - 6}" fill="#888">{c}</text>')
    for r in range(rows):
        out.append(f'<text x="{MARGIN / 2}" y="{top + r * CELL + CELL / 2 + 4}" fill="#888">{r}</text>')
    for r, c, text, colour in cells:
        x, y = MARGIN + c * CELL, top + r * CELL
        out.append(f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" fill="{colour}" stroke="#555"/>')
        small = "" if len(text) <= 4 else f' font-size="{max(50 / len(text), 5):.1f}"'
        out.append(f'<text x="{x + CELL / 2}" y="{y + CELL / 2 + 4}"{small}>{escape(text)}</text>')
    return "\n".join([*out, "</svg>", ""])


def draw_layout(layout: AnyLayout, banks: int = len(_COLOURS)) -> str:
    """SVG of the offsets of a layout of rank 1 or 2; those equal modulo `banks`, at most 16, have one colour.

    >>> draw_layout(Layout((2, 3), (1, 2))).count("<rect")
    6
    """
    if not 1 <= banks <= len(_COLOURS):
        raise LayoutError(f"there are colours for 1 to {len(_COLOURS)} banks, got {banks}")
    rows, columns = _grid(layout)
    cells: list[tuple[int, int, str, str]] = []
    for r in range(rows):
        for c in range(columns):
            at = crd2idx(c if layout.rank == 1 else (r, c), layout)
            text = str(at).replace(" ", "")
            colour = _COLOURS[at % banks] if isinstance(at, int) else "#ffffff"
            cells.append((r, c, text, colour))
    return _svg(rows, columns, cells, str(layout))


def draw_tv(tv: Layout, tile: tuple[int, int]) -> str:
    """SVG of a thread-value layout over the tile it covers; `T5.2` is value 2 of thread 5.

    >>> draw_tv(Layout((4, 2), (2, 1)), (2, 4)).count("T3.1")
    1
    """
    if tv.rank != 2 or not tv.is_static:
        raise LayoutError(f"expected a static (thread, value) layout, got {tv}")
    rows, columns = tile
    if rows * columns > MAX_CELLS:
        raise LayoutError(f"a tile of {rows} x {columns} has too many cells to draw")
    owners: dict[int, list[tuple[int, int]]] = {}
    for thread in range(cast(int, size(tv[0]))):
        for value in range(cast(int, size(tv[1]))):
            owners.setdefault(cast(int, crd2idx((thread, value), tv)), []).append((thread, value))
    cells: list[tuple[int, int, str, str]] = []
    for c in range(columns):
        for r in range(rows):
            mine = owners.get(r + rows * c, [])
            text = f"T{mine[0][0]}.{mine[0][1]}" if mine else ""
            more = "+" if len(mine) > 1 else ""
            colour = _COLOURS[mine[0][0] % len(_COLOURS)] if mine else "#ffffff"
            cells.append((r, c, text + more, colour))
    return _svg(rows, columns, cells, f"{tv} over {rows} x {columns}")


def picture_of(layout: AnyLayout, most: int = 1024) -> str | None:
    """SVG of a layout of any rank, the modes behind the first one as columns; None where it is none to look at.

    >>> picture_of(Layout((2, 3, 4), (1, 2, 6))).count("<rect"), picture_of(Layout((64, 64), (64, 1)))
    (24, None)
    """
    if not layout.is_static_shape:
        return None
    if layout.rank > 2 and isinstance(layout, Layout):
        shape, stride = cast("tuple[IntTuple, ...]", layout.shape), cast("tuple[IntTuple, ...]", layout.stride)
        layout = Layout((shape[0], shape[1:]), (stride[0], stride[1:]))
    if layout.rank > 2 or not 1 < cast(int, size(layout)) <= most:
        return None
    return draw_layout(layout)
