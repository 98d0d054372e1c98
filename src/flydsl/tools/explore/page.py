"""The page: one HTML file with its style, its program and its data inside. It loads nothing from anywhere."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

Data: TypeAlias = dict[str, Any]
"""What becomes JSON in the page."""

_HERE = Path(__file__).parent
_PROGRAM = ("costs.js", "compare.js", "page.js")
"""In this order: the last one starts it all."""


def page(data: Data, *, live: bool = False) -> str:
    """The text of the file; a live one asks the server it comes from for news."""
    # "</" would end the script element that holds the data, and "<!-- <script>" keep it from ending.
    packed = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    parts = {
        "title": escape(data["title"]),
        "style": (_HERE / "page.css").read_text(encoding="utf-8"),
        "program": "\n".join((_HERE / name).read_text(encoding="utf-8") for name in _PROGRAM),
        "live": (_HERE / "live.js").read_text(encoding="utf-8") if live else "",
        "data": packed,
    }
    text = (_HERE / "page.html").read_text(encoding="utf-8")
    pieces = text.split("{{")
    out = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        out += (parts[name], rest)
    return "".join(out)
