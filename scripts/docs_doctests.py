"""For mkdocstrings: the examples of docstrings are code, also what they print."""

from __future__ import annotations

import re
from typing import Any

import griffe  # pyright: ignore[reportMissingImports]

_EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.M)


class Doctests(griffe.Extension):  # pyright: ignore[reportUnknownMemberType, reportUntypedBaseClass]
    """Puts a fence around every doctest."""

    def on_object(self, *, obj: Any, **_: object) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(lambda m: f"\n```pycon\n{m[0]}\n```\n", obj.docstring.value)
