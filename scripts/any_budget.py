"""How often the source says `Any`: by folder, and per thousand lines.

    python scripts/any_budget.py              the folders of src/flydsl
    python scripts/any_budget.py expr/rocdl   the files below a folder

tests/unit/test_any_budget.py holds the whole tree to the number in tests/unit/any_budget.txt, which only falls.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "flydsl"
BUDGET = ROOT / "tests" / "unit" / "any_budget.txt"


class Count(NamedTuple):
    """What a part of the tree holds."""

    words: int
    lines: int

    @property
    def rate(self) -> float:
        """`Any` per thousand lines."""
        return 1000 * self.words / self.lines if self.lines else 0.0


_ALIAS = re.compile(r"^(\w+)(?:: TypeAlias)? = (.*)$", re.MULTILINE)


def count(files: list[Path]) -> Count:
    """`Any` as a word, wherever it stands, in Python files, and names that packages define for it."""
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    names: dict[Path, set[str]] = {}
    for file, text in texts.items():
        names.setdefault(_package(file), set()).update(name for name, meant in _ALIAS.findall(text) if meant == "Any")
    words = sum(len(re.findall(_words(text, names[_package(file)]), text)) for file, text in texts.items())
    return Count(words, sum(text.count("\n") for text in texts.values()))


def _package(file: Path) -> Path:
    """The folder below `src/flydsl` that a file belongs to."""
    return SOURCE / file.relative_to(SOURCE).parts[0] if file.is_relative_to(SOURCE) else file.parent


def _words(text: str, names: set[str]) -> str:
    """What is counted in a file: `Any`, and those of its package's names for it that the file defines or imports."""
    own = {name: meant for name, meant in _ALIAS.findall(text) if name in names}
    imported = {
        alias.asname or alias.name
        for node in (ast.walk(ast.parse(text)) if names else ())
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in names
    }
    known = {name for name, meant in own.items() if meant == "Any"} | (imported - own.keys())
    return rf"\b(?:{'|'.join(['Any', *sorted(known)])})\b"


def parts(below: Path) -> dict[str, list[Path]]:
    """The files of a folder, by the folder or file right below it that they belong to."""
    found: dict[str, list[Path]] = {}
    for file in sorted(below.rglob("*.py")):
        found.setdefault(file.relative_to(below).parts[0], []).append(file)
    return found


def main(arguments: list[str]) -> None:
    """Print the listing, the most first."""
    below = SOURCE / (arguments[0] if arguments else "")
    table = {name: count(files) for name, files in parts(below).items()}
    total = count([file for files in parts(below).values() for file in files])
    for name, one in sorted([*table.items(), ("all", total)], key=lambda entry: -entry[1].words):
        print(f"{name:32} {one.words:6} in {one.lines:6} lines {one.rate:7.1f} per thousand")


if __name__ == "__main__":
    main(sys.argv[1:])
