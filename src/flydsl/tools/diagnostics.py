"""Errors at places of an input file: how they are shown, and compared with the comments that expect them."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple

_EXPECTED = re.compile(r"expected-error\s*(?:@([+-]\d+|above|below))?\s*\{\{(.*?)\}\}")
_EXPECTED_RE = re.compile(r"expected-error-re\s*(?:@([+-]\d+|above|below))?\s*\{\{(.*)\}\}")


class Diagnostic(NamedTuple):
    """An error at a line and column of the file, both from 1."""

    line: int
    column: int
    message: str


def show(text: str, name: str, error: Diagnostic) -> None:
    """`file:line:col: error: message` with the line and a caret."""
    print(f"{name}:{error.line}:{error.column}: error: {error.message}", file=sys.stderr)
    lines = text.split("\n")
    if 0 < error.line <= len(lines):
        print(f"{lines[error.line - 1]}\n{' ' * (error.column - 1)}^", file=sys.stderr)


class Expected(NamedTuple):
    """A comment that announces an error at a line."""

    line: int
    pattern: re.Pattern[str]
    text: str


class Expectations:
    """The `// expected-error {{...}}` comments of a chunk of input."""

    def __init__(self, text: str, first_line: int):
        self.expected: list[Expected] = []
        lines = text.split("\n")
        for number, line in enumerate(lines):
            for regex in (_EXPECTED, _EXPECTED_RE):
                for where, message in regex.findall(line):
                    at = first_line + _target(lines, number, where)
                    self.expected.append(Expected(at, _pattern(message, regex is _EXPECTED_RE), message))

    def check(self, name: str, errors: list[Diagnostic]) -> bool:
        """Whether each error was expected at its line and each expected one came; prints what differs."""
        left = list(self.expected)
        good = True
        for error in errors:
            match = next((e for e in left if e.line == error.line and e.pattern.search(error.message)), None)
            if match is not None:
                left.remove(match)
                continue
            good = False
            place = f"{name}:{error.line}:{error.column}"
            print(f"{place}: error: unexpected error: {error.message}", file=sys.stderr)
        for e in left:
            good = False
            print(f'{name}:{e.line}: error: expected error "{e.text}" was not produced', file=sys.stderr)
        return good


def _target(lines: list[str], number: int, where: str) -> int:
    """The line a comment speaks of; `above` and `below` skip other such comments."""
    if where not in ("above", "below"):
        return number + int(where or 0)
    step = -1 if where == "above" else 1
    number += step
    while 0 < number < len(lines) - 1 and "expected-error" in lines[number]:
        number += step
    return number


def _pattern(message: str, regex: bool) -> re.Pattern[str]:
    """Plain text, or text with `{{regular expressions}}` in it."""
    if not regex:
        return re.compile(re.escape(message))
    parts = re.split(r"\{\{(.*?)\}\}", message)
    return re.compile("".join(part if i % 2 else re.escape(part) for i, part in enumerate(parts)))
