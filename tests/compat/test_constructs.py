"""Every name and construct of FlyDSL's that users rely on is in a program of the corpus."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from .constructs import KEYWORDS, NAMES, PROGRAMS
from .programs import PROGRAMS as CORPUS

FOLDER = Path(__file__).parent / "programs"


def asked(source: str) -> tuple[set[str], set[str]]:
    """The names that a source asks of modules and objects, and the keywords of its calls."""
    names: set[str] = set()
    keywords: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.name for alias in node.names} | set((node.module or "").split("."))
        elif isinstance(node, ast.keyword) and node.arg:
            keywords.add(node.arg)
    return names, keywords


@pytest.fixture(scope="module")
def used() -> tuple[set[str], set[str]]:
    found = [asked(path.read_text()) for path in FOLDER.glob("*.py")]
    return set().union(*(names for names, _ in found)), set().union(*(words for _, words in found))


@pytest.mark.parametrize("theme", NAMES)
def test_every_name_has_a_program(theme: str, used: tuple[set[str], set[str]]):
    missing = [name for name in NAMES[theme].split() if name not in used[0]]
    assert not missing, f"no program of the corpus uses {', '.join(missing)}"


def test_every_keyword_has_a_program(used: tuple[set[str], set[str]]):
    missing = [name for name in KEYWORDS.split() if name not in used[1]]
    assert not missing, f"no program of the corpus passes {', '.join(missing)}"


def test_every_construct_has_a_program():
    missing = [name for names in PROGRAMS.values() for name in names.split() if name not in CORPUS]
    assert not missing, f"the corpus has no program {', '.join(missing)}"


def test_what_is_not_asked_for_is_missed():
    names, keywords = asked("from a.b import c\nc.d(e=1)")
    assert names == {"a", "b", "c", "d"} and keywords == {"e"}
