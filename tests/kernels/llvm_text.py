"""LLVM IR text up to the names of values and blocks."""

from __future__ import annotations

import re

_NAME = re.compile(r"%([\w.$-]+)|^([\w.$-]+):", re.MULTILINE)


def normalised(ir: str) -> str:
    """The text with values and blocks numbered in the order they appear in, function by function."""
    parts = re.split(r"(?m)^(?=define )", ir)
    return "".join([parts[0], *map(_renumbered, parts[1:])])


def _renumbered(function: str) -> str:
    body, brace, rest = function.partition("\n}\n")
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        found = numbers.setdefault(name, len(numbers))
        return f"%{found}" if match[1] else f"{found}:"

    return _NAME.sub(number, body) + brace + rest
