"""Pages that are made from the code are up to date, and what pages point to exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flydsl.tools import env_docs

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))


def test_environment_page_is_up_to_date():
    written = (ROOT / "docs" / "environment.md").read_text()
    assert written == env_docs.page(), "run: fly env --markdown > docs/environment.md"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not re.match(r"\w+:", target):
            assert (page.parent / target).exists(), f"{page.name} points to {target}"


def test_every_test_named_in_testing_exists():
    """docs/testing.md says which test covers which rule; a renamed test must be renamed there."""
    text = (ROOT / "docs" / "testing.md").read_text()
    names = set(re.findall(r"\btest_\w+", text))
    sources = {path.stem: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    known = {match for source in sources.values() for match in re.findall(r"def (test_\w+)", source)} | set(sources)
    assert not sorted(names - known)
