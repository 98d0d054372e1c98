"""The pictures of the tutorial, drawn by the library.

python -m flydsl.tools.pages.tutorial_pictures docs/tutorial/img
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from ...layout import ComposedLayout, Layout, Swizzle, make_layout_tv
from ...layout.draw import draw_layout, draw_tv


def _copy() -> str:
    """4 x 4 threads with four values of a row each."""
    tiler, tv = make_layout_tv(Layout((4, 4), (4, 1)), Layout((1, 4), (4, 1)))
    return draw_tv(tv, tiler)  # pyright: ignore[reportArgumentType]


def _tiles() -> str:
    """The four 4 x 8 tiles of an 8 x 16 matrix, each as a thread whose values are its elements."""
    return draw_tv(Layout(((2, 2), (4, 8)), ((4, 64), (1, 8))), (8, 16))


PICTURES: dict[str, Callable[[], str]] = {
    "row-major": lambda: draw_layout(Layout((4, 8), (8, 1))),
    "column-major": lambda: draw_layout(Layout((4, 8), (1, 4))),
    "nested": lambda: draw_layout(Layout(((2, 2), 4), ((1, 8), 2))),
    "tiles": _tiles,
    "plain-banks": lambda: draw_layout(Layout((8, 8), (8, 1)), 8),
    "swizzled-banks": lambda: draw_layout(ComposedLayout(Swizzle(3, 0, 3), 0, Layout((8, 8), (8, 1))), 8),
    "copy-threads": _copy,
    "mfma-c": lambda: draw_tv(Layout(((16, 4), (4, 1)), ((16, 4), (1, 16))), (16, 16)),
}
"""File name without `.svg`, and what makes its content."""


def main() -> None:
    """Write every picture to a folder."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in PICTURES.items():
        (folder / f"{name}.svg").write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
