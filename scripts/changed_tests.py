#!/usr/bin/env python3
"""The tests of what was touched: `scripts/test --changed [BASE]` runs what this prints.

The rule, for each file that differs from BASE (the last commit unless given; new files count):

- a test is run itself, a helper of tests (`conftest.py`, data) runs its folder, a `.mlir` file runs under lit;
- `src/flydsl/a/b/c.py` runs the tests named after it (`test_c.py`, `test_c_more.py`, `c.mlir`), those that name the
  module in an import, and where there is neither those of its folder (`tests/unit/a/b`, `tests/unit/a`);
- a page of `docs/` runs the tests of the pages.

It is a first answer in seconds, not a proof: the whole suite stays the judge.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["tests/unit/test_docs.py"]
MOST_NAMED = 6
"""Tests that import a module: beyond these many it is everybody's, and its own tests have to do."""


def changed(base: str, root: Path = ROOT) -> list[str]:
    """Files that differ from a commit, new ones included, deleted ones not."""

    def git(*words: str) -> list[str]:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()

    found = {*git("diff", "--name-only", "--diff-filter=d", base), *git("ls-files", "--others", "--exclude-standard")}
    return sorted(found)


def tests_of(path: str, root: Path = ROOT) -> set[str]:
    """Tests of one file, as paths from the root."""
    file = Path(path)
    if path.startswith("tests/filecheck/"):
        return {path} if file.suffix == ".mlir" else {"tests/filecheck"}
    if path.startswith("tests/"):
        is_test = file.suffix == ".py" and file.name.startswith("test_")
        return {path if is_test else str(file.parent)}
    if path.startswith("docs/") or path == "README.md":
        return set(PAGES)
    if not path.startswith("src/flydsl/") or file.suffix not in (".py", ".pyi"):
        return set()
    return _named_after(file, root) | _importers(file, root) or _folder(file, root)


def _named_after(file: Path, root: Path) -> set[str]:
    stem = file.parent.name if file.stem == "__init__" else file.stem
    found = {root / path for path in _tests(root) if Path(path).name.startswith(f"test_{stem}")}
    if "passes" in file.parts:
        found |= set((root / "tests/filecheck/passes").glob(f"{stem.replace('_', '-')}*.mlir"))
    return {str(p.relative_to(root)) for p in found}


@cache
def _tests(root: Path) -> dict[str, str]:
    """The text of every test."""
    return {str(p.relative_to(root)): p.read_text(encoding="utf-8") for p in (root / "tests").rglob("test_*.py")}


def _importers(file: Path, root: Path) -> set[str]:
    parts = file.relative_to("src").with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    if module.count(".") < 2:
        return set()  # every test imports flydsl.expr
    parent, _, name = module.rpartition(".")
    named = re.compile(
        rf"\b{re.escape(module)}\b|from {re.escape(parent)} import [^\n]*\b{re.escape(name)}\b|\"{re.escape(module)}\""
    )
    found = {path for path, text in _tests(root).items() if name in text and named.search(text)}
    return found if len(found) <= MOST_NAMED else set()


def _folder(file: Path, root: Path) -> set[str]:
    inner = file.relative_to("src/flydsl").parent
    for folder in (inner, *inner.parents):
        place = root / "tests" / "unit" / folder
        if str(folder) != "." and place.is_dir():
            return {str(place.relative_to(root))}
    top = inner.parts[0] if inner.parts else file.stem
    wider = [p for p in (root / "tests" / top, root / "tests/unit" / f"test_{top}.py") if p.exists()]
    return {str(p.relative_to(root)) for p in wider} or {"tests/unit/surface"}


def selected(paths: list[str], root: Path = ROOT) -> list[str]:
    """Tests of several files, without those inside a folder that is listed too."""
    found = set[str]().union(*(tests_of(path, root) for path in paths))
    return sorted(p for p in found if not any(str(q) in found for q in Path(p).parents))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", nargs="?", default="HEAD", help="commit or branch to compare with")
    options = parser.parse_args()
    sys.stdout.write("".join(f"{path}\n" for path in selected(changed(options.base))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
