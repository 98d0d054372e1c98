"""What stands beside the code: made files are current, versions agree, the form of the changelog."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import flydsl

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_files_for_coding_assistants_are_current():
    spec = importlib.util.spec_from_file_location("assistant_files", ROOT / "scripts" / "assistant_files.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    for name, make in made.FILES.items():
        assert (ROOT / name).read_text() == make(), "run scripts/assistant_files.py"
    for target in re.findall(r"\]\(([^)]+)\)", (ROOT / "llms.txt").read_text()):
        assert (ROOT / target).exists(), target


def test_versions_agree():
    version = PROJECT["version"]
    assert flydsl.__version__ == version
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f'version = "{version}"' in (ROOT / "packaging/conda/meta.yaml").read_text()
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_recipe_has_the_dependencies_of_the_package():
    recipe = (ROOT / "packaging/conda/meta.yaml").read_text()
    run = recipe[recipe.index("  run:") : recipe.index("test:")]
    for requirement in PROJECT["dependencies"]:
        name, _, version = requirement.partition("~=")
        assert f"- {name} >={version}" in run if version else f"- {name}" in run
    for command, target in PROJECT["scripts"].items():
        assert f"- {command} = {target}" in recipe


def test_the_changelog_has_its_form():
    text = (ROOT / "CHANGELOG.md").read_text()
    heads = re.findall(r"^## \[(.+?)\]", text, re.M)
    assert heads[0] == "Unreleased" and len(set(heads)) == len(heads)
    known = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", text, re.M)) <= known


def test_classifiers_name_the_versions_that_are_allowed():
    lowest = PROJECT["requires-python"].removeprefix(">=")
    named = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert named and named[0] == lowest


def test_issue_templates_are_complete():
    for form in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        text = form.read_text()
        assert all(re.search(rf"^{key}:", text, re.M) for key in ("name", "description", "body")), form
