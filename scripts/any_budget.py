"""How often the source says `Any`: by folder, and per thousand lines.

    python scripts/any_budget.py              the folders of src/flydsl
    python scripts/any_budget.py expr/rocdl   the files below a folder

tests/unit/test_any_budget.py holds the whole tree to the number in tests/unit/any_budget.txt, which only falls.
"""

from __future__ import annotations

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


def count(files: list[Path]) -> Count:
    """`Any` as a word, wherever it stands, in Python files."""
    texts = [file.read_text(encoding="utf-8") for file in files]
    return Count(sum(len(re.findall(r"\bAny\b", text)) for text in texts), sum(text.count("\n") for text in texts))


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
