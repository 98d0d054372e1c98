"""A file and what its last analysis said, put into the terms of the protocol: lines from 0, columns in UTF-16 units."""

from __future__ import annotations

import base64
import re
from typing import NamedTuple

from .found import Found, FoundCode, FoundValue, nothing
from .source import Source, parse

STAGES = ("traced IR", "lowered IR", "LLVM IR", "assembly")
_WORD = re.compile(r"[^\W\d]\w*")
LONGEST = 60
"""Characters of a description beside the code."""
LARGEST_PICTURE = 48_000
"""Characters of the SVGs that are put into a hover: editors cut what is too long."""


class Span(NamedTuple):
    """A part of a line."""

    line: int
    start: int
    end: int


class Diagnostic(NamedTuple):
    """A message at a place; `severity` as the protocol has it."""

    span: Span
    message: str
    severity: int


class InlayHint(NamedTuple):
    """Text behind a name."""

    line: int
    column: int
    text: str
    more: str


class Hover(NamedTuple):
    """What is said of a name."""

    span: Span
    markdown: str


class Lens(NamedTuple):
    """Words above a function that do something."""

    line: int
    title: str
    function: str
    stage: str


class Lowered(NamedTuple):
    """A text that a function became, and the line to look at."""

    name: str
    text: str
    line: int


def units(text: str, column: int) -> int:
    """UTF-16 units before a column in characters.

    >>> units("a𝄞b", 2), units("ab", 9)
    (3, 2)
    """
    return len(text[:column].encode("utf-16-le")) // 2


def column_of(text: str, unit: int) -> int:
    """The column in characters of a place in UTF-16 units."""
    return len(text.encode("utf-16-le")[: 2 * unit].decode("utf-16-le", errors="ignore"))


class Document:
    """One file."""

    def __init__(self, path: str, text: str):
        self.path = path
        self.lines = text.split("\n")
        self.source = Source(text)
        self.found: Found = nothing()
        self._lines = self.lines
        """As they were analysed."""

    def change(self, text: str) -> None:
        """The text as it is now."""
        self.lines = text.split("\n")

    def take(self, text: str, found: Found) -> None:
        """What an analysis of a text gave."""
        self._lines = text.split("\n")
        self.found = found
        try:
            self.source = parse(text, self.path)
        except SyntaxError:  # which is among the mistakes
            self.source = Source(text)

    def _same(self, line: int) -> bool:
        """Whether a line is what was analysed."""
        return line <= min(len(self.lines), len(self._lines)) and self.lines[line - 1] == self._lines[line - 1]

    def diagnostics(self) -> list[Diagnostic]:
        """Every mistake."""
        out: list[Diagnostic] = []
        for mistake in self.found["mistakes"]:
            line = min(max(mistake["line"], 1), len(self._lines))
            text = self._lines[line - 1]
            start, end = mistake["column"], mistake["end"]
            if end <= start:
                start, end = len(text) - len(text.lstrip()), len(text)
            span = Span(line - 1, units(text, start), units(text, max(end, start + 1)))
            out.append(Diagnostic(span, mistake["message"], mistake["severity"]))
        return out

    def inlay_hints(self, first: int, last: int) -> list[InlayHint]:
        """For lines `first` to `last`, from 0."""
        out: dict[tuple[int, int], InlayHint] = {}
        for value in self.found["values"]:
            place = self.source.names.get((value["line"], value["name"]))
            if place is None or not first <= place.line - 1 <= last or not self._same(place.line):
                continue
            column = units(self.lines[place.line - 1], place.end)
            hint = InlayHint(place.line - 1, column, f": {_shortened(value['text'])}", value["text"])
            out[hint.line, hint.column] = hint  # the last: what a loop or a second call made of it
        return list(out.values())

    def hover(self, line: int, unit: int) -> Hover | None:
        """What is known of the name at a place."""
        if line >= len(self.lines):
            return None
        text = self.lines[line]
        at = column_of(text, unit)
        word = next((m for m in _WORD.finditer(text) if m.start() <= at <= m.end()), None)
        if word is None:
            return None
        value = self._value(word[0], line + 1)
        if value is None:
            return None
        span = Span(line, units(text, word.start()), units(text, word.end()))
        return Hover(span, _markdown(value))

    def _value(self, name: str, line: int) -> FoundValue | None:
        """The value of a name at a line: the last one given before it in the same function."""
        around = self.source.at(line)
        known = [v for v in self.found["values"] if v["name"] == name]
        if around is not None:
            known = [v for v in known if around.line <= v["line"] <= around.last] or known
        before = [v for v in known if v["line"] <= line]
        return max(before or known, key=lambda v: v["line"], default=None)

    def lenses(self) -> list[Lens]:
        """Above each function that was compiled."""
        out: list[Lens] = []
        for function in self.found["functions"]:
            made = self._made(function["name"])
            if made is None or function["line"] > len(self.lines):
                continue
            target = ":".join(made["target"].split(":")[:2])
            for stage in STAGES:
                title = f"{stage} for {target}" if stage == STAGES[0] else stage
                out.append(Lens(function["line"] - 1, title, function["name"], stage))
        return out

    def _made(self, name: str) -> FoundCode | None:
        """What became of a jit function or kernel."""
        for made in reversed(self.found["made"]):
            if made["function"] == name or any(k.rpartition("_")[0] == name for k in made["kernels"]):
                return made
        return None

    def lowered(self, name: str | None, stage: str, line: int | None = None) -> Lowered | None:
        """The text of a stage of a function, or of the one around a line (from 0), at what that line became."""
        if name is None and line is not None:
            around = self.source.at(line + 1)
            name = None if around is None else around.name
        made = None if name is None else self._made(name)
        if made is None:
            return None
        text = next((t for t in made["texts"] if t["name"] == stage), None)
        if text is None:
            return None
        wanted = -1 if line is None else line + 1
        at = next((i for i, number in enumerate(text["map"]) if number == wanted), -1)
        if at < 0:
            at = next((i for i, words in enumerate(text["text"].split("\n")) if f"@{name}" in words), 0)
        target = made["target"].replace(":", "-")
        end = {"LLVM IR": "ll", "assembly": "s"}.get(stage, "mlir")
        return Lowered(f"{made['function']}.{target}.{stage.split()[0].lower()}.{end}", text["text"], at)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _markdown(value: FoundValue) -> str:
    parts = [f"**{value['name']}**: `{value['text']}`"]
    room = LARGEST_PICTURE
    for picture in value["pictures"]:
        room -= len(picture)
        if room >= 0:
            packed = base64.b64encode(picture.encode()).decode()
            parts.append(f"![{value['text']}](data:image/svg+xml;base64,{packed})")
    if value["grid"]:
        parts.append(f"```text\n{value['grid']}\n```")
    return "\n\n".join(parts)
