"""Pictures of layouts: one cell per coordinate, the right text in it, refusals that say why."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from flydsl.layout import ComposedLayout, Dyn, Layout, Swizzle
from flydsl.layout.draw import CELL, MARGIN, draw_layout, draw_tv


def cells(picture: str) -> dict[tuple[int, int], str]:
    """Row and column to text, read back from the picture."""
    root = ET.fromstring(picture)
    space = "{http://www.w3.org/2000/svg}"
    found: dict[tuple[int, int], str] = {}
    children = list(root)
    for rect, text in zip(children, children[1:], strict=False):
        if rect.tag == space + "rect":
            row, column = (int(rect.get("y", "0")) - 2 * MARGIN) // CELL, (int(rect.get("x", "0")) - MARGIN) // CELL
            found[row, column] = text.text or ""
    return found


@pytest.mark.parametrize("layout", [Layout((4, 8), (8, 1)), Layout((4, (2, 2)), (1, (4, 16))), Layout((3, 5), (5, 1))])
def test_every_cell_shows_its_offset(layout: Layout):
    for (r, c), text in cells(draw_layout(layout)).items():
        assert text == str(layout(r, c))


def test_swizzled():
    layout = ComposedLayout(Swizzle(2, 0, 2), 0, Layout((4, 4), (4, 1)))
    assert {t for t in cells(layout.draw()).values()} == {str(i) for i in range(16)}


def test_rank_one_is_a_row():
    assert cells(Layout(4, 2).draw()) == {(0, i): str(2 * i) for i in range(4)}


def test_thread_values():
    tv = Layout(((16, 8), 4), ((32, 1), 8))
    found = cells(draw_tv(tv, (8, 64)))
    assert len(found) == 512 and found[0, 0] == "T0.0" and found[0, 3] == "T0.3" and found[1, 0] == "T16.0"


@pytest.mark.parametrize(
    ("layout", "match"),
    [
        (Layout((2, 2, 2), (1, 2, 4)), "two dimensions"),
        (Layout((Dyn.get(), 2), (1, 2)), "static shape"),
        (Layout((1000, 1000), (1, 1000)), "too many"),
    ],
)
def test_refusals(layout: Layout, match: str):
    with pytest.raises(ValueError, match=match):
        draw_layout(layout)


def test_command_line():
    run = [sys.executable, "-m", "flydsl.tools.fly", "draw"]
    done = subprocess.run([*run, "(2,2):(2,1)"], capture_output=True, text=True)
    assert done.returncode == 0 and re.search(r"<svg.*</svg>", done.stdout, re.DOTALL)
    done = subprocess.run([*run, "(2,2):(2"], capture_output=True, text=True)
    assert done.returncode == 1 and "fly draw:" in done.stderr
