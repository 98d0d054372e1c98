"""The tutorial's pictures are what the library draws, and the pages show every one of them."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from flydsl.tools.pages.tutorial_pictures import PICTURES

TUTORIAL = Path(__file__).resolve().parents[3] / "docs" / "tutorial"
AGAIN = "run python -m flydsl.tools.pages.tutorial_pictures docs/tutorial/img"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_up_to_date(name):
    drawn = PICTURES[name]()
    assert (TUTORIAL / "img" / f"{name}.svg").read_text(encoding="utf-8") == drawn, AGAIN
    root = ElementTree.fromstring(drawn)
    cells = [node for node in root if node.tag.endswith("rect")]
    colours = {node.attrib["fill"] for node in cells}
    assert len(cells) >= 16 and len(colours) >= 4, "cells, in colours"


def test_the_pages_show_every_picture():
    shown = {
        name
        for page in TUTORIAL.glob("*.md")
        for name in re.findall(r"!\[[^]]+\]\(img/([\w-]+)\.svg\)", page.read_text())
    }
    assert shown == set(PICTURES)
    assert {path.stem for path in (TUTORIAL / "img").iterdir()} == set(PICTURES), AGAIN
