"""The documentation site, without building it: every page is in the menu, every link leads to a page or a heading.

`scripts/docs` builds it strictly; it needs MkDocs, which the test environment has not.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md"))


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    heads = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", head).strip().lower()) for head in heads}


def test_the_menu_has_every_page_once():
    listed = re.findall(r"^\s+- (?:[^:\n]+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    assert sorted(listed) == PAGES


def test_links_lead_to_pages_and_headings():
    for name in PAGES:
        page = DOCS / name
        prose = re.sub(r"^( *)```.*?^\1```|`[^`\n]+`", "", page.read_text(), flags=re.M | re.S)
        for target, anchor in re.findall(r"\]\(([^):#\s]*)(?:#([^)\s]+))?\)", prose):
            there = (page.parent / target).resolve() if target else page
            assert there.exists(), f"{name} points to {target}"
            if anchor and there.suffix == ".md":
                assert anchor in anchors(there), f"{name} points to {target}#{anchor}"


def test_what_the_reference_names_exists():
    for name in re.findall(r"^::: (\S+)$", (DOCS / "api.md").read_text(), re.M):
        module, _, inner = name.rpartition(".")
        assert hasattr(importlib.import_module(module), inner) or importlib.util.find_spec(name), name


def test_files_outside_the_site_are_named():
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "scripts" / "docs_hooks.py")
    assert spec is not None and spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    page = SimpleNamespace(file=SimpleNamespace(src_uri="jit.md"))
    text = hooks.on_page_markdown("[a](../src/b.py) [c](../CHANGELOG.md) [d](api.md) [`x/y`](../x/y)", page=page)
    assert text == "a (`src/b.py`) c (`CHANGELOG.md`) [d](api.md) `x/y`"
    below = SimpleNamespace(file=SimpleNamespace(src_uri="tutorial/a.md"))
    text = hooks.on_page_markdown("[e](../jit.md) [f](../../README.md)", page=below)
    assert text == "[e](../jit.md) f (`README.md`)"
