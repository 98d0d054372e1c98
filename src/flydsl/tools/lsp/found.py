"""What the child process tells the server of a file, as plain data."""

from __future__ import annotations

from typing import TypedDict


class FoundMistake(TypedDict):
    """A message; lines from 1, columns in characters from 0, `severity` as the protocol has it."""

    line: int
    column: int
    end: int
    message: str
    severity: int


class FoundValue(TypedDict):
    """What a name was given at a line."""

    line: int
    name: str
    text: str
    """Its type, with its layout."""
    pictures: list[str]
    """SVGs: of a layout, of each operand of a tiled product."""
    grid: str
    """The picture as text, or nothing."""


class FoundText(TypedDict):
    """A stage of a function, with the line of the file that each of its lines comes from, or 0."""

    name: str
    text: str
    map: list[int]


class FoundCode(TypedDict):
    """What became of a function."""

    function: str
    target: str
    kernels: list[str]
    texts: list[FoundText]


class FoundFunction(TypedDict):
    """A function the language compiles."""

    name: str
    line: int


class Found(TypedDict):
    """Everything."""

    mistakes: list[FoundMistake]
    values: list[FoundValue]
    made: list[FoundCode]
    functions: list[FoundFunction]


def nothing(*mistakes: FoundMistake) -> Found:
    """Mistakes alone."""
    return {"mistakes": list(mistakes), "values": [], "made": [], "functions": []}
