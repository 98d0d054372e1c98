"""Pages that are made from the code are up to date, and what pages point to exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flydsl.tools import env_docs

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def test_environment_page_is_up_to_date():
    written = (ROOT / "docs" / "environment.md").read_text()
    assert written == env_docs.page(), "run: fly env --markdown > docs/environment.md"


def test_every_test_named_in_testing_exists():
    """docs/testing.md says which test covers which rule; a renamed test must be renamed there."""
    text = (ROOT / "docs" / "testing.md").read_text()
    names = set(re.findall(r"\btest_\w+", text))
    files = list((ROOT / "tests").rglob("test_*.py"))
    known = {match for file in files for match in re.findall(r"def (test_\w+)", file.read_text())}
    known |= {file.stem for file in files}
    assert not sorted(names - known)


def test_every_rule_of_diagnostics_has_a_test_or_a_limit():
    """Each of D-1 to D-21 has a row with a test; what holds only in part has a row in docs/limits.md."""
    section = (ROOT / "docs" / "testing.md").read_text().split("### Diagnostics\n")[1].split("\n## ")[0]
    rows = {m[1]: m[2] for m in re.finditer(r"^\| (D-\d+) \| (.*)$", section, re.MULTILINE)}
    assert sorted(rows, key=lambda r: int(r[2:])) == [f"D-{n}" for n in range(1, 22)]
    limits = (ROOT / "docs" / "limits.md").read_text().split("## Diagnostics\n")[1].split("\n## ")[0]
    partly = set(re.findall(r"^\| (D-\d+) \|", limits, re.MULTILINE))
    for rule, text in rows.items():
        assert "test_" in text, rule
        assert "limits.md#diagnostics" not in text or rule in partly, rule


def test_every_rule_of_backends_and_runtimes_has_a_row():
    """Each of B-1 to B-45 and R-1 to R-40 is in the tables of docs/testing.md, with a test or the page that says it."""
    text = (ROOT / "docs" / "testing.md").read_text()
    rows = re.findall(r"^\| ((?:[BR]-\d+b?(?:, | to )?)+) \| [^|]* \| (.*) \|$", text, re.MULTILINE)
    covered = {rule: proof for rules, proof in rows for rule in rules.split(", ")}
    wanted = [*(f"B-{n}" for n in range(1, 46)), *(f"R-{n}" for n in range(1, 41)), "R-33b"]
    assert not [rule for rule in wanted if rule not in covered]
    for rule, proof in covered.items():
        assert "test_" in proof or ".md)" in proof or "tests/" in proof, f"{rule}: {proof}"


def test_every_rule_of_the_driver_has_a_test_or_a_limit():
    """Each of C-1 to C-72 has a row with a test or a benchmark; what it says of limits is in docs/limits.md."""
    section = (ROOT / "docs" / "testing.md").read_text().split("### JIT and cache\n")[1].split("\n### ")[0]
    rows = re.findall(r"^\| (C-[^|]*) \| [^|]* \| (.*) \|$", section, re.MULTILINE)
    covered = [rule for rules, _ in rows for rule in rules.split(", ")]
    assert covered == sorted(covered, key=lambda rule: (int(re.sub(r"\D", "", rule)), rule))
    assert set(covered) == {f"C-{n}" for n in range(1, 73)} | {"C-55b"}
    limits = (ROOT / "docs" / "limits.md").read_text().split("## JIT and cache\n")[1].split("\n## ")[0]
    partly = {rule for rules in re.findall(r"^\| (C-[^|]*) \|", limits, re.MULTILINE) for rule in rules.split(", ")}
    for rules, text in rows:
        assert "test_" in text or "benchmarks/" in text, rules
        assert "limits.md#jit-and-cache" not in text or set(rules.split(", ")) <= partly, rules


_RULE = re.compile(r"\b[BCDPRT]-\d+b?\b")


def _cited() -> dict[str, str]:
    """Rules that anything but the page itself cites, each with a file that does."""
    found: dict[str, str] = {}
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    for folder in ("src", "tests", "examples", "benchmarks"):
        files += [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.mlir")]
    for file in files:
        if file.name == "rules.md" or "results" in file.parts:
            continue
        text = file.read_text()
        for rule in _RULE.findall(text):
            found.setdefault(rule, str(file.relative_to(ROOT)))
        for letter, number in re.findall(r"\bdef test_([bcdpr])(\d+b?)_", text):
            found.setdefault(f"{letter.upper()}-{number}", str(file.relative_to(ROOT)))
    return found


def test_every_cited_rule_is_stated():
    rows = re.findall(r"^\| ([BCDPRT]-\d+b?) \| (.+) \|$", (ROOT / "docs" / "rules.md").read_text(), re.MULTILINE)
    stated = dict(rows)
    assert len(stated) == len(rows), "a rule is stated once"
    assert not [rule for rule, text in rows if len(text.split()) < 4]
    assert not {rule: where for rule, where in _cited().items() if rule not in stated}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT / "docs")))
def test_quoted_code_is_in_the_tree(page: Path):
    """A block whose first line is the comment `path` quotes that file."""
    for path, text in re.findall(r"^```\w+\n(?:#|//) (\S+/\S+\.\w+)\n(.*?)^```", page.read_text(), re.M | re.S):
        assert text.strip("\n") in (ROOT / path).read_text(), f"{page.name} quotes {path} as it is not"


def test_the_walk_is_what_the_compiler_does(tmp_path: Path):
    """By the command the page names, in a process of its own: a process has one device runtime for good."""
    page = ROOT / "docs" / "architecture.md"
    command = "python -m flydsl.tools.pages.kernel_walk examples/vector_add.py rocm:gfx942 docs/architecture.md"
    assert command in page.read_text()
    copy = tmp_path / page.name
    copy.write_text(page.read_text())
    words = [sys.executable, *command.split()[1:-1], str(copy)]
    environment = os.environ | {"FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run(words, check=True, cwd=ROOT, env=environment)
    assert copy.read_text() == page.read_text(), f"run: {command}"


def test_the_tree_of_the_architecture_page_is_the_tree():
    """The page's table names every folder below `src/flydsl`, and no other."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = {name for row in re.findall(r"^\| `(.*?)` \|", text, re.M) for name in re.findall(r"\w+(?=/)", row)}
    source = ROOT / "src" / "flydsl"
    folders = {path.name for path in source.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert named == folders - {"utils"}


def test_the_home_page_shows_the_program_of_the_readme():
    """It is run there."""
    shown = re.search(r"```py\n(.+?)```", (ROOT / "docs" / "index.md").read_text(), re.S)
    assert shown is not None and shown[1] in (ROOT / "README.md").read_text()
